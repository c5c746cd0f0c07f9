//! Snapshots of everything that the doors can change, and coming back from them.
//!
//! ```text
//! save   Engine::snapshot ──> save.rs ──> blocks (format.rs) ──> whered-store ──> manifest
//!                                                                                  │
//! start  newest snapshot ──> load.rs ──> keyspace, prefix sets, sites              │
//!        journal after S ──> replay.rs ──> the same                                v
//! trim   segments that only hold entries up to S of the older kept snapshot are removed
//! ```
//!
//! For: making the journal short and a start fast. Not for: files and checksums (`whered-store`),
//! what is right to save when (`keyspace/saving.rs`), deciding that it is time (the doors ask
//! [`Engine::snapshot_due`](crate::Engine::snapshot_due) now and then).
//!
//! Invariants: one snapshot at a time; the journal is synced up to E before the manifest is
//! written, whatever the policy; nothing is removed before the manifest is durable.

mod format;
mod load;
pub(crate) mod open;
pub(crate) mod replay;
pub(crate) mod save;
mod saved_feeds;
pub(crate) mod snapshot;

pub use open::{LoadReport, OpenReport, ShowProgress, StartProgress};

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::clock;
use crate::sync::{self, Notify};

/// When snapshots are made without anybody's asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotOptions {
    /// A snapshot is due when the journal has grown by this much since the last one, in this
    /// process or before, and by as much as the last one is large. 0: never for its size.
    pub journal_size_bytes: u64,
    /// A snapshot is due when the last one is so old and something was written since. Zero: never
    /// for its age.
    pub interval: Duration,
}

impl Default for SnapshotOptions {
    fn default() -> SnapshotOptions {
        SnapshotOptions { journal_size_bytes: 256 << 20, interval: Duration::from_secs(3600) }
    }
}

/// What a snapshot has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotReport {
    /// Everything up to this sequence is in it.
    pub start_sequence: u64,
    /// Some of it is as late as this sequence.
    pub end_sequence: u64,
    /// How many values it holds.
    pub keys: u64,
    /// How large it is.
    pub bytes: u64,
    /// How long it took.
    pub elapsed: Duration,
}

impl fmt::Display for SnapshotReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SnapshotReport { start_sequence, end_sequence, keys, bytes, elapsed } = self;
        let seconds = elapsed.as_secs_f64();
        write!(
            f,
            "snapshot of {keys} keys, {bytes} bytes, at entries {start_sequence} to \
             {end_sequence}, in {seconds:.2} s"
        )
    }
}

/// What is known about snapshots, for `INFO` and metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotStatus {
    /// One is being made: since when, and bytes so far.
    pub running: Option<SnapshotProgress>,
    /// When the last good one was complete, in milliseconds since 1970; 0 for never.
    pub last_millis: u64,
    /// How large the last good one is.
    pub last_bytes: u64,
    /// How long the last one took, good or not.
    pub last_elapsed: Option<Duration>,
    /// Why the last one failed, if it did.
    pub last_error: Option<String>,
    /// How many were completed since the start.
    pub completed: u64,
}

/// How far the snapshot is that is being made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotProgress {
    /// For how long it has been going on.
    pub elapsed: Duration,
    /// Bytes so far.
    pub bytes: u64,
}

/// The engine's memory of its snapshots.
pub(crate) struct Snapshots {
    pub(crate) options: SnapshotOptions,
    /// Held while one is made.
    making: Mutex<()>,
    status: Mutex<Status>,
    /// Somebody has asked for one.
    request: Notify,
    /// The engine is about to be closed: none is begun, and the one that is made ends.
    pub(crate) stopping: AtomicBool,
    pub(crate) bytes: AtomicU64,
}

struct Status {
    since: Option<Instant>,
    /// When the last one ended, or the engine was opened.
    last_end: Instant,
    shown: SnapshotStatus,
    /// What the journal had taken when the last good one began; below zero what a start has
    /// replayed, which counts as what this process has written.
    journal_bytes: i64,
    /// The last entry of the journal then.
    sequence: u64,
    /// `journal_bytes` and `sequence` of the one that is being made.
    begun: (i64, u64),
}

