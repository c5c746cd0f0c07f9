//! The output of `ipset save`: `create` lines, and `add` lines with an entry and options.
//!
//! For sets of networks and addresses: `hash:net`, `hash:ip`, `bitmap:ip`. Their options that
//! change what an entry means are honoured: `netmask` and `bitmask` widen it, `timeout` is its
//! default, `family` refuses the other one. Not for sets with ports, marks or interfaces, whose
//! entries are no blocks: that is a mistake at the type, or at the entry. `nomatch` is one too,
//! since it would take addresses away. A comment is the value.

use std::borrow::Cow;
use std::net::IpAddr;

use super::named::Sets;
use super::{Block, SetEntry, SetTextError, block_at};
use crate::text;

const COMMANDS: &str = "create NAME TYPE ..., add NAME ENTRY ..., a comment or an empty line";
const OPTIONS: &str =
    "timeout SECONDS, comment \"TEXT\", packets N, bytes N, skbmark N, skbprio N, skbqueue N";
const TYPES: &str = "hash:net, hash:ip, bitmap:ip";
const CREATE_OPTIONS: &str = "family inet|inet6, netmask BITS, bitmask MASK, timeout SECONDS, range, \
                              hashsize, maxelem, bucketsize, initval, counters, comment, skbinfo, \
                              forceadd";

/// The options of a `create` line that affect entries.
#[derive(Clone, Copy, Default)]
struct SetOptions {
    /// The family that all entries have; unknown without a `create` line.
    is_ipv4: Option<bool>,
    /// How many bits of an entry count.
    mask_bits: Option<u8>,
    /// How long entries last that say nothing.
    timeout_seconds: Option<u64>,
}

pub(super) fn read<'a>(
    text: &'a [u8],
    sets: &mut Sets<'_>,
    each: &mut impl FnMut(SetEntry<'a>),
) -> Result<(), SetTextError> {
    let mut makings: Vec<(&[u8], SetOptions)> = Vec::new();
    let mut last: Option<(&[u8], bool, SetOptions)> = None;
    let mut start = 0;
    while start < text.len() {
        let rest = &text[start..];
        let length = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        let mut words = Words { text, at: start, end: start + length };
        match words.next() {
            None => {}
            Some((at, _)) if text[at] == b'#' => {}
            Some((_, b"COMMIT")) => {}
            Some((_, command @ (b"create" | b"add"))) => {
                let name = words.next();
                let (at, name) =
                    name.ok_or_else(|| SetTextError::at(text, words.end, 0, "add NAME ENTRY"))?;
                let (_, is_chosen, making) = match last {
                    Some(last) if last.0 == name => last,
                    _ => {
                        let is_chosen = sets.is_chosen(&String::from_utf8_lossy(name), at);
                        let making = makings.iter().find(|(known, _)| *known == name);
                        (name, is_chosen, making.map_or_else(SetOptions::default, |(_, it)| *it))
                    }
                };
                last = Some((name, is_chosen, making));
                if is_chosen && command == b"create" {
                    let making = creation(text, &mut words)?;
                    makings.push((name, making));
                    last = Some((name, true, making));
                } else if is_chosen {
                    each(entry(text, &mut words, &making)?);
                }
            }
            Some((at, word)) => return Err(SetTextError::at(text, at, word.len(), COMMANDS)),
        }
        start += length + 1;
    }
    Ok(())
}

/// The type and the options of a `create` line.
fn creation(text: &[u8], words: &mut Words<'_>) -> Result<SetOptions, SetTextError> {
    let mut making = SetOptions { is_ipv4: Some(true), ..SetOptions::default() };
    let Some((at, kind)) = words.next() else { return Ok(SetOptions::default()) };
    if !matches!(kind, b"hash:net" | b"hash:ip" | b"bitmap:ip") {
        return Err(SetTextError::at(text, at, kind.len(), TYPES));
    }
    let mut mask = None;
    while let Some((at, word)) = words.next() {
        match word {
            b"family" => match words.next() {
                Some((_, b"inet")) => making.is_ipv4 = Some(true),
                Some((_, b"inet6")) => making.is_ipv4 = Some(false),
                other => return Err(wrong(text, words, other, "inet, inet6")),
            },
            b"netmask" | b"bitmask" => {
                mask = Some(words.next().ok_or_else(|| missing(text, words, "a mask"))?);
            }
            b"timeout" => {
                let seconds = number(text, words)?;
                making.timeout_seconds = (seconds != 0).then_some(seconds);
            }
            b"range" | b"hashsize" | b"maxelem" | b"bucketsize" | b"initval" | b"markmask" => {
                words.next().ok_or_else(|| missing(text, words, "a number"))?;
            }
            b"counters" | b"comment" | b"skbinfo" | b"forceadd" => {}
            _ => return Err(SetTextError::at(text, at, word.len(), CREATE_OPTIONS)),
        }
    }
    if let Some((at, word)) = mask {
        making.mask_bits = Some(mask_bits(text, at, word, making.is_ipv4 != Some(false))?);
    }
    Ok(making)
}

