//! Nodes: how eight bits of an address are told apart.
//!
//! For: writing nodes, and the one step from a node to a slot. Not for: which nodes there are
//! (see `build`), the way through them (see `ipv4`, `ipv6`).
//!
//! A node divides 256 cells (an octet of the address) into at most 16 runs of equal slots. Run r
//! ends at cell `end[r]`; the slot of cell c is that of the first run whose end is not below c.
//!
//! ```text
//! | 1 to 4 words: the ends as octets, the last one 255, padded by 255 | slots, one a run |
//! ```
//!
//! With the runs 0-127, 128-191 and 192-255 (a /25 and two /26) that is
//! `| 7f bf ff ff | slot | slot | slot |`. Cell 0x90: the first end not below it is bf, run 1.
//!
//! An octet with more runs is two nodes deep: the upper one ends where 16 runs at a time end, and
//! its slots lead to nodes for these.
//!
//! Because the last end is always there, a search over four words never has to know how many of
//! them are ends: it stops before the slots behind them. That makes a step some 15 instructions
//! without a branch: 16 octets are compared at once (SSE2, which every x86-64 has).
//!
//! Invariants: runs are in order and adjacent runs differ; a node lies inside one cache line
//! unless it is longer than one; behind the last node follow [`BEHIND_WORDS`] words, so that a step
//! may read from any node's beginning without a look at where the nodes end.
//!
//! Cost: a step reads one cache line, for nodes of 13 to 16 runs mostly two.

use super::slot::{PLACES, Slot};
use crate::simd::first_not_below;

/// How many words are read from a node's beginning, its slots included.
const STEP_WORDS: usize = 32;
/// How many words stand behind the last node, so that as many may be read from any beginning, be it
/// a node's or that of a block of the first table.
pub(super) const BEHIND_WORDS: usize = 258;
/// How many runs a node has at most.
const MOST_RUNS: usize = 16;
const LINE_WORDS: usize = 16;

/// One step down: the slot of an octet in the node that `child` leads to. All words that the step
/// may read are checked at once.
#[inline(always)]
pub(super) fn step(nodes: &[u32], child: Slot, octet: u8) -> Slot {
    let place = child.place();
    let node = nodes.get(place..place + STEP_WORDS).and_then(|node| node.first_chunk());
    let Some(node): Option<&[u32; STEP_WORDS]> = node else { return Slot::NOTHING };
    let head = node.first_chunk().expect("a node is longer than its head");
    // At most 4 words with ends and 16 runs.
    Slot(node[(child.end_words() + first_not_below(head, octet)) % STEP_WORDS])
}

/// The slot that stands at this place; nothing matches outside.
#[inline(always)]
pub(super) fn slot_at(nodes: &[u32], place: usize) -> Slot {
    Slot(nodes.get(place).copied().unwrap_or(Slot::NOTHING.0))
}

/// Where that slot stands; outside if the node or the words that stand behind any node do, as in
/// [`step`].
#[inline(always)]
pub(super) fn place_of_step(nodes: &[u32], child: Slot, octet: u8) -> usize {
    let place = child.place();
    let head = nodes.get(place..place + STEP_WORDS).and_then(|node| node.first_chunk());
    let Some(head) = head else { return usize::MAX };
    place + child.end_words() + first_not_below(head, octet)
}

/// How many cache lines a step reads, the slot's after the ends'.
pub(super) fn lines_of_step(nodes: &[u32], child: Slot, octet: u8) -> usize {
    let place = place_of_step(nodes, child, octet);
    1 + usize::from(place / LINE_WORDS != child.place() / LINE_WORDS)
}

/// The nodes of an index while it is built; equal nodes are kept once.
pub(super) struct NodePool {
    words: Vec<u32>,
    /// Open addressing: the upper half of a node's hash, then its place plus one; 0 is free.
    shared: Vec<u64>,
    shared_count: usize,
    /// The node that is being written, kept for its memory.
    scratch: Vec<u32>,
}

/// How many places are tried for an equal node. Input made to collide costs memory, never time.
const SHARED_TRIES: usize = 16;

impl NodePool {
    pub(super) fn new() -> NodePool {
        NodePool { words: Vec::new(), shared: vec![0; 1024], shared_count: 0, scratch: Vec::new() }
    }

