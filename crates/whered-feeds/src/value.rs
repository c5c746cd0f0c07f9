//! Texts into numbers and times.
//!
//! For: coordinates, counts and times as they stand in uploads. Not for: what is missing; an empty
//! text is no number here, the caller says what it means. Times other than whole numbers are read
//! by `time.rs`.
//!
//! ```text
//! 45.6789  ─►  mantissa 456789, scale 4  ─►  456789.0 / 10^4   both are exact, hence so is the
//!                                                              quotient's rounding (one operation)
//! ```
//!
//! A decimal number takes this way if it has at most 16 characters and its digits fit 53 bits; all
//! others take the standard library's. Both give the same bits, which a property test compares.
//! Cost: some ninety instructions, no allocation.

use crate::digits::{decimal, degrees, whole};
use crate::time::{END_MILLIS, MICROS_FROM, MILLIS_FROM, TimeFault, read_plain};

/// Powers of ten that a double holds exactly.
const POWERS: [f64; 16] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

/// White space of XML, and of rows and JSON as well.
#[inline]
pub(crate) fn trim(text: &[u8]) -> &[u8] {
    // Numbers nearly never have space around them; two looks decide it.
    match text {
        [first, .., last] if *first > b' ' && *last > b' ' => text,
        _ => text.trim_ascii(),
    }
}

/// A finite decimal number, as [`str::parse`] reads it; `None` for anything else.
#[inline]
pub(crate) fn number(text: &[u8]) -> Option<f64> {
    let is_negative = text.first() == Some(&b'-');
    let Some((mantissa, scale)) = degrees(&text[usize::from(is_negative)..]) else {
        return other_number(text);
    };
    // It has less than 53 bits; as a signed number it is converted by one instruction.
    let value = mantissa as i64 as f64 / POWERS[scale];
    // Which sign it has nobody can guess, so it is no branch; zero has one, too.
    Some(f64::from_bits(value.to_bits() | u64::from(is_negative) << 63))
}

/// Any other number, perhaps with white space around it.
#[inline(never)]
fn other_number(text: &[u8]) -> Option<f64> {
    let text = trim(text);
    let is_negative = text.first() == Some(&b'-');
    match decimal(&text[usize::from(is_negative)..]) {
        Some((mantissa, scale)) if mantissa >> 53 == 0 => {
            let value = mantissa as f64 / POWERS[scale];
            Some(if is_negative { -value } else { value })
        }
        _ => number_by_library(text),
    }
}

#[cold]
fn number_by_library(text: &[u8]) -> Option<f64> {
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    value.is_finite().then_some(value)
}

/// A whole number of 64 bits, as [`str::parse`] reads it.
#[inline]
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    match whole(text) {
        Some(value) => Some(value as i64),
        None => integer_by_library(text),
    }
}

#[cold]
fn integer_by_library(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(trim(text)).ok()?.parse().ok()
}

/// A whole number that is written with a fraction of zeros (`5.0`) or an exponent (`1.7e9`).
#[cold]
pub(crate) fn whole_decimal(text: &[u8]) -> Option<i64> {
    /// Whole numbers up to here have a double of their own.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    let text = trim(text);
    if let Some(point) = text.iter().position(|byte| *byte == b'.') {
        let (whole, zeros) = (&text[..point], &text[point + 1..]);
        if !zeros.is_empty() && zeros.iter().all(|digit| *digit == b'0') {
            return integer_by_library(whole);
        }
    }
    let value = number_by_library(text)?;
    (value.trunc() == value && value.abs() < EXACT_MAX).then_some(value as i64)
}

/// Milliseconds since 1970.
#[inline]
pub(crate) fn time_millis(text: &[u8]) -> Result<i64, TimeFault> {
    let millis = match whole(text).map(|whole| whole as i64) {
        Some(seconds @ 0..MILLIS_FROM) => seconds * 1_000,
        Some(millis @ MILLIS_FROM..MICROS_FROM) => millis,
        _ => return read_plain(text),
    };
    if millis < END_MILLIS { Ok(millis) } else { Err(TimeFault::OutOfRange) }
}

#[cfg(test)]
#[path = "value_tests.rs"]
mod tests;
