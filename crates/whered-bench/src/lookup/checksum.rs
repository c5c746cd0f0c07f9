//! One number over all answers, the same for every engine, so that a wrong one cannot win.
//!
//! Not for error detection. A lookup's share is summed up, so that the order of answers does not
//! matter. It costs every engine the same few instructions, and takes no branch that would depend
//! on how long a text is beyond three bytes.
//!
//! ```text
//! record   data-section offset + 1, or 0 without a record
//! text     bytes 0-3 | the four bytes up to min(length, 8) << 32, + length * STEP    (from 4 on)
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

/// The share of a lookup that finds no fields.
#[inline]
#[must_use]
pub fn of_no_fields() -> u64 {
    of_fields(&[], &[], f64::NAN, f64::NAN)
}

/// The share of a lookup that gives four fields.
#[inline]
#[must_use]
pub fn of_fields(country: &[u8], city: &[u8], latitude: f64, longitude: f64) -> u64 {
    let parts = [of_text(country), of_text(city), latitude.to_bits(), longitude.to_bits()];
    parts
        .iter()
        .zip(FACTORS)
        .fold(0, |sum, (part, factor)| u64::wrapping_add(sum, part.wrapping_mul(factor)))
}

#[inline]
fn of_text(text: &[u8]) -> u64 {
    let length = text.len();
    // Whether a record has a city is not to be predicted, and a wrong guess would cost a fast
    // engine more than its lookup; texts of one to three bytes are a matter of the field.
    let long = select_unpredictable(length < 4, [0; 4].as_slice(), text);
    let first = long.first_chunk().map_or(0, |&bytes| u32::from_le_bytes(bytes));
    let start = long.get(..long.len().min(8)).unwrap_or_default();
    let last = start.last_chunk().map_or(0, |&bytes| u32::from_le_bytes(bytes));
    let mut word = u64::from(first) | u64::from(last) << 32;
    if (1..4).contains(&length) {
        word = text.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    }
    word.wrapping_add((length as u64).wrapping_mul(STEP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_and_the_first_eight_bytes_count() {
        let texts = ["", "D", "DE", "DEU", "Bern", "Berlin", "Hamburgs", "Hamburgt", "Hamburgss"];
        let mut sums: Vec<u64> = texts.iter().map(|text| of_text(text.as_bytes())).collect();
        sums.sort_unstable();
        sums.dedup();
        assert_eq!(sums.len(), texts.len());
        assert_eq!(of_text(b""), 0);
        assert_eq!(of_text(b"DE"), 0x4544_u64.wrapping_add(STEP.wrapping_mul(2)));
    }

    #[test]
    fn each_field_has_its_place() {
        let one = of_fields(b"DE", b"FR", 1.0, 2.0);
        assert_ne!(one, of_fields(b"FR", b"DE", 1.0, 2.0));
        assert_ne!(one, of_fields(b"DE", b"FR", 2.0, 1.0));
        assert_ne!(of_no_fields(), of_fields(b"", b"", 0.0, 0.0));
    }
}
