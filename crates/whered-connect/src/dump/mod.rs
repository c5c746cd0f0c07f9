//! Writes the sorted sets and strings of a dump (RDB) into a running server.
//!
//! For: `whered import rdb`, from a file, or from a running server as its replicas get it. Not for:
//! other types, which are counted as skipped, and not for a server that gives no dump (`copy`).
//!
//! ```text
//! file ─> unpacked ─┬─> rdb ─> key: EXISTS, members: ZADD of 100, PEXPIREAT; string: SET
//! server ─> PSYNC ──┘
//! ```
//!
//! Invariants: a key that is counted as written is whole in the target, its expiry too. One that
//! the target refuses in the middle, or that the dump breaks off in, is removed again. A key of the
//! target is written only if it was not there, or was to be replaced.
//!
//! Cost: one pass; memory: the longest string, and two windows of commands. A window is on its way
//! while the next one is read.

mod tally;

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use redis::Value;
use whered_replication::rdb::{Event, Key, Limits, Reader};
use whered_replication::{Connection, Introduction, Patience};

pub use tally::{DumpTally, RefusedKey};
pub use whered_replication::rdb::Kind;

use crate::error::ConnectError;
use crate::unpack::{Stream, unpacked};
use crate::{Progress, Server, ServerAddress};

/// Members of one command.
const COMMAND_MEMBERS: usize = 100;
/// How much is sent at once, more or less.
const WINDOW_BYTES: usize = 256 << 10;

/// What is written, and how.
#[derive(Clone)]
pub struct DumpOptions {
    /// Where the dump comes from.
    pub source: DumpSource,
    /// Numbered databases of the dump, each into the same number; without any, all.
    pub databases: Vec<u64>,
    /// Delete a key of the target that has the name of one of the dump, instead of leaving both.
    pub replace: bool,
}

/// Where a dump comes from.
#[derive(Clone)]
pub enum DumpSource {
    /// A file, plain or packed; `-` for standard input.
    File(PathBuf),
    /// A running server, which makes one.
    Server(ServerAddress),
}

/// Why a key is not gone on with.
enum Stop {
    /// The target refuses it, in its own words: the other keys go on.
    Refused(String),
    /// Nothing goes on.
    Failed(ConnectError),
}

impl From<ConnectError> for Stop {
    fn from(error: ConnectError) -> Stop {
        match error.is_refusal() {
            true => Stop::Refused(error.to_string()),
            false => Stop::Failed(error),
        }
    }
}

/// Writes the keys that `is_wanted`. What was done is in `tally` at every moment, also after an
/// error.
///
/// # Errors
///
/// A file that cannot be read, that is no dump, or that is damaged, with its byte; a connection
/// that ends. Keys that the target refuses are no errors: they are in `tally`.
pub fn load(
    server: &mut Server,
    options: &DumpOptions,
    is_wanted: &dyn Fn(&[u8]) -> bool,
    tally: &DumpTally,
    watch: &mut dyn FnMut(Progress),
) -> Result<(), ConnectError> {
    let mut writer = Writer::new(server, options, is_wanted, tally);
    match &options.source {
        DumpSource::File(path) => {
            let name = path.display().to_string();
            let fail = |error: &dyn Display| ConnectError::new(format!("{name}: {error}"));
            let read_bytes = Arc::new(AtomicU64::new(0));
            let (stream, total) = open(path).map_err(|error| fail(&error))?;
            let opened = unpacked(stream, Arc::clone(&read_bytes));
            let (stream, _) = opened.map_err(|error| fail(&error))?;
            let mut watch = |_: u64, records: u64| {
                let done = read_bytes.load(Ordering::Relaxed);
                watch(Progress { done, total, records });
            };
            let reader = writer.take_all(stream, &fail, &mut watch)?;
            nothing_follows(reader).map_err(|error| fail(&error))
        }
        DumpSource::Server(address) => {
            let mut primary = Connection::open(&address.primary()?, Patience::default())?;
            let name = primary.name().to_owned();
            if name == writer.server.name() {
                return Err(ConnectError::new(format!("{name}: is the target itself")));
            }
            primary
                .introduce(&Introduction { wants_dump_only: true, ..Introduction::default() })?;
            primary.synchronize(None)?;
            let dump = primary.dump()?;
            let total = dump.stated_bytes();
            let fail = |error: &dyn Display| ConnectError::new(format!("{name}: {error}"));
            let mut watch = |done: u64, records: u64| watch(Progress { done, total, records });
            let reader = writer.take_all(dump, &fail, &mut watch)?;
            let (dump, rest) = reader.into_parts();
            Ok(dump.finish(&rest)?)
        }
    }
}

/// The file, and its size.
fn open(path: &Path) -> io::Result<(Stream, Option<u64>)> {
    if path == Path::new("-") {
        return Ok((Box::new(io::stdin()), None));
    }
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    Ok((Box::new(file), Some(metadata.len())))
}

