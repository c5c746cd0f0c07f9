//! `whered lookup`: addresses from the command line or standard input, answered from a file.
//!
//! No index is built: the file's own tree is walked, and unless `--mode` says otherwise only what
//! that takes is read, which is what a one-shot question wants.

use std::io::{self, BufWriter, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use whered_engine::{AccessMode, DatabaseSource, Engine, EngineOptions, Setup, open_database_file};
use whered_mmdb::{Database, FieldPath, Lookup, Value, by_family};

use crate::addresses::{Answer, each_address};
use crate::cli::{LookupArguments, OutputFormat};
use crate::outcome::{Failure, Outcome, complain};

/// Runs the command. The list's outcome is "found" if any address was.
pub(crate) fn run(arguments: &LookupArguments) -> Result<Outcome, Failure> {
    if arguments.explain {
        return explain(arguments);
    }
    let files = Files::open(arguments)?;
    let fields = arguments.field.iter().map(|path| {
        path.parse().map_err(|error| Failure::Message(format!("--field {path}: {error}")))
    });
    let fields: Vec<FieldPath> = fields.collect::<Result<_, _>>()?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut printer = Printer { files: &files, fields, format: arguments.format, out: &mut out };
    let outcome = each_address(&arguments.addresses, |address| printer.answer(address))?;
    out.flush()?;
    Ok(outcome)
}

/// A file and the name of its database: that of the file, without its ending.
struct OpenedFile {
    path: PathBuf,
    name: String,
    database: Database,
}

/// The files of one database.
struct Files {
    opened: Vec<OpenedFile>,
    /// Which of them answers for IPv4 and IPv6 addresses.
    of_family: [usize; 2],
}

impl Files {
    fn open(arguments: &LookupArguments) -> Result<Files, Failure> {
        let open = |path: &PathBuf| {
            let database = open_database_file(path, arguments.mode.into());
            let database = database.map_err(Failure::new)?;
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            Ok(OpenedFile { path: path.clone(), name, database })
        };
        let opened = arguments.db.iter().map(open).collect::<Result<Vec<_>, Failure>>()?;
        if let [_] = &opened[..] {
            return Ok(Files { opened, of_family: [0, 0] });
        }
        let covers = |OpenedFile { path, database, .. }: &OpenedFile| {
            let covers =
                |is_ipv4| database.covers(is_ipv4).map_err(|error| Failure::file(path, error));
            Ok([covers(true)?, covers(false)?])
        };
        let covered = opened.iter().map(covers).collect::<Result<Vec<_>, Failure>>()?;
        let of_family = by_family(&covered).map_err(|unused| {
            let path = arguments.db.get(unused).map_or(Path::new(""), PathBuf::as_path);
            Failure::file(
                path,
                "the other files answer for IPv4 and IPv6 addresses already; allowed: one file \
                 for each family",
            )
        })?;
        Ok(Files { opened, of_family: of_family.map(Option::unwrap_or_default) })
    }

    /// The file that answers for an address.
    fn of(&self, address: IpAddr) -> Option<&OpenedFile> {
        let [four, six] = self.of_family;
        self.opened.get(if address.is_ipv4() { four } else { six })
    }
}

struct Printer<'a, W: Write> {
    files: &'a Files,
    fields: Vec<FieldPath>,
    format: OutputFormat,
    out: &'a mut W,
}

