//! Changes against the scan of the list that they should give.

use super::classify_tests::{Kind, SamplePackets, draw, draw6, random_rule, random_rules};
use super::compiled::{AnyPacket, Matched};
use super::lazy::Whole;
use super::live::{ChangeError, Live, RuleId};
use super::naive;
use super::plan::{Candidate, Split, experiment};
use super::rule::{Family, NO_RULE, Rule};
use super::samples::Samples;
use std::sync::Arc;
use whered_random::Random;

/// The list that a live ruleset should be.
type Model = Vec<(RuleId, Rule)>;

/// Single and batch against the scan of the model.
fn check<A: AnyPacket>(live: &Live, model: &Model, (packets, lazy): &SamplePackets<A>) {
    let rules: Vec<Rule> = model.iter().map(|one| one.1.clone()).collect();
    let mut answers = vec![0; packets.len()];
    let mut batch_met = Matched::default();
    live.find_batch_lazy(packets, |place| lazy[place], &mut answers, &mut batch_met);
    let mut pairs = Vec::new();
    for (place, packet) in packets.iter().enumerate() {
        let lazy = |_| lazy[place];
        let expected = naive::scan(&rules, &Whole { packet, lazy, place });
        let mut matched = Vec::new();
        let found = live.find_lazy(packet, lazy, &mut matched);
        assert_eq!(found, (answers[place] != NO_RULE).then_some(answers[place]));
        let id = |slot: u32| live.id(slot).expect("a slot of this snapshot");
        assert_eq!(found.map(id), expected.rule.map(|rule| model[rule as usize].0));
        let names: Vec<RuleId> = matched.iter().map(|&slot| id(slot)).collect();
        let wanted: Vec<RuleId> =
            expected.matched.iter().map(|&rule| model[rule as usize].0).collect();
        assert_eq!(names, wanted);
        pairs.extend(matched.iter().map(|&slot| (place as u32, slot)));
    }
    assert_eq!(batch_met.pairs, pairs);
}

/// One random change of both.
fn change(random: &mut Random, live: &Live, model: &mut Model, kind: Kind, next: &mut u64) -> Live {
    if random.below(2) == 0 && !model.is_empty() {
        let place = random.below(model.len() as u64) as usize;
        return live.delete(model.remove(place).0).expect("it was there");
    }
    let mut rule = random_rule(random, kind);
    rule.conditions.sort_by_key(|condition| condition.field);
    let place = random.below(model.len() as u64 + 1) as usize;
    let before = model.get(place).map(|one| one.0);
    let id = RuleId(*next);
    *next += 1;
    model.insert(place, (id, rule.clone()));
    live.insert(id, rule, before).expect("a valid rule")
}

fn check_kind(kind: Kind, seeds: u64) {
    for seed in 0..seeds {
        let mut random = Random(seed * 977 + 5);
        let rules = random_rules(&mut random, kind);
        let graph = Candidate::Graph { split: Split::Narrower, leaf: 3, root_bits: 8 };
        let compiled = experiment(&rules, graph, 4 << 20)
            .or_else(|| experiment(&rules, Candidate::Tuples, 0))
            .expect("tuples are always built");
        let ids: Vec<RuleId> = (0..rules.list().len() as u64).map(RuleId).collect();
        let mut model: Model = ids.iter().copied().zip(rules.list().iter().cloned()).collect();
        let mut live = Live::new(Arc::new(compiled), ids);
        let mut next = 1000;
        let mut waiting = None;
        for turn in 0..30 {
            live = change(&mut random, &live, &mut model, kind, &mut next);
            match turn {
                12 => waiting = Some(live.snapshot()),
                // Compiled in the background while changes went on.
                20 => {
                    let snapshot = waiting.take().expect("taken at turn 12");
                    let compiled = experiment(&Arc::new(snapshot.rules), Candidate::Tuples, 0);
                    live = live.adopt(Arc::new(compiled.expect("always")), snapshot.ids);
                }
                _ => {}
            }
            let now = live.snapshot();
            assert_eq!(now.ids, model.iter().map(|one| one.0).collect::<Vec<_>>());
            let mut samples = Samples::new(&now.rules, seed + turn);
            match kind.family {
                Family::V4 => check(&live, &model, &draw(&mut samples, 70)),
                Family::V6 => check(&live, &model, &draw6(&mut samples, 70)),
            }
        }
    }
}

#[test]
fn changes_are_seen_at_once_and_in_their_order() {
    for family in [Family::V4, Family::V6] {
        for non_terminal in [false, true] {
            check_kind(Kind { family, count: 40, more_fields: false, non_terminal }, 12);
        }
    }
    check_kind(Kind { family: Family::V4, count: 30, more_fields: true, non_terminal: true }, 4);
}

#[test]
fn changes_of_what_is_not_there_are_refused() {
    let mut random = Random(3);
    let kind = Kind { family: Family::V4, count: 5, more_fields: false, non_terminal: false };
    let rules = random_rules(&mut random, kind);
    let ids: Vec<RuleId> = (0..rules.list().len() as u64).map(RuleId).collect();
    let compiled = experiment(&rules, Candidate::Tuples, 0).expect("always");
    let live = Live::new(Arc::new(compiled), ids);
    let rule = random_rule(&mut random, kind);
    assert_eq!(live.delete(RuleId(99)).err(), Some(ChangeError::Unknown(RuleId(99))));
    let taken = live.insert(RuleId(0), rule.clone(), None);
    assert_eq!(taken.err(), Some(ChangeError::Taken(RuleId(0))));
    let unknown = live.insert(RuleId(50), rule, Some(RuleId(99)));
    assert_eq!(unknown.err(), Some(ChangeError::Unknown(RuleId(99))));
    let gone = live.delete(RuleId(0)).expect("it is there");
    assert_eq!(gone.delete(RuleId(0)).err(), Some(ChangeError::Unknown(RuleId(0))));
    assert_eq!((gone.changes(), live.changes()), (1, 0));
}
