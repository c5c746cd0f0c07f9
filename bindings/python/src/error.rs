//! Rust's errors as Python's exceptions.
//!
//! Not for errors of the system, which know their file (`database::open`).

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use whered_mmdb::{ErrorKind, MmdbError};

pyo3::create_exception!(
    whered,
    InvalidDatabaseError,
    PyRuntimeError,
    "The file is no database, or is damaged at the place that the message names."
);

/// What a database says: `ValueError` for an address of a family that it does not have,
/// `InvalidDatabaseError` for everything else.
pub(crate) fn of_database(error: &MmdbError) -> PyErr {
    match error.kind() {
        ErrorKind::AddressFamily => PyValueError::new_err(error.to_string()),
        _ => InvalidDatabaseError::new_err(error.to_string()),
    }
}
