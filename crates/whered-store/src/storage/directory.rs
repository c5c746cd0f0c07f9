//! The real file system: one directory, through std, with `fallocate` through libc.
//!
//! Preallocation: `fallocate` allocates blocks that read as zeros. Where the file system does not
//! know it (or on another system than Linux), zeros are written instead, which costs one write of
//! the whole file. No state but the path: calls may run at the same time.

use std::fs::{self, File, OpenOptions};
use std::hash::BuildHasher;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::{Storage, StorageFile};

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
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        if let Err(error) = allocate(&file, size_bytes) {
            drop(file);
            // The first error is the one to report; a file that stays is removed at the next open.
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        Ok(Box::new(file))
    }

    fn open(&self, name: &str, may_write: bool) -> io::Result<Box<dyn StorageFile>> {
        let path = self.path.join(name);
        let file = OpenOptions::new().read(true).write(may_write).open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        Ok(Box::new(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
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

impl StorageFile for File {
    fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset_bytes: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(buffer, offset_bytes)
    }

    fn write_at(&self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, offset_bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        File::sync_data(self)
    }

    fn sync_all(&self) -> io::Result<()> {
        File::sync_all(self)
    }
}

#[cfg(target_os = "linux")]
fn allocate(file: &File, size_bytes: u64) -> io::Result<()> {
    let length = libc::off_t::try_from(size_bytes)
        .map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
    loop {
        match fallocate(file, length) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                return write_zeros(file, size_bytes);
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "std has no call that allocates a file's blocks")]
fn fallocate(file: &File, length_bytes: libc::off_t) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    // SAFETY: the call takes numbers only; the descriptor is open because `file` is borrowed for
    // the whole call, and a wrong length is reported by the kernel, not undefined.
    let result = unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, length_bytes) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(not(target_os = "linux"))]
fn allocate(file: &File, size_bytes: u64) -> io::Result<()> {
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

#[cfg(test)]
#[path = "directory_tests.rs"]
mod tests;
