//! Doc comments, names and the width of comments in source files.
//!
//! Not a parser: an item is a line that begins with qualifiers, a keyword and a name, which is
//! how rustfmt writes it. Tests count for the width alone.

use super::list::WordList;
use super::{Hit, Kind, prose};
use crate::finding::Finding;
use crate::repository::TextFile;
use crate::tidy::sizes::lines_without_tests;

const WIDEST_COMMENT: usize = 100;
const COMMENTED: &[&str] = &[".rs", ".c", ".h", ".sh", ".py", ".toml", "Makefile"];
const QUALIFIERS: &[&str] =
    &["pub", "pub(crate)", "pub(super)", "const", "unsafe", "async", "extern", "\"C\""];
const LEANING: &[&str] = &["The same", "Same", "Likewise", "As above", "Ditto"];

/// Counts in one file.
pub(super) fn check(file: &TextFile, words: &WordList, hits: &mut Vec<Hit>) {
    let mut hit = |kind, line, what: String, allowed: &str| {
        hits.push(Hit { kind, finding: Finding::new(&file.path, line, what, allowed) });
    };
    if COMMENTED.iter().any(|ending| file.path.ends_with(ending)) {
        for (index, line) in file.text.lines().enumerate() {
            let width = line.chars().count();
            if width > WIDEST_COMMENT && is_comment(line) && !line.contains("://") {
                hit(Kind::Wide, index + 1, format!("a comment of {width} columns"), "100");
            }
        }
    }
    if !file.path.ends_with(".rs") {
        return;
    }
    let lines = lines_without_tests(file);
    for (number, line) in &lines {
        let Some((keyword, name)) = item(line) else { continue };
        for part in name_parts(name).filter(|part| words.names.contains(part)) {
            let what = format!("'{part}' in the name {name}");
            hit(Kind::Name, *number, what, "the field's word");
        }
        if is_type(keyword) && is_bare(name, words) {
            hit(Kind::Type, *number, format!("a type called {name}"), "a noun");
        }
    }
    for block in doc_comments(&lines) {
        let first = block.iter().find(|(_, text)| !text.is_empty());
        if let Some((number, text)) = first
            && let Some(head) = LEANING.iter().find(|head| text.starts_with(**head))
        {
            let what = format!("a doc comment that begins with '{head}'");
            hit(Kind::Leaning, *number, what, "a sentence that stands alone");
        }
    }
    for block in doc_comments(&lines) {
        for paragraph in prose::paragraphs(block.into_iter()) {
            prose::check_phrases(&file.path, &paragraph, words, hits);
        }
    }
}

fn is_comment(line: &str) -> bool {
    ["//", "#", "*", "/*"].iter().any(|head| line.trim_start().starts_with(head))
        && !line.trim_start().starts_with("#[")
}

/// Keyword and name of the item that the line begins.
fn item(line: &str) -> Option<(&str, &str)> {
    let mut words = line.split_whitespace().skip_while(|word| QUALIFIERS.contains(word));
    let keyword = words.next()?;
    let is_name = |char: char| char.is_alphanumeric() || char == '_';
    let name = words.next()?.split(|char| !is_name(char)).next()?;
    let is_item = is_type(keyword) || matches!(keyword, "fn" | "mod");
    (is_item && !name.is_empty()).then_some((keyword, name))
}

fn is_type(keyword: &str) -> bool {
    matches!(keyword, "struct" | "enum" | "trait" | "union" | "type")
}

/// `place_of` is place, of; `PlaceOf` too.
fn name_parts(name: &str) -> impl Iterator<Item = String> {
    let mut spaced = String::new();
    for char in name.chars() {
        if char.is_uppercase() || char == '_' {
            spaced.push(' ');
        }
        spaced.extend(char.to_lowercase().filter(|char| *char != '_'));
    }
    let parts: Vec<String> = spaced.split(' ').map(str::to_owned).collect();
    parts.into_iter()
}

fn is_bare(name: &str, words: &WordList) -> bool {
    let is_one_word = name.chars().skip(1).all(char::is_lowercase);
    let has_ending = name.ends_with("ed") || name.ends_with("ing");
    let is_listed = |list: &[String]| list.iter().any(|word| word == name);
    is_one_word && (is_listed(&words.types) || has_ending && !is_listed(&words.nouns))
}

/// Runs of `///` or `//!` lines, without these marks.
fn doc_comments<'a>(lines: &[(usize, &'a str)]) -> Vec<Vec<(usize, &'a str)>> {
    let mut blocks: Vec<Vec<(usize, &str)>> = vec![Vec::new()];
    for (number, line) in lines {
        let line = line.trim_start();
        match line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) {
            Some(text) => {
                blocks.last_mut().expect("it begins with one").push((*number, text.trim()));
            }
            None => blocks.push(Vec::new()),
        }
    }
    blocks.retain(|block| !block.is_empty());
    blocks
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    const PATH: &str = "crates/a/src/lib.rs";

    #[test]
    fn phrases_count_in_doc_comments_alone() {
        let text = "//! So many.\n// so many\n/// Of so\n/// many.\nfn so_many() {}\n";
        let found = found(PATH, text, Kind::Phrase);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[1].starts_with("crates/a/src/lib.rs:3: 'so many'"));
    }

    #[test]
    fn words_count_in_names_of_items_by_whole_parts() {
        let text = "pub(crate) struct LaneOf<'a> {}\n    pub const unsafe fn in_lane() {}\n\
                    mod lane;\nfn planes() {}\nlet lane = 1;\nimpl Lane {}\n\
                    #[cfg(test)]\nmod tests {\n    fn a_lane() {}\n}\n";
        let found = found(PATH, text, Kind::Name);
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(
            found[0],
            format!("{PATH}:1: 'lane' in the name LaneOf; allowed: the field's word")
        );
        assert_eq!(super::super::tests::found("crates/a/tests/x.rs", text, Kind::Name), [""; 0]);
    }

    #[test]
    fn types_are_nouns() {
        let text = "struct Told;\nenum Of {}\ntype Noting = u8;\ntrait Placed {}\nstruct Seed;\n\
                    struct PlacedRow;\nfn placed() {}\n";
        let found = found(PATH, text, Kind::Type);
        assert_eq!(found.len(), 4, "{found:?}");
    }

    #[test]
    fn a_doc_comment_does_not_lean_on_the_one_above() {
        let text = "/// The same for IPv6.\nfn a() {}\n/// Opens it.\n/// The same.\nfn b() {}\n";
        assert_eq!(found(PATH, text, Kind::Leaning).len(), 1);
    }

    #[test]
    fn wide_comments_are_found_in_tests_too_and_addresses_are_not() {
        let wide = format!("    // {}\n", "x".repeat(95));
        let text = format!("{wide}// {}\nlet a = \"{}\";\n", "y".repeat(97), "z".repeat(99));
        assert_eq!(found("crates/a/tests/x.rs", &text, Kind::Wide).len(), 1);
        assert_eq!(found(PATH, &wide.replace("xx", "://"), Kind::Wide), [""; 0]);
        assert_eq!(found("fuzz/x.bin", &wide, Kind::Wide), [""; 0]);
    }
}
