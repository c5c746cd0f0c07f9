//! Prefetches what the next lookups and changes will read.
//!
//! For: a connection's pipelined commands, the members of one command, batches. Not for: answers
//! (`lookup.rs`, which has the same stages). No answer depends on a prefetch, and changes meanwhile
//! do no harm. What the stages find is returned as a hint (`lookup_hint.rs`).
//!
//! ```text
//! stage   1 hash all            prefetch the table's buckets
//!         2 read the buckets    walk to the lowest branches, prefetch them and their first cells
//!         3 find the children   prefetch the pointers to their leaves
//!         4 walk to the leaves  prefetch their headers and keys, or some of the keys
//!         5 search the keys     prefetch the members, or the ends of what an edit moves
//! ```
//!
//! One access to memory takes as long as a whole lookup computes, and each stage depends on the one
//! before; so a batch goes through the stages together and waits a few times in all.
//! Cost: some hundred instructions a member on top of the lookup.

use super::branch::Branch;
use super::leaf::Leaf;
use super::lookup::{BATCH, child_before};
use super::lookup_hint::{LookupHint, SeenEntry};
use super::tree::Position;
use super::{Points, members};
use crate::cell::Cell;

/// The state of one lookup between two stages: its cell.
pub(super) type Target = Option<u64>;

impl Points {
    /// How many points one batch prefetches. A caller that inserts more prefetches each batch just
    /// before it inserts it.
    pub const PREFETCH_BATCH: usize = BATCH;

    /// Prefetches what inserting these members into these cells, or moving them there, will read
    /// and change. Writes a hint for each point, for [`Points::insert_with_hint`].
    ///
    /// # Panics
    /// If there are fewer hints than points.
    pub fn lookup_hints(&self, points: &[(&[u8], Cell)], hints: &mut [LookupHint]) {
        assert!(hints.len() >= points.len(), "each point has a hint");
        for (batch, hints) in points.chunks(BATCH).zip(hints.chunks_mut(BATCH)) {
            self.hint_batch(batch, hints);
        }
    }

    /// Prefetches as [`Points::lookup_hints`] does, without hints.
    pub fn prefetch_points(&self, points: &[(&[u8], Cell)]) {
        for batch in points.chunks(BATCH) {
            self.hint_batch(batch, &mut [LookupHint::default(); BATCH]);
        }
    }

    /// Prefetches what finding the entries of these members, or removing them, will read and
    /// change.
    pub fn prefetch_members(&self, members: &[&[u8]]) {
        for batch in members.chunks(BATCH) {
            let targets = self.codes(batch);
            let leaves = self.leaves_of(&targets);
            leaves.iter().flatten().for_each(|seen| seen.leaf.prefetch_keys());
            for (seen, target) in leaves.iter().zip(targets) {
                let (Some(seen), Some(bits)) = (seen, target) else { continue };
                seen.leaf.prefetch_edit(bits);
            }
        }
    }

