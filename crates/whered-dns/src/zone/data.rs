//! Record data from text to wire form, part by part.
//!
//! Not for: owners, TTLs, directives (`master.rs`); which parts a type has (`forms.rs`); the types
//! that most records have, when there is nothing odd about them (`plain.rs`).
//!
//! ```text
//! MX     10 mail                 U16, Name            00 0a 04 m a i l 07 e x a m p l e ...
//! TYPEn  \# 3 010203             any type (RFC 3597)  01 02 03
//! ```
//!
//! Cost: linear in the text.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::lexer::Token;
use super::{mnemonics, odd_parts, service_parameters};
use crate::code::RecordType;
use crate::name::append_text;

/// The most bytes that a record's data have.
const DATA_BYTES_MAX: usize = u16::MAX as usize;
/// The most bytes of one character string.
const STRING_BYTES_MAX: usize = 255;

/// One part of a type's data as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    U8,
    U16,
    U32,
    /// 32 bits, also with units: `1h30m`.
    Seconds,
    /// `20301231235959`, or the seconds since 1970.
    Time,
    Name,
    Ipv4,
    Ipv6,
    /// A string with its length in front.
    String,
    OptionalString,
    /// One string or more. A longer one than 255 bytes becomes several, with a remark.
    Strings,
    /// One text without a length: it ends with the data.
    Rest,
    /// Letters and digits with their length in front.
    Tag,
    /// Hexadecimal digits in one token or more.
    Hex,
    Base64,
    OptionalBase64,
    /// `-` is none.
    Base64OrNone,
    /// Hexadecimal digits with their length in front; `-` is none.
    Salt,
    /// Base32 of RFC 4648's other alphabet, with its length in front.
    Hash,
    Type,
    /// A bitmap of types (RFC 4034, 4.1.2), which may be empty.
    Types,
    Algorithm,
    DigestType,
    CertificateType,
    Scheme,
    /// `xx-xx-...`
    Octets {
        count: usize,
    },
    /// Four groups of hexadecimal digits (RFC 6742, 2.1.2).
    Locator,
    /// TCP, UDP or a number.
    Protocol,
    /// Ports as a bitmap (RFC 1035, 3.4.2).
    Services,
    Nsap,
    Atm,
    Location,
    A6,
    AddressPrefixes,
    Gateway,
    HostIdentity,
    ServiceParameters,
    Relay,
}

/// Why data could not be read: the token (none: the data end too early) and what was wrong.
#[derive(Debug)]
pub(crate) struct DataError {
    pub(crate) token: Option<usize>,
    pub(crate) message: String,
}

/// Something that was read otherwise than it is written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DataRemark {
    pub(crate) token: usize,
    pub(crate) found: String,
    pub(crate) allowed: &'static str,
}

/// Reads the data of one record and appends their wire form. Relative names continue with `origin`,
/// a name in wire form.
///
/// # Errors
/// The token that is wrong. Rubbish may then follow in `wire`.
pub(crate) fn read(
    record_type: RecordType,
    tokens: &[Token<'_>],
    origin: &[u8],
    wire: &mut Vec<u8>,
) -> Result<Option<DataRemark>, DataError> {
    let begin = wire.len();
    let mut source = Source { tokens, at: 0, origin, remark: None };
    let is_generic = tokens.first().is_some_and(|token| token.raw == b"\\#" && !token.quoted);
    if is_generic {
        source.generic(wire)?;
    } else {
        let Some(form) = super::forms::form_of(record_type) else {
            let message = format!("{record_type} has no text form here but \\# and bytes");
            return Err(DataError { token: Some(0), message });
        };
        for part in form {
            source.part(*part, wire)?;
        }
    }
    if source.at < tokens.len() {
        return Err(source.error_at(source.at, "trailing data"));
    }
    let size = wire.len() - begin;
    if size > DATA_BYTES_MAX {
        return Err(source.error_at(0, format!("data of {size} bytes; 65535 are allowed")));
    }
    Ok(source.remark)
}

/// The tokens of a record's data, read from left to right.
pub(super) struct Source<'s, 'a> {
    tokens: &'s [Token<'a>],
    at: usize,
    origin: &'s [u8],
    remark: Option<DataRemark>,
}

impl<'s, 'a> Source<'s, 'a> {
    /// The next token.
    pub(super) fn next(&mut self) -> Result<&'s Token<'a>, DataError> {
        let token = self.tokens.get(self.at).ok_or_else(|| DataError {
            token: None,
            message: "unexpected end of entry".to_owned(),
        })?;
        self.at += 1;
        Ok(token)
    }

