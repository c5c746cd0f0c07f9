//! Finds rules that are useless or doubtful.
//!
//! For: `whered rules check`: rules that no packet can meet, rules that change nothing, rules
//! that overlap with another verdict, sets and chains that nobody uses.
//! Not for: syntax (the readers) or speed of matching.
//!
//! Rules are judged in every chain with a policy, for both families. A rule is
//!
//! - *unreachable* when its own conditions exclude each other or its chain is never entered;
//! - *shadowed* when earlier rules decide every packet that it could meet, one of them otherwise;
//! - *redundant* when they decide all of them the same way, or when without it every packet would
//!   get the same verdict by the same log, mark and continue rules;
//! - *overlapping* with an earlier rule of another verdict when both can meet the same packets,
//!   and each can meet packets that the other cannot: then their order matters, and neither is an
//!   exception of the other.
//!
//! Live sets and places are asked as bits and classes that may be anything: a finding holds
//! whatever they hold.
//!
//! Invariants: a finding is true; what could not be proved within the effort allowed is counted
//! in [`Report::undecided`], never reported as a finding.
//!
//! Concurrency: pure. Cost: for each rule a few random points are looked up in all others by bit
//! lists (`candidates`); only where that decides nothing, an exact search over the overlapping
//! rules follows (`regions`), with bounded effort. 16 k rules take a fraction of a
//! second.

mod analysis;
mod candidates;
#[cfg(test)]
mod check_tests;
mod regions;

use std::fmt;

use crate::error::RulesError;
use crate::model::{Action, ChainId, Origin, RuleId, Ruleset, Test};
use crate::normal::Places;
use crate::packet::Family;

/// How much is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// How many earlier rules are named for each rule that overlaps.
    pub overlaps_for_each: usize,
    /// How many boxes an exact search may visit for one rule.
    pub steps_for_each: usize,
    /// And for all rules together.
    pub steps: usize,
}

impl Default for Effort {
    fn default() -> Effort {
        Effort { overlaps_for_each: 4, steps_for_each: 20_000, steps: 4_000_000 }
    }
}

/// The text that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// No packet can meet the rule.
    Unreachable,
    /// Earlier rules decide everything the rule could meet; these do, the first of them otherwise.
    Shadowed {
        /// By which rules, in order; at most eight.
        by: Vec<RuleId>,
    },
    /// The rule changes nothing.
    Redundant {
        /// Because of which rules, in order, earlier or later ones; at most eight. None if the
        /// policy does the same.
        by: Vec<RuleId>,
    },
    /// The rule and an earlier one with another verdict can meet the same packets.
    Overlap {
        /// The earlier one.
        with: RuleId,
    },
    /// No rule asks the set.
    UnusedSet {
        /// Its name.
        name: String,
    },
    /// No packet gets to the chain.
    UnusedChain {
        /// Which one.
        chain: ChainId,
    },
}

/// One thing that was found, with its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What.
    pub kind: Kind,
    /// Of which rule; `None` for sets and chains.
    pub rule: Option<RuleId>,
    /// Where it stands.
    pub origin: Origin,
    /// In words, with the lines of the other rules; of rules that nft lists, with their handles.
    pub message: String,
}

/// How a message names other rules: by their lines, or by the handles that nft lists them by, since
/// a listing may be one line.
fn names_of(ruleset: &Ruleset, rules: &[RuleId]) -> String {
    let handles: Option<Vec<u64>> = rules.iter().map(|&id| ruleset.rule(id).handle).collect();
    let (word, numbers) = match handles {
        Some(mut handles) => {
            // A rule of nft may be several here.
            handles.dedup();
            ("handle", handles)
        }
        None => {
            let line = |&id: &RuleId| u64::from(ruleset.rule(id).origin.line);
            ("line", rules.iter().map(line).collect())
        }
    };
    let shown: Vec<String> = numbers.iter().map(u64::to_string).collect();
    let plural = if shown.len() == 1 { "" } else { "s" };
    format!("{word}{plural} {}", shown.join(", "))
}

/// Where a rule stands, by the words of nft.
fn location_of(ruleset: &Ruleset, id: RuleId) -> String {
    let rule = ruleset.rule(id);
    let Some(handle) = rule.handle else { return String::new() };
    let chain = &ruleset.chain(rule.chain).name;
    format!(" ({}, chain {chain}, handle {handle})", table_of(ruleset))
}

fn table_of(ruleset: &Ruleset) -> String {
    let family = match ruleset.family() {
        Some(Family::Ipv4) => "ip",
        Some(Family::Ipv6) => "ip6",
        None => "inet",
    };
    format!("table {family} {}", ruleset.name())
}

/// The table, where the rules are a listing of nft.
fn table_location(ruleset: &Ruleset) -> String {
    let is_listed = ruleset.rules().iter().any(|rule| rule.handle.is_some());
    if is_listed { format!(" ({})", table_of(ruleset)) } else { String::new() }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.message)
    }
}

/// All that was found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// In the order of lines.
    pub findings: Vec<Finding>,
    /// How many rules could be neither proved useful nor useless within the effort.
    pub undecided: usize,
}

/// Checks a ruleset.
///
/// # Errors
///
/// When it cannot be flattened (see [`crate::normal::NormalForm::build`]).
pub fn check(ruleset: &Ruleset, places: &dyn Places, effort: Effort) -> Result<Report, RulesError> {
    let mut report = analysis::rules(ruleset, places, effort)?;
    unused_sets(ruleset, &mut report);
    unused_chains(ruleset, &mut report);
    report.findings.sort_by_key(|finding| finding.origin.line);
    Ok(report)
}

fn unused_sets(ruleset: &Ruleset, report: &mut Report) {
    let conditions = ruleset.rules().iter().flat_map(|rule| &rule.conditions);
    let asked: std::collections::HashSet<&str> = conditions
        .filter_map(|condition| match &condition.test {
            Test::Set(_, name) => Some(name.as_str()),
            _ => None,
        })
        .collect();
    let location = table_location(ruleset);
    for set in ruleset.sets().iter().filter(|set| !asked.contains(set.name.as_str())) {
        report.findings.push(Finding {
            kind: Kind::UnusedSet { name: set.name.clone() },
            rule: None,
            origin: set.origin.clone(),
            message: format!("set {:?} is used by no rule{location}", set.name),
        });
    }
}

/// Chains that no chain with a policy leads to, by any number of jumps.
fn unused_chains(ruleset: &Ruleset, report: &mut Report) {
    let mut reached = vec![false; ruleset.chains().len()];
    let mut open: Vec<ChainId> = ruleset.base_chains().collect();
    while let Some(chain) = open.pop() {
        if std::mem::replace(&mut reached[chain.index()], true) {
            continue;
        }
        for &rule in &ruleset.chain(chain).rules {
            if let Action::Jump(target) | Action::Goto(target) = ruleset.rule(rule).action {
                open.push(target);
            }
        }
    }
    let location = table_location(ruleset);
    for (index, _) in reached.iter().enumerate().filter(|(_, reached)| !**reached) {
        let chain = ChainId(index as u32);
        let (name, origin) = (&ruleset.chain(chain).name, ruleset.chain(chain).origin.clone());
        report.findings.push(Finding {
            kind: Kind::UnusedChain { chain },
            rule: None,
            origin,
            message: format!("chain {name:?} is never entered{location}"),
        });
    }
}
