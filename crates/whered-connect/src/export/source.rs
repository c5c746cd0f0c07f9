//! Pages of a table or a collection, asked for over RESP.
//!
//! For: whered's tables, and GEO keys of whered, Redis and Valkey. Not for: files.
//!
//! Invariant: one page is on its way while the last one is looked at, and every reply is fetched.

use redis::{Cmd, Value};
use whered_geo::score::cell_of_score;

use super::ExportKind;
use crate::Server;
use crate::error::ConnectError;
use crate::rows::{Column, Kind, OwnedCell, Schema};

/// How many rows a page has, about.
const PAGE: u64 = 4_096;

pub(crate) struct Pages {
    name: String,
    schema: Schema,
    is_table: bool,
    total: Option<u64>,
    is_ended: bool,
}

impl Pages {
    /// Asks what there is and for its first page.
    pub(crate) fn open(
        server: &mut Server,
        name: &str,
        what: ExportKind,
    ) -> Result<Option<Pages>, ConnectError> {
        let table = if what == ExportKind::Collection { None } else { table(server, name)? };
        let (schema, is_table, total) = match table {
            Some((schema, total)) => (schema, true, total),
            None if what == ExportKind::Table => return Ok(None),
            None => match collection(server, name)? {
                Some(total) => (places(name), false, Some(total)),
                None => return Ok(None),
            },
        };
        let pages = Pages { name: name.to_owned(), schema, is_table, total, is_ended: false };
        server.send(&pages.ask(b"0").get_packed_command())?;
        Ok(Some(pages))
    }

    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    pub(crate) fn total(&self) -> Option<u64> {
        self.total
    }

    fn ask(&self, cursor: &[u8]) -> Cmd {
        let mut command = redis::cmd(if self.is_table { "TABLE.SCAN" } else { "ZSCAN" });
        command.arg(&self.name).arg(cursor).arg("COUNT").arg(PAGE);
        command
    }

    /// The next rows, perhaps none; nothing at the end.
    pub(crate) fn next_page(
        &mut self,
        server: &mut Server,
    ) -> Result<Option<Vec<Vec<OwnedCell>>>, ConnectError> {
        if self.is_ended {
            return Ok(None);
        }
        let wrong = |server: &Server| {
            ConnectError::new(format!("{}: its reply to a scan is none", server.name()))
        };
        let Value::Array(reply) = server.receive()? else { return Err(wrong(server)) };
        let [cursor, Value::Array(found)] = &reply[..] else { return Err(wrong(server)) };
        let cursor = match cursor {
            Value::BulkString(cursor) => cursor.clone(),
            Value::Int(cursor) => cursor.to_string().into_bytes(),
            _ => return Err(wrong(server)),
        };
        self.is_ended = cursor == b"0";
        if !self.is_ended {
            server.send(&self.ask(&cursor).get_packed_command())?;
        }
        let rows = if self.is_table { self.table_rows(found) } else { self.members(found) };
        rows.map(Some).map_err(|why| {
            ConnectError::new(format!("{}: {} '{}': {why}", server.name(), self.noun(), self.name))
        })
    }

    fn noun(&self) -> &'static str {
        if self.is_table { "table" } else { "collection" }
    }

    fn table_rows(&self, found: &[Value]) -> Result<Vec<Vec<OwnedCell>>, String> {
        let kinds: Vec<Kind> = self.schema.columns().map(|column| column.kind).collect();
        let row = |value: &Value| {
            let cells = match value {
                Value::Array(cells) if cells.len() == kinds.len() => cells,
                _ => return Err("a row has other columns than TABLE.INFO told".to_owned()),
            };
            cells.iter().zip(&kinds).map(|(cell, kind)| table_cell(cell, *kind)).collect()
        };
        found.iter().map(row).collect()
    }

    fn members(&self, found: &[Value]) -> Result<Vec<Vec<OwnedCell>>, String> {
        let row = |pair: &[Value]| {
            let member = match &pair[0] {
                Value::BulkString(member) => member.clone(),
                _ => return Err("a member is no bulk string".to_owned()),
            };
            let score = number(&pair[1]);
            let place = score.and_then(cell_of_score).map(whered_geo::Cell::place);
            let place = place.ok_or_else(|| {
                format!("the score of '{}' is no place", String::from_utf8_lossy(&member))
            })?;
            Ok(vec![
                OwnedCell::Text(member),
                OwnedCell::Number(place.longitude_degrees),
                OwnedCell::Number(place.latitude_degrees),
            ])
        };
        found.chunks_exact(2).map(row).collect()
    }
}

