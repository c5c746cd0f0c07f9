//! Up to sixteen decimal digits at once.
//!
//! For: the numbers and times of quick scanners. Not for: what else a number may be; `value.rs`
//! leaves that to the standard library.
//!
//! ```text
//! text            1 2 . 3 4 5 6 7                   its last character is the word's highest byte
//! less '0'        0 0 0 0 0 0 0 0 1 2 . 3 4 5 6 7
//! without point   0 0 0 0 0 0 0 0 0 1 2 3 4 5 6 7   those before it go one byte up
//! pairs, fours, eights: a multiplication for each step
//! ```
//! Most coordinates have their point among the last eight of eight or more characters; what is
//! before it and behind it are then two numbers of eight digits (`degrees`). No loop over the
//! digits, and no branch that depends on how many there are, from eight on.

/// How many digits are read at most.
const DIGITS_MAX: usize = 16;
/// A one in each byte.
const ONES: u64 = u64::MAX / 0xff;
const ZERO: u8 = b'0';
/// Powers of ten.
const TENS: [u64; 8] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];
/// A point in a word whose digits are 0 to 9.
const POINT: u8 = b'.' ^ ZERO;

/// Sixteen characters less `'0'`, the first one in the lowest byte: those that are there are the
/// last ones.
#[derive(Clone, Copy, Debug)]
struct Digits {
    first: u64,
    last: u64,
}

/// A number as its digits without the point, and how many of them follow it. `None`: it is empty,
/// too long, or has anything else than digits and one point.
#[inline]
pub(crate) fn decimal(text: &[u8]) -> Option<(u64, usize)> {
    if text.len() == 1 {
        return whole(text).map(|digit| (digit, 0));
    }
    let Digits { first, last } = Digits::of(text)?;
    // A degree's decimals are in the last eight, and the point before them as well.
    let (digits, scale) = if let Some((last, scale)) = without_point(last) {
        (Digits { first: first << 8, last: last | first >> 56 }, scale)
    } else if let Some((first, scale)) = without_point(first) {
        (Digits { first, last }, scale + 8)
    } else {
        (Digits { first, last }, 0)
    };
    Some((digits.number()?, scale))
}

/// Parses the form of most coordinates: at least eight characters, up to eight before a point and
/// one to seven behind it, with at most 15 digits. `None` for other forms, which [`decimal`]
/// parses.
#[inline]
pub(crate) fn degrees(text: &[u8]) -> Option<(u64, usize)> {
    let [first, last] = ends(text)?;
    let points = points(last);
    // The highest bit of the first point's byte; 63: it is the last character, 64: there is none.
    let bit = points.trailing_zeros();
    if bit >= 63 {
        return None;
    }
    let scale = 7 - bit as usize / 8;
    let before = text.len() - 1 - scale;
    if !(1..=8).contains(&before) {
        return None;
    }
    let (behind, before) = (last & u64::MAX << bit << 1, first << (64 - 8 * before));
    if (over(behind) | over(before)) & (ONES * 0x80) != 0 {
        return None;
    }
    Some((eight(before) * TENS[scale] + eight(behind), scale))
}

/// The number that one to sixteen digits are; `None` for anything else.
#[inline]
pub(crate) fn whole(text: &[u8]) -> Option<u64> {
    Digits::of(text)?.number()
}

/// The first and the last eight characters less `'0'`, if there are eight.
#[inline]
fn ends(text: &[u8]) -> Option<[u64; 2]> {
    let ends = [text.first_chunk()?, text.last_chunk()?];
    Some(ends.map(|part| u64::from_le_bytes(*part) ^ (ONES * u64::from(ZERO))))
}

/// The highest bits of bytes that are a point: the lowest one is right, and a second point is no
/// digit.
#[inline]
fn points(word: u64) -> u64 {
    let other = word ^ (ONES * u64::from(POINT));
    other.wrapping_sub(ONES) & !other & (ONES * 0x80)
}

/// Has the highest bit of each byte that is more than nine.
#[inline]
fn over(word: u64) -> u64 {
    word | word.wrapping_add(ONES * 0x76)
}

