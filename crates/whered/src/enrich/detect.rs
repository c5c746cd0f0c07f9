//! What an input is: its format, whether a header stands first, and where the address is; from its
//! first bytes, as far as the flags do not say it.
//!
//! Not for reading: the caller has the first records in memory. Only the first
//! [`RECORDS_LOOKED_AT`] are looked at, so an input whose addresses begin later wants `--column`.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use whered_ip::text::{ListChoice, read_list};

use super::split::csv::cell_text;
use super::split::json::{self, MemberPath};
use super::split::{Shape, csv, last_record_end, line_end, record_end};
use crate::cli::{HeaderChoice, InputFormat};
use whered_capture::logs::{self, Columns, LogFormat, Pattern, access as log};

/// How many records decide.
const RECORDS_LOOKED_AT: usize = 100;
/// How many columns or members a message lists.
const NAMES_SHOWN_MAX: usize = 20;

/// Names of columns and members that hold a client's address, the surest first.
pub(crate) const ADDRESS_NAMES: [&str; 36] = [
    "ip",
    "ip_address",
    "ipaddress",
    "ip_addr",
    "address",
    "addr",
    "client_ip",
    "clientip",
    "client.ip",
    "client_addr",
    "remote_addr",
    "remote_ip",
    "remoteip",
    "remote_address",
    "source.ip",
    "source_ip",
    "src_ip",
    "srcip",
    "src",
    "source",
    "c-ip",
    "host",
    "clientaddress",
    "x_forwarded_for",
    "x-forwarded-for",
    "sourceipaddress",
    "httprequest.remoteip",
    "jsonpayload.connection.src_ip",
    "protopayload.requestmetadata.callerip",
    "calleripaddress",
    "properties.clientip",
    "properties.calleripaddress",
    "httprequest.clientip",
    "remotehost",
    "id.orig_h",
    "srcaddr",
];

/// What the flags say.
pub(crate) struct Wishes<'a> {
    pub(crate) format: Option<InputFormat>,
    pub(crate) column: Option<&'a str>,
    pub(crate) header: HeaderChoice,
    /// A format string of nginx or Apache.
    pub(crate) pattern: Option<&'a str>,
    /// Whether the address is anywhere in a line.
    pub(crate) anywhere: bool,
}

/// What an input is.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) shape: Shape,
    /// The names of the parts; none for JSON.
    pub(crate) names: Vec<String>,
    /// How many bytes the header takes, its line end among them; zero without one.
    pub(crate) header_bytes: usize,
    /// The bytes of a first line that a rotation has cut.
    pub(crate) cut_bytes: usize,
}

