//! What a snapshot takes from the keyspace while everybody goes on writing.
//!
//! For: which values a snapshot still has to save, and under which name. Not for: the bytes it
//! writes (`durability/save.rs`), the journal.
//!
//! A snapshot begins at a sequence S. It takes values later than that, some of them piece by
//! piece, and relies on the journal after S: a restart loads what was saved and applies the
//! journal from S on. That is right because an operation sets members, scores, texts and expiry
//! times to what they shall be, whatever they were, so that applying it to what it has changed
//! already does nothing. Five things need care:
//!
//! | what happens meanwhile | what is done |
//! | --- | --- |
//! | a key comes to be, or is replaced | its slot bears the snapshot's number and is not saved: the journal tells of it |
//! | a key that is not saved yet gets another name | it is *registered* under its old name |
//! | a key loses members by rank before it is saved | the journal names the members |
//! | a key is copied before it is saved, or loses too many members by rank to name them | what became of it is registered as an *image*: replaying puts the image there instead of applying the operation |
//! | two numbered databases are exchanged | their maps remember which ones they were (`Keys::origin`) |
//!
//! Every copy and every removal by rank that the journal has is registered, those that need no
//! image as *exact*, so that a restart can tell which of several on one key an image belongs to.
//! Members are named where they can be because a queue is popped thousands of times while it is
//! saved: with an image for each the snapshot would never end.
//!
//! A replayed value may be without members for a while although it never was, or be saved without
//! any because it lost them later. So up to the snapshot's end an emptied key stays, with its
//! expiry time, and can be renamed and copied. That it went is told by the journal: a caller that
//! takes a key's last member appends the removal of the key.
//!
//! Why an image may be younger than its operation: what has happened since is applied to it again.
//! Why a saved value needs none: after the operations up to the moment of its saving, a replayed
//! value is exactly what it was then.
//!
//! Locks: beginning and ending hold the gate alone; everything else is registered under the lock
//! that the operation holds, so images of one key stand in the order of their operations.
//! Cost: for writers one atomic load at renaming, copying and removing by rank.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use super::keys::{Keys, Slot};
use super::value::Value;
use super::{Keyspace, NUMBERS, shared};
use crate::sync;

/// How far snapshots are with a slot: in the upper half the one that has it in hand, or in whose
/// time it was born; in the lower half how often it stands among what that one has still to save.
///
/// One number, so that nobody finds it in hand and not outstanding, and so that a snapshot that was
/// given up leaves nothing outstanding for the next.
#[derive(Debug)]
pub(crate) struct Saved(AtomicU64);

impl Saved {
    pub(super) fn born(epoch: u32) -> Saved {
        Saved(AtomicU64::new(u64::from(epoch) << 32))
    }

    /// Takes it into a snapshot's hand, outstanding once; `false` when it is there already.
    fn claim(&self, epoch: u32) -> bool {
        let claimed = u64::from(epoch) << 32 | 1;
        let claim = |saved: u64| (saved >> 32 != u64::from(epoch)).then_some(claimed);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, claim).is_ok()
    }

    fn is_outstanding(&self) -> bool {
        self.0.load(Ordering::Acquire) as u32 != 0
    }

    fn add_outstanding(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    fn remove_outstanding(&self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Why a value is saved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// It was there when the snapshot began.
    Base,
    /// An operation has left it behind that cannot be applied to a value of a later time.
    Image,
    /// No value: such an operation can be applied as it is.
    Exact,
}

/// A value to be saved and the name it goes by in the snapshot.
pub(crate) struct ToSave {
    pub(crate) role: Role,
    pub(crate) number: u8,
    pub(crate) key: Box<[u8]>,
    pub(crate) expires_at_millis: Option<u64>,
    slot: Option<Arc<Slot>>,
}

/// Where the walk through all keys is.
#[derive(Default)]
pub(crate) struct Walk {
    origin: u8,
    cursor: u64,
}

/// The keyspace's side of the snapshot that is being made.
#[derive(Default)]
pub(crate) struct Saving {
    epoch: Arc<AtomicU32>,
    is_running: AtomicBool,
    registered: Mutex<Vec<ToSave>>,
    /// At a start, what operations are to be replaced by.
    images: Mutex<Images>,
    /// At a start, values may be of a later time than the journal's entry: emptied keys stay.
    is_replaying_early: AtomicBool,
}

/// Images by database and key, in the order of their operations.
type Images = HashMap<(u8, Box<[u8]>), VecDeque<Image>>;

/// What an operation has left behind; without a value it is applied as it is.
pub(crate) struct Image {
    pub(crate) value: Option<Value>,
    pub(crate) expires_at_millis: Option<u64>,
}

impl Saving {
    pub(super) fn images(&self) -> MutexGuard<'_, Images> {
        sync::lock(&self.images)
    }

    pub(super) fn is_replaying_early(&self) -> bool {
        self.is_replaying_early.load(Ordering::Relaxed)
    }

    pub(super) fn set_replaying_early(&self, is_early: bool) {
        self.is_replaying_early.store(is_early, Ordering::Relaxed);
    }

    pub(super) fn epoch(&self) -> &Arc<AtomicU32> {
        &self.epoch
    }

    fn is_running(&self) -> bool {
        self.is_running.load(Ordering::Acquire)
    }

    fn registered(&self) -> MutexGuard<'_, Vec<ToSave>> {
        sync::lock(&self.registered)
    }

    /// Takes a slot into the snapshot's hand; `false` when it is there already or need not be.
    fn claim(&self, slot: &Slot) -> bool {
        slot.saved.claim(self.epoch.load(Ordering::Relaxed))
    }

    /// Has a key saved under the name that it is about to lose. The caller holds the map.
    pub(super) fn before_rename(&self, keys: &Keys, key: &[u8]) {
        if !self.is_running() {
            return;
        }
        let (Some(number), Some(entry)) = (keys.origin, keys.get(key)) else {
            return;
        };
        if self.claim(&entry.slot) {
            self.register(Role::Base, number, key, entry.expires_at_millis(), &entry.slot);
        }
    }

    /// Whether an operation that rests on this value can be applied again as it is when the
    /// snapshot's journal is replayed. The caller holds the map, and the value unless it is to be
    /// copied.
    pub(super) fn is_exact(&self, keys: &Keys, key: &[u8]) -> bool {
        self.before_rename(keys, key);
        !self.is_running() || keys.get(key).is_none_or(|entry| !entry.slot.saved.is_outstanding())
    }

    /// Has saved what an operation has made of a key, unless it `is_exact`. The caller still holds
    /// what it changed.
    pub(super) fn after_operation(
        &self,
        is_exact: bool,
        number: u8,
        key: &[u8],
        expires_at_millis: Option<u64>,
        slot: &Arc<Slot>,
    ) {
        if !self.is_running() {
            return;
        }
        if is_exact {
            let (role, key) = (Role::Exact, key.into());
            self.registered().push(ToSave { role, number, key, expires_at_millis, slot: None });
            return;
        }
        slot.saved.add_outstanding();
        self.register(Role::Image, number, key, expires_at_millis, slot);
    }

    fn register(
        &self,
        role: Role,
        number: u8,
        key: &[u8],
        expires_at_millis: Option<u64>,
        slot: &Arc<Slot>,
    ) {
        let (key, slot) = (key.into(), Some(Arc::clone(slot)));
        self.registered().push(ToSave { role, number, key, expires_at_millis, slot });
    }
}

