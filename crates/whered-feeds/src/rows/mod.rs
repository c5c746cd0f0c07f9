//! CSV and TSV: rows whose columns are found by name or by number.
//!
//! For: RFC 4180 with any line end and any separator, tab-separated rows without quotes, lines
//! before the header and comments. Not for: guessing a separator, or rows with a header in the
//! middle.
//!
//! ```text
//! object,x,y,t            header: which column is which slot
//! 123,12.3,45.6,17...     a row without quotes, or with quotes around whole fields: our own loop
//! "say ""hi""",1,2,3      any other: csv-core, from this row's first byte to its end
//! ```
//!
//! Invariants: a row of another width than the header's is rejected alone; rows that are empty are
//! no rows; bytes that are not UTF-8 cost their row only. A quote that is never closed ends the
//! scan: nobody knows which rows it was meant to hold.
//! Cost: one look at each byte of the columns, no allocation in the loop.

mod fields;

use crate::assemble::{Assembler, Texts, reject};
use crate::error::{MappingError, UploadError, UploadErrorKind};
use crate::event::{Events, Totals};
use crate::mapping::{Scan, path_help};
use crate::source::{Format, MappingSource};
use crate::upload::{RECORD_SIZE_MAX_BYTES, shown, valid_text};
use fields::{Row, RowReader};

/// Which columns the slots are.
#[derive(Clone, Debug)]
pub(crate) struct RowPaths {
    /// By slot.
    columns: Vec<Column>,
    /// The first row is one.
    has_header: bool,
    delimiter: u8,
    has_quotes: bool,
    skip_lines: usize,
    comment: Option<u8>,
}

#[derive(Clone, Debug)]
enum Column {
    Name(String),
    /// Its index, from 0.
    Index(usize),
}

/// More columns than any row has.
const COLUMN_MAX: usize = 4_096;

impl RowPaths {
    pub(crate) fn compile(
        source: &MappingSource,
        paths: &[(String, String)],
    ) -> Result<RowPaths, MappingError> {
        if !source.record.is_empty() {
            let found = format!("{:?}", source.record);
            return Err(MappingError::new("record", found, "nothing: each row is a record"));
        }
        if source.items.is_some() {
            return Err(MappingError::new(
                "items",
                "a list",
                "xml and ndjson have lists, rows not",
            ));
        }
        let columns = paths.iter().map(|(key, path)| Column::parse(key, path));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let has_header = columns.iter().any(|column| matches!(column, Column::Name(_)));
        let is_tsv = source.format == Format::Tsv;
        let delimiter = source.rows.delimiter.unwrap_or(if is_tsv { b'\t' } else { b',' });
        let comment = source.rows.comment;
        for (key, byte) in [("delimiter", Some(delimiter)), ("comment", comment)] {
            let is_wrong = |byte: &u8| {
                let is_other = *byte < b' ' && *byte != b'\t' || *byte > b'~';
                is_other || matches!(byte, b'"') && !is_tsv
            };
            if let Some(byte) = byte.filter(is_wrong) {
                let found = format!("'{}'", byte.escape_ascii());
                let allowed = "one ASCII character that is no quote and no line end";
                return Err(MappingError::new(key, found, allowed));
            }
        }
        let skip_lines = source.rows.skip_lines;
        Ok(RowPaths { columns, has_header, delimiter, has_quotes: !is_tsv, skip_lines, comment })
    }

    /// Where the first row begins: behind the lines that are none.
    fn first_row(&self, text: &[u8], start: usize) -> usize {
        let ends = memchr::memchr_iter(b'\n', &text[start..]);
        match self.skip_lines {
            0 => start,
            lines => ends.take(lines).nth(lines - 1).map_or(text.len(), |end| start + end + 1),
        }
    }
}

impl Column {
    /// A number from `#1`, or a name; one that looks like a path of another format needs quotes.
    fn parse(key: &str, path: &str) -> Result<Column, MappingError> {
        let wrong = |allowed: &str| Err(MappingError::new(key, format!("{path:?}"), allowed));
        let quoted = |quote| path.strip_prefix(quote)?.strip_suffix(quote);
        if let Some(name) = quoted('"').or_else(|| quoted('\'')).filter(|name| !name.is_empty()) {
            return Ok(Column::Name(name.to_owned()));
        }
        if let Some(number) = path.strip_prefix('#')
            && number.bytes().all(|byte| byte.is_ascii_digit())
        {
            return match number.parse().ok().filter(|n| (1..=COLUMN_MAX).contains(n)) {
                Some(number) => Ok(Column::Index(number - 1)),
                None => wrong("a column's name, or its number from #1 to #4096"),
            };
        }
        let is_index = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let (_, behind_dot) = path.rsplit_once('.').unwrap_or(("", "x"));
        let is_path = path.starts_with("../")
            || path == "."
            || path.contains("/@")
            || path.starts_with('@')
            || is_index(behind_dot)
            || path.ends_with(']')
                && path
                    .split_once('[')
                    .is_some_and(|(_, index)| is_index(&index[..index.len() - 1]));
        if is_path || path.trim().is_empty() {
            return wrong(path_help(Format::Csv));
        }
        Ok(Column::Name(path.to_owned()))
    }
}

