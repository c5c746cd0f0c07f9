//! dnstap: queries and answers to a listener at a Unix socket, as Frame Streams.
//!
//! Not for: the form of messages (`message.rs`) and of the stream (`frames.rs`).
//!
//! ```text
//! DNS threads ─ frames of a batch ─try_send─> [ queue of at most 16 MiB ] ─> one writer ─> socket
//!                                      └ full, or nobody listens: dropped, counted
//! ```
//!
//! A thread that answers never waits. While nobody listens the writer looks once a second for
//! somebody, and what comes meanwhile is dropped. A listener that takes nothing for
//! [`WRITE_TIME`] is left. Cost: nothing without the option; with it one allocation a batch.

pub(crate) mod frames;
mod message;

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError, channel, sync_channel,
};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use socket2::{Domain, SockAddr, Socket, Type};
use whered_dns::Transport;

use self::frames::{CONTROL_HEAD_SIZE, ControlType, control, control_size, read_control};
use self::message::{Server, TapMessage};

/// Batches that may wait, and their bytes.
const QUEUE_SIZE: usize = 16_384;
const QUEUE_BYTES_MAX: usize = 16 << 20;
/// How often somebody is looked for.
const CONNECT_INTERVAL: Duration = Duration::from_secs(1);
/// How long a listener may take for its part of the conversation.
const TALK_TIME: Duration = Duration::from_secs(2);
/// How long a listener may take for one batch, and a stop for what waits.
const WRITE_TIME: Duration = Duration::from_secs(2);

/// What is sent where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnstapOptions {
    /// The listener's socket.
    pub socket: PathBuf,
    /// Which messages it gets.
    pub messages: TappedMessages,
}

/// Which messages are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TappedMessages {
    /// `AUTH_QUERY` and `AUTH_RESPONSE`.
    #[default]
    Both,
    /// `AUTH_QUERY`.
    Queries,
    /// `AUTH_RESPONSE`, which have their queries too.
    Responses,
}

/// What became of messages.
#[derive(Debug, Default)]
pub(crate) struct DnstapCounts {
    pub(crate) sent: AtomicU64,
    pub(crate) dropped: AtomicU64,
    /// The bytes that wait.
    queued: AtomicUsize,
}

/// Frames of one batch.
struct Chunk {
    bytes: Vec<u8>,
    count: u64,
}

/// The way to the writer.
pub(super) struct Tap {
    chunks: SyncSender<Chunk>,
    messages: TappedMessages,
    server: Server,
    counts: Arc<DnstapCounts>,
    /// Dropped when nothing more comes.
    _ending: Sender<()>,
}

impl Tap {
    /// Starts the writer, which ends when the tap is dropped.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(super) fn start(
        options: &DnstapOptions,
        (identity, version): (&str, &str),
        counts: Arc<DnstapCounts>,
    ) -> io::Result<(Tap, JoinHandle<()>)> {
        let (chunks, received) = sync_channel(QUEUE_SIZE);
        let (ending, ended) = channel();
        let writer = Writer {
            path: options.socket.clone(),
            stream: None,
            looked: None,
            is_missing: false,
            ended,
            end: None,
            counts: Arc::clone(&counts),
        };
        let thread = Builder::new().name("whered-dnstap".to_owned());
        let thread = thread.spawn(move || writer.run(&received))?;
        let server = Server { identity: identity.into(), version: version.into() };
        let messages = options.messages;
        Ok((Tap { chunks, messages, server, counts, _ending: ending }, thread))
    }

    /// Begins a batch that came at this moment.
    #[cold]
    pub(super) fn batch(&self, transport: Transport, asked_at: SystemTime) -> TapBatch<'_> {
        let (bytes, body, count) = (Vec::new(), Vec::new(), 0);
        TapBatch {
            tap: self,
            transport,
            asked_at,
            answered_at: SystemTime::now(),
            bytes,
            body,
            count,
        }
    }

    fn send(&self, chunk: Chunk) {
        let (size, count) = (chunk.bytes.len(), chunk.count);
        let queued = self.counts.queued.fetch_add(size, Ordering::Relaxed);
        if queued + size > QUEUE_BYTES_MAX || self.chunks.try_send(chunk).is_err() {
            self.counts.queued.fetch_sub(size, Ordering::Relaxed);
            self.counts.dropped.fetch_add(count, Ordering::Relaxed);
        }
    }
}

/// The messages of a batch; they are sent when it is dropped.
pub(super) struct TapBatch<'t> {
    tap: &'t Tap,
    transport: Transport,
    asked_at: SystemTime,
    answered_at: SystemTime,
    bytes: Vec<u8>,
    body: Vec<u8>,
    count: u64,
}

impl TapBatch<'_> {
    /// Adds a query and its answer, which is empty when none is sent.
    pub(super) fn add(&mut self, client: SocketAddr, query: &[u8], answer: &[u8]) {
        if self.tap.messages != TappedMessages::Responses {
            self.append(client, query, None);
        }
        if self.tap.messages != TappedMessages::Queries && !answer.is_empty() {
            self.append(client, query, Some((answer, self.answered_at)));
        }
    }

    fn append(&mut self, client: SocketAddr, query: &[u8], answer: Option<(&[u8], SystemTime)>) {
        let (transport, asked_at) = (self.transport, self.asked_at);
        let message = TapMessage { transport, client, query, asked_at, answer };
        message.append(&self.tap.server, &mut self.body, &mut self.bytes);
        self.count += 1;
    }
}

