//! From a frame to the IP packet in it, for each link type.
//!
//! For: Ethernet with any tags (802.1Q, 802.1ad and their older numbers), MPLS and PPPoE, Linux
//! cooked captures in both versions, raw IP, PPP, 802.11 with and without radiotap, NFLOG, and the
//! loopback headers of BSD. Not for: tunnels, encrypted frames of 802.11 and several packets in
//! one: they are counted as not IP.
//!
//! Link types are those of <https://www.tcpdump.org/linktypes.html>. No frame is trusted: what
//! ends too early is [`Skip::Cut`]. Cost: a few comparisons, no copy.

use crate::byte_order::ByteOrder;
use crate::totals::Skip;

const TAGS_MAX: usize = 8;
const TAG_SIZE_BYTES: usize = 4;

/// The link types that are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LinkType {
    Null,
    Loop,
    Ethernet,
    Raw,
    Ipv4,
    Ipv6,
    Cooked,
    Cooked2,
    Ppp,
    PppHdlc,
    Pppoe,
    Wireless,
    Radiotap,
    Nflog,
}

/// The protocol of the bytes behind the link layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Network {
    Ipv4,
    Ipv6,
    /// The version field decides.
    Either,
}

/// Whether this machine sent the frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    Unknown,
    Incoming,
    Outgoing,
}

/// The IP packet in a frame.
pub(crate) struct Packet<'a> {
    pub(crate) network: Network,
    pub(crate) direction: Direction,
    pub(crate) bytes: &'a [u8],
}

impl LinkType {
    /// The allowed values, for messages.
    pub(crate) const ALLOWED: &'static str = "link type 0 (null), 1 (Ethernet), 9, 50 or 51 (PPP), 12, \
         14, 101, 228 or 229 (raw IP), 105 or 127 (802.11), 108 (loop), 113 or 276 (Linux cooked), \
         239 (NFLOG)";

    /// The link type of this number. 12 and 14 are what some systems write for raw IP.
    pub(crate) fn from_number(number: u16) -> Option<LinkType> {
        Some(match number {
            0 => LinkType::Null,
            1 => LinkType::Ethernet,
            12 | 14 | 101 => LinkType::Raw,
            108 => LinkType::Loop,
            113 => LinkType::Cooked,
            228 => LinkType::Ipv4,
            229 => LinkType::Ipv6,
            276 => LinkType::Cooked2,
            9 => LinkType::Ppp,
            50 => LinkType::PppHdlc,
            51 => LinkType::Pppoe,
            105 => LinkType::Wireless,
            127 => LinkType::Radiotap,
            239 => LinkType::Nflog,
            _ => return None,
        })
    }

    /// The IP packet in a frame of this type.
    #[inline]
    pub(crate) fn packet_in(self, frame: &[u8]) -> Result<Packet<'_>, Skip> {
        match self {
            LinkType::Ethernet => behind_ethertype(frame, 12, 14, Direction::Unknown),
            LinkType::Cooked => {
                let kind = ByteOrder::Big.u16_at(frame, 0).ok_or(Skip::Cut)?;
                behind_ethertype(frame, 14, 16, direction_of(kind))
            }
            LinkType::Cooked2 => {
                let kind = *frame.get(10).ok_or(Skip::Cut)?;
                behind_ethertype(frame, 0, 20, direction_of(u16::from(kind)))
            }
            LinkType::Null => {
                let little = ByteOrder::Little.u32_at(frame, 0).ok_or(Skip::Cut)?;
                // The number is in the order of the machine that captured, and is always small.
                behind_family(frame, if little > 0xffff { little.swap_bytes() } else { little })
            }
            LinkType::Loop => {
                behind_family(frame, ByteOrder::Big.u32_at(frame, 0).ok_or(Skip::Cut)?)
            }
            LinkType::Ppp | LinkType::PppHdlc => behind_ppp(frame, Direction::Unknown),
            LinkType::Pppoe => {
                behind_ppp(frame.get(PPPOE_SIZE_BYTES..).ok_or(Skip::Cut)?, Direction::Unknown)
            }
            LinkType::Wireless => behind_wireless(frame, false),
            LinkType::Radiotap => behind_radiotap(frame),
            LinkType::Nflog => in_nflog(frame),
            LinkType::Raw => Ok(untold(Network::Either, frame)),
            LinkType::Ipv4 => Ok(untold(Network::Ipv4, frame)),
            LinkType::Ipv6 => Ok(untold(Network::Ipv6, frame)),
        }
    }
}

