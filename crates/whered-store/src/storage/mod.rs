//! The storage of journal and snapshots: a flat directory of preallocated or growing files.
//!
//! Two implementations: [`DirectoryStorage`], the real file system, and [`SimulatedDisk`], which
//! loses, tears and reorders writes on purpose. The traits promise no more than a careful reader
//! of POSIX may assume:
//!
//! - what was written is certain to survive a crash only after the file's `sync_data` or
//!   `sync_all` returned without an error;
//! - a name that was created, renamed or removed is certain only after `sync_directory`;
//! - sectors of one write may reach the disk in any order, and not all of them.
//!
//! Not for: locking (see [`crate::DataDirectory`]), directories within directories (a backup is a
//! second storage, to which files are linked).

mod directory;
mod simulated;

pub use directory::DirectoryStorage;
pub use simulated::SimulatedDisk;

use std::any::Any;
use std::io;
use std::ops::Range;

/// The unit in which files are written past the system's cache, and no smaller than sectors of
/// disks.
pub(crate) const BLOCK_BYTES: usize = 4096;

/// A flat directory of files. All calls may come from several threads at once.
pub trait Storage: Any + Send + Sync {
    /// The names of all files, in no order.
    ///
    /// # Errors
    ///
    /// Whatever the system reports.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Makes a new file of `size_bytes` zeros whose space is really allocated. A file that is to
    /// grow starts with none; its writes may then fail for lack of room.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::StorageFull`] when there is no room, [`io::ErrorKind::AlreadyExists`] when
    /// the name is taken; nothing is left behind then.
    fn create(&self, name: &str, size_bytes: u64) -> io::Result<Box<dyn StorageFile>>;

    /// Opens a file for reading and, if it `may_write`, for writing.
    ///
    /// # Errors
    ///
    /// Whatever the system reports.
    fn open(&self, name: &str, may_write: bool) -> io::Result<Box<dyn StorageFile>>;

    /// Gives a file another name, at once or not at all.
    ///
    /// # Errors
    ///
    /// Whatever the system reports.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file; an open handle stays usable.
    ///
    /// # Errors
    ///
    /// Whatever the system reports.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Gives a file another name in another directory as well: both are the same file from then on.
    /// The name is certain after the other's `sync_directory`.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::CrossesDevices`] or [`io::ErrorKind::Unsupported`] when only a copy can be
    /// made; [`io::ErrorKind::AlreadyExists`]; whatever else the system reports.
    fn link(&self, name: &str, into: &dyn Storage, new_name: &str) -> io::Result<()>;

    /// How many names a file has, here and elsewhere.
    ///
    /// # Errors
    ///
    /// Whatever the system reports.
    fn name_count(&self, name: &str) -> io::Result<u64>;

    /// Waits until creations, renames, links and removals here so far would survive a crash.
    ///
    /// # Errors
    ///
    /// Whatever the system reports.
    fn sync_directory(&self) -> io::Result<()>;

    /// The file's path as a person should see it.
    fn describe(&self, name: &str) -> String;

    /// A number that users of the journal cannot guess; it need not be fit for cryptography.
    fn random(&self) -> u64;
}

/// An open file of a [`Storage`]; reads and writes name their place.
pub trait StorageFile: Send + Sync {
    /// The file's size, preallocated space included.
    ///
    /// # Errors
    ///
    /// Whatever the system reports.
    fn size_bytes(&self) -> io::Result<u64>;

    /// Fills the whole buffer from `offset_bytes` on.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::UnexpectedEof`] when the file ends before that.
    fn read_at(&self, offset_bytes: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Writes all bytes at `offset_bytes`.
    ///
    /// # Errors
    ///
    /// Whatever the system reports; some of the bytes may then be written.
    fn write_at(&self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()>;

    /// Writes whole blocks of 4 KiB at a multiple of that, if it can without a copy in the system's
    /// memory: for what will not be read for a while. It can when they begin at such a multiple in
    /// memory, too; otherwise they are written as others are.
    ///
    /// # Errors
    ///
    /// As [`StorageFile::write_at`].
    fn write_blocks_at(&self, offset_bytes: u64, blocks: &[u8]) -> io::Result<()> {
        self.write_at(offset_bytes, blocks)
    }

    /// Lets the system begin to bring the range into memory, for a read that is to come.
    fn will_read(&self, range: Range<u64>) {
        let _ = range;
    }

    /// Writes the pieces one after another from `offset_bytes` on.
    ///
    /// # Errors
    ///
    /// As [`StorageFile::write_at`].
    fn write_gathered_at(&self, offset_bytes: u64, pieces: &[&[u8]]) -> io::Result<()> {
        let mut offset_bytes = offset_bytes;
        for piece in pieces {
            self.write_at(offset_bytes, piece)?;
            offset_bytes += piece.len() as u64;
        }
        Ok(())
    }

    /// Lets the system begin to write the range to the disk, or waits until it was handed over.
    /// A help against piles of unwritten bytes; it makes nothing certain.
    ///
    /// # Errors
    ///
    /// A write that failed. As after a failed sync, nothing is known of the file then.
    fn write_back(&self, range: Range<u64>, wait: bool) -> io::Result<()> {
        let _ = (range, wait);
        Ok(())
    }

    /// Waits until all written bytes would survive a crash.
    ///
    /// # Errors
    ///
    /// Whatever the system reports. It is then unknown what is on the disk, and a repeated call
    /// proves nothing: the system forgets which pages it could not write.
    fn sync_data(&self) -> io::Result<()>;

    /// As [`StorageFile::sync_data`], and the file's size and allocation too.
    ///
    /// # Errors
    ///
    /// As [`StorageFile::sync_data`].
    fn sync_all(&self) -> io::Result<()>;
}
