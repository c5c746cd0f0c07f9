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
//! Cost: `docs/design/points.md` has the figures. Some 110 bytes a change while it takes.

mod work;

use super::leaf::Edit;
use super::lookup::BATCH;
use super::members::groups::{Group, group_of};
use super::outside::LONGEST_INSIDE_BYTES;
use super::tree::bulk::Lanes;
use super::{Points, Tree};
use crate::cell::Cell;
pub(super) use work::work_off;

/// As many changes make a round at most: more would only cost memory.
const MOST_CHANGES: usize = 8 << 20;
/// A smaller collection grows by rounds, so that there are lanes for all threads.
const FIRST_CHANGES: usize = 1 << 16;
/// Members of a group: their slots and entries stay in the caches.
const GROUP_CHANGES: usize = 4096;
/// How many changes ahead buckets are asked for.
const AHEAD: usize = 24;
/// Fewer changes are made one by one.
const FEW_CHANGES: usize = 512;

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
            if round.len() < FEW_CHANGES {
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
        let sorted = sort_out(self, &chunks, groups, threads);
        drop(chunks);
        let mut pieces = Vec::with_capacity(sorted.len());
        let mut put_off = Vec::new();
        for one in sorted {
            pieces.push(one.edits);
            put_off.extend(one.put_off);
            self.members.add_to_len(one.growth);
        }
        let missed = self.tree.apply(&pieces, threads);
        for removal in missed {
            self.members.insert(self.members.hash(removal.member()), removal.bits());
        }
        self.deal_out_if_due();
        self.apply_singly(&put_off);
    }

    /// The changes, hashed, by chunk and group.
    fn by_group<'c>(
        &self,
        changes: &[Change<'c>],
        groups: usize,
        threads: usize,
    ) -> Vec<Vec<Vec<Hashed<'c>>>> {
        let chunk_size = changes.len().div_ceil(threads.max(1));
        let tasks = changes.chunks(chunk_size).enumerate().collect();
        let done = work_off(threads, tasks, Vec::new, |done, (number, chunk)| {
            let expected = chunk.len() / groups;
            let room = expected + expected / 16 + 32;
            let mut by_group: Vec<Vec<Hashed<'c>>> = Vec::new();
            by_group.resize_with(groups, || Vec::with_capacity(room));
            for &change in chunk {
                let hash = self.members.hash(change.member);
                by_group[group_of(hash, groups)].push(Hashed { hash, change });
            }
            done.push((number, by_group));
        });
        let mut chunks: Vec<_> = done.into_iter().flatten().collect();
        chunks.sort_unstable_by_key(|&(number, _)| number);
        chunks.into_iter().map(|(_, by_group)| by_group).collect()
    }
}

/// A change, and its member's hash.
#[derive(Clone, Copy, Debug)]
struct Hashed<'c> {
    hash: u64,
    change: Change<'c>,
}

/// What a thread made of its groups.
#[derive(Debug)]
struct Sorted<'c> {
    /// By lane.
    edits: Vec<Vec<Edit<'c>>>,
    put_off: Vec<Change<'c>>,
    /// Members that the table has more, modulo 2^64.
    growth: usize,
    latest: Latest<'c>,
}

/// Exchanges slots in the table, and says what is to be edited in the tree.
fn sort_out<'c>(
    points: &mut Points,
    chunks: &[Vec<Vec<Hashed<'c>>>],
    groups: usize,
    threads: usize,
) -> Vec<Sorted<'c>> {
    let lanes = Tree::lanes(&points.tree);
    let changes: usize = chunks.iter().flatten().map(Vec::len).sum();
    // Each change of a place is two edits.
    let expected = 2 * changes / lanes.count() / threads.max(1);
    let new = || Sorted {
        edits: std::iter::repeat_with(|| Vec::with_capacity(expected))
            .take(lanes.count())
            .collect(),
        put_off: Vec::new(),
        growth: 0,
        latest: Latest::default(),
    };
    let telling_bits = points.members.telling_bits();
    let tasks = points.members.groups(groups).enumerate().collect();
    work_off(threads, tasks, new, |sorted, (number, group)| {
        let count = chunks.iter().map(|chunk| chunk[number].len()).sum();
        sorted.latest.clear(count, telling_bits);
        // The last change of a member is what counts, so that it is met first.
        for chunk in chunks.iter().rev() {
            chunk[number].iter().rev().for_each(|change| sorted.latest.note(change));
        }
        sorted.exchange(group, &lanes);
    })
}

impl<'c> Sorted<'c> {
    fn exchange(&mut self, mut group: Group<'_>, lanes: &Lanes<'_>) {
        let latest = &self.latest.changes;
        latest.iter().take(AHEAD).for_each(|(change, _)| group.prefetch(change.hash));
        for (at, &(Hashed { hash, change }, is_single)) in latest.iter().enumerate() {
            if let Some((later, _)) = latest.get(at + AHEAD) {
                group.prefetch(later.hash);
            }
            let bits = change.cell.map(Cell::bits);
            let is_short = change.member.len() <= LONGEST_INSIDE_BYTES;
            let taken = (is_single && is_short).then(|| group.exchange(hash, bits)).flatten();
            let Some(taken) = taken else {
                self.put_off.push(change);
                continue;
            };
            for &old in taken.cells() {
                let edit = Edit::removal(old, change.member);
                self.edits[lanes.lane(old, change.member)].push(edit);
                self.growth = self.growth.wrapping_sub(1);
            }
            if let Some(bits) = bits {
                let edit = Edit::insertion(bits, change.member);
                self.edits[lanes.lane(bits, change.member)].push(edit);
                self.growth = self.growth.wrapping_add(1);
            }
        }
    }
}

/// The last change of each member of a group.
#[derive(Debug, Default)]
struct Latest<'c> {
    /// With whether the table can tell the member from all others that change.
    changes: Vec<(Hashed<'c>, bool)>,
    /// Numbers of changes, from one on, at the first free place from where the hash leads.
    places: Vec<u32>,
    /// The bits of a hash by which the table tells members apart.
    telling_bits: u64,
}

impl<'c> Latest<'c> {
    fn clear(&mut self, expected: usize, telling_bits: u64) {
        self.telling_bits = telling_bits;
        self.changes.clear();
        self.places.clear();
        self.places.resize((2 * expected).next_power_of_two(), 0);
    }

    /// Takes a change, unless a later one of the same member was there.
    fn note(&mut self, change: &Hashed<'c>) {
        let mask = self.places.len() - 1;
        // Members that are alike meet, since only what is the same in their hashes leads here.
        let telling = change.hash & self.telling_bits;
        let mut at = (telling >> 32) as usize & mask;
        let mut is_single = true;
        while self.places[at] != 0 {
            let (other, other_is_single) = &mut self.changes[self.places[at] as usize - 1];
            if telling == other.hash & self.telling_bits {
                if change.change.member == other.change.member {
                    return;
                }
                (*other_is_single, is_single) = (false, false);
            }
            at = (at + 1) & mask;
        }
        self.changes.push((*change, is_single));
        self.places[at] = self.changes.len() as u32;
    }
}

#[cfg(test)]
#[path = "bulk_tests.rs"]
mod tests;
