//! Routes as `bgpdump -m` writes them.
//!
//! ```text
//! TABLE_DUMP2|1700000000|B|198.51.100.1|64496|192.0.2.0/24|64496 64511|IGP|198.51.100.1|0|0||NAG||
//! BGP4MP|1700000000|A|198.51.100.1|64496|192.0.2.0/24|64496 64511|IGP|...
//! ```
//!
//! Members are the prefixes of a table (`B`) and of announcements (`A`); the origin, the last of
//! the path, is the value. Withdrawals (`W`) are refused: what is left after them is not one list.

use std::borrow::Cow;

use super::lines::{content_lines, parts};
use super::{SetEntry, SetTextError, block_at};

const LINE: &str = "TABLE_DUMP2|time|B|peer|AS|prefix|path|origin|..., or BGP4MP|time|A|...";
/// What a line has up to its origin.
const FIELDS: usize = 8;

pub(super) fn read<'a>(
    text: &'a [u8],
    each: &mut impl FnMut(SetEntry<'a>),
) -> Result<(), SetTextError> {
    for (from, to) in content_lines(text, &[b"#"]) {
        let mut places = [(to, to); FIELDS];
        let mut count = 0;
        for (place, part) in places.iter_mut().zip(parts(text, from, to, b'|')) {
            *place = part;
            count += 1;
        }
        let word = |number: usize| &text[places[number].0..places[number].1];
        let is_known = matches!(
            (word(0), word(2)),
            (b"TABLE_DUMP" | b"TABLE_DUMP2" | b"TABLE_DUMP_V2", b"B")
                | (b"BGP4MP" | b"BGP4MP_ET", b"A")
        );
        if !is_known || count < FIELDS {
            return Err(SetTextError::at(text, from, to - from, LINE));
        }
        let block = block_at(text, places[5].0, places[5].1)?;
        let origin = word(6).split(u8::is_ascii_whitespace).rfind(|part| !part.is_empty());
        each(SetEntry { value: origin.map(Cow::Borrowed), ..SetEntry::from(block) });
    }
    Ok(())
}

/// Whether a line is one of bgpdump's.
pub(super) fn is_line(line: &[u8]) -> bool {
    line.starts_with(b"TABLE_DUMP") || line.starts_with(b"BGP4MP")
}
