//! Builds rows: decodes all values, chooses the columns' types, and writes the bytes.
//!
//! Not for reading rows; `rows` draws their layout, and `column` that of values in rows.
//!
//! A column's types and sizes are known only when all records are decoded. Until then each value
//! takes 16 bytes, and all strings are in one buffer.

use super::column::{Column, Kind, LONG, MIXED_BYTES, NEAR_BYTES};
use super::ids::IdTables;
use super::pool::{LINE_BYTES, Places, TextPool, UNITS_BYTES, bytes_for};
use super::rows::{ENTRY_BYTES, Rows};
use crate::database::Database;
use crate::decode::Scalar;
use crate::error::{ErrorKind, MmdbError};
use crate::index::IndexOptions;
use crate::tree::RecordId;
use whered_ip::image::{Image, bytes_of};

/// More columns than a row has space for.
const MOST_COLUMNS: usize = 255;
/// Texts from this length on stay in the database.
const TEXT_BYTES_END: usize = u16::MAX as usize;
/// Texts of a column that take less than this together are better shared by the rows.
const FAR_TEXTS_BYTES: usize = 128 << 10;
/// Of how many rows one may have a text that the rows have no space for.
const ROWS_FOR_A_LONG_ONE: usize = 32;
/// The size of such a string in its row.
const LONG_BYTES: usize = 5;
/// Marks cells of such texts.
const OTHER_TEXT: u64 = 1 << 63;
/// Digits behind the point that are looked for in a column of doubles.
const MOST_DECIMALS: i32 = 9;
/// Decimals have fewer units than this: far fewer than doubles are exact for.
const DECIMAL_UNITS_END: f64 = (1_u64 << 48) as f64;

impl Rows {
    /// Decodes the fields of these records, which come in rising order. `uses` says of each row,
    /// row 0 included, how many networks have it.
    pub(super) fn build(
        database: &Database,
        records: &[RecordId],
        uses: &[u32],
        options: &IndexOptions,
    ) -> Result<Rows, MmdbError> {
        let columns = options.fields.len();
        if columns > MOST_COLUMNS {
            let found = format!("{columns} fields for an index");
            return Err(MmdbError::new(ErrorKind::Limit, found, format!("up to {MOST_COLUMNS}")));
        }
        let cells = vec![ABSENT; columns];
        let mut builder = RowsBuilder { columns, cells, texts: Vec::new(), row_texts: Vec::new() };
        for record in records {
            let start = builder.cells.len();
            builder.cells.resize(start + columns, ABSENT);
            database.scalars(*record, &options.fields, |column, scalar| {
                builder.cells[start + column] = raw_cell(scalar, &mut builder.texts);
            })?;
        }
        let ids: Vec<u32> =
            std::iter::once(0).chain(records.iter().map(|id| id.to_u32())).collect();
        let (columns, texts) = builder.lay_out_columns(uses);
        if u32::try_from(texts.len()).is_err() {
            let found = format!("{} bytes of distinct texts for an index", texts.len());
            return Err(MmdbError::new(ErrorKind::Limit, found, "up to 4 GiB"));
        }
        let (row_bytes, bytes) = builder.lay_out_rows(&columns, ids.len());
        let ids = IdTables::of(&ids);
        let mut layout = vec![row_bytes as u64, u64::from(ids.shift)];
        layout.extend(columns.iter().flat_map(Column::words));
        let [starts, steps] = ids.sections();
        let sections = [bytes_of(&layout), starts, steps, &bytes, &texts];
        let (image, places) = Image::with_sections(&sections);
        Ok(Rows::from_sections(&image, &places).expect("they were laid out just now"))
    }
}

/// A value; of a text, where it begins among the texts and how long it is.
#[derive(Clone, Copy)]
struct RawCell {
    kind: Kind,
    bits: u64,
}

const ABSENT: RawCell = RawCell { kind: Kind::Absent, bits: 0 };

