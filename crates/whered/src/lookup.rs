//! `whered lookup`: addresses from the command line or standard input, answered from a file.
//!
//! No index is built: the file's own tree is walked, and unless `--mode` says otherwise only what
//! that takes is read, which is what a one-shot question wants.

use std::io::{self, BufWriter, Write};
use std::net::IpAddr;
use std::path::Path;

use whered_engine::{DatabaseSource, Engine, EngineOptions, Setup, open_database_file};
use whered_mmdb::{Database, FieldPath, Lookup, Value};

use crate::addresses::{Answer, each_address};
use crate::cli::{LookupArguments, OutputFormat};
use crate::outcome::{Failure, Outcome, complain};

/// Runs the command. The list's outcome is "found" if any address was.
pub(crate) fn run(arguments: &LookupArguments) -> Result<Outcome, Failure> {
    if arguments.explain {
        return explain(arguments);
    }
    let mode = arguments.mode.into();
    let database = open_database_file(&arguments.db, mode).map_err(Failure::new)?;
    let fields = arguments.field.iter().map(|path| {
        path.parse().map_err(|error| Failure::Message(format!("--field {path}: {error}")))
    });
    let fields: Vec<FieldPath> = fields.collect::<Result<_, _>>()?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut printer = Printer {
        path: &arguments.db,
        database: &database,
        fields,
        format: arguments.format,
        out: &mut out,
    };
    let outcome = each_address(&arguments.addresses, |address| printer.answer(address))?;
    out.flush()?;
    Ok(outcome)
}

struct Printer<'a, W: Write> {
    path: &'a Path,
    database: &'a Database,
    fields: Vec<FieldPath>,
    format: OutputFormat,
    out: &'a mut W,
}

impl<W: Write> Printer<'_, W> {
    /// Looks one address up and prints its line. A record that cannot be read is told and does
    /// not end the list.
    fn answer(&mut self, address: IpAddr) -> Result<Answer, Failure> {
        let found = match self.database.lookup(address) {
            Ok(found) => found,
            Err(error) => {
                complain(&format!("{}: {address}: {error}", self.path.display()));
                return Ok(Answer::Failed);
            }
        };
        let values = self.values(&found)?;
        match self.format {
            OutputFormat::Json => self.json(address, &found, &values)?,
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
    fn values(&self, found: &Lookup) -> Result<Vec<Option<Value>>, Failure> {
        let Some(record) = found.record else { return Ok(vec![None; self.fields.len().max(1)]) };
        if self.fields.is_empty() {
            return Ok(vec![Some(self.database.record(record).map_err(Failure::new)?)]);
        }
        let field = |path| self.database.field(record, path).map_err(Failure::new);
        self.fields.iter().map(field).collect()
    }

    fn json(
        &mut self,
        address: IpAddr,
        found: &Lookup,
        values: &[Option<Value>],
    ) -> Result<(), Failure> {
        let mut line =
            format!(r#"{{"address":"{address}","prefix":"{}""#, found.prefix).into_bytes();
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
    let source = DatabaseSource {
        mode: arguments.mode.into(),
        ..DatabaseSource::new("file", &arguments.db)
    };
    let setup = Setup { databases: vec![source], ..Setup::default() };
    let options = EngineOptions { setup, ..EngineOptions::default() };
    let (engine, _) = Engine::open(options).map_err(Failure::new)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let outcome = each_address(&arguments.addresses, |address| {
        let reasons = match engine.explain_ip("file", address) {
            Ok(reasons) => reasons,
            Err(error) => {
                complain(&format!("{}: {address}: {error}", arguments.db.display()));
                return Ok(Answer::Failed);
            }
        };
        writeln!(out, "{reasons}")?;
        Ok(if reasons["record"].is_null() { Answer::NotFound } else { Answer::Found })
    })?;
    out.flush()?;
    Ok(outcome)
}
