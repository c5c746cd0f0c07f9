//! The decoded fields of all records: one row each, read without decoding anything again.
//!
//! Not for which address has which row (see `mod`).
//!
//! ```text
//! starts  | 0 | start of row 1 | start of row 2 | ...      in words of the rows
//! ids     | 0 | record id of row 1 | ...
//!
//! a row   | u16 | u16 | u16 | ...       one a column: kind in the lowest 4 bits, above them where
//!           │                           the value begins, in bytes from the row's beginning
//!           ▼
//!         | values: text as length u16 and bytes, numbers little-endian |
//! ```
//!
//! A row lies in one cache line unless it is longer than one, and most are not: five columns of a
//! city database take some 45 bytes. Text is stored with its row rather than shared, because the
//! share would be a second place to read; a reference to a shared text takes as much space as most
//! names do.
//!
//! Invariants: built rows are sound; rows of a file somebody overwrote give wrong cells, never a
//! panic or a read outside.

use crate::database::Database;
use crate::decode::Scalar;
use crate::error::{ErrorKind, MmdbError};
use crate::index::IndexOptions;
use crate::tree::RecordId;
use std::ops::Range;
use whered_ip::image::{Image, Section, bytes_of};

/// How many bytes a row's start counts.
const WORD_BYTES: usize = 4;
const LINE_BYTES: usize = 64;
const KIND_BITS: u32 = 4;
/// Where in a row a value may begin; what does not fit is read in place.
const MOST_OFFSET: usize = (1 << (16 - KIND_BITS)) - 1;

/// One field of a [`Row`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cell<'a> {
    /// The record has no such field.
    Absent,
    /// A string: UTF-8, which was checked when the index was built.
    Text(&'a [u8]),
    /// A double.
    Double(f64),
    /// A float.
    Float(f32),
    /// An unsigned number of 16, 32 or 64 bits.
    Unsigned(u64),
    /// A signed number of 32 bits.
    Signed(i32),
    /// A boolean.
    Boolean(bool),
    /// A map, an array, a byte string, a number of 128 bits or a very long text: ask
    /// [`Database::field`] with the row's record.
    InPlace,
}

impl<'a> Cell<'a> {
    /// The text, if it is one.
    #[must_use]
    #[inline]
    pub fn text(self) -> Option<&'a [u8]> {
        match self {
            Cell::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number as a double, if it is one; rounded beyond 53 bits.
    #[must_use]
    #[inline]
    pub fn number(self) -> Option<f64> {
        match self {
            Cell::Double(number) => Some(number),
            Cell::Float(number) => Some(f64::from(number)),
            Cell::Unsigned(number) => Some(number as f64),
            Cell::Signed(number) => Some(f64::from(number)),
            _ => None,
        }
    }
}

// The kinds of cells, as rows keep them; 0 is absent.
const TEXT: u16 = 1;
const DOUBLE: u16 = 2;
const FLOAT: u16 = 3;
const UNSIGNED: u16 = 4;
const SIGNED: u16 = 5;
const FALSE: u16 = 6;
const TRUE: u16 = 7;
const IN_PLACE: u16 = 8;

/// The decoded fields of one record.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    bytes: &'a [u8],
    columns: usize,
    record: RecordId,
}

impl<'a> Row<'a> {
    /// The field of a column; absent for a column that there is none of.
    #[must_use]
    #[inline]
    pub fn get(&self, column: usize) -> Cell<'a> {
        if column >= self.columns {
            return Cell::Absent;
        }
        let Some(head) = self.array(2 * column).map(u16::from_le_bytes) else {
            return Cell::Absent;
        };
        let at = usize::from(head >> KIND_BITS);
        let cell = match head & ((1 << KIND_BITS) - 1) {
            TEXT => self.array(at).and_then(|length| {
                let length = usize::from(u16::from_le_bytes(length));
                self.bytes.get(at + 2..at + 2 + length).map(Cell::Text)
            }),
            DOUBLE => self.array(at).map(|bytes| Cell::Double(f64::from_le_bytes(bytes))),
            FLOAT => self.array(at).map(|bytes| Cell::Float(f32::from_le_bytes(bytes))),
            UNSIGNED => self.array(at).map(|bytes| Cell::Unsigned(u64::from_le_bytes(bytes))),
            SIGNED => self.array(at).map(|bytes| Cell::Signed(i32::from_le_bytes(bytes))),
            FALSE => Some(Cell::Boolean(false)),
            TRUE => Some(Cell::Boolean(true)),
            IN_PLACE => Some(Cell::InPlace),
            _ => None,
        };
        cell.unwrap_or(Cell::Absent)
    }

    #[inline]
    fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.bytes.get(at..at + N)?.first_chunk().copied()
    }

    /// The record that was decoded.
    #[must_use]
    #[inline]
    pub fn record(&self) -> RecordId {
        self.record
    }
}

/// All rows.
#[derive(Debug)]
pub(super) struct Rows {
    starts: Section<u32>,
    ids: Section<u32>,
    bytes: Section<u8>,
    columns: usize,
}

/// How many sections rows have in an image.
pub(super) const SECTIONS: usize = 3;

