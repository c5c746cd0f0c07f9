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
//! Concurrency: one thread applies what was collected while this one collects more; whatever else
//! is applied waits for it.
//! Cost: memory for twice [`PENDING_MAX`] changes of 16 bytes if the members are numbers, of others
//! of 28 and names of more than 15 bytes beside them, and 24 or 48 bytes for each that is being
//! applied; all of it is used again.

use std::collections::HashMap;
use std::panic::resume_unwind;
use std::thread::{Scope, ScopedJoinHandle};

use whered_geo::ChangeBatch;
use whered_store::Entry;

use super::load::threads;
use crate::feeds::state::States;
use crate::feeds::{BATCH_KIND, DEFINE_KIND};
use crate::generation::changes::Changes;
use crate::journal::operation::{AddedPoints, Operation};
use crate::keyspace::Keyspace;
use crate::prefix_sets::PrefixSets;

/// How many changes are collected before they are applied: one for this many members of the
/// collections that they are for, within limits. The more there are, the more of them lie in each
/// leaf that is rewritten; of what is small enough for that anyway, more would only cost memory.
const MEMBERS_A_CHANGE: usize = 4;
const PENDING_MIN: usize = 1 << 20;
const PENDING_MAX: usize = 12 << 20;
/// How many bytes they take at most.
const PENDING_BYTES_MAX: usize = 448 << 20;
/// How many keys have pending changes before all of them are forgotten.
const KEYS_MAX: usize = 4096;

/// Applies the journal's entries to what they are about.
pub(crate) struct Replay<'scope, 'env> {
    keyspace: &'env Keyspace,
    prefix_sets: &'env PrefixSets,
    changes: &'env mut Changes,
    feeds: &'env States,
    scope: &'scope Scope<'scope, 'env>,
    /// Applies what was collected before, while more is collected.
    applying: Option<ScopedJoinHandle<'scope, Vec<TakenChanges>>>,
    pending: Vec<PendingChanges>,
    /// The one that the last operation was about: most are about the same.
    last: usize,
    /// Where each key's is.
    places: HashMap<(u8, Box<[u8]>), usize>,
    pending_len: usize,
    /// Values may be as late as this entry, until it is replayed.
    early_until: Option<u64>,
    /// This many are applied.
    pending_max: usize,
    /// The least that `pending_max` is.
    pending_min: usize,
    pending_bytes: usize,
    threads: usize,
}

/// Changes of one collection, in order.
#[derive(Debug)]
struct PendingChanges {
    number: u8,
    key: Box<[u8]>,
    batch: ChangeBatch,
    /// The batch that was applied before, for the next time.
    spare: Option<ChangeBatch>,
    /// How many members the collection has at least before the changes, and how many go.
    len_before: usize,
    removals: usize,
}

impl PendingChanges {
    fn is_of(&self, number: u8, key: &[u8]) -> bool {
        self.number == number && *self.key == *key
    }

    /// What is collected, if there is anything; the key stays known, and how many members it has
    /// at least. The keyspace must not be changing.
    fn take(&mut self, place: usize, keyspace: &Keyspace) -> Option<TakenChanges> {
        self.len_before = keyspace.members_len(self.number, &self.key);
        if self.batch.is_empty() {
            return None;
        }
        self.len_before = self.len_before.saturating_sub(std::mem::take(&mut self.removals));
        let empty = self.spare.take();
        let empty = empty.unwrap_or_else(|| keyspace.change_batch(self.number, &self.key));
        let batch = std::mem::replace(&mut self.batch, empty);
        Some(TakenChanges { place, number: self.number, key: self.key.clone(), batch })
    }
}

/// Changes that are being applied, and the place of the [`PendingChanges`] that they come from.
#[derive(Debug)]
struct TakenChanges {
    place: usize,
    number: u8,
    key: Box<[u8]>,
    batch: ChangeBatch,
}

