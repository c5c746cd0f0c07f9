//! Which databases are asked, and which field of which one becomes which column.
//!
//! Not for lookups. A field without a database's name is read, for IPv4 and for IPv6 addresses,
//! from the first database that covers the family and has the field: in which any record has it. So
//! a database in two files, one for each family, is two databases here whose columns are one. That
//! is found out from the file: a database in whose bytes one of the field's names is not written
//! does not have it; the others are read record by record up to the first that has it, which is
//! nearly always the first.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use whered_engine::read_database_file;
use whered_mmdb::{Database, FieldPath, Format, by_family};

use crate::outcome::Failure;

/// What is read when no field is asked for: those of these that a database has.
const DEFAULT_FIELDS: [&str; 5] = [
    "country.iso_code",
    "city.names.en",
    "location.latitude",
    "location.longitude",
    "autonomous_system_number",
];

/// An opened database and its name, which further files of one database share.
pub(crate) struct InputDatabase {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) database: Database,
    /// Whether it has networks of IPv4 and of IPv6 addresses.
    pub(crate) covers: [bool; 2],
}

/// One column of the output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Column {
    /// Which databases IPv4 and IPv6 addresses are looked up in, by their places in the list.
    pub(crate) databases: [usize; 2],
    pub(crate) path: FieldPath,
    /// The header or member.
    pub(crate) name: String,
}

/// Opens `[NAME=]FILE` for each; the name is the file's without its extension unless it is given.
pub(crate) fn open_databases(arguments: &[String]) -> Result<Vec<InputDatabase>, Failure> {
    let mut databases = Vec::new();
    for (name, paths) in names_and_paths(arguments)? {
        let open = |path: &PathBuf| {
            let database = read_database_file(path).map_err(Failure::new)?;
            let covers =
                |is_ipv4| database.covers(is_ipv4).map_err(|error| Failure::file(path, error));
            let covers = [covers(true)?, covers(false)?];
            Ok(InputDatabase { name: name.clone(), path: path.clone(), database, covers })
        };
        let files = paths.iter().map(open).collect::<Result<Vec<InputDatabase>, Failure>>()?;
        let covered: Vec<[bool; 2]> = files.iter().map(|named| named.covers).collect();
        by_family(&covered).map_err(|unused| {
            let path = paths.get(unused).map_or(Path::new(""), PathBuf::as_path);
            Failure::file(
                path,
                format!(
                    "the other files of the database '{}' answer for its IPv4 and IPv6 addresses \
                     already; allowed: one file for each family",
                    name.escape_debug()
                ),
            )
        })?;
        databases.extend(files);
    }
    Ok(databases)
}

/// The names and paths of `[NAME=]FILE` for each. A name that is given more than once is that of a
/// database with several files; two files whose own names are the same are a mistake.
pub(crate) fn names_and_paths(
    arguments: &[String],
) -> Result<Vec<(String, Vec<PathBuf>)>, Failure> {
    let mut named: Vec<(String, bool, Vec<PathBuf>)> = Vec::new();
    for argument in arguments {
        let (name, is_given, path) = name_and_path(argument);
        match named.iter_mut().find(|(known, ..)| *known == name) {
            None => named.push((name, is_given, vec![path])),
            Some((_, true, paths)) if is_given => paths.push(path),
            Some(_) => {
                let shown = name.escape_debug();
                return Err(Failure::Message(format!(
                    "--db {}: a second database with the name '{shown}'; name it: --db NAME={}; \
                     the same NAME for both makes them one database",
                    argument.escape_debug(),
                    path.display(),
                )));
            }
        }
    }
    Ok(named.into_iter().map(|(name, _, paths)| (name, paths)).collect())
}

/// The name, whether it was given, and the path.
fn name_and_path(argument: &str) -> (String, bool, PathBuf) {
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
    };
    if let Some((name, path)) = argument.split_once('=')
        && is_name(name)
        && !Path::new(argument).exists()
    {
        return (name.to_owned(), true, PathBuf::from(path));
    }
    let path = PathBuf::from(argument);
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    (stem.unwrap_or_default(), false, path)
}

