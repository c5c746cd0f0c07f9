//! Numbers → decimal digits, as Redis 7.0.15 prints them, to the last digit.
//!
//! For: integers, coordinates (17 decimals), distances (4 decimals).
//! Not for: where the digits go (`reply`), nor for reading numbers (`number`).
//!
//! ```text
//! 13.361389338970184 = mantissa * 2^-49
//! mantissa  │ whole, above bit 49 │ fraction, 49 bits ──* 10^17, >> 49, half to even──► 17 digits
//! ```
//!
//! A finite number is `mantissa * 2^-exponent` with a mantissa below 2^53. Its fraction times 10^17
//! is below 2^120: one product of 128 bits and a shift, rounded half to even, give exactly what the
//! C library prints. Cost: no division but by constants, no allocation.

/// 10^17: as many decimals as a coordinate has.
const COORDINATE_SCALE: u64 = 100_000_000_000_000_000;
/// Ten to the number of decimals that a distance has.
const DISTANCE_SCALE: u64 = 10_000;

/// The longest text that is written, a line for its length and the end of its own.
const BUFFER_BYTES: usize = 40 + 5 + 2;

/// `00` to `99`.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

/// The two digits of a number below 100.
#[inline]
pub(super) fn pair(number: u64) -> &'static [u8; 2] {
    &PAIRS[number as usize]
}

/// The text of one number. Digits are written from the end of the buffer towards its beginning.
pub(super) struct Decimal {
    /// A sign, 17 digits, a point, 17 decimals; or a sign and 20 digits. Around it there is room
    /// for what makes it a bulk string.
    bytes: [u8; BUFFER_BYTES],
    start: usize,
    end: usize,
    /// Numbers from 2^53 on with decimals, infinities and NaN.
    long: Option<Box<str>>,
}

impl Decimal {
    /// A whole number.
    pub(super) fn integer(value: u64) -> Decimal {
        let mut decimal = Decimal::empty();
        decimal.push_whole(value);
        decimal
    }

    /// A longitude or latitude: up to 17 decimals without trailing zeros.
    pub(super) fn coordinate(degrees: f64) -> Decimal {
        let mut decimal = Decimal::with_17_decimals(degrees);
        decimal.trim();
        decimal
    }

    /// A distance: four decimals.
    pub(super) fn distance(value: f64) -> Decimal {
        Decimal::ten_thousandths(ten_thousandths(value))
    }

    /// A number of ten-thousandths, as a distance.
    #[inline]
    pub(super) fn ten_thousandths(scaled: u64) -> Decimal {
        let mut decimal = Decimal::empty();
        decimal.push_digits(scaled % DISTANCE_SCALE, 4);
        decimal.push(b'.');
        decimal.push_whole(scaled / DISTANCE_SCALE);
        decimal
    }

    /// Appends the text as a bulk string.
    #[inline]
    pub(super) fn append_bulk(mut self, out: &mut Vec<u8>) {
        if let Some(long) = &self.long {
            return out.extend_from_slice(format!("${}\r\n{long}\r\n", long.len()).as_bytes());
        }
        let len = self.end - self.start;
        let end = self.end + 2;
        self.bytes[self.end..end].copy_from_slice(b"\r\n");
        self.push(b'\n');
        self.push(b'\r');
        self.push_whole(len as u64);
        self.push(b'$');
        out.extend_from_slice(&self.bytes[self.start..end]);
    }

    /// The text.
    pub(super) fn as_bytes(&self) -> &[u8] {
        match &self.long {
            Some(long) => long.as_bytes(),
            None => &self.bytes[self.start..self.end],
        }
    }

    #[inline]
    fn empty() -> Decimal {
        let end = BUFFER_BYTES - 2;
        Decimal { bytes: [0; BUFFER_BYTES], start: end, end, long: None }
    }

