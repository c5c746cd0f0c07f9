//! What a search needs of the tree: leaves in order, with the cells that each begins and ends with.
//!
//! For: everything in `search.rs`, `nearest.rs` and `found.rs`; these know the tree only by
//! [`Cursor`], [`LeafAt`] and [`Tree::leaf_at`].
//! Not for: single entries (`lookup.rs`), walks over entries (`iter.rs`).
//! Cost: a seek within the same leaf is two comparisons; below the same branch one binary search
//! over its first cells, elsewhere three, without a look at a leaf.

use std::ops::Range;

use super::Tree;
use super::branch::Branch;
use super::leaf::{Keys, Leaf};
use super::lookup::child_before;
use super::tree::Position;
use crate::simd::KeyBlock;

/// Where a leaf is, in an order that is that of the leaves. It holds for as long as the
/// collection, or the frozen view of it, is not changed.
///
/// The index into the root from bit 16 on, then one byte for each lower branch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct LeafAt(u32);

/// A leaf, and what begins where around it.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    tree: &'a Tree,
    top: usize,
    middle: usize,
    /// The lowest branch, and the leaf's index there.
    branch: &'a Branch<Leaf>,
    lowest: usize,
    /// The first cell of the leaf; 0 for the first leaf, so that no cell is before all leaves.
    first: u64,
    /// The first cell of the next leaf; above all cells if there is none.
    next_first: u64,
    /// The first cell of the branch.
    branch_first: u64,
    next_branch: u64,
}

impl LeafAt {
    /// The leaf of a position; the place after the last one for the end.
    pub(super) fn of(position: Position) -> LeafAt {
        let index = |height: usize| position.index(height) as u32;
        LeafAt(index(3) << 16 | index(2) << 8 | index(1))
    }

    /// The position of an entry of the leaf.
    pub(super) fn position(self, slot: usize) -> Position {
        let LeafAt(at) = self;
        let path = [at >> 16, at >> 8 & 0xff, at & 0xff];
        Position::new(path.map(|index| index as usize), slot)
    }
}

/// More than the bits of any cell.
const BEYOND: u64 = u64::MAX;

impl Tree {
    /// The leaf at a place that a cursor gave.
    pub(super) fn leaf_at(&self, LeafAt(at): LeafAt) -> &Leaf {
        let (top, middle, lowest) = (at >> 16, at >> 8 & 0xff, at & 0xff);
        let branch = &self.root.children()[top as usize];
        &branch.children()[middle as usize].children()[lowest as usize]
    }
}

impl<'a> Cursor<'a> {
    /// The first leaf; `None` if there is no leaf.
    pub(super) fn new(tree: &'a Tree) -> Option<Cursor<'a>> {
        let branch = &**tree.root.children().first()?.children().first()?;
        let mut cursor = Cursor {
            tree,
            top: 0,
            middle: 0,
            branch,
            lowest: 0,
            first: 0,
            next_first: 0,
            branch_first: 0,
            next_branch: 0,
        };
        cursor.enter_branch(0, 0);
        cursor.enter(0);
        Some(cursor)
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
        if !(self.branch_first < bits && bits <= self.next_branch) {
            let top = child_before(&self.tree.root, bits);
            let middle = child_before(&self.tree.root.children()[top], bits);
            self.enter_branch(top, middle);
        }
        self.enter(child_before(self.branch, bits));
    }

    /// Goes to the next leaf; false if there is none.
    pub(super) fn advance(&mut self) -> bool {
        let root = &self.tree.root;
        if self.lowest + 1 < self.branch.children().len() {
            self.enter(self.lowest + 1);
            return true;
        }
        if self.middle + 1 < root.children()[self.top].children().len() {
            self.enter_branch(self.top, self.middle + 1);
        } else if self.top + 1 < root.children().len() {
            self.enter_branch(self.top + 1, 0);
        } else {
            return false;
        }
        self.enter(0);
        true
    }

    fn enter_branch(&mut self, top: usize, middle: usize) {
        let root = &self.tree.root;
        let parent = &root.children()[top];
        (self.top, self.middle) = (top, middle);
        self.branch = &parent.children()[middle];
        let is_first = top == 0 && middle == 0;
        self.branch_first = if is_first { 0 } else { parent.firsts()[middle] };
        let next = parent.firsts().get(middle + 1).or_else(|| root.firsts().get(top + 1));
        self.next_branch = next.copied().unwrap_or(BEYOND);
    }

    fn enter(&mut self, lowest: usize) {
        self.lowest = lowest;
        let firsts = self.branch.firsts();
        self.first = if lowest == 0 { self.branch_first } else { firsts[lowest] };
        self.next_first = firsts.get(lowest + 1).copied().unwrap_or(self.next_branch);
    }

    /// The leaf.
    pub(super) fn leaf(&self) -> &'a Leaf {
        &self.branch.children()[self.lowest]
    }

    /// Where the leaf is.
    pub(super) fn at(&self) -> LeafAt {
        LeafAt((self.top << 16 | self.middle << 8 | self.lowest) as u32)
    }

    /// A cell that no entry of the leaf is beyond: the next leaf's first, or more than any.
    pub(super) fn next_first(&self) -> u64 {
        self.next_first
    }
}

impl<'a> Keys<'a> {
    /// Neighbouring keys as the filter takes them.
    #[inline]
    pub(super) fn block(&self, slots: Range<usize>) -> KeyBlock<'a> {
        match *self {
            Keys::Narrow { base, deltas } => KeyBlock::Narrow { base, deltas: &deltas[slots] },
            Keys::Wide(keys) => KeyBlock::Wide(&keys[slots]),
        }
    }
}
