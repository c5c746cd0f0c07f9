//! Block lists of file sharing programs: PeerGuardian's `.p2p` and eMule's `ipfilter.dat`.
//!
//! ```text
//! p2p   Some name: with a colon:1.2.3.4-5.6.7.8
//! dat   001.002.003.000 - 001.002.003.255 , 000 , Some name
//! ```
//!
//! The name is the value. Parts of IPv4 addresses may have zeros in front here, and are decimal all
//! the same. Addresses above level 127 are allowed, not blocked (eMule's rule): such lines of a
//! `.dat` are no members, as comments are none. Lines that begin with `#` or `//` are comments.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};

use super::lines::{content_lines, parts, trimmed};
use super::{Block, SetEntry, SetTextError};
use crate::text;

const COMMENTS: &[&[u8]] = &[b"#", b"//"];
const P2P_LINE: &str = "NAME:FIRST-LAST with two IPv4 addresses, upwards";
const DAT_LINE: &str = "FIRST - LAST , LEVEL , NAME with two addresses, upwards, and a level of 0 \
                        to 255";
/// Higher levels are allowed.
const LEVEL_MAX: u32 = 127;

pub(super) fn read_p2p<'a>(
    text: &'a [u8],
    each: &mut impl FnMut(SetEntry<'a>),
) -> Result<(), SetTextError> {
    for (from, to) in content_lines(text, COMMENTS) {
        let mistake = || SetTextError::at(text, from, to - from, P2P_LINE);
        let (name_end, block) = p2p_line(&text[from..to]).ok_or_else(mistake)?;
        let name = text[from..from + name_end].trim_ascii();
        let value = (!name.is_empty()).then_some(Cow::Borrowed(name));
        each(SetEntry { value, ..SetEntry::from(block) });
    }
    Ok(())
}

/// Where the name of a line ends, and its block.
fn p2p_line(line: &[u8]) -> Option<(usize, Block)> {
    let colon = line.iter().rposition(|byte| *byte == b':')?;
    let (first, last) = range(&line[colon + 1..])?;
    let block = Block::from_ends(first, last).ok()?;
    block.is_ipv4().then_some((colon, block))
}

pub(super) fn read_dat<'a>(
    text: &'a [u8],
    each: &mut impl FnMut(SetEntry<'a>),
) -> Result<(), SetTextError> {
    for (from, to) in content_lines(text, COMMENTS) {
        let mut fields = parts(text, from, to, b',');
        let mistake = || SetTextError::at(text, from, to - from, DAT_LINE);
        let ends = fields.next().and_then(|(from, to)| range(&text[from..to]));
        let level = fields.next().and_then(|(from, to)| level(&text[from..to]));
        let block = ends.and_then(|(first, last)| Block::from_ends(first, last).ok());
        let (block, level) = block.zip(level).ok_or_else(mistake)?;
        // The name may have commas, and may be missing; but at the end of a text a level without
        // a name may be the beginning of one.
        let name = fields.next();
        if name.is_none() && text[to..].trim_ascii().is_empty() && !text.ends_with(b"\n") {
            return Err(mistake());
        }
        let name = name.and_then(|(name, _)| trimmed(text, name, to));
        if level > LEVEL_MAX {
            continue;
        }
        let value = name.map(|(from, to)| Cow::Borrowed(&text[from..to]));
        each(SetEntry { value, ..SetEntry::from(block) });
    }
    Ok(())
}

fn level(field: &[u8]) -> Option<u32> {
    let field = field.trim_ascii();
    let is_short = (1..=3).contains(&field.len()) && field.iter().all(u8::is_ascii_digit);
    let digits = field.iter().filter(|_| is_short);
    let level = digits.fold(0, |level, digit| level * 10 + u32::from(digit & 15));
    (is_short && level <= 255).then_some(level)
}

fn range(part: &[u8]) -> Option<(IpAddr, IpAddr)> {
    let hyphen = part.iter().position(|byte| *byte == b'-')?;
    Some((address(part[..hyphen].trim_ascii())?, address(part[hyphen + 1..].trim_ascii())?))
}

/// An address whose decimal parts may have zeros in front.
fn address(word: &[u8]) -> Option<IpAddr> {
    if let Some(address) = text::parse(word) {
        return Some(address);
    }
    let mut octets = [0; 4];
    let mut words = word.split(|byte| *byte == b'.');
    for octet in &mut octets {
        *octet = u8::try_from(level(words.next()?)?).ok()?;
    }
    words.next().is_none().then(|| IpAddr::V4(Ipv4Addr::from(octets)))
}

/// Whether a line is one of a `.p2p`.
pub(super) fn is_p2p(line: &[u8]) -> bool {
    p2p_line(line).is_some()
}

/// Whether a line is one of an `ipfilter.dat`, and whether it is none of a table.
pub(super) fn is_dat(line: &[u8]) -> (bool, bool) {
    let mut fields = parts(line, 0, line.len(), b',').map(|(from, to)| &line[from..to]);
    let (first, second) = (fields.next().unwrap_or(b""), fields.next().unwrap_or(b""));
    let is_one = range(first).is_some() && level(second).is_some();
    let is_padded =
        first.split(|byte| *byte == b'-').any(|end| text::parse(end.trim_ascii()).is_none());
    let is_spaced = first.ends_with(b" ") && second.starts_with(b" ");
    (is_one, is_one && (is_padded || is_spaced))
}
