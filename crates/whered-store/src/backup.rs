//! Copies of a data directory: made from a live one, and brought back.
//!
//! ```text
//!   source                            backup
//!   snapshot (newest complete)   ──>  the same files (links)   or copies on another file system
//!   cold files that it names     ──>  the same files (links)
//!   segments it needs, sealed    ──>  the same files (links)
//!   the segment being written         a new one without entries, which goes on after them
//! ```
//!
//! Not for: choosing when; the caller calls [`Journal::roll`](crate::Journal::roll) before, lets no
//! snapshot or segment be removed meanwhile, and holds the target's lock.
//!
//! Invariants: a file that has two names is never written again (a server that runs on the backup
//! writes to its own segment); a target is empty before, and until it is whole it has a file
//! `INCOMPLETE`, with which no journal opens. Cost: links cost nothing, copies a read and a write;
//! [`restore`] also reads everything twice to check it.

use std::io;
use std::sync::Arc;

use crate::cold::{ColdFile, ColdReference};
use crate::error::StoreError;
use crate::journal::Wanted;
use crate::journal::load::{INCOMPLETE, list, refuse_incomplete};
use crate::journal::recovery::{needed_segments, recover};
use crate::journal::segment::segment_name;
use crate::repair::begin_segment;
use crate::snapshot::format::{data_name, manifest_name};
use crate::snapshot::set::find;
use crate::snapshot::{SnapshotInfo, SnapshotReader};
use crate::storage::Storage;

/// How much is copied at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// The result of a backup, a restore or a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// The start of the newest snapshot, if there is one.
    pub snapshot: Option<u64>,
    /// The last entry.
    pub last_sequence: u64,
    /// How many segments.
    pub segments: usize,
    /// Bytes in files that were copied; the others are links.
    pub copied_bytes: u64,
}

/// Makes `target` a data directory that has everything up to the last [`Journal::roll`] of the
/// source, whose server may go on. The segment being written is left out.
///
/// [`Journal::roll`]: crate::Journal::roll
///
/// # Errors
///
/// The target has files ([`StoreError::is_existing`]); the newest snapshot is not usable without
/// the segment being written (roll first); damage of manifests or missing segments; whatever the
/// system reports. What was made until then stays, marked as incomplete.
pub fn backup(source: &dyn Storage, target: &Arc<dyn Storage>) -> Result<Contents, StoreError> {
    backup_of(source, target, BackupKind::Data)
}

/// As [`backup`], for the folder of a [`Spool`](crate::Spool) that was rolled: its entries begin
/// wherever the work on them has come to. No segment may be removed meanwhile. To be made after the
/// backup of the data that has the worker's position, and before anything is removed since.
///
/// # Errors
///
/// As [`backup`].
pub fn backup_spool(
    source: &dyn Storage,
    target: &Arc<dyn Storage>,
) -> Result<Contents, StoreError> {
    backup_of(source, target, BackupKind::Spool)
}

/// The contents of a directory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BackupKind {
    /// Everything from a snapshot or the first entry on.
    Data,
    /// Entries from any on.
    Spool,
}

fn backup_of(
    source: &dyn Storage,
    target: &Arc<dyn Storage>,
    of: BackupKind,
) -> Result<Contents, StoreError> {
    refuse_incomplete(source)?;
    check_empty(&**target)?;
    let newest = newest_snapshot(source)?;
    let wanted = wanted(source, newest.as_ref(), of)?;
    let (firsts, _) = list(source)?;
    let needed = needed_segments(source, &firsts, wanted)?;
    let Some((&writing, sealed)) = needed.split_last() else {
        return Err(StoreError::exists(format!("there is nothing in {}", source.describe(""))));
    };
    if writing <= wanted.through {
        let path = source.describe(&segment_name(writing));
        let what = format!(
            "the snapshot needs entries up to {}, which are in the segment being written; \
             begin a new segment first",
            wanted.through
        );
        return Err(StoreError::refused(&path, 0, &what));
    }
    let mut contents = Contents {
        snapshot: newest.as_ref().map(|info| info.start_sequence),
        last_sequence: writing - 1,
        segments: sealed.len() + 1,
        copied_bytes: 0,
    };
    begin(&**target)?;
    let names =
        sealed.iter().map(|&first| segment_name(first)).chain(snapshot_names(newest.as_ref()));
    for name in names.chain(cold_names(source, newest.as_ref())?) {
        contents.copied_bytes += link_or_copy(source, &**target, &name)?;
    }
    begin_segment(target, writing)?;
    end(&**target)?;
    Ok(contents)
}

