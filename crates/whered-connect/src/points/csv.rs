//! Tables: rows whose columns are named, numbered, or known by position.
//!
//! Not for quoting and line ends, which are the `csv` crate's. The delimiter of CSV is the one of
//! `,`, `;`, tab and `|` of which the first line has most outside of quotes. Columns that are not
//! named by the caller are found by the header's usual names (`names`); a geometry also by the
//! first row's cell. There is no header where all columns are given by number and the first row has
//! a place in them, and in the files of GeoNames.

use std::borrow::Cow;
use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

use csv::{ByteRecord, ReaderBuilder, Terminator};

use super::input::Input;
use super::sample::{Candidates, Position, Rows};
use super::sink::Sink;
use super::{Format, LoadOptions, RECORD_BYTES_MAX, Spot, names, wkt};
use crate::error::ConnectError;

/// The delimiters that are recognized, the likeliest first.
const DELIMITERS: &[u8] = b",;\t|";

/// The columns of GeoNames' files (its `readme.txt`), which have no header.
const GEONAMES: [&str; 19] = [
    "geonameid",
    "name",
    "asciiname",
    "alternatenames",
    "latitude",
    "longitude",
    "feature class",
    "feature code",
    "country code",
    "cc2",
    "admin1 code",
    "admin2 code",
    "admin3 code",
    "admin4 code",
    "population",
    "elevation",
    "dem",
    "timezone",
    "modification date",
];

/// Whether a text begins with a row of GeoNames.
pub(super) fn is_geonames(text: &[u8]) -> bool {
    let line = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let cells: Vec<&[u8]> = line.split(|&byte| byte == b'\t').collect();
    let is_degree = |column: usize, most: f64| {
        let cell = cells.get(column).and_then(|cell| std::str::from_utf8(cell).ok());
        cell.and_then(|cell| cell.parse().ok()).is_some_and(|degrees: f64| degrees.abs() <= most)
    };
    let is_number = |cell: &&[u8]| !cell.is_empty() && cell.iter().all(u8::is_ascii_digit);
    cells.len() == GEONAMES.len()
        && cells.first().is_some_and(is_number)
        && is_degree(4, 90.0)
        && is_degree(5, 180.0)
}

/// Where a row has its place, counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PositionColumns {
    Two { longitude: usize, latitude: usize },
    Geometry(usize),
}

/// Ends a record that a quote without its partner would stretch to the end of the file.
struct RecordLimitReader<'a> {
    input: &'a mut Input,
    /// Bytes read since the last record.
    since_record: Rc<Cell<usize>>,
}

impl Read for RecordLimitReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.since_record.get() > RECORD_BYTES_MAX {
            let most = RECORD_BYTES_MAX >> 20;
            return Err(io::Error::other(format!(
                "a record of more than {most} MiB; allowed: less"
            )));
        }
        let read = self.input.read(buffer)?;
        self.since_record.set(self.since_record.get() + read);
        Ok(read)
    }
}

/// Reads all rows into the sink.
pub(super) fn read(
    input: &mut Input,
    format: Format,
    options: &LoadOptions,
    sink: &mut Sink<'_>,
) -> Result<(), ConnectError> {
    let delimiter = match (options.delimiter, format) {
        (Some(delimiter), _) => delimiter,
        (None, Format::Csv) => delimiter(input.peek()?),
        (None, _) => b'\t',
    };
    let name = input.name().to_owned();
    let start = input.byte();
    let since_record = Rc::new(Cell::new(0));
    let guarded = RecordLimitReader { input, since_record: since_record.clone() };
    let mut rows = ReaderBuilder::new()
        .delimiter(delimiter)
        .has_headers(false)
        .flexible(true)
        .quoting(format == Format::Csv)
        .terminator(Terminator::CRLF)
        .from_reader(guarded);
    let mut row = ByteRecord::new();
    let mut header = (format == Format::GeoNames).then(|| ByteRecord::from(&GEONAMES[..]));
    let mut table: Option<Table> = None;
    let wrong = |what: String| ConnectError::new(format!("{name}: {what}"));
    let read = loop {
        let is_row = rows.read_byte_record(&mut row).map_err(|error| {
            let (line, byte) = (rows.position().line(), start + rows.position().byte());
            ConnectError::new(format!("{name}: after line {line} (byte {byte}): {error}"))
        });
        match is_row {
            Ok(true) => {}
            Ok(false) => break Ok(()),
            Err(error) => break Err(error),
        }
        since_record.set(0);
        if table.is_none() {
            let names = match header.take() {
                Some(names) => names,
                None if is_data(&row, options) => ByteRecord::new(),
                None => {
                    header = Some(row.clone());
                    continue;
                }
            };
            table = Some(Table::new(&names, Some(&row), options, start).map_err(wrong)?);
        }
        if let Some(table) = &mut table {
            table.take(&row, sink)?;
        }
    };
    if let (Some(header), Ok(())) = (header, &read) {
        // A header alone has no points, but it has columns.
        Table::new(&header, None, options, start).map_err(wrong)?;
    }
    // What was read before a fault is good.
    table.map_or(Ok(()), |mut table| table.rows.end(sink))?;
    read
}

