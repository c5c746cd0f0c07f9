//! Many datagrams with one system call: `recvmmsg` and `sendmmsg` behind safe types; and one with
//! one call, `recvmsg` and `sendmsg`, so that the two can be compared.
//!
//! Not for: what a datagram means, when to stop (`udp`), whose turn it is (`turns`).
//!
//! ```text
//! Receiver: [ N x 4160 bytes ]  [ N senders ]  [ N control buffers ]  [ N headers ]  made once
//!               │ recvmmsg fills; the headers' pointers are set anew for each call
//!               v
//! Datagram { payload, source }  ──handler──>  Batch: [ N x 4160 bytes ]  made once
//!                                                 │ sendmmsg, to the same senders
//!                                                 v  from the address asked
//! ```
//!
//! Invariants:
//! - the first `received` entries of every array belong to the last call;
//! - no pointer in a header is used after the call that it was set for;
//! - an empty answer is not sent.
//!
//! At the same time: one thread for one `Receiver` and `Batch`; sockets may be shared.
//! Cost: one system call for up to N datagrams each way, no allocation after the start. Buffers lie
//! 65 cache lines apart: at 64 all of a batch would share one set of the first cache.

use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;
use std::ptr;

use super::control::{self, Control};

/// How many datagrams one call receives or sends unless told otherwise.
pub const BATCH_SIZE: usize = 32;

/// The most that can be asked for.
pub const BATCH_SIZE_MAX: usize = 64;

/// The longest datagram that is received; a longer one arrives as an empty payload.
pub const DATAGRAM_SIZE_MAX: usize = 4096;

/// From the beginning of one buffer to the next.
const BUFFER_STRIDE: usize = DATAGRAM_SIZE_MAX + 64;

/// Whether one system call takes one datagram or many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Calls {
    /// `recvmmsg` and `sendmmsg`.
    #[default]
    Many,
    /// `recvmsg` and `sendmsg`.
    Single,
}

/// What a call does when nothing is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenEmpty {
    /// It waits, at the most for the socket's read timeout.
    Wait,
    /// It gives `WouldBlock`.
    Return,
}

/// One received datagram.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// What was sent; empty when it was longer than [`DATAGRAM_SIZE_MAX`].
    pub payload: &'a [u8],
    /// Who sent it.
    pub source: SocketAddr,
}

/// The answers to one batch, by the index of the datagram.
pub struct Batch {
    rooms: Vec<[u8; BUFFER_STRIDE]>,
    sizes: Vec<usize>,
    later: Vec<(usize, LateAnswer)>,
}

/// Makes an answer that does not go out with its batch, on a thread of its own.
pub type LateAnswer = Box<dyn FnOnce(LateSender) + Send>;

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch").field("sizes", &self.sizes).finish_non_exhaustive()
    }
}

impl Batch {
    /// A batch without answers, with room for `size` of them.
    pub fn new(size: usize) -> Batch {
        Batch { rooms: vec![[0; BUFFER_STRIDE]; size], sizes: vec![0; size], later: Vec::new() }
    }

    /// Where the answer to the datagram of that index is written.
    ///
    /// # Panics
    /// When the index is not below the batch's size.
    #[inline]
    pub fn room(&mut self, index: usize) -> &mut [u8] {
        &mut self.rooms[index][..DATAGRAM_SIZE_MAX]
    }

    /// How much of the room is the answer; 0, as it is before, sends nothing.
    ///
    /// # Panics
    /// As [`Batch::room`].
    #[inline]
    pub fn set_size(&mut self, index: usize, size_bytes: usize) {
        self.sizes[index] = size_bytes.min(DATAGRAM_SIZE_MAX);
    }

    /// The answer to the datagram of that index; empty: none.
    ///
    /// # Panics
    /// As [`Batch::room`].
    pub(super) fn answer(&self, index: usize) -> &[u8] {
        &self.rooms[index][..self.sizes[index]]
    }

    /// Has the datagram of that index answered later: `answer` is called when the batch is sent.
    pub fn answer_later(&mut self, index: usize, answer: LateAnswer) {
        self.later.push((index, answer));
    }

