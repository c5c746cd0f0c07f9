//! Results: columns and tables that other packages import without a copy.
//!
//! Not for filling them: the parts that answer make the arrays.
#![allow(unsafe_code, reason = "the C stream interface is a structure of functions")]

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{
    Float32Type, Float64Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, StructArray, new_empty_array};
use arrow_schema::{ArrowError, DataType, Field, Fields};
use arrow_select::concat::concat;
use pyo3::exceptions::{PyIndexError, PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList, PyTuple};

use crate::pieces::ROWS;

/// A column of answers.
///
/// It has a value or null for each row of the column that was asked about. Packages that speak
/// the Arrow PyCapsule interface take it without a copy: `polars.Series(column)`,
/// `pyarrow.array(column)`, and DuckDB by its name in a query.
#[pyclass(module = "whered", frozen)]
pub(crate) struct Column {
    field: Field,
    chunks: Vec<ArrayRef>,
}

/// Columns of answers of equal length.
///
/// `table["name"]` is one of them; `polars.DataFrame(table)` and `pyarrow.table(table)` take all
/// of them without a copy.
#[pyclass(module = "whered", frozen)]
pub(crate) struct Table {
    fields: Fields,
    /// Each with one array for each field.
    chunks: Vec<StructArray>,
}

impl Column {
    /// A column of chunks that are all of this type.
    pub(crate) fn new(name: &str, data_type: DataType, chunks: Vec<ArrayRef>) -> Column {
        Column { field: Field::new(name, data_type, true), chunks }
    }

    fn whole(&self) -> PyResult<ArrayRef> {
        whole(self.field.data_type(), &self.chunks)
    }
}

impl Table {
    /// A table of columns that have the same number of chunks and the same rows in each.
    pub(crate) fn new(columns: Vec<Column>) -> Table {
        let fields: Fields = columns.iter().map(|column| column.field.clone()).collect();
        let count = columns.first().map_or(0, |column| column.chunks.len());
        let chunk = |number: usize| {
            let arrays = columns.iter().map(|column| Arc::clone(&column.chunks[number]));
            StructArray::new(fields.clone(), arrays.collect(), None)
        };
        let chunks = (0..count).map(chunk).collect();
        Table { fields, chunks }
    }

    fn field(&self) -> Field {
        Field::new("", DataType::Struct(self.fields.clone()), false)
    }

    fn arrays(&self) -> Vec<ArrayRef> {
        self.chunks.iter().map(|chunk| Arc::new(chunk.clone()) as ArrayRef).collect()
    }

    fn column(&self, at: usize) -> Column {
        let chunks = self.chunks.iter().map(|chunk| Arc::clone(chunk.column(at))).collect();
        Column { field: self.fields[at].as_ref().clone(), chunks }
    }
}

#[pymethods]
impl Column {
    fn __len__(&self) -> usize {
        self.chunks.iter().map(Array::len).sum()
    }

    fn __repr__(&self) -> String {
        let rows = self.__len__();
        format!("<whered.Column {:?} of {}, {rows} rows>", self.field.name(), self.r#type())
    }

    fn __getitem__<'py>(&self, py: Python<'py>, row: isize) -> PyResult<Bound<'py, PyAny>> {
        let count = self.__len__();
        let at = if row < 0 { row.checked_add_unsigned(count) } else { Some(row) };
        let mut at = at.and_then(|at| usize::try_from(at).ok()).unwrap_or(usize::MAX);
        for chunk in &self.chunks {
            if at < chunk.len() {
                return value(py, chunk, at);
            }
            at -= chunk.len();
        }
        Err(PyIndexError::new_err(format!("row {row} of a column of {count} rows")))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.to_pylist(py)?.try_iter()?.into_any())
    }

    /// The column's name: that of the field it holds.
    #[getter]
    fn name(&self) -> &str {
        self.field.name()
    }

    /// The name of its Arrow type, such as `Utf8View`.
    #[getter]
    fn r#type(&self) -> String {
        self.field.data_type().to_string()
    }

    /// How many rows have no value.
    #[getter]
    fn null_count(&self) -> usize {
        self.chunks.iter().map(Array::logical_null_count).sum()
    }

    /// The values as objects of Python; `None` for null.
    fn to_pylist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for chunk in &self.chunks {
            for row in 0..chunk.len() {
                if row % ROWS == 0 {
                    py.check_signals()?;
                }
                list.append(value(py, chunk, row)?)?;
            }
        }
        Ok(list)
    }

    /// This column in pyarrow, which must be installed.
    fn to_pyarrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("pyarrow")?.call_method1("chunked_array", (slf,))
    }

    /// This column in polars, which must be installed.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let name = slf.get().field.name();
        slf.py().import("polars")?.call_method1("Series", (name, slf))
    }

    /// This column in pandas, which must be installed, and pyarrow with it.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let series = Column::to_pyarrow(slf)?.call_method0("to_pandas")?;
        series.call_method1("rename", (slf.get().field.name(),))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.field)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        // The interface allows to answer in the type that is at hand.
        drop(requested_schema);
        array_capsules(py, &self.field, &self.whole()?)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        stream_capsule(py, &self.field, self.chunks.clone())
    }
}

