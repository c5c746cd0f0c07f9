//! Where records begin and end, and where the parts of a record and its address stand.
//!
//! Not for reading files, looking addresses up or writing: everything here is a place in bytes that
//! the caller keeps. One file a format: [`csv`], [`json`]; logs are `whered_capture`'s.
//!
//! ```text
//! bytes    192.0.2.1 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 17 "-" "curl"\r\n
//! record   |------------------------------ content -----------------------------------|   next ^
//! parts    |-------| | | |--------------------------| |--------------| |-| || |-| |----|
//! address  |-------|
//! ```
//!
//! Invariants: places never lie outside of the bytes given; the reader of a file and the workers
//! ask the same [`record_end`], so that they agree on every record whatever the bytes are. Cost:
//! one or two passes over a record.

pub(crate) mod csv;
pub(crate) mod json;

use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use memchr::memchr;
use whered_capture::logs::{self, LogFault, access as log};
use whered_ip::text::{ListChoice, read_list};

/// Why a record's address cannot be looked up. The texts need no escapes in any output format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    EmptyLine,
    NotALogLine,
    UnendedQuote,
    WrongColumnCount,
    NotAJsonObject,
    NoSuchMember,
    NoAddress,
    /// No database has a network of the address's family.
    UncoveredIpv4,
    UncoveredIpv6,
}

impl Fault {
    /// Whether only the databases are the reason: the record and its address are good.
    pub(crate) fn is_uncovered(self) -> bool {
        matches!(self, Fault::UncoveredIpv4 | Fault::UncoveredIpv6)
    }

    /// What is written beside the record.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Fault::EmptyLine => "empty line",
            Fault::NotALogLine => "not a log line",
            Fault::UnendedQuote => "a quote that does not end",
            Fault::WrongColumnCount => "wrong number of columns",
            Fault::NotAJsonObject => "not a JSON object",
            Fault::NoSuchMember => "no such member",
            Fault::NoAddress => "no IP address",
            Fault::UncoveredIpv4 => "no database covers IPv4 addresses",
            Fault::UncoveredIpv6 => "no database covers IPv6 addresses",
        }
    }
}

impl From<LogFault> for Fault {
    fn from(fault: LogFault) -> Fault {
        match fault {
            LogFault::NotALogLine => Fault::NotALogLine,
            LogFault::UnendedQuote => Fault::UnendedQuote,
            LogFault::WrongColumnCount => Fault::WrongColumnCount,
            LogFault::NoAddress => Fault::NoAddress,
        }
    }
}

/// How the records of an input are written, and where their address is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    /// Lines of blank-separated parts, some in quotes or brackets.
    Log {
        /// Whether the virtual host stands before the usual parts.
        has_virtual_host: bool,
        /// Which part holds the address.
        address_part: usize,
    },
    /// Lines of another log.
    Columns(Arc<logs::Columns>),
    /// Cells between delimiters, which may stand in quotes (RFC 4180).
    Csv { delimiter: u8, column_count: usize, address_column: usize },
    /// Cells between tabs; nothing is quoted.
    Tsv { column_count: usize, address_column: usize },
    /// One JSON object a line; the address is the text of this member.
    Ndjson { member: json::MemberPath },
}

/// Room that is used again for every record.
#[derive(Default)]
pub(crate) struct Scratch {
    json: json::Scratch,
    logs: logs::Scratch,
}

/// Where one record ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RecordEnd {
    /// Behind the record's last byte that is not of its line end.
    pub(crate) content: usize,
    /// Where the next record begins.
    pub(crate) next: usize,
}

/// Where the record that begins at `start` ends, or nothing if that takes more bytes than there
/// are and `is_last` is false: more will come.
pub(crate) fn record_end(
    shape: &Shape,
    bytes: &[u8],
    start: usize,
    is_last: bool,
) -> Option<RecordEnd> {
    match shape {
        Shape::Csv { delimiter, .. } => csv::record_end(bytes, start, *delimiter, is_last),
        _ => line_end(bytes, start, is_last),
    }
}

