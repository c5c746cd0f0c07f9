//! Writes to the members of a sorted set, whichever kind it is.
//!
//! For: adding, moving, incrementing and removing members, with the conditions of `GEOADD` and
//! `ZADD`, and what of it the journal keeps: the effects, not the conditions.
//! Not for: reads (`keyspace`), writes of whole keys (`whole`).
//!
//! Locks and invariants: the head of `keyspace`. Cost: the value's own for each member.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, RwLockWriteGuard};

use whered_geo::{Cell, ChangeBatch, Inserted, LookupHint};

use super::additions::{AddCondition, Added, PREFETCH_MAX, ScoreRules, apply_points, apply_scores};
use super::keys::{Entry, Keys, Slot};
use super::soon::exclusive_soon;
use super::value::{Kind, Ordered, Value};
use super::whole::delete_operation;
use super::{Keyspace, POLITE_WAITS, exclusive, number_byte, shared};
use crate::error::WriteError;
use crate::journal::log::{EntryReservation, Ticket, Written};
use crate::journal::operation::Operation;

/// How long names of members may be together for the journal to keep them in the place of ranks.
const NAMES_BYTES_MAX: usize = 64 << 10;

/// Members and their scores, in the order of their removal.
pub type Popped = Vec<(Vec<u8>, f64)>;

/// What became of an increment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Increment {
    /// The member's new score.
    Score(f64),
    /// The member's score, which is the one that it had.
    Unchanged(f64),
    /// The rules forbid it.
    Refused,
    /// Infinity and its opposite have no sum. Nothing was changed.
    NotANumber,
}

impl Keyspace {
    /// Adds or moves points; all of them become visible together.
    ///
    /// # Errors
    /// [`WriteError`] when the key holds a text, or the journal has no room or has failed; then
    /// nothing was applied.
    pub fn add_points(
        &self,
        number: usize,
        key: &[u8],
        points: &[(&[u8], Cell)],
        condition: AddCondition,
    ) -> Result<Written<Added>, WriteError> {
        let mut value = Added::default();
        let ticket = self.add_each_point(number, key, points, condition, |inserted| {
            value.added += usize::from(inserted == Inserted::New);
            value.moved += usize::from(inserted == Inserted::Moved);
        })?;
        Ok(Written { value, ticket })
    }

    /// As [`Keyspace::add_points`], and tells what became of each point, in their order: points of
    /// several requests under one hold of the key. Nothing is told when there is no key and the
    /// condition makes none.
    ///
    /// # Errors
    /// As [`Keyspace::add_points`]; then nothing was told.
    pub fn add_each_point(
        &self,
        number: usize,
        key: &[u8],
        points: &[(&[u8], Cell)],
        condition: AddCondition,
        each: impl FnMut(Inserted),
    ) -> Result<Ticket, WriteError> {
        let makes = condition != AddCondition::OnlyExisting;
        // Waiting for memory takes most of the time, and others may use the value meanwhile.
        let mut foreseen = [LookupHint::default(); PREFETCH_MAX];
        if (2..=PREFETCH_MAX).contains(&points.len()) {
            self.inspect(number, key, |value| value.lookup_hints(points, &mut foreseen));
        }
        let act = |value: &mut Value, room: EntryReservation<'_>, _: Held<'_>| {
            let kept = apply_points(value, points, condition, &mut foreseen, each);
            let kept = kept.as_deref().unwrap_or(points);
            let ticket = match kept {
                [] => room.unused(),
                kept => room.append(&add_points(number, key, kept)),
            };
            Written { value: (), ticket }
        };
        let size_bytes = add_points(number, key, points).size_bytes();
        Ok(self.change(number, key, size_bytes, makes, |_| false, act)?.ticket)
    }

    /// Adds members with scores or gives them these scores; all become visible together.
    ///
    /// # Errors
    /// As [`Keyspace::add_points`].
    pub fn add_scores(
        &self,
        number: usize,
        key: &[u8],
        scores: &[(&[u8], f64)],
        rules: ScoreRules,
    ) -> Result<Written<Added>, WriteError> {
        let makes = rules.condition != AddCondition::OnlyExisting;
        let act = |value: &mut Value, room: EntryReservation<'_>, _: Held<'_>| {
            let (added, kept) = apply_scores(value, scores, rules);
            if added == Added::default() {
                return Written { value: added, ticket: room.unused() };
            }
            Written { value: added, ticket: room.append(&add_scores(number, key, &kept)) }
        };
        let size_bytes = add_scores(number, key, scores).size_bytes();
        self.change(number, key, size_bytes, makes, |_| false, act)
    }

