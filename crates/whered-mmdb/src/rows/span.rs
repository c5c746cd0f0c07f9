//! The addresses that a row is about: a prefix, one address, or a range.
//!
//! Not for which cells hold them. A range becomes the fewest prefixes that hold the same
//! addresses. Integers up to 2^32 - 1 are IPv4 addresses where both ends are. Cost: constant.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use whered_ip::Prefix;

/// Addresses from the first to the last, of one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    first: u128,
    last: u128,
    is_ipv4: bool,
    /// They are IPv4 addresses that were written as mapped IPv6 addresses.
    is_mapped: bool,
}

/// What is allowed in place of a text.
pub(super) type Expectation = &'static str;

const NETWORKS: Expectation = "networks such as 192.0.2.0/24, ranges such as 192.0.2.0-192.0.2.9";
const ADDRESSES: Expectation = "IPv4 or IPv6 addresses, or integers of both ends";

/// One end of a range.
#[derive(Clone, Copy)]
enum End {
    Address(IpAddr),
    Integer(u128),
}

impl End {
    fn parse(text: &str) -> Option<End> {
        let text = text.trim();
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return text.parse().ok().map(End::Integer);
        }
        whered_ip::text::parse(text.as_bytes()).map(End::Address)
    }
}

impl Span {
    /// A network, an address or `FIRST-LAST` in one cell.
    pub(super) fn parse(text: &str) -> Result<Span, Expectation> {
        let text = text.trim();
        if let Some((first, last)) = text.split_once('-') {
            return Span::between(first, last);
        }
        let prefix: Prefix = text.parse().map_err(|_| NETWORKS)?;
        Ok(Span::from(prefix))
    }

    /// From one address or integer to another.
    pub(super) fn between(first: &str, last: &str) -> Result<Span, Expectation> {
        let ends = End::parse(first).zip(End::parse(last)).ok_or(ADDRESSES)?;
        let (first, last, is_ipv4) = match ends {
            (End::Integer(first), End::Integer(last)) => {
                (first, last, first.max(last) <= u128::from(u32::MAX))
            }
            (End::Address(IpAddr::V4(first)), End::Address(IpAddr::V4(last))) => {
                (u128::from(first.to_bits()), u128::from(last.to_bits()), true)
            }
            (End::Address(IpAddr::V6(first)), End::Address(IpAddr::V6(last))) => {
                (first.to_bits(), last.to_bits(), false)
            }
            _ => return Err("both ends of one family, both addresses or both integers"),
        };
        if first > last {
            return Err("a last address that is not below the first one");
        }
        Ok(Span { first, last, is_ipv4, is_mapped: false }.to_canonical())
    }

    /// Whether two texts look like the ends of a range, in any order.
    pub(super) fn are_ends(first: &str, last: &str) -> bool {
        matches!(
            (End::parse(first), End::parse(last)),
            (Some(End::Address(_)), Some(End::Address(_)))
                | (Some(End::Integer(_)), Some(End::Integer(_)))
        )
    }

    /// An address and the length of its network's prefix, or its netmask.
    pub(super) fn with_length(address: &str, length: &str) -> Result<Span, Expectation> {
        let allowed = "an address and a prefix length of its family, or a netmask";
        let address = match End::parse(address).ok_or(allowed)? {
            End::Address(address) => address,
            End::Integer(number) => match u32::try_from(number) {
                Ok(number) => IpAddr::V4(Ipv4Addr::from_bits(number)),
                Err(_) => IpAddr::V6(Ipv6Addr::from_bits(number)),
            },
        };
        let length = length.trim();
        let length = match length.parse::<Ipv4Addr>() {
            // A mask with a gap, or of no bits, is a wildcard mask or a mistake.
            Ok(mask) if address.is_ipv4() && mask.to_bits() != 0 => {
                let ones = mask.to_bits().leading_ones();
                let is_mask = mask.to_bits().count_ones() == ones;
                is_mask.then_some(ones as u8).ok_or(allowed)?
            }
            Ok(_) => return Err(allowed),
            Err(_) => length.parse().map_err(|_| allowed)?,
        };
        Prefix::new(address, length).map(Span::from).map_err(|_| allowed)
    }

    /// A range of IPv4-mapped IPv6 addresses is one of IPv4 addresses.
    fn to_canonical(self) -> Span {
        let is_mapped = |bits: u128| bits >> 32 == 0xffff;
        if self.is_ipv4 || !is_mapped(self.first) || !is_mapped(self.last) {
            return self;
        }
        let low = u128::from(u32::MAX);
        Span { first: self.first & low, last: self.last & low, is_ipv4: true, is_mapped: true }
    }

    /// The addresses as they were written: mapped ones are IPv6 addresses.
    pub(super) fn as_written(self) -> Span {
        const MAPPED: u128 = 0xffff << 32;
        if !self.is_mapped {
            return self;
        }
        let (first, last) = (self.first | MAPPED, self.last | MAPPED);
        Span { first, last, is_ipv4: false, is_mapped: false }
    }

