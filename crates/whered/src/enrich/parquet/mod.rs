//! Parquet in and out of `whered enrich`.
//!
//! Not for text in and text out, which `pipeline` has. Three ways are here:
//!
//! ```text
//! Parquet files ── batches ──► addresses, lookups ──┬─► typed columns ──► Parquet
//!                                                   └─► rows of text  ──► NDJSON, CSV, TSV
//! text ── blocks of records ──► parts, lookups ───────► text columns ───► Parquet
//! ```
//!
//! Columns of a Parquet input pass through as they are, whatever their types; added columns have
//! the types of their databases (`fields`). Memory is bounded by some batches and a row group.

mod address;
mod fields;
mod rows;
mod sink;
pub(crate) mod spool;
mod text;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use whered_connect::parquet_files::{self, ParquetFiles};

use super::additions::Additions;
use super::addresses::Addresses;
use super::cells::{Cells, Entry};
use super::find::{DatabaseSnapshot, Finder};
use super::ordered;
use super::output::{Output, Packing};
use super::progress::Progress;
use super::split::Fault;
use super::work::Counts;
use super::write::Style;
use crate::cli::{EnrichArguments, EnrichFormat, InputFormat};
use crate::outcome::Failure;
use address::AddressColumn;
use fields::DistinctKeys;
pub(super) use fields::{FieldKind, kinds};
use rows::RowStyle;
use sink::ParquetSink;
pub(super) use text::{TextInput, enrich_text};

/// From how many rows on an index of each database is worth its building.
const INDEX_ROWS: u64 = 1 << 20;

/// The added columns of rows with these keys, one list a finder.
fn arrays(
    additions: &Additions,
    kinds: &[FieldKind],
    views: &[DatabaseSnapshot<'_>],
    keys: &[Vec<u32>],
) -> Result<Vec<ArrayRef>, String> {
    let distinct: Vec<DistinctKeys> = keys.iter().map(|keys| DistinctKeys::new(keys)).collect();
    let columns = additions.columns.iter().zip(kinds).map(|(column, kind)| {
        let at = additions.finders.iter().position(|finder| finder.databases == column.databases);
        let at = at.unwrap_or_default();
        let (view, keys) = views.get(at).zip(distinct.get(at)).ok_or("no such database")?;
        keys.column(view, column, *kind)
    });
    columns.collect()
}

/// Whether a file is a Parquet file by its first bytes or by its name.
pub(super) fn is_parquet(path: &Path) -> bool {
    let is_named = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("parquet"));
    let begins_so = || {
        // A pipe would lose its first bytes.
        let is_file = std::fs::metadata(path).is_ok_and(|about| about.is_file());
        let mut head = [0; 4];
        let mut read = || std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head));
        is_file && read().is_ok() && [b"PAR1", b"PARE"].contains(&&head)
    };
    path != Path::new("-") && (is_named || begins_so())
}

