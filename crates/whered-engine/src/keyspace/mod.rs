//! Values by key, in sixteen numbered databases, as Redis users know them, and in hidden ones that
//! hold what is followed from other servers.
//!
//! Not for: what a command looks like or how a reply is written (the doors), how points lie in
//! memory (`whered-geo`).
//!
//! ```text
//! gate ─> numbers[0..144] : RwLock<Keys> ─> key ─> Arc<Slot> ─> RwLock<Value>
//!  │       keyspace/keys.rs: the map, SCAN's order, expiry        keyspace/value.rs
//!  └ a transaction holds it alone (sync.rs)
//!
//! reads and sweeping: here      members: keyspace/members.rs      whole keys: keyspace/whole.rs
//! all keys of a database: keyspace/listing.rs       what a snapshot takes: keyspace/saving.rs
//! which key is followed, and where it lies: keyspace/followed.rs   how far: keyspace/positions.rs
//! full synchronizations: keyspace/load.rs     freed behind a transaction: keyspace/removed.rs
//! slots that nobody sees yet: keyspace/imports.rs
//! ```
//!
//! Invariants:
//! - a sorted set in the map is never empty: the last member's removal removes the key;
//! - a change of a value holds the map shared and the value exclusively; a call that makes,
//!   replaces or removes a key holds the map exclusively. So a value whose key is gone is never
//!   written to, although readers may still hold it, and the journal's order is the order of
//!   effects;
//! - locks are taken in the order gate, maps by ascending number, value. A reader gives gate and
//!   map back as soon as it has the value; a writer that meets a value in use waits awake for a
//!   moment (`soon`) and then gives the map back while it sleeps, a few times, so that a long
//!   search holds up nobody but that value's writers;
//! - who reads several values at one moment locks them in the order of their addresses, with the
//!   map shared until it has all; a value in use is waited for as writers do;
//! - expiry: a key whose time is over is invisible at once. It goes by a removal of its own in the
//!   journal, made by the next writer of that key or by [`Keyspace::sweep`]. Replaying asks no
//!   clock: what was not removed before the end is there again, invisible, and swept. In a hidden
//!   database no time is ever over: what is followed goes when its primary says so.
//!
//! At the same time: readers of one value share it; writers of different values do not meet.
//! Costs: a lookup is one hash probe and the value's own cost; SCAN is O(keys given).

mod additions;
mod combine;
mod followed;
mod found;
mod imports;
mod keys;
mod listing;
mod load;
mod members;
mod positions;
mod removed;
mod replay;
pub(crate) mod saving;
mod slots;
mod soon;
pub(crate) mod sorted_set;
mod strings;
pub(crate) mod value;
mod whole;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub use additions::{AddCondition, Added, ScoreRules};
pub use combine::{Aggregate, Combination, CombineOperation, CombinedMembers};
pub use followed::{KeyRole, Route};
pub use found::Found;
pub use load::Load;
pub use members::{Increment, Popped};
pub use positions::Position;
pub use slots::{SLOTS, SlotOwners, key_slot};
pub use strings::TextChange;
pub use whole::{ExpiryCondition, Renamed, SetText, TextExpiry, TextSet};

use crate::account::Account;
use crate::clock::Clock;
use crate::error::WriteError;
pub use crate::journal::imports::SlotImport;
use crate::journal::log::{Log, Ticket, Written};
use crate::journal::numbers::NUMBERS;
pub use crate::journal::numbers::{DATABASE_COUNT, LINKS_MAX, load_number, served_number};
pub use crate::journal::stream::{ReplicationId, StreamPosition};
use crate::sync;
use followed::FollowedKeys;
use keys::{Entry, Keys, Slot};
use removed::RemovedValues;
use saving::Saving;
use soon::{shared_soon, try_shared_soon};
use value::{Kind, Value};

/// How often a caller gives the map back to wait for a value in use, before it keeps the map.
const POLITE_WAITS: usize = 4;

