//! Reads one JSON text (RFC 8259) into a [`Value`].
//!
//! Not for files of many lines. Strict: no comments, no trailing commas, no control characters in
//! strings, no half of a surrogate pair. A fault says at which byte it is. Depth is bounded by
//! [`MAX_DEPTH`], so that a line of brackets cannot use up the stack.
//!
//! Types: see [`super`]. Nothing is kept between calls; cost is linear in the bytes.
#![deny(clippy::indexing_slicing)]

use super::cell::{CellType, TYPES};
use crate::MAX_DEPTH;
use crate::error::shown;
use crate::json::TYPE_MARK;
use crate::value::Value;
use std::borrow::Cow;

/// A fault of a text, with its offset.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// Counted from 0.
    pub(super) at: usize,
    pub(super) found: String,
    pub(super) allowed: String,
}

impl Fault {
    pub(super) fn new(at: usize, found: impl Into<String>, allowed: impl Into<String>) -> Fault {
        Fault { at, found: found.into(), allowed: allowed.into() }
    }
}

/// A scalar before it is known which type it shall have.
#[derive(Debug, PartialEq)]
pub(super) enum Scalar<'a> {
    Null,
    Boolean(bool),
    /// The digits as they stand.
    Number(&'a str),
    String(Cow<'a, str>),
}

/// A place in a text.
#[derive(Clone)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: usize,
    /// Whether `{"#type":...}` stands for a value of that type.
    is_typed: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0, depth: 0, is_typed: false }
    }

    /// Where the next byte is, behind blanks.
    pub(super) fn at(&mut self) -> usize {
        self.peek();
        self.at
    }

    /// The next byte behind blanks; `None` at the end.
    fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.bytes.get(self.at) {
            self.at += 1;
        }
        self.bytes.get(self.at).copied()
    }

    fn unexpected(&mut self, allowed: &str) -> Fault {
        let found = match self.peek() {
            None => "the line's end".to_string(),
            Some(byte @ b'!'..=b'~') => format!("\"{}\"", char::from(byte)),
            Some(byte) => format!("the byte {byte}"),
        };
        Fault::new(self.at, found, allowed)
    }

    fn take(&mut self, wanted: u8, allowed: &str) -> Result<(), Fault> {
        if self.peek() != Some(wanted) {
            return Err(self.unexpected(allowed));
        }
        self.at += 1;
        Ok(())
    }

    /// Refuses anything but blanks.
    pub(super) fn end(&mut self) -> Result<(), Fault> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.unexpected("nothing behind the object")),
        }
    }

    /// Reads an object, whose members `member` reads: it gets each name and where it stands.
    pub(super) fn object(
        &mut self,
        mut member: impl FnMut(&mut Reader<'a>, Cow<'a, str>, usize) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.take(b'{', "an object, {\"network\":...}")?;
        self.list(b'}', |reader| {
            let at = reader.at();
            if reader.peek() != Some(b'"') {
                return Err(reader.unexpected("a member's name in quotes"));
            }
            let name = reader.string()?;
            reader.take(b':', "a colon behind the member's name")?;
            member(reader, name, at)
        })
    }

    /// Reads items between commas up to `close`; the opening bracket was read before.
    fn list(
        &mut self,
        close: u8,
        mut item: impl FnMut(&mut Reader<'a>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        if self.depth == MAX_DEPTH + 1 {
            let allowed = format!("{MAX_DEPTH} levels");
            return Err(Fault::new(self.at - 1, "objects or arrays nested too deep", allowed));
        }
        self.depth += 1;
        if self.peek() == Some(close) {
            self.at += 1;
        } else {
            loop {
                item(self)?;
                match self.peek() {
                    Some(b',') => self.at += 1,
                    Some(byte) if byte == close => {
                        self.at += 1;
                        break;
                    }
                    _ => {
                        let allowed = format!("a comma or \"{}\"", char::from(close));
                        return Err(self.unexpected(&allowed));
                    }
                }
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// Reads a value; `None` for `null`.
    pub(super) fn value(&mut self) -> Result<Option<Value>, Fault> {
        let at = self.at();
        match self.peek() {
            Some(b'{') => self.map().map(Some),
            Some(b'[') => {
                self.at += 1;
                let mut values = Vec::new();
                self.list(b']', |reader| {
                    values.extend(reader.value()?);
                    Ok(())
                })?;
                Ok(Some(Value::Array(values)))
            }
            _ => match self.scalar()? {
                Scalar::Null if self.is_typed => {
                    Err(Fault::new(at, "null", "values of a type in a typed_record"))
                }
                Scalar::Null => Ok(None),
                Scalar::Boolean(truth) => Ok(Some(Value::Boolean(truth))),
                Scalar::String(text) => Ok(Some(Value::String(text.into_owned()))),
                Scalar::Number(digits) => number(digits, at).map(Some),
            },
        }
    }

    /// Reads a value in which types are marked.
    pub(super) fn typed_value(&mut self) -> Result<Option<Value>, Fault> {
        self.is_typed = true;
        let value = self.value();
        self.is_typed = false;
        value
    }

    fn map(&mut self) -> Result<Value, Fault> {
        let mut pairs: Vec<(String, Value)> = Vec::new();
        let mut marked = None;
        self.object(|reader, name, at| {
            let Some(name) = reader.is_typed.then(|| name.strip_prefix(TYPE_MARK)).flatten() else {
                let value = reader.value()?;
                pairs.extend(value.map(|value| (name.into_owned(), value)));
                return Ok(());
            };
            if name.starts_with(TYPE_MARK) {
                let value = reader.value()?;
                pairs.extend(value.map(|value| (name.to_string(), value)));
                return Ok(());
            }
            if marked.is_some() {
                return Err(Fault::new(at, "a second type", "one type for a value"));
            }
            let found = || format!("the type \"{}\"", shown(name));
            let cell_type =
                CellType::from_name(name).ok_or_else(|| Fault::new(at, found(), TYPES))?;
            marked = Some((reader.cell(cell_type)?, at));
            Ok(())
        })?;
        match marked {
            None => Ok(Value::Map(pairs)),
            Some((Some(value), _)) if pairs.is_empty() => Ok(value),
            Some((_, at)) => {
                let allowed = "a type alone in its object, with a value";
                Err(Fault::new(at, "a type beside other members or without a value", allowed))
            }
        }
    }

    /// Reads a scalar that shall have a type; `None` for `null`.
    pub(super) fn cell(&mut self, cell_type: CellType) -> Result<Option<Value>, Fault> {
        let at = self.at();
        let parsed = match self.scalar()? {
            Scalar::Null => return Ok(None),
            Scalar::Boolean(truth) => cell_type.parse(if truth { "true" } else { "false" }),
            Scalar::Number(digits) => cell_type.parse(digits),
            Scalar::String(text) => match cell_type.parse_not_finite(&text) {
                Some(value) => Ok(value),
                None => cell_type.parse(&text),
            },
        };
        let end = self.at;
        parsed.map(Some).map_err(|allowed| {
            let text = String::from_utf8_lossy(self.bytes.get(at..end).unwrap_or_default());
            Fault::new(at, shown(&text), allowed)
        })
    }

    pub(super) fn scalar(&mut self) -> Result<Scalar<'a>, Fault> {
        match self.peek() {
            Some(b'"') => self.string().map(Scalar::String),
            Some(b'-' | b'0'..=b'9') => self.digits().map(Scalar::Number),
            Some(b't') => self.word("true", Scalar::Boolean(true)),
            Some(b'f') => self.word("false", Scalar::Boolean(false)),
            Some(b'n') => self.word("null", Scalar::Null),
            Some(b'{' | b'[') => Err(self.unexpected("a string, number, boolean or null")),
            _ => Err(self.unexpected("a JSON value")),
        }
    }

    fn word(&mut self, word: &str, scalar: Scalar<'a>) -> Result<Scalar<'a>, Fault> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        if !rest.starts_with(word.as_bytes()) {
            return Err(self.unexpected("true, false or null"));
        }
        self.at += word.len();
        Ok(scalar)
    }

    /// A number as RFC 8259 writes it.
    fn digits(&mut self) -> Result<&'a str, Fault> {
        let start = self.at;
        self.skip_one(b"-");
        let first = self.at;
        self.skip_digits()?;
        if self.bytes.get(first) == Some(&b'0') && self.at > first + 1 {
            return Err(Fault::new(first, "a number that begins with 0", "0, or no leading 0"));
        }
        if self.skip_one(b".") {
            self.skip_digits()?;
        }
        if self.skip_one(b"eE") {
            self.skip_one(b"+-");
            self.skip_digits()?;
        }
        let digits = self.bytes.get(start..self.at).unwrap_or_default();
        std::str::from_utf8(digits).map_err(|_| Fault::new(start, "no text", "a number"))
    }

    fn skip_one(&mut self, any_of: &[u8]) -> bool {
        let is_there = self.bytes.get(self.at).is_some_and(|byte| any_of.contains(byte));
        self.at += usize::from(is_there);
        is_there
    }

    fn skip_digits(&mut self) -> Result<(), Fault> {
        let start = self.at;
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        if self.at == start { Err(self.unexpected("a digit")) } else { Ok(()) }
    }

    /// The text between quotes, borrowed when nothing in it is escaped.
    fn string(&mut self) -> Result<Cow<'a, str>, Fault> {
        self.at += 1;
        let mut text = Cow::Borrowed("");
        loop {
            let start = self.at;
            let rest = self.bytes.get(start..).unwrap_or_default();
            let length = rest.iter().position(|&byte| byte < b' ' || matches!(byte, b'"' | b'\\'));
            let length = length.unwrap_or(rest.len());
            let plain = std::str::from_utf8(rest.get(..length).unwrap_or_default());
            let plain = plain.map_err(|error| {
                let at = start + error.valid_up_to();
                Fault::new(at, "bytes that are no UTF-8 text", "strings in UTF-8")
            })?;
            if text.is_empty() {
                text = Cow::Borrowed(plain);
            } else {
                text.to_mut().push_str(plain);
            }
            self.at += length;
            match self.bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => {
                    let character = self.escape()?;
                    text.to_mut().push(character);
                }
                Some(byte) => {
                    let found = format!("the byte {byte} in a string");
                    return Err(Fault::new(self.at, found, "control characters as \\u00XX"));
                }
                None => return Err(Fault::new(self.at, "a string without an end", "a quote")),
            }
        }
    }

    /// The character behind a backslash.
    fn escape(&mut self) -> Result<char, Fault> {
        let start = self.at;
        let fault = || {
            let allowed = "\\\" \\\\ \\/ \\b \\f \\n \\r \\t and \\uXXXX, surrogates in pairs";
            Fault::new(start, "an escape that JSON does not know", allowed)
        };
        let letter = self.bytes.get(start + 1).copied().ok_or_else(fault)?;
        self.at += 2;
        Ok(match letter {
            b'"' | b'\\' | b'/' => char::from(letter),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.four_digits().ok_or_else(fault)?;
                let is_pair = (0xd800..0xdc00).contains(&first);
                let code = if is_pair {
                    let rest = self.bytes.get(self.at..).unwrap_or_default();
                    self.at += if rest.starts_with(b"\\u") { 2 } else { return Err(fault()) };
                    let second = self.four_digits().ok_or_else(fault)?;
                    let low = second.checked_sub(0xdc00).filter(|low| *low < 0x400);
                    0x1_0000 + ((first - 0xd800) << 10) + low.ok_or_else(fault)?
                } else {
                    first
                };
                char::from_u32(code).ok_or_else(fault)?
            }
            _ => return Err(fault()),
        })
    }

    fn four_digits(&mut self) -> Option<u32> {
        let digits = self.bytes.get(self.at..self.at + 4)?;
        self.at += 4;
        digits
            .iter()
            .try_fold(0, |code, &byte| char::from(byte).to_digit(16).map(|digit| code * 16 + digit))
    }
}

/// A number without a type: a double if it has a point or exponent, else the first of uint32,
/// uint64, uint128 and int32 that holds it.
fn number(digits: &str, at: usize) -> Result<Value, Fault> {
    let types: &[CellType] = if digits.contains(['.', 'e', 'E']) {
        &[CellType::Double]
    } else {
        &[CellType::Uint32, CellType::Uint64, CellType::Uint128, CellType::Int32]
    };
    types.iter().find_map(|cell_type| cell_type.parse(digits).ok()).ok_or_else(|| {
        let allowed = "whole numbers from -2147483648 to 2^128 - 1; finite doubles with a point";
        Fault::new(at, shown(digits), allowed)
    })
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