    fn hint_batch(&self, points: &[(&[u8], Cell)], hints: &mut [LookupHint]) {
        let count = points.len();
        let (mut members, mut hashes) = ([&[][..]; BATCH], [0; BATCH]);
        members.iter_mut().zip(points).for_each(|(member, point)| *member = point.0);
        self.hash_and_prefetch(&members[..count], &mut hashes);
        // The first half are the cells where members are, the other half where they go.
        let mut targets: [Target; 2 * BATCH] = [None; 2 * BATCH];
        let mut slots = [None; BATCH];
        for (index, (_, cell)) in points.iter().enumerate() {
            let known = self.members.find(hashes[index], Some);
            slots[index] = known.map(|(slot, _)| slot);
            targets[index] = known.map(|(_, code)| code);
            targets[BATCH + index] = Some(cell.bits());
        }
        let leaves = self.leaves_of(&targets);
        leaves.iter().flatten().for_each(|seen| seen.leaf.prefetch_samples());
        for (seen, target) in leaves.iter().zip(targets) {
            let (Some(seen), Some(bits)) = (seen, target) else { continue };
            seen.leaf.prefetch_part(bits);
        }
        // Both leaves of a move are edited, and are mostly one if it is a short move.
        for (index, hint) in hints[..count].iter_mut().enumerate() {
            let old = leaves[index].zip(targets[index]);
            let new = leaves[BATCH + index].zip(targets[BATCH + index]);
            let (from, to) = match (old, new) {
                (Some((old, from)), Some((new, to))) if std::ptr::eq(old.leaf, new.leaf) => {
                    let (from, to) = old.leaf.prefetch_move(from, to);
                    (Some(old.slot(from)), Some(new.slot(to)))
                }
                _ => {
                    let edit = |(seen, bits): (FoundLeaf<'_>, u64)| {
                        seen.slot(seen.leaf.prefetch_edit(bits))
                    };
                    (old.map(edit), new.map(edit))
                }
            };
            let from = from.zip(slots[index]).zip(targets[index]);
            let from = from.map(|((at, slot), bits)| SeenEntry { slot, at, bits });
            *hint = LookupHint { from, to };
        }
    }

    /// Hashes members and prefetches the table's buckets where they may be.
    pub(super) fn hash_and_prefetch(&self, members: &[&[u8]], hashes: &mut [u64]) {
        for (member, hash) in members.iter().zip(hashes) {
            *hash = self.members.hash(member);
            self.members.prefetch(*hash);
        }
    }

    /// The table's codes of these members, of which there are at most `BATCH`.
    fn codes(&self, members: &[&[u8]]) -> [Target; BATCH] {
        let (mut hashes, mut codes) = ([0; BATCH], [None; BATCH]);
        self.hash_and_prefetch(members, &mut hashes);
        for (code, &hash) in codes.iter_mut().zip(&hashes[..members.len()]) {
            *code = self.code(hash);
        }
        codes
    }

    /// What the table has for a hash: the cell where the member is if it is anywhere, but for those
    /// beyond the ordinary cells, and for members whose codes are alike.
    #[inline]
    pub(super) fn code(&self, hash: u64) -> Target {
        self.members.find(hash, Some).map(|(_, code)| code)
    }

    /// The leaves where these cells begin. The leaves themselves are not prefetched.
    pub(super) fn leaves_of<const N: usize>(
        &self,
        targets: &[Target; N],
    ) -> [Option<FoundLeaf<'_>>; N] {
        let mut branches: [Option<(&Branch<Leaf>, [usize; 2])>; N] = [None; N];
        for (branch, target) in branches.iter_mut().zip(targets) {
            *branch = target.and_then(|bits| self.tree.lowest_branch(bits));
            branch.iter().for_each(|(branch, _)| branch.prefetch_columns());
        }
        branches.iter().flatten().for_each(|(branch, _)| branch.prefetch_firsts());
        let mut places = [0; N];
        for ((place, branch), target) in places.iter_mut().zip(branches).zip(targets) {
            let (Some((branch, _)), Some(bits)) = (branch, *target) else { continue };
            *place = child_before(branch, bits);
            whered_simd::prefetch(branch.children(), *place);
        }
        let mut leaves = [None; N];
        for ((leaf, branch), place) in leaves.iter_mut().zip(branches).zip(places) {
            *leaf = branch.map(|(branch, [top, middle])| {
                let first = Position::new([top, middle, place], 0);
                FoundLeaf { leaf: &branch.children()[place], first }
            });
        }
        leaves
    }
}

/// A leaf that has been walked to.
#[derive(Clone, Copy)]
pub(super) struct FoundLeaf<'a> {
    pub(super) leaf: &'a Leaf,
    first: Position,
}

impl FoundLeaf<'_> {
    fn slot(&self, slot: usize) -> Position {
        self.first.with_slot(slot)
    }
}

const _: () = assert!(members::CELL_BITS == 52, "targets are cells as the table has them");
