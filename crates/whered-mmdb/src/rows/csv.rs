//! CSV rows into a [`Writer`]; the layout is told in [`super`].
//!
//! Not for NDJSON. The header is compiled into a tree of columns once; a row walks that tree. The
//! quotes of the input are followed beside the reader, which would take all the rest of a file as
//! one cell, however much was meant to be rows, if a quote is never closed.
#![deny(clippy::indexing_slicing)]

use super::cell::{self, CellType};
use super::{NetworkName, RowsError};
use crate::error::shown;
use crate::value::Value;
use crate::writer::Writer;
use csv::{ByteRecord, ReaderBuilder};
use std::io::{self, BufRead, BufReader, Read};

/// Inserts every row into `writer`; returns how many rows there were.
pub(super) fn read(input: impl Read, writer: &mut Writer) -> Result<u64, RowsError> {
    let mut input = BufReader::with_capacity(1 << 16, input);
    skip_mark(&mut input).map_err(|error| unreadable(1, &error))?;
    let quotes = QuoteWatch {
        input,
        place: Within::Nothing,
        line: 1,
        row_line: 1,
        cell: 1,
        is_unclosed: false,
    };
    let mut reader = ReaderBuilder::new().has_headers(false).flexible(true).from_reader(quotes);
    let mut row = ByteRecord::new();
    let mut header = None;
    let mut count = 0;
    while read_row(&mut reader, &mut row)? {
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
        None => Err(RowsError::new(1, "", "no header", "a first line that names the columns")),
    }
}

/// Spreadsheets like to put a byte order mark in front.
fn skip_mark(input: &mut impl BufRead) -> io::Result<()> {
    if input.fill_buf()?.starts_with(b"\xef\xbb\xbf") {
        input.consume(3);
    }
    Ok(())
}

fn unreadable(line: u64, error: &io::Error) -> RowsError {
    RowsError::new(line, "", error.to_string(), "input that can be read")
}

fn read_row<R: Read>(
    reader: &mut csv::Reader<QuoteWatch<R>>,
    row: &mut ByteRecord,
) -> Result<bool, RowsError> {
    let line = reader.position().line();
    reader.read_byte_record(row).map_err(|error| match error.kind() {
        csv::ErrorKind::Io(_) if reader.get_ref().is_unclosed => reader.get_ref().unclosed(),
        csv::ErrorKind::Io(error) => unreadable(line, error),
        _ => RowsError::new(line, "", error.to_string(), "comma-separated rows"),
    })
}

/// Passes bytes on and follows their quotes.
struct QuoteWatch<R> {
    input: R,
    place: Within,
    line: u64,
    /// Where the row began that the last byte belongs to, and which of its cells it is in.
    row_line: u64,
    cell: u64,
    /// The input has ended within quotes.
    is_unclosed: bool,
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

impl<R> QuoteWatch<R> {
    fn follow(&mut self, byte: u8) {
        self.line += u64::from(byte == b'\n');
        self.place = match (self.place, byte) {
            (Within::Quotes, b'"') => Within::QuotesEnd,
            (Within::Quotes, _) => Within::Quotes,
            // Behind an end of quotes it is a doubled quote: one inside them.
            (Within::Nothing | Within::QuotesEnd, b'"') => Within::Quotes,
            (_, b',') => {
                self.cell += 1;
                Within::Nothing
            }
            (_, b'\r' | b'\n') => {
                (self.row_line, self.cell) = (self.line, 1);
                Within::Nothing
            }
            _ => Within::Text,
        };
    }

    fn unclosed(&self) -> RowsError {
        let found = format!("a quote in cell {} that is never closed", self.cell);
        let allowed = "a closing \"; one inside a quoted cell is doubled";
        RowsError::new(self.row_line, "", found, allowed)
    }
}

impl<R: Read> Read for QuoteWatch<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        if count == 0 && self.place == Within::Quotes {
            self.is_unclosed = true;
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for &byte in buffer.iter().take(count) {
            self.follow(byte);
        }
        Ok(count)
    }
}

fn line_of(row: &ByteRecord) -> u64 {
    row.position().map_or(1, csv::Position::line)
}

/// The source of a field of the records.
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
    network_name: NetworkName,
    template: Template,
}

impl Header {
    fn new(row: &ByteRecord) -> Result<Header, RowsError> {
        let line = line_of(row);
        let mut names = Vec::with_capacity(row.len());
        for cell in row {
            let name = std::str::from_utf8(cell).map_err(|_| {
                let column = String::from_utf8_lossy(cell);
                RowsError::new(line, column, "a name that is no UTF-8 text", "names in UTF-8")
            })?;
            names.push(name.trim().to_string());
        }
        let fault =
            |column: &str, found: &str, allowed: &str| RowsError::new(line, column, found, allowed);
        let mut network = None;
        let mut template = Template::Map(Vec::new());
        for (column, name) in names.iter().enumerate() {
            if let Some(network_name) = NetworkName::from_name(name) {
                if network.replace((column, network_name)).is_some() {
                    return Err(fault(name, "a second such column", "one network or address"));
                }
                continue;
            }
            let (path, cell_type) =
                cell::parse_name(name).map_err(|(found, allowed)| fault(name, &found, &allowed))?;
            let cell_type = cell_type.unwrap_or(CellType::String);
            let segments: Vec<&str> = path.iter().collect();
            template
                .add(&segments, Template::Cell { column, cell_type })
                .map_err(|(found, allowed)| fault(name, found, allowed))?;
        }
        let Some((network_column, network_name)) = network else {
            return Err(fault("", "no such column", "a column network or address"));
        };
        Ok(Header { names, network_column, network_name, template })
    }

    fn fault(&self, row: &ByteRecord, column: usize, allowed: String) -> RowsError {
        let cell = row.get(column).unwrap_or_default();
        let name = self.names.get(column).map_or("", String::as_str);
        let found = format!("\"{}\"", shown(&String::from_utf8_lossy(cell)));
        RowsError::new(line_of(row), name, found, allowed)
    }

    fn text<'a>(&self, row: &'a ByteRecord, column: usize) -> Result<&'a str, RowsError> {
        std::str::from_utf8(row.get(column).unwrap_or_default())
            .map_err(|_| self.fault(row, column, "text in UTF-8".to_string()))
    }

    fn insert(&self, row: &ByteRecord, writer: &mut Writer) -> Result<(), RowsError> {
        if row.len() != self.names.len() {
            let allowed = format!("{}, one for each column", self.names.len());
            let found = format!("{} cells", row.len());
            return Err(RowsError::new(line_of(row), "", found, allowed));
        }
        let text = self.text(row, self.network_column)?;
        let prefix = self
            .network_name
            .parse(text)
            .map_err(|allowed| self.fault(row, self.network_column, allowed.to_string()))?;
        let value = self.value(&self.template, row)?.unwrap_or(Value::Map(Vec::new()));
        let column = self.names.get(self.network_column).map_or("", String::as_str);
        super::insert(writer, prefix, value, line_of(row), &column)
    }

    /// The row's value for a field; `None` if all its cells are empty.
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
            Some(name) if cell::is_index(name) => Some(Template::Array(Vec::new())),
            Some(_) => Some(Template::Map(Vec::new())),
        };
        let entry = match self {
            Template::Cell { .. } => {
                return Err(("a path through another column's value", "paths beside each other"));
            }
            Template::Map(_) | Template::Array(_) if cell::is_index(first) != self.is_array() => {
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

#[cfg(test)]
#[path = "csv_tests.rs"]
mod tests;
