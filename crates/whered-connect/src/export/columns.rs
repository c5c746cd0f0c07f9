//! Rows gathered into Arrow's columns.
//!
//! ```text
//! schema's columns ... | geometry: a point as WKB, where there are longitude and latitude
//! WKB point = 01 | 01 00 00 00 | longitude f64 | latitude f64        (little-endian)
//! ```
//!
//! Not for: files. Invariant: all columns have the same length between two calls.

use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, Float64Builder, Int64Builder, StringBuilder, TimestampMillisecondBuilder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema as ArrowSchema, TimeUnit};

use crate::error::ConnectError;
use crate::rows::{Kind, OwnedCell, Schema};

/// Rows of a batch.
const ROWS: usize = 1 << 14;
/// The most bytes of text in a batch.
const TEXT_BYTES: usize = 64 << 20;

/// The column that holds places.
pub(crate) const GEOMETRY: &str = "geometry";

enum Builder {
    Integer(Int64Builder),
    Number(Float64Builder),
    Text(StringBuilder),
    Bytes(BinaryBuilder),
    Time(TimestampMillisecondBuilder),
}

/// West, south, east and north of all places.
pub(crate) type Bounds = [f64; 4];

pub(crate) struct Columns {
    schema: Arc<ArrowSchema>,
    builders: Vec<Builder>,
    /// Where longitude and latitude stand, and the column made of them.
    place: Option<(usize, usize, BinaryBuilder)>,
    bounds: Option<Bounds>,
    rows: usize,
    text_bytes: usize,
}

impl Columns {
    pub(crate) fn new(schema: &Schema, binary: bool) -> Columns {
        let (mut fields, mut builders) = (Vec::new(), Vec::new());
        for column in schema.columns() {
            let (kind, builder) = match column.kind {
                Kind::Integer => (DataType::Int64, Builder::Integer(Int64Builder::new())),
                Kind::Number => (DataType::Float64, Builder::Number(Float64Builder::new())),
                Kind::Text if binary => (DataType::Binary, Builder::Bytes(BinaryBuilder::new())),
                Kind::Text => (DataType::Utf8, Builder::Text(StringBuilder::new())),
                Kind::Time => {
                    let builder = TimestampMillisecondBuilder::new().with_timezone("UTC");
                    let kind = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
                    (kind, Builder::Time(builder))
                }
            };
            fields.push(Field::new(&column.name, kind, true));
            builders.push(builder);
        }
        let find = |name: &str| {
            schema.columns().position(|column| column.name == name && column.kind == Kind::Number)
        };
        let is_free = schema.columns().all(|column| column.name != GEOMETRY);
        let place = match (find("longitude"), find("latitude")) {
            (Some(longitude), Some(latitude)) if is_free => {
                fields.push(Field::new(GEOMETRY, DataType::Binary, true));
                Some((longitude, latitude, BinaryBuilder::new()))
            }
            _ => None,
        };
        let schema = Arc::new(ArrowSchema::new(fields));
        Columns { schema, builders, place, bounds: None, rows: 0, text_bytes: 0 }
    }

    pub(crate) fn schema(&self) -> &Arc<ArrowSchema> {
        &self.schema
    }

    /// Whether there is a column of places.
    pub(crate) fn has_places(&self) -> bool {
        self.place.is_some()
    }

    /// What all places so far lie in.
    pub(crate) fn bounds(&self) -> Option<Bounds> {
        self.bounds
    }

    pub(crate) fn is_full(&self) -> bool {
        self.rows >= ROWS || self.text_bytes >= TEXT_BYTES
    }

    /// Adds a row.
    ///
    /// # Errors
    ///
    /// A text that is not UTF-8 where texts are to be.
    pub(crate) fn push(&mut self, row: &[OwnedCell]) -> Result<(), ConnectError> {
        for (place, (builder, cell)) in self.builders.iter_mut().zip(row).enumerate() {
            let wrong = |why: &str| {
                let name = self.schema.field(place).name();
                ConnectError::new(format!("column {name}: {why}"))
            };
            match (builder, cell) {
                (Builder::Integer(builder), OwnedCell::Integer(value)) => {
                    builder.append_value(*value);
                }
                (Builder::Integer(builder), _) => builder.append_null(),
                (Builder::Number(builder), OwnedCell::Number(value)) => {
                    builder.append_value(*value);
                }
                (Builder::Number(builder), _) => builder.append_null(),
                (Builder::Time(builder), OwnedCell::Time(value)) => builder.append_value(*value),
                (Builder::Time(builder), _) => builder.append_null(),
                (Builder::Text(builder), OwnedCell::Text(text)) => {
                    let valid = std::str::from_utf8(text).map_err(|_| {
                        let shown = String::from_utf8_lossy(text);
                        wrong(&format!(
                            "'{}' is not UTF-8; allowed with --binary",
                            shown.escape_debug()
                        ))
                    })?;
                    self.text_bytes += valid.len();
                    builder.append_value(valid);
                }
                (Builder::Text(builder), _) => builder.append_null(),
                (Builder::Bytes(builder), OwnedCell::Text(text)) => {
                    self.text_bytes += text.len();
                    builder.append_value(text);
                }
                (Builder::Bytes(builder), _) => builder.append_null(),
            }
        }
        if let Some((longitude, latitude, builder)) = &mut self.place {
            match (&row[*longitude], &row[*latitude]) {
                (OwnedCell::Number(longitude), OwnedCell::Number(latitude)) => {
                    builder.append_value(point(*longitude, *latitude));
                    let [west, south, east, north] =
                        self.bounds.unwrap_or([*longitude, *latitude, *longitude, *latitude]);
                    let (west, east) = (west.min(*longitude), east.max(*longitude));
                    self.bounds = Some([west, south.min(*latitude), east, north.max(*latitude)]);
                }
                _ => builder.append_null(),
            }
        }
        self.rows += 1;
        Ok(())
    }

    /// The rows so far; none are left.
    pub(crate) fn take(&mut self) -> Result<RecordBatch, ConnectError> {
        let mut arrays: Vec<ArrayRef> = Vec::new();
        for builder in &mut self.builders {
            arrays.push(match builder {
                Builder::Integer(builder) => Arc::new(builder.finish()),
                Builder::Number(builder) => Arc::new(builder.finish()),
                Builder::Text(builder) => Arc::new(builder.finish()),
                Builder::Bytes(builder) => Arc::new(builder.finish()),
                Builder::Time(builder) => Arc::new(builder.finish()),
            });
        }
        if let Some((_, _, builder)) = &mut self.place {
            arrays.push(Arc::new(builder.finish()));
        }
        (self.rows, self.text_bytes) = (0, 0);
        RecordBatch::try_new(Arc::clone(&self.schema), arrays)
            .map_err(|error| ConnectError::new(error.to_string()))
    }
}

/// A point as well-known binary.
fn point(longitude: f64, latitude: f64) -> [u8; 21] {
    let mut bytes = [0; 21];
    bytes[0] = 1;
    bytes[1] = 1;
    bytes[5..13].copy_from_slice(&longitude.to_le_bytes());
    bytes[13..].copy_from_slice(&latitude.to_le_bytes());
    bytes
}
