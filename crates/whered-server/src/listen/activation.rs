//! Sockets that a service manager has bound and passed on (`sd_listen_fds`, "socket activation").
//!
//! ```text
//! LISTEN_PID = our number, LISTEN_FDS = n:  descriptors 3 .. 3+n ─> the listener with that address
//! ```
//! For: ports below 1024 without any privilege, and starts on the first question. Not for sockets
//! that another process of ours hands over (`handover`), nor for binding (`sockets`).
//!
//! Invariants: names and order of descriptors mean nothing, each goes to the listener that is
//! configured to listen at its address; one that belongs to no listener ends the start, because
//! its clients would wait for ever. Threads that have a socket each get copies of the one.
//! Cost: at the start only.

use std::env;
use std::ffi::OsString;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};

use socket2::{SockRef, Type};

use super::ListenOptions;
use super::bind::prepare_udp;
use super::sockets::{Kind, ListeningSocket, SocketKey, Sockets};

/// The first descriptor that is passed.
const FIRST: RawFd = 3;
/// More than any configuration has.
const DESCRIPTORS_MAX: RawFd = 1024;

/// The sockets that were passed to this process, if any were.
///
/// # Errors
/// One of them is none, or belongs to no listener.
pub(crate) fn inherited(options: &ListenOptions) -> io::Result<Sockets> {
    let count = passed(env::var_os("LISTEN_PID"), env::var_os("LISTEN_FDS"));
    let mut descriptors = Vec::new();
    for number in FIRST..FIRST + count {
        descriptors.push(copy_of(number).map_err(|error| {
            io::Error::new(error.kind(), format!("LISTEN_FDS: descriptor {number}: {error}"))
        })?);
    }
    assign(options, descriptors)
}

/// How many are meant for us.
fn passed(pid: Option<OsString>, count: Option<OsString>) -> RawFd {
    let number = |text: Option<OsString>| text?.to_str()?.parse::<i64>().ok();
    if number(pid) != Some(i64::from(std::process::id())) {
        // Another process of this environment was meant, such as the one before us.
        return 0;
    }
    let count = number(count).unwrap_or(0).clamp(0, i64::from(DESCRIPTORS_MAX));
    RawFd::try_from(count).unwrap_or(0)
}

/// A copy that no program we start inherits. The original stays: it is closed with the process.
#[allow(unsafe_code, reason = "a descriptor's number comes from the environment")]
fn copy_of(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the call is a plain question about a number; one that is not open is an error.
    let is_open = unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    if is_open < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, as was just found out, nobody else in this process has it, and it is not
    // closed while it is borrowed.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    borrowed.try_clone_to_owned()
}

/// Gives each descriptor to its listener.
fn assign(options: &ListenOptions, descriptors: Vec<OwnedFd>) -> io::Result<Sockets> {
    let mut sockets = Sockets::default();
    let mut dns: Vec<(Kind, String)> = Vec::new();
    for descriptor in descriptors {
        let (kind, listen) = listener_of(options, descriptor.as_fd())?;
        let copies = match kind {
            Kind::Resp | Kind::RespTls => options.resp_threads,
            Kind::DnsUdp => options.dns_threads,
            Kind::DnsTcp | Kind::RespUnix | Kind::Http | Kind::HttpTls => 1,
        };
        // The loop of datagrams waits in the system call, all others in an event loop.
        SockRef::from(&descriptor).set_nonblocking(kind != Kind::DnsUdp)?;
        if kind == Kind::DnsUdp {
            prepare_udp(&UdpSocket::from(descriptor.try_clone()?))?;
        }
        if matches!(kind, Kind::DnsTcp | Kind::DnsUdp) {
            dns.push((kind, listen.clone()));
        }
        for _ in 0..copies.max(1) {
            let key = SocketKey { kind, number: 0, listen: listen.clone() };
            sockets.add(ListeningSocket { key, socket: descriptor.try_clone()? });
        }
    }
    for (kind, listen) in &dns {
        let other = if *kind == Kind::DnsUdp { Kind::DnsTcp } else { Kind::DnsUdp };
        if !dns.contains(&(other, listen.clone())) {
            return Err(wrong(&format!(
                "DNS at {listen} has no socket of {}; allowed: both, ListenStream and \
                 ListenDatagram",
                other.name()
            )));
        }
    }
    Ok(sockets)
}

