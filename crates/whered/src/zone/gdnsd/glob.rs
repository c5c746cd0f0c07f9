//! Patterns of file names, as `$include{}` has them: `*`, `?` and `[a-z]`.
//!
//! Not for `**` and braces, which glob(3) does not know either.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// How many files one pattern may name.
const FILES_MAX: usize = 10_000;

/// Whether a path has a character that makes it a pattern.
pub(super) fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

/// The paths that a pattern names, sorted.
pub(super) fn paths(pattern: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = vec![PathBuf::new()];
    for component in pattern.components() {
        let part = component.as_os_str().to_string_lossy();
        if !matches!(component, Component::Normal(_)) || !is_pattern(&part) {
            found.iter_mut().for_each(|path| path.push(component));
            continue;
        }
        let mut next = Vec::new();
        for folder in &found {
            let listed = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            if !listed.is_dir() {
                continue;
            }
            for entry in fs::read_dir(listed)? {
                let name = entry?.file_name();
                let text = name.to_string_lossy();
                let is_hidden = text.starts_with('.') && !part.starts_with('.');
                if !is_hidden && matches(&part, &text) {
                    next.push(folder.join(name));
                }
            }
            if next.len() > FILES_MAX {
                return Err(io::Error::other(format!("more than {FILES_MAX} files")));
            }
        }
        found = next;
    }
    found.retain(|path| path.exists());
    found.sort();
    Ok(found)
}

/// Whether a name is one of a pattern's. Cost: the product of both lengths at most.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut from) = (0, 0);
    // Where the last star is, and the part of the name that it covers.
    let mut star: Option<(usize, usize)> = None;
    while from < name.len() {
        let step = match pattern.get(at) {
            Some('*') => {
                star = Some((at, from));
                at += 1;
                continue;
            }
            Some('?') => Some(1),
            Some('[') => class(&pattern[at..], name[from]),
            Some(next) if *next == name[from] => Some(1),
            _ => None,
        };
        match (step, star) {
            (Some(length), _) => (at, from) = (at + length, from + 1),
            (None, Some((begun, covered))) => {
                star = Some((begun, covered + 1));
                (at, from) = (begun + 1, covered + 1);
            }
            (None, None) => return false,
        }
    }
    pattern[at..].iter().all(|rest| *rest == '*')
}

/// The length of a class such as `[!a-z]` that the character is in. Without its end it is a plain
/// bracket.
fn class(pattern: &[char], found: char) -> Option<usize> {
    let is_negated = matches!(pattern.get(1), Some('!' | '^'));
    let begin = if is_negated { 2 } else { 1 };
    let Some(length) = pattern.iter().skip(begin + 1).position(|next| *next == ']') else {
        return (found == '[').then_some(1);
    };
    let end = begin + 1 + length;
    let (mut at, mut is_in) = (begin, false);
    while at < end {
        match pattern[at..end] {
            [first, '-', last, ..] => {
                is_in |= (first..=last).contains(&found);
                at += 3;
            }
            [only, ..] => {
                is_in |= only == found;
                at += 1;
            }
            [] => break,
        }
    }
    (is_in != is_negated).then_some(end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_questions_and_classes_match_as_in_a_shell() {
        for (pattern, name, is_one) in [
            ("*.cfg", "a.cfg", true),
            ("*.cfg", "a.cfg.old", false),
            ("a*b*c", "axxbxbyc", true),
            ("a*b*c", "axxbxby", false),
            ("?", "", false),
            ("?", "é", true),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]]x", "]x", true),
            ("[a-", "[a-", true),
            ("[z-a]", "m", false),
            ("**", "", true),
        ] {
            assert_eq!(matches(pattern, name), is_one, "{pattern} {name}");
        }
        let long = "a".repeat(2_000);
        assert!(!matches(&format!("{}b", "a*".repeat(200)), &long), "it ends soon");
    }
}
