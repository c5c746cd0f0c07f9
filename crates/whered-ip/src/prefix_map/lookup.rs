//! Finding prefixes that hold an address, and finding a prefix itself.
//!
//! A lookup goes down first, by the children only, and remembers its nodes; then it comes back
//! up and asks each node for its longest prefix that holds the address. Most tables have their
//! answer in the first node that is asked. Going down is cut in steps, so that a batch can go
//! down with several addresses side by side and wait for memory once instead of many times.
//!
//! Cost: see the folder's header; no lookup allocates.

use std::net::IpAddr;

use super::base_index::base_index;
use super::node::{Link, Node};
use super::slab::Slab;
use super::{Entry, PrefixMap, octets_of, root_of};
use crate::Prefix;

/// How many addresses of a batch go down side by side.
const BATCH_LANES: usize = 16;

impl<V> PrefixMap<V> {
    /// The longest prefix that holds the address, with its value.
    #[inline]
    pub fn longest_match(&self, address: IpAddr) -> Option<(Prefix, &V)> {
        self.longest_match_where(address, |_| true)
    }

    /// The longest prefix that holds the address and whose value is accepted.
    ///
    /// Values are asked from the longest prefix to the shortest, until one is accepted.
    #[inline]
    pub fn longest_match_where(
        &self,
        address: IpAddr,
        mut accept: impl FnMut(&V) -> bool,
    ) -> Option<(Prefix, &V)> {
        let mut descent = Descent::new(address);
        while descent.step(&self.nodes) {}
        self.climb(&descent, address, &mut accept)
    }

    /// Looks up many addresses at once; `found` is emptied and gets one answer an address, in
    /// the same order.
    pub fn longest_match_batch<'a>(
        &'a self,
        addresses: &[IpAddr],
        found: &mut Vec<Option<(Prefix, &'a V)>>,
    ) {
        found.clear();
        self.longest_match_batch_where(addresses, |_| true, |answer| found.push(answer));
    }

    /// Looks up many addresses at once, accepting values as in
    /// [`longest_match_where`](Self::longest_match_where); `each` gets one answer an address, in
    /// the same order.
    pub fn longest_match_batch_where<'a>(
        &'a self,
        addresses: &[IpAddr],
        mut accept: impl FnMut(&V) -> bool,
        mut each: impl FnMut(Option<(Prefix, &'a V)>),
    ) {
        for addresses in addresses.chunks(BATCH_LANES) {
            let mut lanes = [Descent::EMPTY; BATCH_LANES];
            for (lane, address) in lanes.iter_mut().zip(addresses) {
                *lane = Descent::new(*address);
            }
            let lanes = &mut lanes[..addresses.len()];
            let mut going = u32::MAX >> (32 - lanes.len());
            while going != 0 {
                let mut left = going;
                while left != 0 {
                    let lane = left.trailing_zeros();
                    left &= left - 1;
                    if !lanes[lane as usize].step(&self.nodes) {
                        going &= !(1 << lane);
                    }
                }
            }
            for (lane, address) in lanes.iter().zip(addresses) {
                each(self.climb(lane, *address, &mut accept));
            }
        }
    }

    /// All prefixes that hold the address, shortest first.
    pub fn all_matches(&self, address: IpAddr) -> AllMatches<'_, V> {
        let mut descent = Descent::new(address);
        while descent.step(&self.nodes) {}
        let lengths = self.nodes[descent.path[0]].matching_lengths(descent.octets[0]);
        AllMatches { map: self, address, leaf: descent.leaf, descent, depth: 0, lengths }
    }

    /// The longest other prefix that covers this one, with its value.
    pub fn outer(&self, prefix: &Prefix) -> Option<(Prefix, &V)> {
        let trace = self.trace(prefix);
        let home = usize::from(prefix.length_bits() / 8);
        let end = &self.nodes[trace.path[trace.depth]];
        if trace.depth < home
            && let Some(Link::Entry(entry)) = end.link(trace.octets[trace.depth])
        {
            let Entry { prefix: outer, value } = &self.entries[entry];
            if outer != prefix && outer.covers(prefix) {
                return Some((*outer, value));
            }
        }
        for depth in (0..=trace.depth).rev() {
            let node = &self.nodes[trace.path[depth]];
            // At its own node only shorter ones count, above it all of them.
            let index = match prefix.length_bits() % 8 {
                0 if depth == home => continue,
                bits if depth == home => base_index(trace.octets[depth], bits) >> 1,
                _ => base_index(trace.octets[depth], 7),
            };
            if let Some((_, entry)) = node.longest_from(index) {
                let Entry { prefix, value } = &self.entries[entry];
                return Some((*prefix, value));
            }
        }
        None
    }

    /// The value of this very prefix.
    pub fn get(&self, prefix: &Prefix) -> Option<&V> {
        let entry = self.trace(prefix).entry?;
        Some(&self.entries[entry].value)
    }