fn raw_cell(scalar: Option<Scalar<'_>>, texts: &mut Vec<u8>) -> RawCell {
    let (kind, bits) = match scalar {
        Some(Scalar::String(text)) if text.len() < TEXT_BYTES_END => {
            let start = texts.len() as u64;
            texts.extend(text.as_bytes());
            (Kind::Text, start << 16 | text.len() as u64)
        }
        Some(Scalar::Double(number)) => (Kind::Double, number.to_bits()),
        Some(Scalar::Float(number)) => (Kind::Float, u64::from(number.to_bits())),
        Some(Scalar::Int32(number)) => (Kind::Signed, i64::from(number).cast_unsigned()),
        Some(Scalar::Uint16(number)) => (Kind::Unsigned, u64::from(number)),
        Some(Scalar::Uint32(number)) => (Kind::Unsigned, u64::from(number)),
        Some(Scalar::Uint64(number)) => (Kind::Unsigned, number),
        Some(Scalar::Boolean(truth)) => (Kind::Boolean, u64::from(truth)),
        Some(Scalar::String(_) | Scalar::Bytes(_) | Scalar::Uint128(_)) | None => {
            (Kind::InPlace, 0)
        }
    };
    RawCell { kind, bits }
}

struct RowsBuilder {
    columns: usize,
    cells: Vec<RawCell>,
    texts: Vec<u8>,
    /// The strings that rows hold themselves, each with its length before it.
    row_texts: Vec<u8>,
}

impl RowsBuilder {
    /// The columns with their places in a row, and the entries of all their texts. The cells hold
    /// what stands in the rows afterwards.
    fn lay_out_columns(&mut self, uses: &[u32]) -> (Vec<Column>, Vec<u8>) {
        let mut plans: Vec<_> = (0..self.columns).map(|number| self.plan(number, uses)).collect();
        let in_row = self.choose_row_texts(&plans);
        if let Some((number, width_bytes)) = in_row {
            plans[number] = self.row_texts(number, &plans[number].1, width_bytes, uses);
        }
        let mut entries = Vec::new();
        for (column, places) in &mut plans {
            if !places.bytes.is_empty() {
                let base = entries.len().next_multiple_of(LINE_BYTES);
                entries.resize(base, 0);
                entries.extend(&places.bytes);
                *column = column.with_base(base as u64).with_unit(places.unit_bytes);
            }
        }
        entries.resize(entries.len() + ENTRY_BYTES, 0);
        // The texts in rows go behind the fields.
        let mut order: Vec<usize> = (0..self.columns).collect();
        order.sort_by_key(|number| in_row.is_some_and(|(in_row, _)| in_row == *number));
        let mut offset = 0_u16;
        for number in order {
            let column = &mut plans[number].0;
            *column = column.at(offset);
            offset += u16::from(column.width_bytes);
        }
        (plans.into_iter().map(|(column, _)| column).collect(), entries)
    }

    /// A column that has no place yet, and the entries of its texts.
    fn plan(&mut self, number: usize, uses: &[u32]) -> (Column, Places) {
        let column = match self.kind_of_column(number) {
            Kind::Absent => Some(Column::new(Kind::Absent, 0, 0)),
            Kind::Text => {
                let places = self.intern(number, uses, &UNITS_BYTES);
                return (Column::new(Kind::Text, places.reference_bytes(), 0), places);
            }
            Kind::Double => match self.doubles_become_whole(number) {
                Some(divisor) => {
                    let column = self.numbers_become_fields(number, Kind::Decimal);
                    column.map(|column| column.with_divisor(divisor))
                }
                None => self.numbers_become_fields(number, Kind::Double),
            },
            Kind::Mixed => None,
            kind => self.numbers_become_fields(number, kind),
        };
        match column {
            Some(column) => (column, Places::default()),
            // Texts become places, all else stays.
            None => {
                let places = self.intern(number, uses, &[1]);
                (Column::new(Kind::Mixed, MIXED_BYTES as u8, 0), places)
            }
        }
    }

