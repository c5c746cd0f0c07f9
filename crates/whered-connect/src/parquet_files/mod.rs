//! Parquet files as one stream of batches.
//!
//! Not for what columns mean. All files are opened and compared before the first row is read, so
//! that a file of another layout ends the run before it begins. A batch has at most
//! [`BATCH_ROWS`] rows, and fewer where the file says that rows are long: memory is bounded by a
//! page of each column and some batches, however long a row group is.

mod silence;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema, SchemaRef};
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::arrow::{ARROW_SCHEMA_META_KEY, ProjectionMask};
use parquet::file::metadata::{ColumnChunkMetaData, KeyValue, ParquetMetaData};
use parquet::schema::types::SchemaDescPtr;

/// The rows of a batch.
const BATCH_ROWS: usize = 8192;
/// About how many bytes a batch may take.
const BATCH_BYTES: usize = 32 << 20;
/// The rows that decide which column holds addresses.
const SAMPLE_ROWS: usize = 100;

/// The files, one after the other.
pub struct ParquetFiles {
    /// Those that are not open yet, the last one first.
    waiting: Vec<PathBuf>,
    current: Option<(PathBuf, ParquetRecordBatchReader)>,
    /// The copy of standard input on the disk.
    spooled: Option<File>,
    /// The columns as Arrow has them.
    pub schema: SchemaRef,
    /// The columns as Parquet has them; nothing if the files differ in it.
    pub parquet_schema: Option<SchemaDescPtr>,
    /// The entries of metadata that all files have.
    pub metadata: Vec<KeyValue>,
    /// The rows of all files.
    pub row_count: u64,
    /// The columns that are read; nothing for all of them.
    projection: Option<Vec<usize>>,
}

/// What is wrong with a file.
fn fault(path: &Path, error: &dyn std::fmt::Display) -> String {
    let text = error.to_string().replace('\n', " ");
    format!("{}: cannot be read as Parquet: {text}; allowed: a whole Parquet file", shown(path))
}

/// The name of an input.
pub fn shown(path: &Path) -> String {
    match path == Path::new("-") {
        true => "standard input".to_owned(),
        false => path.display().to_string(),
    }
}

/// Opens a file, or what was standard input. Its readers share one place in it, so that one is over
/// before the next one begins.
fn open(path: &Path, spooled: Option<&File>) -> Result<(File, ArrowReaderMetadata), String> {
    let file = match spooled.filter(|_| path == Path::new("-")) {
        Some(spooled) => spooled.try_clone(),
        None => File::open(path),
    };
    let file = file.map_err(|error| format!("{}: {error}", shown(path)))?;
    let metadata = caught(path, || ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()))?;
    Ok((file, metadata))
}

/// Runs what reads a file. A panic of the library over broken bytes is an error as well.
fn caught<T, E: std::fmt::Display>(
    path: &Path,
    read: impl FnOnce() -> Result<T, E>,
) -> Result<T, String> {
    match silence::catch(read) {
        Some(Ok(value)) => Ok(value),
        Some(Err(error)) => Err(fault(path, &error)),
        None => Err(fault(path, &"its bytes are damaged")),
    }
}

/// How many rows of a file make a batch.
fn batch_rows(metadata: &ParquetMetaData) -> usize {
    let groups = metadata.row_groups().iter();
    let row_bytes = groups.map(|group| {
        let written = group.total_byte_size();
        // Texts that repeat are written once, and each row that is read has its own.
        let columns = group.columns().iter();
        let texts = columns.filter_map(ColumnChunkMetaData::unencoded_byte_array_data_bytes);
        written.max(texts.sum::<i64>()) / group.num_rows().max(1)
    });
    let row_bytes = usize::try_from(row_bytes.max().unwrap_or(0)).unwrap_or(usize::MAX);
    (BATCH_BYTES / row_bytes.max(1)).clamp(1, BATCH_ROWS)
}

fn reader(file: File, metadata: &ArrowReaderMetadata) -> ParquetRecordBatchReaderBuilder<File> {
    let rows = batch_rows(metadata.metadata());
    ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata.clone()).with_batch_size(rows)
}

impl ParquetFiles {
    /// Opens all files and compares their columns.
    ///
    /// # Errors
    /// A file that is not whole, or has other columns than the first one.
    pub fn open(paths: &[PathBuf], spooled: Option<File>) -> Result<ParquetFiles, String> {
        let first = paths.first().map_or(Path::new("-"), PathBuf::as_path);
        let (_, metadata) = open(first, spooled.as_ref())?;
        let mut files = ParquetFiles {
            waiting: paths.iter().rev().cloned().collect(),
            current: None,
            spooled,
            schema: metadata.schema().clone(),
            parquet_schema: Some(metadata.metadata().file_metadata().schema_descr_ptr()),
            metadata: entries(metadata.metadata()),
            row_count: row_count(metadata.metadata()),
            projection: None,
        };
        for path in paths.iter().skip(1) {
            let (_, metadata) = open(path, files.spooled.as_ref())?;
            let schema = merged(&files.schema, metadata.schema())
                .map_err(|what| format!("{}: {what} as in {}", shown(path), shown(first)))?;
            files.schema = Arc::new(schema);
            let descriptor = metadata.metadata().file_metadata().schema_descr_ptr();
            let is_same = |known: &SchemaDescPtr| known.root_schema() == descriptor.root_schema();
            files.parquet_schema = files.parquet_schema.filter(is_same);
            let entries = entries(metadata.metadata());
            files.metadata.retain(|entry| entries.contains(entry));
            files.row_count += row_count(metadata.metadata());
        }
        Ok(files)
    }

