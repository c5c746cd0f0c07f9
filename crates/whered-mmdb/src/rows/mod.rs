//! Rows of text into a [`Writer`]: tables (CSV, TSV ...) and NDJSON.
//!
//! Not for opening files. A row is a network and its record. Input is read as a stream: nothing of
//! it is kept but the row at hand and the distinct records.
//!
//! ```text
//! text ─ table ─> cells ─ span ──────────────────────────────> prefixes ──> Writer
//!                   └──── template, or Blocks and Locations ─> record ─────────┘
//! ```
//!
//! **Tables.** The first line names the columns, in any case:
//!
//! ```text
//! network,country.iso_code,location.latitude:double,subdivisions.0.names.en,asn:uint32
//! 192.0.2.0/24,DE,52.5,Berlin,64500
//! ```
//!
//! One column is `network` (a prefix, an address or a range), `address` (one address), or one of
//! the other usual names; two columns may be the ends of a range. Each other column is
//! a field path, with a type behind a colon: `string`, `double`, `float`, `uint16`,
//! `uint32`, `uint64`, `uint128`, `int32`, `boolean` (`true`, `false`, `1`, `0`), `bytes`
//! (hexadecimal). A column without a type gets the one that all its cells fit, over all tables.
//! Names that are whole numbers are array indexes, 0, 1, 2 ... without a gap. An
//! empty cell means that the field is absent; maps and array elements without any field are absent
//! too, and later elements move up. A row with nothing but a network holds an empty map. Tables
//! without a header get names from the caller, or from a [`Layout`] that is known.
//!
//! **NDJSON.** One object a line, with a member `network` or `address`, in one of three forms:
//!
//! ```text
//! {"network":"192.0.2.0/24","country.iso_code":"DE","asn:uint16":64500}
//! {"network":"192.0.2.0/24","record":{"country":{"iso_code":"DE"},"asn":64500}}
//! {"network":"192.0.2.0/24","typed_record":{"country":{"iso_code":"DE"},"asn":{"#uint16":64500}}}
//! ```
//!
//! 1. Every other member is a field: its name is a path with an optional type, as a CSV column.
//! 2. `record` is the whole record, and its names are taken as they are.
//! 3. `typed_record` is the same with types: an object with one member `#type` is a value of that
//!    type; a name that begins with `#` has one more in front. It loses nothing, and is what
//!    [`crate::Database::write_typed_record_json`] writes.
//!
//! Where no type is given, a JSON string is a string and `true` and `false` are booleans; a number
//! with a point or exponent is a double; a whole number is a uint32, a uint64 or a uint128,
//! whichever holds it first, and a negative one an int32. `null` means that the field is absent.
//!
//! A JSON array of such objects is read as well, on one line or on many.
//!
//! `{"metadata":{...}}` in a line of its own says what the file shall state of itself
//! ([`RowsMetadata`]); in a table it is a comment, `# {"metadata":{...}}`.
//!
//! Cost: linear in the bytes.
#![deny(clippy::indexing_slicing)]

mod array;
mod cell;
mod columns;
mod delegated;
mod geolite;
mod guess;
mod json;
mod layouts;
mod loader;
mod metadata;
mod ndjson;
mod span;
mod table;
mod template;

pub use layouts::Layout;
pub use loader::{Header, RowsLoader, RowsOptions, RowsSummary};
pub use metadata::RowsMetadata;

use crate::error::{MmdbError, shown};
use crate::path::FieldPath;
use crate::value::Value;
use crate::writer::Writer;
use std::fmt;
use std::io::Read;
use whered_ip::Prefix;

/// How rows are written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowsFormat {
    /// Delimited text: CSV, TSV and their like.
    Csv,
    /// One JSON object a line.
    Ndjson,
}

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
    fn new(
        line: u64,
        column: impl Into<String>,
        found: impl Into<String>,
        allowed: impl Into<String>,
    ) -> RowsError {
        let (column, found, allowed) = (column.into(), found.into(), allowed.into());
        RowsError { line, column, found, allowed }
    }

    /// The network of a row that the writer refuses.
    fn refused(line: u64, column: impl Into<String>, error: &MmdbError) -> RowsError {
        RowsError::new(line, column, error.found(), error.allowed())
    }

    /// The line on which the row begins, counted from 1; a CSV header is usually line 1.
    #[must_use]
    pub fn line(&self) -> u64 {
        self.line
    }

    /// In CSV the column's name as it stands in the header, in NDJSON the byte of the line,
    /// counted from 1; empty if the fault is the whole line's.
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

