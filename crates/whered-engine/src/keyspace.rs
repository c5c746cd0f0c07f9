//! Collections by key, in sixteen numbered databases, as Redis users know them.
//!
//! Not for: what a command looks like or how a reply is written (the doors), how points lie in
//! memory (`whered-geo`).
//!
//! ```text
//! numbers[0..16] : RwLock ─> Keys { collections: key -> RwLock<Points>,
//!                                   by_hash: hash -> keys with that hash }   (SCAN's order)
//! ```
//!
//! Invariants:
//! - a collection in the map is never empty: the last member's removal removes the key;
//! - every key stands in `by_hash` exactly once;
//! - whoever changes a collection holds the map shared and the collection exclusively; whoever
//!   makes or removes a key holds the map exclusively. So a removed collection is never written
//!   to, and the journal's order is the order of effects.
//!
//! At the same time: readers of one collection share it; writers of different collections do not
//! meet. Costs: a lookup is one hash probe and the point index's own cost; SCAN is O(keys given).

use std::borrow::Cow;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use whered_geo::{Cell, Inserted, Points};

use crate::error::WriteError;
use crate::log::{Log, Room, Written};
use crate::operation::{ALL_NUMBERS, Operation};

/// How many numbered databases there are.
pub const DATABASE_COUNT: usize = 16;

/// Which members an addition may touch (`NX`, `XX`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddCondition {
    /// New members are added, known ones are moved.
    Always,
    /// Known members stay where they are.
    OnlyNew,
    /// Unknown members are not added.
    OnlyExisting,
}

/// What an addition did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Added {
    /// Members that were not there before.
    pub added: usize,
    /// Members that were there and have another cell now.
    pub moved: usize,
}

/// All keys of all numbered databases.
pub struct Keyspace {
    numbers: [RwLock<Keys>; DATABASE_COUNT],
    log: Arc<Log>,
}

#[derive(Default)]
struct Keys {
    collections: HashMap<Box<[u8]>, RwLock<Points>>,
    by_hash: BTreeMap<u64, Vec<Box<[u8]>>>,
}

impl Keyspace {
    pub(crate) fn new(log: Arc<Log>) -> Keyspace {
        Keyspace { numbers: std::array::from_fn(|_| RwLock::default()), log }
    }

    /// The same keys, from now on kept in this log.
    pub(crate) fn with_log(self, log: &Arc<Log>) -> Keyspace {
        Keyspace { log: Arc::clone(log), ..self }
    }

    /// Reads a collection under its shared lock; `None` when the key does not exist.
    ///
    /// # Panics
    /// When `number` is not below [`DATABASE_COUNT`], here and in every method.
    pub fn read<R>(&self, number: usize, key: &[u8], read: impl FnOnce(Option<&Points>) -> R) -> R {
        let keys = self.shared(number);
        match keys.collections.get(key) {
            Some(collection) => read(Some(&shared(collection))),
            None => read(None),
        }
    }

    /// The number of keys. O(1).
    pub fn len(&self, number: usize) -> usize {
        self.shared(number).collections.len()
    }

    /// Whether there is no key. O(1).
    pub fn is_empty(&self, number: usize) -> bool {
        self.len(number) == 0
    }

    /// Whether the key exists. O(1).
    pub fn exists(&self, number: usize, key: &[u8]) -> bool {
        self.shared(number).collections.contains_key(key)
    }

    /// Every key, in no particular order. O(keys).
    pub fn keys(&self, number: usize) -> Vec<Vec<u8>> {
        self.shared(number).collections.keys().map(|key| key.to_vec()).collect()
    }

    /// One step of an iteration: about `count` keys from `cursor` on, and the cursor of the next
    /// step (0 at the end).
    ///
    /// A key that is there during the whole iteration is given exactly once; one that comes or
    /// goes meanwhile may or may not be given. Keys with equal hashes are given together, so a
    /// step may hold a few more than `count`.
    pub fn scan(&self, number: usize, cursor: u64, count: usize) -> (u64, Vec<Vec<u8>>) {
        let keys = self.shared(number);
        let mut found = Vec::new();
        for (hash, same_hash) in keys.by_hash.range(cursor..) {
            if found.len() >= count.max(1) {
                return (*hash, found);
            }
            found.extend(same_hash.iter().map(|key| key.to_vec()));
        }
        (0, found)
    }