    fn with_17_decimals(value: f64) -> Decimal {
        let mut decimal = Decimal::empty();
        let Some((whole, decimals)) = split(value.abs()) else {
            decimal.long = Some(print_long(value).into());
            return decimal;
        };
        decimal.push_digits(decimals, 17);
        decimal.push(b'.');
        decimal.push_whole(whole);
        if value.is_sign_negative() {
            decimal.push(b'-');
        }
        decimal
    }

    /// Takes trailing zeros away, then a trailing point, then the sign of zero.
    fn trim(&mut self) {
        if let Some(long) = &mut self.long {
            if long.contains('.') {
                *long = long.trim_end_matches('0').trim_end_matches('.').into();
            }
            return;
        }
        while self.bytes[self.end - 1] == b'0' {
            self.end -= 1;
        }
        if self.bytes[self.end - 1] == b'.' {
            self.end -= 1;
        }
        if self.as_bytes() == b"-0" {
            self.start += 1;
        }
    }

    #[inline]
    fn push(&mut self, byte: u8) {
        self.start -= 1;
        self.bytes[self.start] = byte;
    }

    #[inline]
    fn push_pair(&mut self, number: u64) {
        self.start -= 2;
        self.bytes[self.start..self.start + 2].copy_from_slice(&PAIRS[number as usize]);
    }

    /// All digits of a number, at least one.
    #[inline]
    fn push_whole(&mut self, mut value: u64) {
        while value >= 100 {
            self.push_pair(value % 100);
            value /= 100;
        }
        if value >= 10 {
            self.push_pair(value);
        } else {
            self.push(b'0' + value as u8);
        }
    }

    /// The last `count` digits of a number, leading zeros included.
    #[inline]
    fn push_digits(&mut self, mut value: u64, count: usize) {
        for _ in 0..count / 2 {
            self.push_pair(value % 100);
            value /= 100;
        }
        if count % 2 == 1 {
            self.push(b'0' + (value % 10) as u8);
        }
    }
}

/// How many ten-thousandths of a distance are printed: never fewer for a longer one.
///
/// Redis multiplies by 10,000 and rounds that product half to even, which is not always the nearest
/// decimal: a hair below a half can become one by the multiplication.
#[inline]
pub(super) fn ten_thousandths(value: f64) -> u64 {
    /// Numbers of this size are whole, so that a sum with it is rounded half to even.
    const WHOLE: f64 = (1_u64 << 52) as f64;
    let scaled = value * DISTANCE_SCALE as f64;
    if (0.0..WHOLE / 2.0).contains(&scaled) {
        return (scaled + WHOLE).to_bits() - WHOLE.to_bits();
    }
    scaled.round_ties_even() as u64
}

/// A positive number's whole part and its decimals as a number of 17 digits; `None` from 2^52 on,
/// where a number has no fraction, and for what is no number.
fn split(value: f64) -> Option<(u64, u64)> {
    let bits = value.to_bits();
    let biased = bits >> 52;
    let fraction = bits & ((1 << 52) - 1);
    if biased >= 1075 {
        return None;
    }
    let (mantissa, shift) =
        if biased == 0 { (fraction, 1074) } else { (fraction | 1 << 52, 1075 - biased as u32) };
    if shift >= 64 {
        // Below 2^-11, and the product below 2^110.
        let scaled = u128::from(mantissa) * u128::from(COORDINATE_SCALE);
        return Some((0, shift_right_half_even(scaled, shift)));
    }
    let whole = mantissa >> shift;
    let rest = mantissa & ((1 << shift) - 1);
    let scaled = u128::from(rest) * u128::from(COORDINATE_SCALE);
    let decimals = shift_right_half_even(scaled, shift);
    // Rounding up may have made a whole one.
    Some(if decimals == COORDINATE_SCALE { (whole + 1, 0) } else { (whole, decimals) })
}