/// Two dumps in one file are no dump: which of them would count?
fn nothing_follows(reader: Reader<Stream>) -> Result<(), TailFault> {
    let at = reader.offset();
    let (mut stream, rest) = reader.into_parts();
    let mut next = [0];
    let follows = !rest.is_empty() || stream.read(&mut next).map_err(TailFault::Input)? > 0;
    if follows { Err(TailFault::Follows(at)) } else { Ok(()) }
}

/// What is wrong behind a dump.
enum TailFault {
    Input(io::Error),
    Follows(u64),
}

impl std::fmt::Display for TailFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TailFault::Input(error) => error.fmt(f),
            TailFault::Follows(at) => write!(f, "byte {at}: bytes follow the dump's end"),
        }
    }
}

/// The key that is being written.
struct OpenKey {
    database: u64,
    name: Vec<u8>,
    expires_at_millis: Option<i64>,
    members: u64,
    added: u64,
}

/// Takes events and writes keys.
struct Writer<'a> {
    server: &'a mut Server,
    options: &'a DumpOptions,
    is_wanted: &'a dyn Fn(&[u8]) -> bool,
    tally: &'a DumpTally,
    /// None while members are passed over.
    open: Option<OpenKey>,
    command: Option<redis::Cmd>,
    command_members: usize,
    window: Vec<u8>,
    window_commands: usize,
    /// Replies that were not received yet.
    pending: usize,
    has_flushed: bool,
}

