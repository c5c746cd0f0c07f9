//! How records, fields and faults are written in each output format.
//!
//! Not for finding out what to write. Three styles of a field: a JSON member, a cell between
//! delimiters, a quoted part of a log line. Every field begins with its separator, so that fields
//! of several databases are put together by copying.

use std::ops::Range;

use memchr::{memchr, memchr2};
use whered_mmdb::Value;

use super::split::Fault;
use super::split::csv::cell_text;

/// The member or column that says what is wrong with a record.
pub(crate) const FAULT_NAME: &str = "enrich_error";
/// The member that keeps a line which is no record.
pub(crate) const LINE_NAME: &str = "line";

/// How fields are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Style {
    /// `,"name":value`
    Json,
    /// `,value`, with another delimiter where that is a tab or a semicolon.
    Cell { delimiter: u8 },
    /// ` "value"`
    Log,
}

/// What a record has at a path.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Field<'a> {
    Absent,
    /// A string where it stands.
    Text(&'a [u8]),
    /// A string or anything else.
    Value(Value),
}

impl Style {
    /// Appends a field with its separator.
    pub(crate) fn write_field(self, name: &str, field: &Field<'_>, out: &mut Vec<u8>) {
        if self == Style::Json {
            out.push(b',');
            write_json_text(name.as_bytes(), out);
            out.push(b':');
            match field {
                Field::Absent => out.extend_from_slice(b"null"),
                Field::Text(text) => write_json_text(text, out),
                Field::Value(value) => value.write_json(out),
            }
            return;
        }
        match field {
            Field::Absent => self.write_text(if self == Style::Log { b"-" } else { b"" }, out),
            Field::Text(text) => self.write_text(text, out),
            Field::Value(value) => {
                let mut text = Vec::new();
                value.write_text(&mut text);
                self.write_text(&text, out);
            }
        }
    }

    /// Appends a text with its separator; for JSON the text alone.
    pub(crate) fn write_text(self, text: &[u8], out: &mut Vec<u8>) {
        match self {
            Style::Json => write_json_text(text, out),
            Style::Cell { delimiter } => {
                out.push(delimiter);
                write_cell(text, delimiter, out);
            }
            Style::Log => {
                out.extend_from_slice(b" \"");
                write_log_text(text, out);
                out.push(b'"');
            }
        }
    }

    /// Appends what is wrong with a record; cells are there for good records too.
    pub(crate) fn write_fault(self, name: &str, fault: Option<&str>, out: &mut Vec<u8>) {
        match (self, fault) {
            (Style::Cell { .. }, fault) => self.write_text(fault.unwrap_or("").as_bytes(), out),
            (_, None) => {}
            (Style::Json, Some(fault)) => {
                out.push(b',');
                write_json_text(name.as_bytes(), out);
                out.push(b':');
                write_json_text(fault.as_bytes(), out);
            }
            (Style::Log, Some(fault)) => {
                self.write_text(format!("{name}: {fault}").as_bytes(), out);
            }
        }
    }
}

/// A cell, quoted where it must be; between tabs nothing is quoted and four bytes are escaped.
pub(crate) fn write_cell(text: &[u8], delimiter: u8, out: &mut Vec<u8>) {
    if delimiter == b'\t' {
        for &byte in text {
            match byte {
                b'\t' => out.extend_from_slice(b"\\t"),
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\r' => out.extend_from_slice(b"\\r"),
                b'\\' => out.extend_from_slice(b"\\\\"),
                _ => out.push(byte),
            }
        }
        return;
    }
    let needs_quotes =
        memchr2(b'"', delimiter, text).is_some() || memchr2(b'\n', b'\r', text).is_some();
    if !needs_quotes {
        out.extend_from_slice(text);
        return;
    }
    out.push(b'"');
    for &byte in text {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}

/// As Apache escapes what stands in quotes.
fn write_log_text(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0..=0x1f | 0x7f => out.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
            _ => out.push(byte),
        }
    }
}

/// A JSON string. What is no UTF-8 becomes U+FFFD.
pub(crate) fn write_json_text(text: &[u8], out: &mut Vec<u8>) {
    if is_plain(text) {
        out.push(b'"');
        out.extend_from_slice(text);
        out.push(b'"');
        return;
    }
    let text = String::from_utf8_lossy(text);
    Value::String(text.into_owned()).write_json(out);
}

