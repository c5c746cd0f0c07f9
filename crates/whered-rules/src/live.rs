//! A compiled ruleset whose rules come and go while packets are matched: chains, rule numbers and
//! counters. Below it, `classify::Live` keeps one family's compiled base and overlay.
//!
//! For: [`LiveRules`], one immutable state; a change makes the next one in microseconds, and
//! readers keep theirs. Not for: sharing it among threads (the owner swaps a pointer), nor for
//! which change is allowed and where a rule stands (`model::edit`, the authoritative ruleset).
//!
//! ```text
//! written   the ruleset that was compiled, with the numbers of its rules
//! matcher   its normal form and classifier, one a family
//! changes   rules of the entry chain: taken out (a bit for each of their entries),
//!           put in (compiled anew as a whole at each change, some dozens)
//! ```
//!
//! What a rule of the entry chain becomes does not depend on its neighbours: whatever goes on
//! before it, every packet that no rule has decided asks it. So taking one out deletes its own
//! entries (those of chains that it calls, too), and putting one in adds entries before its
//! neighbour's. In a chain that is called, a rule has entries for each call, and `return` changes
//! those of the rules behind it: there, and where a rule asks for something that has no number yet,
//! or calls a chain, or concerns marks that others set, [`LiveRules::changed`] gives `None`, and
//! the ruleset is compiled anew.
//!
//! Invariants: [`LiveRules::find`] equals `naive::evaluate` on the draft's ruleset. A *tally* is
//! the number of a counter: 0 for packets that no rule decides, then one for each rule; a rule that
//! is put in gets one that was never another's in this compilation. Cost: a change compiles what
//! was put in, 20 to 90 µs with up to 128 rules; a lookup pays for the overlay only if there is
//! one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::classify::lazy::LazyFields;
use crate::classify::plan::Budget;
use crate::classify::{self, AnyPacket, Live, Matched, NO_RULE};
use crate::compile::{Matcher, classified};
use crate::error::RulesError;
use crate::model::{Action, Rule, RuleId, Ruleset, Spot, Test, Verdict};
use crate::naive::{self, Outcome, Sets};
use crate::normal::{Effect, NormalForm, Places};
use crate::packet::{Family, Packet};
use crate::packets::{Classifier, classify_all, classify_one};

/// The decision about a packet, by rule numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decision {
    /// The end of it.
    pub verdict: Verdict,
    /// The rule that decided; `None` when a policy did.
    pub rule: Option<u32>,
    /// The log, mark and continue rules that matched before, in order.
    pub matched: Vec<u32>,
}

/// One change, as it was made in the draft.
#[derive(Clone, Debug)]
pub enum Change {
    /// A rule was put in.
    Insert {
        /// Its number.
        number: u32,
        /// Where it stands.
        spot: Spot,
        /// The rule.
        rule: Arc<Rule>,
    },
    /// A rule was taken out.
    Delete {
        /// Its number.
        number: u32,
    },
    /// A rule has another's place and number.
    Replace {
        /// The number.
        number: u32,
        /// The new rule.
        rule: Arc<Rule>,
    },
}

/// The compiled rules.
#[derive(Debug)]
struct WrittenRules {
    ruleset: Arc<Ruleset>,
    /// By the ids of its rules.
    numbers: Vec<u32>,
    /// By number: the id, and the position in the entry chain.
    places: HashMap<u32, (u32, Option<u32>)>,
    tests_marks: bool,
    sets_marks: bool,
}

/// A rule put in since.
#[derive(Debug)]
struct InsertedRule {
    number: u32,
    tally: u32,
    /// The position in the compiled entry chain that it comes before.
    before: u32,
    rule: Arc<Rule>,
    effect: Effect,
    lowered: [Vec<classify::Rule>; 2],
}

/// A ruleset as it is now.
#[derive(Clone, Debug)]
pub struct LiveRules {
    written: Arc<WrittenRules>,
    matcher: Arc<Matcher>,
    /// Positions of the compiled entry chain whose rules are gone.
    deleted: Arc<[u32]>,
    inserted: Arc<[Arc<InsertedRule>]>,
    /// For each overlay slot of a family, whose it is in `inserted`.
    owners: [Arc<[u32]>; 2],
    lives: [Live; 2],
    next_tally: u32,
}

