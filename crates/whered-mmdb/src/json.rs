//! Writes values as compact JSON (RFC 8259), from a [`crate::Value`] or straight from a record's
//! bytes: both tell a [`JsonSink`] what they hold.
//!
//! Not a JSON reader. Choices: byte strings are upper-case hexadecimal strings, as `mmdblookup`
//! prints them; doubles and floats are the shortest decimal that reads back equal; what JSON
//! cannot say (NaN, infinities) is `null`; uint128 is a decimal number with all its digits.
//!
//! The typed form loses nothing: what a reader of JSON would take for another type is written as
//! an object whose one member names it, `{"#uint16":5}`, and a key that begins with `#` has one
//! more in front. Strings, booleans, finite doubles and uint32 stand as they are. Of a NaN only
//! that it is one is kept.

use crate::decode::Scalar;
use crate::walk::Sink;
use std::io::Write;

/// The first character of a type's name in the typed form.
pub(crate) const TYPE_MARK: char = '#';

/// Appends JSON to a buffer.
pub(crate) struct JsonSink<'a> {
    out: &'a mut Vec<u8>,
    /// Whether the next key or element follows another one.
    comma: bool,
    is_typed: bool,
}

impl<'a> JsonSink<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>) -> JsonSink<'a> {
        JsonSink { out, comma: false, is_typed: false }
    }

    /// As [`new`](JsonSink::new), in the typed form.
    pub(crate) fn typed(out: &'a mut Vec<u8>) -> JsonSink<'a> {
        JsonSink { is_typed: true, ..JsonSink::new(out) }
    }

    fn separate(&mut self) {
        if self.comma {
            self.out.push(b',');
        }
        self.comma = true;
    }

    fn open(&mut self, bracket: u8) {
        self.separate();
        self.out.push(bracket);
        self.comma = false;
    }

    fn close(&mut self, bracket: u8) {
        self.out.push(bracket);
        self.comma = true;
    }
}

impl Sink for JsonSink<'_> {
    fn scalar(&mut self, scalar: Scalar<'_>) {
        self.separate();
        let mark = if self.is_typed { type_mark(scalar) } else { None };
        let is_finite = match scalar {
            Scalar::Double(number) => number.is_finite(),
            Scalar::Float(number) => number.is_finite(),
            _ => true,
        };
        if let Some(name) = mark {
            write!(self.out, "{{\"{TYPE_MARK}{name}\":").expect("writing to a vector cannot fail");
        }
        match scalar {
            Scalar::String(text) => write_string(text, self.out),
            _ if !is_finite && mark.is_none() => self.out.extend(b"null"),
            _ if !is_finite || matches!(scalar, Scalar::Bytes(_)) => {
                self.out.push(b'"');
                write_bare(scalar, self.out);
                self.out.push(b'"');
            }
            _ => write_bare(scalar, self.out),
        }
        if mark.is_some() {
            self.out.push(b'}');
        }
    }

    fn begin_map(&mut self, _size: usize) {
        self.open(b'{');
    }

    fn key(&mut self, key: &str) {
        self.separate();
        if self.is_typed && key.starts_with(TYPE_MARK) {
            write_string(&format!("{TYPE_MARK}{key}"), self.out);
        } else {
            write_string(key, self.out);
        }
        self.out.push(b':');
        self.comma = false;
    }

    fn end_map(&mut self) {
        self.close(b'}');
    }

    fn begin_array(&mut self, _size: usize) {
        self.open(b'[');
    }

    fn end_array(&mut self) {
        self.close(b']');
    }
}

/// The type that a reader could not tell from the JSON.
fn type_mark(scalar: Scalar<'_>) -> Option<&'static str> {
    match scalar {
        Scalar::String(_) | Scalar::Boolean(_) | Scalar::Uint32(_) => None,
        Scalar::Double(number) if number.is_finite() => None,
        _ => Some(scalar.type_name()),
    }
}

/// A scalar without quotes.
pub(crate) fn write_bare(scalar: Scalar<'_>, out: &mut Vec<u8>) {
    let written = match scalar {
        Scalar::String(text) => out.write_all(text.as_bytes()),
        Scalar::Bytes(bytes) => bytes.iter().try_for_each(|byte| write!(out, "{byte:02X}")),
        Scalar::Double(number) => write!(out, "{number:?}"),
        Scalar::Float(number) => write!(out, "{number:?}"),
        Scalar::Uint16(number) => write!(out, "{number}"),
        Scalar::Uint32(number) => write!(out, "{number}"),
        Scalar::Uint64(number) => write!(out, "{number}"),
        Scalar::Uint128(number) => write!(out, "{number}"),
        Scalar::Int32(number) => write!(out, "{number}"),
        Scalar::Boolean(truth) => write!(out, "{truth}"),
    };
    written.expect("writing to a vector cannot fail");
}

/// A JSON string; only what RFC 8259 section 7 demands is escaped.
fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in text.as_bytes() {
        match byte {
            b'"' => out.extend(b"\\\""),
            b'\\' => out.extend(b"\\\\"),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b'\t' => out.extend(b"\\t"),
            0..=0x1f => {
                write!(out, "\\u{byte:04x}").expect("writing to a vector cannot fail");
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}
