//! Fields of operations as bytes: numbers, names, addresses, members of prefix sets.
//!
//! For: the fields that kinds of operations share; which kind has which fields is in `kinds.rs`.
//!
//! Invariant: the decoder trusts nothing: a field that does not fit is an error with the kind and
//! the byte offset. Cost: strings are borrowed from the payload; the encoder copies.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use whered_geo::{Cell, Place};
use whered_ip::{Block, MemberList, Prefix};

use super::{ADD_RANGES_KIND, ALL_NUMBERS};
use crate::journal::numbers::NUMBERS;

/// Collects the bytes of a payload.
pub(crate) struct Encoder(pub(crate) Vec<u8>);

impl Encoder {
    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// A length and the bytes. The journal refuses frames above its limit, far below 4 GiB.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let length = u32::try_from(bytes.len()).expect("reserve() refuses payloads of this size");
        self.0.extend_from_slice(&length.to_le_bytes());
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn address(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(v4) => {
                self.u8(4);
                self.0.extend_from_slice(&v4.octets());
            }
            IpAddr::V6(v6) => {
                self.u8(6);
                self.0.extend_from_slice(&v6.octets());
            }
        }
    }

    pub(super) fn block(&mut self, block: &Block) {
        match (block.as_prefix(), block.first(), block.last()) {
            (Some(prefix), ..) => {
                self.address(prefix.address());
                self.u8(prefix.length_bits());
            }
            (None, IpAddr::V4(first), IpAddr::V4(last)) => {
                self.u8(14);
                self.0.extend_from_slice(&first.octets());
                self.0.extend_from_slice(&last.octets());
            }
            (None, IpAddr::V6(first), IpAddr::V6(last)) => {
                self.u8(16);
                self.0.extend_from_slice(&first.octets());
                self.0.extend_from_slice(&last.octets());
            }
            // A block has one family.
            _ => {}
        }
    }

    pub(super) fn attribute(&mut self, value: Option<&[u8]>, expires_at_millis: Option<u64>) {
        self.u64(expires_at_millis.unwrap_or(0));
        self.u8(u8::from(value.is_some()));
        if let Some(value) = value {
            self.bytes(value);
        }
    }

    pub(super) fn members(&mut self, members: &MemberList) {
        let attributes = members.attributes();
        let count = u32::try_from(attributes.len()).expect("a list has fewer than 2^32 attributes");
        self.0.extend_from_slice(&count.to_le_bytes());
        attributes.for_each(|(value, expires)| self.attribute(value, expires));
        for (block, attribute) in members.iter() {
            if count > 1 {
                self.0.extend_from_slice(&attribute.to_le_bytes());
            }
            self.block(&block);
        }
    }

    pub(super) fn place(&mut self, place: &Place) {
        self.u64(place.longitude_degrees.to_bits());
        self.u64(place.latitude_degrees.to_bits());
    }
}

/// Reads a payload from its beginning.
pub(crate) struct Decoder<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) offset: usize,
    pub(crate) kind: u16,
}