    /// Forgets every answer and keeps the memory.
    pub fn clear(&mut self) {
        self.sizes.fill(0);
    }
}

/// The buffers that datagrams are received into.
pub struct Receiver {
    calls: Calls,
    bytes: Vec<[u8; BUFFER_STRIDE]>,
    senders: Vec<Sender>,
    vectors: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    received: usize,
}

/// Where one datagram came from and how to answer it.
struct Sender {
    name: libc::sockaddr_storage,
    name_size: libc::socklen_t,
    source: SocketAddr,
    payload_size: usize,
    control: Control,
}

impl Receiver {
    /// Buffers for one thread: `size` datagrams at a time, at the most [`BATCH_SIZE_MAX`].
    pub fn new(size: usize, calls: Calls) -> Receiver {
        let size = if calls == Calls::Single { 1 } else { size.clamp(1, BATCH_SIZE_MAX) };
        let sender = || Sender {
            name: empty_name(),
            name_size: 0,
            source: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
            payload_size: 0,
            control: Control::new(),
        };
        Receiver {
            calls,
            bytes: vec![[0; BUFFER_STRIDE]; size],
            senders: (0..size).map(|_| sender()).collect(),
            vectors: vec![EMPTY_VECTOR; size],
            headers: vec![EMPTY_HEADER; size],
            received: 0,
        }
    }

    /// How many datagrams one call can take.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Takes what is there already, and waits for one datagram if it is told to.
    ///
    /// # Errors
    /// The system's; `WouldBlock` when nothing is there and it may not wait (any longer).
    pub fn receive(&mut self, socket: &UdpSocket, when_empty: WhenEmpty) -> io::Result<usize> {
        self.receive_at_most(self.size(), socket, when_empty)
    }

    /// Like [`Receiver::receive`], with at most `most` datagrams.
    ///
    /// # Errors
    /// As [`Receiver::receive`].
    pub fn receive_at_most(
        &mut self,
        most: usize,
        socket: &UdpSocket,
        when_empty: WhenEmpty,
    ) -> io::Result<usize> {
        self.received = 0;
        let most = most.clamp(1, self.headers.len());
        let buffers = self.bytes.iter_mut().zip(&mut self.senders);
        let headers = self.vectors.iter_mut().zip(&mut self.headers[..most]);
        for ((vector, header), (bytes, sender)) in headers.zip(buffers) {
            vector.iov_base = bytes.as_mut_ptr().cast();
            vector.iov_len = DATAGRAM_SIZE_MAX;
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_name = ptr::from_mut(&mut sender.name).cast();
            header.msg_hdr.msg_namelen = mem::size_of_val(&sender.name) as libc::socklen_t;
            header.msg_hdr.msg_control = sender.control.as_mut_ptr();
            header.msg_hdr.msg_controllen = control::SIZE_BYTES as _;
        }
        let count = match self.calls {
            Calls::Many => receive_many(socket, &mut self.headers[..most], when_empty)?,
            Calls::Single => receive_one(socket, &mut self.headers[..most], when_empty)?,
        };
        for (header, sender) in self.headers.iter().zip(&mut self.senders).take(count) {
            let whole = header.msg_hdr.msg_flags & libc::MSG_TRUNC == 0;
            sender.payload_size = if whole { header.msg_len as usize } else { 0 };
            sender.name_size = header.msg_hdr.msg_namelen;
            sender.source = socket_address(&sender.name)?;
            sender.control.set_received(header.msg_hdr.msg_controllen as u64);
        }
        self.received = count;
        Ok(count)
    }

