//! Rows of text into a [`Writer`]: CSV and NDJSON.
//!
//! Not for other layouts (MaxMind's split blocks and locations files), and not for opening files.
//! A row is a network and its record. Input is read as a stream: nothing of it is kept but the row
//! at hand.
//!
//! **CSV.** The first line names the columns:
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
//! Cost: linear in the bytes. Nothing is kept between calls.
#![deny(clippy::indexing_slicing)]

mod cell;
mod csv;
mod json;
mod ndjson;

use crate::error::shown;
use crate::value::Value;
use crate::writer::Writer;
use std::fmt;
use std::io::{BufReader, Read};
use whered_ip::Prefix;

/// How rows are written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowsFormat {
    /// Comma-separated values behind a line that names the columns.
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

    /// The line on which the row begins, counted from 1; a CSV header is usually line 1.
    #[must_use]
    pub fn line(&self) -> u64 {
        self.line
    }

    /// In CSV the column's name as it stands in the header, in NDJSON the byte of the line, counted
    /// from 1; empty if the fault is the whole line's.
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
    match format {
        RowsFormat::Csv => csv::read(input, writer),
        RowsFormat::Ndjson => ndjson::read(BufReader::with_capacity(1 << 16, input), writer),
    }
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

/// Inserts a row whose network stands in `column`.
fn insert(
    writer: &mut Writer,
    prefix: Prefix,
    value: Value,
    line: u64,
    column: &dyn fmt::Display,
) -> Result<(), RowsError> {
    writer
        .insert(prefix, value)
        .map_err(|error| RowsError::new(line, column.to_string(), error.found(), error.allowed()))
}
