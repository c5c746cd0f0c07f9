//! Columns of answers: the values of fields for the rows that addresses led to.
//!
//! ```text
//! row of the index, for each row of the column ──► Values ──► views, codes or numbers ──► Arrow
//! ```
//!
//! Buffers are allocated whole, one for each chunk, and cut into pieces that threads fill.

use std::mem;
use std::sync::Arc;

use arrow_array::builder::StringViewBuilder;
use arrow_array::types::{Float32Type, Float64Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, GenericStringArray, Int32Array, OffsetSizeTrait,
    PrimitiveArray, StringArray, StringViewArray, types,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;

use super::values::{Codes, Numbers, Strings, Values};
use crate::pieces::ROWS;
use crate::strings::Layout;

/// Fills a piece of a chunk's buffers with the answers for these rows of the index.
pub(crate) type Fill<'a> = Box<dyn FnOnce(&[u32]) + Send + 'a>;

/// The buffers of one chunk of a column of answers.
pub(crate) enum Buffers<'v> {
    Views(&'v Strings, Vec<u128>, Vec<u64>),
    Codes(&'v Strings, Layout, Vec<u32>),
    Unsigned32(&'v Numbers<u32>, Vec<u32>, Vec<u64>),
    Unsigned64(&'v Numbers<u64>, Vec<u64>, Vec<u64>),
    Signed64(&'v Numbers<i64>, Vec<i64>, Vec<u64>),
    Float32(&'v Numbers<f32>, Vec<f32>, Vec<u64>),
    Float64(&'v Numbers<f64>, Vec<f64>, Vec<u64>),
    Boolean(&'v Numbers<bool>, Vec<bool>, Vec<u64>),
}

impl<'v> Buffers<'v> {
    /// Buffers for this number of rows of a field.
    pub(crate) fn new(values: &'v Values, layout: Layout, rows: usize) -> Buffers<'v> {
        let bits = || vec![0; rows.div_ceil(64)];
        match values {
            Values::Strings(strings) if layout == Layout::View => {
                Buffers::Views(strings, vec![0; rows], bits())
            }
            Values::Strings(strings) => Buffers::Codes(strings, layout, vec![0; rows]),
            Values::Unsigned32(numbers) => Buffers::Unsigned32(numbers, vec![0; rows], bits()),
            Values::Unsigned64(numbers) => Buffers::Unsigned64(numbers, vec![0; rows], bits()),
            Values::Signed64(numbers) => Buffers::Signed64(numbers, vec![0; rows], bits()),
            Values::Float32(numbers) => Buffers::Float32(numbers, vec![0.0; rows], bits()),
            Values::Float64(numbers) => Buffers::Float64(numbers, vec![0.0; rows], bits()),
            Values::Boolean(numbers) => Buffers::Boolean(numbers, vec![false; rows], bits()),
        }
    }

    /// What fills each piece, in order.
    pub(crate) fn fills(&mut self) -> Vec<Fill<'_>> {
        match self {
            Buffers::Views(strings, views, bits) => string_fills(strings, views, bits),
            Buffers::Codes(strings, _, codes) => code_fills(&strings.codes, codes),
            Buffers::Unsigned32(numbers, values, bits) => number_fills(numbers, values, bits),
            Buffers::Unsigned64(numbers, values, bits) => number_fills(numbers, values, bits),
            Buffers::Signed64(numbers, values, bits) => number_fills(numbers, values, bits),
            Buffers::Float32(numbers, values, bits) => number_fills(numbers, values, bits),
            Buffers::Float64(numbers, values, bits) => number_fills(numbers, values, bits),
            Buffers::Boolean(numbers, values, bits) => number_fills(numbers, values, bits),
        }
    }

    /// The filled buffers as an array.
    ///
    /// # Errors
    ///
    /// `OverflowError` for more text than 32-bit offsets count.
    pub(crate) fn finish(self) -> PyResult<ArrayRef> {
        Ok(match self {
            Buffers::Views(strings, views, bits) => {
                let nulls = nulls(bits, views.len());
                let array = StringViewArray::try_new(
                    ScalarBuffer::from(views),
                    vec![strings.bytes.clone()],
                    nulls,
                );
                Arc::new(array.map_err(|error| PyValueError::new_err(error.to_string()))?)
            }
            Buffers::Codes(strings, Layout::Dictionary, codes) => dictionary(strings, codes)?,
            Buffers::Codes(strings, Layout::LargeUtf8, codes) => {
                Arc::new(spelled::<i64>(strings, &codes)?)
            }
            Buffers::Codes(strings, _, codes) => Arc::new(spelled::<i32>(strings, &codes)?),
            Buffers::Unsigned32(_, values, bits) => primitive::<UInt32Type>(values, bits),
            Buffers::Unsigned64(_, values, bits) => primitive::<UInt64Type>(values, bits),
            Buffers::Signed64(_, values, bits) => primitive::<Int64Type>(values, bits),
            Buffers::Float32(_, values, bits) => primitive::<Float32Type>(values, bits),
            Buffers::Float64(_, values, bits) => primitive::<Float64Type>(values, bits),
            Buffers::Boolean(_, values, bits) => {
                let nulls = nulls(bits, values.len());
                Arc::new(BooleanArray::new(BooleanBuffer::from(values), nulls))
            }
        })
    }
}

fn string_fills<'a>(
    strings: &'a Strings,
    views: &'a mut [u128],
    bits: &'a mut [u64],
) -> Vec<Fill<'a>> {
    fn fill<C: Copy + Into<u32>>(
        codes: &[C],
        known: &[u128],
        rows: &[u32],
        views: &mut [u128],
        bits: &mut [u64],
    ) {
        let pieces = rows.chunks(64).zip(views.chunks_mut(64)).zip(bits);
        for ((rows, views), bits) in pieces {
            let mut set = 0;
            for (at, (row, view)) in rows.iter().zip(views).enumerate() {
                let code: u32 = codes.get(*row as usize).map_or(0, |code| (*code).into());
                *view = known.get(code as usize).copied().unwrap_or(0);
                set |= u64::from(code != 0) << at;
            }
            *bits = set;
        }
    }
    let pieces = views.chunks_mut(ROWS).zip(bits.chunks_mut(ROWS / 64));
    let fills = pieces.map(|(views, bits)| -> Fill<'a> {
        Box::new(move |rows| match &strings.codes {
            Codes::U8(codes) => fill(codes, &strings.views, rows, views, bits),
            Codes::U16(codes) => fill(codes, &strings.views, rows, views, bits),
            Codes::U32(codes) => fill(codes, &strings.views, rows, views, bits),
        })
    });
    fills.collect()
}

fn code_fills<'a>(known: &'a Codes, codes: &'a mut [u32]) -> Vec<Fill<'a>> {
    let fills = codes.chunks_mut(ROWS).map(|codes| -> Fill<'a> {
        Box::new(move |rows| {
            for (code, row) in codes.iter_mut().zip(rows) {
                *code = known.get(*row);
            }
        })
    });
    fills.collect()
}

fn number_fills<'a, T: Copy + Default + Send + Sync>(
    numbers: &'a Numbers<T>,
    values: &'a mut [T],
    bits: &'a mut [u64],
) -> Vec<Fill<'a>> {
    let pieces = values.chunks_mut(ROWS).zip(bits.chunks_mut(ROWS / 64));
    let fills = pieces.map(|(values, bits)| -> Fill<'a> {
        Box::new(move |rows| {
            let pieces = rows.chunks(64).zip(values.chunks_mut(64)).zip(bits);
            for ((rows, values), bits) in pieces {
                let mut set = 0;
                for (at, (row, value)) in rows.iter().zip(values).enumerate() {
                    let row = *row as usize;
                    *value = numbers.values.get(row).copied().unwrap_or_default();
                    let word = numbers.is_set.get(row / 64).copied().unwrap_or(0);
                    set |= (word >> (row % 64) & 1) << at;
                }
                *bits = set;
            }
        })
    });
    fills.collect()
}

/// The nulls of rows whose bit is not set; none if all are set.
fn nulls(bits: Vec<u64>, rows: usize) -> Option<NullBuffer> {
    let nulls = NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(bits), 0, rows));
    (nulls.null_count() > 0).then_some(nulls)
}