    /// The column whose texts had better stand in the rows, and how much space they have there.
    fn choose_row_texts(&self, plans: &[(Column, Places)]) -> Option<(usize, u8)> {
        let texts = plans.iter().enumerate().filter(|(_, (column, places))| {
            column.kind == Kind::Text && places.bytes.len() >= FAR_TEXTS_BYTES
        });
        let (number, (column, places)) = texts.max_by_key(|(_, (_, places))| places.bytes.len())?;
        let all: usize = plans.iter().map(|(column, _)| usize::from(column.width_bytes)).sum();
        let fields = all - usize::from(column.width_bytes);
        let rows = self.cells.len() / self.columns;
        [16, 32, LINE_BYTES].into_iter().find_map(|row_bytes: usize| {
            let width = row_bytes.checked_sub(fields).filter(|width| *width > LONG_BYTES)?;
            // Those that `row_texts` does not put into the rows: longer ones, and empty ones.
            let others = self
                .values(number)
                .filter(|reference| !(1..width).contains(&places.text(*reference).len()));
            (others.count() * ROWS_FOR_A_LONG_ONE <= rows).then_some((number, width as u8))
        })
    }

    /// A column whose texts stand in the rows: cells lead to them, or are marked as references to
    /// entries of those that do not fit.
    fn row_texts(
        &mut self,
        number: usize,
        all: &Places,
        width_bytes: u8,
        uses: &[u32],
    ) -> (Column, Places) {
        let mut long = TextPool::default();
        let cells = self.cells.iter_mut().skip(number).step_by(self.columns).zip(uses);
        let cells = cells.filter(|(cell, _)| cell.kind != Kind::Absent);
        let mut others: Vec<&mut u64> = Vec::new();
        for (RawCell { bits, .. }, uses) in cells {
            let text = all.text(*bits);
            if (1..usize::from(width_bytes)).contains(&text.len()) {
                let start = self.row_texts.len() as u64;
                self.row_texts.push(text.len() as u8);
                self.row_texts.extend(text);
                *bits = start;
            } else {
                *bits = u64::from(long.add(text, u64::from(*uses)));
                others.push(bits);
            }
        }
        let places = long.place(&[1]);
        for number in others {
            *number = OTHER_TEXT | places.references[*number as usize];
        }
        (Column::new(Kind::RowText, width_bytes, 0), places)
    }

    fn kind_of_column(&self, column: usize) -> Kind {
        let kinds = self.cells.iter().skip(column).step_by(self.columns).map(|cell| cell.kind);
        let mut kinds = kinds.filter(|kind| *kind != Kind::Absent);
        let Some(first) = kinds.next() else { return Kind::Absent };
        if kinds.all(|kind| kind == first) { first } else { Kind::Mixed }
    }

    /// The values of a column that are there.
    fn values_mut(&mut self, column: usize) -> impl Iterator<Item = &mut u64> {
        let cells = self.cells.iter_mut().skip(column).step_by(self.columns);
        cells.filter(|cell| cell.kind != Kind::Absent).map(|cell| &mut cell.bits)
    }

    fn values(&self, column: usize) -> impl Iterator<Item = u64> {
        let cells = self.cells.iter().skip(column).step_by(self.columns);
        cells.filter(|cell| cell.kind != Kind::Absent).map(|cell| cell.bits)
    }

    /// Makes doubles whole numbers of the largest decimal unit that gives exactly all of them back,
    /// if there is one, and says how many units are one.
    fn doubles_become_whole(&mut self, column: usize) -> Option<f64> {
        let whole = |bits: u64, divisor: f64| {
            let units = (f64::from_bits(bits) * divisor).round();
            // NaN is not below the end.
            let is_exact = units.abs() < DECIMAL_UNITS_END && (units / divisor).to_bits() == bits;
            // The double zero has a sign, whole numbers have none.
            is_exact.then_some(units as i64).filter(|units| *units != 0 || bits == 0)
        };
        let mut divisors = (0..=MOST_DECIMALS).map(|decimals| 10_f64.powi(decimals));
        let divisor = divisors
            .find(|divisor| self.values(column).all(|bits| whole(bits, *divisor).is_some()))?;
        for bits in self.values_mut(column) {
            *bits = whole(*bits, divisor).map_or(0, i64::cast_unsigned);
        }
        Some(divisor)
    }