/// Finds it out from the input's first bytes, which are all of it when `is_all`.
///
/// # Errors
/// What cannot be found out, and which flag would say it.
pub(crate) fn detect(wishes: &Wishes<'_>, bytes: &[u8], is_all: bool) -> Result<Layout, String> {
    let first = line_end(bytes, 0, true).map_or(0, |end| end.content);
    let first = bytes.get(..first).unwrap_or_default();
    let lines = first_lines(bytes);
    let texts: Vec<&[u8]> =
        lines.iter().map(|line| bytes.get(line.clone()).unwrap_or_default()).collect();
    if let Some(pattern) = wishes.pattern {
        let pattern = Pattern::new(pattern).map_err(|what| format!("--pattern: {what}"))?;
        return columns_layout(wishes, Columns::of_pattern(pattern), bytes, &lines);
    }
    if wishes.anywhere {
        return columns_layout(wishes, Columns::named(LogFormat::Anywhere, false), bytes, &lines);
    }
    let named =
        |format: LogFormat| columns_layout(wishes, logs::named(format, &texts), bytes, &lines);
    let format = match wishes.format {
        Some(format) => format,
        None => match format_of(first) {
            format @ (InputFormat::Csv | InputFormat::Tsv) => match logs::detect(&texts) {
                Some(columns) => return columns_layout(wishes, columns, bytes, &lines),
                None => format,
            },
            format => format,
        },
    };
    match format {
        InputFormat::Combined => log_layout(wishes, bytes),
        InputFormat::Csv => cell_layout(wishes, bytes, is_all, delimiter_of(first)),
        InputFormat::Tsv => cell_layout(wishes, bytes, is_all, b'\t'),
        InputFormat::Psv => cell_layout(wishes, bytes, is_all, b'|'),
        InputFormat::Ndjson => json_layout(wishes, bytes),
        InputFormat::Parquet => Err("is no Parquet file".to_owned()),
        InputFormat::W3c | InputFormat::Cloudfront | InputFormat::Zeek => {
            let columns = logs::by_header(&texts).ok_or(
                "no line of the first ones names the columns; allowed: #Fields: or #fields",
            )?;
            columns_layout(wishes, columns, bytes, &lines)
        }
        InputFormat::Vpc => match logs::by_header(&texts) {
            Some(columns) => columns_layout(wishes, columns, bytes, &lines),
            None => named(LogFormat::Vpc),
        },
        InputFormat::Alb => named(LogFormat::Alb),
        InputFormat::Elb => named(LogFormat::Elb),
        InputFormat::S3 => named(LogFormat::S3),
        InputFormat::Haproxy => named(LogFormat::Haproxy),
        InputFormat::Squid => named(LogFormat::Squid),
        InputFormat::Envoy => named(LogFormat::Envoy),
        InputFormat::Istio => named(LogFormat::Istio),
        InputFormat::NginxError => named(LogFormat::NginxError),
        InputFormat::Syslog => named(LogFormat::Sshd),
    }
}

/// A log of `whered_capture`'s: the column of the address, and whether the first line was cut.
fn columns_layout(
    wishes: &Wishes<'_>,
    mut columns: Columns,
    bytes: &[u8],
    lines: &[Range<usize>],
) -> Result<Layout, String> {
    if let Some(column) = wishes.column {
        let names = columns.names();
        let at = names.iter().position(|name| name == column);
        let at = at.or_else(|| numbered(column, names.len()));
        columns.set_address(at.ok_or_else(|| unknown_column(column, names, "column"))?);
    }
    let mut scratch = logs::Scratch::default();
    let mut is_record = |line: &Range<usize>| {
        let text = bytes.get(line.clone()).unwrap_or_default();
        let split = columns.split(bytes, line.clone(), &mut Vec::new(), &mut scratch);
        columns.passed(text).is_some()
            || !matches!(split, Err(fault) if fault != logs::LogFault::NoAddress)
    };
    let cut_bytes = match lines {
        [first, second, ..] if !is_record(first) && is_record(second) => second.start,
        _ => 0,
    };
    let mut names = columns.names().to_vec();
    names.push(log::REST.to_owned());
    Ok(Layout { shape: Shape::Columns(Arc::new(columns)), names, header_bytes: 0, cut_bytes })
}

fn format_of(line: &[u8]) -> InputFormat {
    let is_log = [false, true].iter().any(|&has_virtual_host| {
        log::split(line, 0..line.len(), has_virtual_host, &mut Vec::new()).is_ok()
    });
    if line.trim_ascii_start().starts_with(b"{") {
        InputFormat::Ndjson
    } else if is_log {
        InputFormat::Combined
    } else if line.contains(&b'\t') {
        InputFormat::Tsv
    } else {
        InputFormat::Csv
    }
}

fn delimiter_of(line: &[u8]) -> u8 {
    [b',', b';', b'|'].into_iter().find(|delimiter| line.contains(delimiter)).unwrap_or(b',')
}

/// The first lines' places.
fn first_lines(bytes: &[u8]) -> Vec<Range<usize>> {
    let (mut lines, mut start) = (Vec::new(), 0);
    while start < bytes.len() && lines.len() < RECORDS_LOOKED_AT {
        let Some(end) = line_end(bytes, start, true) else { break };
        lines.push(start..end.content);
        start = end.next;
    }
    lines
}

