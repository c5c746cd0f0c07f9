//! Rows of cells from delimited text: CSV (RFC 4180), TSV, semicolons, bars.
//!
//! Not for what the cells mean. Lines that begin with `#` are comments (with `;` too, unless that
//! is the delimiter); blank lines are passed over; a line ends with LF, CR or both. A cell in
//! quotes may hold delimiters, line ends and doubled quotes. Blanks around a cell without quotes
//! are dropped.
//!
//! The buffer holds the row at hand and what was read behind it. A row that is larger than
//! [`MAX_ROW_BYTES`] and a quote that is never closed are faults; the reader can go on behind the
//! line on which such a row began. Cost: linear in the bytes.
#![deny(clippy::indexing_slicing)]

use super::RowsError;
use std::io::{self, Read};
use std::ops::Range;

/// How large a row may be: twice the text of the largest record.
pub(super) const MAX_ROW_BYTES: usize = 64 << 20;

/// What is read at once.
const READ_BYTES: usize = 128 << 10;

/// The delimiters that are recognized, by the first of them in the first row.
const DELIMITERS: &[u8] = b"\t;,|";

/// A row: its cells without quotes, and the line on which it begins.
#[derive(Debug, Default)]
pub(super) struct Row {
    text: Vec<u8>,
    ends: Vec<usize>,
    pub(super) line: u64,
}

impl Row {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// A cell; an empty one where the row has none.
    pub(super) fn cell(&self, column: usize) -> &[u8] {
        let start = column.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied());
        let end = self.ends.get(column).copied();
        start.zip(end).and_then(|(start, end)| self.text.get(start..end)).unwrap_or_default()
    }

    pub(super) fn cells(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|column| self.cell(column))
    }

    fn clear(&mut self, line: u64) {
        self.text.clear();
        self.ends.clear();
        self.line = line;
    }

    fn end_cell(&mut self) {
        self.ends.push(self.text.len());
    }

    /// A row of these cells.
    pub(super) fn of_cells<'a>(cells: impl Iterator<Item = &'a [u8]>) -> Row {
        let mut row = Row::default();
        row.clear(1);
        for cell in cells {
            row.text.extend_from_slice(cell);
            row.end_cell();
        }
        row
    }

    /// The cells of a line without quotes, such as a header in a comment.
    pub(super) fn of_line(line: &[u8], number: u64) -> Row {
        let mut row = Row::default();
        row.clear(number);
        let delimiter = delimiter_of(line);
        for cell in line.split(|byte| *byte == delimiter) {
            row.text.extend_from_slice(trimmed(cell));
            row.end_cell();
        }
        row
    }
}

/// Reads rows one after the other.
pub(super) struct TableReader<R> {
    input: R,
    buffer: Vec<u8>,
    /// The bytes of the buffer that were not taken yet.
    rest: Range<usize>,
    is_ended: bool,
    delimiter: Option<u8>,
    /// The line on which the rest begins.
    line: u64,
    /// The comment in front of the row at hand, without its mark.
    comment: Vec<u8>,
}

/// The extent of a row in a text.
struct Extent {
    bytes: usize,
    /// How many line ends it has.
    lines: u64,
}

/// A text that is no whole row.
enum Partial {
    /// The rest of a line without quotes is missing.
    Line,
    /// A quote in this cell, counted from 1, is not closed.
    Quote(usize),
}

impl<R: Read> TableReader<R> {
    pub(super) fn new(input: R, delimiter: Option<u8>) -> TableReader<R> {
        TableReader {
            input,
            buffer: Vec::new(),
            rest: 0..0,
            is_ended: false,
            delimiter,
            line: 1,
            comment: Vec::new(),
        }
    }

    /// The comment lines in front of the last row, without their marks.
    pub(super) fn comment(&self) -> &[u8] {
        &self.comment
    }

    /// All of the input, also what was read of it.
    pub(super) fn into_input(mut self) -> impl Read {
        self.buffer.truncate(self.rest.end);
        self.buffer.drain(..self.rest.start);
        io::Cursor::new(self.buffer).chain(self.input)
    }