/// The listener that is configured for a socket's address, and how it is written there.
fn listener_of(options: &ListenOptions, descriptor: BorrowedFd<'_>) -> io::Result<(Kind, String)> {
    let socket = SockRef::from(&descriptor);
    let (kind, address) = (socket.r#type()?, socket.local_addr()?);
    if let Some(path) = address.as_pathname() {
        let own = options.resp_unix.as_ref().filter(|own| own.path == path);
        let own = own.filter(|_| kind == Type::STREAM);
        let nobody = || wrong(&format!("no door is configured for {}", path.display()));
        return own
            .map(|own| (Kind::RespUnix, own.path.to_string_lossy().into()))
            .ok_or_else(nobody);
    }
    let address =
        address.as_socket().ok_or_else(|| wrong("a socket is neither of IP nor of a path"))?;
    let listeners: [(Kind, Type, &[SocketAddr]); 6] = [
        (Kind::DnsUdp, Type::DGRAM, &options.dns),
        (Kind::DnsTcp, Type::STREAM, &options.dns),
        (Kind::Resp, Type::STREAM, &options.resp),
        (Kind::RespTls, Type::STREAM, &options.resp_tls),
        (Kind::Http, Type::STREAM, &options.http),
        (Kind::HttpTls, Type::STREAM, &options.http_tls),
    ];
    let is_it =
        |(_, of, listen): &&(Kind, Type, &[SocketAddr])| *of == kind && listen.contains(&address);
    match listeners.iter().find(is_it) {
        Some((listener, ..)) => Ok((*listener, address.to_string())),
        None => {
            let of = if kind == Type::DGRAM { "UDP" } else { "TCP" };
            Err(wrong(&format!("no door is configured for {of} {address}")))
        }
    }
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("LISTEN_FDS: {what}"))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn only_what_is_meant_for_this_process_is_taken() {
        let own = || Some(OsString::from(std::process::id().to_string()));
        let text = |text: &str| Some(OsString::from(text));
        assert_eq!(passed(own(), text("3")), 3);
        assert_eq!(passed(own(), text("-3")), 0);
        assert_eq!(passed(own(), text("99999999999")), DESCRIPTORS_MAX);
        assert_eq!(passed(own(), None), 0);
        assert_eq!(passed(text("1"), text("3")), 0);
        assert_eq!(passed(None, text("3")), 0);
        copy_of(RawFd::MAX).map(drop).expect_err("nobody has opened it");
    }

    #[test]
    fn each_socket_goes_to_the_door_of_its_address() {
        let tcp = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
        let address = tcp.local_addr().expect("it is bound");
        let udp = UdpSocket::bind("127.0.0.1:0").expect("loopback has ports");
        let questions = udp.local_addr().expect("it is bound");
        let with_http = ListenOptions { http: vec![address], ..ListenOptions::default() };
        let copy = || OwnedFd::from(tcp.try_clone().expect("a copy"));
        let sockets = assign(&with_http, vec![copy()]).expect("it is HTTP's");
        let of_http = sockets.of(Kind::Http, &[address]).expect("copies");
        assert_eq!(of_http.iter().map(Vec::len).collect::<Vec<_>>(), [1]);
        // Nobody wants it; only one half of DNS is there.
        let nobody = ListenOptions::default();
        let error = assign(&nobody, vec![copy()]).expect_err("no door").to_string();
        assert!(error.contains(&format!("no door is configured for TCP {address}")), "{error}");
        let half =
            ListenOptions { dns: vec![questions], dns_threads: 3, ..ListenOptions::default() };
        let error = assign(&half, vec![udp.into()]).expect_err("half of DNS").to_string();
        assert!(error.contains("has no socket of dns-tcp"), "{error}");
    }
}