impl Drop for TapBatch<'_> {
    fn drop(&mut self) {
        if self.count > 0 {
            let bytes = std::mem::take(&mut self.bytes);
            self.tap.send(Chunk { bytes, count: self.count });
        }
    }
}

/// Writes what comes to whoever listens.
struct Writer {
    path: PathBuf,
    stream: Option<UnixStream>,
    /// When somebody was looked for.
    looked: Option<Instant>,
    /// Nobody listens, which the log has.
    is_missing: bool,
    /// Disconnected when nothing more comes.
    ended: Receiver<()>,
    /// When what waits is dropped, once nothing more comes.
    end: Option<Instant>,
    counts: Arc<DnstapCounts>,
}

impl Writer {
    fn run(mut self, received: &Receiver<Chunk>) {
        loop {
            self.connect_when_due();
            match received.recv_timeout(CONNECT_INTERVAL) {
                Ok(chunk) => {
                    self.counts.queued.fetch_sub(chunk.bytes.len(), Ordering::Relaxed);
                    if self.is_over() {
                        self.counts.dropped.fetch_add(chunk.count, Ordering::Relaxed);
                        continue;
                    }
                    self.connect_when_due();
                    self.write(&chunk);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        if let Some(mut stream) = self.stream.take() {
            let stop = control(ControlType::Stop, false);
            // Whoever does not finish in time has all frames.
            let _ = stream.write_all(&stop).and_then(|()| expect(&mut stream, ControlType::Finish));
        }
    }

    /// Whether what waits is to be dropped: a stop waits for a slow listener for a moment only.
    fn is_over(&mut self) -> bool {
        if self.end.is_none() && self.ended.try_recv() == Err(TryRecvError::Disconnected) {
            self.end = Some(Instant::now() + WRITE_TIME);
        }
        self.end.is_some_and(|end| end <= Instant::now())
    }

    fn write(&mut self, chunk: &Chunk) {
        let written = match &mut self.stream {
            Some(stream) => write_in_time(stream, &chunk.bytes),
            None => Err(io::ErrorKind::NotConnected.into()),
        };
        match written {
            Ok(()) => self.counts.sent.fetch_add(chunk.count, Ordering::Relaxed),
            Err(error) => {
                // A part of a frame may be written: nothing may follow it.
                if self.stream.take().is_some() {
                    self.note_missing(&error);
                }
                self.counts.dropped.fetch_add(chunk.count, Ordering::Relaxed)
            }
        };
    }

    fn connect_when_due(&mut self) {
        let is_due = self.looked.is_none_or(|looked| looked.elapsed() >= CONNECT_INTERVAL);
        if self.stream.is_some() || !is_due {
            return;
        }
        match connect(&self.path) {
            Ok(stream) => {
                tracing::info!("dnstap: {} listens", self.path.display());
                (self.stream, self.is_missing) = (Some(stream), false);
            }
            Err(error) => self.note_missing(&error),
        }
        self.looked = Some(Instant::now());
    }

    /// Says so once until somebody listens.
    fn note_missing(&mut self, error: &io::Error) {
        if !self.is_missing {
            tracing::warn!("dnstap: nobody listens at {}: {error}", self.path.display());
        }
        self.is_missing = true;
    }
}

/// Writes all bytes within [`WRITE_TIME`], also to a listener that takes a few at a time.
fn write_in_time(stream: &mut UnixStream, mut bytes: &[u8]) -> io::Result<()> {
    let begun = Instant::now();
    while !bytes.is_empty() {
        if begun.elapsed() > WRITE_TIME {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match stream.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Connects and holds the conversation before the first frame.
fn connect(path: &Path) -> io::Result<UnixStream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // A listener whose queue is full is tried again later.
    socket.set_nonblocking(true)?;
    socket.connect(&SockAddr::unix(path)?)?;
    socket.set_nonblocking(false)?;
    socket.set_write_timeout(Some(WRITE_TIME))?;
    socket.set_read_timeout(Some(TALK_TIME))?;
    let mut stream = UnixStream::from(socket);
    stream.write_all(&control(ControlType::Ready, true))?;
    expect(&mut stream, ControlType::Accept)?;
    stream.write_all(&control(ControlType::Start, true))?;
    Ok(stream)
}

/// Reads the control frame that comes next.
fn expect(stream: &mut UnixStream, expected: ControlType) -> io::Result<()> {
    let mut head = [0; CONTROL_HEAD_SIZE];
    stream.read_exact(&mut head)?;
    let size = control_size(head).ok_or_else(|| io::Error::other("no Frame Streams"))?;
    let mut body = vec![0; size];
    stream.read_exact(&mut body)?;
    match read_control(&body) {
        Some((found, true)) if found == expected => Ok(()),
        Some((_, false)) => Err(io::Error::other("it does not want dnstap")),
        _ => Err(io::Error::other("no answer of Frame Streams")),
    }
}

#[cfg(test)]
#[path = "dnstap_tests.rs"]
mod tests;
