//! `whered enrich`: logs and tables with what databases know of the addresses in them.
//!
//! Not for single questions (`lookup`), nor for live traffic (the server). Each record of the
//! input is one record of the output, in the same order; a bad one is kept and marked.
//!
//! ```text
//! input ── blocks of whole records ──► workers: split, parse, look up, write ──► output
//!   detect: format, header, column        fields: databases, columns
//! ```
//!
//! `docs/guide/enrich.md` is the user's page. Cost: memory of some MiB a thread besides the
//! databases, however long the input is.

mod additions;
mod addresses;
mod cells;
pub(crate) mod detect;
pub(crate) mod encoding;
pub(crate) mod fields;
mod find;
pub(crate) mod input;
mod json_records;
#[cfg(feature = "export")]
mod ordered;
pub(crate) mod output;
#[cfg(feature = "export")]
pub(crate) mod parquet;
mod pipeline;
pub(crate) mod progress;
pub(crate) mod split;
mod work;
mod write;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use crate::cli::{EnrichArguments, EnrichFormat, InputFormat};
use crate::outcome::{Failure, Outcome, complain};
use additions::Additions;
use detect::{Layout, Wishes};
use fields::{Column, InputDatabase};
use find::{Finder, Source};
use input::Input;
use output::{Output, Packing};
use split::Shape;
use work::{Counts, Plan};
use write::{Body, FAULT_NAME, Key, PartKind, Style, write_cell};

/// An output takes the place of a file: a database is no place for it.
fn refuse_database(output: &Path, databases: &[InputDatabase]) -> Result<(), Failure> {
    let same = |known: &&InputDatabase| match (fs::metadata(output), fs::metadata(&known.path)) {
        (Ok(output), Ok(known)) => (output.dev(), output.ino()) == (known.dev(), known.ino()),
        _ => false,
    };
    match databases.iter().find(same) {
        Some(known) => {
            let what = format!("it is the database {:?}; allowed: another file", known.name);
            Err(Failure::file(output, what))
        }
        None => Ok(()),
    }
}

/// Runs the command: found if any address was.
pub(crate) fn run(arguments: &EnrichArguments) -> Result<Outcome, Failure> {
    let databases = fields::open_databases(&arguments.db)?;
    if let Some(output) = &arguments.output {
        refuse_database(output, &databases)?;
    }
    let mut columns = fields::columns(&arguments.field, &databases)?;
    for column in &mut columns {
        column.name.insert_str(0, &arguments.prefix);
    }
    let threads = match arguments.threads {
        Some(threads) => threads,
        None => thread::available_parallelism().map_or(1, usize::from),
    };
    let run = Run { arguments, databases, columns, threads };
    let counts = if is_parquet_input(arguments)? { run.parquet_files()? } else { run.text()? };
    tell(&counts);
    Ok(if counts.found > 0 { Outcome::Found } else { Outcome::NotFound })
}

/// What every kind of input needs.
struct Run<'a> {
    arguments: &'a EnrichArguments,
    databases: Vec<InputDatabase>,
    columns: Vec<Column>,
    threads: usize,
}