#[pymethods]
impl Table {
    fn __len__(&self) -> usize {
        self.chunks.iter().map(Array::len).sum()
    }

    fn __repr__(&self) -> String {
        format!("<whered.Table of {} rows: {}>", self.__len__(), self.names().join(", "))
    }

    fn __getitem__(&self, name: &str) -> PyResult<Column> {
        match self.fields.iter().position(|field| field.name() == name) {
            Some(at) => Ok(self.column(at)),
            None => {
                let names = self.names().join(", ");
                Err(PyKeyError::new_err(format!("no column {name:?}; there are {names}")))
            }
        }
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(PyList::new(py, self.names())?.try_iter()?.into_any())
    }

    fn __contains__(&self, name: &str) -> bool {
        self.fields.find(name).is_some()
    }

    /// The names of its columns, in order.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.fields.iter().map(|field| field.name().clone()).collect()
    }

    /// The names of its columns, as of a dict.
    fn keys(&self) -> Vec<String> {
        self.names()
    }

    /// A list of Python's objects for each column.
    fn to_pydict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (at, field) in self.fields.iter().enumerate() {
            dict.set_item(field.name(), self.column(at).to_pylist(py)?)?;
        }
        Ok(dict)
    }

    /// This table in pyarrow, which must be installed.
    fn to_pyarrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("pyarrow")?.call_method1("table", (slf,))
    }

    /// This table in polars, which must be installed.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("polars")?.call_method1("DataFrame", (slf,))
    }

    /// This table in pandas, which must be installed, and pyarrow with it.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Table::to_pyarrow(slf)?.call_method0("to_pandas")
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.field())
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        drop(requested_schema);
        let field = self.field();
        array_capsules(py, &field, &whole(field.data_type(), &self.arrays())?)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        stream_capsule(py, &self.field(), self.arrays())
    }
}

/// All rows in one array.
fn whole(data_type: &DataType, chunks: &[ArrayRef]) -> PyResult<ArrayRef> {
    match chunks {
        [] => Ok(new_empty_array(data_type)),
        [chunk] => Ok(Arc::clone(chunk)),
        chunks => {
            let chunks: Vec<&dyn Array> = chunks.iter().map(AsRef::as_ref).collect();
            concat(&chunks).map_err(of_arrow)
        }
    }
}

#[cold]
fn of_arrow(error: ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// One value as an object of Python.
fn value<'py>(py: Python<'py>, array: &dyn Array, row: usize) -> PyResult<Bound<'py, PyAny>> {
    if array.is_null(row) {
        return Ok(py.None().into_bound(py));
    }
    let object = match array.data_type() {
        DataType::Utf8View => array.as_string_view().value(row).into_pyobject(py)?.into_any(),
        DataType::Utf8 => array.as_string::<i32>().value(row).into_pyobject(py)?.into_any(),
        DataType::LargeUtf8 => array.as_string::<i64>().value(row).into_pyobject(py)?.into_any(),
        DataType::Dictionary(..) => {
            // Answers have keys of this type.
            let dictionary = array.as_dictionary::<Int32Type>();
            let key = usize::try_from(dictionary.keys().value(row)).unwrap_or(usize::MAX);
            return value(py, dictionary.values(), key);
        }
        DataType::Boolean => array.as_boolean().value(row).into_pyobject(py)?.to_owned().into_any(),
        DataType::UInt8 => {
            array.as_primitive::<UInt8Type>().value(row).into_pyobject(py)?.into_any()
        }
        DataType::UInt16 => {
            array.as_primitive::<UInt16Type>().value(row).into_pyobject(py)?.into_any()
        }
        DataType::UInt32 => {
            array.as_primitive::<UInt32Type>().value(row).into_pyobject(py)?.into_any()
        }
        DataType::UInt64 => {
            array.as_primitive::<UInt64Type>().value(row).into_pyobject(py)?.into_any()
        }
        DataType::Int32 => {
            array.as_primitive::<Int32Type>().value(row).into_pyobject(py)?.into_any()
        }
        DataType::Int64 => {
            array.as_primitive::<Int64Type>().value(row).into_pyobject(py)?.into_any()
        }
        DataType::Float32 => {
            array.as_primitive::<Float32Type>().value(row).into_pyobject(py)?.into_any()
        }
        DataType::Float64 => {
            array.as_primitive::<Float64Type>().value(row).into_pyobject(py)?.into_any()
        }
        DataType::Binary => array.as_binary::<i32>().value(row).into_pyobject(py)?.into_any(),
        other => return Err(PyValueError::new_err(format!("values of {other} as objects"))),
    };
    Ok(object)
}

