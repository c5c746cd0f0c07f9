//! Versions that a security advisory names are not in Cargo.lock.
//!
//! For: `[bans] deny` of `deny.toml`, a list that needs neither network nor installed tool. Not for
//! advisories that the list lacks: `scripts/advisories.sh` asks the RustSec database where it is.
//!
//! An entry is `{ crate = "name@<1.2.3", reason = "RUSTSEC-..." }`, as `cargo deny` reads it.

use toml::{Table, Value};

use super::metadata::Resolved;
use crate::failure::ChoreError;
use crate::finding::{Finding, line_where};

/// Versions of a crate that must not be used.
#[derive(Debug)]
pub(crate) struct Ban {
    name: String,
    /// The first good version.
    first_good: [u64; 3],
    reason: String,
}

/// Reads `[bans] deny` of `deny.toml`.
pub(crate) fn bans(deny: &str) -> Result<Vec<Ban>, ChoreError> {
    let wrong = || {
        ChoreError::new(
            "deny.toml: [bans] deny must be a list of { crate = \"name@<1.2.3\", reason = \"...\" }",
        )
    };
    let table: Table =
        deny.parse().map_err(|error| ChoreError::new(format!("deny.toml: {error}")))?;
    let list = table.get("bans").and_then(|bans| bans.get("deny"));
    let entries = list.and_then(Value::as_array).ok_or_else(wrong)?.iter();
    let ban = |entry: &Value| {
        let (name, version) = entry.get("crate")?.as_str()?.split_once("@<")?;
        let reason = entry.get("reason")?.as_str()?.to_owned();
        Some(Ban { name: name.to_owned(), first_good: numbers(version)?, reason })
    };
    entries.map(|entry| ban(entry).ok_or_else(wrong)).collect()
}

/// Finds packages of the lock file with a banned version. A pre-release counts as its release.
pub(crate) fn check(resolved: &[Resolved], bans: &[Ban], lock: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in resolved {
        let own = bans.iter().filter(|ban| ban.name == package.name);
        for ban in
            own.filter(|ban| numbers(&package.version).is_none_or(|own| own < ban.first_good))
        {
            let version_line = format!("version = \"{}\"", package.version);
            let line = line_where(lock, |line| line == version_line);
            let what = format!("{} {}: {}", package.name, package.version, ban.reason);
            let [major, minor, patch] = ban.first_good;
            findings.push(Finding::new(
                "Cargo.lock",
                line,
                what,
                format!("{major}.{minor}.{patch} and newer"),
            ));
        }
    }
    findings
}

/// Major, minor and patch of a version.
fn numbers(version: &str) -> Option<[u64; 3]> {
    let release = version.split(['-', '+']).next()?;
    let mut parts = release.split('.').map(|part| part.parse().ok());
    let numbers = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(version: &str) -> Vec<Finding> {
        let deny = "[bans]\ndeny = [{ crate = \"left@<0.9.11\", reason = \"RUSTSEC-1\" }]";
        let package =
            Resolved { name: "left".to_owned(), version: version.to_owned(), licence: None };
        check(
            &[package],
            &bans(deny).unwrap(),
            &format!("name = \"left\"\nversion = \"{version}\"\n"),
        )
    }

    #[test]
    fn a_version_with_an_advisory_is_found_at_the_lock_files_line() {
        let text = found("0.9.2")[0].to_string();
        assert_eq!(text, "Cargo.lock:2: left 0.9.2: RUSTSEC-1; allowed: 0.9.11 and newer");
        assert_eq!(found("0.5.10").len(), 1);
        assert_eq!(found("0.9.11-rc.1").len(), 0);
    }

    #[test]
    fn the_first_good_version_and_newer_ones_pass() {
        assert_eq!(found("0.9.11"), []);
        assert_eq!(found("0.10.0+build"), []);
    }

    #[test]
    fn a_list_of_another_shape_is_an_error() {
        assert!(bans("[bans]\ndeny = [\"left\"]").is_err());
        assert!(bans("[bans]\ndeny = [{ crate = \"left@<1\", reason = \"r\" }]").is_err());
        assert!(bans("").is_err());
    }
}