    /// The first byte of the text that is no blank, behind the mark that spreadsheets put in
    /// front.
    pub(super) fn first_byte(&mut self) -> Result<Option<u8>, RowsError> {
        loop {
            let rest = self.rest();
            let text = rest.strip_prefix(b"\xef\xbb\xbf").unwrap_or(rest);
            if text.starts_with(b"\xff\xfe") || text.starts_with(b"\xfe\xff") {
                let allowed = "UTF-8, which iconv -f UTF-16 -t UTF-8 makes of it";
                return Err(RowsError::new(1, "", "text in UTF-16", allowed));
            }
            let byte = text.iter().copied().find(|byte| !byte.is_ascii_whitespace());
            if rest.len() >= 3 && byte.is_some() || self.is_ended {
                return Ok(byte);
            }
            self.fill()?;
        }
    }

    fn rest(&self) -> &[u8] {
        self.buffer.get(self.rest.clone()).unwrap_or_default()
    }

    fn fault(&self, found: impl Into<String>, allowed: impl Into<String>) -> RowsError {
        RowsError::new(self.line, "", found, allowed)
    }

    /// Reads more behind the rest, or notes the end.
    fn fill(&mut self) -> Result<(), RowsError> {
        if self.rest.len() >= MAX_ROW_BYTES {
            let allowed = format!("rows of less than {MAX_ROW_BYTES} bytes");
            return Err(self.fault("a longer row", allowed));
        }
        if self.rest.start > 0 {
            self.buffer.copy_within(self.rest.clone(), 0);
            self.rest = 0..self.rest.len();
        }
        let wanted = (self.rest.end * 2).clamp(READ_BYTES, MAX_ROW_BYTES);
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        let room = self.buffer.get_mut(self.rest.end..).unwrap_or_default();
        loop {
            match self.input.read(room) {
                Ok(0) => self.is_ended = true,
                Ok(count) => self.rest.end += count.min(room.len()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.fault(error.to_string(), "input that can be read")),
            }
            return Ok(());
        }
    }

    fn take(&mut self, bytes: usize, lines: u64) {
        self.rest.start = (self.rest.start + bytes).min(self.rest.end);
        self.line += lines;
    }

    /// The line at the beginning of the rest, with its end.
    fn peek_line(&mut self) -> Result<usize, RowsError> {
        let mut looked_at = 0;
        loop {
            let rest = self.rest();
            let end = rest.iter().skip(looked_at).position(|byte| matches!(byte, b'\n' | b'\r'));
            match end.map(|at| at + looked_at) {
                Some(at) if rest.get(at) == Some(&b'\n') => return Ok(at + 1),
                Some(at) => match rest.get(at + 1) {
                    Some(b'\n') => return Ok(at + 2),
                    Some(_) => return Ok(at + 1),
                    None if self.is_ended => return Ok(at + 1),
                    None => looked_at = at,
                },
                None if self.is_ended => return Ok(rest.len()),
                None => looked_at = rest.len(),
            }
            self.fill()?;
        }
    }

    /// Passes over the line at which the rest begins: the one with which a faulty row began.
    pub(super) fn skip_line(&mut self) -> Result<(), RowsError> {
        loop {
            // A line beyond the limit goes part by part.
            match self.peek_line() {
                Ok(bytes) => {
                    self.take(bytes, 1);
                    return Ok(());
                }
                Err(_) if self.rest.len() >= MAX_ROW_BYTES => self.take(self.rest.len(), 0),
                Err(error) => return Err(error),
            }
        }
    }

    /// Passes over comments and blank lines; whether a row follows.
    fn reach_row(&mut self) -> Result<bool, RowsError> {
        if self.line == 1 && self.comment.is_empty() {
            self.first_byte()?;
            if self.rest().starts_with(b"\xef\xbb\xbf") {
                self.take(3, 0);
            }
        }
        self.comment.clear();
        loop {
            if self.rest.is_empty() && !self.is_ended {
                self.fill()?;
                continue;
            }
            let Some(&first) = self.rest().first() else { return Ok(false) };
            let is_comment = first == b'#' || first == b';' && self.delimiter != Some(b';');
            // A line that begins with a blank may be a blank line; tabs may be empty cells.
            if !is_comment && !matches!(first, b'\n' | b'\r' | b' ') {
                return Ok(true);
            }
            let bytes = self.peek_line()?;
            let line = self.rest().get(..bytes).unwrap_or_default();
            if !is_comment && !trimmed(line).is_empty() {
                return Ok(true);
            }
            if is_comment && self.comment.len() < MAX_ROW_BYTES {
                let text = trimmed(line.get(1..).unwrap_or_default()).to_vec();
                self.comment = text;
            }
            self.take(bytes, 1);
        }
    }

