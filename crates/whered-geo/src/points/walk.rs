//! What a search needs of the tree: leaves in order, with the cells that each begins and ends with.
//!
//! For: everything in `search.rs`, `nearest.rs` and `found.rs`; these know the tree only by
//! [`Cursor`], [`LeafAt`] and [`Points::leaf_at`].
//! Not for: single entries (`lookup.rs`), walks over entries (`iter.rs`).
//! Cost: a seek within the same leaf is two comparisons; elsewhere one or two binary searches
//! over first cells, without a look at a leaf.

use super::Points;
use super::leaf::{Keys, Leaf};
use crate::simd::KeyBlock;

/// Where a leaf is, in an order that is that of the leaves. It holds for as long as the
/// collection, or the frozen view of it, is not changed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct LeafAt {
    block: u32,
    leaf: u32,
}

/// A leaf, and what begins where around it.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    points: &'a Points,
    block: usize,
    leaf: usize,
    /// The first cell of the leaf; 0 for the first leaf, so that no cell is before all leaves.
    first: u64,
    /// The first cell of the next leaf; above all cells if there is none.
    next_first: u64,
    /// The same for the next block.
    next_block: u64,
}

/// More than the bits of any cell.
const BEYOND: u64 = u64::MAX;

impl Points {
    /// The leaf at a place that a cursor gave.
    pub(super) fn leaf_at(&self, at: LeafAt) -> &Leaf {
        &self.blocks[at.block as usize].leaves[at.leaf as usize]
    }
}

impl<'a> Cursor<'a> {
    /// The first leaf; `None` if there is no leaf.
    pub(super) fn new(points: &'a Points) -> Option<Cursor<'a>> {
        let mut cursor =
            Cursor { points, block: 0, leaf: 0, first: 0, next_first: 0, next_block: 0 };
        (!points.blocks.is_empty()).then(|| {
            cursor.enter_block(0);
            cursor.enter(0);
            cursor
        })
    }

    /// Goes to the last leaf that begins before these bits, or else to the first leaf: entries of
    /// these cells are in it or after it.
    #[inline]
    pub(super) fn seek(&mut self, bits: u64) {
        if self.first < bits && bits <= self.next_first || bits == 0 && self.first == 0 {
            return;
        }
        self.seek_elsewhere(bits);
    }

    fn seek_elsewhere(&mut self, bits: u64) {
        let before = |firsts: &[u64]| firsts.partition_point(|&first| first < bits);
        let block_first = if self.block == 0 { 0 } else { self.points.firsts[self.block] };
        if !(block_first < bits && bits <= self.next_block) {
            self.enter_block(before(&self.points.firsts).saturating_sub(1));
        }
        let firsts = &self.points.blocks[self.block].firsts;
        self.enter(before(firsts).saturating_sub(1));
    }

    /// Goes to the next leaf; false if there is none.
    pub(super) fn advance(&mut self) -> bool {
        if self.leaf + 1 < self.points.blocks[self.block].leaves.len() {
            self.enter(self.leaf + 1);
        } else if self.block + 1 < self.points.blocks.len() {
            self.enter_block(self.block + 1);
            self.enter(0);
        } else {
            return false;
        }
        true
    }

    fn enter_block(&mut self, block: usize) {
        self.block = block;
        self.next_block = self.points.firsts.get(block + 1).copied().unwrap_or(BEYOND);
    }

    fn enter(&mut self, leaf: usize) {
        self.leaf = leaf;
        let firsts = &self.points.blocks[self.block].firsts;
        self.first = if self.block == 0 && leaf == 0 { 0 } else { firsts[leaf] };
        self.next_first = firsts.get(leaf + 1).copied().unwrap_or(self.next_block);
    }

    /// The leaf.
    pub(super) fn leaf(&self) -> &'a Leaf {
        &self.points.blocks[self.block].leaves[self.leaf]
    }

    /// Where the leaf is.
    pub(super) fn at(&self) -> LeafAt {
        LeafAt { block: self.block as u32, leaf: self.leaf as u32 }
    }

    /// A cell that no entry of the leaf is beyond: the next leaf's first, or more than any.
    pub(super) fn next_first(&self) -> u64 {
        self.next_first
    }
}

impl<'a> Keys<'a> {
    /// The number of entries before the first whose cell is at least this one.
    #[inline]
    pub(super) fn lower_bound(&self, bits: u64) -> usize {
        match *self {
            Keys::Narrow { base, deltas } => match bits.checked_sub(base) {
                None => 0,
                Some(delta) => deltas.partition_point(|&key| u64::from(key) < delta),
            },
            Keys::Wide(keys) => keys.partition_point(|&key| key < bits),
        }
    }

    /// Neighbouring keys as the filter takes them.
    #[inline]
    pub(super) fn block(&self, slots: std::ops::Range<usize>) -> KeyBlock<'a> {
        match *self {
            Keys::Narrow { base, deltas } => KeyBlock::Narrow { base, deltas: &deltas[slots] },
            Keys::Wide(keys) => KeyBlock::Wide(&keys[slots]),
        }
    }
}