impl<'scope, 'env> Replay<'scope, 'env> {
    pub(crate) fn new(
        keyspace: &'env Keyspace,
        prefix_sets: &'env PrefixSets,
        changes: &'env mut Changes,
        feeds: &'env States,
        early_until: Option<u64>,
        scope: &'scope Scope<'scope, 'env>,
    ) -> Replay<'scope, 'env> {
        Replay {
            keyspace,
            prefix_sets,
            changes,
            feeds,
            scope,
            applying: None,
            pending: Vec::new(),
            last: 0,
            places: HashMap::new(),
            pending_len: 0,
            early_until,
            pending_max: PENDING_MIN,
            pending_min: PENDING_MIN,
            pending_bytes: 0,
            threads: threads(),
        }
    }

    /// Applies an entry, perhaps later.
    ///
    /// # Errors
    /// It cannot be read; the text says where it is wrong.
    pub(crate) fn apply(&mut self, entry: Entry<'_>) -> Result<(), String> {
        if self.early_until.is_some_and(|until| entry.sequence > until) {
            self.finish();
        }
        // Nearly all entries of a journal are of this kind: no list is made of one.
        if let Some(added) = AddedPoints::decode(entry.kind, entry.payload) {
            let mut added = added?;
            let pending = self.pending_of(added.number, added.key);
            let (len, bytes) = (pending.batch.len(), pending.batch.bytes());
            while let Some((member, cell)) = added.next()? {
                pending.batch.push(member, Some(cell));
            }
            let (len, bytes) = (pending.batch.len() - len, pending.batch.bytes() - bytes);
            self.note(len, bytes);
            return Ok(());
        }
        match entry.kind {
            DEFINE_KIND => self.feeds.define(entry.payload),
            BATCH_KIND => self.apply_feed_batch(entry.payload),
            _ => self.apply_operation(&Operation::decode(entry.kind, entry.payload)?),
        }
    }

    /// Applies a feed's batch; its points are collected as those of other operations are.
    fn apply_feed_batch(&mut self, payload: &[u8]) -> Result<(), String> {
        let feeds = self.feeds;
        let (mut len, mut bytes) = (0, 0);
        let operation = feeds.replay(payload, &mut |key, member, cell| {
            let batch = &mut self.pending_of(0, key).batch;
            let bytes_before = batch.bytes();
            batch.push(member, Some(cell));
            len += 1;
            bytes += batch.bytes() - bytes_before;
        })?;
        if len > 0 {
            self.note(len, bytes);
        }
        let Some((kind, payload)) = operation.split_first_chunk::<2>() else { return Ok(()) };
        let operation = Operation::decode(u16::from_le_bytes(*kind), payload)?;
        match self.prefix_sets.replay(&operation) {
            true => Ok(()),
            false => Err(format!("operation of kind {} in a feed's batch", operation.kind())),
        }
    }

    fn apply_operation(&mut self, operation: &Operation<'_>) -> Result<(), String> {
        match operation {
            Operation::RemoveMembers { number, key, members } => {
                let pending = self.pending_of(*number, key);
                let len = pending.len_before.saturating_sub(pending.removals);
                if len > members.len() {
                    let bytes = pending.batch.bytes();
                    members.iter().for_each(|member| pending.batch.push(member, None));
                    let bytes = pending.batch.bytes() - bytes;
                    pending.removals += members.len();
                    self.note(members.len(), bytes);
                    Ok(())
                } else {
                    self.flush();
                    self.apply_now(operation)
                }
            }
            // A transaction is in one entry: all of it is applied before the start is over.
            Operation::Batch(operations) => {
                operations.iter().try_for_each(|operation| self.apply_operation(operation))
            }
            Operation::AddPoints { number, key, points } => {
                let pending = self.pending_of(*number, key);
                let bytes = pending.batch.bytes();
                points.iter().for_each(|(member, cell)| pending.batch.push(member, Some(*cell)));
                let bytes = pending.batch.bytes() - bytes;
                self.note(points.len(), bytes);
                Ok(())
            }
            // It changes no key.
            Operation::SetPosition { .. } => self.apply_now(operation),
            _ => {
                self.flush();
                self.apply_now(operation)
            }
        }
    }

