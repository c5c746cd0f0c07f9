//! Values of a database as objects of Python.
//!
//! Not for whole records at full speed: that is what `crate::record` is for.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use whered_mmdb::{Metadata, Value};

/// A decoded value: dicts, lists, strings, numbers, booleans and bytes.
pub(crate) fn of_value(py: Python<'_>, value: &Value) -> PyResult<Py<PyAny>> {
    let object = match value {
        Value::Map(entries) => {
            let dict = PyDict::new(py);
            for (key, value) in entries {
                dict.set_item(key, of_value(py, value)?)?;
            }
            dict.into_any()
        }
        Value::Array(values) => {
            let list = PyList::empty(py);
            for value in values {
                list.append(of_value(py, value)?)?;
            }
            list.into_any()
        }
        Value::String(text) => text.into_pyobject(py)?.into_any(),
        Value::Bytes(bytes) => PyBytes::new(py, bytes).into_any(),
        Value::Double(number) => number.into_pyobject(py)?.into_any(),
        Value::Float(number) => f64::from(*number).into_pyobject(py)?.into_any(),
        Value::Uint16(number) => number.into_pyobject(py)?.into_any(),
        Value::Uint32(number) => number.into_pyobject(py)?.into_any(),
        Value::Uint64(number) => number.into_pyobject(py)?.into_any(),
        Value::Uint128(number) => number.into_pyobject(py)?.into_any(),
        Value::Int32(number) => number.into_pyobject(py)?.into_any(),
        Value::Boolean(value) => value.into_pyobject(py)?.to_owned().into_any(),
    };
    Ok(object.unbind())
}

/// The metadata under the names that the file has for them.
pub(crate) fn of_metadata<'py>(
    py: Python<'py>,
    metadata: &Metadata,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("binary_format_major_version", metadata.format_major)?;
    dict.set_item("binary_format_minor_version", metadata.format_minor)?;
    dict.set_item("build_epoch", metadata.build_epoch_seconds)?;
    dict.set_item("database_type", &metadata.database_type)?;
    let description = PyDict::new(py);
    for (language, text) in &metadata.description {
        description.set_item(language, text)?;
    }
    dict.set_item("description", description)?;
    dict.set_item("ip_version", metadata.ip_version)?;
    dict.set_item("languages", &metadata.languages)?;
    dict.set_item("node_count", metadata.node_count)?;
    dict.set_item("record_size", metadata.record_size_bits)?;
    Ok(dict)
}
