//! Saying how far a start is, once a second.
//!
//! Not for: what is read (`whered_engine`). The log is where a server talks; a start of less than
//! a second says nothing but its result.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use whered_engine::{ShowProgress, StartProgress};

/// How long it is silent between two lines.
const PERIOD: Duration = Duration::from_secs(1);

/// Writes a line to the log once a second.
pub(crate) fn log_progress() -> ShowProgress {
    let last = Mutex::new(Instant::now());
    Box::new(move |progress| {
        // A thread that finds another one here leaves the report to it.
        let Ok(mut last) = last.try_lock() else { return };
        if last.elapsed() < PERIOD {
            return;
        }
        *last = Instant::now();
        match progress {
            StartProgress::Snapshot { bytes, total_bytes } => {
                let percent = bytes * 100 / total_bytes.max(1);
                tracing::info!("reading the snapshot: {percent} %, {} MiB", bytes >> 20);
            }
            StartProgress::Journal { entries } => {
                tracing::info!("replaying the journal: {entries} entries");
            }
        }
    })
}
