//! Takes the chains apart into one list.
//!
//! For: jump, goto, return and policies; the check of marks that a rule sets and a later one
//! tests; the limit on growth.
//! Not for: single conditions (`lower`).
//!
//! A chain is walked with the conjunctions under which packets get there (its *paths*, which
//! exclude each other):
//!
//! ```text
//! paths P                      rule c -> verdict   entries P and c
//!                              rule c -> jump T    walk T with paths P and c; P stays
//!                              rule c -> goto T    the same; then P becomes P without c
//!                              rule c -> return    P becomes P without c
//! ```
//!
//! Packets that T decides never come back, since T's entries stand before what follows. In the
//! entry chain, which nobody returns to, `return` is an entry that lets the policy decide.
//!
//! Invariants: entries stand in the order in which the chains would be walked.
//! Concurrency: none. Cost: linear in the entries and in paths times rules; both are limited.

use std::collections::HashSet;

use super::conjunction::Conjunction;
use super::lower::RuleLowering;
use super::places::{self, PlaceTable, Places};
use super::{Effect, NormalForm, NormalRule, Options};
use crate::classify::SETS;
use crate::error::RulesError;
use crate::layout::{Layout, PlacesAre};
use crate::model::{Action, ChainId, Origin, Rule, RuleId, Ruleset, Side, Test, Verdict};
use crate::packet::Family;
use crate::ranges::Ranges;

/// How many ranges, and how many steps, go with one allowed entry.
const RANGES_PER_ENTRY: usize = 16;
const STEPS_PER_ENTRY: usize = 64;

/// How many pairs of setting and testing a mark are looked at one by one.
const MARK_PAIRS_LIMIT: usize = 1 << 22;

pub(super) fn flatten(
    ruleset: &Ruleset,
    family: Family,
    places: &dyn Places,
    options: Options,
) -> Result<NormalForm, RulesError> {
    let lowering = RuleLowering::new(ruleset, family, places)?;
    let concerned = ruleset.family().is_none_or(|only| only == family);
    let mut flattening = FlattenState {
        lowering,
        options,
        entries: Vec::new(),
        starts: Vec::new(),
        ranges: 0,
        steps: 0,
        marks: Vec::new(),
        mark_pairs: 0,
    };
    let mut policy = Verdict::Continue;
    let entry_rules = ruleset.chain(ruleset.entry()).rules.len();
    if concerned {
        flattening.chain(ruleset.entry(), vec![Conjunction::always()], true)?;
        if let Some(of_entry) = &ruleset.chain(ruleset.entry()).policy {
            policy = of_entry.clone();
        }
    }
    let FlattenState { lowering, mut entries, mut starts, .. } = flattening;
    let RuleLowering { mut domain, interfaces, bits, places, .. } = lowering;
    if bits.len() > usize::from(SETS) {
        let at = &ruleset.chain(ruleset.entry()).origin;
        let message = format!(
            "found {} different sets and marks to be looked at, with their sides; allowed are {SETS}",
            bits.len(),
        );
        return Err(RulesError::one(&at.file, at.line, 0, message));
    }
    starts.resize(entry_rules + 1, entries.len() as u32);
    let (interfaces, mut places) = (interfaces.into_owned(), places.into_owned());
    for ((side, table), largest) in
        Side::BOTH.into_iter().zip(&mut places).zip(&mut domain.largest_place)
    {
        finish(table, side, &mut entries);
        *largest = table.largest();
    }
    let layout = Layout::of(&entries, bits.len(), PlacesAre::Lazy);
    Ok(NormalForm {
        family,
        rules: entries,
        starts,
        policy,
        domain,
        interfaces,
        bits,
        places,
        layout,
    })
}

/// Makes a table of what the entries tell apart, and gives their conditions its numbers.
fn finish(table: &mut PlaceTable, side: Side, entries: &mut [NormalRule]) {
    let fields = places::fields(side);
    let asked = fields.map(|field| -> HashSet<Ranges> {
        entries.iter().filter_map(|entry| entry.conditions.get(field)).cloned().collect()
    });
    let renumbered = table.finish(&asked);
    for entry in entries {
        for (field, others) in fields.iter().zip(&renumbered) {
            entry.conditions.replace(*field, others);
        }
    }
}

struct FlattenState<'r> {
    lowering: RuleLowering<'r>,
    options: Options,
    entries: Vec<NormalRule>,
    /// Where the entries of each rule of the entry chain begin.
    starts: Vec<u32>,
    ranges: usize,
    steps: usize,
    /// The rules that set bits of the mark so far, with their conditions.
    marks: Vec<(Conjunction, u32, Origin)>,
    mark_pairs: usize,
}