impl Run<'_> {
    fn additions(self) -> Result<Arc<Additions>, Failure> {
        let Run { arguments, databases, columns, .. } = self;
        let covered = fields::covered(&databases, &columns);
        let finders = finders(databases, &columns, arguments.no_lookup)?;
        let list = arguments.list.into();
        let is_without_lookups = arguments.no_lookup;
        let fault_name = format!("{}{FAULT_NAME}", arguments.prefix);
        Ok(Arc::new(Additions { columns, fault_name, finders, list, covered, is_without_lookups }))
    }

    #[cfg(feature = "export")]
    fn parquet_files(self) -> Result<Counts, Failure> {
        let (arguments, threads) = (self.arguments, self.threads);
        let kinds = parquet::kinds(&self.databases, &self.columns)?;
        parquet::enrich_files(arguments, &self.additions()?, kinds, threads)
    }

    #[cfg(not(feature = "export"))]
    fn parquet_files(self) -> Result<Counts, Failure> {
        Err(without_parquet())
    }

    /// Logs, tables and objects.
    fn text(self) -> Result<Counts, Failure> {
        let (arguments, threads) = (self.arguments, self.threads);
        let may_be_json = matches!(arguments.input_format, None | Some(InputFormat::Ndjson))
            && arguments.pattern.is_none()
            && !arguments.anywhere;
        let input = Input::open(&arguments.inputs, arguments.encoding, may_be_json);
        let mut input = input.map_err(Failure::Message)?;
        let wishes = Wishes {
            format: arguments.input_format,
            column: arguments.column.as_deref(),
            header: arguments.header,
            pattern: arguments.pattern.as_deref(),
            anywhere: arguments.anywhere,
        };
        let name = input.name().to_owned();
        let (first, is_all) = input.first_bytes().map_err(Failure::Message)?;
        let layout = detect::detect(&wishes, first, is_all)
            .map_err(|what| Failure::Message(format!("{name}: {what}")))?;
        let (packing, unpacked_name) = match &arguments.output {
            Some(path) => Packing::of(path),
            None => (Packing::Plain, "-".into()),
        };
        let form = output_format(arguments.format, &unpacked_name, &layout.shape)?;
        let header = input.take_header(&layout);
        if form == EnrichFormat::Parquet {
            return self.text_to_parquet(input, &layout, packing);
        }
        let (body, style) = body_and_style(form, &layout);
        let additions = self.additions()?;
        let mut header = header_line(&body, style, &layout, &header, &additions);
        if !header.is_empty() || style == Style::Json {
            refuse_names(&name, &layout, style, &additions)?;
        }
        packing.pack(&mut header).map_err(Failure::Message)?;
        let shape = layout.shape.clone();
        let plan = Arc::new(Plan { shape, body, style, additions });
        let total_bytes = Input::size_bytes(&arguments.inputs);
        let mut output = Output::open(arguments.output.as_deref())?;
        output.write(&header)?;
        let job = pipeline::Job { layout: &layout, plan: &plan, packing, threads, total_bytes };
        let cut_lines = input.cut_lines();
        let counts = job.run(input, &mut output)?;
        output.finish()?;
        Ok(Counts { cut_lines: cut_lines.load(Ordering::Relaxed), ..counts })
    }

    #[cfg(feature = "export")]
    fn text_to_parquet(
        self,
        input: Input,
        layout: &Layout,
        packing: Packing,
    ) -> Result<Counts, Failure> {
        let (arguments, threads) = (self.arguments, self.threads);
        parquet::refuse_packed(EnrichFormat::Parquet, packing, arguments)?;
        let (kind, _) = parts_and_delimiter(&layout.shape, layout.names.len());
        let kinds = parquet::kinds(&self.databases, &self.columns)?;
        let text = parquet::TextInput { input, layout, parts: kind };
        parquet::enrich_text(arguments, text, &self.additions()?, &kinds, threads)
    }

    #[cfg(not(feature = "export"))]
    fn text_to_parquet(self, _: Input, _: &Layout, _: Packing) -> Result<Counts, Failure> {
        Err(without_parquet())
    }
}

#[cfg(feature = "export")]
fn is_parquet_input(arguments: &EnrichArguments) -> Result<bool, Failure> {
    Ok(parquet::is_input(arguments))
}

#[cfg(not(feature = "export"))]
fn is_parquet_input(arguments: &EnrichArguments) -> Result<bool, Failure> {
    match arguments.input_format {
        Some(InputFormat::Parquet) => Err(without_parquet()),
        _ => Ok(false),
    }
}

#[cfg(not(feature = "export"))]
fn without_parquet() -> Failure {
    Failure::Message(
        "this program was built without Parquet; allowed: one with the feature `export`".to_owned(),
    )
}

fn members_vary() -> Failure {
    Failure::Message(
        "the input is NDJSON, whose members vary; allowed as --format: ndjson, same, \
         parquet"
            .to_owned(),
    )
}

/// One for each pair of databases that columns take IPv4 and IPv6 addresses from, with the indexes
/// that lie beside them; one that cannot be used is told.
fn finders(
    databases: Vec<InputDatabase>,
    columns: &[Column],
    is_without_lookups: bool,
) -> Result<Vec<Finder>, Failure> {
    let numbered = databases.into_iter().enumerate();
    let sources: Vec<Arc<Source>> =
        numbered.map(|(place, named)| Arc::new(Source::new(named, place, columns))).collect();
    for source in sources.iter().filter(|_| !is_without_lookups) {
        if let Err(message) = source.open_index() {
            complain(&format!("{message}; it is not used"));
        }
    }
    fields::pairs(columns).into_iter().map(|pair| Finder::new(&sources, pair)).collect()
}

/// What was asked for, or what the output's name says, or what people expect of the input: a log
/// becomes objects, everything else stays what it is.
fn output_format(
    asked: Option<EnrichFormat>,
    name: &Path,
    shape: &Shape,
) -> Result<EnrichFormat, Failure> {
    let is_log = matches!(shape, Shape::Log { .. } | Shape::Columns(_));
    let usual = if is_log { EnrichFormat::Ndjson } else { EnrichFormat::Same };
    let form = asked.or_else(|| format_of_name(name)).unwrap_or(usual);
    let is_json = matches!(shape, Shape::Ndjson { .. });
    if is_json && matches!(form, EnrichFormat::Csv | EnrichFormat::Tsv) {
        return Err(members_vary());
    }
    if let (Shape::Columns(columns), EnrichFormat::Same) = (shape, form)
        && columns.has_header()
    {
        return Err(Failure::Message(
            "the input names its columns in a header; allowed as --format: ndjson, csv, \
             tsv, parquet"
                .to_owned(),
        ));
    }
    Ok(form)
}

/// What the end of an output's name says.
fn format_of_name(name: &Path) -> Option<EnrichFormat> {
    match name.extension()?.to_str()? {
        "ndjson" | "jsonl" | "json" => Some(EnrichFormat::Ndjson),
        "csv" => Some(EnrichFormat::Csv),
        "tsv" => Some(EnrichFormat::Tsv),
        "parquet" => Some(EnrichFormat::Parquet),
        _ => None,
    }
}

