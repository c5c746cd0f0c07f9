//! The IPv4 side of a compiled index: 24 bits by one table, the last octet by nodes.
//!
//! For: building, laying out and reading the two forms of that table. Not for: nodes (`node`),
//! what a slot means to a caller (`mod`).
//!
//! *Compact*: the 2^24 cells are runs of equal slots. One bit a cell says whether a run starts
//! there, and the number of runs up to a cell is the place of its slot: 64 cells share 16 octets,
//! which is all that is read before the slot.
//!
//! ```text
//! block of 64 cells   | starts: 64 bits | before: u32 | carried: u32 |        2^18 blocks, 4 MiB
//!                             │ ones up to the cell: 0 ─► carried, the slot of the run that
//!                             ▼ 1 and more                 goes on from the block before
//! slots               | slot | slot | ...                  at before + ones - 1
//! ```
//!
//! A block inside one network of 18 bits or fewer therefore costs one read. *Fast*: a slot for
//! each of the 2^24 cells, one read always, 64 MiB.
//!
//! Invariants: the tables are empty (no prefix in the family) or complete; no way through nodes
//! is longer than two steps. Both are checked while reading all the same, since the memory may be
//! a file that somebody overwrote: the answer is then wrong, but there is one.
//!
//! Cost: compact one or two cache lines, fast one; one more for each node, of which there are at
//! most two.

use std::hint::select_unpredictable;

use super::flatten::{FirstTable, Flat};
use super::node::{lines_of_step, step};
use super::slot::Slot;
use super::{IndexForm, LANES};
use crate::image::{Image, Section, bytes_of};
use crate::simd::{Processor, prefetch};

/// How many leading bits choose a cell of the first table.
const FIRST_BITS: u32 = 24;
const CELLS: usize = 1 << FIRST_BITS;
/// A block's first word: which of its cells start a run. Its second: the number of runs that
/// start before it in the lower half, the slot that is carried into it in the upper.
type Block = [u64; 2];
const NO_SLOT: u32 = Slot::NOTHING.0;

/// The tables of a family, as they lie in memory.
pub(super) struct Ipv4Table {
    first: First,
    nodes: Section<u32>,
}

enum First {
    Compact { blocks: Section<Block>, slots: Section<u32> },
    Fast { cells: Section<u32> },
}

impl Ipv4Table {
    /// The tables found in an image: blocks, slots (or cells), nodes; `None` if they have no
    /// possible sizes.
    pub(super) fn from_sections(
        image: &Image,
        places: &[std::ops::Range<usize>; 3],
    ) -> Option<Self> {
        let [blocks, slots, nodes] = places.clone();
        let blocks = image.section::<Block>(blocks)?;
        let slots = image.section::<u32>(slots)?;
        let nodes = image.section(nodes)?;
        let first = match (blocks.len(), slots.len()) {
            (0, 0 | CELLS) => First::Fast { cells: slots },
            (count, _) if count == CELLS / 64 => First::Compact { blocks, slots },
            _ => return None,
        };
        Some(Ipv4Table { first, nodes })
    }

    /// The bytes of the sections, in the order of [`from_sections`](Self::from_sections).
    pub(super) fn sections(&self) -> [&[u8]; 3] {
        match &self.first {
            First::Compact { blocks, slots } => {
                [bytes_of(blocks), bytes_of(slots), bytes_of(&self.nodes)]
            }
            First::Fast { cells } => [&[], bytes_of(cells), bytes_of(&self.nodes)],
        }
    }

    /// Which form the first table has; an empty one is taken for compact.
    pub(super) fn form(&self) -> IndexForm {
        match &self.first {
            First::Fast { cells } if !cells.is_empty() => IndexForm::Fast,
            _ => IndexForm::Compact,
        }
    }

    /// The answer's slot for an address.
    #[inline(always)]
    pub(super) fn slot(&self, processor: impl Processor, address: u32) -> Slot {
        let mut slot = match &self.first {
            First::Compact { blocks, slots } => {
                let Some(block) = blocks.get((address >> 14) as usize) else {
                    return Slot::NOTHING;
                };
                let place = place_in(processor, block, address);
                slot_at(slots, place, carried(block))
            }
            First::Fast { cells } => {
                Slot(cells.get((address >> 8) as usize).copied().unwrap_or(NO_SLOT))
            }
        };
        if slot.is_child() {
            slot = step(&self.nodes, slot, address as u8);
            if slot.is_child() {
                slot = step(&self.nodes, slot, address as u8);
            }
        }
        slot
    }

    /// The answers' slots for at most [`LANES`] addresses, in stages: what a stage reads was asked
    /// for by the stage before, for all lanes, so that the waits overlap.
    #[inline(always)]
    pub(super) fn slots_of_lanes(
        &self,
        processor: impl Processor,
        addresses: &[u32],
        slots: &mut [Slot; LANES],
    ) {
        match &self.first {
            First::Compact { blocks, slots: listed } => {
                first_of_lanes(processor, blocks, listed, addresses, slots);
            }
            First::Fast { cells } => {
                for address in addresses {
                    prefetch(cells, (*address >> 8) as usize);
                }
                for (slot, address) in slots.iter_mut().zip(addresses) {
                    *slot = Slot(cells.get((*address >> 8) as usize).copied().unwrap_or(NO_SLOT));
                }
            }
        }
        let mut going = [0_u8; LANES];
        let mut count = 0;
        for (lane, slot) in (0..).zip(&slots[..addresses.len()]) {
            going[count] = lane;
            count += usize::from(slot.is_child());
            // A slot that is no child asks for a line that is never read: cheaper than a branch.
            prefetch(&self.nodes, slot.place());
        }
        for _ in 0..2 {
            let mut kept = 0;
            for place in 0..count {
                let lane = usize::from(going[place]) % LANES;
                let slot = step(&self.nodes, slots[lane], addresses[lane] as u8);
                slots[lane] = slot;
                going[kept] = lane as u8;
                kept += usize::from(slot.is_child());
            }
            count = kept;
        }
    }

