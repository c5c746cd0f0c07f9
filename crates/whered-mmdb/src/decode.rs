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
//! question, which only the slow way of a read knows.
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
use std::ops::Range;

/// A field's type; pointers are resolved before one meets it. The numbers are the format's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum Kind {
    String = 2,
    Double = 3,
    Bytes = 4,
    Uint16 = 5,
    Uint32 = 6,
    Map = 7,
    Int32 = 8,
    Uint64 = 9,
    Uint128 = 10,
    Array = 11,
    Container = 12,
    End = 13,
    Boolean = 14,
    Float = 15,
}

/// A field's type, size and place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Its type.
    pub kind: Kind,
    /// The bytes of its payload; for a map or array the number of entries; for a boolean its value.
    pub size: usize,
    /// Where the payload begins, from the section's start.
    pub start: usize,
}

impl Field {
    /// How many fields follow as this field's content: two for each pair of a map.
    #[inline]
    #[must_use]
    pub fn nested_fields(&self) -> u64 {
        match self.kind {
            Kind::Map => 2 * self.size as u64,
            Kind::Array | Kind::Container => self.size as u64,
            _ => 0,
        }
    }

    /// Where the field's own bytes end; for a map or array, where its first entry begins.
    #[must_use]
    pub fn end(&self) -> usize {
        match self.kind {
            Kind::Map | Kind::Array | Kind::Container | Kind::End | Kind::Boolean => self.start,
            _ => self.start + self.size,
        }
    }
}

/// The item at an offset: a field, or a pointer to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token {
    /// A pointer.
    Pointer {
        /// Where it leads.
        target: usize,
        /// Where the field behind it begins.
        next: usize,
    },
    /// A field.
    Field(Field),
}

/// A value that holds no other.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum Scalar<'a> {
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

/// A section's bytes and where in the file they begin: for callers that need single fields and
/// their offsets. [`crate::Database`] answers whole questions.
///
/// ```
/// use whered_mmdb::fields::{Kind, Section, Token};
/// let section = Section::new(b"\x42de\x20\x00", 0);
/// let Token::Field(field) = section.token(0)? else { panic!("a string stands there") };
/// assert_eq!((field.kind, field.start, field.end()), (Kind::String, 1, 3));
/// assert_eq!(section.token(3)?, Token::Pointer { target: 0, next: 5 });
/// assert!(section.token(5).is_err());
/// # Ok::<(), whered_mmdb::MmdbError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Section<'a> {
    /// Empty if the section is not in memory.
    bytes: &'a [u8],
    base: usize,
    len: usize,
    pages: Option<&'a Pages<'a>>,
}