fn log_layout(wishes: &Wishes<'_>, bytes: &[u8]) -> Result<Layout, String> {
    let lines = first_lines(bytes);
    let is_only_with_host = |line: &Range<usize>| {
        let is_log = |has_host| log::split(bytes, line.clone(), has_host, &mut Vec::new()).is_ok();
        !is_log(false) && is_log(true)
    };
    // One line with a virtual host is enough: those without have none.
    let has_virtual_host = lines.iter().any(is_only_with_host);
    let usual = usize::from(has_virtual_host);
    let mut names: Vec<String> = Vec::new();
    names.extend(has_virtual_host.then(|| log::VIRTUAL_HOST.to_owned()));
    names.extend(log::NAMES.iter().chain([&log::REST]).map(ToString::to_string));
    let address_part = match wishes.column {
        None => usual,
        Some(column) => {
            let last = names.len() - 1;
            numbered(column, last)
                .or_else(|| names.iter().position(|name| name == column))
                .ok_or_else(|| unknown_column(column, &names, "part"))?
        }
    };
    let shape = Shape::Log { has_virtual_host, address_part };
    Ok(Layout { shape, names, header_bytes: 0, cut_bytes: 0 })
}

/// A number from 1 on as a place.
pub(crate) fn numbered(column: &str, count: usize) -> Option<usize> {
    column.parse::<usize>().ok()?.checked_sub(1).filter(|&place| place < count)
}

pub(crate) fn unknown_column(column: &str, names: &[String], what: &str) -> String {
    let shown: Vec<&str> = names.iter().take(NAMES_SHOWN_MAX).map(String::as_str).collect();
    let more = if names.len() > shown.len() { ", ..." } else { "" };
    format!(
        "--column {}: no such {what}; allowed: 1 to {} or {}{more}",
        column.escape_debug(),
        names.len(),
        shown.join(", ").escape_debug(),
    )
}

/// CSV and TSV: the rows that are looked at have been split already.
struct Rows {
    cells: Vec<Vec<Vec<u8>>>,
    /// Where the second row begins.
    second: usize,
}

fn first_rows(bytes: &[u8], is_all: bool, delimiter: u8) -> Rows {
    let shape = cell_shape(delimiter, 0, 0);
    let whole = if is_all { bytes.len() } else { last_record_end(&shape, bytes) };
    let bytes = bytes.get(..whole).unwrap_or_default();
    let (mut rows, mut start) = (Rows { cells: Vec::new(), second: 0 }, 0);
    while start < bytes.len() && rows.cells.len() < RECORDS_LOOKED_AT {
        let Some(end) = record_end(&shape, bytes, start, true) else { break };
        let (mut parts, mut scratch) = (Vec::new(), Vec::new());
        if delimiter == b'\t' {
            csv::split_unquoted(bytes, start..end.content, delimiter, &mut parts);
        } else {
            // A row that cannot be split has no cells to look at.
            let _ = csv::split(bytes, start..end.content, delimiter, &mut parts);
        }
        let cells = parts.into_iter().map(|part| {
            let cell = bytes.get(part).unwrap_or_default();
            if delimiter == b'\t' { cell.to_vec() } else { cell_text(cell, &mut scratch).to_vec() }
        });
        rows.cells.push(cells.collect());
        start = end.next;
        if rows.cells.len() == 1 {
            rows.second = start;
        }
    }
    rows
}

fn cell_shape(delimiter: u8, column_count: usize, address_column: usize) -> Shape {
    match delimiter {
        b'\t' => Shape::Tsv { column_count, address_column },
        _ => Shape::Csv { delimiter, column_count, address_column },
    }
}

fn is_address(text: &[u8]) -> bool {
    read_list(text, ListChoice::First).is_some()
}

