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
    let names = [
        options("redis://a", 0, &["x"]).link_name(),
        options("redis://b", 0, &["x"]).link_name(),
        options("redis://a", 1, &["x"]).link_name(),
        options("redis://a", 0, &["y"]).link_name(),
    ];
    for (index, name) in names.iter().enumerate() {
        assert!(!names[..index].contains(name), "{name}");
    }
}

#[test]
fn no_links_name_is_the_beginning_of_another_whatever_the_patterns_hold() {
    let followed: [&[&str]; 14] = [
        &["a"],
        &["ab"],
        &["a b"],
        &["a", "b"],
        &["a\", \"b"],
        &["a\\", "b"],
        &["a\\\", \"b"],
        &["a", "b", "c"],
        &["a shard 0"],
        &["a] shard 0"],
        &["a\"] shard 0"],
        &["a\\\"] shard 0"],
        &[""],
        &["", ""],
    ];
    let places = ["redis://a", "redis://a database 0 match [\"a\"]", "unix:///a shard 0"];
    let all = |of: &'static str| followed.map(|patterns| options(of, 0, patterns).link_name());
    let names: Vec<String> = places.into_iter().flat_map(all).collect();
    for (index, name) in names.iter().enumerate() {
        for (at, other) in names.iter().enumerate() {
            assert!(at == index || !other.starts_with(name.as_str()), "{name} and {other}");
        }
    }
}

fn options(of: &str, database: usize, patterns: &[&str]) -> ReplicaOptions {
    ReplicaOptions {
        of: of.to_owned(),
        source: PrimarySource::One(Address::new(Endpoint::Tcp("a".to_owned(), 1))),
        patterns: patterns.iter().map(|pattern| pattern.as_bytes().to_vec()).collect(),
        database,
        max_lag: None,
    }
}
