//! Rows in order, each with a number beside it.
//!
//! For: changes of a batch, which are written by ascending row and were made in any order. Not for:
//! short lists, which the library sorts as fast. Cost: two or three passes over all pairs.

/// Below this the library's sort takes no longer.
const RADIX_LEN_MIN: usize = 1024;
const DIGIT_BITS: u32 = 11;
const DIGITS: usize = 1 << DIGIT_BITS;

/// A row and what belongs to it as one number, ordered by the row.
#[inline]
pub(crate) fn pair(row: u32, number: u32) -> u64 {
    u64::from(row) << 32 | u64::from(number)
}

/// The row and the number of a [`pair`].
#[inline]
pub(crate) fn parts(pair: u64) -> (u32, u32) {
    ((pair >> 32) as u32, pair as u32)
}

/// Sorts pairs by their rows, which are all different.
pub(crate) fn sort(pairs: &mut Vec<u64>) {
    if pairs.len() < RADIX_LEN_MIN {
        pairs.sort_unstable();
        return;
    }
    let most = pairs.iter().fold(0, |most, pair| most | pair);
    let mut shift = 32;
    let mut sorted = vec![0; pairs.len()];
    while shift < 64 && most >> shift != 0 {
        let digit = |pair: u64| (pair >> shift) as usize % DIGITS;
        let mut places = [0_usize; DIGITS];
        pairs.iter().for_each(|pair| places[digit(*pair)] += 1);
        let mut next = 0;
        for place in &mut places {
            next += std::mem::replace(place, next);
        }
        for &pair in pairs.iter() {
            let place = &mut places[digit(pair)];
            sorted[*place] = pair;
            *place += 1;
        }
        std::mem::swap(pairs, &mut sorted);
        shift += DIGIT_BITS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_order_of_the_library() {
        let mut random = 7_u64;
        for (count, bits) in [(0, 1), (1, 1), (1023, 32), (1024, 11), (5000, 12), (70_000, 32)] {
            let mut pairs = Vec::new();
            for number in 0..count {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                pairs.push(pair((random >> 32) as u32 >> (32 - bits), number));
            }
            let mut expected = pairs.clone();
            expected.sort_unstable();
            sort(&mut pairs);
            assert_eq!(pairs, expected);
            assert!(pairs.iter().all(|one| pair(parts(*one).0, parts(*one).1) == *one));
        }
    }
}
