//! Changes of collections, collected for those who follow them.
//!
//! For: showing points as they move. Not for: keeping anything (`log`), nor for sending (the
//! server).
//!
//! ```text
//! append(operation) ─ is anybody following? ─ no: one relaxed load
//!                          └ yes: key ─> member -> where it is now, or gone     pending
//!                                  └ too much, or a whole key: everything       pending
//! take ─> what is pending, and nothing is pending any more
//! ```
//!
//! Every change of a key is appended to the journal under the lock that it was made under, whatever
//! makes it, and so passes here. What is pending says where members are and not what happened to
//! them, so that many changes of one member take as much as one.
//!
//! Invariant: who follows a key and then reads it misses no change: one that the reading does not
//! show is appended later, by a writer that takes the value's lock after the reader.
//! Memory: up to [`MEMBERS_MAX`] members and [`NAMES_BYTES_MAX`] bytes of names for each key.
//! Cost: with followers a lock for each operation and a hash for each member.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use whered_geo::score::cell_of_score;
use whered_geo::{Cell, Change, ChangeBatch};

use super::numbers::NUMBERS;
use super::operation::{ALL_NUMBERS, Operation};
use crate::sync;

/// How many different keys may be followed.
pub const FOLLOWED_MAX: usize = 64;
/// How many members of a key may be pending.
const MEMBERS_MAX: usize = 20_000;
/// How long their names may be together.
const NAMES_BYTES_MAX: usize = 1 << 20;
/// The numbered database whose keys can be followed.
pub(crate) const WATCHED: usize = 0;
const NUMBER: u8 = WATCHED as u8;
/// How many bits a word of numbers has.
const WORD_BITS: usize = 64;

/// The keys that are followed, and what has become of them.
#[derive(Debug, Default)]
pub struct Watch {
    is_followed: AtomicBool,
    /// Hidden databases whose keys are shown as those of the one that can be followed: bits.
    shown: [AtomicU64; NUMBERS.div_ceil(WORD_BITS)],
    /// Hidden databases of which not all keys are shown: bits.
    importing: [AtomicU64; NUMBERS.div_ceil(WORD_BITS)],
    keys: Mutex<HashMap<Box<[u8]>, FollowedKey>>,
}

#[derive(Debug)]
struct FollowedKey {
    followers: usize,
    pending: PendingChanges,
}

/// What has become of a key since it was last asked.
#[derive(Debug)]
enum PendingChanges {
    Members { places: HashMap<Box<[u8]>, Option<Cell>>, names_bytes: usize },
    Everything,
}

/// A member, and where it is now; `None` if it was removed.
pub type MemberChange = (Box<[u8]>, Option<Cell>);

/// What has become of a collection.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectionChanges {
    /// The key, in the numbered database 0.
    pub key: Box<[u8]>,
    /// Each member that was put somewhere or removed, with its place now; `None` for all: the
    /// collection is to be read anew.
    pub members: Option<Vec<MemberChange>>,
}

impl Default for PendingChanges {
    fn default() -> PendingChanges {
        PendingChanges::Members { places: HashMap::new(), names_bytes: 0 }
    }
}

impl PendingChanges {
    fn is_nothing(&self) -> bool {
        matches!(self, PendingChanges::Members { places, .. } if places.is_empty())
    }

    fn note(&mut self, member: &[u8], place: Option<Cell>) {
        let PendingChanges::Members { places, names_bytes } = self else { return };
        if let Some(known) = places.get_mut(member) {
            *known = place;
            return;
        }
        if places.len() >= MEMBERS_MAX || *names_bytes + member.len() > NAMES_BYTES_MAX {
            *self = PendingChanges::Everything;
            return;
        }
        *names_bytes += member.len();
        places.insert(member.into(), place);
    }
}

impl Watch {
    /// Begins to follow a key of the numbered database 0, which is to be read after that; false if
    /// [`FOLLOWED_MAX`] others are followed.
    #[must_use]
    pub fn follow(&self, key: &[u8]) -> bool {
        let mut keys = sync::lock(&self.keys);
        if keys.len() >= FOLLOWED_MAX && !keys.contains_key(key) {
            return false;
        }
        let new = || FollowedKey { followers: 0, pending: PendingChanges::default() };
        keys.entry(key.into()).or_insert_with(new).followers += 1;
        self.is_followed.store(true, Ordering::SeqCst);
        true
    }

