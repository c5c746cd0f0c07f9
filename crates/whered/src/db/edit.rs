//! `whered db edit`: a database file with changed networks, fields or metadata.
//!
//! Not for laying files over each other (`merge`). The changes of single networks are a small
//! database of their own, whose record for an address is the list of changes that apply there; both
//! are walked side by side. Changes of all records come after those.
//!
//! ```text
//! --set --unset --delete     of a network, in the order of these flags, each in the order given
//! --rename-field --drop-field --keep-field     of every record
//! ```

use std::collections::{HashMap, HashSet};

use std::path::Path;

use whered_engine::ip::Prefix;
use whered_engine::read_database_file;
use whered_mmdb::rows::{RowsMetadata, parse_assignment};
use whered_mmdb::{
    Database, FieldPath, MmdbError, RecordId, StoredValue, Value, Writer, WriterOptions,
};

use super::build::{finish, output_and_input};
use super::field_paths;
use super::fields::names;
use super::merge::{Aliases, is_alias};
use crate::cli::EditArguments;
use crate::outcome::{Failure, Outcome};

/// `whered db edit FILE -o OUTPUT`.
pub(crate) fn edit(arguments: &EditArguments) -> Result<Outcome, Failure> {
    let (output, path) = output_and_input("db edit", arguments.output.as_ref(), &arguments.paths)?;
    let path = path.as_path();
    let changes = Changes::new(arguments)?;
    let database = read_database_file(path).map_err(Failure::new)?;
    let wrong = |error: MmdbError| Failure::file(path, error);
    let stated = RowsMetadata::from(database.metadata());
    let mut options = arguments.stated.options(&stated, database.metadata().ip_version);
    if arguments.stated.build_epoch_seconds.is_none() {
        options.build_epoch_seconds = database.metadata().build_epoch_seconds;
    }
    let mut writer = Writer::new(options).map_err(wrong)?;
    Aliases::of(&database, false).map_err(wrong)?.apply(&mut writer);
    let mut hits = Hits::default();
    let networks = changes.apply(&database, &mut writer, &mut hits).map_err(wrong)?;
    changes.check(&hits, &database, path)?;
    finish(writer, networks, path, &output, arguments.json)
}

/// A change of the record that a network has.
enum Change {
    Set(FieldPath, Value),
    Unset(FieldPath),
    Delete,
}

/// Which changes found their field in some record.
#[derive(Default)]
struct Hits {
    of_networks: HashSet<usize>,
    renamed: HashSet<usize>,
    dropped: HashSet<usize>,
    kept: HashSet<usize>,
}

/// All changes.
struct Changes {
    of_networks: Vec<(Prefix, Change)>,
    renamed: Vec<(FieldPath, FieldPath)>,
    dropped: Vec<FieldPath>,
    kept: Vec<FieldPath>,
}

impl Changes {
    fn new(arguments: &EditArguments) -> Result<Changes, Failure> {
        let mut of_networks = Vec::new();
        for text in &arguments.set {
            let (network, assignment) = network_and_rest(text, "--set", "PATH[:TYPE]=VALUE")?;
            let (path, value) = parse_assignment(assignment)
                .map_err(|error| Failure::Message(format!("--set {text}: {error}")))?;
            of_networks.push((network, Change::Set(path, value)));
        }
        for text in &arguments.unset {
            let (network, path) = network_and_rest(text, "--unset", "PATH")?;
            let path = path
                .parse()
                .map_err(|error| Failure::Message(format!("--unset {text}: {error}")))?;
            of_networks.push((network, Change::Unset(path)));
        }
        for text in &arguments.delete {
            of_networks.push((parse_network(text, "--delete", text)?, Change::Delete));
        }
        let rename = |text: &String| {
            let wrong = || {
                let allowed = "allowed: OLD=NEW, both field paths";
                Failure::Message(format!("--rename-field {text}: {allowed}"))
            };
            let (old, new) = text.split_once('=').ok_or_else(wrong)?;
            let parse = |path: &str| path.parse().map_err(|_| wrong());
            Ok((parse(old)?, parse(new)?))
        };
        Ok(Changes {
            of_networks,
            renamed: arguments.rename_field.iter().map(rename).collect::<Result<_, Failure>>()?,
            dropped: field_paths(&arguments.drop_field)?,
            kept: field_paths(&arguments.keep_field)?,
        })
    }

