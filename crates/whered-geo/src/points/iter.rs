//! Walking through entries in (cell, member) order, in both directions.
//!
//! For: ranges by rank and by cell; both ends are jumped to, so a walk costs what it yields.
//! Layout: two positions in the tree; the walk is over when they meet.
//! Cost: constant for each entry; `nth` (and so `skip`) jumps by rank instead of walking.

use std::iter::FusedIterator;
use std::ops::{Range, RangeInclusive};

use super::Points;
use super::tree::{Position, Tree};
use crate::cell::Cell;

/// Entries of a collection in (cell, member) order; see [`Tree::iter`].
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    tree: &'a Tree,
    front: Position,
    back: Position,
}

impl Tree {
    /// All entries in (cell, member) order.
    pub fn iter(&self) -> Entries<'_> {
        self.iter_ranks(0..self.len())
    }

    /// The entries from this rank to the last. For the way down from a rank, take
    /// [`iter_ranks`](Tree::iter_ranks) with `0..rank + 1` and reverse it.
    pub fn iter_from_rank(&self, rank: usize) -> Entries<'_> {
        self.iter_ranks(rank..self.len())
    }

    /// The entries with these ranks; ranks beyond the last entry have none.
    ///
    /// ```
    /// use whered_geo::{Cell, Points};
    /// let mut points = Points::new();
    /// for (member, bits) in [(b"a", 10), (b"b", 20), (b"c", 30)] {
    ///     points.insert(member, Cell::from_bits(bits).unwrap());
    /// }
    /// let down: Vec<_> = points.iter_ranks(0..2).rev().map(|(member, _)| member).collect();
    /// assert_eq!(down, [b"b", b"a"]);
    /// ```
    pub fn iter_ranks(&self, ranks: Range<usize>) -> Entries<'_> {
        let front = self.position_at(ranks.start);
        let back = self.position_at(ranks.end);
        Entries { tree: self, front, back: back.max(front) }
    }

    /// The entries from this position to the last.
    pub(super) fn iter_from(&self, front: Position) -> Entries<'_> {
        Entries { tree: self, front, back: self.end() }
    }

    /// The entries of a range of cells, both ends included.
    pub fn iter_cells(&self, from: Cell, to_inclusive: Cell) -> Entries<'_> {
        self.iter_bits(from.bits()..=to_inclusive.bits())
    }

    /// The entries whose cell bits lie in a range, for bounds that are no cells themselves.
    pub fn iter_bits(&self, bits: RangeInclusive<u64>) -> Entries<'_> {
        let front = self.first_from(*bits.start());
        let back = self.first_from(bits.end().saturating_add(1));
        Entries { tree: self, front, back: back.max(front) }
    }
}

impl<'a> IntoIterator for &'a Tree {
    type Item = (&'a [u8], Cell);
    type IntoIter = Entries<'a>;

    fn into_iter(self) -> Entries<'a> {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a Points {
    type Item = (&'a [u8], Cell);
    type IntoIter = Entries<'a>;

    fn into_iter(self) -> Entries<'a> {
        self.iter()
    }
}

impl Entries<'_> {
    /// The rank of the entry that comes next from the front.
    pub fn rank(&self) -> usize {
        self.tree.rank_at(self.front)
    }

    /// The number of entries left.
    pub fn remaining(&self) -> usize {
        self.tree.rank_at(self.back) - self.rank()
    }
}

impl<'a> Entries<'a> {
    fn entry(&self, position: Position) -> (&'a [u8], Cell) {
        let leaf = self.tree.leaf(position);
        let member = leaf.member(position.slot(), &self.tree.overflow);
        (member, Cell::from_stored_bits(leaf.cell_bits(position.slot())))
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = (&'a [u8], Cell);

    fn next(&mut self) -> Option<Self::Item> {
        if self.front == self.back {
            return None;
        }
        let entry = self.entry(self.front);
        let next = self.front.with_slot(self.front.slot() + 1);
        self.front = self.tree.normalised(next);
        Some(entry)
    }

    fn nth(&mut self, n: usize) -> Option<Self::Item> {
        if n > 0 {
            let rank = self.rank().saturating_add(n);
            self.front = self.tree.position_at(rank).min(self.back);
        }
        self.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let remaining = self.remaining();
        (remaining, Some(remaining))
    }
}

impl DoubleEndedIterator for Entries<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.front == self.back {
            return None;
        }
        self.back = self.tree.before(self.back);
        Some(self.entry(self.back))
    }

    fn nth_back(&mut self, n: usize) -> Option<Self::Item> {
        if n > 0 {
            let rank = self.tree.rank_at(self.back).saturating_sub(n);
            self.back = self.tree.position_at(rank).max(self.front);
        }
        self.next_back()
    }
}

impl ExactSizeIterator for Entries<'_> {}
impl FusedIterator for Entries<'_> {}

impl Tree {
    /// The position before this one, which is not the first.
    fn before(&self, position: Position) -> Position {
        match position.slot().checked_sub(1) {
            Some(slot) => position.with_slot(slot),
            None => self.last_of_previous_leaf(position),
        }
    }
}
