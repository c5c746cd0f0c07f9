//! The IPv4 side of a compiled index: 24 bits by one table or two, the last octet by nodes.
//!
//! For: building, laying out and reading the two forms of the first 24 bits. Not for: nodes
//! (`node`), what a slot means to a caller (`mod`).
//!
//! *Compact*: a table by the first 18 bits leads to blocks of 64 cells. A block has one bit for
//! each cell where a run of equal slots starts, the first cell left out, and one slot a run; the
//! number of ones up to a cell says which.
//!
//! ```text
//! roots   | slot | slot | ...                            2^18, 1 MiB: an answer, or a block's place
//!             ▼
//! block   | starts: 64 bits | slot | slot | ... |        runs - 1 ones, 3 to 66 words
//!              shifted until the cell's bit is the last one, ones counted ─► which slot
//! ```
//!
//! Blocks stand among the nodes, equal ones once, in one cache line if they fit. The cells of wide
//! networks have their answer in the table, which is small enough to stay near. A processor could
//! not guess whose it is, so all addresses take the same steps: those that have their answer look
//! into the first block, which is always near, and what they find there does not count.
//!
//! *Fast*: a slot for each of the 2^24 cells, one read always, 64 MiB.
//!
//! Invariants: the tables are empty (no prefix in the family) or complete; no way through nodes
//! is longer than two steps. Both are checked while reading all the same, since the memory may be
//! a file that somebody overwrote: the answer is then wrong, but there is one.
//!
//! Cost: compact two cache lines, of blocks with more than 14 runs three; fast one; one more for
//! each node, of which there are at most two.

mod build;

use std::hint::select_unpredictable;
use std::ops::Range;

use crate::compiled::node::{BEHIND_WORDS, lines_of_step, place_of_step, slot_at, step};
use crate::compiled::prefetch::Prefetch;
use crate::compiled::slot::Slot;
use crate::compiled::{IndexForm, LANES};
use crate::image::{Image, Section, bytes_of};
use crate::simd::{Processor, prefetch};
use crate::tables::Lanes;

pub(super) use build::{Blocks, Cells};

/// How many leading bits choose a cell.
const FIRST_BITS: u32 = 24;
const CELLS: usize = 1 << FIRST_BITS;
const BLOCK_CELLS: usize = 64;
const ROOTS: usize = CELLS / BLOCK_CELLS;
/// How many words of a block stand before its slots.
const START_WORDS: usize = 2;
/// How many words are read from a block's beginning, at most.
const BLOCK_WORDS: usize = START_WORDS + 256;
const LINE_WORDS: usize = 16;
const _: () = assert!(BLOCK_WORDS <= BEHIND_WORDS);
const NO_SLOT: u32 = Slot::NOTHING.0;

/// The tables of a family, as they lie in memory.
pub(super) struct Ipv4Table {
    first: Section<u32>,
    nodes: Section<u32>,
    form: IndexForm,
}

impl Ipv4Table {
    /// The slot that answers an address.
    ///
    /// In the compact form: the first 18 bits choose a root, which is an answer or leads to a block of
    /// 64 cells. The next 6 bits choose a cell, and the number of runs that start up to it is the
    /// index of its slot. That slot may lead to nodes for the last octet, at most two.
    #[inline(always)]
    pub(super) fn slot(&self, processor: impl Processor, address: u32) -> Slot {
        let slot = match self.form {
            IndexForm::Compact => slot_under(processor, &self.nodes, self.root(address), address),
            IndexForm::Fast => self.cell(address),
        };
        if !slot.is_child() {
            return slot;
        }
        let slot = step(&self.nodes, slot, address as u8);
        if slot.is_child() { step(&self.nodes, slot, address as u8) } else { slot }
    }

    /// The root of an address: nothing if the family has no prefix.
    #[inline(always)]
    fn root(&self, address: u32) -> Slot {
        // All roots or none: the count is checked rather than the place, which is the same each
        // time.
        let roots: Option<&[u32; ROOTS]> = self.first.first_chunk();
        roots
            .and_then(|roots| roots.get(root_of(address)))
            .map_or(Slot::NOTHING, |root| Slot(*root))
    }

    #[inline(always)]
    fn cell(&self, address: u32) -> Slot {
        Slot(self.first.get(cell_of(address)).copied().unwrap_or(NO_SLOT))
    }
}

#[inline(always)]
fn root_of(address: u32) -> usize {
    (address >> 14) as usize
}

#[inline(always)]
fn cell_of(address: u32) -> usize {
    (address >> 8) as usize
}

/// The slot of an address whose root is this one. As many words are checked at once as any count
/// of ones, which has eight bits at most, may lead to.
#[inline(always)]
fn slot_under(processor: impl Processor, nodes: &[u32], root: Slot, address: u32) -> Slot {
    let block = block_of(root);
    let block = nodes.get(block..block + BLOCK_WORDS).and_then(|block| block.first_chunk());
    let Some([low, high, slots @ ..]): Option<&[u32; BLOCK_WORDS]> = block else {
        return if root.is_child() { Slot::NOTHING } else { root };
    };
    let ones = ones_before(processor, [*low, *high], address) as u8;
    let slot = slots.get(usize::from(ones)).copied().unwrap_or(NO_SLOT);
    select_unpredictable(root.is_child(), Slot(slot), root)
}

