//! Replies: values → bytes of RESP2 or RESP3, appended to one buffer.
//!
//! For: every form of reply that the commands give, and numbers printed as Redis 7.0.15 prints
//! them, to the last digit.
//! Not for: sending (`connection`), nor for what is in a reply (`commands`).
//!
//! ```text
//! RESP2: +OK  -ERR x  :7  $3 abc  $-1       *-1         *2 ..  (map: *2n)  $2 7.5
//! RESP3: +OK  -ERR x  :7  $3 abc  _         _           *2 ..  %n ..       ,7.5     =7 txt:...
//! ```
//!
//! Cost: a copy of the bytes; integers and fixed decimals are printed without allocation.

use std::borrow::Cow;

use whered_engine::{Ticket, WriteError};

use super::double;

/// The version of the protocol that a client has chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Protocol {
    /// What every client speaks at first.
    Resp2,
    /// What `HELLO 3` asks for.
    Resp3,
}

/// An error reply: its text begins with a code such as `ERR`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure(Cow<'static, [u8]>);

impl Failure {
    /// A text known beforehand.
    pub(crate) const fn text(text: &'static str) -> Failure {
        Failure(Cow::Borrowed(text.as_bytes()))
    }

    /// A text with a client's words in it.
    pub(crate) fn made(text: impl Into<Vec<u8>>) -> Failure {
        Failure(Cow::Owned(text.into()))
    }
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Failure {
        Failure::made(match &error {
            WriteError::WrongKind => format!("WRONGTYPE {error}"),
            WriteError::Full(_) | WriteError::Poisoned(_) => {
                format!("MISCONF {error}; writes are refused, reads go on")
            }
            _ => format!("ERR {error}"),
        })
    }
}

/// The replies of one connection that have not been sent, and how they are written.
pub(crate) struct Reply {
    /// The bytes.
    pub(crate) out: Vec<u8>,
    /// How they are written.
    pub(crate) protocol: Protocol,
    ticket: Ticket,
}

impl Reply {
    /// No replies yet, in RESP2.
    pub(crate) fn new() -> Reply {
        Reply { out: Vec::new(), protocol: Protocol::Resp2, ticket: Ticket::NONE }
    }

    /// A part of this reply that is written before it is known where it stands.
    pub(crate) fn beside(&self) -> Reply {
        Reply { protocol: self.protocol, ..Reply::new() }
    }

    /// The reply of the present command must wait for this write.
    pub(crate) fn hold(&mut self, ticket: Ticket) {
        self.ticket = self.ticket.max(ticket);
    }

    /// What the present command's reply has to wait for; asked once a command.
    pub(crate) fn take_ticket(&mut self) -> Ticket {
        std::mem::replace(&mut self.ticket, Ticket::NONE)
    }

    /// `+OK`.
    pub(crate) fn ok(&mut self) {
        self.simple("OK");
    }

    /// A word of our own.
    pub(crate) fn simple(&mut self, word: &str) {
        self.out.push(b'+');
        self.out.extend_from_slice(word.as_bytes());
        self.end_line();
    }

    /// An error; line breaks and what follows a zero byte cannot be part of it.
    pub(crate) fn error(&mut self, failure: &Failure) {
        append_error(&mut self.out, &failure.0);
    }

    /// An integer.
    pub(crate) fn integer(&mut self, value: i64) {
        self.out.push(b':');
        if value < 0 {
            self.out.push(b'-');
        }
        append_digits(&mut self.out, value.unsigned_abs());
        self.end_line();
    }

    /// A count of things.
    pub(crate) fn count(&mut self, value: usize) {
        self.header(b':', value);
    }

    /// A string of bytes.
    pub(crate) fn bulk(&mut self, bytes: &[u8]) {
        self.header(b'$', bytes.len());
        self.out.extend_from_slice(bytes);
        self.end_line();
    }

    /// No string.
    pub(crate) fn null(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// No array.
    pub(crate) fn null_array(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"*-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// The beginning of an array; its elements follow.
    pub(crate) fn array(&mut self, len: usize) {
        self.header(b'*', len);
    }

    /// The beginning of a set.
    pub(crate) fn set(&mut self, len: usize) {
        self.header(if self.protocol == Protocol::Resp3 { b'~' } else { b'*' }, len);
    }

    /// The beginning of a map; as many keys with their values follow.
    pub(crate) fn map(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.header(b'*', 2 * len),
            Protocol::Resp3 => self.header(b'%', len),
        }
    }

    /// A text for people.
    pub(crate) fn verbatim(&mut self, text: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => {
                self.header(b'=', text.len() + 4);
                self.out.extend_from_slice(b"txt:");
                self.out.extend_from_slice(text);
                self.end_line();
            }
        }
    }

    /// A sorted set's score; the scores of points are whole numbers below 2^54.
    pub(crate) fn score(&mut self, value: u64) {
        let mut digits = Fixed::default();
        digits.push_integer(value);
        self.number(digits.as_bytes());
    }

    /// Any score of a sorted set.
    pub(crate) fn double(&mut self, value: f64) {
        // Cells, and most other scores, need no text to be made.
        if (0.0..1e17).contains(&value) && value.trunc() == value && value.is_sign_positive() {
            return self.score(value as u64);
        }
        self.number(double::print(value).as_bytes());
    }

    /// A longitude or latitude: up to 17 decimals without trailing zeros.
    pub(crate) fn coordinate(&mut self, degrees: f64) {
        let mut digits = Fixed::print(degrees, 17);
        digits.trim();
        self.number(digits.as_bytes());
    }

