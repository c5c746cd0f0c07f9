//! A ruleset as nft can say it: places as sets of addresses, counters where they are asked for.
//!
//! For: the step before planning. Not for: the sets' text (`nft`).
//!
//! Invariants: rules keep their numbers and lines; a place becomes a set that holds the addresses
//! of which its predicate is true, so that negation means the same.
//! Concurrency: pure. Cost: each place is resolved once a family.

use std::collections::{HashMap, HashSet};

use crate::error::{Problems, RulesError};
use crate::iptables::to_address;
use crate::model::{AddressItem, Condition, Counters, Predicate, Ruleset, SetDefinition, Test};
use crate::normal::Places;
use crate::packet::Family;

/// How names that are made here begin; no set or chain of the rules may begin so.
pub(super) const PREFIX: &str = "whered_";
/// How names of sets begin that were places.
const PLACE: &str = "whered_place_";

/// What is allowed instead of such a name.
const RESERVED: &str =
    "a name that does not begin with whered_, as the names do that are made here";

pub(super) fn prepared(
    ruleset: &Ruleset,
    places: &dyn Places,
    counters: bool,
) -> Result<Ruleset, RulesError> {
    refuse_names(ruleset)?;
    let mut prepared = with_locations_as_sets(ruleset, places)?;
    for rule in &mut prepared.rules {
        rule.counters = counters.then(Counters::default);
    }
    Ok(prepared)
}

/// Refuses names that begin as those do that are made here, but for sets that were places.
fn refuse_names(ruleset: &Ruleset) -> Result<(), RulesError> {
    let mut problems = Problems::new(&ruleset.chain(ruleset.entry()).origin.file);
    let is_reserved = |name: &str| name.starts_with(PREFIX);
    for set in &ruleset.sets {
        let is_of_place = set.name.starts_with(PLACE) && set.elements.is_some();
        if is_reserved(&set.name) && !is_of_place {
            problems.found(set.origin.line, 0, &set.name, RESERVED);
        }
    }
    for chain in ruleset.chains.iter().filter(|chain| is_reserved(&chain.name)) {
        problems.found(chain.origin.line, 0, &chain.name, RESERVED);
    }
    for rule in &ruleset.rules {
        for condition in &rule.conditions {
            if let Test::Set(_, name) = &condition.test
                && is_reserved(name)
                && ruleset.set_named(name).is_none()
            {
                problems.found(rule.origin.line, 0, name, RESERVED);
            }
        }
    }
    problems.finish()
}

pub(super) fn with_locations_as_sets(
    ruleset: &Ruleset,
    places: &dyn Places,
) -> Result<Ruleset, RulesError> {
    let mut resolved = ruleset.clone();
    let mut problems = Problems::new(&ruleset.chain(ruleset.entry()).origin.file);
    let names = location_sets(&mut resolved, places, &mut problems);
    for Condition { test, .. } in resolved.rules.iter_mut().flat_map(|rule| &mut rule.conditions) {
        if let Test::Place(predicate) = test
            && let Some(name) = names.get(&predicate.to_string())
        {
            *test = Test::Set(predicate.side, name.clone());
        }
    }
    problems.finish()?;
    Ok(resolved)
}

/// Declares a set for each place, both sides of one predicate apart; gives their names.
fn location_sets(
    ruleset: &mut Ruleset,
    places: &dyn Places,
    problems: &mut Problems,
) -> HashMap<String, String> {
    let mut asked: Vec<(Predicate, crate::model::Origin)> = Vec::new();
    let mut names = HashMap::new();
    let taken: HashSet<String> = ruleset.sets.iter().map(|set| set.name.clone()).collect();
    let mut numbers =
        (1..).map(|number| format!("{PLACE}{number}")).filter(|name| !taken.contains(name));
    for rule in &ruleset.rules {
        for condition in &rule.conditions {
            let Test::Place(predicate) = &condition.test else { continue };
            let text = predicate.to_string();
            if names.contains_key(&text) {
                continue;
            }
            names.extend(numbers.next().map(|next| (text, next)));
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
