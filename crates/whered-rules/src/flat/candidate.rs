//! Rules that a lookup may decide, with what the planner asks of them.
//!
//! For: which conditions become the key of a lookup and which stay in front of it; whether two
//! rules can meet the same packet. Not for: the order of lookups (`layers`).
//!
//! ```text
//! in eth0 src 10.0.0.0/8 proto tcp dport {22 80} accept
//! └ guard ┘└───────────── key: two boxes ───────┘└ outcome
//! ```
//!
//! Invariants: a packet meets the rule exactly if the guard's conditions hold and it is in one of
//! the boxes of its family. Boxes of one rule exclude each other.
//! Concurrency: plain data. Cost: linear in the ranges of a rule.

use std::collections::HashMap;

use crate::error::RulesError;
use crate::model::{Action, ChainId, Condition, Rule, RuleId, Ruleset, Side, Test};
use crate::nft::{condition_choices, families, protocol_choices};
use crate::normal::{Conjunction, Domain, Field, RuleConditions};
use crate::packet::Family;
use crate::ranges::Ranges;

/// The fields of keys, in their order.
pub(super) const KEY_FIELDS: [Field; 5] =
    [Field::Source, Field::Destination, Field::Protocol, Field::SourcePort, Field::DestinationPort];

/// How many elements one rule may take in a map of several fields.
const ELEMENTS_OF_RULE: usize = 256;

/// Some of [`KEY_FIELDS`], a bit each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, PartialOrd, Ord)]
pub(super) struct KeyFields(u8);

impl KeyFields {
    pub(super) fn of(boxes: &[Conjunction]) -> KeyFields {
        let used = |field: &Field| boxes.iter().any(|one| one.get(*field).is_some());
        let bits = KEY_FIELDS.iter().zip(0..).filter(|(field, _)| used(field));
        KeyFields(bits.fold(0, |sum, (_, bit)| sum | 1 << bit))
    }

    pub(super) fn iter(self) -> impl Iterator<Item = Field> {
        KEY_FIELDS.into_iter().zip(0..).filter(move |(_, bit)| self.0 >> bit & 1 == 1).map(|p| p.0)
    }

    pub(super) fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    pub(super) fn and(self, other: KeyFields) -> KeyFields {
        KeyFields(self.0 | other.0)
    }

    pub(super) fn has_addresses(self) -> bool {
        self.0 & 0b11 != 0
    }

    pub(super) fn has_ports(self) -> bool {
        self.0 & 0b1_1000 != 0
    }

    pub(super) fn has(self, field: Field) -> bool {
        self.iter().any(|one| one == field)
    }

    /// The ports that tests ask for, whatever they allow: a test of all ports fails where none can
    /// be read.
    fn of_ports(conditions: &[Condition]) -> KeyFields {
        let sides = conditions.iter().filter_map(|condition| match &condition.test {
            Test::Port(side, _) => Some(*side),
            _ => None,
        });
        KeyFields(sides.fold(0, |sum, side| match side {
            Side::Source => sum | 0b1000,
            Side::Destination => sum | 0b1_0000,
        }))
    }

    pub(super) fn without_ports(self) -> KeyFields {
        KeyFields(self.0 & 0b111)
    }
}

/// The end of a packet's way through a lookup.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Outcome {
    pub(super) action: Action,
    /// Distinguishes rules that are to be counted apart.
    pub(super) counted: Option<RuleId>,
}

impl Outcome {
    /// Whether the packet comes back and goes on with later rules.
    pub(super) fn comes_back(&self) -> bool {
        matches!(self.action, Action::Jump(_))
    }

    /// Whether it leaves the chain in a way that depends on where the lookup stands.
    pub(super) fn leaves(&self) -> bool {
        matches!(self.action, Action::Return | Action::Goto(_))
    }
}

/// The kind of lookup that suits a rule.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum LookupKind {
    /// One value in each of these fields.
    Exact(KeyFields),
    /// Ranges of one field.
    Interval(Field),
    /// Ranges of several fields.
    Concatenation,
    /// A rule of its own.
    Alone(&'static str),
}

/// The smallest range that holds all of a rule's values, by field.
type Bounds = [(u128, u128); KEY_FIELDS.len()];

/// One rule, or several neighbours that one element list can stand for.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) rules: Vec<RuleId>,
    pub(super) outcome: Outcome,
    /// The number of its guard.
    pub(super) guard: usize,
    pub(super) kind: LookupKind,
    /// Everything it asks, by family.
    full: [Vec<Conjunction>; 2],
    /// What it asks of key fields, by family.
    pub(super) boxes: [Vec<Conjunction>; 2],
    /// The key fields that it asks for, those included of which it takes all values.
    fields: KeyFields,
    bounds: [Option<Bounds>; 2],
}