/// Whether a JSON string can hold the bytes as they are. Texts are short: they are judged in words
/// of eight bytes, the last of which overlaps the one before it.
fn is_plain(text: &[u8]) -> bool {
    const ONES: u64 = u64::MAX / 255;
    let special = |bytes: &[u8; 8]| {
        let word = u64::from_le_bytes(*bytes);
        let is_zero = |word: u64| word.wrapping_sub(ONES) & !word;
        let is_control = word.wrapping_sub(ONES * 0x20) & !word;
        is_zero(word ^ (ONES * 0x22)) | is_zero(word ^ (ONES * 0x5c)) | is_control | word
    };
    let (words, rest) = text.as_chunks();
    let marks = words.iter().fold(0, |marks, word| marks | special(word));
    if let Some(last) = text.last_chunk() {
        return (marks | special(last)) & (ONES * 0x80) == 0;
    }
    rest.iter().all(|&byte| (0x20..0x80).contains(&byte) && byte != b'"' && byte != b'\\')
}

/// How the record itself is written, before its fields.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// A log line as it is.
    Line,
    /// A row as it is, with cells behind it if it has fewer than this many.
    Row { count: usize },
    /// As it is, if it is a JSON object, up to its closing brace.
    Object,
    /// Its parts as members.
    Members { keys: Vec<Key>, parts: PartKind },
    /// Its parts as this many cells.
    Cells { count: usize, parts: PartKind },
}

/// How the parts that become members or cells are written in the input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PartKind {
    /// Parts of a log line: `-` is nothing, digits are a number; how many come before the rest.
    Log { named_count: usize },
    /// Cells with quotes.
    Csv,
    /// Cells without.
    Tsv,
}

/// A record and what is known of it.
pub(crate) struct Record<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) content: Range<usize>,
    pub(crate) parts: &'a [Range<usize>],
    pub(crate) fault: Option<Fault>,
}

impl Record<'_> {
    pub(crate) fn line(&self) -> &[u8] {
        self.bytes.get(self.content.clone()).unwrap_or_default()
    }

    pub(crate) fn part(&self, number: usize) -> Option<&[u8]> {
        self.bytes.get(self.parts.get(number)?.clone())
    }

    /// Whether the record was split into its parts.
    pub(crate) fn is_whole(&self) -> bool {
        self.fault.is_none_or(|fault| fault == Fault::NoAddress || fault.is_uncovered())
    }
}

/// The names of a log's parts whose digits are a number.
const NUMBER_NAMES: [&str; 2] = ["status", "body_bytes_sent"];

/// A member's name, ready to be written.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    /// `,"name":`
    text: Vec<u8>,
    /// Whether digits are written as a number.
    is_number: bool,
}

impl Key {
    pub(crate) fn new(name: &str, parts: PartKind) -> Key {
        let mut text = vec![b','];
        write_json_text(name.as_bytes(), &mut text);
        text.push(b':');
        let is_log = matches!(parts, PartKind::Log { .. });
        Key { text, is_number: is_log && NUMBER_NAMES.contains(&name) }
    }
}

impl Body {
    /// Appends the record.
    pub(crate) fn write(&self, record: &Record<'_>, style: Style, out: &mut Vec<u8>) {
        match self {
            Body::Line => out.extend_from_slice(record.line()),
            Body::Row { count } => {
                let Style::Cell { delimiter } = style else { return };
                write_row(record, *count, delimiter, out);
            }
            Body::Object => write_object(record, out),
            Body::Members { keys, parts } => write_members(record, keys, *parts, out),
            Body::Cells { count, parts } => {
                let Style::Cell { delimiter } = style else { return };
                write_cells(record, *count, *parts, delimiter, out);
            }
        }
    }

    /// Appends what stands behind the fields.
    pub(crate) fn write_end(&self, line_end: &[u8], out: &mut Vec<u8>) {
        match self {
            Body::Line | Body::Row { .. } => {
                out.extend_from_slice(if line_end.is_empty() { b"\n" } else { line_end });
            }
            Body::Object | Body::Members { .. } => out.extend_from_slice(b"}\n"),
            Body::Cells { .. } => out.push(b'\n'),
        }
    }
}

