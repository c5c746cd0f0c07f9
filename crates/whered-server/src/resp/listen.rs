//! Listening sockets: one for each worker at every TCP address, one shared at a Unix path.
//!
//! ```text
//! address ──SO_REUSEPORT──> a socket of worker 0, a socket of worker 1, ...    the kernel chooses
//! path    ──one socket────> a descriptor of worker 0, one of worker 1, ...     the first one takes
//! ```
//!
//! Who takes a connection gives it to the worker that has the fewest (`worker`).
//!
//! Binding is apart from listening: sockets may have been bound by the process before this one.
//! A path that an earlier process has left behind is taken over: a socket that refuses connections
//! has no owner. Anything else at the path is an error, and is left alone.

use std::fs::{self, File, Permissions};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};
use rustls::ServerConfig;
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, TcpKeepalive, Type};

use super::clients::Transport;
use super::stream::Stream;

/// The most connections that the kernel keeps for a listener until they are accepted.
const BACKLOG: i32 = 1024;

/// A Unix socket to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixSocketOptions {
    /// Where it stands in the file system.
    pub path: PathBuf,
    /// Who may connect, as file permissions: `0o770`.
    pub permissions: u32,
}

/// One worker's listening socket.
pub(crate) enum Listener {
    /// Plain TCP.
    Tcp(TcpListener),
    /// TLS over TCP.
    Tls(TcpListener, Arc<ServerConfig>),
    /// A Unix socket at a path.
    Unix(UnixListener, Arc<Path>),
}

/// A connection that was just accepted.
pub(crate) struct Accepted {
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
    pub(crate) fn accept(&self, keepalive_seconds: u64) -> io::Result<Accepted> {
        match self {
            Listener::Tcp(listener) => {
                let (socket, address, local) = accept_tcp(listener, keepalive_seconds)?;
                let stream = Stream::Tcp(socket);
                Ok(Accepted { stream, transport: Transport::Tcp, address, local })
            }
            Listener::Tls(listener, config) => {
                let (socket, address, local) = accept_tcp(listener, keepalive_seconds)?;
                let stream = Stream::tls(socket, config)?;
                Ok(Accepted { stream, transport: Transport::Tls, address, local })
            }
            Listener::Unix(listener, path) => {
                let (socket, _) = listener.accept()?;
                let address = format!("{}:0", path.display());
                let (stream, local) = (Stream::Unix(socket), address.clone());
                Ok(Accepted { stream, transport: Transport::Unix, address, local })
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

/// One listening socket that shares its port with those of the other threads.
///
/// # Errors
/// The system's, with the address.
pub(crate) fn bind_tcp(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let with_place = |error: io::Error| {
        io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"))
    };
    let bind = || {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(socket.into())
    };
    bind().map_err(with_place)
}

/// A listening Unix socket.
///
/// # Errors
/// Somebody listens there already, something else is there, or the system's, with the path.
pub(crate) fn bind_unix(options: &UnixSocketOptions) -> io::Result<OwnedFd> {
    let path = &options.path;
    let with_place = |error: io::Error| {
        io::Error::new(error.kind(), format!("cannot listen on {}: {error}", path.display()))
    };
    let bind = || {
        remove_stale(path)?;
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        // Nobody gets in before the permissions are what they should be: Linux takes them from the
        // unbound socket, and they are set once more below, where a umask cannot take part.
        let file = File::from(OwnedFd::from(socket));
        file.set_permissions(Permissions::from_mode(options.permissions))?;
        let socket = Socket::from(OwnedFd::from(file));
        socket.bind(&SockAddr::unix(path)?)?;
        fs::set_permissions(path, Permissions::from_mode(options.permissions))?;
        socket.listen(BACKLOG)?;
        Ok(socket.into())
    };
    bind().map_err(with_place)
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

/// Removes a socket that nobody listens on any more.
fn remove_stale(path: &Path) -> io::Result<()> {
    let kind = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?.file_type(),
    };
    if !kind.is_socket() {
        let text = "there is something that is no socket";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
    }
    match StdUnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) => Err(error),
        Ok(_) => {
            let text = "another process listens there";
            Err(io::Error::new(io::ErrorKind::AddrInUse, text))
        }
    }
}
