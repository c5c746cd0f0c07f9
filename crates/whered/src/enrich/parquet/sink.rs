//! A Parquet file that is being written, and the columns that it has.
//!
//! Not for making columns. A row group ends at [`GROUP_ROWS`] rows or when its encoded columns
//! take [`GROUP_BYTES`]; everything that is encoded goes out at once, so that memory is bounded by
//! a row group.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::arrow_writer::{ArrowWriter, ArrowWriterOptions};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::schema::types::{SchemaDescriptor, Type};

use super::super::output::Output;
use crate::outcome::Failure;

/// The most rows of a row group.
const GROUP_ROWS: usize = 1 << 18;
/// About the most bytes of a row group's encoded columns.
const GROUP_BYTES: usize = 128 << 20;

fn fault(error: impl std::fmt::Display) -> Failure {
    let text = error.to_string().replace('\n', " ");
    Failure::Message(format!("the output cannot be written as Parquet: {text}"))
}

pub(crate) struct ParquetSink {
    writer: ArrowWriter<Vec<u8>>,
    output: Output,
}

impl ParquetSink {
    /// Begins a file with the columns of `schema`; the first of them are those of `input` as
    /// Parquet has them, where that is known.
    ///
    /// # Errors
    /// A column that Parquet cannot hold.
    pub(crate) fn new(
        output: Output,
        schema: &SchemaRef,
        input: Option<&SchemaDescriptor>,
        metadata: &[KeyValue],
    ) -> Result<ParquetSink, Failure> {
        let level = ZstdLevel::try_new(1).map_err(fault)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_max_row_group_row_count(Some(GROUP_ROWS))
            .set_created_by(concat!("whered ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let mut options = ArrowWriterOptions::new().with_properties(properties);
        if let Some(input) = input {
            options = options.with_parquet_schema(descriptor(schema, input)?);
        }
        let writer = ArrowWriter::try_new_with_options(Vec::new(), schema.clone(), options);
        let mut writer = writer.map_err(fault)?;
        metadata.iter().cloned().for_each(|entry| writer.append_key_value_metadata(entry));
        Ok(ParquetSink { writer, output })
    }

    /// Writes rows.
    ///
    /// # Errors
    /// An output that cannot be written.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        self.writer.write(batch).map_err(fault)?;
        if self.writer.in_progress_size() >= GROUP_BYTES {
            self.writer.flush().map_err(fault)?;
        }
        let bytes = std::mem::take(self.writer.inner_mut());
        if bytes.is_empty() { Ok(()) } else { self.output.write(&bytes) }
    }

    /// Writes the end and gives the file its name.
    ///
    /// # Errors
    /// An output that cannot be written.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        let bytes = self.writer.into_inner().map_err(fault)?;
        self.output.write(&bytes)?;
        self.output.finish()
    }
}

/// The columns of the output: each of the input as it is written there, so that what only Parquet
/// knows of it stays, unless Arrow would write it in another physical type.
fn descriptor(schema: &Schema, input: &SchemaDescriptor) -> Result<SchemaDescriptor, Failure> {
    let root = input.root_schema().name();
    let derived = ArrowSchemaConverter::new().schema_root(root).convert(schema).map_err(fault)?;
    let leaves = |descriptor: &SchemaDescriptor, at: usize| {
        let columns = descriptor.columns().iter().enumerate();
        let of_root = columns.filter(|(leaf, _)| descriptor.get_column_root_idx(*leaf) == at);
        let physical = of_root.map(|(_, column)| {
            let length = column.type_length();
            (column.physical_type(), length, column.max_def_level(), column.max_rep_level())
        });
        physical.collect::<Vec<_>>()
    };
    let own = input.root_schema().get_fields();
    let columns = derived.root_schema().get_fields().iter().enumerate().map(|(at, column)| {
        let known = own.iter().position(|own| own.name() == column.name());
        let known = known.filter(|known| leaves(input, *known) == leaves(&derived, at));
        known.and_then(|known| own.get(known)).unwrap_or(column).clone()
    });
    let root = Type::group_type_builder(root).with_fields(columns.collect()).build();
    Ok(SchemaDescriptor::new(Arc::new(root.map_err(fault)?)))
}
