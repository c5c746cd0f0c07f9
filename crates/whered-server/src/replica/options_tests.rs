//! Patterns that share keys, against texts that both match.

use super::*;

#[test]
fn two_patterns_overlap_exactly_when_a_text_matches_both() {
    let patterns = [
        "*", "a*", "*a", "a?", "?", "[ab]", "[^a]", "[a-c]*", "[d-f]*", "\\*", "a*b", "*b*", "ab",
        "", "[a", "a\\", "**", "b[]a", "[\\]]",
    ];
    let letters = b"abcdf*]\\";
    let mut texts: Vec<Vec<u8>> = vec![Vec::new()];
    for len in 1..=4 {
        for number in 0..letters.len().pow(len) {
            let text = (0..len).map(|at| letters[number / letters.len().pow(at) % letters.len()]);
            texts.push(text.collect());
        }
    }
    for one in patterns.map(str::as_bytes) {
        for other in patterns.map(str::as_bytes) {
            let is_common = |text: &Vec<u8>| glob::matches(one, text) && glob::matches(other, text);
            let has_common = texts.iter().any(is_common);
            let shown = format!("{} {}", one.escape_ascii(), other.escape_ascii());
            assert_eq!(can_both_match(one, other), has_common, "{shown}");
        }
    }
}

#[test]
fn a_links_name_changes_with_what_is_followed() {
    let options = |of: &str, database: usize, pattern: &str| ReplicaOptions {
        of: of.to_owned(),
        source: PrimarySource::One(Address::new(Endpoint::Tcp("a".to_owned(), 1))),
        patterns: vec![pattern.as_bytes().to_vec()],
        database,
        max_lag: None,
    };
    let names = [
        options("redis://a", 0, "x").link_name(),
        options("redis://b", 0, "x").link_name(),
        options("redis://a", 1, "x").link_name(),
        options("redis://a", 0, "y").link_name(),
    ];
    for (index, name) in names.iter().enumerate() {
        assert!(!names[..index].contains(name), "{name}");
    }
}
