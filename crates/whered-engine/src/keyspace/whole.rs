//! Writes of whole keys: texts, expiry times, removal, renaming, copies, stored results.
//!
//! For: everything that makes, replaces or removes keys, each one entry in the journal.
//! Not for: members of a sorted set (`members`), reads and sweeping (`keyspace`).
//!
//! All of it holds the maps exclusively; a value is built before, and freed after (`removed`). A
//! copy is the exception: it is made while the map is held, so that nothing comes between.
//! Cost: O(log keys), and for a copy as much as the value has members.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::keys::{Entry, Keys, Slot};
use super::saving::Saving;
use super::value::{Kind, Value};
use super::{AddCondition, DATABASE_COUNT, Keyspace, number_byte, shared};
use crate::error::WriteError;
use crate::journal::log::Written;
use crate::journal::operation::{ALL_NUMBERS, KeyPair, Operation};

/// How `SET` puts a text.
#[derive(Clone, Copy, Debug)]
pub struct SetText<'a> {
    /// The text.
    pub text: &'a [u8],
    /// Whether the key must exist or must not.
    pub condition: AddCondition,
    /// What becomes of the expiry time.
    pub expiry: TextExpiry,
    /// Gives back what was there, and refuses a key that holds no text.
    pub wants_old: bool,
}

/// What becomes of a key's expiry time when it gets another text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TextExpiry {
    /// It has none any more.
    Never,
    /// It stays.
    Keep,
    /// It is this, in milliseconds since 1970; a time that is over removes the key.
    At(u64),
}

/// What `SET` did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TextSet {
    /// Whether the text was put.
    pub done: bool,
    /// The text before it, if that was asked for.
    pub old: Option<Vec<u8>>,
}

/// When an expiry time may be changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExpiryCondition {
    /// `NX`: only when there is none.
    pub only_new: bool,
    /// `XX`: only when there is one.
    pub only_existing: bool,
    /// `GT`: only to a later one; none is the latest.
    pub only_later: bool,
    /// `LT`: only to an earlier one.
    pub only_earlier: bool,
}

/// What renaming did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Renamed {
    /// The key has its new name.
    Done,
    /// There is a key of that name.
    Taken,
    /// There is no such key.
    NoSuchKey,
}

impl ExpiryCondition {
    fn allows(self, old: Option<u64>, at_millis: i64) -> bool {
        let old_millis = old.map(|at| i64::try_from(at).unwrap_or(i64::MAX));
        match old_millis {
            Some(old) => {
                let too_early = self.only_later && at_millis <= old;
                let too_late = self.only_earlier && at_millis >= old;
                !self.only_new && !too_early && !too_late
            }
            None => !self.only_existing && !self.only_later,
        }
    }
}

impl Keyspace {
    /// Removes keys and gives how many there were.
    ///
    /// # Errors
    /// [`WriteError`] when the journal has no room or has failed; then nothing was applied. So
    /// everywhere here.
    pub fn delete_keys(
        &self,
        number: usize,
        names: &[&[u8]],
    ) -> Result<Written<usize>, WriteError> {
        self.delete_each_key(number, names, |_| {})
    }

