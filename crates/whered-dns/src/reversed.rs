//! Names that are addresses written backwards, as in blocklists (RFC 5782) and reverse zones.
//!
//! Not for: what is answered there (the caller's [`Synthesise`]), and which zones have such names.
//!
//! ```text
//! 4.3.2.1 | bl.example.com.              four labels, 0 to 255      IPv4 1.2.3.4
//! 1.0.0. ... .8.b.d.0.1.0.0.2 | bl...    32 labels, 0 to f          IPv6 2001:db8::...:1
//! 2.1 | bl.example.com.                  fewer: addresses are below it (RFC 8020: no NXDOMAIN)
//! ```
//!
//! Concurrency: none inside. Cost: one pass over the labels, no allocation.
#![deny(clippy::indexing_slicing)]

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::code::RecordType;

const NIBBLE_COUNT: usize = 32;
const OCTET_COUNT: usize = 4;

/// Who knows what stands at the addresses of a zone that was added by
/// [`ZonesBuilder::add_reversed_zone`](crate::ZonesBuilder::add_reversed_zone).
pub trait Synthesise: fmt::Debug {
    /// Tells what is at an address and appends the data of the one record of this type, if there
    /// is one, to `data`, which is empty before. `zone` is the place of the zone in the order in
    /// which zones were added.
    fn synthesise(
        &self,
        zone: usize,
        address: IpAddr,
        record_type: RecordType,
        data: &mut Vec<u8>,
    ) -> Synthesised;

    /// Tells, before, which addresses of which zones a batch will ask about, so that they can wait
    /// for memory together. Whatever is done then changes no answer.
    fn prefetch(&self, asked: &[(usize, IpAddr)]) {
        let _ = asked;
    }
}

/// The places of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Synthesised {
    /// Nothing: the name does not exist.
    Absent,
    /// The name exists, without a record of this type.
    NoData,
    /// A record of this type.
    Record {
        /// Its TTL.
        ttl_seconds: u32,
    },
    /// The source cannot be read: the answer is SERVFAIL.
    Failed,
}

/// The meaning of the labels below an apex.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reversed {
    /// The address, when it is whole.
    pub(crate) address: Option<IpAddr>,
    /// Whether addresses may be below the name. Four octets below 10 are four digits of an IPv6
    /// address too.
    pub(crate) is_partial: bool,
}

impl Reversed {
    /// Reads labels in wire form, without the apex and the root; none when they are no part of an
    /// address.
    pub(crate) fn read(labels: &[u8]) -> Option<Reversed> {
        let mut nibbles = 0_u128;
        let mut octets = 0_u32;
        let (mut count, mut are_nibbles, mut are_octets) = (0, true, true);
        let mut rest = labels;
        while let Some((&length, after)) = rest.split_first() {
            let (label, after) = after.split_at_checked(length.into())?;
            let (nibble, octet) = (nibble_of(label), octet_of(label));
            are_nibbles &= nibble.is_some() && count < NIBBLE_COUNT;
            are_octets &= octet.is_some() && count < OCTET_COUNT;
            if !are_nibbles && !are_octets {
                return None;
            }
            // The first label is the last of the address.
            nibbles = nibbles >> 4 | u128::from(nibble.unwrap_or(0)) << 124;
            octets = octets >> 8 | u32::from(octet.unwrap_or(0)) << 24;
            count += 1;
            rest = after;
        }
        let address = match count {
            OCTET_COUNT if are_octets => Some(Ipv4Addr::from_bits(octets).into()),
            NIBBLE_COUNT if are_nibbles => Some(Ipv6Addr::from_bits(nibbles).into()),
            _ => None,
        };
        let is_partial = (are_nibbles && count < NIBBLE_COUNT && count > 0)
            || (are_octets && count < OCTET_COUNT && count > 0);
        (address.is_some() || is_partial).then_some(Reversed { address, is_partial })
    }
}

fn nibble_of(label: &[u8]) -> Option<u8> {
    match label {
        [digit @ b'0'..=b'9'] => Some(digit - b'0'),
        [letter @ b'a'..=b'f'] => Some(letter - b'a' + 10),
        _ => None,
    }
}

/// A number to 255, without zeros in front.
#[inline]
fn octet_of(label: &[u8]) -> Option<u8> {
    let [hundreds, tens, ones] = match *label {
        [ones] => [b'0', b'0', ones],
        [tens @ b'1'..=b'9', ones] => [b'0', tens, ones],
        [hundreds @ b'1'..=b'2', tens, ones] => [hundreds, tens, ones],
        _ => return None,
    };
    let digit = |byte: u8| Some(byte.wrapping_sub(b'0')).filter(|digit| *digit < 10).map(u16::from);
    let octet = digit(hundreds)? * 100 + digit(tens)? * 10 + digit(ones)?;
    u8::try_from(octet).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Name;

    fn read(text: &str) -> Option<Reversed> {
        let name: Name = text.parse().unwrap();
        let wire = name.as_wire();
        Reversed::read(&wire[..wire.len() - 1])
    }

    #[test]
    fn whole_addresses_are_read_backwards() {
        let whole = |text: &str| read(text).unwrap();
        let address = Some("1.2.3.200".parse().unwrap());
        assert_eq!(whole("200.3.2.1"), Reversed { address, is_partial: false });
        let address = Some("1.2.3.4".parse().unwrap());
        assert_eq!(whole("4.3.2.1"), Reversed { address, is_partial: true });
        for address in ["2001:db8::1", "::", "fedc:ba98:7654:3210:0123:4567:89ab:cdef"] {
            let address: Ipv6Addr = address.parse().unwrap();
            let digits = format!("{:032x}", address.to_bits());
            let labels: Vec<String> = digits.chars().rev().map(String::from).collect();
            let found = whole(&labels.join("."));
            assert_eq!(found, Reversed { address: Some(address.into()), is_partial: false });
        }
    }

    #[test]
    fn octets_are_the_numbers_to_255_as_they_are_written() {
        for number in 0..2000_u32 {
            for text in [number.to_string(), format!("0{number}"), format!("{number}a")] {
                let is_plain = number < 256 && text == number.to_string();
                let expected = is_plain.then_some(number as u8);
                assert_eq!(octet_of(text.as_bytes()), expected, "{text}");
            }
        }
        assert_eq!(octet_of(b""), None);
    }

    #[test]
    fn a_part_of_an_address_is_one_and_anything_else_is_none() {
        for part in ["1", "255", "3.2.1", "0", "a", "a.b.c.d.e.f", "1.2.3.4.5", "f.2.1"] {
            assert_eq!(read(part), Some(Reversed { address: None, is_partial: true }), "{part}");
        }
        let long = ["1"; 33].join(".");
        for other in
            ["256", "01", "00", "g", "1.2.3.04", "4.3.2.1.x", "x.1", "300.2.1", "12.3.2.1.9", &long]
        {
            assert_eq!(read(other), None, "{other}");
        }
        assert_eq!(read("."), None, "the apex is no address");
    }
}
