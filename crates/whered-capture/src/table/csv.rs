//! Tables: a header that names columns, then a packet or flow a row.
//!
//! For: commas, semicolons or tabs, whichever the header has first; quotes around values, doubled
//! within. Not for: line ends within quotes, which no value here can have.
//!
//! Columns of unknown names are passed over; `src`, `dst` and `proto` must be there, none twice.
//! Every row has as many values as the header. An empty value, or `-`, says nothing. Lines that are
//! empty, and lines before the header that begin with `#`, are passed over.
//!
//! Cost: one pass over a row; only quotes within quotes are copied.

use std::borrow::Cow;
use std::io::Read;

use super::{Column, Field, RecordBuilder, next_line, set, skip_mark};
use crate::capture::Context;
use crate::error::{CaptureError, ErrorKind, Place, one_line, quoted};
use crate::record::PacketRecord;

/// The columns that a table may have.
const COLUMNS_MAX: usize = 4096;

pub(crate) struct Csv {
    delimiter: u8,
    columns: Vec<Option<Column>>,
}

impl Csv {
    /// Reads the header.
    pub(crate) fn start<R: Read>(context: &mut Context<R>) -> Result<Self, CaptureError> {
        skip_mark(&mut context.source)?;
        while let Some(line) = next_line(context)? {
            let line = context.source.bytes(line);
            if line.trim_ascii().is_empty() || line.starts_with(b"#") {
                continue;
            }
            return Self::from_header(line, context.line);
        }
        let place = Place::Line(context.line, 1);
        Err(CaptureError::new(ErrorKind::Truncated, place, "no header", "a header of columns"))
    }

    fn from_header(line: &[u8], number: u64) -> Result<Self, CaptureError> {
        let delimiter = line.iter().copied().find(|byte| b",;\t".contains(byte)).unwrap_or(b',');
        let wrong = |column, found: String, allowed| {
            let place = Place::Line(number, column);
            Err(CaptureError::new(ErrorKind::Malformed, place, found, allowed))
        };
        let mut columns: Vec<Option<Column>> = Vec::new();
        for field in (Fields { line, delimiter, next: Some(0) }) {
            let (bytes, at) = match field {
                Ok(field) => field,
                Err(at) => return wrong(at, "a broken quote".to_owned(), QUOTES),
            };
            let column = Column::from_name(&bytes);
            if column.is_some() && columns.contains(&column) {
                let found = format!("a second column {}", quoted(&bytes));
                return wrong(at, found, "each column once");
            }
            if columns.len() >= COLUMNS_MAX {
                return wrong(at, "one more column".to_owned(), "at most 4,096 columns");
            }
            columns.push(column);
        }
        for needed in [Column::Source, Column::Destination, Column::Protocol] {
            if !columns.contains(&Some(needed)) {
                let found = format!("no column {} in {}", needed.name(), one_line(line));
                return wrong(1, found, "a header with src, dst, proto and others");
            }
        }
        Ok(Csv { delimiter, columns })
    }

    /// The next packet or flow.
    pub(crate) fn advance<R: Read>(
        &mut self,
        context: &mut Context<R>,
    ) -> Result<Option<PacketRecord>, CaptureError> {
        while let Some(line) = next_line(context)? {
            let line = context.source.bytes(line);
            if line.is_empty() {
                continue;
            }
            let number = context.line;
            let wrong = |column, found: String, allowed: String| {
                let place = Place::Line(number, column);
                CaptureError::new(ErrorKind::Malformed, place, found, allowed)
            };
            let wanted = || format!("{} values, as the header has", self.columns.len());
            let mut columns = self.columns.iter();
            let mut builder = RecordBuilder::new();
            for field in (Fields { line, delimiter: self.delimiter, next: Some(0) }) {
                let (bytes, at) = field
                    .map_err(|at| wrong(at, "a broken quote".to_owned(), QUOTES.to_owned()))?;
                let Some(column) = columns.next() else {
                    return Err(wrong(at, "one more value".to_owned(), wanted()));
                };
                if let Some(column) = *column {
                    let field = Field { bytes: &bytes, column: at };
                    set(number, &mut context.interfaces, &mut builder, column, &field)?;
                }
            }
            if columns.len() > 0 {
                let found = format!("{} values too few", columns.len());
                return Err(wrong(line.len() + 1, found, wanted()));
            }
            let finished = builder.finish();
            let mut record = finished
                .map_err(|(found, allowed)| wrong(1, found.to_owned(), allowed.to_owned()))?;
            record.number = context.totals.count_record();
            return Ok(Some(record));
        }
        Ok(None)
    }
}

const QUOTES: &str = "a value in quotes, with quotes within it doubled";

/// The values of a row, each with the column where it begins, from 1; an error is such a column.
struct Fields<'a> {
    line: &'a [u8],
    delimiter: u8,
    next: Option<usize>,
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(Cow<'a, [u8]>, usize), usize>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let start = self.next.take()?;
        let rest = &self.line[start..];
        if rest.starts_with(b"\"") {
            return Some(self.quoted(start));
        }
        let size = memchr::memchr(self.delimiter, rest);
        self.next = size.map(|size| start + size + 1);
        let value = &rest[..size.unwrap_or(rest.len())];
        Some(Ok((Cow::Borrowed(value), start + 1)))
    }
}

impl<'a> Fields<'a> {
    #[cold]
    fn quoted(&mut self, start: usize) -> Result<(Cow<'a, [u8]>, usize), usize> {
        let mut value = Cow::Borrowed(&self.line[..0]);
        let mut at = start + 1;
        loop {
            let rest = &self.line[at..];
            let Some(size) = memchr::memchr(b'"', rest) else { return Err(start + 1) };
            let piece = &rest[..size];
            if value.is_empty() {
                value = Cow::Borrowed(piece);
            } else {
                value.to_mut().extend_from_slice(piece);
            }
            at += size + 1;
            match self.line.get(at) {
                None => return Ok((value, start + 1)),
                Some(b'"') => {
                    value.to_mut().push(b'"');
                    at += 1;
                }
                Some(&byte) if byte == self.delimiter => {
                    self.next = Some(at + 1);
                    return Ok((value, start + 1));
                }
                Some(_) => return Err(at + 1),
            }
        }
    }
}