/// A row, so that what follows stands under its names: cells that are missing are added, and a line
/// whose quote never ends becomes one cell, or that quote would take in all that follows it.
fn write_row(record: &Record<'_>, count: usize, delimiter: u8, out: &mut Vec<u8>) {
    let written = match record.fault {
        Some(Fault::UnendedQuote) => {
            write_cell(record.line(), delimiter, out);
            1
        }
        Some(Fault::EmptyLine) => 1,
        _ => {
            out.extend_from_slice(record.line());
            record.parts.len()
        }
    };
    out.extend(std::iter::repeat_n(delimiter, count.saturating_sub(written)));
}

/// A line that is no record, as the first member of an object.
fn write_line_member(line: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("{{\"{LINE_NAME}\":").as_bytes());
    write_json_text(line, out);
}

fn write_object(record: &Record<'_>, out: &mut Vec<u8>) {
    let line = record.line();
    let object = line.trim_ascii_end().strip_suffix(b"}");
    let is_object = record.is_whole() || record.fault == Some(Fault::NoSuchMember);
    match object {
        Some(object) if is_object => {
            out.extend_from_slice(object.trim_ascii_end());
        }
        _ => write_line_member(line, out),
    }
}

fn write_members(record: &Record<'_>, keys: &[Key], kind: PartKind, out: &mut Vec<u8>) {
    if !record.is_whole() {
        write_line_member(record.line(), out);
        return;
    }
    let names: usize = keys.iter().map(|key| key.text.len() + 2).sum();
    out.reserve(names + record.line().len());
    out.push(b'{');
    let mut scratch = Vec::new();
    for (number, key) in keys.iter().enumerate() {
        let part = record.part(number);
        if let (PartKind::Log { named_count }, None) = (kind, part)
            && number == named_count
        {
            // Most lines have nothing behind the named parts.
            break;
        }
        // The first one has no comma before it.
        out.extend_from_slice(key.text.get(usize::from(number == 0)..).unwrap_or_default());
        match (kind, part) {
            (_, None) => out.extend_from_slice(b"null"),
            (PartKind::Tsv, Some(part)) => write_json_text(part, out),
            (PartKind::Csv, Some(part)) => write_json_text(cell_text(part, &mut scratch), out),
            (PartKind::Log { named_count }, Some(b"-")) if number < named_count => {
                out.extend_from_slice(b"null");
            }
            (PartKind::Log { .. }, Some(part)) => {
                if key.is_number && is_json_number(part) {
                    out.extend_from_slice(part);
                } else {
                    write_json_text(part, out);
                }
            }
        }
    }
}

/// Digits, of which the first is no zero unless it is alone.
fn is_json_number(text: &[u8]) -> bool {
    let is_short = (1..=18).contains(&text.len());
    is_short && text.iter().all(u8::is_ascii_digit) && (text.len() == 1 || !text.starts_with(b"0"))
}

fn write_cells(
    record: &Record<'_>,
    count: usize,
    kind: PartKind,
    delimiter: u8,
    out: &mut Vec<u8>,
) {
    let mut scratch = Vec::new();
    // A line that is no record stands whole in one cell: in a log's last one, which is for the
    // rest.
    let line_cell = match (kind, record.fault) {
        (PartKind::Log { .. }, _) if !record.is_whole() => Some(count - 1),
        (_, Some(Fault::UnendedQuote)) => Some(0),
        _ => None,
    };
    let last = if line_cell.is_some() { count } else { count.max(record.parts.len()) };
    for number in 0..last {
        if number > 0 {
            out.push(delimiter);
        }
        let part = match line_cell {
            None => record.part(number).unwrap_or_default(),
            Some(cell) if cell == number => {
                write_cell(record.line(), delimiter, out);
                continue;
            }
            Some(_) => b"",
        };
        let part = match kind {
            PartKind::Csv => cell_text(part, &mut scratch),
            PartKind::Log { .. } | PartKind::Tsv => part,
        };
        write_cell(part, delimiter, out);
    }
}

/// Where the line's end stands behind a record's content.
pub(crate) fn line_end(bytes: &[u8], content_end: usize, next: usize) -> &[u8] {
    let end = bytes.get(content_end..next).unwrap_or_default();
    if memchr(b'\n', end).is_some() { end } else { b"" }
}

#[cfg(test)]
#[path = "write_tests.rs"]
mod tests;
