//! Logs as columns: where the parts of a line and its address are, for every log format that is
//! known by name, for those that say it in a header, and for format strings.
//!
//! Not for reading files, nor for what columns mean. Everything is a place in the line's bytes, so
//! that a line costs one or two passes and no copy. A column that a line does not have is at
//! [`ABSENT`]. What stands behind the named columns is one more part.
//!
//! ```text
//! line ── prefix of syslog? ── layout: blanks, delimiter, pattern, ... ──► parts, address
//! ```

pub mod access;
mod anywhere;
mod detect;
mod format;
mod netfilter;
mod pattern;
mod prefix;
mod tokens;

use std::fmt;
use std::ops::Range;

pub use detect::{DETECTED_LINES, by_header, detect, named};
pub use format::LogFormat;
pub use pattern::Pattern;

use tokens::Token;

/// The place of a column that a line does not have.
pub const ABSENT: Range<usize> = usize::MAX..usize::MAX;

/// The columns of syslog's prefix.
const PREFIX_NAMES: [&str; 3] = ["syslog_time", "syslog_host", "syslog_program"];

/// Why a line has no parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogFault {
    /// It is of another form.
    NotALogLine,
    /// A quote in it does not end.
    UnendedQuote,
    /// It has more or fewer columns than its header.
    WrongColumnCount,
    /// No address is where it should be.
    NoAddress,
}

impl fmt::Display for LogFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LogFault::NotALogLine => "not a log line",
            LogFault::UnendedQuote => "a quote that does not end",
            LogFault::WrongColumnCount => "wrong number of columns",
            LogFault::NoAddress => "no IP address",
        })
    }
}

/// A line that is no record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SkippedLine {
    /// It is empty.
    Empty,
    /// It begins with `#` in a format that has comments.
    Comment,
    /// It is a header with other columns than those of the layout.
    OtherHeader,
}

/// How the parts of lines are found.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Kind {
    /// A named format of blank-separated parts.
    Named(LogFormat),
    /// The columns of a header, separated by one byte; blanks may be several.
    Header { separator: u8, line: Vec<u8> },
    /// A format string.
    Pattern(Pattern),
}

/// The columns of a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Columns {
    kind: Kind,
    names: Vec<String>,
    /// Whether lines may have syslog's prefix, whose columns come first.
    has_prefix: bool,
    /// The column of the address; nothing where the format finds it in the text.
    address: Option<usize>,
    /// Where the address is if that column says `-`.
    second_address: Option<usize>,
}

/// Room that is used again for every line.
#[derive(Default)]
pub struct Scratch {
    tokens: Vec<Token>,
}

impl Columns {
    /// The columns of a named format.
    #[must_use]
    pub fn named(format: LogFormat, has_prefix: bool) -> Columns {
        let before: &[&str] = if has_prefix { &PREFIX_NAMES } else { &[] };
        let names = before.iter().chain(format.columns()).map(ToString::to_string).collect();
        let at = |name: &str| {
            let found = format.columns().iter().position(|column| *column == name);
            found.map(|found| found + before.len())
        };
        let (first, second) = format.address_columns();
        let (address, second_address) = (at(first), at(second));
        Columns { kind: Kind::Named(format), names, has_prefix, address, second_address }
    }

    /// The columns of a format string.
    #[must_use]
    pub fn of_pattern(pattern: Pattern) -> Columns {
        let names = pattern.names.clone();
        let kind = Kind::Pattern(pattern);
        let mut columns =
            Columns { kind, names, has_prefix: false, address: None, second_address: None };
        columns.address = columns.address_by_name();
        columns
    }

    /// The columns of a header line such as `#Fields: date c-ip` of W3C, `#fields` of Zeek, or that
    /// of a flow log; nothing if the line is none.
    #[must_use]
    pub fn of_header(line: &[u8], separator: Option<u8>) -> Option<Columns> {
        let is_w3c = line.get(..8).is_some_and(|head| head.eq_ignore_ascii_case(b"#Fields:"));
        let names = if is_w3c {
            line.get(8..)?.trim_ascii()
        } else if let Some(names) = line.strip_prefix(b"#fields") {
            names.get(1..)?
        } else {
            detect::is_flow_header(line).then_some(line)?
        };
        let separator = match separator {
            Some(separator) => separator,
            None if !is_w3c && names.contains(&b'\t') => b'\t',
            None => b' ',
        };
        let parts = names.split(|&byte| byte == separator).filter(|name| !name.is_empty());
        let names: Vec<String> =
            parts.map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        if names.is_empty() {
            return None;
        }
        let kind = Kind::Header { separator, line: line.to_vec() };
        let mut columns =
            Columns { kind, names, has_prefix: false, address: None, second_address: None };
        columns.address = columns.address_by_name();
        Some(columns)
    }

