//! CSV rows into a [`Writer`].
//!
//! Not for other CSV layouts (MaxMind's split blocks and locations files), and not for reading
//! files. The first line names the columns:
//!
//! ```text
//! network,country.iso_code,location.latitude:double,subdivisions.0.names.en,asn:uint32
//! 192.0.2.0/24,DE,52.5,Berlin,64500
//! ```
//!
//! One column is `network` (a prefix) or `address` (a prefix of full length). Each other column is
//! a field path, with a type behind a colon: `string` (the default), `double`, `float`, `uint16`,
//! `uint32`, `uint64`, `uint128`, `int32`, `boolean` (`true`, `false`, `1`, `0`), `bytes`
//! (hexadecimal). Names that are whole numbers are array indexes, 0, 1, 2 ... without a gap. An
//! empty cell means that the field is absent; maps and array elements without any field are absent
//! too, and later elements move up. A row with nothing but a network holds an empty map.
//!
//! The header is compiled into a tree of columns once; a row walks that tree. Cost: linear in the
//! bytes. Nothing is kept between calls.
#![deny(clippy::indexing_slicing)]

use crate::MAX_DEPTH;
use crate::error::{MmdbError, shown};
use crate::path::FieldPath;
use crate::value::Value;
use crate::writer::Writer;
use csv::{ByteRecord, ReaderBuilder};
use std::fmt;
use std::net::IpAddr;
use whered_ip::Prefix;

const TYPES: &str = "string, double, float, uint16, uint32, uint64, uint128, int32, boolean, bytes";

/// A wrong cell: its line, its column, what was found and what is allowed.
///
/// ```
/// use whered_mmdb::{Writer, WriterOptions, rows};
/// let mut writer = Writer::new(WriterOptions::default())?;
/// let csv = b"network,asn:uint16\n192.0.2.0/24,64500\n192.0.3.0/24,many\n";
/// let error = rows::read_csv(csv, &mut writer).expect_err("\"many\" is no number");
/// assert_eq!((error.line(), error.column()), (3, "asn:uint16"));
/// assert_eq!(
///     error.to_string(),
///     "line 3, column asn:uint16: found \"many\"; allowed: whole numbers from 0 to 65535"
/// );
/// # Ok::<(), whered_mmdb::MmdbError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowsError {
    line: u64,
    column: String,
    found: String,
    allowed: String,
}

impl RowsError {
    /// The line on which the row begins, counted from 1; the header is usually line 1.
    #[must_use]
    pub fn line(&self) -> u64 {
        self.line
    }

    /// The column's name as it stands in the header; empty if the fault is the whole line's.
    #[must_use]
    pub fn column(&self) -> &str {
        &self.column
    }
}

impl fmt::Display for RowsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.line)?;
        if !self.column.is_empty() {
            write!(f, ", column {}", shown(&self.column))?;
        }
        write!(f, ": found {}; allowed: {}", self.found, self.allowed)
    }
}

impl std::error::Error for RowsError {}

/// Inserts every row into `writer`; returns how many rows there were.
///
/// # Errors
///
/// The first wrong cell; the rows before it are in the writer.
pub fn read_csv(bytes: &[u8], writer: &mut Writer) -> Result<u64, RowsError> {
    // Spreadsheets like to put a byte order mark in front.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut reader = ReaderBuilder::new().has_headers(false).flexible(true).from_reader(bytes);
    let mut row = ByteRecord::new();
    let mut header = None;
    let mut count = 0;
    while read_row(&mut reader, &mut row)? {
        if reader.position().byte() == bytes.len() as u64 {
            refuse_unclosed_quote(bytes, &row)?;
        }
        match &header {
            None => header = Some(Header::new(&row)?),
            Some(header) => {
                header.insert(&row, writer)?;
                count += 1;
            }
        }
    }
    match header {
        Some(_) => Ok(count),
        None => Err(RowsError {
            line: 1,
            column: String::new(),
            found: "no header".to_string(),
            allowed: "a first line that names the columns".to_string(),
        }),
    }
}

