//! Transactions of nf_tables over netlink: messages, batches, and the kernel's answer.
//!
//! For: writing sets of half a million elements in two seconds and changing them in less than a
//! tenth of one. The nft program cannot: before it changes a set of ranges it asks the kernel for
//! all of it, which took 22 seconds for 500,000 elements (docs/design/sync.md).
//! Not for: what the messages say (`nft`).
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

use socket2::{Domain, Protocol, Socket, Type};

const NETLINK_NETFILTER: i32 = 12;
const SUBSYSTEM_NFTABLES: u16 = 10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const MESSAGE_ERROR: u16 = 2;
const NESTED: u16 = 0x8000;
const HEADER_BYTES: usize = 20;
const FLAGS_PLACE: usize = 6;
const SEQUENCE_PLACE: usize = 8;

pub(super) const REQUEST: u16 = 1;
pub(super) const ACK: u16 = 4;
pub(super) const CREATE: u16 = 0x400;

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
}

impl Netlink {
    pub(super) fn open() -> io::Result<Netlink> {
        let domain = Domain::from(libc::AF_NETLINK);
        let socket = Socket::new(domain, Type::RAW, Some(Protocol::from(NETLINK_NETFILTER)))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        // Errors without a copy of what they are about, which may be as long as a list.
        set_option(&socket, libc::SOL_NETLINK, libc::NETLINK_CAP_ACK, 1)?;
        Ok(Netlink { socket, room_bytes: 0, buffer: vec![0; 1 << 16] })
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

    fn receive(&mut self) -> io::Result<Answer> {
        let size = loop {
            match (&self.socket).read(&mut self.buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        Answer::of(self.buffer.get(..size).unwrap_or_default())
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "an answer that is none"))
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
    /// What stands behind the heads of an answer that is no error; of an error, its number.
    attributes: Vec<u8>,
}

impl Answer {
    fn of(bytes: &[u8]) -> Option<Answer> {
        let kind = u16::from_ne_bytes(bytes.get(4..FLAGS_PLACE)?.try_into().ok()?);
        let sequence = bytes.get(SEQUENCE_PLACE..SEQUENCE_PLACE + 4)?;
        let sequence = u32::from_ne_bytes(sequence.try_into().ok()?);
        let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
        let start = if kind == MESSAGE_ERROR { HEADER_BYTES - 4 } else { HEADER_BYTES };
        let attributes = bytes.get(start..length)?.to_vec();
        Some(Answer { kind, sequence, attributes })
    }

    /// The error's number, upwards from 1; zero is an acknowledgement.
    fn errno(&self) -> i32 {
        let number = self.attributes.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
        -number
    }
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
