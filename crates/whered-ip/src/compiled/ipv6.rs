//! The IPv6 side of a compiled index: 64 bits by a search tree over runs, the rest by nodes.
//!
//! For: building, laying out and reading that tree. Not for: nodes (`node`), what a slot means to
//! a caller (`mod`).
//!
//! The upper 64 bits of all addresses are runs of equal slots, each told by its last member. A
//! static B+-tree finds the run: nodes are cache lines of eight ends, which are compared at once,
//! and which child comes next is the number of ends below the address, so that there is neither a
//! pointer nor a branch.
//!
//! ```text
//! level 2   |         e e e e e e e e         |              1 node, 9 children
//!             │         │               │
//! level 1   |e..e|    |e..e|   ...    |e..e|                 child c of node k is 9k + c
//!             │
//! leaves    |e..e| |e..e| ...                                8 runs each: run c of leaf k is 8k + c
//! slots     |s..s| |s..s| ...                                one a run
//! ```
//!
//! End j of an inner node is the last end below its child j. Lines that are not full are padded
//! by the highest number, which no address is above.
//!
//! Below 64 bits, where few networks are, a slot leads to nodes for the octets 8 to 15.
//! The idea of linearised B+-trees over elementary intervals is that of PlanB (Zhang et al., NSDI
//! 2026, arXiv 2604.14650).
//!
//! Invariants: empty (no prefix in the family), or the last run ends at the highest number. What
//! is read is checked all the same, since the memory may be a file that somebody overwrote.
//!
//! Cost: one cache line a level, log9 of an eighth of the runs (6 and a leaf for a million, of
//! which the upper four stay in the cache), the slot's, and two at most for each further octet.

use super::LANES;
use super::flatten::{FirstTable, Flat};
use super::node::{NodePool, lines_of_step, step};
use super::slot::Slot;
use crate::image::{Image, Section, bytes_of};
use crate::simd::{Processor, prefetch};

/// Eight rising ends: a cache line. They are kept as signed numbers in the same order, since that
/// is what AVX2 compares.
type Line = [i64; 8];
const LINE_ENDS: usize = 8;
const CHILDREN: usize = LINE_ENDS + 1;
const NO_SLOT: u32 = Slot::NOTHING.0;
/// More levels than 2^32 runs have.
const MOST_LEVELS: usize = 12;

/// The tables of a family, as they lie in memory.
pub(super) struct Ipv6Table {
    /// All levels but the leaves, the root's first.
    inner: Section<Line>,
    leaves: Section<Line>,
    slots: Section<u32>,
    nodes: Section<u32>,
    /// Where each level of `inner` begins.
    levels: Vec<u32>,
}

impl Ipv6Table {
    /// The tables found in an image: inner lines, leaves, slots, nodes; `None` if they have no
    /// possible sizes.
    pub(super) fn from_sections(
        image: &Image,
        places: &[std::ops::Range<usize>; 4],
    ) -> Option<Self> {
        let [inner, leaves, slots, nodes] = places.clone();
        let inner = image.section::<Line>(inner)?;
        let leaves = image.section::<Line>(leaves)?;
        let slots = image.section::<u32>(slots)?;
        let levels = level_starts(leaves.len());
        let inner_lines: usize = level_sizes(leaves.len()).iter().sum();
        if inner.len() != inner_lines || slots.len().div_ceil(LINE_ENDS) != leaves.len() {
            return None;
        }
        Some(Ipv6Table { inner, leaves, slots, nodes: image.section(nodes)?, levels })
    }

    /// The bytes of the sections, in the order of [`from_sections`](Self::from_sections).
    pub(super) fn sections(&self) -> [&[u8]; 4] {
        [
            bytes_of(&self.inner),
            bytes_of(&self.leaves),
            bytes_of(&self.slots),
            bytes_of(&self.nodes),
        ]
    }

    /// The answer's slot for an address.
    #[inline(always)]
    pub(super) fn slot(&self, processor: impl Processor, address: u128) -> Slot {
        let upper = in_order((address >> 64) as u64);
        let mut line = 0;
        for level in &self.levels {
            line = self.child_of(processor, *level as usize, line, upper);
        }
        // The slot's line is asked for while the leaf's is under way.
        prefetch(&self.slots, line * LINE_ENDS);
        let slot = self.slot_of_leaf(processor, line, upper);
        if slot.is_child() { self.slot_below(slot, address) } else { slot }
    }

    /// The number, in its level, of the child that covers an address.
    #[inline(always)]
    fn child_of(&self, processor: impl Processor, level: usize, line: usize, upper: i64) -> usize {
        let ends = self.inner.get(level + line);
        line * CHILDREN + ends.map_or(0, |ends| processor.below(ends, upper))
    }

    #[inline(always)]
    fn slot_of_leaf(&self, processor: impl Processor, line: usize, upper: i64) -> Slot {
        let ends = self.leaves.get(line);
        let run = line * LINE_ENDS + ends.map_or(0, |ends| processor.below(ends, upper));
        Slot(self.slots.get(run).copied().unwrap_or(NO_SLOT))
    }

