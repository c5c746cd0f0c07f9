//! `whered db diff`: the networks whose records are not what they were.
//!
//! Not for: how they are found (`whered_mmdb::Differences`). Beyond the two files memory is
//! constant: a difference is printed as soon as it is met.
//!
//! ```text
//! text  + 192.0.2.0/24 {...}      json  {"prefix":"192.0.2.0/24",...,"change":"added","new":{...}}
//!       - 192.0.3.0/24 {...}            {"prefix":"192.0.3.0/24",...,"change":"removed","old":{...}}
//!       ~ 192.0.4.0/24 a.b: 1 -> 2      {...,"change":"changed","fields":{"a.b":{"old":1,"new":2}}}
//! ```
//! The prefix is there as `network`, too, its name in the version before.

use std::io::{self, BufWriter, Write};

use whered_engine::read_database_file;
use whered_mmdb::{Database, Difference, FieldChange, RecordId, Value};

use crate::cli::{DiffArguments, DiffFormat};
use crate::old_spellings;
use crate::outcome::{Failure, Outcome};

/// `whered db diff OLD NEW`. The outcome is "not found" if there is a difference.
pub(crate) fn diff(arguments: &DiffArguments) -> Result<Outcome, Failure> {
    let old = read_database_file(&arguments.old).map_err(Failure::new)?;
    let new = read_database_file(&arguments.new).map_err(Failure::new)?;
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let mut printer = Printer { arguments, old: &old, new: &new, line: Vec::new() };
    if arguments.format() == DiffFormat::Json && !arguments.summary {
        old_spellings::remark_on_network("db diff");
    }
    let [mut added, mut removed, mut changed] = [0_u64; 3];
    for found in old.differences(&new) {
        let found = found.map_err(|error| {
            let (old, new) = (arguments.old.display(), arguments.new.display());
            Failure::Message(format!("{old} against {new}: {error}"))
        })?;
        match (found.old, found.new) {
            (None, _) => added += 1,
            (_, None) => removed += 1,
            _ => changed += 1,
        }
        if !arguments.summary {
            printer.print(&found, &mut out)?;
        }
    }
    if arguments.summary && arguments.format() == DiffFormat::Json {
        let counts = format!("\"added\":{added},\"removed\":{removed},\"changed\":{changed}");
        writeln!(out, "{{{counts}}}")?;
    } else if arguments.summary {
        writeln!(out, "{added} added, {removed} removed, {changed} changed")?;
    }
    out.flush()?;
    Ok(if added + removed + changed == 0 { Outcome::Found } else { Outcome::NotFound })
}

struct Printer<'a> {
    arguments: &'a DiffArguments,
    old: &'a Database,
    new: &'a Database,
    line: Vec<u8>,
}

impl Printer<'_> {
    fn print(&mut self, found: &Difference, out: &mut impl Write) -> Result<(), Failure> {
        self.line.clear();
        let is_json = self.arguments.format() == DiffFormat::Json;
        if is_json {
            let prefix = found.prefix;
            let both = format!("\"prefix\":\"{prefix}\",\"network\":\"{prefix}\"");
            write!(self.line, "{{{both},\"change\":")?;
        }
        let prefix = found.prefix;
        match (found.old, found.new) {
            (Some(old), Some(new)) => {
                let changes = self.old_record(old)?.changes(&self.new_record(new)?);
                if is_json {
                    self.line.extend_from_slice(b"\"changed\",\"fields\":{");
                    self.fields_json(&changes);
                    self.line.extend_from_slice(b"}}");
                } else {
                    write!(self.line, "~ {prefix} ")?;
                    self.fields_text(&changes)?;
                }
            }
            (Some(old), None) => {
                let start = if is_json { "\"removed\",\"old\":" } else { &format!("- {prefix} ") };
                self.line.extend_from_slice(start.as_bytes());
                self.old_record(old)?.write_json(&mut self.line);
                self.line.extend_from_slice(if is_json { b"}" } else { b"" });
            }
            (_, new) => {
                let start = if is_json { "\"added\",\"new\":" } else { &format!("+ {prefix} ") };
                self.line.extend_from_slice(start.as_bytes());
                if let Some(new) = new {
                    self.new_record(new)?.write_json(&mut self.line);
                }
                self.line.extend_from_slice(if is_json { b"}" } else { b"" });
            }
        }
        self.line.push(b'\n');
        Ok(out.write_all(&self.line)?)
    }

    fn old_record(&self, id: RecordId) -> Result<Value, Failure> {
        self.old.record(id).map_err(|error| Failure::file(&self.arguments.old, error))
    }

    fn new_record(&self, id: RecordId) -> Result<Value, Failure> {
        self.new.record(id).map_err(|error| Failure::file(&self.arguments.new, error))
    }

    fn fields_json(&mut self, changes: &[FieldChange]) {
        for (position, change) in changes.iter().enumerate() {
            self.line.extend_from_slice(if position > 0 { b"," } else { b"" });
            Value::String(change.path.to_string()).write_json(&mut self.line);
            self.line.extend_from_slice(b":{");
            let [old, new] = sides(change);
            for (name, side) in [("\"old\":", old), ("\"new\":", new)] {
                let comma = self.line.last() != Some(&b'{');
                if let Some(side) = side {
                    self.line.extend_from_slice(if comma { b"," } else { b"" });
                    self.line.extend_from_slice(name.as_bytes());
                    self.line.extend_from_slice(&side);
                }
            }
            self.line.push(b'}');
        }
    }

    fn fields_text(&mut self, changes: &[FieldChange]) -> io::Result<()> {
        for (position, change) in changes.iter().enumerate() {
            self.line.extend_from_slice(if position > 0 { b", " } else { b"" });
            let [old, new] = sides(change).map(|side| side.unwrap_or_else(|| b"none".to_vec()));
            let path = change.path.to_string();
            let path = if path.is_empty() { "record" } else { &path };
            // Keys come from the file: what a terminal could obey is escaped.
            for character in path.chars() {
                match character.is_control() {
                    true => write!(self.line, "{}", character.escape_debug())?,
                    false => write!(self.line, "{character}")?,
                }
            }
            self.line.extend_from_slice(b": ");
            self.line.extend_from_slice(&old);
            self.line.extend_from_slice(b" -> ");
            self.line.extend_from_slice(&new);
        }
        Ok(())
    }
}

/// The two values as JSON; with types where nothing else tells them apart.
fn sides(change: &FieldChange) -> [Option<Vec<u8>>; 2] {
    let json = |value: &Option<Value>, write: fn(&Value, &mut Vec<u8>)| {
        value.as_ref().map(|value| {
            let mut json = Vec::new();
            write(value, &mut json);
            json
        })
    };
    let plain = [&change.old, &change.new].map(|value| json(value, Value::write_json));
    if plain[0] != plain[1] {
        return plain;
    }
    [&change.old, &change.new].map(|value| json(value, Value::write_typed_json))
}
