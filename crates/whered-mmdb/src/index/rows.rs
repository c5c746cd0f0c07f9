//! The decoded fields of all records: one row each, read without decoding anything again.
//!
//! Not for which address has which row (see `mod`).
//!
//! ```text
//! ids     | 0 | record id of row 1 | record id of row 2 | ...
//! rows    |     row 0     |     row 1     | ...  | long texts |    all rows take the same space
//!
//! a row   | u16 | u16 | u16 | ...       one a column: kind in the lowest 4 bits, above them where
//!           │                           the value begins, in bytes from the row's beginning
//!           ▼
//!         | values: text as length u16 and bytes, numbers little-endian | unused |
//! ```
//!
//! The space of a row is the smallest power of two that is enough for nearly all of them, so that
//! a row is found by a shift and lies in one cache line: five columns of a city database take some
//! 45 bytes. Text is stored in its row rather than shared, because that would be a second place
//! to read; the longest ones, for which a row has no space, stand behind the rows.
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

const KIND_BITS: u32 = 4;
/// How long a row may be, since a column's head says where its value begins.
const MOST_ROW_BYTES: usize = 1 << (16 - KIND_BITS);
const LEAST_ROW_BYTES: usize = 16;
/// More columns than a row has space for heads and values.
pub(super) const MOST_COLUMNS: usize = 255;
/// Of how many rows one may be too long for the space of a row.
const ROWS_FOR_A_LONG_ONE: usize = 32;

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
/// The value is the place (u32) behind the rows where length and bytes of a text stand.
const LONG_TEXT: u16 = 9;

/// The decoded fields of one record.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    rows: &'a Rows,
    number: u32,
}

impl<'a> Row<'a> {
    /// The field of a column; absent for a column that there is none of.
    #[must_use]
    #[inline]
    pub fn get(&self, column: usize) -> Cell<'a> {
        if column >= self.rows.columns {
            return Cell::Absent;
        }
        let start = (self.number as usize) << self.rows.row_shift;
        let Some(head) = self.array(start + 2 * column).map(u16::from_le_bytes) else {
            return Cell::Absent;
        };
        let at = start + usize::from(head >> KIND_BITS);
        let cell = match head & ((1 << KIND_BITS) - 1) {
            TEXT => self.text(at),
            DOUBLE => self.array(at).map(|bytes| Cell::Double(f64::from_le_bytes(bytes))),
            FLOAT => self.array(at).map(|bytes| Cell::Float(f32::from_le_bytes(bytes))),
            UNSIGNED => self.array(at).map(|bytes| Cell::Unsigned(u64::from_le_bytes(bytes))),
            SIGNED => self.array(at).map(|bytes| Cell::Signed(i32::from_le_bytes(bytes))),
            FALSE => Some(Cell::Boolean(false)),
            TRUE => Some(Cell::Boolean(true)),
            IN_PLACE => Some(Cell::InPlace),
            LONG_TEXT => {
                let behind = self.rows.count() << self.rows.row_shift;
                self.array(at).and_then(|at| self.text(behind + u32::from_le_bytes(at) as usize))
            }
            _ => None,
        };
        cell.unwrap_or(Cell::Absent)
    }

    #[inline]
    fn text(&self, at: usize) -> Option<Cell<'a>> {
        let length = usize::from(u16::from_le_bytes(self.array(at)?));
        self.rows.bytes.get(at + 2..at + 2 + length).map(Cell::Text)
    }

    #[inline]
    fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.rows.bytes.get(at..at + N)?.first_chunk().copied()
    }

    /// The record that was decoded.
    #[must_use]
    #[inline]
    pub fn record(&self) -> RecordId {
        self.rows.record(self.number).unwrap_or(RecordId::from_u32(0))
    }
}

/// All rows.
#[derive(Debug)]
pub(super) struct Rows {
    ids: Section<u32>,
    bytes: Section<u8>,
    columns: usize,
    /// A row takes two to this power bytes.
    row_shift: u32,
}

/// How many sections rows have in an image.
pub(super) const SECTIONS: usize = 2;

impl Rows {
    /// Decodes the fields of these records, which come in rising order.
    pub(super) fn build(
        database: &Database,
        records: &[RecordId],
        options: &IndexOptions,
    ) -> Result<Rows, MmdbError> {
        let columns = options.fields.len();
        if columns > MOST_COLUMNS {
            let found = format!("{columns} fields for an index");
            return Err(MmdbError::new(ErrorKind::Limit, found, format!("up to {MOST_COLUMNS}")));
        }
        let mut ids = Vec::with_capacity(records.len() + 1);
        ids.push(0);
        let mut drafts = Drafts::new(columns);
        for record in records {
            ids.push(record.to_u32());
            drafts.begin();
            database.scalars(*record, &options.fields, |column, scalar| {
                drafts.put(column, scalar);
            })?;
        }
        let (bytes, row_shift) = drafts.finish();
        let (image, places) = Image::with_sections(&[bytes_of(&ids), &bytes]);
        let rows = Rows::from_sections(&image, &places, columns, row_shift);
        Ok(rows.expect("they were laid out just now"))
    }

    /// The rows whose sections lie in an image at these places, in the order of
    /// [`sections`](Self::sections); `None` if they cannot be.
    pub(super) fn from_sections(
        image: &Image,
        places: &[Range<usize>],
        columns: usize,
        row_shift: u32,
    ) -> Option<Rows> {
        let [ids, bytes] = <&[_; SECTIONS]>::try_from(places).ok()?.clone();
        let (ids, bytes) = (image.section::<u32>(ids)?, image.section::<u8>(bytes)?);
        let is_sound = 1 << row_shift.min(31) <= MOST_ROW_BYTES
            && ids
                .len()
                .checked_shl(row_shift)
                .is_some_and(|size| (1..=bytes.len()).contains(&size));
        is_sound.then_some(Rows { ids, bytes, columns, row_shift })
    }

