//! Space of removed segments that waits to be the space of later ones.
//!
//! ```text
//!   journal-7.log ──removal──> journal-spare-of-7.new ──> journal-90.log     of version 2
//! ```
//! For: syncs of blocks that were written before, which cost half of what a sync of blocks that
//! were never written does: those need a transaction of the file system's own journal. And giving
//! 16 MiB back takes milliseconds, during which syncs wait. Not for: what is in the files:
//! `writer.rs` and `recovery.rs` see to it that nobody takes old bytes for new ones.
//!
//! Invariants: a file with another name, as a backup's, is never used again; before anything is
//! written to one, its name as a segment is gone for certain. At most [`KEPT_BYTES_MAX`] wait. At
//! the same time: any thread may take; one keeps (`segments.rs` sees to that). A lock is held for
//! moments, never during a sync.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::segment::{reusable_name, segment_name};
use super::spare::Spare;
use super::thread::lock;
use crate::storage::Storage;

/// How much space may wait.
const KEPT_BYTES_MAX: u64 = 64 << 20;

/// See the file's header.
pub(crate) struct Reusable {
    storage: Arc<dyn Storage>,
    /// What is smaller than the next segment is of no use.
    size_bytes_min: AtomicU64,
    /// Name and size, the oldest first.
    files: Mutex<Vec<(String, u64)>>,
}

impl Reusable {
    pub(crate) fn new(storage: Arc<dyn Storage>, size_bytes_min: u64) -> Reusable {
        let size_bytes_min = AtomicU64::new(size_bytes_min);
        Reusable { storage, size_bytes_min, files: Mutex::new(Vec::new()) }
    }

    /// From now on keeps only what is at least this large.
    pub(crate) fn keep_from(&self, size_bytes_min: u64) {
        self.size_bytes_min.store(size_bytes_min, Ordering::Relaxed);
    }

    /// Takes the name from a segment that nobody needs, for certain, and keeps its space if it may;
    /// otherwise changes nothing. Gives whether it did.
    pub(crate) fn keep(&self, first_sequence: u64) -> io::Result<bool> {
        let name = segment_name(first_sequence);
        if self.storage.name_count(&name)? != 1 {
            return Ok(false);
        }
        let size_bytes = self.storage.open(&name, false)?.size_bytes()?;
        let kept_bytes: u64 = lock(&self.files).iter().map(|(_, size_bytes)| size_bytes).sum();
        let is_too_small = size_bytes < self.size_bytes_min.load(Ordering::Relaxed);
        if is_too_small || kept_bytes + size_bytes > KEPT_BYTES_MAX {
            return Ok(false);
        }
        let kept_name = reusable_name(first_sequence);
        self.storage.rename(&name, &kept_name)?;
        self.storage.sync_directory()?;
        lock(&self.files).push((kept_name, size_bytes));
        Ok(true)
    }

    /// Space of at least this size, if some waits. What cannot be opened is given up.
    pub(crate) fn take(&self, size_bytes_min: u64) -> Option<Spare> {
        let mut files = lock(&self.files);
        let place = files.iter().position(|(_, size_bytes)| *size_bytes >= size_bytes_min)?;
        let (name, size_bytes) = files.remove(place);
        let file = self.storage.open(&name, true).ok()?;
        Some(Spare { name, file, size_bytes, is_reused: true })
    }

    /// Gives all of it back to the system, at the end of the journal's life.
    pub(crate) fn discard(&self) {
        for (name, _) in lock(&self.files).drain(..) {
            // One that stays is removed at the next open.
            let _ = self.storage.remove(&name);
        }
    }
}
