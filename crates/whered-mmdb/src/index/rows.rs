//! The decoded fields of all records: one row each, read without decoding anything again.
//!
//! Not for which address has which row (see `mod`), what a field's bytes mean (`column`), nor for
//! how rows are written (`rows_builder`, `pool`).
//!
//! ```text
//! layout  | bytes that a row takes | shift of the ids | columns |  see `ids`, `column`
//! ids     | record ids of the rows, 0 for row 0 |                  see `ids`
//! rows    | row 0 | row 1 | ...  | 512 bytes |                     all rows take the same space
//! texts   | entries of column 0 | entries of column 1 | ...  | 256 bytes |
//!
//! a row   | country 1 byte | latitude 3 | longitude 3 | 6 | B e r l i n | unused |
//!            └─► | 2 | D E |                                       an entry: length and text
//! ```
//!
//! A lookup reads the row, mostly from far away, and texts that many rows share, mostly from near.
//! What counts is therefore that rows together are small, and that little else is far. Fields take
//! as few bytes as the column's values need. Texts stand once for all rows of a column, ordered by
//! how many networks lead to them, the most used first, inside one cache line if they fit. Of
//! columns whose texts together are too many to be near the largest one has its texts in the rows,
//! if nearly all of them fit there: a row of a city database has 32 bytes. Rows take a power of two
//! up to a cache line, so that none lies in two.
//!
//! All fields of a column have the same type in nearly every database, so type, place and width
//! are the column's: reading one is a few loads and no branch on data, and a loop over many
//! lookups keeps them all under way. An absent number is NaN, an absent text empty (all columns'
//! texts begin with an empty one), and row 0, of addresses without a record, has all absent: who
//! needs no difference between "empty" and "absent" needs no branch. Columns of several types keep
//! the type with the value.
//!
//! One check of bounds is enough for all fields at the first 256 offsets of a row, since as many
//! bytes as may be read from there stand behind the last row, and one for a text, likewise.
//!
//! Invariants: built rows are sound; rows of a file somebody overwrote give wrong cells, never a
//! panic or a read outside.

use super::column::{COLUMN_WORDS, Column, Kind, LONG, NEAR_BYTES, QuickNumber, QuickText};
use super::ids::{self, Ids};
use crate::tree::RecordId;
use std::ops::Range;
use whered_ip::Items;
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

/// How many bytes stand behind the last text: a length, and as many as a length of one byte may
/// say.
pub(super) const ENTRY_BYTES: usize = 256;
/// Texts of columns that have no more than this are taken to be near.
const NEAR_TEXT_BYTES: u32 = 16 << 10;
/// More columns than there may be.
const QUICK_COLUMNS: usize = 256;

/// The row of an index out of bounds, which is empty.
static NO_ROW: [u8; NEAR_BYTES] = [0; NEAR_BYTES];

/// The decoded fields of one record, or of none.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    rows: &'a Rows,
    /// The row's first bytes, and what follows if it has fewer.
    near: &'a [u8; NEAR_BYTES],
    number: u32,
}

impl<'a> Row<'a> {
    /// The field of a column; absent for a column that there is none of.
    #[must_use]
    pub fn get(&self, column: usize) -> Cell<'a> {
        self.rows.cell(self.number, column)
    }

    /// The text of a column, UTF-8; empty if it is absent or no text. Costs no unpredictable
    /// branch where the whole column is text.
    #[must_use]
    #[inline(always)]
    pub fn text(&self, column: usize) -> &'a [u8] {
        let text = self.rows.quick_texts.get(column);
        let text = text.and_then(|quick| match quick.is_in_row {
            true => quick.in_row(self.near),
            false => self.rows.short_text(quick.place(self.near)),
        });
        // Columns that are not quick lead outside, so that this is asked once.
        text.unwrap_or_else(|| self.rows.text_of_any_kind(self.number, column))
    }

    /// The number of a column as a double, rounded beyond 53 bits; NaN if it is absent or no
    /// number. Costs no unpredictable branch where the whole column is whole numbers or decimals.
    #[must_use]
    #[inline(always)]
    pub fn number(&self, column: usize) -> f64 {
        match self.rows.quick_numbers.get(column) {
            Some(quick) if quick.is_quick => quick.value(self.near),
            _ => self.rows.number_of_any_kind(self.number, column),
        }
    }

    /// The record that was decoded, if there is one.
    #[must_use]
    #[inline]
    pub fn record(&self) -> Option<RecordId> {
        self.rows.record(self.number)
    }
}

/// All rows.
#[derive(Debug)]
pub(super) struct Rows {
    layout: Section<u64>,
    ids: Ids,
    bytes: Section<u8>,
    texts: Section<u8>,
    columns: Vec<Column>,
    quick_texts: Box<[QuickText; QUICK_COLUMNS]>,
    quick_numbers: Box<[QuickNumber; QUICK_COLUMNS]>,
    /// Columns of texts that are not always near.
    far_texts: Vec<QuickText>,
    row_bytes: u16,
}

