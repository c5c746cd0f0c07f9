//! Listening sockets: one for each worker at every TCP address, one shared at a Unix path.
//!
//! ```text
//! address ──SO_REUSEPORT──> a socket of worker 0, a socket of worker 1, ...    the kernel chooses
//! path    ──one socket────> a descriptor of worker 0, one of worker 1, ...     the first one takes
//! ```
//!
//! Who takes a connection gives it to the worker that has the fewest (`worker`).
//! Not for: binding (`crate::listen`).

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};
use socket2::{SockRef, TcpKeepalive};

use super::clients::Transport;
use crate::certificates::CurrentTls;
use crate::stream::Stream;

/// One worker's listening socket.
pub(crate) enum Listener {
    /// Plain TCP.
    Tcp(TcpListener),
    /// TLS over TCP.
    Tls(TcpListener, CurrentTls),
    /// A Unix socket at a path.
    Unix(UnixListener, Arc<Path>),
}

/// A connection that was just accepted.
pub(crate) struct AcceptedConnection {
    pub(crate) stream: Stream,
    pub(crate) transport: Transport,
    /// `address:port`, or `path:0`.
    pub(crate) address: String,
    pub(crate) local: String,
}

impl Listener {
    /// Takes one connection.
    ///
    /// # Errors
    /// `WouldBlock` when there is none; otherwise the system's.
    pub(crate) fn accept(&self, keepalive_seconds: u64) -> io::Result<AcceptedConnection> {
        match self {
            Listener::Tcp(listener) => {
                let (socket, address, local) = accept_tcp(listener, keepalive_seconds)?;
                let stream = Stream::Tcp(socket);
                Ok(AcceptedConnection { stream, transport: Transport::Tcp, address, local })
            }
            Listener::Tls(listener, config) => {
                let (socket, address, local) = accept_tcp(listener, keepalive_seconds)?;
                let stream = Stream::tls(socket, config.get())?;
                Ok(AcceptedConnection { stream, transport: Transport::Tls, address, local })
            }
            Listener::Unix(listener, path) => {
                let (socket, _) = listener.accept()?;
                let address = format!("{}:0", path.display());
                let (stream, local) = (Stream::Unix(socket), address.clone());
                Ok(AcceptedConnection { stream, transport: Transport::Unix, address, local })
            }
        }
    }

    /// Has the poll report new connections.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Listener::Tcp(listener) | Listener::Tls(listener, _) => {
                registry.register(listener, token, Interest::READABLE)
            }
            Listener::Unix(listener, _) => registry.register(listener, token, Interest::READABLE),
        }
    }
}

fn accept_tcp(
    listener: &TcpListener,
    keepalive_seconds: u64,
) -> io::Result<(mio::net::TcpStream, String, String)> {
    let (socket, address) = listener.accept()?;
    let local = socket.local_addr()?;
    // Without this the last part of a long reply waits for the client's acknowledgement.
    let _ = socket.set_nodelay(true);
    if keepalive_seconds > 0 {
        let time = Duration::from_secs(keepalive_seconds);
        let interval = Duration::from_secs((keepalive_seconds / 3).max(1));
        let probes = TcpKeepalive::new().with_time(time).with_interval(interval).with_retries(3);
        // A connection without probes is better than none.
        let _ = SockRef::from(&socket).set_tcp_keepalive(&probes);
    }
    Ok((socket, address.to_string(), local.to_string()))
}

/// As many descriptors of a listening Unix socket as there are workers.
///
/// # Errors
/// The system has no descriptor left.
pub(crate) fn unix(socket: &OwnedFd, path: &Path, workers: usize) -> io::Result<Vec<Listener>> {
    let name: Arc<Path> = Arc::from(path);
    let listener = |socket: OwnedFd| {
        let listener = std::os::unix::net::UnixListener::from(socket);
        Listener::Unix(UnixListener::from_std(listener), Arc::clone(&name))
    };
    (0..workers).map(|_| socket.try_clone().map(listener)).collect()
}
