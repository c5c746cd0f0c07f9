//! Columns as names, and as numbers: rows by their number, however the column is chunked.
//!
//! Not for: what a row means (its users say), addresses (`addresses.rs`), nor Python's objects
//! (`arrow`).
//!
//! Cost: columns of doubles and of strings are read where they lie; other numbers are copied.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Decimal128Type, Float32Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayAccessor, ArrayRef, Float64Array, PrimitiveArray, new_empty_array};
use arrow_schema::DataType;
use pyo3::prelude::*;

use crate::arrow::input::{Column, wrong_type};

/// The chunks of a column of which every row has a number.
struct Chunks<T> {
    chunks: Vec<T>,
    /// The first row of each chunk, and the number of rows.
    starts: Vec<usize>,
}

/// A column of numbers, as doubles.
pub(crate) struct Numbers(Chunks<Float64Array>);

/// A column of names: strings, or whole numbers, which are taken as they are written.
pub(crate) struct Names(Chunks<NameChunk>);

enum NameChunk {
    /// Of one of the types of strings.
    Strings(ArrayRef),
    /// Strings, and which of them each row has.
    Dictionary {
        strings: ArrayRef,
        keys: Vec<usize>,
        array: ArrayRef,
    },
    Signed(PrimitiveArray<Int64Type>),
    Unsigned(PrimitiveArray<UInt64Type>),
    Nulls,
}

impl<T> Chunks<T> {
    fn of(
        column: &Column,
        what: &str,
        allowed: &str,
        chunk: impl Fn(&ArrayRef) -> Option<T>,
    ) -> PyResult<Chunks<T>> {
        let wrong = || wrong_type(what, &column.data_type, allowed);
        // A column without chunks has a type all the same.
        chunk(&new_empty_array(&column.data_type)).ok_or_else(wrong)?;
        let chunks = column.chunks.iter().map(|array| chunk(array).ok_or_else(wrong));
        let chunks = chunks.collect::<PyResult<_>>()?;
        let mut starts = vec![0];
        let mut start = 0;
        for array in &column.chunks {
            start += array.len();
            starts.push(start);
        }
        Ok(Chunks { chunks, starts })
    }

    fn len(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }

    /// The chunks that these rows are in, each with those of its rows.
    fn parts(&self, rows: Range<usize>) -> impl Iterator<Item = (&T, Range<usize>)> {
        let first = self.starts.partition_point(|start| *start <= rows.start).saturating_sub(1);
        let spans = self.chunks.iter().zip(self.starts.iter().zip(&self.starts[1..]));
        let spans = spans.skip(first).take_while(move |(_, (start, _))| **start < rows.end);
        spans.map(move |(chunk, (start, end))| {
            (chunk, rows.start.max(*start) - start..rows.end.min(*end) - start)
        })
    }
}

