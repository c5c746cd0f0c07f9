//! The writer and database as one slow, obvious thing: a list of prefixes and values.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use whered_ip::Prefix;
use whered_mmdb::Value;

/// What was inserted, one entry a prefix.
#[derive(Debug, Default)]
pub struct Twin {
    pub entries: Vec<(Prefix, Value)>,
}

impl Twin {
    pub fn insert(&mut self, prefix: Prefix, value: Value) {
        self.entries.retain(|(other, _)| *other != prefix);
        self.entries.push((prefix, value));
    }

    /// The value of the longest prefix that holds the address.
    pub fn lookup(&self, address: IpAddr) -> Option<&Value> {
        let address = self.alias(address).unwrap_or(address);
        // All prefixes of an IPv6 file stand in one tree, the IPv4 ones under ::/96.
        let bits = as_ipv6(address);
        self.entries
            .iter()
            .map(|(prefix, value)| (as_ipv6_prefix(*prefix), value))
            .filter(|(prefix, _)| prefix.contains(IpAddr::V6(bits)))
            .max_by_key(|(prefix, _)| prefix.length_bits())
            .map(|(_, value)| value)
    }

    /// The IPv4 address inside a mapped or 6to4 address, unless there is nothing at all under
    /// ::/96. No entry is inside of these ranges.
    fn alias(&self, address: IpAddr) -> Option<IpAddr> {
        let IpAddr::V6(address) = address else {
            return None;
        };
        let bits = if address.to_ipv4_mapped().is_some() {
            address.to_bits() as u32
        } else if address.segments()[0] == 0x2002 {
            (address.to_bits() >> 80) as u32
        } else {
            return None;
        };
        let ipv4: Prefix = "::/96".parse().expect("a fixed prefix");
        let mut prefixes = self.entries.iter().map(|(prefix, _)| as_ipv6_prefix(*prefix));
        let has_ipv4 = prefixes.any(|prefix| ipv4.covers(&prefix) || prefix.covers(&ipv4));
        has_ipv4.then_some(IpAddr::V4(Ipv4Addr::from_bits(bits)))
    }
}

fn as_ipv6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => Ipv6Addr::from_bits(u128::from(address.to_bits())),
        IpAddr::V6(address) => address,
    }
}

pub fn as_ipv6_prefix(prefix: Prefix) -> Prefix {
    let length = prefix.length_bits() + if prefix.is_ipv4() { 96 } else { 0 };
    Prefix::new(IpAddr::V6(as_ipv6(prefix.address())), length).expect("at most 128 bits")
}