impl FlattenState<'_> {
    /// Walks a chain for the packets of `paths`.
    fn chain(
        &mut self,
        id: ChainId,
        mut paths: Vec<Conjunction>,
        is_entry: bool,
    ) -> Result<(), RulesError> {
        let ruleset = self.lowering.ruleset;
        for &rule_id in &ruleset.chain(id).rules {
            let rule = ruleset.rule(rule_id);
            if is_entry {
                self.starts.push(self.entries.len() as u32);
            }
            self.check_mark(rule, &paths)?;
            let own = self.lowering.rule(rule, |_| true);
            let matched = self.both(&paths, &own, id)?;
            if matched.is_empty() {
                continue;
            }
            if let Some(verdict) = rule.action.verdict() {
                self.push(matched, &Effect::Decide(verdict), rule_id, id)?;
                continue;
            }
            if rule.action.is_noted() {
                if let Action::SetMark { value, mask } = rule.action {
                    let bits = value | mask;
                    let set = matched.iter().map(|one| (one.clone(), bits, rule.origin.clone()));
                    self.marks.extend(set);
                }
                self.push(matched, &Effect::Note, rule_id, id)?;
                continue;
            }
            if self.options.count_passes {
                self.push(matched.clone(), &Effect::Pass, rule_id, id)?;
            }
            match rule.action {
                Action::Jump(target) => self.chain(target, matched, false)?,
                Action::Goto(target) => {
                    self.chain(target, matched.clone(), false)?;
                    self.leave(&mut paths, &own, matched, rule_id, id, is_entry)?;
                }
                _ => self.leave(&mut paths, &own, matched, rule_id, id, is_entry)?,
            }
            if paths.is_empty() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The packets that match a path and one of a rule's conjunctions.
    fn both(
        &mut self,
        paths: &[Conjunction],
        own: &[Conjunction],
        chain: ChainId,
    ) -> Result<Vec<Conjunction>, RulesError> {
        self.steps += paths.len() * own.len() + 1;
        self.check_limit(chain)?;
        let pairs = paths.iter().flat_map(|path| own.iter().map(move |one| (path, one)));
        Ok(pairs.filter_map(|(path, one)| path.intersect(one)).collect())
    }

    /// The packets that matched `own` are done with this chain.
    fn leave(
        &mut self,
        paths: &mut Vec<Conjunction>,
        own: &[Conjunction],
        matched: Vec<Conjunction>,
        rule: RuleId,
        chain: ChainId,
        is_entry: bool,
    ) -> Result<(), RulesError> {
        if is_entry {
            return self.push(matched, &Effect::Policy, rule, chain);
        }
        for one in own {
            let mut rest = Vec::new();
            for path in paths.iter() {
                rest.extend(path.subtract(one, &self.lowering.domain));
                self.steps += 1 + path.range_count() + one.range_count();
            }
            self.steps += rest.iter().map(Conjunction::range_count).sum::<usize>();
            *paths = rest;
            self.check_limit(chain)?;
        }
        Ok(())
    }

    fn push(
        &mut self,
        matched: Vec<Conjunction>,
        effect: &Effect,
        rule: RuleId,
        chain: ChainId,
    ) -> Result<(), RulesError> {
        for mut conditions in matched {
            if self.options.fold_places {
                let Some(folded) = self.lowering.folded(conditions) else { continue };
                conditions = folded;
            }
            self.ranges += conditions.range_count();
            self.entries.push(NormalRule { conditions, effect: effect.clone(), rule });
        }
        self.check_limit(chain)
    }

    fn check_limit(&self, chain: ChainId) -> Result<(), RulesError> {
        let limit = self.options.entries_limit;
        let too_much = self.entries.len() > limit
            || self.ranges > limit.saturating_mul(RANGES_PER_ENTRY)
            || self.steps > limit.saturating_mul(STEPS_PER_ENTRY);
        if !too_much {
            return Ok(());
        }
        let chain = self.lowering.ruleset.chain(chain);
        let message = format!(
            "chain {:?} grows too large when jumps and returns are taken apart: allowed are {limit} \
             rules in all (fewer conditions on return rules, or fewer calls of it, would help)",
            chain.name
        );
        Err(RulesError::one(&chain.origin.file, chain.origin.line, 0, message))
    }

    /// Refuses a test of mark bits that an earlier rule may have changed for the same packet.
    fn check_mark(&mut self, rule: &Rule, paths: &[Conjunction]) -> Result<(), RulesError> {
        let tested = rule.conditions.iter().fold(0, |bits, condition| match condition.test {
            Test::Mark { mask, .. } => bits | mask,
            _ => bits,
        });
        if tested == 0 || self.marks.iter().all(|(_, bits, _)| bits & tested == 0) {
            return Ok(());
        }
        // The rule without its test of the mark: the packets that would be asked.
        let asked = self.lowering.rule(rule, |test| !matches!(test, Test::Mark { .. }));
        for one in paths.iter().flat_map(|path| asked.iter().filter_map(|a| a.intersect(path))) {
            for (setter, bits, at) in &self.marks {
                self.mark_pairs += 1;
                let meets = self.mark_pairs > MARK_PAIRS_LIMIT || setter.overlaps(&one);
                if bits & tested != 0 && meets {
                    let message = format!(
                        "found a test of the mark that the rule at {at} sets: allowed is a test \
                         of bits that no earlier rule sets"
                    );
                    let place = &rule.origin;
                    return Err(RulesError::one(&place.file, place.line, 0, message));
                }
            }
        }
        Ok(())
    }
}
