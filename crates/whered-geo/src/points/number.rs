//! Names that are decimal numbers, and how a key mixes them without losing any.
//!
//! For: the hash of such a name, which names it and no other, and batches, which carry the number
//! in place of the name. Ids of databases are what most collections have for members. Not for: any
//! other name (`hash.rs`).
//!
//! ```text
//! "60841557" ─► number of 31 bits ─► upper 16 │ lower 15
//!                                       ▲ xor ◄── mixed with a key     four rounds, each of which
//!                                       └─────────► mixed ► xor        can be undone
//! ```
//!
//! A Feistel network is a permutation whatever its rounds compute (H. Feistel, 1973; M. Luby and C.
//! Rackoff, SIAM J. Comput. 17, 1988, on four rounds with good functions). Here they are products
//! with a random key. Cost: some ten operations for the number, four products for the permutation.

/// Numbers below two to this power have a place among the mixed ones.
pub(super) const NUMBER_BITS: u32 = 31;
const LOWER_BITS: u32 = 15;
const LOWER: u64 = (1 << LOWER_BITS) - 1;
const UPPER: u64 = (1 << (NUMBER_BITS - LOWER_BITS)) - 1;
/// Eight times the digit 0.
const ZEROS: u64 = 0x3030_3030_3030_3030;
/// The most digits of a number that may be below 2^31.
pub(super) const MOST_DIGITS: usize = 10;

/// The number that a name is in decimal: no sign, no leading zero, below 2^31.
#[inline(always)]
pub(super) fn number(name: &[u8]) -> Option<u64> {
    let (&first, count) = (name.first()?, name.len());
    if !first.is_ascii_digit() || count > MOST_DIGITS || (first == b'0' && count > 1) {
        return None;
    }
    let (above, word) = match name.split_last_chunk::<8>() {
        Some((above, word)) => (above, u64::from_le_bytes(*word)),
        None => (&[][..], filled_with_zeros(name)),
    };
    let mut number = eight_digits(word)?;
    for (&digit, factor) in above.iter().rev().zip([100_000_000, 1_000_000_000]) {
        if !digit.is_ascii_digit() {
            return None;
        }
        number += u64::from(digit - b'0') * factor;
    }
    (number >> NUMBER_BITS == 0).then_some(number)
}

/// The name of a number below 2^31: its digits, then zero bytes; and how many digits there are.
#[inline]
pub(super) fn name_of(number: u32) -> ([u8; 16], usize) {
    const LAST: u64 = 1 << 56;
    let (above, below) = (number / 100_000_000, digits_of(number % 100_000_000));
    if above == 0 {
        // What stands before the first digit is shifted out; the last digit stays.
        let before = (below | LAST).trailing_zeros() / 8;
        let text = (below | ZEROS) >> (8 * before);
        return (u128::from(text).to_le_bytes(), 8 - before as usize);
    }
    let (tens, ones, below) = (above / 10, above % 10, u128::from(below | ZEROS));
    let (first, second) =
        (u128::from(b'0') | u128::from(tens), u128::from(b'0') | u128::from(ones));
    match tens {
        0 => ((below << 8 | second).to_le_bytes(), 9),
        _ => ((below << 16 | second << 8 | first).to_le_bytes(), 10),
    }
}

/// The eight digits of a number, the first in the lowest byte: fours, then pairs, then one by one.
#[inline]
fn digits_of(number: u32) -> u64 {
    let fours = u64::from(number / 10_000) | u64::from(number % 10_000) << 32;
    // Products and shifts that divide, exactly for all numbers of four and of two digits.
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let pairs = hundreds | (fours - 100 * hundreds) << 16;
    let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
    tens | (pairs - 10 * tens) << 8
}

/// One to seven digits, the last in the uppermost byte, with zeros before the first.
#[inline]
fn filled_with_zeros(digits: &[u8]) -> u64 {
    let word = match digits.split_last_chunk::<4>() {
        Some((before, last)) => {
            let first = u32::from_le_bytes(*digits.first_chunk().expect("there are four"));
            let last = u64::from(u32::from_le_bytes(*last)) << 32;
            last | u64::from(first) << (32 - 8 * before.len()) & 0xffff_ffff
        }
        None => digits.iter().fold(0, |word, &digit| word >> 8 | u64::from(digit) << 56),
    };
    word | ZEROS >> (8 * digits.len())
}