    /// A database whose record for an address is the list of the changes there.
    fn as_database(&self) -> Result<Database, MmdbError> {
        let mut writer = Writer::new(WriterOptions::default())?;
        writer.set_ipv4_aliases(false);
        for (prefix, _) in &self.of_networks {
            let applies = |(_, (other, _)): &(u32, &(Prefix, Change))| other.covers(prefix);
            let numbers = (0..).zip(&self.of_networks).filter(applies);
            let numbers = numbers.map(|(number, _)| Value::Uint32(number)).collect();
            writer.insert(*prefix, Value::Array(numbers))?;
        }
        writer.finish().and_then(Database::from_bytes)
    }

    /// Inserts every network with its changed record; returns how many there are.
    fn apply(
        &self,
        database: &Database,
        writer: &mut Writer,
        hits: &mut Hits,
    ) -> Result<u64, MmdbError> {
        let changes = self.as_database()?;
        let mut known: HashMap<(Option<RecordId>, Option<RecordId>), Option<StoredValue>> =
            HashMap::new();
        let mut count = 0;
        for pair in database.side_by_side(&changes) {
            let pair = pair?;
            if is_alias(database, pair.prefix, pair.old)? {
                continue;
            }
            let value = match known.get(&(pair.old, pair.new)) {
                Some(value) => *value,
                None => {
                    let record = pair.old.map(|id| database.record(id)).transpose()?;
                    let list = pair.new.map(|id| changes.record(id)).transpose()?;
                    let changed = self.changed(record, list.as_ref(), hits);
                    let stored = changed
                        .and_then(|record| record.map(|record| writer.store(&record)).transpose());
                    let stored = stored.map_err(|error| error.at_network(pair.prefix))?;
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

    /// The record after the changes with these numbers, and after those of all records.
    fn changed(
        &self,
        mut record: Option<Value>,
        numbers: Option<&Value>,
        hits: &mut Hits,
    ) -> Result<Option<Value>, MmdbError> {
        let numbers = match numbers {
            Some(Value::Array(numbers)) => numbers.as_slice(),
            _ => &[],
        };
        for number in numbers {
            let Value::Uint32(number) = number else { continue };
            match self.of_networks.get(*number as usize) {
                Some((_, Change::Set(path, value))) => {
                    let record = record.get_or_insert(Value::Map(Vec::new()));
                    record.set(path, value.clone())?;
                }
                Some((_, Change::Unset(path))) => {
                    let removed = record.as_mut().and_then(|record| record.remove(path));
                    if removed.is_some() {
                        hits.of_networks.insert(*number as usize);
                    }
                }
                Some((_, Change::Delete)) => record = None,
                None => {}
            }
        }
        let Some(mut record) = record else { return Ok(None) };
        for (index, (old, new)) in self.renamed.iter().enumerate() {
            if record.rename(old, new)? {
                hits.renamed.insert(index);
            }
        }
        for (index, path) in self.dropped.iter().enumerate() {
            if record.remove(path).is_some() {
                hits.dropped.insert(index);
            }
        }
        if !self.kept.is_empty() {
            let mut kept = Value::Map(Vec::new());
            for (index, path) in self.kept.iter().enumerate() {
                if let Some(value) = record.get(path) {
                    hits.kept.insert(index);
                    kept.set(path, value.clone())?;
                }
            }
            record = kept;
        }
        Ok(Some(record))
    }
}

impl Changes {
    /// Refuses a change whose field no record had: a name with a slip in it.
    fn check(&self, hits: &Hits, database: &Database, file: &Path) -> Result<(), Failure> {
        let unset =
            self.of_networks.iter().enumerate().filter_map(
                |(index, (network, change))| match change {
                    Change::Unset(path) if !hits.of_networks.contains(&index) => {
                        Some(("--unset", path, format!(" in {network}")))
                    }
                    _ => None,
                },
            );
        let missed = |hits: &HashSet<usize>, index: usize| !hits.contains(&index);
        let renamed = (0..).zip(&self.renamed).filter(|(index, _)| missed(&hits.renamed, *index));
        let dropped = (0..).zip(&self.dropped).filter(|(index, _)| missed(&hits.dropped, *index));
        let kept = (0..).zip(&self.kept).filter(|(index, _)| missed(&hits.kept, *index));
        let first = unset
            .chain(renamed.map(|(_, (old, _))| ("--rename-field", old, String::new())))
            .chain(dropped.map(|(_, path)| ("--drop-field", path, String::new())))
            .chain(kept.map(|(_, path)| ("--keep-field", path, String::new())))
            .next();
        let Some((flag, path, place)) = first else { return Ok(()) };
        let close = close_names(&path.to_string(), names(database, file)?);
        let allowed = match close.is_empty() {
            true => "fields that some record has (db fields lists them)".to_owned(),
            false => close.join(", "),
        };
        let what = format!("{flag} {path}: no record{place} has such a field; allowed: {allowed}");
        Err(Failure::file(file, what))
    }
}

/// How many names a message lists.
const CLOSE_NAMES_MAX: usize = 5;

/// The names that are a slip away from another one, the closest first.
fn close_names(wanted: &str, names: Vec<String>) -> Vec<String> {
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_lowercase();
    let wanted_last = last(wanted);
    let mut close: Vec<(usize, String)> = names
        .into_iter()
        .map(|name| {
            let whole = edit_distance(&wanted.to_lowercase(), &name.to_lowercase());
            // The right name at another path is close, too.
            (whole.min(1 + 2 * edit_distance(&wanted_last, &last(&name))), name)
        })
        .filter(|(distance, _)| *distance <= 2 + wanted.chars().count() / 4)
        .collect();
    close.sort();
    close.into_iter().take(CLOSE_NAMES_MAX).map(|(_, name)| name).collect()
}

/// Levenshtein's distance of two texts.
fn edit_distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, letter) in left.chars().enumerate() {
        let mut diagonal = index;
        let mut before = index + 1;
        for (cell, other) in row.iter_mut().skip(1).zip(&right) {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = *cell;
            *cell = changed.min(diagonal + 1).min(before + 1);
            before = *cell;
        }
        if let Some(first) = row.first_mut() {
            *first = index + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

/// The two parts of a change, between the first blanks.
fn network_and_rest<'a>(
    text: &'a str,
    flag: &str,
    rest: &str,
) -> Result<(Prefix, &'a str), Failure> {
    let Some((network, behind)) = text.trim().split_once(char::is_whitespace) else {
        let allowed = format!("allowed: 'NETWORK {rest}' such as '192.0.2.0/24 {rest}'");
        return Err(Failure::Message(format!("{flag} {text}: {allowed}")));
    };
    Ok((parse_network(network, flag, text)?, behind.trim_start()))
}

fn parse_network(network: &str, flag: &str, text: &str) -> Result<Prefix, Failure> {
    let prefix: Result<Prefix, _> = network.parse();
    let allowed = "allowed: a network such as 192.0.2.0/24 or 2001:db8::/32";
    let prefix = prefix.map(Prefix::to_canonical);
    prefix.map_err(|_| Failure::Message(format!("{flag} {text}: {allowed}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_a_slip_away_are_close() {
        let names = ["asn", "country", "country.iso_code", "location.time_zone"];
        let close = |wanted: &str| close_names(wanted, names.map(str::to_owned).to_vec());
        assert_eq!(close("ans"), ["asn"]);
        assert_eq!(close("country.isocode"), ["country.iso_code"]);
        assert_eq!(close("iso_code"), ["country.iso_code"]);
        assert_eq!(close("registered_country.iso_code"), ["country.iso_code"]);
        assert!(close("organization").is_empty());
        assert_eq!(edit_distance("kitten", "sitting"), 3);
    }
}