/// The length of `24`, `255.255.255.0` or `ffff:ffff::`.
fn mask_bits(text: &[u8], at: usize, word: &[u8], is_ipv4: bool) -> Result<u8, SetTextError> {
    let longest: u32 = if is_ipv4 { 32 } else { 128 };
    let digits = std::str::from_utf8(word).ok().and_then(|word| word.parse::<u32>().ok());
    let bits = match (digits, text::parse(word)) {
        (Some(bits), _) if (1..=longest).contains(&bits) => Some(bits),
        (None, Some(IpAddr::V4(mask))) if is_ipv4 => {
            let ones = mask.to_bits().leading_ones();
            (mask.to_bits().checked_shl(ones).unwrap_or(0) == 0).then_some(ones)
        }
        (None, Some(IpAddr::V6(mask))) if !is_ipv4 => {
            let ones = mask.to_bits().leading_ones();
            (mask.to_bits().checked_shl(ones).unwrap_or(0) == 0).then_some(ones)
        }
        _ => None,
    };
    let allowed = "a mask whose ones all come first: entries of another one are no blocks";
    let mistake = || SetTextError::at(text, at, word.len(), allowed);
    bits.filter(|bits| *bits > 0).map(|bits| bits as u8).ok_or_else(mistake)
}

/// The block with all addresses that differ from its own behind the mask only.
fn widened(block: Block, bits: u8) -> Block {
    let ends = match (block.first(), block.last()) {
        (IpAddr::V4(first), IpAddr::V4(last)) => {
            let host = u32::MAX.checked_shr(u32::from(bits)).unwrap_or(0);
            let (first, last) = (first.to_bits() & !host, last.to_bits() | host);
            (IpAddr::V4(first.into()), IpAddr::V4(last.into()))
        }
        (IpAddr::V6(first), IpAddr::V6(last)) => {
            let host = u128::MAX.checked_shr(u32::from(bits)).unwrap_or(0);
            let (first, last) = (first.to_bits() & !host, last.to_bits() | host);
            (IpAddr::V6(first.into()), IpAddr::V6(last.into()))
        }
        // The ends of a block are of one family.
        other => other,
    };
    Block::from_ends(ends.0, ends.1).unwrap_or(block)
}

fn missing(text: &[u8], words: &Words<'_>, what: &'static str) -> SetTextError {
    SetTextError::at(text, words.end, 0, what)
}

fn wrong(
    text: &[u8],
    words: &Words<'_>,
    found: Option<(usize, &[u8])>,
    allowed: &'static str,
) -> SetTextError {
    let (at, word) = found.unwrap_or((words.end, b""));
    SetTextError::at(text, at, word.len(), allowed)
}

/// Parses the text after `add NAME`.
fn entry<'a>(
    text: &'a [u8],
    words: &mut Words<'a>,
    making: &SetOptions,
) -> Result<SetEntry<'a>, SetTextError> {
    let (at, word) = words.next().ok_or_else(|| missing(text, words, "add NAME ENTRY"))?;
    let mut block = block_at(text, at, at + word.len())?;
    if let Some(is_ipv4) = making.is_ipv4.filter(|is_ipv4| *is_ipv4 != block.is_ipv4()) {
        let allowed = if is_ipv4 { "IPv4: family inet" } else { "IPv6: family inet6" };
        return Err(SetTextError::at(text, at, word.len(), allowed));
    }
    if let Some(bits) = making.mask_bits {
        block = widened(block, bits);
    }
    let mut entry = SetEntry::from(block);
    entry.ttl_seconds = making.timeout_seconds;
    while let Some((at, word)) = words.next() {
        match word {
            b"timeout" => {
                let seconds = number(text, words)?;
                // No end, as ipset has it.
                entry.ttl_seconds = (seconds != 0).then_some(seconds);
            }
            b"comment" => {
                let (_, value) = words.quoted().ok_or_else(|| missing(text, words, "\"TEXT\""))?;
                entry.value = Some(Cow::Borrowed(value));
            }
            b"packets" | b"bytes" | b"skbmark" | b"skbprio" | b"skbqueue" => {
                words.next().ok_or_else(|| missing(text, words, "a number"))?;
            }
            _ => return Err(SetTextError::at(text, at, word.len(), OPTIONS)),
        }
    }
    Ok(entry)
}

fn number(text: &[u8], words: &mut Words<'_>) -> Result<u64, SetTextError> {
    let (at, word) = words.next().unwrap_or((words.end, b""));
    let number = std::str::from_utf8(word).ok().and_then(|word| word.parse().ok());
    number.ok_or_else(|| SetTextError::at(text, at, word.len(), "a number of seconds"))
}

/// The words of one line, with their places.
struct Words<'a> {
    text: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> Words<'a> {
    fn skip_blanks(&mut self) {
        while self.at < self.end && self.text[self.at].is_ascii_whitespace() {
            self.at += 1;
        }
    }

    fn next(&mut self) -> Option<(usize, &'a [u8])> {
        self.skip_blanks();
        let start = self.at;
        while self.at < self.end && !self.text[self.at].is_ascii_whitespace() {
            self.at += 1;
        }
        (start < self.at).then(|| (start, &self.text[start..self.at]))
    }

    /// A text in quotes, which ipset does not allow inside.
    fn quoted(&mut self) -> Option<(usize, &'a [u8])> {
        self.skip_blanks();
        let inside = self.text[self.at..self.end].strip_prefix(b"\"")?;
        let length = inside.iter().position(|byte| *byte == b'"')?;
        let start = self.at + 1;
        self.at = start + length + 1;
        Some((start, &inside[..length]))
    }
}
