//! The upload numbers that a spool may have given away: a mark on the disk, ahead of the entries.
//!
//! For: spools that acknowledge entries before they are on the disk. A crash loses such entries,
//! and their numbers must not be given to others. Not for: spools that sync first; there a number
//! that somebody has seen is on the disk already.
//!
//! ```text
//!   reserved-numbers   | magic 8 | the last number that may be given away u64 | crc32c of both u32 |
//! ```
//! Invariants: a number is given away only when the mark on stable storage covers it; the file is
//! replaced by a rename, so that a crash leaves the old one or the new one.
//! Cost: two waits for the disk for each [`STEP`] numbers.

use std::io;

use crate::checksum::crc32c;
use crate::error::StoreError;
use crate::storage::Storage;

/// How many numbers are reserved at a time. A crash passes over that many at most.
pub(super) const STEP: u64 = 1024;

const NAME: &str = "reserved-numbers";
const NEW_NAME: &str = "reserved-numbers.new";
const MAGIC: [u8; 8] = *b"whered\0N";
const BYTES: usize = 20;

/// The last reserved number; 0 without a mark.
///
/// # Errors
///
/// The mark is damaged; whatever the system reports.
pub(crate) fn read(storage: &dyn Storage) -> Result<u64, StoreError> {
    let path = storage.describe(NAME);
    let cannot_read = |error| StoreError::io(&format!("cannot read {path}"), &error);
    let file = match storage.open(NAME, false) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        other => other.map_err(cannot_read)?,
    };
    let mut bytes = [0; BYTES];
    if file.size_bytes().map_err(cannot_read)? != BYTES as u64 {
        return Err(StoreError::damaged(&path, 0, "it is not the mark of reserved numbers"));
    }
    file.read_at(0, &mut bytes).map_err(cannot_read)?;
    let (body, sum) = bytes.split_at(16);
    if body[..8] != MAGIC || crc32c(body).to_le_bytes() != sum {
        return Err(StoreError::damaged(&path, 0, "the mark of reserved numbers is changed"));
    }
    Ok(body[8..].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// Reserves all numbers up to `last`, durably.
///
/// # Errors
///
/// Whatever the system reports; the mark is as it was then.
pub(crate) fn write(storage: &dyn Storage, last: u64) -> Result<(), StoreError> {
    let mut bytes = Vec::with_capacity(BYTES);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&last.to_le_bytes());
    bytes.extend_from_slice(&crc32c(&bytes).to_le_bytes());
    let write = || {
        match storage.remove(NEW_NAME) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = storage.create(NEW_NAME, BYTES as u64)?;
        file.write_at(0, &bytes)?;
        file.sync_all()?;
        storage.rename(NEW_NAME, NAME)?;
        storage.sync_directory()
    };
    write().map_err(|error| {
        StoreError::io(&format!("cannot write {}", storage.describe(NAME)), &error)
    })
}

/// Removes a mark that cannot be read, for a repair that writes another one.
///
/// # Errors
///
/// Whatever the system reports.
pub(crate) fn remove(storage: &dyn Storage) -> Result<(), StoreError> {
    storage.remove(NAME).map_err(|error| {
        StoreError::io(&format!("cannot remove {}", storage.describe(NAME)), &error)
    })
}