/// `value / 2^shift`, rounded half to even. The values here leave at most 57 bits.
fn shift_right_half_even(value: u128, shift: u32) -> u64 {
    if shift >= 128 {
        // Below 2^110 / 2^128: less than a half.
        return 0;
    }
    let kept = (value >> shift) as u64;
    let rest = value & ((1 << shift) - 1);
    let half = 1u128 << (shift - 1);
    kept + u64::from(rest > half || (rest == half && kept & 1 == 1))
}

fn print_long(value: f64) -> String {
    if value.is_nan() {
        return if value.is_sign_negative() { "-nan" } else { "nan" }.to_owned();
    }
    format!("{value:.17}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers without end, the same each time.
    fn random() -> impl Iterator<Item = u64> {
        std::iter::successors(Some(0x9e37_79b9_7f4a_7c15_u64), |state| {
            let state = state ^ state << 13;
            let state = state ^ state >> 7;
            Some(state ^ state << 17)
        })
    }

    fn text(decimal: &Decimal) -> &str {
        std::str::from_utf8(decimal.as_bytes()).unwrap()
    }

    #[test]
    fn coordinates_lose_their_trailing_zeros_and_nothing_else() {
        let cases = [
            (13.361_389_338_970_184, "13.36138933897018433"),
            (0.0, "0"),
            (-0.0, "0"),
            (-180.0, "-180"),
            (100.0, "100"),
            (0.5, "0.5"),
            (-85.05, "-85.04999999999999716"),
            (1e-20, "0"),
            (-1e-20, "0"),
            (1e20, "100000000000000000000"),
        ];
        for (value, expected) in cases {
            assert_eq!(text(&Decimal::coordinate(value)), expected);
        }
    }

    #[test]
    fn decimals_agree_with_the_exact_printer() {
        for (round, state) in (0..200_000u32).zip(random()) {
            let value = match round % 4 {
                0 => f64::from_bits(state),
                1 => (state % 40_000_000) as f64 / 2.0,
                2 => state as f64 / 32_768.0 / 1e9,
                _ => (state % 360_000_000) as f64 / 1e6 - 180.0,
            };
            if !value.is_nan() {
                assert_eq!(text(&Decimal::with_17_decimals(value)), format!("{value:.17}"));
            }
        }
    }

    #[test]
    fn a_fraction_that_rounds_to_one_is_carried() {
        let value = 1.0 - f64::EPSILON / 2.0;
        assert_eq!(text(&Decimal::with_17_decimals(value)), "0.99999999999999989");
        let least = f64::from_bits(1);
        assert_eq!(text(&Decimal::coordinate(least)), "0");
    }

    #[test]
    fn ten_thousandths_are_rounded_as_the_c_library_rounds() {
        for (round, state) in (0..200_000u32).zip(random()) {
            let value = match round % 4 {
                0 => f64::from_bits(state),
                1 => (state % 400_000_000) as f64 / 20_000.0,
                2 => ((1_u64 << 51) as f64 + (state % 64) as f64 - 32.0) / 1e4,
                _ => (state % 360_000_000) as f64 / 1e6 - 180.0,
            };
            let expected = (value * 1e4).round_ties_even() as u64;
            assert_eq!(ten_thousandths(value), expected, "{value}");
        }
    }

    #[test]
    fn a_bulk_string_is_the_text_with_its_length() {
        let cases =
            [0.0, 0.0049, 12.5, 6_372_797.560_8, -179.999_999_999, 1e-9, 1e16, 1e200, f64::NAN];
        for value in cases {
            let expected = |decimal: &Decimal| {
                let text = text(decimal);
                format!("before ${}\r\n{text}\r\n", text.len())
            };
            for make in [Decimal::coordinate, Decimal::distance] {
                let mut out = b"before ".to_vec();
                make(value).append_bulk(&mut out);
                assert_eq!(String::from_utf8_lossy(&out), expected(&make(value)));
            }
        }
    }

    #[test]
    fn integers_have_their_digits() {
        for value in [0, 9, 10, 99, 100, 12_345, 999_999, u64::MAX] {
            assert_eq!(text(&Decimal::integer(value)), value.to_string());
        }
    }
}
