//! Builds the first table of IPv4 from runs of cells.
//!
//! Not for: reading it (`mod.rs`), or nodes (`node`). Concurrency: one builder. Cost: linear in runs.

use super::{BLOCK_CELLS, CELLS, FIRST_BITS};
use crate::compiled::flatten::{FirstTable, Flat};
use crate::compiled::node::NodePool;
use crate::compiled::slot::Slot;

/// The compact first table while it is built.
#[derive(Default)]
pub(in crate::compiled) struct Blocks {
    roots: Vec<u32>,
    /// The cells of the open block that are known, which of them start a run, and the runs' slots.
    cells: usize,
    starts: u64,
    slots: Vec<u32>,
}

impl FirstTable for Blocks {
    const BITS: u32 = FIRST_BITS;

    fn append(&mut self, pool: &mut NodePool, cells: u128, slot: Slot) -> Option<()> {
        let mut left = cells as usize;
        while left > 0 {
            if self.slots.last() != Some(&slot.0) {
                self.starts |= u64::from(self.cells > 0) << self.cells;
                self.slots.push(slot.0);
            }
            let taken = left.min(BLOCK_CELLS - self.cells);
            self.cells += taken;
            left -= taken;
            if self.cells == BLOCK_CELLS {
                let root = self.close(pool)?;
                // Whole blocks of the same slot follow as often as they fit.
                let more = left / BLOCK_CELLS;
                left %= BLOCK_CELLS;
                self.roots.push(root);
                if more > 0 {
                    let same = root_for(pool, 0, &[slot.0])?;
                    self.roots.extend(std::iter::repeat_n(same, more));
                }
            }
        }
        Some(())
    }
}

impl Blocks {
    /// Writes the open block, which is full, and begins the next one.
    fn close(&mut self, pool: &mut NodePool) -> Option<u32> {
        let root = root_for(pool, self.starts, &self.slots)?;
        self.slots.clear();
        (self.cells, self.starts) = (0, 0);
        Some(root)
    }
}

/// The root for these runs.
fn root_for(pool: &mut NodePool, starts: u64, slots: &[u32]) -> Option<u32> {
    if let [slot] = slots
        && !Slot(*slot).is_child()
    {
        return Some(*slot);
    }
    let starts = [starts as u32, (starts >> 32) as u32];
    let place = pool.add_words(&[&starts, slots].concat())?;
    Some(Slot::child(place, 1)?.0)
}

/// The fast first table while it is built.
#[derive(Default)]
pub(in crate::compiled) struct Cells(Vec<u32>);

impl FirstTable for Cells {
    const BITS: u32 = FIRST_BITS;

    fn append(&mut self, _: &mut NodePool, cells: u128, slot: Slot) -> Option<()> {
        if self.0.is_empty() {
            self.0.reserve_exact(CELLS);
        }
        self.0.extend(std::iter::repeat_n(slot.0, cells as usize));
        Some(())
    }
}

/// The items of the sections: roots or cells, nodes.
pub(in crate::compiled) type Tables = (Vec<u32>, Vec<u32>);

impl Flat<Blocks> {
    /// The sections' items.
    pub(in crate::compiled) fn into_tables(self) -> Tables {
        (self.first.roots, self.nodes)
    }
}

impl Flat<Cells> {
    /// The sections' items.
    pub(in crate::compiled) fn into_tables(self) -> Tables {
        (self.first.0, self.nodes)
    }
}
