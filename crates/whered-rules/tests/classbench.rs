//! Real ClassBench sets, where the data lies beside the project; skipped with a word otherwise,
//! unless `WHERED_REQUIRE` contains `shared`.

#![allow(clippy::print_stdout, reason = "who reads the tests' output shall know")]

use std::io::Read;
use std::path::PathBuf;
use std::time::Instant;

use whered_rules::check::{Effort, Kind, check};
use whered_rules::normal::{NoPlaces, NormalForm, Options};
use whered_rules::{
    Action, Family, Packet, Ruleset, RulesetBuilder, Verdict, classbench, naive, text,
};

/// The sets by name, or nothing.
fn sets() -> Vec<(String, String)> {
    let shared = std::env::var_os("WHERED_SHARED").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")),
        PathBuf::from,
    );
    let folder = shared.join("data/classbench");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        let required = std::env::var("WHERED_REQUIRE").unwrap_or_default();
        assert!(!required.split(',').any(|item| item == "shared"), "no ClassBench sets");
        println!("skipped: no ClassBench sets beside the project");
        return Vec::new();
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.expect("a readable folder").path();
        let file = std::fs::File::open(&path).expect("a readable file");
        let mut text = String::new();
        flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("gzip of text");
        found.push((path.file_name().expect("a file").to_string_lossy().into_owned(), text));
    }
    found.sort();
    found
}

fn read(name: &str, text: &str) -> Ruleset {
    classbench::read(name, text, classbench::Flags::LeaveOut).expect("a good set")
}

#[test]
fn real_sets_are_read_flattened_and_written() {
    for (name, contents) in sets() {
        let ruleset = read(&name, &contents);
        assert_eq!(ruleset.rules().len(), contents.lines().count());
        classbench::read(&name, &contents, classbench::Flags::Read).expect("flags are known too");
        let form = NormalForm::build(&ruleset, Family::Ipv4, &NoPlaces, Options::default())
            .expect("it has no chains");
        assert_eq!(form.rules.len(), ruleset.rules().len());
        let again = text::read(&name, &text::write(&ruleset)).expect("what we write is good");
        for rule in ruleset.rules().iter().step_by(97) {
            let mut packet = Packet { protocol: 6, ..Packet::default() };
            for condition in &rule.conditions {
                if let whered_rules::Test::Address(side, items) = &condition.test {
                    let whered_rules::AddressItem::Prefix(prefix) = items[0] else { continue };
                    match side {
                        whered_rules::Side::Source => packet.source = prefix.address(),
                        whered_rules::Side::Destination => packet.destination = prefix.address(),
                    }
                }
            }
            let expected = naive::evaluate(&ruleset, &packet, &naive::NoSets);
            assert_eq!(form.evaluate(&packet, &naive::NoSets), expected);
            assert_eq!(naive::evaluate(&again, &packet, &naive::NoSets), expected);
        }
    }
}

/// The same rules with verdicts that differ from rule to rule; ClassBench has none.
fn mixed(ruleset: &Ruleset) -> Ruleset {
    let mut builder = RulesetBuilder::new("mixed");
    let chain = builder.declare_chain("input", Some(Verdict::Drop), None, 1).expect("a new name");
    for rule in ruleset.rules() {
        let line = rule.origin.line;
        let accepts = line.wrapping_mul(0x9e37_79b9) >> 31 == 0;
        let action = if accepts { Action::Accept } else { Action::Drop };
        builder.add_rule(chain, line, rule.conditions.clone(), action, None, None);
    }
    builder.build().expect("one chain")
}

#[test]
fn real_sets_are_checked() {
    for (name, contents) in sets() {
        let ruleset = read(&name, &contents);
        checked(&format!("{name}, all accept"), &ruleset);
        checked(&format!("{name}, mixed"), &mixed(&ruleset));
    }
}

fn checked(name: &str, ruleset: &Ruleset) {
    let before = Instant::now();
    let report = check(ruleset, &NoPlaces, Effort::default()).expect("it has no chains");
    let useless =
        report.findings.iter().filter(|f| !matches!(f.kind, Kind::Overlap { .. })).count();
    println!(
        "{name}: {} rules, {useless} useless, {} overlaps, {} undecided, {:?}",
        ruleset.rules().len(),
        report.findings.len() - useless,
        report.undecided,
        before.elapsed()
    );
}
