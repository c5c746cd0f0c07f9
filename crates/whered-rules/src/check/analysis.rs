//! Which rules are unreachable, shadowed, redundant or overlapping.
//!
//! For: the judgement of every rule over all entries that it became, in all chains that packets
//! enter and both families.
//! Not for: geometry (`regions`) or finding candidates (`candidates`).
//!
//! ```text
//! each entry:  a few points of it ─ not decided before? ─> it decides something
//!                                                          those points without it: another
//!                                                          outcome? ─> it is useful: done
//!              else exact: walk it through the overlapping entries before and after it
//! ```
//!
//! A rule is useless when all its entries are, so that one useful entry ends the matter.
//!
//! Invariants: see [`super`].
//! Concurrency: none. Cost: see [`super`].

use std::collections::BTreeSet;

use super::candidates::{Candidates, bounds, bounds_of_key};
use super::regions::{OutOfSteps, Steps, walk};
use super::{Effort, Finding, Kind, Report};
use crate::error::RulesError;
use crate::model::{RuleId, Ruleset, Verdict};
use crate::normal::{Conjunction, Effect, Field, Key, NormalForm, Options, Places};
use crate::packet::Family;

/// How many other rules a finding names.
const NAMED: usize = 8;

/// How many random points of an entry are tried before the exact search.
const POINTS: usize = 4;

/// What is known of a rule so far, over all its entries.
#[derive(Clone, Default)]
struct State {
    /// It became an entry at all.
    exists: bool,
    /// It meets packets that no earlier rule decides.
    decides: bool,
    /// Without it, some packet would fare otherwise.
    useful: bool,
    undecided: bool,
    /// Who decides what it could meet, before it.
    before: BTreeSet<RuleId>,
    /// One of them decides otherwise than the rule.
    differs: bool,
    /// Who would decide the same after it.
    after: BTreeSet<RuleId>,
    overlaps: BTreeSet<RuleId>,
}

/// Judges all rules.
pub(super) fn rules(
    ruleset: &Ruleset,
    places: &dyn Places,
    effort: Effort,
) -> Result<Report, RulesError> {
    let mut states = vec![State::default(); ruleset.rules().len()];
    let mut steps = Steps::new(effort.steps);
    let bases: Vec<String> =
        ruleset.base_chains().map(|id| ruleset.chain(id).name.clone()).collect();
    for base in bases {
        let Some(entered) = ruleset.clone().entered_by(&base) else { continue };
        for family in Family::BOTH {
            if ruleset.family().is_some_and(|only| only != family) {
                continue;
            }
            let options = Options { count_passes: true, ..Options::default() };
            let form = NormalForm::build(&entered, family, places, options)?;
            let analysis = Analysis::new(&form, effort);
            for entry in 0..form.rules.len() {
                let state = &mut states[form.rules[entry].rule.index()];
                analysis.entry(entry, state, &mut steps);
            }
        }
    }
    let mut report = Report::default();
    for index in 0..states.len() {
        judge(ruleset, RuleId(index as u32), &states, &mut report);
    }
    Ok(report)
}

/// Turns what is known of a rule into findings.
fn judge(ruleset: &Ruleset, id: RuleId, states: &[State], report: &mut Report) {
    let state = &states[id.index()];
    let mut add = |kind, message| {
        let origin = ruleset.rule(id).origin.clone();
        report.findings.push(Finding { kind, rule: Some(id), origin, message });
    };
    let named = |rules: &BTreeSet<RuleId>| rules.iter().copied().take(NAMED).collect::<Vec<_>>();
    let lines = |rules: &BTreeSet<RuleId>, verb: &str, verb_of_one: &str| {
        let shown: Vec<String> =
            rules.iter().take(NAMED).map(|&id| ruleset.rule(id).origin.line.to_string()).collect();
        let more = if rules.len() > NAMED { ", ..." } else { "" };
        let (word, verb) = if rules.len() == 1 { ("line", verb_of_one) } else { ("lines", verb) };
        format!("{word} {}{more} {verb}", shown.join(", "))
    };
    if !state.exists {
        add(Kind::Unreachable, "no packet can meet this rule".to_owned());
        return;
    }
    if state.useful {
        // Beside a rule that never counts there is no order to think of.
        for with in state.overlaps.iter().copied().filter(|with| states[with.index()].useful) {
            let line = ruleset.rule(with).origin.line;
            let message =
                format!("overlaps with line {line}, which decides otherwise: their order matters");
            add(Kind::Overlap { with }, message);
        }
        return;
    }
    if state.undecided {
        report.undecided += 1;
        return;
    }
    if !state.decides {
        let by = named(&state.before);
        let lines = lines(&state.before, "decide", "decides");
        if state.differs {
            let message = format!("never met: {lines} first, and otherwise");
            add(Kind::Shadowed { by }, message);
        } else {
            let message = format!("changes nothing: {lines} first, and the same");
            add(Kind::Redundant { by }, message);
        }
    } else if state.after.is_empty() {
        add(Kind::Redundant { by: Vec::new() }, "changes nothing: the policy does the same".into());
    } else {
        let message =
            format!("changes nothing: without it {} the same", lines(&state.after, "do", "does"));
        add(Kind::Redundant { by: named(&state.after) }, message);
    }
}

