//! `whered db fields`: the fields of a database's records and how often they have a value.
//!
//! Not for the values (`dump`). Each record is read once, however many networks share it.
//!
//! ```text
//! networks   share  type    field
//!       39  100.0%  string  country.iso_code
//! ```

use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use whered_engine::read_database_file;
use whered_mmdb::{Database, FieldPath, MmdbError, RecordId, Value};

use crate::cli::{DiffFormat, FieldsArguments};
use crate::outcome::{Failure, Outcome};

/// More fields than this are no structure that somebody could read.
const FIELDS_MAX: usize = 100_000;

/// A field of some records.
#[derive(Default)]
struct Field {
    networks: u64,
    types: Vec<&'static str>,
}

/// The fields in the order in which they come first.
#[derive(Default)]
struct Fields {
    fields: Vec<(String, Field)>,
    index: HashMap<String, usize>,
}

impl Fields {
    /// Counts the scalars of a value; whether there was room for all.
    fn count(&mut self, value: &Value, path: &mut Vec<String>, networks: u64) -> bool {
        match value {
            Value::Map(pairs) => pairs.iter().all(|(key, value)| {
                path.push(key.clone());
                let is_counted = self.count(value, path, networks);
                path.pop();
                is_counted
            }),
            Value::Array(values) => values.iter().enumerate().all(|(index, value)| {
                path.push(index.to_string());
                let is_counted = self.count(value, path, networks);
                path.pop();
                is_counted
            }),
            _ => {
                let name = FieldPath::new(path.iter().map(String::as_str)).to_string();
                let index = match self.index.get(&name) {
                    Some(index) => *index,
                    None if self.fields.len() == FIELDS_MAX => return false,
                    None => {
                        self.index.insert(name.clone(), self.fields.len());
                        self.fields.push((name, Field::default()));
                        self.fields.len() - 1
                    }
                };
                if let Some((_, field)) = self.fields.get_mut(index) {
                    field.networks += networks;
                    if !field.types.contains(&value.type_name()) {
                        field.types.push(value.type_name());
                    }
                }
                true
            }
        }
    }
}

/// `whered db fields FILE`.
pub(crate) fn fields(arguments: &FieldsArguments) -> Result<Outcome, Failure> {
    let path = &arguments.file;
    let database = read_database_file(path).map_err(Failure::new)?;
    let (found, networks) = fields_of(&database, path)?;
    print(arguments, &found, networks)?;
    Ok(Outcome::Found)
}

/// The names of a database's fields and of the maps and arrays around them.
pub(super) fn names(database: &Database, path: &Path) -> Result<Vec<String>, Failure> {
    let (found, _) = fields_of(database, path)?;
    let mut names: Vec<String> = Vec::new();
    for (name, _) in found.fields {
        let dots: Vec<usize> = name.match_indices('.').map(|(at, _)| at).collect();
        names.extend(dots.iter().filter_map(|at| name.get(..*at).map(str::to_owned)));
        names.push(name);
    }
    names.sort();
    names.dedup();
    Ok(names)
}

/// All fields, and how many networks there are.
fn fields_of(database: &Database, path: &Path) -> Result<(Fields, u64), Failure> {
    let wrong = |error: MmdbError| Failure::file(path, error);
    // Records in the order of the file's networks, with how many of these have them.
    let mut records: Vec<(RecordId, u64)> = Vec::new();
    let mut known: HashMap<RecordId, usize> = HashMap::new();
    let mut networks = 0_u64;
    for item in database.networks() {
        let (_, id) = item.map_err(wrong)?;
        networks += 1;
        let index = *known.entry(id).or_insert_with(|| {
            records.push((id, 0));
            records.len() - 1
        });
        if let Some((_, count)) = records.get_mut(index) {
            *count += 1;
        }
    }
    let mut found = Fields::default();
    for (id, count) in records {
        let record = database.record(id).map_err(wrong)?;
        if !found.count(&record, &mut Vec::new(), count) {
            let what = format!("has more than {FIELDS_MAX} fields; dump prints the records");
            return Err(Failure::file(path, what));
        }
    }
    Ok((found, networks))
}

fn print(arguments: &FieldsArguments, found: &Fields, networks: u64) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    if arguments.json || arguments.format == DiffFormat::Json {
        for (name, field) in &found.fields {
            let text = |text: &str| Value::String(text.to_owned());
            let types = field.types.iter().map(|name| text(name)).collect();
            let line = Value::Map(vec![
                ("field".to_owned(), text(name)),
                ("types".to_owned(), Value::Array(types)),
                ("networks".to_owned(), Value::Uint64(field.networks)),
                ("all_networks".to_owned(), Value::Uint64(networks)),
            ]);
            let mut json = Vec::new();
            line.write_json(&mut json);
            json.push(b'\n');
            out.write_all(&json)?;
        }
        return out.flush();
    }
    let width = networks.to_string().len().max("networks".len());
    let types: Vec<String> = found.fields.iter().map(|(_, field)| field.types.join("|")).collect();
    let type_width = types.iter().map(String::len).max().unwrap_or_default().max("type".len());
    writeln!(out, "{:>width$}  {:>6}  {:<type_width$}  field", "networks", "share", "type")?;
    for ((name, field), types) in found.fields.iter().zip(&types) {
        let share = field.networks as f64 * 100.0 / networks.max(1) as f64;
        write!(out, "{:>width$}  {share:>5.1}%  {types:<type_width$}  ", field.networks)?;
        // Keys come from the file: what a terminal could obey is escaped.
        for character in name.chars() {
            match character.is_control() {
                true => write!(out, "{}", character.escape_debug())?,
                false => write!(out, "{character}")?,
            }
        }
        writeln!(out)?;
    }
    out.flush()
}