impl<'a> Writer<'a> {
    fn new(
        server: &'a mut Server,
        options: &'a DumpOptions,
        is_wanted: &'a dyn Fn(&[u8]) -> bool,
        tally: &'a DumpTally,
    ) -> Writer<'a> {
        Writer {
            server,
            options,
            is_wanted,
            tally,
            open: None,
            command: None,
            command_members: 0,
            window: Vec::new(),
            window_commands: 0,
            pending: 0,
            has_flushed: true,
        }
    }

    /// Takes a whole dump, and gives what comes behind it.
    fn take_all<R: Read>(
        &mut self,
        input: R,
        fail: &dyn Fn(&dyn Display) -> ConnectError,
        watch: &mut dyn FnMut(u64, u64),
    ) -> Result<Reader<R>, ConnectError> {
        let mut reader = Reader::new(input, Limits::default()).map_err(|error| fail(&error))?;
        loop {
            match reader.next_event() {
                Ok(Some(event)) => self.take(event)?,
                Ok(None) => return Ok(reader),
                Err(error) => {
                    // Nothing of a key stays that is not whole.
                    self.remove()?;
                    return Err(fail(&error));
                }
            }
            if std::mem::take(&mut self.has_flushed) {
                watch(reader.offset(), self.tally.written_keys());
            }
        }
    }

    fn take(&mut self, event: Event<'_>) -> Result<(), ConnectError> {
        let taken = match event {
            Event::Note { .. } => Ok(()),
            Event::SlotImport { .. } => {
                return Err(ConnectError::new(
                    "the dump is of a Valkey that was taking over slots, with keys that nobody saw \
                     there yet; allowed: a dump from before or after CLUSTER MIGRATESLOTS",
                ));
            }
            Event::Skipped { key, kind } => {
                if self.is_selected(key) {
                    self.tally.skip(kind);
                }
                Ok(())
            }
            Event::Text { key, value } => self.text(key, value),
            Event::SortedSet { key, .. } => self.begin(key),
            Event::Member { member, score } => self.member(member, score),
            Event::SortedSetEnd => self.end(),
        };
        match taken {
            Ok(()) => Ok(()),
            Err(Stop::Failed(error)) => Err(error),
            Err(Stop::Refused(why)) => self.refuse(why),
        }
    }

    /// Whether a key is among those that were asked for; counts it otherwise.
    fn is_selected(&self, key: Key<'_>) -> bool {
        let databases = &self.options.databases;
        let is_selected = (databases.is_empty() || databases.contains(&key.database))
            && (self.is_wanted)(key.name);
        if !is_selected {
            self.tally.leave_out();
        }
        is_selected
    }

    /// Makes the key the one that is written, unless it is not wanted, over or there.
    fn open(&mut self, key: Key<'_>) -> Result<bool, Stop> {
        self.open = None;
        if !self.is_selected(key) {
            return Ok(false);
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis());
        if key.expires_at_millis.is_some_and(|at| i128::from(at) <= now as i128) {
            self.tally.expire();
            return Ok(false);
        }
        let name = key.name.to_vec();
        let expires_at_millis = key.expires_at_millis;
        let open =
            OpenKey { database: key.database, name, expires_at_millis, members: 0, added: 0 };
        let number = i64::try_from(key.database).unwrap_or(i64::MAX);
        if let Err(error) = self.server.select(number) {
            let stop = Stop::from(error);
            if let Stop::Refused(why) = stop {
                self.tally.refuse(key.database, key.name, why);
                return Ok(false);
            }
            return Err(stop);
        }
        let exists: u64 = self.server.query(redis::cmd("EXISTS").arg(key.name))?;
        if exists > 0 && !self.options.replace {
            let why = "the target has such a key; --replace".to_owned();
            self.tally.refuse(key.database, key.name, why);
            return Ok(false);
        }
        if exists > 0 {
            self.server.query::<Value>(redis::cmd("DEL").arg(key.name))?;
        }
        self.tally.begin(key.database, key.name);
        self.open = Some(open);
        Ok(true)
    }

    fn text(&mut self, key: Key<'_>, value: &[u8]) -> Result<(), Stop> {
        if !self.open(key)? {
            return Ok(());
        }
        let mut set = redis::cmd("SET");
        set.arg(key.name).arg(value);
        if let Some(at) = key.expires_at_millis {
            set.arg("PXAT").arg(at);
        }
        self.server.query::<Value>(&set)?;
        self.open = None;
        self.tally.finish_text();
        self.has_flushed = true;
        Ok(())
    }

    fn begin(&mut self, key: Key<'_>) -> Result<(), Stop> {
        self.open(key).map(drop)
    }

    fn member(&mut self, member: &[u8], score: f64) -> Result<(), Stop> {
        let Some(open) = &mut self.open else { return Ok(()) };
        open.members += 1;
        let command = self.command.get_or_insert_with(|| {
            let mut command = redis::cmd("ZADD");
            command.arg(&open.name);
            command
        });
        // The text that reads as the same number again.
        command.arg(format!("{score:?}")).arg(member);
        self.command_members += 1;
        if self.command_members == COMMAND_MEMBERS || member.len() > WINDOW_BYTES {
            self.end_command();
        }
        if self.window.len() >= WINDOW_BYTES { self.flush() } else { Ok(()) }
    }

    fn end_command(&mut self) {
        if let Some(command) = self.command.take() {
            command.write_packed_command(&mut self.window);
            self.window_commands += 1;
            self.command_members = 0;
        }
    }

    /// Sends the window after the replies to the one before.
    fn flush(&mut self) -> Result<(), Stop> {
        self.receive()?;
        self.server.send(&self.window)?;
        self.pending = self.window_commands;
        self.window.clear();
        self.window_commands = 0;
        self.has_flushed = true;
        Ok(())
    }

    /// Takes all replies; the first refusal is the error, after all of them.
    fn receive(&mut self) -> Result<(), Stop> {
        let mut received = Ok(());
        while self.pending > 0 {
            match self.server.receive() {
                Ok(Value::Int(added)) => {
                    if let Some(open) = &mut self.open {
                        open.added += added.unsigned_abs();
                    }
                }
                Ok(_) => {}
                Err(error) if error.is_refusal() => {
                    received = received.and(Err(Stop::from(error)));
                }
                Err(error) => return Err(Stop::Failed(error)),
            }
            self.pending -= 1;
        }
        received
    }

    fn end(&mut self) -> Result<(), Stop> {
        if self.open.is_none() {
            return Ok(());
        }
        self.end_command();
        self.flush()?;
        self.receive()?;
        let Some(open) = &self.open else { return Ok(()) };
        if open.added != open.members {
            let twice = open.members - open.added.min(open.members);
            return Err(Stop::Refused(format!(
                "{twice} members come twice in the dump, or somebody else writes the key"
            )));
        }
        if let Some(at) = open.expires_at_millis.filter(|_| open.members > 0) {
            let mut expire = redis::cmd("PEXPIREAT");
            self.server.query::<Value>(expire.arg(&open.name).arg(at))?;
        }
        self.tally.finish_sorted_set(open.members);
        self.open = None;
        Ok(())
    }

    /// Removes what is there of the key, and passes over the rest of it.
    fn refuse(&mut self, why: String) -> Result<(), ConnectError> {
        if let Some((database, name)) = self.remove()? {
            self.tally.refuse(database, &name, why);
        }
        Ok(())
    }

    /// Removes what is there of the key.
    fn remove(&mut self) -> Result<Option<(u64, Vec<u8>)>, ConnectError> {
        self.command = None;
        self.command_members = 0;
        self.window.clear();
        self.window_commands = 0;
        if let Err(Stop::Failed(error)) = self.receive() {
            return Err(error);
        }
        let Some(open) = self.open.take() else { return Ok(None) };
        let removed = self.server.query::<Value>(redis::cmd("DEL").arg(&open.name));
        removed.map(drop).or_else(ConnectError::unless_refusal)?;
        self.tally.abandon();
        Ok(Some((open.database, open.name)))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_score_is_written_as_text_that_reads_as_the_same_number() {
        for score in [0.1, 1.0 / 3.0, 5e-324, f64::MAX, f64::INFINITY, -0.0, 3479099956230698.0] {
            let text = format!("{score:?}");
            assert_eq!(text.parse::<f64>().unwrap().to_bits(), score.to_bits(), "{text}");
        }
    }
}