impl<'a> Section<'a> {
    /// A section of these bytes, which begin at `base` in their file (for messages).
    #[must_use]
    pub fn new(bytes: &'a [u8], base: usize) -> Section<'a> {
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
        Err(self.too_short(field_at, at, count))
    }

    #[cold]
    fn too_short(&self, field_at: usize, at: usize, count: usize) -> MmdbError {
        let left = self.len.saturating_sub(at);
        self.fault(
            field_at,
            format!("a field that needs {count} bytes where {left} are left"),
            "fields that end inside their section",
        )
    }

    /// Reads what stands at `at`, without following a pointer.
    ///
    /// Cost: constant.
    ///
    /// # Errors
    ///
    /// No such type, a size that its type cannot have, or an end beyond the section.
    #[inline]
    pub fn token(&self, at: usize) -> Result<Token, MmdbError> {
        match self.peek(at) {
            Some(token) => Ok(token),
            None => self.token_slowly(at),
        }
    }

    /// Like [`token`](Section::token) for bytes in memory, without an error: for loops that skip
    /// many fields, in which a `Result` would go through memory. On `None` the caller uses `token`.
    #[inline(always)]
    #[must_use]
    pub fn peek(&self, at: usize) -> Option<Token> {
        let control = *self.bytes.get(at)?;
        if control >> 5 == 1 {
            let (target, next) = self.pointer(at, control)?;
            return (target < self.bytes.len()).then_some(Token::Pointer { target, next });
        }
        let (kind, after_type) = self.kind(at, control)?;
        let short = usize::from(control & 31);
        let (size, start) =
            if short < 29 { (short, after_type) } else { self.long_size(after_type, short)? };
        let field = Field { kind, size, start };
        self.fits(&field).then_some(Token::Field(field))
    }

    /// The target of a pointer, which may lie anywhere, and where the next field begins.
    ///
    /// Its width is no branch: wide and narrow pointers stand side by side.
    #[inline(always)]
    fn pointer(&self, at: usize, control: u8) -> Option<(usize, usize)> {
        let width = usize::from((control >> 3) & 3) + 1;
        let eight = u64::from_be_bytes(*self.bytes.get(at..)?.first_chunk()?);
        let low = (eight << 8) >> (64 - 8 * width);
        Some((pointer_target(control, width, low), at + 1 + width))
    }

    /// The type, and where the size bytes begin.
    #[inline(always)]
    fn kind(&self, at: usize, control: u8) -> Option<(Kind, usize)> {
        match basic_kind(control) {
            Some(kind) => Some((kind, at + 1)),
            None => Some((extended_kind(*self.bytes.get(at + 1)?)?, at + 2)),
        }
    }

    /// A size that is told by bytes of its own, and where the payload begins.
    #[inline(never)]
    fn long_size(&self, after_type: usize, short: usize) -> Option<(usize, usize)> {
        let bytes = self.bytes.get(after_type..after_type + short - 28)?;
        Some((long_size(bytes), after_type + bytes.len()))
    }

    /// Whether the size is right for the type, and the payload lies inside the section.
    #[inline(always)]
    fn fits(&self, field: &Field) -> bool {
        let left = self.len.saturating_sub(field.start);
        let size = field.size;
        match field.kind {
            Kind::String | Kind::Bytes => size <= left,
            Kind::Double => size == 8 && left >= 8,
            Kind::Float => size == 4 && left >= 4,
            Kind::Uint16 => size <= 2 && size <= left,
            Kind::Uint32 | Kind::Int32 => size <= 4 && size <= left,
            Kind::Uint64 => size <= 8 && size <= left,
            Kind::Uint128 => size <= 16 && size <= left,
            Kind::Boolean => size <= 1,
            Kind::End => size == 0,
            Kind::Map | Kind::Array | Kind::Container => field.nested_fields() <= left as u64,
        }
    }

    /// Like [`peek`](Section::peek), for bytes that may not be in memory. Its error says what is
    /// wrong.
    #[inline(never)]
    fn token_slowly(&self, at: usize) -> Result<Token, MmdbError> {
        let byte = |place| Ok(self.take(at, place, 1)?.first().copied().unwrap_or_default());
        let control: u8 = byte(at)?;
        if control >> 5 == 1 {
            let width = usize::from((control >> 3) & 3) + 1;
            let low = big_endian(self.take(at, at + 1, width)?) as u64;
            let target = pointer_target(control, width, low);
            if target >= self.len {
                let allowed = "pointers into the section, which is shorter";
                return Err(self.fault(at, format!("a pointer to {target}"), allowed));
            }
            return Ok(Token::Pointer { target, next: at + 1 + width });
        }
        let (kind, after_type) = match basic_kind(control) {
            Some(kind) => (kind, at + 1),
            None => (self.check_kind(at, byte(at + 1)?)?, at + 2),
        };
        let (size, start) = match usize::from(control & 31) {
            short @ 29.. => {
                let bytes = self.take(at, after_type, short - 28)?;
                (long_size(bytes), after_type + bytes.len())
            }
            size => (size, after_type),
        };
        let field = Field { kind, size, start };
        if self.fits(&field) { Ok(Token::Field(field)) } else { Err(self.does_not_fit(at, &field)) }
    }

    fn check_kind(&self, at: usize, extended: u8) -> Result<Kind, MmdbError> {
        extended_kind(extended).ok_or_else(|| {
            let number = if extended == 0 { 0 } else { u32::from(extended) + 7 };
            let allowed = "types 1 to 7, extended types 8 to 15";
            self.fault(at, format!("a field of type {number}"), allowed)
        })
    }

    /// Says what is wrong with a field that [`fits`](Section::fits) has refused.
    #[cold]
    fn does_not_fit(&self, at: usize, field: &Field) -> MmdbError {
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
            Kind::Boolean => (false, "booleans of size 0 or 1"),
            Kind::End => (false, "an end marker of size 0"),
            Kind::Map | Kind::Array | Kind::Container => (false, "no more entries than bytes left"),
        };
        if right {
            return self.too_short(at, field.start, size);
        }
        self.fault(at, format!("{:?} of size {size}", field.kind), allowed)
    }