    /// Goes on below the 64th bit.
    fn slot_below(&self, mut slot: Slot, address: u128) -> Slot {
        let mut before_bits = 56;
        // Two nodes at most for each of eight octets.
        for _ in 0..16 {
            before_bits += 8 * slot.octets_on();
            slot = step(&self.nodes, slot, octet(address, before_bits));
            if !slot.is_child() {
                return slot;
            }
        }
        Slot::NOTHING
    }

    /// The answers' slots for at most [`LANES`] addresses, one level of all lanes after the other.
    #[inline(always)]
    pub(super) fn slots_of_lanes(
        &self,
        processor: impl Processor,
        addresses: &[u128],
        slots: &mut [Slot; LANES],
    ) {
        let mut lines = [0_u32; LANES];
        let upper = |address: &u128| in_order((*address >> 64) as u64);
        for (depth, level) in self.levels.iter().enumerate() {
            let next = self.levels.get(depth + 1);
            for (line, address) in lines.iter_mut().zip(addresses) {
                let child =
                    self.child_of(processor, *level as usize, *line as usize, upper(address));
                *line = child as u32;
                match next {
                    Some(next) => prefetch(&self.inner, *next as usize + child),
                    None => {
                        prefetch(&self.leaves, child);
                        prefetch(&self.slots, child * LINE_ENDS);
                    }
                }
            }
        }
        for ((slot, line), address) in slots.iter_mut().zip(lines).zip(addresses) {
            *slot = self.slot_of_leaf(processor, line as usize, upper(address));
        }
        for (slot, address) in slots.iter_mut().zip(addresses) {
            if slot.is_child() {
                *slot = self.slot_below(*slot, *address);
            }
        }
    }

    /// How many cache lines a lookup reads one after the other, each found by the one before.
    pub(super) fn lines(&self, processor: impl Processor, address: u128) -> usize {
        if self.leaves.is_empty() {
            return 0;
        }
        let upper = in_order((address >> 64) as u64);
        let mut line = 0;
        for level in &self.levels {
            line = self.child_of(processor, *level as usize, line, upper);
        }
        let mut slot = self.slot_of_leaf(processor, line, upper);
        let mut lines = self.levels.len() + 2;
        let mut before_bits = 56;
        while slot.is_child() && before_bits < 128 {
            before_bits += 8 * slot.octets_on();
            lines += lines_of_step(&self.nodes, slot, octet(address, before_bits));
            slot = step(&self.nodes, slot, octet(address, before_bits));
        }
        lines
    }
}

/// The signed number that has the same place in the order of all of them.
#[inline(always)]
fn in_order(upper: u64) -> i64 {
    (upper ^ 1 << 63) as i64
}

/// The eight bits behind the first `before_bits`; those of the last octet beyond the end.
#[inline(always)]
fn octet(address: u128, before_bits: u32) -> u8 {
    (address >> 120_u32.saturating_sub(before_bits)) as u8
}

/// How many lines each level above so many leaves has, the root's first.
fn level_sizes(leaves: usize) -> Vec<usize> {
    let mut sizes = Vec::new();
    let mut below = leaves;
    while below > 1 && sizes.len() < MOST_LEVELS {
        below = below.div_ceil(CHILDREN);
        sizes.push(below);
    }
    sizes.reverse();
    sizes
}

/// Where each level begins.
fn level_starts(leaves: usize) -> Vec<u32> {
    let mut start = 0;
    let starts = level_sizes(leaves).into_iter().map(|size| {
        start += size as u32;
        start - size as u32
    });
    starts.collect()
}

/// The runs over the upper 64 bits while they are built.
#[derive(Default)]
pub(super) struct Runs {
    ends: Vec<u64>,
    slots: Vec<u32>,
    cells: u128,
}

impl FirstTable for Runs {
    const BITS: u32 = 64;

    fn append(&mut self, _: &mut NodePool, cells: u128, slot: Slot) -> Option<()> {
        self.cells += cells;
        let end = (self.cells - 1) as u64;
        match (self.ends.last_mut(), self.slots.last()) {
            (Some(last), Some(before)) if *before == slot.0 => *last = end,
            _ => {
                self.ends.push(end);
                self.slots.push(slot.0);
            }
        }
        Some(())
    }
}

/// Inner lines, leaves, slots and nodes.
pub(super) type Tables = (Vec<Line>, Vec<Line>, Vec<u32>, Vec<u32>);

impl Flat<Runs> {
    /// The sections' items.
    pub(super) fn into_tables(self) -> Tables {
        let leaves = lines_of(&self.first.ends, LINE_ENDS);
        let mut levels = Vec::new();
        let mut below: Vec<u64> = self.first.ends.chunks(LINE_ENDS).map(last_of).collect();
        while below.len() > 1 {
            levels.push(lines_of(&below, CHILDREN));
            below = below.chunks(CHILDREN).map(last_of).collect();
        }
        (levels.into_iter().rev().flatten().collect(), leaves, self.first.slots, self.nodes)
    }
}

fn last_of(ends: &[u64]) -> u64 {
    ends.last().copied().unwrap_or(u64::MAX)
}

/// The first eight of each `step` ends as a line.
fn lines_of(ends: &[u64], step: usize) -> Vec<Line> {
    let lines = ends.chunks(step).map(|ends| {
        let mut line = [i64::MAX; LINE_ENDS];
        for (place, end) in line.iter_mut().zip(ends) {
            *place = in_order(*end);
        }
        line
    });
    lines.collect()
}
