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
use super::{Effort, Finding, Kind, Report, location_of, names_of};
use crate::error::RulesError;
use crate::model::{RuleId, Ruleset, Verdict};
use crate::normal::{Conjunction, Effect, Field, Key, NormalForm, Options, Places};
use crate::packet::Family;

/// How many other rules a finding names.
const NAMED: usize = 8;

/// How many random points of an entry are tried first, and how many more where it is not plain
/// that its rule is of no use; only then comes the exact search.
const FIRST_POINTS: usize = 4;
const MORE_POINTS: usize = 12;

/// How many earlier entries are looked at for saying that they, and not later ones, make a rule
/// useless; it is useless either way.
const MANY: usize = 200;

/// The findings about a rule so far, over all its entries.
#[derive(Clone, Default)]
struct State {
    /// It became an entry at all.
    exists: bool,
    /// It meets packets that no earlier rule decides.
    decides: bool,
    /// Without it, some packet would fare otherwise.
    useful: bool,
    undecided: bool,
    /// The earlier entries that decide its packets.
    before: BTreeSet<RuleId>,
    /// One of them decides otherwise than the rule.
    differs: bool,
    /// The later entries that decide the same.
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
    let steps = Steps::new(effort.steps);
    let bases: Vec<String> =
        ruleset.base_chains().map(|id| ruleset.chain(id).name.clone()).collect();
    for base in bases {
        let Some(entered) = ruleset.clone().entered_by(&base) else { continue };
        for family in Family::BOTH {
            if ruleset.family().is_some_and(|only| only != family) {
                continue;
            }
            let options = Options { count_passes: true, fold_places: false, ..Options::default() };
            let form = NormalForm::build(&entered, family, places, options)?;
            let analysis = Analysis::new(&form, effort);
            for entry in 0..form.rules.len() {
                let state = &mut states[form.rules[entry].rule.index()];
                analysis.entry(entry, state, &steps);
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
    let mut add = |kind, message: String| {
        let origin = ruleset.rule(id).origin.clone();
        let message = format!("{message}{}", location_of(ruleset, id));
        report.findings.push(Finding { kind, rule: Some(id), origin, message });
    };
    let named = |rules: &BTreeSet<RuleId>| rules.iter().copied().take(NAMED).collect::<Vec<_>>();
    let lines = |rules: &BTreeSet<RuleId>, verb: &str, verb_of_one: &str| {
        let more = if rules.len() > NAMED { ", ..." } else { "" };
        let verb = if rules.len() == 1 { verb_of_one } else { verb };
        format!("{}{more} {verb}", names_of(ruleset, &named(rules)))
    };
    if !state.exists {
        add(Kind::Unreachable, "no packet can meet this rule".to_owned());
        return;
    }
    if state.useful {
        // Beside a rule that never counts there is no order to think of.
        for with in state.overlaps.iter().copied().filter(|with| states[with.index()].useful) {
            let other = names_of(ruleset, &[with]);
            let message =
                format!("overlaps with {other}, which decides otherwise: their order matters");
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
        let ends = matches!(self.form.rules[entry].effect, Effect::Decide(_) | Effect::Policy);
        ends && !self.is_guarded(entry)
    }

    /// Whether questions stand on the way to it, so that it may match nothing of its conditions.
    fn is_guarded(&self, entry: usize) -> bool {
        self.form.rules[entry].guards.is_some()
    }

    /// The decision of an entry; without one, of the policy.
    fn verdict(&self, entry: Option<usize>) -> &Verdict {
        match entry.map(|entry| &self.form.rules[entry].effect) {
            Some(Effect::Decide(verdict)) => verdict,
            _ => &self.form.policy,
        }
    }

    fn entry(&self, entry: usize, state: &mut State, steps: &Steps) {
        state.exists = true;
        self.overlaps(entry, state);
        // A jump or a note is of use as soon as it matches.
        if state.useful {
            return;
        }
        let mut points = Points::new(entry);
        if self.points_show_use(entry, FIRST_POINTS, &mut points, state) {
            return;
        }
        let after = After::new(self, entry);
        if after.all_same && (state.decides || self.many_before(entry)) {
            state.decides = true;
            state.after.extend(self.rule_of(after.end));
            return;
        }
        if !after.all_same && self.points_show_use(entry, MORE_POINTS, &mut points, state) {
            return;
        }
        steps.begin(self.effort.steps_for_each);
        if self.search(entry, &after, state, steps).is_err() {
            // Of no use either way, if later ones do the same; only by whom first is not known.
            state.decides |= after.all_same;
            state.undecided |= !after.all_same;
        }
        steps.end();
    }

    /// Whether this many earlier entries might decide parts of this one, and none all of it, that
    /// asking whether they leave anything is not worth its time.
    fn many_before(&self, entry: usize) -> bool {
        let (mut count, mut covered) = (0, false);
        let conditions = self.conditions(entry);
        self.candidates.scan(&bounds(conditions), 0..entry, |other| {
            covered = self.decides(other) && self.conditions(other).covers(conditions);
            count += usize::from(self.decides(other));
            covered
        });
        !covered && count > MANY
    }

    /// Tries random points of an entry: whether one shows that its rule is of use.
    fn points_show_use(
        &self,
        entry: usize,
        count: usize,
        points: &mut Points,
        state: &mut State,
    ) -> bool {
        let matters = matches!(self.form.rules[entry].effect, Effect::Decide(_));
        for _ in 0..count {
            let point = points.next(self.conditions(entry), self);
            if self.decided_before(entry, &point) {
                continue;
            }
            state.decides = true;
            if !matters || self.fares_otherwise(entry, &point) {
                state.useful = true;
                return true;
            }
        }
        false
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
        let may_do_the_same = self.is_guarded(other) && !self.differs(entry, Some(other));
        may_do_the_same
            || rules[other].effect == Effect::Pass
            || rules[other].rule == rules[entry].rule
    }

    /// Whether `other` (or the policy) does something else than `entry`: notes are something else.
    fn differs(&self, entry: usize, other: Option<usize>) -> bool {
        let notes = other.is_some_and(|other| self.form.rules[other].effect == Effect::Note);
        notes || self.verdict(Some(entry)) != self.verdict(other)
    }

    /// The exact search: is anything of the entry left by those before it, and would that fare
    /// otherwise without its rule?
    fn search(
        &self,
        entry: usize,
        after: &After,
        state: &mut State,
        steps: &Steps,
    ) -> Result<(), OutOfSteps> {
        let before = self.before(entry);
        let (mut left, mut useful, mut others) = (false, false, BTreeSet::new());
        let mut ran_out = false;
        let matters = matches!(self.form.rules[entry].effect, Effect::Decide(_));
        let walked =
            walk(self.form, self.conditions(entry), &before, steps, &mut |decider, part| {
                if decider.is_some() {
                    return true;
                }
                left = true;
                let same = match after.all_same {
                    true => return false,
                    false => walk(self.form, part, &after.entries, steps, &mut |decider, _| {
                        others.extend(self.rule_of(decider));
                        !self.differs(entry, decider)
                    }),
                };
                useful = !matters || matches!(same, Ok(false));
                ran_out = same.is_err();
                !useful && !ran_out
            });
        state.decides |= left;
        state.useful |= useful;
        if after.all_same {
            // Whatever comes before: without the rule nothing would change.
            state.after.extend(self.rule_of(after.end));
        }
        if ran_out {
            return Err(OutOfSteps);
        }
        walked?;
        state.after.extend(others);
        if !left {
            self.name_deciders(entry, before, state, steps)?;
        }
        Ok(())
    }

    /// The earlier entries that decide parts of this one: those that leave the fewest pieces
    /// first; one alone if it covers the whole.
    fn before(&self, entry: usize) -> Vec<usize> {
        let conditions = self.conditions(entry);
        let mut before = self.overlapping(entry, 0..entry, |other| self.decides(other));
        let covers = |other: &usize| self.conditions(*other).covers(conditions);
        if let Some(cover) = before.iter().position(covers) {
            before.truncate(cover + 1);
            before.reverse();
        } else {
            before.sort_by_key(|&other| (self.conditions(other).len(), other));
        }
        before
    }

    /// Notes who decides the parts of an entry that earlier ones decide whole.
    fn name_deciders(
        &self,
        entry: usize,
        mut before: Vec<usize>,
        state: &mut State,
        steps: &Steps,
    ) -> Result<(), OutOfSteps> {
        before.sort_unstable();
        let matters = matches!(self.form.rules[entry].effect, Effect::Decide(_));
        walk(self.form, self.conditions(entry), &before, steps, &mut |decider, _| {
            state.before.extend(self.rule_of(decider));
            state.differs |= !matters || self.verdict(decider) != self.verdict(Some(entry));
            true
        })?;
        Ok(())
    }

    fn rule_of(&self, entry: Option<usize>) -> Option<RuleId> {
        entry.map(|entry| self.form.rules[entry].rule)
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
        // Questions may keep them apart.
        if self.is_guarded(entry) {
            return;
        }
        let conditions = self.conditions(entry);
        self.candidates.scan(&bounds(conditions), 0..entry, |other| {
            let Effect::Decide(others) = &rules[other].effect else { return false };
            if self.is_guarded(other) {
                return false;
            }
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

/// What would have a part in the fate of an entry's packets if its rule were not there.
struct After {
    /// In order; the last one may cover all that is left.
    entries: Vec<usize>,
    /// The one that covers all, if there is one.
    end: Option<usize>,
    /// Whether each does what the entry does, so that no search is needed. Never for entries that
    /// are of use as soon as they match.
    all_same: bool,
}

impl After {
    fn new(analysis: &Analysis<'_>, entry: usize) -> After {
        if !matches!(analysis.form.rules[entry].effect, Effect::Decide(_)) {
            return After { entries: Vec::new(), end: None, all_same: false };
        }
        let conditions = analysis.conditions(entry);
        let range = entry + 1..analysis.form.rules.len();
        let (mut end, mut all_same) = (None, true);
        analysis.candidates.scan(&bounds(conditions), range.clone(), |other| {
            if analysis.is_transparent(entry, other) {
                return false;
            }
            let covers = analysis.decides(other) && analysis.conditions(other).covers(conditions);
            end = covers.then_some(other);
            // Those that do the same need not even overlap.
            let differs = analysis.differs(entry, Some(other));
            all_same = !differs || !analysis.conditions(other).overlaps(conditions);
            covers || !all_same
        });
        all_same &= !analysis.differs(entry, end);
        if all_same {
            return After { entries: Vec::new(), end, all_same };
        }
        let mut entries =
            analysis.overlapping(entry, range, |other| !analysis.is_transparent(entry, other));
        let covers = |other: &usize| {
            analysis.decides(*other) && analysis.conditions(*other).covers(conditions)
        };
        let cover = entries.iter().position(covers);
        entries.truncate(cover.map_or(entries.len(), |cover| cover + 1));
        After { entries, end, all_same }
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