fn untold(network: Network, bytes: &[u8]) -> Packet<'_> {
    Packet { network, direction: Direction::Unknown, bytes }
}

/// Packet types of cooked captures: 0 to 3 were received (3 by a promiscuous interface), 4 sent.
fn direction_of(packet_type: u16) -> Direction {
    match packet_type {
        0..=2 => Direction::Incoming,
        4 => Direction::Outgoing,
        _ => Direction::Unknown,
    }
}

/// The numbers that the BSDs, macOS and Linux have for the two families.
fn behind_family(frame: &[u8], family: u32) -> Result<Packet<'_>, Skip> {
    let network = match family {
        2 => Network::Ipv4,
        10 | 24 | 28 | 30 => Network::Ipv6,
        _ => return Err(Skip::NotIp),
    };
    Ok(untold(network, frame.get(4..).ok_or(Skip::Cut)?))
}

/// The EtherType stands at `type_at`, what it describes at `payload_at`; a tag is four bytes in
/// front of the payload, of which the last two are the next EtherType.
#[inline]
fn behind_ethertype(
    frame: &[u8],
    type_at: usize,
    payload_at: usize,
    direction: Direction,
) -> Result<Packet<'_>, Skip> {
    let mut ethertype = ByteOrder::Big.u16_at(frame, type_at).ok_or(Skip::Cut)?;
    let mut bytes = frame.get(payload_at..).ok_or(Skip::Cut)?;
    for _ in 0..=TAGS_MAX {
        let network = match ethertype {
            0x0800 => Network::Ipv4,
            0x86dd => Network::Ipv6,
            0x8100 | 0x88a8 | 0x9100 | 0x9200 => {
                ethertype = ByteOrder::Big.u16_at(bytes, 2).ok_or(Skip::Cut)?;
                bytes = bytes.get(TAG_SIZE_BYTES..).ok_or(Skip::Cut)?;
                continue;
            }
            0x8847 | 0x8848 => return behind_mpls(bytes, direction),
            0x8864 => {
                return behind_ppp(bytes.get(PPPOE_SIZE_BYTES..).ok_or(Skip::Cut)?, direction);
            }
            // A length stands in the place of the type: what follows says more.
            0..=1500 => {
                ethertype = snap_type(bytes)?;
                bytes = bytes.get(SNAP_SIZE_BYTES..).ok_or(Skip::Cut)?;
                continue;
            }
            _ => return Err(Skip::NotIp),
        };
        return Ok(Packet { network, direction, bytes });
    }
    Err(Skip::BadHeader)
}

const PPPOE_SIZE_BYTES: usize = 6;
const SNAP_SIZE_BYTES: usize = 8;

/// The EtherType in a header of 802.2 with SNAP, which is eight bytes long.
fn snap_type(bytes: &[u8]) -> Result<u16, Skip> {
    match bytes.first_chunk::<SNAP_SIZE_BYTES>() {
        None => Err(Skip::Cut),
        Some([0xaa, 0xaa, 3, 0, 0, 0, high, low]) => Ok(u16::from_be_bytes([*high, *low])),
        Some(_) => Err(Skip::NotIp),
    }
}

/// Labels of four bytes, the last of which has a bit set; then the first four bits tell what it is.
fn behind_mpls(mut bytes: &[u8], direction: Direction) -> Result<Packet<'_>, Skip> {
    loop {
        let [_, _, bits, _] = *bytes.first_chunk::<4>().ok_or(Skip::Cut)?;
        bytes = &bytes[4..];
        if bits & 1 == 1 {
            break;
        }
    }
    match bytes.first().ok_or(Skip::Cut)? >> 4 {
        4 => Ok(Packet { network: Network::Ipv4, direction, bytes }),
        6 => Ok(Packet { network: Network::Ipv6, direction, bytes }),
        _ => Err(Skip::NotIp),
    }
}

/// The address and control bytes may be left out, and so may the first byte of the protocol.
fn behind_ppp(bytes: &[u8], direction: Direction) -> Result<Packet<'_>, Skip> {
    let bytes = bytes.strip_prefix(&[0xff, 3]).unwrap_or(bytes);
    let (protocol, bytes) = match bytes {
        [0xff] => return Err(Skip::Cut),
        [short, rest @ ..] if short & 1 == 1 => (u16::from(*short), rest),
        [high, low, rest @ ..] => (u16::from_be_bytes([*high, *low]), rest),
        _ => return Err(Skip::Cut),
    };
    match protocol {
        0x0021 => Ok(Packet { network: Network::Ipv4, direction, bytes }),
        0x0057 => Ok(Packet { network: Network::Ipv6, direction, bytes }),
        0x0281 | 0x0283 => behind_mpls(bytes, direction),
        _ => Err(Skip::NotIp),
    }
}

