//! Findings against brute force over every kind of packet of small rulesets.

use std::collections::BTreeSet;

use super::*;
use crate::model::{Condition, RulesetBuilder, Side, Verdict};
use crate::normal::{Key, NoPlaces, NormalForm, Options};
use crate::packet::{Family, Packet};
use crate::random::{self, Random, Shape};
use crate::text;

/// One packet of each kind that the ruleset can tell apart: in every field, each number at which
/// any condition begins to hold or ceases to.
fn every_kind_of_packet(form: &NormalForm) -> Vec<Key> {
    let mut starts: std::collections::BTreeMap<_, BTreeSet<u128>> = Default::default();
    for entry in &form.rules {
        for (field, ranges) in entry.conditions.iter() {
            let numbers = starts.entry(*field).or_insert_with(|| BTreeSet::from([0]));
            for &(first, last) in ranges.as_slice() {
                numbers.insert(first);
                numbers.extend(last.checked_add(1).filter(|&n| n <= form.domain.largest(*field)));
            }
        }
    }
    let mut keys = vec![form.empty_key()];
    for (field, numbers) in starts {
        let with = |key: &Key, number: u128| {
            let mut key = *key;
            key.set(field, number);
            key
        };
        keys = keys
            .iter()
            .flat_map(|key| numbers.iter().map(|&number| with(key, number)).collect::<Vec<_>>())
            .collect();
        if keys.len() > 40_000 {
            return Vec::new();
        }
    }
    keys
}

/// The ruleset without one rule, which becomes a rule that nothing meets.
fn without(ruleset: &Ruleset, id: RuleId) -> Ruleset {
    let mut other = ruleset.clone();
    let never = Condition::new(Test::Protocol(vec![(0, 255)]), true);
    other.rules[id.index()].conditions.push(never);
    other
}

const SHAPE: Shape = Shape {
    questions: false,
    chains: 3,
    rules: 5,
    conditions: 2,
    sets: true,
    places: false,
    marks_tested: false,
    sites: false,
    family: Some(Family::Ipv4),
};

fn form(ruleset: &Ruleset) -> NormalForm {
    let options = Options { count_passes: true, ..Options::default() };
    NormalForm::build(ruleset, Family::Ipv4, &NoPlaces, options).expect("a good ruleset")
}

#[test]
fn findings_are_those_of_brute_force() {
    let effort = Effort { overlaps_for_each: usize::MAX, ..Effort::default() };
    let (mut useless, mut rulesets, mut never, mut order) = (0, 0, 0, 0);
    for seed in 0..1500 {
        let mut random = Random::new(seed);
        let ruleset = random::ruleset(&mut random, SHAPE);
        let whole = form(&ruleset);
        let keys = every_kind_of_packet(&whole);
        if keys.is_empty() {
            continue;
        }
        rulesets += 1;
        let report = check(&ruleset, &NoPlaces, effort).expect("a good ruleset");
        assert_eq!(report.undecided, 0);
        let outcomes: Vec<_> =
            keys.iter().map(|key| whole.evaluate_key(key, &Packet::default())).collect();
        for index in 0..ruleset.rules().len() {
            let id = RuleId(index as u32);
            let other = form(&without(&ruleset, id));
            let matched = outcomes.iter().any(|outcome| {
                outcome.rule == Some(id)
                    || outcome.matched.contains(&id)
                    || outcome.passed.contains(&id)
            });
            let exists = whole.rules.iter().any(|entry| entry.rule == id);
            let action = &ruleset.rule(id).action;
            let changes = matched
                && (action.verdict().is_none()
                    || keys.iter().zip(&outcomes).any(|(key, before)| {
                        let after = other.evaluate_key(key, &Packet::default());
                        (&after.verdict, &after.matched) != (&before.verdict, &before.matched)
                    }));
            let found: Vec<&Kind> = report
                .findings
                .iter()
                .filter(|finding| finding.rule == Some(id))
                .map(|finding| &finding.kind)
                .filter(|kind| !matches!(kind, Kind::Overlap { .. }))
                .collect();
            let context = || format!("seed {seed} rule {id:?}\n{}", text::write(&ruleset));
            match found.as_slice() {
                [] => assert!(changes, "missed: {}", context()),
                [Kind::Unreachable] => assert!(!exists, "{}", context()),
                [Kind::Shadowed { by }] => {
                    assert!(exists && !matched && !by.is_empty(), "{}", context());
                }
                [Kind::Redundant { .. }] => assert!(exists && !changes, "{}", context()),
                _ => panic!("more than one finding: {}", context()),
            }
            useless += usize::from(!found.is_empty());
            never += usize::from(!matched);
        }
        order += assert_overlaps(&ruleset, &whole, &keys, &report, seed);
    }
    assert!(
        rulesets > 500 && useless > 500 && never > 300 && order > 100,
        "{rulesets} {useless} {never} {order}"
    );
}

