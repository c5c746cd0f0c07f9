//! `whered db dump`: every network with its record, in address order, as rows that `db build`
//! reads back.
//!
//! Not for: what the rows mean (`whered_mmdb::rows`). Beyond the file itself memory is constant: a
//! row is written as soon as it is read.
//!
//! ```text
//! ndjson                  {"network":"192.0.2.0/24","record":{...}}
//! ndjson --types          {"network":"192.0.2.0/24","typed_record":{...}}
//! ndjson --field [--types] {"network":"192.0.2.0/24","asn":64500}         "asn:uint32":64500
//! csv --field [--types]   network,asn                                   network,asn:uint32
//! ```

use std::io::{self, BufWriter, Write};
use std::path::Path;

use whered_engine::read_database_file;
use whered_mmdb::{Database, FieldPath, MmdbError, RecordId, Value};

use crate::cli::{DumpArguments, RowsFormat};
use crate::lookup::{bare, csv_cell};
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
    match arguments.format {
        RowsFormat::Csv => dump.csv(&mut out)?,
        RowsFormat::Ndjson => dump.ndjson(&mut out)?,
    }
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

    fn ndjson(&self, out: &mut impl Write) -> Result<(), Failure> {
        let mut line = Vec::new();
        for item in self.database.networks() {
            let (prefix, id) = item.map_err(|error| self.wrong(&error))?;
            line.clear();
            write!(line, "{{\"network\":\"{prefix}\"")?;
            if self.fields.is_empty() {
                self.record(id, &mut line)
                    .map_err(|error| Failure::file(self.path, format_args!("{prefix}: {error}")))?;
            } else {
                for path in &self.fields {
                    self.member(id, path, &mut line)?;
                }
            }
            line.extend_from_slice(b"}\n");
            out.write_all(&line)?;
        }
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

    fn csv(&self, out: &mut impl Write) -> Result<(), Failure> {
        write!(out, "network")?;
        for path in &self.fields {
            let mut name = path.to_string();
            if self.has_types {
                name = format!("{name}:{}", self.column_type(path)?);
            }
            write!(out, ",{}", csv_cell(&name))?;
        }
        writeln!(out)?;
        for item in self.database.networks() {
            let (prefix, id) = item.map_err(|error| self.wrong(&error))?;
            write!(out, "{prefix}")?;
            for path in &self.fields {
                let value = self.field(id, path)?;
                write!(out, ",{}", csv_cell(&value.as_ref().map(bare).unwrap_or_default()))?;
            }
            writeln!(out)?;
        }
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
