//! One connection: bytes in, commands, bytes out.
//!
//! For: the input and output buffers, partial reads and writes; the reply of a write leaves only
//! when the write is durable, and later replies wait behind it (`holds`).
//! Not for: which connection has its turn (`worker`), what a request is (`protocol`).
//!
//! ```text
//! input   ░░░░░░░│GEOADD ...│GEOPOS ...│GEOA       ░ used up, the rest waits for its end
//!              start                      end
//!
//! output  ░░░░░│:1\r\n│$3\r\nabc\r\n│:1\r\n│       ░ sent
//!            sent     ╰ held A      ╰ held B       A is not durable: nothing from A on is sent
//! ```
//!
//! Invariants:
//! - replies leave in the order of their requests;
//! - one turn reads once, executes a bounded number of commands and writes once;
//! - nothing is read while whole requests wait to be executed, so a long pipeline waits in the
//!   kernel and the input holds little more than one unfinished request;
//! - reading pauses while the output is large, and the connection is closed when it is larger
//!   than the limit, or when it stands still for too long.
//!
//! Cost of a turn: at most one read and one write, and what the commands cost.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use whered_engine::{Durability, Ticket};

use super::commands;
use super::holds::Holds;
use super::protocol::{Parsed, Parser, ProtocolError};
use super::reply::{Failure, Reply, append_error};
use super::session::{ReplyMode, Session, Shared};

/// The most commands of one connection in one turn.
const COMMANDS_PER_TURN: usize = 1024;
/// After so many bytes of new replies a turn ends.
const OUTPUT_PER_TURN_BYTES: usize = 256 * 1024;
/// What one turn reads at least, when there is so much.
const READ_BYTES: usize = 16 * 1024;
/// The most that one turn reads.
const READ_LIMIT_BYTES: usize = 1024 * 1024;
/// Buffers that have grown beyond this are given back when they are empty.
const KEPT_BYTES: usize = 64 * 1024;
/// How long a connection may stand still with replies that it does not take.
const STALL_LIMIT: Duration = Duration::from_secs(60);

/// What a connection wants after its turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// There is more to do at once.
    Again,
    /// Something must happen first: readiness, or durability.
    Wait,
    /// It is over.
    Close,
}

/// One client's connection.
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    /// Whether the worker has it in its queue.
    pub(crate) queued: bool,
    /// Whether the worker has it among those with held replies.
    pub(crate) listed: bool,
    session: Session,
    parser: Parser,
    input: Input,
    reply: Reply,
    sent: usize,
    holds: Holds<Ticket>,
    readable: bool,
    writable: bool,
    /// The client has sent its last byte, or will get no further.
    hung_up: bool,
    /// The last turn ended before the requests in the input did.
    behind: bool,
    /// No byte is read any more: the server stops.
    draining: bool,
    standing_since: Option<Instant>,
}

impl Connection {
    /// A connection that was just accepted.
    ///
    /// # Errors
    /// The socket is dead already.
    pub(crate) fn new(stream: TcpStream, shared: &Arc<Shared>) -> io::Result<Connection> {
        let client = shared.register(stream.peer_addr()?, stream.local_addr()?);
        Ok(Connection {
            stream,
            queued: false,
            listed: false,
            session: Session::new(shared, client),
            parser: Parser::default(),
            input: Input::default(),
            reply: Reply::new(),
            sent: 0,
            holds: Holds::new(),
            readable: true,
            writable: true,
            hung_up: false,
            behind: false,
            draining: false,
            standing_since: None,
        })
    }

    /// Notes what the operating system has reported.
    pub(crate) fn mark(&mut self, readable: bool, writable: bool, hung_up: bool) {
        self.readable |= readable;
        self.writable |= writable;
        self.hung_up |= hung_up;
    }

    /// Reads no more; what was read is answered.
    pub(crate) fn drain(&mut self) {
        self.draining = true;
    }

    /// Whether replies wait for durability.
    pub(crate) fn is_holding(&self) -> bool {
        !self.holds.is_empty()
    }

    /// Whether the oldest held reply may go, one way or the other.
    pub(crate) fn is_released(&self) -> bool {
        let engine = self.session.engine();
        let oldest = self.holds.oldest();
        oldest.is_some_and(|ticket| engine.durability(ticket) != Durability::Pending)
    }