    /// Ends what one [`Watch::follow`] has begun.
    pub fn unfollow(&self, key: &[u8]) {
        let mut keys = sync::lock(&self.keys);
        if let Some(followed) = keys.get_mut(key) {
            followed.followers -= 1;
            if followed.followers == 0 {
                keys.remove(key);
            }
        }
        self.is_followed.store(!keys.is_empty(), Ordering::SeqCst);
    }

    /// What has become of the followed keys since the last call.
    pub fn take(&self) -> Vec<CollectionChanges> {
        let mut keys = sync::lock(&self.keys);
        let changed = keys.iter_mut().filter(|(_, followed)| !followed.pending.is_nothing());
        let changes = changed.map(|(key, followed)| {
            let members = match std::mem::take(&mut followed.pending) {
                PendingChanges::Members { places, .. } => Some(places.into_iter().collect()),
                PendingChanges::Everything => None,
            };
            CollectionChanges { key: key.clone(), members }
        });
        changes.collect()
    }

    /// Says which hidden databases have keys of the one that can be followed.
    pub(crate) fn show(&self, numbers: impl Iterator<Item = u8>) {
        let mut words = [0; NUMBERS.div_ceil(WORD_BITS)];
        for number in numbers {
            words[usize::from(number) / WORD_BITS] |= 1 << (usize::from(number) % WORD_BITS);
        }
        for (shown, word) in self.shown.iter().zip(words) {
            shown.store(word, Ordering::Relaxed);
        }
        self.replace_all();
    }

    /// Says whether not all keys of a hidden database are shown. What is changed there is to be
    /// read anew then, where it is shown.
    pub(crate) fn set_importing(&self, number: u8, is_importing: bool) {
        let (word, bit) = (usize::from(number) / WORD_BITS, usize::from(number) % WORD_BITS);
        let Some(word) = self.importing.get(word) else { return };
        match is_importing {
            true => word.fetch_or(1 << bit, Ordering::Relaxed),
            false => word.fetch_and(!(1 << bit), Ordering::Relaxed),
        };
    }

    /// Whether keys of this database can be followed.
    fn shows(&self, number: u8) -> bool {
        number == NUMBER || has_bit(&self.shown, number)
    }

    /// Whether anybody follows anything.
    #[inline]
    pub(crate) fn is_followed(&self) -> bool {
        self.is_followed.load(Ordering::Relaxed)
    }

    /// Notes an operation that is being appended. The caller holds what it was applied under.
    #[cold]
    pub(crate) fn note(&self, operation: &Operation<'_>) {
        match operation {
            Operation::AddPoints { number, key, points } => self.change(*number, key, |pending| {
                points.iter().for_each(|(member, cell)| pending.note(member, Some(*cell)));
            }),
            Operation::AddScores { number, key, scores } => self.change(*number, key, |pending| {
                for (member, score) in scores.iter() {
                    match cell_of_score(score + 0.0) {
                        Some(cell) => pending.note(member, Some(cell)),
                        // The key is no collection of points any more.
                        None => *pending = PendingChanges::Everything,
                    }
                }
            }),
            Operation::RemoveMembers { number, key, members } => {
                self.change(*number, key, |pending| {
                    members.iter().for_each(|member| pending.note(member, None));
                });
            }
            Operation::DeleteKeys { number, keys } => {
                keys.iter().for_each(|key| self.replace(*number, key));
            }
            Operation::RemoveRanks { number, key, .. }
            | Operation::SetText { number, key, .. }
            | Operation::StoreScores { number, key, .. } => self.replace(*number, key),
            Operation::Rename(pair) => {
                self.replace(pair.from_number, pair.from);
                self.replace(pair.to_number, pair.to);
            }
            Operation::Copy(pair) => self.replace(pair.to_number, pair.to),
            Operation::Flush { number: ALL_NUMBERS } => self.replace_all(),
            Operation::Flush { number }
            | Operation::Promote { number, .. }
            | Operation::SetImports { number, .. }
            | Operation::ForgetPosition { number, .. }
                if self.shows(*number) =>
            {
                self.replace_all();
            }
            Operation::SwapNumbers { number, other }
                if self.shows(*number) || self.shows(*other) =>
            {
                self.replace_all();
            }
            // An expiry time moves nobody until it is over, which is a removal of its own; the rest
            // is of other numbers, or no change of keys.
            _ => {}
        }
    }

