//! Transactions of nf_tables over netlink: messages, batches, and the kernel's answer.
//!
//! For: writing sets of half a million elements in two seconds and changing them in less than a
//! tenth of one; reading a set back; the kernel's announcements. The nft program cannot: before it
//! changes a set of ranges it asks the kernel for all of it, which took 22 seconds for 500,000
//! elements (docs/design/sync.md). Not for: what the messages say (`nft`).
//!
//! ```text
//! | BATCH_BEGIN | message | message | ... | message with ACK | BATCH_END |     one datagram
//!
//! message     | length 4 | type 2 | flags 2 | sequence 4 | port 4 | family 1 | 0 | resource 2 | attributes
//! attribute   | length 2 | type 2 | payload, filled up to 4 octets |
//! ```
//!
//! Lengths, types and flags are in the machine's order, numbers in payloads in the network's. The
//! layout is that of linux/netlink.h, linux/netfilter/nfnetlink.h and nf_tables.h.
//!
//! Invariants: a batch is one datagram, so that it is applied whole or not at all. The kernel works
//! while it is sent; the answer is there when sending has returned.
//! Cost: some 40 octets an end of a range.

use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use socket2::{Domain, Protocol, SockFilter, Socket, Type};

const NETLINK_NETFILTER: i32 = 12;
const SUBSYSTEM_NFTABLES: u16 = 10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const MESSAGE_ERROR: u16 = 2;
const MESSAGE_DONE: u16 = 3;
/// The kernel's number of the generation of all rules: any question binds a socket.
const GET_GENERATION: u16 = 16;
const NESTED: u16 = 0x8000;
const HEADER_BYTES: usize = 20;
const FLAGS_PLACE: usize = 6;
const SEQUENCE_PLACE: usize = 8;
const PORT_PLACE: usize = 12;
/// Set on parts of a list during which something was changed.
const INTERRUPTED: u16 = 0x10;

pub(super) const REQUEST: u16 = 1;
pub(super) const ACK: u16 = 4;
/// Asks for a whole list.
pub(super) const DUMP: u16 = 0x300;
pub(super) const CREATE: u16 = 0x400;

/// The group that changes of nf_tables are announced to.
const GROUP_NFTABLES: i32 = 7;
/// How many octets of announcements may wait for the next look.
const LISTENER_ROOM_BYTES: i32 = 4 << 20;

/// How long an answer may take that should be there already.
const PATIENCE: Duration = Duration::from_secs(30);

/// The length of an attribute has 16 bits; lists are cut before.
pub(super) const LIST_BYTES_MAX: usize = 60_000;

/// Messages one behind the other.
#[derive(Default)]
pub(super) struct Messages {
    bytes: Vec<u8>,
    /// Where the last message begins.
    last: usize,
    count: u32,
}

impl Messages {
    /// Begins a message about nf_tables.
    pub(super) fn begin(&mut self, kind: u16, flags: u16, family: u8) {
        self.begin_raw(SUBSYSTEM_NFTABLES << 8 | kind, flags | REQUEST, family, 0);
    }

    fn begin_raw(&mut self, kind: u16, flags: u16, family: u8, resource: u16) {
        self.last = self.bytes.len();
        self.count += 1;
        self.bytes.extend([0; 4]);
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(flags.to_ne_bytes());
        self.bytes.extend(self.count.to_ne_bytes());
        self.bytes.extend([0; 4]);
        self.bytes.extend([family, 0]);
        self.bytes.extend(resource.to_be_bytes());
        self.end();
    }

    /// Writes the length of the last message.
    fn end(&mut self) {
        let length = (self.bytes.len() - self.last) as u32;
        self.put(self.last, &length.to_ne_bytes());
    }

    fn put(&mut self, place: usize, what: &[u8]) {
        let room = self.bytes.get_mut(place..place + what.len()).expect("what was written before");
        room.copy_from_slice(what);
    }

    /// All octets.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The octets of the message so far.
    pub(super) fn message_bytes(&self) -> usize {
        self.bytes.len() - self.last
    }