    /// Makes numbers fields: their distance from one less than the least one. `None`, with nothing
    /// done, if no field would be left for "absent".
    fn numbers_become_fields(&mut self, column: usize, kind: Kind) -> Option<Column> {
        // As numbers without a sign in the same order.
        let is_signed = matches!(kind, Kind::Signed | Kind::Decimal);
        let sign = u64::from(is_signed) << 63;
        let (least, most) = self.values(column).fold((u64::MAX, 0), |(least, most), bits| {
            (least.min(bits ^ sign), most.max(bits ^ sign))
        });
        let most_field = most.checked_sub(least)?.checked_add(1)?;
        let base = (least ^ sign).wrapping_sub(1);
        for bits in self.values_mut(column) {
            *bits = bits.wrapping_sub(base);
        }
        Some(Column::new(kind, bytes_for(most_field), base))
    }

    /// Makes the texts of a column references to entries, whose places are counted in one of the
    /// units.
    fn intern(&mut self, column: usize, uses: &[u32], units_bytes: &[usize]) -> Places {
        let mut pool = TextPool::default();
        let cells = self.cells.iter_mut().skip(column).step_by(self.columns).zip(uses);
        let mut texts: Vec<&mut u64> = Vec::new();
        for (cell, uses) in cells.filter(|(cell, _)| cell.kind == Kind::Text) {
            let start = (cell.bits >> 16) as usize;
            let text = &self.texts[start..start + usize::from(cell.bits as u16)];
            cell.bits = u64::from(pool.add(text, u64::from(*uses)));
            texts.push(&mut cell.bits);
        }
        let places = pool.place(units_bytes);
        for number in texts {
            *number = places.references[*number as usize];
        }
        places
    }

    /// How many bytes a row takes, and all rows.
    fn lay_out_rows(&self, columns: &[Column], count: usize) -> (usize, Vec<u8>) {
        let used: usize = columns.iter().map(|column| usize::from(column.width_bytes)).sum();
        let row_bytes = row_bytes(used);
        let mut bytes = vec![0; count * row_bytes + NEAR_BYTES];
        if row_bytes == 0 {
            return (0, bytes);
        }
        let rows = bytes.chunks_exact_mut(row_bytes);
        for (cells, row) in self.cells.chunks_exact(self.columns).zip(rows) {
            for (cell, column) in cells.iter().zip(columns) {
                let at = usize::from(column.offset);
                self.write(cell, column.kind, &mut row[at..at + usize::from(column.width_bytes)]);
            }
        }
        (row_bytes, bytes)
    }

    fn write(&self, cell: &RawCell, kind: Kind, field: &mut [u8]) {
        match kind {
            Kind::RowText if cell.kind == Kind::Absent => {}
            Kind::RowText if cell.bits & OTHER_TEXT != 0 => {
                field[0] = LONG;
                field[1..LONG_BYTES].copy_from_slice(&(cell.bits as u32).to_le_bytes());
            }
            Kind::RowText => {
                let entry = &self.row_texts[cell.bits as usize..];
                let entry = &entry[..1 + usize::from(entry[0])];
                field[..entry.len()].copy_from_slice(entry);
            }
            Kind::Mixed => {
                field[0] = cell.kind as u8;
                field[1..].copy_from_slice(&cell.bits.to_le_bytes());
            }
            _ => {
                let width = field.len();
                field.copy_from_slice(&cell.bits.to_le_bytes()[..width]);
            }
        }
    }
}

/// The space of a row whose fields take so much, so that few rows lie in more cache lines than they
/// have to.
fn row_bytes(used: usize) -> usize {
    match used {
        0 => 0,
        1..LINE_BYTES => used.next_power_of_two(),
        _ => used.next_multiple_of(LINE_BYTES),
    }
}
