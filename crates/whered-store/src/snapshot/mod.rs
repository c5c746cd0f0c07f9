//! Snapshots: blocks of bytes that spare a restart most of the journal.
//!
//! For: writing an image while its owner goes on changing things, finding the newest complete one,
//! reading it back checked. Not for: what a block means (its kind is the caller's); when to make
//! one; the journal after it.
//!
//! A snapshot is *pages that may be newer than its start sequence, plus the journal from there*:
//!
//! ```text
//!   journal   ... | S | S+1 ............................ E | E+1 ...
//!                   ^ start_sequence                      ^ end_sequence: all pages were taken
//!                   |  pages are copied in small steps,   |  by then, none has anything newer
//!                   |  changes go on meanwhile            |
//!   restart   = blocks, then the journal from S+1 on; operations say what is, not what changed,
//!               so that those which a page has already do no harm
//! ```
//!
//! | file | thing |
//! | --- | --- |
//! | `format.rs` | names and bytes of the data file's header and of the manifest |
//! | `writer.rs` | the blocks in order, then the manifest |
//! | `reader.rs` | the blocks in any order, checked |
//! | `set.rs` | all snapshots of a directory: finding, removing |
//!
//! Invariants:
//!
//! - a manifest bears its name only when itself and the data file are on stable storage;
//! - the journal has everything up to E on stable storage before the manifest is written (the
//!   caller's promise, see [`SnapshotWriter::finish`]), so that pages never know more than the
//!   journal does;
//! - a snapshot's manifest is removed, durably, before its data file.
//!
//! Concurrency: one writer at a time in a directory; readers are for several threads. Cost: one
//! write and one checksum pass a block; dirty pages stay below some tens of megabytes.

pub(crate) mod format;
mod reader;
pub(crate) mod set;
mod writer;

pub use reader::SnapshotReader;
pub use set::{BadSnapshot, Found, Snapshots};
pub use writer::SnapshotWriter;

use crate::journal::Wanted;

/// A complete snapshot: what its manifest says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// Everything up to this sequence is in the blocks; the journal is needed from the next one on.
    pub start_sequence: u64,
    /// Nothing after this sequence is in the blocks; without the journal up to here the blocks are
    /// of different times and worth nothing.
    pub end_sequence: u64,
    /// The number that ties the two files together.
    pub id: u64,
    /// The size of the data file.
    pub data_size_bytes: u64,
    /// The blocks in the order in which they were written.
    pub blocks: Vec<BlockInfo>,
}

impl SnapshotInfo {
    /// The entries that the journal must give after this snapshot was loaded.
    #[must_use]
    pub fn wanted(&self) -> Wanted {
        Wanted { after: self.start_sequence, through: self.end_sequence }
    }
}

/// Where a block lies and what it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockInfo {
    /// The writer's bytes: their meaning is the caller's.
    pub kind: u16,
    /// The payload's place in the data file, a multiple of 64.
    pub offset_bytes: u64,
    /// The payload's length.
    pub length_bytes: u64,
    /// The CRC-32C of the payload.
    pub crc32c: u32,
}
