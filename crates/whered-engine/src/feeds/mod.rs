//! Feeds: uploads into tables, a collection or a prefix set; nothing acknowledged is ever lost.
//!
//! ```text
//! push ─> spool (fdatasync of a group) ─> acknowledged
//!            │  later, one thread a feed: Feed::step
//!            └> unpack ─> records ─> staged beside the data ─> one journal entry ─> tables, points
//! ```
//! | file | thing |
//! | --- | --- |
//! | `source.rs` | the feed as the configuration has it |
//! | `push.rs`, `spooled.rs`, `unpack.rs` | taking uploads in |
//! | `step.rs`, `pipeline.rs`, `read.rs`, `block.rs`, `consolidate.rs`, `places.rs`, `places_wire.rs`, `near.rs`, `grid.rs` | making a batch |
//! | `entry.rs`, `state.rs` | what the journal has, and what it makes of a feed |
//! | `budget.rs`, `storage.rs`, `cold_files.rs` | which places and tables are in memory, and moving them |
//! | `quarantine.rs` | why records do not count |
//! | `status.rs`, `links.rs`, `rate.rs` | what a feed answers |
//!
//! Invariants: an upload is applied exactly once: its effects and the spool's position after it are
//! one entry of the journal, and the spool keeps it until that is durable. A batch is seen whole or
//! not at all by a reader of one table, collection or set.
//! At the same time: any threads push and ask; one thread a feed steps, with some that help it with
//! large batches. Feeds do not know each other.
//! Locks: a step pins the feed's places and tables (`budget.rs`), holds the feed's `worker`, then
//! `places`; then keyspace, tables, header. Pushing takes the spool's, `pushes`, header.

mod adopt;
mod block;
mod bounding_box;
pub(crate) mod budget;
mod cold_files;
mod consolidate;
mod entry;
mod grid;
mod links;
mod near;
mod open;
mod pipeline;
pub(crate) mod places;
mod push;
mod quarantine;
mod rate;
mod read;
mod source;
mod spooled;
pub(crate) mod state;
mod status;
mod step;
pub(crate) mod storage;
mod unpack;
mod upload;

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use whered_store::{Storage, StoreError};

use crate::clock;
use crate::error::EngineError;
use crate::journal::log::{Log, Ticket};
use crate::keyspace::Keyspace;
use crate::prefix_sets::PrefixSets;
use crate::sync::{Notify, lock};
use crate::tables::Table;

pub use budget::{HotOptions, HotStats};
pub(crate) use entry::{BATCH_KIND, DEFINE_KIND, Head};
pub use links::LinkStatus;
pub(crate) use open::Places;
pub use quarantine::RejectedRecord;
pub use source::{FeedInput, FeedLimits, FeedSource, SetTarget};
pub use status::{FeedStats, PushError, Pushed, SpoolTicket, StepError, StepReport, UploadStatus};
pub use upload::{Encoding, Upload};
pub use whered_feeds as formats;

use push::Pushes;
use quarantine::QuarantineFiles;
use rate::Rate;
use spooled::Backlog;
use state::{FeedState, States};
use step::Worker;

/// Gives the files of a folder.
pub(crate) type Folder<'a> = dyn Fn(&Path) -> Result<Arc<dyn Storage>, StoreError> + 'a;

/// All feeds and tables.
#[derive(Default)]
pub struct Feeds {
    feeds: Vec<Arc<Feed>>,
    /// Those that the configuration names, and those that it named before.
    pub(crate) states: Arc<States>,
    memory: Arc<MemoryLimit>,
}

/// Whether the engine takes more memory than it may, as the last look at it says.
#[derive(Default)]
struct MemoryLimit {
    bytes_max: AtomicU64,
    is_over: AtomicBool,
}

