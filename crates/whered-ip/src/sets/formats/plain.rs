//! One block a line: FireHOL's lists and everybody's own.
//!
//! Not for lists with further columns (`csv`). Blanks around a block and around the hyphen of a
//! range do not matter; `#` and `;` begin a comment anywhere.
//!
//! Cost: one look at each byte, and reading the address; nothing is allocated.

use super::{SetEntry, SetTextError, block_at};

pub(super) fn read<'a>(
    text: &'a [u8],
    each: &mut impl FnMut(SetEntry<'a>),
) -> Result<(), SetTextError> {
    let mut start = 0;
    while start < text.len() {
        let rest = &text[start..];
        let length = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        let line = &rest[..length];
        if let Some((from, to)) = content(line) {
            each(block_at(text, start + from, start + to)?.into());
        }
        start += length + 1;
    }
    Ok(())
}

/// The content of a line without blanks and comments.
fn content(line: &[u8]) -> Option<(usize, usize)> {
    let is_mark = |byte: &u8| matches!(byte, b'#' | b';');
    let end = line.iter().position(is_mark).unwrap_or(line.len());
    let from = line[..end].iter().position(|byte| !byte.is_ascii_whitespace())?;
    let to = line[..end].iter().rposition(|byte| !byte.is_ascii_whitespace())?;
    Some((from, to + 1))
}
