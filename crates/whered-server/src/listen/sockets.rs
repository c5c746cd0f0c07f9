//! The listening sockets of all listeners: bound at the start, or handed over by the process
//! before.
//!
//! For: one place that binds, so that it can be done before privileges are dropped and given to a
//! successor. Not for: what comes in through them (the listeners), how they are handed over
//! (`handover`).
//!
//! ```text
//! (listener, configured address, which of that address) ─> sockets: one, or as many as threads
//!      dns-udp 127.0.0.1:53 0   s s s      a socket for each thread, all of one port
//!      dns-tcp 127.0.0.1:53 0   s          one, whose connections one thread takes
//! ```
//!
//! Invariants: what a listener gets are copies of descriptors; the socket and what waits in it live
//! as long as any process has a copy. A socket that was handed over is used even when there are
//! fewer threads now: closing it would lose what waits in it.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use socket2::SockRef;

use super::ListenOptions;
use super::bind::{self, DnsSockets, UnixSocketOptions};

/// Which kind of socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    DnsUdp,
    DnsTcp,
    Resp,
    RespTls,
    RespUnix,
    Http,
    HttpTls,
}

impl Kind {
    const ALL: [Kind; 7] = [
        Kind::DnsUdp,
        Kind::DnsTcp,
        Kind::Resp,
        Kind::RespTls,
        Kind::RespUnix,
        Kind::Http,
        Kind::HttpTls,
    ];

    /// As messages between processes name it. Newer programs must know these names, too.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::DnsUdp => "dns-udp",
            Kind::DnsTcp => "dns-tcp",
            Kind::Resp => "resp",
            Kind::RespTls => "resp-tls",
            Kind::RespUnix => "resp-unix",
            Kind::Http => "http",
            Kind::HttpTls => "http-tls",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Where a socket belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SocketKey {
    pub(crate) kind: Kind,
    /// Which of those that are configured alike: with port 0 there may be several.
    pub(crate) number: usize,
    /// The address or path as it is configured.
    pub(crate) listen: String,
}

/// One listening socket.
#[derive(Debug)]
pub(crate) struct ListeningSocket {
    pub(crate) key: SocketKey,
    pub(crate) socket: OwnedFd,
}

/// All listening sockets of a server.
#[derive(Debug, Default)]
pub(crate) struct Sockets(Vec<ListeningSocket>);

impl Sockets {
    /// A socket that was handed over.
    pub(crate) fn add(&mut self, listening: ListeningSocket) {
        self.0.push(listening);
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Every socket.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &ListeningSocket> {
        self.0.iter()
    }

    /// The sockets of a configuration: what was handed over for it, and the rest bound anew.
    ///
    /// # Errors
    /// An address that cannot be bound, with its listener.
    pub(crate) fn open(options: &ListenOptions, handed: Sockets) -> io::Result<Sockets> {
        let mut opening = SocketOpener { handed, opened: Sockets::default() };
        let (threads, shared) = (options.resp_threads.max(1), PortSharing::NotWithOthers);
        opening.resp(Kind::Resp, &options.resp, threads, shared)?;
        opening.resp(Kind::RespTls, &options.resp_tls, threads, shared)?;
        let unix = options.resp_unix.as_ref();
        opening.resp_unix(unix).map_err(|error| with_listener("RESP", &error))?;
        opening.dns(&options.dns, options.dns_threads)?;
        opening.http(Kind::Http, &options.http)?;
        opening.http(Kind::HttpTls, &options.http_tls)?;
        Ok(opening.opened)
    }

    /// The sockets of a RESP listener alone. Its ports may be another process's, too.
    ///
    /// # Errors
    /// An address that cannot be bound.
    pub(crate) fn open_shared(options: &ListenOptions) -> io::Result<Sockets> {
        let mut opening = SocketOpener { handed: Sockets::default(), opened: Sockets::default() };
        let threads = options.resp_threads.max(1);
        opening.resp(Kind::Resp, &options.resp, threads, PortSharing::WithOthers)?;
        opening.resp(Kind::RespTls, &options.resp_tls, threads, PortSharing::WithOthers)?;
        opening.resp_unix(options.resp_unix.as_ref())?;
        Ok(opening.opened)
    }

    /// Copies of the sockets of each address, in the order of the addresses.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub(crate) fn of(&self, kind: Kind, listen: &[SocketAddr]) -> io::Result<Vec<Vec<OwnedFd>>> {
        let of_one = |(number, address)| self.copies(&of_address(kind, number, address));
        numbered(listen).map(of_one).collect()
    }