/// Like [`record_end`] for formats whose records are lines.
pub(crate) fn line_end(bytes: &[u8], start: usize, is_last: bool) -> Option<RecordEnd> {
    let rest = bytes.get(start..)?;
    match memchr(b'\n', rest) {
        Some(length) => Some(end_at_newline(bytes, start, start + length)),
        None if is_last => Some(RecordEnd { content: bytes.len(), next: bytes.len() }),
        None => None,
    }
}

fn end_at_newline(bytes: &[u8], start: usize, newline: usize) -> RecordEnd {
    let has_return = newline > start && bytes.get(newline - 1) == Some(&b'\r');
    RecordEnd { content: newline - usize::from(has_return), next: newline + 1 }
}

/// Behind the last whole record of the bytes; zero if there is none.
pub(crate) fn last_record_end(shape: &Shape, bytes: &[u8]) -> usize {
    let is_csv_with_quotes = matches!(shape, Shape::Csv { .. }) && memchr(b'"', bytes).is_some();
    if !is_csv_with_quotes {
        return memchr::memrchr(b'\n', bytes).map_or(0, |newline| newline + 1);
    }
    let mut start = 0;
    while let Some(end) = record_end(shape, bytes, start, false) {
        start = end.next;
    }
    start
}

/// Appends the places of a record's parts (none for JSON) and gives the place of its address.
/// After a fault the parts are those that were met before it.
pub(crate) fn split(
    shape: &Shape,
    bytes: &[u8],
    content: Range<usize>,
    parts: &mut Vec<Range<usize>>,
    scratch: &mut Scratch,
) -> Result<Range<usize>, Fault> {
    let record = bytes.get(content.clone()).unwrap_or_default();
    if record.is_empty() {
        return Err(Fault::EmptyLine);
    }
    let base = parts.len();
    let (address, count, column_count) = match shape {
        Shape::Log { has_virtual_host, address_part } => {
            if *has_virtual_host && log::split(bytes, content.clone(), false, parts).is_ok() {
                // A line without the virtual host that others have.
                parts.insert(base, logs::ABSENT);
            } else {
                parts.truncate(base);
                log::split(bytes, content, *has_virtual_host, parts)?;
            }
            let part = parts.get(base + address_part).cloned();
            return part.filter(|part| *part != logs::ABSENT).ok_or(Fault::NoAddress);
        }
        Shape::Columns(columns) => {
            return Ok(columns.split(bytes, content, parts, &mut scratch.logs)?);
        }
        Shape::Ndjson { member } => return json::find(bytes, content, member, &mut scratch.json),
        Shape::Csv { delimiter, column_count, address_column } => {
            csv::split(bytes, content, *delimiter, parts)?;
            (address_column, parts.len() - base, column_count)
        }
        Shape::Tsv { column_count, address_column } => {
            csv::split_unquoted(bytes, content, b'\t', parts);
            (address_column, parts.len() - base, column_count)
        }
    };
    if count != *column_count {
        return Err(Fault::WrongColumnCount);
    }
    parts.get(base + address).cloned().ok_or(Fault::NoAddress)
}

/// The address, or the chosen one of a list, that the part of a record holds.
pub(crate) fn read_part(shape: &Shape, text: &[u8], list: ListChoice) -> Option<IpAddr> {
    match shape {
        Shape::Ndjson { .. } => json::read_value(text, list),
        Shape::Csv { .. } => {
            read_list(text, list).or_else(|| read_list(csv::cell_text(text, &mut Vec::new()), list))
        }
        Shape::Log { .. } | Shape::Columns(_) | Shape::Tsv { .. } => {
            read_list(text, list).or_else(|| {
                // A list in quotes.
                let text = text.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
                read_list(text, list)
            })
        }
    }
}

#[cfg(test)]
#[path = "split_tests.rs"]
mod tests;
