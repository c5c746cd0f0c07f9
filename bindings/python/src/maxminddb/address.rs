//! Addresses as the package `maxminddb` takes them: by the rules of the module `ipaddress`.
//!
//! Not for `whered.Database`, which also takes blanks, brackets, ports and zones
//! ([`crate::address`]).

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyString};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The address in a string, or in an object of the module `ipaddress`.
///
/// # Errors
///
/// `ValueError` of `ipaddress` for a string that is no address, `TypeError` for other objects.
#[inline]
pub(super) fn of_object(object: &Bound<'_, PyAny>) -> PyResult<IpAddr> {
    let Ok(written) = object.cast::<PyString>() else { return packed(object) };
    // A string with lone surrogates is no address: `ipaddress` says so.
    let parsed = written.to_str().ok().and_then(strict);
    match parsed {
        Some(address) => Ok(address),
        None => of_ipaddress(object),
    }
}

/// The usual forms; what is not among them is left to `ipaddress`.
#[inline]
fn strict(written: &str) -> Option<IpAddr> {
    written.parse().ok()
}

/// What `ipaddress.ip_address` says: an address with a zone, or the error.
#[cold]
fn of_ipaddress(written: &Bound<'_, PyAny>) -> PyResult<IpAddr> {
    static IP_ADDRESS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let ip_address = IP_ADDRESS.import(written.py(), "ipaddress", "ip_address")?;
    packed(&ip_address.call1((written,))?)
}

fn packed(object: &Bound<'_, PyAny>) -> PyResult<IpAddr> {
    let wrong = || PyTypeError::new_err("argument 1 must be a string or ipaddress object");
    let packed = object.getattr(intern!(object.py(), "packed")).map_err(|_| wrong())?;
    let packed = packed.cast::<PyBytes>().map_err(|_| wrong())?;
    let bytes = packed.as_bytes();
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return Ok(IpAddr::V4(Ipv4Addr::from(bytes)));
    }
    let Ok(bytes) = <[u8; 16]>::try_from(bytes) else {
        return Err(PyValueError::new_err(
            "argument 1 returned an unexpected packed length for address",
        ));
    };
    Ok(IpAddr::V6(Ipv6Addr::from(bytes)))
}
