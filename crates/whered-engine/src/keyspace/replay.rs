//! Replaying the journal's operations at start.
//!
//! Each operation does here exactly what it did when it was appended; the clock is not asked.

use std::sync::Arc;

use whered_geo::{ChangeBatch, Points};

use super::keys::Entry;
use super::saving::Image;
use super::value::{Ordered, Value};
use super::{DATABASE_COUNT, Keyspace, NUMBERS, exclusive, shared};
use crate::journal::operation::{ALL_NUMBERS, KeyPair, Operation};

impl Keyspace {
    /// Replays an operation at start; gives `false` when it is not one of ours.
    pub(crate) fn replay(&self, operation: &Operation<'_>) -> bool {
        match operation {
            Operation::AddPoints { number, key, points } => {
                self.replay_change(*number, key, |value| {
                    for (member, cell) in points.iter() {
                        value.insert_point(member, *cell);
                    }
                });
            }
            Operation::AddScores { number, key, scores } => {
                self.replay_change(*number, key, |value| {
                    for (member, score) in scores.iter() {
                        value.insert(member, *score);
                    }
                });
            }
            Operation::RemoveMembers { number, key, members } => {
                self.replay_change(*number, key, |value| {
                    for member in members.iter() {
                        value.remove(member);
                    }
                });
            }
            Operation::RemoveRanks { number, key, .. } if self.use_image(*number, key) => {}
            Operation::RemoveRanks { number, key, first, end } => {
                let rank = |rank: u64| usize::try_from(rank).unwrap_or(usize::MAX);
                self.replay_change(*number, key, |value| {
                    value.remove_ranks(rank(*first)..rank(*end));
                });
            }
            _ => return self.replay_whole(operation),
        }
        true
    }

    /// How many members the sorted set of this key has.
    pub(crate) fn members_len(&self, number: u8, key: &[u8]) -> usize {
        let keys = self.shared(usize::from(number));
        let slot = keys.get(key).map(|entry| Arc::clone(&entry.slot));
        slot.map_or(0, |slot| shared(&slot.value).ordered().map_or(0, Ordered::len))
    }

    /// An empty batch for changes of this key's collection.
    pub(crate) fn change_batch(&self, number: u8, key: &[u8]) -> ChangeBatch {
        let keys = self.shared(usize::from(number));
        let slot = keys.get(key).map(|entry| Arc::clone(&entry.slot));
        let batch = slot.and_then(|slot| shared(&slot.value).change_batch());
        batch.unwrap_or_else(|| Points::new().change_batch())
    }

    /// Applies collected changes of one key; the batch is empty afterwards.
    pub(crate) fn replay_pending(
        &self,
        number: u8,
        key: &[u8],
        batch: &mut ChangeBatch,
        threads: usize,
    ) {
        self.replay_change(number, key, |value| value.apply_batch(batch, threads));
    }

    /// Puts what was loaded from a snapshot, or an image.
    pub(crate) fn put_loaded(
        &self,
        number: u8,
        key: &[u8],
        value: Value,
        expires_at_millis: Option<u64>,
    ) {
        let mut keys = self.exclusive(usize::from(number));
        if value.is_empty() && !self.saving.is_replaying_early() {
            keys.remove(key);
        } else {
            keys.put(key, value, expires_at_millis);
        }
    }

    /// Keeps an image for the operation that it stands for.
    pub(crate) fn keep_image(&self, number: u8, key: &[u8], image: Image) {
        self.saving.images().entry((number, key.into())).or_default().push_back(image);
    }

    /// From now on values may be of a later time than the entries that are replayed.
    pub(crate) fn begin_replaying_early(&self) {
        self.saving.set_replaying_early(true);
    }

    /// What comes now is applied to exact values: no images, no keys without members. O(keys).
    pub(crate) fn end_replaying_early(&self) {
        self.saving.images().clear();
        self.saving.set_replaying_early(false);
        for number in 0..NUMBERS {
            let mut keys = self.exclusive(number);
            let is_empty = |entry: &Entry| shared(&entry.slot.value).is_empty();
            let empty = keys.entries.iter().filter(|(_, entry)| is_empty(entry));
            let empty: Vec<Box<[u8]>> = empty.map(|(key, _)| key.clone()).collect();
            empty.iter().for_each(|key| drop(keys.remove(key)));
        }
    }

    /// Puts the image in the place of what an operation would do; `false` when there is none.
    fn use_image(&self, number: u8, key: &[u8]) -> bool {
        let mut images = self.saving.images();
        let Some(queue) = images.get_mut(&(number, Box::from(key))) else {
            return false;
        };
        let Some(Image { value, expires_at_millis }) = queue.pop_front() else {
            return false;
        };
        drop(images);
        let Some(value) = value else {
            return false;
        };
        self.put_loaded(number, key, value, expires_at_millis);
        true
    }

    fn replay_whole(&self, operation: &Operation<'_>) -> bool {
        match operation {
            Operation::DeleteKeys { number, keys } => {
                let mut owner = self.exclusive(usize::from(*number));
                for key in keys.iter() {
                    owner.remove(key);
                }
            }
            Operation::Flush { number: ALL_NUMBERS } => {
                for number in 0..DATABASE_COUNT {
                    self.exclusive(number).take();
                }
            }
            Operation::Flush { number } => {
                self.exclusive(usize::from(*number)).take();
            }
            Operation::SetText { number, key, expires_at_millis, text } => {
                let value = Value::of_text(text);
                self.exclusive(usize::from(*number)).put(key, value, *expires_at_millis);
            }
            Operation::StoreScores { number, key, scores } => {
                let value = Value::of_scores(scores.iter().copied());
                self.exclusive(usize::from(*number)).put(key, value, None);
            }
            Operation::SetExpiry { number, key, expires_at_millis } => {
                self.exclusive(usize::from(*number)).set_expiry(key, *expires_at_millis);
            }
            Operation::Rename(KeyPair { from_number, to_number, from, to }) => {
                let (from_number, to_number) = (usize::from(*from_number), usize::from(*to_number));
                self.with_two(from_number, to_number, |mut maps| maps.rename(from, to));
            }
            Operation::Copy(pair) if self.use_image(pair.to_number, pair.to) => {}
            Operation::Copy(KeyPair { from_number, to_number, from, to }) => {
                let (from_number, to_number) = (usize::from(*from_number), usize::from(*to_number));
                self.with_two(from_number, to_number, |mut maps| maps.copy(from, to));
            }
            Operation::SwapNumbers { number, other } => {
                let (number, other) = (usize::from(*number), usize::from(*other));
                self.with_two(number, other, |mut maps| maps.swap());
            }
            Operation::Promote { number, database } => {
                let (number, database) = (usize::from(*number), usize::from(*database));
                drop(self.with_two(number, database, |mut maps| maps.absorb(&self.saving)));
            }
            _ => return self.replay_position(operation),
        }
        true
    }

    /// A change without members makes no key, and one that takes the last member removes it, but
    /// not while that may only seem so.
    fn replay_change(&self, number: u8, key: &[u8], change: impl FnOnce(&mut Value)) {
        let mut keys = self.exclusive(usize::from(number));
        let slot = keys.slot_or_empty(key);
        let mut value = exclusive(&slot.value);
        change(&mut value);
        slot.settle(&value);
        drop(value);
        if !self.saving.is_replaying_early() {
            keys.remove_if_empty(key);
        }
    }
}
