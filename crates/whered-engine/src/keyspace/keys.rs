//! The keys of one numbered database.
//!
//! ```text
//! entries    key ─> Entry { slot: Arc<Slot { RwLock<Value> }>, expires_at_millis }
//! by_hash    hash -> keys with that hash        SCAN's order
//! expiring   (expires_at_millis, key)           which key goes next
//! ```
//!
//! For: finding, putting and removing keys, and their expiry times.
//! Not for: locks around this, journal, clock: `now` is an argument.
//!
//! Invariants: every key stands in `by_hash` exactly once, and in `expiring` exactly when it has
//! an expiry time. A slot's value may be changed, but never turned from a text into a sorted set
//! or back: such a change puts a new slot in the old one's place.
//! Cost: one hash probe; putting and removing also O(log keys).

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use super::imports::ImportingSlots;
use super::saving::Saved;
use super::shared;
use super::value::{Kind, Value};
use crate::account::Account;

/// See the file's header.
pub(super) struct Keys {
    /// The coarse clock of the keyspace, in seconds; what is put is used at that moment.
    seconds: Arc<AtomicU32>,
    /// The number of the latest snapshot; what is put need not be saved by it.
    epoch: Arc<AtomicU32>,
    account: Arc<Account>,
    /// Which numbered database this was when the latest snapshot began; `None` when it was not
    /// there then. `SWAPDB` carries it along.
    pub(super) origin: Option<u8>,
    pub(super) entries: HashMap<Box<[u8]>, Entry>,
    pub(super) by_hash: BTreeMap<u64, Vec<Box<[u8]>>>,
    expiring: BTreeSet<(u64, Box<[u8]>)>,
    /// The sum of all expiry times.
    expiring_sum_millis: u128,
    /// Slots whose keys nobody sees, of a number that follows another server.
    pub(super) importing: Option<Box<ImportingSlots>>,
}

/// One key's value and its end.
pub(super) struct Entry {
    pub(super) slot: Arc<Slot>,
    expires_at_millis: Option<u64>,
}

/// A value behind its lock. Readers may hold it after its key has gone.
pub(super) struct Slot {
    pub(super) value: RwLock<Value>,
    pub(super) kind: Kind,
    /// When it was used last, in seconds of the keyspace's own coarse clock.
    pub(super) used_seconds: AtomicU32,
    /// How far a snapshot is with it.
    pub(super) saved: Saved,
    account: Arc<Account>,
    /// What the account has of it.
    accounted_bytes: AtomicU64,
    /// What its key takes beside it.
    key_bytes: u32,
}

/// What a key takes in the maps beside its own bytes, of which there are two copies: entries of
/// two maps, an allocation for each key's text, and the slot.
const KEY_OVERHEAD_BYTES: usize = 2 * 48 + 3 * 16 + size_of::<Slot>();

impl Slot {
    fn new(value: Value, keys: &Keys, key: &[u8]) -> Slot {
        let slot = Slot {
            kind: value.kind(),
            value: RwLock::new(value),
            used_seconds: AtomicU32::new(keys.seconds.load(Ordering::Relaxed)),
            saved: Saved::born(keys.epoch.load(Ordering::Relaxed)),
            account: Arc::clone(&keys.account),
            accounted_bytes: AtomicU64::new(0),
            key_bytes: (KEY_OVERHEAD_BYTES + 2 * key.len()) as u32,
        };
        slot.settle(&shared(&slot.value));
        slot
    }

    /// Brings the account up to date. The caller holds the value.
    pub(super) fn settle(&self, value: &Value) {
        let bytes = u64::from(self.key_bytes) + value.memory_bytes() as u64;
        let before = self.accounted_bytes.swap(bytes, Ordering::Relaxed);
        self.account.add(bytes as i64 - before as i64);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.account.add(-(*self.accounted_bytes.get_mut() as i64));
    }
}

impl Entry {
    pub(super) fn expires_at_millis(&self) -> Option<u64> {
        self.expires_at_millis
    }

    /// Whether its time is over; in the very millisecond of its expiry it is still there.
    pub(super) fn is_over(&self, now_millis: impl FnOnce() -> u64) -> bool {
        self.expires_at_millis.is_some_and(|at| now_millis() > at)
    }
}

impl Keys {
    pub(super) fn new(
        seconds: &Arc<AtomicU32>,
        epoch: &Arc<AtomicU32>,
        account: &Arc<Account>,
    ) -> Keys {
        Keys {
            seconds: Arc::clone(seconds),
            epoch: Arc::clone(epoch),
            account: Arc::clone(account),
            origin: None,
            entries: HashMap::new(),
            by_hash: BTreeMap::new(),
            expiring: BTreeSet::new(),
            expiring_sum_millis: 0,
            importing: None,
        }
    }

