//! Walking a map in address order.
//!
//! A node's prefixes are numbered row by row, which is not their order by address; on entering a
//! node its bits are therefore moved to the places of a top-down walk (`INDEX_AT_PLACE`), and
//! then merged with the children: the prefix first where both start at the same octet.
//!
//! Cost: linear in entries and nodes; one allocation for the way down.

use super::base_index::{INDEX_AT_PLACE, PLACE_OF_INDEX, base_index, first_octet};
use super::node::{Link, Node};
use super::ranked_bits::{smallest, take_smallest};
use super::{Entry, PrefixMap, ROOT_IPV4, ROOT_IPV6, octets_of, root_of};
use crate::Prefix;

impl<V> PrefixMap<V> {
    /// All prefixes with their values, in the order of [`Prefix`]: IPv4 first, by first address,
    /// shorter before longer.
    pub fn iter(&self) -> Iter<'_, V> {
        let frames = [ROOT_IPV6, ROOT_IPV4].map(|root| Frame::new(&self.nodes[root], root));
        Iter { map: self, frames: Vec::from(frames) }
    }

    /// As [`iter`](Self::iter), of the prefixes that come after this one, which need not be held.
    ///
    /// Cost before the first one: the nodes on the way to it.
    pub fn iter_after(&self, after: &Prefix) -> Iter<'_, V> {
        let octets = octets_of(after.address());
        let home = usize::from(after.length_bits() / 8);
        let mut frames = Vec::new();
        if after.is_ipv4() {
            frames.push(Frame::new(&self.nodes[ROOT_IPV6], ROOT_IPV6));
        }
        let mut number = root_of(after.is_ipv4());
        for (depth, octet) in octets.into_iter().enumerate().take(home + 1) {
            let node = &self.nodes[number];
            let mut frame = Frame::new(node, number);
            if depth == home {
                let index = base_index(octet, after.length_bits() % 8);
                keep_above(&mut frame.places, PLACE_OF_INDEX[usize::from(index)]);
                // What is longer and begins with the same address comes after it.
                if let Some(before) = first_octet(index).checked_sub(1) {
                    keep_above(&mut frame.octets, before);
                }
                frames.push(frame);
                break;
            }
            // Prefixes of this node that begin with the octet are shorter: they came before.
            while let Some(place) = smallest(&frame.places)
                && first_octet(INDEX_AT_PLACE[usize::from(place)]) <= octet
            {
                take_smallest(&mut frame.places);
            }
            let link = node.link(octet);
            let is_later = |entry: u32| self.entries[entry].prefix > *after;
            let kept = if matches!(link, Some(Link::Entry(entry)) if is_later(entry)) {
                octet.checked_sub(1)
            } else {
                Some(octet)
            };
            if let Some(before) = kept {
                keep_above(&mut frame.octets, before);
            }
            frames.push(frame);
            match link {
                Some(Link::Node(child)) => number = child,
                _ => break,
            }
        }
        Iter { map: self, frames }
    }
}

impl<'a, V> IntoIterator for &'a PrefixMap<V> {
    type Item = (Prefix, &'a V);
    type IntoIter = Iter<'a, V>;

    fn into_iter(self) -> Iter<'a, V> {
        self.iter()
    }
}

/// Drops the members of a set of bits up to this one.
fn keep_above(bits: &mut [u64; 4], last: u8) {
    for (word, bits) in bits.iter_mut().enumerate() {
        let first = word as u32 * 64;
        let dropped = (u32::from(last) + 1).saturating_sub(first);
        *bits &= u64::MAX.checked_shl(dropped).unwrap_or(0);
    }
}

/// The prefixes of a map in order; made by [`PrefixMap::iter`].
pub struct Iter<'a, V> {
    map: &'a PrefixMap<V>,
    /// The nodes being walked, the current one last.
    frames: Vec<Frame>,
}

/// What is still to be walked of one node.
struct Frame {
    node: u32,
    /// Prefixes by place in the walk.
    places: [u64; 4],
    /// Children by octet.
    octets: [u64; 4],
}

impl<'a, V> Iterator for Iter<'a, V> {
    type Item = (Prefix, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let frame = self.frames.last_mut()?;
            match frame.next(&self.map.nodes[frame.node]) {
                Some(Link::Entry(entry)) => {
                    let Entry { prefix, value } = &self.map.entries[entry];
                    return Some((*prefix, value));
                }
                Some(Link::Node(child)) => {
                    self.frames.push(Frame::new(&self.map.nodes[child], child));
                }
                None => {
                    self.frames.pop();
                }
            }
        }
    }
}

impl Frame {
    fn new(node: &Node, number: u32) -> Frame {
        let mut indexes = node.prefixes_bits();
        let mut places = [0; 4];
        while let Some(index) = take_smallest(&mut indexes) {
            let place = PLACE_OF_INDEX[usize::from(index)];
            places[usize::from(place / 64)] |= 1 << (place % 64);
        }
        Frame { node: number, places, octets: node.children_bits() }
    }

    fn next(&mut self, node: &Node) -> Option<Link> {
        let octet = smallest(&self.octets);
        let index = smallest(&self.places).map(|place| INDEX_AT_PLACE[usize::from(place)]);
        if let Some(index) = index
            && octet.is_none_or(|octet| first_octet(index) <= octet)
        {
            take_smallest(&mut self.places);
            return node.entry(index).map(Link::Entry);
        }
        take_smallest(&mut self.octets);
        node.link(octet?)
    }
}
