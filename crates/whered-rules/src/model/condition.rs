//! One condition of a rule: a test of one field, possibly negated.
//!
//! For: the test as it was written, and whether a packet passes it ([`Test::holds_alone`] for
//! everything that needs neither sets nor places).
//! Not for: fast matching.
//!
//! A test of ports, ICMP types or TCP flags holds only for packets that have such a thing, **also
//! when it is negated**: `not dport 80` never meets an ICMP packet, as in iptables and nft. A
//! negated list of addresses meets every other address, of both families.
//!
//! Invariants: lists are not empty; ranges are not backwards and of one family.
//! Concurrency: plain data. Cost: linear in the list.

use std::net::IpAddr;
use std::sync::Arc;

use whered_ip::Prefix;

use super::{DetailTest, Predicate};
use crate::packet::{Family, Packet, State, address_number};
use crate::ranges::Ranges;

/// Which of the two addresses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Side {
    /// The source.
    Source,
    /// The destination.
    Destination,
}

impl Side {
    /// Both, in the order of arrays of two.
    pub(crate) const BOTH: [Side; 2] = [Side::Source, Side::Destination];

    /// `src` or `dst`.
    pub fn name(self) -> &'static str {
        match self {
            Side::Source => "src",
            Side::Destination => "dst",
        }
    }

    /// Its number in arrays of two.
    pub(crate) fn index(self) -> usize {
        match self {
            Side::Source => 0,
            Side::Destination => 1,
        }
    }

    /// That address of a packet.
    pub fn address(self, packet: &Packet<'_>) -> IpAddr {
        match self {
            Side::Source => packet.source,
            Side::Destination => packet.destination,
        }
    }
}

/// A block or range of addresses as it was written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AddressItem {
    /// A prefix.
    Prefix(Prefix),
    /// From the first to the last, both included; of one family.
    Range(IpAddr, IpAddr),
}

impl AddressItem {
    /// The family of its addresses.
    pub fn family(&self) -> Family {
        match self {
            AddressItem::Prefix(prefix) => Family::of(prefix.address()),
            AddressItem::Range(first, _) => Family::of(*first),
        }
    }

    /// The first and the last address as numbers.
    pub fn ends(&self) -> (u128, u128) {
        match self {
            AddressItem::Prefix(prefix) => {
                let bits = if prefix.is_ipv4() { 32 } else { 128 };
                let host_bits = bits - u32::from(prefix.length_bits());
                let hosts = 1u128.checked_shl(host_bits).map_or(u128::MAX, |count| count - 1);
                let first = address_number(prefix.address());
                (first, first | hosts)
            }
            AddressItem::Range(first, last) => (address_number(*first), address_number(*last)),
        }
    }

    /// Whether the address lies in it; never across families.
    pub fn contains(&self, address: IpAddr) -> bool {
        match self {
            AddressItem::Prefix(prefix) => prefix.contains(address),
            AddressItem::Range(first, last) => {
                first.is_ipv4() == address.is_ipv4() && *first <= address && address <= *last
            }
        }
    }
}

impl std::fmt::Display for AddressItem {
    /// A prefix without its length where it is a single address, a range as `first-last`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AddressItem::Prefix(prefix) => {
                let longest = if prefix.is_ipv4() { 32 } else { 128 };
                if prefix.length_bits() == longest {
                    write!(f, "{}", prefix.address())
                } else {
                    write!(f, "{prefix}")
                }
            }
            AddressItem::Range(first, last) => write!(f, "{first}-{last}"),
        }
    }
}

/// The addresses of one family in a list.
pub fn ranges_of_addresses(items: &[AddressItem], family: Family) -> Ranges {
    let of_family = items.iter().filter(|item| item.family() == family);
    Ranges::new(of_family.map(AddressItem::ends).collect())
}

/// An ICMP type, with one code or any.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct IcmpMatch {
    /// First and last type.
    pub types: (u8, u8),
    /// First and last code.
    pub codes: (u8, u8),
}

/// The name of an interface, or how it begins.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum InterfacePattern {
    /// This one.
    Exact(String),
    /// Every one that begins so (`eth+`); "" is every one, and a packet without any.
    Begins(String),
}

impl InterfacePattern {
    /// Whether the name fits.
    pub fn matches(&self, name: &str) -> bool {
        match self {
            InterfacePattern::Exact(exact) => exact == name,
            InterfacePattern::Begins(start) => name.starts_with(start.as_str()),
        }
    }
}

impl std::fmt::Display for InterfacePattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            InterfacePattern::Exact(name) => f.write_str(name),
            InterfacePattern::Begins(start) => write!(f, "{start}+"),
        }
    }
}