/// Checks a data directory that no server has open, then copies what a start needs of it to
/// `target`, and checks the copy.
///
/// # Errors
///
/// The target has files ([`StoreError::is_existing`]); any damage, with file and byte; whatever the
/// system reports. What was made until then stays, marked as incomplete.
pub fn restore(source: &dyn Storage, target: &dyn Storage) -> Result<Contents, StoreError> {
    restore_of(source, target, BackupKind::Data)
}

/// As [`restore`], for the folder of a spool.
///
/// # Errors
///
/// As [`restore`].
pub fn restore_spool(source: &dyn Storage, target: &dyn Storage) -> Result<Contents, StoreError> {
    restore_of(source, target, BackupKind::Spool)
}

fn restore_of(
    source: &dyn Storage,
    target: &dyn Storage,
    of: BackupKind,
) -> Result<Contents, StoreError> {
    check_empty(target)?;
    refuse_incomplete(source)?;
    let mut contents = read_everything(source, of)?;
    if contents.segments == 0 {
        return Err(StoreError::exists(format!("there is nothing in {}", source.describe(""))));
    }
    begin(target)?;
    let newest = newest_snapshot(source)?;
    let wanted = wanted(source, newest.as_ref(), of)?;
    let (firsts, _) = list(source)?;
    let needed = needed_segments(source, &firsts, wanted)?;
    let names =
        needed.iter().map(|&first| segment_name(first)).chain(snapshot_names(newest.as_ref()));
    for name in names.chain(cold_names(source, newest.as_ref())?) {
        contents.copied_bytes += copy(source, target, &name)?;
    }
    let copied_bytes = contents.copied_bytes;
    let copied = Contents { copied_bytes, ..read_everything(target, of)? };
    if copied != contents {
        let what = "the copy has other entries than its source";
        return Err(StoreError::refused(&target.describe(""), 0, what));
    }
    end(target)?;
    Ok(contents)
}

/// Reads all that a start needs and checks every checksum; changes nothing.
///
/// # Errors
///
/// Any damage, with file and byte; whatever the system reports.
pub fn verify(storage: &dyn Storage) -> Result<Contents, StoreError> {
    refuse_incomplete(storage)?;
    read_everything(storage, BackupKind::Data)
}

fn read_everything(storage: &dyn Storage, of: BackupKind) -> Result<Contents, StoreError> {
    let newest = newest_snapshot(storage)?;
    if let Some(info) = &newest {
        let reader = SnapshotReader::open(storage, info)?;
        let mut words = Vec::new();
        for index in 0..info.blocks.len() {
            reader.read_block(index, &mut words)?;
        }
        for reference in ColdReference::of_snapshot(storage, info)? {
            ColdFile::open(storage, &reference)?.verify()?;
        }
    }
    let wanted = wanted(storage, newest.as_ref(), of)?;
    let report = recover(storage, wanted, &mut |_| Ok(()))?.report;
    Ok(Contents {
        snapshot: newest.map(|info| info.start_sequence),
        last_sequence: report.last_sequence,
        segments: report.segments,
        copied_bytes: 0,
    })
}

fn wanted(
    storage: &dyn Storage,
    newest: Option<&SnapshotInfo>,
    of: BackupKind,
) -> Result<Wanted, StoreError> {
    if of == BackupKind::Data {
        return Ok(newest.map_or(Wanted::all(), SnapshotInfo::wanted));
    }
    let (firsts, _) = list(storage)?;
    let after = firsts.first().map_or(0, |oldest| oldest.saturating_sub(1));
    Ok(Wanted { after, through: 0 })
}

