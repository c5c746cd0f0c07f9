//! All snapshots of a directory: which are complete, which are bad, what a crash left behind.
//!
//! ```text
//!   snapshot-….data   snapshot-….manifest
//!        yes               good              -> complete (its blocks are not read here)
//!        yes or no         bad               -> bad: the caller decides, nothing is removed
//!        no, other         good              -> bad
//!        yes               no                -> leftover
//!        any               ….manifest.new    -> leftover
//! ```
//!
//! Not for: choosing. Nothing here changes anything but `remove_*`. Cost: reads the manifests and
//! the data files' headers.

use std::io;

use super::SnapshotInfo;
use super::format::{FileName, data_name, decode_manifest, manifest_name};
use super::reader::SnapshotReader;
use crate::error::StoreError;
use crate::journal::load::refuse_incomplete;
use crate::storage::Storage;

/// The largest manifest that is read: more than forty million blocks.
const MANIFEST_SIZE_BYTES_MAX: u64 = 1 << 30;

/// The result of [`Snapshots::find`].
#[derive(Debug, Default)]
pub struct Found {
    /// Snapshots whose manifest is good and whose data file is there in its size; newest first.
    pub complete: Vec<SnapshotInfo>,
    /// Snapshots that were complete once and are not any more; newest first.
    pub bad: Vec<BadSnapshot>,
    /// Files of snapshots that were never complete: [`Snapshots::remove_leftovers`].
    pub leftovers: Vec<String>,
}

/// A snapshot that was complete once.
#[derive(Clone, Debug)]
pub struct BadSnapshot {
    /// What its name says: the sequence up to which everything was in it.
    pub start_sequence: u64,
    /// The fault and its location. It is not always damage: the file may be from a newer version.
    pub error: StoreError,
}

/// The snapshots in a directory.
pub struct Snapshots;

impl Snapshots {
    /// Looks at all of them; changes nothing.
    ///
    /// # Errors
    ///
    /// A file whose name is nearly that of a snapshot ([`StoreError::is_foreign`]); a backup that
    /// did not end; whatever the system reports. Damage is not an error here: it is in
    /// [`Found::bad`].
    pub fn find(storage: &dyn Storage) -> Result<Found, StoreError> {
        refuse_incomplete(storage)?;
        find(storage)
    }

    /// Removes what [`Snapshots::find`] called leftovers. Not while a snapshot is being written.
    ///
    /// # Errors
    ///
    /// Whatever the system reports.
    pub fn remove_leftovers(storage: &dyn Storage, found: &Found) -> Result<(), StoreError> {
        for name in &found.leftovers {
            remove(storage, name)?;
        }
        if found.leftovers.is_empty() { Ok(()) } else { sync_directory(storage) }
    }

    /// Removes all complete snapshots but the `keep` newest, durably, the oldest first.
    ///
    /// Returns the start of the oldest that is kept, which is what
    /// [`Journal::remove_before`](crate::Journal::remove_before) may be given: no snapshot needs
    /// entries up to it. `None` while there are fewer than `keep`: the journal alone is then the
    /// other way back.
    ///
    /// # Errors
    ///
    /// As [`Snapshots::find`]. A bad snapshot is neither counted nor removed.
    pub fn remove_old(storage: &dyn Storage, keep: usize) -> Result<Option<u64>, StoreError> {
        let found = Snapshots::find(storage)?;
        let keep = keep.max(1);
        for info in found.complete.iter().skip(keep).rev() {
            remove_durably(storage, info.start_sequence)?;
        }
        Ok(found.complete.get(keep - 1).map(|info| info.start_sequence))
    }
}

/// As [`Snapshots::find`], also in a copy that is not finished yet.
pub(crate) fn find(storage: &dyn Storage) -> Result<Found, StoreError> {
    let names = storage.list().map_err(|error| {
        StoreError::io(&format!("cannot list {}", storage.describe("")), &error)
    })?;
    let mut found = Found::default();
    let mut manifests = Vec::new();
    let mut data = Vec::new();
    for name in names {
        match FileName::parse(&name) {
            FileName::Manifest(sequence) => manifests.push(sequence),
            FileName::Data(sequence) => data.push(sequence),
            FileName::NewManifest => found.leftovers.push(name),
            FileName::Odd => {
                let what = "its name is nearly that of a snapshot, which has twenty digits; \
                                move it away";
                return Err(StoreError::foreign(&storage.describe(&name), 0, what));
            }
            FileName::Other => {}
        }
    }
    manifests.sort_unstable_by(|a, b| b.cmp(a));
    data.retain(|sequence| !manifests.contains(sequence));
    found.leftovers.extend(data.into_iter().map(data_name));
    found.leftovers.sort_unstable();
    for start_sequence in manifests {
        match look_at(storage, start_sequence) {
            Ok(info) => found.complete.push(info),
            Err(error) if error.is_io() => return Err(error),
            Err(error) => found.bad.push(BadSnapshot { start_sequence, error }),
        }
    }
    Ok(found)
}

/// The manifest goes first and for certain: it must never stand there without its data.
fn remove_durably(storage: &dyn Storage, start_sequence: u64) -> Result<(), StoreError> {
    remove(storage, &manifest_name(start_sequence))?;
    sync_directory(storage)?;
    remove(storage, &data_name(start_sequence))
}

fn remove(storage: &dyn Storage, name: &str) -> Result<(), StoreError> {
    storage.remove(name).map_err(|error| {
        StoreError::io(&format!("cannot remove {}", storage.describe(name)), &error)
    })
}

fn sync_directory(storage: &dyn Storage) -> Result<(), StoreError> {
    storage
        .sync_directory()
        .map_err(|error| StoreError::io(&format!("cannot sync {}", storage.describe("")), &error))
}

fn look_at(storage: &dyn Storage, start_sequence: u64) -> Result<SnapshotInfo, StoreError> {
    let name = manifest_name(start_sequence);
    let path = storage.describe(&name);
    let cannot_read = |error: io::Error| StoreError::io(&format!("cannot read {path}"), &error);
    let file = storage.open(&name, false).map_err(cannot_read)?;
    let size_bytes = file.size_bytes().map_err(cannot_read)?;
    if size_bytes > MANIFEST_SIZE_BYTES_MAX {
        let what =
            format!("the file is larger than any manifest ({MANIFEST_SIZE_BYTES_MAX} bytes)");
        return Err(StoreError::damaged(&path, MANIFEST_SIZE_BYTES_MAX, &what));
    }
    let mut bytes = vec![0; size_bytes as usize];
    file.read_at(0, &mut bytes).map_err(cannot_read)?;
    let info = decode_manifest(&bytes, start_sequence, &path)?;
    SnapshotReader::open(storage, &info)?;
    Ok(info)
}
