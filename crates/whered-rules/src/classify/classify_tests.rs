//! Every form against the scan, on random rules and packets.

use super::compiled::{AnyPacket, Compiled, Matched};
use super::lazy::{LazyValues, Whole, asked};
use super::naive;
use super::plan::{Budget, Candidate, Planner, Split, Trial, experiment};
use super::rule::{Condition, Family, Field, LAZY_FIELDS, NO_RULE, Packet, Packet6, Rule, Rules};
use super::samples::{Samples, narrowed};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;
use whered_random::Random;

/// The kind of random rules.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) family: Family,
    pub(crate) count: u64,
    /// Fields beyond the usual six.
    pub(crate) more_fields: bool,
    /// Rules that do not end the search.
    pub(crate) non_terminal: bool,
}

const USUAL: [Field; 6] = [
    Field::Source,
    Field::Destination,
    Field::SourcePort,
    Field::DestinationPort,
    Field::Protocol,
    Field::Word(5),
];

/// Fields past the sixteenth, so that the rule itself checks some, and lazy ones.
const MORE: [Field; 14] = [
    Field::Lazy(0),
    Field::Lazy(3),
    Field::Word(6),
    Field::Word(7),
    Field::Word(8),
    Field::Word(9),
    Field::Word(10),
    Field::Set(0),
    Field::Set(3),
    Field::Set(31),
    Field::Word(11),
    Field::Word(12),
    Field::Word(13),
    Field::Word(14),
];

/// Few distinct values, so that rules meet: ranges that nest, touch, cross and repeat.
fn random_ranges(random: &mut Random, field: Field, family: Family) -> Vec<(u128, u128)> {
    let max = field.max(family);
    if matches!(field, Field::Source | Field::Destination) {
        let bits = if family == Family::V4 { 32 } else { 128 };
        let length = [0, 1, 8, 12, 16, 22, 24, 31, bits][random.below(9) as usize];
        let base = u128::from(random.below(6)) * (max / 6) + u128::from(random.below(5));
        let host = max.checked_shr(length).unwrap_or(0) & max;
        return vec![(base & !host, base & !host | host)];
    }
    let mut ranges = Vec::new();
    let mut from = 0;
    for _ in 0..1 + random.below(3) {
        if from > max {
            break;
        }
        let low = from + random.within((0, (max - from).min(9)));
        let high = match random.below(4) {
            0 => max,
            1 => low,
            _ => (low + random.within((0, 5))).min(max),
        };
        ranges.push((low, high));
        from = high.saturating_add(2);
    }
    ranges
}

pub(crate) fn random_rule(random: &mut Random, kind: Kind) -> Rule {
    let mut conditions = Vec::new();
    let mut add = |random: &mut Random, field| {
        conditions.push(Condition { field, ranges: random_ranges(random, field, kind.family) });
    };
    for field in USUAL {
        if random.below(5) < 2 {
            add(random, field);
        }
    }
    for field in MORE.iter().filter(|_| kind.more_fields) {
        if random.below(8) == 0 {
            add(random, *field);
        }
    }
    let terminal = !kind.non_terminal || random.below(3) != 0;
    Rule { conditions, terminal, verdict: random.below(4) as u32 }
}

pub(crate) fn random_rules(random: &mut Random, kind: Kind) -> Arc<Rules> {
    let count = 1 + random.below(kind.count);
    let rules = (0..count).map(|_| random_rule(random, kind)).collect();
    Arc::new(Rules::new(kind.family, rules).expect("random rules are valid"))
}

/// Every path of this processor.
pub(crate) fn paths() -> Vec<whered_simd::Path> {
    let mut paths = vec![whered_simd::Path::Scalar];
    #[cfg(target_arch = "x86_64")]
    {
        paths.extend(whered_simd::Avx2::new().map(whered_simd::Path::Avx2));
        paths.extend(whered_simd::Avx512::new().map(whered_simd::Path::Avx512));
    }
    paths
}

/// Packets and their lazy fields.
pub(crate) type SamplePackets<A> = (Vec<A>, Vec<LazyValues>);

/// The next packets of an IPv6 ruleset.
pub(crate) fn draw6(samples: &mut Samples<'_>, count: usize) -> SamplePackets<Packet6> {
    (0..count).map(|_| samples.with_lazy()).unzip()
}

/// The next packets of an IPv4 ruleset.
pub(crate) fn draw(samples: &mut Samples<'_>, count: usize) -> SamplePackets<Packet> {
    let (packets, lazy) = draw6(samples, count);
    (packets.iter().map(narrowed).collect(), lazy)
}

