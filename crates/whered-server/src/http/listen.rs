//! Connections of the HTTP listener: a limited number, and none that hangs.
//!
//! A connection may stay open between requests, but on each one an answer must have been written,
//! or [`PROGRESS_BYTES`] of a request read, within [`PROGRESS`] of the last time: that bounds idle
//! clients, clients that send a request byte by byte, and clients that do not read, with one clock.
//!
//! When there are as many as may be, a new one takes the place of that which has waited longest for
//! its client: half a request, an idle client, an answer that is not read. So clients that open
//! connections and send no whole request keep nobody out. A request that is worked on is never
//! given up.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use whered_engine::sync;

use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout};

use super::refusal;
use super::transport::Transport;
use crate::certificates::CurrentTls;

/// The longest time between two writes of a connection, and before the first one.
pub(crate) const PROGRESS: Duration = Duration::from_secs(30);

/// How much of a request counts as progress, so that a large upload may take its time.
pub(crate) const PROGRESS_BYTES: usize = 64 * 1024;

/// How long to wait after the system could not accept (such as for want of descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How much of a request's beginning is looked at for the reason of a refusal.
const HEAD_BYTES: usize = 8 * 1024;

/// How long a new connection waits for the place of one that was given up.
const EVICTION_TIME: Duration = Duration::from_secs(1);

/// A listener with a limit that several may share.
pub(crate) struct LimitedListener {
    pub(crate) listener: TcpListener,
    /// Its connections speak TLS.
    pub(crate) tls: Option<CurrentTls>,
    pub(crate) connections: Arc<Connections>,
}

/// All connections.
pub(crate) struct Connections {
    limit: Arc<Semaphore>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    next_number: u64,
    by_number: HashMap<u64, Connection>,
}

impl Connections {
    /// None yet, and at most `limit`.
    pub(crate) fn new(limit: usize) -> Arc<Connections> {
        let limit = Arc::new(Semaphore::new(limit));
        Arc::new(Connections { limit, open: Mutex::default() })
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        sync::lock(&self.open)
    }

    /// A place for a connection; that of one that waits for its client, if there is no other.
    async fn admit(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.limit).try_acquire_owned() {
            return Some(permit);
        }
        let oldest = {
            let open = self.open();
            let waiting = open.by_number.values().filter(|one| one.is_waiting());
            waiting.min_by_key(|one| one.state().since).cloned()
        };
        oldest?.give_up();
        let permit = timeout(EVICTION_TIME, Arc::clone(&self.limit).acquire_owned()).await;
        permit.ok()?.ok()
    }

    fn add(&self, local: Option<SocketAddr>, is_tls: bool) -> (u64, Connection) {
        let shared = Arc::new(ConnectionState {
            is_busy: AtomicBool::new(false),
            is_given_up: AtomicBool::new(false),
            state: Mutex::new(State { since: Instant::now(), waker: None }),
        });
        let connection = Connection { local, is_tls, shared };
        let mut open = self.open();
        open.next_number += 1;
        let number = open.next_number;
        open.by_number.insert(number, connection.clone());
        (number, connection)
    }
}

/// What requests and the listener know of a connection.
#[derive(Clone)]
pub(crate) struct Connection {
    /// The address of this machine that it came to.
    pub(crate) local: Option<SocketAddr>,
    pub(crate) is_tls: bool,
    shared: Arc<ConnectionState>,
}

struct ConnectionState {
    /// A request of it is worked on.
    is_busy: AtomicBool,
    is_given_up: AtomicBool,
    state: Mutex<State>,
}

struct State {
    /// The last time that it came on.
    since: Instant,
    waker: Option<Waker>,
}

impl Connection {
    fn state(&self) -> MutexGuard<'_, State> {
        sync::lock(&self.shared.state)
    }

    /// Whether it waits for its client.
    fn is_waiting(&self) -> bool {
        !self.shared.is_busy.load(Ordering::Relaxed) && !self.is_given_up()
    }

    fn is_given_up(&self) -> bool {
        self.shared.is_given_up.load(Ordering::Relaxed)
    }

    fn give_up(&self) {
        self.shared.is_given_up.store(true, Ordering::Relaxed);
        if let Some(waker) = self.state().waker.take() {
            waker.wake();
        }
    }

    fn note_progress(&self) {
        self.state().since = Instant::now();
    }

    /// While it is there, a request is worked on.
    pub(crate) fn work(&self) -> WorkGuard {
        let was_busy = self.shared.is_busy.swap(true, Ordering::Relaxed);
        WorkGuard { connection: self.clone(), was_busy }
    }

    /// While it is there, more of a request is waited for.
    pub(crate) fn wait(&self) -> WorkGuard {
        self.note_progress();
        let was_busy = self.shared.is_busy.swap(false, Ordering::Relaxed);
        WorkGuard { connection: self.clone(), was_busy }
    }
}