    /// Gives the received datagrams to `handle` without allocating.
    pub fn with_datagrams<R>(&self, handle: impl FnOnce(&[Datagram<'_>]) -> R) -> R {
        let unspecified = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        let mut datagrams = [Datagram { payload: &[], source: unspecified }; BATCH_SIZE_MAX];
        let buffers = self.bytes.iter().zip(&self.senders).take(self.received);
        for (datagram, (bytes, sender)) in datagrams.iter_mut().zip(buffers) {
            *datagram = Datagram { payload: &bytes[..sender.payload_size], source: sender.source };
        }
        handle(&datagrams[..self.received])
    }

    /// Sends the answers, each to its datagram's sender and from the address it was sent to.
    ///
    /// Gives how many the system refused (such as an unreachable network): DNS clients ask
    /// again, so these are counted and not retried.
    pub fn send(&mut self, socket: &UdpSocket, batch: &mut Batch) -> usize {
        let mut count = 0;
        let answers = batch.rooms.iter_mut().zip(&batch.sizes);
        let answers = answers.zip(&mut self.senders).take(self.received);
        let headers = self.vectors.iter_mut().zip(&mut self.headers);
        let answers = answers.filter(|((_, size), _)| **size > 0);
        for (((room, size), sender), (vector, header)) in answers.zip(headers) {
            vector.iov_base = room.as_mut_ptr().cast();
            vector.iov_len = *size;
            let header = &mut header.msg_hdr;
            header.msg_iov = vector;
            header.msg_iovlen = 1;
            header.msg_name = ptr::from_mut(&mut sender.name).cast();
            header.msg_namelen = sender.name_size;
            let (control, size_bytes) = sender.control.for_answer().unwrap_or((ptr::null_mut(), 0));
            header.msg_control = control;
            header.msg_controllen = size_bytes as _;
            count += 1;
        }
        let refused = send_all(socket, &mut self.headers[..count], self.calls);
        if !batch.later.is_empty() {
            self.begin_late(socket, batch);
        }
        refused
    }

    /// Begins the answers that come later.
    #[cold]
    fn begin_late(&self, socket: &UdpSocket, batch: &mut Batch) {
        for (index, answer) in batch.later.drain(..) {
            let Some(sender) = self.senders.get(index) else { continue };
            match socket.try_clone() {
                Ok(socket) => answer(LateSender {
                    socket,
                    name: sender.name,
                    name_size: sender.name_size,
                    control: sender.control.clone(),
                }),
                // Dropped, its client asks again.
                Err(error) => tracing::debug!("a datagram is not answered later: {error}"),
            }
        }
    }
}

/// The way to the sender of one datagram, once its batch is gone.
pub struct LateSender {
    socket: UdpSocket,
    name: libc::sockaddr_storage,
    name_size: libc::socklen_t,
    control: Control,
}

impl std::fmt::Debug for LateSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LateSender").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl LateSender {
    /// Sends the answer, from the address that was asked. Whether the system took it.
    pub fn send(mut self, answer: &mut [u8]) -> bool {
        let mut vector =
            libc::iovec { iov_base: answer.as_mut_ptr().cast(), iov_len: answer.len() };
        let mut header = EMPTY_HEADER;
        let (control, size_bytes) = self.control.for_answer().unwrap_or((ptr::null_mut(), 0));
        header.msg_hdr.msg_iov = &raw mut vector;
        header.msg_hdr.msg_iovlen = 1;
        header.msg_hdr.msg_name = ptr::from_mut(&mut self.name).cast();
        header.msg_hdr.msg_namelen = self.name_size;
        header.msg_hdr.msg_control = control;
        header.msg_hdr.msg_controllen = size_bytes as _;
        send_all(&self.socket, &mut [header], Calls::Single) == 0
    }
}

const EMPTY_VECTOR: libc::iovec = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
const EMPTY_HEADER: libc::mmsghdr = empty_header();

#[allow(unsafe_code, reason = "libc's message header has private padding on some targets")]
const fn empty_header() -> libc::mmsghdr {
    // SAFETY: a message header is integers and raw pointers only: all zero bits are valid.
    unsafe { mem::zeroed() }
}

#[allow(unsafe_code, reason = "libc's socket address has private padding")]
fn empty_name() -> libc::sockaddr_storage {
    // SAFETY: a socket address is integers only: all zero bits are valid.
    unsafe { mem::zeroed() }
}

#[allow(unsafe_code, reason = "recvmmsg is a system call")]
fn receive_many(
    socket: &UdpSocket,
    headers: &mut [libc::mmsghdr],
    when_empty: WhenEmpty,
) -> io::Result<usize> {
    let flags = match when_empty {
        WhenEmpty::Wait => libc::MSG_WAITFORONE,
        WhenEmpty::Return => libc::MSG_DONTWAIT,
    };
    // SAFETY: the descriptor is open as long as `socket` is borrowed. `headers` holds as many
    // headers as its length says; `Receiver::receive`, the only caller, has pointed each at a
    // vector, a payload, a name and a control buffer of the lengths given, all of which are
    // exclusively borrowed until after this call, and the kernel keeps no pointer.
    let count = unsafe {
        libc::recvmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            headers.len() as libc::c_uint,
            flags as _,
            ptr::null_mut(),
        )
    };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

#[allow(unsafe_code, reason = "recvmsg is a system call")]
fn receive_one(
    socket: &UdpSocket,
    headers: &mut [libc::mmsghdr],
    when_empty: WhenEmpty,
) -> io::Result<usize> {
    let Some(header) = headers.first_mut() else { return Ok(0) };
    let flags = if when_empty == WhenEmpty::Wait { 0 } else { libc::MSG_DONTWAIT };
    // SAFETY: as in `receive_many`, for the first header alone.
    let size = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header.msg_hdr, flags) };
    header.msg_len = libc::c_uint::try_from(size).map_err(|_| io::Error::last_os_error())?;
    Ok(1)
}