fn primitive<P: types::ArrowPrimitiveType>(values: Vec<P::Native>, bits: Vec<u64>) -> ArrayRef {
    let nulls = nulls(bits, values.len());
    Arc::new(PrimitiveArray::<P>::new(ScalarBuffer::from(values), nulls))
}

fn no_code(codes: &[u32]) -> Option<NullBuffer> {
    let nulls = NullBuffer::from_iter(codes.iter().map(|code| *code != 0));
    (nulls.null_count() > 0).then_some(nulls)
}

/// ForEach text once, and a key for each row.
fn dictionary(strings: &Strings, codes: Vec<u32>) -> PyResult<ArrayRef> {
    let nulls = no_code(&codes);
    let keys: Vec<i32> = codes.iter().map(|code| code.saturating_sub(1) as i32).collect();
    let ends: Vec<i32> = strings.ends.iter().map(|end| *end as i32).collect();
    let offsets = OffsetBuffer::new(ScalarBuffer::from(ends));
    let invalid = |error: arrow_schema::ArrowError| PyValueError::new_err(error.to_string());
    let values = StringArray::try_new(offsets, strings.bytes.clone(), None).map_err(invalid)?;
    let keys = Int32Array::new(ScalarBuffer::from(keys), nulls);
    Ok(Arc::new(DictionaryArray::try_new(keys, Arc::new(values)).map_err(invalid)?))
}