struct Analysis<'f> {
    form: &'f NormalForm,
    candidates: Candidates,
    /// Every field that any entry asks for.
    fields: Vec<Field>,
    effort: Effort,
}

impl<'f> Analysis<'f> {
    fn new(form: &'f NormalForm, effort: Effort) -> Analysis<'f> {
        let conditions = form.rules.iter().flat_map(|entry| entry.conditions.iter());
        let fields: BTreeSet<Field> = conditions.map(|(field, _)| *field).collect();
        let fields = fields.into_iter().collect();
        Analysis { form, candidates: Candidates::new(form), fields, effort }
    }

    fn conditions(&self, entry: usize) -> &Conjunction {
        &self.form.rules[entry].conditions
    }

    fn decides(&self, entry: usize) -> bool {
        matches!(self.form.rules[entry].effect, Effect::Decide(_) | Effect::Policy)
    }

    /// What an entry decides; the policy for none.
    fn verdict(&self, entry: Option<usize>) -> &Verdict {
        match entry.map(|entry| &self.form.rules[entry].effect) {
            Some(Effect::Decide(verdict)) => verdict,
            _ => &self.form.policy,
        }
    }

    fn entry(&self, entry: usize, state: &mut State, steps: &mut Steps) {
        state.exists = true;
        self.overlaps(entry, state);
        // A jump or a note is of use as soon as it is met.
        let matters = matches!(self.form.rules[entry].effect, Effect::Decide(_));
        if state.useful || (state.decides && !matters) {
            state.useful |= !matters;
            return;
        }
        let mut points = Points::new(entry);
        for _ in 0..POINTS {
            let point = points.next(self.conditions(entry), self);
            if self.decided_before(entry, &point) {
                continue;
            }
            state.decides = true;
            if !matters || self.fares_otherwise(entry, &point) {
                state.useful = true;
                return;
            }
        }
        steps.begin(self.effort.steps_for_each);
        let found = if matters {
            self.search(entry, state, steps)
        } else {
            self.search_decided(entry, state, steps).map(|left| state.useful |= !left.is_empty())
        };
        state.undecided |= found.is_err();
        steps.end();
    }

    /// Whether an earlier entry decides this single point.
    fn decided_before(&self, entry: usize, point: &Key) -> bool {
        let mut decided = false;
        self.candidates.scan(&bounds_of_key(point), 0..entry, |other| {
            decided = self.decides(other) && point.meets(self.conditions(other));
            decided
        });
        decided
    }

    /// Whether this point, which `entry` decides, would fare otherwise without its rule.
    fn fares_otherwise(&self, entry: usize, point: &Key) -> bool {
        let mut otherwise = None;
        let range = entry + 1..self.form.rules.len();
        self.candidates.scan(&bounds_of_key(point), range, |other| {
            if self.is_transparent(entry, other) || !point.meets(self.conditions(other)) {
                return false;
            }
            otherwise = Some(self.differs(entry, Some(other)));
            true
        });
        otherwise.unwrap_or_else(|| self.differs(entry, None))
    }

    /// Whether `other` has no part in what would happen without the rule of `entry`.
    fn is_transparent(&self, entry: usize, other: usize) -> bool {
        let rules = &self.form.rules;
        rules[other].effect == Effect::Pass || rules[other].rule == rules[entry].rule
    }

    /// Whether `other` (or the policy) does something else than `entry`: notes are something else.
    fn differs(&self, entry: usize, other: Option<usize>) -> bool {
        let notes = other.is_some_and(|other| self.form.rules[other].effect == Effect::Note);
        notes || self.verdict(Some(entry)) != self.verdict(other)
    }

    /// The exact search for an entry with a verdict: would all of it fare the same without its
    /// rule; and if not, would all that earlier entries leave of it?
    fn search(&self, entry: usize, state: &mut State, steps: &mut Steps) -> Result<(), OutOfSteps> {
        let conditions = self.conditions(entry);
        let range = entry + 1..self.form.rules.len();
        let mut after = self.overlapping(entry, range, |other| !self.is_transparent(entry, other));
        // Nothing gets past an entry that covers this one and decides.
        let covers =
            |other: &usize| self.decides(*other) && self.conditions(*other).covers(conditions);
        let cover = after.iter().position(covers);
        after.truncate(cover.map_or(after.len(), |cover| cover + 1));
        let end = cover.map(|cover| after[cover]);
        let all_same = !after.iter().any(|&other| self.differs(entry, Some(other)))
            && !self.differs(entry, end);
        let left = self.search_decided(entry, state, steps);
        if all_same {
            // That is an answer even if what comes before took too many steps.
            state.decides |= left.map_or(true, |left| !left.is_empty());
            state.after.extend(self.is_after(end));
            return Ok(());
        }
        let left = left?;
        state.decides |= !left.is_empty();
        for part in left {
            let same = walk(self.form, &part, &after, steps, &mut |decider, _| {
                if self.differs(entry, decider) {
                    return false;
                }
                state.after.extend(self.is_after(decider));
                true
            })?;
            if !same {
                state.useful = true;
                return Ok(());
            }
        }
        Ok(())
    }

    fn is_after(&self, decider: Option<usize>) -> Option<RuleId> {
        decider.map(|decider| self.form.rules[decider].rule)
    }

    /// What earlier entries leave of this one; if nothing, notes who decides it.
    fn search_decided(
        &self,
        entry: usize,
        state: &mut State,
        steps: &mut Steps,
    ) -> Result<Vec<Conjunction>, OutOfSteps> {
        let conditions = self.conditions(entry);
        let mut before = self.overlapping(entry, 0..entry, |other| self.decides(other));
        let covers = |other: &usize| self.conditions(*other).covers(conditions);
        let cover = before.iter().position(covers);
        before.truncate(cover.map_or(before.len(), |cover| cover + 1));
        let mut left = Vec::new();
        if cover.is_none() {
            // The widest first: they leave the fewest pieces.
            let mut widest = before.clone();
            widest.sort_by_key(|&other| (self.conditions(other).len(), other));
            walk(self.form, conditions, &widest, steps, &mut |decider, part| {
                if decider.is_none() {
                    left.push(part.clone());
                }
                true
            })?;
        }
        if left.is_empty() {
            let matters = matches!(self.form.rules[entry].effect, Effect::Decide(_));
            walk(self.form, conditions, &before, steps, &mut |decider, _| {
                state.before.extend(self.is_after(decider));
                state.differs |= !matters || self.verdict(decider) != self.verdict(Some(entry));
                true
            })?;
        }
        Ok(left)
    }

    /// The entries in `range` that overlap with this one and that `fits` takes, in order.
    fn overlapping(
        &self,
        entry: usize,
        range: std::ops::Range<usize>,
        fits: impl Fn(usize) -> bool,
    ) -> Vec<usize> {
        let conditions = self.conditions(entry);
        let mut found = Vec::new();
        self.candidates.scan(&bounds(conditions), range, |other| {
            if fits(other) && self.conditions(other).overlaps(conditions) {
                found.push(other);
            }
            false
        });
        found
    }

    /// Earlier rules with another verdict that meet some of the same packets, where neither is
    /// inside the other.
    fn overlaps(&self, entry: usize, state: &mut State) {
        let rules = &self.form.rules;
        let most = self.effort.overlaps_for_each;
        let Effect::Decide(verdict) = &rules[entry].effect else { return };
        if state.overlaps.len() >= most {
            return;
        }
        let conditions = self.conditions(entry);
        self.candidates.scan(&bounds(conditions), 0..entry, |other| {
            let Effect::Decide(others) = &rules[other].effect else { return false };
            let differs = others != verdict && rules[other].rule != rules[entry].rule;
            let other_conditions = self.conditions(other);
            if differs
                && other_conditions.overlaps(conditions)
                && !other_conditions.covers(conditions)
                && !conditions.covers(other_conditions)
            {
                state.overlaps.insert(rules[other].rule);
            }
            state.overlaps.len() >= most
        });
    }
}

/// Random single packets of a conjunction; always the same ones.
struct Points(u64);

impl Points {
    fn new(entry: usize) -> Points {
        Points((entry as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A point: one number in every field that any rule asks for.
    fn next(&mut self, conditions: &Conjunction, analysis: &Analysis<'_>) -> Key {
        let form = analysis.form;
        let mut point = form.empty_key();
        for &field in &analysis.fields {
            let all = [(0, form.domain.largest(field))];
            let ranges = conditions.get(field).map_or(&all[..], crate::Ranges::as_slice);
            let (first, last) = ranges[self.number() as usize % ranges.len()];
            let wide = u128::from(self.number()) << 64 | u128::from(self.number());
            let offset = (last - first).checked_add(1).map_or(wide, |count| wide % count);
            point.set(field, first + offset);
        }
        point
    }
}