/// The characters before the first point one byte up, if there is one; and how many follow it.
#[inline]
fn without_point(word: u64) -> Option<(u64, usize)> {
    let points = points(word);
    if points == 0 {
        return None;
    }
    let place = points.trailing_zeros() / 8;
    let before = (1 << (8 * place)) - 1;
    let digits = (word & before) << 8 | word & !(before << 8 | 0xff);
    Some((digits, 7 - place as usize))
}

impl Digits {
    /// `None`: they are none or too many.
    #[inline]
    fn of(text: &[u8]) -> Option<Digits> {
        let length = text.len();
        if let Some([first, last]) = ends(text) {
            let room = DIGITS_MAX.checked_sub(length)?;
            // What both have is in the last ones; with eight nothing is left of the first ones.
            let first = if room == 8 { 0 } else { first << (8 * room) };
            return Some(Digits { first, last });
        }
        let last = if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
            let zeros = ONES as u32 * u32::from(ZERO);
            let [first, last] =
                [first, last].map(|part| u64::from(u32::from_le_bytes(*part) ^ zeros));
            first << (8 * (8 - length)) | last << 32
        } else {
            text.iter().fold(0, |word, byte| word >> 8 | u64::from(byte ^ ZERO) << 56)
        };
        (length > 0).then_some(Digits { first: 0, last })
    }

    /// `None`: one of them is no digit.
    #[inline]
    fn number(self) -> Option<u64> {
        ((over(self.first) | over(self.last)) & (ONES * 0x80) == 0)
            .then(|| eight(self.first) * 100_000_000 + eight(self.last))
    }
}

/// The number of eight digits: Lemire, Parsing series of integers with SIMD (2022), has the same
/// steps.
#[inline]
fn eight(digits: u64) -> u64 {
    const FOURS: u64 = 0x0000_00ff_0000_00ff;
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let upper = (pairs & FOURS).wrapping_mul(100 + (1_000_000 << 32));
    let lower = (pairs >> 16 & FOURS).wrapping_mul(1 + (10_000 << 32));
    upper.wrapping_add(lower) >> 32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn slow(text: &str) -> Option<(u64, usize)> {
        let digits = text.replacen('.', "", 1);
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let scale = text.find('.').map_or(0, |place| text.len() - place - 1);
        (is_number && text.len() <= DIGITS_MAX).then(|| Some((digits.parse().ok()?, scale)))?
    }

    proptest! {
        #[test]
        fn they_are_what_a_loop_makes_of_them(text in "[0-9]{0,17}(\\.[0-9]{0,9})?") {
            prop_assert_eq!(decimal(text.as_bytes()), slow(&text));
            prop_assert!(degrees(text.as_bytes()).is_none_or(|found| Some(found) == slow(&text)));
            let expected = if text.contains('.') { None } else { slow(&text) };
            prop_assert_eq!(whole(text.as_bytes()), expected.map(|(number, _)| number));
        }

        #[test]
        fn one_other_character_is_none(
            text in "[0-9.]{1,16}", at in 0_usize..16, other in any::<u8>(),
        ) {
            let mut bytes = text.into_bytes();
            let at = at % bytes.len();
            bytes[at] = other;
            let expected = std::str::from_utf8(&bytes).ok().and_then(slow);
            prop_assert_eq!(decimal(&bytes), expected);
            prop_assert!(degrees(&bytes).is_none_or(|found| Some(found) == expected));
        }
    }

    #[test]
    fn coordinates_take_the_short_way() {
        for (text, number, scale) in [
            ("1.234567", 1_234_567, 6),
            ("123.45678", 12_345_678, 5),
            ("12345678.1234567", 123_456_781_234_567, 7),
            ("99999999.9999999", 999_999_999_999_999, 7),
            ("0000000.1", 1, 1),
        ] {
            assert_eq!(degrees(text.as_bytes()), Some((number, scale)), "{text}");
        }
        let others =
            ["", "1.5", ".1234567", "1234567.", "12345678", "123456789.1234567", "1.2.34567"];
        for text in others {
            assert_eq!(degrees(text.as_bytes()), None, "{text}");
        }
    }
}
