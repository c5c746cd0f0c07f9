//! Tables of a feed, as a sink sees them.
//!
//! Not for: SQL. Invariants: those of [`Handover`], which the engine's tables keep: a row's place
//! never changes, and rows are not removed.

use std::sync::Arc;

use whered_engine::Engine;
use whered_engine::feeds::Feed;
use whered_engine::tables::{self, ColumnKind, Table, Value};

use crate::error::ConnectError;
use crate::rows::{Cell, Column, Kind, OwnedCell, Schema};
use crate::sinks::Handover;

/// The tables of a feed that a sink hands on.
pub struct FeedTables {
    engine: Arc<Engine>,
    feed: Arc<Feed>,
    tables: Vec<Arc<Table>>,
    schemas: Vec<Schema>,
}

impl FeedTables {
    /// These tables of a feed, or all of them if none is named.
    ///
    /// # Errors
    ///
    /// The feed has no such table, or none at all: one line with those that it has.
    pub fn new(
        engine: &Arc<Engine>,
        feed: &Arc<Feed>,
        names: &[String],
    ) -> Result<FeedTables, ConnectError> {
        let all = feed.tables();
        let wrong = |what: &str| {
            let there: Vec<&str> = all.iter().map(|table| table.name()).collect();
            let (name, there) = (feed.name(), there.join(", "));
            ConnectError::new(format!("feed '{name}' has no table {what}; it has: {there}"))
        };
        let mut chosen: Vec<Arc<Table>> = Vec::new();
        for name in names {
            let table = all.iter().find(|table| table.name() == name);
            chosen.push(Arc::clone(table.ok_or_else(|| wrong(&format!("'{name}'")))?));
        }
        if names.is_empty() {
            chosen = all.to_vec();
        }
        if chosen.is_empty() {
            return Err(wrong("to be handed on"));
        }
        let schemas = chosen.iter().map(|table| schema(table)).collect();
        let (engine, feed) = (Arc::clone(engine), Arc::clone(feed));
        Ok(FeedTables { engine, feed, tables: chosen, schemas })
    }
}

impl Handover for FeedTables {
    fn feed(&self) -> &str {
        self.feed.name()
    }

    fn schemas(&self) -> &[Schema] {
        &self.schemas
    }

    fn durable_batch(&self) -> u64 {
        self.feed.durable_batch()
    }

    fn changed_since(
        &self,
        table: usize,
        batch: u64,
        from: u64,
        limit: usize,
        each: &mut dyn FnMut(&[Cell<'_>]),
    ) -> Result<Option<u64>, String> {
        let (keys, values) = (self.schemas[table].key.len(), self.schemas[table].values.len());
        let next = self.tables[table].changed_since(batch, from, limit, &mut |row| {
            let mut cells = Vec::with_capacity(keys + values);
            cells.extend((0..keys).map(|place| cell(row.key(place))));
            cells.extend((0..values).map(|place| cell(row.column(place))));
            each(&cells);
        });
        next.map_err(|error| error.to_string())
    }

    fn adopt(&self, table: usize, rows: Vec<Vec<OwnedCell>>) -> Result<u64, String> {
        let mut rows = rows.into_iter().map(|row| row.into_iter().map(value).collect::<Vec<_>>());
        let name = self.tables[table].name();
        let adopted = self.engine.adopt_rows(&self.feed, name, &mut rows);
        adopted.map_err(|error| error.to_string())
    }
}

fn schema(table: &Table) -> Schema {
    let column = |column: &tables::Column| Column {
        name: column.name.clone(),
        kind: match column.kind {
            ColumnKind::Integer => Kind::Integer,
            ColumnKind::Number => Kind::Number,
            ColumnKind::Text => Kind::Text,
            ColumnKind::Time => Kind::Time,
        },
    };
    let schema = table.schema();
    Schema {
        name: table.name().to_owned(),
        key: schema.key.iter().map(column).collect(),
        values: schema.columns.iter().map(column).collect(),
    }
}

fn cell(cell: tables::Cell<'_>) -> Cell<'_> {
    match cell {
        tables::Cell::Absent => Cell::Absent,
        tables::Cell::Integer(value) => Cell::Integer(value),
        tables::Cell::Number(value) => Cell::Number(value),
        tables::Cell::Text(text) => Cell::Text(text),
        tables::Cell::Time(millis) => Cell::Time(millis),
    }
}

fn value(cell: OwnedCell) -> Value {
    match cell {
        OwnedCell::Absent => Value::Absent,
        OwnedCell::Integer(value) => Value::Integer(value),
        OwnedCell::Number(value) => Value::Number(value),
        OwnedCell::Text(text) => Value::Text(text),
        OwnedCell::Time(millis) => Value::Time(millis),
    }
}