/// How many sections rows have in an image.
pub(super) const SECTIONS: usize = 3 + ids::SECTIONS;

impl Rows {
    /// The rows whose sections lie in an image at these places, in the order of
    /// [`sections`](Self::sections); `None` if they cannot be.
    pub(super) fn from_sections(image: &Image, places: &[Range<usize>]) -> Option<Rows> {
        let [layout, starts, steps, bytes, texts] =
            <&[_; SECTIONS]>::try_from(places).ok()?.clone();
        let layout = image.section::<u64>(layout)?;
        let (bytes, texts) = (image.section::<u8>(bytes)?, image.section::<u8>(texts)?);
        let [row_bytes, shift, columns @ ..] = &*layout else { return None };
        let ids = Ids::from_sections(image, *shift, &[starts, steps])?;
        let (columns, []) = columns.as_chunks::<COLUMN_WORDS>() else { return None };
        let columns = columns.iter().map(|words| Column::from_words(*words));
        let columns = columns.collect::<Option<Vec<_>>>()?;
        let row_bytes = u16::try_from(*row_bytes).ok()?;
        let least = ids.len().checked_mul(usize::from(row_bytes))?.checked_add(NEAR_BYTES)?;
        // Row 0 is always there, and no place of a text is behind 32 bits.
        if columns.len() >= QUICK_COLUMNS
            || ids.len() == 0
            || bytes.len() < least
            || u32::try_from(texts.len()).is_err()
        {
            return None;
        }
        let mut quick_texts = Box::new([QuickText::NOTHING; QUICK_COLUMNS]);
        let mut quick_numbers = Box::new([QuickNumber::NOTHING; QUICK_COLUMNS]);
        for ((text, number), column) in
            quick_texts.iter_mut().zip(quick_numbers.iter_mut()).zip(&columns)
        {
            (*text, *number) = (QuickText::of(column), QuickNumber::of(column));
        }
        let far_texts = far_texts(&columns, texts.len());
        Some(Rows {
            layout,
            ids,
            bytes,
            texts,
            columns,
            quick_texts,
            quick_numbers,
            far_texts,
            row_bytes,
        })
    }

    pub(super) fn sections(&self) -> [&[u8]; SECTIONS] {
        let [starts, steps] = self.ids.sections();
        [bytes_of(&self.layout), starts, steps, &self.bytes, &self.texts]
    }

    pub(super) fn columns(&self) -> usize {
        self.columns.len()
    }

