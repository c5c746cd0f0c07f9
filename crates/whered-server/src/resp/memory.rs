//! How much memory is in use, for `maxmemory`: one figure for all listeners, cached.
//!
//! The figure is the engine's account (keys, prefix sets, databases, what waits for the disk) and
//! the buffers of clients. It follows every write at once, which the process's resident memory
//! does not: that one is told beside it. Adding it up costs a microsecond or so, so it is added up
//! again only when it is older than `FRESH`, by the first caller.
//!
//! At the same time: any thread may ask; one of them adds up, the others take the last value.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use whered_engine::Engine;

use super::counters::RespCounters;

/// How old the figure may be.
const FRESH: Duration = Duration::from_millis(2);

/// The cached figure.
pub(crate) struct MemoryAccount {
    engine: Arc<Engine>,
    counters: Arc<RespCounters>,
    started: Instant,
    used_bytes: AtomicU64,
    peak_bytes: AtomicU64,
    /// When it was read, in nanoseconds since `started`; 0: never.
    read_at: AtomicU64,
}

impl MemoryAccount {
    pub(crate) fn new(engine: &Arc<Engine>, counters: &Arc<RespCounters>) -> MemoryAccount {
        MemoryAccount {
            engine: Arc::clone(engine),
            counters: Arc::clone(counters),
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
            let buffers = self.counters.buffer_bytes.load(Ordering::Relaxed);
            let used = self.engine.memory().total_bytes() + buffers;
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

/// How much memory the system has: the first line of this file, in KiB (proc(5)).
pub(crate) fn system_bytes() -> Option<u64> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kib = info.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(kib.trim().strip_suffix("kB")?.trim_end().parse::<u64>().ok()? * 1024)
}

/// What the process has in memory, wherever it is from. The second number of this file counts
/// resident pages of 4 KiB (proc(5)).
pub(crate) fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(statm.split(' ').nth(1)?.parse::<u64>().ok()? * 4096)
}