    /// Reads the next row; `false` at the end.
    ///
    /// After a fault the rest begins with the faulty row: [`skip_line`](TableReader::skip_line)
    /// goes on.
    pub(super) fn read(&mut self, row: &mut Row) -> Result<bool, RowsError> {
        if !self.reach_row()? {
            return Ok(false);
        }
        if self.delimiter.is_none() {
            let bytes = self.peek_line()?;
            let line = self.rest().get(..bytes).unwrap_or_default();
            self.delimiter = Some(delimiter_of(line));
        }
        let delimiter = self.delimiter.unwrap_or(b',');
        loop {
            row.clear(self.line);
            match split(self.rest(), delimiter, self.is_ended, row) {
                Ok(extent) => {
                    self.take(extent.bytes, extent.lines);
                    return Ok(true);
                }
                Err(Partial::Quote(cell)) if self.is_ended => {
                    let found = format!("a quote in cell {cell} that is never closed");
                    let allowed = "a closing \"; one inside a quoted cell is doubled";
                    return Err(self.fault(found, allowed));
                }
                Err(_) => self.fill()?,
            }
        }
    }
}

/// The first delimiter of a line outside of quotes; a comma if there is none.
fn delimiter_of(line: &[u8]) -> u8 {
    let mut is_quoted = false;
    let found = line.iter().copied().find(|byte| {
        is_quoted ^= *byte == b'"';
        !is_quoted && DELIMITERS.contains(byte)
    });
    found.unwrap_or(b',')
}

fn trimmed(text: &[u8]) -> &[u8] {
    text.trim_ascii()
}

/// Splits the row at the beginning of a text. The last row of an ended text needs no line end.
fn split(text: &[u8], delimiter: u8, is_ended: bool, row: &mut Row) -> Result<Extent, Partial> {
    let mut at = 0;
    let mut lines = 0;
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let blanks = rest.iter().take_while(|byte| **byte == b' ').count();
        if rest.get(blanks) == Some(&b'"') {
            let (bytes, ends) = quoted(rest.get(blanks + 1..).unwrap_or_default(), row)
                .ok_or(Partial::Quote(row.len() + 1))?;
            at += blanks + 1 + bytes;
            lines += ends;
            let rest = text.get(at..).unwrap_or_default();
            // Text behind the closing quote belongs to the cell.
            let bytes = plain(rest, delimiter).unwrap_or(rest.len());
            row.text.extend_from_slice(trimmed(rest.get(..bytes).unwrap_or_default()));
            at += bytes;
        } else {
            let bytes = plain(rest, delimiter).unwrap_or(rest.len());
            row.text.extend_from_slice(trimmed(rest.get(..bytes).unwrap_or_default()));
            at += bytes;
        }
        let behind = (text.get(at), text.get(at + 1));
        let line_end_bytes = match behind {
            (Some(b'\n'), _) => 1,
            (Some(b'\r'), Some(b'\n')) => 2,
            (Some(b'\r'), Some(_)) => 1,
            (Some(b'\r'), None) if is_ended => 1,
            (None, _) if is_ended => 0,
            (None, _) | (Some(b'\r'), None) => return Err(Partial::Line),
            (Some(_), _) => {
                row.end_cell();
                at += 1;
                continue;
            }
        };
        row.end_cell();
        let lines = lines + u64::from(line_end_bytes > 0);
        return Ok(Extent { bytes: at + line_end_bytes, lines });
    }
}

/// Where a cell without quotes ends.
fn plain(text: &[u8], delimiter: u8) -> Option<usize> {
    text.iter().position(|&byte| byte == delimiter || byte == b'\n' || byte == b'\r')
}

