//! Adding and removing prefixes.
//!
//! Adding makes nodes only where two prefixes part: an entry that is in the way moves one node
//! down, again and again, until the two have different places. Removing undoes exactly that: a
//! node that is left with a single entry gives it to its parent and goes. The shape is therefore
//! the same whatever the order of changes was.
//!
//! Cost: the nodes on the way, at most 4 (IPv4) or 16 (IPv6), and shifting a node's slots.

use super::base_index::base_index;
use super::node::{Link, Node};
use super::{Entry, PrefixMap, octets_of};
use crate::Prefix;

/// A map that was emptied keeps room for this many nodes and entries at most, so that a small set
/// that comes and goes does not allocate each time.
const EMPTY_CAPACITY: usize = 64;

impl<V> PrefixMap<V> {
    /// Adds a prefix, or gives a prefix that is held a new value; returns the value it had.
    ///
    /// # Panics
    ///
    /// When the map would hold 2^31 prefixes.
    pub fn insert(&mut self, prefix: Prefix, value: V) -> Option<V> {
        let mut trace = self.trace(&prefix);
        if let Some(entry) = trace.entry {
            return Some(std::mem::replace(&mut self.entries[entry].value, value));
        }
        let octets = trace.octets;
        let mut node = trace.path[trace.depth];
        // An entry in the way, if there is one, hangs where the trace ended.
        while trace.depth < home_depth(&prefix)
            && let Some(Link::Entry(other)) = self.nodes[node].link(octets[trace.depth])
        {
            let below = self.nodes.insert(Node::default());
            self.nodes[node].set_link(octets[trace.depth], Link::Node(below));
            trace.depth += 1;
            self.place(below, trace.depth, other);
            node = below;
        }
        let entry = self.entries.insert(Entry { prefix, value });
        self.place(node, trace.depth, entry);
        None
    }

    /// Removes a prefix and returns its value; nodes that are no longer needed are freed.
    pub fn remove(&mut self, prefix: &Prefix) -> Option<V> {
        let trace = self.trace(prefix);
        let entry = trace.entry?;
        let mut depth = trace.depth;
        let octet = trace.octets[depth];
        let last = &mut self.nodes[trace.path[depth]];
        if depth == home_depth(prefix) {
            last.remove_entry(base_index(octet, prefix.length_bits() % 8));
        } else {
            last.remove_link(octet);
        }
        while depth > 0
            && let Some(survivor) = self.nodes[trace.path[depth]].only_entry()
        {
            self.nodes.remove(trace.path[depth]);
            depth -= 1;
            let parent = &mut self.nodes[trace.path[depth]];
            parent.set_link(trace.octets[depth], Link::Entry(survivor));
        }
        let value = self.entries.remove(entry).value;
        let capacity = self.nodes.capacity().max(self.entries.capacity());
        if self.is_empty() && capacity > EMPTY_CAPACITY {
            self.clear();
        }
        Some(value)
    }

    /// Removes everything and gives the memory back.
    pub fn clear(&mut self) {
        *self = PrefixMap::new();
    }

    /// Puts an entry into a node that has nothing in its place yet.
    fn place(&mut self, node: u32, depth: usize, entry: u32) {
        let prefix = self.entries[entry].prefix;
        let octet = octets_of(prefix.address())[depth];
        if depth == home_depth(&prefix) {
            let index = base_index(octet, prefix.length_bits() % 8);
            self.nodes[node].add_entry(index, entry);
        } else {
            self.nodes[node].set_link(octet, Link::Entry(entry));
        }
    }
}

/// The depth of the node in which the prefix ends.
fn home_depth(prefix: &Prefix) -> usize {
    usize::from(prefix.length_bits() / 8)
}

#[cfg(test)]
#[path = "update_tests.rs"]
mod tests;