fn read_row(reader: &mut csv::Reader<&[u8]>, row: &mut ByteRecord) -> Result<bool, RowsError> {
    reader.read_byte_record(row).map_err(|error| RowsError {
        line: error.position().map_or(1, csv::Position::line),
        column: String::new(),
        found: error.to_string(),
        allowed: "comma-separated rows".to_string(),
    })
}

/// The last row must not end within quotes: the reader would take all the rest of a file as one
/// cell, however much was meant to be rows.
fn refuse_unclosed_quote(bytes: &[u8], last_row: &ByteRecord) -> Result<(), RowsError> {
    let start = last_row.position().map_or(0, csv::Position::byte);
    let text = usize::try_from(start).ok().and_then(|start| bytes.get(start..)).unwrap_or_default();
    let (mut place, mut cell) = (Within::Nothing, 1);
    for &byte in text {
        place = match (place, byte) {
            (Within::Quotes, b'"') => Within::QuotesEnd,
            (Within::Quotes, _) => Within::Quotes,
            // Behind an end of quotes it is a doubled quote: one inside them.
            (Within::Nothing | Within::QuotesEnd, b'"') => Within::Quotes,
            (_, b',' | b'\r' | b'\n') => Within::Nothing,
            _ => Within::Text,
        };
        cell += usize::from(byte == b',' && place == Within::Nothing);
    }
    if place != Within::Quotes {
        return Ok(());
    }
    Err(RowsError {
        line: line_of(last_row),
        column: String::new(),
        found: format!("a quote in cell {cell} that is never closed"),
        allowed: "a closing \"; one inside a quoted cell is doubled".to_string(),
    })
}

/// Where in a row a byte stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    /// At the beginning of a cell.
    Nothing,
    /// In a cell without quotes, where quotes are text.
    Text,
    Quotes,
    /// Behind what may be the closing quote.
    QuotesEnd,
}

fn line_of(row: &ByteRecord) -> u64 {
    row.position().map_or(1, csv::Position::line)
}

/// The type of a column's cells.
#[derive(Debug, Clone, Copy)]
enum CellType {
    String,
    Double,
    Float,
    Uint16,
    Uint32,
    Uint64,
    Uint128,
    Int32,
    Boolean,
    Bytes,
}

impl CellType {
    fn from_name(name: &str) -> Option<CellType> {
        Some(match name {
            "string" => CellType::String,
            "double" => CellType::Double,
            "float" => CellType::Float,
            "uint16" => CellType::Uint16,
            "uint32" => CellType::Uint32,
            "uint64" => CellType::Uint64,
            "uint128" => CellType::Uint128,
            "int32" => CellType::Int32,
            "boolean" => CellType::Boolean,
            "bytes" => CellType::Bytes,
            _ => return None,
        })
    }

    /// The cell's value, or what would be allowed instead.
    fn parse(self, text: &str) -> Result<Value, String> {
        let range = |low: i64, high: u128| format!("whole numbers from {low} to {high}");
        match self {
            CellType::String => Some(Value::String(text.to_string())),
            CellType::Double => {
                text.parse().ok().filter(|number: &f64| number.is_finite()).map(Value::Double)
            }
            CellType::Float => {
                text.parse().ok().filter(|number: &f32| number.is_finite()).map(Value::Float)
            }
            CellType::Uint16 => text.parse().ok().map(Value::Uint16),
            CellType::Uint32 => text.parse().ok().map(Value::Uint32),
            CellType::Uint64 => text.parse().ok().map(Value::Uint64),
            CellType::Uint128 => text.parse().ok().map(Value::Uint128),
            CellType::Int32 => text.parse().ok().map(Value::Int32),
            CellType::Boolean => match text {
                "true" | "1" => Some(Value::Boolean(true)),
                "false" | "0" => Some(Value::Boolean(false)),
                _ => None,
            },
            CellType::Bytes => parse_hex(text).map(Value::Bytes),
        }
        .ok_or_else(|| match self {
            CellType::String => "text".to_string(),
            CellType::Double | CellType::Float => "finite decimal numbers".to_string(),
            CellType::Uint16 => range(0, u128::from(u16::MAX)),
            CellType::Uint32 => range(0, u128::from(u32::MAX)),
            CellType::Uint64 => range(0, u128::from(u64::MAX)),
            CellType::Uint128 => range(0, u128::MAX),
            CellType::Int32 => range(i64::from(i32::MIN), i32::MAX as u128),
            CellType::Boolean => "true, false, 1, 0".to_string(),
            CellType::Bytes => "pairs of hexadecimal digits".to_string(),
        })
    }
}

fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = text.as_bytes().chunks(2).map(|pair| match *pair {
        [high, low] => Some((digit(high)? * 16 + digit(low)?) as u8),
        _ => None,
    });
    pairs.collect()
}

/// What a place of the records is made from.
#[derive(Debug)]
enum Template {
    Cell { column: usize, cell_type: CellType },
    Map(Vec<(String, Template)>),
    Array(Vec<Template>),
}

/// The compiled first line.
#[derive(Debug)]
struct Header {
    names: Vec<String>,
    network_column: usize,
    /// Whether the network column holds single addresses.
    is_address: bool,
    template: Template,
}

impl Header {
    fn new(row: &ByteRecord) -> Result<Header, RowsError> {
        let line = line_of(row);
        let mut names = Vec::with_capacity(row.len());
        for cell in row {
            let name = std::str::from_utf8(cell).map_err(|_| RowsError {
                line,
                column: String::from_utf8_lossy(cell).into_owned(),
                found: "a name that is no UTF-8 text".to_string(),
                allowed: "names in UTF-8".to_string(),
            })?;
            names.push(name.trim().to_string());
        }
        let fault = |column: &str, found: &str, allowed: &str| RowsError {
            line,
            column: column.to_string(),
            found: found.to_string(),
            allowed: allowed.to_string(),
        };
        let mut network = None;
        let mut template = Template::Map(Vec::new());
        for (column, name) in names.iter().enumerate() {
            if matches!(name.as_str(), "network" | "address") {
                if network.replace((column, name == "address")).is_some() {
                    return Err(fault(name, "a second such column", "one network or address"));
                }
                continue;
            }
            let (path, cell_type) = match name.rsplit_once(':') {
                None => (name.as_str(), CellType::String),
                Some((path, cell_type)) => {
                    let known = CellType::from_name(cell_type.trim());
                    let found = format!("the type \"{}\"", shown(cell_type));
                    (path, known.ok_or_else(|| fault(name, &found, TYPES))?)
                }
            };
            let path: FieldPath = path
                .parse()
                .map_err(|error: MmdbError| fault(name, &error.to_string(), "a field path"))?;
            if path.len() > MAX_DEPTH {
                let found = format!("a path of {} names", path.len());
                return Err(fault(name, &found, &format!("paths of up to {MAX_DEPTH} names")));
            }
            let segments: Vec<&str> = path.iter().collect();
            template
                .add(&segments, Template::Cell { column, cell_type })
                .map_err(|(found, allowed)| fault(name, found, allowed))?;
        }
        let Some((network_column, is_address)) = network else {
            return Err(fault("", "no such column", "a column network or address"));
        };
        Ok(Header { names, network_column, is_address, template })
    }

    fn fault(&self, row: &ByteRecord, column: usize, allowed: String) -> RowsError {
        let cell = row.get(column).unwrap_or_default();
        RowsError {
            line: line_of(row),
            column: self.names.get(column).cloned().unwrap_or_default(),
            found: format!("\"{}\"", shown(&String::from_utf8_lossy(cell))),
            allowed,
        }
    }

