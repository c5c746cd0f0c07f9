//! Lists of addresses to look up, as numbers and as text.
//!
//! Not for reading logs. Five lists, all from a seed:
//!
//! ```text
//! same4      four addresses of the file's networks, over and over
//! uniform4   any IPv4 address                    uniform6   any address of 2000::/3
//! networks4  a network of the file, then any address in it; networks6 the same
//! ```
//!
//! Texts lie behind each other, each ended by a zero byte, so that C reads them in place:
//!
//! ```text
//! bytes   1 . 2 . 3 . 4 \0 2 0 0 . ...
//! starts  0               8          ...   one more than there are texts
//! ```

use crate::Random;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use whered_ip::Prefix;
use whered_mmdb::{Database, MmdbError};

/// Which addresses a list has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Binary {
    /// IPv4 addresses as numbers.
    V4(Vec<u32>),
    /// IPv6 addresses as numbers.
    V6(Vec<u128>),
}

/// A named list of addresses of one family.
#[derive(Debug, Clone)]
pub struct AddressList {
    /// What the addresses are, such as `uniform4`.
    pub name: &'static str,
    /// The addresses as numbers.
    pub binary: Binary,
    texts: String,
    starts: Vec<u32>,
}

impl AddressList {
    fn new(name: &'static str, binary: Binary) -> AddressList {
        let mut list = AddressList { name, binary, texts: String::new(), starts: Vec::new() };
        for index in 0..list.len() {
            list.starts.push(list.texts.len() as u32);
            list.texts.push_str(&list.address(index).to_string());
            list.texts.push('\0');
        }
        list.starts.push(list.texts.len() as u32);
        list
    }

    /// How many addresses there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.binary {
            Binary::V4(addresses) => addresses.len(),
            Binary::V6(addresses) => addresses.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the addresses are IPv4.
    #[must_use]
    pub fn is_ipv4(&self) -> bool {
        matches!(self.binary, Binary::V4(_))
    }

    /// One address.
    ///
    /// # Panics
    ///
    /// If there are fewer.
    #[must_use]
    pub fn address(&self, index: usize) -> IpAddr {
        match &self.binary {
            Binary::V4(addresses) => Ipv4Addr::from_bits(addresses[index]).into(),
            Binary::V6(addresses) => Ipv6Addr::from_bits(addresses[index]).into(),
        }
    }

    /// One address as text.
    ///
    /// # Panics
    ///
    /// If there are fewer.
    #[inline]
    #[must_use]
    pub fn text(&self, index: usize) -> &str {
        let (start, end) = (self.starts[index], self.starts[index + 1]);
        &self.texts[start as usize..end as usize - 1]
    }

    /// All texts, each ended by a zero byte, and where each begins.
    #[must_use]
    pub fn texts(&self) -> (&[u8], &[u32]) {
        (self.texts.as_bytes(), &self.starts)
    }
}

/// The five lists, of `count` addresses each; those of a family that the file does not have are
/// left out.
///
/// # Errors
///
/// The file's tree is broken.
pub fn lists(database: &Database, count: usize, seed: u64) -> Result<Vec<AddressList>, MmdbError> {
    let mut networks4 = Vec::new();
    let mut networks6 = Vec::new();
    for network in database.networks() {
        let (prefix, _) = network?;
        let of_family = if prefix.address().is_ipv4() { &mut networks4 } else { &mut networks6 };
        of_family.push(prefix);
    }
    let mut random = Random::new(seed);
    let mut lists = Vec::new();
    let uniform = (0..count).map(|_| random.next_u64() as u32).collect();
    lists.push(AddressList::new("uniform4", Binary::V4(uniform)));
    if !networks4.is_empty() {
        let drawn: Vec<u32> = (0..count).map(|_| draw4(&networks4, &mut random)).collect();
        let same = drawn.iter().copied().take(4).cycle().take(count).collect();
        lists.push(AddressList::new("networks4", Binary::V4(drawn)));
        lists.insert(0, AddressList::new("same4", Binary::V4(same)));
    }
    if !networks6.is_empty() {
        let uniform = (0..count).map(|_| random.next_u128() >> 3 | 1 << 125).collect();
        lists.push(AddressList::new("uniform6", Binary::V6(uniform)));
        let drawn = (0..count).map(|_| draw6(&networks6, &mut random)).collect();
        lists.push(AddressList::new("networks6", Binary::V6(drawn)));
    }
    Ok(lists)
}

fn draw4(networks: &[Prefix], random: &mut Random) -> u32 {
    let prefix = random.pick(networks);
    let IpAddr::V4(address) = prefix.address() else { return 0 };
    let inside = u32::MAX.checked_shr(u32::from(prefix.length_bits())).unwrap_or(0);
    address.to_bits() | random.next_u64() as u32 & inside
}

fn draw6(networks: &[Prefix], random: &mut Random) -> u128 {
    let prefix = random.pick(networks);
    let IpAddr::V6(address) = prefix.address() else { return 0 };
    let inside = u128::MAX.checked_shr(u32::from(prefix.length_bits())).unwrap_or(0);
    address.to_bits() | random.next_u128() & inside
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Scale, city};

    #[test]
    fn lists_are_reproducible_and_drawn_addresses_are_found() {
        let database = city(5, Scale::Small).unwrap().database;
        let first = lists(&database, 200, 3).unwrap();
        let second = lists(&database, 200, 3).unwrap();
        let names: Vec<&str> = first.iter().map(|list| list.name).collect();
        assert_eq!(names, ["same4", "uniform4", "networks4", "uniform6", "networks6"]);
        for (one, other) in first.iter().zip(&second) {
            assert_eq!(one.binary, other.binary);
            assert_eq!(one.len(), 200);
            for index in 0..one.len() {
                let address = one.address(index);
                assert_eq!(one.text(index).parse::<IpAddr>().unwrap(), address);
                let is_found = database.lookup(address).unwrap().record.is_some();
                assert!(is_found || one.name.starts_with("uniform"), "{address}");
            }
        }
        assert_eq!(first[0].address(0), first[0].address(196));
    }

    #[test]
    fn texts_end_with_a_zero_byte() {
        let list = AddressList::new("same4", Binary::V4(vec![0x0102_0304, 0xff00_0000]));
        let (bytes, starts) = list.texts();
        assert_eq!(bytes, b"1.2.3.4\x00255.0.0.0\x00");
        assert_eq!(starts, [0, 8, 18]);
    }
}
