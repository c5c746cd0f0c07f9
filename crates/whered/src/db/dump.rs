//! `whered db dump`: every network with its record, in address order, as rows that `db build`
//! reads back.
//!
//! Not for: what the rows mean (`whered_mmdb::rows`). One thread walks the tree and deals its
//! networks out in batches; the workers make rows of them; the batches are written in order. Beyond
//! the file itself memory is a few batches a worker.
//!
//! ```text
//! networks ─┬─> worker ─┬─> standard output, from the workers in turn
//!           └─> worker ─┘
//! ```
//!
//! ```text
//! ndjson                  {"network":"192.0.2.0/24","prefix":"192.0.2.0/24","record":{...}}
//! ndjson --types          {..., "typed_record":{...}}
//! ndjson --field [--types] {..., "asn":64500}                           "asn:uint32":64500
//! csv --field [--types]   network,asn                                   network,asn:uint32
//! ```
//!
//! `network` is the name of the version before; JSON has it beside `prefix` for one version.

use std::io::{self, BufWriter, Write};
use std::num::NonZero;
use std::ops::Range;
use std::path::Path;
use std::sync::mpsc::{self, SyncSender};
use std::thread;

use whered_engine::ip::Prefix;
use whered_engine::read_database_file;
use whered_mmdb::rows::RowsMetadata;
use whered_mmdb::{Database, FieldPath, MmdbError, RecordId, Value};

use crate::cli::{DumpArguments, RowsFormat};
use crate::lookup::{bare, csv_cell};
use crate::old_spellings;
use crate::outcome::{Failure, Outcome};

/// `whered db dump FILE`.
pub(crate) fn dump(arguments: &DumpArguments) -> Result<Outcome, Failure> {
    let fields = field_paths(&arguments.field)?;
    if fields.is_empty() && arguments.format == RowsFormat::Csv {
        let message = "--format csv needs the columns; allowed: --field PATH for each of them";
        return Err(Failure::Message(message.to_owned()));
    }
    let path = &arguments.file;
    let database = read_database_file(path).map_err(Failure::new)?;
    let dump = Dump { path, database: &database, fields, has_types: arguments.types };
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let is_csv = arguments.format == RowsFormat::Csv;
    let is_whole = arguments.types && !is_csv && dump.fields.is_empty();
    let [has_aliases, _] = database.ipv4_aliases().map_err(|error| dump.wrong(&error))?;
    let lacks_aliases = database.metadata().ip_version == 6 && !has_aliases;
    let mut line = Vec::from(if is_csv { &b"# "[..] } else { b"" });
    if arguments.metadata || is_whole {
        let mut metadata = RowsMetadata::from(database.metadata());
        metadata.ipv4_aliases = lacks_aliases.then_some(false);
        metadata.write_json(&mut line);
        line.push(b'\n');
        out.write_all(&line)?;
    } else if lacks_aliases {
        // Without it `db build` would add them.
        line.extend_from_slice(WITHOUT_ALIASES);
        out.write_all(&line)?;
    }
    if is_csv {
        dump.header(&mut out)?;
    } else {
        old_spellings::remark_on_network("db dump");
    }
    let threads = arguments.threads.map_or_else(thread::available_parallelism, |threads| {
        NonZero::new(threads).ok_or_else(|| io::ErrorKind::InvalidInput.into())
    });
    dump.rows(is_csv, threads.map_or(1, NonZero::get), &mut out)?;
    out.flush()?;
    Ok(Outcome::Found)
}

/// The paths that `--field` names.
pub(super) fn field_paths(fields: &[String]) -> Result<Vec<FieldPath>, Failure> {
    let parse = |path: &String| {
        path.parse().map_err(|error| Failure::Message(format!("--field {path}: {error}")))
    };
    fields.iter().map(parse).collect()
}

/// What rows say of a file without aliases of IPv4.
const WITHOUT_ALIASES: &[u8] = b"{\"metadata\":{\"ipv4_aliases\":false}}\n";
/// How many networks a worker gets at once.
const BATCH_NETWORKS: usize = 1024;

/// Networks with their records, up to the first fault of the tree.
type Batch = Vec<Result<(Prefix, RecordId), MmdbError>>;

struct Dump<'a> {
    path: &'a Path,
    database: &'a Database,
    fields: Vec<FieldPath>,
    has_types: bool,
}

