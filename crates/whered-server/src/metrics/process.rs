//! Metrics of the process with the names that all Prometheus clients use, and the disk's room.
//!
//! Not for: what the data take (`whered_memory_bytes`). Read from proc(5) at each scrape; a system
//! without it has none of the process's metrics.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

use super::families::FloatGauge;
use super::{FloatCounter, register_gauge};
use crate::disk_watch::disk_space;

/// Ticks of a second in proc(5), on every architecture that Linux has today.
const TICKS: f64 = 100.0;
const PAGE_BYTES: u64 = 4096;

/// Adds `process_*` to a registry without a prefix; `uptime` is since the process has started.
pub(super) fn add(registry: &mut Registry, uptime: Duration) {
    let Ok(stat) = fs::read_to_string("/proc/self/stat") else { return };
    // The name may hold anything, but ends with the last parenthesis; the next field is number 3.
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<u64> =
        behind_name.split_ascii_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
    let field = |number: usize| fields.get(number - 3).copied().unwrap_or(0);
    let cpu: FloatCounter = Counter::default();
    cpu.inc_by((field(14) + field(15)) as f64 / TICKS);
    registry.register("process_cpu_seconds", "User and system time of the process", cpu);
    let threads = ("process_threads", "Threads of the process", Some(field(20)));
    let virtual_memory =
        ("process_virtual_memory_bytes", "Address space of the process", Some(field(23)));
    let help = "Memory of the process that is resident";
    let resident = ("process_resident_memory_bytes", help, Some(field(24) * PAGE_BYTES));
    let open = fs::read_dir("/proc/self/fd").map(|entries| entries.count() as u64).ok();
    let open = ("process_open_fds", "Open file descriptors", open);
    let most = ("process_max_fds", "The limit of open file descriptors", descriptors_max());
    for (name, help, value) in [threads, virtual_memory, resident, open, most] {
        if let Some(value) = value {
            register_gauge(registry, name, help, value);
        }
    }
    let start =
        SystemTime::now().checked_sub(uptime).and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let seconds = FloatGauge::default();
    seconds.set(start.unwrap_or_default().as_secs_f64());
    registry.register(
        "process_start_time_seconds",
        "When the process started, since 1970",
        seconds,
    );
}

/// The soft limit of descriptors; the greatest number where there is no limit.
fn descriptors_max() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let soft = line.split_ascii_whitespace().next()?;
    Some(soft.parse().unwrap_or(u64::MAX))
}

/// Adds size and free room of the disk that a directory is on.
pub(super) fn add_disk(registry: &mut Registry, directory: &Path) {
    let Some((size, free)) = disk_space(directory) else { return };
    register_gauge(registry, "disk_size_bytes", "Size of the data directory's disk", size);
    let help = "Room on the data directory's disk that the process may use";
    register_gauge(registry, "disk_free_bytes", help, free);
}
