//! Changes of strings that depend on what they were, and of several strings at once.
//!
//! For: `INCR`, `APPEND`, `GETEX`, `GETDEL` and `MSET` and their like. Not for: `SET` (`whole`).
//!
//! A string is replaced as a whole, in memory and in the journal, so that an entry of the journal
//! can be applied twice. Cost: O(length of the new string).

use super::keys::Entry;
use super::value::{TextForm, Value};
use super::whole::{TextExpiry, delete_operation};
use super::{Keyspace, number_byte, shared};
use crate::error::WriteError;
use crate::journal::log::{EntryReservation, Ticket, Written};
use crate::journal::operation::Operation;

/// A change of a string.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TextChange {
    /// It stays.
    Keep,
    /// It is replaced, or made.
    Put {
        /// The new string.
        text: Vec<u8>,
        /// What becomes of the expiry time.
        expiry: TextExpiry,
        /// How Redis would keep it.
        form: TextForm,
    },
    /// It gets another expiry time; one that has come removes it.
    Expire(TextExpiry),
    /// The key is removed.
    Remove,
}

impl Keyspace {
    /// Changes a string as `change` says, which gets the present one, or `None` without the key,
    /// and its expiry time, and may be called twice. Only `Put` changes a key that does not exist.
    ///
    /// # Errors
    /// [`WriteError`] when the key holds something else, or the journal has no room or has failed;
    /// then nothing was applied.
    pub fn change_text<T>(
        &self,
        number: usize,
        key: &[u8],
        change: impl Fn(Option<&[u8]>, Option<u64>) -> (T, TextChange),
    ) -> Result<Written<T>, WriteError> {
        let _guard = self.log.gate().shared();
        self.check_own(number, key)?;
        self.remove_if_over(number, key)?;
        let mut room_bytes = set_operation(number, key, None, &[0; 64]).size_bytes();
        loop {
            let room = self.log.reserve_batched(room_bytes)?;
            let now_millis = self.now_millis();
            let mut keys = self.exclusive(number);
            let live = keys.get(key).filter(|entry| !self.is_over(number, entry));
            let old_expiry = live.and_then(Entry::expires_at_millis);
            let (value, change) = match live {
                None => change(None, None),
                Some(entry) => {
                    self.note_use(&entry.slot);
                    let value = shared(&entry.slot.value);
                    change(Some(value.text().ok_or(WriteError::WrongKind)?), old_expiry)
                }
            };
            let at = |expiry: TextExpiry| match expiry {
                TextExpiry::Never => None,
                TextExpiry::Keep => old_expiry,
                TextExpiry::At(at) => Some(at),
            };
            let is_over = |at: Option<u64>| at.is_some_and(|at| at <= now_millis);
            let exists = live.is_some();
            // Freed when the map has been given back.
            let (ticket, _removed) = match change {
                TextChange::Put { text, expiry, form } if !is_over(at(expiry)) => {
                    let operation = set_operation(number, key, at(expiry), &text);
                    let wanted_bytes = operation.size_bytes();
                    if wanted_bytes > room_bytes {
                        drop(keys);
                        drop(room);
                        room_bytes = wanted_bytes;
                        continue;
                    }
                    let old = keys.put(key, Value::of_formed_text(&text, form), at(expiry));
                    (room.append(&operation), old)
                }
                TextChange::Expire(expiry) if exists && !is_over(at(expiry)) => {
                    let number = number_byte(number);
                    let expires_at_millis = at(expiry);
                    keys.set_expiry(key, expires_at_millis);
                    (room.append(&Operation::SetExpiry { number, key, expires_at_millis }), None)
                }
                TextChange::Put { .. } | TextChange::Expire(_) | TextChange::Remove if exists => {
                    let removed = keys.remove(key).map(|entry| entry.slot);
                    (room.append(&delete_operation(number, &[key])), removed)
                }
                _ => (room.unused(), None),
            };
            drop(keys);
            return Ok(Written { value, ticket });
        }
    }

    /// Puts strings in the place of whatever the keys hold, without expiry times, all or none, and
    /// says whether it did: `only_new` refuses all when one of the keys exists.
    ///
    /// # Errors
    /// [`WriteError`] when the journal has no room or has failed; then nothing was applied.
    pub fn set_strings(
        &self,
        number: usize,
        pairs: &[(&[u8], &[u8])],
        only_new: bool,
    ) -> Result<Written<bool>, WriteError> {
        self.try_isolated(|| self.set_each_string(number, pairs, only_new))
    }

    fn set_each_string(
        &self,
        number: usize,
        pairs: &[(&[u8], &[u8])],
        only_new: bool,
    ) -> Result<bool, WriteError> {
        pairs.iter().try_for_each(|(key, _)| self.check_own(number, key))?;
        let operations: Vec<Operation<'_>> =
            pairs.iter().map(|(key, text)| set_operation(number, key, None, text)).collect();
        // All room first: either all of them are applied, or none.
        let rooms: Vec<EntryReservation<'_>> = operations
            .iter()
            .map(|operation| self.log.reserve_batched(operation.size_bytes()))
            .collect::<Result<_, _>>()?;
        let mut keys = self.exclusive(number);
        let exists = |key: &[u8]| keys.get(key).is_some_and(|it| !self.is_over(number, it));
        if only_new && pairs.iter().any(|(key, _)| exists(key)) {
            return Ok(false);
        }
        let mut replaced = Vec::new();
        for (((key, text), operation), room) in pairs.iter().zip(&operations).zip(rooms) {
            replaced.extend(keys.put(key, Value::of_text(text), None));
            let _batched: Ticket = room.append(operation);
        }
        drop(keys);
        self.free(replaced);
        Ok(true)
    }
}

fn set_operation<'a>(
    number: usize,
    key: &'a [u8],
    expires_at_millis: Option<u64>,
    text: &'a [u8],
) -> Operation<'a> {
    Operation::SetText { number: number_byte(number), key, expires_at_millis, text }
}
