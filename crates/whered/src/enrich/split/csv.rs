//! Comma-separated values (RFC 4180, read as leniently as Python's `csv` does), and cells between
//! tabs.
//!
//! Not for a meaning of cells. A quote opens a quoted part only as the first byte of a cell; inside
//! it delimiters and line ends are text, and two quotes are one. What stands behind the closing
//! quote up to the delimiter is text as well. A quoted part of more than [`QUOTED_BYTES_MAX`], or
//! one that the file ends in, is a fault of that line alone: the next line is read as a record, so
//! that one stray quote never swallows a file.

use std::ops::Range;

use memchr::{memchr, memchr_iter, memchr2};

use super::{Fault, RecordEnd, end_at_newline, line_end};

/// The longest quoted part.
pub(crate) const QUOTED_BYTES_MAX: usize = 1 << 20;

/// What follows an opening quote.
enum QuoteEnd {
    /// It closes here.
    Closed(usize),
    /// It never does.
    Unended,
    /// More bytes would tell.
    Unknown,
}

/// Where the quote that is opened at `open` is closed.
fn closing_quote(bytes: &[u8], open: usize, is_last: bool) -> QuoteEnd {
    let limit = bytes.len().min(open + 1 + QUOTED_BYTES_MAX);
    let mut from = open + 1;
    while let Some(length) = bytes.get(from..limit).and_then(|rest| memchr(b'"', rest)) {
        let quote = from + length;
        match bytes.get(quote + 1) {
            Some(b'"') => from = quote + 2,
            None if !is_last => return QuoteEnd::Unknown,
            _ => return QuoteEnd::Closed(quote),
        }
    }
    if limit < bytes.len() || is_last { QuoteEnd::Unended } else { QuoteEnd::Unknown }
}

/// [`super::record_end`] for quoted cells.
pub(crate) fn record_end(
    bytes: &[u8],
    start: usize,
    delimiter: u8,
    is_last: bool,
) -> Option<RecordEnd> {
    let mut from = start;
    loop {
        let rest = bytes.get(from..)?;
        let Some(length) = memchr2(b'\n', b'"', rest) else {
            let end = RecordEnd { content: bytes.len(), next: bytes.len() };
            return is_last.then_some(end);
        };
        let place = from + length;
        if rest.get(length) == Some(&b'\n') {
            return Some(end_at_newline(bytes, start, place));
        }
        let is_first = place == start || bytes.get(place - 1) == Some(&delimiter);
        if !is_first {
            from = place + 1;
            continue;
        }
        match closing_quote(bytes, place, is_last) {
            // What follows up to the delimiter is text, quotes among it.
            QuoteEnd::Closed(close) => from = skip_text(bytes, close + 1, delimiter),
            QuoteEnd::Unended => return line_end(bytes, start, is_last),
            QuoteEnd::Unknown => return None,
        }
    }
}

/// The first delimiter or line end from `from` on.
fn skip_text(bytes: &[u8], from: usize, delimiter: u8) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    memchr2(delimiter, b'\n', rest).map_or(bytes.len(), |length| from + length)
}

/// The cells of a record, with their quotes.
pub(crate) fn split(
    bytes: &[u8],
    content: Range<usize>,
    delimiter: u8,
    parts: &mut Vec<Range<usize>>,
) -> Result<(), Fault> {
    let record = bytes.get(content.clone()).unwrap_or_default();
    if memchr(b'"', record).is_none() {
        split_unquoted(bytes, content, delimiter, parts);
        return Ok(());
    }
    let mut start = 0;
    loop {
        let mut from = start;
        if record.get(start) == Some(&b'"') {
            match closing_quote(record, start, true) {
                QuoteEnd::Closed(close) => from = close + 1,
                _ => return Err(Fault::UnendedQuote),
            }
        }
        let rest = record.get(from..).unwrap_or_default();
        let Some(length) = memchr(delimiter, rest) else { break };
        parts.push(content.start + start..content.start + from + length);
        start = from + length + 1;
    }
    parts.push(content.start + start..content.end);
    Ok(())
}