/// All keys of all numbered databases.
///
/// Every method panics when `number` is none of a client's database, which is below
/// [`DATABASE_COUNT`], and none of a link's [`served_number`] or [`load_number`].
pub struct Keyspace {
    numbers: Box<[RwLock<Keys>]>,
    followed: FollowedKeys,
    saving: Saving,
    removed: RemovedValues,
    account: Arc<Account>,
    log: Arc<Log>,
    clock: Clock,
    /// The clock in seconds, as it was when it was last asked; for idle times only.
    seconds: Arc<AtomicU32>,
    /// How many keys were removed because their time was over.
    expired: AtomicU64,
}

impl Keyspace {
    pub(crate) fn new(log: Arc<Log>, clock: Clock) -> Keyspace {
        let seconds = Arc::new(AtomicU32::new((clock.now_millis() / 1000) as u32));
        let (saving, account) = (Saving::default(), Arc::default());
        let empty = |_| RwLock::new(Keys::new(&seconds, saving.epoch(), &account));
        let numbers = (0..NUMBERS).map(empty).collect();
        let (followed, expired) = (FollowedKeys::default(), AtomicU64::new(0));
        let removed = RemovedValues::default();
        Keyspace { numbers, followed, saving, removed, account, log, clock, seconds, expired }
    }

    /// These keys, from now on logged here.
    pub(crate) fn with_log(self, log: &Arc<Log>) -> Keyspace {
        Keyspace { log: Arc::clone(log), ..self }
    }

    /// Reads a value under its shared lock; `None` when the key does not exist.
    ///
    /// Inside of `read` nothing else may be asked of the keyspace: a transaction that waits for
    /// this value keeps all others out meanwhile.
    pub fn read<R>(&self, number: usize, key: &[u8], read: impl FnOnce(Option<&Value>) -> R) -> R {
        let guard = self.log.gate().shared();
        let Some(slot) = self.live_slot(number, key) else {
            drop(guard);
            return read(None);
        };
        self.note_use(&slot);
        let value = shared_soon(&slot.value);
        // From here on a transaction cannot change what is read before this is over.
        drop(guard);
        // The value may have lost its last member, and its key, since it was found.
        read(Some(&*value).filter(|value| !value.is_empty()))
    }

    /// Reads a value as [`Keyspace::read`] does, which then does not count as a use of it.
    pub fn inspect<R>(
        &self,
        number: usize,
        key: &[u8],
        read: impl FnOnce(&Value) -> R,
    ) -> Option<R> {
        let guard = self.log.gate().shared();
        let slot = self.live_slot(number, key)?;
        let value = shared_soon(&slot.value);
        drop(guard);
        Some(read(&value))
    }

    /// Reads several values as they are at one moment, each under its shared lock; `None` are keys
    /// that do not exist. What holds for [`Keyspace::read`] holds here.
    pub fn read_all<R>(
        &self,
        number: usize,
        keys: &[&[u8]],
        read: impl FnOnce(&[Option<&Value>]) -> R,
    ) -> R {
        let guard = self.log.gate().shared();
        let mut waits = 0;
        loop {
            let maps = self.maps_of(number);
            let slots: Vec<Option<Arc<Slot>>> =
                keys.iter().map(|key| Some(Arc::clone(&maps.live(key)?.slot))).collect();
            // Each is locked once, and all callers lock in the order of addresses.
            let mut distinct: Vec<&Arc<Slot>> = slots.iter().flatten().collect();
            distinct.sort_unstable_by_key(|slot| Arc::as_ptr(slot));
            distinct.dedup_by_key(|slot| Arc::as_ptr(slot));
            let mut values = Vec::with_capacity(distinct.len());
            let is_last = waits == POLITE_WAITS;
            let busy = distinct.iter().find(|slot| {
                let value = match is_last {
                    true => Some(shared_soon(&slot.value)),
                    false => try_shared_soon(&slot.value),
                };
                value.map(|value| values.push(value)).is_none()
            });
            if let Some(busy) = busy {
                // Whoever makes or removes keys does not wait for what is in use.
                let busy = Arc::clone(busy);
                drop((values, maps));
                drop(shared(&busy.value));
                waits += 1;
                continue;
            }
            drop(maps);
            // From here on a transaction cannot change what is read before this is over.
            drop(guard);
            distinct.iter().for_each(|slot| self.note_use(slot));
            let value = |slot: &Arc<Slot>| {
                let place = distinct.binary_search_by_key(&Arc::as_ptr(slot), |it| Arc::as_ptr(it));
                place.ok().map(|place| &*values[place]).filter(|value| !value.is_empty())
            };
            let found: Vec<Option<&Value>> =
                slots.iter().map(|slot| slot.as_ref().and_then(value)).collect();
            return read(&found);
        }
    }