/// The number of eight digits, the first in the lowest byte. Neighbours are put together, then
/// pairs, then fours.
#[inline]
fn eight_digits(word: u64) -> Option<u64> {
    let digits = word ^ 0x3030_3030_3030_3030;
    let above_nine = digits.wrapping_add(0x7676_7676_7676_7676) | digits;
    if above_nine & 0x8080_8080_8080_8080 != 0 {
        return None;
    }
    let pairs = (digits.wrapping_mul(10) + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100) + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    Some((fours.wrapping_mul(10_000) + (fours >> 32)) & 0xffff_ffff)
}

/// A permutation of the numbers below 2^31, another one for every key.
#[inline(always)]
pub(super) fn permuted(number: u64, key: &[u64; 3]) -> u64 {
    let [first, second, third] = *key;
    let (mut upper, mut lower) = (number >> LOWER_BITS, number & LOWER);
    for (summand, factor) in [(first, second), (third, first)] {
        upper ^= mixed(lower, summand, factor) & UPPER;
        lower ^= mixed(upper, factor, third.rotate_left(32) ^ summand) & LOWER;
    }
    upper << LOWER_BITS | lower
}

/// Bits of a product, on which all bits of the value have an effect.
#[inline]
fn mixed(value: u64, summand: u64, factor: u64) -> u64 {
    value.wrapping_add(summand).wrapping_mul(factor | 1) >> 40
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_and_written_and_nothing_else_is_read() {
        for wanted in (0..200_000).chain((0..31).flat_map(|bit| [1 << bit, (2 << bit) - 1])) {
            let name = wanted.to_string();
            assert_eq!(number(name.as_bytes()), Some(wanted));
            let (text, length) = name_of(wanted as u32);
            assert_eq!((&text[..length], &text[length..]), (name.as_bytes(), &[0; 16][length..]));
        }
        let mut tens = 1;
        for _ in 0..9 {
            tens *= 10;
            for wanted in [tens - 1, tens, tens + 1] {
                let name = wanted.to_string();
                assert_eq!(number(name.as_bytes()), Some(wanted));
                let (text, length) = name_of(wanted as u32);
                assert_eq!(&text[..length], name.as_bytes());
            }
        }
        for name in ["", "00", "01", "-1", "+1", " 1", "1 ", "2147483648", "9999999999"] {
            assert_eq!(number(name.as_bytes()), None, "{name}");
        }
        for name in ["12345678901", "0123456789", "1.5", "1e5", "a", "123456789a", "1٣"] {
            assert_eq!(number(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn every_byte_in_every_place_is_a_digit_or_makes_no_number() {
        for length in 1..=9 {
            for place in 0..length {
                for byte in 0..=255 {
                    let mut name = vec![b'1'; length];
                    name[place] = byte;
                    let text = std::str::from_utf8(&name).ok();
                    let is_number = byte.is_ascii_digit() && (place, byte) != (0, b'0')
                        || (length, byte) == (1, b'0');
                    let wanted = text.filter(|_| is_number).and_then(|text| text.parse().ok());
                    assert_eq!(number(&name), wanted, "{name:?}");
                }
            }
        }
    }

    /// The way back: the same rounds, the last one first.
    fn restored(mixed_number: u64, key: &[u64; 3]) -> u64 {
        let [first, second, third] = *key;
        let (mut upper, mut lower) = (mixed_number >> LOWER_BITS, mixed_number & LOWER);
        for (summand, factor) in [(third, first), (first, second)] {
            lower ^= mixed(upper, factor, third.rotate_left(32) ^ summand) & LOWER;
            upper ^= mixed(lower, summand, factor) & UPPER;
        }
        upper << LOWER_BITS | lower
    }

    #[test]
    fn the_permutation_can_be_undone() {
        let mut state = 7u64;
        for round in 0..300_000 {
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                state ^ state >> 29
            };
            let key = if round % 8 == 0 { [0; 3] } else { [next(), next(), next()] };
            let number = next() >> 33;
            let permuted = permuted(number, &key);
            assert!(permuted >> NUMBER_BITS == 0);
            assert_eq!(restored(permuted, &key), number);
        }
    }
}