    /// How many cache lines a lookup reads one after the other, each found by the one before.
    pub(super) fn lines(&self, processor: impl Processor, address: u32) -> usize {
        let (mut lines, mut slot) = match &self.first {
            First::Compact { blocks, slots } => {
                let Some(block) = blocks.get((address >> 14) as usize) else { return 0 };
                let place = place_in(processor, block, address);
                (1 + usize::from(place.is_some()), slot_at(slots, place, carried(block)))
            }
            First::Fast { cells } => {
                (1, Slot(cells.get((address >> 8) as usize).copied().unwrap_or(NO_SLOT)))
            }
        };
        while slot.is_child() && lines < 8 {
            lines += lines_of_step(&self.nodes, slot, address as u8);
            slot = step(&self.nodes, slot, address as u8);
        }
        lines
    }
}

/// The first stages of a batch in the compact form.
#[inline(always)]
fn first_of_lanes(
    processor: impl Processor,
    blocks: &[Block],
    listed: &[u32],
    addresses: &[u32],
    slots: &mut [Slot; LANES],
) {
    for address in addresses {
        prefetch(blocks, (*address >> 14) as usize);
    }
    let mut places = [u32::MAX; LANES];
    for ((place, slot), address) in places.iter_mut().zip(slots.iter_mut()).zip(addresses) {
        *slot = Slot::NOTHING;
        if let Some(block) = blocks.get((*address >> 14) as usize) {
            *slot = carried(block);
            let listed_at = place_in(processor, block, *address);
            *place = select_unpredictable(listed_at.is_some(), listed_at.unwrap_or(0), u32::MAX);
            prefetch(listed, listed_at.unwrap_or(0) as usize);
        }
    }
    for (slot, place) in slots.iter_mut().zip(places).take(addresses.len()) {
        *slot = slot_at(listed, (place != u32::MAX).then_some(place), *slot);
    }
}

/// Where the slot of an address is listed; `None` if its run goes on from the block before.
#[inline(always)]
fn place_in(processor: impl Processor, block: &Block, address: u32) -> Option<u32> {
    let cell = address >> 8 & 63;
    let ones = processor.ones(block[0] << (63 - cell));
    (ones > 0).then_some((block[1] as u32).wrapping_add(ones).wrapping_sub(1))
}

/// The slot that is carried into a block.
#[inline(always)]
fn carried(block: &Block) -> Slot {
    Slot((block[1] >> 32) as u32)
}

/// The slot at its place, or else the one carried into the block, without a branch between them.
#[inline(always)]
fn slot_at(slots: &[u32], place: Option<u32>, carried: Slot) -> Slot {
    let listed = slots.get(place.unwrap_or(0) as usize).unwrap_or(&NO_SLOT);
    Slot(*select_unpredictable(place.is_some(), listed, &carried.0))
}

/// The compact first table while it is built.
#[derive(Default)]
pub(super) struct Runs {
    starts: Vec<u64>,
    slots: Vec<u32>,
    cells: usize,
}

impl FirstTable for Runs {
    const BITS: u32 = FIRST_BITS;

    fn append(&mut self, cells: u128, slot: Slot) {
        if self.starts.is_empty() {
            self.starts = vec![0; CELLS / 64];
        }
        if self.slots.last() != Some(&slot.0) {
            self.starts[self.cells / 64] |= 1 << (self.cells % 64);
            self.slots.push(slot.0);
        }
        self.cells += cells as usize;
    }
}

impl Flat<Runs> {
    /// The sections' items: blocks, slots, nodes.
    pub(super) fn into_tables(self) -> (Vec<Block>, Vec<u32>, Vec<u32>) {
        let mut before = 0_u32;
        let blocks = self.first.starts.iter().map(|starts| {
            let carried = match before {
                0 => NO_SLOT,
                _ => self.first.slots[before as usize - 1],
            };
            let block = [*starts, u64::from(carried) << 32 | u64::from(before)];
            before += starts.count_ones();
            block
        });
        (blocks.collect(), self.first.slots, self.nodes)
    }
}

/// The fast first table while it is built.
#[derive(Default)]
pub(super) struct Cells(Vec<u32>);

impl FirstTable for Cells {
    const BITS: u32 = FIRST_BITS;

    fn append(&mut self, cells: u128, slot: Slot) {
        if self.0.is_empty() {
            self.0.reserve_exact(CELLS);
        }
        self.0.extend(std::iter::repeat_n(slot.0, cells as usize));
    }
}

impl Flat<Cells> {
    /// The sections' items: no blocks, cells, nodes.
    pub(super) fn into_tables(self) -> (Vec<Block>, Vec<u32>, Vec<u32>) {
        (Vec::new(), self.first.0, self.nodes)
    }
}