impl Candidate {
    /// Whether some packet may meet both.
    pub(super) fn overlaps(&self, other: &Candidate) -> bool {
        Family::BOTH.iter().enumerate().any(|(at, _)| {
            let (Some(a), Some(b)) = (&self.bounds[at], &other.bounds[at]) else { return false };
            a.iter().zip(b).all(|(a, b)| a.0 <= b.1 && b.0 <= a.1)
                && self.full[at]
                    .iter()
                    .any(|one| other.full[at].iter().any(|two| one.overlaps(two)))
        })
    }

    /// The smallest range that holds what it asks of a key field; `None` if it meets nothing of
    /// the family.
    pub(super) fn range(&self, family: usize, field: usize) -> Option<(u128, u128)> {
        self.bounds[family].map(|bounds| bounds[field])
    }

    pub(super) fn fields(&self) -> KeyFields {
        self.fields
    }

    /// Whether it asks for the protocol, where it meets IPv6 packets. Those whose extension headers
    /// cannot be read have none, and a key that has the protocol would miss them.
    pub(super) fn asks_protocol(&self) -> bool {
        self.boxes[1].is_empty() || self.fields.has(Field::Protocol)
    }

    pub(super) fn meets_nothing(&self) -> bool {
        self.full.iter().all(Vec::is_empty)
    }

    /// Takes a neighbour's values, which have one field in common and the same outcome.
    pub(super) fn merge(&mut self, other: &Candidate, field: Field, domains: [&Domain; 2]) {
        self.rules.extend(&other.rules);
        for (at, domain) in domains.into_iter().enumerate() {
            let whole = [(0, domain.largest(field))];
            let values = |boxes: &[Conjunction]| -> Vec<(u128, u128)> {
                let all = boxes.iter();
                all.flat_map(|one| one.get(field).map_or(&whole[..], Ranges::as_slice).to_vec())
                    .collect()
            };
            let mut all = values(&self.boxes[at]);
            all.extend(values(&other.boxes[at]));
            if all.is_empty() {
                continue;
            }
            let ranges = Ranges::new(all);
            let rest = self.full[at].first().or(other.full[at].first()).cloned();
            let rest = rest.unwrap_or_default().without(field);
            self.full[at] = rest.and(field, &ranges, domain).into_iter().collect();
            self.boxes[at] =
                Conjunction::always().and(field, &ranges, domain).into_iter().collect();
            self.bounds[at] = bounds_of(&self.full[at], domain);
        }
    }

    /// How many elements its boxes are.
    pub(super) fn element_count(&self) -> usize {
        self.boxes.iter().flatten().map(elements_of).max().unwrap_or(0)
    }
}

/// How many elements a box becomes.
pub(super) fn elements_of(one: &Conjunction) -> usize {
    one.iter().map(|(_, ranges)| ranges.as_slice().len()).fold(1, usize::saturating_mul)
}

fn bounds_of(boxes: &[Conjunction], domain: &Domain) -> Option<Bounds> {
    if boxes.is_empty() {
        return None;
    }
    Some(KEY_FIELDS.map(|field| {
        let ends = |one: &Conjunction| match one.get(field).map(Ranges::as_slice) {
            Some([first, .., last]) => (first.0, last.1),
            Some([only]) => *only,
            _ => (0, domain.largest(field)),
        };
        let all = boxes.iter().map(ends);
        all.fold((u128::MAX, 0), |(low, high), (first, last)| (low.min(first), high.max(last)))
    }))
}

/// Makes candidates of rules.
pub(super) struct Maker<'r> {
    ruleset: &'r Ruleset,
    conditions: [RuleConditions<'r>; 2],
    counters: bool,
    /// The numbers of guards, by their texts for both families.
    guards: HashMap<[String; 2], usize>,
    /// The texts of each guard, by family.
    pub(super) texts: Vec<[String; 2]>,
}

