//! `whered db merge`: database files and rows laid over each other.
//!
//! Not for what a merged record is ([`Value::merge`]). Two databases at a time are walked side by
//! side; each pair of records is merged once.
//!
//! ```text
//! A ─┬─> A+B ─┬─> A+B+rows
//! B ─┘  rows ─┘
//! ```

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use whered_engine::ip::Prefix;
use whered_engine::read_database_file;
use whered_mmdb::rows::RowsMetadata;
use whered_mmdb::{
    Database, FieldPath, MmdbError, RecordId, StoredValue, Value, Writer, WriterOptions,
};

use super::build::{finish, load, output_and_inputs};
use super::field_paths;
use super::flags::MergeChoice;
use crate::cli::MergeArguments;
use crate::outcome::{Failure, Outcome};

/// `whered db merge FILES... -o OUTPUT`.
pub(crate) fn merge(arguments: &MergeArguments) -> Result<Outcome, Failure> {
    let (output, files) =
        output_and_inputs("db merge", arguments.output.as_ref(), &arguments.paths)?;
    let (output, files) = (output.as_path(), &files[..]);
    let paths = field_paths(&arguments.path)?;
    if !paths.is_empty() && arguments.by == MergeChoice::Replace {
        let message = "--path beside --by replace; allowed: one of them";
        return Err(Failure::Message(message.to_owned()));
    }
    let layers = files.len() + arguments.row_files.len();
    if layers < 2 {
        let message = "one file to merge; allowed: two database files or more, or --rows";
        return Err(Failure::Message(message.to_owned()));
    }
    let mut files = files.iter();
    let first = files.next().map_or(Path::new(""), PathBuf::as_path);
    let mut merged = read_database_file(first).map_err(Failure::new)?;
    let mut stated = RowsMetadata::from(merged.metadata());
    let mut layers = Vec::new();
    for path in files {
        let layer = read_database_file(path).map_err(Failure::new)?;
        for language in &layer.metadata().languages {
            if !stated.languages.contains(language) {
                stated.languages.push(language.clone());
            }
        }
        layers.push((path.as_path(), layer));
    }
    if let Some(path) = arguments.row_files.first() {
        layers.push((path, rows(arguments)?));
    }
    let rule = Rule { by: arguments.by, paths };
    let aliases = Aliases::of(&merged, arguments.no_ipv4_aliases)
        .map_err(|error| Failure::file(first, error))?;
    let count = layers.len();
    for (index, (path, layer)) in layers.into_iter().enumerate() {
        let ip_version = merged.metadata().ip_version.max(layer.metadata().ip_version);
        let options = arguments.stated.options(&stated, ip_version);
        let wrong = |error: MmdbError| Failure::file(path, error);
        let mut writer = Writer::new(options).map_err(wrong)?;
        aliases.apply(&mut writer);
        let networks = lay_over(&merged, &layer, &rule, &mut writer).map_err(wrong)?;
        if index + 1 == count {
            return finish(writer, networks, path, output, arguments.json);
        }
        merged = writer.finish().and_then(Database::from_bytes).map_err(wrong)?;
    }
    Ok(Outcome::Found)
}

/// The rows as a database of their own.
fn rows(arguments: &MergeArguments) -> Result<Database, Failure> {
    let mut writer = Writer::new(WriterOptions::default()).map_err(Failure::new)?;
    // Every network stands where it is written: only the result has aliases.
    writer.set_ipv4_aliases(false);
    load(&arguments.row_files, &arguments.reading, &mut writer)?;
    writer.finish().and_then(Database::from_bytes).map_err(Failure::new)
}

/// Which ranges of the new file lead to the IPv4 networks.
pub(super) struct Aliases {
    is_aliased: bool,
    has_teredo: bool,
}

impl Aliases {
    /// Those that the database has.
    pub(super) fn of(database: &Database, is_off: bool) -> Result<Aliases, MmdbError> {
        let [six_to_four, has_teredo] = database.ipv4_aliases()?;
        let is_ipv4 = database.metadata().ip_version == 4;
        Ok(Aliases { is_aliased: !is_off && (six_to_four || is_ipv4), has_teredo })
    }

    pub(super) fn apply(&self, writer: &mut Writer) {
        writer.set_ipv4_aliases(self.is_aliased);
        writer.set_teredo_alias(self.has_teredo);
    }
}

/// Whether a network only shows the one record of all IPv4 networks once more.
pub(super) fn is_alias(
    database: &Database,
    prefix: Prefix,
    id: Option<RecordId>,
) -> Result<bool, MmdbError> {
    id.map_or(Ok(false), |id| database.is_alias_of_record(prefix, id))
}

/// What the record is where two meet.
struct Rule {
    by: MergeChoice,
    /// The only fields that are taken, if there are any.
    paths: Vec<FieldPath>,
}

impl Rule {
    fn merged(
        &self,
        under: Option<Value>,
        over: Option<Value>,
    ) -> Result<Option<Value>, MmdbError> {
        let Some(over) = over else { return Ok(under) };
        if !self.paths.is_empty() {
            let taken: Vec<(&FieldPath, Value)> = self
                .paths
                .iter()
                .filter_map(|path| Some((path, over.get(path)?.clone())))
                .collect();
            if taken.is_empty() {
                return Ok(under);
            }
            let mut record = under.unwrap_or(Value::Map(Vec::new()));
            for (path, value) in taken {
                record.set(path, value)?;
            }
            return Ok(Some(record));
        }
        Ok(Some(match (self.by, under) {
            (MergeChoice::Deep, Some(mut under)) => {
                under.merge(over);
                under
            }
            _ => over,
        }))
    }
}

/// Inserts every network of both; returns how many there were.
fn lay_over(
    under: &Database,
    over: &Database,
    rule: &Rule,
    writer: &mut Writer,
) -> Result<u64, MmdbError> {
    let mut known: HashMap<(Option<RecordId>, Option<RecordId>), Option<StoredValue>> =
        HashMap::new();
    let mut count = 0;
    for pair in under.side_by_side(over) {
        let pair = pair?;
        let is_shown_again = |database: &Database, id: Option<RecordId>| {
            Ok::<_, MmdbError>(id.is_none() || is_alias(database, pair.prefix, id)?)
        };
        if is_shown_again(under, pair.old)? && is_shown_again(over, pair.new)? {
            continue;
        }
        let at_network = |error: MmdbError| error.at_network(pair.prefix);
        let value = match known.get(&(pair.old, pair.new)) {
            Some(value) => *value,
            None => {
                let read = |database: &Database, id: Option<RecordId>| {
                    id.map(|id| database.record(id)).transpose()
                };
                let (under, over) = (read(under, pair.old)?, read(over, pair.new)?);
                let merged = rule.merged(under, over).map_err(at_network)?;
                let stored = merged.map(|value| writer.store(&value)).transpose();
                let stored = stored.map_err(at_network)?;
                known.insert((pair.old, pair.new), stored);
                stored
            }
        };
        if let Some(value) = value {
            writer.insert_stored(pair.prefix, value)?;
            count += 1;
        }
    }
    Ok(count)
}
