//! An opened database as the package `maxminddb` opens it: metadata, tree, records.
//!
//! Not stricter than that package: what it opens is opened, and a fault raises in the lookup that
//! meets it. Not for closing and Python's calls ([`super::reader`]).

use super::source::{Source, Watch};
use crate::error::InvalidDatabaseError;
use crate::record::{self, Caches};
use pyo3::exceptions::{PyUnicodeDecodeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::net::IpAddr;
use whered_mmdb::fields::Section;
use whered_mmdb::{ErrorKind, FileTree, MmdbError, RecordId, TreeShape};

/// The bytes in front of the metadata.
const MARKER: &[u8] = b"\xab\xcd\xefMaxMind.com";

/// How far from the file's end the marker is looked for.
const MAX_METADATA_BYTES: u64 = 128 << 10;

/// The zero bytes between tree and data section, counted by records of the tree.
const SEPARATOR_BYTES: u64 = 16;

pub(super) struct Opened {
    pub(super) tree: FileTree,
    pub(super) node_count: u32,
    pub(super) is_ipv6: bool,
    /// The number at which lookups of IPv4 addresses begin, and the bits that lead there.
    pub(super) ipv4_start: (u32, u8),
    watch: Option<Watch>,
    caches: Caches,
}

/// A record and the length of the network around the address, in bits of the address's family.
pub(super) struct Answer<'py> {
    pub(super) record: Option<Bound<'py, PyAny>>,
    pub(super) prefix_length: u8,
}

impl Opened {
    /// Opens what a source has, and returns the metadata as it is in the file; `name` is that of
    /// the file, for messages.
    ///
    /// # Errors
    ///
    /// `InvalidDatabaseError` for what is no database.
    pub(super) fn new<'py>(
        py: Python<'py>,
        source: Source,
        name: &str,
    ) -> PyResult<(Opened, Bound<'py, PyDict>)> {
        let size_bytes = source.size_bytes();
        let count = size_bytes.min(MAX_METADATA_BYTES) as usize;
        let tail_start = size_bytes - count as u64;
        let tail = source.read(tail_start, count)?;
        let marker = tail.windows(MARKER.len()).rposition(|window| window == MARKER);
        let Some(start) = marker.map(|marker| marker + MARKER.len()) else {
            return Err(refuse(name, "Is this a valid MaxMind DB file?"));
        };
        let bytes = tail.get(start..).unwrap_or_default();
        let section = Section::new(bytes, tail_start as usize + start);
        let metadata = record::decode(py, &section, 0, &Caches::default()).map_err(|error| {
            if error.is_instance_of::<PyUnicodeDecodeError>(py) {
                return in_metadata(name, "a string is no UTF-8");
            }
            error
        })?;
        let Ok(metadata) = metadata.cast_into::<PyDict>() else {
            return Err(InvalidDatabaseError::new_err(format!(
                "Error reading metadata in database file ({name})."
            )));
        };
        let shape = shape(&metadata, name)?;
        let tree_bytes = u64::from(shape.node_count) * u64::from(shape.record_size_bits) / 4;
        if tree_bytes + SEPARATOR_BYTES > size_bytes {
            return Err(refuse(name, "The search tree extends past the end of the file."));
        }
        let (tree, watch) = match source {
            Source::Memory(bytes) => (FileTree::new(bytes, shape), None),
            Source::Mapped(bytes, file) => {
                (FileTree::new(bytes, shape), Some(Watch { file, size_bytes }))
            }
            Source::File(file) => (FileTree::from_reader(file, shape), None),
        };
        let tree = tree.map_err(|error| of_tree(&error))?;
        let ipv4_start = tree.ipv4_start();
        if shape.is_ipv6 && ipv4_start.1 < 96 && ipv4_start.0 < shape.node_count {
            tree.try_record_number(ipv4_start.0, false).map_err(|error| of_tree(&error))?;
        }
        let TreeShape { node_count, is_ipv6, .. } = shape;
        let caches = Caches::default();
        Ok((Opened { tree, node_count, is_ipv6, ipv4_start, watch, caches }, metadata))
    }

    /// The record of an address; `written` is the address as the caller gave it.
    #[inline]
    pub(super) fn find<'py>(
        &self,
        address: IpAddr,
        written: &Bound<'py, PyAny>,
    ) -> PyResult<Answer<'py>> {
        self.check()?;
        let branch = match address {
            IpAddr::V4(address) => {
                self.tree.walk(self.ipv4_start.0, u128::from(address.to_bits()) << 96, 32)
            }
            IpAddr::V6(address) if self.is_ipv6 => self.tree.walk(0, address.to_bits(), 128),
            IpAddr::V6(_) => return Err(ipv6_in_ipv4(written)),
        };
        let branch = branch.map_err(|error| of_tree(&error))?;
        let record = branch.record.map(|id| self.record(written.py(), id)).transpose()?;
        Ok(Answer { record, prefix_length: branch.depth_bits })
    }

    pub(super) fn record<'py>(&self, py: Python<'py>, id: RecordId) -> PyResult<Bound<'py, PyAny>> {
        let at = id.to_u32() as usize;
        self.tree.with_data(|section| record::decode(py, section, at, &self.caches))
    }

    /// Refuses a mapping that has lost its bytes.
    #[inline]
    pub(super) fn check(&self) -> PyResult<()> {
        self.watch.as_ref().map_or(Ok(()), Watch::check)
    }
}

/// The numbers of the metadata that say where the tree is.
fn shape(metadata: &Bound<'_, PyDict>, name: &str) -> PyResult<TreeShape> {
    let number = |key: &str| -> PyResult<i128> {
        let value = metadata.get_item(key)?;
        let value = value.ok_or_else(|| in_metadata(name, &format!("{key} is missing")))?;
        value.extract().map_err(|_| in_metadata(name, &format!("{key} is no number")))
    };
    let invalid =
        |what: &str, number: i128| Err(InvalidDatabaseError::new_err(format!("{what}: {number}")));
    let record_size_bits = match number("record_size")? {
        bits @ (24 | 28 | 32) => bits as u16,
        other => return invalid("Unknown record size", other),
    };
    let nodes = number("node_count")?;
    let Ok(node_count) = u32::try_from(nodes) else { return invalid("Invalid node count", nodes) };
    match number("binary_format_major_version")? {
        2 => {}
        other => return invalid("Unknown binary format version", other),
    }
    let is_ipv6 = match number("ip_version")? {
        4 => false,
        6 => true,
        other => return invalid("Unknown IP version", other),
    };
    Ok(TreeShape { node_count, record_size_bits, is_ipv6 })
}

fn refuse(name: &str, reason: &str) -> PyErr {
    InvalidDatabaseError::new_err(format!("Error opening database file ({name}). {reason}"))
}

fn in_metadata(name: &str, reason: &str) -> PyErr {
    InvalidDatabaseError::new_err(format!(
        "Error reading metadata in database file ({name}): {reason}."
    ))
}

/// A fault of the tree.
#[cold]
pub(super) fn of_tree(error: &MmdbError) -> PyErr {
    match error.kind() {
        ErrorKind::Unreadable => record::unreadable(error),
        _ => InvalidDatabaseError::new_err(format!(
            "The MaxMind DB file's search tree is corrupt: {error}"
        )),
    }
}

#[cold]
fn ipv6_in_ipv4(written: &Bound<'_, PyAny>) -> PyErr {
    let shown = written.str().map(|text| text.to_string_lossy().into_owned());
    PyValueError::new_err(format!(
        "Error looking up {}. You attempted to look up an IPv6 address in an IPv4-only database.",
        shown.unwrap_or_default()
    ))
}