    /// As [`Keyspace::delete_keys`], and calls `each` with every key that there was.
    ///
    /// # Errors
    /// As [`Keyspace::delete_keys`].
    pub fn delete_each_key<'a>(
        &self,
        number: usize,
        names: &[&'a [u8]],
        mut each: impl FnMut(&'a [u8]),
    ) -> Result<Written<usize>, WriteError> {
        let operation = delete_operation(number, names);
        let _guard = self.log.gate().shared();
        names.iter().try_for_each(|key| self.check_own(number, key))?;
        let room = self.log.reserve_batched(operation.size_bytes())?;
        let mut keys = self.exclusive(number);
        let removed: Vec<_> =
            names.iter().filter_map(|&key| Some((key, keys.remove(key)?))).collect();
        let ticket = if removed.is_empty() { room.unused() } else { room.append(&operation) };
        drop(keys);
        // A key whose time is over was not there for anybody.
        let live = removed.iter().filter(|(_, entry)| !self.is_over(number, entry));
        let count = live.inspect(|(key, _)| each(key)).count();
        self.expired.fetch_add((removed.len() - count) as u64, Ordering::Relaxed);
        self.free(removed.into_iter().map(|(_, entry)| entry).collect::<Vec<_>>());
        Ok(Written { value: count, ticket })
    }

    /// Removes those of these keys whose time is over by now, and gives how many they were.
    pub(super) fn remove_over(
        &self,
        number: usize,
        names: &[&[u8]],
        now_millis: u64,
    ) -> Result<usize, WriteError> {
        let room = self.log.reserve_batched(delete_operation(number, names).size_bytes())?;
        let mut keys = self.exclusive(number);
        let is_over = |keys: &Keys, key: &[u8]| {
            keys.get(key).is_some_and(|entry| entry.is_over(|| now_millis))
        };
        let over: Vec<&[u8]> = names.iter().copied().filter(|key| is_over(&keys, key)).collect();
        if over.is_empty() {
            return Ok(0);
        }
        let removed: Vec<Entry> = over.iter().filter_map(|key| keys.remove(key)).collect();
        self.expired.fetch_add(removed.len() as u64, Ordering::Relaxed);
        room.append(&delete_operation(number, &over));
        drop(keys);
        let count = removed.len();
        self.free(removed);
        Ok(count)
    }

    /// Removes the key if its time is over: what a writer does before it writes.
    pub(super) fn remove_if_over(&self, number: usize, key: &[u8]) -> Result<(), WriteError> {
        let is_over = {
            let keys = self.shared(number);
            keys.has_expiring() && keys.get(key).is_some_and(|entry| self.is_over(number, entry))
        };
        if is_over {
            self.remove_over(number, &[key], self.now_millis())?;
        }
        Ok(())
    }

    /// Removes every key of one numbered database, or of all that clients have.
    ///
    /// # Errors
    /// As [`Keyspace::delete_keys`].
    pub fn flush(&self, number: Option<usize>) -> Result<Written<()>, WriteError> {
        let operation = Operation::Flush { number: number.map_or(ALL_NUMBERS, number_byte) };
        let _guard = self.log.gate().shared();
        self.check_own_database(number)?;
        let room = self.log.reserve_batched(operation.size_bytes())?;
        let range = number.map_or(0..DATABASE_COUNT, |number| number..number + 1);
        // Locked in ascending order, and all of them at once: one point in time for all.
        let mut locked: Vec<_> = range.map(|number| self.exclusive(number)).collect();
        let emptied: Vec<Keys> = locked.iter_mut().map(|keys| keys.take()).collect();
        let ticket = room.append(&operation);
        drop(locked);
        self.free(emptied);
        Ok(Written { value: (), ticket })
    }

    /// Puts a text in the place of whatever the key holds.
    ///
    /// # Errors
    /// As [`Keyspace::delete_keys`]; `WrongKind` when the old text is wanted and is none.
    pub fn set_text(
        &self,
        number: usize,
        key: &[u8],
        set: &SetText<'_>,
    ) -> Result<Written<TextSet>, WriteError> {
        let operation = |expires_at_millis| Operation::SetText {
            number: number_byte(number),
            key,
            expires_at_millis,
            text: set.text,
        };
        let value = Value::of_text(set.text);
        let _guard = self.log.gate().shared();
        self.check_own(number, key)?;
        self.remove_if_over(number, key)?;
        let room = self.log.reserve_batched(operation(None).size_bytes())?;
        let now_millis = self.now_millis();
        let mut keys = self.exclusive(number);
        let live = keys.get(key).filter(|entry| !self.is_over(number, entry));
        let mut outcome = TextSet::default();
        if set.wants_old
            && let Some(entry) = live
        {
            let value = shared(&entry.slot.value);
            outcome.old = Some(value.text().ok_or(WriteError::WrongKind)?.to_vec());
        }
        let allowed = match set.condition {
            AddCondition::Always => true,
            AddCondition::OnlyNew => live.is_none(),
            AddCondition::OnlyExisting => live.is_some(),
        };
        if !allowed {
            return Ok(Written { value: outcome, ticket: room.unused() });
        }
        let expires_at_millis = match set.expiry {
            TextExpiry::Never => None,
            TextExpiry::Keep => live.and_then(Entry::expires_at_millis),
            TextExpiry::At(at) => Some(at),
        };
        outcome.done = true;
        let (old, ticket) = if expires_at_millis.is_some_and(|at| at <= now_millis) {
            (
                keys.remove(key).map(|entry| entry.slot),
                room.append(&delete_operation(number, &[key])),
            )
        } else {
            let old = keys.put(key, value, expires_at_millis);
            (old, room.append(&operation(expires_at_millis)))
        };
        drop(keys);
        self.free(old);
        Ok(Written { value: outcome, ticket })
    }

    /// Puts a sorted set in the place of whatever the key holds, without an expiry time; an empty
    /// one removes the key. Says whether there was something to put or to remove.
    ///
    /// # Errors
    /// As [`Keyspace::delete_keys`].
    ///
    /// # Panics
    /// When a score is NaN.
    pub fn store_scores(
        &self,
        number: usize,
        key: &[u8],
        scores: &[(&[u8], f64)],
    ) -> Result<Written<bool>, WriteError> {
        if scores.is_empty() {
            let written = self.delete_keys(number, &[key])?;
            return Ok(Written { value: written.value > 0, ticket: written.ticket });
        }
        let number_byte = number_byte(number);
        let operation =
            Operation::StoreScores { number: number_byte, key, scores: Cow::Borrowed(scores) };
        let value = Value::of_scores(scores.iter().copied());
        let _guard = self.log.gate().shared();
        self.check_own(number, key)?;
        let room = self.log.reserve_batched(operation.size_bytes())?;
        let mut keys = self.exclusive(number);
        let old = keys.put(key, value, None);
        let ticket = room.append(&operation);
        drop(keys);
        self.free(old);
        Ok(Written { value: true, ticket })
    }

    /// Lets a key's time be over at a moment, in milliseconds since 1970, and says whether it was
    /// done. A moment that has come removes the key, unless a link sets it.
    ///
    /// # Errors
    /// As [`Keyspace::delete_keys`].
    pub fn set_expiry(
        &self,
        number: usize,
        key: &[u8],
        at_millis: i64,
        condition: ExpiryCondition,
    ) -> Result<Written<bool>, WriteError> {
        self.change_expiry(number, key, |entry, now_millis| {
            if !condition.allows(entry.expires_at_millis(), at_millis) {
                return NewExpiry::Unchanged;
            }
            match u64::try_from(at_millis) {
                Ok(at) if at > now_millis => NewExpiry::At(at),
                // What is followed goes when its primary says so. 0 stands for never.
                at if number >= DATABASE_COUNT => NewExpiry::At(at.unwrap_or(1).max(1)),
                _ => NewExpiry::Over,
            }
        })
    }

    /// Takes a key's expiry time away, and says whether it had one.
    ///
    /// # Errors
    /// As [`Keyspace::delete_keys`].
    pub fn persist(&self, number: usize, key: &[u8]) -> Result<Written<bool>, WriteError> {
        self.change_expiry(number, key, |entry, _| match entry.expires_at_millis() {
            Some(_) => NewExpiry::Never,
            None => NewExpiry::Unchanged,
        })
    }

    fn change_expiry(
        &self,
        number: usize,
        key: &[u8],
        choose: impl FnOnce(&Entry, u64) -> NewExpiry,
    ) -> Result<Written<bool>, WriteError> {
        let number_byte = number_byte(number);
        let operation = |expires_at_millis| Operation::SetExpiry {
            number: number_byte,
            key,
            expires_at_millis,
        };
        let _guard = self.log.gate().shared();
        self.check_own(number, key)?;
        // The removal of the key takes less room than its expiry time.
        let room = self.log.reserve_batched(operation(None).size_bytes())?;
        let now_millis = self.now_millis();
        let mut keys = self.exclusive(number);
        let live = keys.get(key).filter(|entry| !self.is_over(number, entry));
        let chosen = live.map_or(NewExpiry::Unchanged, |entry| choose(entry, now_millis));
        let (expires_at_millis, ticket) = match chosen {
            NewExpiry::Unchanged => {
                return Ok(Written { value: false, ticket: room.unused() });
            }
            NewExpiry::Over => {
                let removed = keys.remove(key);
                let ticket = room.append(&delete_operation(number, &[key]));
                drop(keys);
                self.free(removed);
                return Ok(Written { value: true, ticket });
            }
            NewExpiry::Never => (None, room.append(&operation(None))),
            NewExpiry::At(at) => (Some(at), room.append(&operation(Some(at)))),
        };
        keys.set_expiry(key, expires_at_millis);
        Ok(Written { value: true, ticket })
    }

    /// Gives a key another name, expiry time included; what had that name is gone.
    ///
    /// # Errors
    /// As [`Keyspace::delete_keys`].
    pub fn rename(
        &self,
        number: usize,
        from: &[u8],
        to: &[u8],
        only_new: bool,
    ) -> Result<Written<Renamed>, WriteError> {
        let choose = |found: Option<Kind>, taken| match (found, taken) {
            (None, _) => Err(Renamed::NoSuchKey),
            (Some(_), true) if only_new => Err(Renamed::Taken),
            (Some(_), _) if from == to => Err(Renamed::Done),
            (Some(_), _) => Ok(Renamed::Done),
        };
        self.transfer(Transfer::Rename, (number, from), (number, to), choose)
    }

    /// Moves a key to another numbered database, and says whether it was there and its name free.
    ///
    /// # Errors
    /// As [`Keyspace::delete_keys`].
    pub fn move_key(
        &self,
        number: usize,
        key: &[u8],
        to_number: usize,
    ) -> Result<Written<bool>, WriteError> {
        self.transfer(Transfer::Rename, (number, key), (to_number, key), |found, taken| match found
        {
            Some(_) if !taken => Ok(true),
            _ => Err(false),
        })
    }

    /// Copies a key, which may be a followed one, and says whether it was there and the other name
    /// free or to be replaced.
    ///
    /// # Errors
    /// As [`Keyspace::delete_keys`].
    pub fn copy(
        &self,
        from: (usize, &[u8]),
        to: (usize, &[u8]),
        replace: bool,
    ) -> Result<Written<bool>, WriteError> {
        self.transfer(Transfer::Copy, from, to, |found, taken| match found {
            Some(_) if replace || !taken => Ok(true),
            _ => Err(false),
        })
    }

    /// Moves or copies a key after `choose` has seen what it holds and whether its new name is
    /// taken.
    fn transfer<T>(
        &self,
        transfer: Transfer,
        (number, from): (usize, &[u8]),
        (to_number, to): (usize, &[u8]),
        choose: impl FnOnce(Option<Kind>, bool) -> Result<T, T>,
    ) -> Result<Written<T>, WriteError> {
        let _guard = self.log.gate().shared();
        self.check_own(to_number, to)?;
        let from_number = match transfer {
            Transfer::Rename => self.check_own(number, from).map(|()| number)?,
            Transfer::Copy => self.number_of(number, from).unwrap_or(number),
        };
        let pair = KeyPair {
            from_number: number_byte(from_number),
            to_number: number_byte(to_number),
            from,
            to,
        };
        let room = self.log.reserve_batched(Operation::Rename(pair).size_bytes())?;
        let live = |number: usize, keys: &Keys, key: &[u8]| {
            self.visible(number, keys, key).map(|entry| entry.slot.kind)
        };
        let (value, ticket, replaced) = self.with_two(from_number, to_number, |mut maps| {
            let found = live(number, maps.from(), from);
            let taken = live(to_number, maps.to(), to).is_some();
            let value = match choose(found, taken) {
                Ok(chosen) => chosen,
                Err(value) => return (value, room.unused(), None),
            };
            let is_exact = self.saving.is_exact(maps.from(), from);
            let (operation, replaced) = match transfer {
                Transfer::Rename => (Operation::Rename(pair), maps.rename(from, to)),
                Transfer::Copy => (Operation::Copy(pair), maps.copy(from, to)),
            };
            let ticket = room.append(&operation);
            if let (Transfer::Copy, Some(entry)) = (transfer, maps.to().get(to)) {
                let (slot, expires_at_millis) = (&entry.slot, entry.expires_at_millis());
                self.saving.after_operation(is_exact, pair.to_number, to, expires_at_millis, slot);
            }
            (value, ticket, replaced)
        });
        self.free(replaced);
        Ok(Written { value, ticket })
    }

    /// Exchanges the keys of two numbered databases.
    ///
    /// # Errors
    /// As [`Keyspace::delete_keys`].
    pub fn swap_numbers(&self, number: usize, other: usize) -> Result<Written<()>, WriteError> {
        let operation =
            Operation::SwapNumbers { number: number_byte(number), other: number_byte(other) };
        let _guard = self.log.gate().shared();
        self.check_own_database(Some(number))?;
        self.check_own_database(Some(other))?;
        let room = self.log.reserve_batched(operation.size_bytes())?;
        self.with_two(number, other, |mut maps| {
            maps.swap();
            Ok(Written { value: (), ticket: room.append(&operation) })
        })
    }

    /// Both maps, locked in ascending order; one when the numbers are equal.
    pub(super) fn with_two<R>(
        &self,
        from: usize,
        to: usize,
        act: impl FnOnce(TwoMaps<'_>) -> R,
    ) -> R {
        let mut low = self.exclusive(from.min(to));
        if from == to {
            return act(TwoMaps { from: &mut low, to: None });
        }
        let mut high = self.exclusive(from.max(to));
        let (from, to) = if from < to { (&mut low, &mut high) } else { (&mut high, &mut low) };
        act(TwoMaps { from, to: Some(to) })
    }
}

enum NewExpiry {
    Unchanged,
    Never,
    At(u64),
    Over,
}

#[derive(Clone, Copy)]
enum Transfer {
    Rename,
    Copy,
}

/// The maps that a key goes from and to; `to` is `None` when it is the same.
pub(super) struct TwoMaps<'a> {
    from: &'a mut Keys,
    to: Option<&'a mut Keys>,
}

/// What a transfer has put out of its place, to be freed without a lock.
type Replaced = Option<Arc<Slot>>;

impl TwoMaps<'_> {
    fn from(&self) -> &Keys {
        self.from
    }