fn cell_layout(
    wishes: &Wishes<'_>,
    bytes: &[u8],
    is_all: bool,
    delimiter: u8,
) -> Result<Layout, String> {
    let rows = first_rows(bytes, is_all, delimiter);
    let first = rows.cells.first().filter(|_| !bytes.trim_ascii().is_empty());
    let Some(first) = first else {
        let shape = cell_shape(delimiter, 1, 0);
        return Ok(Layout {
            shape,
            names: vec!["address".to_owned()],
            header_bytes: 0,
            cut_bytes: 0,
        });
    };
    let has_header = match wishes.header {
        HeaderChoice::Yes => true,
        HeaderChoice::No => false,
        HeaderChoice::Auto => !first.iter().any(|cell| is_address(cell)),
    };
    let names: Vec<String> = if has_header {
        first.iter().map(|cell| String::from_utf8_lossy(cell).into_owned()).collect()
    } else {
        (1..=first.len()).map(|number| format!("column_{number}")).collect()
    };
    let data = rows.cells.get(usize::from(has_header)..).unwrap_or_default();
    let address_column = match wishes.column {
        Some(column) => names
            .iter()
            .position(|name| name == column)
            .or_else(|| numbered(column, names.len()))
            .ok_or_else(|| unknown_column(column, &names, "column"))?,
        None => address_column(&names, data).ok_or_else(|| {
            let shown: Vec<&str> = names.iter().take(NAMES_SHOWN_MAX).map(String::as_str).collect();
            let shown = shown.join(", ");
            let shown = shown.escape_debug();
            format!("no column holds IP addresses; name one by --column; there are: {shown}")
        })?,
    };
    let shape = cell_shape(delimiter, names.len(), address_column);
    Ok(Layout {
        shape,
        names,
        header_bytes: if has_header { rows.second } else { 0 },
        cut_bytes: 0,
    })
}

/// The column whose name says so; otherwise the first that holds an address.
fn address_column(names: &[String], rows: &[Vec<Vec<u8>>]) -> Option<usize> {
    let holds_one =
        |column: usize| rows.iter().any(|row| row.get(column).is_some_and(|cell| is_address(cell)));
    let by_name = || {
        ADDRESS_NAMES.iter().find_map(|wanted| {
            names.iter().position(|name| name.trim().eq_ignore_ascii_case(wanted))
        })
    };
    match by_name() {
        // A column named "host" may hold names.
        Some(column) if rows.is_empty() || holds_one(column) => Some(column),
        named => (0..names.len()).find(|&column| holds_one(column)).or(named),
    }
}

fn json_layout(wishes: &Wishes<'_>, bytes: &[u8]) -> Result<Layout, String> {
    let layout = |member: &[u8]| Layout {
        shape: Shape::Ndjson { member: MemberPath::new(member) },
        names: Vec::new(),
        header_bytes: 0,
        cut_bytes: 0,
    };
    if let Some(column) = wishes.column {
        return Ok(layout(column.as_bytes()));
    }
    let lines = first_lines(bytes);
    if lines.is_empty() {
        return Ok(layout(b"ip"));
    }
    // Every member that held an address, in the order in which they were met.
    let mut members: Vec<Vec<u8>> = Vec::new();
    for line in lines {
        let mut names = Vec::new();
        json::each_text(bytes, line, &mut names, |names, text| {
            let text = bytes.get(text.clone()).unwrap_or_default();
            if json::read_value(text, ListChoice::First).is_none() {
                return;
            }
            let decoded = |name: &Range<usize>| bytes.get(name.clone()).map(json::decoded);
            let names: Vec<Cow<'_, [u8]>> = names.iter().filter_map(decoded).collect();
            let member = names.join(&b'.');
            if !members.contains(&member) {
                members.push(member);
            }
        });
    }
    let by_name = ADDRESS_NAMES.iter().find_map(|wanted| {
        members.iter().find(|member| member.eq_ignore_ascii_case(wanted.as_bytes()))
    });
    by_name.or(members.first()).map(|member| layout(member)).ok_or_else(|| {
        "no member of the first lines holds an IP address; name one by --column".to_owned()
    })
}

#[cfg(test)]
#[path = "detect_tests.rs"]
mod tests;