impl MemoryLimit {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Looks again, if there is a limit.
    fn look(&self, memory_bytes: impl FnOnce() -> u64) {
        let bytes_max = self.bytes_max.load(Ordering::Relaxed);
        let is_over = bytes_max > 0 && memory_bytes() > bytes_max;
        self.is_over.store(is_over, Ordering::Relaxed);
    }
}

impl Feeds {
    /// The feed with this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Feed>> {
        self.feeds.iter().find(|feed| feed.name() == name)
    }

    /// All feeds in the order of the configuration; a feed's place is its [`Feed::number`].
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Feed>> {
        self.feeds.iter()
    }

    /// The table with this name.
    pub fn table(&self, name: &str) -> Option<Arc<Table>> {
        let mut tables = self.feeds.iter().flat_map(|feed| &feed.tables);
        tables.find(|table| table.name() == name).map(Arc::clone)
    }

    /// All tables of all feeds, those of a feed one after the other.
    pub fn tables(&self) -> Vec<Arc<Table>> {
        self.feeds.iter().flat_map(|feed| feed.tables.iter().cloned()).collect()
    }

    /// What tables and their feeds take in memory, those that the configuration does not name any
    /// more included.
    pub fn memory_bytes(&self) -> u64 {
        let working: u64 = self.feeds.iter().map(|feed| feed.working_bytes()).sum();
        working + self.states.memory_bytes()
    }

    /// How it goes with the budget for places and tables.
    pub fn hot_stats(&self) -> HotStats {
        self.states.residency.stats()
    }

    /// Uploads are refused while the engine's memory takes more than this; 0 for no limit. What is
    /// spooled is applied all the same.
    pub fn set_memory_max(&self, bytes: u64) {
        self.memory.bytes_max.store(bytes, Ordering::Relaxed);
    }

    /// Up to which upload each feed has applied its spool, also of feeds that the configuration
    /// does not name any more.
    pub fn positions(&self) -> BTreeMap<String, u64> {
        let states = self.states.all();
        states.iter().map(|state| (state.definition().feed, state.header().position)).collect()
    }

    /// Feeds that begin without places and rows, which could not be read, and the last batch of
    /// what they had: after an opening that repairs. A snapshot makes it so for the next one.
    pub fn reset(&self) -> Vec<(String, u64)> {
        self.states.reset()
    }

    /// While it is there, no segment of a spool is removed.
    pub(crate) fn hold_spools(&self) -> Vec<MutexGuard<'_, ()>> {
        self.feeds.iter().map(|feed| lock(&feed.removing)).collect()
    }

    /// Whether a backup would have all of every feed.
    ///
    /// # Errors
    /// One is out of service.
    pub(crate) fn check_whole(&self) -> Result<(), EngineError> {
        match self.feeds.iter().find_map(|feed| feed.out_of_service()) {
            Some(reason) => Err(EngineError::new(format!("{reason}; no backup has all of it"))),
            None => Ok(()),
        }
    }

    /// Copies all spools into folders of a backup.
    pub(crate) fn backup_spools(&self, folder: &Folder<'_>) -> Result<(), StoreError> {
        for feed in self.feeds.iter().filter(|feed| feed.waiting.spool().is_some()) {
            feed.waiting.backup(&folder(&Path::new("spool").join(feed.name()))?)?;
        }
        Ok(())
    }

    /// Writes and syncs all spools and ends them, whichever fail; the first failure is told.
    pub(crate) fn close(&self) -> Result<(), EngineError> {
        let mut closed = Ok(());
        for feed in &self.feeds {
            feed.stop_waiting();
            if let Some(spool) = feed.waiting.spool() {
                closed = closed.and(spool.close());
            }
        }
        Ok(closed?)
    }
}

/// What a batch changes besides tables.
#[derive(Clone, Copy)]
pub(crate) struct Stores<'a> {
    pub(crate) keyspace: &'a Keyspace,
    pub(crate) prefix_sets: &'a PrefixSets,
}

