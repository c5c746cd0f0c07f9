//! What several tests of the journal need: numbers from a seed, and a journal read as a list.
#![allow(dead_code, reason = "each test file uses its own part")]

pub(crate) mod keeper;

use std::sync::Arc;

use whered_store::{
    JournalCore, JournalOptions, RecoveryReport, SimulatedDisk, StoreError, SyncPolicy, Wanted,
};

/// Kind and payload of each entry, in order.
pub(crate) type Entries = Vec<(u16, Vec<u8>)>;

/// A splitmix64 generator.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// True once in `n` times.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

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
    let mut entries = Entries::new();
    let (core, report) =
        JournalCore::open(Arc::new(disk.clone()), &small_options(), Wanted::all(), &mut |entry| {
            assert_eq!(entry.sequence, entries.len() as u64 + 1);
            entries.push((entry.kind, entry.payload.to_vec()));
            Ok(())
        })?;
    assert_eq!(report.entries, entries.len() as u64);
    assert_eq!(report.last_sequence, entries.len() as u64);
    Ok((core, report, entries))
}

/// The last segment's name.
pub(crate) fn last_segment(disk: &SimulatedDisk) -> String {
    disk.names().into_iter().rfind(|name| name.ends_with(".log")).expect("there is a segment")
}
