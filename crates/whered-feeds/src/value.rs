//! Texts into numbers and times.
//!
//! For: coordinates, counts and times as they stand in uploads. Not for: what is missing; an empty
//! text is no number here, the caller says what it means.
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

/// The first moment that is too late: 2200-01-01T00:00:00Z, in milliseconds since 1970.
const END_MILLIS: i64 = 7_258_118_400_000;
/// Whole numbers below this are seconds (the year 5138), others milliseconds (1973).
const MILLIS_FROM: i64 = 100_000_000_000;

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

/// Why a text is no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeFault {
    /// Neither a number nor RFC 3339.
    NoTime,
    /// Before 1970 or after 2199.
    OutOfRange,
}

/// Milliseconds since 1970.
#[inline]
pub(crate) fn time_millis(text: &[u8]) -> Result<i64, TimeFault> {
    let whole = match whole(text) {
        Some(whole) => millis_of(whole as i64),
        None => other_time(trim(text))?,
    };
    if (0..END_MILLIS).contains(&whole) { Ok(whole) } else { Err(TimeFault::OutOfRange) }
}

/// A whole number of seconds or milliseconds.
#[inline]
fn millis_of(whole: i64) -> i64 {
    // The smallest number has no opposite.
    let is_seconds = whole.unsigned_abs() < MILLIS_FROM.unsigned_abs();
    if is_seconds { whole * 1_000 } else { whole }
}

/// A whole number that is written otherwise, seconds with a fraction, or RFC 3339.
#[cold]
fn other_time(text: &[u8]) -> Result<i64, TimeFault> {
    if let Some(whole) = integer(text) {
        return Ok(millis_of(whole));
    }
    if let Some(at) = text.iter().position(|byte| *byte == b'.')
        && text[..at].iter().all(u8::is_ascii_digit)
    {
        let whole = integer(&text[..at]).ok_or(TimeFault::NoTime)?;
        let millis = thousandths(&text[at + 1..]).ok_or(TimeFault::NoTime)?;
        if whole >= MILLIS_FROM {
            // Milliseconds with a fraction; nothing here is finer than a millisecond.
            return Ok(whole);
        }
        return Ok(whole * 1_000 + millis);
    }
    if !text.is_empty() && text.iter().all(u8::is_ascii_digit) {
        return Err(TimeFault::OutOfRange);
    }
    rfc3339_millis(text).ok_or(TimeFault::NoTime)
}

/// The first three digits of a fraction; the rest is cut off. At least one digit.
fn thousandths(digits: &[u8]) -> Option<i64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |place: usize| digits.get(place).map_or(0, |byte| i64::from(byte - b'0'));
    Some(digit(0) * 100 + digit(1) * 10 + digit(2))
}

/// `2026-11-22T03:04:05.678Z`, with an offset instead of `Z`, or a space instead of `T`.
fn rfc3339_millis(text: &[u8]) -> Option<i64> {
    let (head, mut rest) = text.split_at_checked(19)?;
    let two = |place: usize| -> Option<i64> {
        let pair = &head[place..place + 2];
        pair.iter().all(u8::is_ascii_digit).then(|| integer(pair)).flatten()
    };
    let marks_fit = head[4] == b'-'
        && head[7] == b'-'
        && matches!(head[10], b'T' | b't' | b' ')
        && head[13] == b':'
        && head[16] == b':';
    if !marks_fit {
        return None;
    }
    let year = two(0)? * 100 + two(2)?;
    let (month, day) = (two(5)?, two(8)?);
    // A leap second is counted as the second behind it.
    let (hour, minute, second) = (two(11)?, two(14)?, two(17)?);
    if !(1..=12).contains(&month) || !(1..=days_of(year, month)).contains(&day) {
        return None;
    }
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let mut millis = 0;
    if let Some(fraction) = rest.strip_prefix(b".") {
        let length = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
        millis = thousandths(&fraction[..length])?;
        rest = &fraction[length..];
    }
    let offset_minutes = match rest {
        b"Z" | b"z" => 0,
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let digits = [*h1, *h2, *m1, *m2];
            let all = digits.iter().all(u8::is_ascii_digit).then(|| integer(&digits)).flatten()?;
            let (hours, minutes) = (all / 100, all % 100);
            if hours > 23 || minutes > 59 {
                return None;
            }
            let minutes = hours * 60 + minutes;
            if *sign == b'-' { -minutes } else { minutes }
        }
        _ => return None,
    };
    let days = days_since_1970(year, month, day);
    let seconds = ((days * 24 + hour) * 60 + minute - offset_minutes) * 60 + second;
    Some(seconds * 1_000 + millis)
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days before the date, by whole years and the months before; negative before 1970.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    const BEFORE_MONTH: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    // Leap days up to the end of the year before.
    let leap_days = |year: i64| {
        let past = year - 1;
        past.div_euclid(4) - past.div_euclid(100) + past.div_euclid(400)
    };
    let of_year = BEFORE_MONTH[(month - 1) as usize] + i64::from(month > 2 && is_leap(year));
    (year - 1970) * 365 + leap_days(year) - leap_days(1970) + of_year + day - 1
}

#[cfg(test)]
#[path = "value_tests.rs"]
mod tests;
