//! The threads of feeds, and what is told of them.
//!
//! For: one thread for each feed that applies what is spooled, one for each drop folder. Not for:
//! how a batch is made (`Feed::step`), the ways in by HTTP and RESP (the listeners).
//!
//! ```text
//! listeners, folders ─> spool ─> [feed-NAME: step, step, wait, step ...] ─> tables, collections
//! ```
//!
//! At the same time: each feed has its own thread, so that a slow one delays no other. A stop ends
//! a thread after the batch that it is at; what is spooled then is applied by the next start.

mod drop_folder;
mod link;
mod open_files;
mod options;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};
use whered_engine::Engine;
use whered_engine::feeds::{Feed, FeedStats};
use whered_engine::store::JournalStats;

pub(crate) use self::drop_folder::DropFolder;
pub use self::options::{FeedConfig, SinkConfig, StreamConfig};

/// How long a thread waits for work before it looks whether it is to stop.
const IDLE_TIME: Duration = Duration::from_millis(100);
/// How long it rests after a batch that failed.
const FAILED_TIME: Duration = Duration::from_secs(1);

/// The running thread of one feed.
pub(crate) struct Applier {
    feed: Arc<Feed>,
    stopping: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Applier {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start(engine: &Arc<Engine>, feed: &Arc<Feed>) -> io::Result<Applier> {
        let stopping = Arc::new(AtomicBool::new(false));
        let (engine, its, asked) = (Arc::clone(engine), Arc::clone(feed), Arc::clone(&stopping));
        let thread = std::thread::Builder::new()
            .name(format!("feed-{}", feed.name()))
            .spawn(move || run(&engine, &its, &asked))?;
        Ok(Applier { feed: Arc::clone(feed), stopping, thread })
    }

    /// Ends the thread, after the batch that is under way.
    pub(crate) fn stop(self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.feed.stop_waiting();
        self.thread.thread().unpark();
        if self.thread.join().is_err() {
            tracing::error!("the thread of a feed has failed");
        }
    }
}

fn run(engine: &Engine, feed: &Feed, stopping: &AtomicBool) {
    let mut said = String::new();
    while !stopping.load(Ordering::Relaxed) {
        let stepped = catch_unwind(AssertUnwindSafe(|| engine.step_feed(feed)));
        let error = match stepped {
            Ok(Ok(report)) if report.uploads > 0 => {
                said.clear();
                continue;
            }
            Ok(Ok(_)) => {
                feed.wait_for_work(IDLE_TIME);
                continue;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => {
                // A fault of ours; what is spooled stays, and the other feeds go on.
                tracing::error!("the feed '{}' stops: a batch has panicked", feed.name());
                return;
            }
        };
        if said != error {
            tracing::error!("the feed '{}' waits: {error}", feed.name());
            said = error;
        }
        // The stop ends this earlier.
        std::thread::park_timeout(FAILED_TIME);
    }
}

/// What is said of a feed.
pub(crate) fn describe(feed: &Feed) -> Value {
    let stats: FeedStats = feed.stats();
    let spool = stats.spool.as_ref().map(|spool| {
        json!({
            "groups": spool.groups,
            "bytes": spool.bytes,
            "syncs": spool.syncs,
            "uploads_per_sync": ratio(spool.frames, spool.syncs),
            "mean_sync_millis": ratio(spool.sync_nanoseconds, spool.syncs) / 1e6,
            "p50_sync_millis": sync_millis(spool, 0.5),
            "p99_sync_millis": sync_millis(spool, 0.99),
            "max_sync_millis": spool.maximum_sync_nanoseconds as f64 / 1e6,
            "p99_group_uploads": spool.group_frames.quantile(0.99).round(),
        })
    });
    json!({
        "name": feed.name(),
        "backlog": { "uploads": stats.backlog_uploads, "bytes": stats.backlog_bytes },
        "lag_seconds": stats.lag.as_secs_f64(),
        "uploads_per_second": stats.uploads_per_second,
        "records_per_second": stats.records_per_second,
        "uploads": stats.uploads,
        "upload_bytes": stats.upload_bytes,
        "rejected_uploads": stats.rejected_uploads,
        "records": stats.records,
        "rejected_records": stats.rejected_records,
        "batches": stats.batches,
        "journal_bytes": stats.journal_bytes,
        "last_batch": stats.last_batch,
        "memory": {
            "resident": stats.is_resident,
            "bytes": stats.resident_bytes,
            "cold_bytes": stats.cold_bytes,
        },
        "last_error": stats.last_error,
        "failed": feed.reason(),
        "out_of_service": feed.out_of_service().is_some(),
        "durable": feed.syncs_first(),
        "full": feed.spool_full(),
        "tables": feed.tables().iter().map(|table| table.name()).collect::<Vec<_>>(),
        "spool": spool,
        "links": feed.links().iter().map(link::describe).collect::<Vec<_>>(),
    })
}

/// A quantile of the fdatasyncs' times; those of a bucket are taken as spread evenly, but none is
/// longer than the longest.
fn sync_millis(spool: &JournalStats, part: f64) -> f64 {
    (spool.sync_micros.quantile(part) / 1e3).min(spool.maximum_sync_nanoseconds as f64 / 1e6)
}

fn ratio(sum: u64, count: u64) -> f64 {
    sum as f64 / count.max(1) as f64
}
