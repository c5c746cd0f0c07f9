//! What a feed answers: about one upload, about a batch, about itself.
//!
//! For: doors and the thread that steps. Not for: finding it out (`push.rs`, `step.rs`). Plain
//! values.

use std::fmt;
use std::time::Duration;

use whered_store::JournalStats;

/// Proof of an upload's place in its spool; its acknowledgement is due when that is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpoolTicket(pub(crate) u64);

/// What became of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// The upload's number in its feed.
    pub id: u64,
    /// What the acknowledgement waits for.
    pub ticket: SpoolTicket,
    /// Whether this upload was pushed before; `id` is that one's.
    pub repeated: bool,
}

/// Why an upload was refused. Nothing of it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushError {
    /// The spool, the memory or the disk is full: it may be sent again later.
    Full {
        /// When that is worth trying.
        retry_after: Duration,
        /// What is full.
        reason: String,
    },
    /// It is larger than the feed takes.
    TooLarge {
        /// How many bytes are allowed.
        allowed_bytes: u64,
        /// As it came it is not, but unpacked it is.
        is_unpacked: bool,
    },
    /// It is no upload of this feed: one line with the place.
    Invalid(String),
    /// The spool has failed and takes nothing until a restart.
    Failed(String),
}

impl PushError {
    /// The words for the cases, as metrics have them.
    pub const REASONS: [&'static str; 4] = ["full", "too_large", "invalid", "failed"];

    /// Which of [`PushError::REASONS`] it is.
    pub(super) fn reason_index(&self) -> usize {
        match self {
            PushError::Full { .. } => 0,
            PushError::TooLarge { .. } => 1,
            PushError::Invalid(_) => 2,
            PushError::Failed(_) => 3,
        }
    }
}

impl fmt::Display for PushError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PushError::Full { reason, .. } => f.write_str(reason),
            PushError::TooLarge { allowed_bytes, is_unpacked: true } => {
                write!(f, "unpacked it is larger than the {allowed_bytes} bytes allowed")
            }
            PushError::TooLarge { allowed_bytes, is_unpacked: false } => {
                write!(f, "the upload is larger than the {allowed_bytes} bytes that are allowed")
            }
            PushError::Invalid(reason) | PushError::Failed(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for PushError {}

/// How far an upload is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UploadStatus {
    /// It waits in the spool.
    Spooled,
    /// Its records count.
    Applied {
        /// How many.
        records: u64,
        /// How many of its records were not right; the quarantine file has the reasons.
        rejected_records: u64,
    },
    /// Nothing of it counts.
    Rejected {
        /// Why.
        reason: String,
    },
    /// There was none with this number, or it was long ago.
    Unknown,
    /// The feed is out of service, and nobody can tell before it is repaired.
    OutOfService {
        /// Why: one line.
        reason: String,
    },
}

/// What a step has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepReport {
    /// The batch's number; 0 when there was nothing to do.
    pub batch: u64,
    /// Uploads that were applied or rejected.
    pub uploads: u64,
    /// Records that count.
    pub records: u64,
    /// Records that do not.
    pub rejected_records: u64,
    /// Rows that are new or changed.
    pub rows: u64,
}

/// Why a step could not be done; nothing of it counts, and it may be tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepError(pub(crate) String);

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StepError {}

/// What a feed has done since the engine was opened, and what waits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FeedStats {
    /// Uploads that wait in the spool, and their bytes.
    pub backlog_uploads: u64,
    /// See above.
    pub backlog_bytes: u64,
    /// For how long the oldest of them has waited.
    pub lag: Duration,
    /// Uploads that were acknowledged or will be.
    pub uploads: u64,
    /// Bytes of them, as received.
    pub upload_bytes: u64,
    /// Uploads of which nothing counts.
    pub rejected_uploads: u64,
    /// Uploads that were not taken, by [`PushError::REASONS`].
    pub refused_uploads: [u64; PushError::REASONS.len()],
    /// Records that count.
    pub records: u64,
    /// Records that do not.
    pub rejected_records: u64,
    /// Uploads taken a second, of the last ten seconds.
    pub uploads_per_second: f64,
    /// Records that count, a second.
    pub records_per_second: f64,
    /// Batches.
    pub batches: u64,
    /// Bytes of the batches' journal entries.
    pub journal_bytes: u64,
    /// The last batch's number; goes on over restarts.
    pub last_batch: u64,
    /// Why the last batch failed, if it did.
    pub last_error: Option<String>,
    /// Whether its places and tables are in memory.
    pub is_resident: bool,
    /// What the feed takes in memory.
    pub resident_bytes: u64,
    /// How large the file is that its places and tables were put into last; 0 for none.
    pub cold_bytes: u64,
    /// The spool's counters: group sizes, times of fdatasync. `None` without a data directory.
    pub spool: Option<JournalStats>,
}
