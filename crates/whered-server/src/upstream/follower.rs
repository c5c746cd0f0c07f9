//! One server that follows this one: its thread sends a dump if it needs one, then the stream.
//!
//! ```text
//! PSYNC id offset ─┬─ kept in the backlog ──> +CONTINUE id ────────────┐
//!                  └─ otherwise ─> +FULLRESYNC id offset, $bytes, dump ─┴─> backlog ─> socket
//! ```
//!
//! What the follower acknowledges is read and passed over. Invariant: its bytes are those of the
//! backlog from its offset on; where that is not possible any more, its connection ends, and it
//! comes again.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};
use whered_engine::ReplicationId;

use super::Source;
use super::backlog::{self, Cursor};
use crate::stream::Stream;

/// How much is sent at once.
const SEND_BYTES: usize = 256 << 10;
/// How long it looks at one thing only.
const TURN: Duration = Duration::from_millis(100);
/// A follower that takes nothing for this long is given up.
const STILL_MAX: Duration = Duration::from_secs(60);
/// How often one that waits for a dump is told that it is being made.
const KEEP_ALIVE: Duration = Duration::from_secs(1);

/// The place that a follower asks from; `None`: it has nothing.
pub(crate) type FollowerStart = Option<(ReplicationId, i64)>;

/// Whether a follower's connection is to end (`CLIENT KILL`). Dropped when it has ended.
pub(crate) type IsKilled = Box<dyn Fn() -> bool + Send>;

/// A connection to a follower.
pub(super) struct Follower {
    stream: Stream,
    poll: Poll,
    events: Events,
    source: Arc<Source>,
    is_killed: IsKilled,
    /// When it took something last.
    taken: Instant,
}

impl Follower {
    pub(super) fn new(
        mut stream: Stream,
        source: Arc<Source>,
        is_killed: IsKilled,
    ) -> io::Result<Follower> {
        let poll = Poll::new()?;
        let both = Interest::READABLE | Interest::WRITABLE;
        poll.registry().register(&mut stream, Token(0), both)?;
        let events = Events::with_capacity(4);
        Ok(Follower { stream, poll, events, source, is_killed, taken: Instant::now() })
    }

    /// Serves it until one of both ends.
    pub(super) fn run(mut self, wanted: FollowerStart) -> io::Result<()> {
        let cursor = match wanted.and_then(|(id, offset)| self.source.resume(id, offset)) {
            Some((id, cursor)) => {
                self.send(format!("+CONTINUE {id}\r\n").as_bytes())?;
                cursor
            }
            None => match self.send_dump()? {
                Ok(cursor) => cursor,
                Err(reason) => {
                    self.send(format!("-{reason}\r\n").as_bytes())?;
                    self.stream.say_goodbye();
                    return Ok(());
                }
            },
        };
        self.follow(cursor)
    }

    /// Sends a dump, and gives the place behind it; or the reply that says why there is none.
    fn send_dump(&mut self) -> io::Result<Result<Cursor, String>> {
        let source = Arc::clone(&self.source);
        let _kept = source.backlog().pin();
        let mut alive = Instant::now();
        // A follower gives up one that says nothing.
        let made = source.dump(&mut || {
            self.check_end()?;
            if alive.elapsed() < KEEP_ALIVE {
                return Ok(());
            }
            alive = Instant::now();
            self.send(b"\n")
        });
        let (dump, cursor) = match made {
            Ok(made) => made,
            Err(reason) => return Ok(Err(reason)),
        };
        let (id, offset, bytes) = (dump.id, dump.offset, dump.bytes);
        self.send(format!("+FULLRESYNC {id} {offset}\r\n${bytes}\r\n").as_bytes())?;
        let (mut reader, mut part) = (dump.reader(), vec![0; SEND_BYTES]);
        loop {
            let count = reader.read(&mut part)?;
            if count == 0 {
                return Ok(Ok(cursor));
            }
            if !source.backlog().has(cursor) {
                return Err(io::Error::other("it takes the dump too slowly"));
            }
            self.send(&part[..count])?;
        }
    }

    /// Ends what is done for it when it was told to (`CLIENT KILL`), or the server stops.
    fn check_end(&self) -> io::Result<()> {
        match (self.is_killed)() || self.source.backlog().is_closed() {
            true => Err(io::ErrorKind::ConnectionAborted.into()),
            false => Ok(()),
        }
    }

    fn follow(&mut self, mut cursor: Cursor) -> io::Result<()> {
        let mut part = Vec::with_capacity(SEND_BYTES);
        loop {
            self.check_end()?;
            self.discard_input()?;
            part.clear();
            match self.source.backlog().read(&mut cursor, &mut part, SEND_BYTES, TURN) {
                backlog::Read::Some => self.send(&part)?,
                backlog::Read::Nothing => {}
                backlog::Read::Lost => {
                    self.stream.say_goodbye();
                    return Ok(());
                }
            }
        }
    }

    /// Sends all of it, as fast as the follower takes it.
    fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        self.taken = Instant::now();
        while !bytes.is_empty() || self.stream.has_unsent() {
            let sent = match bytes {
                [] => self.stream.flush().map(|()| 0),
                _ => self.stream.write(bytes),
            };
            match sent {
                Ok(count) => {
                    bytes = &bytes[count..];
                    self.taken = Instant::now();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait_until_writable()?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn wait_until_writable(&mut self) -> io::Result<()> {
        self.check_end()?;
        if self.taken.elapsed() > STILL_MAX {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.discard_input()?;
        match self.poll.poll(&mut self.events, Some(TURN)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    /// Takes what it acknowledges off the socket.
    fn discard_input(&mut self) -> io::Result<()> {
        let mut part = [0; 4096];
        loop {
            match self.stream.read(&mut part) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
