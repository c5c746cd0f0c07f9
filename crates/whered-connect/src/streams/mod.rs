//! Takes uploads from somebody else's log of messages into a feed, each exactly once.
//!
//! For: a thread that reads a source in order and pushes what it reads; Redis Streams are the first
//! source (`redis`), and [`UploadSource`] is what another one (JetStream, Kafka) would implement.
//! Not for: acknowledging to the source, grouping several readers, or knowing what uploads mean.
//!
//! ```text
//!  source ── entries, in order ──> joined or single uploads ── push(bytes, position) ──> spool
//!     ^                                                                                    │
//!     └──────────── after a crash of either side: go on after ── position of the newest ───┘
//! ```
//!
//! Invariants:
//!
//! - An upload and the position behind it become durable together, in the feed's spool. Whatever
//!   was not durable when we crashed is read again; whatever was is not.
//! - Entries are pushed in the source's order; the next ones are read when these are durable.
//! - A full spool holds the reader up; the source is the backlog then.
//! - An entry that can never be taken (too large, no upload of this format, without its field) is
//!   passed over, counted and named. Entries that are gone before they were read are told of.
//!
//! At once: one thread and one connection a source. Cost: one round trip and one durable group for
//! up to a thousand entries.

mod memory;
mod redis;
mod status;

use std::time::Duration;

use crate::error::ConnectError;
use crate::stop::Stop;

pub use memory::StreamMemory;
pub use redis::RedisStream;
pub use status::{StreamState, StreamStatus};

/// The waits after faults: the first, and the longest.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));
/// How long a fetch waits for entries; a stop waits as long.
const FETCH_WAIT: Duration = Duration::from_millis(500);
/// The most that entries are joined into.
const JOINED_BYTES_MAX: usize = 1 << 20;
/// How often waiting for room in the spool looks whether it is told to stop.
const FULL_WAIT_MAX: Duration = Duration::from_secs(1);

/// One message of a source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// What the source goes on after.
    pub position: Vec<u8>,
    /// Its name in messages.
    pub name: String,
    /// The upload, or why there is none.
    pub bytes: Result<Vec<u8>, String>,
}

/// What a source gave.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FetchResult {
    /// In the source's order; none if none came in time.
    pub entries: Vec<Entry>,
    /// What is missing in front of them, and how many at most, where that is known.
    pub gap: Option<(String, u64)>,
}

/// A log of messages with positions.
pub trait UploadSource {
    /// What it is called in the feed's journal: the same over restarts.
    fn name(&self) -> &str;

    /// Connects; entries after this position are wanted, or all that the configuration says.
    ///
    /// # Errors
    ///
    /// One line: why it cannot be reached.
    fn open(&mut self, after: Option<&[u8]>) -> Result<(), ConnectError>;

    /// The position that [`UploadSource::open`] has found to begin at: to be remembered until an
    /// upload is durable. `None`: the beginning is the same each time.
    fn begins_at(&self) -> Option<Vec<u8>> {
        None
    }

    /// The next entries; waits for some, not much longer than asked.
    ///
    /// # Errors
    ///
    /// One line; it is opened again then.
    fn fetch(&mut self, longest: Duration) -> Result<FetchResult, ConnectError>;
}

/// Why a feed does not take an upload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Its spool is full; it may take it later.
    Full(Duration),
    /// It never will: one line.
    Never(String),
    /// It takes nothing at present: one line.
    Failed(String),
}

/// A feed, as its sources see it.
pub trait Intake {
    /// What is waited for.
    type Ticket;

    /// The position behind the newest upload of this source, applied or spooled.
    fn position(&self, source: &str) -> Option<Vec<u8>>;

    /// Takes an upload with its position.
    ///
    /// # Errors
    ///
    /// [`Refusal`]; nothing of it is kept then.
    fn push(&self, source: &str, position: &[u8], bytes: &[u8]) -> Result<Self::Ticket, Refusal>;

    /// Waits until an upload is durable, and all before it are.
    ///
    /// # Errors
    ///
    /// One line: the spool has failed.
    fn wait(&self, ticket: Self::Ticket) -> Result<(), String>;
}

/// A source and the feed that it fills.
pub struct Consumer<'a, S, I> {
    source: S,
    intake: &'a I,
    /// Whether entries are lines that may be joined.
    joins: bool,
    memory: StreamMemory,
    stop: &'a Stop,
    report: &'a mut dyn FnMut(&StreamStatus),
    status: StreamStatus,
}

/// Why a connection's work ended.
enum End {
    Stopped,
    Fault(ConnectError),
}

impl From<ConnectError> for End {
    fn from(error: ConnectError) -> End {
        End::Fault(error)
    }
}

