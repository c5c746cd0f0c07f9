//! Typed rows of tables, as sinks and exports hand them on.
//!
//! For: naming columns and values without knowing who keeps them or who writes them. Not for:
//! keeping rows.
//!
//! ```text
//! row = cells of the key columns, then cells of the value columns, as the schema names them
//! ```
//!
//! Invariant: a row has as many cells as its schema has columns, each of its column's kind or
//! absent.

/// What kind of values a column holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Whole numbers of 64 bits.
    Integer,
    /// Floating point.
    Number,
    /// Text.
    Text,
    /// Milliseconds since 1970, UTC.
    Time,
}

impl Kind {
    /// The kind's name, as configuration and errors say it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Integer => "integer",
            Kind::Number => "number",
            Kind::Text => "text",
            Kind::Time => "time",
        }
    }

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<Kind> {
        [Kind::Integer, Kind::Number, Kind::Text, Kind::Time]
            .into_iter()
            .find(|kind| kind.name() == name)
    }
}

/// A column: its name and what it holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// The name, the same on both sides.
    pub name: String,
    /// What it holds.
    pub kind: Kind,
}

/// A table: its name, the columns that identify a row, and the others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schema {
    /// The name, the same on both sides.
    pub name: String,
    /// Together they identify a row; at least one.
    pub key: Vec<Column>,
    /// What is known of that row.
    pub values: Vec<Column>,
}

impl Schema {
    /// All columns, key first.
    pub fn columns(&self) -> impl Iterator<Item = &Column> {
        self.key.iter().chain(&self.values)
    }
}

/// A value, borrowed from the row.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Cell<'a> {
    /// No value.
    Absent,
    /// A whole number.
    Integer(i64),
    /// A floating point number.
    Number(f64),
    /// Text, as the upload wrote it.
    Text(&'a [u8]),
    /// Milliseconds since 1970, UTC.
    Time(i64),
}

/// A value that is kept.
#[derive(Clone, PartialEq, Debug)]
pub enum OwnedCell {
    /// No value.
    Absent,
    /// A whole number.
    Integer(i64),
    /// A floating point number.
    Number(f64),
    /// Text.
    Text(Vec<u8>),
    /// Milliseconds since 1970, UTC.
    Time(i64),
}

impl OwnedCell {
    /// Borrows the value.
    pub fn as_cell(&self) -> Cell<'_> {
        match self {
            OwnedCell::Absent => Cell::Absent,
            OwnedCell::Integer(value) => Cell::Integer(*value),
            OwnedCell::Number(value) => Cell::Number(*value),
            OwnedCell::Text(text) => Cell::Text(text),
            OwnedCell::Time(millis) => Cell::Time(*millis),
        }
    }
}
