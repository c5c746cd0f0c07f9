//! Crates held to a list of arrows and circles.

use super::*;

fn source(path: &str, text: &str) -> TextFile {
    TextFile { path: path.to_owned(), text: text.to_owned() }
}

/// A crate where `up` uses `down` through the file `src/up/one.rs`.
fn crate_and(list: &str) -> Vec<TextFile> {
    vec![
        source(PATH, list),
        source("crates/k/src/lib.rs", "mod down; mod up;"),
        source("crates/k/src/up/mod.rs", "mod one;"),
        source("crates/k/src/up/one.rs", "//! One.\nuse crate::down::Low;\n"),
        source("crates/k/src/down.rs", "pub struct Low;"),
    ]
}

/// A crate with a ring of files.
fn ring(count: usize, list: &str) -> Vec<TextFile> {
    let mut texts = vec![source(PATH, list)];
    let declared: Vec<String> = (0..count).map(|file| format!("mod f{file};")).collect();
    texts.push(source("crates/k/src/lib.rs", &declared.join(" ")));
    for file in 0..count {
        let text = format!("use crate::f{}::x; pub fn x() {{}}", (file + 1) % count);
        texts.push(source(&format!("crates/k/src/f{file}.rs"), &text));
    }
    texts
}

fn ring_list(count: usize) -> String {
    let row = |file: usize| format!("f{file} = [\"f{}\"]\n", (file + 1) % count);
    format!("[k.folders]\n{}", (0..count).map(row).collect::<String>())
}

#[test]
fn an_arrow_that_is_listed_passes() {
    let texts = crate_and("[k.folders]\ndown = []\nup = [\"down\"]\n");
    assert_eq!(check(&texts).unwrap(), []);
    let texts = crate_and("[k.folders]\ndown = []\nup = [\"*\"]\n");
    assert_eq!(check(&texts).unwrap(), []);
}

#[test]
fn an_arrow_that_is_not_listed_is_found_at_its_import() {
    let texts = crate_and("[k.folders]\ndown = []\nup = []\n");
    let findings = check(&texts).unwrap();
    assert_eq!(findings.len(), 1);
    assert_eq!((findings[0].path.as_str(), findings[0].line), ("crates/k/src/up/one.rs", 2));
    assert_eq!(findings[0].what, "up uses down");
}

#[test]
fn arrows_and_folders_that_there_are_not_must_leave_the_list() {
    let texts = crate_and("[k.folders]\ndown = [\"up\"]\nold = []\nup = [\"down\"]\n");
    let findings = check(&texts).unwrap();
    let found: Vec<(usize, &str)> =
        findings.iter().map(|finding| (finding.line, finding.what.as_str())).collect();
    assert_eq!(found, [(2, "down does not use up"), (3, "k has no folder old")]);
}

#[test]
fn a_new_folder_needs_a_row() {
    let findings = check(&crate_and("[k.folders]\nup = [\"down\"]\n")).unwrap();
    assert_eq!(findings[0].what, "k has a folder down that is not listed");
}

#[test]
fn a_circle_of_eight_passes_and_one_of_nine_needs_an_entry() {
    assert_eq!(check(&ring(8, &ring_list(8))).unwrap(), []);
    let findings = check(&ring(9, &ring_list(9))).unwrap();
    assert_eq!(findings.len(), 1);
    assert!(findings[0].what.starts_with("a circle of 9 files"), "{}", findings[0]);
}

#[test]
fn an_entry_for_a_circle_is_exact_and_needed() {
    let entry = |count: usize| {
        format!("[k]\ncircles = [{{ file = \"src/f3.rs\", count = {count}, reason = \"why\" }}]\n")
    };
    assert_eq!(check(&ring(9, &(entry(9) + &ring_list(9)))).unwrap(), []);
    assert_eq!(check(&ring(9, &(entry(10) + &ring_list(9)))).unwrap().len(), 1);
    assert_eq!(check(&ring(9, &(entry(8) + &ring_list(9)))).unwrap().len(), 1);
    assert_eq!(check(&ring(8, &(entry(9) + &ring_list(8)))).unwrap().len(), 1);
}

#[test]
fn a_crate_that_is_not_there_is_an_error() {
    assert!(check(&crate_and("[other.folders]\n")).is_err());
}