impl ToSave {
    /// Reads the value, without holding anybody up for longer than `read` takes; that says whether
    /// it was the last step, after which operations can be applied to what was saved. `None` where
    /// there is no value.
    pub(crate) fn read<R>(
        &self,
        keyspace: &Keyspace,
        read: impl FnOnce(&Value) -> (bool, R),
    ) -> Option<R> {
        let slot = self.slot.as_ref()?;
        let guard = keyspace.log.gate().shared();
        let value = shared(&slot.value);
        drop(guard);
        let (is_last, result) = read(&value);
        if is_last {
            slot.saved.remove_outstanding();
        }
        Some(result)
    }
}

impl Keyspace {
    /// Whether this thread is inside of [`Keyspace::isolated`].
    pub(crate) fn is_isolated_here(&self) -> bool {
        self.log.gate().is_exclusive_here()
    }

    /// Begins a snapshot between two operations; `note` sees no operation half done.
    pub(crate) fn begin_saving<R>(&self, note: impl FnOnce() -> R) -> R {
        let _alone = self.log.gate().exclusive();
        for number in 0..NUMBERS {
            self.exclusive(number).origin = Some(number as u8);
        }
        self.saving.registered().clear();
        self.saving.epoch.fetch_add(1, Ordering::AcqRel);
        self.saving.is_running.store(true, Ordering::Release);
        note()
    }

    /// Up to `limit` values that are still to be saved, what is registered first; none when there
    /// are no more for now.
    pub(crate) fn next_to_save(&self, walk: &mut Walk, limit: usize) -> Vec<ToSave> {
        let registered = std::mem::take(&mut *self.saving.registered());
        if !registered.is_empty() {
            return registered;
        }
        while usize::from(walk.origin) < NUMBERS {
            let found = self.walk_on(walk, limit);
            if !found.is_empty() {
                return found;
            }
        }
        Vec::new()
    }

    /// One step of the walk through the keys of one database, which may have another number now.
    fn walk_on(&self, walk: &mut Walk, limit: usize) -> Vec<ToSave> {
        let guard = self.log.gate().shared();
        let mut found = Vec::new();
        let find = || (0..NUMBERS).find(|number| self.shared(*number).origin == Some(walk.origin));
        let Some(number) = find() else {
            drop(guard);
            // Databases may have been exchanged during the search. Alone it is certain.
            let _alone = self.log.gate().exclusive();
            if find().is_none() {
                *walk = Walk { origin: walk.origin + 1, cursor: 0 };
            }
            return found;
        };
        let keys = self.shared(number);
        if keys.origin != Some(walk.origin) {
            return found;
        }
        let mut seen = 0;
        for (hash, same_hash) in keys.by_hash.range(walk.cursor..) {
            if seen >= limit {
                walk.cursor = *hash;
                return found;
            }
            seen += same_hash.len();
            for key in same_hash {
                let Some(entry) = keys.get(key) else { continue };
                if self.saving.claim(&entry.slot) {
                    let (expires_at_millis, slot) =
                        (entry.expires_at_millis(), Some(Arc::clone(&entry.slot)));
                    let (role, number, key) = (Role::Base, walk.origin, key.clone());
                    found.push(ToSave { role, number, key, expires_at_millis, slot });
                }
            }
        }
        *walk = Walk { origin: walk.origin + 1, cursor: 0 };
        found
    }

    /// Ends a snapshot between two operations, unless a value was registered since; gives what is
    /// registered and is none.
    pub(crate) fn end_saving<R>(&self, note: impl FnOnce() -> R) -> Option<(R, Vec<ToSave>)> {
        let _alone = self.log.gate().exclusive();
        let mut registered = self.saving.registered();
        if registered.iter().any(|to_save| to_save.slot.is_some()) {
            return None;
        }
        self.saving.is_running.store(false, Ordering::Release);
        Some((note(), std::mem::take(&mut *registered)))
    }

    /// Gives a snapshot up.
    pub(crate) fn abandon_saving(&self) {
        self.saving.is_running.store(false, Ordering::Release);
        self.saving.registered().clear();
    }
}