    /// Adds a number to a member's score; an unknown member begins at 0.
    ///
    /// # Errors
    /// As [`Keyspace::add_points`].
    pub fn increment(
        &self,
        number: usize,
        key: &[u8],
        member: &[u8],
        by: f64,
        rules: ScoreRules,
    ) -> Result<Written<Increment>, WriteError> {
        let makes = rules.condition != AddCondition::OnlyExisting;
        let act = |value: &mut Value, room: EntryReservation<'_>, _: Held<'_>| {
            let old = value.ordered().and_then(|ordered| ordered.score(member));
            let score = old.map_or(by, |old| old + by);
            let outcome = match rules.allows(old, score) {
                _ if score.is_nan() && rules.condition != AddCondition::OnlyNew => {
                    Increment::NotANumber
                }
                true if value.insert(member, score) == Inserted::Unchanged => {
                    Increment::Unchanged(score)
                }
                true => Increment::Score(score),
                false => Increment::Refused,
            };
            let ticket = match outcome {
                Increment::Score(_) => room.append(&add_scores(number, key, &[(member, score)])),
                _ => room.unused(),
            };
            Written { value: Some(outcome), ticket }
        };
        let size_bytes = add_scores(number, key, &[(member, by)]).size_bytes();
        let written = self.change(number, key, size_bytes, makes, |_| false, act)?;
        let value = written.value.unwrap_or(Increment::Refused);
        Ok(Written { value, ticket: written.ticket })
    }