    /// The field at `at`, one pointer followed, and where the next field begins if there was one.
    ///
    /// # Errors
    ///
    /// As [`token`](Section::token), and a pointer that leads to a pointer.
    #[inline]
    pub fn resolve(&self, at: usize) -> Result<(Field, Option<usize>), MmdbError> {
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
    ///
    /// # Errors
    ///
    /// The field is of another section, and does not fit into this one.
    #[inline]
    pub fn payload(&self, field: &Field) -> Result<&'a [u8], MmdbError> {
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
    ///
    /// # Errors
    ///
    /// Text that is no UTF-8, or a field of a type that no record may hold.
    pub fn scalar(&self, field: &Field) -> Result<Option<Scalar<'a>>, MmdbError> {
        let payload = self.payload(field)?;
        // The sizes were checked with the field, so the casts lose nothing.
        let number = || payload.iter().fold(0, |number, byte| (number << 8) | u64::from(*byte));
        Ok(Some(match field.kind {
            Kind::String => Scalar::String(self.text(field)?),
            Kind::Bytes => Scalar::Bytes(payload),
            Kind::Double => Scalar::Double(f64::from_bits(number())),
            Kind::Float => Scalar::Float(f32::from_bits(number() as u32)),
            Kind::Uint16 => Scalar::Uint16(number() as u16),
            Kind::Uint32 => Scalar::Uint32(number() as u32),
            Kind::Uint64 => Scalar::Uint64(number()),
            Kind::Uint128 => Scalar::Uint128(big_endian(payload)),
            Kind::Int32 => Scalar::Int32(number() as u32 as i32),
            Kind::Boolean => Scalar::Boolean(field.size == 1),
            Kind::Map | Kind::Array => return Ok(None),
            Kind::Container | Kind::End => {
                return Err(self.not_in_records(field));
            }
        }))
    }

    /// A type that the format has for other places.
    #[cold]
    pub(crate) fn not_in_records(&self, field: &Field) -> MmdbError {
        let found = format!("{:?} inside a record", field.kind);
        self.fault(field.start, found, "maps, arrays and plain values")
    }

    /// Whether the map's key at `at` is `wanted`, and where its value begins; `None` for what is
    /// rare or wrong: ask [`key_field`](Section::key_field).
    #[inline(always)]
    pub(crate) fn peek_key(&self, at: usize, wanted: &[u8]) -> Option<(bool, usize)> {
        let control = *self.bytes.get(at)?;
        let (text, after_pointer) = if control >> 5 == 1 {
            let (target, next) = self.pointer(at, control)?;
            (self.short_text(*self.bytes.get(target)?, target)?, Some(next))
        } else {
            (self.short_text(control, at)?, None)
        };
        // Comparing bytes needs no check for UTF-8: what equals the wanted text is text.
        let is_wanted = text.len() == wanted.len() && self.bytes.get(text.clone())? == wanted;
        Some((is_wanted, after_pointer.unwrap_or(text.end)))
    }

