//! Takes the chains apart into one list.
//!
//! For: jump, goto, return and policies; the questions of rules on the way (`resolve`); the limit
//! on growth. Not for: single conditions (`lower`).
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
use crate::model::{Action, ChainId, RuleId, Ruleset, Side, Verdict};
use crate::packet::Family;
use crate::ranges::Ranges;
use crate::resolve::{Guard, Guards};

/// How many ranges, and how many steps, go with one allowed entry.
const RANGES_PER_ENTRY: usize = 16;
const STEPS_PER_ENTRY: usize = 64;

/// The packets that get to a rule: conditions, and questions that were answered on the way.
#[derive(Clone)]
struct Path {
    conditions: Conjunction,
    guards: Guards,
}

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
        visits: 0,
    };
    let mut policy = Verdict::Continue;
    let entry_rules = ruleset.chain(ruleset.entry()).rules.len();
    if concerned {
        flattening.chain(
            ruleset.entry(),
            vec![Path { conditions: Conjunction::always(), guards: None }],
            true,
        )?;
        if let Some(of_entry) = &ruleset.chain(ruleset.entry()).policy {
            policy = of_entry.clone();
        }
    }
    let FlattenState { lowering, mut entries, mut starts, .. } = flattening;
    let RuleLowering { mut domain, interfaces, bits, places, questions, .. } = lowering;
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
        questions: questions.map(|questions| Box::new(questions.into_owned())),
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
    /// How many rules with questions were visited.
    visits: u32,
}

impl FlattenState<'_> {
    /// Walks a chain for the packets of `paths`.
    fn chain(
        &mut self,
        id: ChainId,
        mut paths: Vec<Path>,
        is_entry: bool,
    ) -> Result<(), RulesError> {
        let ruleset = self.lowering.ruleset;
        for &rule_id in &ruleset.chain(id).rules {
            let rule = ruleset.rule(rule_id);
            if is_entry {
                self.starts.push(self.entries.len() as u32);
            }
            let own = self.lowering.rule(rule);
            let guard = self.guard(rule_id);
            let matched = self.both(&paths, &own, guard, id)?;
            if matched.is_empty() {
                continue;
            }
            if let Some(verdict) = rule.action.verdict() {
                self.push(matched, &Effect::Decide(verdict), rule_id, id)?;
                continue;
            }
            if rule.action.is_noted() {
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
                    self.leave(&mut paths, &own, matched, (rule_id, guard), id, is_entry)?;
                }
                _ => self.leave(&mut paths, &own, matched, (rule_id, guard), id, is_entry)?,
            }
            if paths.is_empty() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// That the questions of a rule hold, at a visit of its own; `None` for a rule without.
    fn guard(&mut self, rule: RuleId) -> Option<Guard> {
        let asks = self.lowering.questions.as_ref().is_some_and(|questions| questions.asks(rule));
        let guard = asks.then_some(Guard { visit: self.visits, rule, holds: true });
        self.visits += u32::from(asks);
        guard
    }

    /// The packets that match a path and one of a rule's conjunctions.
    fn both(
        &mut self,
        paths: &[Path],
        own: &[Conjunction],
        guard: Option<Guard>,
        chain: ChainId,
    ) -> Result<Vec<Path>, RulesError> {
        self.steps += paths.len() * own.len() + 1;
        self.check_limit(chain)?;
        let pairs = paths.iter().flat_map(|path| own.iter().map(move |one| (path, one)));
        let both = |(path, one): (&Path, &Conjunction)| {
            let conditions = path.conditions.intersect(one)?;
            Some(Path { conditions, guards: guarded(&path.guards, guard) })
        };
        Ok(pairs.filter_map(both).collect())
    }

    /// The packets that matched `own`, and for which the rule's questions hold, are done with this
    /// chain.
    fn leave(
        &mut self,
        paths: &mut Vec<Path>,
        own: &[Conjunction],
        matched: Vec<Path>,
        (rule, guard): (RuleId, Option<Guard>),
        chain: ChainId,
        is_entry: bool,
    ) -> Result<(), RulesError> {
        if is_entry {
            return self.push(matched, &Effect::Policy, rule, chain);
        }
        for one in own {
            let mut rest = Vec::new();
            for Path { conditions, guards } in paths.iter() {
                let pieces = conditions.subtract(one, &self.lowering.domain).into_iter();
                rest.extend(pieces.map(|conditions| Path { conditions, guards: guards.clone() }));
                self.steps += 1 + conditions.range_count() + one.range_count();
            }
            self.steps += rest.iter().map(|path| path.conditions.range_count()).sum::<usize>();
            *paths = rest;
            self.check_limit(chain)?;
        }
        // Those for which a question fails go on: their last guard is this rule's.
        let opposite = |Path { conditions, guards }: Path| {
            let mut guards = guards?.to_vec();
            guards.last_mut()?.holds = false;
            Some(Path { conditions, guards: Some(guards.into()) })
        };
        if guard.is_some() {
            paths.extend(matched.into_iter().filter_map(opposite));
        }
        Ok(())
    }

    fn push(
        &mut self,
        matched: Vec<Path>,
        effect: &Effect,
        rule: RuleId,
        chain: ChainId,
    ) -> Result<(), RulesError> {
        for Path { mut conditions, guards } in matched {
            if self.options.fold_places {
                let Some(folded) = self.lowering.folded(conditions) else { continue };
                conditions = folded;
            }
            self.ranges += conditions.range_count();
            self.steps += guards.as_ref().map_or(0, |guards| guards.len());
            self.entries.push(NormalRule { conditions, guards, effect: effect.clone(), rule });
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
}

/// One guard more.
fn guarded(guards: &Guards, guard: Option<Guard>) -> Guards {
    let Some(guard) = guard else { return guards.clone() };
    Some(guards.as_deref().unwrap_or_default().iter().copied().chain([guard]).collect())
}
