//! pcapng: sections of blocks, with interfaces of their own in each section.
//!
//! Not for: names, statistics, secrets and other blocks, which are skipped without being kept.
//!
//! ```text
//! block     type u32 | total size u32 | body ... | total size u32
//! section   0x0a0d0d0a: byte order number u32 | version u16 u16 | size i64 | options
//! interface 1: link type u16 | reserved u16 | snaplen u32 | options
//! old       2: interface u16 | drops u16 | time u32 u32 | captured u32 | original u32 | bytes
//! simple    3: original u32 | bytes (as many as fit, cut at interface 0's snaplen)
//! enhanced  6: interface u32 | time u32 u32 | captured u32 | original u32 | bytes | options
//! options   code u16 | size u16 | value, padded to four bytes | ... | code 0
//! ```
//!
//! Options that are read: the interface's name (2), time resolution (9) and time offset (14), and
//! an enhanced packet's flags (2), whose direction decides whether the interface is the input or
//! the output. Source: draft-ietf-opsawg-pcapng.
//!
//! Invariants: every packet names an interface of its own section; block sizes stand at both ends
//! alike. Limits: [`RECORD_SIZE_MAX_BYTES`] for a block that is looked at, [`INTERFACES_MAX`].

use std::io::Read;

use crate::byte_order::ByteOrder;
use crate::capture::Context;
use crate::error::{CaptureError, ErrorKind, Place};
use crate::interfaces::{Interface, Interfaces};
use crate::ip;
use crate::link::{Direction, LinkType};
use crate::pcap::truncated;
use crate::record::PacketRecord;
use crate::source::RECORD_SIZE_MAX_BYTES;
use crate::totals::Skip;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

/// Type and size in front, size behind.
const FRAME_SIZE: usize = 12;
const BODY_AT: usize = 8;

/// The interfaces that one section may have.
const INTERFACES_MAX: usize = 65_536;

#[derive(Default)]
pub(crate) struct PcapNg {
    /// None before the first section.
    order: Option<ByteOrder>,
    interfaces: Vec<InterfaceInfo>,
}

/// An interface as its block describes it.
struct InterfaceInfo {
    link: Option<LinkType>,
    snaplen: u32,
    name: Option<Interface>,
    resolution: Resolution,
    offset_seconds: i64,
}

/// How long a tick of the time is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Resolution {
    /// 10 to the minus this.
    Decimal(u32),
    /// 2 to the minus this.
    Binary(u32),
}

/// A packet block taken apart.
struct PacketBlock<'a> {
    interface: u32,
    ticks: Option<u64>,
    original: u32,
    frame: &'a [u8],
    options: &'a [u8],
}