    fn apply_now(&mut self, operation: &Operation<'_>) -> Result<(), String> {
        let applied = self.keyspace.replay(operation)
            || self.prefix_sets.replay(operation)
            || self.changes.record(operation)?;
        assert!(applied, "every operation belongs to one of the three");
        Ok(())
    }

    #[inline]
    fn pending_of(&mut self, number: u8, key: &[u8]) -> &mut PendingChanges {
        if !self.pending.get(self.last).is_some_and(|pending| pending.is_of(number, key)) {
            self.last = self.place_of(number, key);
        }
        &mut self.pending[self.last]
    }

    fn place_of(&mut self, number: u8, key: &[u8]) -> usize {
        let key: Box<[u8]> = key.into();
        if let Some(&place) = self.places.get(&(number, key.clone())) {
            return place;
        }
        let (len_before, place) = (self.keyspace.members_len(number, &key), self.pending.len());
        self.pending_max = self.pending_max.max(self.max_for(len_before));
        self.places.insert((number, key.clone()), place);
        let batch = self.keyspace.change_batch(number, &key);
        let (spare, removals) = (None, 0);
        self.pending.push(PendingChanges { number, key, batch, spare, len_before, removals });
        place
    }

    /// Notes what was collected, and applies it when it is much.
    #[inline]
    fn note(&mut self, len: usize, bytes: usize) {
        self.pending_len += len;
        self.pending_bytes += bytes;
        if self.pending_len >= self.pending_max || self.pending_bytes >= PENDING_BYTES_MAX {
            self.hand_over();
        }
    }

    /// Has what is pending applied by another thread, when that has ended what it had before.
    fn hand_over(&mut self) {
        if self.pending.len() > KEYS_MAX {
            self.flush();
            return;
        }
        (self.pending_len, self.pending_bytes) = (0, 0);
        self.wait();
        // The keys stay known: how many members they have cannot be asked while they change.
        let keyspace = self.keyspace;
        let pending = self.pending.iter_mut().enumerate();
        let mut batches: Vec<TakenChanges> =
            pending.filter_map(|(place, pending)| pending.take(place, keyspace)).collect();
        let members = self.pending.iter().map(|pending| pending.len_before).sum();
        self.pending_max = self.max_for(members);
        let threads = self.threads;
        self.applying = Some(self.scope.spawn(move || {
            for TakenChanges { number, key, batch, .. } in &mut batches {
                keyspace.replay_pending(*number, key, batch, threads);
            }
            batches
        }));
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
        self.wait();
        (self.pending_len, self.pending_bytes) = (0, 0);
        self.pending_max = self.pending_min;
        self.places.clear();
        for PendingChanges { number, key, mut batch, .. } in self.pending.drain(..) {
            if !batch.is_empty() {
                self.keyspace.replay_pending(number, &key, &mut batch, self.threads);
            }
        }
    }

    /// Waits for the other thread, and takes back the memory of what it has applied.
    fn wait(&mut self) {
        let Some(applying) = self.applying.take() else { return };
        let applied = applying.join().unwrap_or_else(|panic| resume_unwind(panic));
        for TakenChanges { place, batch, .. } in applied {
            self.pending[place].spare = Some(batch);
        }
    }

