//! What a sink sees of a feed: typed rows, and which of them changed since a batch.
//!
//! For: handing rows from whoever keeps them to whoever writes SQL, without either knowing the
//! other. Not for: keeping rows, and not for SQL.
//!
//! ```text
//! row = cells of the key columns, then cells of the value columns, as the schema names them
//! ```
//!
//! Invariants, which [`Handover`] promises:
//!
//! - A row's cells are absolute values: writing a row twice is writing it once.
//! - Whatever changed in a batch up to [`Handover::durable_batch`] is seen by a pass that began
//!   after the call. Younger changes may be seen as well; they are seen again later.
//! - A pass sees each row at most once.
//!
//! At once: a pass runs beside batches; each page is seen under short locks.

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
    /// The same value, borrowed.
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

/// A feed, as its sinks see it.
pub trait Handover: Send + Sync {
    /// The feed's name.
    fn feed(&self) -> &str;

    /// The tables to be handed on.
    fn schemas(&self) -> &[Schema];

    /// The newest batch that no crash takes back. Zero before the first.
    fn durable_batch(&self) -> u64;

    /// Shows up to `limit` rows of a table, from place `from` on, whose last change is in a batch
    /// younger than `batch`. Gives the place to go on at, or nothing at the end; zero begins.
    fn changed_since(
        &self,
        table: usize,
        batch: u64,
        from: u64,
        limit: usize,
        each: &mut dyn FnMut(&[Cell<'_>]),
    ) -> Option<u64>;

    /// Takes rows over that the table does not have, as a batch that is durable when this returns.
    /// Gives how many those were.
    ///
    /// # Errors
    ///
    /// One line: why nothing more can be taken.
    fn adopt(&self, table: usize, rows: Vec<Vec<OwnedCell>>) -> Result<u64, String>;
}