impl LiveRules {
    /// Compiles a ruleset whose rules have these numbers.
    ///
    /// # Errors
    ///
    /// Those of [`Matcher::build`].
    ///
    /// # Panics
    ///
    /// When there are not as many numbers as rules.
    pub fn build(
        ruleset: &Arc<Ruleset>,
        numbers: Vec<u32>,
        places: &dyn Places,
        budget: Budget,
        clock: &dyn Fn() -> Duration,
    ) -> Result<LiveRules, RulesError> {
        assert_eq!(numbers.len(), ruleset.rules().len(), "a number for each rule");
        let matcher = Arc::new(Matcher::build(ruleset, places, budget, clock)?);
        let lives = Family::BOTH.map(|family| {
            let compiled = Arc::clone(matcher.of(family).planner.compiled());
            let count = compiled.rules().list().len() as u64;
            Live::new(compiled, (0..count).map(classify::RuleId).collect())
        });
        let next_tally = numbers.len() as u32 + 1;
        Ok(LiveRules {
            written: Arc::new(WrittenRules::new(Arc::clone(ruleset), numbers)),
            matcher,
            deleted: Arc::new([]),
            inserted: Arc::new([]),
            owners: [Arc::new([]), Arc::new([])],
            lives,
            next_tally,
        })
    }

    /// The ruleset that was compiled, without the changes since; its chains and sets are still so.
    pub fn compiled_ruleset(&self) -> &Arc<Ruleset> {
        &self.written.ruleset
    }

    /// The compilation.
    pub fn matcher(&self) -> &Matcher {
        &self.matcher
    }