    /// Adds or moves members; all of them become visible together.
    ///
    /// # Errors
    /// [`WriteError`] when the journal has no room or has failed; then nothing was applied.
    pub fn add_points(
        &self,
        number: usize,
        key: &[u8],
        points: &[(&[u8], Cell)],
        condition: AddCondition,
    ) -> Result<Written<Added>, WriteError> {
        let whole = add_operation(number, key, points);
        let room = self.log.reserve(whole.size_bytes())?;
        let keys = self.shared(number);
        if let Some(collection) = keys.collections.get(key) {
            let collection = &mut exclusive(collection);
            return Ok(add_to(collection, room, number, key, points, condition));
        }
        drop(keys);
        if condition == AddCondition::OnlyExisting && !self.exists(number, key) {
            return Ok(Written { value: Added::default(), ticket: room.unused() });
        }
        // The key may have come into being since, or gone again: either case is taken here.
        let mut keys = self.exclusive(number);
        let written = add_to(keys.collection_mut(key), room, number, key, points, condition);
        keys.remove_if_empty(key);
        Ok(written)
    }

    /// Removes members and gives how many were there; an emptied collection's key vanishes.
    ///
    /// # Errors
    /// As [`Keyspace::add_points`].
    pub fn remove_members(
        &self,
        number: usize,
        key: &[u8],
        members: &[&[u8]],
    ) -> Result<Written<usize>, WriteError> {
        let operation = Operation::RemoveMembers {
            number: number_byte(number),
            key,
            members: Cow::Borrowed(members),
        };
        let room = self.log.reserve(operation.size_bytes())?;
        let keys = self.shared(number);
        let Some(collection) = keys.collections.get(key) else {
            return Ok(Written { value: 0, ticket: room.unused() });
        };
        let mut collection = exclusive(collection);
        if members.len() < collection.len() {
            let removed = remove_all(&mut collection, members);
            let ticket = if removed == 0 { room.unused() } else { room.append(&operation) };
            return Ok(Written { value: removed, ticket });
        }
        // The collection might become empty, and only the map's owner may remove a key.
        drop(collection);
        drop(keys);
        let mut keys = self.exclusive(number);
        let removed = keys.remove_members(key, members);
        let ticket = if removed == 0 { room.unused() } else { room.append(&operation) };
        Ok(Written { value: removed, ticket })
    }

    /// Removes keys and gives how many there were.
    ///
    /// # Errors
    /// As [`Keyspace::add_points`].
    pub fn delete_keys(
        &self,
        number: usize,
        names: &[&[u8]],
    ) -> Result<Written<usize>, WriteError> {
        let operation =
            Operation::DeleteKeys { number: number_byte(number), keys: Cow::Borrowed(names) };
        let room = self.log.reserve(operation.size_bytes())?;
        let mut keys = self.exclusive(number);
        let removed: Vec<_> = names.iter().filter_map(|key| keys.remove(key)).collect();
        let count = removed.len();
        let ticket = if count == 0 { room.unused() } else { room.append(&operation) };
        drop(keys);
        // Freeing millions of points takes long and needs no lock.
        drop(removed);
        Ok(Written { value: count, ticket })
    }

    /// Removes every key of one numbered database, or of all.
    ///
    /// # Errors
    /// As [`Keyspace::add_points`].
    pub fn flush(&self, number: Option<usize>) -> Result<Written<()>, WriteError> {
        let operation = Operation::Flush { number: number.map_or(ALL_NUMBERS, number_byte) };
        let room = self.log.reserve(operation.size_bytes())?;
        let range = number.map_or(0..DATABASE_COUNT, |number| number..number + 1);
        // Locked in ascending order, and all of them at once: one point in time for all.
        let mut locked: Vec<_> = range.map(|number| self.exclusive(number)).collect();
        let emptied: Vec<Keys> =
            locked.iter_mut().map(|keys| std::mem::take(&mut **keys)).collect();
        let ticket = room.append(&operation);
        drop(locked);
        // Freeing millions of points takes long and needs no lock.
        drop(emptied);
        Ok(Written { value: (), ticket })
    }

    /// Replays an operation at start; gives `false` when it is not one of ours.
    pub(crate) fn replay(&self, operation: &Operation<'_>) -> bool {
        match operation {
            Operation::AddPoints { number, key, points } => {
                let mut keys = self.exclusive(usize::from(*number));
                let collection = keys.collection_mut(key);
                for (member, cell) in points.iter() {
                    collection.insert(member, *cell);
                }
                // An addition without points makes no key.
                keys.remove_if_empty(key);
            }
            Operation::RemoveMembers { number, key, members } => {
                self.exclusive(usize::from(*number)).remove_members(key, members);
            }
            Operation::DeleteKeys { number, keys } => {
                let mut owner = self.exclusive(usize::from(*number));
                for key in keys.iter() {
                    owner.remove(key);
                }
            }
            Operation::Flush { number: ALL_NUMBERS } => {
                (0..DATABASE_COUNT).for_each(|number| *self.exclusive(number) = Keys::default());
            }
            Operation::Flush { number } => {
                *self.exclusive(usize::from(*number)) = Keys::default();
            }
            _ => return false,
        }
        true
    }

