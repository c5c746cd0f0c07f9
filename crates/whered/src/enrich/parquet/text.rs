//! Records of text as Parquet: every part, cell or member is a column of text.
//!
//! Not for other types: nobody says what the texts of later records are. The columns have the names
//! of the parts; `-` of a log is null, and bytes that are not UTF-8 become U+FFFD. A line that
//! cannot be split is in the column `rest` of a log, or in one more column `line`.
//!
//! Objects have the columns of the first objects' members. What is no string is JSON there, and
//! members that come later are together in the column `other_members`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_array::builder::StringBuilder;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use serde_json::{Map, Value};

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
use super::super::write::{LINE_NAME, PartKind, Record};
use super::sink::ParquetSink;
use super::{Content, FieldKind, Piece, Target, arrays, fault_array};
use crate::cli::EnrichArguments;
use crate::outcome::Failure;

/// The column of the members that the first objects do not have.
const OTHER_MEMBERS: &str = "other_members";

/// The text that becomes columns.
pub(crate) struct TextInput<'a> {
    pub(crate) input: Input,
    pub(crate) layout: &'a Layout,
    /// Nothing for objects.
    pub(crate) parts: Option<PartKind>,
}

/// The columns before the added ones, by name; the last one takes a line that is no record.
fn own_names(layout: &Layout, parts: Option<PartKind>, fault_name: &str) -> Vec<String> {
    match parts {
        Some(PartKind::Log { .. }) => layout.names.clone(),
        Some(_) => layout.names.iter().cloned().chain([LINE_NAME.to_owned()]).collect(),
        None => {
            let members = layout.members.iter().filter(|name| *name != fault_name);
            let mut names: Vec<String> = members.cloned().collect();
            for name in [OTHER_MEMBERS, LINE_NAME] {
                let mut name = name.to_owned();
                while names.contains(&name) {
                    name.push('_');
                }
                names.push(name);
            }
            names
        }
    }
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
    let names = own_names(layout, parts, &additions.fault_name);
    let schema = schema(&names, additions, kinds)?;
    let columns: HashMap<&str, usize> =
        names.iter().map(String::as_str).zip(0..).take(names.len().saturating_sub(2)).collect();
    let output = Output::open(arguments.output.as_deref())?;
    let mut target = Target::Parquet(Box::new(ParquetSink::new(output, &schema, None, &[])?));
    let total_bytes = Input::size_bytes(&arguments.inputs);
    if total_bytes.is_some_and(|total_bytes| total_bytes >= INDEX_INPUT_BYTES) {
        Additions::build_indexes(additions);
    }
    let (progress, read_bytes) = (Progress::new(total_bytes), input.progress());
    let cut_lines = input.cut_lines();
    let read = || {
        let mut block = Vec::new();
        Ok(input.next_block(layout, BLOCK_BYTES, &mut block)?.then_some(block))
    };
    let worker = || {
        let (columns, schema, count) = (&columns, &schema, names.len());
        let mut worker = TextWorker { layout, parts, columns, count, kinds, additions, schema };
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
    Ok(Counts { cut_lines: cut_lines.load(Ordering::Relaxed), ..counts })
}

/// The parts, the added fields and the fault.
fn schema(
    names: &[String],
    additions: &Additions,
    kinds: &[FieldKind],
) -> Result<SchemaRef, Failure> {
    let names = names.iter().map(String::as_str);
    let mut fields: Vec<Field> = names.map(|name| Field::new(name, DataType::Utf8, true)).collect();
    let added = additions.columns.iter().zip(kinds);
    fields.extend(added.map(|(column, kind)| Field::new(&column.name, kind.data_type(), true)));
    fields.push(Field::new(&additions.fault_name, DataType::Utf8, true));
    let mut seen = HashSet::new();
    if let Some(twice) = fields.iter().find(|field| !seen.insert(field.name().clone())) {
        return Err(Failure::Message(format!(
            "two columns of the output have the name '{}'; allowed in Parquet: different names, as \
             by --prefix",
            twice.name().escape_debug()
        )));
    }
    Ok(Arc::new(Schema::new(fields)))
}

struct TextWorker<'a> {
    layout: &'a Layout,
    parts: Option<PartKind>,
    /// The columns of members.
    columns: &'a HashMap<&'a str, usize>,
    /// How many columns precede the added ones.
    count: usize,
    kinds: &'a [FieldKind],
    additions: &'a Additions,
    schema: &'a SchemaRef,
}

