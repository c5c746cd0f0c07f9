//! From the bytes of an IP packet to the fields of a record.
//!
//! For: IPv4 with options, IPv6 with extension headers, fragments of both (only the first has
//! ports), and the ports, flags, types and codes of the transport behind them. Not for: checksums,
//! putting fragments together, packets within packets.
//!
//! Which header is the protocol of IPv6 follows what Linux does for its rules: hop-by-hop, routing,
//! destination options, authentication and the first fragment's header are passed; whatever
//! follows the header of a later fragment is the protocol.
//!
//! Invariant: every read is within both the bytes captured and the length that the header
//! declares: behind the first is [`Skip::Cut`], behind the second [`Skip::BadHeader`], so that an
//! Ethernet trailer is never taken for ports. Cost: one pass over the headers, no copy.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::byte_order::ByteOrder;
use crate::link::Network;
use crate::record::PacketRecord;
use crate::totals::Skip;

/// IP protocol numbers that have fields for us.
pub(crate) mod protocol {
    pub(crate) const ICMP: u8 = 1;
    pub(crate) const TCP: u8 = 6;
    pub(crate) const UDP: u8 = 17;
    pub(crate) const DCCP: u8 = 33;
    pub(crate) const ICMPV6: u8 = 58;
    pub(crate) const SCTP: u8 = 132;
    pub(crate) const UDP_LITE: u8 = 136;

    /// Whether its header begins with two ports.
    pub(crate) fn has_ports(protocol: u8) -> bool {
        matches!(protocol, TCP | UDP | DCCP | SCTP | UDP_LITE)
    }
}

const IPV4_HEADER_SIZE: usize = 20;
const IPV6_HEADER_SIZE: usize = 40;

/// Fills the record from a packet.
#[inline]
pub(crate) fn read(network: Network, data: &[u8], record: &mut PacketRecord) -> Result<(), Skip> {
    let version = data.first().ok_or(Skip::Cut)? >> 4;
    match (version, network) {
        (4, Network::Ipv4 | Network::Either) => read_ipv4(data, record),
        (6, Network::Ipv6 | Network::Either) => read_ipv6(data, record),
        _ => Err(Skip::BadHeader),
    }
}

/// The rest of a packet: its captured bytes, and how many its header declares.
#[derive(Clone, Copy)]
struct Rest<'a> {
    captured: &'a [u8],
    declared: usize,
}

impl<'a> Rest<'a> {
    fn of(data: &'a [u8], declared: usize) -> Self {
        Rest { captured: data.get(..declared).unwrap_or(data), declared }
    }

    /// The next `SIZE` bytes.
    #[inline]
    fn head<const SIZE: usize>(&self) -> Result<&'a [u8; SIZE], Skip> {
        match self.captured.first_chunk() {
            Some(head) => Ok(head),
            None if self.declared < SIZE => Err(Skip::BadHeader),
            None => Err(Skip::Cut),
        }
    }

    /// The bytes behind the next `size` bytes.
    #[inline]
    fn behind(self, size: usize) -> Result<Self, Skip> {
        let declared = self.declared.checked_sub(size).ok_or(Skip::BadHeader)?;
        Ok(Rest { captured: self.captured.get(size..).unwrap_or(&[]), declared })
    }
}

