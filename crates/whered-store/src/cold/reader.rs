//! Reads a cold file: its directory once, its blocks in any order and from several threads.
//!
//! Not for: what is in a block. Invariant: bytes without the directory's checksum are never handed
//! out.

use std::io;
use std::sync::{Mutex, PoisonError};

use super::reference::ColdReference;
use super::{ALIGNMENT_BYTES, BLOCK_BYTES, HEADER_BYTES, Header, number32, number64};
use crate::checksum;
use crate::error::StoreError;
use crate::storage::{Storage, StorageFile};

/// Where a block lies and what it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColdBlock {
    /// The writer's bytes: their meaning is the caller's.
    pub kind: u16,
    /// The writer's metadata.
    pub tag: u16,
    /// The payload's place, a multiple of 64.
    pub offset_bytes: u64,
    /// The payload's length.
    pub length_bytes: u64,
    /// The CRC-32C of the payload.
    pub crc32c: u32,
}

impl ColdBlock {
    pub(super) fn push(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.offset_bytes.to_le_bytes());
        out.extend_from_slice(&self.length_bytes.to_le_bytes());
        out.extend_from_slice(&self.crc32c.to_le_bytes());
        out.extend_from_slice(&self.kind.to_le_bytes());
        out.extend_from_slice(&self.tag.to_le_bytes());
    }

    fn take(bytes: &[u8]) -> ColdBlock {
        ColdBlock {
            offset_bytes: number64(bytes, 0),
            length_bytes: number64(bytes, 8),
            crc32c: number32(bytes, 16),
            kind: u16::from_le_bytes([bytes[20], bytes[21]]),
            tag: u16::from_le_bytes([bytes[22], bytes[23]]),
        }
    }
}

/// A finished cold file, open for reading. A file that was removed meanwhile can still be read.
pub struct ColdFile {
    file: Box<dyn StorageFile>,
    name: String,
    path: String,
    header: Header,
    blocks: Vec<ColdBlock>,
    /// Whether it is on stable storage, or why it never will be.
    synced: Mutex<Option<Result<(), StoreError>>>,
}

impl ColdFile {
    pub(super) fn of(
        file: Box<dyn StorageFile>,
        name: String,
        path: String,
        header: Header,
        blocks: Vec<ColdBlock>,
    ) -> ColdFile {
        ColdFile { file, name, path, header, blocks, synced: Mutex::new(None) }
    }

    /// Opens the file that a snapshot names, and reads its directory.
    ///
    /// # Errors
    ///
    /// Damage: it is missing, has another size or another content than was named; it is not ours or
    /// from a newer version; whatever the system reports.
    pub fn open(storage: &dyn Storage, reference: &ColdReference) -> Result<ColdFile, StoreError> {
        let name = reference.name.clone();
        let path = storage.describe(&name);
        let cannot_read = |error: io::Error| {
            if error.kind() == io::ErrorKind::NotFound {
                StoreError::damaged(&path, 0, "the file is missing and a snapshot needs it")
            } else {
                StoreError::io(&format!("cannot read {path}"), &error)
            }
        };
        let file = storage.open(&name, false).map_err(cannot_read)?;
        let size_bytes = file.size_bytes().map_err(cannot_read)?;
        if size_bytes != reference.size_bytes || size_bytes < HEADER_BYTES as u64 {
            let stated = reference.size_bytes;
            let what = format!("the file ends here and its snapshot states {stated} bytes");
            return Err(StoreError::damaged(&path, size_bytes, &what));
        }
        let mut bytes = [0; HEADER_BYTES];
        file.read_at(0, &mut bytes).map_err(cannot_read)?;
        let header = Header::decode(&bytes, &path)?;
        if header.id != reference.id || number32(&bytes, 12) != reference.header_crc32c {
            let what = "it is another file than the one that the snapshot names";
            return Err(StoreError::damaged(&path, 16, what));
        }
        let (at, length) = (header.directory_offset, header.directory_bytes);
        if at.checked_add(length) != Some(size_bytes) || length % BLOCK_BYTES as u64 != 0 {
            let what = "the directory has an impossible place";
            return Err(StoreError::damaged(&path, 24, what));
        }
        let mut directory = vec![0; length as usize];
        file.read_at(at, &mut directory).map_err(cannot_read)?;
        if checksum::crc32c(&directory) != header.directory_crc32c {
            return Err(StoreError::damaged(&path, at, "the directory has a wrong checksum"));
        }
        let blocks: Vec<ColdBlock> =
            directory.chunks_exact(BLOCK_BYTES).map(ColdBlock::take).collect();
        for (index, block) in blocks.iter().enumerate() {
            let end = block.offset_bytes.checked_add(block.length_bytes);
            let is_aligned = block.offset_bytes.is_multiple_of(ALIGNMENT_BYTES);
            if !is_aligned || end.is_none_or(|end| end > at) {
                let what = format!("block {index} has an impossible place");
                return Err(StoreError::damaged(&path, at + (index * BLOCK_BYTES) as u64, &what));
            }
        }
        Ok(ColdFile::of(file, name, path, header, blocks))
    }