    /// Reads only the columns with these indexes, in the order of the file.
    pub fn project(&mut self, columns: Vec<usize>) {
        self.projection = Some(columns);
    }

    /// The first rows of the first file.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn sample(&self) -> Result<RecordBatch, String> {
        let Some(path) = self.waiting.last() else {
            return Ok(RecordBatch::new_empty(self.schema.clone()));
        };
        let (file, metadata) = open(path, self.spooled.as_ref())?;
        let rows = batch_rows(metadata.metadata()).min(SAMPLE_ROWS);
        let found = caught(path, || {
            let builder = reader(file, &metadata).with_batch_size(rows).with_limit(SAMPLE_ROWS);
            builder.build()?.next().transpose().map_err(parquet::errors::ParquetError::from)
        })?;
        Ok(found.unwrap_or_else(|| RecordBatch::new_empty(self.schema.clone())))
    }

    /// The next rows; nothing at the end.
    ///
    /// # Errors
    /// A file that cannot be read, or is another one than at the start.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>, String> {
        loop {
            if let Some((path, reader)) = &mut self.current {
                match caught(path, || reader.next().transpose())? {
                    Some(batch) => return Ok(Some(batch)),
                    None => self.current = None,
                }
            }
            let Some(path) = self.waiting.pop() else { return Ok(None) };
            let (file, metadata) = open(&path, self.spooled.as_ref())?;
            merged(&self.schema, metadata.schema())
                .map_err(|_| format!("{}: has changed during the run", shown(&path)))?;
            let projection = self.projection.as_ref().map(|columns| {
                let schema = metadata.metadata().file_metadata().schema_descr();
                ProjectionMask::roots(schema, columns.iter().copied())
            });
            let reader = caught(&path, || {
                let reader = reader(file, &metadata);
                match projection {
                    Some(projection) => reader.with_projection(projection).build(),
                    None => reader.build(),
                }
            })?;
            self.current = Some((path, reader));
        }
    }
}

fn row_count(metadata: &ParquetMetaData) -> u64 {
    u64::try_from(metadata.file_metadata().num_rows()).unwrap_or_default()
}

/// The entries of a file's metadata, without that of Arrow, which the writer makes.
fn entries(metadata: &ParquetMetaData) -> Vec<KeyValue> {
    let entries = metadata.file_metadata().key_value_metadata().into_iter().flatten();
    entries.filter(|entry| entry.key != ARROW_SCHEMA_META_KEY).cloned().collect()
}

/// The columns of two files, which must have the same names and types; what may be null in one of
/// them may be null.
fn merged(left: &Schema, right: &Schema) -> Result<Schema, String> {
    if left.fields().len() != right.fields().len() {
        let (found, allowed) = (right.fields().len(), left.fields().len());
        return Err(format!("has {found} columns; allowed: the same {allowed} columns"));
    }
    let pairs = left.fields().iter().zip(right.fields());
    let fields = pairs.map(|(known, found)| {
        if known.name() != found.name() || known.data_type() != found.data_type() {
            let shown = |field: &Field| {
                format!("'{}' of type {}", field.name().escape_debug(), field.data_type())
            };
            return Err(format!("has a column {}; allowed: {}", shown(found), shown(known)));
        }
        let is_nullable = known.is_nullable() || found.is_nullable();
        Ok(known.as_ref().clone().with_nullable(is_nullable))
    });
    let fields = fields.collect::<Result<Vec<Field>, String>>()?;
    Ok(Schema::new_with_metadata(fields, left.metadata().clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, Int64Array, StringArray};
    use parquet::arrow::ArrowWriter;
    use parquet::basic::Compression;
    use parquet::file::properties::WriterProperties;

    fn written(compression: Compression) -> Vec<u8> {
        let texts = (0..40).map(|row| (row % 3 > 0).then(|| format!("192.0.2.{row}")));
        let texts: ArrayRef = Arc::new(texts.collect::<StringArray>());
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..40));
        let batch = RecordBatch::try_from_iter([("ip", texts), ("n", numbers)]).unwrap();
        let properties = WriterProperties::builder().set_compression(compression).build();
        let mut out = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut out, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        out
    }

    /// All rows, or the line that says why not.
    fn read(path: &Path, bytes: &[u8]) -> Result<usize, String> {
        std::fs::write(path, bytes).unwrap();
        let mut files = ParquetFiles::open(&[path.to_owned()], None)?;
        files.sample()?;
        let mut rows = 0;
        while let Some(batch) = files.next_batch()? {
            rows += batch.num_rows();
        }
        Ok(rows)
    }

    #[test]
    fn a_file_cut_at_any_byte_or_with_any_byte_changed_is_one_line_and_never_a_panic() {
        let path = std::env::temp_dir().join(format!("whered-parquet-{}", std::process::id()));
        for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY] {
            let whole = written(compression);
            assert_eq!(read(&path, &whole), Ok(40));
            for size in 0..whole.len() {
                let line = read(&path, &whole[..size]).expect_err("half a file");
                assert!(!line.contains('\n') && line.contains("; allowed: "), "{line}");
            }
            for at in 0..whole.len() {
                let mut changed = whole.clone();
                changed[at] ^= 0x55;
                if let Err(line) = read(&path, &changed) {
                    assert!(!line.contains('\n'), "{line}");
                }
            }
        }
        std::fs::remove_file(&path).unwrap();
    }
}