/// The columns of `[NAME:]PATH` for each; the usual ones without any.
pub(crate) fn columns(
    fields: &[String],
    databases: &[InputDatabase],
) -> Result<Vec<Column>, Failure> {
    if fields.is_empty() {
        return default_columns(databases);
    }
    let mut columns: Vec<Column> = Vec::new();
    for field in fields {
        let column = column(field, databases)?;
        if columns.contains(&column) {
            let shown = field.escape_debug();
            return Err(Failure::Message(format!("--field {shown}: it is asked for twice")));
        }
        columns.push(column);
    }
    // One name twice would be one member twice.
    let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    for column in &mut columns {
        if names.iter().filter(|name| **name == column.name).count() > 1 {
            let [database, _] = column.databases;
            let database = databases.get(database).map_or("", |named| &named.name);
            column.name = format!("{database}:{}", column.name);
        }
    }
    Ok(columns)
}

fn column(field: &str, databases: &[InputDatabase]) -> Result<Column, Failure> {
    let refuse =
        |what: String| Failure::Message(format!("--field {}: {what}", field.escape_debug()));
    let parse = |text: &str| -> Result<FieldPath, Failure> {
        let path: FieldPath = text.parse().map_err(|error| refuse(format!("{error}")))?;
        if path.is_empty() {
            return Err(refuse("it is empty; allowed: a path such as country.iso_code".to_owned()));
        }
        Ok(path)
    };
    let is_name = |name: &str| databases.iter().any(|known| known.name == name);
    let (name, text) = match field.split_once(':').filter(|(name, _)| is_name(name)) {
        Some((name, text)) => (Some(name), text),
        None => (None, field),
    };
    let path = parse(text)?;
    let asked: Vec<(usize, &InputDatabase)> = databases
        .iter()
        .enumerate()
        .filter(|(_, known)| name.is_none_or(|name| known.name == name))
        .collect();
    let has = |family: usize| {
        let covers = |known: &InputDatabase| known.covers.get(family) == Some(&true);
        let mut of_family = asked.iter().filter(|(_, known)| covers(known));
        of_family.find(|(_, known)| has_field(&known.database, &path)).map(|(place, _)| *place)
    };
    let databases = match (has(0), has(1)) {
        (Some(four), Some(six)) => [four, six],
        (Some(one), None) | (None, Some(one)) => [one; 2],
        (None, None) => {
            let mut names: Vec<&str> = asked.iter().map(|(_, known)| known.name.as_str()).collect();
            names.dedup();
            return Err(refuse(format!("no record has it in {}", names.join(", ").escape_debug())));
        }
    };
    Ok(Column { databases, path, name: text.to_owned() })
}

/// The pairs of databases that columns are read from, each once.
pub(crate) fn pairs(columns: &[Column]) -> Vec<[usize; 2]> {
    let mut pairs = Vec::new();
    for column in columns {
        if !pairs.contains(&column.databases) {
            pairs.push(column.databases);
        }
    }
    pairs
}

/// Whether any column is read from a database that covers IPv4 and IPv6 addresses.
pub(crate) fn covered(databases: &[InputDatabase], columns: &[Column]) -> [bool; 2] {
    let covers = |family: usize| {
        columns.iter().any(|column| {
            let place = column.databases.get(family);
            let named = place.and_then(|place| databases.get(*place));
            named.is_some_and(|named| named.covers.get(family) == Some(&true))
        })
    };
    [covers(0), covers(1)]
}

fn default_columns(databases: &[InputDatabase]) -> Result<Vec<Column>, Failure> {
    let found: Vec<Column> =
        DEFAULT_FIELDS.iter().filter_map(|field| column(field, databases).ok()).collect();
    if found.is_empty() {
        return Err(Failure::Message(format!(
            "no database has one of the usual fields ({}); name some by --field",
            DEFAULT_FIELDS.join(", ")
        )));
    }
    Ok(found)
}