/// Compares the overlaps, where each rule became one entry; their number.
fn assert_overlaps(
    ruleset: &Ruleset,
    form: &NormalForm,
    keys: &[Key],
    report: &Report,
    seed: u64,
) -> usize {
    let mut expected = BTreeSet::new();
    for (later, b) in form.rules.iter().enumerate() {
        for a in &form.rules[..later] {
            let verdicts =
                (ruleset.rule(a.rule).action.verdict(), ruleset.rule(b.rule).action.verdict());
            let (Some(one), Some(two)) = verdicts else { continue };
            if one == two || a.rule == b.rule {
                continue;
            }
            let (mut both, mut only_a, mut only_b) = (false, false, false);
            for key in keys {
                match (key.meets(&a.conditions), key.meets(&b.conditions)) {
                    (true, true) => both = true,
                    (true, false) => only_a = true,
                    (false, true) => only_b = true,
                    (false, false) => {}
                }
            }
            if both && only_a && only_b {
                expected.insert((a.rule, b.rule));
            }
        }
    }
    let useless: BTreeSet<RuleId> = report
        .findings
        .iter()
        .filter(|finding| !matches!(finding.kind, Kind::Overlap { .. }))
        .filter_map(|finding| finding.rule)
        .collect();
    expected.retain(|(a, b)| !useless.contains(a) && !useless.contains(b));
    let found: BTreeSet<(RuleId, RuleId)> = report
        .findings
        .iter()
        .filter_map(|finding| match (&finding.kind, finding.rule) {
            (Kind::Overlap { with }, Some(rule)) => Some((*with, rule)),
            _ => None,
        })
        .collect();
    assert_eq!(found, expected, "seed {seed}\n{}", text::write(ruleset));
    found.len()
}

fn messages(rules: &str) -> Vec<String> {
    let ruleset = text::read("f", rules).expect("a good file");
    let report = check(&ruleset, &NoPlaces, Effort::default()).expect("it can be flattened");
    report.findings.iter().map(ToString::to_string).collect()
}

#[test]
fn findings_name_their_lines() {
    let rules = "\
set used live
set idle { 10.0.0.0/8 }
chain input policy drop {
    not src 10.0.0.0/8 drop
    src 192.168.0.0/16 accept
    src 10.1.0.0/16 proto tcp accept
    src 10.1.2.0/24 proto tcp dport 80 accept
    proto tcp proto udp accept
    src 10.2.0.0/17 accept
    src 10.2.128.0/17 accept
    src 10.2.0.0/16 dst @used drop
    dst 10.9.0.0/16 proto udp drop
    src 10.3.0.0/16 accept
    src 10.4.0.0/16 drop
}
chain nobody {
    accept
}
";
    assert_eq!(
        messages(rules),
        [
            "f:2: set \"idle\" is used by no rule",
            "f:5: never met: line 4 decides first, and otherwise",
            "f:7: changes nothing: line 6 decides first, and the same",
            "f:8: no packet can meet this rule",
            "f:11: never met: lines 9, 10 decide first, and otherwise",
            "f:12: overlaps with line 9, which decides otherwise: their order matters",
            "f:12: overlaps with line 10, which decides otherwise: their order matters",
            "f:13: overlaps with line 12, which decides otherwise: their order matters",
            "f:14: changes nothing: the policy does the same",
            "f:16: chain \"nobody\" is never entered",
            "f:17: no packet can meet this rule",
        ]
    );
}

/// A list of ranges that only together cover a rule, and one address that they do not.
#[test]
fn many_earlier_rules_cover_one_together() {
    let mut rules = "chain input policy accept {\n".to_owned();
    for n in 0..=255 {
        rules += &format!(
            "    dst 10.0.0.{n} proto tcp accept\n    dst 10.0.0.{n} not proto tcp drop\n"
        );
    }
    let covered = rules.clone() + "    dst 10.0.0.0/24 reject\n}\n";
    assert!(messages(&covered).iter().any(|line| line.contains("f:514: never met")));
    let open = rules + "    dst 10.0.0.0/23 reject\n}\n";
    assert!(!messages(&open).iter().any(|line| line.contains("f:514: never met")));
}

#[test]
fn sides_are_told_apart() {
    let mut builder = RulesetBuilder::new("f");
    let chain = builder.declare_chain("input", Some(Verdict::Drop), None, 1).expect("a new name");
    for (side, line) in [(Side::Source, 2), (Side::Destination, 3)] {
        let test = Test::Set(side, "live".to_owned());
        builder.add_rule(chain, line, vec![Condition::is(test)], Action::Accept, None, None);
    }
    let report = check(&builder.build().expect("good"), &NoPlaces, Effort::default());
    assert_eq!(report.expect("good"), Report::default());
}