    /// The fewest prefixes that hold these addresses, in order.
    pub(super) fn prefixes(self) -> impl Iterator<Item = Prefix> {
        let bits = if self.is_ipv4 { 32 } else { 128 };
        let mut next = Some(self.first);
        std::iter::from_fn(move || {
            let first = next?;
            let count = (self.last - first).checked_add(1);
            let fitting_bits = count.map_or(128, |count| 127 - count.leading_zeros());
            let free_bits = first.trailing_zeros().min(fitting_bits).min(bits);
            let size = 1_u128.checked_shl(free_bits);
            next = size.and_then(|size| first.checked_add(size)).filter(|next| *next <= self.last);
            let address = match self.is_ipv4 {
                true => IpAddr::V4(Ipv4Addr::from_bits(first as u32)),
                false => IpAddr::V6(Ipv6Addr::from_bits(first)),
            };
            Prefix::new(address, (bits - free_bits) as u8).ok()
        })
    }

    /// Whether one prefix holds exactly these addresses.
    pub(super) fn is_prefix(self) -> bool {
        let mut prefixes = self.prefixes();
        prefixes.next().is_some() && prefixes.next().is_none()
    }
}

impl From<Prefix> for Span {
    fn from(prefix: Prefix) -> Span {
        // A lookup of a mapped address is a lookup of the IPv4 address in it.
        let is_written = prefix.is_ipv4();
        let prefix = prefix.to_canonical();
        let is_mapped = prefix.is_ipv4() && !is_written;
        let (first, free_bits) = match prefix.address() {
            IpAddr::V4(address) => (u128::from(address.to_bits()), 32 - prefix.length_bits()),
            IpAddr::V6(address) => (address.to_bits(), 128 - prefix.length_bits()),
        };
        let free = 1_u128.checked_shl(free_bits.into()).map_or(u128::MAX, |size| size - 1);
        Span { first, last: first | free, is_ipv4: prefix.is_ipv4(), is_mapped }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefixes(span: Result<Span, Expectation>) -> String {
        let prefixes = span.unwrap().prefixes().map(|prefix| prefix.to_string());
        prefixes.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn ranges_and_integers_of_both_families_become_the_fewest_prefixes() {
        for (first, last, expected) in [
            ("1.0.0.0", "1.0.0.255", "1.0.0.0/24"),
            ("16777216", "16777471", "1.0.0.0/24"),
            ("1.0.0.1", "1.0.0.6", "1.0.0.1/32 1.0.0.2/31 1.0.0.4/31 1.0.0.6/32"),
            ("0.0.0.0", "255.255.255.255", "0.0.0.0/0"),
            ("0", "4294967295", "0.0.0.0/0"),
            ("0", "4294967296", "::/96 ::1:0:0/128"),
            ("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "::/0"),
            ("281470681743360", "281470681743615", "0.0.0.0/24"),
            ("::ffff:1.2.3.4", "::ffff:1.2.3.4", "1.2.3.4/32"),
            ("2001:db8::", "2001:db8:0:1:ffff:ffff:ffff:ffff", "2001:db8::/63"),
            (
                "340282366920938463463374607431768211455",
                "340282366920938463463374607431768211455",
                "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128",
            ),
        ] {
            assert_eq!(prefixes(Span::between(first, last)), expected, "{first} to {last}");
            assert_eq!(prefixes(Span::parse(&format!("{first} - {last}"))), expected);
        }
        assert_eq!(prefixes(Span::with_length("1.2.3.4", "24")), "1.2.3.0/24");
        assert_eq!(prefixes(Span::with_length("1.2.3.4", " 255.255.255.0")), "1.2.3.0/24");
        assert_eq!(prefixes(Span::with_length("1.2.3.4", "255.255.255.255")), "1.2.3.4/32");
        for mask in ["0.0.0.255", "255.0.255.0", "0.0.0.0", "255.255.255"] {
            assert!(Span::with_length("1.2.3.4", mask).is_err(), "{mask}");
        }
        assert!(Span::with_length("2001:db8::", "255.0.0.0").is_err());
        assert_eq!(prefixes(Span::parse("10.0.0.0/8")), "10.0.0.0/8");
        assert_eq!(prefixes(Span::parse("2001:db8::1")), "2001:db8::1/128");
    }

    #[test]
    fn ends_before_starts_and_numbers_beyond_a_family_are_refused() {
        for (first, last) in [
            ("1.0.0.2", "1.0.0.1"),
            ("2", "1"),
            ("1.0.0.0", "::1"),
            ("1.0.0.0", "16777217"),
            ("0", "340282366920938463463374607431768211456"),
            ("", "1"),
            ("1.0.0.0", "1.0.0.256"),
        ] {
            assert!(Span::between(first, last).is_err(), "{first} to {last}");
        }
        for (address, length) in [("1.0.0.0", "33"), ("1.0.0.0", "-1"), ("1.0.0.0", "")] {
            assert!(Span::with_length(address, length).is_err(), "{address} {length}");
        }
    }

    #[test]
    fn the_prefixes_hold_each_address_of_a_range_once() {
        for (first, last) in [(0_u32, 9), (3, 200), (255, 256), (7, 7), (128, 1023)] {
            let span = Span::between(&first.to_string(), &last.to_string()).unwrap();
            let mut addresses = Vec::new();
            for prefix in span.prefixes() {
                let inside = (0..2048_u32)
                    .filter(|number| prefix.contains(IpAddr::V4(Ipv4Addr::from_bits(*number))));
                addresses.extend(inside);
            }
            assert_eq!(addresses, (first..=last).collect::<Vec<_>>());
            assert_eq!(span.is_prefix(), span.prefixes().count() == 1);
        }
    }
}
