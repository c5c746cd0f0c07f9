//! One block a line: FireHOL's lists and everybody's own.
//!
//! Not for lists with further columns (`csv`). Blanks around a block and around the hyphen of a
//! range do not matter; `#` and `;` begin a comment anywhere, `//` and `!` at the beginning of a
//! line and behind a blank. `!` in front of a block is refused: other programs read it as "not".
//!
//! Cost: one look at each byte, and reading the address; nothing is allocated.

use super::lines::{lines, trimmed};
use super::{SetEntry, SetTextError, block_of, list_block_at};

const NO_EXCEPTION: &str = "a comment behind the !, not a block: elsewhere it means all but this \
                            block, which a list cannot say";

pub(super) fn read<'a>(
    text: &'a [u8],
    each: &mut impl FnMut(SetEntry<'a>),
) -> Result<(), SetTextError> {
    for (from, to) in lines(text) {
        let end = from + comment(&text[from..to]).unwrap_or(to - from);
        if text.get(end) == Some(&b'!')
            && let Some((start, end)) = trimmed(text, end + 1, to)
            && block_of(text[start..end].split(u8::is_ascii_whitespace).next().unwrap_or(b""), true)
                .is_ok()
        {
            return Err(SetTextError::at(text, start, end - start, NO_EXCEPTION));
        }
        if let Some((start, end)) = trimmed(text, from, end) {
            each(list_block_at(text, start, end)?.into());
        }
    }
    Ok(())
}

/// Where the comment of a line begins.
pub(super) fn comment(line: &[u8]) -> Option<usize> {
    let is_free = |place: usize| {
        place.checked_sub(1).and_then(|before| line.get(before)).is_none_or(u8::is_ascii_whitespace)
    };
    line.iter().enumerate().position(|(place, byte)| match byte {
        b'#' | b';' => true,
        b'!' => is_free(place),
        b'/' => line.get(place + 1) == Some(&b'/') && is_free(place),
        _ => false,
    })
}