fn table_cell(value: &Value, kind: Kind) -> Result<OwnedCell, String> {
    let cell = match (kind, value) {
        (_, Value::Nil) => Some(OwnedCell::Absent),
        (Kind::Integer, Value::Int(value)) => Some(OwnedCell::Integer(*value)),
        (Kind::Time, Value::Int(millis)) => Some(OwnedCell::Time(*millis)),
        (Kind::Number, _) => number(value).map(OwnedCell::Number),
        (Kind::Text, Value::BulkString(text)) => Some(OwnedCell::Text(text.clone())),
        _ => None,
    };
    cell.ok_or_else(|| format!("a cell is no {}", kind.name()))
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Double(number) => Some(*number),
        Value::Int(number) => Some(*number as f64),
        Value::BulkString(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

/// A member and its place.
fn places(name: &str) -> Schema {
    let column = |name: &str, kind| Column { name: name.to_owned(), kind };
    Schema {
        name: name.to_owned(),
        key: vec![column("member", Kind::Text)],
        values: vec![column("longitude", Kind::Number), column("latitude", Kind::Number)],
    }
}

/// How many members a collection has, if there is one.
fn collection(server: &mut Server, name: &str) -> Result<Option<u64>, ConnectError> {
    let kind: String = server.query(redis::cmd("TYPE").arg(name))?;
    match kind.as_str() {
        "none" => Ok(None),
        "zset" => server.query(redis::cmd("ZCARD").arg(name)).map(Some),
        other => {
            let server = server.name();
            Err(ConnectError::new(format!("{server}: '{name}' is a {other}; allowed: a GEO key")))
        }
    }
}

/// The schema of a table and how many rows it has, if there is one.
fn table(server: &mut Server, name: &str) -> Result<Option<(Schema, Option<u64>)>, ConnectError> {
    let reply = match server.query::<Value>(redis::cmd("TABLE.INFO").arg(name)) {
        Ok(reply) => reply,
        // No such table, or a server that has none.
        Err(error) if error.is_refusal() => {
            let words = error.to_string();
            let is_absent = words.contains("no such table") || words.contains("unknown command");
            return if is_absent { Ok(None) } else { Err(error) };
        }
        Err(error) => return Err(error),
    };
    let wrong = || ConnectError::new(format!("{}: its reply to TABLE.INFO is none", server.name()));
    let pairs: Vec<(&Value, &Value)> = match &reply {
        Value::Array(flat) => flat.chunks_exact(2).map(|pair| (&pair[0], &pair[1])).collect(),
        Value::Map(pairs) => pairs.iter().map(|(name, value)| (name, value)).collect(),
        Value::Nil => return Ok(None),
        _ => return Err(wrong()),
    };
    let find = |wanted: &str| {
        pairs.iter().find(|(key, _)| text(key) == Some(wanted)).map(|(_, value)| *value)
    };
    let total = match find("rows") {
        Some(Value::Int(rows)) => u64::try_from(*rows).ok(),
        _ => None,
    };
    let Some(Value::Array(columns)) = find("columns") else { return Err(wrong()) };
    let mut schema = Schema { name: name.to_owned(), key: Vec::new(), values: Vec::new() };
    for column in columns {
        let Value::Array(parts) = column else { return Err(wrong()) };
        let parts: Vec<&str> = parts.iter().filter_map(text).collect();
        let [name, kind, role, ..] = parts[..] else { return Err(wrong()) };
        let kind = Kind::from_name(kind).ok_or_else(wrong)?;
        let column = Column { name: name.to_owned(), kind };
        if role == "key" { schema.key.push(column) } else { schema.values.push(column) }
    }
    if schema.key.is_empty() { Err(wrong()) } else { Ok(Some((schema, total))) }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(text) => std::str::from_utf8(text).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}