/// One feed.
pub struct Feed {
    source: FeedSource,
    number: usize,
    tables: Vec<Arc<Table>>,
    state: Arc<FeedState>,
    states: Arc<States>,
    log: Arc<Log>,
    waiting: Backlog,
    /// Why the spool could not be opened, if it could not.
    spool_fault: Option<String>,
    pushes: Mutex<Pushes>,
    worker: Mutex<Worker>,
    /// Why records do not count, in files.
    quarantine: Option<QuarantineFiles>,
    /// What the worker takes, as it was after the last step.
    worker_bytes: AtomicU64,
    holds: AtomicUsize,
    /// Held while segments of the spool are removed, and while they may not be.
    removing: Mutex<()>,
    /// Wakes the thread that steps.
    wake: Arc<Notify>,
    /// There is another processor, so that a thread for each step gains something.
    has_processors: bool,
    counters: Counters,
    /// Batches that may not be durable yet.
    undurable: Mutex<VecDeque<(u64, Ticket)>>,
    durable_batch: AtomicU64,
    links: Mutex<BTreeMap<String, LinkStatus>>,
    memory: Arc<MemoryLimit>,
}

#[derive(Default)]
struct Counters {
    uploads: AtomicU64,
    upload_bytes: AtomicU64,
    rejected_uploads: AtomicU64,
    /// By [`PushError::REASONS`].
    refused_uploads: [AtomicU64; PushError::REASONS.len()],
    records: AtomicU64,
    rejected_records: AtomicU64,
    batches: AtomicU64,
    journal_bytes: AtomicU64,
    last_error: Mutex<Option<String>>,
    upload_rate: Rate,
    record_rate: Rate,
}

/// Keeps a feed from applying batches while it is there.
pub struct FeedHold<'a> {
    feed: &'a Feed,
}

impl Drop for FeedHold<'_> {
    fn drop(&mut self) {
        self.feed.holds.fetch_sub(1, Ordering::AcqRel);
        self.feed.wake.notify();
    }
}

impl Feed {
    /// Looks whether the engine takes more memory than it may, if there is a limit.
    pub(crate) fn look_at_memory(&self, memory_bytes: impl FnOnce() -> u64) {
        self.memory.look(memory_bytes);
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.source.name
    }

    /// Its place among the feeds.
    pub fn number(&self) -> usize {
        self.number
    }

    /// The feed as the configuration has it.
    pub fn source(&self) -> &FeedSource {
        &self.source
    }

    /// Its tables, in the order of the configuration.
    pub fn tables(&self) -> &[Arc<Table>] {
        &self.tables
    }

    /// Calls `wake` after every durable group of the spool and when the spool fails; it must only
    /// signal.
    pub fn on_progress(&self, wake: Box<dyn Fn() + Send + Sync>) {
        if let Some(spool) = self.waiting.spool() {
            spool.on_progress(wake);
        }
    }

    /// Why the feed takes no uploads: its spool has failed, or it is out of service.
    pub fn reason(&self) -> Option<String> {
        self.out_of_service().or_else(|| self.waiting.spool()?.poisoned())
    }

    /// Why the feed neither takes nor applies uploads until it is repaired, if it does not: its
    /// spool, or the file that has its places and tables, could not be read.
    pub fn out_of_service(&self) -> Option<String> {
        let fault = self.spool_fault.clone().or_else(|| self.state.damage())?;
        Some(format!("the feed '{}' is out of service: {fault}", self.name()))
    }

    /// Why the disk has no room for the spool, while it has none.
    pub fn spool_full(&self) -> Option<String> {
        self.waiting.spool()?.full()
    }

    /// Waits until there is something to apply, or the time is over; gives whether there is.
    pub fn wait_for_work(&self, timeout: Duration) -> bool {
        self.has_work() || (self.wake.wait(timeout) && self.has_work())
    }

    /// Wakes the thread in [`Feed::wait_for_work`].
    pub fn stop_waiting(&self) {
        self.wake.notify();
    }

