//! How much memory the data takes: one sum, kept up to date by each change.
//!
//! For: `maxmemory`, `INFO memory` and metrics. Not for: what a single thing takes, which each
//! index says itself.
//!
//! ```text
//! thread 0 ─ lane 0 ─┐
//! thread 1 ─ lane 1 ─┼─ differences; their sum is the account
//! thread 2 ─ lane 2 ─┘
//! ```
//!
//! Invariant: a caller that adds something takes it off again when it is freed, not when it is
//! unlinked: what a slow reader still holds counts.
//! Cost: a change adds to a cache line of its thread's own; the sum reads all lanes.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::sync::shard_of;

/// How many lanes there are; threads beyond that share them.
const SHARDS: usize = 16;

/// See the file's header.
#[derive(Default)]
pub(crate) struct Account {
    shards: [Shard; SHARDS],
}

/// A counter with a cache line, and the one that is fetched along with it, to itself.
#[derive(Default)]
#[repr(align(128))]
struct Shard(AtomicI64);

impl Account {
    /// Something became larger, or smaller.
    pub(crate) fn add(&self, difference_bytes: i64) {
        if difference_bytes != 0 {
            let shard = shard_of(SHARDS);
            self.shards[shard].0.fetch_add(difference_bytes, Ordering::Relaxed);
        }
    }

    /// The sum.
    pub(crate) fn total_bytes(&self) -> u64 {
        let sum: i64 = self.shards.iter().map(|shard| shard.0.load(Ordering::Relaxed)).sum();
        u64::try_from(sum).unwrap_or(0)
    }
}

/// What the engine's memory is taken by, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryReport {
    /// Keys and what they hold.
    pub keys_bytes: u64,
    /// Prefix sets.
    pub prefix_sets_bytes: u64,
    /// Tables and what their feeds remember.
    pub tables_bytes: u64,
    /// IP databases: files, indexes and columns in memory.
    pub databases_bytes: u64,
    /// Rulesets: compiled forms and counters.
    pub rulesets_bytes: u64,
    /// Zones of master files.
    pub zones_bytes: u64,
    /// Writes that wait for the disk, and the buffers they wait in.
    pub journal_bytes: u64,
}

impl MemoryReport {
    /// All of it.
    pub fn total_bytes(&self) -> u64 {
        let MemoryReport {
            keys_bytes,
            prefix_sets_bytes,
            tables_bytes,
            databases_bytes,
            rulesets_bytes,
            zones_bytes,
            journal_bytes,
        } = self;
        let changed = keys_bytes + prefix_sets_bytes + tables_bytes;
        changed + databases_bytes + rulesets_bytes + zones_bytes + journal_bytes
    }
}