/// Enriches Parquet files.
///
/// # Errors
/// The first failure in the order of the input.
pub(super) fn enrich_files(
    arguments: &EnrichArguments,
    additions: &Arc<Additions>,
    kinds: Vec<FieldKind>,
    threads: usize,
) -> Result<Counts, Failure> {
    let standard = [PathBuf::from("-")];
    let paths = if arguments.inputs.is_empty() { &standard[..] } else { &arguments.inputs };
    let is_standard = |path: &PathBuf| path.as_path() == Path::new("-");
    if let Some(other) = paths.iter().find(|path| !is_standard(path) && !is_parquet(path)) {
        let first = paths.first().map_or(Path::new("-"), PathBuf::as_path);
        return Err(Failure::Message(format!(
            "{}: is no Parquet file as {} is; allowed: inputs of one format, each a file",
            other.display(),
            first.display()
        )));
    }
    let spooled = match paths.iter().filter(|path| is_standard(path)).count() {
        0 => None,
        1 => Some(spool::standard_input()?),
        _ => {
            let what = "standard input: is asked for twice; allowed: once";
            return Err(Failure::Message(what.to_owned()));
        }
    };
    let mut files = ParquetFiles::open(paths, spooled).map_err(Failure::Message)?;
    let name = paths.first().map(|path| parquet_files::shown(path)).unwrap_or_default();
    let sample = files.sample().map_err(Failure::Message)?;
    let address = AddressColumn::find(arguments.column.as_deref(), &sample)
        .map_err(|what| Failure::Message(format!("{name}: {what}")))?;
    let (form, packing) = form_and_packing(arguments)?;
    let schema = output_schema(&files.schema, additions, &kinds)
        .map_err(|what| Failure::Message(format!("{name}: {what}")))?;
    let (plain, _) = without_faults(&sample, &additions.fault_name).map_err(Failure::Message)?;
    let plain_schema = plain.schema();
    let is_text = !matches!(form, EnrichFormat::Same | EnrichFormat::Parquet);
    let rows = is_text.then(|| RowStyle::new(style_of(form), &plain_schema));
    if let Some(rows) = &rows {
        rows.rows(&plain).map_err(|what| Failure::Message(format!("{name}: {what}")))?;
    }
    let row_count = files.row_count;
    if row_count >= INDEX_ROWS {
        Additions::build_indexes(additions);
    }
    let plan = Plan { additions: additions.clone(), kinds, schema, address, rows, form, packing };
    let mut target = plan.open(Output::open(arguments.output.as_deref())?, &files)?;
    let total_bytes = super::input::Input::size_bytes(paths);
    let progress = Progress::new(total_bytes);
    let mut counts = Counts::default();
    let read = || files.next_batch();
    let worker = || {
        let mut worker = Worker::new(&plan);
        move |batch: RecordBatch| worker.run(&batch)
    };
    ordered::run(threads, read, worker, |piece: Piece| {
        counts.add(&piece.counts);
        target.write(&piece.content)?;
        let done = u128::from(total_bytes.unwrap_or(0)) * u128::from(counts.total())
            / u128::from(row_count.max(1));
        progress.set(u64::try_from(done).unwrap_or(u64::MAX), counts.total());
        Ok(())
    })?;
    target.finish()?;
    Ok(counts)
}

/// What the output is and how it is packed: as asked, by its name, Parquet for any other file, and
/// NDJSON on standard output.
fn form_and_packing(arguments: &EnrichArguments) -> Result<(EnrichFormat, Packing), Failure> {
    let is_standard = |path: &&PathBuf| path.as_path() == Path::new("-");
    let target = arguments.output.as_ref().filter(|path| !is_standard(path));
    let (packing, name) = match target {
        Some(path) => Packing::of(path),
        None => (Packing::Plain, PathBuf::new()),
    };
    let usual = if target.is_some() { EnrichFormat::Parquet } else { EnrichFormat::Ndjson };
    let form = arguments.format.or_else(|| super::format_of_name(&name)).unwrap_or(usual);
    refuse_packed(form, packing, arguments)?;
    Ok((form, packing))
}

/// Parquet is compressed inside, and its readers want it plain.
pub(super) fn refuse_packed(
    form: EnrichFormat,
    packing: Packing,
    arguments: &EnrichArguments,
) -> Result<(), Failure> {
    if matches!(form, EnrichFormat::Same | EnrichFormat::Parquet) && packing != Packing::Plain {
        let path = arguments.output.as_deref().unwrap_or(Path::new("-"));
        let what = "Parquet is compressed inside; allowed: a name that ends in .parquet";
        return Err(Failure::file(path, what));
    }
    Ok(())
}

/// The input's columns and the added ones. Faults of an earlier run go into the new last column.
fn output_schema(
    input: &SchemaRef,
    additions: &Additions,
    kinds: &[FieldKind],
) -> Result<SchemaRef, String> {
    let fault_name = additions.fault_name.as_str();
    let known = input.fields().iter().filter(|field| field.name() != fault_name);
    let mut fields: Vec<Field> = known.map(|field| field.as_ref().clone()).collect();
    let mut add = |name: &str, kind: DataType| {
        if input.fields().find(name).is_some() {
            return Err(format!(
                "has a column '{}' already; allowed: other names, by --prefix (one run adds fields \
                 of several --db)",
                name.escape_debug()
            ));
        }
        fields.push(Field::new(name, kind, true));
        Ok(())
    };
    for (column, kind) in additions.columns.iter().zip(kinds) {
        add(&column.name, kind.data_type())?;
    }
    fields.push(Field::new(fault_name, DataType::Utf8, true));
    Ok(Arc::new(Schema::new_with_metadata(fields, input.metadata().clone())))
}