impl Dump<'_> {
    fn wrong(&self, error: &MmdbError) -> Failure {
        Failure::file(self.path, error)
    }

    fn field(&self, id: RecordId, path: &FieldPath) -> Result<Option<Value>, Failure> {
        self.database.field(id, path).map_err(|error| self.wrong(&error))
    }

    /// Writes every row, in the order of the tree.
    fn rows(&self, is_csv: bool, threads: usize, out: &mut impl Write) -> Result<(), Failure> {
        thread::scope(|scope| {
            let (mut batches, mut texts) = (Vec::new(), Vec::new());
            for _ in 0..threads {
                let (batch_out, batch_in) = mpsc::sync_channel::<Batch>(2);
                let (text_out, text_in) = mpsc::sync_channel(2);
                batches.push(batch_out);
                texts.push(text_in);
                scope.spawn(move || {
                    for batch in batch_in {
                        let mut text = Vec::new();
                        let made = self.batch(batch, is_csv, &mut text);
                        // Nobody takes it if the output is closed.
                        if text_out.send((text, made)).is_err() {
                            break;
                        }
                    }
                });
            }
            scope.spawn(move || self.deal(&batches));
            for text in (0..threads).cycle().map_while(|worker| texts.get(worker)?.recv().ok()) {
                let (text, made) = text;
                out.write_all(&text)?;
                made?;
            }
            Ok(())
        })
    }

    /// Gives the networks to the workers in turn, until there are no more or nobody takes them.
    fn deal(&self, workers: &[SyncSender<Batch>]) {
        let mut networks = self.database.networks().peekable();
        for worker in workers.iter().cycle() {
            let batch: Batch = networks.by_ref().take(BATCH_NETWORKS).collect();
            if batch.is_empty() || worker.send(batch).is_err() {
                break;
            }
        }
    }

    /// Makes the rows of a batch; those before a fault are there.
    fn batch(&self, batch: Batch, is_csv: bool, out: &mut Vec<u8>) -> Result<(), Failure> {
        let mut last: Option<(RecordId, Range<usize>)> = None;
        for item in batch {
            let (prefix, id) = item.map_err(|error| self.wrong(&error))?;
            let is_alias = self.database.is_alias_of_record(prefix, id);
            if is_alias.map_err(|error| self.wrong(&error))? {
                continue;
            }
            let start = out.len();
            match is_csv {
                true => write!(out, "{prefix}")?,
                false => write!(out, "{{\"network\":\"{prefix}\",\"prefix\":\"{prefix}\"")?,
            }
            // Neighbours often have the same record.
            let made = out.len();
            if let Some((_, range)) = last.as_ref().filter(|(other, _)| *other == id) {
                out.extend_from_within(range.clone());
            } else if let Err(error) = self.row(prefix, id, is_csv, out) {
                out.truncate(start);
                return Err(error);
            }
            last = Some((id, made..out.len()));
        }
        Ok(())
    }

    /// A row behind its network.
    fn row(
        &self,
        prefix: Prefix,
        id: RecordId,
        is_csv: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        if is_csv {
            for path in &self.fields {
                let value = self.field(id, path)?;
                write!(out, ",{}", csv_cell(&value.as_ref().map(bare).unwrap_or_default()))?;
            }
            out.push(b'\n');
            return Ok(());
        }
        if self.fields.is_empty() {
            self.record(id, out)
                .map_err(|error| Failure::file(self.path, format_args!("{prefix}: {error}")))?;
        }
        for path in &self.fields {
            self.member(id, path, out)?;
        }
        out.extend_from_slice(b"}\n");
        Ok(())
    }

    fn record(&self, id: RecordId, line: &mut Vec<u8>) -> Result<(), MmdbError> {
        if self.has_types {
            line.extend_from_slice(b",\"typed_record\":");
            self.database.write_typed_record_json(id, line)
        } else {
            line.extend_from_slice(b",\"record\":");
            self.database.write_record_json(id, line)
        }
    }

    /// A field of the record, left out where there is none.
    fn member(&self, id: RecordId, path: &FieldPath, line: &mut Vec<u8>) -> Result<(), Failure> {
        let Some(value) = self.field(id, path)? else { return Ok(()) };
        let is_container = matches!(value, Value::Map(_) | Value::Array(_));
        if is_container && self.has_types {
            return Err(self.no_cell(path, &value));
        }
        let name = match self.has_types {
            true => format!("{path}:{}", value.type_name()),
            false => path.to_string(),
        };
        line.push(b',');
        Value::String(name).write_json(line);
        line.push(b':');
        value.write_json(line);
        Ok(())
    }

    fn no_cell(&self, path: &FieldPath, value: &Value) -> Failure {
        let found = format!("field {path} is {} {}", article(value), value.type_name());
        Failure::file(self.path, format_args!("{found}; allowed with --types: fields inside it"))
    }

    /// The line that names the columns.
    fn header(&self, out: &mut impl Write) -> Result<(), Failure> {
        write!(out, "network")?;
        for path in &self.fields {
            let mut name = path.to_string();
            if self.has_types {
                name = format!("{name}:{}", self.column_type(path)?);
            }
            write!(out, ",{}", csv_cell(&name))?;
        }
        writeln!(out)?;
        Ok(())
    }

    /// The one type that a field has in all records: the whole database is read for it once more.
    fn column_type(&self, path: &FieldPath) -> Result<&'static str, Failure> {
        let mut known: Option<&'static str> = None;
        for item in self.database.networks() {
            let (prefix, id) = item.map_err(|error| self.wrong(&error))?;
            let Some(value) = self.field(id, path)? else { continue };
            if matches!(value, Value::Map(_) | Value::Array(_)) {
                return Err(self.no_cell(path, &value));
            }
            let found = value.type_name();
            if *known.get_or_insert(found) != found {
                let known = known.unwrap_or_default();
                let what = format!("field {path} is a {found} at {prefix} and a {known} before");
                let allowed = "allowed in CSV with --types: one type; use --format ndjson";
                return Err(Failure::file(self.path, format_args!("{what}; {allowed}")));
            }
        }
        Ok(known.unwrap_or("string"))
    }
}

fn article(value: &Value) -> &'static str {
    if matches!(value, Value::Array(_)) { "an" } else { "a" }
}
