//! The decoded fields of all records: one row each, read without decoding anything again.
//!
//! Not for which address has which row (see `mod`), nor for how rows are written (`draft`).
//!
//! ```text
//! layout  | power of two that a row takes | column 0 | column 1 | ...      kind, offset << 8
//! ids     | 0 | record id of row 1 | record id of row 2 | ...
//! rows    |     row 0     |     row 1     | ...  | long texts |    all rows take the same space
//!
//! a row   | present: a bit a column | values at the columns' offsets | texts | unused |
//!                                       └─ text: offset u16, length u16 ──▲
//! ```
//!
//! All fields of a column have the same type in nearly every database, so the type and the place
//! of its values in a row are the column's: reading one is a few loads and no branch on data, and
//! a loop over many lookups keeps them all under way. An absent number is NaN, an absent text
//! empty, and row 0, of addresses without a record, has all absent: who needs no difference between
//! "empty" and "absent" needs no branch. Columns of several types keep the type with the value.
//!
//! The space of a row is the smallest power of two that is enough for nearly all of them, so that
//! a row is found by a shift and lies in one cache line: five columns of a city database take some
//! 45 bytes. Text is stored in its row rather than shared, because that would be a second place
//! to read; texts for which a row has no space stand behind the rows.
//!
//! Invariants: built rows are sound; rows of a file somebody overwrote give wrong cells, never a
//! panic or a read outside.

use crate::tree::RecordId;
use std::ops::Range;
use whered_ip::image::{Image, Section, bytes_of};

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
    /// A map, an array, a byte string, a number of 128 bits or a text of 64 KiB: ask
    /// [`crate::Database::field`] with the row's record.
    InPlace,
}

/// The type of a value, or of all values of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// Nothing; in a column: no record has the field.
    Absent,
    Text,
    Double,
    Float,
    Unsigned,
    Signed,
    Boolean,
    InPlace,
    /// A column whose values begin with their own kind.
    Mixed,
}

impl Kind {
    fn from_number(number: u32) -> Option<Kind> {
        const ALL: [Kind; 9] = [
            Kind::Absent,
            Kind::Text,
            Kind::Double,
            Kind::Float,
            Kind::Unsigned,
            Kind::Signed,
            Kind::Boolean,
            Kind::InPlace,
            Kind::Mixed,
        ];
        ALL.get(number as usize).copied()
    }

    /// How many bytes a value takes at its column's offset.
    pub(super) fn size_bytes(self) -> usize {
        match self {
            Kind::Absent | Kind::InPlace => 0,
            Kind::Boolean => 1,
            Kind::Text | Kind::Float | Kind::Signed => 4,
            Kind::Double | Kind::Unsigned => 8,
            Kind::Mixed => 9,
        }
    }
}

/// The length that says that a text stands behind the rows: at its offset is the place there.
pub(super) const LONG: u16 = u16::MAX;

/// Type and place of a column's values.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    pub(super) kind: Kind,
    pub(super) offset: u16,
}

/// The decoded fields of one record, or of none.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    rows: &'a Rows,
    /// From the row's beginning to the end of all rows: its own end no value asks for.
    bytes: &'a [u8],
    number: u32,
}

