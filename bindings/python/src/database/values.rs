//! The values of one field for all records, laid out for columns of answers.
//!
//! ```text
//! strings    rows: code | code | ...   one a record, as narrow as they can be; 0 is "no value"
//!          codes: text | text | ...  each text once; as views, for `utf8_view`
//! numbers  rows: value | value | ...  and a bit for each that is there
//! ```
//!
//! The type is that which all values of the field fit: unsigned of 32 or 64 bits, signed, float,
//! boolean, or text; numbers of several types become 64-bit ones, then doubles. Maps, arrays and
//! what has no type in common with the rest become strings: JSON, or as values are printed.
//!
//! Cost: one pass over all records; 1 to 8 bytes a record, and each text once.

use std::collections::HashMap;

use arrow_buffer::Buffer;
use arrow_schema::DataType;
use pyo3::prelude::*;
use whered_mmdb::{Cell, Database, DatabaseIndex, FieldPath, MmdbError, Value};

/// The values of a field by the index's rows. Row 0, "no record", has none.
pub(crate) enum Values {
    Strings(Strings),
    Unsigned32(Numbers<u32>),
    Unsigned64(Numbers<u64>),
    Signed64(Numbers<i64>),
    Float32(Numbers<f32>),
    Float64(Numbers<f64>),
    Boolean(Numbers<bool>),
}

/// Numbers by rows.
pub(crate) struct Numbers<T> {
    /// The value of each row; any for one without.
    pub(crate) values: Vec<T>,
    /// Which rows have one: 64 rows a word, from the lowest bit on.
    pub(crate) is_set: Vec<u64>,
}

/// Strings by rows.
pub(crate) struct Strings {
    pub(crate) codes: Codes,
    /// The strings by codes as views, an empty one for code 0.
    pub(crate) views: Vec<u128>,
    /// Where each text ends in `bytes`, by codes; that of code 0 is 0.
    pub(crate) ends: Vec<u32>,
    /// All strings one behind the other.
    pub(crate) bytes: Buffer,
}

/// The codes of all rows, as narrow as they can be.
pub(crate) enum Codes {
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
}

/// The type that all values so far fit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    Nothing,
    Boolean,
    Unsigned32,
    Unsigned64,
    Signed64,
    Float32,
    Float64,
    Text,
}

impl Kind {
    /// The narrowest type that values of both fit.
    fn with(self, other: Kind) -> Kind {
        let (less, more) = (self.min(other), self.max(other));
        match (less, more) {
            (Kind::Nothing, kind) => kind,
            (less, more) if less == more => more,
            (Kind::Boolean, _) | (_, Kind::Text) => Kind::Text,
            (Kind::Unsigned32, Kind::Unsigned64 | Kind::Signed64) => more,
            _ => Kind::Float64,
        }
    }
}