/// Rows whose columns are known.
struct Table {
    position: PositionColumns,
    rows: Rows,
    /// The byte of the input where the first row begins.
    start: u64,
}

impl Table {
    /// From the header, which is empty if there is none, and the first row.
    fn new(
        header: &ByteRecord,
        first: Option<&ByteRecord>,
        options: &LoadOptions,
        start: u64,
    ) -> Result<Table, String> {
        let columns = Header { names: header, first, options };
        let position = columns.position()?;
        let shown = |column: usize| match header.get(column) {
            Some(name) => format!("column '{}'", name.trim_ascii().escape_ascii()),
            None => format!("column {}", column + 1),
        };
        Ok(Table { position, rows: Rows::new(columns.members()?, shown), start })
    }

    fn take(&mut self, row: &ByteRecord, sink: &mut Sink<'_>) -> Result<(), ConnectError> {
        let begin = row.position();
        let spot = Spot::Line {
            line: begin.map_or(0, csv::Position::line),
            byte: self.start + begin.map_or(0, csv::Position::byte),
        };
        let cell =
            |column: usize| row.get(column).map(Cow::Borrowed).ok_or_else(|| short(row, column));
        self.rows.take(spot, position(row, self.position), cell, sink)
    }
}

/// The names of the columns, and what is asked for among them.
struct Header<'a> {
    names: &'a ByteRecord,
    first: Option<&'a ByteRecord>,
    options: &'a LoadOptions,
}

impl Header<'_> {
    /// The columns with the place: those that are asked for, or else those of usual names.
    fn position(&self) -> Result<PositionColumns, String> {
        let LoadOptions { longitude, latitude, geometry, .. } = self.options;
        if let Some(asked) = geometry {
            return Ok(PositionColumns::Geometry(self.requested(asked, "geometry")?));
        }
        let usual = || names::coordinates(self.strings());
        let (longitude, latitude) = match (longitude, latitude) {
            (None, None) => match usual() {
                Some(both) => both,
                None => return self.geometry(),
            },
            (longitude, latitude) => {
                let of = |asked: &Option<String>, usual: Option<usize>, flag: &str| match asked {
                    Some(asked) => self.requested(asked, flag),
                    None => usual.ok_or_else(|| self.no_column(flag, flag)),
                };
                (
                    of(longitude, usual().map(|both| both.0), "longitude")?,
                    of(latitude, usual().map(|both| both.1), "latitude")?,
                )
            }
        };
        Ok(PositionColumns::Two { longitude, latitude })
    }

    /// A column with geometries, by the first row or by its name.
    fn geometry(&self) -> Result<PositionColumns, String> {
        let by_cell = self.first.and_then(|first| first.iter().position(is_geometry));
        let found = by_cell.or_else(|| names::geometry(self.strings()));
        let missing = || {
            let names = self.shown();
            format!(
                "no column 'longitude'; there are: {names}; allowed: --longitude and --latitude, or \
                 --geometry, with NAME or NUMBER"
            )
        };
        found.map(PositionColumns::Geometry).ok_or_else(missing)
    }

    /// The columns that may name the members.
    fn members(&self) -> Result<Candidates, String> {
        match &self.options.member {
            Some(asked) => Ok(Candidates::requested(self.requested(asked, "member")?)),
            None => Candidates::of_names(self.strings())
                .ok_or_else(|| self.no_column("member", "member")),
        }
    }

    fn strings(&self) -> impl Iterator<Item = &str> + Clone {
        self.names.iter().map(|name| std::str::from_utf8(name).unwrap_or_default().trim())
    }

    /// A column by its name, or by its number from 1.
    fn requested(&self, asked: &str, flag: &str) -> Result<usize, String> {
        let is_named = |name: &[u8]| name.trim_ascii().eq_ignore_ascii_case(asked.as_bytes());
        let count = self.names.len().max(self.first.map_or(0, ByteRecord::len));
        let by_number = || {
            let number: usize = asked.parse().ok()?;
            number.checked_sub(1).filter(|&column| column < count)
        };
        let found = self.names.iter().position(is_named).or_else(by_number);
        found.ok_or_else(|| self.no_column(asked, flag))
    }

    fn no_column(&self, wanted: &str, flag: &str) -> String {
        let names = self.shown();
        format!("no column '{wanted}'; there are: {names}; allowed: --{flag} NAME or NUMBER")
    }

    fn shown(&self) -> String {
        let cells =
            if self.names.is_empty() { self.first.unwrap_or(self.names) } else { self.names };
        let shown: Vec<String> = cells
            .iter()
            .take(20)
            .map(|name| name.escape_ascii().to_string().chars().take(60).collect())
            .collect();
        shown.join(", ")
    }
}

