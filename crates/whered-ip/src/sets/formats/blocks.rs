//! One block as texts of sets write it.
//!
//! For: an address, a prefix or a range; in lists also what people write there.
//! Not for: which part of a line is one.
//!
//! ```text
//! everywhere   192.0.2.1   192.0.2.0/24   192.0.2.5-192.0.2.9   2001:db8::/32
//! lists        10.0.0.0/255.0.0.0   10.0.0.0/0.255.255.255   1.2.3.4-9   [::1]   [2001:db8::]/32
//! ```
//!
//! A mask whose ones are not all at one end is no block. A mask that a netmask and a wildcard mask
//! read differently (`1.2.3.4/0.0.0.0`) is refused.

use std::borrow::Cow;
use std::net::IpAddr;

use super::SetTextError;
use crate::{Block, Prefix, text};

pub(super) const ADDRESS: &str =
    "an IPv4 or IPv6 address, alone, with /length, or two with - between them";
const UPWARDS: &str = "a range that goes upwards in one family";
const MASK: &str = "a mask whose ones all come first (255.255.0.0) or all come last (0.0.255.255)";

/// What is wrong with a word, and where in it.
pub(super) struct BlockMistake {
    from: usize,
    length: usize,
    allowed: Cow<'static, str>,
}

impl BlockMistake {
    fn whole(word: &[u8], allowed: &'static str) -> BlockMistake {
        BlockMistake { from: 0, length: word.len(), allowed: Cow::Borrowed(allowed) }
    }
}

/// The block at `start..end`, as the kernel's tools write it.
pub(super) fn block_at(text: &[u8], start: usize, end: usize) -> Result<Block, SetTextError> {
    at_offset(text, start, block_of(&text[start..end], false))
}

/// The block at `start..end` of a list.
pub(super) fn list_block_at(text: &[u8], start: usize, end: usize) -> Result<Block, SetTextError> {
    at_offset(text, start, block_of(&text[start..end], true))
}

fn at_offset(
    text: &[u8],
    start: usize,
    found: Result<Block, BlockMistake>,
) -> Result<Block, SetTextError> {
    found.map_err(|mistake| {
        SetTextError::at(text, start + mistake.from, mistake.length, mistake.allowed)
    })
}

/// The block that a word is.
pub(super) fn block_of(word: &[u8], is_list: bool) -> Result<Block, BlockMistake> {
    if let Some(address) = text::parse4(word) {
        return Ok(Block::v4(address, address));
    }
    let mistake = || BlockMistake::whole(word, ADDRESS);
    let split = word.iter().position(|byte| matches!(byte, b'/' | b'-'));
    let Some(split) = split else {
        return Ok(Block::from(address_of(word, is_list).ok_or_else(mistake)?));
    };
    let first = address_of(word[..split].trim_ascii(), is_list).ok_or_else(mistake)?;
    let rest = &word[split + 1..];
    if word[split] == b'-' {
        let last = last_of(first, rest.trim_ascii(), is_list).ok_or_else(mistake)?;
        return Block::from_ends(first, last).map_err(|_| BlockMistake::whole(word, UPWARDS));
    }
    let length = match rest {
        [digit @ b'0'..=b'9'] => Some(digit - b'0'),
        [tens @ b'1'..=b'9', ones @ b'0'..=b'9'] => Some((tens - b'0') * 10 + (ones - b'0')),
        [b'1', tens @ b'0'..=b'2', ones @ b'0'..=b'9'] => {
            Some(100 + (tens - b'0') * 10 + (ones - b'0'))
        }
        _ => None,
    };
    let mistake = |allowed| BlockMistake { from: split + 1, length: rest.len(), allowed };
    let length = match (length, text::parse(rest)) {
        (None, Some(mask)) if is_list && mask.is_ipv4() == first.is_ipv4() => {
            Some(mask_bits(first, mask).map_err(|allowed| mistake(Cow::Borrowed(allowed)))?)
        }
        (length, _) => length,
    };
    let prefix = length.and_then(|length| Prefix::new(first, length).ok());
    prefix.map(Block::from).ok_or_else(|| {
        let longest = if first.is_ipv4() { 32 } else { 128 };
        mistake(format!("a length of 0 to {longest} bits").into())
    })
}

/// An address, in lists also in brackets if it is IPv6.
fn address_of(word: &[u8], is_list: bool) -> Option<IpAddr> {
    let inside = word.strip_prefix(b"[").and_then(|word| word.strip_suffix(b"]"));
    match inside.filter(|_| is_list) {
        Some(inside) => text::parse6(inside).map(|bits| IpAddr::V6(bits.into())),
        None => text::parse(word),
    }
}

/// The end of a range, in lists also the last part of an IPv4 address.
fn last_of(first: IpAddr, rest: &[u8], is_list: bool) -> Option<IpAddr> {
    let is_short = (1..=3).contains(&rest.len()) && rest.iter().all(u8::is_ascii_digit);
    let IpAddr::V4(first) = first else { return address_of(rest, is_list) };
    if !is_list || !is_short {
        return address_of(rest, is_list);
    }
    if rest.len() > 1 && rest[0] == b'0' {
        return None;
    }
    let number = rest.iter().fold(0_u32, |number, digit| number * 10 + u32::from(digit - b'0'));
    (number <= 255).then(|| IpAddr::V4((first.to_bits() & !255 | number).into()))
}

/// The length that a netmask or a wildcard mask stands for.
fn mask_bits(address: IpAddr, mask: IpAddr) -> Result<u8, &'static str> {
    const DOUBTFUL: &str = "a length: this is one address as a netmask and all of them as a \
                            wildcard mask, or the reverse";
    let (bits, width, is_zero) = match (address, mask) {
        (IpAddr::V4(address), IpAddr::V4(mask)) => {
            (u128::from(mask.to_bits()) << 96, 32, address.to_bits() == 0)
        }
        (IpAddr::V6(address), IpAddr::V6(mask)) => (mask.to_bits(), 128, address.to_bits() == 0),
        _ => return Err(MASK),
    };
    let all = u128::MAX << (128 - width);
    let of_length = |length: u32| u128::MAX.checked_shl(128 - length).unwrap_or(0);
    let (ones, zeros) = (bits.leading_ones(), (!bits & all).leading_ones());
    match () {
        // 0.0.0.0/0.0.0.0 is everything, 1.2.3.4/255.255.255.255 is one address.
        () if bits == 0 && !is_zero || bits == all && is_zero => Err(DOUBTFUL),
        () if bits == of_length(ones) => Ok(ones as u8),
        () if !bits & all == of_length(zeros) => Ok(zeros as u8),
        () => Err(MASK),
    }
}
