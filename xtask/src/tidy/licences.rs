//! The licence of everything in Cargo.lock, held against `deny.toml`'s allow list.
//!
//! The same file serves `cargo deny` where that is installed; this check needs nothing installed.

use toml::{Table, Value};

use super::metadata::Resolved;
use super::spdx::Licence;
use crate::failure::ChoreError;
use crate::finding::{Finding, line_where};

/// Reads `[licenses] allow` of `deny.toml`.
pub(crate) fn allow_list(deny: &str) -> Result<Vec<String>, ChoreError> {
    let wrong = || ChoreError::new("deny.toml: [licenses] allow must be a list of strings");
    let table: Table =
        deny.parse().map_err(|error| ChoreError::new(format!("deny.toml: {error}")))?;
    let allow = table.get("licenses").and_then(|licences| licences.get("allow"));
    let names = allow.and_then(Value::as_array).ok_or_else(wrong)?.iter();
    names.map(|name| name.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
}

/// Finds packages whose licence cannot be satisfied by the list.
pub(crate) fn check(resolved: &[Resolved], allow: &[String], lock: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in resolved {
        let what = match fault(package, allow) {
            None => continue,
            Some(fault) => format!("{} {}: {fault}", package.name, package.version),
        };
        let name_line = format!("name = \"{}\"", package.name);
        let line = line_where(lock, |line| line == name_line);
        findings.push(Finding::new("Cargo.lock", line, what, allow.join(", ")));
    }
    findings
}

fn fault(package: &Resolved, allow: &[String]) -> Option<String> {
    let Some(text) = &package.licence else {
        return Some("no licence expression".to_owned());
    };
    match Licence::parse(text) {
        Ok(licence) if licence.is_satisfied_by(allow) => None,
        Ok(_) => Some(format!("licence {text}")),
        Err(error) => Some(format!("licence {text} cannot be read, {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(licence: Option<&str>) -> Vec<Finding> {
        let allow = allow_list("[licenses]\nallow = [\"MIT\", \"ISC\"]").unwrap();
        let package = Resolved {
            name: "left".to_owned(),
            version: "1.0.0".to_owned(),
            licence: licence.map(str::to_owned),
        };
        check(&[package], &allow, "[[package]]\nname = \"left\"\n")
    }

    #[test]
    fn an_allowed_licence_passes() {
        assert_eq!(found(Some("MIT OR GPL-3.0")), []);
    }

    #[test]
    fn a_forbidden_missing_or_unreadable_licence_is_found_at_the_lock_files_line() {
        assert_eq!(
            found(Some("GPL-3.0"))[0].to_string(),
            "Cargo.lock:2: left 1.0.0: licence GPL-3.0; allowed: MIT, ISC"
        );
        assert_eq!(found(None).len(), 1);
        assert_eq!(found(Some("MIT OR"))[0].line, 2);
    }

    #[test]
    fn a_list_of_another_shape_is_an_error() {
        assert!(allow_list("[licenses]\nallow = [1]").is_err());
        assert!(allow_list("").is_err());
    }
}