/// Single and batch, on all paths, against the scan.
pub(crate) fn check<A: AnyPacket>(compiled: &Compiled, (packets, lazy): &SamplePackets<A>) {
    let rules = compiled.rules();
    let mut answers = vec![0; packets.len()];
    let mut matched = Matched::default();
    let whole = |place| Whole { packet: &packets[place], lazy: |place| lazy[place], place };
    let each = 0..packets.len();
    let expected: Vec<_> = each.map(|one| naive::scan(rules.list(), &whole(one))).collect();
    for path in paths() {
        compiled.find_batch_path(path, packets, |place| lazy[place], &mut answers, &mut matched);
        let mut pairs = Vec::new();
        for (place, expected) in expected.iter().enumerate() {
            let rule = expected.rule.unwrap_or(NO_RULE);
            assert_eq!(answers[place], rule, "packet {place} on {path:?}");
            pairs.extend(expected.matched.iter().map(|&rule| (place as u32, rule)));
        }
        assert_eq!(matched.pairs, pairs, "{path:?}");
    }
    for ((packet, lazy), expected) in packets.iter().zip(lazy).zip(expected) {
        let mut matched = vec![77];
        assert_eq!(compiled.find_lazy(packet, |_| *lazy, &mut matched), expected.rule);
        assert_eq!(matched[1..], expected.matched);
    }
}

/// Every form, with limits drawn at random.
fn candidates(random: &mut Random) -> Vec<Candidate> {
    let splits =
        [Split::One, Split::Source, Split::Narrower, Split::Wide(24), Split::NarrowDestination(16)];
    let mut list = vec![Candidate::Tuples, Candidate::Vectors];
    list.extend(splits.map(|split| Candidate::Graph {
        split,
        leaf: 1 + random.below(6) as usize,
        root_bits: 1 + random.below(16) as u32,
    }));
    list
}

fn check_kind(kind: Kind, rounds: u64, each: usize) {
    for seed in 0..rounds {
        let mut random = Random(seed);
        let rules = random_rules(&mut random, kind);
        for candidate in candidates(&mut random) {
            let Some(compiled) = experiment(&rules, candidate, 2 << 20) else { continue };
            let mut samples = Samples::new(&rules, seed);
            match kind.family {
                Family::V4 => check(&compiled, &draw(&mut samples, each)),
                Family::V6 => check(&compiled, &draw6(&mut samples, each)),
            }
        }
    }
}

#[test]
fn every_form_answers_as_the_scan_does() {
    for family in [Family::V4, Family::V6] {
        for more_fields in [false, true] {
            for non_terminal in [false, true] {
                check_kind(Kind { family, count: 60, more_fields, non_terminal }, 12, 300);
            }
        }
    }
}

#[test]
fn one_rule_and_no_rule_are_rulesets_too() {
    let none = Arc::new(Rules::new(Family::V4, Vec::new()).expect("valid"));
    for candidate in [Candidate::Tuples, Candidate::Vectors] {
        let compiled = experiment(&none, candidate, 4096).expect("small");
        check(&compiled, &(vec![Packet::new(1, 2); 3], vec![[0; LAZY_FIELDS]; 3]));
    }
    check_kind(
        Kind { family: Family::V4, count: 1, more_fields: true, non_terminal: true },
        40,
        70,
    );
}

#[test]
fn explanations_agree_with_the_fast_path() {
    for (non_terminal, more_fields) in [(false, false), (true, false), (true, true)] {
        let kind = Kind { family: Family::V4, count: 120, more_fields, non_terminal };
        let rules = random_rules(&mut Random(44), kind);
        let compiled = experiment(&rules, Candidate::Tuples, 0).expect("always");
        let graph = Candidate::Graph { split: Split::Narrower, leaf: 4, root_bits: 12 };
        let graph = experiment(&rules, graph, 64 << 20);
        assert!(more_fields || graph.is_some(), "six fields fit");
        let mut samples = Samples::new(&rules, 5);
        for _ in 0..10_000 {
            let packet = samples.packet();
            let told = compiled.explain(&packet);
            for compiled in [Some(&compiled), graph.as_ref()].into_iter().flatten() {
                let mut matched = Vec::new();
                assert_eq!(compiled.find(&packet, &mut matched), told.outcome.rule);
                assert_eq!(matched, told.outcome.matched);
            }
            let last = told.outcome.rule.map_or(rules.list().len(), |rule| rule as usize);
            assert_eq!(told.misses.len() + told.outcome.matched.len(), last, "every earlier rule");
            for miss in told.misses {
                let conditions = &rules.list()[miss.rule as usize].conditions;
                let missed = conditions.iter().find(|one| one.field == miss.field);
                assert!(!missed.expect("its own condition").holds(miss.value));
            }
        }
    }
}

/// A clock that runs so far with every look at it.
fn ticking(step: Duration) -> impl Fn() -> Duration {
    let now = Cell::new(Duration::ZERO);
    move || {
        now.set(now.get() + step);
        now.get()
    }
}