impl<'a> Row<'a> {
    /// The field of a column; absent for a column that there is none of.
    #[must_use]
    pub fn get(&self, column: usize) -> Cell<'a> {
        let Some(found) = self.rows.columns.get(column) else { return Cell::Absent };
        let present = self.array(column / 8).map_or(0, |[byte]: [u8; 1]| byte);
        if present >> (column % 8) & 1 == 0 {
            return Cell::Absent;
        }
        let at = usize::from(found.offset);
        let cell = match found.kind {
            Kind::Mixed => self
                .array(at)
                .and_then(|[kind]: [u8; 1]| self.cell(Kind::from_number(u32::from(kind))?, at + 1)),
            kind => self.cell(kind, at),
        };
        cell.unwrap_or(Cell::Absent)
    }

    fn cell(&self, kind: Kind, at: usize) -> Option<Cell<'a>> {
        Some(match kind {
            Kind::Text => Cell::Text(self.text_at(at)?),
            Kind::Double => Cell::Double(f64::from_le_bytes(self.array(at)?)),
            Kind::Float => Cell::Float(f32::from_le_bytes(self.array(at)?)),
            Kind::Unsigned => Cell::Unsigned(u64::from_le_bytes(self.array(at)?)),
            Kind::Signed => Cell::Signed(i32::from_le_bytes(self.array(at)?)),
            Kind::Boolean => Cell::Boolean(self.array(at)? == [1]),
            Kind::InPlace => Cell::InPlace,
            Kind::Absent | Kind::Mixed => return None,
        })
    }

    /// The text of a column, UTF-8; empty if it is absent or no text. Costs no unpredictable
    /// branch where the whole column is text.
    #[must_use]
    #[inline]
    pub fn text(&self, column: usize) -> &'a [u8] {
        match self.rows.columns.get(column) {
            Some(Column { kind: Kind::Text, offset }) => {
                self.text_at(usize::from(*offset)).unwrap_or_default()
            }
            _ => self.text_of_any_kind(column),
        }
    }

    /// By value, like all that is called rarely: a row whose address somebody takes is stored to
    /// memory at every lookup.
    #[inline(never)]
    fn text_of_any_kind(self, column: usize) -> &'a [u8] {
        match self.get(column) {
            Cell::Text(text) => text,
            _ => &[],
        }
    }

    /// The number of a column as a double, rounded beyond 53 bits; NaN if it is absent or no
    /// number. Costs no unpredictable branch where the whole column is doubles.
    #[must_use]
    #[inline]
    pub fn number(&self, column: usize) -> f64 {
        match self.rows.columns.get(column) {
            Some(Column { kind: Kind::Double, offset }) => {
                let bytes = self.array(usize::from(*offset));
                bytes.map_or(f64::NAN, f64::from_le_bytes)
            }
            _ => self.number_of_any_kind(column),
        }
    }

    #[inline(never)]
    fn number_of_any_kind(self, column: usize) -> f64 {
        match self.get(column) {
            Cell::Double(number) => number,
            Cell::Float(number) => f64::from(number),
            Cell::Unsigned(number) => number as f64,
            Cell::Signed(number) => f64::from(number),
            _ => f64::NAN,
        }
    }

    /// The record that was decoded, if there is one.
    #[must_use]
    #[inline]
    pub fn record(&self) -> Option<RecordId> {
        self.rows.record(self.number)
    }

    /// The text whose offset and length stand at `at`.
    #[inline(always)]
    fn text_at(&self, at: usize) -> Option<&'a [u8]> {
        let [low, high, length_low, length_high] = self.array(at)?;
        let text = usize::from(u16::from_le_bytes([low, high]));
        let length = u16::from_le_bytes([length_low, length_high]);
        if length == LONG {
            return self.long_text(text);
        }
        self.bytes.get(text..text + usize::from(length))
    }

    /// The text behind the rows whose place stands at `at`.
    #[cold]
    #[inline(never)]
    fn long_text(self, at: usize) -> Option<&'a [u8]> {
        let place = u32::from_le_bytes(self.array(at)?) as usize;
        let texts = self.rows.bytes.get(self.rows.count() << self.rows.row_shift..)?;
        let length = texts.get(place..place + 2)?.first_chunk()?;
        let length = usize::from(u16::from_le_bytes(*length));
        texts.get(place + 2..place + 2 + length)
    }

    #[inline(always)]
    fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.bytes.get(at..at + N)?.first_chunk().copied()
    }
}

/// All rows.
#[derive(Debug)]
pub(super) struct Rows {
    layout: Section<u32>,
    ids: Section<u32>,
    bytes: Section<u8>,
    columns: Vec<Column>,
    /// A row takes two to this power bytes.
    row_shift: u32,
}

/// How many sections rows have in an image.
pub(super) const SECTIONS: usize = 3;
/// More than any row takes.
const MOST_ROW_SHIFT: u32 = 16;

impl Rows {
    /// The rows whose sections lie in an image at these places, in the order of
    /// [`sections`](Self::sections); `None` if they cannot be.
    pub(super) fn from_sections(image: &Image, places: &[Range<usize>]) -> Option<Rows> {
        let [layout, ids, bytes] = <&[_; SECTIONS]>::try_from(places).ok()?.clone();
        let layout = image.section::<u32>(layout)?;
        let (ids, bytes) = (image.section::<u32>(ids)?, image.section::<u8>(bytes)?);
        let (row_shift, columns) = layout.split_first()?;
        let columns = columns.iter().map(|column| {
            Some(Column { kind: Kind::from_number(column & 0xff)?, offset: (column >> 8) as u16 })
        });
        let columns = columns.collect::<Option<_>>()?;
        let row_shift = *row_shift;
        let is_sound =
            row_shift <= MOST_ROW_SHIFT && (1..=bytes.len()).contains(&(ids.len() << row_shift));
        is_sound.then_some(Rows { layout, ids, bytes, columns, row_shift })
    }

    pub(super) fn sections(&self) -> [&[u8]; SECTIONS] {
        [bytes_of(&self.layout), bytes_of(&self.ids), bytes_of(&self.bytes)]
    }

    pub(super) fn columns(&self) -> usize {
        self.columns.len()
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> Row<'_> {
        let start = (number as usize) << self.row_shift;
        Row { rows: self, bytes: self.bytes.get(start..).unwrap_or_default(), number }
    }

    #[inline]
    pub(super) fn record(&self, number: u32) -> Option<RecordId> {
        let id = self.ids.get(number as usize)?;
        (number != 0).then_some(RecordId::from_u32(*id))
    }

    /// Row 0 has the number 0.
    #[inline]
    pub(super) fn offset_or_zero(&self, number: u32) -> u32 {
        self.ids.get(number as usize).copied().unwrap_or(0)
    }

    /// Records come in rising order; row 0 has none.
    pub(super) fn row_of(&self, record: RecordId) -> Option<u32> {
        let records = self.ids.get(1..)?;
        records.binary_search(&record.to_u32()).ok().map(|place| place as u32 + 1)
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
