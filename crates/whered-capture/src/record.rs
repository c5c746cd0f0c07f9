//! An item of a capture: a packet or a flow, as far as its source describes it.
//!
//! Not for: bytes on the wire, nor for conditions and verdicts. `None` always means that the source
//! does not say, or that the packet has no such field.
//!
//! Invariant: both addresses are of one family.

use std::net::{IpAddr, Ipv4Addr};

use crate::interfaces::Interface;

/// The state that connection tracking would have for a packet or flow.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ConnectionState {
    /// It belongs to no connection and cannot start one.
    Invalid,
    /// It starts a connection.
    New,
    /// It belongs to a connection that has seen packets both ways.
    Established,
    /// It starts a connection that another one announced.
    Related,
    /// Nobody tracked it.
    Untracked,
}

impl ConnectionState {
    /// All of them.
    pub const ALL: [ConnectionState; 5] = [
        ConnectionState::Invalid,
        ConnectionState::New,
        ConnectionState::Established,
        ConnectionState::Related,
        ConnectionState::Untracked,
    ];

    /// The name in lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ConnectionState::Invalid => "invalid",
            ConnectionState::New => "new",
            ConnectionState::Established => "established",
            ConnectionState::Related => "related",
            ConnectionState::Untracked => "untracked",
        }
    }

    /// The state of this name, in any case.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<ConnectionState> {
        Self::ALL.into_iter().find(|state| state.name().as_bytes().eq_ignore_ascii_case(name))
    }
}

/// A packet or a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketRecord {
    /// Its number in the source, from 1; frames that were skipped have numbers too.
    pub number: u64,
    /// Nanoseconds since 1970 in UTC; of a flow, its start.
    pub time_nanoseconds: Option<i64>,
    /// Where it comes from.
    pub source: IpAddr,
    /// Where it goes; of the same family.
    pub destination: IpAddr,
    /// The IP protocol number; for IPv6 the one behind all extension headers.
    pub protocol: u8,
    /// Of TCP, UDP, UDP-Lite, SCTP and DCCP; none in later fragments.
    pub source_port: Option<u16>,
    /// Of TCP, UDP, UDP-Lite, SCTP and DCCP; none in later fragments.
    pub destination_port: Option<u16>,
    /// Of ICMP over IPv4 and ICMPv6 over IPv6; none in later fragments.
    pub icmp_type: Option<u8>,
    /// Of ICMP over IPv4 and ICMPv6 over IPv6; none in later fragments.
    pub icmp_code: Option<u8>,
    /// Of TCP, FIN = 1 to CWR = 128; none in later fragments and in first ones that end before.
    pub tcp_flags: Option<u8>,
    /// The six bits of the DSCP field.
    pub dscp: Option<u8>,
    /// The time to live, or the hop limit.
    pub ttl: Option<u8>,
    /// The bytes of the IP packet, its header included.
    pub length: Option<u32>,
    /// The state of the connection in a log or a table; packets of a capture have none.
    pub state: Option<ConnectionState>,
    /// The interface it came in by; [`crate::Capture::interface_name`] has the name.
    pub input: Option<Interface>,
    /// The interface it left by.
    pub output: Option<Interface>,
    /// Bytes on the wire, of a flow in both directions together.
    pub bytes: Option<u64>,
    /// Whether it is a fragment other than the first, which has no ports.
    pub is_later_fragment: bool,
}

impl PacketRecord {
    /// A record of this number that says nothing yet.
    #[inline]
    pub(crate) fn numbered(number: u64) -> Self {
        let nowhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        PacketRecord {
            number,
            time_nanoseconds: None,
            source: nowhere,
            destination: nowhere,
            protocol: 0,
            source_port: None,
            destination_port: None,
            icmp_type: None,
            icmp_code: None,
            tcp_flags: None,
            dscp: None,
            ttl: None,
            length: None,
            state: None,
            input: None,
            output: None,
            bytes: None,
            is_later_fragment: false,
        }
    }
}