    /// How many changes are collected for collections with this many members.
    fn max_for(&self, members: usize) -> usize {
        (members / MEMBERS_A_CHANGE).clamp(self.pending_min, PENDING_MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::sync::Arc;

    use whered_geo::Cell;

    use super::*;
    use crate::clock::Clock;
    use crate::journal::log::Log;

    type Found = Vec<(Vec<u8>, Option<u64>, Vec<(Vec<u8>, u64)>)>;

    fn found(keyspace: &Keyspace) -> Found {
        let mut keys = keyspace.keys(0);
        keys.sort();
        let members = |key: &[u8]| {
            let rows = keyspace.inspect(0, key, |value| {
                let ordered = value.ordered().expect("all values are points");
                ordered.iter().map(|(member, score)| (member.to_vec(), score.to_bits())).collect()
            });
            rows.expect("the key is there")
        };
        let expires = |key: &[u8]| keyspace.expires_at_millis(0, key).flatten();
        keys.into_iter().map(|key| (key.clone(), expires(&key), members(&key))).collect()
    }

    #[test]
    fn what_is_collected_makes_what_each_operation_by_itself_makes() {
        let unlogged = Arc::new(Log::new(None, 0));
        let mut state = 7_u64;
        let mut below = |limit: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % limit
        };
        for (round, pending_min) in [1, 3, 20, 20, 200, PENDING_MIN].into_iter().enumerate() {
            let keyspaces =
                [(); 2].map(|()| Keyspace::new(Arc::clone(&unlogged), Clock::default()));
            let [bulk, single] = &keyspaces;
            let prefix_sets = PrefixSets::new(Arc::clone(&unlogged));
            let mut changes = Changes::default();
            let feeds = States::default();
            std::thread::scope(|scope| {
                let mut replay = Replay::new(bulk, &prefix_sets, &mut changes, &feeds, None, scope);
                (replay.pending_min, replay.pending_max) = (pending_min, pending_min);
                for step in 0..3000 {
                    let key = [b"a", b"b", b"c"][below(3) as usize];
                    let (number, key) = (0, &key[..]);
                    // Few enough that collections are emptied now and then.
                    let members: Vec<String> =
                        (0..=below(3)).map(|_| below(8 << (round % 3)).to_string()).collect();
                    let cell = |n: usize| Cell::from_bits((step * 31 + n as u64) << 20);
                    let points: Vec<(&[u8], Cell)> = (0..)
                        .zip(&members)
                        .map(|(n, name)| (name.as_bytes(), cell(n).expect("it has few bits")))
                        .collect();
                    let members: Vec<&[u8]> = members.iter().map(String::as_bytes).collect();
                    let operation = match below(200) {
                        0 => Operation::DeleteKeys { number, keys: Cow::Owned(vec![key]) },
                        1..5 => {
                            let expires_at_millis = Some(u64::MAX >> 8 | step);
                            Operation::SetExpiry { number, key, expires_at_millis }
                        }
                        5..100 => Operation::RemoveMembers { number, key, members: members.into() },
                        _ => Operation::AddPoints { number, key, points: points.into() },
                    };
                    let payload = operation.encode();
                    let (sequence, kind) = (step + 1, operation.kind());
                    replay.apply(Entry { sequence, kind, payload: &payload }).expect("it is read");
                    assert!(single.replay(&operation));
                }
                replay.flush();
            });
            assert_eq!(found(bulk), found(single), "at most {pending_min} changes at once");
        }
    }

    #[test]
    fn added_points_that_cannot_be_read_are_refused_in_the_words_of_all_operations() {
        let points = vec![(&b"member"[..], Cell::MIN), (b"m", Cell::MAX)];
        let operation = Operation::AddPoints { number: 0, key: b"key", points: points.into() };
        let payload = operation.encode();
        let unlogged = Arc::new(Log::new(None, 0));
        let keyspace = Keyspace::new(Arc::clone(&unlogged), Clock::default());
        let prefix_sets = PrefixSets::new(unlogged);
        let mut changes = Changes::default();
        let feeds = States::default();
        std::thread::scope(|scope| {
            let mut replay =
                Replay::new(&keyspace, &prefix_sets, &mut changes, &feeds, None, scope);
            let mut check = |payload: &[u8]| {
                let entry = Entry { sequence: 1, kind: 1, payload };
                assert_eq!(replay.apply(entry).err(), Operation::decode(1, payload).err());
            };
            for at in 0..payload.len() {
                check(&payload[..at]);
                for value in [0, 1, 0x7f, 0xff] {
                    let mut changed = payload.clone();
                    changed[at] = value;
                    check(&changed);
                }
            }
        });
    }
}