    fn has_work(&self) -> bool {
        self.holds.load(Ordering::Acquire) == 0
            && !self.state.is_damaged()
            && self.waiting.durable() > self.state.header().position
    }

    /// What it has done, and what waits.
    pub fn stats(&self) -> FeedStats {
        let (backlog_uploads, backlog_bytes) = self.waiting.waiting();
        let oldest_millis = lock(&self.pushes).oldest_millis();
        let waited = oldest_millis.map_or(0, |oldest| clock::now_millis().saturating_sub(oldest));
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.counters;
        FeedStats {
            backlog_uploads,
            backlog_bytes,
            lag: Duration::from_millis(waited),
            uploads: of(&counters.uploads),
            upload_bytes: of(&counters.upload_bytes),
            rejected_uploads: of(&counters.rejected_uploads),
            refused_uploads: counters.refused_uploads.each_ref().map(of),
            records: of(&counters.records),
            rejected_records: of(&counters.rejected_records),
            uploads_per_second: counters.upload_rate.per_second(),
            records_per_second: counters.record_rate.per_second(),
            batches: of(&counters.batches),
            journal_bytes: of(&counters.journal_bytes),
            last_batch: self.state.header().batch,
            last_error: lock(&counters.last_error).clone(),
            is_resident: !self.state.storage.is_cold(),
            resident_bytes: self.state.noted_bytes() + self.working_bytes(),
            cold_bytes: self.state.storage.file().map_or(0, |file| file.file.size_bytes()),
            spool: self.waiting.spool().map(whered_store::Spool::stats),
        }
    }

    /// The newest batch whose effects are on the disk, whatever the journal's policy: what is
    /// handed on to others may not be made again as another batch of the same number.
    pub fn durable_batch(&self) -> u64 {
        let mut undurable = lock(&self.undurable);
        while let Some((batch, ticket)) = undurable.front()
            && self.log.is_on_disk(*ticket)
        {
            self.durable_batch.fetch_max(*batch, Ordering::AcqRel);
            undurable.pop_front();
        }
        self.durable_batch.load(Ordering::Acquire)
    }

    /// Notes a batch that was appended to the journal.
    fn note_batch(&self, batch: u64, ticket: Ticket) {
        lock(&self.undurable).push_back((batch, ticket));
        self.durable_batch();
    }

    /// While the hold is there, steps apply nothing; waits for the one that is going on.
    pub fn hold(&self) -> FeedHold<'_> {
        self.holds.fetch_add(1, Ordering::AcqRel);
        drop(lock(&self.worker));
        FeedHold { feed: self }
    }

    /// Says how a sink or stream goes.
    pub fn report_link(&self, link: LinkStatus) {
        lock(&self.links).insert(link.name.clone(), link);
    }

    /// How all sinks and streams go, by name.
    pub fn links(&self) -> Vec<LinkStatus> {
        lock(&self.links).values().cloned().collect()
    }

    fn working_bytes(&self) -> u64 {
        self.worker_bytes.load(Ordering::Relaxed)
    }

    /// Gives back the memory that making batches has; no batch is made.
    fn release_memory(&self) {
        let mut worker = lock(&self.worker);
        worker.release_memory();
        self.worker_bytes.store(worker.memory_bytes() as u64, Ordering::Relaxed);
    }

    /// While there is nothing to do: has idle places and tables evicted, and those loaded that are
    /// asked for.
    fn maintain(&self) {
        let mut is_asked_for = false;
        for table in &self.tables {
            is_asked_for |= table.take_asked();
        }
        let maintained =
            self.states.residency.maintain(&self.state, self.source.limits.idle, is_asked_for);
        if let Err(error) = maintained {
            *lock(&self.counters.last_error) = Some(error);
        }
    }
}

#[cfg(test)]
#[path = "feeds_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "push_tests.rs"]
mod push_tests;

#[cfg(test)]
#[path = "budget_tests.rs"]
mod budget_tests;