    /// Adds the node with these runs, each given by its last cell and its slot, or finds an equal
    /// one; `None` when the words are used up.
    pub(super) fn add(&mut self, ends: &[u8], slots: &[u32]) -> Option<Slot> {
        debug_assert_eq!(ends.len(), slots.len(), "one slot a run");
        debug_assert_eq!(ends.last(), Some(&255), "a node is added when it is full");
        if ends.len() <= MOST_RUNS {
            return self.add_small(ends, slots);
        }
        let mut upper_ends = [255; MOST_RUNS];
        let mut upper_slots = [0; MOST_RUNS];
        let mut count = 0;
        for (ends, slots) in ends.chunks(MOST_RUNS).zip(slots.chunks(MOST_RUNS)) {
            // The runs of a part are searched for cells in it only; behind them nothing follows.
            let mut part = [255; MOST_RUNS];
            part[..ends.len() - 1].copy_from_slice(&ends[..ends.len() - 1]);
            let child = self.add_small(&part[..ends.len()], slots)?.of_same_octet();
            upper_ends[count] = ends[ends.len() - 1];
            upper_slots[count] = if ends.len() == 1 { slots[0] } else { child.0 };
            count += 1;
        }
        self.add_small(&upper_ends[..count], &upper_slots[..count])
    }

    fn add_small(&mut self, ends: &[u8], slots: &[u32]) -> Option<Slot> {
        let mut words = std::mem::take(&mut self.scratch);
        words.clear();
        for four in ends.chunks(4) {
            let mut octets = [255; 4];
            octets[..four.len()].copy_from_slice(four);
            words.push(u32::from_le_bytes(octets));
        }
        let end_words = words.len();
        words.extend_from_slice(slots);
        let place = self.add_words(&words);
        self.scratch = words;
        Slot::child(place?, end_words)
    }

    /// The place of these words, which are kept once; `None` when there are too many.
    pub(super) fn add_words(&mut self, words: &[u32]) -> Option<usize> {
        let hash = hash_of(words);
        if (self.shared_count + 1) * 2 > self.shared.len() {
            self.grow_shared();
        }
        let mut free = None;
        for place in tries(hash, self.shared.len()) {
            let known = self.shared[place];
            if known == 0 {
                free = Some(place);
                break;
            }
            let place = known as u32 as usize - 1;
            if known >> 32 == hash >> 32
                && self.words.get(place..place + words.len()) == Some(words)
            {
                return Some(place);
            }
        }
        let place = self.append(words)?;
        if let Some(free) = free {
            self.shared[free] = hash >> 32 << 32 | (place as u64 + 1);
            self.shared_count += 1;
        }
        Some(place)
    }

    /// Puts words behind the others, at the next line if they would cross one.
    fn append(&mut self, words: &[u32]) -> Option<usize> {
        let left = LINE_WORDS - self.words.len() % LINE_WORDS;
        if words.len() > left {
            self.words.resize(self.words.len() + left, 0);
        }
        let place = self.words.len();
        if place + words.len() + BEHIND_WORDS > PLACES {
            return None;
        }
        self.words.extend_from_slice(words);
        Some(place)
    }

    /// All nodes, with the words behind the last one.
    pub(super) fn finish(mut self) -> Vec<u32> {
        if !self.words.is_empty() {
            self.words.extend([0; BEHIND_WORDS]);
        }
        self.words
    }

    /// Doubles the table of known nodes. The upper halves of the hashes are all it needs.
    fn grow_shared(&mut self) {
        let old = std::mem::take(&mut self.shared);
        self.shared = vec![0; old.len() * 2];
        self.shared_count = 0;
        for known in old.into_iter().filter(|known| *known != 0) {
            let free = tries(known, self.shared.len()).find(|place| self.shared[*place] == 0);
            if let Some(free) = free {
                self.shared[free] = known;
                self.shared_count += 1;
            }
        }
    }
}

/// The places of a table of `size` (a power of two) where a node with this hash may be.
fn tries(hash: u64, size: usize) -> impl Iterator<Item = usize> {
    let first = (hash >> 32) as usize;
    (first..first + SHARED_TRIES).map(move |place| place & (size - 1))
}

/// A multiplicative hash of a node; its upper half is used.
fn hash_of(words: &[u32]) -> u64 {
    let mut hash = 0_u64;
    for word in words {
        hash = (hash.rotate_left(23) ^ u64::from(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    hash ^ hash << 29
}

#[cfg(test)]
#[path = "node_tests.rs"]
mod tests;
