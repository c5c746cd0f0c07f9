//! Cold files: data that was put out of memory, as checksummed blocks in a file of its own.
//!
//! For: writing what memory held as fast as memory is copied, reading it back whole or by single
//! blocks, and telling which of these files a snapshot needs. Not for: what a block means; when to
//! write one.
//!
//! ```text
//!   cold-<label>-<id, 16 hex digits>.data
//!   0         8         12       16   24                 32                40                44
//!   | magic   | version | crc32c | id | directory offset | directory bytes | its crc32c u32 | zeros
//!   64
//!   | payload | zeros | payload ... | directory to the end     payloads at multiples of 64
//!   directory = | offset u64 | length u64 | crc32c u32 | kind u16 | tag u16 | ...  24 bytes a block
//! ```
//! All numbers are little endian; the header's checksum runs over its other bytes up to byte 44.
//!
//! A file alone counts for nothing: after a crash only those count that a snapshot names, by a
//! block of kind [`COLD_KIND`]:
//!
//! ```text
//!   id u64 | size u64 | header's crc32c u32 | length of the name u16 | name | the caller's bytes
//! ```
//! Invariants: a name is never used twice, and a finished file is never written again, so that a
//! backup may link it; a snapshot that names a file gets its manifest after the file is on stable
//! storage ([`ColdFile::sync`]); without a sync a file is as good as memory, which is what it
//! stands for: the journal has the same. Concurrency: one owner writes; any threads read. Cost: a
//! copy, a checksum, and the system's copy.

mod reader;
mod reference;
mod writer;

pub use reader::{ColdBlock, ColdFile};
pub use reference::{COLD_KIND, ColdReference};
pub use writer::ColdWriter;

use std::io;

use crate::checksum;
use crate::error::StoreError;
use crate::storage::Storage;

const MAGIC: [u8; 8] = *b"whered\0C";
const VERSION: u32 = 1;
const ALIGNMENT_BYTES: u64 = 64;
const HEADER_BYTES: usize = 44;
const BLOCK_BYTES: usize = 24;
/// The prefix and the suffix of names of cold files.
const PREFIX: &str = "cold-";
const SUFFIX: &str = ".data";
/// The longest label.
const LABEL_BYTES_MAX: usize = 160;

fn name_of(label: &str, id: u64) -> String {
    format!("{PREFIX}{label}-{id:016x}{SUFFIX}")
}

/// Whether a file of this name is a cold one.
fn is_cold(name: &str) -> bool {
    let inner = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX));
    let Some((_, id)) = inner.and_then(|inner| inner.rsplit_once('-')) else { return false };
    id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Removes all cold files but those that are to be kept; gives how many went.
///
/// # Errors
///
/// Whatever the system reports.
pub fn remove_cold(
    storage: &dyn Storage,
    is_kept: &dyn Fn(&str) -> bool,
) -> Result<usize, StoreError> {
    let cannot = |name: &str, error: &io::Error| {
        StoreError::io(&format!("cannot remove {}", storage.describe(name)), error)
    };
    let names = storage.list().map_err(|error| cannot("", &error))?;
    let mut removed = 0;
    for name in names.iter().filter(|name| is_cold(name) && !is_kept(name)) {
        match storage.remove(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(cannot(name, &error));
            }
            _ => removed += 1,
        }
    }
    Ok(removed)
}

fn aligned(offset_bytes: u64) -> u64 {
    offset_bytes.next_multiple_of(ALIGNMENT_BYTES)
}

/// The meaning of the first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    id: u64,
    directory_offset: u64,
    directory_bytes: u64,
    directory_crc32c: u32,
}

impl Header {
    fn encode(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.id.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.directory_offset.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.directory_bytes.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.directory_crc32c.to_le_bytes());
        let sum = checksum(&bytes);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; HEADER_BYTES], file: &str) -> Result<Header, StoreError> {
        if bytes[..8] != MAGIC {
            let what = "this is not a cold file of whered (its first eight bytes are other ones)";
            return Err(StoreError::foreign_content(file, what));
        }
        let version = number32(bytes, 8);
        let mut ours = *bytes;
        ours[8..12].copy_from_slice(&VERSION.to_le_bytes());
        if version != VERSION && number32(bytes, 12) == checksum(&ours) {
            return Err(StoreError::damaged(file, 8, "the version is changed"));
        }
        if version != VERSION {
            let what = format!("cold format {version} is unknown; this program knows {VERSION}");
            return Err(StoreError::newer(file, 8, &what));
        }
        if number32(bytes, 12) != checksum(bytes) {
            return Err(StoreError::damaged(file, 12, "the checksum is wrong"));
        }
        Ok(Header {
            id: number64(bytes, 16),
            directory_offset: number64(bytes, 24),
            directory_bytes: number64(bytes, 32),
            directory_crc32c: number32(bytes, 40),
        })
    }
}

fn checksum(bytes: &[u8; HEADER_BYTES]) -> u32 {
    checksum::crc32c_append(checksum::crc32c(&bytes[..12]), &bytes[16..])
}

fn number32(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(bytes[offset..offset + 4].try_into().expect("the range has four bytes"))
}

fn number64(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(bytes[offset..offset + 8].try_into().expect("the range has eight bytes"))
}

#[cfg(test)]
#[path = "cold_tests.rs"]
mod tests;