#[test]
fn a_plan_answers_whatever_its_budget_and_says_what_was_tried() {
    let kind = Kind { family: Family::V4, count: 300, more_fields: false, non_terminal: false };
    let rules = random_rules(&mut Random(8), kind);
    let mut samples = Samples::new(&rules, 6);
    let packets = draw(&mut samples, 2000);
    for bytes in [0, 100_000, 64 << 20] {
        for milliseconds in [0, 1, 100] {
            let time = Duration::from_millis(milliseconds);
            let clock = ticking(Duration::from_micros(10));
            let mut planner = Planner::new(Rules::clone(&rules), Budget { time, bytes }, &clock);
            check(planner.compiled(), &packets);
            planner.plan_more(time, &clock);
            check(planner.compiled(), &packets);
            let info = planner.info();
            assert!(matches!(info.tried[0], (Candidate::Tuples, Trial::Measured(_))));
            if bytes == 0 {
                assert_eq!(info.form, Candidate::Tuples, "nothing else fits");
            }
            if bytes == 0 && milliseconds == 100 {
                assert!(info.to_string().contains("would not have fitted into memory"), "{info}");
            }
        }
    }
}

#[test]
fn rules_that_are_not_ranges_are_refused_by_place_and_field() {
    let fault = |field, ranges: &[(u128, u128)]| {
        let condition = Condition { field, ranges: ranges.to_vec() };
        let rules = vec![
            Rule { conditions: vec![], terminal: true, verdict: 0 },
            Rule { conditions: vec![condition], terminal: true, verdict: 0 },
        ];
        Rules::new(Family::V4, rules).expect_err("a fault").to_string()
    };
    let port = Field::SourcePort;
    assert_eq!(fault(port, &[(2, 1)]), "rule 1: SourcePort: a range ends before it starts");
    assert_eq!(fault(port, &[(0, 65_536)]), "rule 1: SourcePort: a range leaves the field");
    let unsorted = "rule 1: SourcePort: ranges are not sorted and disjoint";
    assert_eq!(fault(port, &[(5, 9), (9, 10)]), unsorted);
    assert_eq!(fault(Field::Set(32), &[(0, 1)]), "rule 1: Set(32): allowed are the sets 0 to 31");
    assert!(fault(Field::Word(15), &[]).contains("allowed are the words 5 to 14"));
    assert!(fault(Field::Lazy(4), &[]).contains("allowed are the lazy fields 0 to 3"));
}

#[test]
fn lazy_fields_are_computed_when_all_else_holds_and_counted() {
    let condition = |field, range| Condition { field, ranges: vec![range] };
    let rule = |conditions| Rule { conditions, terminal: true, verdict: 0 };
    let port = |number| condition(Field::DestinationPort, (number, number));
    let mut rules: Vec<Rule> =
        (0..100).map(|n| rule(vec![port(n), condition(Field::Lazy(1), (n, n))])).collect();
    rules.push(rule(vec![]));
    let ask = |rules: &[Rule]| asked(&Rules::new(Family::V4, rules.to_vec()).expect("valid"), 500);
    let few = ask(&rules);
    assert!(few.questions == few.share && few.share > 0.8, "{few:?}");
    let rules = Arc::new(Rules::new(Family::V4, rules).expect("valid"));
    for candidate in candidates(&mut Random(1)) {
        let compiled = experiment(&rules, candidate, 4 << 20).expect("small");
        let mut packet = Packet::new(1, 2);
        for (number, expected, times) in [(7, 7, 1), (8, 100, 1), (200, 100, 0)] {
            packet.set(Field::DestinationPort, if number == 200 { 200 } else { 7 });
            let count = Cell::new(0);
            let lazy = |_| {
                count.set(count.get() + 1);
                [0, number, 0, 0]
            };
            assert_eq!(compiled.find_lazy(&packet, lazy, &mut Vec::new()), Some(expected));
            assert_eq!(count.get(), times, "{candidate}");
        }
    }
    // Rules that differ in nothing else are all asked.
    let many: Vec<Rule> = (0..100).map(|n| rule(vec![condition(Field::Lazy(0), (n, n))])).collect();
    assert!(ask(&many).questions > 20.0);
}

/// Minutes long in a debug build: `cargo test --release -p whered-rules -- --ignored`.
#[test]
#[ignore = "millions of packets"]
fn millions_of_packets_are_answered_as_the_scan_does() {
    for family in [Family::V4, Family::V6] {
        for (more_fields, non_terminal) in [(false, false), (true, true)] {
            check_kind(Kind { family, count: 250, more_fields, non_terminal }, 20, 20_000);
        }
    }
}
