//! Finding entries: by name, by (cell, member), by cell, by rank.
//!
//! For: every question that ends at one position. Not for: walking on from there (`iter.rs`), or
//! bringing the memory near beforehand (`prefetch.rs`).
//! Cost: four binary searches over plain numbers; texts are compared only where cells tie.

use super::branch::{Branch, Node};
use super::leaf::Leaf;
use super::prefetch::Target;
use super::tree::{Position, Tree};
use super::{Points, members};
use crate::cell::Cell;

/// How many lookups of a batch are taken through each stage together.
pub(super) const BATCH: usize = 16;
/// How many are hashed, and their buckets asked for, before the first of them is looked up.
const ASKED_TOGETHER: usize = 64;

impl Points {
    /// The member's cell.
    pub fn cell(&self, member: &[u8]) -> Option<Cell> {
        let hash = self.members.hash(member);
        let bits = match self.members.proved_cell(hash) {
            Some(proved) => proved,
            None => self.find(hash, member).map(|(_, found)| found.bits),
        };
        bits.map(Cell::from_stored_bits)
    }

    /// The cells of many members, appended to `found` in their order. Faster than one by one, since
    /// all of a batch wait for memory together.
    pub fn cells_batch(&self, members: &[&[u8]], found: &mut Vec<Option<Cell>>) {
        found.reserve(members.len());
        for some in members.chunks(ASKED_TOGETHER) {
            let mut hashes = [0; ASKED_TOGETHER];
            self.hash_and_prefetch(some, &mut hashes);
            for (batch, hashes) in some.chunks(BATCH).zip(hashes.chunks(BATCH)) {
                self.append_cells(batch, hashes, found);
            }
        }
    }

    /// What the table proves is found there; the others go to their leaves.
    fn append_cells(&self, members: &[&[u8]], hashes: &[u64], found: &mut Vec<Option<Cell>>) {
        let from = found.len();
        let (mut codes, mut any) = ([None; BATCH], false);
        for (code, &hash) in codes.iter_mut().zip(&hashes[..members.len()]) {
            let proved = self.members.proved_cell(hash);
            if proved.is_none() {
                *code = self.code(hash);
                any |= code.is_some();
            }
            found.push(proved.flatten().map(Cell::from_stored_bits));
        }
        if any {
            self.put_cells(members, &codes, &mut found[from..]);
        }
    }

    /// The stages of `prefetch.rs` for the members that have a code, and at their end the entries
    /// are there to be compared.
    fn put_cells(&self, members: &[&[u8]], codes: &[Target; BATCH], found: &mut [Option<Cell>]) {
        let leaves = self.leaves_of(codes).map(|seen| seen.map(|seen| seen.leaf));
        leaves.iter().flatten().for_each(|leaf| leaf.prefetch_samples());
        for (leaf, code) in leaves.iter().zip(codes) {
            let (Some(leaf), Some(bits)) = (leaf, code) else { continue };
            leaf.prefetch_part(*bits);
        }
        // An entry's slot in its leaf, if the code led to the right one.
        let mut slots = [0; BATCH];
        for ((slot, leaf), code) in slots.iter_mut().zip(leaves).zip(codes) {
            let (Some(leaf), Some(bits)) = (leaf, code) else { continue };
            *slot = leaf.keys().rank(*bits);
            leaf.prefetch_offset(*slot);
        }
        for (leaf, slot) in leaves.iter().zip(slots) {
            leaf.iter().for_each(|leaf| leaf.prefetch_text(slot));
        }
        for (index, member) in members.iter().enumerate() {
            let (Some(bits), Some(leaf)) = (codes[index], leaves[index]) else { continue };
            found[index] = if leaf.has(slots[index], bits, member, &self.overflow) {
                Some(Cell::from_stored_bits(bits))
            } else {
                // Several members in one cell, a code of two members, a cell at the very limit.
                self.cell(member)
            };
        }
    }

    /// The number of entries before this member in (cell, member) order.
    pub fn rank(&self, member: &[u8]) -> Option<usize> {
        let (_, found) = self.find(self.members.hash(member), member)?;
        Some(self.tree.rank_at(found.position))
    }

    /// The member's slot in the table and its entry.
    pub(super) fn find(&self, hash: u64, member: &[u8]) -> Option<(members::Slot, Found)> {
        self.members.find(hash, |cell_code| {
            members::bits_of(cell_code).find_map(|bits| {
                let position = self.tree.locate(bits, member).ok()?;
                Some(Found { position, bits })
            })
        })
    }
}

