//! The normal form against the walk through the chains, and its limits.

use super::*;
use crate::check::{Effort, Finding, Kind, check};
use crate::model::{Predicate, Verdict};
use crate::naive;
use crate::packet::Packet;
use crate::random::{self, Random, Shape, World};
use crate::text;

/// Resolves a predicate by asking the world about each address that packets can have.
impl Places for World {
    fn resolve(&self, predicate: &Predicate, family: Family) -> Result<Ranges, String> {
        let base = match family {
            Family::Ipv4 => 0x0a00_0000u128,
            Family::Ipv6 => 0x2001_0db8 << 96,
        };
        let address = |number: u128| match family {
            Family::Ipv4 => IpAddr::V4((number as u32).into()),
            Family::Ipv6 => IpAddr::V6(number.into()),
        };
        let numbers = (base..base + 16).filter(|&number| self.is_at(predicate, address(number)));
        Ok(Ranges::new(numbers.map(|number| (number, number)).collect()))
    }
}

#[test]
fn a_scan_of_the_normal_form_is_the_walk_through_the_chains() {
    let options = Options { count_passes: true, ..Options::default() };
    let (mut matched, mut passed, mut decided, mut entries) = (0, 0, 0, 0);
    let mut open = 0;
    for seed in 0..6000 {
        let mut random = Random::new(seed);
        let shape = if seed < 4000 { Shape::FULL } else { Shape::OPEN };
        let ruleset = random::ruleset(&mut random, shape);
        let world = World::new(&mut random);
        let forms = Family::BOTH.map(|family| {
            NormalForm::build(&ruleset, family, &world, options).expect("a small ruleset")
        });
        entries += forms[0].rules.len();
        for _ in 0..60 {
            let packet = random::packet(&mut random, shape);
            let expected = naive::evaluate(&ruleset, &packet, &world);
            let form = &forms[usize::from(!packet.source.is_ipv4())];
            let found = form.evaluate(&packet, &world);
            open += usize::from(found.verdict == Verdict::Maybe);
            assert_eq!(found, expected, "seed {seed} {packet:?}\n{}", text::write(&ruleset));
            matched += found.matched.len();
            passed += found.passed.len();
            decided += usize::from(found.rule.is_some());
        }
    }
    // The random world is of use only if all of it happens often.
    assert!(
        matched > 10_000 && passed > 10_000 && decided > 50_000,
        "{matched} {passed} {decided}"
    );
    assert!(entries > 10_000 && open > 5_000, "{entries} {open}");
}

#[test]
fn entries_of_one_rule_exclude_each_other_and_hold_no_empty_or_full_conditions() {
    for seed in 0..500 {
        let mut random = Random::new(seed);
        let ruleset = random::ruleset(&mut random, Shape::FULL);
        let world = World::new(&mut random);
        let form = NormalForm::build(&ruleset, Family::Ipv4, &world, Options::default())
            .expect("no marks are set");
        for entry in &form.rules {
            for (field, ranges) in entry.conditions.iter() {
                assert!(!ranges.is_empty());
                assert!(ranges.as_slice() != [(0, form.domain.largest(*field))], "{field:?}");
                assert!(
                    ranges.as_slice().iter().all(|&(_, last)| last <= form.domain.largest(*field))
                );
            }
        }
    }
}

fn build(rules: &str) -> Result<NormalForm, RulesError> {
    let ruleset = text::read("f", rules).expect("a good file");
    NormalForm::build(&ruleset, Family::Ipv4, &NoPlaces, Options::default())
}

/// What becomes of a packet that comes with mark 0.
fn fate(rules: &str, packet: Packet<'_>) -> Verdict {
    let form = build(rules).unwrap_or_else(|error| panic!("{rules}: {error}"));
    form.evaluate(&packet, &naive::NoSets).verdict
}

#[test]
fn a_mark_that_an_earlier_rule_sets_is_what_later_rules_test() {
    let tcp = Packet { protocol: 6, destination_port: 80, ..Packet::default() };
    let udp = Packet { protocol: 17, ..tcp };
    let same = "chain a policy drop {\n proto tcp set-mark 0x10/0xf0\n mark 0x10/0x30 accept\n}\n";
    assert_eq!([fate(same, tcp), fate(same, udp)], [Verdict::Accept, Verdict::Drop]);
    let called =
        "chain a policy drop {\n mark 0 jump b\n}\nchain b {\n set-mark 1\n mark 1 accept\n}\n";
    assert_eq!(fate(called, tcp), Verdict::Accept);
    let before = "chain a policy drop {\n mark 1 accept\n set-mark 1\n}\n";
    assert_eq!(fate(before, tcp), Verdict::Drop);
    let restored = "chain a policy drop {\n also changes mark \"CONNMARK --restore-mark\"\n mark 1 \
         accept\n}\n";
    assert_eq!(fate(restored, tcp), Verdict::Maybe);
}

#[test]
fn what_is_not_told_leaves_the_verdict_open_only_where_verdicts_differ() {
    let packet = Packet::default();
    let cases = [
        ("maybe limit \"\" accept", Verdict::Maybe),
        ("maybe limit \"\" drop", Verdict::Drop),
        ("maybe limit \"\" log", Verdict::Drop),
        ("maybe limit \"\" accept\n accept", Verdict::Accept),
        // One of both holds.
        ("with ttl 1-9 accept\n not with ttl 1-9 accept", Verdict::Accept),
        ("with ttl 1-9 drop\n with ttl 5 accept", Verdict::Drop),
        ("with ttl 1-9 with ttl 10 accept", Verdict::Drop),
        // A mask does not tell ranges.
        ("with connection-mark 0/1 accept\n with connection-mark 1/1 accept", Verdict::Maybe),
    ];
    for (rules, verdict) in cases {
        assert_eq!(fate(&format!("chain a policy drop {{\n {rules}\n}}\n"), packet), verdict);
    }
    let told = [(crate::Detail::named("ttl").expect("a name"), 5)];
    let packet = Packet { details: &told, ..packet };
    let rules = "chain a policy drop {\n with ttl 1-9 accept\n}\n";
    assert_eq!(fate(rules, packet), Verdict::Accept);
}

