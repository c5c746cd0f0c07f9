//! NDJSON rows; the three forms of a row are told in [`super`].
//!
//! Not for tables. A line is read whole, within [`MAX_LINE_BYTES`]; blank lines are passed over.
//! The names of fields are parsed once and remembered. Cost: linear in the bytes.
#![deny(clippy::indexing_slicing)]

use super::cell::{self, CellType};
use super::columns::NetworkColumns;
use super::json::{Fault, Reader, Scalar};
use super::span::Span;
use super::{NetworkName, RowsError, RowsMetadata, table};
use crate::error::shown;
use crate::metadata::MAX_METADATA_BYTES;
use crate::path::FieldPath;
use crate::value::Value;
use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read};

/// How long a line may be: twice the text of the largest record.
pub(super) const MAX_LINE_BYTES: u64 = 64 << 20;

/// How many names are remembered.
const MAX_NAMES: usize = 10_000;

/// What a line says.
pub(super) enum Line {
    /// Of the whole file.
    Metadata(RowsMetadata),
    /// Of a network.
    Row {
        line: u64,
        /// The byte of the line at which the network stands, counted from 1.
        column: usize,
        span: Span,
        record: Value,
    },
}

/// Reads every line and gives it, or its fault, to `take`, which says whether to go on.
pub(super) fn read(
    input: impl Read,
    mut take: impl FnMut(Result<Line, RowsError>) -> Result<(), RowsError>,
) -> Result<(), RowsError> {
    let mut input = BufReader::with_capacity(1 << 16, input);
    let mut lines = LineReader::default();
    let mut bytes = Vec::new();
    for line in 1.. {
        bytes.clear();
        let unreadable = |error: io::Error| {
            RowsError::new(line, "", error.to_string(), "input that can be read")
        };
        let read = input.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut bytes);
        let read = read.map_err(unreadable)?;
        if read == 0 {
            break;
        }
        if read as u64 == MAX_LINE_BYTES && !bytes.ends_with(b"\n") {
            let allowed = format!("lines of less than {MAX_LINE_BYTES} bytes");
            take(Err(RowsError::new(line, "", "a longer line", allowed)))?;
            input.skip_until(b'\n').map_err(unreadable)?;
            continue;
        }
        let text = if line == 1 { bytes.strip_prefix(b"\xef\xbb\xbf") } else { None };
        let text = text.unwrap_or(&bytes);
        if text.trim_ascii().is_empty() {
            continue;
        }
        take(lines.read(text, line, 1))?;
    }
    Ok(())
}

/// Reads rows whose first one says which members hold the network.
#[derive(Default)]
pub(super) struct LineReader {
    names: Names,
    members: Option<Members>,
}

impl LineReader {
    /// Reads the text of a row that begins on a line, at a column from 1.
    pub(super) fn read(
        &mut self,
        text: &[u8],
        line: u64,
        column: usize,
    ) -> Result<Line, RowsError> {
        if let Some(metadata) = metadata_in(text) {
            return Ok(Line::Metadata(metadata));
        }
        let members = self.members.get_or_insert_with(|| Members::of(text));
        let row = Row::read(text, &mut self.names, members).map_err(|fault| {
            // In a row of several lines the line at which the fault is.
            let before = text.get(..fault.at).unwrap_or(text);
            let lines = before.iter().filter(|byte| **byte == b'\n').count() as u64;
            let behind = before.iter().rev().take_while(|byte| **byte != b'\n').count();
            let column = behind + if lines == 0 { column } else { 1 };
            RowsError::new(line + lines, column.to_string(), fault.found, fault.allowed)
        })?;
        let (span, at) = row.network;
        Ok(Line::Row { line, column: at + column, span, record: row.record })
    }
}

/// The metadata of a line that holds nothing else.
pub(super) fn metadata_in(text: &[u8]) -> Option<RowsMetadata> {
    let is_metadata = text.trim_ascii_start().starts_with(b"{\"metadata\"");
    if !is_metadata || text.len() > MAX_METADATA_BYTES {
        return None;
    }
    let mut reader = Reader::new(text);
    let mut found = None;
    let mut has_others = false;
    let read = reader.object(|reader, name, _| {
        let value = reader.value()?;
        match &*name {
            "metadata" => found = value,
            _ => has_others = true,
        }
        Ok(())
    });
    read.and_then(|()| reader.end()).ok()?;
    let metadata = found.filter(|_| !has_others)?;
    RowsMetadata::of(&metadata).ok()
}

