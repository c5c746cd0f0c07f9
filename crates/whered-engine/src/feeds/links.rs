//! A board on which what is tied to a feed (sinks, streams) says how it goes.
//!
//! For: doors that show it. Not for: doing anything about it. Cost: a short lock.

/// How a sink or a stream of a feed goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkStatus {
    /// Its name, which no other link of the feed has.
    pub name: String,
    /// What it is: "sink" or "stream".
    pub kind: String,
    /// What it does: "connected", "waiting", "adopting".
    pub state: String,
    /// What went wrong last, until it goes right again.
    pub error: Option<String>,
    /// The batch that it has reached.
    pub batch: u64,
    /// Rows, or entries of a stream, handed over since the start.
    pub rows: u64,
    /// Rows that the other side refused.
    pub left_out: u64,
    /// Entries of a stream that were gone before they were read, at most, since the start.
    pub missing: u64,
    /// When it tries again.
    pub retry_in_millis: u64,
}