impl<'a, S: UploadSource, I: Intake> Consumer<'a, S, I> {
    /// A consumer that has not begun.
    pub fn new(
        source: S,
        intake: &'a I,
        joins: bool,
        stop: &'a Stop,
        report: &'a mut dyn FnMut(&StreamStatus),
    ) -> Consumer<'a, S, I> {
        let (memory, status) = (StreamMemory::default(), StreamStatus::default());
        Consumer { source, intake, joins, memory, stop, report, status }
    }

    /// A consumer that remembers over restarts where it began.
    #[must_use]
    pub fn with_memory(self, memory: StreamMemory) -> Consumer<'a, S, I> {
        Consumer { memory, ..self }
    }

    /// Takes entries until it is told to stop. Whatever goes wrong is reported and tried again,
    /// after a longer and longer wait.
    pub fn run(&mut self) {
        let mut wait = BACK_OFF.0;
        while !self.stop.is_stopped() {
            let entries = self.status.entries;
            let Err(End::Fault(error)) = self.follow() else { break };
            if self.status.entries > entries {
                wait = BACK_OFF.0;
            }
            self.status.state = StreamState::Waiting;
            self.status.error = Some(error.to_string());
            self.status.retry_in = wait;
            self.tell();
            self.stop.wait(wait);
            wait = BACK_OFF.1.min(wait * 2);
        }
        self.status.state = StreamState::Stopped;
        self.tell();
    }

    fn tell(&mut self) {
        (self.report)(&self.status);
    }

    /// One connection, from its first moment to its end.
    fn follow(&mut self) -> Result<(), End> {
        // What is not durable yet is read again: the feed knows, we do not.
        let after = self.intake.position(self.source.name());
        let after = after.or_else(|| self.memory.first().map(<[u8]>::to_vec));
        self.source.open(after.as_deref())?;
        if let (None, Some(first)) = (after, self.source.begins_at()) {
            self.memory.note(first)?;
        }
        self.status.state = StreamState::Connected;
        self.status.error = None;
        self.status.retry_in = Duration::ZERO;
        self.tell();
        while !self.stop.is_stopped() {
            let fetched = self.source.fetch(FETCH_WAIT)?;
            if let Some((what, count)) = &fetched.gap {
                self.status.missing += count;
                self.status.gap = Some(what.clone());
                self.tell();
            }
            if !fetched.entries.is_empty() {
                self.take(&fetched.entries)?;
                self.tell();
            }
        }
        Ok(())
    }

    /// Pushes entries in order and waits until the last is durable.
    fn take(&mut self, entries: &[Entry]) -> Result<(), End> {
        let mut ticket = None;
        let mut rest = entries;
        while let Some(first) = rest.first() {
            let count = if self.joins { joinable(rest) } else { 1 };
            let (together, behind) = rest.split_at(count);
            rest = behind;
            if count > 1 {
                let position = &together[count - 1].position;
                match self.push(position, &joined(together))? {
                    Ok(taken) => {
                        ticket = Some(taken);
                        self.status.uploads += 1;
                        continue;
                    }
                    Err(_) => {
                        // One of them spoils the others: each for itself.
                        for entry in together {
                            ticket = self.take_one(entry)?.or(ticket);
                        }
                    }
                }
            } else {
                ticket = self.take_one(first)?.or(ticket);
            }
        }
        if let Some(ticket) = ticket {
            let name = self.source.name();
            let failed = |why: String| ConnectError::new(format!("{name}: {why}"));
            self.intake.wait(ticket).map_err(failed)?;
        }
        self.status.entries += entries.len() as u64;
        Ok(())
    }

    fn take_one(&mut self, entry: &Entry) -> Result<Option<I::Ticket>, End> {
        let pushed = match &entry.bytes {
            Ok(bytes) => self.push(&entry.position, bytes)?,
            Err(why) => Err(why.clone()),
        };
        match pushed {
            Ok(ticket) => {
                self.status.uploads += 1;
                Ok(Some(ticket))
            }
            Err(why) => {
                self.status.passed_over += 1;
                self.status.passed_over_why = Some(format!("{}: {why}", entry.name));
                Ok(None)
            }
        }
    }

    /// Pushes an upload, waiting for room as long as it takes. The inner error is for ever.
    fn push(&mut self, position: &[u8], bytes: &[u8]) -> Result<Result<I::Ticket, String>, End> {
        loop {
            match self.intake.push(self.source.name(), position, bytes) {
                Ok(ticket) => return Ok(Ok(ticket)),
                Err(Refusal::Never(why)) => return Ok(Err(why)),
                Err(Refusal::Failed(why)) => {
                    let name = self.source.name();
                    return Err(ConnectError::new(format!("{name}: {why}")).into());
                }
                Err(Refusal::Full(retry_after)) => {
                    if self.status.state != StreamState::Held {
                        self.status.state = StreamState::Held;
                        self.tell();
                    }
                    if self.stop.wait(retry_after.min(FULL_WAIT_MAX)) {
                        return Err(End::Stopped);
                    }
                    self.status.state = StreamState::Connected;
                }
            }
        }
    }
}

/// How many entries in front may be one upload; at least one.
fn joinable(entries: &[Entry]) -> usize {
    let mut size_bytes = 0;
    let fitting = entries.iter().take_while(|entry| {
        let Ok(bytes) = &entry.bytes else { return false };
        size_bytes += bytes.len() + 1;
        size_bytes <= JOINED_BYTES_MAX && !is_packed(bytes)
    });
    fitting.count().max(1)
}

/// Entries, each ended by a line end.
fn joined(entries: &[Entry]) -> Vec<u8> {
    let mut joined = Vec::new();
    for bytes in entries.iter().filter_map(|entry| entry.bytes.as_ref().ok()) {
        joined.extend_from_slice(bytes);
        if !bytes.ends_with(b"\n") {
            joined.push(b'\n');
        }
    }
    joined
}

/// Whether bytes begin as gzip or Zstandard do.
fn is_packed(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b]) || bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
}

#[cfg(test)]
#[path = "streams_tests.rs"]
mod tests;