    /// Takes all keys out. What is imported stays.
    pub(super) fn take(&mut self) -> Keys {
        let empty = Keys::new(&self.seconds, &self.epoch, &self.account);
        let mut taken = std::mem::replace(self, empty);
        self.exchange_imports(&mut taken);
        taken
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// Whether any key has an expiry time.
    pub(super) fn has_expiring(&self) -> bool {
        !self.expiring.is_empty()
    }

    /// How many keys have an expiry time.
    pub(super) fn expiring_len(&self) -> usize {
        self.expiring.len()
    }

    /// The sum of all expiry times, in milliseconds since 1970, and how many there are.
    pub(super) fn expiry_sum_and_count(&self) -> (u128, u128) {
        (self.expiring_sum_millis, self.expiring.len() as u128)
    }

    /// Up to `limit` keys whose time is over.
    pub(super) fn over(&self, now_millis: u64, limit: usize) -> Vec<Box<[u8]>> {
        let over = self.expiring.iter().take_while(|(at, _)| *at < now_millis);
        over.take(limit).map(|(_, key)| key.clone()).collect()
    }

    /// Puts a value in the place of whatever the key held; the old slot is for dropping later.
    pub(super) fn put(
        &mut self,
        key: &[u8],
        value: Value,
        expires_at_millis: Option<u64>,
    ) -> Option<Arc<Slot>> {
        let slot = Arc::new(Slot::new(value, self, key));
        self.put_slot(key, slot, expires_at_millis)
    }

    /// Puts a slot that another key has held.
    pub(super) fn put_slot(
        &mut self,
        key: &[u8],
        slot: Arc<Slot>,
        expires_at_millis: Option<u64>,
    ) -> Option<Arc<Slot>> {
        if let Some(entry) = self.entries.get_mut(key) {
            let old = std::mem::replace(&mut entry.slot, slot);
            self.set_expiry(key, expires_at_millis);
            return Some(old);
        }
        self.by_hash.entry(scan_hash(key)).or_default().push(key.into());
        self.entries.insert(key.into(), Entry { slot, expires_at_millis: None });
        self.note_hidden(key, |hidden| hidden.keys += 1);
        self.set_expiry(key, expires_at_millis);
        None
    }

    /// The key's slot, made with an empty sorted set when absent.
    pub(super) fn slot_or_empty(&mut self, key: &[u8]) -> Arc<Slot> {
        if !self.entries.contains_key(key) {
            self.put(key, Value::empty(), None);
        }
        Arc::clone(&self.entries[key].slot)
    }

    /// Gives a key another expiry time, or none, and says whether there is such a key.
    pub(super) fn set_expiry(&mut self, key: &[u8], expires_at_millis: Option<u64>) -> bool {
        let Some(entry) = self.entries.get_mut(key) else {
            return false;
        };
        let old = std::mem::replace(&mut entry.expires_at_millis, expires_at_millis);
        self.note_hidden(key, |hidden| {
            hidden.remove_expiry(old);
            hidden.add_expiry(expires_at_millis);
        });
        if let Some(old) = old {
            self.expiring_sum_millis -= u128::from(old);
            self.expiring.remove(&(old, Box::from(key)));
        }
        if let Some(at) = expires_at_millis {
            self.expiring_sum_millis += u128::from(at);
            self.expiring.insert((at, key.into()));
        }
        true
    }

    /// Takes a key out. The caller may free its value after giving the map's lock back.
    pub(super) fn remove(&mut self, key: &[u8]) -> Option<Entry> {
        let (key, entry) = self.entries.remove_entry(key)?;
        let hash = scan_hash(&key);
        let same_hash = self.by_hash.get_mut(&hash).expect("every key stands in by_hash");
        same_hash.retain(|other| *other != key);
        if same_hash.is_empty() {
            self.by_hash.remove(&hash);
        }
        self.note_hidden(&key, |hidden| {
            hidden.keys -= 1;
            hidden.remove_expiry(entry.expires_at_millis);
        });
        if let Some(at) = entry.expires_at_millis {
            self.expiring_sum_millis -= u128::from(at);
            self.expiring.remove(&(at, key));
        }
        Some(entry)
    }
}

/// SCAN's order. Never 0, which means "start" and "end"; 48 bits, so that clients that keep
/// cursors in doubles or signed integers are safe.
pub(super) fn scan_hash(key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    (hasher.finish() >> 16).max(1)
}

#[cfg(test)]
impl Keys {
    /// What the account should have of these keys while nobody else holds values.
    pub(super) fn recounted_bytes(&self) -> u64 {
        let bytes =
            |slot: &Slot| u64::from(slot.key_bytes) + shared(&slot.value).memory_bytes() as u64;
        self.entries.values().map(|entry| bytes(&entry.slot)).sum()
    }
}