#[test]
fn a_packet_that_was_delivered_here_went_to_an_address_of_this_machine() {
    let rules = "chain a policy accept hook input {\n jump not_local\n}\nchain not_local {\n \
         with destination-type local return\n with destination-type multicast return\n \
         with destination-type broadcast return\n drop\n}\n";
    let packet =
        |text: &str| Packet { destination: text.parse().expect("an address"), ..Packet::default() };
    for address in ["192.0.2.1", "224.0.0.1", "255.255.255.255"] {
        assert_eq!(fate(rules, packet(address)), Verdict::Accept, "{address}");
        let anywhere = rules.replace(" hook input", "");
        let verdict = if address == "192.0.2.1" { Verdict::Maybe } else { Verdict::Accept };
        assert_eq!(fate(&anywhere, packet(address)), verdict, "{address}");
    }
}

#[test]
fn growth_is_bounded_and_the_chain_is_named() {
    let mut rules = "chain a policy drop {\n jump b\n}\nchain b {\n".to_owned();
    for n in 0..40 {
        rules += &format!(" src @a{n} dst @b{n} return\n");
    }
    rules += " accept\n}\n";
    let error = build(&rules).expect_err("2 to the 40th");
    assert!(error.to_string().starts_with("f:4: chain \"b\" grows too large"), "{error}");
    // Returns on one field do not grow at all.
    let mut rules = "chain a policy drop {\n jump b\n}\nchain b {\n".to_owned();
    for n in 0..200 {
        rules += &format!(" src 10.{n}.0.0/16 return\n");
    }
    rules += " accept\n}\n";
    assert_eq!(build(&rules).expect("one entry").rules.len(), 1);
}

#[test]
fn what_cannot_be_resolved_is_an_error_of_each_line() {
    let rules =
        "chain a policy drop {\n src.country = DE accept\n drop\n not dst.asn in {1 2} accept\n}\n";
    let error = build(rules).expect_err("there is no database");
    let lines: Vec<u32> = error.problems().iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [2, 4]);
}

/// Every place has the addresses of one network.
struct OneNetwork;

impl Places for OneNetwork {
    fn resolve(&self, _predicate: &Predicate, _family: Family) -> Result<Ranges, String> {
        Ok(Ranges::single(0x0a00_0080, 0x0a00_00ff))
    }
}

#[test]
fn a_place_within_a_prefix_is_taken_for_its_addresses() {
    let rules = "chain a policy drop {
 src 10.0.0.0/24 src.country = DE accept
 src 10.0.0.200 src.country = DE accept
 src 10.0.0.0/25 src.country = DE accept
 src 10.0.1.0/24 not src.country = DE accept
}
";
    let form = |rules: &str, fold_places| {
        let ruleset = text::read("f", rules).expect("a good file");
        let options = Options { fold_places, ..Options::default() };
        NormalForm::build(&ruleset, Family::Ipv4, &OneNetwork, options).expect("a good ruleset")
    };
    let folded = form(rules, true);
    let sources = folded.rules.iter().map(|entry| {
        assert_eq!(entry.conditions.len(), 1, "{entry:?}");
        entry.conditions.get(Field::Source).map_or(&[][..], Ranges::as_slice)
    });
    let expected: [&[_]; 3] = [
        &[(0x0a00_0080, 0x0a00_00ff)],
        &[(0x0a00_00c8, 0x0a00_00c8)],
        &[(0x0a00_0100, 0x0a00_01ff)],
    ];
    assert_eq!(sources.collect::<Vec<_>>(), expected);
    // What is found wrong with a ruleset holds whatever a database says.
    let ruleset = text::read("f", rules).expect("a good file");
    let report = check(&ruleset, &OneNetwork, Effort::default()).expect("a good ruleset");
    let unreachable = |finding: &&Finding| finding.kind == Kind::Unreachable;
    assert_eq!(report.findings.iter().find(unreachable), None);
    // A rule that is put in later and asks for the place needs all to be compiled anew.
    assert_eq!(folded.lower(&ruleset, &ruleset.rules()[0]), None);
    // Nobody asks for a place any more.
    assert!(folded.places[0].is_empty() && folded.places[0].memory_bytes() == 0);
    assert_eq!(folded.domain.largest_place, [[0, 0]; 2]);
    let asked = form(rules, false);
    assert_eq!((asked.rules.len(), asked.domain.largest_place), (4, [[1, 0], [0, 0]]));
    // One rule without a prefix, and places are there.
    let with_wild = rules.replace("src 10.0.0.200 ", "dport 80 ");
    let with_places = form(&with_wild, true);
    assert!(!with_places.places[0].is_empty());
    assert!(with_places.lower(&ruleset, &ruleset.rules()[0]).is_some());
}

#[test]
fn a_ruleset_of_one_family_leaves_the_other_alone() {
    let rules = "family ipv6\nchain a policy drop {\n accept\n}\n";
    let form = build(rules).expect("a good ruleset");
    let packet = Packet::default();
    let outcome = form.evaluate(&packet, &naive::NoSets);
    assert_eq!((outcome.verdict, outcome.rule), (Verdict::Continue, None));
}
