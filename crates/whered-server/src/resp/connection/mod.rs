//! One connection: bytes in, commands, bytes out.
//!
//! For: the output buffer, partial reads and writes, the limits of one client; the reply of a write
//! leaves only when the write is durable, and later replies wait behind it (`deferred_replies`).
//! Messages of channels come between replies, in the order in which they were published.
//! Not for: which connection has its time slice (`worker`), what a request is (`protocol`),
//! executing requests (`execute`), sending (`send`), what it may hold (`limits`).
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
//! - one time slice reads once, executes a bounded number of commands and writes once; other
//!   connections may read and execute between its two halves;
//! - nothing is read while whole requests wait to be executed, so a long pipeline waits in the
//!   kernel and the input holds little more than one unfinished request;
//! - reading pauses while the output is large, and the connection is closed when it is larger
//!   than the limit, or when it stands still for too long.
//!
//! Cost of a time slice: at most one read and one write, and what the commands cost.

mod execute;
mod limits;
mod send;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use whered_engine::Durability;

use super::clients::{Client, Origin};
use super::deferred_replies::DeferredReplies;
use super::input::Input;
use super::protocol::Parser;
use super::reply::{AwaitedWrite, Reply};
use super::session::{FollowerRequest, Session, SharedState};
use crate::stream::Stream;

use execute::OUTPUT_PER_SLICE_BYTES;
use limits::CountedBuffers;
pub(crate) use limits::Overdue;
pub(super) use send::KEPT_BYTES;

/// Replies of at most this many bytes are short: those of a pipeline of small commands.
const BRIEF_BYTES: usize = 16 * 1024;

/// What a connection wants after its time slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NextStep {
    /// There is more to do at once.
    Again,
    /// Something must happen first: readiness, or durability.
    Wait,
    /// `CLIENT PAUSE` must end first.
    Paused,
    /// It follows this server from now on, by a thread of its own.
    HandOn,
    /// It is over.
    Close,
}

/// What the requests of one time slice were like, by which the next time slice's are judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Work {
    /// They left little to send.
    Brief,
    /// They left much to send.
    Long,
    /// They left little to send, and took long.
    Slow,
}

/// One client's connection.
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    /// Whether the worker has it in its queue.
    pub(crate) queued: bool,
    /// Whether the worker has it among those with held replies.
    pub(crate) listed: bool,
    /// Whether the worker has it among those that wait for a pause's end.
    pub(crate) paused: bool,
    /// The deadline by which the worker has it among those that have one.
    pub(crate) timed: Option<Instant>,
    /// Whether its last time slice had little to send, and not for the end of much.
    pub(crate) was_brief: bool,
    /// What its last requests were like.
    pub(crate) last: Work,
    /// Given back before the session, and so before the client counts as gone.
    counted: CountedBuffers,
    session: Session,
    parser: Parser,
    input: Input,
    reply: Reply,
    sent: usize,
    deferred_replies: DeferredReplies<AwaitedWrite>,
    readable: bool,
    writable: bool,
    /// The client has sent its last byte, or will get no further.
    hung_up: bool,
    /// How far the present time slice has come with the requests that have arrived.
    progress: Progress,
    /// The last time slice ended before the requests in the input did.
    behind: bool,
    /// What was found ahead in the input was looked at for what it reads.
    is_fetched: bool,
    /// No byte is read any more: the server stops.
    draining: bool,
    /// But for what has come by now, which is read once more.
    last_read: bool,
    /// Messages wait in its mailbox.
    has_messages: bool,
    standing_since: Option<Instant>,
    /// Since when it has had more unsent replies than it may have for long.
    above_soft_since: Option<Instant>,
    /// When its last request came.
    active: Instant,
}

