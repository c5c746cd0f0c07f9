//! From the entries that a packet matched to its outcome, where some have questions.
//!
//! For: rules whose conditions the classifier does not know whole. Such a rule is an entry that
//! never ends the search; here its questions (`truth`) are answered, in order. Not for: rulesets
//! without questions, whose entries are the outcome as they stand.
//!
//! ```text
//! matched entries    guards (questions of the rules on the way)    what becomes of it
//! ───────────────    ─────────────────────────────────────────     ──────────────────
//! f:3 drop           f:3 holds: Open                               may decide
//! f:9 accept         f:7 holds: Holds, f:9 holds: Fails            nothing
//! policy             none                                          decides
//! ```
//!
//! A guard names one call of one rule. Once something decides all packets of some open guards,
//! later entries with these guards are not reached.
//!
//! Invariants: equal to `naive`. Concurrency: plain data. Cost: linear in the matched entries,
//! their guards, and what may decide.

use std::collections::HashMap;
use std::sync::Arc;

use crate::model::{Action, Condition, Hook, RuleId, Ruleset, Test, Verdict};
use crate::naive::{Outcome, Possible};
use crate::normal::Effect;
use crate::packet::Packet;
use crate::truth::{Answer, Fwmark, Knowledge, ask_all, fwmark_after};

/// A rule on the way to an entry whose questions must all hold, or not all.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Guard {
    /// Which visit of the rule, when chains are taken apart.
    pub(crate) visit: u32,
    /// The rule with the questions.
    pub(crate) rule: RuleId,
    /// Whether they hold.
    pub(crate) holds: bool,
}

/// The guards of an entry, in the order of its way; most have none.
pub(crate) type Guards = Option<Arc<[Guard]>>;

/// The questions of a ruleset, by rule.
#[derive(Clone, Debug)]
pub(crate) struct Questions {
    of_rule: HashMap<RuleId, Vec<Condition>>,
    /// The actions that change marks, where rules test them afterwards.
    marks: HashMap<RuleId, Action>,
    hook: Option<Hook>,
    /// Whether tests of the mark are questions, since rules set it.
    has_marks: bool,
}

impl Questions {
    /// Those of a ruleset; `None` where all is in fields.
    pub(crate) fn of(ruleset: &Ruleset) -> Option<Questions> {
        let is_mark = |condition: &Condition| matches!(condition.test, Test::Mark { .. });
        let tests_mark = ruleset.rules().iter().any(|rule| rule.conditions.iter().any(is_mark));
        let has_marks =
            tests_mark && ruleset.rules().iter().any(|rule| rule.action.changes_fwmark());
        let (mut of_rule, mut marks) = (HashMap::new(), HashMap::new());
        for (rule, id) in ruleset.rules().iter().zip((0..).map(RuleId)) {
            let questions = rule.conditions.iter().filter(|one| is_question(&one.test, has_marks));
            let questions: Vec<Condition> = questions.cloned().collect();
            if !questions.is_empty() {
                of_rule.insert(id, questions);
            }
            if has_marks && rule.action.changes_fwmark() {
                marks.insert(id, rule.action.clone());
            }
        }
        let hook = ruleset.chain(ruleset.entry()).hook;
        let is_empty = of_rule.is_empty() && marks.is_empty();
        (!is_empty).then_some(Questions { of_rule, marks, hook, has_marks })
    }

    /// Whether a test is a question and no condition on a field.
    pub(crate) fn has(&self, test: &Test) -> bool {
        is_question(test, self.has_marks)
    }

    /// Whether a rule has questions.
    pub(crate) fn asks(&self, rule: RuleId) -> bool {
        self.of_rule.contains_key(&rule)
    }
}

fn is_question(test: &Test, has_marks: bool) -> bool {
    test.is_question() || has_marks && matches!(test, Test::Mark { .. })
}

/// What was matched so far.
pub(crate) struct Resolver<'q> {
    questions: &'q Questions,
    packet: &'q Packet<'q>,
    mark: Fwmark,
    /// The mark at the first look at each visit of a rule.
    marks_at: HashMap<u32, Fwmark>,
    knowledge: Knowledge,
    decisions: Decisions,
    matched: Vec<RuleId>,
    passed: Vec<RuleId>,
}