    /// An attribute of the last message.
    pub(super) fn attribute(&mut self, kind: u16, payload: &[u8]) {
        self.bytes.extend((payload.len() as u16 + 4).to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend_from_slice(payload);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self.end();
    }

    /// A text with its closing zero.
    pub(super) fn text(&mut self, kind: u16, text: &str) {
        let payload = [text.as_bytes(), &[0]].concat();
        self.attribute(kind, &payload);
    }

    /// Attributes inside of one.
    pub(super) fn nested(&mut self, kind: u16, inside: impl FnOnce(&mut Messages)) {
        let start = self.bytes.len();
        self.bytes.extend([0; 2]);
        self.bytes.extend((kind | NESTED).to_ne_bytes());
        inside(self);
        let length = (self.bytes.len() - start) as u16;
        self.put(start, &length.to_ne_bytes());
        self.end();
    }

    /// A batch, whose messages follow.
    pub(super) fn batch() -> Messages {
        let mut messages = Messages::default();
        messages.begin_raw(BATCH_BEGIN, REQUEST, 0, SUBSYSTEM_NFTABLES);
        messages
    }
}

/// The kernel's refusal: the number of the error, and which message it is about (from 1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Refusal {
    pub(super) errno: i32,
}

/// Why nothing was done.
#[derive(Debug)]
pub(super) enum Fault {
    /// The kernel said no.
    Refused(Refusal),
    /// The socket failed.
    Socket(io::Error),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        Fault::Socket(error)
    }
}

/// A socket to the kernel's packet filter.
pub(super) struct Netlink {
    socket: Socket,
    room_bytes: usize,
    buffer: Vec<u8>,
    /// What the kernel calls this socket; known when it has answered once.
    port: u32,
}

impl Netlink {
    pub(super) fn open() -> io::Result<Netlink> {
        let domain = Domain::from(libc::AF_NETLINK);
        let socket = Socket::new(domain, Type::RAW, Some(Protocol::from(NETLINK_NETFILTER)))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        // Errors without a copy of what they are about, which may be as long as a list.
        set_option(&socket, libc::SOL_NETLINK, libc::NETLINK_CAP_ACK, 1)?;
        Ok(Netlink { socket, room_bytes: 0, buffer: vec![0; 1 << 16], port: 0 })
    }

    /// What the kernel calls this socket; zero before it has answered.
    pub(super) fn port(&self) -> u32 {
        self.port
    }

    /// Sends a batch and reads what the kernel says to it.
    pub(super) fn commit(&mut self, mut batch: Messages) -> Result<(), Fault> {
        let flags = batch.last + FLAGS_PLACE;
        batch.put(flags, &(REQUEST | ACK | CREATE).to_ne_bytes());
        let last = batch.count;
        batch.begin_raw(BATCH_END, REQUEST, 0, SUBSYSTEM_NFTABLES);
        self.make_room(batch.bytes.len())?;
        self.socket.send(&batch.bytes)?;
        loop {
            let answer = self.receive()?;
            if answer.kind != MESSAGE_ERROR {
                continue;
            }
            match answer.errno() {
                0 if answer.sequence == last => return Ok(()),
                0 => {}
                errno => {
                    // The rest of the answers is about the same failure.
                    self.drain();
                    return Err(Fault::Refused(Refusal { errno }));
                }
            }
        }
    }

    /// Asks one thing, and gives the attributes of the answer.
    pub(super) fn ask(&mut self, mut question: Messages) -> Result<Vec<u8>, Fault> {
        question.end();
        self.socket.send(&question.bytes)?;
        let answer = self.receive()?;
        if answer.kind == MESSAGE_ERROR {
            return Err(Fault::Refused(Refusal { errno: answer.errno() }));
        }
        Ok(answer.attributes)
    }

    /// Asks for a list, and gives the attributes of each part. False if something was changed
    /// while it was read: then parts may be missing or come twice.
    pub(super) fn list(
        &mut self,
        mut question: Messages,
        mut each: impl FnMut(&[u8]),
    ) -> Result<bool, Fault> {
        question.end();
        self.socket.send(&question.bytes)?;
        let mut is_whole = true;
        loop {
            let size = self.read()?;
            let mut end = None;
            announcements(self.buffer.get(..size).unwrap_or_default(), |part| {
                is_whole &= part.flags & INTERRUPTED == 0;
                match part.raw_kind {
                    MESSAGE_DONE => end = Some(0),
                    MESSAGE_ERROR => end = Some(part.errno),
                    _ => each(part.attributes),
                }
            });
            match end {
                None => {}
                Some(0) => return Ok(is_whole),
                Some(errno) => return Err(Fault::Refused(Refusal { errno })),
            }
        }
    }