impl<'r> Maker<'r> {
    pub(super) fn new(ruleset: &'r Ruleset, counters: bool) -> Result<Maker<'r>, RulesError> {
        let [v4, v6] = Family::BOTH;
        Ok(Maker {
            ruleset,
            conditions: [RuleConditions::of(ruleset, v4)?, RuleConditions::of(ruleset, v6)?],
            counters,
            guards: HashMap::new(),
            texts: Vec::new(),
        })
    }

    pub(super) fn domains(&self) -> [&Domain; 2] {
        [self.conditions[0].domain(), self.conditions[1].domain()]
    }

    /// The candidate of a rule whose action a lookup can take.
    pub(super) fn candidate(&mut self, id: RuleId) -> Candidate {
        let rule = self.ruleset.rule(id);
        let (key, guard): (Vec<Condition>, Vec<Condition>) =
            rule.conditions.iter().cloned().partition(|condition| is_of_key(&condition.test));
        let ports = KeyFields::of_ports(&key);
        let key = Rule { conditions: key, ..rule.clone() };
        let concerned = families(self.ruleset);
        let of_families = |rule: &Rule| {
            [0, 1].map(|at| match concerned.contains(&Family::BOTH[at]) {
                true => self.conditions[at].rule(rule),
                false => Vec::new(),
            })
        };
        let (full, mut boxes) = (of_families(rule), of_families(&key));
        for (boxes, full) in boxes.iter_mut().zip(&full) {
            if full.is_empty() {
                boxes.clear();
            }
        }
        let fields = KeyFields::of(&boxes[0]).and(KeyFields::of(&boxes[1])).and(ports);
        let bounds = [0, 1].map(|at| bounds_of(&full[at], self.conditions[at].domain()));
        let counted = self.counters.then_some(id);
        let outcome = Outcome { action: rule.action.clone(), counted };
        let rules = vec![id];
        let kind = LookupKind::Concatenation;
        let mut candidate =
            Candidate { rules, outcome, guard: 0, kind, full, boxes, fields, bounds };
        match self.guard(&guard) {
            Some(number) => candidate.guard = number,
            None => candidate.kind = LookupKind::Alone("a condition that is several in nft"),
        }
        if candidate.kind == LookupKind::Concatenation {
            candidate.kind = lookup_kind(&candidate);
        }
        candidate
    }

    /// The number of a guard; `None` if nft has no single text for it.
    fn guard(&mut self, conditions: &[Condition]) -> Option<usize> {
        // A test of either port, or one that takes all values, does not say its protocol.
        let protocols = match protocol_choices(conditions).as_slice() {
            [] => return None,
            [text, ..] if text.is_empty() => String::new(),
            [text, ..] => format!("{text} "),
        };
        let mut texts = [protocols.clone(), protocols];
        for (text, family) in texts.iter_mut().zip(Family::BOTH) {
            for condition in conditions {
                let choices = condition_choices(self.ruleset, condition, Some(family)).ok()?;
                let [choice] = choices.as_slice() else { return None };
                if !choice.is_empty() {
                    *text += choice;
                    text.push(' ');
                }
            }
        }
        let next = self.texts.len();
        let number = *self.guards.entry(texts.clone()).or_insert(next);
        if number == next {
            self.texts.push(texts);
        }
        Some(number)
    }
}

/// Whether a test is of the key of a lookup.
fn is_of_key(test: &Test) -> bool {
    matches!(test, Test::Family(_) | Test::Address(..) | Test::Protocol(_) | Test::Port(..))
}

fn lookup_kind(candidate: &Candidate) -> LookupKind {
    let fields = candidate.fields();
    let only = (fields.len() == 1).then(|| fields.iter().next()).flatten();
    let is_exact = candidate.boxes.iter().flatten().all(|one| {
        one.len() == fields.len()
            && one.iter().all(|(_, ranges)| matches!(ranges.as_slice(), [(a, b)] if a == b))
    });
    match only {
        _ if fields.len() == 0 => {
            LookupKind::Alone("no condition of addresses, protocols or ports")
        }
        Some(field) if !is_exact => LookupKind::Interval(field),
        _ if candidate.element_count() > ELEMENTS_OF_RULE => {
            LookupKind::Alone("its lists make too many elements; it is one lookup for each list")
        }
        _ if is_exact => LookupKind::Exact(fields),
        _ => LookupKind::Concatenation,
    }
}

/// Why the action of a rule is not one that a lookup can take; `None` if it is.
pub(super) fn barrier(ruleset: &Ruleset, action: &Action) -> Option<&'static str> {
    match action {
        Action::Accept | Action::Drop | Action::Return | Action::Goto(_) => None,
        Action::Reject { with: None } => None,
        Action::Reject { with: Some(with) } if with.starts_with("icmpx-") => None,
        Action::Reject { .. } => Some("rejects in a way that not every packet allows"),
        Action::Jump(chain) if changes_fwmark(ruleset, *chain) => {
            Some("jumps to a chain that changes the mark")
        }
        Action::Jump(_) => None,
        Action::Log { .. } => Some("logs and goes on"),
        Action::SetMark { .. } => Some("sets the mark and goes on"),
        Action::Continue => Some("counts and goes on"),
        Action::Queue => Some("hands packets to a program"),
        Action::Site(_) | Action::Other { .. } => Some("does something that is no verdict"),
    }
}

/// Whether a chain, or one that it calls, changes the mark. Chains do not call in circles.
fn changes_fwmark(ruleset: &Ruleset, chain: ChainId) -> bool {
    let mut open = vec![chain];
    let mut seen = vec![false; ruleset.chains().len()];
    while let Some(chain) = open.pop() {
        if std::mem::replace(&mut seen[chain.index()], true) {
            continue;
        }
        for &id in &ruleset.chain(chain).rules {
            match &ruleset.rule(id).action {
                action if action.changes_fwmark() => return true,
                Action::Jump(next) | Action::Goto(next) => open.push(*next),
                _ => {}
            }
        }
    }
    false
}