    /// The next token, if there is one.
    pub(super) fn peek(&self) -> Option<&'s Token<'a>> {
        self.tokens.get(self.at)
    }

    /// A fault of the token that was taken last.
    pub(super) fn wrong(&self, message: impl Into<String>) -> DataError {
        self.error_at(self.at.saturating_sub(1), message)
    }

    fn error_at(&self, token: usize, message: impl Into<String>) -> DataError {
        DataError { token: Some(token), message: message.into() }
    }

    /// A word without escapes and quotes.
    pub(super) fn word(&mut self) -> Result<&'s str, DataError> {
        let token = self.next()?;
        let word = token.utf8().filter(|word| !word.contains('\\'));
        word.ok_or_else(|| self.wrong("a word without escapes is expected"))
    }

    /// A decimal number up to `largest`.
    pub(super) fn number(&mut self, largest: u32) -> Result<u32, DataError> {
        let word = self.word()?;
        let is_decimal = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        let number = word.parse().ok().filter(|number| *number <= largest);
        number
            .filter(|_| is_decimal)
            .ok_or_else(|| self.wrong(format!("a decimal number from 0 to {largest} is expected")))
    }

    /// A number, or a name that stands for one.
    pub(super) fn named(
        &mut self,
        names: &[(&str, u16)],
        largest: u16,
        what: &str,
    ) -> Result<u16, DataError> {
        let word = self.word()?;
        if let Some((_, number)) = names.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)) {
            return Ok(*number);
        }
        let is_decimal = word.bytes().all(|byte| byte.is_ascii_digit());
        let number = word.parse().ok().filter(|number| is_decimal && *number <= largest);
        number.ok_or_else(|| {
            self.wrong(format!("{what} is expected: its name, or a decimal number up to {largest}"))
        })
    }

    /// Appends a name in wire form.
    pub(super) fn name(&mut self, wire: &mut Vec<u8>) -> Result<(), DataError> {
        let token = self.next()?;
        if token.raw == b"@" && !token.quoted {
            wire.extend_from_slice(self.origin);
            return Ok(());
        }
        if !token.raw.is_ascii() {
            return Err(self.wrong("printable ASCII in names; other bytes are written \\DDD"));
        }
        append_text(token.raw, self.origin, wire).map_err(|error| self.wrong(error.to_string()))
    }

    /// The bytes of a token, escapes undone.
    pub(super) fn bytes(&mut self) -> Result<Vec<u8>, DataError> {
        Ok(unescaped(self.next()?.raw))
    }

    /// The rest of the tokens put together; at least one unless it is `optional`.
    pub(super) fn joined(&mut self, is_optional: bool) -> Result<Vec<u8>, DataError> {
        let mut text = Vec::new();
        if !is_optional || self.peek().is_some() {
            text.extend_from_slice(self.next()?.raw);
        }
        while self.peek().is_some() {
            text.extend_from_slice(self.next()?.raw);
        }
        Ok(text)
    }

    /// Appends a string with its length in front.
    fn string(&mut self, wire: &mut Vec<u8>) -> Result<(), DataError> {
        let text = self.bytes()?;
        let length = u8::try_from(text.len()).map_err(|_| {
            self.wrong(format!("a string of {} bytes; 255 are allowed", text.len()))
        })?;
        wire.push(length);
        wire.extend_from_slice(&text);
        Ok(())
    }

    /// Appends strings, long ones in pieces.
    fn strings(&mut self, wire: &mut Vec<u8>) -> Result<(), DataError> {
        let mut is_first = true;
        while is_first || self.peek().is_some() {
            is_first = false;
            let text = self.bytes()?;
            if text.len() > STRING_BYTES_MAX && self.remark.is_none() {
                self.remark = Some(DataRemark {
                    token: self.at - 1,
                    found: format!("a string of {} bytes", text.len()),
                    allowed: "strings of at most 255 bytes (it is served in pieces)",
                });
            }
            let (pieces, last) = text.as_chunks::<STRING_BYTES_MAX>();
            for piece in pieces {
                wire.push(u8::MAX);
                wire.extend_from_slice(piece);
            }
            if !last.is_empty() || pieces.is_empty() {
                wire.push(last.len() as u8);
                wire.extend_from_slice(last);
            }
        }
        Ok(())
    }

    /// Appends bytes that are written in hexadecimal digits.
    pub(super) fn hexadecimal(&self, text: &[u8], wire: &mut Vec<u8>) -> Result<(), DataError> {
        let (pairs, rest) = text.as_chunks::<2>();
        let digit = |byte: u8| char::from(byte).to_digit(16);
        for [high, low] in pairs {
            match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => wire.push((high << 4 | low) as u8),
                _ => return Err(self.wrong("hexadecimal digits are expected")),
            }
        }
        if rest.is_empty() {
            Ok(())
        } else {
            Err(self.wrong("an even number of hexadecimal digits is expected"))
        }
    }

    /// Appends bytes that are written in base 64.
    pub(super) fn base64(&self, text: &[u8], wire: &mut Vec<u8>) -> Result<(), DataError> {
        let text = std::str::from_utf8(text).ok();
        let bytes = text.and_then(|text| domain::utils::base64::decode::<Vec<u8>>(text).ok());
        wire.extend(bytes.ok_or_else(|| self.wrong("text in base 64 is expected"))?);
        Ok(())
    }

    /// `\# 3 010203`
    fn generic(&mut self, wire: &mut Vec<u8>) -> Result<(), DataError> {
        self.next()?;
        let size = self.number(u16::MAX.into())? as usize;
        let begin = wire.len();
        let text = self.joined(true)?;
        self.hexadecimal(&text, wire)?;
        let found = wire.len() - begin;
        if found != size {
            return Err(self.wrong(format!("{found} bytes, where {size} are announced")));
        }
        Ok(())
    }

    fn part(&mut self, part: Part, wire: &mut Vec<u8>) -> Result<(), DataError> {
        match part {
            Part::U8 => wire.push(self.number(u8::MAX.into())? as u8),
            Part::U16 => put_u16(self.number(u16::MAX.into())? as u16, wire),
            Part::U32 => put_u32(self.number(u32::MAX)?, wire),
            Part::Seconds => {
                let seconds = super::master::seconds(self.next()?.raw);
                let allowed = "seconds are expected, or 1w2d3h4m5s";
                put_u32(seconds.ok_or_else(|| self.wrong(allowed))?, wire);
            }
            Part::Time => {
                let time = mnemonics::time(self.word()?);
                let allowed = "YYYYMMDDhhmmss or the seconds since 1970 are expected";
                put_u32(time.ok_or_else(|| self.wrong(allowed))?, wire);
            }
            Part::Name => self.name(wire)?,
            Part::Ipv4 => {
                let address = self.word()?.parse::<Ipv4Addr>();
                let address = address.map_err(|_| self.wrong("an IPv4 address is expected"))?;
                wire.extend_from_slice(&address.octets());
            }
            Part::Ipv6 => {
                let address = self.word()?.parse::<Ipv6Addr>();
                let address = address.map_err(|_| self.wrong("an IPv6 address is expected"))?;
                wire.extend_from_slice(&address.octets());
            }
            Part::String => self.string(wire)?,
            Part::OptionalString if self.peek().is_none() => {}
            Part::OptionalString => self.string(wire)?,
            Part::Strings => self.strings(wire)?,
            Part::Rest => wire.extend(self.bytes()?),
            Part::Tag => {
                let tag = self.word()?;
                let is_tag = (1..=255).contains(&tag.len())
                    && tag.bytes().all(|byte| byte.is_ascii_alphanumeric());
                if !is_tag {
                    return Err(self.wrong("a tag of letters and digits is expected"));
                }
                wire.push(tag.len() as u8);
                wire.extend_from_slice(tag.as_bytes());
            }
            Part::Hex => {
                let text = self.joined(false)?;
                self.hexadecimal(&text, wire)?;
            }
            Part::Base64 => {
                let text = self.joined(false)?;
                self.base64(&text, wire)?;
            }
            Part::OptionalBase64 => {
                let text = self.joined(true)?;
                self.base64(&text, wire)?;
            }
            Part::Base64OrNone if self.peek().is_some_and(|token| token.raw == b"-") => {
                self.next()?;
            }
            Part::Base64OrNone => {
                let text = self.joined(false)?;
                self.base64(&text, wire)?;
            }
            part => self.rare_part(part, wire)?,
        }
        Ok(())
    }

    /// A part of DNSSEC, of numbers that have names, or of one type alone.
    fn rare_part(&mut self, part: Part, wire: &mut Vec<u8>) -> Result<(), DataError> {
        match part {
            Part::Salt => {
                let text = self.next()?.raw;
                let mut salt = Vec::new();
                if text != b"-" {
                    self.hexadecimal(text, &mut salt)?;
                }
                self.put_short(&salt, wire)?;
            }
            Part::Hash => {
                let hash = domain::utils::base32::decode_hex::<Vec<u8>>(self.word()?);
                let hash = hash.map_err(|_| self.wrong("a hash in base 32 is expected"))?;
                self.put_short(&hash, wire)?;
            }
            Part::Type => put_u16(self.record_type()?.0, wire),
            Part::Types => self.types(wire)?,
            Part::Algorithm => {
                wire.push(self.named(mnemonics::ALGORITHMS, 255, "an algorithm")? as u8);
            }
            Part::DigestType => {
                wire.push(self.named(mnemonics::DIGESTS, 255, "a kind of digest")? as u8);
            }
            Part::CertificateType => {
                let kind = self.named(mnemonics::CERTIFICATES, u16::MAX, "a kind of certificate");
                put_u16(kind?, wire);
            }
            Part::Scheme => wire.push(self.named(mnemonics::SCHEMES, 255, "a scheme")? as u8),
            Part::Octets { count } => odd_parts::octets(self, count, wire)?,
            Part::Locator => odd_parts::locator(self, wire)?,
            Part::Protocol => {
                wire.push(self.named(mnemonics::PROTOCOLS, 255, "a protocol")? as u8);
            }
            Part::Services => odd_parts::services(self, wire)?,
            Part::Nsap => odd_parts::nsap(self, wire)?,
            Part::Atm => odd_parts::atm(self, wire)?,
            Part::Location => odd_parts::location(self, wire)?,
            Part::A6 => odd_parts::a6(self, wire)?,
            Part::AddressPrefixes => odd_parts::address_prefixes(self, wire)?,
            Part::Gateway => odd_parts::ipsec_key(self, wire)?,
            Part::HostIdentity => odd_parts::host_identity(self, wire)?,
            Part::Relay => odd_parts::relay(self, wire)?,
            Part::ServiceParameters => service_parameters::read(self, wire)?,
            // The others are read above.
            _ => {}
        }
        Ok(())
    }

    /// Appends bytes with their length, one byte, in front.
    fn put_short(&self, bytes: &[u8], wire: &mut Vec<u8>) -> Result<(), DataError> {
        let length = u8::try_from(bytes.len())
            .map_err(|_| self.wrong(format!("{} bytes; 255 are allowed", bytes.len())))?;
        wire.push(length);
        wire.extend_from_slice(bytes);
        Ok(())
    }

    fn record_type(&mut self) -> Result<RecordType, DataError> {
        let word = self.word()?;
        RecordType::from_text(word).ok_or_else(|| self.wrong("a record type is expected"))
    }

    /// The bitmap of the types that follow (RFC 4034, 4.1.2).
    fn types(&mut self, wire: &mut Vec<u8>) -> Result<(), DataError> {
        let mut types = Vec::new();
        while self.peek().is_some() {
            types.push(self.record_type()?.0);
        }
        types.sort_unstable();
        for window in types.chunk_by(|a, b| a >> 8 == b >> 8) {
            let Some(last) = window.last() else { continue };
            let mut bits = [0_u8; 32];
            for one in window {
                let low = usize::from(one & 0xff);
                bits[low / 8] |= 0x80 >> (low % 8);
            }
            let count = usize::from(last & 0xff) / 8 + 1;
            wire.extend_from_slice(&[(last >> 8) as u8, count as u8]);
            wire.extend_from_slice(&bits[..count]);
        }
        Ok(())
    }
}

/// Appends a number, the high byte first.
pub(super) fn put_u16(number: u16, wire: &mut Vec<u8>) {
    wire.extend_from_slice(&number.to_be_bytes());
}

/// Appends a number, the high byte first.
pub(super) fn put_u32(number: u32, wire: &mut Vec<u8>) {
    wire.extend_from_slice(&number.to_be_bytes());
}

/// The bytes of a token, whose escapes the lexer has checked.
pub(super) fn unescaped(raw: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let [first, tail @ ..] = rest {
        rest = tail;
        match (first, tail) {
            (b'\\', [a @ b'0'..=b'9', b, c, tail @ ..]) => {
                let digit = |byte: &u8| byte.wrapping_sub(b'0');
                let value = digit(a).wrapping_mul(100);
                bytes.push(value.wrapping_add(digit(b).wrapping_mul(10)).wrapping_add(digit(c)));
                rest = tail;
            }
            (b'\\', [byte, tail @ ..]) => {
                bytes.push(*byte);
                rest = tail;
            }
            _ => bytes.push(*first),
        }
    }
    bytes
}

#[cfg(test)]
#[path = "data_tests.rs"]
mod tests;