    /// A datagram must fit into the socket's buffer at once.
    fn make_room(&mut self, size_bytes: usize) -> io::Result<()> {
        // The kernel counts its own bookkeeping too.
        let wanted = size_bytes * 2 + (1 << 16);
        if wanted > self.room_bytes {
            let size = i32::try_from(wanted).map_err(|_| io::ErrorKind::InvalidInput)?;
            set_option(&self.socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, size)?;
            self.room_bytes = wanted;
        }
        Ok(())
    }

    fn read(&mut self) -> io::Result<usize> {
        loop {
            match (&self.socket).read(&mut self.buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    fn receive(&mut self) -> io::Result<Answer> {
        let size = self.read()?;
        let answer = Answer::of(self.buffer.get(..size).unwrap_or_default());
        let answer = answer
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "an answer that is none"))?;
        self.port = answer.port;
        Ok(answer)
    }

    fn drain(&mut self) {
        // Nothing is waited for: what is there is dropped, and there may be nothing.
        if self.socket.set_nonblocking(true).is_ok() {
            while (&self.socket).read(&mut self.buffer).is_ok() {}
            let _blocking = self.socket.set_nonblocking(false);
        }
    }
}

/// One message of the kernel.
struct Answer {
    kind: u16,
    sequence: u32,
    port: u32,
    /// What stands behind the heads of an answer that is no error; of an error, its number.
    attributes: Vec<u8>,
}

impl Answer {
    fn of(bytes: &[u8]) -> Option<Answer> {
        let kind = u16::from_ne_bytes(bytes.get(4..FLAGS_PLACE)?.try_into().ok()?);
        let sequence = bytes.get(SEQUENCE_PLACE..SEQUENCE_PLACE + 4)?;
        let sequence = u32::from_ne_bytes(sequence.try_into().ok()?);
        let port = bytes.get(PORT_PLACE..PORT_PLACE + 4)?;
        let port = u32::from_ne_bytes(port.try_into().ok()?);
        let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
        let start = if kind == MESSAGE_ERROR { HEADER_BYTES - 4 } else { HEADER_BYTES };
        let attributes = bytes.get(start..length)?.to_vec();
        Some(Answer { kind, sequence, port, attributes })
    }

    /// The error's number, upwards from 1; zero is an acknowledgement.
    fn errno(&self) -> i32 {
        let number = self.attributes.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
        -number
    }
}

/// One of many messages of the kernel.
pub(super) struct Announcement<'a> {
    /// What it is about, of nf_tables' kinds.
    pub(super) kind: u16,
    /// The family of the table.
    pub(super) family: u8,
    /// What stands behind the heads.
    pub(super) attributes: &'a [u8],
    /// The socket whose transaction it is of.
    pub(super) port: u32,
    raw_kind: u16,
    flags: u16,
    errno: i32,
}

