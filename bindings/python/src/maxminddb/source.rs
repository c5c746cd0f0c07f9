//! Where a reader's bytes are: in memory, in a mapping, or in a file that is read by ranges.
//!
//! Not for what the bytes mean ([`super::opened`]).
#![allow(unsafe_code, reason = "mapping a file and taking a descriptor of Python are unsafe")]

use crate::error::InvalidDatabaseError;
use bytes::Bytes;
use memmap2::{Advice, Mmap, MmapOptions};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;
use whered_mmdb::ReadAt;

/// The bytes of a database file.
pub(super) enum Source {
    /// Bytes of Python: no other process can change them.
    Memory(Bytes),
    /// A mapping, and its file, whose size tells whether the mapping still has bytes behind it.
    Mapped(Bytes, File),
    /// A file that is read when its bytes are needed.
    File(OpenFile),
}

impl Source {
    pub(super) fn of_bytes(bytes: PyBackedBytes) -> Source {
        Source::Memory(Bytes::from_owner(bytes))
    }

    /// Reads the file of a descriptor into memory, in large pages where the system has them:
    /// lookups jump over all of it. `None` for a file whose size is not known beforehand.
    pub(super) fn memory(descriptor: i32) -> PyResult<Option<Source>> {
        let file = duplicate(descriptor)?;
        let metadata = file.metadata()?;
        let Some(size) = usize::try_from(metadata.len()).ok().filter(|&size| size > 0) else {
            return Ok(None);
        };
        if !metadata.is_file() {
            return Ok(None);
        }
        let mut map = MmapOptions::new().len(size).map_anon()?;
        // A system without large pages reads from small ones.
        let _ = map.advise(Advice::HugePage);
        match file.read_exact_at(&mut map, 0) {
            Ok(()) => Ok(Some(Source::Memory(Bytes::from_owner(map.make_read_only()?)))),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Maps the file of a descriptor, which the caller may close afterwards.
    pub(super) fn mapped(descriptor: i32) -> PyResult<Source> {
        let file = duplicate(descriptor)?;
        let size = file.metadata()?.len();
        if size == 0 {
            return Ok(Source::Memory(Bytes::new()));
        }
        let length = usize::try_from(size)
            .map_err(|_| PyOSError::new_err(format!("a file of {size} bytes cannot be mapped")))?;
        // SAFETY: the mapping is read-only and private. A file that shrinks below it is noticed by
        // `check`, before every lookup; bytes that change are checked as every byte of a file.
        let map: Mmap = unsafe { MmapOptions::new().len(length).map(&file)? };
        Ok(Source::Mapped(Bytes::from_owner(map), file))
    }

    /// Reads the file of a descriptor, which the caller may close afterwards, when it is needed.
    pub(super) fn file(descriptor: i32) -> PyResult<Source> {
        let file = duplicate(descriptor)?;
        let size_bytes = file.metadata()?.len();
        Ok(Source::File(OpenFile { file, size_bytes }))
    }

    pub(super) fn size_bytes(&self) -> u64 {
        match self {
            Source::Memory(bytes) | Source::Mapped(bytes, _) => bytes.len() as u64,
            Source::File(file) => file.size_bytes,
        }
    }

    /// A range of the bytes, in memory of its own.
    pub(super) fn read(&self, start: u64, count: usize) -> PyResult<Vec<u8>> {
        match self {
            Source::Memory(bytes) | Source::Mapped(bytes, _) => {
                let start = start as usize;
                Ok(bytes.get(start..start + count).unwrap_or_default().to_vec())
            }
            Source::File(file) => {
                let mut buffer = vec![0; count];
                file.read_at(&mut buffer, start)?;
                Ok(buffer)
            }
        }
    }
}

/// The file of a mapping and its size when it was mapped.
pub(super) struct Watch {
    pub(super) file: File,
    pub(super) size_bytes: u64,
}

impl Watch {
    /// Refuses a file that was truncated: reading its mapping would end the process.
    #[inline]
    pub(super) fn check(&self) -> PyResult<()> {
        match self.file.metadata() {
            Ok(metadata) if metadata.len() >= self.size_bytes => Ok(()),
            Ok(metadata) => Err(InvalidDatabaseError::new_err(format!(
                "The MaxMind DB file was truncated below the reader: {} bytes are left of {}",
                metadata.len(),
                self.size_bytes
            ))),
            Err(error) => Err(error.into()),
        }
    }
}

/// A file and its size when it was opened.
#[derive(Debug)]
pub(super) struct OpenFile {
    file: File,
    size_bytes: u64,
}

impl ReadAt for OpenFile {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_at(&self, buffer: &mut [u8], offset_bytes: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset_bytes)
    }
}

/// A file of our own for the descriptor of a Python file.
fn duplicate(descriptor: i32) -> PyResult<File> {
    // SAFETY: the Python file that has the descriptor is open for as long as this call.
    let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
    Ok(File::from(descriptor.try_clone_to_owned()?))
}
