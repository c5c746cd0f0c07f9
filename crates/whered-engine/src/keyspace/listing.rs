//! All keys of a database: counting them and going through them, wherever they lie.
//!
//! For: `SCAN`, `KEYS`, `DBSIZE`, `RANDOMKEY`, and reading several keys at one moment. Not for:
//! single keys (`keyspace`).
//!
//! ```text
//! own keys       h1      h4 h5         in the order of their hashes
//! link 0's          h2      h5'        ──> h1 h2 h3 h4 h5
//! link 1's             h3              a key that two have is given where it is looked up
//! ```
//!
//! At the same time: the maps are held shared, in ascending order, for as long as a call takes.
//! Cost: SCAN is O(keys given * maps); of maps there is one, and one for each link of the database.

use std::collections::btree_map;
use std::iter::Peekable;
use std::sync::RwLockReadGuard;

use super::imports::HiddenKeys;
use super::keys::{Entry, Keys};
use super::value::Kind;
use super::{DATABASE_COUNT, Keyspace};

/// The maps that a database's keys lie in.
pub(super) struct Maps<'a> {
    keyspace: &'a Keyspace,
    number: usize,
    maps: Vec<(usize, RwLockReadGuard<'a, Keys>)>,
}

impl Maps<'_> {
    /// The entry of a key, unless its time is over.
    pub(super) fn live(&self, key: &[u8]) -> Option<&Entry> {
        let keys = self.of_number(self.number_of(key)?)?;
        self.keyspace.visible(self.number, keys, key)
    }

    fn of_number(&self, number: usize) -> Option<&Keys> {
        self.maps.iter().find(|(of, _)| *of == number).map(|(_, keys)| &**keys)
    }

    fn number_of(&self, key: &[u8]) -> Option<usize> {
        let has = |number: usize| self.of_number(number).is_some_and(|keys| keys.shows(key));
        self.keyspace.followed.number_of(self.number, key, has)
    }

    /// A key that was found in a map and what it has, if it is to be given from there.
    fn given<'k>(&self, place: usize, key: &'k [u8]) -> Option<(&'k [u8], &Entry)> {
        let (number, keys) = &self.maps[place];
        let entry = self.keyspace.visible(self.number, keys, key)?;
        (self.number_of(key) == Some(*number)).then_some((key, entry))
    }

    /// Each map, and what of it those do not see who ask for this database.
    fn figures(&self) -> impl Iterator<Item = (&Keys, HiddenKeys)> {
        let is_links = self.number >= DATABASE_COUNT;
        self.maps.iter().map(move |(_, keys)| {
            let hidden = if is_links { HiddenKeys::default() } else { keys.hidden() };
            (&**keys, hidden)
        })
    }

    /// The keys of all maps from a hash on, by their hashes.
    fn merged(&self, from: u64) -> MergedKeys<'_> {
        let ranges = self.maps.iter().map(|(_, keys)| keys.by_hash.range(from..).peekable());
        MergedKeys { ranges: ranges.collect() }
    }
}

/// The keys of one map by their hashes.
type InOrder<'a> = btree_map::Range<'a, u64, Vec<Box<[u8]>>>;

/// Keys with equal hashes, and the place of their map, in the order of hashes.
struct MergedKeys<'a> {
    ranges: Vec<Peekable<InOrder<'a>>>,
}

impl<'a> Iterator for MergedKeys<'a> {
    type Item = (u64, usize, &'a [Box<[u8]>]);

    fn next(&mut self) -> Option<Self::Item> {
        let heads = self.ranges.iter_mut().enumerate();
        let (_, place) =
            heads.filter_map(|(place, range)| Some((*range.peek()?.0, place))).min()?;
        let (hash, keys) = self.ranges[place].next()?;
        Some((*hash, place, keys))
    }
}

impl Keyspace {
    /// The maps of a database. The caller has passed the gate.
    pub(super) fn maps_of(&self, number: usize) -> Maps<'_> {
        let numbers = self.followed.numbers_of(number);
        let maps = numbers.into_iter().map(|number| (number, self.shared(number))).collect();
        Maps { keyspace: self, number, maps }
    }

