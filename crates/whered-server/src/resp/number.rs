//! Numbers as Redis reads them from arguments.
//!
//! For: which texts are integers and floats, to the letter of Redis 7.0.15 and the C library
//! behind it: a client may send `0x1p3`, `inf` or `+.5e1` and gets the same answer here.
//! Not for: printing numbers (`reply`), ranges of places (`whered-geo`).
//!
//! Cost: one pass over the text; nothing is allocated for ordinary decimal numbers.

/// Reads an integer strictly: digits with an optional `-`, no `+`, no leading zero, no blank.
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut value: u64 = 0;
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        // At most 19 digits: no overflow before the last step, and u64 holds that one too.
        value = value * 10 + u64::from(digit);
    }
    if negative {
        // The smallest number has no positive counterpart.
        (value <= i64::MIN.unsigned_abs()).then(|| (value as i64).wrapping_neg())
    } else {
        i64::try_from(value).ok()
    }
}

/// Reads a float that fills the whole text: no blank, no NaN, and nothing that overflows or
/// vanishes. Hexadecimal and `inf` are numbers, as for the C library.
pub(crate) fn float(text: &[u8]) -> Option<f64> {
    if let Some(value) = plain_decimal(text) {
        return Some(value);
    }
    if text.first().is_none_or(|first| is_space(*first)) {
        return None;
    }
    let scanned = scan_float(text)?;
    let fits = scanned.length == text.len() && !scanned.value.is_nan() && !scanned.out_of_range;
    fits.then_some(scanned.value)
}

/// Powers of ten that a float holds exactly.
const EXACT_POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// Reads digits with an optional sign and an optional point, if both the digits and the power of
/// ten below them are floats: their quotient is rounded once, as the nearest float to the text is
/// (Clinger, "How to read floating point numbers accurately", 1990). `None` says nothing.
fn plain_decimal(text: &[u8]) -> Option<f64> {
    let (negative, body) = match text {
        [b'-', body @ ..] => (true, body),
        [b'+', body @ ..] | body => (false, body),
    };
    if body.len() > EXACT_POWERS.len() {
        return None;
    }
    let (mut digits, mut pointed_at) = (0u64, None);
    for (at, &byte) in body.iter().enumerate() {
        match byte.wrapping_sub(b'0') {
            digit @ 0..=9 => digits = digits.checked_mul(10)?.checked_add(u64::from(digit))?,
            _ if byte == b'.' && pointed_at.is_none() => pointed_at = Some(at),
            _ => return None,
        }
    }
    let fraction = pointed_at.map_or(0, |at| body.len() - at - 1);
    let count = body.len() - usize::from(pointed_at.is_some());
    if count == 0 || digits > 1 << f64::MANTISSA_DIGITS {
        return None;
    }
    let value = digits as f64 / EXACT_POWERS[fraction];
    Some(if negative { -value } else { value })
}

/// Reads a float as a limit of a score range: leading blanks, an empty text (0) and numbers out
/// of range are taken, and the text ends at its first zero byte.
pub(crate) fn score_limit(text: &[u8]) -> Option<f64> {
    whole_number(text).map(|scanned| scanned.value)
}

/// Reads a float as a weight of `SORT`: as [`score_limit`], but a number out of range is none.
pub(crate) fn weight(text: &[u8]) -> Option<f64> {
    whole_number(text).filter(|scanned| !scanned.out_of_range).map(|scanned| scanned.value)
}

/// The number that a text holds up to its first zero byte, behind blanks; 0 for an empty text.
fn whole_number(text: &[u8]) -> Option<ScannedNumber> {
    let text = until_zero(text);
    if text.is_empty() {
        return Some(ScannedNumber { value: 0.0, length: 0, out_of_range: false });
    }
    let blanks = text.iter().take_while(|byte| is_space(**byte)).count();
    let scanned = scan_float(&text[blanks..])?;
    let is_whole = blanks + scanned.length == text.len();
    Some(scanned).filter(|scanned| is_whole && !scanned.value.is_nan())
}

