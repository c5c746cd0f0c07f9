//! Lines of a text, and what stands in them beside comments.
//!
//! Not for: what a line means. Lines end with `\n`, `\r\n` or `\r`, mixed as they come.

/// The places of all lines, without their ends. `\r\n` gives an empty line more.
pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = (usize, usize)> {
    let mut start = 0;
    std::iter::from_fn(move || {
        if start >= text.len() {
            return None;
        }
        let rest = &text[start..];
        let length = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
        let line = (start, start + length.unwrap_or(rest.len()));
        start = line.1 + 1;
        Some(line)
    })
}

/// The place without blanks around it; `None` if nothing is left.
pub(super) fn trimmed(text: &[u8], from: usize, to: usize) -> Option<(usize, usize)> {
    let line = &text[from..to];
    let first = line.iter().position(|byte| !byte.is_ascii_whitespace())?;
    let last = line.iter().rposition(|byte| !byte.is_ascii_whitespace())?;
    Some((from + first, from + last + 1))
}

/// The lines that are neither empty nor comments, without blanks around them. A comment begins with
/// one of these marks.
pub(super) fn content_lines<'t>(
    text: &'t [u8],
    comments: &'t [&[u8]],
) -> impl Iterator<Item = (usize, usize)> + 't {
    lines(text).filter_map(move |(from, to)| {
        let (from, to) = trimmed(text, from, to)?;
        let is_comment = comments.iter().any(|mark| text[from..to].starts_with(mark));
        (!is_comment).then_some((from, to))
    })
}

/// The places of the parts between separators.
pub(super) fn parts(
    text: &[u8],
    from: usize,
    to: usize,
    separator: u8,
) -> impl Iterator<Item = (usize, usize)> {
    let mut next = Some(from);
    std::iter::from_fn(move || {
        let start = next?;
        let length = text[start..to].iter().position(|byte| *byte == separator);
        next = length.map(|length| start + length + 1);
        Some((start, length.map_or(to, |length| start + length)))
    })
}
