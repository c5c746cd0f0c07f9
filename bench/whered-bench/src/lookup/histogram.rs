//! How many places in memory a lookup reads one after the other, over a list of addresses.
//!
//! Not for time: a place may be in a cache. The tree walk reads a node for each bit; an index says
//! itself what it reads.

use super::addresses::AddressList;
use super::engine::Engine;
use serde_json::{Value, json};
use std::fmt::Write;

/// Counts of lookups by their number of accesses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    /// The engine.
    pub engine: String,
    /// The list of addresses.
    pub list: &'static str,
    counts: Vec<u64>,
}

impl Histogram {
    /// Asks an engine for up to `most` addresses of a list; `None` if it does not know.
    #[must_use]
    pub fn new(engine: &dyn Engine, list: &AddressList, most: usize) -> Option<Histogram> {
        let mut counts = Vec::new();
        for index in 0..list.len().min(most) {
            let accesses = engine.accesses(list, index)?;
            if counts.len() <= accesses {
                counts.resize(accesses + 1, 0);
            }
            counts[accesses] += 1;
        }
        Some(Histogram { engine: engine.name(), list: list.name, counts })
    }

    /// The mean number of accesses.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let total: u64 = self.counts.iter().sum();
        let accesses: u64 = self.counts.iter().zip(0..).map(|(count, number)| count * number).sum();
        accesses as f64 / total.max(1) as f64
    }

    /// As JSON: a count for each number of accesses from 0 on.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({"engine": self.engine, "addresses": self.list, "mean": self.mean(), "counts": self.counts})
    }

    /// As one line of text: `accesses: share` for each number that occurs.
    #[must_use]
    pub fn to_line(&self) -> String {
        let total = self.counts.iter().sum::<u64>().max(1) as f64;
        let mut line = format!("{:<22} {:<10} mean {:5.2} |", self.engine, self.list, self.mean());
        for (accesses, &count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            // Writing to a string cannot fail.
            let _ = write!(line, " {accesses}: {:.1}%", 100.0 * count as f64 / total);
        }
        line
    }
}