fn schema_capsule<'py>(py: Python<'py>, field: &Field) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(field).map_err(of_arrow)?;
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}

fn array_capsules<'py>(
    py: Python<'py>,
    field: &Field,
    array: &ArrayRef,
) -> PyResult<Bound<'py, PyTuple>> {
    let array = FFI_ArrowArray::new(&array.to_data());
    let array = PyCapsule::new_with_value(py, array, c"arrow_array")?;
    (schema_capsule(py, field)?, array).into_pyobject(py)
}

fn stream_capsule<'py>(
    py: Python<'py>,
    field: &Field,
    chunks: Vec<ArrayRef>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let state = Box::new(Stream { field: field.clone(), chunks: chunks.into_iter(), said: None });
    let stream = FFI_ArrowArrayStream {
        get_schema: Some(get_schema),
        get_next: Some(get_next),
        get_last_error: Some(get_last_error),
        release: Some(release),
        private_data: Box::into_raw(state).cast::<c_void>(),
    };
    PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
}

/// The chunks that a stream has not delivered yet. (`arrow-array` streams tables only.)
struct Stream {
    field: Field,
    chunks: std::vec::IntoIter<ArrayRef>,
    said: Option<CString>,
}

/// The number that C calls `EINVAL`.
const INVALID: c_int = 22;

/// The state behind a stream that is not released.
///
/// # Safety
///
/// `stream` was made by [`stream_capsule`], is not released, and nobody else uses it meanwhile.
unsafe fn state<'a>(stream: *mut FFI_ArrowArrayStream) -> &'a mut Stream {
    // SAFETY: the caller's promise.
    unsafe { &mut *(*stream).private_data.cast::<Stream>() }
}

unsafe extern "C" fn get_schema(
    stream: *mut FFI_ArrowArrayStream,
    out: *mut FFI_ArrowSchema,
) -> c_int {
    // SAFETY: the consumer's promise by the interface.
    let state = unsafe { state(stream) };
    match FFI_ArrowSchema::try_from(&state.field) {
        Ok(schema) => {
            // SAFETY: `out` is the consumer's, and holds nothing to release.
            unsafe { ptr::write(out, schema) };
            0
        }
        Err(error) => {
            state.said = CString::new(error.to_string()).ok();
            INVALID
        }
    }
}

unsafe extern "C" fn get_next(
    stream: *mut FFI_ArrowArrayStream,
    out: *mut FFI_ArrowArray,
) -> c_int {
    // SAFETY: the consumer's promise by the interface.
    let state = unsafe { state(stream) };
    let next = state.chunks.next();
    let array =
        next.map_or_else(FFI_ArrowArray::empty, |chunk| FFI_ArrowArray::new(&chunk.to_data()));
    // SAFETY: `out` is the consumer's, and holds nothing to release.
    unsafe { ptr::write(out, array) };
    0
}

unsafe extern "C" fn get_last_error(stream: *mut FFI_ArrowArrayStream) -> *const c_char {
    // SAFETY: the consumer's promise by the interface.
    let state = unsafe { state(stream) };
    state.said.as_ref().map_or(ptr::null(), |said| said.as_ptr())
}

unsafe extern "C" fn release(stream: *mut FFI_ArrowArrayStream) {
    // SAFETY: the consumer's promise: a stream of ours that was not released.
    unsafe {
        drop(Box::from_raw((*stream).private_data.cast::<Stream>()));
        (*stream).release = None;
        (*stream).private_data = ptr::null_mut();
    }
}