/// Where the block of a root begins; the first one for roots that are answers.
#[inline(always)]
fn block_of(root: Slot) -> usize {
    select_unpredictable(root.is_child(), root.place(), 0)
}

/// Where the slot of an address stands whose block begins there; outside if the block or the words
/// that stand behind any block do, as in [`slot_under`].
#[inline(always)]
fn place_in(processor: impl Processor, nodes: &[u32], block: usize, address: u32) -> usize {
    let starts = nodes.get(block..block + BLOCK_WORDS).and_then(|block| block.first_chunk());
    let Some(starts) = starts else { return usize::MAX };
    block + START_WORDS + ones_before(processor, *starts, address) as usize
}

/// How many runs of a block start before the cell of an address or at it, the first one left out.
#[inline(always)]
fn ones_before(processor: impl Processor, [low, high]: [u32; START_WORDS], address: u32) -> u32 {
    let starts = u64::from(low) | u64::from(high) << 32;
    processor.ones(starts << (63 - (address >> 8 & 63)))
}

impl Ipv4Table {
    /// The answers' slots for at most [`LANES`] addresses, in stages. Each stage prefetches what
    /// the next one reads, for all lanes, so that the waits overlap. What a slot leads to is
    /// prefetched as soon as the slot is known.
    #[inline(always)]
    pub(super) fn slots_of_lanes(
        &self,
        processor: impl Processor,
        addresses: &[u32],
        slots: &mut [Slot; LANES],
        next: impl Prefetch,
    ) {
        match self.form {
            IndexForm::Compact => self.compact_of_lanes(processor, addresses, slots, next),
            IndexForm::Fast => {
                for address in addresses {
                    prefetch(&self.first, cell_of(*address));
                }
                for (slot, address) in slots.iter_mut().zip(addresses) {
                    *slot = self.cell(*address);
                    next.prefetch(&self.nodes, *slot);
                }
            }
        }
        let mut places = [0; LANES];
        for _ in 0..2 {
            let going = Lanes::of(|lane| slots[lane].is_child()).first(addresses.len());
            for lane in going {
                places[lane] = place_of_step(&self.nodes, slots[lane], addresses[lane] as u8);
                prefetch(&self.nodes, places[lane]);
            }
            for lane in going {
                slots[lane] = slot_at(&self.nodes, places[lane]);
                next.prefetch(&self.nodes, slots[lane]);
            }
        }
    }

    /// The first stages of a batch in the compact form.
    #[inline(always)]
    fn compact_of_lanes(
        &self,
        processor: impl Processor,
        addresses: &[u32],
        slots: &mut [Slot; LANES],
        next: impl Prefetch,
    ) {
        // The roots stay in a near cache and need no prefetch.
        let mut roots = [Slot::NOTHING; LANES];
        for (root, address) in roots.iter_mut().zip(addresses) {
            *root = self.root(*address);
            prefetch(&self.nodes, block_of(*root));
        }
        // A block's slot is often in another line than its beginning. By reference, here and below:
        // an array that was written word by word and is then copied as a whole waits for its last
        // words.
        let mut places = [0; LANES];
        for ((place, root), address) in places.iter_mut().zip(&roots).zip(addresses) {
            *place = place_in(processor, &self.nodes, block_of(*root), *address);
            prefetch(&self.nodes, *place);
        }
        for ((slot, root), place) in slots.iter_mut().zip(&roots).zip(&places).take(addresses.len())
        {
            *slot = select_unpredictable(root.is_child(), slot_at(&self.nodes, *place), *root);
            next.prefetch(&self.nodes, *slot);
        }
    }

    /// How many cache lines a lookup reads one after the other, each found by the one before.
    pub(super) fn lines(&self, processor: impl Processor, address: u32) -> usize {
        if self.first.is_empty() {
            return 0;
        }
        let (mut lines, mut slot) = match self.form {
            IndexForm::Fast => (1, self.cell(address)),
            IndexForm::Compact => {
                let root = self.root(address);
                let place = place_in(processor, &self.nodes, block_of(root), address);
                let is_further = place / LINE_WORDS != block_of(root) / LINE_WORDS;
                let lines = if root.is_child() { 2 + usize::from(is_further) } else { 1 };
                (lines, slot_under(processor, &self.nodes, root, address))
            }
        };
        while slot.is_child() && lines < 8 {
            lines += lines_of_step(&self.nodes, slot, address as u8);
            slot = step(&self.nodes, slot, address as u8);
        }
        lines
    }
}

impl Ipv4Table {
    /// The tables found in an image: roots or cells, nodes; `None` if they have no possible sizes.
    pub(super) fn from_sections(image: &Image, places: &[Range<usize>; 2]) -> Option<Self> {
        let [first, nodes] = places.clone();
        let (first, nodes) = (image.section::<u32>(first)?, image.section(nodes)?);
        let form = match first.len() {
            0 | ROOTS => IndexForm::Compact,
            CELLS => IndexForm::Fast,
            _ => return None,
        };
        Some(Ipv4Table { first, nodes, form })
    }

    /// The bytes of the sections, in the order of [`from_sections`](Self::from_sections).
    pub(super) fn sections(&self) -> [&[u8]; 2] {
        [bytes_of(&self.first), bytes_of(&self.nodes)]
    }

    /// Which form the first table has; an empty one counts as compact.
    pub(super) fn form(&self) -> IndexForm {
        self.form
    }
}