#[inline]
fn read_ipv4(data: &[u8], record: &mut PacketRecord) -> Result<(), Skip> {
    let header: &[u8; IPV4_HEADER_SIZE] = data.first_chunk().ok_or(Skip::Cut)?;
    let header_size = usize::from(header[0] & 0x0f) * 4;
    if header_size < IPV4_HEADER_SIZE {
        return Err(Skip::BadHeader);
    }
    // Captured before the network card cut it into segments, a packet may declare 0.
    let declared = match u16::from_be_bytes([header[2], header[3]]) {
        0 => data.len().max(header_size),
        declared => usize::from(declared),
    };
    let rest = Rest::of(data, declared).behind(header_size)?;
    let [.., s0, s1, s2, s3, d0, d1, d2, d3] = *header;
    record.source = IpAddr::V4(Ipv4Addr::new(s0, s1, s2, s3));
    record.destination = IpAddr::V4(Ipv4Addr::new(d0, d1, d2, d3));
    record.protocol = header[9];
    record.dscp = Some(header[1] >> 2);
    record.ttl = Some(header[8]);
    record.length = Some(declared as u32);
    let fragment = u16::from_be_bytes([header[6], header[7]]);
    if fragment & 0x1fff != 0 {
        record.is_later_fragment = true;
        return Ok(());
    }
    if record.protocol == protocol::ICMP {
        return read_icmp(rest, record);
    }
    read_transport(rest, fragment & 0x2000 != 0, record)
}

fn read_ipv6(data: &[u8], record: &mut PacketRecord) -> Result<(), Skip> {
    let header: &[u8; IPV6_HEADER_SIZE] = data.first_chunk().ok_or(Skip::Cut)?;
    // A jumbogram declares 0, and so does a packet that is yet to be cut into segments.
    let declared = match u16::from_be_bytes([header[4], header[5]]) {
        0 => data.len(),
        payload => IPV6_HEADER_SIZE + usize::from(payload),
    };
    let mut rest = Rest::of(data, declared).behind(IPV6_HEADER_SIZE)?;
    let address = |at: usize| {
        let octets: [u8; 16] = std::array::from_fn(|index| header[at + index]);
        IpAddr::V6(Ipv6Addr::from(octets))
    };
    record.source = address(8);
    record.destination = address(24);
    record.dscp = Some((header[0] << 2 | header[1] >> 6) & 0x3f);
    record.ttl = Some(header[7]);
    record.length = Some(declared as u32);
    let mut is_first_fragment = false;
    record.protocol = header[6];
    // Each turn takes eight bytes away at least.
    loop {
        match record.protocol {
            0 | 43 | 60 => {
                let [next, eights] = *rest.head()?;
                rest = rest.behind(8 + usize::from(eights) * 8)?;
                record.protocol = next;
            }
            51 => {
                let [next, fours] = *rest.head()?;
                rest = rest.behind(8 + usize::from(fours) * 4)?;
                record.protocol = next;
            }
            44 => {
                let fragment: &[u8; 8] = rest.head()?;
                record.protocol = fragment[0];
                if u16::from_be_bytes([fragment[2], fragment[3]]) >> 3 != 0 {
                    record.is_later_fragment = true;
                    return Ok(());
                }
                is_first_fragment = fragment[3] & 1 == 1;
                rest = rest.behind(8)?;
            }
            protocol::ICMPV6 => return read_icmp(rest, record),
            _ => return read_transport(rest, is_first_fragment, record),
        }
    }
}

fn read_icmp(rest: Rest<'_>, record: &mut PacketRecord) -> Result<(), Skip> {
    let [icmp_type, icmp_code] = *rest.head()?;
    record.icmp_type = Some(icmp_type);
    record.icmp_code = Some(icmp_code);
    Ok(())
}

/// A first fragment may end before the flags of TCP, which are then not known.
#[inline]
fn read_transport(
    rest: Rest<'_>,
    is_first_fragment: bool,
    record: &mut PacketRecord,
) -> Result<(), Skip> {
    if !protocol::has_ports(record.protocol) {
        return Ok(());
    }
    let ends_early = is_first_fragment && rest.declared < 14;
    if record.protocol == protocol::TCP && !ends_early {
        let head: &[u8; 14] = rest.head()?;
        record.tcp_flags = Some(head[13]);
    }
    let ports: &[u8; 4] = rest.head()?;
    record.source_port = ByteOrder::Big.u16_at(ports, 0);
    record.destination_port = ByteOrder::Big.u16_at(ports, 2);
    Ok(())
}