    /// Notes changes that a feed applies, as [`Watch::note`] does.
    #[cold]
    pub(crate) fn note_batch(&self, number: usize, key: &[u8], batch: &ChangeBatch) {
        let Ok(number) = u8::try_from(number) else { return };
        self.change(number, key, |pending| {
            batch.for_each(|Change { member, cell }| pending.note(member, cell));
        });
    }

    fn change(&self, number: u8, key: &[u8], change: impl FnOnce(&mut PendingChanges)) {
        if !self.shows(number) {
            return;
        }
        if let Some(followed) = sync::lock(&self.keys).get_mut(key) {
            match has_bit(&self.importing, number) {
                true => followed.pending = PendingChanges::Everything,
                false => change(&mut followed.pending),
            }
        }
    }

    fn replace(&self, number: u8, key: &[u8]) {
        self.change(number, key, |pending| *pending = PendingChanges::Everything);
    }

    fn replace_all(&self) {
        let mut keys = sync::lock(&self.keys);
        keys.values_mut().for_each(|followed| followed.pending = PendingChanges::Everything);
    }
}

fn has_bit(words: &[AtomicU64], number: u8) -> bool {
    let word = words.get(usize::from(number) / WORD_BITS);
    let word = word.map_or(0, |word| word.load(Ordering::Relaxed));
    word >> (usize::from(number) % WORD_BITS) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(watch: &Watch, members: impl IntoIterator<Item = String>) {
        for member in members {
            let points = [(member.as_bytes(), Cell::MIN)];
            let points = points.as_slice().into();
            watch.note(&Operation::AddPoints { number: 0, key: b"k", points });
        }
    }

    #[test]
    fn only_followed_keys_are_collected_and_each_change_is_given_once() {
        let watch = Watch::default();
        assert!(!watch.is_followed());
        noted(&watch, ["before".to_owned()]);
        assert!(watch.follow(b"k") && watch.follow(b"k"));
        assert!(watch.is_followed());
        noted(&watch, ["a".to_owned(), "a".to_owned()]);
        let members = Some(vec![(Box::from(&b"a"[..]), Some(Cell::MIN))]);
        assert_eq!(watch.take(), [CollectionChanges { key: Box::from(&b"k"[..]), members }]);
        assert_eq!(watch.take(), []);
        watch.unfollow(b"k");
        assert!(watch.is_followed(), "another one follows it still");
        watch.unfollow(b"k");
        assert!(!watch.is_followed());
        noted(&watch, ["after".to_owned()]);
        assert_eq!(watch.take(), []);
    }

    #[test]
    fn no_more_keys_are_followed_than_may_be() {
        let watch = Watch::default();
        let keys: Vec<String> = (0..FOLLOWED_MAX).map(|number| format!("k{number}")).collect();
        assert!(keys.iter().all(|key| watch.follow(key.as_bytes())));
        assert!(!watch.follow(b"one more"));
        assert!(watch.follow(b"k0"), "one that is followed already");
        watch.unfollow(b"k1");
        assert!(watch.follow(b"one more"));
    }

    #[test]
    fn what_is_too_much_is_everything_and_takes_no_more_memory() {
        let watch = Watch::default();
        assert!(watch.follow(b"k"));
        noted(&watch, (0..MEMBERS_MAX).map(|number| format!("m{number}")));
        noted(&watch, (0..MEMBERS_MAX).map(|number| format!("m{number}")));
        let taken = watch.take();
        assert_eq!(taken[0].members.as_ref().map(Vec::len), Some(MEMBERS_MAX));
        noted(&watch, (0..=MEMBERS_MAX).map(|number| format!("m{number}")));
        assert_eq!(watch.take()[0].members, None);
        noted(&watch, (0..3).map(|number| format!("{number}{}", "x".repeat(NAMES_BYTES_MAX / 2))));
        assert_eq!(watch.take()[0].members, None);
        noted(&watch, ["a".to_owned()]);
        assert_eq!(watch.take()[0].members.as_ref().map(Vec::len), Some(1), "it goes on");
    }
}