    /// Whether it has stood still for too long.
    pub(crate) fn is_stalled(&self, now: Instant) -> bool {
        self.standing_since.is_some_and(|since| now.duration_since(since) > STALL_LIMIT)
    }

    /// One turn.
    pub(crate) fn turn(&mut self) -> Next {
        self.release();
        let Ok(()) = self.read() else {
            return Next::Close;
        };
        let progress = self.execute();
        self.behind = progress == Progress::More;
        self.release();
        self.reply.refill(self.sent + OUTPUT_PER_TURN_BYTES);
        if self.reply.out.len() - self.sent > self.limit() {
            let counters = &self.session.shared.counters;
            counters.output_limit_closed.fetch_add(1, Ordering::Relaxed);
            return Next::Close;
        }
        if self.write().is_err() {
            return Next::Close;
        }
        self.next(progress)
    }

    fn next(&mut self, progress: Progress) -> Next {
        let sendable = self.sendable_end() > self.sent;
        self.standing_since = match self.standing_since {
            since @ Some(_) if sendable => since,
            _ => (sendable && !self.writable).then(Instant::now),
        };
        let is_last = self.session.closing || (self.draining && progress == Progress::Starved);
        if is_last && self.sent == self.reply.out.len() && self.reply.rest.is_none() {
            return Next::Close;
        }
        let can_read = self.readable && !self.draining && !self.session.closing;
        let can_go_on = match progress {
            Progress::More if self.reply.rest.is_some() => self.reply.out.len() == self.sent,
            Progress::More => !self.is_full(),
            Progress::Starved => can_read && !self.is_full(),
        };
        if can_go_on || (sendable && self.writable) { Next::Again } else { Next::Wait }
    }

    fn limit(&self) -> usize {
        self.session.shared.options.output_buffer_limit_bytes
    }

    /// Whether the client should read before it asks further.
    fn is_full(&self) -> bool {
        self.reply.out.len() - self.sent > self.limit() / 4
    }

