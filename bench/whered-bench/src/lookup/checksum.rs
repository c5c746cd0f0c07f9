//! One number over all answers, the same for every engine, so that a wrong one cannot win.
//!
//! Not for error detection. A lookup's share is summed up, so that the order of answers does not
//! matter. It costs every engine the same few instructions, without a branch on what a text holds:
//! a wrong guess would cost a fast engine more than its lookup.
//!
//! ```text
//! record   data-section offset + 1, or 0 without a record
//! text     last octet | first octet << 8 | length << 16         while the clock runs
//!          all octets and the length, mixed one by one          once more without the clock
//! fields   country * A + city * B + latitude's bits * C + longitude's bits * D
//! ```
//!
//! A text that is not there counts as empty, a number as NaN; without a record, nothing is there.
//!
//! `bench/versus` has the same in C.

use std::hint::select_unpredictable;

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
const FACTORS: [u64; 4] =
    [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53, 0xd6e8_feb8_6659_fd93, 0xa076_1d64_78bd_642f];

/// The share of a lookup that gives a record, by its offset in the data section.
#[inline]
#[must_use]
pub fn of_record(offset: Option<u32>) -> u64 {
    offset.map_or(0, |offset| u64::from(offset) + 1)
}

/// Which octets of a text count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Octets {
    /// The first and the last one, and how many there are.
    Ends,
    /// All of them.
    All,
}

/// The share of a lookup that finds no fields.
#[inline]
#[must_use]
pub fn of_no_fields() -> u64 {
    of_fields(Octets::Ends, [&[], &[]], [f64::NAN, f64::NAN])
}

/// The share of a lookup that gives four fields: country and city, latitude and longitude.
#[inline]
#[must_use]
pub fn of_fields(octets: Octets, texts: [&[u8]; 2], numbers: [f64; 2]) -> u64 {
    let [country, city] = texts.map(|text| match octets {
        Octets::Ends => of_ends(text),
        Octets::All => of_all(text),
    });
    let [latitude, longitude] = numbers.map(f64::to_bits);
    [country, city, latitude, longitude]
        .iter()
        .zip(FACTORS)
        .fold(0, |sum, (part, factor)| u64::wrapping_add(sum, part.wrapping_mul(factor)))
}

#[inline]
fn of_ends(text: &[u8]) -> u64 {
    // Whether a record has a city is not to be predicted.
    let shown = select_unpredictable(text.is_empty(), [0].as_slice(), text);
    let [first, last] =
        [shown.first(), shown.last()].map(|octet| octet.map_or(0, |&o| u64::from(o)));
    (text.len() as u64) << 16 | first << 8 | last
}

fn of_all(text: &[u8]) -> u64 {
    let mix = |word: u64, octet: &u8| (word ^ u64::from(*octet)).wrapping_mul(STEP);
    text.iter().fold((text.len() as u64).wrapping_mul(STEP), mix)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(texts: &[&str], of: fn(&[u8]) -> u64) -> usize {
        let mut sums: Vec<u64> = texts.iter().map(|text| of(text.as_bytes())).collect();
        sums.sort_unstable();
        sums.dedup();
        sums.len()
    }

    #[test]
    fn lengths_and_octets_count() {
        let texts = ["", "D", "DE", "DEU", "Bern", "Berlin", "Hamburgs", "Hamburgt", "Hamburgss"];
        assert_eq!(sums(&texts, of_ends), texts.len());
        assert_eq!(sums(&texts, of_all), texts.len());
        assert_eq!(of_ends(b""), 0);
        assert_eq!(of_all(b""), 0);
        assert_eq!(of_ends(b"DE"), 2 << 16 | 0x4445);
        assert_eq!(sums(&["Main", "Mian"], of_ends), 1);
        assert_eq!(sums(&["Main", "Mian"], of_all), 2);
    }

    #[test]
    fn each_field_has_its_place() {
        for octets in [Octets::Ends, Octets::All] {
            let one = of_fields(octets, [b"DE", b"FR"], [1.0, 2.0]);
            assert_ne!(one, of_fields(octets, [b"FR", b"DE"], [1.0, 2.0]));
            assert_ne!(one, of_fields(octets, [b"DE", b"FR"], [2.0, 1.0]));
            assert_ne!(of_no_fields(), of_fields(octets, [b"", b""], [0.0, 0.0]));
            assert_eq!(of_no_fields(), of_fields(octets, [b"", b""], [f64::NAN; 2]));
        }
    }
}