    /// Changes since the compilation.
    pub fn changes(&self) -> usize {
        self.deleted.len() + self.inserted.len()
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.written.numbers.len() + self.inserted.len() - self.deleted.len()
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many tallies were given.
    pub fn tallies(&self) -> u32 {
        self.next_tally
    }

    /// The bytes that the compiled forms take.
    pub fn memory_bytes(&self) -> usize {
        self.lives.iter().map(Live::memory_bytes).sum()
    }

    /// The rules as they are now, and their numbers by their ids. Costs a copy of all.
    pub fn to_ruleset(&self) -> (Ruleset, Vec<u32>) {
        let old = &self.written.ruleset;
        let numbers = |ids: &[RuleId]| -> Vec<u32> {
            ids.iter().map(|id| self.written.numbers[id.index()]).collect()
        };
        let mut chains: Vec<Vec<u32>> =
            old.chains().iter().map(|chain| numbers(&chain.rules)).collect();
        let entry = std::mem::take(&mut chains[old.entry().index()]);
        let list = &mut chains[old.entry().index()];
        let mut inserted = self.inserted.iter().peekable();
        for (position, number) in (0..=entry.len() as u32).zip(entry.iter().map(Some).chain([None]))
        {
            while let Some(one) = inserted.next_if(|one| one.before <= position) {
                list.push(one.number);
            }
            let is_there = self.deleted.binary_search(&position).is_err();
            list.extend(number.filter(|_| is_there));
        }
        let rule = |number: u32| self.rule(number).expect("it was just listed").clone();
        old.with_rules(&chains, rule)
    }

    /// The rule of a number.
    pub fn rule(&self, number: u32) -> Option<&Rule> {
        if let Some(found) = self.inserted.iter().find(|one| one.number == number) {
            return Some(&found.rule);
        }
        let (id, _) = self.alive(number)?;
        self.written.ruleset.rules().get(id as usize)
    }

    /// Number and tally of each rule, in no order.
    pub fn tally_of_rules(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let old = self.written.numbers.iter().zip(1..);
        let old = old.filter(|(number, _)| self.alive(**number).is_some());
        let new = self.inserted.iter().map(|one| (one.number, one.tally));
        old.map(|(number, tally)| (*number, tally)).chain(new)
    }

    /// The ruleset after a change; `None` when only a new compilation can apply it.
    pub fn changed(&self, change: &Change) -> Option<LiveRules> {
        if self.matcher.families.iter().any(|family| family.form.questions.is_some()) {
            return None;
        }
        let mut next = self.clone();
        match change {
            Change::Insert { number, spot, rule } => {
                if spot.chain != self.written.ruleset.entry() {
                    return None;
                }
                let (index, before) = self.place_before(spot.next)?;
                next.put_in(index, before, *number, rule)?;
            }
            Change::Delete { number } => next.take_out(*number)?,
            Change::Replace { number, rule } => {
                let (index, before) = self.place_before(Some(*number))?;
                next.take_out(*number)?;
                next.put_in(index, before, *number, rule)?;
            }
        }
        next.compile_changes(self)?;
        Some(next)
    }

    /// The ruleset with a compilation that was planned further.
    ///
    /// # Panics
    ///
    /// When it is a compilation of another ruleset.
    pub fn with_plan(&self, matcher: Matcher) -> LiveRules {
        let [v4, v6] = Family::BOTH;
        let form = |side: usize, family| {
            self.lives[side].with_form(Arc::clone(matcher.of(family).planner.compiled()))
        };
        let lives = [form(0, v4), form(1, v6)];
        LiveRules { lives, matcher: Arc::new(matcher), ..self.clone() }
    }

    /// The decision for one packet; `count` gets the tally of each rule that it matched, and 0 when
    /// none decided.
    pub fn find(
        &self,
        packet: &Packet<'_>,
        sets: &dyn Sets,
        mut count: impl FnMut(u32),
    ) -> Decision {
        let mut matched = Vec::new();
        let slot = classify_one(self, packet, sets, &mut matched);
        self.decision(side_of(packet.family()), slot, &matched, packet, &mut count)
    }

    /// The decision for one packet as [`naive`] makes it, counted as [`find`](LiveRules::find)
    /// counts: for packets that the compiled forms cannot tell apart. Costs a copy of the ruleset.
    pub fn walk(
        &self,
        packet: &Packet<'_>,
        sets: &dyn Sets,
        mut count: impl FnMut(u32),
    ) -> Decision {
        let (ruleset, numbers) = self.to_ruleset();
        let tallies: HashMap<u32, u32> = self.tally_of_rules().collect();
        let outcome = naive::evaluate(&ruleset, packet, sets);
        let mut number = |id: RuleId, counts: bool| {
            let number = numbers[id.index()];
            if counts && let Some(&tally) = tallies.get(&number) {
                count(tally);
            }
            number
        };
        let is_sure = outcome.verdict != Verdict::Maybe;
        let matched = outcome.matched.into_iter().map(|id| number(id, true)).collect();
        let rule = outcome.rule.map(|id| number(id, is_sure));
        let is_concerned = ruleset.family().is_none_or(|only| only == packet.family());
        if rule.is_none() && is_sure && is_concerned {
            count(0);
        }
        Decision { verdict: outcome.verdict, rule, matched }
    }

    /// The fates of packets, in order; `count` is told the packet's place, too.
    pub fn find_batch(
        &self,
        packets: &[Packet<'_>],
        sets: &dyn Sets,
        mut count: impl FnMut(usize, u32),
    ) -> Vec<Decision> {
        let mut decisions: Vec<Option<Decision>> = vec![None; packets.len()];
        classify_all(self, packets, sets, |family, place, slot, matched| {
            let mut count = |tally| count(place, tally);
            decisions[place] =
                Some(self.decision(side_of(family), slot, matched, &packets[place], &mut count));
        });
        decisions.into_iter().flatten().collect()
    }

    #[inline]
    fn decision(
        &self,
        side: usize,
        slot: u32,
        matched: &[u32],
        packet: &Packet<'_>,
        count: &mut impl FnMut(u32),
    ) -> Decision {
        if self.matcher.of(Family::BOTH[side]).form.questions.is_some() {
            return self.resolved(side, slot, matched, packet, count);
        }
        let number_of_matched = |slot: &u32| {
            let (_, tally, number) = self.entry(side, *slot);
            count(tally);
            number
        };
        let matched = matched.iter().map(number_of_matched).collect();
        if slot != NO_RULE {
            let (effect, tally, number) = self.entry(side, slot);
            count(tally);
            if let Effect::Decide(verdict) = effect {
                return Decision { verdict: verdict.clone(), rule: Some(number), matched };
            }
        }
        let family = Family::BOTH[side];
        // Packets that the ruleset is not about are left alone, and not counted.
        if self.written.ruleset.family().is_none_or(|only| only == family) {
            count(0);
        }
        Decision { verdict: self.matcher.of(family).form.policy.clone(), rule: None, matched }
    }

    /// The decision where rules have questions; a verdict that is open counts for nobody.
    fn resolved(
        &self,
        side: usize,
        slot: u32,
        matched: &[u32],
        packet: &Packet<'_>,
        count: &mut impl FnMut(u32),
    ) -> Decision {
        let form = &self.matcher.of(Family::BOTH[side]).form;
        let slots = matched.iter().chain([&slot]);
        let entries = slots.filter_map(|&slot| form.rules.get(slot as usize));
        let Outcome { verdict, rule, matched, .. } = form.outcome(entries, packet);
        let mut number = |id: RuleId, counts: bool| {
            if counts {
                count(id.0 + 1);
            }
            self.written.numbers[id.index()]
        };
        let matched = matched.into_iter().map(|id| number(id, true)).collect();
        let rule = rule.map(|id| number(id, verdict != Verdict::Maybe));
        let is_concerned =
            self.written.ruleset.family().is_none_or(|only| only == Family::BOTH[side]);
        if rule.is_none() && is_concerned && verdict != Verdict::Maybe {
            count(0);
        }
        Decision { verdict, rule, matched }
    }

    /// The effect of a slot, its tally and its rule's number.
    #[inline]
    fn entry(&self, side: usize, slot: u32) -> (&Effect, u32, u32) {
        let form = &self.matcher.of(Family::BOTH[side]).form;
        match form.rules.get(slot as usize) {
            Some(entry) => {
                let number = self.written.numbers[entry.rule.index()];
                (&entry.effect, entry.rule.0 + 1, number)
            }
            None => {
                let owner = self.owners[side][slot as usize - form.rules.len()];
                let one = &self.inserted[owner as usize];
                (&one.effect, one.tally, one.number)
            }
        }
    }

    /// Id and entry position of a compiled rule that is not gone.
    fn alive(&self, number: u32) -> Option<(u32, Option<u32>)> {
        let found = self.written.places.get(&number).copied()?;
        let is_gone = |position: u32| self.deleted.binary_search(&position).is_ok();
        (!found.1.is_some_and(is_gone)).then_some(found)
    }

    /// Where a rule stands that comes right before another one, or last: its index among those put
    /// in, and the compiled position that it comes before.
    fn place_before(&self, next: Option<u32>) -> Option<(usize, u32)> {
        let entry = &self.written.ruleset.chain(self.written.ruleset.entry()).rules;
        let Some(number) = next else {
            return Some((self.inserted.len(), entry.len() as u32));
        };
        if let Some(index) = self.inserted.iter().position(|one| one.number == number) {
            return Some((index, self.inserted[index].before));
        }
        let position = self.alive(number)?.1?;
        Some((self.inserted.partition_point(|one| one.before <= position), position))
    }

    fn take_out(&mut self, number: u32) -> Option<()> {
        if let Some(index) = self.inserted.iter().position(|one| one.number == number) {
            let mut inserted = self.inserted.to_vec();
            inserted.remove(index);
            self.inserted = inserted.into();
            return Some(());
        }
        let position = self.alive(number)?.1?;
        let mut deleted = self.deleted.to_vec();
        deleted.insert(deleted.partition_point(|one| *one < position), position);
        self.deleted = deleted.into();
        Some(())
    }

    fn put_in(&mut self, index: usize, before: u32, number: u32, rule: &Arc<Rule>) -> Option<()> {
        let effect = match &rule.action {
            Action::Jump(_) | Action::Goto(_) => return None,
            Action::Return => Effect::Policy,
            action => action.verdict().map_or(Effect::Note, Effect::Decide),
        };
        if self.concerns_marks_of_others(rule) {
            return None;
        }
        let ruleset = &self.written.ruleset;
        let lower = |family: Family| -> Option<Vec<classify::Rule>> {
            if ruleset.family().is_some_and(|only| only != family) {
                return Some(Vec::new());
            }
            let form = &self.matcher.of(family).form;
            let lowered = form.lower(ruleset, rule)?;
            lowered.iter().map(|one| classified(form, one, &effect)).collect()
        };
        let [v4, v6] = Family::BOTH;
        let lowered = [lower(v4)?, lower(v6)?];
        let (rule, tally) = (Arc::clone(rule), self.next_tally);
        let one = InsertedRule { number, tally, before, rule, effect, lowered };
        let mut inserted = self.inserted.to_vec();
        inserted.insert(index, Arc::new(one));
        self.inserted = inserted.into();
        self.next_tally += 1;
        Some(())
    }

    /// Whether it sets marks and others test any, or the other way round.
    fn concerns_marks_of_others(&self, rule: &Rule) -> bool {
        let others = || self.inserted.iter().map(|one| &*one.rule);
        let set = || self.written.sets_marks || others().any(sets_mark);
        let tested = || self.written.tests_marks || others().any(tests_mark);
        (sets_mark(rule) && tested()) || (tests_mark(rule) && set())
    }

    /// Brings the classifiers to what `deleted` and `inserted` say.
    fn compile_changes(&mut self, before: &LiveRules) -> Option<()> {
        for side in 0..2 {
            let starts = &self.matcher.of(Family::BOTH[side]).form.starts;
            let mut live = self.lives[side].clone();
            if self.deleted != before.deleted {
                let of_position = |&at: &u32| starts[at as usize]..starts[at as usize + 1];
                live = live.with_deleted(self.deleted.iter().flat_map(of_position));
            }
            let of_side = |rules: &LiveRules| -> Vec<u32> {
                let listed = rules.inserted.iter().filter(|one| !one.lowered[side].is_empty());
                listed.map(|one| one.tally).collect()
            };
            let (mut rules, mut owners) = (Vec::new(), Vec::new());
            for (one, owner) in self.inserted.iter().zip(0..) {
                for rule in &one.lowered[side] {
                    let id = classify::RuleId(u64::MAX - rules.len() as u64);
                    rules.push((id, starts[one.before as usize], rule.clone()));
                    owners.push(owner);
                }
            }
            self.owners[side] = owners.into();
            // What is put in for one family costs the other one nothing.
            if of_side(self) != of_side(before) {
                live = live.with_inserted(rules).ok()?;
            }
            self.lives[side] = live;
        }
        Some(())
    }
}

impl WrittenRules {
    fn new(ruleset: Arc<Ruleset>, numbers: Vec<u32>) -> WrittenRules {
        let entry = ruleset.entry();
        let mut places: HashMap<u32, (u32, Option<u32>)> =
            numbers.iter().zip(0..).map(|(number, id)| (*number, (id, None))).collect();
        for (id, position) in ruleset.chain(entry).rules.iter().zip(0..) {
            places.insert(numbers[id.index()], (id.0, Some(position)));
        }
        let (tests_marks, sets_marks) =
            (ruleset.rules().iter().any(tests_mark), ruleset.rules().iter().any(sets_mark));
        WrittenRules { ruleset, numbers, places, tests_marks, sets_marks }
    }
}

fn sets_mark(rule: &Rule) -> bool {
    matches!(rule.action, Action::SetMark { .. })
}

fn tests_mark(rule: &Rule) -> bool {
    rule.conditions.iter().any(|condition| matches!(condition.test, Test::Mark { .. }))
}

impl Classifier for LiveRules {
    fn form(&self, family: Family) -> &NormalForm {
        &self.matcher.of(family).form
    }

    #[inline]
    fn find_packet<A: AnyPacket>(
        &self,
        family: Family,
        packet: &A,
        lazy: impl LazyFields,
        matched: &mut Vec<u32>,
    ) -> u32 {
        self.lives[side_of(family)].find_lazy(packet, lazy, matched).unwrap_or(NO_RULE)
    }

    fn find_packets<A: AnyPacket>(
        &self,
        family: Family,
        packets: &[A],
        lazy: impl LazyFields,
        slots: &mut [u32],
        matched: &mut Matched,
    ) {
        self.lives[side_of(family)].find_batch_lazy(packets, lazy, slots, matched);
    }
}

fn side_of(family: Family) -> usize {
    match family {
        Family::Ipv4 => 0,
        Family::Ipv6 => 1,
    }
}

#[cfg(test)]
#[path = "live_tests.rs"]
mod tests;
