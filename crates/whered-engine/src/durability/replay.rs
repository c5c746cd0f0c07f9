//! Replaying the journal at start, in bulk where that gives the same.
//!
//! ```text
//! entry ──> operation ─┬─ points added, members removed ──> pending changes of that key
//!                      └─ anything else ──> the pending changes of all keys first, then it
//! ```
//!
//! A collection of many millions does not fit into caches, and a change by itself costs
//! microseconds of waiting; a million of them, sorted, cost a fraction of that each. Between
//! changes of members only the last one of each member matters.
//!
//! Invariant: pending changes never take the last member of a key, because a key that loses it
//! goes, with its expiry time: such a removal is applied by itself.
//! Cost: memory for up to [`PENDING_MAX`] changes and their members.

use std::collections::HashMap;

use whered_geo::{Cell, Change};
use whered_store::Entry;

use super::load::threads;
use crate::keyspace::Keyspace;
use crate::operation::Operation;
use crate::prefix_sets::PrefixSets;
use crate::site_changes::SiteChanges;

/// How many changes are collected before they are applied.
const PENDING_MAX: usize = 4 << 20;

/// Applies the journal's entries to what they are about.
pub(crate) struct Replay<'a> {
    pub(crate) keyspace: &'a Keyspace,
    pub(crate) prefix_sets: &'a PrefixSets,
    pub(crate) changes: &'a mut SiteChanges,
    pending: HashMap<(u8, Box<[u8]>), Pending>,
    pending_len: usize,
    /// Values may be as late as this entry, until it is replayed.
    early_until: Option<u64>,
    threads: usize,
}

/// Changes of one collection, in order.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    members: Vec<u8>,
    /// The end of each member's bytes, and its new cell; `None` removes it.
    changes: Vec<(usize, Option<Cell>)>,
    /// How many members the collection has at least before the changes, and how many go.
    len_before: usize,
    removals: usize,
}

impl Pending {
    fn push(&mut self, member: &[u8], cell: Option<Cell>) {
        self.members.extend_from_slice(member);
        self.changes.push((self.members.len(), cell));
    }

    /// The changes in order.
    pub(crate) fn changes(&self) -> Vec<Change<'_>> {
        let mut start = 0;
        let change = |(end, cell): &(usize, Option<Cell>)| {
            let member = &self.members[start..*end];
            start = *end;
            Change { member, cell: *cell }
        };
        self.changes.iter().map(change).collect()
    }
}

impl<'a> Replay<'a> {
    pub(crate) fn new(
        keyspace: &'a Keyspace,
        prefix_sets: &'a PrefixSets,
        changes: &'a mut SiteChanges,
        early_until: Option<u64>,
    ) -> Replay<'a> {
        Replay {
            keyspace,
            prefix_sets,
            changes,
            pending: HashMap::new(),
            pending_len: 0,
            early_until,
            threads: threads(),
        }
    }

    /// Applies an entry, perhaps later.
    ///
    /// # Errors
    /// It cannot be read; the text says where it is wrong.
    pub(crate) fn apply(&mut self, entry: Entry<'_>) -> Result<(), String> {
        let operation = Operation::decode(entry.kind, entry.payload)?;
        if self.early_until.is_some_and(|until| entry.sequence > until) {
            self.finish();
        }
        self.apply_operation(&operation);
        Ok(())
    }

    fn apply_operation(&mut self, operation: &Operation<'_>) {
        match operation {
            Operation::AddPoints { number, key, points } => {
                let added = points.iter().map(|(member, cell)| (*member, Some(*cell)));
                self.collect(*number, key, added, 0);
            }
            Operation::RemoveMembers { number, key, members } => {
                let pending = self.pending.get(&(*number, Box::from(*key)));
                let len = match pending {
                    Some(pending) => pending.len_before.saturating_sub(pending.removals),
                    None => self.keyspace.members_len(*number, key),
                };
                if len > members.len() {
                    let removed = members.iter().map(|member| (*member, None));
                    self.collect(*number, key, removed, members.len());
                } else {
                    self.flush();
                    self.apply_now(operation);
                }
            }
            _ => {
                self.flush();
                self.apply_now(operation);
            }
        }
    }

    fn apply_now(&mut self, operation: &Operation<'_>) {
        let applied = self.keyspace.replay(operation)
            || self.prefix_sets.replay(operation)
            || self.changes.record(operation);
        assert!(applied, "every operation belongs to one of the three");
    }

    fn collect<'b>(
        &mut self,
        number: u8,
        key: &[u8],
        changes: impl Iterator<Item = (&'b [u8], Option<Cell>)>,
        removals: usize,
    ) {
        let keyspace = self.keyspace;
        let pending = self.pending.entry((number, Box::from(key))).or_insert_with(|| Pending {
            len_before: keyspace.members_len(number, key),
            ..Pending::default()
        });
        let before = pending.changes.len();
        changes.for_each(|(member, cell)| pending.push(member, cell));
        pending.removals += removals;
        self.pending_len += pending.changes.len() - before;
        if self.pending_len >= PENDING_MAX {
            self.flush();
        }
    }

    /// Applies what is pending; all values are exact then.
    pub(crate) fn finish(&mut self) {
        self.flush();
        if self.early_until.take().is_some() {
            self.keyspace.end_replaying_early();
        }
    }

    /// Applies what is pending.
    fn flush(&mut self) {
        self.pending_len = 0;
        for ((number, key), pending) in self.pending.drain() {
            self.keyspace.replay_pending(number, &key, &pending, self.threads);
        }
    }
}
