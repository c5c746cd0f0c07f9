//! The tests' oracle for longest-prefix match: a hash map for each prefix length, probed in turn.
//!
//! Not for use outside tests and benchmarks. Cost: one probe for each length that occurs.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use crate::Prefix;

/// Values by prefix, found by the longest prefix that contains an address.
#[derive(Clone, Default, Debug)]
pub struct NaiveMap<V> {
    by_length: BTreeMap<u8, HashMap<Prefix, V>>,
}

impl<V> NaiveMap<V> {
    /// An empty map.
    pub fn new() -> NaiveMap<V> {
        NaiveMap { by_length: BTreeMap::new() }
    }

    /// Adds a prefix or replaces its value; returns the old value.
    pub fn insert(&mut self, prefix: Prefix, value: V) -> Option<V> {
        self.by_length.entry(prefix.length_bits()).or_default().insert(prefix, value)
    }

    /// Removes a prefix and returns its value.
    pub fn remove(&mut self, prefix: &Prefix) -> Option<V> {
        self.by_length.get_mut(&prefix.length_bits())?.remove(prefix)
    }

    /// The value of this very prefix, for a change.
    pub fn get_mut(&mut self, prefix: &Prefix) -> Option<&mut V> {
        self.by_length.get_mut(&prefix.length_bits())?.get_mut(prefix)
    }

    /// All prefixes that contain the address with their values, longest first.
    pub fn all_matches(&self, address: IpAddr) -> impl Iterator<Item = (Prefix, &V)> {
        let longest = if address.is_ipv4() { 32 } else { 128 };
        self.by_length.range(..=longest).rev().filter_map(move |(length_bits, values)| {
            let prefix = Prefix::new(address, *length_bits).ok()?;
            Some((prefix, values.get(&prefix)?))
        })
    }

    /// The longest prefix that contains the address, with its value.
    pub fn longest_match(&self, address: IpAddr) -> Option<(Prefix, &V)> {
        self.all_matches(address).next()
    }

    /// All prefixes with their values in the order of [`Prefix`].
    pub fn sorted(&self) -> Vec<(Prefix, &V)> {
        let all = self.by_length.values().flatten();
        let mut all: Vec<_> = all.map(|(prefix, value)| (*prefix, value)).collect();
        all.sort_unstable_by_key(|(prefix, _)| *prefix);
        all
    }
}

impl<V> FromIterator<(Prefix, V)> for NaiveMap<V> {
    fn from_iter<I: IntoIterator<Item = (Prefix, V)>>(entries: I) -> NaiveMap<V> {
        let mut map = NaiveMap::new();
        for (prefix, value) in entries {
            map.insert(prefix, value);
        }
        map
    }
}
