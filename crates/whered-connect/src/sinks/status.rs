//! What a sink tells of itself.
//!
//! Not for: logs and listeners; the caller that runs the sink passes the status on.

use std::time::Duration;

/// Where a sink stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SinkState {
    /// It has not reached its server yet.
    #[default]
    Starting,
    /// It takes rows over from its server.
    Adopting,
    /// It hands batches on as they come.
    Connected,
    /// Something is wrong, and it waits before it tries again.
    Waiting,
    /// It was told to stop.
    Stopped,
}

impl SinkState {
    /// One word.
    pub fn name(self) -> &'static str {
        match self {
            SinkState::Starting => "starting",
            SinkState::Adopting => "adopting",
            SinkState::Connected => "connected",
            SinkState::Waiting => "waiting",
            SinkState::Stopped => "stopped",
        }
    }
}

/// What a sink tells of itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SinkStatus {
    /// Where it stands.
    pub state: SinkState,
    /// What is wrong while it waits: one line.
    pub error: Option<String>,
    /// How long it waits then.
    pub retry_in: Duration,
    /// The newest batch that the server has.
    pub batch: u64,
    /// Rows that were handed on, a row counted each time.
    pub rows: u64,
    /// Transactions that were committed.
    pub transactions: u64,
    /// Rows that were taken over on the first run.
    pub adopted: u64,
    /// Rows that the server's table cannot hold, a row counted each time.
    pub left_out: u64,
    /// Why the last of those was left out.
    pub left_out_why: Option<String>,
}

impl SinkStatus {
    pub(crate) fn leave_out(&mut self, why: String) {
        self.left_out += 1;
        self.left_out_why = Some(why);
    }
}