impl Rows {
    /// Decodes the fields of these records, which come in rising order.
    pub(super) fn build(
        database: &Database,
        records: &[RecordId],
        options: &IndexOptions,
    ) -> Result<Rows, MmdbError> {
        let columns = options.fields.len();
        if columns > 255 {
            let found = format!("{columns} fields for an index");
            return Err(MmdbError::new(ErrorKind::Limit, found, "up to 255"));
        }
        let mut starts = Vec::with_capacity(records.len() + 1);
        let mut ids = Vec::with_capacity(records.len() + 1);
        starts.push(0);
        ids.push(0);
        let mut bytes = Vec::new();
        let mut row = Vec::new();
        for record in records {
            row.clear();
            row.resize(2 * columns, 0);
            database.scalars(*record, &options.fields, |column, scalar| {
                put(&mut row, column, scalar);
            })?;
            starts.push(append(&mut bytes, &row));
            ids.push(record.to_u32());
        }
        let (image, places) = Image::with_sections(&[bytes_of(&starts), bytes_of(&ids), &bytes]);
        Ok(Rows::from_sections(&image, &places, columns).expect("they were laid out just now"))
    }

    /// The rows whose sections lie in an image at these places, in the order of
    /// [`sections`](Self::sections); `None` if they cannot be.
    pub(super) fn from_sections(
        image: &Image,
        places: &[Range<usize>],
        columns: usize,
    ) -> Option<Rows> {
        let [starts, ids, bytes] = <&[_; SECTIONS]>::try_from(places).ok()?.clone();
        let (starts, ids) = (image.section::<u32>(starts)?, image.section::<u32>(ids)?);
        let is_sound = !starts.is_empty() && starts.len() == ids.len();
        let bytes = image.section::<u8>(bytes)?;
        is_sound.then_some(Rows { starts, ids, bytes, columns })
    }

    pub(super) fn sections(&self) -> [&[u8]; SECTIONS] {
        [bytes_of(&self.starts), bytes_of(&self.ids), bytes_of(&self.bytes)]
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<Row<'_>> {
        let record = self.record(number)?;
        let start = *self.starts.get(number as usize)? as usize * WORD_BYTES;
        // The row's end is not kept: what follows is another row, and cells know where they end.
        Some(Row { bytes: self.bytes.get(start..)?, columns: self.columns, record })
    }

    #[inline]
    pub(super) fn record(&self, number: u32) -> Option<RecordId> {
        if number == 0 {
            return None;
        }
        self.ids.get(number as usize).map(|id| RecordId::from_u32(*id))
    }

    #[inline]
    pub(super) fn prefetch(&self, numbers: impl Iterator<Item = u32>) {
        for number in numbers {
            if let Some(start) = self.starts.get(number as usize) {
                self.bytes.prefetch(*start as usize * WORD_BYTES);
            }
        }
    }

    pub(super) fn count(&self) -> usize {
        self.starts.len()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.sections().iter().map(|section| section.len()).sum()
    }
}

/// Puts a value behind the row and its kind and place into its column.
fn put(row: &mut Vec<u8>, column: usize, scalar: Option<Scalar<'_>>) {
    let at = row.len();
    let kind = match scalar {
        Some(Scalar::String(text)) if text.len() <= usize::from(u16::MAX) => {
            row.extend((text.len() as u16).to_le_bytes());
            row.extend(text.as_bytes());
            TEXT
        }
        Some(Scalar::Double(number)) => {
            row.extend(number.to_le_bytes());
            DOUBLE
        }
        Some(Scalar::Float(number)) => {
            row.extend(number.to_le_bytes());
            FLOAT
        }
        Some(Scalar::Int32(number)) => {
            row.extend(number.to_le_bytes());
            SIGNED
        }
        Some(Scalar::Uint16(number)) => put_unsigned(row, u64::from(number)),
        Some(Scalar::Uint32(number)) => put_unsigned(row, u64::from(number)),
        Some(Scalar::Uint64(number)) => put_unsigned(row, number),
        Some(Scalar::Boolean(false)) => FALSE,
        Some(Scalar::Boolean(true)) => TRUE,
        Some(Scalar::String(_) | Scalar::Bytes(_) | Scalar::Uint128(_)) | None => IN_PLACE,
    };
    let head = if at <= MOST_OFFSET {
        kind | (at as u16) << KIND_BITS
    } else {
        row.truncate(at);
        IN_PLACE
    };
    row[2 * column..2 * column + 2].copy_from_slice(&head.to_le_bytes());
}

fn put_unsigned(row: &mut Vec<u8>, number: u64) -> u16 {
    row.extend(number.to_le_bytes());
    UNSIGNED
}

/// Puts a row behind the others, at the next line if it would cross one; returns its start.
fn append(bytes: &mut Vec<u8>, row: &[u8]) -> u32 {
    bytes.resize(bytes.len().next_multiple_of(WORD_BYTES), 0);
    let left = LINE_BYTES - bytes.len() % LINE_BYTES;
    if row.len() > left && row.len() <= LINE_BYTES {
        bytes.resize(bytes.len() + left, 0);
    }
    let start = (bytes.len() / WORD_BYTES) as u32;
    bytes.extend_from_slice(row);
    start
}
