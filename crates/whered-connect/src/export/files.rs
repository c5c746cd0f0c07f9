//! Batches of columns as a file: Parquet, Arrow IPC, CSV.
//!
//! For: the files' heads, bodies and ends. Not for: names of files.
//!
//! GeoParquet 1.1 is Parquet with one entry of metadata, `geo`: which column holds geometries, how
//! they are encoded, and what they lie in. Without `crs` they are longitude and latitude on WGS 84
//! (OGC:CRS84), which is what ours are. An Arrow file says the same of its column as GeoArrow does.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampMillisecondType};
use arrow_array::{Array, RecordBatch};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{DataType, Schema as ArrowSchema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use serde_json::json;

use super::FileFormat;
use super::columns::{Columns, GEOMETRY};
use crate::calendar;
use crate::error::ConnectError;

type OutputStream<'a> = &'a mut (dyn Write + Send);

/// Rows of a row group: what a reader takes at once, and what we hold encoded.
const GROUP_ROWS: usize = 1 << 18;

pub(crate) enum File<'a> {
    Parquet(Box<ArrowWriter<OutputStream<'a>>>),
    Arrow(Box<FileWriter<OutputStream<'a>>>, Arc<ArrowSchema>),
    Csv(Box<csv::Writer<OutputStream<'a>>>),
}

impl<'a> File<'a> {
    pub(crate) fn begin(
        format: FileFormat,
        columns: &Columns,
        out: OutputStream<'a>,
    ) -> Result<File<'a>, ConnectError> {
        match format {
            FileFormat::Parquet => {
                let level = ZstdLevel::try_new(3).map_err(fault)?;
                let properties = WriterProperties::builder()
                    .set_compression(Compression::ZSTD(level))
                    .set_max_row_group_row_count(Some(GROUP_ROWS))
                    .set_created_by(concat!("whered ", env!("CARGO_PKG_VERSION")).to_owned())
                    .build();
                let schema = Arc::clone(columns.schema());
                let writer = ArrowWriter::try_new(out, schema, Some(properties)).map_err(fault)?;
                Ok(File::Parquet(Box::new(writer)))
            }
            FileFormat::Arrow => {
                let schema = with_extension(columns.schema());
                let writer = FileWriter::try_new(out, &schema).map_err(fault)?;
                Ok(File::Arrow(Box::new(writer), schema))
            }
            FileFormat::Csv => {
                let mut writer = csv::Writer::from_writer(out);
                let names = columns.schema().fields().iter().map(|field| field.name());
                writer
                    .write_record(names.filter(|name| *name != GEOMETRY || !columns.has_places()))
                    .map_err(fault)?;
                Ok(File::Csv(Box::new(writer)))
            }
        }
    }

    /// Writes the rows that are there.
    pub(crate) fn write(&mut self, columns: &mut Columns) -> Result<(), ConnectError> {
        let batch = columns.take()?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        match self {
            File::Parquet(writer) => writer.write(&batch).map_err(fault),
            File::Arrow(writer, schema) => {
                let batch = batch.with_schema(Arc::clone(schema)).map_err(fault)?;
                writer.write(&batch).map_err(fault)
            }
            File::Csv(writer) => write_csv(writer, &batch, columns.has_places()),
        }
    }

    /// Writes the end, after which the file is whole.
    pub(crate) fn end(self, columns: &Columns) -> Result<(), ConnectError> {
        match self {
            File::Parquet(mut writer) => {
                if columns.has_places() {
                    let value = geo_metadata(columns).to_string();
                    writer.append_key_value_metadata(KeyValue::new("geo".to_owned(), value));
                }
                writer.close().map(|_| ()).map_err(fault)
            }
            File::Arrow(mut writer, _) => writer.finish().map_err(fault),
            File::Csv(mut writer) => writer.flush().map_err(fault),
        }
    }
}

fn geo_metadata(columns: &Columns) -> serde_json::Value {
    let mut column = json!({ "encoding": "WKB", "geometry_types": ["Point"] });
    if let (Some(bounds), Some(column)) = (columns.bounds(), column.as_object_mut()) {
        column.insert("bbox".to_owned(), json!(bounds));
    }
    json!({ "version": "1.1.0", "primary_column": GEOMETRY, "columns": { GEOMETRY: column } })
}

/// The schema whose column of places says that it is one.
fn with_extension(schema: &ArrowSchema) -> Arc<ArrowSchema> {
    let fields = schema.fields().iter().map(|field| {
        if field.name() != GEOMETRY {
            return field.as_ref().clone();
        }
        field.as_ref().clone().with_metadata(HashMap::from([
            ("ARROW:extension:name".to_owned(), "geoarrow.wkb".to_owned()),
            (
                "ARROW:extension:metadata".to_owned(),
                r#"{"crs":"OGC:CRS84","crs_type":"authority_code"}"#.to_owned(),
            ),
        ]))
    });
    Arc::new(ArrowSchema::new(fields.collect::<Vec<_>>()))
}

/// Rows as text; places stand there as their two numbers already.
fn write_csv(
    writer: &mut csv::Writer<OutputStream<'_>>,
    batch: &RecordBatch,
    has_places: bool,
) -> Result<(), ConnectError> {
    let count = batch.num_columns() - usize::from(has_places);
    let mut field = Vec::new();
    for row in 0..batch.num_rows() {
        for array in &batch.columns()[..count] {
            field.clear();
            if array.is_valid(row) {
                write_cell(array.as_ref(), row, &mut field);
            }
            writer.write_field(&field).map_err(fault)?;
        }
        writer.write_record(None::<&[u8]>).map_err(fault)?;
    }
    Ok(())
}

fn write_cell(array: &dyn Array, row: usize, into: &mut Vec<u8>) {
    match array.data_type() {
        DataType::Int64 => {
            let value = array.as_primitive::<Int64Type>().value(row);
            into.extend_from_slice(value.to_string().as_bytes());
        }
        DataType::Float64 => {
            let value = array.as_primitive::<Float64Type>().value(row);
            into.extend_from_slice(value.to_string().as_bytes());
        }
        DataType::Utf8 => into.extend_from_slice(array.as_string::<i32>().value(row).as_bytes()),
        DataType::Binary => into.extend_from_slice(array.as_binary::<i32>().value(row)),
        _ => {
            let millis = array.as_primitive::<TimestampMillisecondType>().value(row);
            calendar::write(millis, into);
            into.push(b'Z');
        }
    }
}

fn fault(error: impl std::fmt::Display) -> ConnectError {
    ConnectError::new(format!("the file cannot be written: {error}"))
}
