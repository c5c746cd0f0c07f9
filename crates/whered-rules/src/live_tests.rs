//! Changes of rules against the walk through the draft that they should give.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Change, LiveRules};
use crate::classify::plan::Budget;
use crate::model::{At, Draft, Rule, Spot};
use crate::naive;
use crate::normal::NoPlaces;
use crate::packet::Packet;
use crate::random::{self, Random, Shape, World};
use crate::text;

fn compile(draft: &Draft, world: &World) -> Option<LiveRules> {
    let (ruleset, numbers) = draft.to_ruleset().ok()?;
    let start = Instant::now();
    let budget = Budget { time: Duration::from_millis(1), ..Budget::default() };
    LiveRules::build(&Arc::new(ruleset), numbers, world, budget, &|| start.elapsed()).ok()
}

/// Single and batch against the walk.
fn check(live: &LiveRules, draft: &Draft, world: &World, packets: &[Packet<'_>], seed: u64) {
    let (ruleset, numbers) = draft.to_ruleset().expect("it was compiled");
    let mut tallies = Vec::new();
    let found = live.find_batch(packets, world, |place, tally| tallies.push((place, tally)));
    for (place, (packet, decision)) in packets.iter().zip(found).enumerate() {
        let walked = naive::evaluate(&ruleset, packet, world);
        let number = |id: &crate::model::RuleId| numbers[id.index()];
        let context = || format!("seed {seed} {packet:?}\n{}", text::write(&ruleset));
        assert_eq!(decision.verdict, walked.verdict, "{}", context());
        assert_eq!(decision.rule, walked.rule.as_ref().map(number), "{}", context());
        let matched: Vec<u32> = walked.matched.iter().map(number).collect();
        assert_eq!(decision.matched, matched, "{}", context());
        let mut single = Vec::new();
        assert_eq!(live.find(packet, world, |tally| single.push(tally)), decision);
        let mut as_walked = Vec::new();
        assert_eq!(live.walk(packet, world, |tally| as_walked.push(tally)), decision);
        if decision.rule.is_some() {
            assert_eq!(single, as_walked, "counted alike");
        }
        let batch: Vec<u32> =
            tallies.iter().filter(|one| one.0 == place).map(|one| one.1).collect();
        assert_eq!(single, batch);
        if ruleset.family().is_some_and(|only| only != packet.family()) {
            assert!(single.is_empty());
            continue;
        }
        let matched_or_decided = single.len() > matched.len();
        assert!(matched_or_decided && single.contains(&0) == decision.rule.is_none());
        let of_rule = |tally: &u32| live.tally_of_rules().find(|one| one.1 == *tally);
        let decider = single.iter().filter_map(of_rule).map(|one| one.0);
        let told: Vec<u32> = decider.filter(|number| !matched.contains(number)).collect();
        match decision.rule {
            Some(rule) => assert_eq!(told, [rule]),
            // A `return` leaves it to the policy, and is counted.
            None => assert!(told.len() <= 1),
        }
    }
}

/// A change of the draft, drawn at random; the draft has it then.
fn change(random: &mut Random, draft: &mut Draft, donors: &[Rule]) -> Option<Change> {
    let numbers: Vec<u32> =
        (1..draft.next_number()).filter(|number| draft.rule(*number).is_some()).collect();
    let any = |random: &mut Random| numbers.get(random.below(numbers.len().max(1) as u64) as usize);
    match random.below(5) {
        0 => {
            let number = *any(random)?;
            draft.delete(number).expect("it is there");
            Some(Change::Delete { number })
        }
        1 => {
            let number = *any(random)?;
            draft.replace(number, random.pick(donors).clone()).expect("it is there");
            let rule = Arc::clone(draft.rule(number).expect("just put"));
            Some(Change::Replace { number, rule })
        }
        _ => {
            let at = match (random.below(3), any(random)) {
                (0, Some(&number)) => At::Before(number),
                (1, Some(&number)) => At::After(number),
                _ => At::Position(None, 1),
            };
            let spot: Spot = draft.find(at).expect("it is there");
            let number = draft.insert(spot, random.pick(donors).clone()).expect("it fits");
            let rule = Arc::clone(draft.rule(number).expect("just put"));
            Some(Change::Insert { number, spot, rule })
        }
    }
}

#[test]
fn a_changed_ruleset_decides_as_the_walk_through_what_it_should_be() {
    let (mut overlaid, mut compiled) = (0, 0);
    for seed in 0..60 {
        let mut random = Random::new(seed * 31 + 7);
        let shape = Shape { rules: 9, ..Shape::FULL };
        let ruleset = random::ruleset(&mut random, shape);
        let donors: Vec<Rule> = ruleset.rules().to_vec();
        if donors.is_empty() {
            continue;
        }
        let world = World::new(&mut random);
        let mut draft = Draft::new(&ruleset);
        let mut live = compile(&draft, &world).expect("no marks are set");
        for _ in 0..20 {
            let before = draft.clone();
            let Some(change) = change(&mut random, &mut draft, &donors) else { continue };
            match live.changed(&change) {
                Some(next) => {
                    live = next;
                    overlaid += 1;
                }
                None => match compile(&draft, &world) {
                    Some(next) => {
                        live = next;
                        compiled += 1;
                    }
                    // A circle of chains, for instance: the owner takes the change back.
                    None => draft = before,
                },
            }
            assert_eq!(live.len(), draft.len());
            assert_eq!(Ok(live.to_ruleset()), draft.to_ruleset());
            let packets: Vec<_> = (0..40).map(|_| random::packet(&mut random, shape)).collect();
            check(&live, &draft, &world, &packets, seed);
        }
    }
    assert!(overlaid > 300 && compiled > 100, "{overlaid} {compiled}");
}

const RULES: &str = "\
chain input policy drop {
    state established accept
    src @blocked drop
    in eth+ jump web
    proto udp dport 53 accept
}
chain web {
    src 10.0.0.0/8 return
    proto tcp dport {80 443} accept
}
";

