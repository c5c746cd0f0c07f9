//! From the bytes of a key to a number: open addressing over 64-bit slots.
//!
//! ```text
//! slot = upper half of the hash u32 | number + 1 u32      0: free
//! slots: a power of two, at most seven of eight in use; a search goes on to the next slot
//! ```
//! For: rows by their keys, members by their names. Not for: the keys' bytes, which the owner has
//! and compares; nothing is ever removed.
//!
//! Invariants: the place of a slot comes from the half of the hash that stands in it, so that
//! growing looks at no key. The hash is keyed anew by each process: nobody who sends keys can make
//! them meet.
//! Cost: one cache line for a search, mostly; 9 to 18 bytes for each number.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

use whered_simd::prefetch;

/// See the file's header.
#[derive(Debug, Default)]
pub(crate) struct Index {
    slots: Vec<u64>,
    len: usize,
}

/// The least slots that an index with something in it has.
const SLOTS_MIN: usize = 16;

/// The hash of a key in this process.
#[inline]
pub(crate) fn hash_of(key: &[u8]) -> u32 {
    hash_with(key, seed())
}

/// What makes hashes of this process its own.
#[inline]
pub(crate) fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| RandomState::new().hash_one(0_u8) | 1)
}

/// The hash of a key in the process that has this seed.
#[inline]
pub(crate) fn hash_with(key: &[u8], seed: u64) -> u32 {
    (folded(key, seed) >> 32) as u32
}

/// Multiplies and folds eight bytes at a time.
#[inline]
pub(crate) fn folded(bytes: &[u8], seed: u64) -> u64 {
    let mut state = seed ^ (bytes.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        state = fold(state ^ u64::from_le_bytes(*word), 0xe703_7ed1_a0b4_28db ^ seed);
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    fold(state ^ u64::from_le_bytes(last), 0x8ebc_6af0_9c88_c6e3 ^ seed)
}

/// The product's halves, one over the other.
#[inline]
pub(crate) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

impl Index {
    /// Asks for where a hash would be.
    #[inline]
    pub(crate) fn fetch(&self, hash: u32) {
        prefetch(&self.slots, hash as usize & self.slots.len().wrapping_sub(1));
    }

    /// The number with this hash for which `is_it` says so.
    #[inline]
    pub(crate) fn find(&self, hash: u32, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        let mask = self.slots.len() - 1;
        let mut place = hash as usize & mask;
        loop {
            let slot = self.slots[place];
            if slot == 0 {
                return None;
            }
            if (slot >> 32) as u32 == hash && is_it(slot as u32 - 1) {
                return Some(slot as u32 - 1);
            }
            place = (place + 1) & mask;
        }
    }

    /// Adds a number that is not there; numbers are below `u32::MAX`.
    pub(crate) fn insert(&mut self, hash: u32, number: u32) {
        if (self.len + 1) * 8 > self.slots.len() * 7 {
            self.grow();
        }
        self.len += 1;
        let slot = u64::from(hash) << 32 | u64::from(number + 1);
        put(&mut self.slots, slot);
    }

    /// The slots, for a file.
    pub(crate) fn slots(&self) -> &[u64] {
        &self.slots
    }

    /// An index of the numbers below `len`, of slots that were written by this process.
    ///
    /// # Errors
    /// They are not the slots of that many numbers.
    pub(crate) fn of_slots(slots: Vec<u64>, len: usize) -> Result<Index, &'static str> {
        let is_size = slots.len().is_power_of_two() || slots.is_empty() && len == 0;
        if !is_size || len * 8 > slots.len() * 7 {
            return Err("an index has an impossible size");
        }
        let used = slots.iter().filter(|slot| **slot != 0).count();
        // A zero as number wraps to one that is too large.
        let is_one = |slot: &u64| *slot == 0 || ((*slot as u32).wrapping_sub(1) as usize) < len;
        if used != len || !slots.iter().all(is_one) {
            return Err("an index has numbers that are not there");
        }
        Ok(Index { slots, len })
    }

    /// Forgets all; the room stays.
    pub(crate) fn clear(&mut self) {
        self.slots.fill(0);
        self.len = 0;
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<u64>()
    }

    fn grow(&mut self) {
        let mut larger = vec![0; (self.slots.len() * 2).max(SLOTS_MIN)];
        for slot in self.slots.iter().filter(|slot| **slot != 0) {
            put(&mut larger, *slot);
        }
        self.slots = larger;
    }
}

fn put(slots: &mut [u64], slot: u64) {
    let mask = slots.len() - 1;
    let mut place = (slot >> 32) as usize & mask;
    while slots[place] != 0 {
        place = (place + 1) & mask;
    }
    slots[place] = slot;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_inserted_is_found_and_nothing_else() {
        let mut index = Index::default();
        let keys: Vec<Vec<u8>> = (0..5000_u32).map(|n| format!("key {n}").into_bytes()).collect();
        for (number, key) in keys.iter().enumerate() {
            let hash = hash_of(key);
            assert_eq!(index.find(hash, |other| keys[other as usize] == *key), None);
            index.insert(hash, number as u32);
        }
        for (number, key) in keys.iter().enumerate() {
            let found = index.find(hash_of(key), |other| keys[other as usize] == *key);
            assert_eq!(found, Some(number as u32));
        }
        index.clear();
        assert_eq!(index.find(hash_of(b"key 1"), |_| true), None);
    }

    #[test]
    fn equal_hashes_are_told_apart() {
        let mut index = Index::default();
        (0..100).for_each(|number| index.insert(7, number));
        for number in 0..100 {
            assert_eq!(index.find(7, |other| other == number), Some(number));
        }
        assert_eq!(index.find(8, |_| true), None);
    }
}