    /// A distance: a string with four decimals in both protocols.
    ///
    /// Redis multiplies by 10,000 and rounds that product half to even, which is not always the
    /// nearest decimal: a hair below a half can become one by the multiplication.
    pub(crate) fn distance(&mut self, value: f64) {
        let scaled = (value * 10_000.0).round_ties_even() as u64;
        let mut digits = Fixed::default();
        digits.push_integer(scaled / 10_000);
        digits.push_fraction(u128::from(scaled % 10_000), 10_000);
        self.bulk(digits.as_bytes());
    }

    fn number(&mut self, text: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => {
                self.out.push(b',');
                self.out.extend_from_slice(text);
                self.end_line();
            }
        }
    }

    fn header(&mut self, kind: u8, len: usize) {
        self.out.push(kind);
        append_digits(&mut self.out, len as u64);
        self.end_line();
    }

    fn end_line(&mut self) {
        self.out.extend_from_slice(b"\r\n");
    }
}

/// Appends an error line.
pub(crate) fn append_error(out: &mut Vec<u8>, text: &[u8]) {
    let text = super::number::until_zero(text);
    let is_break = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let end = text.iter().rposition(|byte| !is_break(byte)).map_or(0, |last| last + 1);
    let start = text[..end].iter().take_while(|byte| is_break(byte)).count();
    out.push(b'-');
    out.extend(text[start..end].iter().map(|byte| if is_break(byte) { b' ' } else { *byte }));
    out.extend_from_slice(b"\r\n");
}

/// Appends the decimal digits of a number.
fn append_digits(out: &mut Vec<u8>, mut value: u64) {
    if value < 10 {
        out.push(b'0' + value as u8);
        return;
    }
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    while value > 0 {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
    }
    out.extend_from_slice(&digits[at..]);
}

/// A number in decimal notation, printed without allocation when it is of usual size.
///
/// A finite number is `mantissa * 2^exponent` with a mantissa below 2^53, so times 10^17 it is
/// below 2^110: shifting that right and rounding the rest half to even gives exactly what the C
/// library prints.
struct Fixed {
    digits: [u8; 64],
    len: usize,
    /// Numbers from 2^53 on, which need more digits than fit.
    long: Option<String>,
}

impl Default for Fixed {
    fn default() -> Fixed {
        Fixed { digits: [0; 64], len: 0, long: None }
    }
}

impl Fixed {
    fn print(value: f64, decimals: u32) -> Fixed {
        let mut fixed = Fixed::default();
        let bits = value.to_bits();
        let biased = (bits >> 52 & 0x7ff) as i32;
        let fraction = bits & ((1 << 52) - 1);
        // At most 53 bits before the point; larger ones, infinities and NaN are rare.
        if biased >= 1075 {
            fixed.long = Some(print_long(value, decimals));
            return fixed;
        }
        let (mantissa, exponent) =
            if biased == 0 { (fraction, -1074) } else { (fraction | 1 << 52, biased - 1075) };
        let ten_power = 10u128.pow(decimals);
        let scaled = u128::from(mantissa) * ten_power;
        let rounded = shift_right_half_even(scaled, exponent.unsigned_abs());
        if value.is_sign_negative() {
            fixed.push(b'-');
        }
        let whole = u64::try_from(rounded / ten_power);
        fixed.push_integer(whole.expect("a mantissa of 53 bits stands before the point"));
        fixed.push_fraction(rounded % ten_power, ten_power);
        fixed
    }

    /// Takes trailing zeros away, then a trailing point; nothing is left of a negative zero's sign.
    fn trim(&mut self) {
        if let Some(long) = &mut self.long {
            if long.contains('.') {
                long.truncate(long.trim_end_matches('0').trim_end_matches('.').len());
            }
            return;
        }
        while self.len > 1 && self.digits[self.len - 1] == b'0' {
            self.len -= 1;
        }
        if self.digits[self.len - 1] == b'.' {
            self.len -= 1;
        }
        if &self.digits[..self.len] == b"-0" {
            self.digits[0] = b'0';
            self.len = 1;
        }
    }

    fn push(&mut self, byte: u8) {
        self.digits[self.len] = byte;
        self.len += 1;
    }

    fn push_integer(&mut self, value: u64) {
        let mut place = 1u64;
        while value / place >= 10 {
            place *= 10;
        }
        let mut rest = value;
        while place > 0 {
            self.push(b'0' + (rest / place) as u8);
            rest %= place;
            place /= 10;
        }
    }

    /// A point and as many digits as `ten_power` has zeros.
    fn push_fraction(&mut self, fraction: u128, ten_power: u128) {
        self.push(b'.');
        let (mut rest, mut place) = (fraction, ten_power / 10);
        while place > 0 {
            self.push(b'0' + (rest / place) as u8);
            rest %= place;
            place /= 10;
        }
    }

    fn as_bytes(&self) -> &[u8] {
        match &self.long {
            Some(long) => long.as_bytes(),
            None => &self.digits[..self.len],
        }
    }
}

fn print_long(value: f64, decimals: u32) -> String {
    if value.is_nan() {
        return if value.is_sign_negative() { "-nan" } else { "nan" }.to_owned();
    }
    format!("{value:.0$}", decimals as usize)
}

fn shift_right_half_even(value: u128, shift: u32) -> u128 {
    if shift == 0 {
        return value;
    }
    if shift >= 128 {
        // Below 2^110 / 2^128: less than a half.
        return 0;
    }
    let kept = value >> shift;
    let rest = value & ((1 << shift) - 1);
    let half = 1u128 << (shift - 1);
    kept + u128::from(rest > half || (rest == half && kept & 1 == 1))
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