    fn to(&mut self) -> &mut Keys {
        self.to.as_deref_mut().unwrap_or(self.from)
    }

    pub(super) fn rename(&mut self, from: &[u8], to: &[u8]) -> Replaced {
        let entry = self.from.remove(from)?;
        let expires_at_millis = entry.expires_at_millis();
        self.to().put_slot(to, entry.slot, expires_at_millis)
    }

    pub(super) fn copy(&mut self, from: &[u8], to: &[u8]) -> Replaced {
        let entry = self.from.get(from)?;
        let value = shared(&entry.slot.value).clone();
        let expires_at_millis = entry.expires_at_millis();
        self.to().put(to, value, expires_at_millis)
    }

    /// Moves all keys of the first map to the second, in the place of those of the same names.
    /// The keys of the smaller map are those that go.
    pub(super) fn absorb(&mut self, saving: &Saving) -> Vec<Arc<Slot>> {
        let Some(to) = &mut self.to else {
            return Vec::new();
        };
        self.from.set_imports(&[]);
        let stays = self.from.entries.len() > to.entries.len();
        if stays {
            std::mem::swap(self.from, *to);
        }
        let moved: Vec<Box<[u8]>> = self.from.entries.keys().cloned().collect();
        let mut replaced = Vec::new();
        for key in moved {
            if stays && to.get(&key).is_some() {
                replaced.extend(self.from.remove(&key).map(|entry| entry.slot));
                continue;
            }
            saving.before_rename(self.from, &key);
            let Some(entry) = self.from.remove(&key) else { continue };
            let expires_at_millis = entry.expires_at_millis();
            replaced.extend(to.put_slot(&key, entry.slot, expires_at_millis));
        }
        replaced
    }

    pub(super) fn swap(&mut self) {
        if let Some(to) = &mut self.to {
            std::mem::swap(self.from, *to);
            self.from.exchange_imports(to);
        }
    }
}

/// The removal of whole keys.
pub(super) fn delete_operation<'a>(number: usize, names: &'a [&'a [u8]]) -> Operation<'a> {
    Operation::DeleteKeys { number: number_byte(number), keys: Cow::Borrowed(names) }
}
