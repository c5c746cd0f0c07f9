//! Records of text as Parquet: every part is a column of text.
//!
//! Not for JSON, whose members vary. The columns have the names of the parts; `-` of a log is
//! null, and bytes that are not UTF-8 become U+FFFD. A line that cannot be split is in the column
//! `rest` of a log, or in one more column of a table, `line`.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_array::builder::StringBuilder;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::super::additions::Additions;
use super::super::detect::Layout;
use super::super::find::{DatabaseSnapshot, Finder};
use super::super::input::Input;
use super::super::ordered;
use super::super::output::Output;
use super::super::pipeline::{BLOCK_BYTES, INDEX_INPUT_BYTES};
use super::super::progress::Progress;
use super::super::split::csv::cell_text;
use super::super::work::{Batch, Counts};
use super::super::write::{FAULT_NAME, LINE_NAME, PartKind, Record};
use super::sink::ParquetSink;
use super::{Content, FieldKind, Piece, Target, arrays, fault_array};
use crate::cli::EnrichArguments;
use crate::outcome::Failure;

/// The text that becomes columns.
pub(crate) struct TextInput<'a> {
    pub(crate) input: Input,
    pub(crate) layout: &'a Layout,
    pub(crate) parts: PartKind,
}

/// Enriches text, into Parquet.
///
/// # Errors
/// The first failure in the order of the input.
pub(crate) fn enrich_text(
    arguments: &EnrichArguments,
    text: TextInput<'_>,
    additions: &Arc<Additions>,
    kinds: &[FieldKind],
    threads: usize,
) -> Result<Counts, Failure> {
    let TextInput { mut input, layout, parts } = text;
    let schema = schema(layout, parts, additions, kinds)?;
    let output = Output::open(arguments.output.as_deref())?;
    let mut target = Target::Parquet(Box::new(ParquetSink::new(output, &schema, None, &[])?));
    let total_bytes = Input::size_bytes(&arguments.inputs);
    if total_bytes.is_some_and(|total_bytes| total_bytes >= INDEX_INPUT_BYTES) {
        Additions::build_indexes(additions);
    }
    let (progress, read_bytes) = (Progress::new(total_bytes), input.progress());
    let read = || {
        let mut block = Vec::new();
        Ok(input.next_block(layout, BLOCK_BYTES, &mut block)?.then_some(block))
    };
    let worker = || {
        let mut worker = TextWorker { layout, parts, kinds, additions, schema: &schema };
        move |block: Vec<u8>| worker.run(&block)
    };
    let mut counts = Counts::default();
    ordered::run(threads, read, worker, |piece: Piece| {
        counts.add(&piece.counts);
        target.write(&piece.content)?;
        progress.set(read_bytes.load(Ordering::Relaxed), counts.total());
        Ok(())
    })?;
    target.finish()?;
    Ok(counts)
}

/// The parts, the added fields and the fault.
fn schema(
    layout: &Layout,
    parts: PartKind,
    additions: &Additions,
    kinds: &[FieldKind],
) -> Result<SchemaRef, Failure> {
    let is_log = matches!(parts, PartKind::Log { .. });
    let line = (!is_log).then_some(LINE_NAME);
    let names = layout.names.iter().map(String::as_str).chain(line);
    let mut fields: Vec<Field> = names.map(|name| Field::new(name, DataType::Utf8, true)).collect();
    let added = additions.columns.iter().zip(kinds);
    fields.extend(added.map(|(column, kind)| Field::new(&column.name, kind.data_type(), true)));
    fields.push(Field::new(FAULT_NAME, DataType::Utf8, true));
    let mut seen = HashSet::new();
    if let Some(twice) = fields.iter().find(|field| !seen.insert(field.name().clone())) {
        return Err(Failure::Message(format!(
            "two columns of the output have the name '{}'; allowed in Parquet: different names",
            twice.name().escape_debug()
        )));
    }
    Ok(Arc::new(Schema::new(fields)))
}

struct TextWorker<'a> {
    layout: &'a Layout,
    parts: PartKind,
    kinds: &'a [FieldKind],
    additions: &'a Additions,
    schema: &'a SchemaRef,
}

impl TextWorker<'_> {
    fn run(&mut self, block: &[u8]) -> Result<Piece, String> {
        let views: Vec<DatabaseSnapshot<'_>> =
            self.additions.finders.iter().map(Finder::view).collect();
        let is_log = matches!(self.parts, PartKind::Log { .. });
        let count = self.layout.names.len() + usize::from(!is_log);
        let mut builders: Vec<StringBuilder> = (0..count).map(|_| StringBuilder::new()).collect();
        let mut keys: Vec<Vec<u32>> = vec![Vec::new(); views.len()];
        let (mut faults, mut batch, mut start) = (Vec::new(), Batch::default(), 0);
        while start < block.len() {
            start = batch.take(&self.layout.shape, self.additions, &views, block, start)?;
            for line in &batch.lines {
                self.push(&batch.record(line, block), &mut builders);
                faults.push(line.fault);
            }
            for (all, keys) in keys.iter_mut().zip(&batch.keys) {
                all.extend_from_slice(keys);
            }
        }
        let added = arrays(self.additions, self.kinds, &views, &keys)?;
        let mut counts = batch.take_passed();
        for (row, fault) in faults.iter().enumerate() {
            counts.count(*fault, added.iter().any(|array| array.is_valid(row)));
        }
        let mut columns: Vec<ArrayRef> = Vec::new();
        for builder in &mut builders {
            columns.push(Arc::new(builder.finish()));
        }
        columns.extend(added);
        columns.push(fault_array(&faults, None));
        let batch = RecordBatch::try_new(self.schema.clone(), columns);
        let batch = batch.map_err(|error| error.to_string())?;
        Ok(Piece { counts, content: Content::Columns(batch) })
    }

    /// Appends the parts of a record, or its line to the last column if it has none.
    fn push(&self, record: &Record<'_>, builders: &mut [StringBuilder]) {
        let last = builders.len().saturating_sub(1);
        let mut scratch = Vec::new();
        for (at, builder) in builders.iter_mut().enumerate() {
            let part = match (record.is_whole(), at == last) {
                (false, true) => Some(record.line()),
                (false, false) => None,
                (true, _) => record.part(at),
            };
            let part = match (self.parts, part) {
                (PartKind::Log { named_count }, Some(b"-")) if at < named_count => None,
                (PartKind::Csv, Some(part)) if record.is_whole() => {
                    Some(cell_text(part, &mut scratch))
                }
                (_, part) => part,
            };
            builder.append_option(part.map(String::from_utf8_lossy));
        }
    }
}
