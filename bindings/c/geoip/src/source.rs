//! A file: opened, identified, and its bytes read, mapped or asked for range by range.
//!
//! Not for what the bytes mean. A file stays open as long as its data is in use, so that one that
//! is replaced by rename goes on answering. One that is cut off while it is mapped makes reads of
//! the mapping fail with SIGBUS, as with the original; the other modes only read, and get less.

use std::ffi::{CStr, OsStr, c_int};
use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{FromRawFd, IntoRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::SystemTime;

/// The attributes of a file that change when it is replaced or written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
    /// When it was made, where the file system knows: numbers of deleted files are used again.
    born: Option<SystemTime>,
    pub(crate) modified_seconds: i64,
    modified_nanoseconds: i64,
    pub(crate) size_bytes: u64,
}

impl Identity {
    fn of(metadata: &std::fs::Metadata) -> Identity {
        Identity {
            device: metadata.dev(),
            inode: metadata.ino(),
            born: metadata.created().ok(),
            modified_seconds: metadata.mtime(),
            modified_nanoseconds: metadata.mtime_nsec(),
            size_bytes: metadata.len(),
        }
    }

    /// The identity of the file that a path leads to now.
    pub(crate) fn at(path: &CStr) -> io::Result<Identity> {
        Ok(Identity::of(&std::fs::metadata(to_path(path))?))
    }

    /// Whether both are one file, written in between or not.
    pub(crate) fn is_same_file(&self, other: &Identity) -> bool {
        (self.device, self.inode, self.born) == (other.device, other.inode, other.born)
    }
}

fn to_path(path: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(path.to_bytes()))
}

/// An open file.
///
/// Hosts that become daemons close all descriptors, ours too, and may then open files of their own
/// under the same numbers. So a descriptor is closed only while it still leads to this file.
#[derive(Debug)]
pub(crate) struct Source {
    descriptor: c_int,
    pub(crate) identity: Identity,
}

impl Source {
    /// Opens a file for reading.
    pub(crate) fn open(path: &CStr) -> io::Result<Source> {
        let file = File::open(to_path(path))?;
        let identity = Identity::of(&file.metadata()?);
        Ok(Source { descriptor: file.into_raw_fd(), identity })
    }

    /// The descriptor as a file, which does not close it.
    fn file(&self) -> ManuallyDrop<File> {
        // SAFETY: the descriptor is ours, or the host has closed it: then reads fail, or read what
        // the host has opened instead, as with the original. Bytes are not trusted.
        ManuallyDrop::new(unsafe { File::from_raw_fd(self.descriptor) })
    }

    /// Reads up to a buffer's length from an offset; less at the file's end.
    pub(crate) fn read_at<'b>(&self, buffer: &'b mut [u8], offset_bytes: u64) -> &'b [u8] {
        let file = self.file();
        let mut count = 0;
        while let Some(rest) = buffer.get_mut(count..).filter(|rest| !rest.is_empty()) {
            match file.read_at(rest, offset_bytes + count as u64) {
                Ok(0) => break,
                Ok(read) => count += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        buffer.get(..count).unwrap_or_default()
    }

    /// The last bytes of the file.
    pub(crate) fn tail<'b>(&self, buffer: &'b mut [u8]) -> &'b [u8] {
        let count = (buffer.len() as u64).min(self.identity.size_bytes);
        let start = self.identity.size_bytes - count;
        let buffer = buffer.get_mut(..count as usize).unwrap_or_default();
        self.read_at(buffer, start)
    }

    /// The whole file, in memory of its own. `None`: it ends before its size, or there is no
    /// memory.
    pub(crate) fn read_whole(&self) -> Option<Vec<u8>> {
        let size = usize::try_from(self.identity.size_bytes).ok()?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(size).ok()?;
        bytes.resize(size, 0);
        let count = self.read_at(&mut bytes, 0).len();
        (count == size).then_some(bytes)
    }

    /// The whole file, mapped for reading.
    pub(crate) fn map(&self) -> io::Result<memmap2::Mmap> {
        // SAFETY: the mapping is only read, byte by byte, and its bytes are not trusted. That the
        // file may be cut off meanwhile is said at the head of this file.
        unsafe { memmap2::Mmap::map(&*self.file()) }
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        let file = self.file();
        let is_ours =
            file.metadata().is_ok_and(|it| Identity::of(&it).is_same_file(&self.identity));
        if is_ours {
            drop(ManuallyDrop::into_inner(file));
        }
    }
}

impl whered_mmdb::ReadAt for Source {
    fn size_bytes(&self) -> u64 {
        self.identity.size_bytes
    }

    fn read_at(&self, buffer: &mut [u8], offset_bytes: u64) -> io::Result<()> {
        self.file().read_exact_at(buffer, offset_bytes)
    }
}
