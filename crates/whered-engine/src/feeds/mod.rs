//! Feeds: uploads into tables, a collection or a prefix set; nothing acknowledged is ever lost.
//!
//! ```text
//! push ─> spool (fdatasync of a group) ─> acknowledged
//!            │  later, one thread a feed: Feed::step
//!            └> unpack ─> records ─> staged beside the data ─> one journal entry ─> tables, points
//! ```

mod links;
mod source;
mod status;

use std::sync::Arc;
use std::time::Duration;

use crate::engine::Engine;
use crate::log::Durability;
use crate::tables::{Table, Value};

pub use links::LinkStatus;
pub use source::{FeedInput, FeedLimits, FeedSource, SetTarget};
pub use status::{FeedStats, PushError, Pushed, SpoolTicket, StepError, StepReport, UploadStatus};
pub use whered_feeds as formats;

/// How an upload's bytes are packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// Not at all.
    #[default]
    Identity,
    /// gzip (RFC 1952).
    Gzip,
    /// Zstandard (RFC 8878).
    Zstd,
}

/// One upload.
#[derive(Clone, Copy, Debug, Default)]
pub struct Upload<'a> {
    /// Its bytes as they were received.
    pub bytes: &'a [u8],
    /// How they are packed.
    pub encoding: Encoding,
    /// Two uploads with the same key are one; up to 255 bytes.
    pub idempotency_key: Option<&'a str>,
    /// A stream that it comes from, and the position in that after it.
    pub source: Option<(&'a str, &'a [u8])>,
}

/// All feeds and tables.
#[derive(Default)]
pub struct Feeds {
    feeds: Vec<Arc<Feed>>,
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
        self.tables().into_iter().find(|table| table.name() == name)
    }

    /// All tables of all feeds, those of a feed one after the other.
    pub fn tables(&self) -> Vec<Arc<Table>> {
        self.feeds.iter().flat_map(|feed| feed.tables().iter().cloned()).collect()
    }

    /// What tables and their feeds take in memory.
    pub fn memory_bytes(&self) -> u64 {
        0
    }

    /// Uploads are refused while the engine's memory takes more than this; 0 for no limit.
    pub fn set_memory_max(&self, _bytes: u64) {}
}

/// One feed.
pub struct Feed {
    source: FeedSource,
    number: usize,
    tables: Vec<Arc<Table>>,
}

/// Keeps a feed from applying batches while it is there.
pub struct FeedHold<'a> {
    _feed: &'a Feed,
}

impl Feed {
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

    /// Checks an upload and appends it to the spool; it may be acknowledged when its ticket is
    /// durable. Never waits for the disk's sync, perhaps for room in the group that is filled.
    ///
    /// # Errors
    /// [`PushError`]; nothing of it is kept then.
    pub fn push(&self, _upload: Upload<'_>) -> Result<Pushed, PushError> {
        Err(PushError::Failed("not made yet".to_owned()))
    }

    /// Waits until an upload may be acknowledged.
    ///
    /// # Errors
    /// The spool has failed before.
    pub fn wait(&self, _ticket: SpoolTicket) -> Result<(), PushError> {
        Ok(())
    }

    /// Whether an upload may be acknowledged. One atomic load when it may.
    pub fn durability(&self, _ticket: SpoolTicket) -> Durability {
        Durability::Durable
    }

    /// Calls `wake` after every durable group of the spool and when the spool fails; it must only
    /// signal.
    pub fn on_progress(&self, _wake: Box<dyn Fn() + Send + Sync>) {}

    /// Why the spool has failed, if it has.
    pub fn reason(&self) -> Option<String> {
        None
    }

    /// How far an upload is.
    pub fn status(&self, _id: u64) -> UploadStatus {
        UploadStatus::Unknown
    }

    /// The position after the newest upload of a source, applied or spooled.
    pub fn source_position(&self, _source: &str) -> Option<Vec<u8>> {
        None
    }

    /// Applies one batch of what is spooled, if there is anything. One thread calls this in a loop
    /// with [`Feed::wait_for_work`].
    ///
    /// # Errors
    /// The journal is full or has failed, or the collection's key holds another kind of value:
    /// nothing of the batch counts, and the next step tries again.
    pub fn step(&self, _engine: &Engine) -> Result<StepReport, StepError> {
        Ok(StepReport::default())
    }

    /// Waits until there is something to apply, or the time is over; gives whether there is.
    pub fn wait_for_work(&self, _timeout: Duration) -> bool {
        false
    }

    /// Wakes whoever is in [`Feed::wait_for_work`].
    pub fn stop_waiting(&self) {}

    /// What it has done, and what waits.
    pub fn stats(&self) -> FeedStats {
        FeedStats::default()
    }

    /// The newest batch whose effects are durable in the journal.
    pub fn durable_batch(&self) -> u64 {
        0
    }

    /// While the hold is there, steps apply nothing; waits for the one that is going on.
    pub fn hold(&self) -> FeedHold<'_> {
        FeedHold { _feed: self }
    }

    /// Puts rows into a table that has no rows with their keys, as a batch of its own: values of the
    /// key first, then of the columns in the schema's order. Gives how many were taken. Works while
    /// the feed is held.
    ///
    /// # Errors
    /// There is no such table, a row is not one of its rows, or the journal refuses; nothing is
    /// taken then.
    pub fn adopt(
        &self,
        _engine: &Engine,
        _table: &str,
        _rows: &mut dyn Iterator<Item = Vec<Value>>,
    ) -> Result<u64, StepError> {
        Ok(0)
    }

    /// Says how a sink or stream goes.
    pub fn report_link(&self, _link: LinkStatus) {}

    /// How all sinks and streams go, by name.
    pub fn links(&self) -> Vec<LinkStatus> {
        Vec::new()
    }
}
