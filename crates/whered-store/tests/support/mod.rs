//! What several tests of the journal need: numbers from a seed, and a journal read as a list.
#![allow(dead_code, unused_imports, reason = "each test file uses its own part")]

pub(crate) mod keeper;

use std::sync::Arc;

pub(crate) use whered_random::Random;
use whered_store::{
    JournalCore, JournalOptions, RecoveryReport, SimulatedDisk, StoreError, SyncPolicy, Wanted,
};

/// Kind and payload of each entry, in order.
pub(crate) type Entries = Vec<(u16, Vec<u8>)>;

/// The smallest segments, and no memory of a full disk.
pub(crate) fn small_options() -> JournalOptions {
    JournalOptions {
        sync: SyncPolicy::Always,
        segment_size_bytes: 8192,
        full_retry_interval: std::time::Duration::ZERO,
        ..JournalOptions::default()
    }
}

/// Opens and collects; the sequences must be consecutive from 1.
pub(crate) fn open(
    disk: &SimulatedDisk,
) -> Result<(JournalCore, RecoveryReport, Entries), StoreError> {
    open_with(disk, &small_options())
}

/// As [`open`], with options of the caller's.
pub(crate) fn open_with(
    disk: &SimulatedDisk,
    options: &JournalOptions,
) -> Result<(JournalCore, RecoveryReport, Entries), StoreError> {
    let mut entries = Entries::new();
    let (core, report) =
        JournalCore::open(Arc::new(disk.clone()), options, Wanted::all(), &mut |entry| {
            assert_eq!(entry.sequence, entries.len() as u64 + 1);
            entries.push((entry.kind, entry.payload.to_vec()));
            Ok(())
        })?;
    assert_eq!(report.entries, entries.len() as u64);
    assert_eq!(report.last_sequence, entries.len() as u64);
    Ok((core, report, entries))
}

/// Segments that grow from the smallest size to eight times that.
pub(crate) fn growing_options() -> JournalOptions {
    JournalOptions {
        segment_size_bytes: 64 << 10,
        first_segment_size_bytes: 8 << 10,
        ..small_options()
    }
}

/// The last segment's name.
pub(crate) fn last_segment(disk: &SimulatedDisk) -> String {
    disk.names().into_iter().rfind(|name| name.ends_with(".log")).expect("there is a segment")
}