    pub(super) fn sections(&self) -> [&[u8]; SECTIONS] {
        [bytes_of(&self.ids), bytes_of(&self.bytes)]
    }

    /// A row takes two to this power bytes.
    pub(super) fn row_shift(&self) -> u32 {
        self.row_shift
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<Row<'_>> {
        (number != 0).then_some(Row { rows: self, number })
    }

    #[inline]
    pub(super) fn record(&self, number: u32) -> Option<RecordId> {
        let id = self.ids.get(number as usize)?;
        (number != 0).then_some(RecordId::from_u32(*id))
    }

    #[inline]
    pub(super) fn prefetch(&self, numbers: impl Iterator<Item = u32>) {
        for number in numbers {
            self.bytes.prefetch((number as usize) << self.row_shift);
        }
    }

    pub(super) fn count(&self) -> usize {
        self.ids.len()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.sections().iter().map(|section| section.len()).sum()
    }
}

/// Rows one behind the other, each as long as it is, while they are decoded.
struct Drafts {
    columns: usize,
    bytes: Vec<u8>,
    /// Where each row begins; row 0 has no fields.
    starts: Vec<usize>,
}

impl Drafts {
    fn new(columns: usize) -> Drafts {
        let mut drafts = Drafts { columns, bytes: Vec::new(), starts: Vec::new() };
        drafts.begin();
        drafts
    }

    /// Begins the next row, all of whose fields are absent so far.
    fn begin(&mut self) {
        self.starts.push(self.bytes.len());
        self.bytes.resize(self.bytes.len() + 2 * self.columns, 0);
    }

    /// Puts a value behind the row and its kind and place into its column.
    fn put(&mut self, column: usize, scalar: Option<Scalar<'_>>) {
        let start = self.starts.last().copied().unwrap_or(0);
        let at = self.bytes.len();
        let mut kind = write(&mut self.bytes, scalar);
        if self.bytes.len() - start > MOST_ROW_BYTES {
            self.bytes.truncate(at);
            kind = IN_PLACE;
        }
        let head = kind | ((at - start) as u16) << KIND_BITS;
        let place = start + 2 * column;
        self.bytes[place..place + 2].copy_from_slice(&head.to_le_bytes());
    }

    /// The rows with equal space for each, and the power of two that it is.
    fn finish(mut self) -> (Vec<u8>, u32) {
        self.starts.push(self.bytes.len());
        let rows = self.starts.windows(2).map(|ends| &self.bytes[ends[0]..ends[1]]);
        let rows: Vec<&[u8]> = rows.collect();
        let mut row_bytes = LEAST_ROW_BYTES.max((6 * self.columns).next_power_of_two());
        while rows.iter().filter(|row| row.len() > row_bytes).count() * ROWS_FOR_A_LONG_ONE
            > rows.len()
        {
            row_bytes *= 2;
        }
        let (mut bytes, mut long) = (vec![0; rows.len() * row_bytes], Vec::new());
        for (row, place) in rows.into_iter().zip(bytes.chunks_mut(row_bytes)) {
            match place.get_mut(..row.len()) {
                Some(place) => place.copy_from_slice(row),
                None => self.shorten(row, place, &mut long),
            }
        }
        bytes.extend(long);
        (bytes, row_bytes.trailing_zeros())
    }

    /// Copies a row into less space than it takes: texts go behind the rows, other values stay.
    fn shorten(&self, row: &[u8], place: &mut [u8], long: &mut Vec<u8>) {
        let mut at = 2 * self.columns;
        for column in 0..self.columns {
            let head = u16::from_le_bytes([row[2 * column], row[2 * column + 1]]);
            let value = &row[usize::from(head >> KIND_BITS)..];
            let (mut kind, mut size) = match head & ((1 << KIND_BITS) - 1) {
                TEXT => (LONG_TEXT, 4),
                kind @ (DOUBLE | UNSIGNED) => (kind, 8),
                kind @ (FLOAT | SIGNED) => (kind, 4),
                kind => (kind, 0),
            };
            // Eight bytes a column need not have been left.
            if at + size > place.len() {
                (kind, size) = (IN_PLACE, 0);
            }
            if kind == LONG_TEXT {
                place[at..at + 4].copy_from_slice(&(long.len() as u32).to_le_bytes());
                long.extend(&value[..2 + usize::from(u16::from_le_bytes([value[0], value[1]]))]);
            } else {
                place[at..at + size].copy_from_slice(&value[..size]);
            }
            let head = kind | (at as u16) << KIND_BITS;
            place[2 * column..2 * column + 2].copy_from_slice(&head.to_le_bytes());
            at += size;
        }
    }
}

/// Appends a value; returns its kind.
fn write(row: &mut Vec<u8>, scalar: Option<Scalar<'_>>) -> u16 {
    match scalar {
        Some(Scalar::String(text)) if text.len() < MOST_ROW_BYTES => {
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
        Some(Scalar::Uint16(number)) => write_unsigned(row, u64::from(number)),
        Some(Scalar::Uint32(number)) => write_unsigned(row, u64::from(number)),
        Some(Scalar::Uint64(number)) => write_unsigned(row, number),
        Some(Scalar::Boolean(false)) => FALSE,
        Some(Scalar::Boolean(true)) => TRUE,
        Some(Scalar::String(_) | Scalar::Bytes(_) | Scalar::Uint128(_)) | None => IN_PLACE,
    }
}

fn write_unsigned(row: &mut Vec<u8>, number: u64) -> u16 {
    row.extend(number.to_le_bytes());
    UNSIGNED
}
