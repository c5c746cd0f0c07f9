//! The real file system: one directory, through std; `fallocate`, `pwritev`, `sync_file_range` and
//! `posix_fadvise` through libc.
//!
//! Preallocation: `fallocate` allocates blocks that read as zeros. Where the file system does not
//! know it (or on another system than Linux), zeros are written instead, which costs one write of
//! the whole file. Beside the path, an open file may have a second descriptor, with `O_DIRECT`:
//! calls may run at the same time.

use std::any::Any;
use std::fs::{self, File, OpenOptions};
use std::hash::BuildHasher;
use std::io;
#[cfg(target_os = "linux")]
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
#[cfg(target_os = "linux")]
use std::sync::OnceLock;

use super::{Storage, StorageFile};
use crate::private;

/// The files of one directory. It does not lock; see [`crate::DataDirectory`].
#[derive(Clone, Debug)]
pub struct DirectoryStorage {
    path: PathBuf,
}

impl DirectoryStorage {
    /// The files of the directory at `path`, which must exist by the time of the first call.
    #[must_use]
    pub fn new(path: impl AsRef<Path>) -> DirectoryStorage {
        DirectoryStorage { path: path.as_ref().to_owned() }
    }
}

impl Storage for DirectoryStorage {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            // A name that is no text is none of ours.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn create(&self, name: &str, size_bytes: u64) -> io::Result<Box<dyn StorageFile>> {
        let path = self.path.join(name);
        let mut options = OpenOptions::new();
        let file = private::open_file(options.read(true).write(true).create_new(true), &path)?;
        if let Err(error) = allocate(&file, size_bytes) {
            drop(file);
            // The first error is the one to report; a file that stays is removed at the next open.
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        Ok(Box::new(DirectoryFile::new(file)))
    }

    fn open(&self, name: &str, may_write: bool) -> io::Result<Box<dyn StorageFile>> {
        let path = self.path.join(name);
        let file = OpenOptions::new().read(true).write(may_write).open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        Ok(Box::new(DirectoryFile::new(file)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn link(&self, name: &str, into: &dyn Storage, new_name: &str) -> io::Result<()> {
        let into: &dyn Any = into;
        let Some(into) = into.downcast_ref::<DirectoryStorage>() else {
            return Err(io::Error::from(io::ErrorKind::Unsupported));
        };
        fs::hard_link(self.path.join(name), into.path.join(new_name))
    }

    fn name_count(&self, name: &str) -> io::Result<u64> {
        Ok(fs::symlink_metadata(self.path.join(name))?.nlink())
    }

    fn sync_directory(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    fn describe(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }

    fn random(&self) -> u64 {
        // Each RandomState has fresh keys from the system's random source.
        std::hash::RandomState::new().hash_one(0_u8)
    }
}

/// A file, and the same one for writes past the system's cache, once there are any.
struct DirectoryFile {
    file: File,
    /// `None` where the file system has no such writes.
    #[cfg(target_os = "linux")]
    past_cache: OnceLock<Option<File>>,
}

impl DirectoryFile {
    fn new(file: File) -> DirectoryFile {
        DirectoryFile {
            file,
            #[cfg(target_os = "linux")]
            past_cache: OnceLock::new(),
        }
    }
}

impl StorageFile for DirectoryFile {
    fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, offset_bytes: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset_bytes)
    }

    fn write_at(&self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset_bytes)
    }

    #[cfg(target_os = "linux")]
    fn write_blocks_at(&self, offset_bytes: u64, blocks: &[u8]) -> io::Result<()> {
        let past_cache = self.past_cache.get_or_init(|| linux::open_past_cache(&self.file).ok());
        let written = past_cache
            .as_ref()
            .map_or(Ok(0), |file| linux::write_blocks_at(file, offset_bytes, blocks))?;
        self.write_at(offset_bytes + written as u64, &blocks[written..])
    }

    #[cfg(target_os = "linux")]
    fn will_read(&self, range: Range<u64>) {
        linux::will_read(&self.file, range);
    }

    #[cfg(target_os = "linux")]
    fn write_gathered_at(&self, offset_bytes: u64, pieces: &[&[u8]]) -> io::Result<()> {
        linux::write_gathered_at(&self.file, offset_bytes, pieces)
    }

    #[cfg(target_os = "linux")]
    fn write_back(&self, range: Range<u64>, wait: bool) -> io::Result<()> {
        linux::write_back(&self.file, range, wait)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all()
    }
}

fn allocate(file: &File, size_bytes: u64) -> io::Result<()> {
    // The system call takes no length of zero.
    if size_bytes == 0 { Ok(()) } else { allocate_some(file, size_bytes) }
}

#[cfg(target_os = "linux")]
fn allocate_some(file: &File, size_bytes: u64) -> io::Result<()> {
    match linux::allocate(file, size_bytes) {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            write_zeros(file, size_bytes)
        }
        result => result,
    }
}

#[cfg(not(target_os = "linux"))]
fn allocate_some(file: &File, size_bytes: u64) -> io::Result<()> {
    write_zeros(file, size_bytes)
}

fn write_zeros(file: &File, size_bytes: u64) -> io::Result<()> {
    const CHUNK_BYTES: u64 = 1 << 20;
    let zeros = vec![0_u8; 1 << 20];
    let mut offset = 0;
    while offset < size_bytes {
        let length = CHUNK_BYTES.min(size_bytes - offset);
        file.write_all_at(&zeros[..length as usize], offset)?;
        offset += length;
    }
    Ok(())
}

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod linux;

#[cfg(test)]
#[path = "directory_tests.rs"]
mod tests;
