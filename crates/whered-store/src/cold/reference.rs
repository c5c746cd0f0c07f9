//! How a snapshot names a cold file.
//!
//! For: the bytes of that, and all names of a snapshot. Not for: opening the file (`reader.rs`).

use super::{is_cold, number32, number64};
use crate::error::StoreError;
use crate::snapshot::{SnapshotInfo, SnapshotReader};
use crate::storage::Storage;

/// The kind of a snapshot's block that names a cold file.
pub const COLD_KIND: u16 = u16::MAX;

const FIXED_BYTES: usize = 22;

/// A cold file as a snapshot names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColdReference {
    /// The number that is in its name and its header.
    pub id: u64,
    /// How large it is.
    pub size_bytes: u64,
    /// The checksum in its header, which sums up that of the directory, and so all of it.
    pub header_crc32c: u32,
    /// The file's name.
    pub name: String,
}

impl ColdReference {
    /// The bytes that a block of [`COLD_KIND`] begins with; the caller's follow.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FIXED_BYTES + self.name.len());
        out.extend_from_slice(&self.id.to_le_bytes());
        out.extend_from_slice(&self.size_bytes.to_le_bytes());
        out.extend_from_slice(&self.header_crc32c.to_le_bytes());
        out.extend_from_slice(&(self.name.len() as u16).to_le_bytes());
        out.extend_from_slice(self.name.as_bytes());
        out
    }

    /// What [`ColdReference::encode`] made, and the caller's bytes after it.
    ///
    /// # Errors
    ///
    /// A text that says why it is none.
    pub fn decode(bytes: &[u8]) -> Result<(ColdReference, &[u8]), String> {
        let Some((fixed, rest)) = bytes.split_at_checked(FIXED_BYTES) else {
            return Err(format!("{} bytes name no cold file", bytes.len()));
        };
        let length = usize::from(u16::from_le_bytes([fixed[20], fixed[21]]));
        let name = rest.split_at_checked(length);
        let (name, rest) = name.ok_or("the name of a cold file is cut")?;
        // A name is never a path.
        let name = std::str::from_utf8(name).ok().filter(|name| is_cold(name));
        let name = name.filter(|name| !name.contains('/')).ok_or("no name of a cold file")?;
        let reference = ColdReference {
            id: number64(fixed, 0),
            size_bytes: number64(fixed, 8),
            header_crc32c: number32(fixed, 16),
            name: name.to_owned(),
        };
        Ok((reference, rest))
    }

    /// All cold files that a snapshot names.
    ///
    /// # Errors
    ///
    /// Damage of a block that names one; whatever the system reports.
    pub fn of_snapshot(
        storage: &dyn Storage,
        info: &SnapshotInfo,
    ) -> Result<Vec<ColdReference>, StoreError> {
        let is_one = |index: &usize| info.blocks[*index].kind == COLD_KIND;
        let indexes: Vec<usize> = (0..info.blocks.len()).filter(is_one).collect();
        if indexes.is_empty() {
            return Ok(Vec::new());
        }
        let reader = SnapshotReader::open(storage, info)?;
        let mut words = Vec::new();
        let mut read = |index: usize| {
            let bytes = reader.read_block(index, &mut words)?;
            let decoded = ColdReference::decode(bytes);
            Ok(decoded.map_err(|reason| reader.refuse(index, &reason))?.0)
        };
        indexes.into_iter().map(&mut read).collect()
    }
}
