//! Changes of many members at once: replaying a journal, loading a file.
//!
//! For: batches of some thousands up to millions of changes whose order matters for each member
//! only. Not for: a command's few members (`update.rs` and `prefetch.rs`), or telling what each
//! change did.
//!
//! ```text
//! changes ──► records by hash, into rows (batch.rs)            by the thread that collects them
//! row     ──► the last change of each member;                  one thread each
//!             slots exchanged in the table (members/groups.rs);
//!             what goes from the old cell and what comes to the new one, by lane
//! lane    ──► sorted; each leaf once (tree/bulk.rs)            one thread each
//! ```
//!
//! A change alone waits several times for memory at unpredictable addresses: bucket, branch, leaf,
//! leaf. Sorted twice, by hash and by cell, the changes of a batch go through table and leaves in
//! the order in which these lie, and the threads never meet. Names go with them from stage to stage
//! (`name.rs`), so that every read is at a predictable address.
//!
//! Invariants: a round has no two members that the table takes for one; those that it might, long
//! members and what the slots leave open are put off and changed one by one when the round is over.
//! Slots that were taken out of the table in vain are put back before that. Concurrency: `threads`
//! threads for as long as the call takes. Cost: `docs/design/points.md` has the figures. 40 bytes a
//! change of a number and 76 of another name, kept with the batch.

mod batch;
mod exchange;
pub(super) mod name;
pub(super) mod rows;
mod work;

use std::sync::{Mutex, PoisonError};

pub use batch::ChangeBatch;
use batch::Record;
use exchange::{ExchangeContext, ExchangeResult};
use name::Texts;

use super::leaf::Edits;
use super::lookup::BATCH;
use super::{Points, Tree};
use crate::cell::Cell;
pub(super) use work::work_off;

/// The most changes of a round, since they take memory. The collector of a batch ends it before
/// that, by what one more entry of a journal may bring.
const MOST_CHANGES: usize = 16 << 20;
/// A smaller collection grows by rounds, so that there are lanes for all threads.
const FIRST_CHANGES: usize = 1 << 16;
/// How many changes of a batch are applied as one list, if they must be.
const LISTED_TOGETHER: usize = 1 << 20;
/// Fewer changes are made one by one: fewer than these, or than one for this many members. Then
/// most leaves that change have a single edit, and sorting gains less than it costs.
const FEW_CHANGES: usize = 512;
const MEMBERS_A_CHANGE: usize = 1024;
/// More threads do not collect: their number is a byte.
const MOST_COLLECTING: usize = 64;

/// The new state of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change<'a> {
    /// The member's name.
    pub member: &'a [u8],
    /// Where it is to be; `None` if it is to be nowhere.
    pub cell: Option<Cell>,
}

