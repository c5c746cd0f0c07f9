//! MaxMind's CSV files of blocks: a header with the column `network`, and one network a line.
//!
//! Not for CSV with line ends inside quotes, which these files do not have. The value is the first
//! column after the network that is not empty: `geoname_id`, or the number of the autonomous
//! system.

use std::borrow::Cow;

use super::{SetEntry, SetTextError, block_at};

const HEADER: &str = "a header with the column network";

pub(super) fn read<'a>(
    text: &'a [u8],
    each: &mut impl FnMut(SetEntry<'a>),
) -> Result<(), SetTextError> {
    let mut column = None;
    let mut start = 0;
    while start < text.len() {
        let rest = &text[start..];
        let length = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        let line = rest[..length].strip_suffix(b"\r").unwrap_or(&rest[..length]);
        if !line.is_empty() {
            match column {
                None => {
                    let mut names = Fields { line, at: Some(0) };
                    let place =
                        names.position(|(from, to)| unquoted(&line[from..to]) == b"network");
                    let mistake = || SetTextError::at(text, start, line.len(), HEADER);
                    column = Some(place.ok_or_else(mistake)?);
                }
                Some(column) => each(entry(text, start, line, column)?),
            }
        }
        start += length + 1;
    }
    if column.is_none() {
        return Err(SetTextError::at(text, text.len(), 0, HEADER));
    }
    Ok(())
}

/// Whether a line is a header with the column of networks.
pub(super) fn has_network(line: &[u8]) -> bool {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let mut fields = Fields { line, at: Some(0) };
    fields.any(|(from, to)| unquoted(&line[from..to]) == b"network")
}

fn entry<'a>(
    text: &'a [u8],
    start: usize,
    line: &'a [u8],
    column: usize,
) -> Result<SetEntry<'a>, SetTextError> {
    let mut fields = Fields { line, at: Some(0) }.skip(column);
    let Some((mut from, mut to)) = fields.next() else {
        return Err(SetTextError::at(text, start, line.len(), "as many fields as the header has"));
    };
    if to - from > 1 && line[from] == b'"' {
        (from, to) = (from + 1, to - 1);
    }
    let mut entry = SetEntry::from(block_at(text, start + from, start + to)?);
    let values = fields.map(|(from, to)| unquoted(&line[from..to]));
    entry.value = values.into_iter().find(|value| !value.is_empty()).map(Cow::Borrowed);
    Ok(entry)
}

/// Without the quotes around it; doubled ones inside stay.
fn unquoted(field: &[u8]) -> &[u8] {
    field.strip_prefix(b"\"").and_then(|field| field.strip_suffix(b"\"")).unwrap_or(field)
}

/// The places of a line's fields, quotes included.
struct Fields<'a> {
    line: &'a [u8],
    at: Option<usize>,
}

impl Iterator for Fields<'_> {
    type Item = (usize, usize);

    fn next(&mut self) -> Option<(usize, usize)> {
        let from = self.at?;
        let mut is_quoted = false;
        let length = self.line[from..].iter().position(|byte| {
            is_quoted ^= *byte == b'"';
            *byte == b',' && !is_quoted
        });
        self.at = length.map(|length| from + length + 1);
        Some((from, length.map_or(self.line.len(), |length| from + length)))
    }
}