/// Whether any record of the database has the field. A record that cannot be read has none.
pub(crate) fn has_field(database: &Database, path: &FieldPath) -> bool {
    if database.format() == Format::Mmdb {
        let is_number = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        let is_written =
            |name: &str| memchr::memmem::find(database.as_bytes(), name.as_bytes()).is_some();
        if !path.iter().all(|name| is_number(name) || is_written(name)) {
            return false;
        }
    }
    let mut seen = HashSet::new();
    let records = database.networks().map_while(Result::ok).map(|(_, record)| record);
    records
        .filter(|record| seen.insert(*record))
        .any(|record| matches!(database.field(record, path), Ok(Some(_))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use whered_mmdb::{Writer, WriterOptions, rows};

    fn named(name: &str, csv: &str) -> InputDatabase {
        let mut writer = Writer::new(WriterOptions::default()).unwrap();
        rows::read_csv(csv.as_bytes(), &mut writer).unwrap();
        let database = Database::from_bytes(writer.finish().unwrap()).unwrap();
        let covers = [true, false].map(|is_ipv4| database.covers(is_ipv4).unwrap());
        InputDatabase { name: name.to_owned(), path: PathBuf::from(name), database, covers }
    }

    #[test]
    fn a_field_is_read_from_the_first_database_that_has_it_or_from_the_named_one() {
        let databases = [
            named("a", "network,x,y.z\n10.0.0.0/8,1,\n11.0.0.0/8,,2\n"),
            named("b", "network,x,w\n10.0.0.0/8,1,3\n"),
        ];
        let place = |field: &str| column(field, &databases).map(|column| column.databases[0]);
        assert!(matches!(place("x"), Ok(0)));
        assert!(matches!(place("y.z"), Ok(0)));
        assert!(matches!(place("w"), Ok(1)));
        assert!(matches!(place("b:x"), Ok(1)));
        for field in ["z.y", "a:w", "c:x", "", "x..y"] {
            let Err(Failure::Message(message)) = place(field) else { panic!("{field} was taken") };
            assert!(message.starts_with(&format!("--field {field}: ")), "{message}");
        }
        let both = columns(&["x".to_owned(), "b:x".to_owned(), "w".to_owned()], &databases);
        let names: Vec<String> = both.ok().unwrap().into_iter().map(|column| column.name).collect();
        assert_eq!(names, ["a:x", "b:x", "w"]);
        assert!(columns(&["x".to_owned(), "a:x".to_owned()], &databases).is_err());
        assert!(columns(&[], &databases).is_err());
    }

    #[test]
    fn a_database_has_the_name_that_is_given_or_that_of_its_file() {
        let is = |argument: &str, name: &str, is_given: bool, path: &str| {
            let expected = (name.to_owned(), is_given, PathBuf::from(path));
            assert_eq!(name_and_path(argument), expected, "{argument}");
        };
        is("a/city.mmdb", "city", false, "a/city.mmdb");
        is("x=a.mmdb", "x", true, "a.mmdb");
        is("a/x=b.mmdb", "x=b", false, "a/x=b.mmdb");
    }

    #[test]
    fn a_name_that_is_given_twice_is_one_database_with_two_files() {
        let read = |arguments: &[&str]| {
            let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
            names_and_paths(&arguments).ok()
        };
        let files = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(
            read(&["x=4.mmdb", "y.mmdb", "x=6.mmdb"]),
            Some(vec![
                ("x".to_owned(), files(&["4.mmdb", "6.mmdb"])),
                ("y".to_owned(), files(&["y.mmdb"])),
            ])
        );
        assert_eq!(read(&["a/x.mmdb", "b/x.mmdb"]), None);
        assert_eq!(read(&["a/x.mmdb", "x=b.mmdb"]), None);
    }

    #[test]
    fn each_family_is_read_from_the_first_database_that_covers_it_and_has_the_field() {
        let databases = [
            named("four", "network,x,only4\n10.0.0.0/8,1,1\n"),
            named("six", "network,x,only6\n2001:db8::/32,2,2\n"),
            named("both", "network,x,w\n10.0.0.0/8,3,4\n2001:db8::/32,3,4\n"),
        ];
        let places = |field: &str| column(field, &databases).ok().map(|column| column.databases);
        assert_eq!(places("x"), Some([0, 1]));
        assert_eq!(places("w"), Some([2, 2]));
        assert_eq!(places("only4"), Some([0, 0]));
        assert_eq!(places("six:x"), Some([1, 1]));
        let columns = |fields: &[&str]| {
            let fields: Vec<String> = fields.iter().map(ToString::to_string).collect();
            columns(&fields, &databases).ok().unwrap()
        };
        assert_eq!(pairs(&columns(&["x", "w", "only4", "both:x"])), [[0, 1], [2, 2], [0, 0]]);
        assert_eq!(covered(&databases, &columns(&["only4"])), [true, false]);
        assert_eq!(covered(&databases, &columns(&["x"])), [true, true]);
    }
}
