//! Classes of addresses: what the place predicates of a ruleset cannot tell apart.
//!
//! For: answering all predicates about one address by one lookup before the classifier.
//!
//! ```text
//! src.country = DE      ......xxxxxxxx..............
//! distance(src, ..)     ..........xxxxxxxx..........
//! class                 0     1   2   3   0             by which predicates are true
//! ```
//!
//! Invariants: the first range starts at address 0; two addresses of one class make the same
//! predicates true; class 0 is where none is.
//! Concurrency: plain immutable data. Cost: a binary search; whoever wants more makes a prefix
//! index of the ranges.

use std::collections::HashMap;

use crate::model::{Predicate, Side};
use crate::packet::Family;
use crate::ranges::Ranges;

/// Knows databases and points: implemented by whoever has them.
pub trait Places {
    /// The addresses of one family of which the predicate is true (negation left out).
    ///
    /// # Errors
    ///
    /// What is wrong with the predicate, in words that name what is allowed: the message of a
    /// problem at the rule's line.
    fn resolve(&self, predicate: &Predicate, family: Family) -> Result<Ranges, String>;
}

/// Knows no place: every predicate is an error.
#[derive(Clone, Copy, Debug)]
pub struct NoPlaces;

impl Places for NoPlaces {
    fn resolve(&self, predicate: &Predicate, _family: Family) -> Result<Ranges, String> {
        Err(format!("found \"{predicate}\": there is no database to find places in"))
    }
}

/// The class of every address of one side.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlaceTable {
    /// The first address of each range, ascending, the first one 0.
    pub starts: Vec<u128>,
    /// The class of each range.
    pub classes: Vec<u32>,
    /// The predicates, by number.
    predicates: HashMap<String, usize>,
    /// For each class, which predicates are true: 64 in a word.
    truths: Vec<Vec<u64>>,
}

impl Default for PlaceTable {
    fn default() -> PlaceTable {
        PlaceTable::build(Vec::new())
    }
}

impl PlaceTable {
    /// Makes the table of the addresses of which each predicate is true.
    pub(super) fn build(predicates: Vec<(String, Ranges)>) -> PlaceTable {
        let words = predicates.len().div_ceil(64);
        // Where a predicate starts or ceases to be true.
        let mut flips: Vec<(u128, usize)> = Vec::new();
        for (number, (_, ranges)) in predicates.iter().enumerate() {
            for &(first, last) in ranges.as_slice() {
                flips.push((first, number));
                flips.extend(last.checked_add(1).map(|next| (next, number)));
            }
        }
        flips.sort_unstable();
        let mut table = PlaceTable {
            starts: vec![0],
            classes: vec![0],
            predicates: HashMap::new(),
            truths: vec![vec![0; words]],
        };
        let mut known: HashMap<Vec<u64>, u32> = HashMap::from([(vec![0; words], 0)]);
        let mut now = vec![0u64; words];
        for group in flips.chunk_by(|a, b| a.0 == b.0) {
            for &(_, number) in group {
                now[number / 64] ^= 1 << (number % 64);
            }
            let class = match known.get(&now) {
                Some(&class) => class,
                None => {
                    let class = table.truths.len() as u32;
                    table.truths.push(now.clone());
                    known.insert(now.clone(), class);
                    class
                }
            };
            table.push(group[0].0, class);
        }
        let names = predicates.into_iter().map(|(name, _)| name);
        table.predicates = names.enumerate().map(|(number, name)| (name, number)).collect();
        table
    }

    fn push(&mut self, start: u128, class: u32) {
        if start == 0 {
            self.classes[0] = class;
        } else if self.classes.last() != Some(&class) {
            self.starts.push(start);
            self.classes.push(class);
        }
    }

    /// The class of an address.
    pub fn class(&self, address: u128) -> u32 {
        let after = self.starts.partition_point(|&start| start <= address);
        self.classes[after.saturating_sub(1)]
    }

    /// How many classes there are, at least one.
    pub fn class_count(&self) -> usize {
        self.truths.len()
    }

    /// Whether the classes tell where a predicate, by its text, is true.
    pub(super) fn knows(&self, predicate: &str) -> bool {
        self.predicates.contains_key(predicate)
    }

    /// The classes where a predicate, by its text, is true.
    pub(super) fn classes_of(&self, predicate: &str) -> Ranges {
        let Some(&number) = self.predicates.get(predicate) else { return Ranges::empty() };
        let holds = |truth: &[u64]| truth[number / 64] >> (number % 64) & 1 == 1;
        let classes = self.truths.iter().zip(0u128..).filter(|(truth, _)| holds(truth));
        Ranges::new(classes.map(|(_, class)| (class, class)).collect())
    }
}

/// The number of a side in arrays of two.
pub(super) fn side_index(side: Side) -> usize {
    match side {
        Side::Source => 0,
        Side::Destination => 1,
    }
}
