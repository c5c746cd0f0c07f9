//! Writes a snapshot: blocks one after another, then the manifest that makes them count.
//!
//! ```text
//!   data:       | header | block | block | block | block | ...
//!               '--- on the disk ---'--- on its way ---'-- in memory --'
//!                       waited for        begun           at most one stride
//! ```
//!
//! Not for: choosing what to write. Invariants: whatever was written is handed to the disk stride
//! by stride, the one before the last is waited for, so that the last sync is short and the journal
//! does not stand in line behind gigabytes; a writer that is dropped unfinished removes its files.
//!
//! One owner. A block costs one checksum pass and one gathered write.

use std::sync::Arc;

use super::format::{
    ALIGNMENT_BYTES, DataHeader, aligned, data_name, encode_manifest, manifest_name,
    new_manifest_name,
};
use super::{BlockInfo, SnapshotInfo};
use crate::checksum;
use crate::error::StoreError;
use crate::storage::{Storage, StorageFile};

/// How much is handed to the disk at a time.
const STRIDE_BYTES: u64 = 8 << 20;

/// A snapshot that is being written.
///
/// ```
/// use std::sync::Arc;
/// use whered_store::{SimulatedDisk, SnapshotReader, SnapshotWriter, Snapshots, Storage};
///
/// let storage: Arc<dyn Storage> = Arc::new(SimulatedDisk::new(1));
/// let mut writer = SnapshotWriter::create(Arc::clone(&storage), 41)?;
/// writer.write_block(7, &[b"two ", b"pieces"])?;
/// writer.finish(42)?;
///
/// let newest = &Snapshots::find(&*storage)?.complete[0];
/// assert_eq!((newest.start_sequence, newest.end_sequence), (41, 42));
/// let reader = SnapshotReader::open(&*storage, newest)?;
/// let mut words = Vec::new();
/// assert_eq!(reader.read_block(0, &mut words)?, b"two pieces");
/// # Ok::<(), whered_store::StoreError>(())
/// ```
pub struct SnapshotWriter {
    storage: Arc<dyn Storage>,
    file: Box<dyn StorageFile>,
    path: String,
    info: SnapshotInfo,
    /// Up to here the disk was told to write.
    begun_bytes: u64,
    /// Up to here that was waited for.
    waited_bytes: u64,
    finished: bool,
}

impl SnapshotWriter {
    /// Begins the snapshot whose blocks contain everything up to `start_sequence`.
    ///
    /// # Errors
    ///
    /// There is one with that start ([`StoreError::is_existing`]): nothing was appended since, and
    /// another would say the same. Else whatever the system reports.
    pub fn create(
        storage: Arc<dyn Storage>,
        start_sequence: u64,
    ) -> Result<SnapshotWriter, StoreError> {
        let name = data_name(start_sequence);
        let path = storage.describe(&name);
        let id = storage.random();
        let cannot = |error| StoreError::io(&format!("cannot create {path}"), &error);
        let names = storage.list().map_err(cannot)?;
        if names.contains(&manifest_name(start_sequence)) {
            return Err(StoreError::exists(format!(
                "there is a snapshot at entry {start_sequence} already ({path})"
            )));
        }
        // What a crash left under these names belongs to nothing: it has no manifest.
        for left in [name.clone(), new_manifest_name(start_sequence)] {
            if names.contains(&left) {
                storage.remove(&left).map_err(cannot)?;
            }
        }
        let file = storage.create(&name, 0).map_err(cannot)?;
        let writer = SnapshotWriter {
            storage,
            file,
            path,
            info: SnapshotInfo {
                start_sequence,
                end_sequence: start_sequence,
                id,
                data_size_bytes: ALIGNMENT_BYTES,
                blocks: Vec::new(),
            },
            begun_bytes: 0,
            waited_bytes: 0,
            finished: false,
        };
        let mut header = DataHeader { start_sequence, id }.encode();
        header.resize(ALIGNMENT_BYTES as usize, 0);
        writer.file.write_at(0, &header).map_err(|error| writer.cannot_write(&error))?;
        Ok(writer)
    }

