//! A ruleset as nft can say it: places as sets of addresses, counters where they are asked for.
//!
//! For: the step before planning. Not for: the sets' text (`nft`).
//!
//! Invariants: rules keep their numbers and lines; a place becomes a set that holds the addresses
//! of which its predicate is true, so that negation means the same.
//! Concurrency: pure. Cost: each place is resolved once a family.

use std::collections::HashMap;

use crate::error::{Problems, RulesError};
use crate::iptables::to_address;
use crate::model::{AddressItem, Condition, Counters, Predicate, Ruleset, SetDefinition, Test};
use crate::normal::Places;
use crate::packet::Family;

/// How names that are made here begin; no set or chain of the rules may begin so.
pub(super) const PREFIX: &str = "whered_";

pub(super) fn prepared(
    ruleset: &Ruleset,
    places: &dyn Places,
    counters: bool,
) -> Result<Ruleset, RulesError> {
    let mut prepared = ruleset.clone();
    let mut problems = Problems::new(&ruleset.chain(ruleset.entry()).origin.file);
    let sets = ruleset.sets.iter().map(|set| (&set.name, &set.origin));
    let chains = ruleset.chains.iter().map(|chain| (&chain.name, &chain.origin));
    for (name, origin) in sets.chain(chains).filter(|(name, _)| name.starts_with(PREFIX)) {
        let allowed = "a name that does not begin with whered_, as the names do that are made here";
        problems.found(origin.line, 0, name, allowed);
    }
    let names = location_sets(&mut prepared, places, &mut problems);
    for rule in &mut prepared.rules {
        rule.counters = counters.then(Counters::default);
        for Condition { test, .. } in &mut rule.conditions {
            if let Test::Place(predicate) = test
                && let Some(name) = names.get(&predicate.to_string())
            {
                *test = Test::Set(predicate.side, name.clone());
            }
        }
    }
    problems.finish()?;
    Ok(prepared)
}

/// Declares a set for each place, both sides of one predicate apart; gives their names.
fn location_sets(
    ruleset: &mut Ruleset,
    places: &dyn Places,
    problems: &mut Problems,
) -> HashMap<String, String> {
    let mut asked: Vec<(Predicate, crate::model::Origin)> = Vec::new();
    let mut names = HashMap::new();
    for rule in &ruleset.rules {
        for condition in &rule.conditions {
            let Test::Place(predicate) = &condition.test else { continue };
            let next = format!("{PREFIX}place_{}", asked.len() + 1);
            let text = predicate.to_string();
            if names.contains_key(&text) {
                continue;
            }
            names.insert(text, next);
            asked.push((predicate.clone(), rule.origin.clone()));
        }
    }
    let predicates: Vec<&Predicate> = asked.iter().map(|(predicate, _)| predicate).collect();
    let mut elements = vec![Vec::new(); asked.len()];
    let families = Family::BOTH.iter().filter(|&&one| ruleset.family.is_none_or(|of| of == one));
    for &family in families {
        let answers = places.resolve_all(&predicates, family);
        for ((answer, (_, origin)), items) in answers.into_iter().zip(&asked).zip(&mut elements) {
            match answer {
                Ok(ranges) => items.extend(ranges.as_slice().iter().map(|&(first, last)| {
                    let last = last.min(family.largest());
                    AddressItem::Range(to_address(first, family), to_address(last, family))
                })),
                Err(message) => problems.push(origin.line, 0, message),
            }
        }
    }
    for ((predicate, origin), items) in asked.into_iter().zip(elements) {
        let name = names[&predicate.to_string()].clone();
        ruleset.sets.push(SetDefinition { name, elements: Some(items), origin });
    }
    names
}
