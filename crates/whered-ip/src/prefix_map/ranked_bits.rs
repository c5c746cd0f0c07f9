//! A set of numbers 0 to 255 that also knows how many members stand before one.
//!
//! For: finding the slot of a member in a vector that has one slot a member.
//!
//! ```text
//! words:  | 0-63 | 64-127 | 128-191 | 192-255 |   one bit a number
//! before: | 0    | n      | n       | n       |   members in the words before this one
//! ```
//!
//! Invariant: `before[w]` is the sum of ones in `words[..w]`; at most 192, so a byte holds it.
//! Cost: test, rank, insert and remove are constant; one popcount a rank instead of four, which
//! counts on machines whose baseline has no instruction for it.

/// The set.
#[derive(Clone, Copy, Default)]
pub(super) struct RankedBits {
    words: [u64; 4],
    before: [u8; 4],
}

impl RankedBits {
    /// Whether the number is a member.
    #[inline]
    pub(super) fn contains(&self, number: u8) -> bool {
        self.words[word_of(number)] & bit_of(number) != 0
    }

    /// How many members are smaller than the number.
    #[inline]
    pub(super) fn rank(&self, number: u8) -> usize {
        let word = word_of(number);
        let smaller = self.words[word] & (bit_of(number) - 1);
        usize::from(self.before[word]) + smaller.count_ones() as usize
    }

    /// Makes the number a member; it must not be one yet.
    pub(super) fn insert(&mut self, number: u8) {
        debug_assert!(!self.contains(number), "a member is inserted once");
        let word = word_of(number);
        self.words[word] |= bit_of(number);
        for before in &mut self.before[word + 1..] {
            *before += 1;
        }
    }

    /// Takes a member out; it must be one.
    pub(super) fn remove(&mut self, number: u8) {
        debug_assert!(self.contains(number), "only a member is removed");
        let word = word_of(number);
        self.words[word] &= !bit_of(number);
        for before in &mut self.before[word + 1..] {
            *before -= 1;
        }
    }

    /// The members as bits, number n at bit n % 64 of word n / 64.
    #[inline]
    pub(super) fn words(&self) -> &[u64; 4] {
        &self.words
    }
}

#[inline]
fn word_of(number: u8) -> usize {
    usize::from(number >> 6)
}

#[inline]
fn bit_of(number: u8) -> u64 {
    1 << (number & 63)
}

/// Takes the smallest number out of a plain set of bits, if there is one.
pub(super) fn take_smallest(words: &mut [u64; 4]) -> Option<u8> {
    let number = smallest(words)?;
    words[word_of(number)] &= !bit_of(number);
    Some(number)
}

/// The smallest number in a plain set of bits.
pub(super) fn smallest(words: &[u64; 4]) -> Option<u8> {
    let word = words.iter().position(|word| *word != 0)?;
    Some((word * 64) as u8 + words[word].trailing_zeros() as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_counts_the_smaller_members() {
        let mut bits = RankedBits::default();
        let mut members = Vec::new();
        // 167 has no factor in common with 256, so every number comes up once.
        for number in (0..256u32).map(|step| (step * 167 % 256) as u8) {
            bits.insert(number);
            members.push(number);
            for probe in 0..=255u8 {
                assert_eq!(bits.rank(probe), members.iter().filter(|m| **m < probe).count());
                assert_eq!(bits.contains(probe), members.contains(&probe));
            }
        }
        for number in members.drain(..).rev().skip(1) {
            bits.remove(number);
            assert!(!bits.contains(number));
        }
        assert_eq!(bits.rank(255), 1);
    }

    #[test]
    fn taking_the_smallest_walks_upwards_to_the_end() {
        let mut words = [1 << 63, 0, 1, 1 << 63];
        let taken: Vec<u8> = std::iter::from_fn(|| take_smallest(&mut words)).collect();
        assert_eq!(taken, [63, 128, 255]);
        assert_eq!(words, [0; 4]);
    }
}
