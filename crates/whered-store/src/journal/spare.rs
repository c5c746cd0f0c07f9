//! Spares: preallocated files that wait to become the next segment.
//!
//! A spare has all its blocks and no header that counts, under a name that recovery throws away.
//! `writer.rs` gives it a header and a segment's name when entries go there. One is made of a
//! removed segment's space (`reuse.rs`), or costs a `fallocate`; a refusal is remembered for a
//! moment, so that a full disk does not cost a system call for every write that is refused.
//!
//! Sizes grow: each spare is twice as large as the one before it, up to the configured size. A
//! journal that nobody writes to takes little of the disk, and a used one soon has large segments.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::frame::MARK_BYTES;
use super::reuse::Reusable;
use super::segment::{HEADER_BYTES, SEGMENT_SIZE_BYTES_MAX, SEGMENT_SIZE_BYTES_MIN, spare_name};
use crate::error::StoreError;
use crate::storage::{Storage, StorageFile};

/// The bytes of a segment other than groups: its header, and the mark that a clean close writes.
pub(crate) const SEGMENT_OVERHEAD_BYTES: u64 = HEADER_BYTES + MARK_BYTES as u64;

/// Preallocated space.
pub(crate) struct Spare {
    pub(crate) name: String,
    pub(crate) file: Box<dyn StorageFile>,
    pub(crate) size_bytes: u64,
    /// Whether it was a segment before, whose bytes it still has.
    pub(crate) is_reused: bool,
}

impl Spare {
    /// How many bytes of groups fit.
    pub(crate) fn capacity_bytes(&self) -> u64 {
        self.size_bytes - SEGMENT_OVERHEAD_BYTES
    }
}

/// Makes spares and throws them away.
pub(crate) struct SpareMaker {
    storage: Arc<dyn Storage>,
    reusable: Arc<Reusable>,
    /// The size of the next spare, and of all when they have grown.
    next_size_bytes: u64,
    segment_size_bytes: u64,
    retry_interval: Duration,
    next_number: u64,
    /// The last refusal, and how much was asked for.
    refused: Option<(Instant, u64, StoreError)>,
}

impl SpareMaker {
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        segment_size_bytes: u64,
        retry_interval: Duration,
    ) -> SpareMaker {
        let reusable = Arc::new(Reusable::new(Arc::clone(&storage), segment_size_bytes));
        SpareMaker {
            storage,
            reusable,
            next_size_bytes: segment_size_bytes,
            segment_size_bytes,
            retry_interval,
            next_number: 0,
            refused: None,
        }
    }

    /// Has the next spare this size, within the sizes of segments, and each later one twice the
    /// size of the one before it.
    pub(crate) fn grow_from(&mut self, size_bytes: u64) {
        self.next_size_bytes = size_bytes.max(SEGMENT_SIZE_BYTES_MIN).min(self.segment_size_bytes);
        self.reusable.keep_from(self.next_size_bytes);
    }

    /// Where space of removed segments waits for this maker.
    pub(crate) fn reusable(&self) -> &Arc<Reusable> {
        &self.reusable
    }

    /// Makes a spare for at least `capacity_bytes` of groups.
    pub(crate) fn make(&mut self, capacity_bytes: u64) -> Result<Spare, StoreError> {
        let wanted_bytes = capacity_bytes.saturating_add(SEGMENT_OVERHEAD_BYTES);
        let size_bytes = wanted_bytes.max(self.size_bytes_for(wanted_bytes));
        if size_bytes > SEGMENT_SIZE_BYTES_MAX {
            return Err(StoreError::full(format!(
                "a segment of {size_bytes} bytes would be needed for what is reserved at once; \
                 the largest has {SEGMENT_SIZE_BYTES_MAX}"
            )));
        }
        if let Some(spare) = self.reusable.take(size_bytes) {
            return Ok(spare);
        }
        if let Some((at, refused_bytes, error)) = &self.refused
            && size_bytes >= *refused_bytes
            && at.elapsed() < self.retry_interval
        {
            return Err(error.clone());
        }
        let name = spare_name(self.next_number);
        self.next_number += 1;
        match self.storage.create(&name, size_bytes) {
            Ok(file) => {
                self.refused = None;
                self.grow_from(size_bytes.saturating_mul(2));
                Ok(Spare { name, file, size_bytes, is_reused: false })
            }
            Err(error) => {
                let path = self.storage.describe(&name);
                let what = format!("cannot extend the journal by {size_bytes} bytes ({path})");
                let error = StoreError::io(&what, &error);
                self.refused = Some((Instant::now(), size_bytes, error.clone()));
                Err(error)
            }
        }
    }

    /// The size of a spare in which this much fits, if segments grow that large: what is next, or
    /// what is next after some doublings.
    fn size_bytes_for(&self, wanted_bytes: u64) -> u64 {
        let mut size_bytes = self.next_size_bytes;
        while size_bytes < wanted_bytes && size_bytes < self.segment_size_bytes {
            size_bytes = size_bytes.saturating_mul(2).min(self.segment_size_bytes);
        }
        size_bytes
    }

    /// Whether a spare of this capacity is larger than the next one would be.
    pub(crate) fn is_unusual(&self, capacity_bytes: u64) -> bool {
        capacity_bytes.saturating_add(SEGMENT_OVERHEAD_BYTES) > self.next_size_bytes
    }

    /// Gives the space of an unused spare back.
    pub(crate) fn discard(&self, spare: Spare) {
        drop(spare.file);
        // One that stays is removed at the next open.
        let _ = self.storage.remove(&spare.name);
    }
}