    fn shared(&self, number: usize) -> RwLockReadGuard<'_, Keys> {
        shared(&self.numbers[number])
    }

    fn exclusive(&self, number: usize) -> RwLockWriteGuard<'_, Keys> {
        exclusive(&self.numbers[number])
    }
}

impl Keys {
    /// The key's collection, made when absent.
    fn collection_mut(&mut self, key: &[u8]) -> &mut Points {
        if !self.collections.contains_key(key) {
            self.by_hash.entry(scan_hash(key)).or_default().push(key.into());
        }
        let collection =
            self.collections.entry(key.into()).or_insert_with(|| RwLock::new(Points::new()));
        collection.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove_members(&mut self, key: &[u8], members: &[&[u8]]) -> usize {
        let Some(collection) = self.collections.get_mut(key) else {
            return 0;
        };
        let collection = collection.get_mut().unwrap_or_else(PoisonError::into_inner);
        let removed = remove_all(collection, members);
        self.remove_if_empty(key);
        removed
    }

    fn remove_if_empty(&mut self, key: &[u8]) {
        if self.collections.get(key).is_some_and(|collection| shared(collection).is_empty()) {
            self.remove(key);
        }
    }

    /// Takes a key out. The caller may free its collection after giving the map's lock back.
    fn remove(&mut self, key: &[u8]) -> Option<RwLock<Points>> {
        let collection = self.collections.remove(key)?;
        let hash = scan_hash(key);
        let same_hash = self.by_hash.get_mut(&hash).expect("every key stands in by_hash");
        same_hash.retain(|other| **other != *key);
        if same_hash.is_empty() {
            self.by_hash.remove(&hash);
        }
        Some(collection)
    }
}

/// Applies an addition to its collection and appends what took effect.
fn add_to(
    collection: &mut Points,
    room: Room<'_>,
    number: usize,
    key: &[u8],
    points: &[(&[u8], Cell)],
    condition: AddCondition,
) -> Written<Added> {
    let (added, kept) = apply_points(collection, points, condition);
    let ticket = if added == Added::default() {
        room.unused()
    } else {
        room.append(&add_operation(number, key, kept.as_deref().unwrap_or(points)))
    };
    Written { value: added, ticket }
}

/// The points of a conditional addition that took effect.
type Kept<'a> = Vec<(&'a [u8], Cell)>;

/// Applies an addition. With a condition, the second value holds the points that took effect:
/// the journal keeps effects, not conditions.
fn apply_points<'a>(
    collection: &mut Points,
    points: &[(&'a [u8], Cell)],
    condition: AddCondition,
) -> (Added, Option<Kept<'a>>) {
    let mut added = Added::default();
    let mut kept = (condition != AddCondition::Always).then(Vec::new);
    for (member, cell) in points {
        let allowed = match condition {
            AddCondition::Always => true,
            AddCondition::OnlyNew => collection.cell(member).is_none(),
            AddCondition::OnlyExisting => collection.cell(member).is_some(),
        };
        if !allowed {
            continue;
        }
        if let Some(kept) = &mut kept {
            kept.push((*member, *cell));
        }
        match collection.insert(member, *cell) {
            Inserted::New => added.added += 1,
            Inserted::Moved => added.moved += 1,
            Inserted::Unchanged => {}
        }
    }
    (added, kept)
}

fn remove_all(collection: &mut Points, members: &[&[u8]]) -> usize {
    members.iter().filter(|member| collection.remove(member)).count()
}

fn add_operation<'a>(
    number: usize,
    key: &'a [u8],
    points: &'a [(&'a [u8], Cell)],
) -> Operation<'a> {
    Operation::AddPoints { number: number_byte(number), key, points: Cow::Borrowed(points) }
}

fn number_byte(number: usize) -> u8 {
    assert!(number < DATABASE_COUNT, "doors allow database numbers 0 to 15 only");
    number as u8
}

/// SCAN's order. Never 0, which means "start" and "end"; 48 bits, so that clients that keep
/// cursors in doubles or signed integers are safe.
fn scan_hash(key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    (hasher.finish() >> 16).max(1)
}

// A panic inside a lock would leave a half-done change behind; the point index has none that
// outside bytes can reach, so the data is taken as it is.
fn shared<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn exclusive<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
