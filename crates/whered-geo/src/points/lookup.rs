//! Finding entries: by name, by (cell, member), by cell, by rank.
//!
//! For: every question that ends at one position. Not for: walking on from there (`iter.rs`).
//! Cost: three binary searches over plain numbers; texts are compared only where cells tie.

use super::leaf::Leaf;
use super::{Points, Position};
use crate::cell::Cell;

/// How many lookups of a batch are taken through each stage together.
const BATCH: usize = 16;

impl Points {
    /// The member's cell.
    pub fn cell(&self, member: &[u8]) -> Option<Cell> {
        self.confirmed_cell(self.members.hash(member), member)
    }

    /// The cells of many members; `found` is cleared first and then has one item for each.
    pub fn cells_batch(&self, members: &[&[u8]], found: &mut Vec<Option<Cell>>) {
        found.clear();
        found.reserve(members.len());
        let mut hashes = [0; BATCH];
        for batch in members.chunks(BATCH) {
            for (hash, member) in hashes.iter_mut().zip(batch) {
                *hash = self.members.hash(member);
            }
            let lookups = hashes.iter().zip(batch);
            found.extend(lookups.map(|(&hash, member)| self.confirmed_cell(hash, member)));
        }
    }

    /// The number of entries before this member in (cell, member) order.
    pub fn rank(&self, member: &[u8]) -> Option<usize> {
        let cell = self.cell(member)?;
        let position = self.position_of(cell.bits(), member)?;
        Some(self.rank_at(position))
    }

    fn confirmed_cell(&self, hash: u32, member: &[u8]) -> Option<Cell> {
        let (_, bits) = self.members.find(hash, |bits| self.holds(bits, member))?;
        Some(Cell::from_stored_bits(bits))
    }

    /// Whether this very entry exists.
    pub(super) fn holds(&self, bits: u64, member: &[u8]) -> bool {
        self.position_of(bits, member).is_some()
    }

    /// Where this entry is.
    fn position_of(&self, bits: u64, member: &[u8]) -> Option<Position> {
        let (block, leaf) = self.leaf_for(bits, member)?;
        let slot = self.blocks[block].leaves[leaf].find(bits, member, &self.outside).ok()?;
        Some(Position { block, leaf, slot })
    }

    /// The leaf that holds this entry or would: the last one that does not begin after it.
    /// `None` only if there is no leaf at all.
    pub(super) fn leaf_for(&self, bits: u64, member: &[u8]) -> Option<(usize, usize)> {
        let begins_by = |block: usize, leaf: usize| {
            self.blocks[block].leaves[leaf].member(0, &self.outside) <= member
        };
        let block = last_not_after(&self.firsts, bits, |block| begins_by(block, 0))?;
        let leaf = last_not_after(&self.blocks[block].firsts, bits, |leaf| begins_by(block, leaf))?;
        Some((block, leaf))
    }

    /// The first entry whose cell is at least this one.
    pub(super) fn first_from(&self, bits: u64) -> Position {
        let block = self.firsts.partition_point(|&first| first < bits).saturating_sub(1);
        let Some(node) = self.blocks.get(block) else {
            return self.end();
        };
        let leaf = node.firsts.partition_point(|&first| first < bits).saturating_sub(1);
        let slot = node.leaves[leaf].cells().partition_point(|&cell| cell < bits);
        self.normalised(Position { block, leaf, slot })
    }

    /// The entry with this rank; the end if there is none.
    pub(super) fn position_at(&self, rank: usize) -> Position {
        let mut slot = rank;
        for (block, node) in self.blocks.iter().enumerate() {
            if slot >= node.count {
                slot -= node.count;
                continue;
            }
            for (leaf, entries) in node.leaves.iter().enumerate() {
                if slot < entries.len() {
                    return Position { block, leaf, slot };
                }
                slot -= entries.len();
            }
        }
        self.end()
    }

    /// The number of entries before a position.
    pub(super) fn rank_at(&self, position: Position) -> usize {
        let before: usize = self.blocks[..position.block].iter().map(|block| block.count).sum();
        let Some(block) = self.blocks.get(position.block) else {
            return before;
        };
        let leaves = &block.leaves[..position.leaf];
        before + leaves.iter().map(Leaf::len).sum::<usize>() + position.slot
    }

    /// The position after the last entry.
    pub(super) fn end(&self) -> Position {
        Position { block: self.blocks.len(), leaf: 0, slot: 0 }
    }

    /// Turns a position after the last entry of a leaf into that of the next leaf's first.
    pub(super) fn normalised(&self, position: Position) -> Position {
        let node = &self.blocks[position.block];
        if position.slot < node.leaves[position.leaf].len() {
            position
        } else if position.leaf + 1 < node.leaves.len() {
            Position { leaf: position.leaf + 1, slot: 0, ..position }
        } else {
            Position { block: position.block + 1, leaf: 0, slot: 0 }
        }
    }
}

/// The last child that begins at or before the wanted entry, or the first child; `begins_by`
/// compares the members where a child's first cell is the wanted one.
fn last_not_after(firsts: &[u64], bits: u64, begins_by: impl Fn(usize) -> bool) -> Option<usize> {
    if firsts.is_empty() {
        return None;
    }
    let mut low = firsts.partition_point(|&first| first < bits);
    let mut high = low + firsts[low..].partition_point(|&first| first == bits);
    while low < high {
        let middle = low + (high - low) / 2;
        if begins_by(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Some(low.saturating_sub(1))
}
