//! The evaluator that everything else is compared with: rule by rule, chain by chain.
//!
//! For: being obviously right. Every faster form must give the same [`Outcome`].
//! Not for: speed.
//!
//! It walks the chains as they were written, asks each condition of the packet itself, and shares
//! no code with the normal form. Where an answer is open (`truth`), it goes both ways and lists
//! what may decide; it ends when something decides whatever the answers are.
//!
//! Concurrency: pure. Cost: linear in the rules that are examined.

use std::net::IpAddr;

use crate::model::{
    Action, ChainId, Condition, Hook, Predicate, Rule, RuleId, Ruleset, Test, Verdict,
};
use crate::packet::Packet;
use crate::resolve::{self, Candidate};
use crate::truth::{self, Answer, Fwmark, Knowledge, fwmark_after};
use crate::unknown::{Fields, PacketField, PartlyKnown};

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
    /// The end of it; [`Verdict::Maybe`] if that depends on what the packet does not tell.
    pub verdict: Verdict,
    /// The rule that decided; `None` when a policy did. A `return` from the chain that packets
    /// enter is a decision by that chain's policy. Of several possible ones the first.
    pub rule: Option<RuleId>,
    /// The log, mark and continue rules that matched before, in order, for sure if the packet came
    /// so far.
    pub matched: Vec<RuleId>,
    /// The jump, goto and return rules that matched before, in order; the kernel counts them too.
    pub passed: Vec<RuleId>,
    /// Where the verdict is open: what may decide, in order. The last is what happens otherwise.
    pub possible: Vec<Possible>,
}

/// A decision that a packet may get.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Possible {
    /// The verdict.
    pub verdict: Verdict,
    /// The rule that decides; `None` for the policy.
    pub rule: Option<RuleId>,
    /// The rules on the way whose answer is open; none for what happens otherwise.
    pub depends: Vec<RuleId>,
}

/// How a rule stood to a packet when it was asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RuleAnswer {
    /// All of its conditions hold.
    Met,
    /// The condition of this index is the first that fails.
    Unmet(usize),
    /// The condition of this index is the first whose answer is open, and none fails.
    Open(usize),
}

/// Evaluates a packet: the first rule that decides, and the rules that matched before.
///
/// A packet of a family that the ruleset is not about gets [`Verdict::Continue`].
pub fn evaluate(ruleset: &Ruleset, packet: &Packet<'_>, sets: &dyn Sets) -> Outcome {
    walk(ruleset, packet, sets, &mut |_, _| {})
}

/// Evaluates a packet of which some fields are not known, whatever it has there: a verdict that all
/// packets get that it may be, or [`Verdict::Maybe`] with all that may decide.
pub fn evaluate_partly(
    ruleset: &Ruleset,
    packet: &Packet<'_>,
    unknown: Fields,
    sets: &dyn Sets,
) -> Outcome {
    walk_partly(ruleset, packet, unknown, sets, &mut |_, _| {})
}

/// Evaluates a packet and tells of each rule that was asked, in that order.
pub fn walk(
    ruleset: &Ruleset,
    packet: &Packet<'_>,
    sets: &dyn Sets,
    asked: &mut dyn FnMut(RuleId, RuleAnswer),
) -> Outcome {
    walk_partly(ruleset, packet, Fields::NONE, sets, asked)
}

fn walk_partly(
    ruleset: &Ruleset,
    packet: &Packet<'_>,
    unknown: Fields,
    sets: &dyn Sets,
    asked: &mut dyn FnMut(RuleId, RuleAnswer),
) -> Outcome {
    let unknown = unknown.with_those_of_fragment(packet);
    let entry = ruleset.chain(ruleset.entry());
    let is_foreign = ruleset.family().is_some_and(|family| family != packet.family());
    if is_foreign {
        return resolve::outcome(Vec::new(), false, &Verdict::Continue);
    }
    let mut walker = Walker {
        ruleset,
        packet,
        unknown,
        sets,
        asked,
        hook: entry.hook,
        mark: (!unknown.has(PacketField::Mark)).then_some(packet.mark),
        matched: Vec::new(),
        passed: Vec::new(),
        candidates: Vec::new(),
    };
    let mut way = Way::default();
    if unknown.has(PacketField::Destination) {
        way.knowledge.forget_destination();
    }
    let all_decided = walker.chain(ruleset.entry(), &mut way);
    let Walker { matched, passed, candidates, .. } = walker;
    let policy = entry.policy.clone().unwrap_or(Verdict::Continue);
    Outcome { matched, passed, ..resolve::outcome(candidates, all_decided, &policy) }
}

struct Walker<'w> {
    ruleset: &'w Ruleset,
    packet: &'w Packet<'w>,
    unknown: Fields,
    sets: &'w dyn Sets,
    asked: &'w mut dyn FnMut(RuleId, RuleAnswer),
    hook: Option<Hook>,
    mark: Fwmark,
    matched: Vec<RuleId>,
    passed: Vec<RuleId>,
    candidates: Vec<Candidate>,
}

/// How a packet may have come to a rule.
#[derive(Clone, Debug, Default)]
struct Way {
    /// The rules on it whose answer is open: that they were met, or were not.
    open: Vec<RuleId>,
    knowledge: Knowledge,
}