/// The delimiter of which the first line has most outside of quotes.
fn delimiter(first: &[u8]) -> u8 {
    let line = first.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let mut counts = [0_usize; DELIMITERS.len()];
    let mut in_quotes = false;
    for byte in line {
        in_quotes ^= *byte == b'"';
        if let Some(index) = DELIMITERS.iter().position(|known| known == byte)
            && !in_quotes
        {
            counts[index] += 1;
        }
    }
    // Of equal counts the likeliest.
    let most = (0..DELIMITERS.len()).rev().max_by_key(|index| counts[*index]);
    most.map_or(b',', |index| DELIMITERS[index])
}

/// Whether the first row is data: all columns given by number, and a place there.
fn is_data(row: &ByteRecord, options: &LoadOptions) -> bool {
    let number = |asked: &Option<String>| {
        let number: usize = asked.as_ref()?.parse().ok()?;
        number.checked_sub(1)
    };
    let columns = match number(&options.geometry) {
        Some(column) => Some(PositionColumns::Geometry(column)),
        None => number(&options.longitude)
            .zip(number(&options.latitude))
            .map(|(longitude, latitude)| PositionColumns::Two { longitude, latitude }),
    };
    let is_place = |columns| match columns {
        PositionColumns::Geometry(column) => row.get(column).is_some_and(is_geometry),
        columns => position(row, columns).is_ok(),
    };
    number(&options.member).is_some() && columns.is_some_and(is_place)
}

/// Whether a cell is a geometry of any shape.
fn is_geometry(cell: &[u8]) -> bool {
    wkt::is_geometry(cell) || super::wkb::is_hex(cell.trim_ascii()) && cell.trim_ascii().len() >= 42
}

/// The place of a row.
fn position(row: &ByteRecord, columns: PositionColumns) -> Position {
    match columns {
        PositionColumns::Two { longitude, latitude } => {
            Ok((number(row, longitude, "longitude")?, number(row, latitude, "latitude")?))
        }
        PositionColumns::Geometry(column) => {
            let cell = row.get(column).ok_or_else(|| short(row, column))?;
            let text = std::str::from_utf8(cell).map_err(|_| "its geometry is no text in UTF-8")?;
            if text.trim().is_empty() {
                return Err("has no geometry".to_owned());
            }
            wkt::point(text)
        }
    }
}

fn number(row: &ByteRecord, column: usize, what: &str) -> Result<f64, String> {
    let text = row.get(column).ok_or_else(|| short(row, column))?;
    let parsed = std::str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok());
    parsed.ok_or_else(|| {
        let shown: String = text.escape_ascii().to_string().chars().take(60).collect();
        format!("its {what} '{shown}' is no number")
    })
}

fn short(row: &ByteRecord, column: usize) -> String {
    format!("has {} columns, not {}", row.len(), column + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delimiter_is_the_one_of_which_the_first_line_has_most() {
        for (line, expected) in [
            ("a,b,c\n1;2;3;4", b','),
            ("a;b;c,d", b';'),
            ("a\tb\tc", b'\t'),
            ("a|b|c", b'|'),
            ("\"a|b|c|d\",e", b','),
            ("a", b','),
            ("", b','),
        ] {
            assert_eq!(delimiter(line.as_bytes()), expected, "{line}");
        }
    }
}
