//! One level of the trie: what ends inside an octet, and what goes on after it.
//!
//! ```text
//! byte   0: | children: bits and ranks, 40 | links: Vec<u32>, 24   |  read on the way down
//! byte  64: | prefixes: bits and ranks, 40 | entries: Vec<u32>, 24 |  read on the way up
//! ```
//!
//! Two cache lines, aligned, one for each direction of a lookup. Slot r of a vector belongs to
//! the member of rank r of the bit set beside it.
//!
//! Cost: reading a slot is a bit test, a popcount and one read; changing one shifts the slots
//! after it (at most 255).

use super::base_index::{base_index, nearest_holder};
use super::ranked_bits::RankedBits;

/// A node; empty by default.
#[derive(Clone, Default)]
#[repr(C, align(64))]
pub(super) struct Node {
    children: RankedBits,
    links: Vec<PackedLink>,
    prefixes: RankedBits,
    entries: Vec<u32>,
}

// A freed slot of the slab must not make the node larger than its two lines.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Option<Node>>() == 128);

/// What hangs below an octet of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Link {
    /// The node for the next octet.
    Node(u32),
    /// A single entry, whose prefix covers the whole octet or is longer still.
    Entry(u32),
}

/// A [`Link`] in four bytes: the highest bit marks an entry.
#[derive(Clone, Copy)]
struct PackedLink(u32);

impl PackedLink {
    const ENTRY: u32 = 1 << 31;

    fn pack(link: Link) -> PackedLink {
        match link {
            Link::Node(number) => PackedLink(number),
            Link::Entry(number) => PackedLink(number | Self::ENTRY),
        }
    }

    #[inline]
    fn unpack(self) -> Link {
        if self.0 & Self::ENTRY == 0 {
            Link::Node(self.0)
        } else {
            Link::Entry(self.0 & !Self::ENTRY)
        }
    }
}

impl Node {
    /// What hangs below `octet`.
    #[inline]
    pub(super) fn link(&self, octet: u8) -> Option<Link> {
        if !self.children.contains(octet) {
            return None;
        }
        Some(self.links[self.children.rank(octet)].unpack())
    }

    /// The longest prefix with index `index` or shorter that holds it: its index and its entry.
    #[inline]
    pub(super) fn longest_from(&self, index: u8) -> Option<(u8, u32)> {
        let found = nearest_holder(&self.prefixes, index);
        if found == 0 {
            return None;
        }
        Some((found, self.entries[self.prefixes.rank(found)]))
    }

    /// The entry of the prefix with this base index.
    #[inline]
    pub(super) fn entry(&self, index: u8) -> Option<u32> {
        if !self.prefixes.contains(index) {
            return None;
        }
        Some(self.entries[self.prefixes.rank(index)])
    }

    /// Which lengths (bit n: length n, 0 to 7) have a prefix that holds `octet`.
    pub(super) fn matching_lengths(&self, octet: u8) -> u8 {
        (0..8)
            .filter(|length_bits| self.prefixes.contains(base_index(octet, *length_bits)))
            .fold(0, |lengths, length_bits| lengths | 1 << length_bits)
    }

    /// The one entry that is all this node holds, if it is so.
    pub(super) fn only_entry(&self) -> Option<u32> {
        match (self.links.as_slice(), self.entries.as_slice()) {
            ([], [entry]) => Some(*entry),
            ([link], []) => match link.unpack() {
                Link::Entry(entry) => Some(entry),
                Link::Node(_) => None,
            },
            _ => None,
        }
    }

    /// The octets with a link, as bits.
    pub(super) fn children_bits(&self) -> [u64; 4] {
        *self.children.words()
    }

    /// The base indexes with an entry, as bits.
    pub(super) fn prefixes_bits(&self) -> [u64; 4] {
        *self.prefixes.words()
    }

    /// Hangs a link below `octet`, in place of the one that may be there.
    pub(super) fn set_link(&mut self, octet: u8, link: Link) {
        let slot = self.children.rank(octet);
        if self.children.contains(octet) {
            self.links[slot] = PackedLink::pack(link);
        } else {
            self.children.insert(octet);
            self.links.insert(slot, PackedLink::pack(link));
        }
    }

    /// Takes away the link below `octet`, which must be there.
    pub(super) fn remove_link(&mut self, octet: u8) {
        self.links.remove(self.children.rank(octet));
        self.children.remove(octet);
    }

    /// Adds an entry under a base index that has none.
    pub(super) fn add_entry(&mut self, index: u8, entry: u32) {
        self.entries.insert(self.prefixes.rank(index), entry);
        self.prefixes.insert(index);
    }

    /// Takes away the entry under a base index, which must be there.
    pub(super) fn remove_entry(&mut self, index: u8) {
        self.entries.remove(self.prefixes.rank(index));
        self.prefixes.remove(index);
    }
}