    /// Applies many changes of points at once; `act` sees to the journal, in which it has this much
    /// room, while nobody else changes or reads the key. The batch is empty afterwards.
    ///
    /// # Errors
    /// As [`Keyspace::add_points`]; the batch is as it was then.
    pub(crate) fn apply_batch(
        &self,
        number: usize,
        key: &[u8],
        batch: &mut ChangeBatch,
        size_bytes: usize,
        act: impl FnOnce(EntryReservation<'_>) -> Ticket,
    ) -> Result<Ticket, WriteError> {
        let act = |value: &mut Value, room: EntryReservation<'_>, _: Held<'_>| {
            // The caller's entry is no operation that the log could note.
            if self.log.watch().is_followed() {
                self.log.watch().note_batch(number, key, batch);
            }
            value.apply_batch(batch, 1);
            Written { value: (), ticket: act(room) }
        };
        Ok(self.change(number, key, size_bytes, true, |_| false, act)?.ticket)
    }

    /// Removes members and gives how many were there; an emptied key vanishes.
    ///
    /// # Errors
    /// As [`Keyspace::add_points`].
    pub fn remove_members(
        &self,
        number: usize,
        key: &[u8],
        members: &[&[u8]],
    ) -> Result<Written<usize>, WriteError> {
        let operation = remove_members(number, key, members);
        let may_empty = |value: &Value| len(value) <= members.len();
        let act = |value: &mut Value, room: EntryReservation<'_>, _: Held<'_>| {
            let removed = members.iter().filter(|member| value.remove(member)).count();
            let ticket = match removed {
                0 => room.unused(),
                _ if value.is_empty() => room.append(&delete_operation(number, &[key])),
                _ => room.append(&operation),
            };
            Written { value: removed, ticket }
        };
        self.change(number, key, operation.size_bytes(), false, may_empty, act)
    }

    /// Removes the members with the ranks that `choose` gives, and gives how many there were.
    /// `choose` may be called twice, and must give ranks that exist.
    ///
    /// # Errors
    /// As [`Keyspace::add_points`].
    pub fn remove_ranks(
        &self,
        number: usize,
        key: &[u8],
        choose: impl Fn(Ordered<'_>) -> Range<usize>,
    ) -> Result<Written<usize>, WriteError> {
        let removed = self.take_ranks(number, key, choose, |_, ranks| ranks.len())?;
        Ok(removed)
    }

    /// Removes the lowest members, or the highest, and gives them in the order of their removal.
    ///
    /// # Errors
    /// As [`Keyspace::add_points`].
    pub fn pop(
        &self,
        number: usize,
        key: &[u8],
        count: usize,
        highest: bool,
    ) -> Result<Written<Popped>, WriteError> {
        let choose = |ordered: Ordered<'_>| {
            let count = count.min(ordered.len());
            if highest { ordered.len() - count..ordered.len() } else { 0..count }
        };
        self.take_ranks(number, key, choose, |ordered, ranks| {
            let owned = |(member, score): (&[u8], f64)| (member.to_vec(), score);
            let members = ordered.iter_ranks(ranks);
            if highest { members.rev().map(owned).collect() } else { members.map(owned).collect() }
        })
    }

    /// Removes ranks after `look` has seen them.
    fn take_ranks<T: Default>(
        &self,
        number: usize,
        key: &[u8],
        choose: impl Fn(Ordered<'_>) -> Range<usize>,
        look: impl Fn(Ordered<'_>, Range<usize>) -> T,
    ) -> Result<Written<T>, WriteError> {
        let ranks = |value: &Value| value.ordered().map_or(0..0, &choose);
        let may_empty = |value: &Value| ranks(value).len() == len(value);
        let mut room_bytes = remove_ranks(number, key, &(0..0)).size_bytes();
        loop {
            let act = |value: &mut Value, room: EntryReservation<'_>, held: Held<'_>| {
                let ranks = ranks(value);
                if ranks.is_empty() {
                    return Written { value: (T::default(), 0), ticket: room.unused() };
                }
                let removal = self.removal(key, value, &ranks, held);
                let wanted_bytes = removal.size_bytes(number, key);
                if wanted_bytes > room_bytes {
                    return Written { value: (T::default(), wanted_bytes), ticket: room.unused() };
                }
                let seen = value.ordered().map(|ordered| look(ordered, ranks.clone()));
                value.remove_ranks(ranks.clone());
                let ticket = self.append_removal(number, key, removal, room, held);
                Written { value: (seen.unwrap_or_default(), 0), ticket }
            };
            let written = self.change(number, key, room_bytes, false, may_empty, act)?;
            let Written { value: (value, wanted_bytes), ticket } = written;
            if wanted_bytes <= room_bytes {
                return Ok(Written { value, ticket });
            }
            room_bytes = wanted_bytes;
        }
    }

    /// How the journal is to tell of a removal by rank: see the head of `saving`.
    fn removal(&self, key: &[u8], value: &Value, ranks: &Range<usize>, held: Held<'_>) -> Removal {
        if ranks.len() == len(value) {
            return Removal::Key;
        }
        let (ranks, is_exact) = (ranks.clone(), self.saving.is_exact(held.keys, key));
        if is_exact || ranks.len() > NAMES_BYTES_MAX {
            return Removal::Ranks { ranks, is_exact };
        }
        let members = value.ordered().map(|ordered| ordered.iter_ranks(ranks.clone()));
        let names: Vec<Vec<u8>> =
            members.into_iter().flatten().map(|(member, _)| member.to_vec()).collect();
        if names.iter().map(Vec::len).sum::<usize>() > NAMES_BYTES_MAX {
            return Removal::Ranks { ranks, is_exact };
        }
        Removal::Members(names)
    }

    fn append_removal(
        &self,
        number: usize,
        key: &[u8],
        removal: Removal,
        room: EntryReservation<'_>,
        held: Held<'_>,
    ) -> Ticket {
        match removal {
            Removal::Key => room.append(&delete_operation(number, &[key])),
            Removal::Members(names) => {
                let names: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
                room.append(&remove_members(number, key, &names))
            }
            Removal::Ranks { ranks, is_exact } => {
                let ticket = room.append(&remove_ranks(number, key, &ranks));
                let expires_at_millis = held.keys.get(key).and_then(Entry::expires_at_millis);
                let number = number_byte(number);
                self.saving.after_operation(is_exact, number, key, expires_at_millis, held.slot);
                ticket
            }
        }
    }

    /// Changes a sorted set, which is made first when it is absent and `makes` says so. When
    /// `may_empty` says so, the map is held exclusively, so that the key can go.
    fn change<T: Default>(
        &self,
        number: usize,
        key: &[u8],
        size_bytes: usize,
        makes: bool,
        may_empty: impl Fn(&Value) -> bool,
        act: impl FnOnce(&mut Value, EntryReservation<'_>, Held<'_>) -> Written<T>,
    ) -> Result<Written<T>, WriteError> {
        let _guard = self.log.gate().shared();
        self.check_own(number, key)?;
        self.remove_if_over(number, key)?;
        let room = self.log.reserve_batched(size_bytes)?;
        let mut waits = 0;
        loop {
            let keys = self.shared(number);
            let Some(slot) = sorted_slot(&keys, key)? else {
                break;
            };
            let Some(mut value) = write_or_wait(slot, waits) else {
                let slot = Arc::clone(slot);
                drop(keys);
                drop(exclusive(&slot.value));
                waits += 1;
                continue;
            };
            if may_empty(&value) {
                break;
            }
            self.note_use(slot);
            let held = Held { keys: &keys, slot };
            let written = act(&mut value, room, held);
            slot.settle(&value);
            return Ok(written);
        }
        let unchanged =
            |room: EntryReservation<'_>| Written { value: T::default(), ticket: room.unused() };
        if !makes && !self.shared(number).entries.contains_key(key) {
            return Ok(unchanged(room));
        }
        // The key may have come into being since, or gone again: either case is taken here.
        let mut keys = self.exclusive(number);
        if sorted_slot(&keys, key)?.is_none() && !makes {
            return Ok(unchanged(room));
        }
        let slot = keys.slot_or_empty(key);
        let held = Held { keys: &keys, slot: &slot };
        let mut value = exclusive(&slot.value);
        let written = act(&mut value, room, held);
        slot.settle(&value);
        drop(value);
        self.note_use(&slot);
        let removed = keys.remove_if_empty(key);
        drop(keys);
        if removed.is_some() {
            self.free((removed, slot));
        }
        Ok(written)
    }
}

/// What the journal keeps of a removal by rank.
enum Removal {
    /// The key goes with its last member.
    Key,
    /// The ranks, which `is_exact` allows or an image makes good.
    Ranks { ranks: Range<usize>, is_exact: bool },
    /// The names of the members.
    Members(Vec<Vec<u8>>),
}

impl Removal {
    /// The room that it takes in the journal, if it is more than that of ranks.
    fn size_bytes(&self, number: usize, key: &[u8]) -> usize {
        match self {
            Removal::Key | Removal::Ranks { .. } => 0,
            Removal::Members(names) => {
                let names: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
                remove_members(number, key, &names).size_bytes()
            }
        }
    }
}

/// What is locked around a change.
#[derive(Clone, Copy)]
struct Held<'a> {
    keys: &'a Keys,
    slot: &'a Arc<Slot>,
}

impl Keys {
    /// Removes a sorted set that has lost its last member. The caller frees it.
    pub(super) fn remove_if_empty(&mut self, key: &[u8]) -> Option<Arc<Slot>> {
        let is_empty = self.get(key).is_some_and(|entry| shared(&entry.slot.value).is_empty());
        if is_empty { self.remove(key).map(|entry| entry.slot) } else { None }
    }
}

/// The slot of a sorted set; `None` without the key.
fn sorted_slot<'a>(keys: &'a Keys, key: &[u8]) -> Result<Option<&'a Arc<Slot>>, WriteError> {
    match keys.get(key).map(|entry| &entry.slot) {
        Some(slot) if slot.kind != Kind::SortedSet => Err(WriteError::WrongKind),
        slot => Ok(slot),
    }
}

