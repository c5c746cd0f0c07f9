//! A small table that forgets: a later entry may take an earlier one's place.
//!
//! ```text
//! slot = [ key ^ spread(value) | value ]    value 0: empty
//! ```
//! Invariants: what is found was put with that very key: the words of two writers do not fit
//! together. At the same time: any number of readers and writers, without waiting.
//! Cost: one cache line.

use std::sync::atomic::{AtomicU64, Ordering};

/// See the head of this file.
pub(super) struct DirectMappedCache(Box<[[AtomicU64; 2]]>);

impl DirectMappedCache {
    /// A table of a power of two slots.
    pub(super) fn new(slots: usize) -> DirectMappedCache {
        DirectMappedCache((0..slots).map(|_| [AtomicU64::new(0), AtomicU64::new(0)]).collect())
    }

    /// The value of a key.
    #[inline]
    pub(super) fn get(&self, key: u64) -> Option<u64> {
        let [check, value] = self.slot(key);
        let value = value.load(Ordering::Relaxed);
        let fits = value != 0 && check.load(Ordering::Relaxed) ^ spread(value) == key;
        fits.then(|| value - 1)
    }

    /// Keeps a value below 2^64 - 1.
    pub(super) fn put(&self, key: u64, value: u64) {
        let [check, place] = self.slot(key);
        check.store(key ^ spread(value + 1), Ordering::Relaxed);
        place.store(value + 1, Ordering::Relaxed);
    }

    #[inline]
    fn slot(&self, key: u64) -> &[AtomicU64; 2] {
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - self.0.len().ilog2());
        &self.0[hash as usize]
    }
}

fn spread(value: u64) -> u64 {
    value.wrapping_mul(0xd6e8_feb8_6659_fd93)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_was_put() {
        let table = DirectMappedCache::new(64);
        assert_eq!(table.get(0), None);
        for key in 0..1000_u64 {
            table.put(key, key * 3);
            assert_eq!(table.get(key), Some(key * 3));
        }
        let found = (0..1000_u64).filter_map(|key| Some((key, table.get(key)?)));
        let found: Vec<_> = found.collect();
        assert!(found.len() <= 64 && found.iter().all(|(key, value)| *value == key * 3));
    }
}
