//! `whered.maxminddb`: the reader of the package `maxminddb`.
//!
//! For: programs written for that package, and `geoip2` above it; whole records, one address a
//! call, with its exceptions and messages. Not for columns and single fields ([`crate::database`]).
//!
//! ```text
//! whered/maxminddb/reader.py ──► Reader ──► FileTree (address ──► offset) ──► crate::record
//!   opens files, Metadata          │
//!                                  └──► bytes of Python, a mapped file, or a file read by ranges
//! ```
//!
//! Concurrency: a reader's state is set once and dropped by `close`; lookups hold it for reading
//! and never wait, so that a fork finds no lock that somebody else has to release.

mod address;
mod networks;
mod opened;
mod reader;
mod source;

use pyo3::prelude::*;

/// Adds what this part offers to the package.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<reader::MaxMindReader>()?;
    module.add_class::<networks::MaxMindNetworks>()
}
