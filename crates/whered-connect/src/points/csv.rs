//! CSV and TSV: rows whose columns are named, or numbered.
//!
//! Not for quoting and line ends, which are the `csv` crate's. The delimiter of CSV is whichever of
//! `,` and `;` the first line has more of. Columns that are not named by the caller are found by
//! the header's usual names ([`super::json::LONGITUDES`] and so on). There is no header only where
//! all three columns are given by number and the first row has numbers in the first two.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

use csv::{ByteRecord, ReaderBuilder, Terminator};

use super::input::Input;
use super::json::{LATITUDES, LONGITUDES, MEMBERS};
use super::sample::{SAMPLE_BYTES, SAMPLE_RECORDS, are_distinct, is_identifier};
use super::sink::Sink;
use super::{Format, LoadOptions, RECORD_BYTES_MAX, Spot};
use crate::error::ConnectError;

/// The columns, counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Columns {
    longitude: usize,
    latitude: usize,
    member: usize,
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
            return Err(io::Error::other(format!("a record of more than {most} MiB")));
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
    let delimiter = if format == Format::Tsv { b'\t' } else { delimiter(input.peek()?) };
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
    let mut table: Option<Table> = None;
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
        match &mut table {
            Some(table) => table.take(&row, sink)?,
            None => {
                let columns = find_columns(&row, options)
                    .map_err(|what| ConnectError::new(format!("{name}: {what}")))?;
                let is_data = is_data(&row, columns, options);
                let table = table.insert(Table::new(&row, columns, is_data, options, start));
                if is_data {
                    table.take(&row, sink)?;
                }
            }
        }
    };
    // What was read before a fault is good.
    table.map_or(Ok(()), |mut table| table.end(sink))?;
    read
}

/// Rows on their way into the sink: the first ones wait until it is known which column has the
/// members.
struct Table {
    columns: Columns,
    /// Empty without a header.
    header: ByteRecord,
    sample: Option<Vec<ByteRecord>>,
    sample_bytes: usize,
    /// The byte of the input where the first row begins.
    start: u64,
}

impl Table {
    fn new(
        first: &ByteRecord,
        columns: Columns,
        is_data: bool,
        options: &LoadOptions,
        start: u64,
    ) -> Table {
        let header = if is_data { ByteRecord::new() } else { first.clone() };
        let sample = options.member.is_none().then(Vec::new);
        Table { columns, header, sample, sample_bytes: 0, start }
    }

    fn take(&mut self, row: &ByteRecord, sink: &mut Sink<'_>) -> Result<(), ConnectError> {
        let Some(sample) = &mut self.sample else {
            return self.put(row, sink);
        };
        sample.push(row.clone());
        self.sample_bytes += row.as_slice().len();
        if sample.len() >= SAMPLE_RECORDS || self.sample_bytes >= SAMPLE_BYTES {
            return self.end(sink);
        }
        Ok(())
    }

    /// Chooses, and lets those that have waited go on; at the end of the input, too.
    fn end(&mut self, sink: &mut Sink<'_>) -> Result<(), ConnectError> {
        let name_of = |header: &ByteRecord, column: usize| match header.get(column) {
            Some(name) => format!("column '{}'", name.trim_ascii().escape_ascii()),
            None => format!("column {}", column + 1),
        };
        sink.note_members(|| name_of(&self.header, self.columns.member));
        let Some(sample) = self.sample.take() else {
            return Ok(());
        };
        if let Some(column) = self.choose(&sample) {
            self.columns.member = column;
            sink.note_choice(name_of(&self.header, column));
        }
        sample.iter().try_for_each(|row| self.put(row, sink))
    }

    /// The column to be taken in the place of the usual one, whose values repeat.
    fn choose(&self, sample: &[ByteRecord]) -> Option<usize> {
        // What is bad by any column says nothing.
        let good = || sample.iter().filter(|row| point(row, self.columns).is_ok());
        let is_fit = |column: usize| {
            are_distinct(good().map(|row| row.get(column).filter(|value| !value.is_empty())))
        };
        if is_fit(self.columns.member) {
            return None;
        }
        let is_named = |column: &usize| {
            let name = self.header.get(*column).map(<[u8]>::trim_ascii);
            name.and_then(|name| std::str::from_utf8(name).ok()).is_some_and(is_identifier)
        };
        (0..self.header.len()).filter(is_named).find(|&column| is_fit(column))
    }

    fn put(&self, row: &ByteRecord, sink: &mut Sink<'_>) -> Result<(), ConnectError> {
        let place = row.position();
        let spot = Spot::Line {
            line: place.map_or(0, csv::Position::line),
            byte: self.start + place.map_or(0, csv::Position::byte),
        };
        match point(row, self.columns) {
            Ok((longitude, latitude, member)) => sink.point(longitude, latitude, member, spot),
            Err(what) => sink.bad(spot, &what),
        }
    }
}

fn delimiter(first: &[u8]) -> u8 {
    let line = first.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let count = |wanted| line.iter().filter(|&&byte| byte == wanted).count();
    if count(b';') > count(b',') { b';' } else { b',' }
}

/// The three columns, by what the caller said or by the usual names.
fn find_columns(header: &ByteRecord, options: &LoadOptions) -> Result<Columns, String> {
    let find = |asked: &Option<String>, usual: &[&str], flag: &str| {
        let by_name = |wanted: &str| {
            header.iter().position(|name| name.trim_ascii().eq_ignore_ascii_case(wanted.as_bytes()))
        };
        let found = match asked {
            Some(asked) => by_name(asked).or_else(|| {
                let number: usize = asked.parse().ok()?;
                number.checked_sub(1).filter(|&place| place < header.len())
            }),
            None => usual.iter().find_map(|name| by_name(name)),
        };
        found.ok_or_else(|| {
            let columns: Vec<String> =
                header.iter().take(20).map(|name| name.escape_ascii().to_string()).collect();
            let wanted = asked.as_deref().unwrap_or(usual[0]);
            let columns = columns.join(", ");
            format!("no column '{wanted}'; there are: {columns}; allowed: --{flag} NAME or NUMBER")
        })
    };
    Ok(Columns {
        longitude: find(&options.longitude, LONGITUDES, "longitude")?,
        latitude: find(&options.latitude, LATITUDES, "latitude")?,
        member: find(&options.member, MEMBERS, "member")?,
    })
}

/// Whether the first row is data: all columns given by number, and numbers there.
fn is_data(row: &ByteRecord, columns: Columns, options: &LoadOptions) -> bool {
    let is_number = |asked: &Option<String>| {
        asked.as_ref().is_some_and(|asked| asked.bytes().all(|byte| byte.is_ascii_digit()))
    };
    is_number(&options.longitude)
        && is_number(&options.latitude)
        && is_number(&options.member)
        && number(row, columns.longitude, "longitude").is_ok()
        && number(row, columns.latitude, "latitude").is_ok()
}

fn point(row: &ByteRecord, columns: Columns) -> Result<(f64, f64, &[u8]), String> {
    let longitude = number(row, columns.longitude, "longitude")?;
    let latitude = number(row, columns.latitude, "latitude")?;
    let member = row.get(columns.member).ok_or_else(|| short(row, columns.member))?;
    Ok((longitude, latitude, member))
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
