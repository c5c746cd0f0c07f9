//! No file mentions what only exists on one machine.
//!
//! The words stand in `xtask/tidy/settings.toml` in pieces, so that the list does not find itself.
//! The search is by bytes, case-sensitive, over every text file of the repository.

use crate::finding::Finding;
use crate::repository::TextFile;

/// Finds each line that contains a forbidden word.
pub(crate) fn check(texts: &[TextFile], forbidden: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in texts {
        for word in forbidden.iter().filter(|word| file.text.contains(word.as_str())) {
            for (index, line) in file.text.lines().enumerate() {
                if line.contains(word.as_str()) {
                    let what = format!("mentions '{word}'");
                    let allowed = "nothing that belongs to one machine";
                    findings.push(Finding::new(&file.path, index + 1, what, allowed));
                }
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forbidden_word_is_found_on_each_of_its_lines() {
        let text = "fine\nsee swordfish\nSwordfish\nswordfish\n";
        let file = TextFile { path: "docs/a.md".to_owned(), text: text.to_owned() };
        let found = check(&[file], &["swordfish".to_owned()]);
        let lines: Vec<usize> = found.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [2, 4]);
    }

    #[test]
    fn nothing_forbidden_finds_nothing() {
        let file = TextFile { path: "docs/a.md".to_owned(), text: "text".to_owned() };
        assert_eq!(check(&[file], &[]), []);
    }
}
