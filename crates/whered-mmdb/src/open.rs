//! Opening a database: which format the bytes have, and whether their parts fit together.
//!
//! Not for questions ([`crate::database`]), not for files (bytes and readers come from the caller).
//!
//! ```text
//! owned or mapped bytes ── last 128 KiB: marker? ──> metadata ──> sizes, zero bytes ──> IPv4 root
//! a reader              ── last 4 KiB, then 128 ──>     the same, read range by range
//!                       └─ no marker: a legacy file, which is read whole
//! ```
//!
//! Cost: the metadata and up to 96 nodes, wherever the bytes are; a legacy file on a reader is read
//! whole, and one without a structure marker is walked whole.
#![deny(clippy::indexing_slicing)]

use crate::database::{Database, Format};
use crate::error::{ErrorKind, MmdbError};
use crate::legacy;
use crate::metadata::{self, MARKER, MAX_METADATA_BYTES, Metadata};
use crate::read_at::{self, ReadAt, Resident};
use crate::tree::{Layout, SEPARATOR_BYTES, SearchTree};
use bytes::Bytes;
use std::sync::Arc;

/// Where the marker is looked for first: metadata is rarely larger.
const FIRST_TAIL_BYTES: usize = 4 << 10;

/// The largest file without a marker: a larger one is no legacy file, whose trees have 24-bit
/// pointers.
const MAX_LEGACY_BYTES: usize = 1 << 30;

impl Database {
    /// Opens a database; the format is told from the bytes, which may be owned (`Vec<u8>`) or held
    /// by something else (`Bytes::from_owner`, such as a mapping).
    ///
    /// # Errors
    ///
    /// The bytes are no such file, of an edition or major version that is not read, or their
    /// metadata or sizes break the specification.
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Result<Database, MmdbError> {
        let bytes = bytes.into();
        if let Some(marker) = metadata::find_marker(&bytes) {
            let start = marker + MARKER.len();
            let metadata = metadata::read(bytes.get(start..).unwrap_or_default(), start)?;
            let layout = Layout::of(&metadata, marker)?;
            let data_start = data_start(&metadata, layout, marker)?;
            return Database::assemble(bytes, None, metadata, layout, data_start..marker);
        }
        let legacy::OpenedFile { edition, tree, metadata, data } = legacy::open(&bytes)?;
        let format = Format::Legacy(edition);
        Ok(Database { bytes, reader: None, tree, metadata, format, data })
    }

    /// Opens a database whose bytes stay with a reader; only what `resident` says is kept in
    /// memory. A legacy file is small and always read whole.
    ///
    /// # Errors
    ///
    /// As [`from_bytes`](Database::from_bytes), and what the reader cannot read.
    pub fn from_reader(
        reader: impl ReadAt + 'static,
        resident: Resident,
    ) -> Result<Database, MmdbError> {
        let reader: Arc<dyn ReadAt> = Arc::new(reader);
        let size = size(&*reader)?;
        let mut tail = Vec::new();
        let mut found = None;
        for reach in [FIRST_TAIL_BYTES, MAX_METADATA_BYTES] {
            let count = reach.min(size);
            tail = read_at::read(&*reader, (size - count) as u64, count)?;
            found = metadata::find_marker(&tail);
            if found.is_some() || count == size {
                break;
            }
        }
        let Some(at) = found else {
            if size > MAX_LEGACY_BYTES {
                return Err(legacy::not_a_database());
            }
            return Database::from_bytes(read_whole(&*reader)?);
        };
        let marker = size - tail.len() + at;
        let map = tail.get(at + MARKER.len()..).unwrap_or_default();
        let metadata = metadata::read(map, marker + MARKER.len())?;
        let layout = Layout::of(&metadata, marker)?;
        let data_start = data_start(&metadata, layout, marker)?;
        let bytes = match resident {
            Resident::Nothing => Vec::new(),
            Resident::Tree => read_at::read(&*reader, 0, data_start)?,
        };
        Database::assemble(bytes.into(), Some(reader), metadata, layout, data_start..marker)
    }

    fn assemble(
        bytes: Bytes,
        reader: Option<Arc<dyn ReadAt>>,
        metadata: Metadata,
        layout: Layout,
        data: std::ops::Range<usize>,
    ) -> Result<Database, MmdbError> {
        check_separator(&bytes, reader.as_deref(), data.start)?;
        let tree = SearchTree::on_demand(
            &bytes,
            reader.clone(),
            layout,
            metadata.node_count,
            data.len(),
            metadata.ip_version == 6,
        )?;
        Ok(Database { bytes, reader, tree, metadata, format: Format::Mmdb, data })
    }
}

impl Layout {
    fn of(metadata: &Metadata, marker: usize) -> Result<Layout, MmdbError> {
        let bits = metadata.record_size_bits;
        Layout::from_record_size(u64::from(bits)).ok_or_else(|| {
            let found = format!("records of {bits} bits");
            MmdbError::new(ErrorKind::Unsupported, found, "24, 28 or 32 bits")
                .at(map_offset(marker))
                .within("record_size")
        })
    }
}

/// Where the metadata map begins: the place of its faults.
fn map_offset(marker: usize) -> u64 {
    (marker + MARKER.len()) as u64
}

/// Where the data section begins, if tree and zero bytes end before the marker.
fn data_start(metadata: &Metadata, layout: Layout, marker: usize) -> Result<usize, MmdbError> {
    let tree_bytes = u64::from(metadata.node_count) * layout.node_bytes() as u64;
    usize::try_from(tree_bytes)
        .ok()
        .and_then(|size| size.checked_add(SEPARATOR_BYTES))
        .filter(|&start| start <= marker)
        .ok_or_else(|| {
            MmdbError::new(
                ErrorKind::Metadata,
                format!("{} nodes, a tree of {tree_bytes} bytes", metadata.node_count),
                format!("trees that end {SEPARATOR_BYTES} bytes before the metadata, at {marker}"),
            )
            .at(map_offset(marker))
            .within("node_count")
        })
}

/// Refuses anything but zero bytes before the data section.
fn check_separator(
    bytes: &[u8],
    reader: Option<&dyn ReadAt>,
    data_start: usize,
) -> Result<(), MmdbError> {
    let start = data_start - SEPARATOR_BYTES;
    let mut buffer = [0; SEPARATOR_BYTES];
    let separator = match (bytes.get(start..data_start), reader) {
        (None, Some(reader)) => {
            read_at::fill(reader, &mut buffer, start as u64)?;
            &buffer
        }
        (held, _) => held.unwrap_or_default(),
    };
    let Some(position) = separator.iter().position(|&byte| byte != 0) else {
        return Ok(());
    };
    Err(MmdbError::new(
        ErrorKind::Tree,
        "a byte other than zero between tree and data section",
        format!("{SEPARATOR_BYTES} zero bytes behind the tree's {start}"),
    )
    .at((start + position) as u64))
}

/// Everything that a reader has.
pub(crate) fn read_whole(reader: &dyn ReadAt) -> Result<Vec<u8>, MmdbError> {
    read_at::read(reader, 0, size(reader)?)
}

fn size(reader: &dyn ReadAt) -> Result<usize, MmdbError> {
    let size_bytes = reader.size_bytes();
    usize::try_from(size_bytes).map_err(|_| {
        let found = format!("{size_bytes} bytes");
        MmdbError::new(ErrorKind::Unsupported, found, "files that this machine can address")
    })
}