    /// The number of keys; those whose time is over count until they are removed, and a key that
    /// two links have counts twice. O(1), but O(keys) once after a link's imports have changed.
    pub fn len(&self, number: usize) -> usize {
        let _guard = self.log.gate().shared();
        let maps = self.maps_of(number);
        maps.figures().map(|(keys, hidden)| keys.entries.len() - hidden.keys).sum()
    }

    /// Whether there is no key. Cost: that of [`Keyspace::len`].
    pub fn is_empty(&self, number: usize) -> bool {
        self.len(number) == 0
    }

    /// The number of keys that have an expiry time. Cost: that of [`Keyspace::len`].
    pub fn expiring_len(&self, number: usize) -> usize {
        let _guard = self.log.gate().shared();
        let maps = self.maps_of(number);
        maps.figures().map(|(keys, hidden)| keys.expiring_len() - hidden.expiring).sum()
    }

    /// How long keys that have an expiry time stay, in the mean, in milliseconds; 0 without any.
    /// Those whose time is over, and that are not removed yet, stay for no time. Cost: that of
    /// [`Keyspace::len`].
    pub fn mean_life_millis(&self, number: usize) -> u64 {
        let _guard = self.log.gate().shared();
        let now_millis = u128::from(self.now_millis());
        let maps = self.maps_of(number);
        let sums = maps.figures().map(|(keys, hidden)| {
            let (sum, count) = keys.expiry_sum_and_count();
            (sum - hidden.expiry_sum_millis, count - hidden.expiring as u128)
        });
        let (sum, count) = sums.fold((0, 0), |(sum, count), (s, c)| (sum + s, count + c));
        let mean = sum.checked_div(count).map_or(0, |mean: u128| mean.saturating_sub(now_millis));
        u64::try_from(mean).unwrap_or(0)
    }

    /// Every key, in no particular order. O(keys).
    pub fn keys(&self, number: usize) -> Vec<Vec<u8>> {
        let _guard = self.log.gate().shared();
        let maps = self.maps_of(number);
        let places = 0..maps.maps.len();
        let given = places.flat_map(|place| {
            let (_, keys) = &maps.maps[place];
            keys.entries.keys().map(move |key| (place, key))
        });
        let given = given.filter_map(|(place, key)| maps.given(place, key));
        given.map(|(key, _)| key.to_vec()).collect()
    }

    /// Some key, chosen by a random number. O(log keys).
    pub fn random_key(&self, number: usize, random: u64) -> Option<Vec<u8>> {
        let _guard = self.log.gate().shared();
        let maps = self.maps_of(number);
        // The hashes have 48 bits.
        let in_order = maps.merged(random >> 16).chain(maps.merged(0));
        let mut keys = in_order
            .flat_map(|(_, place, same_hash)| same_hash.iter().map(move |key| (place, key)));
        keys.find_map(|(place, key)| Some(maps.given(place, key)?.0.to_vec()))
    }

    /// One step of an iteration: about `count` keys from `cursor` on with what they hold, and the
    /// cursor of the next step (0 at the end).
    ///
    /// A key that is there during the whole iteration is given exactly once; one that comes or
    /// goes meanwhile may or may not be given. Keys with equal hashes are given together, so a
    /// step may hold a few more than `count`.
    pub fn scan(&self, number: usize, cursor: u64, count: usize) -> (u64, Vec<(Vec<u8>, Kind)>) {
        let _guard = self.log.gate().shared();
        let maps = self.maps_of(number);
        let mut found = Vec::new();
        let (mut seen, mut last) = (0, None);
        for (hash, place, same_hash) in maps.merged(cursor) {
            if seen >= count.max(1) && last != Some(hash) {
                return (hash, found);
            }
            (seen, last) = (seen + same_hash.len(), Some(hash));
            let given = same_hash.iter().filter_map(|key| maps.given(place, key));
            found.extend(given.map(|(key, entry)| (key.to_vec(), entry.slot.kind)));
        }
        (0, found)
    }
}
