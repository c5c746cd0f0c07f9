//! Files with one fault: our library never dies, and says what the original says, or why not.

#![allow(clippy::unwrap_used, reason = "a panic is a failed test")]
#![allow(clippy::print_stdout, reason = "who reads the tests' output shall know")]

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use support::Folder;

const FILES: [&str; 4] = [
    "MaxMind-DB-test-decoder.mmdb",
    "MaxMind-DB-test-ipv4-24.mmdb",
    "MaxMind-DB-test-mixed-28.mmdb",
    "MaxMind-DB-test-nested.mmdb",
];

/// Where we differ from the original, also from one older than ours: what it says, what we say, and
/// why ours is right.
const DIFFERENCES: [(&str, &str, &str); 8] = [
    ("open=9", "open=3", "no metadata behind the marker; the same since 1.14"),
    ("lookup=2", "lookup=0", "the record is near the end of the file; the same since 1.13"),
    ("open=9", "open=7", "a field of no known type, which the original takes for some value"),
    ("open=3", "open=7", "a field of no known type where a number belongs"),
    (
        "lookup=0,1",
        "lookup=2",
        "the record lies in the separator (the same since 1.14), or the branch goes on",
    ),
    ("list=0", "list=7", "a type that no record may hold, or a boolean that is neither 0 nor 1"),
    ("get=0", "get=7", "such a value was asked for or stepped over"),
    ("get=9", "get=7", "such a value was stepped over"),
];

/// The lines of the sweep program, and how often the library died.
fn sweep(program: &Path, library: &Path, file: &Path) -> (Vec<String>, usize) {
    let faults = 3 * std::fs::metadata(file).unwrap().len() as usize;
    let mut lines: Vec<String> = Vec::new();
    let mut deaths = 0;
    while lines.len() < faults {
        let first = lines.len().to_string();
        let swept = Command::new(program).arg(library).arg(file).arg(first).output().unwrap();
        let text = String::from_utf8(swept.stdout).unwrap();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        lines.extend(whole.lines().map(str::to_owned));
        if !swept.status.success() {
            deaths += 1;
            lines.push(format!("{} died", lines.len()));
        }
    }
    (lines, deaths)
}

/// What the first different word of two lines begins with: theirs and ours.
fn difference<'a>(theirs: &'a str, ours: &'a str) -> (&'a str, &'a str) {
    let words = theirs.split(' ').zip(ours.split(' '));
    words.into_iter().find(|(theirs, ours)| theirs != ours).unwrap_or((theirs, ours))
}

#[test]
fn a_changed_byte_or_missing_end_gives_an_error_or_an_answer() {
    let folder = Folder::new();
    let (Some(program), Some(original)) = (support::compile("sweep.c", &folder), support::theirs())
    else {
        return;
    };
    let files = support::conformance_files();
    for file in files.iter().filter(|path| FILES.iter().any(|name| path.ends_with(name))) {
        let (ours, our_deaths) = sweep(&program, &support::ours(), file);
        let (theirs, their_deaths) = sweep(&program, &original, file);
        assert_eq!(our_deaths, 0, "{}", file.display());
        let mut counts = BTreeMap::new();
        for (theirs, ours) in theirs.iter().zip(&ours) {
            if theirs == ours || theirs.ends_with("died") {
                continue;
            }
            let (their_word, our_word) = difference(theirs, ours);
            let known = DIFFERENCES.iter().find(|(theirs, ours, _)| {
                their_word.starts_with(theirs) && our_word.starts_with(ours)
            });
            let (_, _, reason) = known.unwrap_or_else(|| {
                panic!("{}:\noriginal: {theirs}\nours:     {ours}", file.display())
            });
            *counts.entry(reason).or_insert(0) += 1;
        }
        let name = file.file_name().unwrap().display();
        println!("{name}: {} faults, the original died of {their_deaths}", ours.len());
        for (reason, count) in counts {
            println!("  {count} differ: {reason}");
        }
    }
}