/// How the parts of records are written, and what stands between them; nothing for JSON.
fn parts_and_delimiter(shape: &Shape, count: usize) -> (Option<PartKind>, u8) {
    match *shape {
        Shape::Ndjson { .. } => (None, b','),
        Shape::Log { .. } | Shape::Columns(_) => {
            (Some(PartKind::Log { named_count: count - 1 }), b' ')
        }
        Shape::Csv { delimiter, .. } => (Some(PartKind::Csv), delimiter),
        Shape::Tsv { .. } => (Some(PartKind::Tsv), b'\t'),
    }
}

fn body_and_style(form: EnrichFormat, layout: &Layout) -> (Body, Style) {
    let count = layout.names.len();
    let (parts, delimiter) = parts_and_delimiter(&layout.shape, count);
    let Some(parts) = parts else { return (Body::Object, Style::Json) };
    let wanted = match form {
        EnrichFormat::Ndjson => {
            let keys = layout.names.iter().map(|name| Key::new(name, parts)).collect();
            return (Body::Members { keys, parts }, Style::Json);
        }
        EnrichFormat::Same | EnrichFormat::Parquet => delimiter,
        EnrichFormat::Csv if delimiter == b';' => delimiter,
        EnrichFormat::Csv => b',',
        EnrichFormat::Tsv => b'\t',
    };
    match (delimiter == wanted, parts) {
        (true, PartKind::Log { .. }) => (Body::Line, Style::Log),
        (true, _) => (Body::Row { count }, Style::Cell { delimiter }),
        (false, _) => (Body::Cells { count, parts }, Style::Cell { delimiter: wanted }),
    }
}

/// The header of the output: the input's own with the new names, or, for a log that becomes a
/// table, one of its own. Nothing where there is none.
fn header_line(
    body: &Body,
    style: Style,
    layout: &Layout,
    header: &[u8],
    additions: &Additions,
) -> Vec<u8> {
    let Style::Cell { delimiter } = style else { return Vec::new() };
    let is_log = matches!(layout.shape, Shape::Log { .. } | Shape::Columns(_));
    if header.is_empty() && !is_log {
        return Vec::new();
    }
    let mut line = Vec::new();
    let mut line_end: &[u8] = b"\n";
    if matches!(body, Body::Row { .. }) {
        let content = header.strip_suffix(b"\n").unwrap_or(header);
        let content = content.strip_suffix(b"\r").unwrap_or(content);
        line.extend_from_slice(content);
        line_end = header.get(content.len()..).filter(|end| !end.is_empty()).unwrap_or(b"\n");
    } else {
        for (number, name) in layout.names.iter().enumerate() {
            if number > 0 {
                line.push(delimiter);
            }
            write_cell(name.as_bytes(), delimiter, &mut line);
        }
    }
    for name in additions.names() {
        style.write_text(name.as_bytes(), &mut line);
    }
    line.extend_from_slice(line_end);
    line
}

/// Adding a name that is there would make two of it.
fn refuse_names(
    input: &str,
    layout: &Layout,
    style: Style,
    additions: &Additions,
) -> Result<(), Failure> {
    let is_object = matches!(layout.shape, Shape::Ndjson { .. });
    let fault_name = additions.fault_name.as_str();
    // Only bad records have that member.
    let is_added = |name: &&String| {
        additions.names().any(|added| added == *name && (!is_object || added != fault_name))
    };
    let Some(name) = layout.names.iter().chain(&layout.members).find(is_added) else {
        return Ok(());
    };
    let what = if style == Style::Json && is_object { "member" } else { "column" };
    Err(Failure::Message(format!(
        "{input}: has a {what} '{}' already; allowed: other names, by --prefix",
        name.escape_debug()
    )))
}

/// One line on standard error about all records.
fn tell(counts: &Counts) {
    let Counts { found, not_found, uncovered, bad, first_bad, .. } = counts;
    let Counts { comments, empty_lines, cut_lines, .. } = counts;
    let first = match first_bad {
        Some((at, fault)) => format!(" (the first: record {}, {})", at + 1, fault.text()),
        None => String::new(),
    };
    let total = counts.total();
    let families = ["IPv4", "IPv6"].iter().zip(uncovered).filter(|(_, count)| **count > 0);
    let families = families
        .map(|(family, count)| format!("{count} of a family that no database covers ({family}), "));
    let families: String = families.collect();
    let mut passed = match (comments, empty_lines, cut_lines) {
        (0, 0, 0) => String::new(),
        _ => format!("; skipped: {comments} comments, {empty_lines} empty lines"),
    };
    if *cut_lines > 0 {
        passed.push_str(&format!(", {cut_lines} cut lines"));
    }
    let line = format!(
        "{total} records: {found} found, {not_found} not found, {families}{bad} bad{first}{passed}"
    );
    complain(&line);
}