/// Which members hold the network, besides `network` and `address`: what the first row has.
struct Members {
    names: Vec<String>,
    columns: Option<NetworkColumns>,
}

impl Members {
    fn of(text: &[u8]) -> Members {
        let mut names = Vec::new();
        let read = Reader::new(text).object(|reader, name, _| {
            names.push(name.into_owned());
            reader.value().map(|_| ())
        });
        let bare: Vec<&str> = names.iter().map(String::as_str).collect();
        let columns = match NetworkColumns::find(&bare) {
            Ok(columns) if read.is_ok() => columns,
            _ => None,
        };
        let is_ours = names.iter().any(|name| NetworkName::from_name(name).is_some());
        Members { columns: columns.filter(|_| !is_ours), names }
    }

    /// The cell of the network that a member is.
    fn column(&self, name: &str) -> Option<usize> {
        let columns = self.columns.as_ref()?;
        self.names.iter().position(|other| other == name).filter(|at| columns.has(*at))
    }
}

/// Names of fields with what they mean.
#[derive(Default)]
struct Names(HashMap<String, (FieldPath, Option<CellType>)>);

impl Names {
    fn get(&mut self, name: &str, at: usize) -> Result<&(FieldPath, Option<CellType>), Fault> {
        if !self.0.contains_key(name) {
            let parsed = cell::parse_name(name)
                .map_err(|(found, allowed)| Fault::new(at, found, allowed))?;
            // Files whose every line has other names shall not fill the memory.
            if self.0.len() == MAX_NAMES {
                self.0.clear();
            }
            self.0.insert(name.to_string(), parsed);
        }
        Ok(self.0.get(name).expect("it was put in if it was not there"))
    }
}

struct Row {
    /// The network and where it stands in the line.
    network: (Span, usize),
    record: Value,
}

impl Row {
    fn read(text: &[u8], names: &mut Names, members: &Members) -> Result<Row, Fault> {
        let mut reader = Reader::new(text);
        let mut network = None;
        // The parts of a network that stands in several members.
        let mut parts: Vec<(usize, String)> = Vec::new();
        let mut parts_at = 0;
        // A whole record, or one that is put together from fields; never both.
        let mut whole: Option<Value> = None;
        let mut fields = Value::Map(Vec::new());
        let mut has_fields = false;
        reader.object(|reader, name, at| {
            if let Some(kind) = NetworkName::from_name(&name) {
                if network.is_some() {
                    return Err(Fault::new(at, "a second network", "one network or address"));
                }
                network = Some((read_network(reader, kind)?, at));
                return Ok(());
            }
            if let Some(column) = members.column(&name) {
                if parts.iter().any(|(other, _)| *other == column) {
                    return Err(Fault::new(at, "a second such member", "each member once"));
                }
                parts_at = if parts.is_empty() { at } else { parts_at };
                parts.push((column, read_part(reader)?));
                return Ok(());
            }
            if name == "prefix" && network.is_some_and(|(span, _)| is_said_again(reader, span)) {
                return Ok(());
            }
            let is_whole = matches!(&*name, "record" | "typed_record");
            if whole.is_some() || is_whole && has_fields {
                let found = format!("the member \"{}\" beside others", shown(&name));
                let allowed = "a record or typed_record alone with the network, or fields";
                return Err(Fault::new(at, found, allowed));
            }
            if is_whole {
                let is_typed = name == "typed_record";
                let value = if is_typed { reader.typed_value()? } else { reader.value()? };
                whole = Some(value.unwrap_or(Value::Map(Vec::new())));
                return Ok(());
            }
            has_fields = true;
            read_field(reader, names.get(&name, at)?, at, &mut fields)
        })?;
        reader.end()?;
        let network = match (network, &members.columns) {
            (Some(network), _) => network,
            (None, Some(columns)) if !parts.is_empty() => {
                (put_together(columns, &parts, parts_at)?, parts_at)
            }
            _ => {
                let allowed = "a member network or address";
                return Err(Fault::new(0, "no such member", allowed));
            }
        };
        Ok(Row { network, record: whole.unwrap_or(fields) })
    }
}

fn read_network(reader: &mut Reader<'_>, kind: NetworkName) -> Result<Span, Fault> {
    let at = reader.at();
    let Scalar::String(text) = reader.scalar()? else {
        return Err(Fault::new(at, "no string", "a network in quotes"));
    };
    let span = match kind {
        NetworkName::Network => Span::parse(&text),
        NetworkName::Address => kind.parse(&text).map(Span::from),
    };
    span.map_err(|allowed| Fault::new(at, format!("\"{}\"", shown(&text)), allowed))
}