/// Reads a cell behind its opening quote; how many bytes it takes with the closing one, and how
/// many line ends it holds.
fn quoted(text: &[u8], row: &mut Row) -> Option<(usize, u64)> {
    let mut at = 0;
    let mut lines = 0;
    loop {
        let rest = text.get(at..)?;
        let length = rest.iter().position(|byte| *byte == b'"')?;
        let part = rest.get(..length)?;
        lines += part.iter().filter(|byte| **byte == b'\n').count() as u64;
        row.text.extend_from_slice(part);
        at += length + 1;
        if text.get(at) != Some(&b'"') {
            return Some((at, lines));
        }
        row.text.push(b'"');
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one byte at a time.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Some((first, rest)) = self.0.split_first() else { return Ok(0) };
            buffer[0] = *first;
            self.0 = rest;
            Ok(1)
        }
    }

    fn rows(text: &[u8]) -> Vec<(u64, Vec<String>)> {
        let read = |input: &mut dyn Read| {
            let mut reader = TableReader::new(input, None);
            let mut row = Row::default();
            let mut rows = Vec::new();
            while reader.read(&mut row).unwrap() {
                let cells = row.cells().map(|cell| String::from_utf8_lossy(cell).into_owned());
                rows.push((row.line, cells.collect()));
            }
            rows
        };
        let whole = read(&mut &text[..]);
        assert_eq!(read(&mut Slow(text)), whole);
        whole
    }

    #[test]
    fn quotes_comments_and_line_ends_of_all_kinds_are_read_with_their_lines() {
        let found = rows(
            b"\xef\xbb\xbf# one\n\na, b ,\"c,\"\"\nd\"\r\n;no\n \r1,2,3\r4,\"\",\n\n5,6,\"7\" x",
        );
        let expected: Vec<(u64, Vec<&str>)> = vec![
            (3, vec!["a", "b", "c,\"\nd"]),
            (7, vec!["1", "2", "3"]),
            (8, vec!["4", "", ""]),
            (10, vec!["5", "6", "7x"]),
        ];
        let found: Vec<(u64, Vec<&str>)> = found
            .iter()
            .map(|(line, cells)| (*line, cells.iter().map(String::as_str).collect()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn the_first_delimiter_of_the_first_row_is_the_tables() {
        for (text, cells) in [
            ("a\tb,c;d\n", vec!["a", "b,c;d"]),
            ("a;b,c\n", vec!["a", "b,c"]),
            ("\"a;b\"|c\n", vec!["a;b", "c"]),
            ("a\n", vec!["a"]),
        ] {
            assert_eq!(rows(text.as_bytes())[0].1, cells, "{text}");
        }
    }

    #[test]
    fn behind_a_quote_that_is_never_closed_the_next_line_can_be_read() {
        let mut reader = TableReader::new(&b"a,b\n\"c,d\ne,f\n"[..], None);
        let mut row = Row::default();
        assert!(reader.read(&mut row).unwrap());
        let error = reader.read(&mut row).unwrap_err();
        assert_eq!(error.line(), 2);
        reader.skip_line().unwrap();
        assert!(reader.read(&mut row).unwrap());
        assert_eq!((row.line, row.cell(0), row.cell(1)), (3, &b"e"[..], &b"f"[..]));
        assert!(!reader.read(&mut row).unwrap());
    }

    #[test]
    fn a_row_of_a_hundred_megabytes_is_a_fault_and_the_next_one_is_read() {
        let mut text = b"a,b\n".to_vec();
        text.resize(100 << 20, b'x');
        text.extend_from_slice(b"\ne,f\n");
        let mut reader = TableReader::new(&text[..], None);
        let mut row = Row::default();
        assert!(reader.read(&mut row).unwrap());
        let error = reader.read(&mut row).unwrap_err();
        assert_eq!(error.line(), 2);
        reader.skip_line().unwrap();
        assert!(reader.read(&mut row).unwrap());
        assert_eq!((row.line, row.cell(0)), (3, &b"e"[..]));
    }
}