    /// What kind of value a key holds; `None` when it does not exist. O(1).
    pub fn kind(&self, number: usize, key: &[u8]) -> Option<Kind> {
        let _guard = self.log.gate().shared();
        self.live(number, key, |entry| entry.slot.kind)
    }

    /// Whether the key exists. O(1).
    pub fn exists(&self, number: usize, key: &[u8]) -> bool {
        self.kind(number, key).is_some()
    }

    /// The number in which a key lies that clients ask for in this database: another one for a key
    /// that is followed. `None` when it does not exist. O(1).
    pub fn stored_number(&self, number: usize, key: &[u8]) -> Option<usize> {
        let _guard = self.log.gate().shared();
        let place = self.number_of(number, key)?;
        self.live(number, key, |_| place)
    }

    /// When a key's time is over, in milliseconds since 1970: `None` when there is no such key,
    /// `Some(None)` when it stays.
    pub fn expires_at_millis(&self, number: usize, key: &[u8]) -> Option<Option<u64>> {
        let _guard = self.log.gate().shared();
        self.live(number, key, Entry::expires_at_millis)
    }

    /// For how many seconds a key has not been used; a sweep behind at most.
    pub fn idle_seconds(&self, number: usize, key: &[u8]) -> Option<u32> {
        let _guard = self.log.gate().shared();
        let slot = self.live_slot(number, key)?;
        self.now_millis();
        let used = slot.used_seconds.load(Ordering::Relaxed);
        Some(self.seconds.load(Ordering::Relaxed).saturating_sub(used))
    }

    /// Counts a use of a key, and says whether it exists.
    pub fn touch(&self, number: usize, key: &[u8]) -> bool {
        let _guard = self.log.gate().shared();
        let slot = self.live_slot(number, key);
        slot.inspect(|slot| self.note_use(slot)).is_some()
    }

    /// How many keys were removed since the start because their time was over. O(1).
    pub fn expired_total(&self) -> u64 {
        self.expired.load(Ordering::Relaxed)
    }

    /// Runs operations with nobody else's between them, kept in the journal all or none, and
    /// gives the ticket that the replies to all of them wait for.
    ///
    /// Everything that `act` changes on this thread is part of it: keys, prefix sets, sites,
    /// rulesets, challenges. Others wait until it is over, so it must not wait for anything itself.
    /// Reads that have begun before may still be going on and see nothing of it. Called inside of
    /// itself it only runs `act`.
    pub fn isolated<R>(&self, act: impl FnOnce() -> R) -> Written<R> {
        if self.log.gate().is_exclusive_here() {
            return Written { value: act(), ticket: Ticket::NONE };
        }
        // Dropped last, when others are let in.
        let _freed = self.removed.freed_at_end();
        let _alone = self.log.gate().exclusive();
        self.log.begin_batch();
        // What was applied before a panic is appended all the same.
        let batch = EndOfBatch { log: &self.log };
        let value = act();
        std::mem::forget(batch);
        Written { value, ticket: self.log.end_batch() }
    }

    /// Frees what was taken out of the maps, and inside of [`Keyspace::isolated`] behind it: to
    /// free millions of points takes long, and nobody should wait for that. The caller holds no
    /// lock but the gate.
    fn free(&self, removed: impl Send + 'static) {
        match self.log.gate().is_exclusive_here() {
            true => self.removed.keep(removed),
            false => drop(removed),
        }
    }

    /// As [`Keyspace::isolated`], for what can fail: what was applied before that is kept.
    fn try_isolated<R>(
        &self,
        act: impl FnOnce() -> Result<R, WriteError>,
    ) -> Result<Written<R>, WriteError> {
        let Written { value, ticket } = self.isolated(act);
        Ok(Written { value: value?, ticket })
    }

