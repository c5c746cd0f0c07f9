//! The bytes of a connection: plain TCP, TLS over TCP, or a Unix socket, read and written alike.
//!
//! For: non-blocking reads and writes that meet `WouldBlock`, whatever lies below.
//! Not for: certificates (`tls`), nor for buffers of requests and replies (`connection`).
//!
//! ```text
//! read:   socket ──records──> rustls ──plain bytes──> input      one call takes what is there
//! write:  output ──plain bytes──> rustls ──records──> socket     up to 64 KiB wait inside
//! ```
//!
//! Invariants: a plain short read has emptied the socket; with TLS nothing follows from a short
//! read, so that reading goes on to `WouldBlock`. What rustls holds is bounded by its own limits.

use std::io::{self, IoSlice, Read, Write};
use std::sync::Arc;

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use rustls::{ServerConfig, ServerConnection};

/// Plain bytes that may wait for being encrypted or sent.
const TLS_BUFFER_BYTES: usize = 64 * 1024;

/// One connection's socket.
pub(crate) enum Stream {
    /// Plain TCP.
    Tcp(TcpStream),
    /// A Unix socket.
    Unix(UnixStream),
    /// TLS over TCP.
    Tls(Box<Tls>),
}

/// A TLS connection, from its first byte on.
pub(crate) struct Tls {
    socket: TcpStream,
    session: ServerConnection,
}

impl Stream {
    /// A stream that shakes hands first.
    ///
    /// # Errors
    /// The configuration is refused.
    pub(crate) fn tls(socket: TcpStream, config: Arc<ServerConfig>) -> io::Result<Stream> {
        let session = ServerConnection::new(config).map_err(io::Error::other)?;
        let mut tls = Tls { socket, session };
        tls.session.set_buffer_limit(Some(TLS_BUFFER_BYTES));
        Ok(Stream::Tls(Box::new(tls)))
    }

    /// Reads what is there, up to the room.
    ///
    /// # Errors
    /// `WouldBlock` when nothing is; otherwise the socket's or TLS's.
    pub(crate) fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(socket) => socket.read(room),
            Stream::Unix(socket) => socket.read(room),
            Stream::Tls(tls) => tls.read(room),
        }
    }

    /// Writes what can be written now.
    ///
    /// # Errors
    /// As [`Stream::read`].
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(socket) => socket.write(bytes),
            Stream::Unix(socket) => socket.write(bytes),
            Stream::Tls(tls) => tls.write(bytes),
        }
    }

    /// Whether pieces can be written as they lie; TLS copies them in any case.
    pub(crate) fn takes_pieces(&self) -> bool {
        !matches!(self, Stream::Tls(_))
    }

    /// Writes what can be written now of pieces that follow each other.
    ///
    /// # Errors
    /// As [`Stream::read`].
    pub(crate) fn write_pieces(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Tcp(socket) => socket.write_vectored(pieces),
            Stream::Unix(socket) => socket.write_vectored(pieces),
            Stream::Tls(tls) => tls.write(pieces.first().map_or(&[], |piece| &piece[..])),
        }
    }

    /// Sends what was taken and not yet sent: records of TLS.
    ///
    /// # Errors
    /// As [`Stream::write`].
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Tls(tls) => tls.send(),
            Stream::Tcp(_) | Stream::Unix(_) => Ok(()),
        }
    }

    /// Whether there is something to flush.
    pub(crate) fn has_unsent(&self) -> bool {
        matches!(self, Stream::Tls(tls) if tls.session.wants_write())
    }

    /// Whether a read of fewer bytes than there was room for has emptied the socket.
    pub(crate) fn short_read_is_all(&self) -> bool {
        !matches!(self, Stream::Tls(_))
    }

    /// Whether nothing more can be written now, after a write has taken `count` bytes of `asked`.
    pub(crate) fn is_blocked_after(&self, count: usize, asked: usize) -> bool {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => count < asked,
            Stream::Tls(_) => self.has_unsent(),
        }
    }

    /// Whether the two have not agreed on keys yet.
    pub(crate) fn is_shaking_hands(&self) -> bool {
        matches!(self, Stream::Tls(tls) if tls.session.is_handshaking())
    }

    /// Tells the client that nothing more comes, as far as that is possible now.
    pub(crate) fn say_goodbye(&mut self) {
        if let Stream::Tls(tls) = self {
            tls.session.send_close_notify();
            // The connection ends in any case.
            let _ = tls.send();
        }
    }

    fn source(&mut self) -> &mut dyn Source {
        match self {
            Stream::Tcp(socket) => socket,
            Stream::Unix(socket) => socket,
            Stream::Tls(tls) => &mut tls.socket,
        }
    }
}

impl Tls {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(room) {
                // A close without TLS's own goodbye is taken as one: requests have their lengths.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
            match self.session.read_tls(&mut self.socket) {
                Ok(_) => {}
                // What a handshake has to say goes out although no reply does.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(self.send().err().unwrap_or(error));
                }
                Err(error) => return Err(error),
            }
            if let Err(error) = self.session.process_new_packets() {
                // The alert says why; whether it arrives changes nothing.
                let _ = self.send();
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.session.writer().write(bytes)?;
        match self.send() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && taken > 0 => Ok(taken),
            Err(error) => Err(error),
            // Before the handshake's end bytes are taken and wait: that is not "the peer is gone".
            Ok(()) if taken == 0 && !bytes.is_empty() => Err(io::ErrorKind::WouldBlock.into()),
            Ok(()) => Ok(taken),
        }
    }

    fn send(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            self.session.write_tls(&mut self.socket)?;
        }
        Ok(())
    }
}

impl Source for Stream {
    fn register(&mut self, registry: &Registry, token: Token, on: Interest) -> io::Result<()> {
        self.source().register(registry, token, on)
    }

    fn reregister(&mut self, registry: &Registry, token: Token, on: Interest) -> io::Result<()> {
        self.source().reregister(registry, token, on)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.source().deregister(registry)
    }
}
