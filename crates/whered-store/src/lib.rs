//! Journal and snapshot files as checksummed bytes, with recovery and a simulated disk.
//!
//! This crate keeps entries (a number, a kind, some bytes) on disk so that every entry that was
//! acknowledged is there after a crash, exactly once and in order; and keeping blocks that spare a
//! restart most of those entries. What it is not for: it never knows what the bytes of an entry or
//! a block mean; a [`Spool`] is a journal whose entries are read back while more come, and go when
//! they are done with.
//!
//! ```text
//!   data directory
//!   ├── LOCK                              held by flock, names the process   -> DataDirectory
//!   ├── journal-00000000000000000001.log  a segment, full                    -> journal/segment.rs
//!   ├── journal-00000000000000048213.log  the segment being written
//!   ├── journal-spare-3.new               preallocated, has no entries yet   -> journal/spare.rs
//!   ├── snapshot-00000000000000047000.data       blocks                      -> snapshot/writer.rs
//!   └── snapshot-00000000000000047000.manifest   makes them count            -> snapshot/format.rs
//!
//!   callers ── reserve, append ──> Intake (group in memory) ── journal thread ──> Writer ──> Storage
//! ```
//!
//! To follow a write, start at [`Journal::reserve`]; to follow a restart, at `journal/recovery.rs`,
//! whose header states the rule that tells a torn tail from damage; for snapshots, at
//! `snapshot/mod.rs`. [`repair`] is for a directory that is refused, [`backup`] and [`restore`] for
//! copies.
//!
//! ```
//! use std::sync::Arc;
//! use whered_store::{Journal, JournalOptions, SimulatedDisk, Wanted};
//!
//! let disk = SimulatedDisk::new(1);
//! let options = JournalOptions::default();
//! let (journal, report) =
//!     Journal::open(Arc::new(disk.clone()), options.clone(), Wanted::all(), &mut |_| Ok(()))?;
//! assert_eq!(report.entries, 0);
//! let reservation = journal.reserve(5)?;          // space on disk is allocated: cannot fail later
//! let sequence = journal.append(reservation, 7, b"hello");
//! journal.wait_durable(sequence)?;                // now it may be acknowledged
//! journal.close()?;
//!
//! let mut seen = Vec::new();
//! Journal::open(Arc::new(disk.crash(2)), options, Wanted::all(), &mut |entry| {
//!     seen.push((entry.sequence, entry.kind, entry.payload.to_vec()));
//!     Ok(())
//! })?;
//! assert_eq!(seen, [(1, 7, b"hello".to_vec())]);
//! # Ok::<(), whered_store::StoreError>(())
//! ```

mod backup;
mod checksum;
mod cold;
mod confined;
mod directory;
mod error;
mod histogram;
mod journal;
pub mod private;
mod repair;
mod snapshot;
mod spool;
mod storage;
mod sys;

pub use backup::{Contents, backup, backup_spool, restore, restore_spool, verify};
pub use cold::{COLD_KIND, ColdBlock, ColdFile, ColdReference, ColdWriter, remove_cold};
pub use confined::{Confined, ConfinedError, make_folder, path_of};
pub use directory::DataDirectory;
pub use error::StoreError;
pub use histogram::Histogram;
pub use journal::{
    DetachedReservation, Entry, Journal, JournalCore, JournalOptions, JournalStats, KIND_MAX,
    PAYLOAD_SIZE_BYTES_MAX, RecoveryReport, Reservation, SEGMENT_SIZE_BYTES_MAX,
    SEGMENT_SIZE_BYTES_MIN, SyncPolicy, TornTail, Wanted,
};
pub use repair::{Repaired, repair, repair_spool};
pub use snapshot::{
    BadSnapshot, BlockInfo, Found, SnapshotInfo, SnapshotReader, SnapshotWriter, Snapshots,
};
pub use spool::{LOST_KIND, Spool, SpoolOptions, SpoolReader, SpoolRefusal};
pub use storage::{DirectoryStorage, SimulatedDisk, Storage, StorageFile};
pub use sys::{Priority, check_access, lower_priority, use_short_time_slices};
