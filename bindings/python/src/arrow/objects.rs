//! A sequence of Python's objects as a column of Arrow.
//!
//! The first value that is not null decides: strings and addresses give strings, whole numbers give
//! 64-bit ones, which a fraction makes doubles, booleans stay.

use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Float64Builder, Int64Builder, LargeStringBuilder};
use arrow_array::{Array, ArrayRef, NullArray};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PySet, PyString};

use super::input::{Column, is_text};
use crate::pieces::ROWS;

/// The values so far.
enum Values {
    /// This number of nulls.
    Nulls(usize),
    Strings(LargeStringBuilder),
    Integers(Int64Builder),
    Floats(Float64Builder),
    Booleans(BooleanBuilder),
}

/// The column of an iterable.
///
/// # Errors
///
/// `TypeError` for what is no ordered iterable, and for values of a type that is not taken or
/// differs from those before; `OverflowError` for integers beyond 64 bits.
pub(super) fn column(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Column> {
    let is_unordered = object.is_instance_of::<PyDict>() || object.is_instance_of::<PySet>();
    let values = if is_unordered || is_text(object) { None } else { object.try_iter().ok() };
    let Some(values) = values else {
        return Err(PyTypeError::new_err(format!(
            "{what} is a column: an array or series of Arrow, polars, pandas or DuckDB, or a list, \
             not {}",
            object.get_type().name()?
        )));
    };
    let mut column = Values::Nulls(0);
    for (row, value) in values.enumerate() {
        let value = value?;
        if row % ROWS == 0 {
            object.py().check_signals()?;
        }
        column = column.with(&value).map_err(|fault| match fault {
            Fault::Raised(error) => error,
            Fault::Type => PyTypeError::new_err(format!(
                "{what}, row {row}: {}; allowed are strings, numbers, addresses of ipaddress and None, \
                 all of one type",
                value.get_type().name().map_or_else(|_| "a value".into(), |name| name.to_string())
            )),
        })?;
    }
    let chunk = column.finish();
    let data_type = chunk.data_type().clone();
    Ok(Column { data_type, chunks: vec![chunk] })
}

enum Fault {
    Type,
    Raised(PyErr),
}

impl From<PyErr> for Fault {
    fn from(error: PyErr) -> Fault {
        Fault::Raised(error)
    }
}

impl Values {
    fn with(mut self, value: &Bound<'_, PyAny>) -> Result<Values, Fault> {
        if is_null(value) {
            match &mut self {
                Values::Nulls(count) => *count += 1,
                Values::Strings(strings) => strings.append_null(),
                Values::Integers(integers) => integers.append_null(),
                Values::Floats(floats) => floats.append_null(),
                Values::Booleans(booleans) => booleans.append_null(),
            }
            return Ok(self);
        }
        if let Values::Nulls(count) = self {
            self = Values::of_type_of(value, count);
        }
        match &mut self {
            Values::Strings(strings) => match value.cast::<PyString>() {
                Ok(text) => strings.append_value(text.to_str()?),
                Err(_) if is_address(value) => strings.append_value(value.str()?.to_str()?),
                Err(_) => return Err(Fault::Type),
            },
            Values::Booleans(booleans) => {
                booleans.append_value(value.extract::<bool>().map_err(|_| Fault::Type)?);
            }
            Values::Integers(integers) if !is_integer(value) && is_number(value) => {
                let mut floats = Float64Builder::new();
                for integer in &integers.finish() {
                    floats.append_option(integer.map(|integer| integer as f64));
                }
                floats.append_value(value.extract::<f64>()?);
                return Ok(Values::Floats(floats));
            }
            Values::Integers(integers) if is_number(value) => {
                integers.append_value(value.extract::<i64>()?);
            }
            Values::Floats(floats) if is_number(value) => {
                floats.append_value(value.extract::<f64>()?);
            }
            Values::Integers(_) | Values::Floats(_) | Values::Nulls(_) => return Err(Fault::Type),
        }
        Ok(self)
    }

    /// An empty column for values as this one, after some nulls.
    fn of_type_of(value: &Bound<'_, PyAny>, nulls: usize) -> Values {
        if value.is_instance_of::<PyBool>() {
            let mut booleans = BooleanBuilder::new();
            booleans.append_nulls(nulls);
            Values::Booleans(booleans)
        } else if is_number(value) && !is_integer(value) {
            let mut floats = Float64Builder::new();
            floats.append_nulls(nulls);
            Values::Floats(floats)
        } else if is_number(value) {
            let mut integers = Int64Builder::new();
            integers.append_nulls(nulls);
            Values::Integers(integers)
        } else {
            let mut strings = LargeStringBuilder::new();
            (0..nulls).for_each(|_| strings.append_null());
            Values::Strings(strings)
        }
    }

    fn finish(self) -> ArrayRef {
        match self {
            Values::Nulls(count) => Arc::new(NullArray::new(count)),
            Values::Strings(mut strings) => Arc::new(strings.finish()),
            Values::Integers(mut integers) => Arc::new(integers.finish()),
            Values::Floats(mut floats) => Arc::new(floats.finish()),
            Values::Booleans(mut booleans) => Arc::new(booleans.finish()),
        }
    }
}

/// Whether an object is an address or network of `ipaddress`.
fn is_address(value: &Bound<'_, PyAny>) -> bool {
    let module = value.get_type().module();
    module.is_ok_and(|module| module == "ipaddress")
}

fn is_number(value: &Bound<'_, PyAny>) -> bool {
    // Numbers of NumPy and of the module decimal are none of Python's types, but count as they do.
    is_integer(value)
        || value.is_instance_of::<PyFloat>()
        || value.hasattr("__float__").unwrap_or(false)
}

fn is_integer(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyInt>() || value.hasattr("__index__").unwrap_or(false)
}

/// `None`, NaN, and what pandas writes for a missing value.
fn is_null(value: &Bound<'_, PyAny>) -> bool {
    if value.is_none() {
        return true;
    }
    if let Ok(float) = value.cast::<PyFloat>() {
        return float.extract::<f64>().is_ok_and(f64::is_nan);
    }
    let kind = value.get_type();
    kind.name().is_ok_and(|name| name == "NAType" || name == "NaTType")
}