/// The question of a condition.
#[derive(Clone, PartialEq, Debug)]
pub enum Test {
    /// The packet is of this family.
    Family(Family),
    /// The address is in the list.
    Address(Side, Vec<AddressItem>),
    /// The address is in a set, by name.
    Set(Side, String),
    /// The address lies in a place.
    Place(Predicate),
    /// The protocol is one of these (first, last).
    Protocol(Vec<(u8, u8)>),
    /// The source port (`Side::Source`) or the destination port is one of these (first, last).
    Port(Side, Vec<(u16, u16)>),
    /// One port or the other is one of these (iptables' `multiport --ports`).
    EitherPort(Vec<(u16, u16)>),
    /// The type and code of ICMP: IPv4, protocol 1.
    Icmp(Vec<IcmpMatch>),
    /// The type and code of ICMPv6: IPv6, protocol 58.
    Icmpv6(Vec<IcmpMatch>),
    /// `flags & mask == compare`.
    TcpFlags {
        /// The flags looked at.
        mask: u8,
        /// Those of them that are set.
        compare: u8,
    },
    /// The interface it came in by.
    Input(Vec<InterfacePattern>),
    /// The interface it leaves by.
    Output(Vec<InterfacePattern>),
    /// The state in connection tracking.
    State(Vec<State>),
    /// The DSCP field (first, last).
    Dscp(Vec<(u8, u8)>),
    /// `mark & mask == value`.
    Mark {
        /// The new bits.
        value: u32,
        /// The bits looked at.
        mask: u32,
    },
    /// `address & mask == value`, for masks with gaps.
    MaskedAddress {
        /// Which address.
        side: Side,
        /// The bits that the address must have.
        value: IpAddr,
        /// The bits looked at; of the same family.
        mask: IpAddr,
    },
    /// A property that few rules ask for. A packet that does not tell it may hold or not.
    Detail(DetailTest),
    /// What no packet tells: rates, quotas, clocks, lists that the kernel keeps, contents.
    Uncertain(Uncertain),
}

/// A test that may hold or not, whatever the packet is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Uncertain {
    /// Its kind in one word, as `limit`.
    pub kind: Arc<str>,
    /// The test as its own format writes it, as `-m limit --limit 3/min`.
    pub text: Arc<str>,
}

impl Test {
    /// Whether the packet is one that this test can be asked of at all, negated or not.
    pub fn applies(&self, packet: &Packet<'_>) -> bool {
        match self {
            Test::Port(..) | Test::EitherPort(_) => packet.has_ports(),
            Test::Icmp(_) => packet.protocol == 1 && packet.family() == Family::Ipv4,
            Test::Icmpv6(_) => packet.protocol == 58 && packet.family() == Family::Ipv6,
            Test::TcpFlags { .. } => packet.protocol == 6,
            _ => true,
        }
    }

    /// Whether the test is answered behind the classifier, which has no field for it.
    pub(crate) fn is_question(&self) -> bool {
        matches!(self, Test::MaskedAddress { .. } | Test::Detail(_) | Test::Uncertain(_))
    }

    /// Whether the packet passes the test, asked of it alone; `None` for sets and places, which
    /// need more than the packet, and for details and uncertain tests, whose answer may be open.
    pub fn holds_alone(&self, packet: &Packet<'_>) -> Option<bool> {
        let any_port = |list: &[(u16, u16)], port| {
            list.iter().any(|&(first, last)| first <= port && port <= last)
        };
        Some(match self {
            Test::Set(..) | Test::Place(_) | Test::Detail(_) | Test::Uncertain(_) => return None,
            Test::Family(family) => packet.family() == *family,
            Test::Address(side, items) => {
                let address = side.address(packet);
                items.iter().any(|item| item.contains(address))
            }
            Test::Protocol(list) => {
                list.iter().any(|&(a, b)| a <= packet.protocol && packet.protocol <= b)
            }
            Test::Port(Side::Source, list) => any_port(list, packet.source_port),
            Test::Port(Side::Destination, list) => any_port(list, packet.destination_port),
            Test::EitherPort(list) => {
                any_port(list, packet.source_port) || any_port(list, packet.destination_port)
            }
            Test::Icmp(list) | Test::Icmpv6(list) => {
                list.iter().any(|item| item.matches(packet.icmp_type, packet.icmp_code))
            }
            Test::TcpFlags { mask, compare } => packet.tcp_flags & mask == *compare,
            Test::Input(list) => list.iter().any(|pattern| pattern.matches(packet.input)),
            Test::Output(list) => list.iter().any(|pattern| pattern.matches(packet.output)),
            Test::State(list) => list.contains(&packet.state),
            Test::Dscp(list) => list.iter().any(|&(a, b)| a <= packet.dscp && packet.dscp <= b),
            Test::Mark { value, mask } => packet.mark & mask == *value,
            Test::MaskedAddress { side, value, mask } => {
                let address = side.address(packet);
                address.is_ipv4() == value.is_ipv4()
                    && address_number(address) & address_number(*mask) == address_number(*value)
            }
        })
    }
}

impl IcmpMatch {
    /// One type with any code.
    pub fn of_type(number: u8) -> IcmpMatch {
        IcmpMatch { types: (number, number), codes: (0, 255) }
    }

    /// Whether type and code fit.
    pub fn matches(&self, icmp_type: u8, icmp_code: u8) -> bool {
        (self.types.0..=self.types.1).contains(&icmp_type)
            && (self.codes.0..=self.codes.1).contains(&icmp_code)
    }
}

/// A test and whether it must fail instead of hold.
#[derive(Clone, PartialEq, Debug)]
pub struct Condition {
    /// The test.
    pub test: Test,
    /// Whether packets meet the condition that fail the test.
    pub negated: bool,
}

impl Condition {
    /// The test must hold.
    pub fn is(test: Test) -> Condition {
        Condition { test, negated: false }
    }

    /// The test must hold, or with `negated` must fail.
    pub fn new(test: Test, negated: bool) -> Condition {
        Condition { test, negated }
    }
}
