//! The compiled base of `whered.maxminddb.reader.Reader`.
//!
//! Not for opening files by their names and for modes: `python/whered/maxminddb/reader.py` does
//! that.

use super::address;
use super::networks::MaxMindNetworks;
use super::opened::{Answer, OpenDatabase};
use super::source::Source;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyDict, PyTuple};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{RwLock, RwLockReadGuard};
use std::thread;

/// How often `close` tries to take the state from lookups of other threads.
const CLOSE_ATTEMPTS: usize = 1_000;

/// The compiled base of `whered.maxminddb.Reader`, which opens files for it.
#[pyclass(frozen, subclass, module = "whered._whered")]
pub(crate) struct MaxMindReader {
    is_closed: AtomicBool,
    /// Never waited for: lookups and `close` only try, so that nothing is left locked in the child
    /// of a fork. What `close` cannot take is dropped with the reader.
    state: RwLock<Option<OpenDatabase>>,
}

impl MaxMindReader {
    /// The opened database.
    #[inline]
    pub(super) fn opened(&self) -> Option<RwLockReadGuard<'_, Option<OpenDatabase>>> {
        if self.is_closed.load(Ordering::Acquire) {
            return None;
        }
        self.state.try_read().ok().filter(|state| state.is_some())
    }

    fn set<'py>(
        &self,
        py: Python<'py>,
        source: Source,
        name: &str,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (opened, metadata) = OpenDatabase::new(py, source, name)?;
        match self.state.try_write() {
            Ok(mut state) if state.is_none() => *state = Some(opened),
            _ => return Err(PyValueError::new_err("Attempt to reopen an open MaxMind DB.")),
        }
        self.is_closed.store(false, Ordering::Release);
        Ok(metadata)
    }

    #[inline]
    fn find<'py>(&self, written: &Bound<'py, PyAny>) -> PyResult<Answer<'py>> {
        let address = address::of_object(written)?;
        let state = self.opened();
        match state.as_deref() {
            Some(Some(opened)) => opened.find(address, written),
            _ => Err(PyValueError::new_err("Attempt to read from a closed MaxMind DB.")),
        }
    }
}

#[pymethods]
impl MaxMindReader {
    #[new]
    #[pyo3(signature = (*_arguments, **_named))]
    fn new(_arguments: &Bound<'_, PyTuple>, _named: Option<&Bound<'_, PyDict>>) -> MaxMindReader {
        MaxMindReader { is_closed: AtomicBool::new(true), state: RwLock::new(None) }
    }

    /// Opens the bytes of a file, and returns its metadata.
    fn _open_bytes<'py>(
        &self,
        py: Python<'py>,
        bytes: PyBackedBytes,
        name: &str,
    ) -> PyResult<Bound<'py, PyDict>> {
        self.set(py, Source::of_bytes(bytes), name)
    }

    /// Reads the file of a descriptor into memory, and returns its metadata; `None` for a file
    /// whose bytes the caller is to read.
    fn _open_memory<'py>(
        &self,
        py: Python<'py>,
        descriptor: i32,
        name: &str,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let source = py.detach(|| Source::memory(descriptor))?;
        source.map(|source| self.set(py, source, name)).transpose()
    }

    /// Maps the file of a descriptor, and returns its metadata.
    fn _open_mapped<'py>(
        &self,
        py: Python<'py>,
        descriptor: i32,
        name: &str,
    ) -> PyResult<Bound<'py, PyDict>> {
        self.set(py, Source::mapped(descriptor)?, name)
    }

    /// Opens the file of a descriptor for reading by ranges, and returns its metadata.
    fn _open_file<'py>(
        &self,
        py: Python<'py>,
        descriptor: i32,
        name: &str,
    ) -> PyResult<Bound<'py, PyDict>> {
        self.set(py, Source::file(descriptor)?, name)
    }

    /// The record for an address, or `None`.
    #[inline]
    fn get(&self, py: Python<'_>, ip_address: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let Answer { record, .. } = self.find(ip_address)?;
        Ok(record.map_or_else(|| py.None(), Bound::unbind))
    }

    /// The record for an address, or `None`, and the length of the network around the address.
    fn get_with_prefix_len<'py>(
        &self,
        py: Python<'py>,
        ip_address: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let Answer { record, prefix_length } = self.find(ip_address)?;
        (record, prefix_length).into_pyobject(py)
    }

    /// Closes the database. A lookup that is under way in another thread still answers.
    fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        for _ in 0..CLOSE_ATTEMPTS {
            if let Ok(mut state) = self.state.try_write() {
                let opened = state.take();
                drop(state);
                drop(opened);
                return;
            }
            thread::yield_now();
        }
    }

    /// Whether the database is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    fn __iter__(slf: Bound<'_, Self>) -> PyResult<MaxMindNetworks> {
        MaxMindNetworks::new(slf)
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<()> {
        let name = slf.get_type().name()?;
        Err(PyTypeError::new_err(format!("cannot pickle '{name}' object")))
    }
}
