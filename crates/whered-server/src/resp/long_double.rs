//! Numbers with 64 binary digits, as the `long double` of x86 has them, for `INCRBYFLOAT`.
//!
//! For: reading a text, adding, and printing with up to 17 decimals, each rounded once, to
//! the nearest and to the even one of two, so that the texts are those of Redis. Not for: scores,
//! which have 53 binary digits.
//!
//! ```text
//! value = (-1)^negative * mantissa * 2^exponent        mantissa: 64 bits, the highest set, or 0
//! ```
//!
//! A text beyond the largest number, or so small that it vanishes, is no number, as for the C
//! library. Numbers below 2^-16382 keep all their digits here, which no printed text shows.
//! Cost: O(n^2) with n digits, of which there are 5,000 at most.

/// How long a text may be: the buffer of Redis.
const TEXT_BYTES_MAX: usize = 5 * 1024;
/// Decimals that are printed.
const DECIMALS: u32 = 17;
/// The limits of the exponent of the highest bit.
const HIGHEST_EXPONENT: i64 = 16_383;
const LOWEST_EXPONENT: i64 = -16_445;

/// See the file's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LongDouble {
    negative: bool,
    mantissa: u64,
    exponent: i64,
}

impl LongDouble {
    pub(crate) const ZERO: LongDouble = LongDouble { negative: false, mantissa: 0, exponent: 0 };

    /// What has no sum.
    const INFINITY: LongDouble =
        LongDouble { negative: false, mantissa: 1 << 63, exponent: HIGHEST_EXPONENT + 1 - 63 };

    /// Reads a text that is a number as a whole: decimal, hexadecimal behind `0x`, or infinite.
    pub(crate) fn read(text: &[u8]) -> Option<LongDouble> {
        let (negative, body) = match text {
            [b'-', body @ ..] => (true, body),
            [b'+', body @ ..] | body => (false, body),
        };
        if text.len() >= TEXT_BYTES_MAX {
            return None;
        }
        if [&b"inf"[..], b"infinity"].iter().any(|name| body.eq_ignore_ascii_case(name)) {
            return Some(LongDouble { negative, ..LongDouble::INFINITY });
        }
        let (radix, body) = match body {
            [b'0', b'x' | b'X', body @ ..] => (16, body),
            body => (10, body),
        };
        let marks = if radix == 16 { b"pP" } else { b"eE" };
        let end = body.iter().position(|byte| marks.contains(byte)).unwrap_or(body.len());
        let exponent = match body.get(end + 1..) {
            None => Some(0),
            Some(digits) => read_exponent(digits)?,
        };
        let mut parts = body[..end].splitn(2, |byte| *byte == b'.');
        let (whole, fraction) = (parts.next()?, parts.next().unwrap_or_default());
        if whole.len() + fraction.len() == 0 {
            return None;
        }
        let mut digits = Natural::default();
        for digit in whole.iter().chain(fraction) {
            digits.multiply(radix);
            digits.add(char::from(*digit).to_digit(radix)?);
        }
        if digits.bits() == 0 {
            return Some(LongDouble { negative, ..LongDouble::ZERO });
        }
        let exponent = exponent?;
        let fraction = fraction.len() as i64;
        let value = if radix == 16 {
            let value = LongDouble::of_decimal(negative, digits, 0);
            let exponent = value.exponent.checked_add(exponent)?.checked_sub(4 * fraction)?;
            LongDouble { exponent, ..value }
        } else {
            let ten_exponent = exponent.checked_sub(fraction)?;
            if !(-10_000..=10_000).contains(&ten_exponent) {
                return None;
            }
            LongDouble::of_decimal(negative, digits, ten_exponent)
        };
        let highest = value.exponent.checked_add(63)?;
        (LOWEST_EXPONENT..=HIGHEST_EXPONENT).contains(&highest).then_some(value)
    }