impl<'q> Resolver<'q> {
    pub(crate) fn new(questions: &'q Questions, packet: &'q Packet<'q>) -> Resolver<'q> {
        Resolver {
            questions,
            packet,
            mark: Some(packet.mark),
            marks_at: HashMap::new(),
            knowledge: Knowledge::default(),
            decisions: Decisions::default(),
            matched: Vec::new(),
            passed: Vec::new(),
        }
    }

    /// Takes the next entry that the packet matched; whether the search is over.
    pub(crate) fn entry(&mut self, rule: RuleId, effect: &Effect, guards: &Guards) -> bool {
        let guards = guards.as_deref().unwrap_or_default();
        let Some(open) = self.open(guards) else { return false };
        if self.decisions.are_over(&open) {
            return false;
        }
        let verdict = match effect {
            Effect::Decide(verdict) => Some((Some(verdict.clone()), Some(rule))),
            Effect::Policy => Some((None, None)),
            Effect::Note | Effect::Pass => None,
        };
        let Some((verdict, decider)) = verdict else {
            if let Some(action) = self.questions.marks.get(&rule) {
                self.mark = fwmark_after(self.mark, action, open.is_empty());
            }
            if open.is_empty() {
                let list =
                    if *effect == Effect::Note { &mut self.matched } else { &mut self.passed };
                list.push(rule);
            }
            return false;
        };
        let own = guards.last().filter(|own| own.rule == rule && open.last() == Some(own));
        if let (Some(own), 1) = (own, open.len()) {
            // Who comes further did not match this one.
            let questions = self.questions.of_rule.get(&own.rule).into_iter().flatten();
            let mark = self.marks_at.get(&own.visit).copied().unwrap_or(self.mark);
            let hook = self.questions.hook;
            ask_all(questions, false, self.packet, mark, &mut self.knowledge, hook);
        }
        let depends = open.iter().map(|guard| guard.rule).collect();
        let candidate = Candidate { verdict, rule: decider, depends };
        if own.is_some() && decider.is_some() {
            // Nobody else has this guard, so that no later entry is passed by for it.
            self.decisions.possible.push(candidate);
            return false;
        }
        self.decisions.add(candidate, open)
    }

    /// The guards that are open; `None` if one fails.
    fn open(&mut self, guards: &[Guard]) -> Option<Vec<Guard>> {
        let mut knowledge = self.knowledge.clone();
        let mut open = Vec::new();
        for guard in guards {
            let mark = *self.marks_at.entry(guard.visit).or_insert(self.mark);
            let questions = self.questions.of_rule.get(&guard.rule).into_iter().flatten();
            let hook = self.questions.hook;
            let answer = ask_all(questions, guard.holds, self.packet, mark, &mut knowledge, hook);
            match if guard.holds { answer } else { answer.negated() } {
                Answer::Holds => {}
                Answer::Fails => return None,
                Answer::Open => open.push(*guard),
            }
        }
        Some(open)
    }

    /// The outcome; who is left gets the policy.
    pub(crate) fn finish(self, policy: &Verdict) -> Outcome {
        let Resolver { decisions, matched, passed, .. } = self;
        let all_decided = decisions.are_over(&[]);
        let mut outcome = outcome(decisions.possible, all_decided, policy);
        (outcome.matched, outcome.passed) = (matched, passed);
        outcome
    }
}

/// What may decide a packet, in order, and on which ways nobody goes further.
#[derive(Debug, Default)]
struct Decisions {
    possible: Vec<Candidate>,
    /// Each: all that have these open answers is decided.
    over: Vec<Vec<Guard>>,
}

impl Decisions {
    /// Whether all that have these open answers was decided.
    fn are_over(&self, open: &[Guard]) -> bool {
        self.over.iter().any(|over| over.iter().all(|one| open.contains(one)))
    }

    /// Adds a decision about those with these open answers; whether all are decided now.
    fn add(&mut self, decision: Candidate, open: Vec<Guard>) -> bool {
        self.possible.push(decision);
        let mut waiting = vec![open];
        while let Some(next) = waiting.pop() {
            // Decided with an answer and with its opposite: decided without.
            for one in &next {
                let opposite = Guard { holds: !one.holds, ..*one };
                let fits =
                    |other: &Guard| *other == opposite || other != one && next.contains(other);
                let meets = |over: &Vec<Guard>| over.contains(&opposite) && over.iter().all(fits);
                if self.over.iter().any(meets) {
                    let without = next.iter().filter(|kept| *kept != one);
                    waiting.push(without.copied().collect());
                }
            }
            if !self.are_over(&next) {
                self.over.push(next);
            }
        }
        self.are_over(&[])
    }
}

/// A decision that may come, before the policy is filled in.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// The verdict; `None` for the policy's.
    pub(crate) verdict: Option<Verdict>,
    /// The rule that decides; `None` for the policy.
    pub(crate) rule: Option<RuleId>,
    /// The rules whose questions are open.
    pub(crate) depends: Vec<RuleId>,
}

/// The outcome of what may decide, in order; the policy comes last unless all are decided. The
/// rules that were matched on the way are left out.
pub(crate) fn outcome(candidates: Vec<Candidate>, all_decided: bool, policy: &Verdict) -> Outcome {
    let of_policy = Candidate { verdict: None, rule: None, depends: Vec::new() };
    let all = candidates.into_iter().chain((!all_decided).then_some(of_policy));
    let mut possible: Vec<Possible> = all
        .map(|Candidate { verdict, rule, depends }| Possible {
            verdict: verdict.unwrap_or_else(|| policy.clone()),
            rule,
            depends,
        })
        .collect();
    let last = possible.last().expect("something decides all, or the policy comes last");
    let (mut verdict, mut rule) = (last.verdict.clone(), last.rule);
    if possible.iter().all(|one| one.verdict == verdict) {
        possible.clear();
    } else {
        (verdict, rule) = (Verdict::Maybe, possible[0].rule);
    }
    Outcome { verdict, rule, matched: Vec::new(), passed: Vec::new(), possible }
}
