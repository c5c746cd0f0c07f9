//! What an input is: its format, whether a header stands first, and where the address is; from its
//! first bytes, as far as the flags do not say it.
//!
//! Not for reading: the caller has the first records in memory. Only the first
//! [`RECORDS_LOOKED_AT`] are looked at, so an input whose addresses begin later wants `--column`.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use serde_json::{Map, Value};
use whered_ip::text::{ListChoice, read_list};

use super::split::csv::cell_text;
use super::split::json::{self, MemberPath};
use super::split::{Fault, Scratch, Shape, csv, last_record_end, line_end, record_end, split};
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
    /// The members of the first objects; none but for JSON.
    pub(crate) members: Vec<String>,
}

impl Layout {
    fn new(shape: Shape, names: Vec<String>) -> Layout {
        Layout { shape, names, header_bytes: 0, cut_bytes: 0, members: Vec::new() }
    }

    /// How many bytes a first line of a file takes that a rotation has cut: it is no record, and
    /// the line behind it is one. Zero if it was not cut.
    pub(crate) fn cut_bytes(&self, bytes: &[u8]) -> usize {
        if self.header_bytes > 0 {
            return 0;
        }
        let mut ends = (record_end(&self.shape, bytes, 0, true))
            .and_then(|first| Some((first, record_end(&self.shape, bytes, first.next, true)?)));
        ends = ends.filter(|(first, _)| first.next < bytes.len());
        let Some((first, second)) = ends else { return 0 };
        let fault = |content: Range<usize>| {
            let mut parts = Vec::new();
            let scratch = &mut Scratch::default();
            let fault = split(&self.shape, bytes, content, &mut parts, scratch).err();
            (fault, parts.len())
        };
        let (of_first, first_parts) = fault(0..first.content);
        let (of_second, second_parts) = fault(first.next..second.content);
        let is_record = match of_second {
            None | Some(Fault::NoAddress | Fault::NoSuchMember) => true,
            Some(_) => false,
        };
        let is_cut = match of_first {
            Some(Fault::WrongColumnCount) => first_parts < second_parts,
            Some(Fault::NotALogLine | Fault::UnendedQuote | Fault::NotAJsonObject) => true,
            _ => false,
        };
        let passed = |content: Range<usize>| match &self.shape {
            Shape::Columns(columns) => {
                columns.passed(bytes.get(content).unwrap_or_default()).is_some()
            }
            _ => false,
        };
        let second_passes = passed(first.next..second.content);
        let is_whole = passed(0..first.content) || !is_cut;
        if !is_whole && (is_record || second_passes) { first.next } else { 0 }
    }
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
        return columns_layout(wishes, Columns::of_pattern(pattern), bytes);
    }
    if wishes.anywhere {
        return columns_layout(wishes, Columns::named(LogFormat::Anywhere, false), bytes);
    }
    let named = |format: LogFormat| columns_layout(wishes, logs::named(format, &texts), bytes);
    let format = match wishes.format {
        Some(format) => format,
        None => match format_of(first) {
            format @ (InputFormat::Csv | InputFormat::Tsv) => {
                // A first line that was cut may be of no format.
                let second = texts.get(1).copied().unwrap_or_default();
                match (format_of(second), logs::detect(&texts)) {
                    (behind @ (InputFormat::Combined | InputFormat::Ndjson), _) => behind,
                    (_, Some(columns)) => return columns_layout(wishes, columns, bytes),
                    (_, None) => format,
                }
            }
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
            columns_layout(wishes, columns, bytes)
        }
        InputFormat::Vpc => match logs::by_header(&texts) {
            Some(columns) => columns_layout(wishes, columns, bytes),
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
        InputFormat::Iptables => named(LogFormat::Netfilter),
        InputFormat::Syslog => named(LogFormat::Sshd),
    }
}

/// A log of `whered_capture`'s: the column of the address, and whether the first line was cut.
fn columns_layout(
    wishes: &Wishes<'_>,
    mut columns: Columns,
    bytes: &[u8],
) -> Result<Layout, String> {
    if let Some(column) = wishes.column {
        let names = columns.names();
        let at = names.iter().position(|name| name == column);
        let at = at.or_else(|| numbered(column, names.len()));
        columns.set_address(at.ok_or_else(|| unknown_column(column, names, "column"))?);
    }
    let mut names = columns.names().to_vec();
    names.push(log::REST.to_owned());
    let mut layout = Layout::new(Shape::Columns(Arc::new(columns)), names);
    layout.cut_bytes = layout.cut_bytes(bytes);
    Ok(layout)
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
    let mut layout = Layout::new(shape, names);
    layout.cut_bytes = layout.cut_bytes(bytes);
    Ok(layout)
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
        return Ok(Layout::new(shape, vec!["address".to_owned()]));
    };
    if wishes.header != HeaderChoice::Yes && is_first_cut(&rows.cells) {
        let rest = bytes.get(rows.second..).unwrap_or_default();
        let layout = cell_layout(wishes, rest, is_all, delimiter)?;
        return Ok(Layout { cut_bytes: rows.second, ..layout });
    }
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
    let header_bytes = if has_header { rows.second } else { 0 };
    Ok(Layout { header_bytes, ..Layout::new(shape, names) })
}

/// Whether the first row has fewer cells than all others, of which there are two or more.
fn is_first_cut(rows: &[Vec<Vec<u8>>]) -> bool {
    let [first, second, rest @ ..] = rows else { return false };
    let has_all = |row: &Vec<Vec<u8>>| row.len() == second.len();
    first.len() < second.len() && !rest.is_empty() && rest.iter().all(has_all)
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
    let layout = |member: &[u8]| {
        let shape = Shape::Ndjson { member: MemberPath::new(member) };
        let mut layout = Layout::new(shape, Vec::new());
        layout.cut_bytes = layout.cut_bytes(bytes);
        layout.members = members_of(bytes);
        layout
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

/// The names of the members of the first objects, in the order in which they come.
fn members_of(bytes: &[u8]) -> Vec<String> {
    let mut members: Vec<String> = Vec::new();
    let mut known = HashSet::new();
    for line in first_lines(bytes) {
        let line = bytes.get(line).unwrap_or_default();
        let object: Result<Map<String, Value>, _> = serde_json::from_slice(line);
        for (name, _) in object.into_iter().flatten() {
            if known.insert(name.clone()) {
                members.push(name);
            }
        }
    }
    members
}

#[cfg(test)]
#[path = "detect_tests.rs"]
mod tests;
