//! Compares what an example printed with what its document says.
//!
//! Line by line; `...` in an expected line stands for any text within that line. White space at
//! the ends of lines and empty lines at the end do not count.

/// The first line that differs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Counted from 0 in the expectation; its length when the output goes on after it.
    pub(crate) line_index: usize,
    /// The expected line in quotes, or `the end`.
    pub(crate) expected: String,
    /// The printed line in quotes, or `the end`.
    pub(crate) actual: String,
}

/// Compares; `None` when everything fits.
pub(crate) fn first_difference(expected: &str, actual: &str) -> Option<Difference> {
    let mut expected_lines = expected.trim_end().lines();
    let mut actual_lines = actual.trim_end().lines();
    let mut line_index = 0;
    loop {
        let pair = (expected_lines.next(), actual_lines.next());
        match pair {
            (None, None) => return None,
            (Some(pattern), Some(line)) if fits(pattern.trim_end(), line.trim_end()) => {}
            (pattern, line) => {
                return Some(Difference {
                    line_index,
                    expected: quoted(pattern),
                    actual: quoted(line),
                });
            }
        }
        line_index += 1;
    }
}

fn quoted(line: Option<&str>) -> String {
    line.map_or_else(|| "the end".to_owned(), |line| format!("'{}'", line.trim_end()))
}

/// Whether a line fits a pattern. The pieces between the `...` must come in their order; taking
/// each at its first place is right, since it leaves most to the others.
fn fits(pattern: &str, line: &str) -> bool {
    let Some((head, rest)) = pattern.split_once("...") else {
        return pattern == line;
    };
    let Some(mut line) = line.strip_prefix(head) else {
        return false;
    };
    let mut pieces = rest.split("...").peekable();
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return line.ends_with(piece);
        }
        match line.find(piece) {
            Some(at) => line = &line[at + piece.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_stand_for_any_text_within_a_line() {
        assert!(fits("a ... c", "a b c"));
        assert!(fits("a...", "a"));
        assert!(fits("...", ""));
        assert!(fits("...b...d", "abcbd"));
        assert!(fits("1 ... 2 ... 3", "1 x 2 y 2 z 3"));
        assert!(!fits("a ... c", "a b d"));
        assert!(!fits("ab...ba", "aba"));
        assert!(!fits("a", "a b"));
    }

    #[test]
    fn ends_of_lines_and_of_the_text_do_not_count() {
        assert_eq!(first_difference("a\nb\n", "a  \nb\n\n"), None);
    }

    #[test]
    fn the_first_difference_is_told_with_both_sides() {
        let difference = first_difference("a\nb\nc\n", "a\nx\ny\n").unwrap();
        assert_eq!(difference.line_index, 1);
        assert_eq!((difference.expected.as_str(), difference.actual.as_str()), ("'b'", "'x'"));
    }

    #[test]
    fn missing_and_additional_lines_differ() {
        assert_eq!(first_difference("a\nb", "a").unwrap().actual, "the end");
        assert_eq!(first_difference("a", "a\nb").unwrap().expected, "the end");
    }
}