    /// How a snapshot names it.
    #[must_use]
    pub fn reference(&self) -> ColdReference {
        ColdReference {
            id: self.header.id,
            size_bytes: self.size_bytes(),
            header_crc32c: number32(&self.header.encode(), 12),
            name: self.name.clone(),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How large it is.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.header.directory_offset + self.header.directory_bytes
    }

    /// All blocks, in the order in which they were written.
    #[must_use]
    pub fn blocks(&self) -> &[ColdBlock] {
        &self.blocks
    }

    /// Reads and checks a block; returns its payload, which lies at the start of `words` (the last
    /// word is filled up with zeros).
    ///
    /// # Errors
    ///
    /// Damage, with the file and the block's byte; whatever the system reports.
    ///
    /// # Panics
    ///
    /// When there is no such block.
    pub fn read_block<'a>(
        &self,
        index: usize,
        words: &'a mut Vec<u64>,
    ) -> Result<&'a [u8], StoreError> {
        let block = self.blocks[index];
        // It lies within the file: so much memory is not more than the file has.
        let length = block.length_bytes as usize;
        words.resize(length.div_ceil(8), 0);
        if let Some(last) = words.last_mut() {
            *last = 0;
        }
        let bytes = &mut bytemuck::cast_slice_mut::<u64, u8>(words)[..length];
        let read = self.file.read_at(block.offset_bytes, bytes);
        read.map_err(|error| StoreError::io(&format!("cannot read {}", self.path), &error))?;
        if checksum::crc32c(bytes) != block.crc32c {
            let ColdBlock { kind, length_bytes, offset_bytes, .. } = block;
            let what =
                format!("block {index} of kind {kind} ({length_bytes} bytes) has a wrong checksum");
            return Err(StoreError::damaged(&self.path, offset_bytes, &what));
        }
        Ok(bytes)
    }

    /// Reads and checks all blocks.
    ///
    /// # Errors
    ///
    /// As [`ColdFile::read_block`].
    pub fn verify(&self) -> Result<(), StoreError> {
        let mut words = Vec::new();
        (0..self.blocks.len()).try_for_each(|index| self.read_block(index, &mut words).map(drop))
    }

    /// The error of a caller that cannot decode a block whose checksum is right, or misses it.
    #[must_use]
    pub fn refuse(&self, index: usize, reason: &str) -> StoreError {
        let (place, what) = match self.blocks.get(index) {
            Some(ColdBlock { kind, offset_bytes, .. }) => {
                (*offset_bytes, format!("block {index} of kind {kind}: {reason}"))
            }
            None => (self.header.directory_offset, format!("no block {index}: {reason}")),
        };
        StoreError::refused(&self.path, place, &what)
    }

    /// Waits until the file and its name are on stable storage.
    ///
    /// # Errors
    ///
    /// Whatever the system reports; then for ever, since it is unknown what the disk has.
    pub fn sync(&self, storage: &dyn Storage) -> Result<(), StoreError> {
        let mut synced = self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        let result = synced.get_or_insert_with(|| {
            let done = self.file.sync_all().and_then(|()| storage.sync_directory());
            done.map_err(|error| StoreError::io(&format!("cannot sync {}", self.path), &error))
        });
        result.clone()
    }

    /// Whether a sync has failed: it is unknown what the disk has.
    #[must_use]
    pub fn is_doubtful(&self) -> bool {
        let synced = self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(&*synced, Some(Err(_)))
    }
}
