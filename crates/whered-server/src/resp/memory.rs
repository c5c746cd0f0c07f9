//! How much memory the process takes, for `maxmemory`: one figure for all doors, cached.
//!
//! The figure is the process's resident memory, which has everything in it that the machine has
//! to give: collections, databases, buffers. Reading it costs a system call and some microseconds,
//! so it is read again only when it is older than `FRESH`, by whoever asks first.
//!
//! At the same time: any thread may ask; one of them reads, the others take the last value.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How old the figure may be.
const FRESH: Duration = Duration::from_millis(20);

/// The cached figure.
pub(crate) struct MemoryAccount {
    started: Instant,
    used_bytes: AtomicU64,
    peak_bytes: AtomicU64,
    /// When it was read, in nanoseconds since `started`; 0: never.
    read_at: AtomicU64,
}

impl MemoryAccount {
    pub(crate) fn new() -> MemoryAccount {
        MemoryAccount {
            started: Instant::now(),
            used_bytes: AtomicU64::new(0),
            peak_bytes: AtomicU64::new(0),
            read_at: AtomicU64::new(0),
        }
    }

    /// The memory in use, at most `FRESH` ago.
    pub(crate) fn used_bytes(&self) -> u64 {
        let now = self.started.elapsed().as_nanos() as u64 + 1;
        let read_at = self.read_at.load(Ordering::Relaxed);
        let is_fresh = read_at > 0 && now.saturating_sub(read_at) < FRESH.as_nanos() as u64;
        let order = Ordering::Relaxed;
        if !is_fresh && self.read_at.compare_exchange(read_at, now, order, order).is_ok() {
            // Where it cannot be read nothing is known, and nothing refused.
            let used = resident_bytes().unwrap_or(0);
            self.used_bytes.store(used, Ordering::Relaxed);
            self.peak_bytes.fetch_max(used, Ordering::Relaxed);
        }
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// The most that was seen so far.
    pub(crate) fn peak_bytes(&self) -> u64 {
        self.peak_bytes.load(Ordering::Relaxed)
    }
}

/// The second number of this file counts resident pages of 4 KiB (proc(5)).
fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(statm.split(' ').nth(1)?.parse::<u64>().ok()? * 4096)
}
