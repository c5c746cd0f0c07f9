//! Files of hosts: an address and its names a line, as in `/etc/hosts`.
//!
//! ```text
//! 192.0.2.1  gate.example gate   # comment
//! ```
//!
//! The first name is the value. A zone of a link (`fe80::1%lo0`) is taken off.

use std::borrow::Cow;
use std::net::IpAddr;

use super::lines::{lines, trimmed};
use super::{Block, SetEntry, SetTextError};
use crate::text;

const LINE: &str = "an IPv4 or IPv6 address and a name";

pub(super) fn read<'a>(
    text: &'a [u8],
    each: &mut impl FnMut(SetEntry<'a>),
) -> Result<(), SetTextError> {
    for (from, to) in lines(text) {
        let length = text[from..to].iter().position(|byte| *byte == b'#');
        let end = length.map_or(to, |length| from + length);
        let Some((from, to)) = trimmed(text, from, end) else { continue };
        let mistake = || SetTextError::at(text, from, to - from, LINE);
        let (block, name) = line(&text[from..to]).ok_or_else(mistake)?;
        each(SetEntry { value: Some(Cow::Borrowed(name)), ..SetEntry::from(block) });
    }
    Ok(())
}

/// The address and the first name of a line without a comment.
fn line(line: &[u8]) -> Option<(Block, &[u8])> {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let word = words.next()?;
    let zone = word.iter().position(|byte| *byte == b'%');
    let address = text::parse(&word[..zone.unwrap_or(word.len())])?;
    let name = words.next()?;
    let is_name =
        |byte: &u8| byte.is_ascii_alphanumeric() || !byte.is_ascii() || b"-_.*".contains(byte);
    let is_host = name.iter().all(is_name) && text::parse(name).is_none();
    is_host.then_some((Block::from(address), name))
}

/// Whether a line is one of such a file, and of no table: it gives a host's name to this machine,
/// or to no address at all, as lists of blocked names do.
pub(super) fn is_own_line(text: &[u8]) -> bool {
    let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let (address, name) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let is_own = |address: IpAddr| address.is_loopback() || address.is_unspecified();
    let is_host =
        name.contains(&b'.') || name.starts_with(b"localhost") || name.starts_with(b"ip6-");
    is_host && is_line(text) && text::parse(address).is_some_and(is_own)
}

/// Whether a line is one of such a file.
pub(super) fn is_line(text: &[u8]) -> bool {
    let end = text.iter().position(|byte| *byte == b'#').unwrap_or(text.len());
    line(text[..end].trim_ascii()).is_some()
}