/// Where each slot is in a row, and how wide rows must be.
struct Plan {
    /// Slot and column, ordered by column.
    wanted: Vec<(usize, usize)>,
    width: Option<usize>,
}

/// Whether the header has the columns.
pub(crate) fn check(paths: &RowPaths, upload: &[u8], start: usize) -> Result<(), UploadError> {
    let start = paths.first_row(upload, start);
    let mut reader = RowReader::new(upload, start, paths.delimiter, paths.has_quotes, true);
    plan(paths, &mut reader).map(|_| ())
}

/// The next row that is no comment.
fn next_row(paths: &RowPaths, reader: &mut RowReader<'_>) -> Result<Option<Row>, UploadError> {
    if let Some(comment) = paths.comment {
        reader.skip_lines_of(comment);
    }
    reader.next()
}

fn plan(paths: &RowPaths, reader: &mut RowReader<'_>) -> Result<Plan, UploadError> {
    let (mut header, mut start) = (None, reader.at());
    if paths.has_header {
        let Some(row) = next_row(paths, reader)? else {
            let message = "no header row";
            return Err(UploadError::new(UploadErrorKind::Empty, start, message));
        };
        start = row.start;
        let columns = reader.fields(&row).map(|field| field.trim_ascii().to_vec());
        header = Some(columns.collect::<Vec<_>>());
    }
    let columns = header.as_deref().unwrap_or_default();
    let mut wanted = Vec::with_capacity(paths.columns.len());
    for (slot, column) in paths.columns.iter().enumerate() {
        let index = match column {
            Column::Index(index) if *index < columns.len() || header.is_none() => *index,
            Column::Index(index) => {
                let message =
                    format!("the header has {} columns, no #{}", columns.len(), index + 1);
                return Err(UploadError::new(UploadErrorKind::WrongFormat, start, message));
            }
            Column::Name(name) => {
                find_column(columns, name, paths.delimiter).map_err(|message| {
                    UploadError::new(UploadErrorKind::WrongFormat, start, message)
                })?
            }
        };
        wanted.push((slot, index));
    }
    wanted.sort_by_key(|(_, column)| *column);
    Ok(Plan { wanted, width: header.map(|columns| columns.len()) })
}

/// The first column of this name; where there is none, the only one of this name in other case or
/// with other blanks.
fn find_column(columns: &[Vec<u8>], name: &str, delimiter: u8) -> Result<usize, String> {
    let name = name.trim().as_bytes();
    if let Some(index) = columns.iter().position(|column| column == name) {
        return Ok(index);
    }
    let plain = |text: &[u8]| -> String {
        let text = String::from_utf8_lossy(text).to_lowercase();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let wanted = plain(name);
    let mut like = columns.iter().enumerate().filter(|(_, column)| plain(column) == wanted);
    match (like.next(), like.next()) {
        (Some((index, _)), None) => Ok(index),
        (Some((first, _)), Some((second, _))) => Err(format!(
            "the header has column {} as #{} and #{}; allowed: one of these numbers",
            shown(name),
            first + 1,
            second + 1,
        )),
        _ => {
            let line = columns.join(&delimiter);
            Err(format!("the header has no column {}; it begins {}", shown(name), shown(&line)))
        }
    }
}

/// Reads all rows; see [`crate::Mapping::scan`].
pub(crate) fn scan<E: Events>(
    scan: &Scan<'_>,
    paths: &RowPaths,
    events: &mut E,
) -> Result<Totals, UploadError> {
    let (mapping, upload) = (scan.mapping, scan.text);
    let valid_end = scan.start + valid_text(upload, scan.start).len();
    let start = paths.first_row(upload, scan.start);
    let mut totals = Totals::default();
    let mut reader = RowReader::new(upload, start, paths.delimiter, paths.has_quotes, scan.quick);
    let plan = plan(paths, &mut reader)?;
    let mut texts = Texts { slots: scan.base.to_vec(), ..Texts::default() };
    let mut assembler = Assembler::new(mapping);
    while let Some(row) = next_row(paths, &mut reader)? {
        let bytes = &upload[row.start..row.end];
        if row.end > valid_end && std::str::from_utf8(bytes).is_err() {
            reject(row.start, "the row is not UTF-8", &mut totals, events);
            continue;
        }
        if row.is_too_long || bytes.len() > RECORD_SIZE_MAX_BYTES {
            let reason = format!("a row of more than {RECORD_SIZE_MAX_BYTES} bytes");
            reject(row.start, &reason, &mut totals, events);
            continue;
        }
        if let Some(width) = plan.width
            && row.column_count != width
        {
            let reason = format!("{} columns where the header has {width}", row.column_count);
            reject(row.start, &reason, &mut totals, events);
            continue;
        }
        if row.is_plain {
            for (slot, column) in &plan.wanted {
                texts.slots[*slot] = reader.plain_field(*column).filter(|text| !text.is_empty());
            }
            assembler.hand_out(row.start, &texts, &mut totals, events);
        } else {
            let mut texts = Texts { slots: scan.base.to_vec(), ..Texts::default() };
            for (slot, column) in &plan.wanted {
                texts.slots[*slot] = reader.decoded_field(*column).filter(|text| !text.is_empty());
            }
            Assembler::new(mapping).hand_out(row.start, &texts, &mut totals, events);
        }
    }
    Ok(totals)
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;