/// A fault of a body: the kind, the text that was found, the text that is allowed.
struct Fault(ErrorKind, String, &'static str);

fn malformed(found: impl Into<String>, allowed: &'static str) -> Fault {
    Fault(ErrorKind::Malformed, found.into(), allowed)
}

impl Fault {
    fn at(self, place: Place) -> CaptureError {
        CaptureError::new(self.0, place, self.1, self.2)
    }
}

impl PcapNg {
    /// The next packet that can be judged.
    pub(crate) fn advance<R: Read>(
        &mut self,
        context: &mut Context<R>,
    ) -> Result<Option<PacketRecord>, CaptureError> {
        loop {
            let place = context.packet_place();
            let unreadable = |error| CaptureError::unreadable(place, &error);
            let bytes = context.source.fill(FRAME_SIZE).map_err(unreadable)?;
            if bytes.is_empty() {
                return Ok(None);
            }
            let Some(start) = bytes.first_chunk::<FRAME_SIZE>() else {
                return Err(truncated(place, bytes.len(), FRAME_SIZE));
            };
            let (order, kind, size) = self.block_head(start).map_err(|fault| fault.at(place))?;
            if !matches!(kind, SECTION | INTERFACE | OLD_PACKET | SIMPLE_PACKET | ENHANCED_PACKET) {
                if !context.source.skip(u64::from(size)).map_err(unreadable)? {
                    return Err(truncated(place, 0, size as usize));
                }
                continue;
            }
            let size = size as usize;
            if size > RECORD_SIZE_MAX_BYTES {
                let found = format!("a block of {size} bytes");
                return Err(CaptureError::new(ErrorKind::Limit, place, found, "at most 16 MiB"));
            }
            let bytes = context.source.fill(size).map_err(unreadable)?;
            let Some(block) = bytes.get(..size) else {
                return Err(truncated(place, bytes.len(), size));
            };
            let (body, tail) = block[BODY_AT..].split_at(size - FRAME_SIZE);
            if order.u32_at(tail, 0) != Some(size as u32) {
                let fault = malformed("another size at the block's end", "the same at both ends");
                return Err(fault.at(place));
            }
            let interfaces = &mut context.interfaces;
            let found = match kind {
                SECTION => self.open_section(order, body).map(|()| None),
                INTERFACE => self.add_interface(order, body, interfaces).map(|()| None),
                _ => packet_block(order, kind, body, &self.interfaces).map(Some),
            };
            let Some(packet) = found.map_err(|fault| fault.at(place))? else {
                context.source.consume(size);
                continue;
            };
            let mut record = PacketRecord::numbered(context.totals.count_record());
            let outcome = self.read_packet(order, &packet, &mut record);
            let outcome = outcome.map_err(|fault| fault.at(place))?;
            context.source.consume(size);
            match outcome {
                Ok(()) => return Ok(Some(record)),
                Err(reason) => context.totals.count_skip(reason),
            }
        }
    }

    /// Byte order, type and size of the block that begins so. Only a section tells its byte order.
    fn block_head(&self, start: &[u8; FRAME_SIZE]) -> Result<(ByteOrder, u32, u32), Fault> {
        let is_section = start.starts_with(&SECTION.to_be_bytes());
        let order = match (is_section, self.order, &start[8..12]) {
            (true, _, [0x4d, 0x3c, 0x2b, 0x1a]) => ByteOrder::Little,
            (true, _, [0x1a, 0x2b, 0x3c, 0x4d]) => ByteOrder::Big,
            (true, ..) => return Err(malformed("no byte order in a section", "0x1a2b3c4d")),
            (false, Some(order), _) => order,
            (false, None, _) => return Err(malformed("no section", "a section first")),
        };
        let kind = order.u32_at(start, 0).unwrap_or_default();
        let size = order.u32_at(start, 4).unwrap_or_default();
        if size % 4 != 0 || (size as usize) < FRAME_SIZE {
            let allowed = "a multiple of 4, 12 at least";
            return Err(malformed(format!("a block of {size} bytes"), allowed));
        }
        Ok((order, kind, size))
    }

    fn open_section(&mut self, order: ByteOrder, body: &[u8]) -> Result<(), Fault> {
        match order.u16_at(body, 4) {
            Some(1) if body.len() >= 16 => {}
            Some(major) if major != 1 => {
                let found = format!("pcapng version {major}");
                return Err(Fault(ErrorKind::Unsupported, found, "version 1"));
            }
            _ => return Err(malformed("a section block too short", "16 bytes and options")),
        }
        self.order = Some(order);
        self.interfaces.clear();
        Ok(())
    }

    fn add_interface(
        &mut self,
        order: ByteOrder,
        body: &[u8],
        names: &mut Interfaces,
    ) -> Result<(), Fault> {
        let (Some(link), Some(snaplen)) = (order.u16_at(body, 0), order.u32_at(body, 4)) else {
            return Err(malformed("an interface block too short", "8 bytes and options"));
        };
        if self.interfaces.len() >= INTERFACES_MAX {
            let found = "one more interface in a section".to_owned();
            return Err(Fault(ErrorKind::Limit, found, "at most 65,536"));
        }
        let mut described = InterfaceInfo {
            link: LinkType::from_number(link),
            snaplen,
            name: None,
            resolution: Resolution::Decimal(6),
            offset_seconds: 0,
        };
        let mut options = Options { order, rest: body.get(8..).unwrap_or(&[]) };
        while let Some((code, value)) = options.advance()? {
            match (code, value) {
                (2, name) => {
                    let name = name.split(|&byte| byte == 0).next().unwrap_or(name);
                    let limit = |allowed| {
                        Fault(ErrorKind::Limit, "one more interface name".to_owned(), allowed)
                    };
                    described.name = Some(names.intern(name).map_err(limit)?);
                }
                (9, &[resolution, ..]) => {
                    let power = u32::from(resolution & 0x7f);
                    let is_binary = resolution & 0x80 != 0;
                    described.resolution = if is_binary {
                        Resolution::Binary(power)
                    } else {
                        Resolution::Decimal(power)
                    };
                }
                (14, value) => {
                    let Some(seconds) = order.i64_at(value, 0) else {
                        return Err(malformed("a time offset too short", "8 bytes"));
                    };
                    described.offset_seconds = seconds;
                }
                _ => {}
            }
        }
        self.interfaces.push(described);
        Ok(())
    }

    /// Fills the record; a frame that cannot be judged is not an error.
    fn read_packet(
        &self,
        order: ByteOrder,
        packet: &PacketBlock<'_>,
        record: &mut PacketRecord,
    ) -> Result<Result<(), Skip>, Fault> {
        let Some(described) = self.interfaces.get(packet.interface as usize) else {
            let found = format!("interface {}", packet.interface);
            return Err(malformed(found, "an interface that its section describes"));
        };
        let mut direction = Direction::Unknown;
        let mut options = Options { order, rest: packet.options };
        while let Some((code, value)) = options.advance()? {
            if code == 2 {
                direction = match order.u32_at(value, 0).map(|flags| flags & 3) {
                    Some(1) => Direction::Incoming,
                    Some(2) => Direction::Outgoing,
                    _ => Direction::Unknown,
                };
            }
        }
        let Some(link) = described.link else { return Ok(Err(Skip::LinkType)) };
        let outcome = link.packet_in(packet.frame).and_then(|found| {
            if direction == Direction::Unknown {
                direction = found.direction;
            }
            ip::read(found.network, found.bytes, record)
        });
        match direction {
            Direction::Outgoing => record.output = described.name,
            Direction::Incoming | Direction::Unknown => record.input = described.name,
        }
        record.bytes = Some(u64::from(packet.original));
        record.time_nanoseconds = packet.ticks.and_then(|ticks| described.nanoseconds(ticks));
        Ok(outcome)
    }
}

impl InterfaceInfo {
    fn nanoseconds(&self, ticks: u64) -> Option<i64> {
        let ticks = u128::from(ticks);
        let since = match self.resolution {
            Resolution::Decimal(power @ 0..=9) => ticks * 10u128.pow(9 - power),
            Resolution::Decimal(power) => {
                10u128.checked_pow(power - 9).map_or(0, |divisor| ticks / divisor)
            }
            Resolution::Binary(power) => (ticks * 1_000_000_000).checked_shr(power).unwrap_or(0),
        };
        let offset = self.offset_seconds.checked_mul(1_000_000_000)?;
        i64::try_from(since).ok()?.checked_add(offset)
    }
}

/// Takes the body of a packet block of this type apart.
fn packet_block<'a>(
    order: ByteOrder,
    kind: u32,
    body: &'a [u8],
    interfaces: &[InterfaceInfo],
) -> Result<PacketBlock<'a>, Fault> {
    let short = || malformed("a packet block too short", "its numbers and the captured bytes");
    let number = |at| order.u32_at(body, at).ok_or_else(short);
    if kind == SIMPLE_PACKET {
        let original = number(0)?;
        let snaplen = interfaces.first().map_or(0, |described| described.snaplen);
        let kept = if snaplen == 0 { original } else { original.min(snaplen) };
        // The padding is not told from the frame where the capture was cut; lengths in the
        // packet's own header tell.
        let frame = &body[4..];
        let frame = frame.get(..kept as usize).unwrap_or(frame);
        return Ok(PacketBlock { interface: 0, ticks: None, original, frame, options: &[] });
    }
    let interface = if kind == OLD_PACKET {
        u32::from(order.u16_at(body, 0).ok_or_else(short)?)
    } else {
        number(0)?
    };
    let ticks = u64::from(number(4)?) << 32 | u64::from(number(8)?);
    let captured = number(12)? as usize;
    let original = number(16)?;
    let padded = captured.checked_next_multiple_of(4).ok_or_else(short)?;
    let (frame, options) = body[20..].split_at_checked(padded).ok_or_else(short)?;
    let frame = &frame[..captured];
    let options = if kind == ENHANCED_PACKET { options } else { &[] };
    Ok(PacketBlock { interface, ticks: Some(ticks), original, frame, options })
}

/// The options at the end of a block.
struct Options<'a> {
    order: ByteOrder,
    rest: &'a [u8],
}

impl<'a> Options<'a> {
    /// The next code and value; none at the end, with or without the option that says so.
    #[inline]
    fn advance(&mut self) -> Result<Option<(u16, &'a [u8])>, Fault> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let beyond = || malformed("an option beyond its block", "options within their block");
        let code = self.order.u16_at(self.rest, 0).ok_or_else(beyond)?;
        let size = usize::from(self.order.u16_at(self.rest, 2).ok_or_else(beyond)?);
        if code == 0 {
            return Ok(None);
        }
        let padded = size.next_multiple_of(4);
        let (value, rest) = self.rest[4..].split_at_checked(padded).ok_or_else(beyond)?;
        self.rest = rest;
        Ok(Some((code, &value[..size])))
    }
}