impl Connection {
    /// A connection that was just accepted.
    pub(crate) fn new(stream: Stream, shared: &Arc<SharedState>, origin: Origin) -> Connection {
        let client = shared.clients.enter(origin);
        Connection {
            stream,
            queued: false,
            listed: false,
            paused: false,
            timed: None,
            was_brief: false,
            last: Work::Brief,
            active: client.connected,
            session: Session::new(shared, client),
            parser: Parser::default(),
            input: Input::default(),
            reply: Reply::new(),
            sent: 0,
            deferred_replies: DeferredReplies::new(),
            readable: true,
            writable: true,
            hung_up: false,
            progress: Progress::Starved,
            behind: false,
            is_fetched: false,
            draining: false,
            last_read: false,
            has_messages: false,
            standing_since: None,
            above_soft_since: None,
            counted: CountedBuffers::new(&shared.counters),
        }
    }

    /// The number of its client.
    pub(crate) fn id(&self) -> u64 {
        self.session.client.id
    }

    /// Notes what the operating system has reported.
    pub(crate) fn set_readiness(&mut self, readable: bool, writable: bool, hung_up: bool) {
        self.readable |= readable;
        self.writable |= writable;
        self.hung_up |= hung_up;
    }

    /// Reads once what has come by now, and then no more; what was read is answered.
    pub(crate) fn drain(&mut self) {
        (self.draining, self.last_read, self.readable) = (true, true, true);
        if self.session.forget_wait() {
            self.session.closing = true;
        }
    }

    /// Whether bytes may be read.
    fn may_read(&self) -> bool {
        (!self.draining || self.last_read) && !self.session.closing
    }

    /// Whether replies wait for durability.
    pub(crate) fn is_holding(&self) -> bool {
        !self.deferred_replies.is_empty()
    }

    /// Whether the oldest held reply may go, one way or the other.
    pub(crate) fn is_released(&self) -> bool {
        let oldest = self.deferred_replies.oldest();
        oldest.is_some_and(|awaited| self.session.write_status(awaited) != Durability::Pending)
    }

    /// The first half of a time slice: reads, and executes what has arrived. Says whether that
    /// leaves little enough to send that others may work before it is sent.
    ///
    /// # Errors
    /// The connection is over.
    pub(crate) fn work(&mut self) -> Result<bool, ConnectionClosed> {
        if self.session.client.is_killed() {
            return Err(ConnectionClosed);
        }
        self.release();
        self.read()?;
        self.take_messages();
        let before = self.active;
        self.progress = self.execute();
        // A server that stops lets nobody begin to wait.
        if self.draining && self.session.forget_wait() {
            self.session.closing = true;
        }
        self.behind = self.progress != Progress::Starved;
        self.take_messages();
        let is_brief = self.reply.rest.is_none() && self.unsent() <= BRIEF_BYTES;
        // A time slice without requests says nothing of the next one's.
        if self.active != before {
            self.last = if is_brief { Work::Brief } else { Work::Long };
        }
        Ok(is_brief)
    }

    /// The second half: sends, of a long reply about `part_bytes` at most.
    pub(crate) fn send(&mut self, part_bytes: usize) -> NextStep {
        self.release();
        if !self.sends_pieces() {
            self.reply.refill(self.sent + part_bytes.min(OUTPUT_PER_SLICE_BYTES));
        }
        self.was_brief = self.reply.rest.is_none() && (1..=BRIEF_BYTES).contains(&self.unsent());
        if self.is_beyond_limits() || self.write(part_bytes).is_err() {
            return NextStep::Close;
        }
        self.count_buffers();
        self.next()
    }

    /// Gives the connection to a thread that lets it follow this server.
    pub(crate) fn hand_on(mut self) {
        let replicas = Arc::clone(&self.session.shared.context.replicas);
        let name = self.session.client.origin.address.to_string();
        let registered = RegisteredClient {
            client: Arc::clone(&self.session.client),
            shared: Arc::clone(&self.session.shared),
        };
        self.session.is_follower = true;
        let follower = self.session.follower.take();
        let wanted =
            follower.and_then(|FollowerRequest { source, wanted }| Some((source, wanted?)));
        let Some((source, wanted)) = wanted else { return };
        let is_killed = Box::new(move || registered.client.is_killed());
        replicas.upstream.serve((self.stream, name, is_killed), source, wanted);
    }

