//! Every outside dependency earns its sentence in docs/dependencies.md.
//!
//! The page is a table whose first cell is the name in backticks and whose second cell is the
//! version that `[workspace.dependencies]` asks for. Rows of what is no longer used are findings
//! too, and so are versions that have moved on.

use toml::{Table, Value};

use crate::failure::ChoreError;
use crate::finding::{Finding, line_where};
use crate::repository::TextFile;

const PAGE: &str = "docs/dependencies.md";

/// Compares the root manifest with the page.
pub(crate) fn check(manifest: &str, texts: &[TextFile]) -> Result<Vec<Finding>, ChoreError> {
    let page = texts.iter().find(|file| file.path == PAGE).map_or("", |file| &file.text);
    let rows: Vec<Row<'_>> = rows(page).collect();
    let wanted = outside_dependencies(manifest)?;
    let mut findings = Vec::new();
    for (name, version) in &wanted {
        match rows.iter().find(|row| row.name == name) {
            None => {
                let line = line_where(manifest, |line| {
                    line.strip_prefix(name.as_str())
                        .is_some_and(|rest| rest.starts_with([' ', '=', '.']))
                });
                let what = format!("{name} has no row in {PAGE}");
                findings.push(Finding::new("Cargo.toml", line, what, "one sentence saying why"));
            }
            Some(row) if row.version != version => {
                let what = format!("{name} {} is not what Cargo.toml says", row.version);
                findings.push(Finding::new(PAGE, row.line, what, version));
            }
            Some(_) => {}
        }
    }
    for row in rows.iter().filter(|row| wanted.iter().all(|(name, _)| name != row.name)) {
        let what = format!("{} is no dependency of the workspace", row.name);
        let allowed = "rows of [workspace.dependencies] only";
        findings.push(Finding::new(PAGE, row.line, what, allowed));
    }
    Ok(findings)
}

/// Name and version of each workspace dependency that is not ours (ours have a path).
fn outside_dependencies(manifest: &str) -> Result<Vec<(String, String)>, ChoreError> {
    let table: Table =
        manifest.parse().map_err(|error| ChoreError::new(format!("Cargo.toml: {error}")))?;
    let dependencies = table
        .get("workspace")
        .and_then(|workspace| workspace.get("dependencies"))
        .and_then(Value::as_table)
        .ok_or_else(|| ChoreError::new("Cargo.toml has no [workspace.dependencies]"))?;
    let outside = dependencies.iter().filter(|(_, value)| value.get("path").is_none());
    let with_version = outside.map(|(name, value)| {
        let version = value.as_str().or_else(|| value.get("version").and_then(Value::as_str));
        (name.clone(), version.unwrap_or("no version").to_owned())
    });
    Ok(with_version.collect())
}

/// One row of the page's table.
struct Row<'a> {
    line: usize,
    name: &'a str,
    version: &'a str,
}

fn rows(page: &str) -> impl Iterator<Item = Row<'_>> {
    page.lines().enumerate().filter_map(|(index, line)| {
        let mut cells = line.strip_prefix("| `")?.split('|').map(str::trim);
        let name = cells.next()?.strip_suffix('`')?;
        Some(Row { line: index + 1, name, version: cells.next()? })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "[workspace.dependencies]\n\
        whered-ip = { path = \"crates/whered-ip\" }\n\
        serde_json = \"1\"\n\
        serde = { version = \"1.0\", features = [] }\n";

    fn found(page: &str) -> Vec<String> {
        let page = TextFile { path: PAGE.to_owned(), text: page.to_owned() };
        let findings = check(MANIFEST, &[page]).unwrap();
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_complete_page_passes_and_our_own_crates_need_no_row() {
        assert!(found("| `serde` | 1.0 | why |\n| `serde_json` | 1 | why |\n").is_empty());
    }

    #[test]
    fn a_missing_sentence_is_found_at_the_dependencys_line() {
        let found = found("| `serde` | 1.0 | why |\n");
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("Cargo.toml:3: serde_json has no row"));
    }

    #[test]
    fn stale_versions_and_stale_rows_are_found() {
        let page = "| `serde` | 0.9 | why |\n| `serde_json` | 1 | why |\n| `rand` | 1 | why |\n";
        let found = found(page);
        assert_eq!(found.len(), 2);
        assert!(found[0].starts_with("docs/dependencies.md:1: serde 0.9"));
        assert!(found[1].starts_with("docs/dependencies.md:3: rand"));
    }

    #[test]
    fn no_page_at_all_is_found() {
        assert_eq!(check(MANIFEST, &[]).unwrap().len(), 2);
    }
}
