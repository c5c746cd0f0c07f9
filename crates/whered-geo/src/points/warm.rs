//! Bringing into the caches what the next lookups and changes will read.
//!
//! For: a connection's pipelined commands, the members of one command, batches. Not for: answers;
//! nothing depends on what is done here, and what changes meanwhile does no harm.
//!
//! ```text
//! stage   1 hash all            ask for the table's buckets
//!         2 read the buckets    walk to the lowest branches, ask for them and their first cells
//!         3 walk to the leaves  ask for their headers and keys
//!         4 search the keys     ask for the texts, or for all that an edit moves
//! ```
//!
//! One access to memory takes as long as a whole lookup computes, and each stage depends on the one
//! before; so a batch goes through the stages together and waits a few times in all.
//! Cost: some hundred instructions a member on top of the lookup.

use super::branch::Branch;
use super::leaf::Leaf;
use super::lookup::{BATCH, child_before};
use super::{Points, members};
use crate::cell::Cell;

/// What is known of one lookup between two stages: the cell it leads to.
type Target = Option<u64>;

impl Points {
    /// Brings near what looking up these members will read.
    pub fn warm(&self, members: &[&[u8]]) {
        for batch in members.chunks(BATCH) {
            self.warm_stages(batch.len(), |index| batch[index], |_| None);
        }
    }

    /// Brings near what inserting these members into these cells, or moving them there, will
    /// read and change.
    pub fn warm_points(&self, points: &[(&[u8], Cell)]) {
        for batch in points.chunks(BATCH) {
            self.warm_stages(batch.len(), |index| batch[index].0, |index| Some(batch[index].1));
        }
    }

    fn warm_stages<'m>(
        &self,
        count: usize,
        member: impl Fn(usize) -> &'m [u8],
        cell: impl Fn(usize) -> Option<Cell>,
    ) {
        let mut hashes = [0; BATCH];
        for (index, hash) in hashes[..count].iter_mut().enumerate() {
            *hash = self.members.hash(member(index));
            self.members.prefetch(*hash);
        }
        // The first half are the cells where members are, the other half where they go.
        let mut targets: [Target; 2 * BATCH] = [None; 2 * BATCH];
        for index in 0..count {
            targets[BATCH + index] = cell(index).map(Cell::bits);
            // A cell beyond the ordinary ones is not worth a guess: it is warmed as its alias.
            targets[index] = self.members.find(hashes[index], Some).map(|(_, code)| code);
        }
        let mut branches: [Option<&Branch<Leaf>>; 2 * BATCH] = [None; 2 * BATCH];
        for (branch, target) in branches.iter_mut().zip(targets) {
            *branch = target.and_then(|bits| self.tree.lowest_branch(bits));
            branch.iter().for_each(|branch| branch.prefetch_columns());
        }
        branches.iter().flatten().for_each(|branch| branch.prefetch_firsts());
        let mut leaves: [Option<&Leaf>; 2 * BATCH] = [None; 2 * BATCH];
        for ((leaf, branch), target) in leaves.iter_mut().zip(branches).zip(targets) {
            let (Some(branch), Some(bits)) = (branch, target) else { continue };
            let found = &branch.children()[child_before(branch, bits)];
            found.prefetch_keys();
            *leaf = Some(found);
        }
        // Both leaves of a move are edited, and are mostly one if it is a short move.
        for index in 0..count {
            let (from, to) = (index, BATCH + index);
            match (leaves[from].zip(targets[from]), leaves[to].zip(targets[to])) {
                (Some((leaf, from)), Some((other, to))) if std::ptr::eq(leaf, other) => {
                    leaf.prefetch_move(from, to);
                }
                (Some((leaf, from)), Some((other, to))) => {
                    leaf.prefetch_edit(from);
                    other.prefetch_edit(to);
                }
                (Some((leaf, bits)), None) => leaf.prefetch_text(bits),
                (None, Some((leaf, bits))) => leaf.prefetch_edit(bits),
                (None, None) => {}
            }
        }
    }
}

const _: () = assert!(members::CELL_BITS == 52, "targets are cells as the table has them");
