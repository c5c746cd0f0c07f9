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
use whered_mmdb::{Branch, ErrorKind, FileTree, MmdbError, RecordId, TreeShape};

/// The bytes in front of the metadata.
const MARKER: &[u8] = b"\xab\xcd\xefMaxMind.com";

/// How far from the file's end the marker is looked for.
const MAX_METADATA_BYTES: u64 = 128 << 10;

/// The zero bytes between tree and data section, counted by records of the tree.
const SEPARATOR_BYTES: u64 = 16;

pub(super) struct OpenDatabase {
    pub(super) tree: FileTree,
    pub(super) node_count: u32,
    pub(super) is_ipv6: bool,
    /// The number at which lookups of IPv4 addresses begin, and the bits that lead there.
    pub(super) ipv4_start: (u32, u8),
    branches: Option<Branches>,
    watch: Option<Watch>,
    caches: Caches,
}

/// The nodes that the first 16 bits of IPv4 addresses lead to, and the bits taken to them.
struct Branches {
    numbers: Box<[u32]>,
    depths: Box<[u8]>,
}

/// Bits of an IPv4 address that [`Branches`] answers.
const BRANCH_BITS: u8 = 16;

/// The smallest tree that gets [`Branches`], which take 320 KiB.
const MIN_BRANCHES_NODES: u32 = 1 << 17;

/// A record and the length of the network around the address, in bits of the address's family.
pub(super) struct Answer<'py> {
    pub(super) record: Option<Bound<'py, PyAny>>,
    pub(super) prefix_length: u8,
}

impl OpenDatabase {
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
    ) -> PyResult<(OpenDatabase, Bound<'py, PyDict>)> {
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
        let shape = tree_layout(&metadata, name)?;
        let tree_bytes = u64::from(shape.node_count) * u64::from(shape.record_size_bits) / 4;
        if tree_bytes + SEPARATOR_BYTES > size_bytes {
            return Err(refuse(name, "The search tree extends past the end of the file."));
        }
        let is_file = matches!(source, Source::File(_));
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
        let is_large = node_count >= MIN_BRANCHES_NODES && !is_file;
        let branches = if is_large { Branches::new(&tree, ipv4_start.0, node_count) } else { None };
        let caches = Caches::default();
        let opened =
            OpenDatabase { tree, node_count, is_ipv6, ipv4_start, branches, watch, caches };
        Ok((opened, metadata))
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
            IpAddr::V4(address) => self.walk4(address.to_bits()),
            IpAddr::V6(address) if self.is_ipv6 => self.tree.walk(0, address.to_bits(), 128),
            IpAddr::V6(_) => return Err(ipv6_in_ipv4(written)),
        };
        let Branch { record, depth_bits } = branch.map_err(|error| of_tree(&error))?;
        let record = record.map(|id| self.record(written.py(), id)).transpose()?;
        Ok(Answer { record, prefix_length: depth_bits })
    }

    #[inline]
    fn walk4(&self, address: u32) -> Result<Branch, MmdbError> {
        let bits = u128::from(address) << 96;
        let first = (address >> (32 - BRANCH_BITS)) as usize;
        let known = self.branches.as_ref().and_then(|branches| {
            Some((*branches.numbers.get(first)?, *branches.depths.get(first)?))
        });
        let Some((number, depth)) = known else {
            return self.tree.walk(self.ipv4_start.0, bits, 32);
        };
        let branch = self.tree.walk(number, bits << BRANCH_BITS, 32 - BRANCH_BITS)?;
        Ok(Branch { depth_bits: depth + branch.depth_bits, ..branch })
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

impl Branches {
    /// `None` for a tree that is damaged near its root: its lookups then tell where.
    fn new(tree: &FileTree, start: u32, node_count: u32) -> Option<Branches> {
        let mut level = vec![(start, 0)];
        for _ in 0..BRANCH_BITS {
            let mut below = Vec::with_capacity(2 * level.len());
            for (number, depth) in level {
                for right in [false, true] {
                    below.push(if number < node_count {
                        (tree.try_record_number(number, right).ok()?, depth + 1)
                    } else {
                        (number, depth)
                    });
                }
            }
            level = below;
        }
        let (numbers, depths): (Vec<u32>, Vec<u8>) = level.into_iter().unzip();
        Some(Branches { numbers: numbers.into(), depths: depths.into() })
    }
}

/// The numbers of the metadata that say where the tree is.
fn tree_layout(metadata: &Bound<'_, PyDict>, name: &str) -> PyResult<TreeShape> {
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
