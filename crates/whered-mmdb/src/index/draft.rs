//! Rows while they are decoded: values first, then the types of the columns, then the bytes.
//!
//! Not for reading rows; `rows` draws how they lie in memory.
//!
//! Which types a column has and how long rows are is known only when all records were decoded, so
//! the values are kept in between, 16 bytes each, with all texts in one piece.

use crate::database::Database;
use crate::decode::Scalar;
use crate::error::{ErrorKind, MmdbError};
use crate::index::IndexOptions;
use crate::index::rows::{Column, Kind, LONG, Rows};
use crate::tree::RecordId;
use whered_ip::image::{Image, bytes_of};

/// More columns than a row has space for.
const MOST_COLUMNS: usize = 255;
const LEAST_ROW_BYTES: usize = 16;
/// Of how many rows one may be too long for the space of a row.
const ROWS_FOR_A_LONG_ONE: usize = 32;

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
        let mut draft = Draft { columns, cells: vec![ABSENT; columns], texts: Vec::new() };
        for record in records {
            let start = draft.cells.len();
            draft.cells.resize(start + columns, ABSENT);
            database.scalars(*record, &options.fields, |column, scalar| {
                draft.cells[start + column] = draft_cell(scalar, &mut draft.texts);
            })?;
        }
        let ids: Vec<u32> =
            std::iter::once(0).chain(records.iter().map(|id| id.to_u32())).collect();
        let (layout, bytes) = draft.lay_out(ids.len());
        let (image, places) = Image::with_sections(&[bytes_of(&layout), bytes_of(&ids), &bytes]);
        Ok(Rows::from_sections(&image, &places).expect("they were laid out just now"))
    }
}

/// A value; of a text, where it begins among the texts and how long it is.
#[derive(Clone, Copy)]
struct DraftCell {
    kind: Kind,
    bits: u64,
}

const ABSENT: DraftCell = DraftCell { kind: Kind::Absent, bits: 0 };

fn draft_cell(scalar: Option<Scalar<'_>>, texts: &mut Vec<u8>) -> DraftCell {
    let (kind, bits) = match scalar {
        Some(Scalar::String(text)) if text.len() < usize::from(LONG) => {
            let start = texts.len() as u64;
            texts.extend(text.as_bytes());
            (Kind::Text, start << 16 | text.len() as u64)
        }
        Some(Scalar::Double(number)) => (Kind::Double, number.to_bits()),
        Some(Scalar::Float(number)) => (Kind::Float, u64::from(number.to_bits())),
        Some(Scalar::Int32(number)) => (Kind::Signed, u64::from(number as u32)),
        Some(Scalar::Uint16(number)) => (Kind::Unsigned, u64::from(number)),
        Some(Scalar::Uint32(number)) => (Kind::Unsigned, u64::from(number)),
        Some(Scalar::Uint64(number)) => (Kind::Unsigned, number),
        Some(Scalar::Boolean(truth)) => (Kind::Boolean, u64::from(truth)),
        Some(Scalar::String(_) | Scalar::Bytes(_) | Scalar::Uint128(_)) | None => {
            (Kind::InPlace, 0)
        }
    };
    DraftCell { kind, bits }
}

struct Draft {
    columns: usize,
    cells: Vec<DraftCell>,
    texts: Vec<u8>,
}