/// Inserts every row of `input` into `writer`; returns how many rows there were.
///
/// # Errors
///
/// The first wrong cell, or a fault of the input, which has the line that was being read; the rows
/// before it are in the writer.
///
/// ```
/// use whered_mmdb::{Writer, WriterOptions, rows};
/// let mut writer = Writer::new(WriterOptions::default())?;
/// let lines = "{\"network\":\"192.0.2.0/24\",\"record\":{\"asn\":64500}}\n";
/// let count = rows::read(rows::RowsFormat::Ndjson, lines.as_bytes(), &mut writer)?;
/// assert_eq!(count, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read(format: RowsFormat, input: impl Read, writer: &mut Writer) -> Result<u64, RowsError> {
    let options = RowsOptions { format: Some(format), ..RowsOptions::default() };
    let mut loader = RowsLoader::new(options, writer);
    let read = loader.read("", input);
    // What was read before a fault is in the writer.
    let summary = loader.finish();
    read.and(summary).map(|summary| summary.rows)
}

/// As [`read`], of CSV in memory.
///
/// # Errors
///
/// As [`read`].
pub fn read_csv(bytes: &[u8], writer: &mut Writer) -> Result<u64, RowsError> {
    read(RowsFormat::Csv, bytes, writer)
}

/// As [`read`], of NDJSON in memory.
///
/// # Errors
///
/// As [`read`].
pub fn read_ndjson(bytes: &[u8], writer: &mut Writer) -> Result<u64, RowsError> {
    read(RowsFormat::Ndjson, bytes, writer)
}

/// The field and value of `PATH=VALUE` or `PATH:TYPE=VALUE`; without a type, the value has the
/// type that its text fits.
///
/// ```
/// use whered_mmdb::{Value, rows::parse_assignment};
/// let (path, value) = parse_assignment("asn:uint16=64500")?;
/// assert_eq!((path.to_string().as_str(), value), ("asn", Value::Uint16(64500)));
/// # Ok::<(), String>(())
/// ```
///
/// # Errors
///
/// One line: what was found and what is allowed.
pub fn parse_assignment(text: &str) -> Result<(FieldPath, Value), String> {
    let refuse = |found: &str, allowed: &str| format!("found {found}; allowed: {allowed}");
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| refuse(&format!("\"{}\"", shown(text)), "PATH=VALUE or PATH:TYPE=VALUE"))?;
    let (path, cell_type) =
        cell::parse_name(name).map_err(|(found, allowed)| refuse(&found, &allowed))?;
    let cell_type = cell_type.unwrap_or_else(|| {
        let mut guess = guess::Guess::new(&path);
        guess.note(value);
        guess.cell_type()
    });
    let parsed = cell_type.parse(value);
    let value = parsed.map_err(|allowed| refuse(&format!("\"{}\"", shown(value)), &allowed))?;
    Ok((path, value))
}

/// The name of the column or member with the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NetworkName {
    /// A prefix.
    Network,
    /// One address.
    Address,
}

impl NetworkName {
    fn from_name(name: &str) -> Option<NetworkName> {
        match name {
            "network" => Some(NetworkName::Network),
            "address" => Some(NetworkName::Address),
            _ => None,
        }
    }

    /// The network of a text, or what would be allowed instead.
    fn parse(self, text: &str) -> Result<Prefix, &'static str> {
        let text = text.trim();
        match self {
            NetworkName::Network => {
                let network: Result<Prefix, _> = text.parse();
                // A lookup of such an address is a lookup of the IPv4 address in it.
                let network = network.map(Prefix::to_canonical);
                network.map_err(|_| "networks such as 192.0.2.0/24 or 2001:db8::/32")
            }
            NetworkName::Address => whered_ip::text::read(text.as_bytes())
                .map(Prefix::from)
                .ok_or("IPv4 or IPv6 addresses"),
        }
    }
}