/// An entry that was found by its name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) position: Position,
    pub(super) bits: u64,
}

impl Tree {
    /// The number of entries before this one in (cell, member) order, if it exists.
    pub fn rank_of(&self, member: &[u8], cell: Cell) -> Option<usize> {
        Some(self.rank_at(self.locate(cell.bits(), member).ok()?))
    }

    /// Where this entry is (`Ok`), or belongs (`Err`).
    pub(super) fn locate(&self, bits: u64, member: &[u8]) -> Result<Position, Position> {
        let Some(path) = self.path_for(bits, member) else {
            return Err(self.end());
        };
        let first = Position::new(path, 0);
        match self.leaf(first).find(bits, member, &self.overflow) {
            Ok(slot) => Ok(first.with_slot(slot)),
            Err(slot) => Err(first.with_slot(slot)),
        }
    }

    /// The way to the leaf that holds this entry or would: the last one that does not begin after
    /// it. `None` only if there is no leaf at all.
    fn path_for(&self, bits: u64, member: &[u8]) -> Option<[usize; 3]> {
        let top = self.root.child_for(bits, member, &self.overflow)?;
        let branch = &self.root.children()[top];
        let middle = branch.child_for(bits, member, &self.overflow)?;
        let branch = &branch.children()[middle];
        let lowest = branch.child_for(bits, member, &self.overflow)?;
        branch.children()[lowest].prefetch_keys();
        Some([top, middle, lowest])
    }

    /// The lowest branch on the way to a cell, with its indexes in the root and below.
    pub(super) fn lowest_branch(&self, bits: u64) -> Option<(&Branch<Leaf>, [usize; 2])> {
        let top = child_before(&self.root, bits);
        let branch = self.root.children().get(top)?;
        let middle = child_before(branch, bits);
        Some((&branch.children()[middle], [top, middle]))
    }

    /// The first entry whose cell is at least this one.
    pub(crate) fn first_from(&self, bits: u64) -> Position {
        let top = child_before(&self.root, bits);
        let Some(branch) = self.root.children().get(top) else {
            return self.end();
        };
        let middle = child_before(branch, bits);
        let branch = &branch.children()[middle];
        let lowest = child_before(branch, bits);
        let slot = branch.children()[lowest].keys().rank(bits);
        self.normalised(Position::new([top, middle, lowest], slot))
    }

    /// The entry with this rank; the end if there is none.
    pub(crate) fn position_at(&self, rank: usize) -> Position {
        if rank >= self.len() {
            return self.end();
        }
        let mut rest = rank;
        let top = child_with(&self.root, &mut rest);
        let branch = &self.root.children()[top];
        let middle = child_with(branch, &mut rest);
        let branch = &branch.children()[middle];
        let lowest = child_with(branch, &mut rest);
        Position::new([top, middle, lowest], rest)
    }

    /// The number of entries before a position.
    pub(crate) fn rank_at(&self, at: Position) -> usize {
        let before = |counts: &[usize]| counts.iter().sum::<usize>();
        let (top, middle, lowest) = (at.index(3), at.index(2), at.index(1));
        let Some(branch) = self.root.children().get(top) else {
            return self.len();
        };
        before(&self.root.counts()[..top])
            + before(&branch.counts()[..middle])
            + before(&branch.children()[middle].counts()[..lowest])
            + at.slot()
    }

    /// The position after the last entry.
    pub(crate) fn end(&self) -> Position {
        Position::new([self.root.children().len(), 0, 0], 0)
    }

    /// Turns a position after the last entry of a leaf into that of the next leaf's first.
    pub(crate) fn normalised(&self, at: Position) -> Position {
        if at.slot() < self.leaf(at).len() { at } else { self.next_leaf(at) }
    }
}

/// The last child that begins before a cell, or the first child.
pub(super) fn child_before<C>(branch: &Branch<C>, bits: u64) -> usize {
    branch.firsts().partition_point(|&first| first < bits).saturating_sub(1)
}

/// The child that holds the entry with this rank, which becomes the rank in that child.
fn child_with<C: Node>(branch: &Branch<C>, rank: &mut usize) -> usize {
    let mut child = 0;
    for &count in branch.counts() {
        if *rank < count {
            break;
        }
        *rank -= count;
        child += 1;
    }
    child
}
