//! Connections of the HTTP door: at most so many, and none that hangs.
//!
//! A connection may stay open between requests, but on each one an answer must have been written, or
//! [`PROGRESS_BYTES`] of a request read, within [`PROGRESS`] of the last time: that bounds idle
//! clients, clients that send a request byte by byte, and clients that do not read, with one clock.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::refusal;

/// The longest time between two writes of a connection, and before the first one.
pub(crate) const PROGRESS: Duration = Duration::from_secs(30);

/// How much of a request counts as progress, so that a large upload may take its time.
pub(crate) const PROGRESS_BYTES: usize = 64 * 1024;

/// How long to wait after the system could not accept (such as for want of descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How much of a request's beginning is looked at for the reason of a refusal.
const HEAD_BYTES: usize = 8 * 1024;

/// A listener with a limit that several may share.
pub(crate) struct LimitedListener {
    pub(crate) listener: TcpListener,
    pub(crate) limit: Arc<Semaphore>,
}

/// A connection that counts against the limit and has a clock.
pub(crate) struct LimitedStream {
    stream: TcpStream,
    clock: Pin<Box<Sleep>>,
    /// What was read since the clock was set.
    read_bytes: usize,
    /// What is sent in place of the bytes that are being written, and how much of it was.
    instead: Option<(Vec<u8>, usize)>,
    /// The beginning of what was read since the last response, which holds the request's head.
    head: Vec<u8>,
    /// Something was written since the last read.
    has_answered: bool,
    _permit: OwnedSemaphorePermit,
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
            let Ok(permit) = Arc::clone(&self.limit).try_acquire_owned() else {
                continue;
            };
            let clock = Box::pin(sleep_until(Instant::now() + PROGRESS));
            return (
                LimitedStream {
                    stream,
                    clock,
                    read_bytes: 0,
                    instead: None,
                    head: Vec::new(),
                    has_answered: false,
                    _permit: permit,
                },
                peer,
            );
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// The address of this machine that a connection came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalAddress(pub(crate) Option<SocketAddr>);

impl Connected<IncomingStream<'_, LimitedListener>> for LocalAddress {
    fn connect_info(stream: IncomingStream<'_, LimitedListener>) -> LocalAddress {
        LocalAddress(stream.io().stream.local_addr().ok())
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
        match self.clock.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }

    fn reset_clock(&mut self) {
        self.clock.as_mut().reset(Instant::now() + PROGRESS);
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
        if matches!(written, Poll::Ready(Ok(_))) {
            self.has_answered = true;
            self.reset_clock();
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