impl Draft {
    /// The layout and the bytes of `count` rows.
    fn lay_out(&self, count: usize) -> (Vec<u32>, Vec<u8>) {
        let (columns, fixed_bytes) = self.columns();
        // What a row without fields takes, too.
        let rows = || (0..count).map(|row| &self.cells[row * self.columns..][..self.columns]);
        let text_bytes = |row: &[DraftCell]| -> usize { row.iter().map(text_bytes).sum() };
        // Space for the places of long texts is space for any row.
        let mut row_bytes = (fixed_bytes + 4 * self.columns).next_power_of_two();
        row_bytes = row_bytes.max(LEAST_ROW_BYTES);
        let mut lengths = [0_usize; 17];
        for row in rows() {
            let length = fixed_bytes + text_bytes(row);
            lengths[(length.next_power_of_two().trailing_zeros() as usize).min(16)] += 1;
        }
        let longer =
            |bytes: usize| -> usize { lengths[bytes.trailing_zeros() as usize + 1..].iter().sum() };
        while row_bytes < 4096 && longer(row_bytes) * ROWS_FOR_A_LONG_ONE > count {
            row_bytes *= 2;
        }
        let (mut bytes, mut long) = (vec![0; count * row_bytes], Vec::new());
        for (cells, row) in rows().zip(bytes.chunks_mut(row_bytes)) {
            self.write(cells, &columns, fixed_bytes, row, &mut long);
        }
        bytes.extend(long);
        let described =
            columns.iter().map(|column| column.kind as u32 | u32::from(column.offset) << 8);
        (std::iter::once(row_bytes.trailing_zeros()).chain(described).collect(), bytes)
    }

    /// The columns' types and places, and where in a row the texts begin.
    fn columns(&self) -> (Vec<Column>, usize) {
        let mut kinds = vec![Kind::Absent; self.columns];
        for (place, cell) in self.cells.iter().enumerate() {
            let kind = &mut kinds[place % self.columns];
            *kind = match (*kind, cell.kind) {
                (known, Kind::Absent) => known,
                (Kind::Absent, new) => new,
                (known, new) if known == new => known,
                _ => Kind::Mixed,
            };
        }
        let mut offset = self.columns.div_ceil(8);
        let columns = kinds.into_iter().map(|kind| {
            let column = Column { kind, offset: offset as u16 };
            offset += kind.size_bytes();
            column
        });
        (columns.collect(), offset)
    }

    /// Writes one row; texts that it has no space for go behind the rows.
    fn write(
        &self,
        cells: &[DraftCell],
        columns: &[Column],
        fixed_bytes: usize,
        row: &mut [u8],
        long: &mut Vec<u8>,
    ) {
        let is_long = fixed_bytes + cells.iter().map(text_bytes).sum::<usize>() > row.len();
        let mut text_at = fixed_bytes;
        for (position, (cell, column)) in cells.iter().zip(columns).enumerate() {
            row[position / 8] |= u8::from(cell.kind != Kind::Absent) << (position % 8);
            let mut at = usize::from(column.offset);
            let mut kind = column.kind;
            if kind == Kind::Mixed {
                row[at] = cell.kind as u8;
                (at, kind) = (at + 1, cell.kind);
            }
            let bits = match (kind, cell.kind) {
                (Kind::Double, Kind::Absent) => f64::NAN.to_bits(),
                (Kind::Text, Kind::Text) if is_long => {
                    row[text_at..text_at + 4].copy_from_slice(&(long.len() as u32).to_le_bytes());
                    long.extend((cell.bits as u16).to_le_bytes());
                    long.extend(self.text(cell));
                    text_at += 4;
                    (text_at as u64 - 4) | u64::from(LONG) << 16
                }
                (Kind::Text, Kind::Text) => {
                    let text = self.text(cell);
                    row[text_at..text_at + text.len()].copy_from_slice(text);
                    text_at += text.len();
                    (text_at - text.len()) as u64 | (text.len() as u64) << 16
                }
                _ => cell.bits,
            };
            let size = kind.size_bytes();
            row[at..at + size].copy_from_slice(&bits.to_le_bytes()[..size]);
        }
    }

    fn text(&self, cell: &DraftCell) -> &[u8] {
        let start = (cell.bits >> 16) as usize;
        &self.texts[start..start + text_bytes(cell)]
    }
}

/// How many bytes of text a cell has.
fn text_bytes(cell: &DraftCell) -> usize {
    if cell.kind == Kind::Text { usize::from(cell.bits as u16) } else { 0 }
}