    /// The socket of a path.
    ///
    /// # Errors
    /// As [`Sockets::of`].
    pub(crate) fn of_unix(&self, path: &Path) -> io::Result<Vec<OwnedFd>> {
        self.copies(&of_path(path))
    }

    fn copies(&self, key: &SocketKey) -> io::Result<Vec<OwnedFd>> {
        let own = self.0.iter().filter(|one| one.key == *key);
        own.map(|one| one.socket.try_clone()).collect()
    }
}

/// Sockets that are being opened.
struct SocketOpener {
    handed: Sockets,
    opened: Sockets,
}

/// Whether another process may listen at a port that this one's threads share.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PortSharing {
    WithOthers,
    NotWithOthers,
}

impl SocketOpener {
    fn resp(
        &mut self,
        kind: Kind,
        listen: &[SocketAddr],
        threads: usize,
        shared: PortSharing,
    ) -> io::Result<()> {
        for (number, address) in numbered(listen) {
            let key = of_address(kind, number, address);
            let alone = shared == PortSharing::NotWithOthers;
            if !self.take(&key) && alone {
                // Threads share their port, which would let a second server share it as well:
                // binding it alone first fails when anybody is there.
                let bound = bind::bind_tcp(address);
                drop(bound.map_err(|error| bind::with_address("RESP", address, &error))?);
            }
            while self.opened.count(&key) < threads {
                let bound = self.opened.address(&key).unwrap_or(address);
                let socket = bind::bind_tcp_shared(bound);
                let socket = match alone {
                    true => socket.map_err(|error| with_listener("RESP", &error))?,
                    false => socket?,
                };
                self.keep(&key, socket.into());
            }
        }
        Ok(())
    }

    fn resp_unix(&mut self, options: Option<&UnixSocketOptions>) -> io::Result<()> {
        if let Some(options) = options {
            let key = of_path(&options.path);
            if !self.take(&key) {
                self.keep(&key, bind::bind_unix(options)?);
            }
        }
        Ok(())
    }

    fn http(&mut self, kind: Kind, listen: &[SocketAddr]) -> io::Result<()> {
        for (number, address) in numbered(listen) {
            let key = of_address(kind, number, address);
            if !self.take(&key) {
                let socket = bind::bind_tcp(address);
                let socket = socket.map_err(|error| bind::with_address("HTTP", address, &error))?;
                self.keep(&key, socket.into());
            }
        }
        Ok(())
    }

    fn dns(&mut self, listen: &[SocketAddr], threads: usize) -> io::Result<()> {
        for (number, address) in numbered(listen) {
            let udp = of_address(Kind::DnsUdp, number, address);
            let tcp = of_address(Kind::DnsTcp, number, address);
            let cannot = |error: io::Error| bind::with_address("DNS", address, &error);
            let has_both = self.take(&tcp) & self.take(&udp);
            if !has_both {
                let bound = DnsSockets::new(address, threads).map_err(cannot)?;
                self.keep(&tcp, bound.listener.into());
                bound.sockets.into_iter().for_each(|socket| self.keep(&udp, socket.into()));
            }
            while self.opened.count(&udp) < threads {
                let bound = self.opened.address(&udp).unwrap_or(address);
                self.keep(&udp, bind::bind_udp(bound).map_err(cannot)?.into());
            }
        }
        Ok(())
    }

