//! Records of a database as Python objects: dicts, lists, strings, numbers.
//!
//! For: `whered.maxminddb` and `Database.get`, which return whole records. Not for single fields
//! and columns, which never make these objects.
//!
//! ```text
//! offset ──► Decoder ──► dict, list, str, int, float, bool, bytes
//!              │  ▲
//!              ▼  │ copy
//!            Caches: templates of maps and arrays that pointers share, strings of keys
//! ```
//!
//! Every object that a caller gets is its own: containers are copies, and only what cannot change
//! (strings, numbers) is shared. A record is bounded as in the package `maxminddb`
//! ([`MAX_DEPTH`], [`MAX_VALUES`], [`MAX_PAYLOAD_BYTES`]).
//!
//! Concurrency: [`Caches`] never wait. A thread that finds them in use decodes without them, so
//! that neither a fork nor a finalizer that looks something up can block.

mod cache;
mod decode;
mod template;

pub(crate) use cache::Caches;
pub(crate) use decode::{decode, unreadable};

use crate::database::objects;
use crate::error;
use pyo3::prelude::*;
use whered_mmdb::fields::Section;
use whered_mmdb::{Database, Format, RecordId};

/// How deep maps, arrays and pointers may be nested in one record.
const MAX_DEPTH: usize = 512;

/// How many values (keys included) one record may hold, pointers followed.
const MAX_VALUES: usize = 65_536;

/// How many bytes of strings and byte strings (keys included) one record may hold, pointers
/// followed.
const MAX_PAYLOAD_BYTES: usize = 2 << 20;

/// A record of a database as a Python object of the caller's own.
///
/// # Errors
///
/// `InvalidDatabaseError` for a fault of the data section and for a record beyond the limits,
/// `UnicodeDecodeError` for a string that is no UTF-8.
pub(crate) fn to_object(
    py: Python<'_>,
    database: &Database,
    record: RecordId,
    caches: &Caches,
) -> PyResult<Py<PyAny>> {
    let metadata = database.metadata();
    let tree_bytes = u64::from(metadata.node_count) * u64::from(metadata.record_size_bits) / 4;
    let start = tree_bytes as usize + 16;
    match database.as_bytes().get(start..) {
        Some(bytes) if database.format() == Format::Mmdb && !bytes.is_empty() => {
            let section = Section::new(bytes, start);
            Ok(decode(py, &section, record.to_u32() as usize, caches)?.unbind())
        }
        _ => {
            let value = database.record(record).map_err(|error| error::of_database(&error))?;
            objects::of_value(py, &value)
        }
    }
}
