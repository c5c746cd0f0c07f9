//! One question after the other on a socket of its own, and how long each answer took.
//!
//! For: the delay of a quiet socket beside a busy one, seen from the thread that makes the other
//! one busy. Not for: load (`driver.rs`).
//!
//! A delay ends when the kernel has put the answer into the probe's socket, by the kernel's own
//! stamp (`SO_TIMESTAMPNS`), not when the thread comes to look at it: sending a burst or taking one
//! in would count as the server's delay otherwise. Invariant: one question is under way at the
//! most. Cost: one system call a look.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A question without an answer counts with so much.
const PATIENCE: Duration = Duration::from_millis(500);

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Probe {
    socket: UdpSocket,
    asked: Option<Duration>,
    /// Microseconds.
    delays: Vec<f64>,
}

impl Probe {
    /// A socket to that address.
    pub(super) fn new(server: SocketAddr) -> io::Result<Probe> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect(server)?;
        socket.set_nonblocking(true)?;
        stamp::ask_for_stamps(&socket)?;
        Ok(Probe { socket, asked: None, delays: Vec::new() })
    }

    /// Looks for the answer, and asks anew when it is there. `query` is given how many were
    /// answered.
    pub(super) fn look<'q>(&mut self, query: impl FnOnce(usize) -> &'q [u8]) -> io::Result<()> {
        let Some(asked) = self.asked else {
            self.asked = Some(now());
            self.socket.send(query(self.delays.len()))?;
            return Ok(());
        };
        let ended = match stamp::receive(&self.socket) {
            Ok(stamp) => stamp,
            Err(_) if now().saturating_sub(asked) > PATIENCE => now(),
            Err(_) => return Ok(()),
        };
        self.delays.push(ended.saturating_sub(asked).as_secs_f64() * 1e6);
        self.asked = None;
        Ok(())
    }

    /// All delays, in microseconds.
    pub(super) fn into_delays(self) -> Vec<f64> {
        self.delays
    }
}

/// The kernel stamps by this clock.
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(target_os = "linux")]
mod stamp {
    //! The kernel's stamp of arrival.

    use super::{Duration, UdpSocket, io};
    use std::os::fd::AsRawFd;
    use std::{mem, ptr};

    /// Room for control messages, aligned as they have to be.
    #[repr(C, align(8))]
    struct Room([u8; 128]);

    #[allow(unsafe_code, reason = "the standard library does not have this option")]
    pub(super) fn ask_for_stamps(socket: &UdpSocket) -> io::Result<()> {
        let on: libc::c_int = 1;
        // SAFETY: the descriptor is open as long as `socket` is borrowed; the value is one c_int
        // that lives across the call, and its size is given.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_TIMESTAMPNS,
                (&raw const on).cast(),
                size_of_val(&on) as libc::socklen_t,
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Takes one datagram and gives when it arrived, since 1970.
    #[allow(unsafe_code, reason = "the standard library reads no control messages")]
    pub(super) fn receive(socket: &UdpSocket) -> io::Result<Duration> {
        let (mut payload, mut room) = ([0_u8; 1500], Room([0; 128]));
        let mut vector =
            libc::iovec { iov_base: payload.as_mut_ptr().cast(), iov_len: payload.len() };
        // SAFETY: a message header is integers and raw pointers only: all zero bits are valid.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        header.msg_iov = &raw mut vector;
        header.msg_iovlen = 1;
        header.msg_control = room.0.as_mut_ptr().cast();
        header.msg_controllen = room.0.len() as _;
        // SAFETY: the header points at one vector and one control room of the lengths given, all of
        // which live across the call and are borrowed by nobody else.
        let size = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, 0) };
        if size < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has written control messages into the room and their length into the
        // header, which is what these functions walk over.
        let mut message = unsafe { libc::CMSG_FIRSTHDR(&raw const header) };
        while !message.is_null() {
            // SAFETY: a pointer that is not null is that of a whole message head in the room.
            let head = unsafe { ptr::read_unaligned(message) };
            if (head.cmsg_level, head.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
                // SAFETY: a message of this type has one timespec, of integers only, behind its
                // head.
                let time: libc::timespec =
                    unsafe { ptr::read_unaligned(libc::CMSG_DATA(message).cast()) };
                return Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32));
            }
            // SAFETY: as for the first message.
            message = unsafe { libc::CMSG_NXTHDR(&raw const header, message) };
        }
        Err(io::Error::other("a datagram without a stamp"))
    }
}

#[cfg(not(target_os = "linux"))]
mod stamp {
    //! Elsewhere an answer has arrived when it is seen.

    use super::{Duration, UdpSocket, io, now};

    pub(super) fn ask_for_stamps(_socket: &UdpSocket) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn receive(socket: &UdpSocket) -> io::Result<Duration> {
        socket.recv(&mut [0; 1500]).map(|_| now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_ends_with_the_arrival_and_not_with_the_look() {
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut probe = Probe::new(server.local_addr().unwrap()).unwrap();
        let mut look = || probe.look(|_| b"question").unwrap();
        // The kernel begins to stamp some moments after the first socket has asked for it, and
        // stamps what came before when it is read: one round in four is enough.
        for _ in 0..4 {
            look();
            look();
            let mut question = [0; 20];
            let (size, from) = server.recv_from(&mut question).unwrap();
            assert_eq!(question[..size], *b"question");
            server.send_to(b"answer", from).unwrap();
            let answered = now();
            while now() - answered < Duration::from_millis(200) {
                std::thread::park_timeout(Duration::from_millis(50));
            }
            look();
        }
        let delays = probe.into_delays();
        assert_eq!(delays.len(), 4);
        #[cfg(target_os = "linux")]
        assert!(delays.iter().any(|delay| *delay < 200_000.0), "{delays:?}");
    }
}