fn snapshot_names(newest: Option<&SnapshotInfo>) -> impl Iterator<Item = String> {
    let start = newest.map(|info| info.start_sequence);
    start.into_iter().flat_map(|start| [data_name(start), manifest_name(start)])
}

/// The cold files that the newest snapshot names.
fn cold_names(
    storage: &dyn Storage,
    newest: Option<&SnapshotInfo>,
) -> Result<Vec<String>, StoreError> {
    let Some(info) = newest else { return Ok(Vec::new()) };
    let files = ColdReference::of_snapshot(storage, info)?;
    let mut names: Vec<String> = files.into_iter().map(|reference| reference.name).collect();
    names.sort();
    names.dedup();
    Ok(names)
}

/// The newest snapshot; a bad one that is newer than all complete ones is an error.
fn newest_snapshot(storage: &dyn Storage) -> Result<Option<SnapshotInfo>, StoreError> {
    let found = find(storage)?;
    let newest = found.complete.into_iter().next();
    let start = newest.as_ref().map_or(0, |info| info.start_sequence);
    match found.bad.into_iter().next() {
        Some(bad) if newest.is_none() || bad.start_sequence > start => Err(bad.error),
        _ => Ok(newest),
    }
}

/// Nothing but the lock may be there.
fn check_empty(target: &dyn Storage) -> Result<(), StoreError> {
    let names = target.list().map_err(|error| cannot("list", target, "", &error))?;
    match names.iter().find(|name| *name != "LOCK") {
        Some(name) => {
            Err(StoreError::exists(format!("{} is not empty: it has {name}", target.describe(""))))
        }
        None => Ok(()),
    }
}

/// Marks the target as incomplete before anything else is there.
fn begin(target: &dyn Storage) -> Result<(), StoreError> {
    check_empty(target)?;
    let begin = || {
        target.create(INCOMPLETE, 0)?.sync_all()?;
        target.sync_directory()
    };
    begin().map_err(|error| cannot("write", target, INCOMPLETE, &error))
}

fn end(target: &dyn Storage) -> Result<(), StoreError> {
    let end = || {
        target.sync_directory()?;
        target.remove(INCOMPLETE)?;
        target.sync_directory()
    };
    end().map_err(|error| cannot("finish", target, INCOMPLETE, &error))
}

/// Returns how many bytes had to be copied.
fn link_or_copy(source: &dyn Storage, target: &dyn Storage, name: &str) -> Result<u64, StoreError> {
    match source.link(name, target, name) {
        Ok(()) => Ok(0),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists) =>
        {
            Err(cannot("link", source, name, &error))
        }
        // Another file system, or one without links, or one that forbids them: copying tells.
        Err(_) => copy(source, target, name),
    }
}

fn copy(source: &dyn Storage, target: &dyn Storage, name: &str) -> Result<u64, StoreError> {
    let from = source.open(name, false).map_err(|error| cannot("read", source, name, &error))?;
    let size_bytes = from.size_bytes().map_err(|error| cannot("read", source, name, &error))?;
    let to =
        target.create(name, size_bytes).map_err(|error| cannot("write", target, name, &error))?;
    let mut chunk = vec![0; CHUNK_BYTES.min(size_bytes as usize)];
    let mut offset = 0;
    while offset < size_bytes {
        let length = (size_bytes - offset).min(CHUNK_BYTES as u64) as usize;
        from.read_at(offset, &mut chunk[..length])
            .map_err(|error| cannot("read", source, name, &error))?;
        to.write_at(offset, &chunk[..length])
            .map_err(|error| cannot("write", target, name, &error))?;
        offset += length as u64;
    }
    to.sync_all().map_err(|error| cannot("write", target, name, &error))?;
    Ok(size_bytes)
}

fn cannot(verb: &str, storage: &dyn Storage, name: &str, error: &io::Error) -> StoreError {
    StoreError::io(&format!("cannot {verb} {}", storage.describe(name)), error)
}