/// The value's lock, if it can be had soon or enough has been waited for it.
fn write_or_wait(slot: &Slot, waits: usize) -> Option<RwLockWriteGuard<'_, Value>> {
    match waits {
        POLITE_WAITS => Some(exclusive(&slot.value)),
        _ => exclusive_soon(&slot.value),
    }
}

fn len(value: &Value) -> usize {
    value.ordered().map_or(0, Ordered::len)
}

fn remove_members<'a>(number: usize, key: &'a [u8], members: &'a [&'a [u8]]) -> Operation<'a> {
    Operation::RemoveMembers { number: number_byte(number), key, members: Cow::Borrowed(members) }
}

fn remove_ranks<'a>(number: usize, key: &'a [u8], ranks: &Range<usize>) -> Operation<'a> {
    let (first, end) = (ranks.start as u64, ranks.end as u64);
    Operation::RemoveRanks { number: number_byte(number), key, first, end }
}

fn add_points<'a>(number: usize, key: &'a [u8], points: &'a [(&'a [u8], Cell)]) -> Operation<'a> {
    Operation::AddPoints { number: number_byte(number), key, points: Cow::Borrowed(points) }
}

fn add_scores<'a>(number: usize, key: &'a [u8], scores: &'a [(&'a [u8], f64)]) -> Operation<'a> {
    Operation::AddScores { number: number_byte(number), key, scores: Cow::Borrowed(scores) }
}
