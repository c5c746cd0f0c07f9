//! Writes a cold file: blocks through one buffer of a mebibyte, then the directory, the header
//! last.
//!
//! Not for: syncing, which the caller does on the finished file. A writer that is dropped
//! unfinished removes its file.

use std::io;
use std::sync::Arc;

use super::reader::{ColdBlock, ColdFile};
use super::{
    ALIGNMENT_BYTES, BLOCK_BYTES, HEADER_BYTES, Header, LABEL_BYTES_MAX, aligned, name_of,
};
use crate::checksum;
use crate::error::StoreError;
use crate::storage::{Storage, StorageFile};

/// How much is given to the system at a time: it stays in the processor's cache until then.
const BUFFER_BYTES: usize = 1 << 20;

/// A cold file that is being written.
///
/// ```
/// use std::sync::Arc;
/// use whered_store::{ColdFile, ColdWriter, SimulatedDisk, Storage};
///
/// let storage: Arc<dyn Storage> = Arc::new(SimulatedDisk::new(1));
/// let mut writer = ColdWriter::create(Arc::clone(&storage), "label")?;
/// writer.write_block(7, 1, b"some bytes")?;
/// let reference = writer.finish()?.reference();
///
/// let file = ColdFile::open(&*storage, &reference)?;
/// let mut words = Vec::new();
/// assert_eq!(file.read_block(0, &mut words)?, b"some bytes");
/// # Ok::<(), whered_store::StoreError>(())
/// ```
pub struct ColdWriter {
    storage: Arc<dyn Storage>,
    file: Option<Box<dyn StorageFile>>,
    name: String,
    path: String,
    id: u64,
    blocks: Vec<ColdBlock>,
    buffer: Vec<u8>,
    /// Where the buffer's first byte goes.
    written_bytes: u64,
}

impl ColdWriter {
    /// Begins a file; the label is for people and stands in its name.
    ///
    /// # Errors
    ///
    /// Whatever the system reports.
    ///
    /// # Panics
    ///
    /// When the label cannot stand in a file's name.
    pub fn create(storage: Arc<dyn Storage>, label: &str) -> Result<ColdWriter, StoreError> {
        let is_plain = label.len() <= LABEL_BYTES_MAX && !label.contains(['/', '\0']);
        assert!(is_plain, "a label can stand in a file's name");
        let id = storage.random();
        let name = name_of(label, id);
        let path = storage.describe(&name);
        let file = storage
            .create(&name, 0)
            .map_err(|error| StoreError::io(&format!("cannot create {path}"), &error))?;
        let mut buffer = Vec::with_capacity(BUFFER_BYTES + BUFFER_BYTES / 4);
        // The header comes last: until then the file is none.
        buffer.resize(ALIGNMENT_BYTES as usize, 0);
        let (blocks, written_bytes) = (Vec::new(), 0);
        Ok(ColdWriter { storage, file: Some(file), name, path, id, blocks, buffer, written_bytes })
    }

    /// Appends a block.
    ///
    /// # Errors
    ///
    /// No room ([`StoreError::is_full`]) or whatever the system reports; drop the writer then.
    pub fn write_block(&mut self, kind: u16, tag: u16, bytes: &[u8]) -> Result<(), StoreError> {
        self.write_block_with(kind, tag, |out| out.extend_from_slice(bytes))
    }

    /// Appends a block that `fill` puts at the end of the bytes it is given.
    ///
    /// # Errors
    ///
    /// As [`ColdWriter::write_block`].
    pub fn write_block_with(
        &mut self,
        kind: u16,
        tag: u16,
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), StoreError> {
        let at = self.written_bytes + self.buffer.len() as u64;
        self.buffer.resize((aligned(at) - self.written_bytes) as usize, 0);
        let start = self.buffer.len();
        fill(&mut self.buffer);
        let bytes = &self.buffer[start..];
        let crc32c = checksum::crc32c(bytes);
        let (offset_bytes, length_bytes) = (aligned(at), bytes.len() as u64);
        self.blocks.push(ColdBlock { kind, tag, offset_bytes, length_bytes, crc32c });
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.write_at(self.written_bytes, &self.buffer)?;
        self.written_bytes += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn write_at(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), StoreError> {
        let file = self.file.as_ref().expect("it is there until the end");
        let cannot =
            |error: io::Error| StoreError::io(&format!("cannot write {}", self.path), &error);
        file.write_at(offset_bytes, bytes).map_err(cannot)
    }

    /// Ends the file. It is not on stable storage before [`ColdFile::sync`].
    ///
    /// # Errors
    ///
    /// As [`ColdWriter::write_block`]; the file is gone then.
    pub fn finish(mut self) -> Result<ColdFile, StoreError> {
        let mut directory = Vec::with_capacity(self.blocks.len() * BLOCK_BYTES);
        for block in &self.blocks {
            block.push(&mut directory);
        }
        let at = aligned(self.written_bytes + self.buffer.len() as u64);
        self.buffer.resize((at - self.written_bytes) as usize, 0);
        self.buffer.extend_from_slice(&directory);
        self.flush()?;
        let header = Header {
            id: self.id,
            directory_offset: at,
            directory_bytes: directory.len() as u64,
            directory_crc32c: checksum::crc32c(&directory),
        };
        let bytes: [u8; HEADER_BYTES] = header.encode();
        self.write_at(0, &bytes)?;
        let file = self.file.take().expect("it is there until the end");
        let (name, path) = (std::mem::take(&mut self.name), std::mem::take(&mut self.path));
        let blocks = std::mem::take(&mut self.blocks);
        Ok(ColdFile::of(file, name, path, header, blocks))
    }
}

impl Drop for ColdWriter {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // A file that stays is named by nothing, and removed with others of its kind.
            let _ = self.storage.remove(&self.name);
        }
    }
}
