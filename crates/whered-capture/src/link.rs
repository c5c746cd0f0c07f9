//! From a frame to the IP packet in it, for each link type.
//!
//! For: Ethernet with any tags (802.1Q, 802.1ad and their older numbers), Linux cooked captures in
//! both versions, raw IP, and the loopback headers of BSD. Not for: PPP, MPLS, 802.11, tunnels:
//! they are counted as not IP, or as another link type.
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
    pub(crate) const ALLOWED: &'static str = "link type 0 (null), 1 (Ethernet), 12, 14, 101, 228 \
         or 229 (raw IP), 108 (loop), 113 or 276 (Linux cooked)";

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
            _ => return Err(Skip::NotIp),
        };
        return Ok(Packet { network, direction, bytes });
    }
    Err(Skip::BadHeader)
}
