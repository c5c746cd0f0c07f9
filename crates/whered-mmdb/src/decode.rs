//! Reads the single fields of a data section (or of the metadata, which has the same form).
//!
//! Not for the search tree, and not for whole records.
//!
//! A field is a control byte, sometimes a type byte, sometimes size bytes, then the payload
//! (specification, "Output Data Section"):
//!
//! ```text
//! TTTSSSSS [extended type - 7] [0 to 3 size bytes] payload
//! 001SSVVV [1 to 4 bytes]                          a pointer to a field of the same section
//! ```
//!
//! Bytes that are in memory are read in place; those that are not come from the [`Pages`] of the
//! question, which only the cold way of a read knows.
//!
//! Invariants: every read goes through `get`; a [`Field`] that [`Section::token`] returned has a
//! size that is right for its type, a payload that lies inside the section, and, for a map or
//! array, no more entries than there are bytes left. Text is checked where it is taken.
//!
//! What the fields make up together is read by [`crate::walk`]. Each question costs constant time,
//! text its length.
//!
//! Nothing is kept between calls; any number of threads may read at once.
#![deny(clippy::indexing_slicing)]

use crate::error::{ErrorKind, MmdbError};
use crate::read_at::Pages;

/// A field's type; pointers are resolved before one meets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    String,
    Double,
    Bytes,
    Uint16,
    Uint32,
    Map,
    Int32,
    Uint64,
    Uint128,
    Array,
    Container,
    End,
    Boolean,
    Float,
}

/// A field's type, size and place. For a map or array, `size` counts entries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    pub(crate) kind: Kind,
    pub(crate) size: usize,
    /// Where the payload begins, from the section's start.
    pub(crate) start: usize,
}

impl Field {
    /// How many fields follow as this field's content: two for each pair of a map.
    pub(crate) fn nested_fields(&self) -> u64 {
        match self.kind {
            Kind::Map => 2 * self.size as u64,
            Kind::Array | Kind::Container => self.size as u64,
            _ => 0,
        }
    }

    /// Where the field's own bytes end; for a map or array, where its first entry begins.
    pub(crate) fn end(&self) -> usize {
        match self.kind {
            Kind::Map | Kind::Array | Kind::Container | Kind::End | Kind::Boolean => self.start,
            _ => self.start + self.size,
        }
    }
}

/// What stands at an offset: a field, or a pointer to one.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Token {
    Pointer { target: usize, next: usize },
    Field(Field),
}

/// A value that holds no other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Scalar<'a> {
    String(&'a str),
    Bytes(&'a [u8]),
    Double(f64),
    Float(f32),
    Uint16(u16),
    Uint32(u32),
    Uint64(u64),
    Uint128(u128),
    Int32(i32),
    Boolean(bool),
}

impl Scalar<'_> {
    /// The name of the type, as rows and messages have it.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Scalar::String(_) => "string",
            Scalar::Bytes(_) => "bytes",
            Scalar::Double(_) => "double",
            Scalar::Float(_) => "float",
            Scalar::Uint16(_) => "uint16",
            Scalar::Uint32(_) => "uint32",
            Scalar::Uint64(_) => "uint64",
            Scalar::Uint128(_) => "uint128",
            Scalar::Int32(_) => "int32",
            Scalar::Boolean(_) => "boolean",
        }
    }

    /// The number as a double, rounded where it has more digits; `None` for what is no number.
    pub(crate) fn as_f64(&self) -> Option<f64> {
        Some(match *self {
            Scalar::Double(number) => number,
            Scalar::Float(number) => f64::from(number),
            Scalar::Uint16(number) => f64::from(number),
            Scalar::Uint32(number) => f64::from(number),
            Scalar::Int32(number) => f64::from(number),
            Scalar::Uint64(number) => number as f64,
            Scalar::Uint128(number) => number as f64,
            Scalar::String(_) | Scalar::Bytes(_) | Scalar::Boolean(_) => return None,
        })
    }
}

/// A section's bytes and where in the file they begin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Section<'a> {
    /// Empty if the section is not in memory.
    bytes: &'a [u8],
    base: usize,
    len: usize,
    pages: Option<&'a Pages<'a>>,
}

impl<'a> Section<'a> {
    pub(crate) fn new(bytes: &'a [u8], base: usize) -> Section<'a> {
        Section { bytes, base, len: bytes.len(), pages: None }
    }

    /// A section of `len` bytes that are read when they are asked for.
    pub(crate) fn on_demand(pages: &'a Pages<'a>, base: usize, len: usize) -> Section<'a> {
        Section { bytes: &[], base, len, pages: Some(pages) }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The bytes from `at` on; none beyond the end.
    pub(crate) fn rest(&self, at: usize) -> &'a [u8] {
        self.bytes.get(at..).unwrap_or_default()
    }

