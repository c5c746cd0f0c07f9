//! What a consumer tells of itself.
//!
//! Not for: logs and listeners; the caller that runs the consumer passes the status on.

use std::time::Duration;

/// Where a consumer stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum StreamState {
    /// It has not reached its source yet.
    #[default]
    Starting,
    /// It takes entries as they come.
    Connected,
    /// The feed's spool is full, and it waits for room.
    Held,
    /// Something is wrong, and it waits before it tries again.
    Waiting,
    /// It was told to stop.
    Stopped,
}

impl StreamState {
    /// One word.
    pub fn name(self) -> &'static str {
        match self {
            StreamState::Starting => "starting",
            StreamState::Connected => "connected",
            StreamState::Held => "held",
            StreamState::Waiting => "waiting",
            StreamState::Stopped => "stopped",
        }
    }
}

/// What a consumer tells of itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StreamStatus {
    /// Where it stands.
    pub state: StreamState,
    /// What is wrong while it waits: one line.
    pub error: Option<String>,
    /// How long it waits then.
    pub retry_in: Duration,
    /// Entries that were read and are durable, or passed over.
    pub entries: u64,
    /// Uploads that they became.
    pub uploads: u64,
    /// Entries that no feed can take.
    pub passed_over: u64,
    /// Why the last of those was passed over.
    pub passed_over_why: Option<String>,
    /// Entries that were gone before they were read, at most.
    pub missing: u64,
    /// What is known of the last of those gaps.
    pub gap: Option<String>,
}
