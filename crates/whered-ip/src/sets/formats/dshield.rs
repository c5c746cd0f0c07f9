//! The block list of DShield: the networks with the most attacks.
//!
//! ```text
//! # comments
//! Start <tab> End <tab> Netmask <tab> Attacks <tab> Name <tab> Country <tab> email
//! 192.0.2.0 <tab> 192.0.2.255 <tab> 24 <tab> 3141 <tab> EXAMPLE <tab> US <tab> abuse@example.com
//! ```
//!
//! A network is written three times, by its ends and by its length: they must agree. The name is
//! the value.

use std::borrow::Cow;

use super::lines::{content_lines, parts, trimmed};
use super::{Block, SetEntry, SetTextError};
use crate::text;

const LINE: &str = "the first address, the last address and the length of one network, with tabs \
                    between them";

pub(super) fn read<'a>(
    text: &'a [u8],
    each: &mut impl FnMut(SetEntry<'a>),
) -> Result<(), SetTextError> {
    let mut is_first = true;
    for (from, to) in content_lines(text, &[b"#"]) {
        if std::mem::take(&mut is_first) && is_header(&text[from..to]) {
            continue;
        }
        let fields: Vec<(usize, usize)> = parts(text, from, to, b'\t').collect();
        let mistake = || SetTextError::at(text, from, to - from, LINE);
        let block = block(&text[from..to]).ok_or_else(mistake)?;
        let name = fields.get(4).and_then(|(from, to)| trimmed(text, *from, *to));
        let value = name.map(|(from, to)| Cow::Borrowed(&text[from..to]));
        each(SetEntry { value, ..SetEntry::from(block) });
    }
    Ok(())
}

pub(super) fn is_header(line: &[u8]) -> bool {
    line.starts_with(b"Start\tEnd\tNetmask")
}

/// The network of a line.
pub(super) fn block(line: &[u8]) -> Option<Block> {
    let mut fields = line.split(|byte| *byte == b'\t').map(<[u8]>::trim_ascii);
    let (first, last) = (text::parse(fields.next()?)?, text::parse(fields.next()?)?);
    let length: u8 = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let network = Block::from(crate::Prefix::new(first, length).ok()?);
    (Block::from_ends(first, last).ok()? == network).then_some(network)
}