impl Values {
    /// The values of a field; `None` if no record has it.
    ///
    /// # Errors
    ///
    /// A record that is damaged; a field whose strings together have 4 GiB.
    pub(crate) fn of_field(
        database: &Database,
        index: &DatabaseIndex,
        path: &FieldPath,
    ) -> Result<Option<Values>, Fault> {
        let column = index.column(path);
        let each = |take: &mut dyn FnMut(usize, &Value)| -> Result<(), MmdbError> {
            for row in 1..index.row_count() {
                let Some(record) = index.record_of_row(row as u32) else { continue };
                if let Some(value) = database.field(record, path)? {
                    take(row, &value);
                }
            }
            Ok(())
        };
        // An index's own column is read without decoding.
        if let Some(column) = column
            && let Some(values) = Values::of_column(index, column)?
        {
            return Ok(Some(values));
        }
        let mut kind = Kind::Nothing;
        each(&mut |_, value| kind = kind.with(kind_of(value)))?;
        let rows = index.row_count();
        let values = match kind {
            Kind::Nothing => return Ok(None),
            Kind::Boolean => {
                let mut numbers = Numbers::new(rows);
                each(&mut |row, value| {
                    numbers.set(row, matches!(value, Value::Boolean(true)));
                })?;
                Values::Boolean(numbers)
            }
            Kind::Unsigned32 => Values::Unsigned32(numbers(rows, &each, |value| {
                unsigned(value).and_then(|number| u32::try_from(number).ok())
            })?),
            Kind::Unsigned64 => Values::Unsigned64(numbers(rows, &each, unsigned)?),
            Kind::Signed64 => Values::Signed64(numbers(rows, &each, |value| match value {
                Value::Int32(number) => Some(i64::from(*number)),
                other => unsigned(other).and_then(|number| i64::try_from(number).ok()),
            })?),
            Kind::Float32 => Values::Float32(numbers(rows, &each, |value| match value {
                Value::Float(number) => Some(*number),
                _ => None,
            })?),
            Kind::Float64 => Values::Float64(numbers(rows, &each, Value::as_f64)?),
            Kind::Text => {
                let mut builder = StringsBuilder::new(rows);
                let mut text = Vec::new();
                each(&mut |row, value| match value {
                    Value::String(known) => builder.set(row, known.as_bytes()),
                    other => {
                        text.clear();
                        other.write_text(&mut text);
                        builder.set(row, &text);
                    }
                })?;
                Values::Strings(builder.finish()?)
            }
        };
        Ok(Some(values))
    }

    /// The values of an index's column, if they are all of one type that is kept as it is.
    fn of_column(index: &DatabaseIndex, column: usize) -> Result<Option<Values>, Fault> {
        let rows = index.row_count();
        let cell = |row: usize| {
            let found = whered_mmdb::Found { row: row as u32, length_bits: 0 };
            index.row(found).get(column)
        };
        let mut kind = Kind::Nothing;
        for row in 1..rows {
            kind = kind.with(match cell(row) {
                Cell::Absent => Kind::Nothing,
                Cell::Text(_) => Kind::Text,
                Cell::Double(_) => Kind::Float64,
                Cell::Float(_) => Kind::Float32,
                Cell::Unsigned(number) => kind_of_unsigned(number),
                Cell::Signed(_) => Kind::Signed64,
                Cell::Boolean(_) => Kind::Boolean,
                Cell::InPlace => return Ok(None),
            });
        }
        let values = match kind {
            Kind::Text => {
                let mut builder = StringsBuilder::new(rows);
                for row in 1..rows {
                    match cell(row) {
                        Cell::Absent => {}
                        Cell::Text(text) => builder.set(row, text),
                        // Numbers among strings are printed as the database prints them.
                        _ => return Ok(None),
                    }
                }
                Values::Strings(builder.finish()?)
            }
            Kind::Unsigned32 => {
                Values::Unsigned32(Numbers::of_cells(rows, |row| match cell(row) {
                    Cell::Unsigned(number) => u32::try_from(number).ok(),
                    _ => None,
                }))
            }
            Kind::Float64 => {
                let mut is_plain = true;
                let numbers = Numbers::of_cells(rows, |row| match cell(row) {
                    Cell::Double(number) => Some(number),
                    Cell::Absent => None,
                    _ => {
                        is_plain = false;
                        None
                    }
                });
                if !is_plain {
                    return Ok(None);
                }
                Values::Float64(numbers)
            }
            // The others are rare: they take the way of all fields.
            _ => return Ok(None),
        };
        Ok(Some(values))
    }

    /// The type of a column of these values, strings aside.
    pub(crate) fn number_type(&self) -> Option<DataType> {
        match self {
            Values::Strings(_) => None,
            Values::Unsigned32(_) => Some(DataType::UInt32),
            Values::Unsigned64(_) => Some(DataType::UInt64),
            Values::Signed64(_) => Some(DataType::Int64),
            Values::Float32(_) => Some(DataType::Float32),
            Values::Float64(_) => Some(DataType::Float64),
            Values::Boolean(_) => Some(DataType::Boolean),
        }
    }