    #[inline(always)]
    pub(super) fn get(&self, number: u32) -> Row<'_> {
        Row { rows: self, near: self.near(number), number }
    }

    #[inline]
    pub(super) fn record(&self, number: u32) -> Option<RecordId> {
        let id = self.ids.get(number)?;
        (number != 0).then_some(RecordId::from_u32(id))
    }

    /// Row 0 has the number 0.
    #[inline(always)]
    pub(super) fn offset_or_zero(&self, number: u32) -> u32 {
        self.ids.get(number).unwrap_or(0)
    }

    /// Row 0 has no record.
    pub(super) fn row_of(&self, record: RecordId) -> Option<u32> {
        self.ids.row_of(record.to_u32()).filter(|row| *row != 0)
    }

    /// All rows, to be asked for by a lookup.
    #[inline]
    pub(super) fn items(&self) -> Items<'_> {
        Items { bytes: &self.bytes, item_bytes: usize::from(self.row_bytes) }
    }

    /// All rows are asked for first, then the texts that they lead to.
    #[inline]
    pub(super) fn prefetch(&self, numbers: &(impl Iterator<Item = u32> + Clone)) {
        for number in numbers.clone() {
            self.bytes.prefetch(self.place(number));
        }
        self.prefetch_texts(numbers);
    }

    /// Asks for the texts of rows that are near already.
    #[inline]
    pub(super) fn prefetch_texts(&self, numbers: &(impl Iterator<Item = u32> + Clone)) {
        for text in &self.far_texts {
            for number in numbers.clone() {
                self.texts.prefetch(text.place(self.near(number)) as usize);
            }
        }
    }

    pub(super) fn count(&self) -> usize {
        self.ids.len()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.sections().iter().map(|section| section.len()).sum()
    }

    /// Where a row begins.
    #[inline(always)]
    fn place(&self, number: u32) -> usize {
        (number as usize).wrapping_mul(usize::from(self.row_bytes))
    }

    /// A row's first bytes, and what follows.
    #[inline(always)]
    fn near(&self, number: u32) -> &[u8; NEAR_BYTES] {
        let start = self.place(number);
        let near = self.bytes.get(start..start.wrapping_add(NEAR_BYTES));
        near.and_then(|near| near.first_chunk()).unwrap_or(&NO_ROW)
    }

    /// The text whose entry begins at this place, if there is one whose length has one byte.
    #[inline(always)]
    fn short_text(&self, place: u32) -> Option<&[u8]> {
        let place = place as usize;
        let entry = self.texts.get(place..place.wrapping_add(ENTRY_BYTES))?;
        let [length, text @ ..]: &[u8; ENTRY_BYTES] = entry.first_chunk()?;
        if *length == LONG { None } else { text.get(..usize::from(*length)) }
    }

    /// The text whose entry begins at this place.
    fn text(&self, place: u32) -> Option<&[u8]> {
        let (length, text) = self.texts.get(place as usize..)?.split_first()?;
        if *length != LONG {
            return text.get(..usize::from(*length));
        }
        let (length, text) = text.split_first_chunk()?;
        text.get(..usize::from(u16::from_le_bytes(*length)))
    }

    /// The text that stands at a place among the rows, if one does.
    fn text_in_row(&self, at: usize) -> Option<&[u8]> {
        let (length, text) = self.bytes.get(at..)?.split_first()?;
        if *length == LONG { None } else { text.get(..usize::from(*length)) }
    }

    /// The eight bytes at a place among the rows; zeros outside.
    fn word(&self, at: usize) -> u64 {
        let bytes = self.bytes.get(at..).and_then(|bytes| bytes.first_chunk());
        bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    /// The field of a column, of whatever kind it is.
    fn cell(&self, number: u32, column: usize) -> Cell<'_> {
        let Some(column) = self.columns.get(column) else { return Cell::Absent };
        let at = self.place(number).wrapping_add(usize::from(column.offset));
        let (kind, bits) = match column.kind {
            Kind::Mixed => {
                let [kind, ..] = self.word(at).to_le_bytes();
                let kind = Kind::from_number(kind).unwrap_or(Kind::Absent);
                (kind, self.word(at.wrapping_add(1)))
            }
            Kind::RowText => match self.text_in_row(at) {
                Some([]) => return Cell::Absent,
                Some(text) => return Cell::Text(text),
                None => (Kind::Text, u64::from(self.word(at.wrapping_add(1)) as u32)),
            },
            kind => match column.field(self.word(at)) {
                0 => return Cell::Absent,
                field if kind == Kind::Text => (kind, field),
                field if kind == Kind::Decimal => return Cell::Double(column.decimal(field)),
                field => (kind, column.bits(field)),
            },
        };
        match kind {
            Kind::Text => self.text(column.text_place(bits)).map_or(Cell::Absent, Cell::Text),
            Kind::Double => Cell::Double(f64::from_bits(bits)),
            Kind::Float => Cell::Float(f32::from_bits(bits as u32)),
            Kind::Unsigned => Cell::Unsigned(bits),
            Kind::Signed => Cell::Signed(bits as u32 as i32),
            Kind::Boolean => Cell::Boolean(bits == 1),
            Kind::InPlace => Cell::InPlace,
            Kind::Absent | Kind::Mixed | Kind::Decimal | Kind::RowText => Cell::Absent,
        }
    }

    /// By the row's number, like all that is called rarely: a row whose address somebody takes is
    /// stored to memory at every lookup.
    #[cold]
    #[inline(never)]
    fn text_of_any_kind(&self, number: u32, column: usize) -> &[u8] {
        match self.cell(number, column) {
            Cell::Text(text) => text,
            _ => &[],
        }
    }

    #[cold]
    #[inline(never)]
    fn number_of_any_kind(&self, number: u32, column: usize) -> f64 {
        match self.cell(number, column) {
            Cell::Double(number) => number,
            Cell::Float(number) => f64::from(number),
            Cell::Unsigned(number) => number as f64,
            Cell::Signed(number) => f64::from(number),
            _ => f64::NAN,
        }
    }
}

/// The columns whose texts are worth asking for; those of a column end where the next ones begin.
fn far_texts(columns: &[Column], texts_bytes: usize) -> Vec<QuickText> {
    let start = |column: &&Column| column.text_place(0);
    let texts = || {
        columns
            .iter()
            .filter(|column| matches!(column.kind, Kind::Text | Kind::Mixed | Kind::RowText))
    };
    let is_far = |column: &&Column| {
        let next = texts().map(|next| start(&next)).filter(|next| *next > start(column)).min();
        let end = next.unwrap_or(texts_bytes as u32);
        column.kind == Kind::Text && end.saturating_sub(start(column)) > NEAR_TEXT_BYTES
    };
    texts().filter(is_far).map(QuickText::of).collect()
}