impl Points {
    /// Applies changes as if one by one in their order, on `threads` threads.
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
        let mut batches = Vec::new();
        while !rest.is_empty() {
            let (round, later) = rest.split_at(self.most_in_round().min(rest.len()));
            if self.are_few(round.len()) {
                self.apply_singly(round);
            } else {
                self.collect(round, threads, &mut batches);
                self.apply_round(&mut batches, threads);
            }
            rest = later;
        }
    }

    /// Applies the changes of a batch as if one by one in their order, on `threads` threads, and
    /// empties it. What is collected so costs a fourth less than a list of changes.
    ///
    /// ```
    /// use whered_geo::{Cell, Points};
    /// let mut points = Points::new();
    /// let mut batch = points.change_batch();
    /// batch.push(b"moved", Some(Cell::MIN));
    /// batch.push(b"moved", Some(Cell::MAX));
    /// batch.push(b"unknown", None);
    /// points.apply_batch(&mut batch, 2);
    /// assert_eq!(points.iter().collect::<Vec<_>>(), [(&b"moved"[..], Cell::MAX)]);
    /// assert!(batch.is_empty());
    /// ```
    pub fn apply_batch(&mut self, batch: &mut ChangeBatch, threads: usize) {
        let is_round = batch.len() <= self.most_in_round() && !self.are_few(batch.len());
        // With too few rows there is too little to do at once for the threads.
        let has_rows = batch.row_count() * 2 >= self.rows_wanted();
        if is_round && has_rows && batch.key == *self.members.key() {
            self.apply_round(std::slice::from_mut(batch), threads);
        } else {
            self.apply_as_list(batch, threads);
        }
        batch.clear();
        if batch.row_count() * 2 < self.rows_wanted() || batch.key != *self.members.key() {
            *batch = self.change_batch();
        }
    }

    /// Applies a batch that is no round, some changes at a time.
    fn apply_as_list(&mut self, batch: &ChangeBatch, threads: usize) {
        let mut all = batch.records();
        loop {
            let records: Vec<Record> = all.by_ref().take(LISTED_TOGETHER).collect();
            if records.is_empty() {
                return;
            }
            let texts = [&*batch.text];
            let changes: Vec<_> = records.iter().map(|record| record.change(&texts)).collect();
            self.apply_bulk(&changes, threads);
        }
    }

    fn most_in_round(&self) -> usize {
        (4 * self.len()).clamp(FIRST_CHANGES, MOST_CHANGES)
    }

    /// Whether this many changes are better made one by one.
    fn are_few(&self, changes: usize) -> bool {
        changes < FEW_CHANGES.max(self.len() / MEMBERS_A_CHANGE)
    }

    /// Applies changes one by one, asking for what they need some steps before.
    fn apply_singly(&mut self, changes: &[Change<'_>]) {
        for batch in changes.chunks(BATCH) {
            let mut near = [(&[][..], Cell::MIN); BATCH];
            for (near, change) in near.iter_mut().zip(batch) {
                *near = (change.member, change.cell.unwrap_or(Cell::MIN));
            }
            self.prefetch_points(&near[..batch.len()]);
            for change in batch {
                match change.cell {
                    Some(cell) => _ = self.insert(change.member, cell),
                    None => _ = self.remove(change.member),
                }
            }
        }
    }

    /// Collects changes in batches, one for each thread; those that there are are used again.
    fn collect(&self, changes: &[Change<'_>], threads: usize, batches: &mut Vec<ChangeBatch>) {
        let threads = threads.clamp(1, MOST_COLLECTING);
        let parts: Vec<&[Change<'_>]> = changes.chunks(changes.len().div_ceil(threads)).collect();
        // A collection that has grown wants more rows.
        if batches.len() < parts.len() || batches[0].row_count() != self.rows_wanted() {
            batches.clear();
            batches.extend((0..parts.len()).map(|number| self.numbered_batch(number as u8)));
        }
        batches.truncate(parts.len());
        let tasks = batches.iter_mut().zip(parts).collect();
        work_off(
            threads,
            tasks,
            || (),
            |(), (batch, part): (&mut ChangeBatch, &[_])| {
                batch.clear();
                part.iter().for_each(|change| batch.push(change.member, change.cell));
            },
        );
    }

    /// Applies batches that belong together, each of which has the rows of the others.
    fn apply_round(&mut self, batches: &mut [ChangeBatch], threads: usize) {
        self.lately_changed.note();
        batches.iter_mut().for_each(ChangeBatch::deal_out);
        let spare = batches.iter_mut().flat_map(|batch| std::mem::take(&mut batch.spare)).collect();
        let texts: Vec<Vec<u8>> =
            batches.iter_mut().map(|batch| std::mem::take(&mut batch.text)).collect();
        let by_number: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
        let mut pieces = Vec::new();
        let mut put_off = Vec::new();
        for one in self.exchange(batches, &by_number, spare, threads) {
            self.members.add_to_len(one.rest.growth);
            pieces.push(one.edits);
            put_off.extend(one.rest.put_off);
        }
        for removal in self.tree.apply(&pieces, &by_number, threads) {
            let hash = self.members.hash(removal.name().bytes(&by_number));
            self.members.insert(hash, removal.bits());
        }
        self.deal_out_if_due();
        let put_off: Vec<Change<'_>> =
            put_off.iter().map(|record| record.change(&by_number)).collect();
        self.apply_singly(&put_off);
        if let Some(first) = batches.first_mut() {
            first.spare = pieces;
        }
        batches.iter_mut().zip(texts).for_each(|(batch, text)| batch.text = text);
    }

    /// Exchanges slots in the table, and says what is to be edited in the tree.
    fn exchange(
        &mut self,
        batches: &[ChangeBatch],
        texts: Texts<'_>,
        spare: Vec<Edits>,
        threads: usize,
    ) -> Vec<ExchangeResult> {
        let lanes = Tree::lanes(&self.tree);
        let telling_mask = self.members.telling_mask();
        let around = ExchangeContext { lanes: &lanes, texts, telling_mask };
        let rows = batches.first().map_or(1, ChangeBatch::row_count);
        // A small table is in one piece.
        let groups = rows.min(self.members.part_count());
        let rows_a_group = rows / groups;
        let tasks = self.members.groups(groups).enumerate().collect();
        let spare = Mutex::new(spare);
        let new = || {
            let kept = spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let mut edits = kept.unwrap_or_else(|| Edits::new(lanes.count()));
            edits.clear(lanes.count());
            ExchangeResult::new(edits)
        };
        work_off(threads, tasks, new, |exchanged, (number, mut group)| {
            let rows = number * rows_a_group..(number + 1) * rows_a_group;
            let parts = rows.flat_map(|row| batches.iter().map(move |batch| (batch, row)));
            let numbers = parts.clone().flat_map(|(batch, row)| batch.numbers(row));
            exchanged.exchange_numbers(numbers, &mut group, around);
            exchanged.exchange_names(
                parts.flat_map(|(batch, row)| batch.names(row)),
                &mut group,
                around,
            );
        })
    }
}

#[cfg(test)]
#[path = "bulk_tests.rs"]
mod tests;
