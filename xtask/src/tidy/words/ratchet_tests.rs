//! Counts of made-up repositories.

use super::*;

pub(super) fn words() -> WordList {
    let text = "[phrases]\n\"so many\" = \"N\"\n[names]\nwords = [\"lane\"]\n\
                [types]\nothers = [\"Of\", \"Told\"]\nnouns = [\"Seed\"]\n";
    WordList::parse(text).unwrap()
}

pub(super) fn file(path: &str, text: &str) -> TextFile {
    TextFile { path: path.to_owned(), text: text.to_owned() }
}

pub(super) fn found(path: &str, text: &str, kind: Kind) -> Vec<String> {
    let hits = hits(&[file(path, text)], &words());
    let ours = hits.iter().filter(|hit| hit.kind == kind);
    ours.map(|hit| hit.finding.to_string()).collect()
}

fn tree() -> Vec<TextFile> {
    let lanes = "struct Lane;\nfn lane() {}\n";
    vec![
        file("Cargo.toml", ""),
        file("crates/a/Cargo.toml", ""),
        file("crates/a/src/lib.rs", lanes),
        file("crates/ab/Cargo.toml", ""),
        file("crates/ab/src/lib.rs", "struct Lane;\n"),
        file("docs/x.md", "So many.\n"),
        file("scripts/x.sh", &format!("# {}\n", "x".repeat(100))),
    ]
}

fn recorded(text: &str) -> Counts {
    list::parse_counts(text).unwrap()
}

fn above_of(text: &str) -> Vec<String> {
    let tree = tree();
    let findings = above(&hits(&tree, &words()), &areas(&tree), &recorded(text));
    findings.iter().map(ToString::to_string).collect()
}

const RECORD: &str = "[phrases]\n\"docs/x.md\" = 1\n[names]\n\"crates/a\" = 2\n\"crates/ab\" = 1\n\
                      [wide]\nscripts = 1\n";

#[test]
fn each_hit_belongs_to_one_area() {
    let tree = tree();
    let counts = count(&hits(&tree, &words()), &areas(&tree));
    assert_eq!(counts["names"], BTreeMap::from([("crates/a".into(), 2), ("crates/ab".into(), 1)]));
    assert_eq!(counts["phrases"], BTreeMap::from([("docs/x.md".into(), 1)]));
    assert_eq!(counts["wide"], BTreeMap::from([("scripts".into(), 1)]));
    assert!(table(&counts).contains("crates/a  "));
}

#[test]
fn a_count_may_fall_and_not_rise() {
    assert_eq!(above_of(RECORD), [""; 0]);
    assert_eq!(above_of(&RECORD.replace('2', "3")), [""; 0]);
    let found = above_of(&RECORD.replace('2', "1"));
    assert_eq!(
        found,
        ["crates/a:1: 2 names; allowed: 1 ('cargo xtask words crates/a' lists them)"]
    );
}

#[test]
fn an_area_without_a_count_lists_each_hit() {
    let found = above_of(&RECORD.replace("\"crates/a\" = 2\n", ""));
    assert_eq!(found.len(), 2);
    assert!(found[0].starts_with("crates/a/src/lib.rs:1: 'lane'"));
}

#[test]
fn what_moves_keeps_the_sum() {
    let tree = tree();
    let counts = count(&hits(&tree, &words()), &areas(&tree));
    assert_eq!(risen(&counts, &recorded(RECORD)), []);
    assert_eq!(risen(&counts, &recorded(&RECORD.replace("crates/a\"", "bench/a\""))), []);
    assert_eq!(risen(&counts, &recorded(&RECORD.replace('2', "1"))).len(), 1);
    assert_eq!(risen(&counts, &recorded("")), []);
}