    /// Where the bytes of a text of fewer than 29 bytes lie.
    #[inline(always)]
    fn short_text(&self, control: u8, at: usize) -> Option<Range<usize>> {
        let size = usize::from(control & 31);
        let end = at + 1 + size;
        (control >> 5 == 2 && size < 29 && end <= self.bytes.len()).then_some(at + 1..end)
    }

    /// Where the field at `at` ends, and how many fields lie inside it: for the most frequent
    /// types, without a look at the value. `None` for all others, and for what is wrong.
    #[inline(always)]
    pub(crate) fn step_over(&self, at: usize) -> Option<(usize, u64)> {
        let control = *self.bytes.get(at)?;
        let size = usize::from(control & 31);
        let (end, nested) = match control >> 5 {
            1 => match self.pointer(at, control)? {
                (target, end) if target < self.bytes.len() => (end, 0),
                _ => return None,
            },
            2 if size < 29 => (at + 1 + size, 0),
            3 if size == 8 => (at + 9, 0),
            5 if size <= 2 => (at + 1 + size, 0),
            6 if size <= 4 => (at + 1 + size, 0),
            7 if size < 29 => (at + 1, 2 * size as u64),
            _ => return None,
        };
        (end + nested as usize <= self.bytes.len()).then_some((end, nested))
    }

    /// A map's key at `at`, and where its value begins.
    pub(crate) fn key(&self, at: usize) -> Result<(&'a str, usize), MmdbError> {
        let (field, value_at) = self.key_field(at)?;
        Ok((self.text(&field)?, value_at))
    }

    /// The field of a map's key at `at`, and where its value begins; the key's text is not read.
    ///
    /// # Errors
    ///
    /// As [`resolve`](Section::resolve), and a key that is no string.
    pub(crate) fn key_field(&self, at: usize) -> Result<(Field, usize), MmdbError> {
        let (field, after_pointer) = self.resolve(at)?;
        if field.kind != Kind::String {
            let found = format!("a map key of type {:?}", field.kind);
            return Err(self.fault(at, found, "keys that are strings"));
        }
        Ok((field, after_pointer.unwrap_or(field.end())))
    }
}

/// The type that a control byte says; `None` if the next byte does.
#[inline(always)]
fn basic_kind(control: u8) -> Option<Kind> {
    Some(match control >> 5 {
        2 => Kind::String,
        3 => Kind::Double,
        4 => Kind::Bytes,
        5 => Kind::Uint16,
        6 => Kind::Uint32,
        7 => Kind::Map,
        _ => return None,
    })
}

/// The type that the byte behind the control byte says. A number below 1 would be a second spelling
/// of a basic type.
#[inline(always)]
fn extended_kind(number: u8) -> Option<Kind> {
    Some(match number {
        1 => Kind::Int32,
        2 => Kind::Uint64,
        3 => Kind::Uint128,
        4 => Kind::Array,
        5 => Kind::Container,
        6 => Kind::End,
        7 => Kind::Boolean,
        8 => Kind::Float,
        _ => return None,
    })
}

/// Where a pointer leads whose own bytes are the number `low`.
#[inline(always)]
fn pointer_target(control: u8, width: usize, low: u64) -> usize {
    let high = u64::from(control & 7) << (8 * width);
    let target = match width {
        1 => high + low,
        2 => high + low + 2_048,
        3 => high + low + 526_336,
        _ => low,
    };
    target as usize
}

/// The size that one, two or three bytes of its own tell.
fn long_size(bytes: &[u8]) -> usize {
    let least = match bytes.len() {
        1 => 29,
        2 => 285,
        _ => 65_821,
    };
    least + big_endian(bytes) as usize
}

/// Up to 16 bytes as a big-endian number; no bytes are zero. Longer input keeps the last 16.
fn big_endian(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |number, byte| (number << 8) | u128::from(*byte))
}