/// Reads an unsigned cursor as `strtoul` does: a sign is taken, `-1` is the largest number, and
/// an empty text is 0.
pub(crate) fn cursor(text: &[u8]) -> Option<u64> {
    let text = until_zero(text);
    let (negative, digits) = match text {
        [] => return Some(0),
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value: u64 = 0;
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(if negative { value.wrapping_neg() } else { value })
}

/// The text up to its first zero byte, as C sees it.
pub(crate) fn until_zero(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    &text[..end]
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// The longest number at the beginning of a text.
struct ScannedNumber {
    value: f64,
    length: usize,
    /// Larger than the largest or smaller than the smallest number (`ERANGE` with an infinite or
    /// zero result).
    out_of_range: bool,
}

fn scan_float(text: &[u8]) -> Option<ScannedNumber> {
    let sign_length = usize::from(matches!(text.first(), Some(b'+' | b'-')));
    let negative = text.first() == Some(&b'-');
    let body = &text[sign_length..];
    let mut scanned =
        scan_named(body).or_else(|| scan_hexadecimal(body)).or_else(|| scan_decimal(body))?;
    scanned.length += sign_length;
    if negative {
        scanned.value = -scanned.value;
    }
    Some(scanned)
}

fn scan_named(body: &[u8]) -> Option<ScannedNumber> {
    let starts =
        |name: &[u8]| body.len() >= name.len() && body[..name.len()].eq_ignore_ascii_case(name);
    let (value, length) = if starts(b"infinity") {
        (f64::INFINITY, 8)
    } else if starts(b"inf") {
        (f64::INFINITY, 3)
    } else if starts(b"nan") {
        (f64::NAN, 3)
    } else {
        return None;
    };
    Some(ScannedNumber { value, length, out_of_range: false })
}

fn scan_decimal(body: &[u8]) -> Option<ScannedNumber> {
    let digits = |from: usize| body[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = digits(0);
    let mut length = whole;
    let mut fraction = 0;
    if body.get(length) == Some(&b'.') {
        fraction = digits(length + 1);
        length += 1 + fraction;
    }
    if whole + fraction == 0 {
        return None;
    }
    let mantissa_length = length;
    if matches!(body.get(length), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(body.get(length + 1), Some(b'+' | b'-')));
        let exponent = if body.len() > length + 1 + sign { digits(length + 1 + sign) } else { 0 };
        if exponent > 0 {
            length += 1 + sign + exponent;
        }
    }
    let text = std::str::from_utf8(&body[..length]).ok()?;
    let value: f64 = text.parse().ok()?;
    let nothing_but_zeros = body[..mantissa_length].iter().all(|byte| matches!(byte, b'0' | b'.'));
    let out_of_range = value.is_infinite() || (value == 0.0 && !nothing_but_zeros);
    Some(ScannedNumber { value, length, out_of_range })
}

/// `0x`, hexadecimal digits with an optional point, and optionally `p` and a binary exponent.
fn scan_hexadecimal(body: &[u8]) -> Option<ScannedNumber> {
    if !matches!(body, [b'0', b'x' | b'X', ..]) {
        return None;
    }
    let mut mantissa: u64 = 0;
    let mut exponent: i64 = 0;
    let (mut length, mut digits, mut pointed) = (2, 0usize, false);
    while let Some(byte) = body.get(length) {
        match char::from(*byte).to_digit(16) {
            Some(digit) => {
                digits += 1;
                // 60 bits are kept; what is lost below them only matters as "not zero".
                if mantissa >> 60 == 0 {
                    mantissa = mantissa << 4 | u64::from(digit);
                    exponent -= if pointed { 4 } else { 0 };
                } else {
                    mantissa |= u64::from(digit != 0);
                    exponent += if pointed { 0 } else { 4 };
                }
            }
            None if *byte == b'.' && !pointed => pointed = true,
            None => break,
        }
        length += 1;
    }
    if digits == 0 {
        // `0x` without digits is the number 0 followed by something else.
        return None;
    }
    if matches!(body.get(length), Some(b'p' | b'P')) {
        let (power, power_length) = binary_exponent(&body[length + 1..]);
        if power_length > 0 {
            exponent = exponent.saturating_add(power);
            length += 1 + power_length;
        }
    }
    let value = scale(mantissa, exponent);
    let out_of_range = value.is_infinite() || (value == 0.0 && mantissa != 0);
    Some(ScannedNumber { value, length, out_of_range })
}

/// A signed decimal exponent, held within ±10^6, and its length in bytes (0: none).
fn binary_exponent(text: &[u8]) -> (i64, usize) {
    let sign = usize::from(matches!(text.first(), Some(b'+' | b'-')));
    let digits = text[sign..].iter().take_while(|byte| byte.is_ascii_digit());
    let (mut value, mut count) = (0i64, 0);
    for digit in digits {
        value = (value * 10 + i64::from(digit - b'0')).min(1_000_000);
        count += 1;
    }
    let value = if text.first() == Some(&b'-') { -value } else { value };
    if count == 0 { (0, 0) } else { (value, sign + count) }
}

/// `mantissa * 2^exponent`, rounded once to nearest even.
fn scale(mantissa: u64, exponent: i64) -> f64 {
    if mantissa == 0 {
        return 0.0;
    }
    let top = 63 - i64::from(mantissa.leading_zeros());
    // Below 2^-1022 fewer than 53 bits are left.
    let kept_bits = (53 - (-1022 - (top + exponent)).max(0)).min(53);
    if kept_bits < 0 {
        return 0.0;
    }
    let dropped = (top + 1 - kept_bits).max(0) as u32;
    let mut kept = if dropped >= 64 { 0 } else { mantissa >> dropped };
    if dropped > 0 {
        let rest = if dropped >= 64 { mantissa } else { mantissa & ((1 << dropped) - 1) };
        let half = 1u64 << (dropped - 1);
        if rest > half || (rest == half && kept & 1 == 1) {
            kept += 1;
        }
    }
    let mut power = exponent + i64::from(dropped);
    let mut value = kept as f64;
    // Two or three exact steps: a power of two beyond the range of f64 cannot be written at once.
    while power != 0 && value != 0.0 && value.is_finite() {
        let step = power.clamp(-1000, 1000) as i32;
        value *= 2f64.powi(step);
        power -= i64::from(step);
    }
    value
}

#[cfg(test)]
#[path = "number_tests.rs"]
mod tests;