    /// Reads once, if there is something and room for it.
    fn read(&mut self) -> Result<(), Closed> {
        let wanted = !self.behind && !self.draining && !self.session.closing;
        if !wanted || !self.readable || self.is_full() {
            return Ok(());
        }
        let shared = &self.session.shared;
        if self.input.len() > shared.options.query_buffer_limit_bytes {
            shared.counters.query_limit_closed.fetch_add(1, Ordering::Relaxed);
            return Err(Closed);
        }
        let room = self.input.room();
        let asked = room.len();
        match self.stream.read(room) {
            Ok(0) => {
                // The client may have closed one direction only, and still reads its replies.
                // What is left of the input is no whole request: otherwise nothing were read.
                self.readable = false;
                self.session.closing = true;
            }
            Ok(count) => {
                self.input.end += count;
                shared.counters.input_bytes.fetch_add(count as u64, Ordering::Relaxed);
                // A short read has emptied the socket; the next event comes with the next byte.
                self.readable = count == asked || self.hung_up;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.readable = false,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(Closed),
        }
        Ok(())
    }

    /// Executes the requests that have arrived, up to the limits of one turn.
    fn execute(&mut self) -> Progress {
        let start = self.reply.out.len();
        let mut count = 0;
        let mut progress = Progress::Starved;
        while !self.session.closing {
            let turn_is_over =
                count == COMMANDS_PER_TURN || self.reply.out.len() - start > OUTPUT_PER_TURN_BYTES;
            if turn_is_over || self.is_full() || self.reply.rest.is_some() {
                progress = Progress::More;
                break;
            }
            self.look_ahead();
            let used = match self.parser.next(self.input.filled(), self.session.authenticated) {
                Ok(Parsed::Incomplete) => break,
                Ok(Parsed::Nothing(used)) => used,
                Ok(Parsed::Request(args, used)) => {
                    let from = self.reply.out.len();
                    let mode = self.session.replies;
                    commands::execute(&mut self.session, args, &mut self.reply);
                    self.finish_command(from, mode);
                    used
                }
                Err(error) => {
                    self.refuse(&error);
                    break;
                }
            };
            self.input.start += used;
            count += 1;
        }
        self.parser.forget_ahead();
        if count > 0 {
            let shared = &self.session.shared;
            shared.counters.commands.fetch_add(count as u64, Ordering::Relaxed);
            self.session.client.note(self.session.command);
        }
        self.input.tidy();
        if self.input.len() == 0 {
            self.parser.shrink();
        }
        progress
    }

    /// Finds the next requests of a pipeline, so that their data are fetched together.
    fn look_ahead(&mut self) {
        // Strangers have smaller limits, which the parser checks.
        if self.session.authenticated && self.parser.is_used_up() {
            let requests = self.parser.look_ahead(self.input.filled());
            if requests.len() > 1 {
                commands::warm(&self.session, requests);
            }
        }
    }

    /// Drops the reply of a command whose reply is not wanted, and holds the reply of a write, or
    /// its place, so that nothing behind it leaves earlier than the write is durable.
    fn finish_command(&mut self, from: usize, mode_before: ReplyMode) {
        let ticket = self.reply.take_ticket();
        let mode = self.session.replies;
        let skipped = mode_before == ReplyMode::SkipNext && mode == ReplyMode::SkipNext;
        if skipped {
            self.session.replies = ReplyMode::On;
        }
        if skipped || mode == ReplyMode::Off {
            self.reply.out.truncate(from);
            self.reply.rest = None;
        }
        if ticket == Ticket::NONE || self.session.engine().durability(ticket) == Durability::Durable
        {
            return;
        }
        self.holds.hold(from, self.reply.out.len(), ticket);
    }

    /// Answers input that is no request, and closes.
    fn refuse(&mut self, error: &ProtocolError) {
        self.reply.error(&Failure::made(format!("ERR {}", error.0)));
        self.session.closing = true;
    }

    /// Lets held replies go whose writes are durable; those whose writes are lost become errors.
    fn release(&mut self) {
        let engine = self.session.engine();
        self.holds.release(
            &mut self.reply.out,
            |ticket| engine.durability(ticket),
            |out| {
                let reason = engine.journal_poisoned();
                let reason = reason.unwrap_or_else(|| "it is closed".to_owned());
                let text = format!(
                    "MISCONF the journal has failed: {reason}; this write may be lost, reads go on"
                );
                append_error(out, text.as_bytes());
            },
        );
    }

    /// Where the sendable part of the output ends.
    fn sendable_end(&self) -> usize {
        self.holds.sendable_end(self.reply.out.len())
    }

    /// Writes once, as much as may be sent.
    fn write(&mut self) -> Result<(), Closed> {
        let end = self.sendable_end();
        if self.sent == end || !self.writable {
            return Ok(());
        }
        match self.stream.write(&self.reply.out[self.sent..end]) {
            Ok(0) => return Err(Closed),
            Ok(count) => {
                let counters = &self.session.shared.counters;
                counters.output_bytes.fetch_add(count as u64, Ordering::Relaxed);
                self.writable = self.sent + count == end;
                self.sent += count;
                self.standing_since = None;
                self.drop_sent();
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable = false,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(Closed),
        }
        Ok(())
    }

    fn drop_sent(&mut self) {
        let out = &mut self.reply.out;
        if self.sent == out.len() {
            out.clear();
            if out.capacity() > KEPT_BYTES {
                *out = Vec::new();
            }
        } else if self.sent > out.len() / 2 {
            out.drain(..self.sent);
        } else {
            return;
        }
        self.holds.dropped(self.sent);
        self.sent = 0;
    }
}

/// The connection cannot go on.
struct Closed;

/// Whether requests are left that have arrived.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// The turn ended before the input did.
    More,
    /// The input holds no complete request, or the connection closes.
    Starved,
}

/// Bytes received and not used up: `bytes[start..end]`. What lies behind is initialised room.
#[derive(Default)]
struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    fn filled(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    fn len(&self) -> usize {
        self.end - self.start
    }

    /// Room for one read. It grows with what has arrived, never with what was announced.
    fn room(&mut self) -> &mut [u8] {
        let wanted = self.len().clamp(READ_BYTES, READ_LIMIT_BYTES);
        if self.bytes.len() - self.end < READ_BYTES {
            self.bytes.resize(self.end + wanted, 0);
        }
        let end = self.bytes.len().min(self.end + READ_LIMIT_BYTES);
        &mut self.bytes[self.end..end]
    }

    /// Drops what is used up, once it is more than what is left.
    fn tidy(&mut self) {
        let left = self.len();
        if left == 0 {
            if self.bytes.len() > KEPT_BYTES {
                self.bytes = Vec::new();
            }
        } else if self.start > left {
            self.bytes.copy_within(self.start..self.end, 0);
        } else {
            return;
        }
        self.start = 0;
        self.end = left;
    }
}
