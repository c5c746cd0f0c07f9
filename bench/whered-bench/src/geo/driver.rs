//! Many connections in one thread, each with a pipeline of commands.
//!
//! For: keeping a server busy at next to no cost of its own: commands are bytes made beforehand,
//! replies are counted and not read. Not for finding out what replies must be (`script.rs`), nor
//! for open-loop load: a connection sends its next batch when the last one is answered.
//!
//! ```text
//! group       connections, pipeline, scripts (shared, or one a connection)
//! connection  at ──► batch of `pipeline` commands ──► expected bytes ──► counted down ──► next one
//! ```
//!
//! Checked of each batch: the first byte of its first reply, the total length, and that it ends as
//! a line does. After a run nothing may be left in a connection. So a server that answers an error
//! or one member fewer is found out. A latency is the time from writing a batch to the last byte of
//! its last reply.
//!
//! Concurrency: one thread; readiness by epoll (mio). Cost: one write and one or more reads a
//! batch.

use super::latency::Latencies;
use super::script::{Replies, Script};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Larger than what a socket's buffer usually holds, smaller than the second-level cache.
const READ_BYTES: usize = 256 * 1024;
/// How long all connections together may have nothing to read.
const SILENCE_LIMIT: Duration = Duration::from_secs(300);

/// Connections that do the same.
#[derive(Debug, Clone, Copy)]
pub struct Group<'a> {
    /// How many.
    pub connections: usize,
    /// How many commands each has on its way.
    pub pipeline: usize,
    /// What they send: connection `i` has script `i` modulo their number.
    pub scripts: &'a [Script],
    /// What is answered to each script.
    pub replies: &'a [Replies],
}

/// What a group did in one run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Done {
    /// Commands that were answered.
    pub operations: u64,
    /// Latencies of batches.
    pub latencies: Latencies,
}

struct Connection<'a> {
    stream: TcpStream,
    group: usize,
    pipeline: usize,
    script: &'a Script,
    replies: &'a Replies,
    /// The next command of the script.
    at: usize,
    unsent: Range<usize>,
    expected: usize,
    is_first: bool,
    sent: Instant,
    is_busy: bool,
}

/// Open connections to one server.
pub struct Driver<'a> {
    poll: Poll,
    connections: Vec<Connection<'a>>,
    groups: usize,
    buffer: Vec<u8>,
}

/// When connections stop sending new batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// After this time.
    Time(Duration),
    /// When each has come to the beginning of its script again.
    ScriptEnd,
}

