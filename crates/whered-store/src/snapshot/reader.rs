//! Reads a snapshot's blocks, each checked, in any order and from several threads.
//!
//! Not for: finding snapshots (`set.rs`), or what is in a block. A block is copied once, from the
//! system's cache to memory that begins at a multiple of eight, and summed up once.
//!
//! Invariant: bytes that do not have the manifest's checksum are never handed out.

use std::io;

use super::format::{DATA_HEADER_BYTES, DataHeader, data_name};
use super::{BlockInfo, SnapshotInfo};
use crate::checksum;
use crate::error::StoreError;
use crate::storage::{Storage, StorageFile};

/// An open snapshot; see [`SnapshotWriter`](crate::SnapshotWriter) for an example.
pub struct SnapshotReader {
    file: Box<dyn StorageFile>,
    path: String,
    info: SnapshotInfo,
}

impl SnapshotReader {
    /// Opens the data file that belongs to the manifest.
    ///
    /// # Errors
    ///
    /// Damage: the file is missing, has another size, or is another snapshot's; a file that is not
    /// ours or is from a newer version; whatever the system reports.
    pub fn open(storage: &dyn Storage, info: &SnapshotInfo) -> Result<SnapshotReader, StoreError> {
        let name = data_name(info.start_sequence);
        let path = storage.describe(&name);
        let cannot_read = |error: io::Error| {
            if error.kind() == io::ErrorKind::NotFound {
                StoreError::damaged(&path, 0, "the file is missing and there is a manifest for it")
            } else {
                StoreError::io(&format!("cannot read {path}"), &error)
            }
        };
        let file = storage.open(&name, false).map_err(cannot_read)?;
        let size_bytes = file.size_bytes().map_err(cannot_read)?;
        if size_bytes < DATA_HEADER_BYTES as u64 {
            let what = format!("the file ends within the header of {DATA_HEADER_BYTES} bytes");
            return Err(StoreError::damaged(&path, size_bytes, &what));
        }
        let mut bytes = [0; DATA_HEADER_BYTES];
        file.read_at(0, &mut bytes).map_err(cannot_read)?;
        let header = DataHeader::decode(&bytes, &path)?;
        if header != (DataHeader { start_sequence: info.start_sequence, id: info.id }) {
            let what = "it is the data of another snapshot than the manifest's";
            return Err(StoreError::damaged(&path, 16, what));
        }
        if size_bytes != info.data_size_bytes {
            let what = format!(
                "the file ends here and its manifest states {} bytes",
                info.data_size_bytes
            );
            return Err(StoreError::damaged(&path, size_bytes, &what));
        }
        Ok(SnapshotReader { file, path, info: info.clone() })
    }

    /// All blocks, in the order in which they were written.
    #[must_use]
    pub fn blocks(&self) -> &[BlockInfo] {
        &self.info.blocks
    }

    /// Reads and checks a block; returns its payload, which lies at the start of `words` (the last
    /// word is filled up with zeros). What `words` held is overwritten; its memory is used again.
    ///
    /// # Errors
    ///
    /// Damage, with the file, the block's byte, its kind and its index; whatever the system
    /// reports.
    ///
    /// # Panics
    ///
    /// When there is no such block.
    pub fn read_block<'a>(
        &self,
        index: usize,
        words: &'a mut Vec<u64>,
    ) -> Result<&'a [u8], StoreError> {
        let block = self.info.blocks[index];
        // The open file had the stated size, and the block lies within it; so this much memory is
        // not more than the file has.
        let length = usize::try_from(block.length_bytes).map_err(io::Error::other);
        let length = length.map_err(|error| self.cannot_read(&error))?;
        words.resize(length.div_ceil(8), 0);
        if let Some(last) = words.last_mut() {
            *last = 0;
        }
        let bytes = &mut bytemuck::cast_slice_mut::<u64, u8>(words)[..length];
        self.file.read_at(block.offset_bytes, bytes).map_err(|error| self.cannot_read(&error))?;
        if checksum::crc32c(bytes) != block.crc32c {
            let BlockInfo { kind, length_bytes, offset_bytes, .. } = block;
            let what =
                format!("block {index} of kind {kind} ({length_bytes} bytes) has a wrong checksum");
            return Err(StoreError::damaged(&self.path, offset_bytes, &what));
        }
        Ok(bytes)
    }

    /// The error of a caller that cannot decode a block whose checksum is right.
    ///
    /// # Panics
    ///
    /// When there is no such block.
    #[must_use]
    pub fn refuse(&self, index: usize, reason: &str) -> StoreError {
        let BlockInfo { kind, offset_bytes, .. } = self.info.blocks[index];
        let what = format!("block {index} of kind {kind}: {reason}");
        StoreError::refused(&self.path, offset_bytes, &what)
    }

    fn cannot_read(&self, error: &io::Error) -> StoreError {
        StoreError::io(&format!("cannot read {}", self.path), error)
    }
}
