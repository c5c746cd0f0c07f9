//! Numbers for the prefixes that end inside one octet.
//!
//! The prefixes of 0 to 7 bits of an octet are the inner nodes of a binary tree over its 256
//! values, numbered row by row from 1 (Knuth's allotment, the "base index" of ART):
//!
//! ```text
//!                      1                      /0   the whole octet
//!            2                   3            /1   0-127, 128-255
//!       4         5         6         7       /2   0-63, 64-127, 128-191, 192-255
//!      8 9      10 11     12 13     14 15     /3
//!      ...                                    /7   128 to 255
//! ```
//!
//! One level up is a shift to the right, so the shorter prefixes that hold a prefix are its
//! halves: 10 (64-95) lies in 5 (64-127), 2 and 1. Worked out: octet 77 is 01001101 in bits; cut
//! to three bits it is 010 = 2, and with a one before it 1010 = 10.
//!
//! Rows 0 to 5 are the indexes 1 to 63, exactly one word of a bit set; row 6 is the next word,
//! row 7 the last two. A search upwards therefore needs two bit tests and one masked word.
//!
//! Cost: everything is a handful of instructions; the tables are made by the compiler.

use super::ranked_bits::RankedBits;

/// The base index of the first `length_bits` (0 to 7) bits of `octet`.
#[inline]
pub(super) const fn base_index(octet: u8, length_bits: u8) -> u8 {
    let high_bits = octet as u16 >> (8 - length_bits);
    ((1 << length_bits) | high_bits) as u8
}

/// The longest index in `bits` that is `index` or holds it; 0 when there is none.
#[inline]
pub(super) fn nearest_holder(bits: &RankedBits, mut index: u8) -> u8 {
    while index >= 64 {
        if bits.contains(index) {
            return index;
        }
        index >>= 1;
    }
    let holders = bits.words()[0] & HOLDERS[usize::from(index)];
    // Bit 0 is never set, so "no holder" and index 0 may share the answer 0.
    (63 - (holders | 1).leading_zeros()) as u8
}

/// For each index below 64 the indexes that hold it, and itself, as bits.
const HOLDERS: [u64; 64] = {
    let mut holders = [0; 64];
    let mut index = 1;
    while index < 64 {
        holders[index] = holders[index >> 1] | 1 << index;
        index += 1;
    }
    holders
};

/// The first octet value that a prefix with this base index holds: 10 starts at 64.
#[inline]
pub(super) const fn first_octet(index: u8) -> u8 {
    // The highest one marks the row; shifted out of the octet, the rest are the leading bits.
    ((index as u16) << (index.leading_zeros() + 1)) as u8
}

/// Base indexes in address order, shorter before longer: 1 2 4 8 ... 128 129 65 ... 255.
///
/// This is the order in which a walk meets the tree from the top, left before right. Place 255
/// is unused.
pub(super) const INDEX_AT_PLACE: [u8; 256] = {
    let mut table = [0; 256];
    let mut index: usize = 1;
    let mut place = 0;
    while place < 255 {
        table[place] = index as u8;
        place += 1;
        index = if index < 128 {
            2 * index
        } else {
            // The next subtree to the right hangs from where the path last went left.
            (index + 1) >> (index + 1).trailing_zeros()
        };
    }
    table
};

/// The inverse of [`INDEX_AT_PLACE`].
pub(super) const PLACE_OF_INDEX: [u8; 256] = {
    let mut table = [0; 256];
    let mut place = 0;
    while place < 255 {
        table[INDEX_AT_PLACE[place] as usize] = place as u8;
        place += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example_holds() {
        assert_eq!(base_index(77, 3), 10);
        assert_eq!(first_octet(10), 64);
        assert_eq!([base_index(77, 0), base_index(77, 7)], [1, 128 + 38]);
    }

    #[test]
    fn every_prefix_of_an_octet_has_its_own_index() {
        let mut seen = [false; 256];
        for length_bits in 0..8 {
            for high_bits in 0..1u16 << length_bits {
                let octet = (high_bits << (8 - length_bits)) as u8;
                let index = base_index(octet, length_bits);
                assert!(!std::mem::replace(&mut seen[usize::from(index)], true));
                assert_eq!(first_octet(index), octet);
            }
        }
        assert_eq!(seen.iter().filter(|seen| **seen).count(), 255);
    }

    #[test]
    fn the_nearest_holder_is_the_first_set_index_upwards() {
        for step in [1, 2, 3, 5, 7, 11, 64, 130] {
            let mut bits = RankedBits::default();
            for index in (step..=255u8).step_by(usize::from(step)) {
                bits.insert(index);
            }
            for index in 0..=255u8 {
                let mut slow = index;
                while slow > 0 && !bits.contains(slow) {
                    slow >>= 1;
                }
                assert_eq!(nearest_holder(&bits, index), slow, "index {index}, step {step}");
            }
        }
    }

    #[test]
    fn places_sort_by_first_octet_then_length() {
        let sorted = (0..254).all(|place| {
            let (a, b) = (INDEX_AT_PLACE[place], INDEX_AT_PLACE[place + 1]);
            (first_octet(a), a.ilog2()) < (first_octet(b), b.ilog2())
        });
        assert!(sorted);
        for index in 1..=255u8 {
            assert_eq!(INDEX_AT_PLACE[usize::from(PLACE_OF_INDEX[usize::from(index)])], index);
        }
    }
}