impl TextWorker<'_> {
    fn run(&mut self, block: &[u8]) -> Result<Piece, String> {
        let views: Vec<DatabaseSnapshot<'_>> =
            self.additions.finders.iter().map(Finder::view).collect();
        let mut builders: Vec<StringBuilder> =
            (0..self.count).map(|_| StringBuilder::new()).collect();
        let mut earlier = StringBuilder::new();
        let mut keys: Vec<Vec<u32>> = vec![Vec::new(); views.len()];
        let (mut faults, mut batch, mut start) = (Vec::new(), Batch::default(), 0);
        while start < block.len() {
            start = batch.take(&self.layout.shape, self.additions, &views, block, start)?;
            for line in &batch.lines {
                let record = batch.record(line, block);
                match self.parts {
                    Some(parts) => {
                        push_parts(&record, parts, &mut builders);
                        earlier.append_null();
                    }
                    None => earlier.append_option(self.push_members(&record, &mut builders)),
                }
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
        columns.push(fault_array(&faults, Some(&earlier.finish())));
        let batch = RecordBatch::try_new(self.schema.clone(), columns);
        let batch = batch.map_err(|error| error.to_string())?;
        Ok(Piece { counts, content: Content::Columns(batch) })
    }

    /// Appends the members of an object, or its line to the last column if it is none; gives the
    /// fault of an earlier run.
    fn push_members(&self, record: &Record<'_>, builders: &mut [StringBuilder]) -> Option<String> {
        let object: Option<Map<String, Value>> = serde_json::from_slice(record.line()).ok();
        let (mut cells, mut earlier) = (vec![None; builders.len()], None);
        let mut others = Map::new();
        let line = object.is_none().then(|| String::from_utf8_lossy(record.line()).into_owned());
        for (name, value) in object.into_iter().flatten() {
            let text = |value: Value| match value {
                Value::Null => None,
                Value::String(text) => Some(text),
                value => Some(value.to_string()),
            };
            match self.columns.get(name.as_str()).and_then(|at| cells.get_mut(*at)) {
                _ if name == self.additions.fault_name => earlier = text(value),
                Some(cell) => *cell = text(value),
                None => {
                    others.insert(name, value);
                }
            }
        }
        if let [.., others_cell, line_cell] = cells.as_mut_slice() {
            *others_cell = (!others.is_empty()).then(|| Value::Object(others).to_string());
            *line_cell = line;
        }
        for (builder, cell) in builders.iter_mut().zip(cells) {
            builder.append_option(cell);
        }
        earlier
    }
}

/// Appends the parts of a record, or its line to the last column if it has none.
fn push_parts(record: &Record<'_>, parts: PartKind, builders: &mut [StringBuilder]) {
    let last = builders.len().saturating_sub(1);
    let mut scratch = Vec::new();
    for (at, builder) in builders.iter_mut().enumerate() {
        let part = match (record.is_whole(), at == last) {
            (false, true) => Some(record.line()),
            (false, false) => None,
            (true, _) => record.part(at),
        };
        let part = match (parts, part) {
            (PartKind::Log { named_count }, Some(b"-")) if at < named_count => None,
            (PartKind::Csv, Some(part)) if record.is_whole() => Some(cell_text(part, &mut scratch)),
            (_, part) => part,
        };
        builder.append_option(part.map(String::from_utf8_lossy));
    }
}