/// The text of each row, written out.
fn spelled<O: OffsetSizeTrait>(
    strings: &Strings,
    codes: &[u32],
) -> PyResult<GenericStringArray<O>> {
    let text = |code: &u32| strings.text(*code).unwrap_or_default();
    let bytes: usize = codes.iter().map(|code| text(code).len()).sum();
    let fits = O::from_usize(bytes);
    if fits.is_none() {
        return Err(too_much_text(bytes));
    }
    let mut all = Vec::with_capacity(bytes);
    let mut offsets = Vec::with_capacity(codes.len() + 1);
    offsets.push(O::usize_as(0));
    for code in codes {
        all.extend_from_slice(text(code).as_bytes());
        offsets.push(O::usize_as(all.len()));
    }
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    let array = GenericStringArray::try_new(offsets, Buffer::from_vec(all), no_code(codes));
    array.map_err(|error| PyValueError::new_err(error.to_string()))
}

#[cold]
fn too_much_text(bytes: usize) -> PyErr {
    PyOverflowError::new_err(format!(
        "a column of \"utf8\" holds 2 GiB of text, and the answers have {bytes} bytes: ask for \
         strings=\"utf8_view\", \"large_utf8\" or \"dictionary\""
    ))
}

/// The strings of a piece that are made for each row: networks.
#[derive(Default)]
pub(crate) struct RowStrings {
    pub(crate) bytes: Vec<u8>,
    /// Where the text of each row ends; none for a row without.
    pub(crate) ends: Vec<Option<usize>>,
}

/// One chunk of written strings, from its pieces in order.
///
/// # Errors
///
/// `OverflowError` for more text than 32-bit offsets count.
pub(crate) fn written(pieces: &mut [RowStrings], layout: Layout) -> PyResult<ArrayRef> {
    let mut views = StringViewBuilder::new();
    for piece in pieces {
        let RowStrings { bytes, ends } = mem::take(piece);
        let mut start = 0;
        for end in ends {
            let text = end.and_then(|end| bytes.get(mem::replace(&mut start, end)..end));
            views.append_option(text.and_then(|text| std::str::from_utf8(text).ok()));
        }
    }
    layout.of_views(views.finish())
}