    /// The value of a row as an object of Python.
    pub(crate) fn object(&self, py: Python<'_>, row: u32) -> PyResult<Py<PyAny>> {
        fn of<'py, T: Copy + IntoPyObject<'py>>(
            py: Python<'py>,
            numbers: &Numbers<T>,
            row: u32,
        ) -> PyResult<Py<PyAny>>
        where
            PyErr: From<T::Error>,
        {
            use pyo3::BoundObject;

            match numbers.get(row) {
                Some(number) => Ok(number.into_pyobject(py)?.into_bound().into_any().unbind()),
                None => Ok(py.None()),
            }
        }
        match self {
            Values::Strings(strings) => match strings.text(strings.codes.get(row)) {
                Some(text) => Ok(text.into_pyobject(py)?.into_any().unbind()),
                None => Ok(py.None()),
            },
            Values::Unsigned32(numbers) => of(py, numbers, row),
            Values::Unsigned64(numbers) => of(py, numbers, row),
            Values::Signed64(numbers) => of(py, numbers, row),
            Values::Float32(numbers) => of(py, numbers, row),
            Values::Float64(numbers) => of(py, numbers, row),
            Values::Boolean(numbers) => of(py, numbers, row),
        }
    }
}

impl<T: Copy> Numbers<T> {
    /// The value of a row.
    #[inline]
    pub(crate) fn get(&self, row: u32) -> Option<T> {
        let is_set =
            self.is_set.get(row as usize / 64).is_some_and(|word| word >> (row % 64) & 1 == 1);
        if is_set { self.values.get(row as usize).copied() } else { None }
    }
}

impl<T: Copy + Default> Numbers<T> {
    fn new(rows: usize) -> Numbers<T> {
        Numbers { values: vec![T::default(); rows], is_set: vec![0; rows.div_ceil(64)] }
    }

    fn set(&mut self, row: usize, value: T) {
        if let (Some(place), Some(word)) = (self.values.get_mut(row), self.is_set.get_mut(row / 64))
        {
            *place = value;
            *word |= 1 << (row % 64);
        }
    }

    fn of_cells(rows: usize, mut cell: impl FnMut(usize) -> Option<T>) -> Numbers<T> {
        let mut numbers = Numbers::new(rows);
        for row in 1..rows {
            if let Some(value) = cell(row) {
                numbers.set(row, value);
            }
        }
        numbers
    }
}

impl Codes {
    /// The code of a row; 0 for one that there is none of.
    #[inline]
    pub(crate) fn get(&self, row: u32) -> u32 {
        let row = row as usize;
        match self {
            Codes::U8(codes) => codes.get(row).map_or(0, |code| u32::from(*code)),
            Codes::U16(codes) => codes.get(row).map_or(0, |code| u32::from(*code)),
            Codes::U32(codes) => codes.get(row).copied().unwrap_or(0),
        }
    }
}

impl Strings {
    /// The text of a code; `None` for code 0.
    pub(crate) fn text(&self, code: u32) -> Option<&str> {
        if code == 0 {
            return None;
        }
        let (start, end) = (self.ends.get(code as usize - 1)?, self.ends.get(code as usize)?);
        let bytes = self.bytes.get(*start as usize..*end as usize)?;
        std::str::from_utf8(bytes).ok()
    }

    /// How many codes there are, 0 included.
    pub(crate) fn count(&self) -> usize {
        self.ends.len()
    }
}

/// What a field cannot be laid out for.
pub(crate) enum Fault {
    /// A damaged record.
    Record(MmdbError),
    /// More text than a column's views can point into.
    TooLarge,
    /// Bytes of an index that are no UTF-8: the consumer of a column relies on that.
    NoText,
}

impl From<MmdbError> for Fault {
    fn from(error: MmdbError) -> Fault {
        Fault::Record(error)
    }
}

