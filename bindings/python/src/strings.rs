//! Columns of strings in answers: made once, in the type that the caller chose.
//!
//! For: answers that are strings row by row ([`Layout::of_views`]), and answers that are numbers of
//! a few strings ([`Layout::of_numbers`]).
//! Cost: `utf8_view` copies 16 bytes a row and shares the strings, `dictionary` 4 bytes a row; the
//! other two copy every text.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::{
    GenericStringBuilder, Int32Builder, LargeStringBuilder, StringBuilder, StringViewBuilder,
};
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, OffsetSizeTrait, StringViewArray};
use arrow_schema::{ArrowError, DataType};
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;

/// How strings are laid out in answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Layout {
    /// `Utf8View`.
    View,
    /// `Utf8`.
    Utf8,
    /// `LargeUtf8`.
    LargeUtf8,
    /// `Dictionary(Int32, Utf8)`.
    Dictionary,
}

/// The number of no text.
pub(crate) const NO_TEXT: u32 = u32::MAX;

impl Layout {
    /// The type that a caller named.
    ///
    /// # Errors
    ///
    /// `ValueError` for another name.
    pub(crate) fn of_name(name: &str) -> PyResult<Layout> {
        match name {
            "utf8_view" => Ok(Layout::View),
            "utf8" => Ok(Layout::Utf8),
            "large_utf8" => Ok(Layout::LargeUtf8),
            "dictionary" => Ok(Layout::Dictionary),
            other => Err(PyValueError::new_err(format!(
                "strings={other:?}: allowed are \"utf8_view\", \"utf8\", \"large_utf8\" and \
                 \"dictionary\""
            ))),
        }
    }

    /// The type itself.
    pub(crate) fn data_type(self) -> DataType {
        match self {
            Layout::View => DataType::Utf8View,
            Layout::Utf8 => DataType::Utf8,
            Layout::LargeUtf8 => DataType::LargeUtf8,
            Layout::Dictionary => {
                DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
            }
        }
    }

    /// The column with these strings.
    ///
    /// # Errors
    ///
    /// `OverflowError` for more bytes than the type can hold.
    pub(crate) fn of_views(self, views: StringViewArray) -> PyResult<ArrayRef> {
        match self {
            Layout::View => Ok(Arc::new(views)),
            Layout::Utf8 => {
                let strings: StringBuilder = built(views.len(), || views.iter())?;
                Ok(finished(strings))
            }
            Layout::LargeUtf8 => {
                let strings: LargeStringBuilder = built(views.len(), || views.iter())?;
                Ok(finished(strings))
            }
            Layout::Dictionary => {
                let mut numbers: HashMap<&str, i32> = HashMap::new();
                let mut distinct: Vec<&str> = Vec::new();
                let mut keys = Int32Builder::with_capacity(views.len());
                for text in &views {
                    keys.append_option(text.map(|text| {
                        *numbers.entry(text).or_insert_with(|| {
                            distinct.push(text);
                            (distinct.len() - 1) as i32
                        })
                    }));
                }
                let strings: StringBuilder =
                    built(distinct.len(), || distinct.iter().copied().map(Some))?;
                dictionary(keys, &finished(strings))
            }
        }
    }

    /// The column of the strings with these numbers in `pool`; [`NO_TEXT`] is null.
    ///
    /// # Errors
    ///
    /// `OverflowError` for more bytes than the type can hold.
    pub(crate) fn of_numbers(self, pool: &Pool, numbers: &[u32]) -> PyResult<ArrayRef> {
        let number = |number: &u32| (*number != NO_TEXT).then_some(*number as usize);
        match self {
            Layout::Dictionary => {
                let mut keys = Int32Builder::with_capacity(numbers.len());
                for key in numbers {
                    let text = number(key).filter(|number| pool.views.is_valid(*number));
                    keys.append_option(text.map(|number| number as i32));
                }
                dictionary(keys, &pool.values()?)
            }
            _ => self.of_views(pool.gathered(numbers.iter().map(number))?),
        }
    }
}

/// Some strings that many rows share, by number.
pub(crate) struct Pool {
    views: StringViewArray,
}

impl Pool {
    /// The strings in their order.
    pub(crate) fn new<'a>(strings: impl Iterator<Item = Option<&'a str>>) -> Pool {
        let mut views = StringViewBuilder::new();
        strings.for_each(|text| views.append_option(text));
        Pool { views: views.finish() }
    }

    /// One of the strings; none if it is null.
    pub(crate) fn text(&self, number: usize) -> Option<&str> {
        let is_there = number < self.views.len() && self.views.is_valid(number);
        is_there.then(|| self.views.value(number))
    }

    /// The strings as the values of a dictionary.
    fn values(&self) -> PyResult<ArrayRef> {
        let strings: StringBuilder = built(self.views.len(), || self.views.iter())?;
        Ok(finished(strings))
    }

    fn gathered(
        &self,
        numbers: impl ExactSizeIterator<Item = Option<usize>>,
    ) -> PyResult<StringViewArray> {
        let all = self.views.views();
        let mut views = Vec::with_capacity(numbers.len());
        let mut is_valid = Vec::with_capacity(numbers.len());
        for number in numbers {
            let number = number.filter(|number| self.views.is_valid(*number));
            views.push(number.and_then(|number| all.get(number)).copied().unwrap_or_default());
            is_valid.push(number.is_some());
        }
        let buffers = self.views.data_buffers().to_vec();
        StringViewArray::try_new(views.into(), buffers, Some(is_valid.into())).map_err(of_arrow)
    }
}

/// A dictionary, whose values that are null make their rows null.
fn dictionary(mut keys: Int32Builder, values: &ArrayRef) -> PyResult<ArrayRef> {
    let keys = keys.finish();
    let column: DictionaryArray<Int32Type> =
        DictionaryArray::try_new(keys, Arc::clone(values)).map_err(of_arrow)?;
    Ok(Arc::new(column))
}

fn finished<O: OffsetSizeTrait>(mut strings: GenericStringBuilder<O>) -> ArrayRef {
    Arc::new(strings.finish())
}

/// A builder with these strings in it. Their bytes are counted first: the builder itself would
/// panic where its offsets end.
fn built<'a, O: OffsetSizeTrait, I: Iterator<Item = Option<&'a str>>>(
    count: usize,
    strings: impl Fn() -> I,
) -> PyResult<GenericStringBuilder<O>> {
    let bytes = strings().flatten().map(str::len).sum();
    if O::from_usize(bytes).is_none() {
        return Err(PyOverflowError::new_err(format!(
            "the strings have {bytes} bytes, more than Utf8 holds; pass strings=\"large_utf8\" or \
             \"utf8_view\""
        )));
    }
    let mut builder = GenericStringBuilder::with_capacity(count, bytes);
    strings().for_each(|text| builder.append_option(text));
    Ok(builder)
}

/// An error of Arrow as a `ValueError`.
#[cold]
pub(crate) fn of_arrow(error: ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}