/// Gives the messages of a datagram one by one, up to the first that is cut off.
pub(super) fn announcements(bytes: &[u8], mut each: impl FnMut(&Announcement<'_>)) {
    let mut rest = bytes;
    while let Some(length) = rest.first_chunk().map(|it| u32::from_ne_bytes(*it) as usize) {
        let Some(message) = rest.get(..length).filter(|message| message.len() >= PORT_PLACE + 4)
        else {
            return;
        };
        let number = |place: usize| {
            let octets = message.get(place..place + 2).and_then(|octets| octets.try_into().ok());
            octets.map_or(0, u16::from_ne_bytes)
        };
        let raw_kind = number(4);
        let errno = message.get(PORT_PLACE + 4..).and_then(|it| it.first_chunk());
        let port = message.get(PORT_PLACE..).and_then(|it| it.first_chunk());
        each(&Announcement {
            kind: raw_kind & 0xff,
            family: message.get(HEADER_BYTES - 4).copied().unwrap_or(0),
            attributes: message.get(HEADER_BYTES..).unwrap_or_default(),
            port: port.map_or(0, |octets| u32::from_ne_bytes(*octets)),
            raw_kind,
            flags: number(FLAGS_PLACE),
            errno: errno.map_or(0, |octets| i32::from_ne_bytes(*octets).wrapping_neg()),
        });
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
}

/// A socket that the kernel tells what others change.
pub(super) struct Listener {
    socket: Socket,
    buffer: Vec<u8>,
}

impl Listener {
    /// Listens from now on; what the socket with this port does is not told.
    pub(super) fn open(own_port: u32) -> io::Result<Listener> {
        let netlink = Netlink::open()?;
        let room = LISTENER_ROOM_BYTES;
        set_option(&netlink.socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, room)?;
        // Nothing is told to a socket without a port; the first question gives it one.
        let mut question = Messages::default();
        question.begin(GET_GENERATION, 0, 0);
        question.end();
        netlink.socket.send(&question.bytes)?;
        let mut netlink = netlink;
        netlink.receive()?;
        netlink.socket.attach_filter(&others_than(own_port))?;
        let group = GROUP_NFTABLES;
        set_option(&netlink.socket, libc::SOL_NETLINK, libc::NETLINK_ADD_MEMBERSHIP, group)?;
        netlink.socket.set_nonblocking(true)?;
        Ok(Listener { socket: netlink.socket, buffer: netlink.buffer })
    }

    /// Gives what has come since the last time. False if the kernel had to drop some of it.
    pub(super) fn drain(&mut self, mut each: impl FnMut(&Announcement<'_>)) -> io::Result<bool> {
        let mut is_whole = true;
        loop {
            match (&self.socket).read(&mut self.buffer) {
                Ok(size) => {
                    announcements(self.buffer.get(..size).unwrap_or_default(), &mut each);
                    // A message that does not fit is cut.
                    is_whole &= size < self.buffer.len();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(is_whole),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => is_whole = false,
                Err(error) => return Err(error),
            }
        }
    }
}

/// A filter of the kernel that takes datagrams whose first message was caused by another socket.
/// All messages of a datagram are of one transaction.
fn others_than(port: u32) -> [SockFilter; 4] {
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    [
        SockFilter::new(LOAD_WORD, 0, 0, PORT_PLACE as u32),
        // The filter reads numbers in the network's order, the kernel wrote the machine's.
        SockFilter::new(JUMP_IF_EQUAL, 0, 1, port.to_be()),
        SockFilter::new(RETURN, 0, 0, 0),
        SockFilter::new(RETURN, 0, 0, u32::MAX),
    ]
}

/// The attributes of an answer: kind and payload.
pub(super) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = u16::from_ne_bytes(*rest.first_chunk()?) as usize;
        let kind = u16::from_ne_bytes(rest.get(2..4)?.try_into().ok()?) & !NESTED;
        let payload = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, payload))
    })
}

#[allow(unsafe_code, reason = "setsockopt is a system call, and no safe wrapper has these two")]
fn set_option(socket: &Socket, level: i32, option: i32, value: i32) -> io::Result<()> {
    // SAFETY: the descriptor is the socket's own and open; the kernel reads four octets of a
    // number that lives until the call returns.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_nest_are_filled_up_and_read_back() {
        let mut messages = Messages::default();
        messages.begin(9, CREATE, 1);
        messages.text(1, "edge");
        messages.nested(2, |inside| inside.attribute(3, &[7]));
        let bytes = &messages.bytes;
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(u32::from_ne_bytes(bytes[..4].try_into().unwrap()) as usize, bytes.len());
        let found: Vec<_> = attributes(&bytes[HEADER_BYTES..]).collect();
        assert_eq!(found[0], (1, &b"edge\0"[..]));
        assert_eq!(attributes(found[1].1).collect::<Vec<_>>(), [(3, &[7][..])]);
        // What is cut off yields nothing, and does not panic.
        for end in 0..bytes.len() {
            attributes(&bytes[..end]).for_each(drop);
            assert!(Answer::of(&bytes[..end]).is_none());
        }
    }
}
