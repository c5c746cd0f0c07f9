//! The EDNS client subnet option (RFC 7871), read strictly.
//!
//! ```text
//! family u16 | source length u8 | scope length u8 | address: exactly ceil(source length / 8) bytes
//! ```
//!
//! Invariants: source length at most 32 or 128, scope 0 in a query, bits behind the source length
//! zero. Family 0 is taken with length 0 and no address: some clients ask so for an answer that
//! does not depend on the client.
#![deny(clippy::indexing_slicing)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The option's code.
pub(crate) const OPTION_SUBNET: u16 = 8;

/// A well-formed option of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subnet<'q> {
    pub(crate) family: u16,
    pub(crate) source_length_bits: u8,
    pub(crate) address: &'q [u8],
}

impl<'q> Subnet<'q> {
    /// Reads the option's data; none when they break a rule.
    pub(crate) fn read(data: &'q [u8]) -> Option<Subnet<'q>> {
        let [family_high, family_low, source_length_bits, 0, address @ ..] = data else {
            return None;
        };
        let family = u16::from_be_bytes([*family_high, *family_low]);
        let length_max = match family {
            0 => 0,
            1 => 32,
            2 => 128,
            _ => return None,
        };
        let size = usize::from(source_length_bits.div_ceil(8));
        if *source_length_bits > length_max || address.len() != size {
            return None;
        }
        let spare_bits = size as u32 * 8 - u32::from(*source_length_bits);
        let clean = address.last().is_none_or(|last| last.trailing_zeros() >= spare_bits);
        clean.then_some(Subnet { family, source_length_bits: *source_length_bits, address })
    }

    /// The client's prefix, host bits zero; none for length 0, which asks not to use its place.
    pub(crate) fn client_address(&self) -> Option<IpAddr> {
        if self.source_length_bits == 0 {
            return None;
        }
        if self.family == 1 {
            let mut octets = [0; 4];
            octets.get_mut(..self.address.len())?.copy_from_slice(self.address);
            return Some(Ipv4Addr::from(octets).into());
        }
        let mut octets = [0; 16];
        octets.get_mut(..self.address.len())?.copy_from_slice(self.address);
        Some(Ipv6Addr::from(octets).into())
    }

    /// How long the option is in a reply, its head included.
    pub(crate) fn size(&self) -> usize {
        4 + 4 + self.address.len()
    }

    /// The option's code, length and first bytes in a reply; the address follows.
    pub(crate) fn head(&self, scope_length_bits: u8) -> [u8; 8] {
        let [c0, c1] = OPTION_SUBNET.to_be_bytes();
        let [l0, l1] = (4 + self.address.len() as u16).to_be_bytes();
        let [f0, f1] = self.family.to_be_bytes();
        [c0, c1, l0, l1, f0, f1, self.source_length_bits, scope_length_bits]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_is_kept() {
        let good: [&[u8]; 6] = [
            &[0, 1, 24, 0, 192, 0, 2],
            &[0, 1, 20, 0, 192, 0, 0xf0],
            &[0, 1, 32, 0, 192, 0, 2, 1],
            &[0, 1, 0, 0],
            &[0, 0, 0, 0],
            &[0, 2, 33, 0, 0x20, 1, 0xd, 0xb8, 0x80],
        ];
        for data in good {
            assert!(Subnet::read(data).is_some(), "{data:?}");
        }
        let bad: [&[u8]; 11] = [
            &[],
            &[0, 1, 24],
            &[0, 1, 24, 0, 192, 0],          // too few address bytes
            &[0, 1, 24, 0, 192, 0, 2, 0],    // too many
            &[0, 1, 24, 24, 192, 0, 2],      // a scope
            &[0, 1, 23, 0, 192, 0, 1],       // a bit behind the prefix
            &[0, 1, 33, 0, 192, 0, 2, 1, 0], // too long for IPv4
            &[0, 2, 129, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0, 3, 0, 0], // no such family
            &[0, 0, 8, 0, 1],
            &[1, 1, 0, 0],
        ];
        for data in bad {
            assert_eq!(Subnet::read(data), None, "{data:?}");
        }
    }

    #[test]
    fn the_client_has_zero_host_bits() {
        let subnet = Subnet::read(&[0, 1, 17, 0, 192, 0, 0x80]).unwrap();
        assert_eq!(subnet.client_address(), Some("192.0.128.0".parse().unwrap()));
        assert_eq!(Subnet::read(&[0, 2, 0, 0]).unwrap().client_address(), None);
    }
}
