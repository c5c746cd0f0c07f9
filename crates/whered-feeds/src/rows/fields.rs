//! One row after the other, split into fields.
//!
//! For: `rows/mod.rs`. Not for: what the columns mean.
//!
//! A plain row's fields are ranges of the upload; a row that needs unquoting is decoded by csv-core
//! into memory of the reader. Invariants: a row ends where csv-core would end it; at most
//! [`COLUMN_MAX`] fields and one record's limit of bytes are kept, whatever the row holds.

use crate::stop_bytes::StopBytes;
use csv_core::{ReadRecordResult, Reader, ReaderBuilder};
use memchr::memchr;

use super::COLUMN_MAX;
use crate::error::{UploadError, UploadErrorKind};
use crate::upload::RECORD_SIZE_MAX_BYTES;

/// A row that was read; its fields are asked of the reader until the next one is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) start: usize,
    /// Behind its last field; the line end may follow.
    pub(super) end: usize,
    pub(super) column_count: usize,
    /// Its fields are bytes of the upload.
    pub(super) is_plain: bool,
    pub(super) is_too_long: bool,
}

/// Where the next row begins, and the last one's fields.
pub(super) struct RowReader<'u> {
    upload: &'u [u8],
    at: usize,
    delimiter: u8,
    has_quotes: bool,
    /// What ends a field, or makes the row one that a library must look at.
    stops: StopBytes,
    quick: bool,
    fields: Vec<(usize, usize)>,
    parser: Reader,
    decoded: Vec<u8>,
    ends: Vec<usize>,
}

impl<'u> RowReader<'u> {
    pub(super) fn new(
        upload: &'u [u8],
        at: usize,
        delimiter: u8,
        has_quotes: bool,
        quick: bool,
    ) -> RowReader<'u> {
        let parser = ReaderBuilder::new().delimiter(delimiter).quoting(has_quotes).build();
        let quote = if has_quotes { b'"' } else { delimiter };
        let stops = StopBytes::new([delimiter, quote, quote]);
        let (fields, decoded, ends) = (Vec::new(), Vec::new(), Vec::new());
        RowReader { upload, at, delimiter, has_quotes, stops, quick, fields, parser, decoded, ends }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Goes behind lines that begin with this byte.
    pub(super) fn skip_lines_of(&mut self, comment: u8) {
        loop {
            let rest = self.upload.get(self.at..).unwrap_or_default();
            let blank = rest.iter().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
            if rest.get(blank) != Some(&comment) {
                return;
            }
            let line = &rest[blank..];
            self.at += blank + memchr(b'\n', line).map_or(line.len(), |end| end + 1);
        }
    }