impl<'a> Decoder<'a> {
    #[inline]
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let end = self.offset.checked_add(count).filter(|end| *end <= self.bytes.len());
        let taken = end.and_then(|end| self.bytes.get(self.offset..end));
        let taken = taken.ok_or_else(|| {
            let left = self.bytes.len() - self.offset;
            self.wrong(&format!("{count} bytes expected, {left} left"))
        })?;
        self.offset += count;
        Ok(taken)
    }

    pub(crate) fn wrong(&self, what: &str) -> String {
        format!("operation of kind {}, byte {}: {what}", self.kind, self.offset)
    }

    pub(crate) fn at_end(&self) -> bool {
        self.offset == self.bytes.len()
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8, String> {
        Ok(self.array::<1>()?[0])
    }

    #[inline]
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let taken = self.take(N)?;
        Ok(taken.try_into().expect("take() returns as many bytes as asked for"))
    }

    pub(crate) fn u16(&mut self) -> Result<u16, String> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Result<u32, String> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    #[inline]
    pub(super) fn u64(&mut self) -> Result<u64, String> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    #[inline]
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], String> {
        let length = self.u32()?;
        self.take(length as usize)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, String> {
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes).map_err(|_| self.wrong("a name that is not UTF-8"))
    }

    #[inline]
    pub(crate) fn number(&mut self, all_allowed: bool) -> Result<u8, String> {
        let number = self.u8()?;
        if usize::from(number) < NUMBERS || (all_allowed && number == ALL_NUMBERS) {
            Ok(number)
        } else {
            Err(self.wrong(&format!("database number {number}; allowed: 0 to {}", NUMBERS - 1)))
        }
    }

    #[inline]
    pub(super) fn cell(&mut self) -> Result<Cell, String> {
        let bits = self.u64()?;
        Cell::from_bits(bits).ok_or_else(|| self.wrong(&format!("cell {bits} has over 52 bits")))
    }

    pub(super) fn address(&mut self) -> Result<IpAddr, String> {
        match self.u8()? {
            4 => Ok(Ipv4Addr::from(self.array::<4>()?).into()),
            6 => Ok(Ipv6Addr::from(self.array::<16>()?).into()),
            other => Err(self.wrong(&format!("address family {other}; allowed: 4, 6"))),
        }
    }

    pub(super) fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        let mut items = Vec::new();
        while !self.at_end() {
            items.push(item(self)?);
        }
        Ok(items)
    }

    pub(crate) fn expiry(&mut self) -> Result<Option<u64>, String> {
        Ok(Some(self.u64()?).filter(|at| *at != 0))
    }

    /// A member. What an older version kept as an IPv4-mapped one is the IPv4 member it stands for:
    /// addresses are looked up that way.
    pub(super) fn block(&mut self) -> Result<Block, String> {
        self.written_block().map(Block::to_canonical)
    }

    pub(super) fn written_block(&mut self) -> Result<Block, String> {
        let (first, last) = match self.bytes.get(self.offset) {
            Some(14) if self.kind >= ADD_RANGES_KIND => {
                self.u8()?;
                let [first, last] = [self.array::<4>()?, self.array::<4>()?];
                (IpAddr::from(first), IpAddr::from(last))
            }
            Some(16) if self.kind >= ADD_RANGES_KIND => {
                self.u8()?;
                let [first, last] = [self.array::<16>()?, self.array::<16>()?];
                (IpAddr::from(first), IpAddr::from(last))
            }
            _ => {
                let address = self.address()?;
                let length_bits = self.u8()?;
                let prefix = Prefix::new(address, length_bits);
                return prefix.map(Block::from).map_err(|error| self.wrong(&error.to_string()));
            }
        };
        Block::from_ends(first, last).map_err(|error| self.wrong(&error.to_string()))
    }

    pub(super) fn attribute(&mut self) -> Result<(Option<&'a [u8]>, Option<u64>), String> {
        let expires_at_millis = self.expiry()?;
        let value = if self.u8()? == 1 { Some(self.bytes()?) } else { None };
        Ok((value, expires_at_millis))
    }

    pub(super) fn members(&mut self) -> Result<MemberList, String> {
        let count = self.u32()?;
        let mut members = MemberList::new();
        let mut numbers = Vec::new();
        for _ in 0..count {
            let (value, expires_at_millis) = self.attribute()?;
            numbers.push(members.attribute(value, expires_at_millis));
        }
        while !self.at_end() {
            let place = if count > 1 { self.u32()? } else { 0 };
            let Some(number) = numbers.get(place as usize) else {
                return Err(self.wrong(&format!("attribute {place} of {count}")));
            };
            members.push_with(self.block()?, *number);
        }
        Ok(members)
    }

    pub(super) fn place(&mut self) -> Result<Place, String> {
        let longitude_degrees = f64::from_bits(self.u64()?);
        let latitude_degrees = f64::from_bits(self.u64()?);
        Place::new_geographic(longitude_degrees, latitude_degrees)
            .map_err(|error| self.wrong(&error.to_string()))
    }
}