    /// When it is to have a time slice whatever happens.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.session.deadline()
    }

    /// When its last requests were done.
    pub(crate) fn active(&self) -> Instant {
        self.active
    }

    fn next(&mut self) -> NextStep {
        let progress = self.progress;
        let sendable =
            self.sendable_end() > self.sent || self.stream.has_unsent() || self.sends_pieces();
        self.standing_since = match self.standing_since {
            since @ Some(_) if sendable => since,
            _ => (sendable && !self.writable).then(Instant::now),
        };
        let is_last = self.session.closing || (!self.may_read() && progress == Progress::Starved);
        if is_last && self.unsent() == 0 && self.reply.rest.is_none() && !self.stream.has_unsent() {
            if self.session.is_handed_on() && !self.draining {
                return NextStep::HandOn;
            }
            self.stream.say_goodbye();
            return NextStep::Close;
        }
        // A client that waits is not read from: its end is seen by this alone.
        if self.hung_up && self.session.is_waiting() && self.unsent() == 0 {
            return NextStep::Close;
        }
        let can_read = self.readable && self.may_read();
        let can_go_on = match progress {
            Progress::More if self.reply.rest.is_some() => self.unsent() == 0 && self.writable,
            Progress::More => !self.is_full(),
            Progress::Starved => (can_read || self.has_messages) && !self.is_full(),
            Progress::Paused | Progress::InBackground => false,
        };
        if can_go_on || (sendable && self.writable) {
            NextStep::Again
        } else if progress == Progress::Paused {
            NextStep::Paused
        } else {
            NextStep::Wait
        }
    }

    /// Takes published messages out of the mailbox, as long as the client reads them.
    fn take_messages(&mut self) {
        self.has_messages = false;
        // A message may not come between the parts of a reply.
        let between = self.reply.rest.is_none();
        if self.session.subscription_count() > 0 && between && !self.is_full() {
            let (client, reply) = (&self.session.client, &mut self.reply);
            self.has_messages =
                client.take_messages(OUTPUT_PER_SLICE_BYTES, |message| reply.pushed(message));
        }
    }

    /// Reads once, if there is something and room for it.
    fn read(&mut self) -> Result<(), ConnectionClosed> {
        if self.behind || !self.may_read() || !self.readable || self.is_full() {
            return Ok(());
        }
        self.last_read = false;
        let shared = &self.session.shared;
        if self.input.len() > shared.settings.query_limit_bytes.load(Ordering::Relaxed) {
            shared.counters.query_limit_closed.fetch_add(1, Ordering::Relaxed);
            return Err(ConnectionClosed);
        }
        let buffer = self.input.buffer();
        let asked = buffer.len();
        match self.stream.read(buffer) {
            Ok(0) => {
                // The client may have closed one direction only, and still reads its replies.
                // What is left of the input is no whole request: otherwise nothing were read.
                self.readable = false;
                self.session.closing = true;
            }
            Ok(count) => {
                self.input.received(count);
                shared.counters.input_bytes.fetch_add(count as u64, Ordering::Relaxed);
                shared.counters.reads.fetch_add(1, Ordering::Relaxed);
                // A short read has emptied the socket; the next event comes with the next byte.
                let is_all = count < asked && self.stream.short_read_is_all();
                self.readable = !is_all || self.hung_up;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.readable = false,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => {
                if self.stream.is_shaking_hands() {
                    shared.counters.tls_failed.fetch_add(1, Ordering::Relaxed);
                }
                return Err(ConnectionClosed);
            }
        }
        Ok(())
    }
}

/// A client that a follower's thread has; it counts as gone with this.
struct RegisteredClient {
    client: Arc<Client>,
    shared: Arc<SharedState>,
}

impl Drop for RegisteredClient {
    fn drop(&mut self) {
        self.shared.clients.forget(&self.client);
    }
}

/// The connection cannot go on.
pub(crate) struct ConnectionClosed;

/// Whether requests are left that have arrived.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// The time slice ended before the input did.
    More,
    /// The next request waits for the end of `CLIENT PAUSE`.
    Paused,
    /// A command is at work elsewhere; its worker is called when it is done.
    InBackground,
    /// The input holds no complete request, or the connection closes.
    Starved,
}
