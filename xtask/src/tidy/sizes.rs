//! How long a source file may be, and file names that would collect everything.
//!
//! Lines of tests do not count: files below a `tests` folder, files named `..._tests.rs`, and
//! the block of an inline `#[cfg(test)] mod`, which ends at the first line that is a lone `}`
//! (rustfmt guarantees that form). Above 600 lines a warning, above 1,000 a finding unless
//! `xtask/tidy/settings.toml` lists the file with a reason.

use super::settings::LargeFile;
use crate::finding::Finding;
use crate::repository::TextFile;

const WARN_ABOVE_LINES: usize = 600;
const FAIL_ABOVE_LINES: usize = 1000;
const FOLDERS: &[&str] = &["crates/", "xtask/", "bench/", "bindings/", "fuzz/"];
const BANNED_NAMES: &[&str] = &["types.rs", "utils.rs", "common.rs"];

/// What [`check`] found.
#[derive(Debug, Default)]
pub(crate) struct Sizes {
    /// Broken rules.
    pub(crate) findings: Vec<Finding>,
    /// Files that are about to break one.
    pub(crate) warnings: Vec<Finding>,
}

/// Measures every Rust source file.
pub(crate) fn check(texts: &[TextFile], large: &[LargeFile]) -> Sizes {
    let mut sizes = Sizes::default();
    let is_source = |file: &&TextFile| {
        file.path.ends_with(".rs") && FOLDERS.iter().any(|folder| file.path.starts_with(folder))
    };
    let mut needed: Vec<&str> = Vec::new();
    for file in texts.iter().filter(is_source) {
        if is_banned(file) {
            let what = format!("a file called {}", file.name());
            sizes.findings.push(Finding::new(&file.path, 1, what, "a name by thing, not by kind"));
        }
        let line_count = lines_without_tests(file).len();
        let is_listed = large.iter().any(|entry| entry.path == file.path);
        if is_listed && line_count > FAIL_ABOVE_LINES {
            needed.push(&file.path);
        } else if line_count > WARN_ABOVE_LINES {
            let what = format!("{line_count} lines without tests");
            let allowed = format!(
                "{WARN_ABOVE_LINES} without a look for the seam, {FAIL_ABOVE_LINES} unless \
                 xtask/tidy/settings.toml lists it with a reason"
            );
            let finding = Finding::new(&file.path, 1, what, allowed);
            if line_count > FAIL_ABOVE_LINES {
                sizes.findings.push(finding);
            } else {
                sizes.warnings.push(finding);
            }
        }
    }
    for entry in large.iter().filter(|entry| !needed.contains(&entry.path.as_str())) {
        let what = format!("{} is listed as large and is not", entry.path);
        let allowed = format!("files above {FAIL_ABOVE_LINES} lines");
        sizes.findings.push(Finding::new("xtask/tidy/settings.toml", 1, what, allowed));
    }
    sizes
}

/// The names, also as a folder with a `mod.rs`.
fn is_banned(file: &TextFile) -> bool {
    BANNED_NAMES.contains(&file.name())
        || BANNED_NAMES
            .iter()
            .any(|name| file.path.ends_with(&format!("/{}/mod.rs", name.trim_end_matches(".rs"))))
}

/// The lines outside tests, each with its number.
pub(crate) fn lines_without_tests(file: &TextFile) -> Vec<(usize, &str)> {
    let mut kept = Vec::new();
    if file.is_below("tests") || file.name().ends_with("_tests.rs") {
        return kept;
    }
    let mut lines = file.text.lines().enumerate().peekable();
    while let Some((index, line)) = lines.next() {
        if line != "#[cfg(test)]" {
            kept.push((index + 1, line));
            continue;
        }
        // Further attributes may stand between the condition and its module.
        while lines.next_if(|(_, next)| next.starts_with("#[")).is_some() {}
        let opens =
            lines.next_if(|(_, next)| next.starts_with("mod ") && next.ends_with('{')).is_some();
        if opens {
            lines.by_ref().find(|(_, next)| *next == "}");
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, line_count: usize) -> TextFile {
        TextFile { path: path.to_owned(), text: "// line\n".repeat(line_count) }
    }

    #[test]
    fn a_long_file_warns_and_a_very_long_one_fails() {
        let texts = [
            source("crates/a/src/small.rs", 600),
            source("crates/a/src/long.rs", 601),
            source("crates/a/src/huge.rs", 1001),
            source("elsewhere/huge.rs", 5000),
        ];
        let sizes = check(&texts, &[]);
        assert_eq!(sizes.warnings.len(), 1);
        assert_eq!(sizes.warnings[0].path, "crates/a/src/long.rs");
        assert_eq!(sizes.findings.len(), 1);
        assert_eq!(sizes.findings[0].path, "crates/a/src/huge.rs");
    }

    #[test]
    fn a_listed_file_passes_and_a_needless_entry_does_not() {
        let large = [LargeFile { path: "crates/a/src/huge.rs".to_owned() }];
        assert!(check(&[source("crates/a/src/huge.rs", 1001)], &large).findings.is_empty());
        let sizes = check(&[source("crates/a/src/huge.rs", 10)], &large);
        assert_eq!(sizes.findings[0].path, "xtask/tidy/settings.toml");
    }

    #[test]
    fn tests_do_not_count() {
        let mut file = source("crates/a/src/a.rs", 3);
        file.text.push_str("#[cfg(test)]\nmod tests {\n    fn a() {\n    }\n}\n// after\n");
        assert_eq!(lines_without_tests(&file).len(), 4);
        file.text.push_str("#[cfg(test)]\n#[path = \"a_tests.rs\"]\nmod tests;\n");
        assert_eq!(lines_without_tests(&file).len(), 5);
        assert_eq!(lines_without_tests(&source("crates/a/src/a_tests.rs", 2000)).len(), 0);
        assert_eq!(lines_without_tests(&source("crates/a/tests/wire.rs", 2000)).len(), 0);
    }

    #[test]
    fn names_by_kind_are_found() {
        let texts = [source("crates/a/src/utils.rs", 3), source("crates/a/src/common/mod.rs", 3)];
        assert_eq!(check(&texts, &[]).findings.len(), 2);
    }
}