impl Snapshots {
    /// The memory of an engine that has just read what the report says.
    pub(crate) fn new(options: SnapshotOptions, report: &OpenReport) -> Snapshots {
        let LoadReport { start_sequence, bytes, .. } = report.snapshot.unwrap_or_default();
        let shown = SnapshotStatus { last_bytes: bytes, ..SnapshotStatus::default() };
        let replayed_bytes = report.recovery.as_ref().map_or(0, |found| found.bytes);
        let status = Status {
            since: None,
            last_end: Instant::now(),
            shown,
            journal_bytes: -i64::try_from(replayed_bytes).unwrap_or(i64::MAX),
            sequence: start_sequence,
            begun: (0, 0),
        };
        Snapshots {
            options,
            making: Mutex::new(()),
            status: Mutex::new(status),
            request: Notify::default(),
            stopping: AtomicBool::new(false),
            bytes: AtomicU64::new(0),
        }
    }

    /// The right to make one; `None` while another is made.
    pub(crate) fn try_make(&self) -> Option<MutexGuard<'_, ()>> {
        match self.making.try_lock() {
            Ok(making) => Some(making),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }

    /// Keeps snapshots, and what they would remove, as they are.
    pub(crate) fn hold_still(&self) -> MutexGuard<'_, ()> {
        sync::lock(&self.making)
    }

    /// Asks for a snapshot the thread that waits to make one.
    pub(crate) fn ask(&self) {
        self.request.notify();
    }

    /// Waits until somebody asks, or a time is over; says which.
    pub(crate) fn wait_asked(&self, timeout: Duration) -> bool {
        self.request.wait(timeout)
    }

    /// The journal's last entry when the last good one began.
    pub(crate) fn sequence(&self) -> u64 {
        self.status().sequence
    }

    /// Notes that one begins, what the journal has taken so far, and its last entry.
    pub(crate) fn begin(&self, journal_bytes: u64, sequence: u64) {
        self.bytes.store(0, Ordering::Relaxed);
        let mut status = self.status();
        status.since = Some(Instant::now());
        status.begun = (journal_bytes as i64, sequence);
    }

    /// Notes how it went.
    pub(crate) fn end(&self, result: Result<u64, String>) -> Duration {
        let mut status = self.status();
        let elapsed = status.since.take().map_or(Duration::ZERO, |since| since.elapsed());
        status.last_end = Instant::now();
        status.shown.last_elapsed = Some(elapsed);
        match result {
            Ok(bytes) => {
                (status.journal_bytes, status.sequence) = status.begun;
                status.shown.last_millis = clock::now_millis();
                status.shown.last_bytes = bytes;
                status.shown.last_error = None;
                status.shown.completed += 1;
            }
            Err(reason) => status.shown.last_error = Some(reason),
        }
        elapsed
    }

    pub(crate) fn shown(&self) -> SnapshotStatus {
        let status = self.status();
        let running = status.since.map(|since| SnapshotProgress {
            elapsed: since.elapsed(),
            bytes: self.bytes.load(Ordering::Relaxed),
        });
        SnapshotStatus { running, ..status.shown.clone() }
    }

    /// Whether it is time for one. After a failure the next one waits for a minute.
    pub(crate) fn is_due(&self, journal_bytes: u64, sequence: u64) -> bool {
        let status = self.status();
        // The journal's bytes grow by its own marks, too: only entries say that there is something.
        if status.since.is_some() || sequence <= status.sequence {
            return false;
        }
        let age = status.last_end.elapsed();
        if status.shown.last_error.is_some() && age < RETRY_AFTER {
            return false;
        }
        let grown_bytes = (journal_bytes as i64).saturating_sub(status.journal_bytes) as u64;
        let SnapshotOptions { journal_size_bytes, interval } = self.options;
        let is_long = journal_size_bytes > 0
            && grown_bytes >= journal_size_bytes.max(status.shown.last_bytes);
        let is_old = !interval.is_zero() && age >= interval;
        is_long || is_old
    }

    fn status(&self) -> MutexGuard<'_, Status> {
        sync::lock(&self.status)
    }
}

/// How long a failed snapshot is not tried again for its size or age.
const RETRY_AFTER: Duration = Duration::from_secs(60);

#[cfg(test)]
#[path = "durability_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "links_tests.rs"]
mod links_tests;