fn built(rules: &str) -> (Draft, LiveRules) {
    let ruleset = Arc::new(text::read("a.rules", rules).expect("it is right"));
    let (draft, start) = (Draft::new(&ruleset), Instant::now());
    let numbers = (1..=ruleset.rules().len() as u32).collect();
    let budget = Budget { time: Duration::ZERO, ..Budget::default() };
    let live = LiveRules::build(&ruleset, numbers, &NoPlaces, budget, &|| start.elapsed());
    (draft, live.expect("it is compiled"))
}

#[test]
fn what_cannot_lie_over_the_compiled_rules_says_so() {
    let (draft, live) = built(RULES);
    let insert = |at: At<'_>, rule: &str| {
        let mut draft = draft.clone();
        let rule = text::read_rule("rule", rule, draft.head()).expect("it is right");
        let spot = draft.find(at).expect("it is there");
        let number = draft.insert(spot, rule).expect("it fits");
        let rule = Arc::clone(draft.rule(number).expect("just put"));
        live.changed(&Change::Insert { number, spot, rule }).is_some()
    };
    let first = At::Position(None, 1);
    for rule in ["src 1.2.3.4 drop", "in eth+ src @blocked accept", "return", "log \"x\"", "drop"] {
        assert!(insert(first, rule), "{rule}");
    }
    for rule in ["in ppp0 drop", "dst @blocked drop", "src @other drop", "jump web", "goto web"] {
        assert!(!insert(first, rule), "{rule}");
    }
    assert!(insert(At::After(4), "drop") && insert(At::Before(3), "mark 3 drop"));
    assert!(!insert(At::Before(5), "drop"), "a chain that is called");
    let delete = |number| live.changed(&Change::Delete { number }).is_some();
    assert!(delete(3) && delete(1) && !delete(5) && !delete(6));
}

#[test]
fn a_rule_read_alone_is_refused_with_line_and_column() {
    let (draft, _) = built(RULES);
    for (rule, error) in [
        ("", "rule:1:1: found \"end of file\": "),
        ("src 1.2.3.4", "rule:1:12: found \"end of line\": "),
        ("src 1.2.3.4 drop accept", "rule:1:18: found \"accept\": allowed is end of line"),
        ("drop\naccept", "rule:2:1: found \"accept\": allowed is one rule"),
        ("jump nowhere", "rule:1: found \"nowhere\": allowed is a declared chain (web)"),
        ("jump input", "rule:1: found a jump to \"input\", which has a policy"),
        ("dport 70000 drop", "rule:1:7: "),
    ] {
        let found = text::read_rule("rule", rule, draft.head()).expect_err(rule).to_string();
        assert!(found.starts_with(error) && !found.contains('\n'), "{rule}: {found}");
    }
}