/// The faults of rows as a column; where there is none, that of an earlier run.
fn fault_array(faults: &[Option<Fault>], earlier: Option<&StringArray>) -> ArrayRef {
    let text = |(row, fault): (usize, &Option<Fault>)| {
        fault.map(Fault::text).or_else(|| earlier_fault(earlier, row))
    };
    Arc::new(faults.iter().enumerate().map(text).collect::<StringArray>())
}

fn earlier_fault(earlier: Option<&StringArray>, row: usize) -> Option<&str> {
    earlier.filter(|faults| faults.is_valid(row)).map(|faults| faults.value(row))
}

/// A batch without the faults of an earlier run, and these.
fn without_faults(
    batch: &RecordBatch,
    fault_name: &str,
) -> Result<(RecordBatch, Option<StringArray>), String> {
    let schema = batch.schema_ref();
    let Ok(at) = schema.index_of(fault_name) else { return Ok((batch.clone(), None)) };
    let others: Vec<usize> = (0..schema.fields().len()).filter(|other| *other != at).collect();
    let faults = batch.column(at).as_string_opt::<i32>().cloned().ok_or_else(|| {
        format!("the column '{fault_name}' of the input is no text; allowed: text, as enrich adds")
    })?;
    Ok((batch.project(&others).map_err(|error| error.to_string())?, Some(faults)))
}

/// What every worker does, decided once.
struct Plan {
    additions: Arc<Additions>,
    kinds: Vec<FieldKind>,
    schema: SchemaRef,
    address: AddressColumn,
    /// How rows of text are written; nothing for Parquet.
    rows: Option<RowStyle>,
    form: EnrichFormat,
    packing: Packing,
}

impl Plan {
    /// Begins the output.
    fn open(&self, mut output: Output, files: &ParquetFiles) -> Result<Target, Failure> {
        let Some(rows) = &self.rows else {
            let parquet = files.parquet_schema.as_deref();
            let sink = ParquetSink::new(output, &self.schema, parquet, &files.metadata)?;
            return Ok(Target::Parquet(Box::new(sink)));
        };
        let (style, mut header) = (self.style(), Vec::new());
        rows.write_header(&mut header);
        if style != Style::Json {
            let names = self.additions.names();
            names.for_each(|name| style.write_text(name.as_bytes(), &mut header));
            header.push(b'\n');
        }
        self.packing.pack(&mut header).map_err(Failure::Message)?;
        output.write(&header)?;
        Ok(Target::Text(output))
    }

    /// How fields are written in rows of text.
    fn style(&self) -> Style {
        style_of(self.form)
    }
}

fn style_of(form: EnrichFormat) -> Style {
    match form {
        EnrichFormat::Csv => Style::Cell { delimiter: b',' },
        EnrichFormat::Tsv => Style::Cell { delimiter: b'\t' },
        EnrichFormat::Same | EnrichFormat::Ndjson | EnrichFormat::Parquet => Style::Json,
    }
}

/// What became of a batch.
pub(super) struct Piece {
    pub(super) counts: Counts,
    pub(super) content: Content,
}

pub(super) enum Content {
    Columns(RecordBatch),
    Text(Vec<u8>),
}

/// Where pieces go.
pub(super) enum Target {
    Parquet(Box<ParquetSink>),
    Text(Output),
}

impl Target {
    fn write(&mut self, content: &Content) -> Result<(), Failure> {
        match (self, content) {
            (Target::Parquet(sink), Content::Columns(batch)) => sink.write(batch),
            (Target::Text(output), Content::Text(text)) => output.write(text),
            _ => Err(Failure::Message("columns and text do not mix".to_owned())),
        }
    }

    fn finish(self) -> Result<(), Failure> {
        match self {
            Target::Parquet(sink) => sink.finish(),
            Target::Text(output) => output.finish(),
        }
    }
}

struct Worker<'a> {
    plan: &'a Plan,
    addresses: Addresses,
    keys: Vec<Vec<u32>>,
    segments: Vec<Cells>,
    entries: Vec<Vec<Entry>>,
}

