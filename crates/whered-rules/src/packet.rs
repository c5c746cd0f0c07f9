//! A packet as the rules see it: the input of every evaluator.
//!
//! For: the fields that conditions can ask for, whatever the packet came from.
//! Not for: bytes on the wire (the capture readers take those apart).
//!
//! Invariants a caller keeps: both addresses are of one family; ports are 0 where the protocol
//! has none or a fragment does not carry them; an interface that a packet does not have is "".
//!
//! Concurrency: plain borrowed data. Cost: no allocation.

use std::net::{IpAddr, Ipv4Addr};

use crate::model::Detail;

/// The two address families.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

impl Family {
    /// Both, IPv4 first.
    pub const BOTH: [Family; 2] = [Family::Ipv4, Family::Ipv6];

    /// The family of an address.
    pub fn of(address: IpAddr) -> Family {
        if address.is_ipv4() { Family::Ipv4 } else { Family::Ipv6 }
    }

    /// The other one.
    pub fn other(self) -> Family {
        match self {
            Family::Ipv4 => Family::Ipv6,
            Family::Ipv6 => Family::Ipv4,
        }
    }

    /// The largest address as a number.
    pub fn largest(self) -> u128 {
        match self {
            Family::Ipv4 => u32::MAX.into(),
            Family::Ipv6 => u128::MAX,
        }
    }

    /// `ipv4` or `ipv6`.
    pub fn name(self) -> &'static str {
        match self {
            Family::Ipv4 => "ipv4",
            Family::Ipv6 => "ipv6",
        }
    }
}

/// The address as a number: 32 bits of IPv4, 128 of IPv6.
pub(crate) fn address_number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// The state of a packet in connection tracking.
///
/// The number of each, `state as u8`, is its value in the field of the normal form.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
#[repr(u8)]
pub enum State {
    /// It belongs to no connection and cannot start one.
    Invalid = 0,
    /// It starts a connection.
    New = 1,
    /// It belongs to a connection that has seen packets both ways.
    Established = 2,
    /// It starts a connection that another one announced.
    Related = 3,
    /// Nobody tracked it; also what is assumed when nothing is known.
    #[default]
    Untracked = 4,
}

impl State {
    /// All of them, by number.
    pub const ALL: [State; 5] =
        [State::Invalid, State::New, State::Established, State::Related, State::Untracked];

    /// The name in lower case, as the own format and nft write it.
    pub fn name(self) -> &'static str {
        match self {
            State::Invalid => "invalid",
            State::New => "new",
            State::Established => "established",
            State::Related => "related",
            State::Untracked => "untracked",
        }
    }

    /// The state of this name, in any case.
    pub fn from_name(name: &str) -> Option<State> {
        State::ALL.into_iter().find(|state| state.name().eq_ignore_ascii_case(name))
    }
}

/// A packet: what the conditions of rules look at.
///
/// `Packet::default()` is an IPv4 packet of protocol 0 from 0.0.0.0 to 0.0.0.0, untracked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet<'a> {
    /// Where it comes from.
    pub source: IpAddr,
    /// Where it goes; of the same family.
    pub destination: IpAddr,
    /// The IP protocol number, for IPv6 the one after all extension headers.
    pub protocol: u8,
    /// The source port; looked at only where [`has_ports`](Packet::has_ports).
    pub source_port: u16,
    /// The destination port; looked at only where [`has_ports`](Packet::has_ports).
    pub destination_port: u16,
    /// The ICMP type; looked at only for protocol 1 of IPv4 and 58 of IPv6.
    pub icmp_type: u8,
    /// The ICMP code; looked at only for protocol 1 of IPv4 and 58 of IPv6.
    pub icmp_code: u8,
    /// The TCP flags, FIN = 1 to CWR = 128; looked at only for protocol 6.
    pub tcp_flags: u8,
    /// The state in connection tracking.
    pub state: State,
    /// The interface it came in by, or "".
    pub input: &'a str,
    /// The interface it leaves by, or "".
    pub output: &'a str,
    /// The six bits of the DSCP field.
    pub dscp: u8,
    /// The mark it carries when it meets the rules.
    pub mark: u32,
    /// What else is known of it; rules that ask for other details may decide either way.
    pub details: &'a [(Detail, u64)],
}

impl Default for Packet<'_> {
    fn default() -> Self {
        let nowhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        Packet {
            source: nowhere,
            destination: nowhere,
            protocol: 0,
            source_port: 0,
            destination_port: 0,
            icmp_type: 0,
            icmp_code: 0,
            tcp_flags: 0,
            state: State::default(),
            input: "",
            output: "",
            dscp: 0,
            mark: 0,
            details: &[],
        }
    }
}

/// The protocols whose packets have ports: TCP, UDP, DCCP, SCTP, UDP-Lite.
pub(crate) const PORT_PROTOCOLS: [u8; 5] = [6, 17, 33, 132, 136];

impl Packet<'_> {
    /// The family of its addresses.
    pub fn family(&self) -> Family {
        Family::of(self.source)
    }

    /// The value of a detail, if it is known.
    pub fn detail(&self, detail: &Detail) -> Option<u64> {
        self.details.iter().find(|(name, _)| name == detail).map(|&(_, value)| value)
    }

    /// Whether its details say that it is a fragment but the first.
    ///
    /// It has no header of its protocol, so ports, ICMP type and TCP flags are unknown. The
    /// compiled forms have no field for that: [`naive`](crate::naive) answers for such a packet.
    pub fn is_later_fragment(&self) -> bool {
        let is_fragment =
            |(detail, value): &(Detail, u64)| detail.name() == Detail::FRAGMENT && *value != 0;
        self.details.iter().any(is_fragment)
    }

    /// Whether its protocol has ports: TCP, UDP, DCCP, SCTP or UDP-Lite.
    pub fn has_ports(&self) -> bool {
        PORT_PROTOCOLS.contains(&self.protocol)
    }
}