/// A header of 802.11; frames without data, encrypted ones and several in one are no packets here.
fn behind_wireless(frame: &[u8], is_padded: bool) -> Result<Packet<'_>, Skip> {
    const DATA: u8 = 0x08;
    const KIND: u8 = 0x0c;
    const NO_DATA: u8 = 0x40;
    const QOS: u8 = 0x80;
    let [control, flags] = *frame.first_chunk::<2>().ok_or(Skip::Cut)?;
    if control & KIND != DATA || control & NO_DATA != 0 || flags & 0x40 != 0 {
        return Err(Skip::NotIp);
    }
    let direction = match flags & 3 {
        1 => Direction::Outgoing,
        2 => Direction::Incoming,
        _ => Direction::Unknown,
    };
    let mut size = if flags & 3 == 3 { 30 } else { 24 };
    if control & QOS != 0 {
        let is_several = frame.get(size).ok_or(Skip::Cut)? & 0x80 != 0;
        if is_several {
            return Err(Skip::NotIp);
        }
        // The order bit says that four more bytes follow.
        size += if flags & 0x80 == 0 { 2 } else { 6 };
    }
    if is_padded {
        size = size.next_multiple_of(4);
    }
    let bytes = frame.get(size..).ok_or(Skip::Cut)?;
    let ethertype = snap_type(bytes)?;
    let bytes = &bytes[SNAP_SIZE_BYTES..];
    match ethertype {
        0x0800 => Ok(Packet { network: Network::Ipv4, direction, bytes }),
        0x86dd => Ok(Packet { network: Network::Ipv6, direction, bytes }),
        _ => Err(Skip::NotIp),
    }
}

/// What the radio said of the frame comes first, with its length, in little-endian order.
fn behind_radiotap(frame: &[u8]) -> Result<Packet<'_>, Skip> {
    const TIME: u32 = 1;
    const FLAGS: u32 = 2;
    const MORE: u32 = 1 << 31;
    let size = usize::from(ByteOrder::Little.u16_at(frame, 2).ok_or(Skip::Cut)?);
    let present = ByteOrder::Little.u32_at(frame, 4).ok_or(Skip::Cut)?;
    let rest = frame.get(size..).ok_or(Skip::Cut)?;
    let mut at = 8;
    let mut word = present;
    while word & MORE != 0 && at < size {
        word = ByteOrder::Little.u32_at(frame, at).ok_or(Skip::Cut)?;
        at += 4;
    }
    if present & TIME != 0 {
        at = at.next_multiple_of(8) + 8;
    }
    let has_flags = present & FLAGS != 0 && at < size;
    let flags = if has_flags { frame.get(at).copied().unwrap_or(0) } else { 0 };
    behind_wireless(rest, flags & 0x20 != 0)
}

/// Attributes with their lengths, in the order of the machine that captured, one of which is the
/// packet.
fn in_nflog(frame: &[u8]) -> Result<Packet<'_>, Skip> {
    const PAYLOAD: u16 = 9;
    let network = match frame.first().ok_or(Skip::Cut)? {
        2 => Network::Ipv4,
        10 => Network::Ipv6,
        _ => return Err(Skip::NotIp),
    };
    let mut rest = frame.get(4..).ok_or(Skip::Cut)?;
    // Lengths and types are small, so that one order makes the first type small.
    let is_little = ByteOrder::Little.u16_at(rest, 2).ok_or(Skip::Cut)? < 256;
    let order = if is_little { ByteOrder::Little } else { ByteOrder::Big };
    loop {
        let size = usize::from(order.u16_at(rest, 0).ok_or(Skip::Cut)?);
        let kind = order.u16_at(rest, 2).ok_or(Skip::Cut)?;
        if size < 4 {
            return Err(Skip::BadHeader);
        }
        if kind == PAYLOAD {
            return Ok(untold(network, rest.get(4..size.min(rest.len())).ok_or(Skip::Cut)?));
        }
        rest = rest.get(size.next_multiple_of(4)..).ok_or(Skip::Cut)?;
    }
}