    /// The next row that is not empty.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<Row>, UploadError> {
        while matches!(self.upload.get(self.at), Some(b'\n' | b'\r')) {
            self.at += 1;
        }
        if self.at >= self.upload.len() {
            return Ok(None);
        }
        if self.quick
            && let Some(row) = self.plain_row()
        {
            return Ok(Some(row));
        }
        self.row_by_library().map(Some)
    }

    /// A field of a plain row.
    #[inline]
    pub(super) fn plain_field(&self, column: usize) -> Option<&'u [u8]> {
        self.fields.get(column).map(|(start, end)| &self.upload[*start..*end])
    }

    /// A field of a row that was decoded.
    pub(super) fn decoded_field(&self, column: usize) -> Option<&[u8]> {
        let end = *self.ends.get(column)?;
        let start = if column == 0 { 0 } else { self.ends[column - 1] };
        self.decoded.get(start..end)
    }

    /// All fields of either kind of row.
    pub(super) fn fields(&self, row: &Row) -> impl Iterator<Item = &[u8]> {
        let is_plain = row.is_plain;
        (0..row.column_count).map_while(move |column| {
            if is_plain { self.plain_field(column) } else { self.decoded_field(column) }
        })
    }

    /// Splits a row that needs no decoding; `None` if it is any other.
    #[inline]
    fn plain_row(&mut self) -> Option<Row> {
        let (upload, start, delimiter) = (self.upload, self.at, self.delimiter);
        self.fields.clear();
        let (mut at, mut column_count) = (start, 0);
        loop {
            let (field, end) = if self.has_quotes && upload.get(at) == Some(&b'"') {
                let closing = at + 1 + memchr(b'"', &upload[at + 1..])?;
                ((at + 1, closing), closing + 1)
            } else {
                let length = self.stops.find(&upload[at..]);
                let end = length.map_or(upload.len(), |length| at + length);
                ((at, end), end)
            };
            column_count += 1;
            if self.fields.len() < COLUMN_MAX {
                self.fields.push(field);
            }
            let next = match upload.get(end) {
                Some(byte) if *byte == delimiter => {
                    at = end + 1;
                    continue;
                }
                None => end,
                Some(b'\n') => end + 1,
                Some(b'\r') if upload.get(end + 1) == Some(&b'\n') => end + 2,
                Some(_) => return None,
            };
            self.at = next;
            return Some(Row { start, end, column_count, is_plain: true, is_too_long: false });
        }
    }

    /// Reads one row by csv-core, whatever it holds.
    fn row_by_library(&mut self) -> Result<Row, UploadError> {
        const FIRST_SIZE_BYTES: usize = 1 << 10;
        let start = self.at;
        self.parser.reset();
        self.decoded.resize(self.decoded.len().max(FIRST_SIZE_BYTES), 0);
        self.ends.resize(COLUMN_MAX, 0);
        let (mut written, mut end_count, mut column_count) = (0, 0, 0);
        let mut is_too_long = false;
        loop {
            // csv-core drops a byte order mark at its beginning, which is ours to drop only at that
            // of the upload; it does not know one by its first byte.
            let rest = &self.upload[self.at..];
            let is_mark = self.at == start && rest.starts_with(b"\xef\xbb\xbf");
            let (result, read, wrote, ended) = self.parser.read_record(
                if is_mark { &rest[..1] } else { rest },
                &mut self.decoded[written..],
                &mut self.ends[end_count..],
            );
            self.at += read;
            written += wrote;
            end_count += ended;
            column_count += ended;
            match result {
                // An empty rest is how csv-core learns that this is the end.
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull if self.decoded.len() < RECORD_SIZE_MAX_BYTES => {
                    self.decoded.resize(self.decoded.len() * 2, 0);
                }
                // Too much to keep: it is read to its end all the same, over what was there.
                ReadRecordResult::OutputFull => (written, is_too_long) = (0, true),
                ReadRecordResult::OutputEndsFull => (end_count, is_too_long) = (0, true),
                ReadRecordResult::Record | ReadRecordResult::End => break,
            }
        }
        self.ends.truncate(end_count);
        if self.at >= self.upload.len() && self.has_quotes && self.is_open_at_end(start) {
            let message = "a quoted field that is never closed; the rest cannot be read";
            return Err(UploadError::new(UploadErrorKind::Truncated, start, message));
        }
        let bytes = &self.upload[start..self.at];
        let line_end = bytes.iter().rev().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
        let end = self.at - line_end;
        Ok(Row { start, end, column_count, is_plain: false, is_too_long })
    }

    /// Whether the row that goes to the end of the upload ends within quotes.
    fn is_open_at_end(&self, start: usize) -> bool {
        let (mut quoted, mut field_start) = (false, true);
        let mut bytes = self.upload[start..].iter().peekable();
        while let Some(byte) = bytes.next() {
            match byte {
                b'"' if quoted && bytes.peek() == Some(&&b'"') => _ = bytes.next(),
                b'"' if quoted => quoted = false,
                b'"' if field_start => quoted = true,
                _ => {}
            }
            field_start = !quoted && *byte == self.delimiter;
        }
        quoted
    }
}
