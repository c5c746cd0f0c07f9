//! The twin of the prefix map: slow and obvious, for tests to compare with.
//!
//! A vector of prefixes and values in no order; every question scans it all. Not for use outside
//! tests.

use std::net::IpAddr;

use crate::Prefix;

/// A prefix map that cannot be wrong, or fast.
#[derive(Clone, Default, Debug)]
pub struct NaiveMap<V> {
    entries: Vec<(Prefix, V)>,
}

impl<V> NaiveMap<V> {
    /// An empty map.
    pub fn new() -> Self {
        NaiveMap { entries: Vec::new() }
    }

    /// How many prefixes are held.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no prefix is held.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a prefix or replaces its value; returns the value it had.
    pub fn insert(&mut self, prefix: Prefix, value: V) -> Option<V> {
        let old = self.remove(&prefix);
        self.entries.push((prefix, value));
        old
    }

    /// Removes a prefix and returns its value.
    pub fn remove(&mut self, prefix: &Prefix) -> Option<V> {
        let place = self.entries.iter().position(|(held, _)| held == prefix)?;
        Some(self.entries.swap_remove(place).1)
    }

    /// The value of this very prefix.
    pub fn get(&self, prefix: &Prefix) -> Option<&V> {
        self.entries.iter().find(|(held, _)| held == prefix).map(|(_, value)| value)
    }

    /// The longest prefix that holds the address and whose value is accepted.
    pub fn longest_match_where(
        &self,
        address: IpAddr,
        mut accept: impl FnMut(&V) -> bool,
    ) -> Option<(Prefix, &V)> {
        self.entries
            .iter()
            .filter(|(prefix, value)| prefix.contains(address) && accept(value))
            .max_by_key(|(prefix, _)| prefix.length_bits())
            .map(|(prefix, value)| (*prefix, value))
    }

    /// All prefixes that hold the address, shortest first.
    pub fn all_matches(&self, address: IpAddr) -> Vec<(Prefix, &V)> {
        let mut found = self.iter();
        found.retain(|(prefix, _)| prefix.contains(address));
        found
    }

    /// All prefixes with their values in the order of [`Prefix`].
    pub fn iter(&self) -> Vec<(Prefix, &V)> {
        let mut all: Vec<_> = self.entries.iter().map(|(prefix, value)| (*prefix, value)).collect();
        all.sort_by_key(|(prefix, _)| *prefix);
        all
    }
}