impl Walker<'_> {
    /// Walks a chain for all who come this way: whether all of them are decided, so that nobody
    /// comes back.
    fn chain(&mut self, id: ChainId, callers: &mut Way) -> bool {
        let ruleset = self.ruleset;
        let is_entry = id == ruleset.entry();
        // Once somebody may have left this chain, who goes on goes a way of this chain alone.
        let mut own: Option<Way> = None;
        let mut some_left = false;
        for &rule_id in &ruleset.chain(id).rules {
            let way = own.as_mut().unwrap_or(&mut *callers);
            let rule = ruleset.rule(rule_id);
            let mut met = way.clone();
            let answer = self.ask(rule_id, rule, &mut met.knowledge);
            if answer == Answer::Fails {
                continue;
            }
            let is_open = answer == Answer::Open;
            met.open.extend(is_open.then_some(rule_id));
            let is_sure = met.open.is_empty();
            if rule.action.is_noted() {
                self.mark = fwmark_after(self.mark, &rule.action, is_sure);
                self.matched.extend(is_sure.then_some(rule_id));
                continue;
            }
            if rule.action.verdict().is_none() {
                self.passed.extend(is_sure.then_some(rule_id));
            }
            let mut recorded = true;
            let mut decided = match rule.action {
                Action::Jump(target) | Action::Goto(target) => {
                    recorded = false;
                    self.chain(target, if is_open { &mut met } else { &mut *way })
                }
                Action::Return => false,
                _ => self.decide(rule.action.verdict(), Some(rule_id), &met),
            };
            let is_jump = matches!(rule.action, Action::Jump(_));
            if !decided && is_entry && !is_jump {
                // Who leaves the chain that packets enter gets the policy.
                decided = self.decide(None, None, &met);
                recorded = true;
            }
            match (is_open, is_jump) {
                (false, _) if decided => return !some_left,
                (false, false) => return false,
                (_, true) => {}
                _ if is_entry || rule.action.verdict().is_some() => {
                    // Who goes on did not match; with other open answers it may have been those.
                    if way.open.is_empty() && recorded {
                        self.assume_not(rule, &mut way.knowledge);
                    }
                }
                _ => {
                    some_left |= !decided;
                    let mut rest = way.clone();
                    self.assume_not(rule, &mut rest.knowledge);
                    rest.open.push(rule_id);
                    own = Some(rest);
                }
            }
        }
        false
    }

    fn decide(&mut self, verdict: Option<Verdict>, rule: Option<RuleId>, way: &Way) -> bool {
        self.candidates.push(Candidate { verdict, rule, depends: way.open.clone() });
        true
    }

    /// How a rule stands; `knowledge` becomes that of who meets it.
    fn ask(&mut self, id: RuleId, rule: &Rule, knowledge: &mut Knowledge) -> Answer {
        let mut open = None;
        for (condition, index) in rule.conditions.iter().zip(0..) {
            match self.ask_one(condition, knowledge) {
                Answer::Holds => {}
                Answer::Open => open = open.or(Some(index)),
                Answer::Fails => {
                    (self.asked)(id, RuleAnswer::Unmet(index));
                    return Answer::Fails;
                }
            }
        }
        (self.asked)(id, open.map_or(RuleAnswer::Met, RuleAnswer::Open));
        if open.is_some() { Answer::Open } else { Answer::Holds }
    }

    fn ask_one(&self, condition: &Condition, knowledge: &mut Knowledge) -> Answer {
        if let Some(answer) = knowledge.fields.ask(condition, self.known()) {
            return answer;
        }
        let is_mark = matches!(condition.test, Test::Mark { .. });
        if is_mark || condition.test.is_question() {
            return truth::ask(condition, self.packet, self.mark, knowledge, self.hook);
        }
        Answer::of(is_met(self.ruleset, condition, self.packet, self.sets))
    }

    /// What is known of those who did not match a rule whose answer is open.
    fn assume_not(&self, rule: &Rule, knowledge: &mut Knowledge) {
        let mut inside = knowledge.clone();
        let open: Vec<&Condition> = rule
            .conditions
            .iter()
            .filter(|condition| self.ask_one(condition, &mut inside) == Answer::Open)
            .collect();
        if let [open] = open.as_slice() {
            knowledge.fields.assume_failed(open, self.known());
        }
        truth::assume_failed(&open, self.packet, knowledge, self.hook);
    }

    fn known(&self) -> PartlyKnown<'_> {
        PartlyKnown { ruleset: self.ruleset, packet: self.packet, unknown: self.unknown }
    }
}

/// Whether the packet surely meets one condition.
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
        Test::Detail(_) | Test::Uncertain(_) => {
            let hook = ruleset.chain(ruleset.entry()).hook;
            let knowledge = &mut Knowledge::default();
            let answer = truth::ask(condition, packet, Some(packet.mark), knowledge, hook);
            return answer == Answer::Holds;
        }
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
                walk(&ruleset, &packet, &world, &mut |id, asked| {
                    let holds = |condition| is_met(&ruleset, condition, &packet, &world);
                    let conditions = &ruleset.rule(id).conditions;
                    let count = match asked {
                        RuleAnswer::Unmet(at) | RuleAnswer::Open(at) => at,
                        RuleAnswer::Met => conditions.len(),
                    };
                    let before = &conditions[..count];
                    assert!(before.iter().all(holds), "seed {seed} {id:?}");
                    match asked {
                        RuleAnswer::Unmet(at) => {
                            assert!(!holds(&conditions[at]), "seed {seed} {id:?}");
                        }
                        _ => matched.push(id),
                    }
                    unmet_told += usize::from(asked != RuleAnswer::Met);
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