impl<W: Write> Printer<'_, W> {
    /// Looks one address up and prints its line. A record that cannot be read is told and does
    /// not end the list.
    fn answer(&mut self, address: IpAddr) -> Result<Answer, Failure> {
        let Some(file) = self.files.of(address) else { return Ok(Answer::NotFound) };
        let OpenedFile { path, name, database } = file;
        let found = match database.answer(address) {
            Ok(found) => found,
            Err(error) => {
                complain(&format!("{}: {address}: {error}", path.display()));
                return Ok(Answer::Failed);
            }
        };
        let values = self.values(database, &found)?;
        match self.format {
            OutputFormat::Json => self.json(address, name, &found, &values)?,
            OutputFormat::Text => self.text(address, &values)?,
            OutputFormat::Csv => self.csv(address, &values)?,
        }
        let present = if self.fields.is_empty() {
            found.record.is_some()
        } else {
            values.iter().any(Option::is_some)
        };
        Ok(if present { Answer::Found } else { Answer::NotFound })
    }

    /// The chosen fields; the whole record when none were chosen.
    fn values(&self, database: &Database, found: &Lookup) -> Result<Vec<Option<Value>>, Failure> {
        let Some(record) = found.record else { return Ok(vec![None; self.fields.len().max(1)]) };
        if self.fields.is_empty() {
            return Ok(vec![Some(database.record(record).map_err(Failure::new)?)]);
        }
        let field = |path| database.field(record, path).map_err(Failure::new);
        self.fields.iter().map(field).collect()
    }

    fn json(
        &mut self,
        address: IpAddr,
        database: &str,
        found: &Lookup,
        values: &[Option<Value>],
    ) -> Result<(), Failure> {
        let mut line = format!(r#"{{"address":"{address}","database":"#).into_bytes();
        Value::String(database.to_owned()).write_json(&mut line);
        line.extend_from_slice(format!(r#","prefix":"{}""#, found.prefix).as_bytes());
        let mut member = |name: &str, value: &Option<Value>| {
            line.push(b',');
            Value::String(name.to_owned()).write_json(&mut line);
            line.push(b':');
            match value {
                Some(value) => value.write_json(&mut line),
                None => line.extend_from_slice(b"null"),
            }
        };
        if self.fields.is_empty() {
            member("record", &values[0]);
        } else {
            for (path, value) in self.fields.iter().zip(values) {
                member(&path.to_string(), value);
            }
        }
        line.extend_from_slice(b"}\n");
        Ok(self.out.write_all(&line)?)
    }

    fn text(&mut self, address: IpAddr, values: &[Option<Value>]) -> Result<(), Failure> {
        let shown = values.iter().map(|value| match value {
            Some(value) => bare(value),
            None => "not found".to_owned(),
        });
        let shown: Vec<String> = shown.collect();
        Ok(writeln!(self.out, "{address}: {}", shown.join(", "))?)
    }

    fn csv(&mut self, address: IpAddr, values: &[Option<Value>]) -> Result<(), Failure> {
        write!(self.out, "{address}")?;
        for value in values {
            write!(self.out, ",{}", csv_cell(&value.as_ref().map(bare).unwrap_or_default()))?;
        }
        Ok(writeln!(self.out)?)
    }
}

/// A scalar as it is, anything else as JSON.
pub(crate) fn bare(value: &Value) -> String {
    let mut text = Vec::new();
    value.write_text(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Quoted when it must be (RFC 4180).
pub(crate) fn csv_cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

fn explain(arguments: &LookupArguments) -> Result<Outcome, Failure> {
    let mut paths = arguments.db.iter();
    let path = paths.next().cloned().unwrap_or_default();
    let further_paths: Vec<PathBuf> = paths.cloned().collect();
    // Several files are joined in memory.
    let mode = match &further_paths[..] {
        [] => arguments.mode.into(),
        _ => AccessMode::Memory,
    };
    let source = DatabaseSource { mode, further_paths, ..DatabaseSource::new("file", &path) };
    let setup = Setup { databases: vec![source], ..Setup::default() };
    let options = EngineOptions { setup, ..EngineOptions::default() };
    let (engine, _) = Engine::open(options).map_err(Failure::new)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let outcome = each_address(&arguments.addresses, |address| {
        let reasons = match engine.explain_ip("file", address) {
            Ok(reasons) => reasons,
            Err(error) => {
                complain(&format!("{}: {address}: {error}", path.display()));
                return Ok(Answer::Failed);
            }
        };
        writeln!(out, "{reasons}")?;
        Ok(if reasons["record"].is_null() { Answer::NotFound } else { Answer::Found })
    })?;
    out.flush()?;
    Ok(outcome)
}
