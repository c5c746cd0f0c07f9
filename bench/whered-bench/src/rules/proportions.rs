//! What a ruleset is like, counted: so that a reader can judge whom it suits.
//!
//! Not for: drawing rules (`shapes.rs`). Cost: a hash table of each field.

use super::FiveTuple;
use std::collections::{HashMap, HashSet};
use std::fmt;

/// Counts over a ruleset.
#[derive(Clone, Debug)]
pub struct Proportions {
    rules: usize,
    distinct: [(&'static str, usize); 5],
    wild: [(&'static str, usize); 6],
    /// Lengths of source and destination, by how often.
    pairs: Vec<((u8, u8), usize)>,
}

impl Proportions {
    /// Counts.
    #[must_use]
    pub fn of(rules: &[FiveTuple]) -> Proportions {
        let distinct = |value: &dyn Fn(&FiveTuple) -> (u32, u32)| {
            rules.iter().map(value).collect::<HashSet<_>>().len()
        };
        let count =
            |holds: &dyn Fn(&FiveTuple) -> bool| rules.iter().filter(|rule| holds(rule)).count();
        let whole = (0, u16::MAX);
        let mut pairs: HashMap<(u8, u8), usize> = HashMap::new();
        for rule in rules {
            *pairs.entry((rule.source_length, rule.destination_length)).or_default() += 1;
        }
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        pairs.sort_by_key(|&(pair, count)| (std::cmp::Reverse(count), pair));
        let wide = |ports: (u16, u16)| (u32::from(ports.0), u32::from(ports.1));
        Proportions {
            rules: rules.len(),
            distinct: [
                ("source", distinct(&|rule| (rule.source, rule.source_length.into()))),
                (
                    "destination",
                    distinct(&|rule| (rule.destination, rule.destination_length.into())),
                ),
                ("source ports", distinct(&|rule| wide(rule.source_ports))),
                ("destination ports", distinct(&|rule| wide(rule.destination_ports))),
                ("protocol", distinct(&|rule| (rule.protocol.map_or(256, u32::from), 0))),
            ],
            wild: [
                ("source", count(&|rule| rule.source_length == 0)),
                ("destination", count(&|rule| rule.destination_length == 0)),
                ("both", count(&|rule| rule.source_length + rule.destination_length == 0)),
                ("source ports", count(&|rule| rule.source_ports == whole)),
                ("destination ports", count(&|rule| rule.destination_ports == whole)),
                ("protocol", count(&|rule| rule.protocol.is_none())),
            ],
            pairs,
        }
    }

    /// The share of rules with at least one wild address.
    #[must_use]
    pub fn wild_share(&self) -> f64 {
        let [(_, source), (_, destination), (_, both), ..] = self.wild;
        (source + destination - both) as f64 / self.rules.max(1) as f64
    }
}

impl fmt::Display for Proportions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.rules.max(1) as f64;
        write!(f, "{} rules; distinct:", self.rules)?;
        for (name, count) in self.distinct {
            write!(f, " {name} {count},")?;
        }
        write!(f, " pairs of lengths {}; wild:", self.pairs.len())?;
        for (name, count) in self.wild {
            write!(f, " {name} {:.1} %,", count as f64 / total * 100.0)?;
        }
        write!(f, " commonest pairs:")?;
        for ((source, destination), count) in self.pairs.iter().take(8) {
            write!(f, " /{source}-/{destination} {:.1} %", *count as f64 / total * 100.0)?;
        }
        Ok(())
    }
}
