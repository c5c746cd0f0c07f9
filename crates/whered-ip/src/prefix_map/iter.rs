//! Walking a map in address order.
//!
//! A node's prefixes are numbered row by row, which is not their order by address; on entering a
//! node its bits are therefore moved to the places of a top-down walk (`INDEX_AT_PLACE`), and
//! then merged with the children: the prefix first where both start at the same octet.
//!
//! Cost: linear in entries and nodes; one allocation for the way down.

use super::base_index::{INDEX_AT_PLACE, PLACE_OF_INDEX, first_octet};
use super::node::{Link, Node};
use super::ranked_bits::{smallest, take_smallest};
use super::{Entry, PrefixMap, ROOT_IPV4, ROOT_IPV6};
use crate::Prefix;

impl<V> PrefixMap<V> {
    /// All prefixes with their values, in the order of [`Prefix`]: IPv4 first, by first address,
    /// shorter before longer.
    pub fn iter(&self) -> Iter<'_, V> {
        let frames = [ROOT_IPV6, ROOT_IPV4].map(|root| Frame::new(&self.nodes[root], root));
        Iter { map: self, frames: Vec::from(frames) }
    }
}

impl<'a, V> IntoIterator for &'a PrefixMap<V> {
    type Item = (Prefix, &'a V);
    type IntoIter = Iter<'a, V>;

    fn into_iter(self) -> Iter<'a, V> {
        self.iter()
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
