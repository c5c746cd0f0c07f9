//! The evaluator that everything else is compared with: rule by rule, chain by chain.
//!
//! For: being obviously right. Every faster form must give the same [`Outcome`].
//! Not for: speed.
//!
//! It walks the chains as they were written, asks each condition of the packet itself, and shares
//! no code with the normal form. A packet's mark is the one it came with: a ruleset that tests a
//! mark which it sets itself is refused when it is compiled (`normal`).
//!
//! Concurrency: pure. Cost: linear in the rules that are examined.

use std::net::IpAddr;

use crate::model::{Action, ChainId, Condition, Predicate, RuleId, Ruleset, Test, Verdict};
use crate::packet::Packet;

/// The contents of sets and places.
pub trait Sets {
    /// Whether the live set of this name holds the address; an unknown set holds none.
    fn contains(&self, set: &str, address: IpAddr) -> bool;

    /// Whether the predicate is true of the address (of its side, negation left out).
    fn is_at(&self, predicate: &Predicate, address: IpAddr) -> bool;
}

/// No live sets and no places: every one is empty.
#[derive(Clone, Copy, Debug)]
pub struct NoSets;

impl Sets for NoSets {
    fn contains(&self, _set: &str, _address: IpAddr) -> bool {
        false
    }

    fn is_at(&self, _predicate: &Predicate, _address: IpAddr) -> bool {
        false
    }
}

/// The outcome for a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The end of it.
    pub verdict: Verdict,
    /// The rule that decided; `None` when a policy did. A `return` from the chain that packets
    /// enter is a decision by that chain's policy.
    pub rule: Option<RuleId>,
    /// The log, mark and continue rules that matched before, in order.
    pub matched: Vec<RuleId>,
    /// The jump, goto and return rules that matched before, in order; the kernel counts them too.
    pub passed: Vec<RuleId>,
}

/// Evaluates a packet: the first rule that decides, and the rules that matched before.
///
/// A packet of a family that the ruleset is not about gets [`Verdict::Continue`].
pub fn evaluate(ruleset: &Ruleset, packet: &Packet<'_>, sets: &dyn Sets) -> Outcome {
    walk(ruleset, packet, sets, &mut |_, _| {})
}

/// Evaluates a packet and tells of each rule that was asked, in that order: its id and, unless
/// the packet meets it, which of its conditions is the first that does not hold.
pub fn walk(
    ruleset: &Ruleset,
    packet: &Packet<'_>,
    sets: &dyn Sets,
    asked: &mut dyn FnMut(RuleId, Option<usize>),
) -> Outcome {
    let mut outcome =
        Outcome { verdict: Verdict::Continue, rule: None, matched: Vec::new(), passed: Vec::new() };
    if ruleset.family().is_some_and(|family| family != packet.family()) {
        return outcome;
    }
    let mut callers: Vec<(ChainId, usize)> = Vec::new();
    let (mut chain, mut position) = (ruleset.entry(), 0);
    loop {
        let Some(&id) = ruleset.chain(chain).rules.get(position) else {
            match callers.pop() {
                Some(caller) => (chain, position) = caller,
                None => break,
            }
            continue;
        };
        position += 1;
        let rule = ruleset.rule(id);
        let unmet = |condition| !is_met(ruleset, condition, packet, sets);
        let unmet = rule.conditions.iter().position(unmet);
        asked(id, unmet);
        if unmet.is_some() {
            continue;
        }
        if let Some(verdict) = rule.action.verdict() {
            (outcome.verdict, outcome.rule) = (verdict, Some(id));
            return outcome;
        }
        if rule.action.is_noted() {
            outcome.matched.push(id);
            continue;
        }
        outcome.passed.push(id);
        match rule.action {
            Action::Jump(target) => {
                callers.push((chain, position));
                (chain, position) = (target, 0);
            }
            Action::Goto(target) => (chain, position) = (target, 0),
            _ => position = usize::MAX,
        }
    }
    if let Some(policy) = &ruleset.chain(ruleset.entry()).policy {
        outcome.verdict = policy.clone();
    }
    outcome
}

/// Whether the packet meets one condition.
pub fn is_met(
    ruleset: &Ruleset,
    condition: &Condition,
    packet: &Packet<'_>,
    sets: &dyn Sets,
) -> bool {
    if !condition.test.applies(packet) {
        return false;
    }
    let holds = match &condition.test {
        Test::Set(side, name) => {
            let address = side.address(packet);
            match ruleset.set_named(name).and_then(|set| set.elements.as_ref()) {
                Some(elements) => elements.iter().any(|element| element.contains(address)),
                None => sets.contains(name, address),
            }
        }
        Test::Place(predicate) => sets.is_at(predicate, predicate.side.address(packet)),
        test => test.holds_alone(packet).unwrap_or(false),
    };
    holds != condition.negated
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::classify::plan::Budget;
    use crate::compile::Matcher;
    use crate::random::{self, Random, Shape, World};

    #[test]
    fn what_a_walk_tells_is_what_the_compiled_form_decides() {
        let start = Instant::now();
        let budget = Budget { time: Duration::from_millis(2), ..Budget::default() };
        let (mut packets, mut unmet_told) = (0, 0);
        for seed in 1000..1100 {
            let mut random = Random::new(seed);
            let ruleset = random::ruleset(&mut random, Shape::FULL);
            let world = World::new(&mut random);
            let matcher = Matcher::build(&ruleset, &world, budget, &|| start.elapsed())
                .expect("no marks are set");
            for _ in 0..110 {
                let packet = random::packet(&mut random, Shape::FULL);
                let mut matched = Vec::new();
                walk(&ruleset, &packet, &world, &mut |id, unmet| {
                    let holds = |condition| is_met(&ruleset, condition, &packet, &world);
                    let conditions = &ruleset.rule(id).conditions;
                    let before = &conditions[..unmet.unwrap_or(conditions.len())];
                    assert!(before.iter().all(holds), "seed {seed} {id:?}");
                    match unmet {
                        Some(place) => assert!(!holds(&conditions[place]), "seed {seed} {id:?}"),
                        None => matched.push(id),
                    }
                    unmet_told += usize::from(unmet.is_some());
                });
                let found = matcher.find(&packet, &world);
                let decides = |id: &RuleId| ruleset.rule(*id).action.verdict().is_some();
                let last = matched.last().copied().filter(decides);
                assert_eq!(found.rule, last, "seed {seed} {packet:?}");
                matched.retain(|id| ruleset.rule(*id).action.is_noted());
                assert_eq!(found.matched, matched, "seed {seed} {packet:?}");
                packets += 1;
            }
        }
        assert!(packets >= 10_000 && unmet_told > 10_000, "{packets} {unmet_told}");
    }
}
