//! How a journal is to behave, and what it says about itself.
//!
//! Not for: what the knobs do; `journal/thread.rs` and `journal/intake.rs` say it where it is done.

use std::fmt;
use std::time::Duration;

use crate::histogram::Histogram;

/// When written entries are forced to stable storage, under the names that Redis users know.
///
/// ```
/// use whered_store::SyncPolicy;
/// assert_eq!(SyncPolicy::from_name("everysec"), Some(SyncPolicy::EverySecond));
/// assert_eq!(SyncPolicy::Always.to_string(), "always");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncPolicy {
    /// `always`: an entry counts as durable only after a sync that covers it. Nothing that was
    /// acknowledged is lost, whatever happens to the machine.
    #[default]
    Always,
    /// `everysec`: acknowledged at once, written at once, synced each second. A crash of the
    /// process loses what was not yet handed to the system, one of the machine about a second.
    EverySecond,
    /// `off`: acknowledged at once, written at once, synced only at the end of a segment and on
    /// close. A crash of the machine loses what the system had not written by itself.
    Off,
}

impl SyncPolicy {
    /// All policies, the safest first.
    pub const ALL: [SyncPolicy; 3] = [SyncPolicy::Always, SyncPolicy::EverySecond, SyncPolicy::Off];

    /// The policy with this name in the configuration.
    #[must_use]
    pub fn from_name(name: &str) -> Option<SyncPolicy> {
        SyncPolicy::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// The name in the configuration: `always`, `everysec` or `off`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            SyncPolicy::Always => "always",
            SyncPolicy::EverySecond => "everysec",
            SyncPolicy::Off => "off",
        }
    }
}

impl fmt::Display for SyncPolicy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// How a journal is to behave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalOptions {
    /// When entries are synced.
    pub sync: SyncPolicy,
    /// The size of a new segment, allocated when it is made; held between 8 KiB and 2 GiB. A
    /// reservation that is larger gets a segment of its own size.
    pub segment_size_bytes: u64,
    /// The size of the first segment of a journal, if that is less. Each later one has twice the
    /// size of the one before it, up to `segment_size_bytes`: a journal that is not used takes
    /// little of the disk.
    pub first_segment_size_bytes: u64,
    /// How much may wait in memory for the disk before `reserve` waits.
    pub group_size_bytes_max: usize,
    /// How long a group may wait for more before it is written. Zero, the default: a group grows
    /// only while the one before it is on its way.
    pub group_delay_max: Duration,
    /// How long a refusal for lack of space is repeated without asking the system again.
    pub full_retry_interval: Duration,
}

impl Default for JournalOptions {
    fn default() -> JournalOptions {
        JournalOptions {
            sync: SyncPolicy::Always,
            segment_size_bytes: 64 << 20,
            first_segment_size_bytes: 256 << 10,
            group_size_bytes_max: 16 << 20,
            group_delay_max: Duration::ZERO,
            full_retry_interval: Duration::from_millis(250),
        }
    }
}

/// Statistics of a journal since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalStats {
    /// Groups written.
    pub groups: u64,
    /// Entries written.
    pub frames: u64,
    /// Bytes written, with frames and marks.
    pub bytes: u64,
    /// Syncs of groups done.
    pub syncs: u64,
    /// How long all of them took together.
    pub sync_nanoseconds: u64,
    /// How long the last sync took.
    pub last_sync_nanoseconds: u64,
    /// How long the longest took.
    pub maximum_sync_nanoseconds: u64,
    /// How long syncs took, in microseconds.
    pub sync_micros: Histogram,
    /// How many entries groups had.
    pub group_frames: Histogram,
    /// Segments that are there, the one being written included.
    pub segments: usize,
    /// The groups that wait for the disk, and their buffers.
    pub memory_bytes: usize,
    /// The error after which no writes are taken.
    pub poisoned: Option<String>,
}
