//! Which segments there are, and the removal of those that nobody needs any more.
//!
//! ```text
//!   firsts:  | 1 | 4711 | 9000 | 12345 |     the last one is being written and always stays
//!   remove_before(9500):   the segments 1 and 4711 hold nothing above 9500 and go; 9000 stays
//! ```
//!
//! Not for: knowing who needs entries; the caller says it; nor what becomes of the space
//! (`reuse.rs`). Invariants: segments go oldest first, and each removal is certain before the next
//! one begins, so that no crash leaves a gap.
//!
//! Any thread may call; the list is locked for moments, never during input or output.

use std::io;
use std::sync::{Arc, Mutex};

use super::reuse::Reusable;
use super::segment::segment_name;
use super::thread::lock;
use crate::error::StoreError;
use crate::storage::Storage;

/// See the file's header.
pub(crate) struct Segments {
    storage: Arc<dyn Storage>,
    /// Takes what is removed.
    reusable: Arc<Reusable>,
    firsts: Mutex<Vec<u64>>,
    /// Held during a removal: one at a time.
    removing: Mutex<()>,
}

impl Segments {
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        reusable: Arc<Reusable>,
        firsts: Vec<u64>,
    ) -> Segments {
        Segments { storage, reusable, firsts: Mutex::new(firsts), removing: Mutex::new(()) }
    }

    /// Notes that the segment with this first sequence is the one being written now.
    ///
    /// It may have taken the place of one without entries, whose name and first sequence are the
    /// same, when its first entry was larger than that: then nothing is before it.
    pub(crate) fn push(&self, first_sequence: u64) {
        let mut firsts = lock(&self.firsts);
        if firsts.last() != Some(&first_sequence) {
            firsts.push(first_sequence);
        }
    }

    /// The first sequence of the segment being written.
    pub(crate) fn newest(&self) -> u64 {
        lock(&self.firsts).last().copied().unwrap_or(0)
    }

    /// The first sequence of the segment that has this entry, or could have it next.
    pub(crate) fn holding(&self, sequence: u64) -> Option<u64> {
        let firsts = lock(&self.firsts);
        let after = firsts.partition_point(|&first| first <= sequence);
        Some(firsts[after.checked_sub(1)?])
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        lock(&self.firsts).len()
    }

    /// The oldest segment if it holds only entries up to `sequence`.
    pub(crate) fn oldest_before(&self, sequence: u64) -> Option<u64> {
        let firsts = lock(&self.firsts);
        let (oldest, next) = (*firsts.first()?, *firsts.get(1)?);
        (next <= sequence.saturating_add(1)).then_some(oldest)
    }

    /// Removes all segments that hold only entries up to `sequence`; returns how many.
    pub(crate) fn remove_before(&self, sequence: u64) -> Result<usize, StoreError> {
        let _one_at_a_time = lock(&self.removing);
        let mut removed = 0;
        while let Some(oldest) = self.oldest_before(sequence) {
            self.remove(oldest).map_err(|error| {
                let path = self.storage.describe(&segment_name(oldest));
                StoreError::io(&format!("cannot remove {path}"), &error)
            })?;
            lock(&self.firsts).remove(0);
            removed += 1;
        }
        Ok(removed)
    }

    fn remove(&self, first_sequence: u64) -> io::Result<()> {
        let removed = match self.reusable.keep(first_sequence) {
            Ok(true) => return Ok(()),
            Ok(false) => self.storage.remove(&segment_name(first_sequence)),
            Err(error) => Err(error),
        };
        match removed {
            // An attempt before this one may have failed at the sync only.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => result?,
        }
        self.storage.sync_directory()
    }
}
