//! One broken rule at one place, printed as `path:line: what; allowed: ...`.
//!
//! Editors and terminals jump to that form; a finding without a line of its own says line 1.

use std::fmt;

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// The file, relative to the repository's root.
    pub(crate) path: String,
    /// The line in it, counted from 1.
    pub(crate) line: usize,
    /// What was found.
    pub(crate) what: String,
    /// What would be right instead.
    pub(crate) allowed: String,
}

impl Finding {
    /// A finding at a line counted from 1.
    pub(crate) fn new(
        path: impl Into<String>,
        line: usize,
        what: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Finding {
        Finding { path: path.into(), line, what: what.into(), allowed: allowed.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}; allowed: {}", self.path, self.line, self.what, self.allowed)
    }
}

/// The line (from 1) of the first line of `text` that `is_wanted` accepts, else 1.
pub(crate) fn line_where(text: &str, is_wanted: impl Fn(&str) -> bool) -> usize {
    text.lines().position(is_wanted).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_one_line_with_place_fault_and_remedy() {
        let finding = Finding::new("a/b.rs", 7, "1200 lines", "1000");
        assert_eq!(finding.to_string(), "a/b.rs:7: 1200 lines; allowed: 1000");
    }

    #[test]
    fn a_line_that_is_not_there_counts_as_the_first() {
        assert_eq!(line_where("a\nb\n", |line| line == "b"), 2);
        assert_eq!(line_where("a\nb\n", |line| line == "c"), 1);
    }
}