    /// The nearest to `digits * 10^ten_exponent`; there are digits.
    fn of_decimal(negative: bool, mut digits: Natural, ten_exponent: i64) -> LongDouble {
        let mut power = Natural::of(1);
        for _ in 0..ten_exponent.unsigned_abs() {
            power.multiply(10);
        }
        if ten_exponent >= 0 {
            digits = digits.times(&power);
            power = Natural::of(1);
        }
        // The quotient gets 66 bits at least: 64, one to round by, and one to spare.
        let shift = 66 + power.bits() as i64 - digits.bits() as i64;
        let (dividend, divisor) = match shift {
            0.. => (digits.shifted(shift as usize), power),
            _ => (digits, power.shifted(shift.unsigned_abs() as usize)),
        };
        let (quotient, has_rest) = dividend.quotient_of(&divisor);
        LongDouble::rounded(negative, quotient, has_rest, -shift)
    }

    /// The nearest to `(value + rest) * 2^exponent`, where the rest is below 1.
    fn rounded(negative: bool, value: u128, has_rest: bool, exponent: i64) -> LongDouble {
        let bits = i64::from(128 - value.leading_zeros());
        let cut = bits - 64;
        if cut <= 0 {
            let mantissa = (value as u64) << -cut;
            return LongDouble { negative, mantissa, exponent: exponent + cut };
        }
        let (kept, rest) = ((value >> cut) as u64, value & ((1 << cut) - 1));
        let half = 1_u128 << (cut - 1);
        let is_up = rest > half || (rest == half && (has_rest || kept % 2 == 1));
        match kept.checked_add(u64::from(is_up)) {
            Some(mantissa) => LongDouble { negative, mantissa, exponent: exponent + cut },
            None => LongDouble { negative, mantissa: 1 << 63, exponent: exponent + cut + 1 },
        }
    }

    /// The sum; `None` when it is infinite or no number.
    pub(crate) fn plus(self, other: &LongDouble) -> Option<LongDouble> {
        let is_infinite = |number: &LongDouble| number.exponent + 63 > HIGHEST_EXPONENT;
        if is_infinite(&self) || is_infinite(other) {
            return None;
        }
        if self.mantissa == 0 || other.mantissa == 0 {
            let is_zero = self.mantissa == 0 && other.mantissa == 0;
            let negative = self.negative && other.negative;
            let sum = if self.mantissa == 0 { *other } else { self };
            return Some(if is_zero { LongDouble { negative, ..LongDouble::ZERO } } else { sum });
        }
        let (large, small) = match self.exponent >= other.exponent {
            true => (self, *other),
            false => (*other, self),
        };
        // Both with 62 bits below the larger one; what is lower decides only whether it is a tie.
        let distance = large.exponent - small.exponent;
        let value = u128::from(large.mantissa) << 62;
        let wide = u128::from(small.mantissa) << 62;
        let (moved, has_rest) = match distance {
            0..=127 => (wide >> distance, wide & ((1_u128 << distance) - 1) != 0),
            _ => (0, true),
        };
        let (sum, negative) = if large.negative == small.negative {
            (value + moved, large.negative)
        } else if value >= moved + u128::from(has_rest) {
            // A rest is taken from one unit more, of which it leaves a rest.
            (value - moved - u128::from(has_rest), large.negative)
        } else {
            (moved - value, small.negative)
        };
        if sum == 0 {
            return Some(LongDouble::ZERO);
        }
        let sum = LongDouble::rounded(negative, sum, has_rest, large.exponent - 62);
        (sum.exponent + 63 <= HIGHEST_EXPONENT).then_some(sum)
    }

    /// The text: up to 17 decimals, without trailing zeros, and never an exponent.
    pub(crate) fn print(self) -> String {
        let (whole, fraction) = match self.exponent {
            0.. => {
                (Natural::of(self.mantissa).shifted(self.exponent as usize).print(), String::new())
            }
            _ => {
                let scaled = u128::from(self.mantissa) * 10_u128.pow(DECIMALS);
                let cut = self.exponent.unsigned_abs();
                let rounded = if cut >= 128 { 0 } else { rounded_shift(scaled, cut as u32) };
                let unit = 10_u128.pow(DECIMALS);
                ((rounded / unit).to_string(), format!("{:017}", rounded % unit))
            }
        };
        let sign = if self.negative { "-" } else { "" };
        let text = match fraction.trim_end_matches('0') {
            "" => format!("{sign}{whole}"),
            fraction => format!("{sign}{whole}.{fraction}"),
        };
        // As Redis has it.
        if text == "-0" { "0".to_owned() } else { text }
    }
}

