//! Columns passed in: Arrow arrays and streams, and plain sequences of Python objects.
//!
//! Not for what a column means: its users say which types they take.
#![allow(unsafe_code, reason = "the C data interface hands structures over by pointer")]

use std::ffi::CStr;
use std::sync::Arc;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, ArrayRef, NullArray, StructArray, make_array};
use arrow_schema::{DataType, Field};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyString, PyTuple};

use super::objects;

/// A column as it came in: chunks of one type.
pub(crate) struct Column {
    /// The type of every chunk.
    pub(crate) data_type: DataType,
    /// Its rows, in order.
    pub(crate) chunks: Vec<ArrayRef>,
}

impl Column {
    /// The column that an object is. `what` names the argument in messages.
    ///
    /// Taken are objects with `__arrow_c_array__` or `__arrow_c_stream__` (a table of one column
    /// is that column), lists, tuples and every other iterable of strings, numbers, addresses,
    /// `None` and NaN, which is null.
    ///
    /// Cost: nothing is copied of an Arrow object; a sequence is copied.
    ///
    /// # Errors
    ///
    /// `TypeError` for other objects, `ValueError` for a structure of Arrow that is damaged, and
    /// whatever the object itself raises.
    pub(crate) fn of_object(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Column> {
        let column = if object.hasattr("__arrow_c_stream__")? {
            of_stream(object)?
        } else if object.hasattr("__arrow_c_array__")? {
            of_array(object)?
        } else {
            objects::column(object, what)?
        };
        column.unwrapped(what)
    }

    /// The only column of a table; any other column as it is.
    fn unwrapped(self, what: &str) -> PyResult<Column> {
        let DataType::Struct(fields) = &self.data_type else { return Ok(self) };
        let [field] = &fields[..] else {
            return Err(PyTypeError::new_err(format!(
                "{what} is a table of {} columns; pass one column",
                fields.len()
            )));
        };
        let chunks = self.chunks.iter().map(|chunk| {
            let rows = chunk.as_any().downcast_ref::<StructArray>();
            let rows = rows.filter(|rows| rows.null_count() == 0);
            rows.map(|rows| Arc::clone(rows.column(0)))
        });
        let chunks = chunks.collect::<Option<Vec<_>>>().ok_or_else(|| {
            PyTypeError::new_err(format!("{what} is a column of structs; pass one of its fields"))
        })?;
        Ok(Column { data_type: field.data_type().clone(), chunks })
    }
}

/// The error for a column of a type that nobody takes there.
pub(crate) fn wrong_type(what: &str, data_type: &DataType, allowed: &str) -> PyErr {
    PyTypeError::new_err(format!("{what} is a column of {data_type}; allowed are {allowed}"))
}

fn of_array(object: &Bound<'_, PyAny>) -> PyResult<Column> {
    let capsules = object.call_method0("__arrow_c_array__")?;
    let (schema, array): (Bound<'_, PyAny>, Bound<'_, PyAny>) =
        capsules.cast::<PyTuple>()?.extract()?;
    let schema: FFI_ArrowSchema = taken(&schema, c"arrow_schema", |at: *mut FFI_ArrowSchema| {
        // SAFETY: a capsule of this name holds such a structure, which `from_raw` leaves empty.
        unsafe { FFI_ArrowSchema::from_raw(at) }
    })?;
    let array: FFI_ArrowArray = taken(&array, c"arrow_array", |at: *mut FFI_ArrowArray| {
        // SAFETY: as above.
        unsafe { FFI_ArrowArray::from_raw(at) }
    })?;
    let chunk = imported(array, &schema)?;
    Ok(Column { data_type: chunk.data_type().clone(), chunks: vec![chunk] })
}

fn of_stream(object: &Bound<'_, PyAny>) -> PyResult<Column> {
    let capsule = object.call_method0("__arrow_c_stream__")?;
    let mut stream = taken(&capsule, c"arrow_array_stream", |at: *mut FFI_ArrowArrayStream| {
        // SAFETY: a capsule of this name holds such a structure, which `from_raw` leaves empty.
        unsafe { FFI_ArrowArrayStream::from_raw(at) }
    })?;
    if stream.release.is_none() {
        return Err(PyValueError::new_err("a stream of Arrow that was read before"));
    }
    let (Some(get_schema), Some(get_next)) = (stream.get_schema, stream.get_next) else {
        return Err(damaged("a stream without its functions"));
    };
    let mut schema = FFI_ArrowSchema::empty();
    // SAFETY: the stream is not released, and the target is an empty structure of ours.
    let status = unsafe { get_schema(&raw mut stream, &raw mut schema) };
    if status != 0 {
        return Err(refused(&mut stream, status));
    }
    let field = Field::try_from(&schema).map_err(damaged)?;
    let mut chunks = Vec::new();
    loop {
        let mut array = FFI_ArrowArray::empty();
        // SAFETY: as above.
        let status = unsafe { get_next(&raw mut stream, &raw mut array) };
        if status != 0 {
            return Err(refused(&mut stream, status));
        }
        if array.is_released() {
            break;
        }
        chunks.push(imported(array, &schema)?);
        object.py().check_signals()?;
    }
    Ok(Column { data_type: field.data_type().clone(), chunks })
}

/// The structure that a capsule holds, moved out of it.
fn taken<T, U>(
    capsule: &Bound<'_, PyAny>,
    name: &CStr,
    take: impl FnOnce(*mut T) -> U,
) -> PyResult<U> {
    let capsule = capsule.cast::<PyCapsule>()?;
    Ok(take(capsule.pointer_checked(Some(name))?.as_ptr().cast()))
}

fn imported(array: FFI_ArrowArray, schema: &FFI_ArrowSchema) -> PyResult<ArrayRef> {
    if array.is_released() {
        return Err(PyValueError::new_err("an array of Arrow that was taken before"));
    }
    // Nulls have no buffers, but some producers give one.
    if schema.format() == "n" {
        return Ok(Arc::new(NullArray::new(array.len())));
    }
    // SAFETY: the producer promises by the interface that array and schema fit each other.
    let mut data = unsafe { from_ffi(array, schema) }.map_err(damaged)?;
    // Producers need not align their buffers as this library does.
    data.align_buffers();
    // Keys of a dictionary are followed: those outside would lead to other entries.
    if matches!(data.data_type(), DataType::Dictionary(..)) {
        data.validate_values().map_err(damaged)?;
    }
    Ok(make_array(data))
}

#[cold]
fn damaged(what: impl ToString) -> PyErr {
    PyValueError::new_err(format!("the column is damaged: {}", what.to_string()))
}

/// The error message of a stream that failed.
#[cold]
fn refused(stream: &mut FFI_ArrowArrayStream, status: i32) -> PyErr {
    let said = stream.get_last_error.map(|get_last_error| {
        // SAFETY: the stream is not released; the text is valid until its next call.
        let text = unsafe { get_last_error(&raw mut *stream) };
        // SAFETY: as above; null was ruled out.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    });
    let said = said.flatten().unwrap_or_else(|| format!("error {status}"));
    PyValueError::new_err(format!("the column's stream ended early: {said}"))
}

/// Whether an object is a text, which Python would iterate letter by letter.
pub(super) fn is_text(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyString>() || object.is_instance_of::<pyo3::types::PyBytes>()
}