    /// Runs something that is a change of other things as if it were one of a key: not in the
    /// middle of a transaction, and no snapshot begins or ends within.
    pub(crate) fn with_gate<R>(&self, act: impl FnOnce() -> R) -> R {
        let _guard = self.log.gate().shared();
        act()
    }

    /// What keys and values take, those included that readers still hold.
    pub fn memory_bytes(&self) -> u64 {
        self.account.total_bytes()
    }

    /// Removes keys whose time is over, up to `limit`, and gives how many there were.
    ///
    /// # Errors
    /// [`WriteError`] when the journal has no room or has failed; some may have been removed.
    pub fn sweep(&self, limit: usize) -> Result<usize, WriteError> {
        let now_millis = self.now_millis();
        let mut removed = 0;
        for number in 0..DATABASE_COUNT {
            let guard = self.log.gate().shared();
            let over = self.shared(number).over(now_millis, limit - removed);
            if !over.is_empty() {
                let names: Vec<&[u8]> = over.iter().map(|key| &**key).collect();
                removed += self.remove_over(number, &names, now_millis)?;
            }
            drop(guard);
        }
        Ok(removed)
    }

    /// Milliseconds since 1970 by the keyspace's clock.
    pub fn now_millis(&self) -> u64 {
        let now_millis = self.clock.now_millis();
        let seconds = (now_millis / 1000) as u32;
        if self.seconds.load(Ordering::Relaxed) != seconds {
            self.seconds.store(seconds, Ordering::Relaxed);
        }
        now_millis
    }

    /// The key's slot, unless its time is over. The map is given back at once.
    fn live_slot(&self, number: usize, key: &[u8]) -> Option<Arc<Slot>> {
        self.live(number, key, |entry| Arc::clone(&entry.slot))
    }

    /// What a key has, wherever it lies, unless its time is over.
    fn live<R>(&self, number: usize, key: &[u8], look: impl FnOnce(&Entry) -> R) -> Option<R> {
        let keys = self.shared(self.number_of(number, key)?);
        self.visible(number, &keys, key).map(look)
    }

    /// The entry of a key as a client or a link of this number sees it. A client sees none whose
    /// time is over, and none of a slot that is imported; a link sees all.
    fn visible<'k>(&self, number: usize, keys: &'k Keys, key: &[u8]) -> Option<&'k Entry> {
        let is_hidden = number < DATABASE_COUNT && keys.hides(key);
        keys.get(key).filter(|entry| !is_hidden && !self.is_over(number, entry))
    }

    /// Whether a key's time is over for those who ask for it in this database. The clock is asked
    /// only for keys that have an expiry time.
    fn is_over(&self, number: usize, entry: &Entry) -> bool {
        number < DATABASE_COUNT && entry.is_over(|| self.now_millis())
    }

    fn note_use(&self, slot: &Slot) {
        let seconds = self.seconds.load(Ordering::Relaxed);
        // Written only when it changes: readers share the cache line.
        if slot.used_seconds.load(Ordering::Relaxed) != seconds {
            slot.used_seconds.store(seconds, Ordering::Relaxed);
        }
    }

    fn shared(&self, number: usize) -> RwLockReadGuard<'_, Keys> {
        shared(&self.numbers[number])
    }

    fn exclusive(&self, number: usize) -> RwLockWriteGuard<'_, Keys> {
        exclusive(&self.numbers[number])
    }
}

#[cfg(test)]
impl Keyspace {
    /// What [`Keyspace::memory_bytes`] should be while nobody holds values.
    pub(crate) fn recounted_bytes(&self) -> u64 {
        (0..NUMBERS).map(|number| self.shared(number).recounted_bytes()).sum()
    }
}

/// Ends a batch when its transaction panics.
struct EndOfBatch<'a> {
    log: &'a Log,
}

impl Drop for EndOfBatch<'_> {
    fn drop(&mut self) {
        self.log.end_batch();
    }
}

fn number_byte(number: usize) -> u8 {
    assert!(number < NUMBERS, "doors allow database numbers 0 to 15 only");
    number as u8
}

// A panic inside a lock would leave a half-done change behind; the point index has none that
// outside bytes can reach, so the data is taken as it is.
fn shared<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    sync::read(lock)
}

fn exclusive<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    sync::write(lock)
}
