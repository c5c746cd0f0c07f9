//! Journal files as framed, checksummed bytes, with recovery and a simulated disk.
//!
//! What this crate is for: keeping entries (a number, a kind, some bytes) on disk so that every
//! entry that was acknowledged is there after a crash, exactly once and in order. What it is not
//! for: it never knows what the bytes of an entry mean; snapshots and spools get modules of their
//! own beside [`Journal`].
//!
//! ```text
//!   data directory
//!   ├── LOCK                              held by flock, names the process   -> DataDirectory
//!   ├── journal-00000000000000000001.log  a segment, full                    -> journal/segment.rs
//!   ├── journal-00000000000000048213.log  the segment being written
//!   └── journal-spare-3.new               preallocated, has no entries yet   -> journal/spare.rs
//!
//!   callers ── reserve, append ──> Intake (group in memory) ── journal thread ──> Writer ──> Storage
//! ```
//!
//! To follow a write, start at [`Journal::reserve`]; to follow a restart, at `journal/recovery.rs`,
//! whose header states the rule that tells a torn tail from damage.
//!
//! ```
//! use std::sync::Arc;
//! use whered_store::{Journal, JournalOptions, SimulatedDisk};
//!
//! let disk = SimulatedDisk::new(1);
//! let (journal, report) =
//!     Journal::open(Arc::new(disk.clone()), JournalOptions::default(), &mut |_| Ok(()))?;
//! assert_eq!(report.entries, 0);
//! let reservation = journal.reserve(5)?;          // space on disk is allocated: cannot fail later
//! let sequence = journal.append(reservation, 7, b"hello");
//! journal.wait_durable(sequence)?;                // now it may be acknowledged
//! journal.close()?;
//!
//! let mut seen = Vec::new();
//! Journal::open(Arc::new(disk.crash(2)), JournalOptions::default(), &mut |entry| {
//!     seen.push((entry.sequence, entry.kind, entry.payload.to_vec()));
//!     Ok(())
//! })?;
//! assert_eq!(seen, [(1, 7, b"hello".to_vec())]);
//! # Ok::<(), whered_store::StoreError>(())
//! ```

mod directory;
mod error;
mod journal;
mod storage;

pub use directory::DataDirectory;
pub use error::StoreError;
pub use journal::{
    DetachedReservation, Entry, Journal, JournalCore, JournalOptions, JournalStats, KIND_MAX,
    PAYLOAD_SIZE_BYTES_MAX, RecoveryReport, Reservation, SEGMENT_SIZE_BYTES_MAX,
    SEGMENT_SIZE_BYTES_MIN, SyncPolicy, TornTail,
};
pub use storage::{DirectoryStorage, SimulatedDisk, Storage, StorageFile};