    fn text<'a>(&self, row: &'a ByteRecord, column: usize) -> Result<&'a str, RowsError> {
        std::str::from_utf8(row.get(column).unwrap_or_default())
            .map_err(|_| self.fault(row, column, "text in UTF-8".to_string()))
    }

    fn insert(&self, row: &ByteRecord, writer: &mut Writer) -> Result<(), RowsError> {
        if row.len() != self.names.len() {
            return Err(RowsError {
                line: line_of(row),
                column: String::new(),
                found: format!("{} cells", row.len()),
                allowed: format!("{}, one for each column", self.names.len()),
            });
        }
        let text = self.text(row, self.network_column)?.trim();
        let prefix = if self.is_address {
            text.parse::<IpAddr>().ok().and_then(|address| {
                Prefix::new(address, if address.is_ipv4() { 32 } else { 128 }).ok()
            })
        } else {
            text.parse::<Prefix>().ok()
        };
        let prefix = prefix.ok_or_else(|| {
            let allowed = if self.is_address {
                "IPv4 or IPv6 addresses"
            } else {
                "networks such as 192.0.2.0/24 or 2001:db8::/32"
            };
            self.fault(row, self.network_column, allowed.to_string())
        })?;
        let value = self.value(&self.template, row)?.unwrap_or(Value::Map(Vec::new()));
        writer.insert(prefix, value).map_err(|error| RowsError {
            line: line_of(row),
            column: self.names.get(self.network_column).cloned().unwrap_or_default(),
            found: error.to_string(),
            allowed: "rows that the writer takes".to_string(),
        })
    }

    /// What the row says of a place; `None` if all its cells are empty.
    fn value(&self, template: &Template, row: &ByteRecord) -> Result<Option<Value>, RowsError> {
        match template {
            Template::Cell { column, cell_type } => {
                let text = self.text(row, *column)?;
                if text.is_empty() {
                    return Ok(None);
                }
                let value = cell_type.parse(text);
                value.map(Some).map_err(|allowed| self.fault(row, *column, allowed))
            }
            Template::Map(entries) => {
                let mut pairs = Vec::with_capacity(entries.len());
                for (key, entry) in entries {
                    if let Some(value) = self.value(entry, row)? {
                        pairs.push((key.clone(), value));
                    }
                }
                Ok((!pairs.is_empty()).then_some(Value::Map(pairs)))
            }
            Template::Array(entries) => {
                let mut values = Vec::with_capacity(entries.len());
                for entry in entries {
                    values.extend(self.value(entry, row)?);
                }
                Ok((!values.is_empty()).then_some(Value::Array(values)))
            }
        }
    }
}

impl Template {
    /// Puts a column at its path; on failure says what was found and what is allowed.
    fn add(&mut self, path: &[&str], cell: Template) -> Result<(), (&'static str, &'static str)> {
        let Some((first, rest)) = path.split_first() else {
            return Err(("an empty name", "field paths"));
        };
        let next = |rest: &[&str]| match rest.first() {
            None => None,
            Some(name) if is_index(name) => Some(Template::Array(Vec::new())),
            Some(_) => Some(Template::Map(Vec::new())),
        };
        let entry = match self {
            Template::Cell { .. } => {
                return Err(("a path through another column's value", "paths beside each other"));
            }
            Template::Map(_) | Template::Array(_) if is_index(first) != self.is_array() => {
                return Err(("a name and an index at one place", "names only, or indexes only"));
            }
            Template::Map(entries) => {
                let position = entries.iter().position(|(key, _)| key == first);
                match position {
                    Some(position) => entries.get_mut(position).map(|(_, entry)| entry),
                    None => match next(rest) {
                        None => {
                            entries.push(((*first).to_string(), cell));
                            return Ok(());
                        }
                        Some(entry) => {
                            entries.push(((*first).to_string(), entry));
                            entries.last_mut().map(|(_, entry)| entry)
                        }
                    },
                }
            }
            Template::Array(entries) => {
                let index = first.parse::<usize>().unwrap_or(usize::MAX);
                if index > entries.len() {
                    return Err(("an array index out of order", "0, 1, 2 ... without a gap"));
                }
                if index == entries.len() {
                    match next(rest) {
                        None => {
                            entries.push(cell);
                            return Ok(());
                        }
                        Some(entry) => entries.push(entry),
                    }
                }
                entries.get_mut(index)
            }
        };
        match entry {
            Some(entry) if !rest.is_empty() => entry.add(rest, cell),
            _ => Err(("a field that another column holds too", "each field once")),
        }
    }

    fn is_array(&self) -> bool {
        matches!(self, Template::Array(_))
    }
}

fn is_index(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;