    /// The names of the columns, without that of what stands behind them.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The column of the address, if one column has it.
    #[must_use]
    pub fn address(&self) -> Option<usize> {
        self.address
    }

    /// The format, if it has a name.
    #[must_use]
    pub fn format(&self) -> Option<LogFormat> {
        match self.kind {
            Kind::Named(format) => Some(format),
            Kind::Header { .. } | Kind::Pattern(_) => None,
        }
    }

    /// Takes the address from another column.
    pub fn set_address(&mut self, column: usize) {
        (self.address, self.second_address) = (Some(column), None);
    }

    /// Whether a header of the input names the columns.
    #[must_use]
    pub fn has_header(&self) -> bool {
        matches!(self.kind, Kind::Header { .. })
    }

    fn address_by_name(&self) -> Option<usize> {
        const NAMES: [&str; 14] = [
            "remote_addr",
            "realip_remote_addr",
            "c-ip",
            "id.orig_h",
            "srcaddr",
            "remote_ip",
            "client_ip",
            "client",
            "x-forwarded-for",
            "http_x_forwarded_for",
            "src_ip",
            "tx_hosts",
            "ip",
            "src",
        ];
        NAMES
            .iter()
            .find_map(|name| self.names.iter().position(|known| known.eq_ignore_ascii_case(name)))
    }

    /// Whether a line is no record.
    #[must_use]
    pub fn passed(&self, line: &[u8]) -> Option<SkippedLine> {
        if line.is_empty() {
            return Some(SkippedLine::Empty);
        }
        let Kind::Header { line: header, .. } = &self.kind else { return None };
        if line == header.as_slice() {
            return Some(SkippedLine::Comment);
        }
        if line.first() != Some(&b'#') {
            return None;
        }
        let is_header = line.get(..7).is_some_and(|head| head.eq_ignore_ascii_case(b"#fields"));
        Some(if is_header { SkippedLine::OtherHeader } else { SkippedLine::Comment })
    }

    /// Appends the places of a line's columns, and of what stands behind them if there is anything;
    /// gives the place of the address.
    ///
    /// # Errors
    /// A line of another form. The parts are then those that were found before.
    pub fn split(
        &self,
        bytes: &[u8],
        content: Range<usize>,
        parts: &mut Vec<Range<usize>>,
        scratch: &mut Scratch,
    ) -> Result<Range<usize>, LogFault> {
        let base = parts.len();
        let mut start = content.start;
        let line = bytes.get(content.clone()).unwrap_or_default();
        if self.has_prefix {
            match prefix::of(line) {
                Some(found) => {
                    let moved = |part: Range<usize>| {
                        if part.is_empty() { ABSENT } else { start + part.start..start + part.end }
                    };
                    parts.extend([found.time, found.host, found.program].map(moved));
                    start += found.message;
                }
                None => parts.extend([ABSENT; PREFIX_NAMES.len()]),
            }
        }
        let line = bytes.get(start..content.end).unwrap_or_default();
        let found = match &self.kind {
            Kind::Named(format) => format.split(line, start, parts, &mut scratch.tokens)?,
            Kind::Header { separator, .. } => {
                cells(line, start, *separator, parts);
                if parts.len() - base != self.names.len() {
                    return Err(LogFault::WrongColumnCount);
                }
                None
            }
            Kind::Pattern(pattern) => {
                pattern.split(line, start, parts).ok_or(LogFault::NotALogLine)?;
                None
            }
        };
        if let Some(found) = found {
            return Ok(found);
        }
        let part =
            |column: Option<usize>| column.and_then(|column| parts.get(base + column)).cloned();
        let says_nothing = |part: &Range<usize>| {
            *part == ABSENT || bytes.get(part.clone()).is_some_and(|text| text == b"-")
        };
        let address = part(self.address);
        let second = || part(self.second_address);
        address
            .filter(|part| !says_nothing(part))
            .or_else(second)
            .filter(|part| *part != ABSENT)
            .ok_or(LogFault::NoAddress)
    }
}

/// The parts between separators; several blanks are one.
fn cells(line: &[u8], start: usize, separator: u8, parts: &mut Vec<Range<usize>>) {
    let mut at = 0;
    for end in memchr::memchr_iter(separator, line).chain([line.len()]) {
        if separator != b' ' || end > at {
            parts.push(start + at..start + end);
        }
        at = end + 1;
    }
}

#[cfg(test)]
#[path = "logs_tests.rs"]
mod tests;
