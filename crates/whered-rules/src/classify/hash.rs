//! A quick hash for the tables of building: keys are our own numbers, nobody chooses them to hurt.
//!
//! Not for: keys that come from outside.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map with that hash.
pub(crate) type Map<K, V> = HashMap<K, V, BuildHasherDefault<Quick>>;

/// Multiplies and turns, eight bytes at a time.
#[derive(Clone, Copy, Default)]
pub(crate) struct Quick(u64);

impl Quick {
    #[inline]
    fn mix(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word ^ 0xf39c_c060_5ced_c835)
            * u128::from(0x9e37_79b9_7f4a_7c15u64);
        self.0 = (product as u64) ^ (product >> 64) as u64;
    }
}

impl Hasher for Quick {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        for &byte in rest {
            self.mix(u64::from(byte) | 1 << 40);
        }
    }

    #[inline]
    fn write_u32(&mut self, word: u32) {
        self.mix(u64::from(word));
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.mix(word);
    }

    #[inline]
    fn write_usize(&mut self, word: usize) {
        self.mix(word as u64);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0.rotate_left(20) ^ self.0
    }
}