/// Sends every message; gives how many were refused.
fn send_all(socket: &UdpSocket, headers: &mut [libc::mmsghdr], calls: Calls) -> usize {
    let mut sent = 0;
    let mut refused = 0;
    while sent < headers.len() {
        let rest = &mut headers[sent..];
        let taken = match calls {
            Calls::Many => send_many(socket, rest),
            Calls::Single => send_one(socket, rest),
        };
        match taken {
            // The kernel never takes nothing without an error; counted as a refusal all the
            // same, so that this loop ends whatever happens.
            Ok(0) => {
                sent += 1;
                refused += 1;
            }
            Ok(count) => sent += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The error is about the first message; the others may go.
            Err(_) => {
                sent += 1;
                refused += 1;
            }
        }
    }
    refused
}

#[allow(unsafe_code, reason = "sendmmsg is a system call")]
fn send_many(socket: &UdpSocket, headers: &mut [libc::mmsghdr]) -> io::Result<usize> {
    // SAFETY: as in `receive_many`; here `Receiver::send` has pointed the headers at answers,
    // names and controls that stay borrowed until after this call and that the kernel only reads.
    let count = unsafe {
        libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), headers.len() as libc::c_uint, 0)
    };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

#[allow(unsafe_code, reason = "sendmsg is a system call")]
fn send_one(socket: &UdpSocket, headers: &[libc::mmsghdr]) -> io::Result<usize> {
    let Some(header) = headers.first() else { return Ok(0) };
    // SAFETY: as in `send_many`, for the first header alone; `LateSender::send` points its header
    // at what it has.
    let size = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header.msg_hdr, 0) };
    if size < 0 { Err(io::Error::last_os_error()) } else { Ok(1) }
}

/// Reads the address that the kernel has written.
#[allow(unsafe_code, reason = "a socket address is read by its family")]
fn socket_address(name: &libc::sockaddr_storage) -> io::Result<SocketAddr> {
    match i32::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: `sockaddr_storage` is at least as large and as aligned as every socket
            // address (POSIX), and a `sockaddr_in` is integers only: any bytes are valid.
            let v4 = unsafe { &*ptr::from_ref(name).cast::<libc::sockaddr_in>() };
            let address = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Ok(SocketAddrV4::new(address, u16::from_be(v4.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above, for `sockaddr_in6`.
            let v6 = unsafe { &*ptr::from_ref(name).cast::<libc::sockaddr_in6>() };
            let address = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let port = u16::from_be(v6.sin6_port);
            Ok(SocketAddrV6::new(address, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
        }
        family => Err(io::Error::other(format!("a datagram of address family {family}"))),
    }
}

#[cfg(test)]
#[path = "mmsg_tests.rs"]
mod tests;