fn kind_of(value: &Value) -> Kind {
    match value {
        Value::Uint16(_) | Value::Uint32(_) => Kind::Unsigned32,
        Value::Uint64(number) => kind_of_unsigned(*number),
        Value::Int32(_) => Kind::Signed64,
        Value::Float(_) => Kind::Float32,
        Value::Double(_) => Kind::Float64,
        Value::Boolean(_) => Kind::Boolean,
        Value::String(_)
        | Value::Bytes(_)
        | Value::Map(_)
        | Value::Array(_)
        | Value::Uint128(_) => Kind::Text,
    }
}

fn kind_of_unsigned(number: u64) -> Kind {
    if u32::try_from(number).is_ok() { Kind::Unsigned32 } else { Kind::Unsigned64 }
}

fn unsigned(value: &Value) -> Option<u64> {
    match value {
        Value::Uint16(number) => Some(u64::from(*number)),
        Value::Uint32(number) => Some(u64::from(*number)),
        Value::Uint64(number) => Some(*number),
        _ => None,
    }
}

/// A function that calls another one for each row with a value.
type ForEach<'a> = dyn Fn(&mut dyn FnMut(usize, &Value)) -> Result<(), MmdbError> + 'a;

fn numbers<T: Copy + Default>(
    rows: usize,
    each: &ForEach<'_>,
    number: impl Fn(&Value) -> Option<T>,
) -> Result<Numbers<T>, MmdbError> {
    let mut numbers = Numbers::new(rows);
    each(&mut |row, value| {
        if let Some(number) = number(value) {
            numbers.set(row, number);
        }
    })?;
    Ok(numbers)
}

/// Collects the strings of rows, each text once.
struct StringsBuilder {
    codes: Vec<u32>,
    known: HashMap<Box<[u8]>, u32>,
    ends: Vec<usize>,
    bytes: Vec<u8>,
}

impl StringsBuilder {
    fn new(rows: usize) -> StringsBuilder {
        StringsBuilder {
            codes: vec![0; rows],
            known: HashMap::new(),
            ends: vec![0],
            bytes: Vec::new(),
        }
    }

    fn set(&mut self, row: usize, text: &[u8]) {
        let code = match self.known.get(text) {
            Some(code) => *code,
            None => {
                let code = self.ends.len() as u32;
                self.known.insert(text.into(), code);
                self.bytes.extend_from_slice(text);
                self.ends.push(self.bytes.len());
                code
            }
        };
        if let Some(place) = self.codes.get_mut(row) {
            *place = code;
        }
    }

    fn finish(self) -> Result<Strings, Fault> {
        let is_text = std::str::from_utf8(&self.bytes)
            .is_ok_and(|strings| self.ends.iter().all(|end| strings.is_char_boundary(*end)));
        if !is_text {
            return Err(Fault::NoText);
        }
        // Views and 32-bit offsets count with a sign.
        if self.bytes.len() > i32::MAX as usize {
            return Err(Fault::TooLarge);
        }
        let mut views = vec![0; self.ends.len()];
        for (code, window) in self.ends.windows(2).enumerate() {
            if let [start, end] = *window
                && let Some(text) = self.bytes.get(start..end)
                && let Some(view) = views.get_mut(code + 1)
            {
                *view = arrow_array::builder::make_view(text, 0, start as u32);
            }
        }
        let most = self.ends.len() - 1;
        let codes = if most <= usize::from(u8::MAX) {
            Codes::U8(self.codes.iter().map(|code| *code as u8).collect())
        } else if most <= usize::from(u16::MAX) {
            Codes::U16(self.codes.iter().map(|code| *code as u16).collect())
        } else {
            Codes::U32(self.codes)
        };
        let ends = self.ends.iter().map(|end| *end as u32).collect();
        Ok(Strings { codes, views, ends, bytes: Buffer::from_vec(self.bytes) })
    }
}
