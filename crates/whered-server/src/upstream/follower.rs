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

/// The place that a follower asks from; `None`: it has nothing.
pub(crate) type FollowerStart = Option<(ReplicationId, i64)>;

/// A connection to a follower.
pub(super) struct Follower {
    stream: Stream,
    poll: Poll,
    events: Events,
    source: Arc<Source>,
    /// When it took something last.
    taken: Instant,
}

impl Follower {
    pub(super) fn new(mut stream: Stream, source: Arc<Source>) -> io::Result<Follower> {
        let poll = Poll::new()?;
        let both = Interest::READABLE | Interest::WRITABLE;
        poll.registry().register(&mut stream, Token(0), both)?;
        let events = Events::with_capacity(4);
        Ok(Follower { stream, poll, events, source, taken: Instant::now() })
    }

    /// Serves it until one of both ends.
    pub(super) fn run(mut self, wanted: FollowerStart) -> io::Result<()> {
        let cursor = match wanted.and_then(|(id, offset)| self.source.resume(id, offset)) {
            Some((id, cursor)) => {
                self.send(format!("+CONTINUE {id}\r\n").as_bytes())?;
                cursor
            }
            None => match self.source.dump() {
                Ok((dump, cursor)) => {
                    let (id, offset, bytes) = (dump.id, dump.offset, dump.bytes);
                    let head = format!("+FULLRESYNC {id} {offset}\r\n${bytes}\r\n");
                    self.send(head.as_bytes())?;
                    self.send_all(&mut dump.reader())?;
                    cursor
                }
                Err(reason) => {
                    self.send(format!("-{reason}\r\n").as_bytes())?;
                    self.stream.say_goodbye();
                    return Ok(());
                }
            },
        };
        self.follow(cursor)
    }

    fn send_all(&mut self, dump: &mut impl Read) -> io::Result<()> {
        let mut part = vec![0; SEND_BYTES];
        loop {
            match dump.read(&mut part)? {
                0 => return Ok(()),
                count => self.send(&part[..count])?,
            }
        }
    }

    fn follow(&mut self, mut cursor: Cursor) -> io::Result<()> {
        let mut part = Vec::with_capacity(SEND_BYTES);
        loop {
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
        if self.source.backlog().is_closed() || self.taken.elapsed() > STILL_MAX {
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
