//! NDJSON rows into a [`Writer`]; the three forms of a row are told in [`super`].
//!
//! Not for CSV. A line is read whole, within [`MAX_LINE_BYTES`]; blank lines are passed over. The
//! names of fields are parsed once and remembered. Cost: linear in the bytes.
#![deny(clippy::indexing_slicing)]

use super::cell::{self, CellType};
use super::json::{Fault, Reader, Scalar};
use super::{NetworkName, RowsError};
use crate::error::shown;
use crate::path::FieldPath;
use crate::value::Value;
use crate::writer::Writer;
use std::collections::HashMap;
use std::io::{BufRead, Read};
use whered_ip::Prefix;

/// How long a line may be: twice the text of the largest record.
const MAX_LINE_BYTES: u64 = 64 << 20;

/// How many names are remembered.
const MAX_NAMES: usize = 10_000;

/// Inserts every row into `writer`; returns how many rows there were.
pub(super) fn read(mut input: impl BufRead, writer: &mut Writer) -> Result<u64, RowsError> {
    let mut names = Names::default();
    let mut bytes = Vec::new();
    let mut count = 0;
    for line in 1.. {
        bytes.clear();
        let read = input.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut bytes);
        let read = read.map_err(|error| {
            RowsError::new(line, "", error.to_string(), "input that can be read")
        })?;
        if read == 0 {
            break;
        }
        if read as u64 == MAX_LINE_BYTES && !bytes.ends_with(b"\n") {
            let allowed = format!("lines of less than {MAX_LINE_BYTES} bytes");
            return Err(RowsError::new(line, "", "a longer line", allowed));
        }
        let text = if line == 1 { bytes.strip_prefix(b"\xef\xbb\xbf") } else { None };
        let text = text.unwrap_or(&bytes);
        if text.trim_ascii().is_empty() {
            continue;
        }
        let row = Row::read(text, &mut names).map_err(|fault| {
            RowsError::new(line, (fault.at + 1).to_string(), fault.found, fault.allowed)
        })?;
        let (prefix, at) = row.network;
        super::insert(writer, prefix, row.record, line, &(at + 1))?;
        count += 1;
    }
    Ok(count)
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
    network: (Prefix, usize),
    record: Value,
}

impl Row {
    fn read(text: &[u8], names: &mut Names) -> Result<Row, Fault> {
        let mut reader = Reader::new(text);
        let mut network = None;
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
        let network = network
            .ok_or_else(|| Fault::new(0, "no such member", "a member network or address"))?;
        Ok(Row { network, record: whole.unwrap_or(fields) })
    }
}

fn read_network(reader: &mut Reader<'_>, kind: NetworkName) -> Result<Prefix, Fault> {
    let at = reader.at();
    let Scalar::String(text) = reader.scalar()? else {
        return Err(Fault::new(at, "no string", "a network in quotes"));
    };
    kind.parse(&text).map_err(|allowed| Fault::new(at, format!("\"{}\"", shown(&text)), allowed))
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