impl Numbers {
    /// The numbers of a column that a caller passed; `what` names the argument in messages.
    ///
    /// # Errors
    ///
    /// `TypeError` for a column of another type, and the errors of [`Column::of_object`].
    pub(crate) fn of_object(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Numbers> {
        Numbers::of_column(&Column::of_object(object, what)?, what)
    }

    /// The numbers of a column.
    ///
    /// # Errors
    ///
    /// `TypeError` for a column of another type.
    pub(crate) fn of_column(column: &Column, what: &str) -> PyResult<Numbers> {
        Ok(Numbers(Chunks::of(column, what, "numbers", doubles)?))
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Appends the numbers of rows, `None` for null.
    pub(crate) fn read(&self, rows: Range<usize>, numbers: &mut Vec<Option<f64>>) {
        for (chunk, rows) in self.0.parts(rows) {
            let values = &chunk.values()[rows.clone()];
            match chunk.nulls() {
                None => numbers.extend(values.iter().copied().map(Some)),
                Some(nulls) => {
                    let values = rows.zip(values);
                    numbers
                        .extend(values.map(|(row, value)| nulls.is_valid(row).then_some(*value)));
                }
            }
        }
    }
}

impl Names {
    /// The names of a column that a caller passed; `what` names the argument in messages.
    ///
    /// # Errors
    ///
    /// `TypeError` for a column of another type, and the errors of [`Column::of_object`].
    pub(crate) fn of_object(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Names> {
        Names::of_column(&Column::of_object(object, what)?, what)
    }

    /// The names of a column.
    ///
    /// # Errors
    ///
    /// `TypeError` for a column of another type.
    pub(crate) fn of_column(column: &Column, what: &str) -> PyResult<Names> {
        Ok(Names(Chunks::of(column, what, "strings and whole numbers", NameChunk::of)?))
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The first row among these that is null.
    pub(crate) fn first_null(&self, rows: Range<usize>) -> Option<usize> {
        let mut row = rows.start;
        for (chunk, rows) in self.0.parts(rows) {
            for at in rows {
                if chunk.is_null(at) {
                    return Some(row);
                }
                row += 1;
            }
        }
        None
    }

    /// Calls with the name of each of these rows, `None` for null.
    pub(crate) fn for_each(&self, rows: Range<usize>, mut take: impl FnMut(Option<&str>)) {
        for (chunk, rows) in self.0.parts(rows) {
            chunk.for_each(rows, &mut take);
        }
    }
}

impl NameChunk {
    fn of(array: &ArrayRef) -> Option<NameChunk> {
        match array.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                Some(NameChunk::Strings(Arc::clone(array)))
            }
            DataType::Dictionary(_, values) if !matches!(**values, DataType::Dictionary(..)) => {
                let dictionary = array.as_any_dictionary();
                let strings = Arc::clone(dictionary.values());
                let NameChunk::Strings(strings) = NameChunk::of(&strings)? else { return None };
                // The keys of an empty dictionary are all null, and mean nothing.
                let keys = if strings.is_empty() {
                    vec![0; array.len()]
                } else {
                    dictionary.normalized_keys()
                };
                Some(NameChunk::Dictionary { strings, keys, array: Arc::clone(array) })
            }
            DataType::Null => Some(NameChunk::Nulls),
            DataType::UInt8 => Some(NameChunk::Unsigned(widened::<UInt8Type, _>(array))),
            DataType::UInt16 => Some(NameChunk::Unsigned(widened::<UInt16Type, _>(array))),
            DataType::UInt32 => Some(NameChunk::Unsigned(widened::<UInt32Type, _>(array))),
            DataType::UInt64 => Some(NameChunk::Unsigned(array.as_primitive().clone())),
            DataType::Int8 => Some(NameChunk::Signed(widened::<Int8Type, _>(array))),
            DataType::Int16 => Some(NameChunk::Signed(widened::<Int16Type, _>(array))),
            DataType::Int32 => Some(NameChunk::Signed(widened::<Int32Type, _>(array))),
            DataType::Int64 => Some(NameChunk::Signed(array.as_primitive().clone())),
            _ => None,
        }
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            NameChunk::Strings(strings) => strings.is_null(row),
            NameChunk::Dictionary { strings, keys, array } => {
                array.is_null(row) || keys.get(row).is_none_or(|key| strings.is_null(*key))
            }
            NameChunk::Signed(numbers) => numbers.is_null(row),
            NameChunk::Unsigned(numbers) => numbers.is_null(row),
            NameChunk::Nulls => true,
        }
    }

    fn for_each(&self, rows: Range<usize>, take: &mut impl FnMut(Option<&str>)) {
        match self {
            NameChunk::Strings(strings) => match strings.data_type() {
                DataType::Utf8 => each(strings.as_string::<i32>(), rows, take),
                DataType::LargeUtf8 => each(strings.as_string::<i64>(), rows, take),
                _ => each(strings.as_string_view(), rows, take),
            },
            NameChunk::Dictionary { strings, keys, .. } => {
                let strings = NameChunk::Strings(Arc::clone(strings));
                for row in rows {
                    if self.is_null(row) {
                        take(None);
                    } else {
                        strings.for_each(keys[row]..keys[row] + 1, take);
                    }
                }
            }
            NameChunk::Signed(numbers) => numbered(numbers, rows, take),
            NameChunk::Unsigned(numbers) => numbered(numbers, rows, take),
            NameChunk::Nulls => rows.for_each(|_| take(None)),
        }
    }
}

fn each<'a, A: ArrayAccessor<Item = &'a str>>(
    strings: A,
    rows: Range<usize>,
    take: &mut impl FnMut(Option<&str>),
) {
    rows.for_each(|row| take(strings.is_valid(row).then(|| strings.value(row))));
}

/// Whole numbers as they are written.
fn numbered<T: ArrowPrimitiveType<Native: ToString>>(
    numbers: &PrimitiveArray<T>,
    rows: Range<usize>,
    take: &mut impl FnMut(Option<&str>),
) {
    for row in rows {
        let written = numbers.is_valid(row).then(|| numbers.value(row).to_string());
        take(written.as_deref());
    }
}

fn doubles(array: &ArrayRef) -> Option<Float64Array> {
    Some(match array.data_type() {
        DataType::Float64 => array.as_primitive().clone(),
        DataType::Float32 => widened::<Float32Type, _>(array),
        DataType::Int8 => widened::<Int8Type, _>(array),
        DataType::Int16 => widened::<Int16Type, _>(array),
        DataType::Int32 => widened::<Int32Type, _>(array),
        DataType::UInt8 => widened::<UInt8Type, _>(array),
        DataType::UInt16 => widened::<UInt16Type, _>(array),
        DataType::UInt32 => widened::<UInt32Type, _>(array),
        DataType::Int64 => array.as_primitive::<Int64Type>().unary(|value| value as f64),
        DataType::UInt64 => array.as_primitive::<UInt64Type>().unary(|value| value as f64),
        DataType::Decimal128(_, scale) => {
            let one = 10_f64.powi(i32::from(*scale));
            array.as_primitive::<Decimal128Type>().unary(|value| value as f64 / one)
        }
        DataType::Null => Float64Array::new_null(array.len()),
        _ => return None,
    })
}

/// An array with its numbers in a wider type.
fn widened<F: ArrowPrimitiveType, T: ArrowPrimitiveType>(array: &ArrayRef) -> PrimitiveArray<T>
where
    T::Native: From<F::Native>,
{
    array.as_primitive::<F>().unary(T::Native::from)
}
