//! Python objects that are addresses.
//!
//! Not for columns (`columns::addresses`), nor for the package `maxminddb`, which reads addresses
//! as `ipaddress` does.

use std::net::IpAddr;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;
use whered_ip::text;

/// The address in a text as people write it (blanks, brackets, a port or a zone around it are
/// taken off), or in an object of the module `ipaddress`.
///
/// # Errors
///
/// `ValueError` for a text that is no address, `TypeError` for every other object.
pub(crate) fn of_object(object: &Bound<'_, PyAny>) -> PyResult<IpAddr> {
    if let Ok(written) = object.cast::<PyString>() {
        let written = written.to_str()?;
        return text::read(written.as_bytes()).ok_or_else(|| no_address(written));
    }
    match object.extract::<IpAddr>() {
        Ok(address) => Ok(address.to_canonical()),
        Err(_) => Err(PyTypeError::new_err(format!(
            "an address is a str, an IPv4Address or an IPv6Address, not {}",
            object.get_type().name()?
        ))),
    }
}

#[cold]
fn no_address(written: &str) -> PyErr {
    PyValueError::new_err(format!("{written:?} is no IPv4 or IPv6 address"))
}
