//! The hash of a member's name, keyed at random for each collection.
//!
//! For: the table of members. Not for: anything that leaves the process; the key is never the same
//! twice.
//!
//! ```text
//! word, word ──xor keys──► 64 x 64 -> 128 bit product ──► upper xor lower half ──► next words
//! ```
//!
//! A client that chooses names neither knows the key nor sees a hash, so that names cannot be
//! chosen to collide. A folded product mixes all bits of both words, and costs one instruction.
//!
//! ```text
//! number │ permuted 31 (number.rs) │ 1 │ 0 ...        two different numbers differ in the upper half
//! other  │ hash 31                 │ 0 │ hash 32
//! ```
//!
//! Cost: two products for a name of up to 16 bytes, one more for each 16 bytes after; four for a
//! number.

use std::hash::{BuildHasher, RandomState};

use super::number::{NUMBER_BITS, number, permuted};

/// In a hash: the name is a decimal number below 2^31, and the upper half is of no other name.
pub(super) const IS_NUMBER: u64 = 1 << (63 - NUMBER_BITS);

/// A random key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Key([u64; 3]);

impl Key {
    pub(super) fn random() -> Key {
        let random = RandomState::new();
        Key([1, 2, 3].map(|number: u64| random.hash_one(number)))
    }

    /// A key by which all names of this length, at most 16 bytes, have one hash: the last product
    /// is with zero.
    #[cfg(test)]
    pub(super) fn blind_to(length: u64) -> Key {
        Key([length, 0x9e37_79b9_7f4a_7c15, 0xd134_2543_de82_ef95])
    }

    /// The hash of a name.
    #[inline]
    pub(super) fn hash(&self, name: &[u8]) -> u64 {
        match number(name) {
            Some(number) => self.hash_of_number(number),
            None => self.hash_of_text(name) & !IS_NUMBER,
        }
    }

    /// The hash of a name, and the number that it is.
    #[inline]
    pub(super) fn hash_and_number(&self, name: &[u8]) -> (u64, Option<u32>) {
        match number(name) {
            Some(number) => (self.hash_of_number(number), Some(number as u32)),
            None => (self.hash_of_text(name) & !IS_NUMBER, None),
        }
    }

    #[inline(always)]
    fn hash_of_number(&self, number: u64) -> u64 {
        permuted(number, &self.0) << (64 - NUMBER_BITS) | IS_NUMBER
    }

    fn hash_of_text(&self, name: &[u8]) -> u64 {
        let Key([first, second, third]) = *self;
        let mut state = first;
        let mut rest = name;
        while rest.len() > 16 {
            let (words, after) = rest.split_at(16);
            state = folded(word(words) ^ second, word(&words[8..]) ^ state);
            rest = after;
        }
        let (low, high) = ends(rest);
        // The length joins last: beside a word, names of different lengths could cancel it out.
        folded(folded(low ^ second, high ^ state) ^ third, first ^ name.len() as u64)
    }
}

/// Both halves of the product, one upon the other.
fn folded(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// Up to 16 bytes as two words, which overlap if there are fewer.
fn ends(bytes: &[u8]) -> (u64, u64) {
    match bytes.len() {
        8.. => (word(bytes), word(&bytes[bytes.len() - 8..])),
        4.. => (half_word(bytes), half_word(&bytes[bytes.len() - 4..])),
        0 => (0, 0),
        count => {
            let byte = |index: usize| u64::from(bytes[index]);
            (byte(0) | byte(count / 2) << 8, byte(count - 1))
        }
    }
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(*bytes.first_chunk().expect("the caller has eight bytes"))
}

fn half_word(bytes: &[u8]) -> u64 {
    u64::from(u32::from_le_bytes(*bytes.first_chunk().expect("the caller has four bytes")))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_that_differ_in_anything_have_different_hashes() {
        let key = Key::random();
        let mut names: Vec<Vec<u8>> = (0..200_000u32).map(|n| n.to_string().into()).collect();
        names.extend((0..40).map(|length| vec![0; length]));
        names.extend((0..100).map(|at| (0..100).map(|i| u8::from(i == at) + 3).collect()));
        let hashes: HashSet<u64> = names.iter().map(|name| key.hash(name)).collect();
        assert_eq!(hashes.len(), names.len());
    }

    #[test]
    fn the_upper_bits_are_spread_evenly_over_decimal_names() {
        let key = Key::random();
        let mut counts = [0u32; 256];
        for number in 0..256_000u32 {
            counts[(key.hash(number.to_string().as_bytes()) >> 56) as usize] += 1;
        }
        // 1,000 each on average with a deviation of 32; ten deviations are not seen by chance.
        assert!(counts.iter().all(|count| (680..1320).contains(count)), "{counts:?}");
    }

    #[test]
    fn two_keys_hash_differently() {
        assert_ne!(Key::random().hash(b"name"), Key::random().hash(b"name"));
    }
}