/// The nearest to `value / 2^cut`, or the even one of two; `cut` is from 1 to 127.
fn rounded_shift(value: u128, cut: u32) -> u128 {
    let (kept, rest) = (value >> cut, value & ((1 << cut) - 1));
    let half = 1_u128 << (cut - 1);
    kept + u128::from(rest > half || (rest == half && kept % 2 == 1))
}

/// A number of any size, the lowest 32 bits first; no zeros at the end.
#[derive(Clone, Default, Debug)]
struct Natural(Vec<u32>);

impl Natural {
    fn of(value: u64) -> Natural {
        let mut natural = Natural(vec![value as u32, (value >> 32) as u32]);
        natural.trim();
        natural
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    fn bits(&self) -> usize {
        self.0.last().map_or(0, |last| 32 * self.0.len() - last.leading_zeros() as usize)
    }

    fn multiply(&mut self, by: u32) {
        let mut carry = 0_u64;
        for part in &mut self.0 {
            let product = u64::from(*part) * u64::from(by) + carry;
            (*part, carry) = (product as u32, product >> 32);
        }
        self.carry(carry);
    }

    fn add(&mut self, value: u32) {
        let mut carry = u64::from(value);
        for part in &mut self.0 {
            let sum = u64::from(*part) + carry;
            (*part, carry) = (sum as u32, sum >> 32);
        }
        self.carry(carry);
    }

    fn carry(&mut self, carry: u64) {
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    fn times(&self, other: &Natural) -> Natural {
        let mut product = vec![0_u32; self.0.len() + other.0.len()];
        for (at, part) in self.0.iter().enumerate() {
            let mut carry = 0_u64;
            for (slot, factor) in product[at..].iter_mut().zip(other.0.iter().chain([&0])) {
                let sum = u64::from(*slot) + u64::from(*part) * u64::from(*factor) + carry;
                (*slot, carry) = (sum as u32, sum >> 32);
            }
        }
        let mut product = Natural(product);
        product.trim();
        product
    }

    fn shifted(&self, bits: usize) -> Natural {
        let mut shifted = vec![0; bits / 32];
        shifted.extend_from_slice(&self.0);
        let mut shifted = Natural(shifted);
        shifted.multiply(1 << (bits % 32));
        shifted
    }

    /// The quotient of at most 128 bits, and whether there is a rest: bit by bit.
    fn quotient_of(&self, by: &Natural) -> (u128, bool) {
        let mut rest = self.clone();
        let mut quotient = 0_u128;
        let most = (self.bits() + 1).saturating_sub(by.bits());
        for bit in (0..most).rev() {
            let part = by.shifted(bit);
            quotient <<= 1;
            if !rest.is_below(&part) {
                rest.subtract(&part);
                quotient |= 1;
            }
        }
        (quotient, !rest.0.is_empty())
    }

    fn is_below(&self, other: &Natural) -> bool {
        match self.0.len().cmp(&other.0.len()) {
            std::cmp::Ordering::Equal => self.0.iter().rev().lt(other.0.iter().rev()),
            order => order == std::cmp::Ordering::Less,
        }
    }

    /// Subtracts what is not larger.
    fn subtract(&mut self, other: &Natural) {
        let mut borrow = 0_i64;
        for (at, part) in self.0.iter_mut().enumerate() {
            let own = i64::from(other.0.get(at).copied().unwrap_or(0));
            let difference = i64::from(*part) - own - borrow;
            borrow = i64::from(difference < 0);
            *part = difference as u32;
        }
        self.trim();
    }

    fn print(&self) -> String {
        let mut rest = self.clone();
        let mut groups = Vec::new();
        while !rest.0.is_empty() {
            let mut remainder = 0_u64;
            for part in rest.0.iter_mut().rev() {
                let value = remainder << 32 | u64::from(*part);
                (*part, remainder) = ((value / 1_000_000_000) as u32, value % 1_000_000_000);
            }
            rest.trim();
            groups.push(remainder);
        }
        let first = groups.pop().unwrap_or(0).to_string();
        groups.iter().rev().fold(first, |text, group| text + &format!("{group:09}"))
    }
}

/// An exponent with or without a sign; `Some(None)` is one beyond 64 bits.
fn read_exponent(text: &[u8]) -> Option<Option<i64>> {
    let digits = match text {
        [b'+' | b'-', digits @ ..] => digits,
        digits => digits,
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(std::str::from_utf8(text).ok()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(one: &str, other: &str) -> Option<String> {
        let read = |text: &str| LongDouble::read(text.as_bytes()).expect("a number");
        read(one).plus(&read(other)).map(LongDouble::print)
    }

    /// What Redis 7.0.15 on x86-64 answers.
    #[test]
    fn sums_are_those_of_redis() {
        let cases = [
            ("10.5", "0.1", "10.6"),
            ("3.0e3", "200", "3200"),
            ("0.1", "0.2", "0.3"),
            ("-5", "5", "0"),
            ("1e10", "1e-10", "10000000000"),
            ("9007199254740993", "1", "9007199254740994"),
            ("18446744073709551615", "1", "18446744073709551616"),
            ("1.1", "-1.1", "0"),
            ("0", "1e-18", "0"),
            ("0", "-1e-19", "0"),
            ("123456789.123456789", "987654321.987654321", "1111111111.11111110995989293"),
            ("1e19", "0.5", "10000000000000000000"),
            ("0x10", "0x1.8p1", "19"),
            ("0", "1e-4940", "0"),
            ("1", "1e-4000", "1"),
            ("0.5", "1e22", "10000000000000000000000"),
            ("7", "-1e-17", "6.99999999999999999"),
            ("0", "5e-18", "0"),
            ("0", "1.5e-17", "0.00000000000000002"),
            ("0", "2.5e-17", "0.00000000000000002"),
        ];
        for (one, other, expected) in cases {
            assert_eq!(sum(one, other).as_deref(), Some(expected), "{one} + {other}");
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        let texts: [&[u8]; 18] = [
            b"",
            b"-",
            b".",
            b"e5",
            b"1e",
            b" 1",
            b"1 ",
            b"1_0",
            b"nan",
            b"abc",
            b"1e5000",
            b"1e99999999999999999999",
            b"0x",
            b"0xp1",
            b"0x1p99999",
            b"1e-4960",
            b"infinit",
            b"+-1",
        ];
        for text in texts {
            assert_eq!(LongDouble::read(text), None, "{}", text.escape_ascii());
        }
        let largest = LongDouble::read(b"1e4932").expect("a number");
        assert_eq!(largest.plus(&largest).map(LongDouble::print), None, "beyond the largest");
        assert!(
            largest.print().starts_with("1000000000000000000006018949387963891323837774254533")
        );
        let infinite = LongDouble::read(b"-Inf").expect("it is read");
        assert_eq!(infinite.plus(&LongDouble::ZERO), None);
        assert_eq!(LongDouble::read(&[b'1'; 6000]), None, "too long");
    }

    #[test]
    fn a_text_cut_at_any_byte_is_a_number_or_none_and_prints_one() {
        for text in ["-123456.789e-5", "0x1f.8p-12", "+infinity", "1e4931", "0.00000000000000001"] {
            for end in 0..=text.len() {
                let Some(read) = LongDouble::read(&text.as_bytes()[..end]) else { continue };
                let Some(sum) = read.plus(&LongDouble::ZERO) else { continue };
                let again = LongDouble::read(sum.print().as_bytes()).expect("it is a number");
                assert_eq!(again.print(), sum.print(), "{text} up to {end}");
            }
        }
    }

    #[test]
    fn a_zero_has_any_exponent_and_another_number_one_in_its_range() {
        for text in
            ["0e99999999999999999999", "0.0e-99999999999999999999", "0x0p99999999999999999999"]
        {
            assert_eq!(LongDouble::read(text.as_bytes()), Some(LongDouble::ZERO), "{text}");
        }
        for text in ["1e99999999999999999999", "0e", "0e+", "0e1x", "0e--1"] {
            assert_eq!(LongDouble::read(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn sums_of_numbers_that_a_double_holds_are_exact() {
        for (one, other) in [(1.5, 2.25), (-1024.0, 0.5), (1e15, -1.0), (3.75, -3.5)] {
            let expected = format!("{}", one + other);
            assert_eq!(sum(&one.to_string(), &other.to_string()), Some(expected));
        }
    }
}