    /// The value of this very prefix, to be changed.
    pub fn get_mut(&mut self, prefix: &Prefix) -> Option<&mut V> {
        let entry = self.trace(prefix).entry?;
        Some(&mut self.entries[entry].value)
    }

    /// Whether this very prefix is held.
    pub fn contains(&self, prefix: &Prefix) -> bool {
        self.trace(prefix).entry.is_some()
    }

    /// From where a descent ended back up to the first accepted prefix.
    #[inline]
    fn climb(
        &self,
        descent: &Descent,
        address: IpAddr,
        accept: &mut impl FnMut(&V) -> bool,
    ) -> Option<(Prefix, &V)> {
        if let Some(leaf) = descent.leaf {
            let Entry { prefix, value } = &self.entries[leaf];
            if prefix.contains(address) && accept(value) {
                return Some((*prefix, value));
            }
        }
        for depth in (0..=descent.depth).rev() {
            let node = &self.nodes[descent.path[depth]];
            let mut index = base_index(descent.octets[depth], 7);
            while let Some((found, entry)) = node.longest_from(index) {
                let Entry { prefix, value } = &self.entries[entry];
                if accept(value) {
                    return Some((*prefix, value));
                }
                index = found >> 1;
            }
        }
        None
    }

    /// The way to where a prefix is or would be.
    pub(super) fn trace(&self, prefix: &Prefix) -> Trace {
        let octets = octets_of(prefix.address());
        let home = usize::from(prefix.length_bits() / 8);
        let mut trace = Trace { octets, path: [0; 16], depth: 0, entry: None };
        trace.path[0] = root_of(prefix.is_ipv4());
        loop {
            let node = &self.nodes[trace.path[trace.depth]];
            let octet = octets[trace.depth];
            if trace.depth == home {
                trace.entry = node.entry(base_index(octet, prefix.length_bits() % 8));
                return trace;
            }
            match node.link(octet) {
                Some(Link::Node(child)) => {
                    trace.depth += 1;
                    trace.path[trace.depth] = child;
                }
                Some(Link::Entry(entry)) => {
                    trace.entry = Some(entry).filter(|e| self.entries[*e].prefix == *prefix);
                    return trace;
                }
                None => return trace,
            }
        }
    }
}

/// The way to a prefix: the nodes from the root, and the entry if the prefix is held.
pub(super) struct Trace {
    pub(super) octets: [u8; 16],
    pub(super) path: [u32; 16],
    /// The last valid place in `path`.
    pub(super) depth: usize,
    pub(super) entry: Option<u32>,
}

/// The way down for an address: the nodes from the root, and the entry at its end.
#[derive(Clone, Copy)]
struct Descent {
    octets: [u8; 16],
    path: [u32; 16],
    /// The last valid place in `path`.
    depth: usize,
    /// The entry that hangs where the way ends; it may or may not hold the address.
    leaf: Option<u32>,
}

impl Descent {
    /// A lane of a batch before its address is known.
    const EMPTY: Descent = Descent { octets: [0; 16], path: [0; 16], depth: 0, leaf: None };

    #[inline]
    fn new(address: IpAddr) -> Descent {
        let mut path = [0; 16];
        path[0] = root_of(address.is_ipv4());
        Descent { octets: octets_of(address), path, depth: 0, leaf: None }
    }

    /// Goes one node down; false at the end of the way.
    #[inline]
    fn step(&mut self, nodes: &Slab<Node>) -> bool {
        let node = &nodes[self.path[self.depth]];
        match node.link(self.octets[self.depth]) {
            Some(Link::Node(child)) => {
                self.depth += 1;
                self.path[self.depth] = child;
                true
            }
            Some(Link::Entry(entry)) => {
                self.leaf = Some(entry);
                false
            }
            None => false,
        }
    }
}

/// The prefixes of a map that hold an address, shortest first; made by
/// [`PrefixMap::all_matches`].
pub struct AllMatches<'a, V> {
    map: &'a PrefixMap<V>,
    address: IpAddr,
    descent: Descent,
    /// The node on the way whose prefixes are being given.
    depth: usize,
    /// The lengths still to be given from that node, as bits.
    lengths: u8,
    /// The entry at the end of the way, until it was given.
    leaf: Option<u32>,
}

impl<'a, V> Iterator for AllMatches<'a, V> {
    type Item = (Prefix, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        while self.lengths == 0 {
            if self.depth == self.descent.depth {
                let Entry { prefix, value } = &self.map.entries[self.leaf.take()?];
                return prefix.contains(self.address).then_some((*prefix, value));
            }
            self.depth += 1;
            let node = &self.map.nodes[self.descent.path[self.depth]];
            self.lengths = node.matching_lengths(self.descent.octets[self.depth]);
        }
        let shortest = self.lengths.trailing_zeros() as u8;
        self.lengths &= self.lengths - 1;
        let node = &self.map.nodes[self.descent.path[self.depth]];
        let entry = node.entry(base_index(self.descent.octets[self.depth], shortest))?;
        let Entry { prefix, value } = &self.map.entries[entry];
        Some((*prefix, value))
    }
}