    /// Takes what was handed over for this; whether there is anything.
    fn take(&mut self, key: &SocketKey) -> bool {
        let handed = std::mem::take(&mut self.handed.0);
        let (own, others) = handed.into_iter().partition(|one| one.key == *key);
        self.handed.0 = others;
        self.opened.0.extend(own);
        self.opened.count(key) > 0
    }

    fn keep(&mut self, key: &SocketKey, socket: OwnedFd) {
        self.opened.add(ListeningSocket { key: key.clone(), socket });
    }
}

impl Sockets {
    fn count(&self, key: &SocketKey) -> usize {
        self.0.iter().filter(|one| one.key == *key).count()
    }

    /// Where the sockets of this are bound: with port 0 that is told by the first one.
    fn address(&self, key: &SocketKey) -> Option<SocketAddr> {
        let first = self.0.iter().find(|one| one.key == *key)?;
        address_of(first.socket.as_fd()).ok()
    }
}

/// Where a socket is bound.
///
/// # Errors
/// The system's; it has no address with a port.
pub(crate) fn address_of(socket: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    let address = SockRef::from(&socket).local_addr()?;
    address.as_socket().ok_or_else(|| io::Error::from(io::ErrorKind::AddrNotAvailable))
}

/// The listeners of a listener whose addresses have one each.
///
/// # Errors
/// As [`Sockets::of`].
pub(crate) fn listeners(
    sockets: &Sockets,
    kind: Kind,
    listen: &[SocketAddr],
) -> io::Result<Vec<TcpListener>> {
    let all = sockets.of(kind, listen)?;
    Ok(all.into_iter().flatten().map(TcpListener::from).collect())
}

/// The sockets of each thread: one of every address, and what is over in turn.
pub(crate) fn by_thread<S: From<OwnedFd>>(
    sockets: Vec<Vec<OwnedFd>>,
    threads: usize,
) -> Vec<Vec<S>> {
    let mut by_thread: Vec<Vec<S>> = (0..threads).map(|_| Vec::new()).collect();
    for of_address in sockets {
        for (index, socket) in of_address.into_iter().enumerate() {
            by_thread[index % threads].push(socket.into());
        }
    }
    by_thread
}

/// Whether every address can be bound, found out by binding each for a moment: nobody can connect.
///
/// # Errors
/// As [`Sockets::open`].
pub(crate) fn probe(options: &ListenOptions) -> io::Result<()> {
    let tcp = |listener: &str, listen: &[SocketAddr]| {
        listen.iter().try_for_each(|address| {
            let bound = bind::probe_tcp(*address);
            bound.map_err(|error| bind::with_address(listener, *address, &error))
        })
    };
    tcp("RESP", &options.resp)?;
    tcp("RESP", &options.resp_tls)?;
    if let Some(unix) = &options.resp_unix {
        bind::probe_unix(unix).map_err(|error| with_listener("RESP", &error))?;
    }
    tcp("DNS", &options.dns)?;
    options.dns.iter().try_for_each(|address| {
        let bound = bind::probe_udp(*address);
        bound.map_err(|error| bind::with_address("DNS", *address, &error))
    })?;
    tcp("HTTP", &options.http)?;
    tcp("HTTP", &options.http_tls)
}

fn with_listener(listener: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{listener} {error}"))
}

/// Each address with how many like it stand before it.
fn numbered(listen: &[SocketAddr]) -> impl Iterator<Item = (usize, SocketAddr)> {
    let number = |(index, address): (usize, &SocketAddr)| {
        (listen[..index].iter().filter(|before| *before == address).count(), *address)
    };
    listen.iter().enumerate().map(number)
}

fn of_address(kind: Kind, number: usize, address: SocketAddr) -> SocketKey {
    SocketKey { kind, number, listen: address.to_string() }
}

fn of_path(path: &Path) -> SocketKey {
    SocketKey { kind: Kind::RespUnix, number: 0, listen: path.to_string_lossy().into_owned() }
}