/// The cells of a record in which quotes mean nothing.
pub(crate) fn split_unquoted(
    bytes: &[u8],
    content: Range<usize>,
    delimiter: u8,
    parts: &mut Vec<Range<usize>>,
) {
    let record = bytes.get(content.clone()).unwrap_or_default();
    let mut start = content.start;
    for place in memchr_iter(delimiter, record) {
        parts.push(start..content.start + place);
        start = content.start + place + 1;
    }
    parts.push(start..content.end);
}

/// The text of a cell: without its quotes, and with every two of them as one. `scratch` holds the
/// text if it is not in the cell as it is.
pub(crate) fn cell_text<'a>(cell: &'a [u8], scratch: &'a mut Vec<u8>) -> &'a [u8] {
    let Some((b'"', quoted)) = cell.split_first() else { return cell };
    if let Some((b'"', plain)) = quoted.split_last()
        && memchr(b'"', plain).is_none()
    {
        return plain;
    }
    scratch.clear();
    let mut rest = quoted;
    while let Some(quote) = memchr(b'"', rest) {
        scratch.extend_from_slice(rest.get(..quote).unwrap_or_default());
        rest = rest.get(quote + 1..).unwrap_or_default();
        let Some(doubled) = rest.strip_prefix(b"\"") else { break };
        scratch.push(b'"');
        rest = doubled;
    }
    scratch.extend_from_slice(rest);
    scratch
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(record: &str) -> Option<Vec<String>> {
        let mut parts = Vec::new();
        split(record.as_bytes(), 0..record.len(), b',', &mut parts).ok()?;
        let text = |part: Range<usize>| {
            let mut scratch = Vec::new();
            String::from_utf8(cell_text(record[part].as_bytes(), &mut scratch).to_vec()).unwrap()
        };
        Some(parts.into_iter().map(text).collect())
    }

    #[test]
    fn cells_are_those_of_rfc_4180_and_of_pythons_csv_where_that_is_silent() {
        for (record, expected) in [
            ("a,b", vec!["a", "b"]),
            (",", vec!["", ""]),
            (r#""a,b",c"#, vec!["a,b", "c"]),
            ("\"a\nb\",c", vec!["a\nb", "c"]),
            (r##""say ""hi""","""##, vec![r#"say "hi""#, ""]),
            (r#"5" disk,x"#, vec![r#"5" disk"#, "x"]),
            (r#""ab"c,d"#, vec!["abc", "d"]),
            (r#""ab"c"d"",e"#, vec![r#"abc"d"""#, "e"]),
            (r#""","""#, vec!["", ""]),
        ] {
            assert_eq!(cells(record), Some(expected.iter().map(ToString::to_string).collect()));
        }
    }

    #[test]
    fn a_record_ends_at_a_line_end_outside_of_quotes() {
        let ends = |text: &str| {
            let (mut start, mut ends) = (0, Vec::new());
            while start < text.len() {
                let end = record_end(text.as_bytes(), start, b',', true).unwrap();
                ends.push(text[start..end.content].to_owned());
                start = end.next;
            }
            ends
        };
        assert_eq!(cells("a,\"b"), None);
        assert_eq!(ends("a,\"b\nc\"\r\nd"), ["a,\"b\nc\"", "d"]);
        assert_eq!(ends("5\" x\nb\n"), ["5\" x", "b"]);
        assert_eq!(ends("\"a\"\"\n\"\nb\n"), ["\"a\"\"\n\"", "b"]);
        assert_eq!(ends("a,\"b\nc\nd"), ["a,\"b", "c", "d"]);
        assert_eq!(ends("\"a\"b\"\nc"), ["\"a\"b\"", "c"]);
        assert_eq!(ends("\n\r\n"), ["", ""]);
    }

    #[test]
    fn what_is_not_there_yet_decides_nothing() {
        for text in ["a", "\"a", "\"a\"", "\"a\n", "a,\"b\nc"] {
            assert_eq!(record_end(text.as_bytes(), 0, b',', false), None, "{text}");
        }
        let long = [b"\"a\n".as_slice(), &vec![b'x'; QUOTED_BYTES_MAX]].concat();
        let end = record_end(&long, 0, b',', false);
        assert_eq!(end, Some(RecordEnd { content: 2, next: 3 }));
    }
}
