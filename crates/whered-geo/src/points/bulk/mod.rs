//! Changes of many members at once: replaying a journal, loading a file.
//!
//! For: batches of some thousands up to millions of changes whose order matters for each member
//! only. Not for: a command's few members (`update.rs` and `warm.rs`), or telling what each change
//! did.
//!
//! ```text
//! changes ──► by hash, into groups of the table's parts        in chunks, one thread each
//! group   ──► the last change of each member;                  one thread each
//!             slots exchanged in the table (members/bulk.rs);
//!             what goes from the old cell and what comes to the new one, by lane
//! lane    ──► sorted; each leaf once (tree/bulk.rs)            one thread each
//! ```
//!
//! A change alone waits some times for memory, at a place that nobody could foresee: bucket, branch,
//! leaf, leaf. Sorted twice, by hash and by cell, the changes of a batch go through table and leaves
//! in the order in which these lie, and the threads never meet.
//!
//! Invariants: a round has no two members that the table takes for one; those that it might, long
//! members and what the slots leave open are put off and changed one by one when the round is over.
//! Slots that were taken out of the table in vain are put back before that.
//! Concurrency: `threads` threads for as long as the call takes.
//! Cost: `docs/design/points.md` has the figures. Some 60 bytes a change while it takes.

mod exchange;
mod work;

use exchange::{Exchanged, Hashed};

use super::lookup::BATCH;
use super::members::groups::group_of;
use super::{Points, Tree};
use crate::cell::Cell;
pub(super) use work::work_off;

/// As many changes make a round at most: more would only cost memory.
const MOST_CHANGES: usize = 8 << 20;
/// A smaller collection grows by rounds, so that there are lanes for all threads.
const FIRST_CHANGES: usize = 1 << 16;
/// Members of a group: their slots and entries stay in the caches.
const GROUP_CHANGES: usize = 4096;
/// Fewer changes are made one by one: fewer than these, or than one for so many members. Then most
/// leaves that change have a single edit, and sorting gains less than it costs.
const FEW_CHANGES: usize = 512;
const MEMBERS_A_CHANGE: usize = 1024;

/// What a member is to become, whatever it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change<'a> {
    /// The member's name.
    pub member: &'a [u8],
    /// Where it is to be; `None` if it is to be nowhere.
    pub cell: Option<Cell>,
}

impl Points {
    /// Applies changes as if one by one in their order, on so many threads.
    ///
    /// ```
    /// use whered_geo::{Cell, Change, Points};
    /// let mut points = Points::new();
    /// points.insert(b"gone", Cell::MIN);
    /// let changes = [
    ///     Change { member: b"gone", cell: None },
    ///     Change { member: b"moved", cell: Some(Cell::MIN) },
    ///     Change { member: b"moved", cell: Some(Cell::MAX) },
    /// ];
    /// points.apply_bulk(&changes, 2);
    /// assert_eq!(points.iter().collect::<Vec<_>>(), [(&b"moved"[..], Cell::MAX)]);
    /// ```
    pub fn apply_bulk(&mut self, changes: &[Change<'_>], threads: usize) {
        let mut rest = changes;
        while !rest.is_empty() {
            let most = (4 * self.len()).clamp(FIRST_CHANGES, MOST_CHANGES);
            let (round, later) = rest.split_at(most.min(rest.len()));
            if round.len() < FEW_CHANGES.max(self.len() / MEMBERS_A_CHANGE) {
                self.apply_singly(round);
            } else {
                self.apply_round(round, threads);
            }
            rest = later;
        }
    }

    /// Applies changes one by one, asking for what they need some steps before.
    fn apply_singly(&mut self, changes: &[Change<'_>]) {
        for batch in changes.chunks(BATCH) {
            let mut near = [(&[][..], Cell::MIN); BATCH];
            for (near, change) in near.iter_mut().zip(batch) {
                *near = (change.member, change.cell.unwrap_or(Cell::MIN));
            }
            self.warm_points(&near[..batch.len()]);
            for change in batch {
                match change.cell {
                    Some(cell) => _ = self.insert(change.member, cell),
                    None => _ = self.remove(change.member),
                }
            }
        }
    }

    fn apply_round(&mut self, changes: &[Change<'_>], threads: usize) {
        let groups = (changes.len() / GROUP_CHANGES).max(1).next_power_of_two();
        let groups = groups.min(self.members.part_count());
        let chunks = self.by_group(changes, groups, threads);
        let exchanged = self.exchange(changes, &chunks, threads);
        drop(chunks);
        let mut pieces = Vec::with_capacity(exchanged.len());
        let mut put_off = Vec::new();
        for one in exchanged {
            self.members.add_to_len(one.growth);
            pieces.push(one.edits);
            put_off.extend(one.put_off);
        }
        let missed = self.tree.apply(&pieces, threads);
        drop(pieces);
        for removal in missed {
            self.members.insert(self.members.hash(removal.member()), removal.bits());
        }
        self.deal_out_if_due();
        self.apply_singly(&put_off);
    }

    /// Exchanges slots in the table, and says what is to be edited in the tree.
    fn exchange<'c>(
        &mut self,
        changes: &'c [Change<'c>],
        chunks: &[Vec<Vec<Hashed>>],
        threads: usize,
    ) -> Vec<Exchanged<'c>> {
        let lanes = Tree::lanes(&self.tree);
        let block = changes.len() / lanes.count() / threads.max(1) / 4;
        let groups = chunks.first().map_or(1, Vec::len);
        let tasks = self.members.groups(groups).enumerate().collect();
        let new = || Exchanged::new(changes, lanes.count(), block);
        work_off(threads, tasks, new, |exchanged, (number, group)| {
            let pieces: Vec<&[Hashed]> = chunks.iter().map(|chunk| &*chunk[number]).collect();
            exchanged.exchange(&pieces, group, &lanes);
        })
    }

    /// The changes, hashed, by chunk and group.
    fn by_group(
        &self,
        changes: &[Change<'_>],
        groups: usize,
        threads: usize,
    ) -> Vec<Vec<Vec<Hashed>>> {
        let chunk_size = changes.len().div_ceil(threads.max(1));
        let tasks = changes.chunks(chunk_size).enumerate().collect();
        let done = work_off(threads, tasks, Vec::new, |done, (number, chunk): (usize, &[_])| {
            let expected = chunk.len() / groups;
            let room = expected + expected / 16 + 32;
            let mut by_group: Vec<Vec<Hashed>> = Vec::new();
            by_group.resize_with(groups, || Vec::with_capacity(room));
            for (index, change) in chunk.iter().enumerate() {
                let hash = self.members.hash(change.member);
                let index = (number * chunk_size + index) as u32;
                let telling = self.members.telling(hash);
                by_group[group_of(telling, groups)].push(Hashed { telling, index });
            }
            done.push((number, by_group));
        });
        let mut chunks: Vec<_> = done.into_iter().flatten().collect();
        chunks.sort_unstable_by_key(|&(number, _)| number);
        chunks.into_iter().map(|(_, by_group)| by_group).collect()
    }
}

#[cfg(test)]
#[path = "bulk_tests.rs"]
mod tests;
