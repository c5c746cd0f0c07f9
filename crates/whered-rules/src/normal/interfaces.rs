//! Numbers for interface names.
//!
//! For: turning a packet's interface into a small number once, and patterns into sets of them.
//!
//! ```text
//! patterns  eth0  eth+  ppp0     numbers  0 any other name (and none)
//!                                         1 eth0   2 ppp0   3 eth and more, but not eth0
//! ```
//!
//! Invariants: two names with the same number fit the same patterns of the ruleset.
//! Concurrency: plain immutable data. Cost: a hash lookup, then one look at each `+` pattern.

use std::collections::{BTreeSet, HashMap};

use crate::model::{InterfacePattern, Ruleset, Test};
use crate::ranges::Ranges;

/// The numbers of a ruleset's interfaces.
#[derive(Clone, Debug, Default)]
pub struct InterfaceTable {
    exact: HashMap<String, u16>,
    /// Longest first.
    beginnings: Vec<(String, u16)>,
}

impl InterfaceTable {
    /// Numbers every pattern of a ruleset; `None` if there are more than 65,000.
    pub(super) fn of(ruleset: &Ruleset) -> Option<InterfaceTable> {
        let mut patterns = BTreeSet::new();
        for condition in ruleset.rules().iter().flat_map(|rule| &rule.conditions) {
            if let Test::Input(list) | Test::Output(list) = &condition.test {
                patterns.extend(list);
            }
        }
        if patterns.len() > 65_000 {
            return None;
        }
        let mut table = InterfaceTable::default();
        for (pattern, number) in patterns.into_iter().zip(1..) {
            match pattern {
                InterfacePattern::Exact(name) => {
                    table.exact.insert(name.clone(), number);
                }
                InterfacePattern::Begins(start) => table.beginnings.push((start.clone(), number)),
            }
        }
        table.beginnings.sort_by_key(|(start, _)| std::cmp::Reverse(start.len()));
        Some(table)
    }

    /// The number of an interface; "" is none.
    #[inline]
    pub fn number(&self, name: &str) -> u16 {
        if self.exact.is_empty() && self.beginnings.is_empty() { 0 } else { self.number_of(name) }
    }

    fn number_of(&self, name: &str) -> u16 {
        if let Some(&number) = self.exact.get(name) {
            return number;
        }
        let found = self.beginnings.iter().find(|(start, _)| name.starts_with(start.as_str()));
        found.map_or(0, |&(_, number)| number)
    }

    /// Whether a pattern has a number.
    pub(super) fn knows(&self, pattern: &InterfacePattern) -> bool {
        match pattern {
            InterfacePattern::Exact(name) => self.exact.contains_key(name),
            InterfacePattern::Begins(start) => {
                start.is_empty() || self.beginnings.iter().any(|(known, _)| known == start)
            }
        }
    }

    /// The largest number.
    pub fn largest(&self) -> u16 {
        (self.exact.len() + self.beginnings.len()) as u16
    }

    /// The numbers of the names that fit any of the patterns.
    pub(super) fn numbers_of(&self, patterns: &[InterfacePattern]) -> Ranges {
        let mut numbers = Vec::new();
        for pattern in patterns {
            match pattern {
                InterfacePattern::Exact(name) => numbers.extend(self.exact.get(name).copied()),
                InterfacePattern::Begins(start) if start.is_empty() => {
                    return Ranges::single(0, self.largest().into());
                }
                InterfacePattern::Begins(start) => {
                    let all = self.exact.iter().chain(self.beginnings.iter().map(|(n, i)| (n, i)));
                    let fitting = all.filter(|(name, _)| name.starts_with(start.as_str()));
                    numbers.extend(fitting.map(|(_, &number)| number));
                }
            }
        }
        Ranges::new(numbers.into_iter().map(|number| (number.into(), number.into())).collect())
    }
}
