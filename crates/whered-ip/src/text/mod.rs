//! Texts of addresses to addresses, one or many at once, without a branch on what a text holds.
//!
//! For: exactly the texts that `std::net` takes for [`Ipv4Addr`], [`Ipv6Addr`] and [`IpAddr`]: no
//! leading zeros, no blanks, no brackets, no zones. What people write around addresses is taken
//! off by [`read`], the reader of every command. Not for prefixes ([`crate::Prefix`] reads
//! its own) and not for saying what is wrong with a text.
//!
//! ```text
//! text ── 16 bytes ──► dotted (here), or `simd`: all four parts at once ──► u32
//!      └─ 64 bytes ──► marks: one bit a byte for ':' '.' and hexadecimal digits
//!                        └──► groups: the marks say where the numbers stand ──► u128
//! ```
//!
//! The functions that end in `within` read texts inside a larger buffer: where 16 (or 64) bytes
//! follow a text's beginning they are loaded as they are, and what stands behind the text is
//! masked out; near the buffer's end a text is gathered first, as in the plain functions.
//!
//! Cost: a quarter of the standard library's for dotted texts, a third for IPv6
//! (`bench/results/text-parsing/amd-epyc-avx2-2/2026-11-21.json`), with no branch on what a text
//! holds but whether it is an address. Nothing is allocated, nothing panics.

mod dotted;
mod groups;
mod written;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

pub(crate) use dotted::DottedBlock;
pub(crate) use groups::GroupsBlock;
#[cfg(target_arch = "x86_64")]
pub(crate) use groups::Marks;
pub use written::{ListChoice, is_public, read, read_list};

#[cfg(target_arch = "x86_64")]
use crate::simd::avx2;
use crate::simd::{Path, path};

/// An IPv4 address from dotted decimal, as the number whose highest byte comes first.
///
/// ```
/// use whered_ip::text::parse4;
/// assert_eq!(parse4(b"192.0.2.1"), Some(0xc000_0201));
/// assert_eq!(parse4(b"192.0.2.01"), None);
/// ```
#[inline]
#[must_use]
pub fn parse4(text: &[u8]) -> Option<u32> {
    dotted_by_path(DottedBlock::of(text))
}

/// An IPv6 address, as the number whose highest byte comes first.
///
/// ```
/// use whered_ip::text::parse6;
/// assert_eq!(parse6(b"2001:db8::1"), Some(0x2001_0db8_0000_0000_0000_0000_0000_0001));
/// assert_eq!(parse6(b"::ffff:192.0.2.1"), Some(0xffff_c000_0201));
/// assert_eq!(parse6(b"1::2::3"), None);
/// ```
#[inline]
#[must_use]
pub fn parse6(text: &[u8]) -> Option<u128> {
    groups_by_path(&GroupsBlock::of(text))
}

/// An address of either family.
///
/// ```
/// use whered_ip::text::parse;
/// assert_eq!(parse(b"192.0.2.1"), "192.0.2.1".parse().ok());
/// assert_eq!(parse(b"2001:db8::1"), "2001:db8::1".parse().ok());
/// assert_eq!(parse(b"localhost"), None);
/// ```
#[inline]
#[must_use]
pub fn parse(text: &[u8]) -> Option<IpAddr> {
    match parse4(text) {
        Some(address) => Some(IpAddr::V4(Ipv4Addr::from_bits(address))),
        None => parse6(text).map(|address| IpAddr::V6(Ipv6Addr::from_bits(address))),
    }
}

/// The text at `place` of `buffer` as an IPv6 address. A place outside of the buffer holds none.
///
/// ```
/// use whered_ip::text::parse6_within;
/// assert_eq!(parse6_within(b"from ::1 to ::2", &(5..8)), Some(1));
/// ```
#[inline]
#[must_use]
pub fn parse6_within(buffer: &[u8], place: &Range<usize>) -> Option<u128> {
    groups_by_path(&GroupsBlock::within(buffer, place))
}

/// Many IPv4 addresses of one buffer: `found[n]` becomes what [`parse4`] says of the text at
/// `places[n]`. A place outside of the buffer holds none.
///
/// # Panics
///
/// When `places` and `found` differ in length.
///
/// ```
/// let mut found = [None; 2];
/// whered_ip::text::parse4_batch_within(b"0.0.0.1,0.0.0.2", &[0..7, 8..15], &mut found);
/// assert_eq!(found, [Some(1), Some(2)]);
/// ```
pub fn parse4_batch_within(buffer: &[u8], places: &[Range<usize>], found: &mut [Option<u32>]) {
    assert_eq!(places.len(), found.len(), "one answer a place");
    match path() {
        Path::Scalar => {
            for (place, found) in places.iter().zip(found) {
                *found = DottedBlock::within(buffer, place).address();
            }
        }
        #[cfg(target_arch = "x86_64")]
        Path::Avx2(proof) => avx2::dotted_batch_within(proof, buffer, places, found),
    }
}

#[inline]
fn dotted_by_path(block: DottedBlock) -> Option<u32> {
    match path() {
        Path::Scalar => block.address(),
        #[cfg(target_arch = "x86_64")]
        Path::Avx2(proof) => avx2::dotted(proof, block),
    }
}

#[inline]
fn groups_by_path(block: &GroupsBlock) -> Option<u128> {
    match path() {
        Path::Scalar => block.address(block.marks()),
        #[cfg(target_arch = "x86_64")]
        Path::Avx2(proof) => avx2::groups(proof, block),
    }
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