impl<'a> Driver<'a> {
    /// Connects all groups. Connections that share a script begin at different places of it.
    ///
    /// # Errors
    ///
    /// The server refuses, or a script is not a multiple of its group's pipeline.
    pub fn connect(address: SocketAddr, groups: &[Group<'a>]) -> Result<Driver<'a>, String> {
        let fault = |error: std::io::Error| format!("{address}: {error}");
        let poll = Poll::new().map_err(fault)?;
        let mut connections = Vec::new();
        for (number, group) in groups.iter().enumerate() {
            for index in 0..group.connections {
                let shared = index % group.scripts.len();
                let script = &group.scripts[shared];
                if script.is_empty() || script.len() % group.pipeline != 0 {
                    return Err(format!(
                        "a script of {} commands for batches of {}",
                        script.len(),
                        group.pipeline
                    ));
                }
                // Connecting blocks, so that no connection is half open when the clock starts.
                let stream = std::net::TcpStream::connect(address).map_err(fault)?;
                stream.set_nodelay(true).map_err(fault)?;
                stream.set_nonblocking(true).map_err(fault)?;
                let mut stream = TcpStream::from_std(stream);
                let token = Token(connections.len());
                let interest = Interest::READABLE | Interest::WRITABLE;
                poll.registry().register(&mut stream, token, interest).map_err(fault)?;
                let batches = script.len() / group.pipeline;
                let sharing = group.connections.div_ceil(group.scripts.len());
                let turn = index / group.scripts.len();
                connections.push(Connection {
                    stream,
                    group: number,
                    pipeline: group.pipeline,
                    script,
                    replies: &group.replies[shared],
                    at: turn * batches / sharing * group.pipeline,
                    unsent: 0..0,
                    expected: 0,
                    is_first: false,
                    sent: Instant::now(),
                    is_busy: false,
                });
            }
        }
        Ok(Driver { poll, connections, groups: groups.len(), buffer: vec![0; READ_BYTES] })
    }

    /// Sends batch after batch, each connection going on where it was, and waits for all replies
    /// when it is over. A result for each group.
    ///
    /// # Errors
    ///
    /// A connection fails, or a reply is not what it should be.
    pub fn run(&mut self, until: Until) -> Result<Vec<Done>, String> {
        let mut done = vec![Done::default(); self.groups];
        let began = Instant::now();
        let is_over = |connection: &Connection<'_>, now: Instant| match until {
            Until::Time(limit) => now.duration_since(began) >= limit,
            Until::ScriptEnd => connection.at == 0,
        };
        let mut busy = 0;
        for connection in &mut self.connections {
            if !is_over(connection, began) {
                connection.begin()?;
                busy += 1;
            }
        }
        let mut events = Events::with_capacity(self.connections.len().max(16));
        while busy > 0 {
            match self.poll.poll(&mut events, Some(SILENCE_LIMIT)) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(format!("waiting for replies: {error}")),
                Ok(()) if events.is_empty() => {
                    return Err(format!("{busy} connections had no reply in {SILENCE_LIMIT:?}"));
                }
                Ok(()) => {}
            }
            for event in &events {
                let connection = &mut self.connections[event.token().0];
                connection.write()?;
                while connection.read(&mut self.buffer)? {
                    let now = Instant::now();
                    let taken = now.duration_since(connection.sent);
                    let group = &mut done[connection.group];
                    group.latencies.add(taken.as_nanos() as u64);
                    group.operations += connection.pipeline as u64;
                    if is_over(connection, now) {
                        connection.is_busy = false;
                        busy -= 1;
                        break;
                    }
                    connection.begin()?;
                }
            }
        }
        for connection in &mut self.connections {
            connection.expect_silence(&mut self.buffer)?;
        }
        Ok(done)
    }
}

impl Connection<'_> {
    fn begin(&mut self) -> Result<(), String> {
        let next = self.at + self.pipeline;
        let (script, lengths) = (self.script, &self.replies.lengths[self.at..next]);
        self.expected = lengths.iter().map(|length| *length as usize).sum();
        self.is_first = true;
        let end = if next == script.len() { script.bytes().len() } else { script.start(next) };
        self.unsent = script.start(self.at)..end;
        self.sent = Instant::now();
        self.is_busy = true;
        self.write()?;
        self.at = next % script.len();
        Ok(())
    }

    fn write(&mut self) -> Result<(), String> {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.script.bytes()[self.unsent.clone()]) {
                Ok(count) => self.unsent.start += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("sending: {error}")),
            }
        }
        Ok(())
    }

    /// Reads what is there; whether that completes the batch.
    fn read(&mut self, buffer: &mut [u8]) -> Result<bool, String> {
        while self.is_busy {
            let count = match self.stream.read(buffer) {
                Ok(0) => return Err("the server closed a connection".to_owned()),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(format!("receiving: {error}")),
            };
            let bytes = &buffer[..count];
            if std::mem::take(&mut self.is_first) {
                let batch = (self.at + self.script.len() - self.pipeline) % self.script.len();
                if bytes[0] != self.replies.marks[batch] {
                    return Err(format!("unexpected reply: {}", start_of(bytes)));
                }
            }
            if count > self.expected || (count == self.expected && !bytes.ends_with(b"\n")) {
                let end = &bytes[count.saturating_sub(80)..];
                let more = count - self.expected.min(count);
                return Err(format!("a reply {more} bytes longer than before: {}", start_of(end)));
            }
            self.expected -= count;
            if self.expected == 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn expect_silence(&mut self, buffer: &mut [u8]) -> Result<(), String> {
        match self.stream.read(buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(format!("receiving: {error}")),
            Ok(0) => Err("the server closed a connection".to_owned()),
            Ok(count) => {
                Err(format!("{count} bytes more than expected: {}", start_of(&buffer[..count])))
            }
        }
    }
}

fn start_of(bytes: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(&bytes[..bytes.len().min(80)]))
}

#[cfg(test)]
#[path = "driver_tests.rs"]
mod tests;
