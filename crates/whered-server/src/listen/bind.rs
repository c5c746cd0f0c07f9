//! Binding sockets: TCP for one thread or for many, UDP, and paths of Unix sockets.
//!
//! Not for: which sockets a server needs (`sockets`).
//!
//! Binding is apart from serving: sockets may have been bound by the process before this one.
//! A path that an earlier process has left behind is taken over: a socket that refuses connections
//! has no owner. Anything else at the path is an error, and is left alone.

use std::fs::{self, File, Permissions};
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{mem, ptr};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use whered_engine::store::check_access;

/// The most connections that the kernel keeps for a listener until they are accepted.
const BACKLOG: i32 = 1024;
/// How often a free port is looked for that is free for TCP and for UDP.
const PORT_ATTEMPTS: usize = 32;
/// What is asked of the kernel for unread datagrams: with the default, bursts are lost.
const RECEIVE_BUFFER_BYTES: usize = 4 * 1024 * 1024;
/// How long a quiet UDP socket waits before its thread looks whether to stop.
pub(crate) const STOP_LATENCY: Duration = Duration::from_millis(100);

/// A Unix socket to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixSocketOptions {
    /// Where it stands in the file system.
    pub path: PathBuf,
    /// Who may connect, as file permissions: `0o770`.
    pub permissions: u32,
}

/// Binds one TCP listener.
///
/// # Errors
/// The system's.
pub(super) fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = bound_tcp(address)?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Whether [`bind_tcp`] would succeed.
///
/// # Errors
/// As there.
pub(super) fn probe_tcp(address: SocketAddr) -> io::Result<()> {
    bound_tcp(address).map(drop)
}

/// Whether a UDP socket of this address can be bound.
///
/// # Errors
/// The system's.
pub(super) fn probe_udp(address: SocketAddr) -> io::Result<()> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_port(true)?;
    socket.bind(&address.into())
}

/// A socket that accepts no connection yet.
fn bound_tcp(address: SocketAddr) -> io::Result<Socket> {
    let domain = if address.is_ipv6() { Domain::IPV6 } else { Domain::IPV4 };
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        // `0.0.0.0` and `::` are two addresses here, for TCP as for UDP.
        socket.set_only_v6(true)?;
    }
    // Connections of an earlier process that are fading out must not stop a restart.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// An error with the listener and the address that it is about.
pub(super) fn with_address(listener: &str, address: SocketAddr, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{listener} cannot listen on {address}: {error}"))
}

/// One listening socket that shares its port with those of the other threads.
///
/// # Errors
/// The system's, with the address.
pub(super) fn bind_tcp_shared(address: SocketAddr) -> io::Result<std::net::TcpListener> {
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
pub(super) fn bind_unix(options: &UnixSocketOptions) -> io::Result<OwnedFd> {
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

/// Whether [`bind_unix`] would succeed.
///
/// # Errors
/// As there.
pub(super) fn probe_unix(options: &UnixSocketOptions) -> io::Result<()> {
    let path = &options.path;
    let folder = path.parent().filter(|parent| *parent != Path::new(""));
    let found = || {
        SockAddr::unix(path)?;
        find_stale(path)?;
        check_access(folder.unwrap_or(Path::new(".")), true)
    };
    found().map_err(|error| {
        io::Error::new(error.kind(), format!("cannot listen on {}: {error}", path.display()))
    })
}

/// Removes a socket that nobody listens on any more.
fn remove_stale(path: &Path) -> io::Result<()> {
    if find_stale(path)? { fs::remove_file(path) } else { Ok(()) }
}

/// Whether a socket is there that nobody listens on any more.
fn find_stale(path: &Path) -> io::Result<bool> {
    let kind = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        found => found?.file_type(),
    };
    if !kind.is_socket() {
        let text = "there is something that is no socket";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(true),
        Err(error) => Err(error),
        Ok(_) => {
            let text = "another process listens there";
            Err(io::Error::new(io::ErrorKind::AddrInUse, text))
        }
    }
}

/// Opens one UDP socket of an address that several may share.
///
/// # Errors
/// The system's, such as an address that is not ours.
pub fn bind_udp(address: SocketAddr) -> io::Result<UdpSocket> {
    let ipv6 = address.is_ipv6();
    let domain = if ipv6 { Domain::IPV6 } else { Domain::IPV4 };
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    if ipv6 {
        // `0.0.0.0` and `::` are two addresses here, as in every name server.
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_port(true)?;
    if !force_receive_buffer(&socket, RECEIVE_BUFFER_BYTES) {
        // The kernel grants less when its limit (net.core.rmem_max) is lower.
        socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
    }
    socket.bind(&address.into())?;
    let socket = UdpSocket::from(socket);
    prepare_udp(&socket)?;
    Ok(socket)
}

/// Gives a bound socket what the loop needs of it.
///
/// # Errors
/// The system's.
pub(super) fn prepare_udp(socket: &UdpSocket) -> io::Result<()> {
    let address = socket.local_addr()?;
    socket.set_read_timeout(Some(STOP_LATENCY))?;
    if address.ip().is_unspecified() {
        ask_for_destinations(socket, address.is_ipv6())?;
    }
    Ok(())
}

/// The sockets of one address of DNS.
pub(super) struct DnsSockets {
    pub(super) listener: TcpListener,
    pub(super) sockets: Vec<UdpSocket>,
}

impl DnsSockets {
    /// Binds an address for UDP and TCP.
    ///
    /// TCP comes first: unlike the shared UDP port it fails when another server is there.
    pub(super) fn new(address: SocketAddr, threads: usize) -> io::Result<DnsSockets> {
        let mut attempts = if address.port() == 0 { PORT_ATTEMPTS } else { 1 };
        loop {
            let listener = bind_tcp(address)?;
            let bound = listener.local_addr()?;
            attempts -= 1;
            match (0..threads).map(|_| bind_udp(bound)).collect() {
                Ok(sockets) => return Ok(DnsSockets { listener, sockets }),
                // A free port of TCP that is taken for UDP: look for another one.
                Err(error) if attempts == 0 => return Err(error),
                Err(_) => {}
            }
        }
    }
}

/// Makes the kernel tell for every datagram which address it was sent to.
///
/// # Errors
/// The system's.
fn ask_for_destinations(socket: &UdpSocket, ipv6: bool) -> io::Result<()> {
    let (level, name) = if ipv6 {
        (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO)
    } else {
        (libc::IPPROTO_IP, libc::IP_PKTINFO)
    };
    set_integer(socket.as_raw_fd(), level, name, 1)
}

/// Sets the receive buffer beyond the system's limit, which root may do; whether it was done.
fn force_receive_buffer(socket: &Socket, size_bytes: usize) -> bool {
    let size = libc::c_int::try_from(size_bytes).unwrap_or(libc::c_int::MAX);
    set_integer(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, size).is_ok()
}

#[allow(unsafe_code, reason = "setsockopt is a system call")]
fn set_integer(
    descriptor: RawFd,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: a descriptor that is not open is an error of the call; the value is one c_int that
    // lives across the call, and its size is given.
    let result = unsafe {
        libc::setsockopt(
            descriptor,
            level,
            name,
            ptr::from_ref(&value).cast(),
            mem::size_of_val(&value) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