    /// The offset in the file of an offset in the section.
    pub(crate) fn file_offset(&self, at: usize) -> u64 {
        self.base as u64 + at as u64
    }

    #[cold]
    pub(crate) fn fault(&self, at: usize, found: impl Into<String>, allowed: &str) -> MmdbError {
        MmdbError::new(ErrorKind::Data, found, allowed).at(self.file_offset(at))
    }

    /// `count` bytes at `at`, which belong to the field at `field_at`.
    fn take(&self, field_at: usize, at: usize, count: usize) -> Result<&'a [u8], MmdbError> {
        match at.checked_add(count).and_then(|end| self.bytes.get(at..end)) {
            Some(bytes) => Ok(bytes),
            None => self.take_absent(field_at, at, count),
        }
    }

    /// The byte at `at`, which belongs to the field at `field_at`.
    fn byte(&self, field_at: usize, at: usize) -> Result<u8, MmdbError> {
        match self.bytes.get(at) {
            Some(byte) => Ok(*byte),
            None => Ok(big_endian(self.take_absent(field_at, at, 1)?) as u8),
        }
    }

    /// Bytes that are not in memory: they come from the pages or do not exist.
    #[cold]
    fn take_absent(&self, field_at: usize, at: usize, count: usize) -> Result<&'a [u8], MmdbError> {
        self.check_inside(field_at, at, count)?;
        match self.pages {
            Some(pages) => pages.get(at, count),
            None => Ok(&[]),
        }
    }

    /// Refuses a field at `field_at` with bytes beyond the section; reads nothing.
    fn check_inside(&self, field_at: usize, at: usize, count: usize) -> Result<(), MmdbError> {
        if at.checked_add(count).is_some_and(|end| end <= self.len) {
            return Ok(());
        }
        let left = self.len.saturating_sub(at);
        Err(self.fault(
            field_at,
            format!("a field that needs {count} bytes where {left} are left"),
            "fields that end inside their section",
        ))
    }

    /// Reads what stands at `at`, without following a pointer.
    ///
    /// Cost: constant.
    pub(crate) fn token(&self, at: usize) -> Result<Token, MmdbError> {
        let control = self.byte(at, at)?;
        if control >> 5 == 1 {
            return self.pointer(at, control);
        }
        let (kind, after_type) = self.kind(at, control)?;
        let extra = usize::from(control & 31).saturating_sub(28);
        let more = match extra {
            0 => 0,
            _ => big_endian(self.take(at, after_type, extra)?) as usize,
        };
        let size = match extra {
            0 => usize::from(control & 31),
            1 => 29 + more,
            2 => 285 + more,
            _ => 65_821 + more,
        };
        let field = Field { kind, size, start: after_type + extra };
        self.check_size(at, &field)?;
        Ok(Token::Field(field))
    }

    fn pointer(&self, at: usize, control: u8) -> Result<Token, MmdbError> {
        let width = usize::from((control >> 3) & 3) + 1;
        let payload = self.take(at, at + 1, width)?;
        let low = payload.iter().fold(0, |low, byte| low << 8 | usize::from(*byte));
        let high = usize::from(control & 7);
        let target = match width {
            1 => (high << 8) + low,
            2 => (high << 16) + low + 2_048,
            3 => (high << 24) + low + 526_336,
            _ => low,
        };
        if target >= self.len {
            return Err(self.fault(
                at,
                format!("a pointer to {target}"),
                "pointers into the section, which is shorter",
            ));
        }
        Ok(Token::Pointer { target, next: at + 1 + width })
    }

    /// The type, and where the size bytes begin.
    fn kind(&self, at: usize, control: u8) -> Result<(Kind, usize), MmdbError> {
        let (number, next) = match control >> 5 {
            0 => {
                let extended = u16::from(self.byte(at, at + 1)?);
                // An extended number below 8 would be a second spelling of a basic type.
                (if extended == 0 { 0 } else { extended + 7 }, at + 2)
            }
            basic => (u16::from(basic), at + 1),
        };
        let kind = match number {
            2 => Kind::String,
            3 => Kind::Double,
            4 => Kind::Bytes,
            5 => Kind::Uint16,
            6 => Kind::Uint32,
            7 => Kind::Map,
            8 => Kind::Int32,
            9 => Kind::Uint64,
            10 => Kind::Uint128,
            11 => Kind::Array,
            12 => Kind::Container,
            13 => Kind::End,
            14 => Kind::Boolean,
            15 => Kind::Float,
            _ => {
                return Err(self.fault(
                    at,
                    format!("a field of type {number}"),
                    "types 1 to 7, extended types 8 to 15",
                ));
            }
        };
        Ok((kind, next))
    }

    fn check_size(&self, at: usize, field: &Field) -> Result<(), MmdbError> {
        let size = field.size;
        let (right, allowed) = match field.kind {
            Kind::String | Kind::Bytes => (true, ""),
            Kind::Double => (size == 8, "doubles of 8 bytes"),
            Kind::Float => (size == 4, "floats of 4 bytes"),
            Kind::Uint16 => (size <= 2, "uint16 of up to 2 bytes"),
            Kind::Uint32 => (size <= 4, "uint32 of up to 4 bytes"),
            Kind::Int32 => (size <= 4, "int32 of up to 4 bytes"),
            Kind::Uint64 => (size <= 8, "uint64 of up to 8 bytes"),
            Kind::Uint128 => (size <= 16, "uint128 of up to 16 bytes"),
            Kind::Boolean => (size <= 1, "booleans of size 0 or 1"),
            Kind::End => (size == 0, "an end marker of size 0"),
            Kind::Map | Kind::Array | Kind::Container => {
                let left = (self.len - field.start) as u64;
                (field.nested_fields() <= left, "no more entries than bytes left")
            }
        };
        if !right {
            return Err(self.fault(at, format!("{:?} of size {size}", field.kind), allowed));
        }
        self.check_inside(at, field.start, field.end() - field.start)
    }

    /// The field at `at`, one pointer followed, and where the next field begins if there was one.
    pub(crate) fn resolve(&self, at: usize) -> Result<(Field, Option<usize>), MmdbError> {
        match self.token(at)? {
            Token::Field(field) => Ok((field, None)),
            Token::Pointer { target, next } => match self.token(target)? {
                Token::Field(field) => Ok((field, Some(next))),
                Token::Pointer { .. } => {
                    Err(self.fault(at, "a pointer to a pointer", "pointers to other fields"))
                }
            },
        }
    }

    /// The payload of a field that is neither map nor array.
    pub(crate) fn payload(&self, field: &Field) -> Result<&'a [u8], MmdbError> {
        self.take(field.start, field.start, field.end() - field.start)
    }

    fn text(&self, field: &Field) -> Result<&'a str, MmdbError> {
        std::str::from_utf8(self.payload(field)?).map_err(|error| {
            self.fault(
                field.start + error.valid_up_to(),
                "bytes that are no UTF-8 text",
                "strings in UTF-8",
            )
        })
    }

    /// The value of a field; `None` for a map or array.
    pub(crate) fn scalar(&self, field: &Field) -> Result<Option<Scalar<'a>>, MmdbError> {
        let payload = self.payload(field)?;
        // The sizes were checked with the field, so the casts lose nothing.
        let number = big_endian(payload);
        Ok(Some(match field.kind {
            Kind::String => Scalar::String(self.text(field)?),
            Kind::Bytes => Scalar::Bytes(payload),
            Kind::Double => Scalar::Double(f64::from_bits(number as u64)),
            Kind::Float => Scalar::Float(f32::from_bits(number as u32)),
            Kind::Uint16 => Scalar::Uint16(number as u16),
            Kind::Uint32 => Scalar::Uint32(number as u32),
            Kind::Uint64 => Scalar::Uint64(number as u64),
            Kind::Uint128 => Scalar::Uint128(number),
            Kind::Int32 => Scalar::Int32(number as u32 as i32),
            Kind::Boolean => Scalar::Boolean(field.size == 1),
            Kind::Map | Kind::Array => return Ok(None),
            Kind::Container | Kind::End => {
                return Err(self.fault(
                    field.start,
                    format!("{:?} inside a record", field.kind),
                    "maps, arrays and plain values",
                ));
            }
        }))
    }

    /// A map's key at `at`, and where its value begins.
    pub(crate) fn key(&self, at: usize) -> Result<(&'a str, usize), MmdbError> {
        let (field, value_at) = self.key_field(at)?;
        Ok((self.text(&field)?, value_at))
    }

    /// As [`key`](Section::key), but the key's text is not read.
    pub(crate) fn key_field(&self, at: usize) -> Result<(Field, usize), MmdbError> {
        let (field, after_pointer) = self.resolve(at)?;
        if field.kind != Kind::String {
            let found = format!("a map key of type {:?}", field.kind);
            return Err(self.fault(at, found, "keys that are strings"));
        }
        Ok((field, after_pointer.unwrap_or(field.end())))
    }
}

/// Up to 16 bytes as a big-endian number; no bytes are zero. Longer input keeps the last 16.
fn big_endian(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |number, byte| (number << 8) | u128::from(*byte))
}
