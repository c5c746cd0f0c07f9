//! The twin of every compiled form: one rule after the other. And why rules did not match.
//!
//! For: tests, explanations, and rulesets of a few rules. Not for: speed; a packet costs one
//! comparison for each condition until the first terminal rule that matches.

use super::rule::{Field, Rule, Values};

/// The rules that a packet matched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The first terminal rule that matches, by its place in the list.
    pub rule: Option<u32>,
    /// The rules before it that match and do not end the search, in order.
    pub matched: Vec<u32>,
}

/// Why one rule did not match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Miss {
    /// The rule, by its place in the list.
    pub rule: u32,
    /// The field of its first condition that does not hold.
    pub field: Field,
    /// The packet's value of that field.
    pub value: u128,
}

/// The way of a packet through the rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    /// The text that was found.
    pub outcome: Outcome,
    /// Every rule before the one that ended the search that did not match, with the reason.
    pub misses: Vec<Miss>,
}

/// Whether all conditions of a rule hold.
pub(crate) fn matches<V: Values>(rule: &Rule, packet: &V) -> bool {
    rule.conditions.iter().all(|condition| condition.holds(packet.value(condition.field)))
}

/// The first terminal rule that matches and the others that match before it.
#[allow(private_bounds, reason = "how packets are read is nobody's business outside")]
pub fn scan<V: Values>(rules: &[Rule], packet: &V) -> Outcome {
    let mut outcome = Outcome::default();
    for (place, rule) in rules.iter().enumerate() {
        if !matches(rule, packet) {
            continue;
        }
        if rule.terminal {
            outcome.rule = Some(place as u32);
            break;
        }
        outcome.matched.push(place as u32);
    }
    outcome
}

/// Like [`scan`], with the reason why every earlier rule did not match.
pub(crate) fn explain<V: Values>(rules: &[Rule], packet: &V) -> Explanation {
    let mut explanation = Explanation::default();
    for (place, rule) in rules.iter().enumerate() {
        let missed = rule
            .conditions
            .iter()
            .find(|condition| !condition.holds(packet.value(condition.field)));
        match missed {
            Some(condition) => explanation.misses.push(Miss {
                rule: place as u32,
                field: condition.field,
                value: packet.value(condition.field),
            }),
            None if rule.terminal => {
                explanation.outcome.rule = Some(place as u32);
                break;
            }
            None => explanation.outcome.matched.push(place as u32),
        }
    }
    explanation
}