/// Passes over a value that is the network of the row, as `db dump` writes it under both names. Any
/// other value is a field.
fn is_said_again(reader: &mut Reader<'_>, network: Span) -> bool {
    let mut ahead = reader.clone();
    let is_same = match ahead.scalar() {
        Ok(Scalar::String(text)) => Span::parse(&text).is_ok_and(|span| span == network),
        _ => false,
    };
    if is_same {
        *reader = ahead;
    }
    is_same
}

/// Reads a part of a network: a text or a number.
fn read_part(reader: &mut Reader<'_>) -> Result<String, Fault> {
    let at = reader.at();
    match reader.scalar()? {
        Scalar::String(text) => Ok(text.into_owned()),
        Scalar::Number(digits) => Ok(digits.to_string()),
        _ => Err(Fault::new(at, "no string or number", "addresses, networks or integers")),
    }
}

/// The addresses of a network whose parts are several members.
fn put_together(
    columns: &NetworkColumns,
    parts: &[(usize, String)],
    at: usize,
) -> Result<Span, Fault> {
    let last = parts.iter().map(|(column, _)| column + 1).max().unwrap_or_default();
    let cells = (0..last).map(|column| {
        let part = parts.iter().find(|(other, _)| *other == column);
        part.map_or(&[][..], |(_, text)| text.as_bytes())
    });
    columns.span(&table::Row::of_cells(cells)).map_err(|(_, allowed)| {
        let texts: Vec<String> =
            parts.iter().map(|(_, text)| format!("\"{}\"", shown(text))).collect();
        Fault::new(at, texts.join(" and "), allowed)
    })
}

/// Reads a field's value and puts it at its path.
fn read_field(
    reader: &mut Reader<'_>,
    (path, cell_type): &(FieldPath, Option<CellType>),
    at: usize,
    fields: &mut Value,
) -> Result<(), Fault> {
    let value = match cell_type {
        Some(cell_type) => reader.cell(*cell_type)?,
        None => reader.value()?,
    };
    let Some(value) = value else { return Ok(()) };
    let segments: Vec<&str> = path.iter().collect();
    put(fields, &segments, value).map_err(|(found, allowed)| Fault::new(at, found, allowed))
}

/// Puts a value at a path, with the maps and arrays on the way; on failure says what was found and
/// what is allowed.
fn put(place: &mut Value, path: &[&str], value: Value) -> Result<(), (&'static str, &'static str)> {
    const TWICE: (&str, &str) = ("a field that another member holds too", "each field once");
    let Some((first, rest)) = path.split_first() else {
        return Err(("an empty name", "field paths"));
    };
    let next = match rest.first() {
        None => None,
        Some(name) if cell::is_index(name) => Some(Value::Array(Vec::new())),
        Some(_) => Some(Value::Map(Vec::new())),
    };
    let is_last = next.is_none();
    let entry = match place {
        Value::Map(pairs) if !cell::is_index(first) => {
            match pairs.iter().position(|(key, _)| key == first) {
                Some(_) if is_last => return Err(TWICE),
                Some(position) => pairs.get_mut(position).map(|(_, entry)| entry),
                None => {
                    pairs.push(((*first).to_string(), next.unwrap_or(Value::Boolean(false))));
                    pairs.last_mut().map(|(_, entry)| entry)
                }
            }
        }
        Value::Array(values) if cell::is_index(first) => {
            let index = first.parse().unwrap_or(usize::MAX);
            if index > values.len() {
                return Err(("an array index out of order", "0, 1, 2 ... without a gap"));
            }
            if index < values.len() && is_last {
                return Err(TWICE);
            }
            if index == values.len() {
                values.push(next.unwrap_or(Value::Boolean(false)));
            }
            values.get_mut(index)
        }
        Value::Map(_) | Value::Array(_) => {
            return Err(("a name and an index at one place", "names only, or indexes only"));
        }
        _ => return Err(("a path through another member's value", "paths beside each other")),
    };
    let entry = entry.expect("it was found or made");
    if is_last {
        *entry = value;
        return Ok(());
    }
    put(entry, rest, value)
}

#[cfg(test)]
#[path = "ndjson_tests.rs"]
mod tests;
