//! Rows of Parquet columns as text: JSON members, or cells of CSV and TSV.
//!
//! Not for the fields that are added, which are texts already. A value is what Arrow's JSON writer
//! makes of it: times in ISO 8601, bytes in hexadecimal digits, lists and structs as JSON. A cell
//! has the same text without its quotes, and nothing for null.

use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use arrow_json::writer::{EncoderOptions, NullableEncoder, make_encoder};
use arrow_schema::Schema;
use memchr::memchr;

use super::super::write::{Style, write_cell, write_json_text};

/// How rows are written.
pub(crate) struct RowStyle {
    style: Style,
    options: EncoderOptions,
    names: Vec<String>,
    /// `"name":` of each column.
    keys: Vec<Vec<u8>>,
}

/// A batch's columns, ready to be written row by row.
pub(crate) struct Rows<'a> {
    style: &'a RowStyle,
    columns: Vec<NullableEncoder<'a>>,
    scratch: Vec<u8>,
}

impl RowStyle {
    pub(crate) fn new(style: Style, schema: &Schema) -> RowStyle {
        let key = |name: &String| {
            let mut key = Vec::new();
            write_json_text(name.as_bytes(), &mut key);
            key.push(b':');
            key
        };
        let names: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
        let keys = names.iter().map(key).collect();
        let options = EncoderOptions::default().with_explicit_nulls(true);
        RowStyle { style, options, names, keys }
    }

    /// The names of the columns as cells.
    pub(crate) fn write_header(&self, out: &mut Vec<u8>) {
        let Style::Cell { delimiter } = self.style else { return };
        for (at, name) in self.names.iter().enumerate() {
            if at > 0 {
                out.push(delimiter);
            }
            write_cell(name.as_bytes(), delimiter, out);
        }
    }

    /// The columns of a batch.
    ///
    /// # Errors
    /// A column of a type that has no text.
    pub(crate) fn rows<'a>(&'a self, batch: &'a RecordBatch) -> Result<Rows<'a>, String> {
        let fields = batch.schema_ref().fields().iter();
        let encoders = fields.zip(batch.columns()).map(|(field, array)| {
            make_encoder(field, Arc::as_ref(array), &self.options).map_err(|_| {
                format!(
                    "the column '{}' of type {} cannot be written as text; allowed: Parquet \
                     (-o FILE.parquet)",
                    field.name().escape_debug(),
                    array.data_type()
                )
            })
        });
        let columns = encoders.collect::<Result<Vec<_>, String>>()?;
        Ok(Rows { style: self, columns, scratch: Vec::new() })
    }
}

impl Rows<'_> {
    /// Appends a row; of an object all but its closing brace.
    pub(crate) fn write(&mut self, row: usize, out: &mut Vec<u8>) {
        let style = self.style.style;
        if style == Style::Json {
            out.push(b'{');
        }
        for (at, (column, key)) in self.columns.iter_mut().zip(&self.style.keys).enumerate() {
            let is_null = column.is_null(row);
            match style {
                Style::Cell { delimiter } => {
                    if at > 0 {
                        out.push(delimiter);
                    }
                    if !is_null {
                        self.scratch.clear();
                        column.encode(row, &mut self.scratch);
                        write_json_cell(&self.scratch, delimiter, out);
                    }
                }
                Style::Json | Style::Log => {
                    if at > 0 {
                        out.push(b',');
                    }
                    out.extend_from_slice(key);
                    if is_null {
                        out.extend_from_slice(b"null");
                    } else {
                        column.encode(row, out);
                    }
                }
            }
        }
    }
}

/// A JSON value as a cell: the text of a string, anything else as it is, nothing for null.
fn write_json_cell(json: &[u8], delimiter: u8, out: &mut Vec<u8>) {
    let inside = json.strip_prefix(b"\"").and_then(|json| json.strip_suffix(b"\""));
    match inside {
        Some(text) if memchr(b'\\', text).is_none() => write_cell(text, delimiter, out),
        Some(_) => {
            let text: String = serde_json::from_slice(json).unwrap_or_default();
            write_cell(text.as_bytes(), delimiter, out);
        }
        None if json == b"null" => {}
        None => write_cell(json, delimiter, out),
    }
}