    /// Writes the pieces, one after another, as one block.
    ///
    /// Any size will do; about a megabyte keeps both the list of blocks and what a reader needs at
    /// once small. Returns before the block is on the disk.
    ///
    /// # Errors
    ///
    /// No room ([`StoreError::is_full`]) or whatever the system reports. The snapshot cannot be
    /// finished then: drop it.
    pub fn write_block(&mut self, kind: u16, pieces: &[&[u8]]) -> Result<(), StoreError> {
        let offset_bytes = aligned(self.info.data_size_bytes);
        self.file
            .write_gathered_at(offset_bytes, pieces)
            .map_err(|error| self.cannot_write(&error))?;
        let length_bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
        let crc32c = pieces.iter().fold(0, |sum, piece| checksum::crc32c_append(sum, piece));
        if length_bytes > 0 {
            self.info.data_size_bytes = offset_bytes + length_bytes;
        }
        self.info.blocks.push(BlockInfo { kind, offset_bytes, length_bytes, crc32c });
        self.write_back()
    }

    /// Keeps the disk busy and what waits for it small.
    fn write_back(&mut self) -> Result<(), StoreError> {
        while self.info.data_size_bytes - self.begun_bytes >= STRIDE_BYTES {
            let end = self.begun_bytes + STRIDE_BYTES;
            let ranges =
                [(self.begun_bytes..end, false), (self.waited_bytes..self.begun_bytes, true)];
            for (range, wait) in ranges {
                self.file.write_back(range, wait).map_err(|error| self.cannot_write(&error))?;
            }
            self.waited_bytes = self.begun_bytes;
            self.begun_bytes = end;
        }
        Ok(())
    }

    /// The bytes written so far.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.info.data_size_bytes
    }

    /// Makes the snapshot complete. No block has anything newer than `end_sequence`.
    ///
    /// The caller promises that the journal has everything up to `end_sequence` on stable storage
    /// *before* this call, whatever the sync policy: [`Journal::sync`](crate::Journal::sync).
    ///
    /// # Errors
    ///
    /// Whatever the system reports. The snapshot is then gone, or (when only the last sync failed)
    /// complete or gone after a crash.
    ///
    /// # Panics
    ///
    /// When the end is before the start.
    pub fn finish(mut self, end_sequence: u64) -> Result<SnapshotInfo, StoreError> {
        assert!(end_sequence >= self.info.start_sequence, "a snapshot ends after its start");
        self.info.end_sequence = end_sequence;
        self.put_manifest().map_err(|error| self.cannot_write(&error))?;
        self.finished = true;
        self.storage.sync_directory().map_err(|error| self.cannot_write(&error))?;
        Ok(self.info.clone())
    }

    fn put_manifest(&self) -> std::io::Result<()> {
        self.file.sync_all()?;
        let new_name = new_manifest_name(self.info.start_sequence);
        let bytes = encode_manifest(&self.info);
        let manifest = self.storage.create(&new_name, bytes.len() as u64)?;
        manifest.write_at(0, &bytes)?;
        manifest.sync_all()?;
        // The data file's name must be certain before the manifest's can be.
        self.storage.sync_directory()?;
        self.storage.rename(&new_name, &manifest_name(self.info.start_sequence))
    }

    fn cannot_write(&self, error: &std::io::Error) -> StoreError {
        StoreError::io(&format!("cannot write {}", self.path), error)
    }
}

impl Drop for SnapshotWriter {
    fn drop(&mut self) {
        if !self.finished {
            // Files that stay have no manifest and are removed as leftovers.
            for name in [new_manifest_name, data_name] {
                let _ = self.storage.remove(&name(self.info.start_sequence));
            }
        }
    }
}