impl<'a> Worker<'a> {
    fn new(plan: &'a Plan) -> Worker<'a> {
        let segments = Cells::segments(&plan.additions.columns, &plan.additions.finders);
        let entries = segments.iter().map(|_| Vec::new()).collect();
        Worker { plan, addresses: Addresses::default(), keys: Vec::new(), segments, entries }
    }

    fn run(&mut self, batch: &RecordBatch) -> Result<Piece, String> {
        let additions = &self.plan.additions;
        let views: Vec<DatabaseSnapshot<'_>> = additions.finders.iter().map(Finder::view).collect();
        let mut faults = vec![None; batch.num_rows()];
        self.addresses.clear();
        let found = self.plan.address.read(batch, additions.list);
        for (row, (address, fault)) in found.iter().zip(&mut faults).enumerate() {
            match address {
                Some(address) => self.addresses.push(row, *address),
                None => *fault = Some(Fault::NoAddress),
            }
        }
        self.addresses.each_uncovered(additions.covered, |row, fault| {
            if let Some(known) = faults.get_mut(row) {
                *known = Some(fault);
            }
        });
        if additions.is_without_lookups {
            self.addresses.clear();
        }
        self.addresses.find(&views, batch.num_rows(), &mut self.keys)?;
        match &self.plan.rows {
            None => self.columns(batch, &views, &faults),
            Some(rows) => self.text(batch, rows, &views, &faults),
        }
    }

    fn columns(
        &self,
        batch: &RecordBatch,
        views: &[DatabaseSnapshot<'_>],
        faults: &[Option<Fault>],
    ) -> Result<Piece, String> {
        let added = arrays(&self.plan.additions, &self.plan.kinds, views, &self.keys)?;
        let mut counts = Counts::default();
        for (row, fault) in faults.iter().enumerate() {
            counts.count(*fault, added.iter().any(|array| array.is_valid(row)));
        }
        let (batch, earlier) = without_faults(batch, &self.plan.additions.fault_name)?;
        let mut columns = batch.columns().to_vec();
        columns.extend(added);
        columns.push(fault_array(faults, earlier.as_ref()));
        let batch = RecordBatch::try_new(self.plan.schema.clone(), columns);
        let batch = batch.map_err(|error| error.to_string())?;
        Ok(Piece { counts, content: Content::Columns(batch) })
    }

    fn text(
        &mut self,
        batch: &RecordBatch,
        rows: &RowStyle,
        views: &[DatabaseSnapshot<'_>],
        faults: &[Option<Fault>],
    ) -> Result<Piece, String> {
        let style = self.plan.style();
        for (segment, entries) in self.segments.iter_mut().zip(&mut self.entries) {
            if let Some((view, keys)) = views.get(segment.finder).zip(self.keys.get(segment.finder))
            {
                segment.resolve(view, style, keys, entries)?;
            }
        }
        let mut counts = Counts::default();
        let mut out = Vec::new();
        let (batch, earlier) = without_faults(batch, &self.plan.additions.fault_name)?;
        let mut rows = rows.rows(&batch)?;
        for (row, fault) in faults.iter().enumerate() {
            rows.write(row, &mut out);
            let mut has_value = false;
            for (segment, entries) in self.segments.iter().zip(&self.entries) {
                if let Some(entry) = entries.get(row) {
                    has_value |= entry.has_value();
                    out.extend_from_slice(segment.text(*entry));
                }
            }
            let fault_text =
                fault.map(Fault::text).or_else(|| earlier_fault(earlier.as_ref(), row));
            style.write_fault(&self.plan.additions.fault_name, fault_text, &mut out);
            out.extend_from_slice(if style == Style::Json { b"}\n" } else { b"\n" });
            counts.count(*fault, has_value);
        }
        self.plan.packing.pack(&mut out)?;
        Ok(Piece { counts, content: Content::Text(out) })
    }
}

/// Whether the flags force Parquet as the input's format, or its first file is Parquet.
pub(super) fn is_input(arguments: &EnrichArguments) -> bool {
    match arguments.input_format {
        Some(InputFormat::Parquet) => true,
        Some(_) => false,
        None => match arguments.inputs.first() {
            Some(path) if path != Path::new("-") => is_parquet(path),
            _ => spool::is_parquet_on_standard_input(),
        },
    }
}