impl Connected<IncomingStream<'_, LimitedListener>> for Connection {
    fn connect_info(stream: IncomingStream<'_, LimitedListener>) -> Connection {
        stream.io().connection.clone()
    }
}

/// Sets a connection back to what it was when it goes.
pub(crate) struct WorkGuard {
    connection: Connection,
    was_busy: bool,
}

impl Drop for WorkGuard {
    fn drop(&mut self) {
        self.connection.note_progress();
        self.connection.shared.is_busy.store(self.was_busy, Ordering::Relaxed);
    }
}

/// A connection that counts against the limit and has a clock.
pub(crate) struct LimitedStream {
    stream: Transport,
    clock: Pin<Box<Sleep>>,
    /// What was read since the clock was set.
    read_bytes: usize,
    /// What is sent in place of the bytes that are being written, and how much of it was.
    instead: Option<(Vec<u8>, usize)>,
    /// The beginning of what was read since the last response, which holds the request's head.
    head: Vec<u8>,
    /// Something was written since the last read.
    has_answered: bool,
    connection: Connection,
    number: u64,
    connections: Arc<Connections>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for LimitedStream {
    fn drop(&mut self) {
        self.connections.open().by_number.remove(&self.number);
    }
}

impl axum::serve::Listener for LimitedListener {
    type Io = LimitedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (LimitedStream, SocketAddr) {
        loop {
            let (stream, peer) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::debug!("an HTTP connection could not be accepted: {error}");
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            // One too many is closed at once: the client sees that, and waiting would hide it.
            let Some(permit) = self.connections.admit().await else {
                continue;
            };
            let clock = Box::pin(sleep_until(Instant::now() + PROGRESS));
            let (local, tls) = (stream.local_addr().ok(), self.tls.as_ref().map(CurrentTls::get));
            let (number, connection) = self.connections.add(local, tls.is_some());
            let limited = LimitedStream {
                stream: Transport::new(stream, tls),
                clock,
                read_bytes: 0,
                instead: None,
                head: Vec::new(),
                has_answered: false,
                connection,
                number,
                connections: Arc::clone(&self.connections),
                _permit: permit,
            };
            return (limited, peer);
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl LimitedStream {
    /// Notes the beginning of a request, for the reason of a refusal.
    fn note_head(&mut self, read: &[u8]) {
        if std::mem::take(&mut self.has_answered) {
            self.head.clear();
        }
        let room = HEAD_BYTES.saturating_sub(self.head.len());
        self.head.extend_from_slice(&read[..read.len().min(room)]);
    }

    /// An error once the clock has run out; otherwise the task is woken when it does.
    fn check_clock(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if self.connection.is_given_up() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match self.clock.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }

    /// Wakes the connection's task when it is to be given up.
    fn note_waker(&self, context: &Context<'_>) {
        let mut state = self.connection.state();
        match &mut state.waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
    }

    fn reset_clock(&mut self) {
        self.clock.as_mut().reset(Instant::now() + PROGRESS);
        self.connection.note_progress();
        self.read_bytes = 0;
    }

    /// Writes a whole response in place of `replaced_bytes` others, which then count as written.
    fn poll_write_instead(
        &mut self,
        context: &mut Context<'_>,
        (full, mut sent): (Vec<u8>, usize),
        replaced_bytes: usize,
    ) -> Poll<io::Result<usize>> {
        while sent < full.len() {
            match Pin::new(&mut self.stream).poll_write(context, &full[sent..]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => sent += count,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    self.instead = Some((full, sent));
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(replaced_bytes))
    }
}

impl AsyncRead for LimitedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check_clock(context)?;
        let filled_before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_pending() {
            self.note_waker(context);
        }
        self.read_bytes += buffer.filled().len() - filled_before;
        self.note_head(&buffer.filled()[filled_before..]);
        if self.read_bytes >= PROGRESS_BYTES {
            self.reset_clock();
        }
        read
    }
}

impl AsyncWrite for LimitedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check_clock(context)?;
        if self.instead.is_none() {
            self.instead = refusal::with_reason(bytes, &self.head).map(|full| (full, 0));
        }
        let written = match self.instead.take() {
            Some(instead) => self.poll_write_instead(context, instead, bytes.len()),
            None => Pin::new(&mut self.stream).poll_write(context, bytes),
        };
        match written {
            Poll::Ready(Ok(_)) => {
                self.has_answered = true;
                self.reset_clock();
            }
            Poll::Pending => self.note_waker(context),
            Poll::Ready(Err(_)) => {}
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
