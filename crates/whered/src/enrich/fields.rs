//! Which databases are asked, and which field of which one becomes which column.
//!
//! Not for lookups. A field without a database's name is read from the first database that has it:
//! in which any record has it. That is found out from the file: a database in whose bytes one of
//! the field's names is not written does not have it; the others are read record by record up to
//! the first that has it, which is nearly always the first.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use whered_engine::read_database_file;
use whered_mmdb::{Database, FieldPath, Format};

use crate::outcome::Failure;

/// What is read when no field is asked for: those of these that a database has.
const DEFAULT_FIELDS: [&str; 5] = [
    "country.iso_code",
    "city.names.en",
    "location.latitude",
    "location.longitude",
    "autonomous_system_number",
];

/// An opened database and its name.
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) database: Database,
}

/// One column of the output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Column {
    /// Which database, by its place in the list.
    pub(crate) database: usize,
    pub(crate) path: FieldPath,
    /// The header or member.
    pub(crate) name: String,
}

/// Opens `[NAME=]FILE` for each; the name is the file's without its extension unless it is given.
pub(crate) fn open_databases(arguments: &[String]) -> Result<Vec<Named>, Failure> {
    let open = |(name, path): (String, PathBuf)| {
        let database = read_database_file(&path).map_err(Failure::new)?;
        Ok(Named { name, path, database })
    };
    names_and_paths(arguments)?.into_iter().map(open).collect()
}

/// The names and paths of `[NAME=]FILE` for each; no name comes twice.
pub(crate) fn names_and_paths(arguments: &[String]) -> Result<Vec<(String, PathBuf)>, Failure> {
    let mut named: Vec<(String, PathBuf)> = Vec::new();
    for argument in arguments {
        let (name, path) = name_and_path(argument);
        if named.iter().any(|(known, _)| *known == name) {
            let shown = name.escape_debug();
            return Err(Failure::Message(format!(
                "--db {}: a second database with the name '{shown}'; name it: --db NAME={}",
                argument.escape_debug(),
                path.display(),
            )));
        }
        named.push((name, path));
    }
    Ok(named)
}

fn name_and_path(argument: &str) -> (String, PathBuf) {
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
    };
    if let Some((name, path)) = argument.split_once('=')
        && is_name(name)
        && !Path::new(argument).exists()
    {
        return (name.to_owned(), PathBuf::from(path));
    }
    let path = PathBuf::from(argument);
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    (stem.unwrap_or_default(), path)
}

/// The columns of `[NAME:]PATH` for each; the usual ones without any.
pub(crate) fn columns(fields: &[String], databases: &[Named]) -> Result<Vec<Column>, Failure> {
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
            let database = databases.get(column.database).map_or("", |named| &named.name);
            column.name = format!("{database}:{}", column.name);
        }
    }
    Ok(columns)
}

fn column(field: &str, databases: &[Named]) -> Result<Column, Failure> {
    let refuse =
        |what: String| Failure::Message(format!("--field {}: {what}", field.escape_debug()));
    let parse = |text: &str| -> Result<FieldPath, Failure> {
        let path: FieldPath = text.parse().map_err(|error| refuse(format!("{error}")))?;
        if path.is_empty() {
            return Err(refuse("it is empty; allowed: a path such as country.iso_code".to_owned()));
        }
        Ok(path)
    };
    let named = field.split_once(':').and_then(|(name, path)| {
        let place = databases.iter().position(|known| known.name == name)?;
        Some((place, path))
    });
    let (places, text) = match named {
        Some((place, text)) => (place..place + 1, text),
        None => (0..databases.len(), field),
    };
    let path = parse(text)?;
    for place in places.clone() {
        if databases.get(place).is_some_and(|known| has_field(&known.database, &path)) {
            return Ok(Column { database: place, path, name: text.to_owned() });
        }
    }
    let asked = databases.get(places).unwrap_or_default();
    let names: Vec<&str> = asked.iter().map(|known| known.name.as_str()).collect();
    Err(refuse(format!("no record has it in {}", names.join(", ").escape_debug())))
}

fn default_columns(databases: &[Named]) -> Result<Vec<Column>, Failure> {
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
fn has_field(database: &Database, path: &FieldPath) -> bool {
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

    fn named(name: &str, csv: &str) -> Named {
        let mut writer = Writer::new(WriterOptions::default()).unwrap();
        rows::read_csv(csv.as_bytes(), &mut writer).unwrap();
        let database = Database::from_bytes(writer.finish().unwrap()).unwrap();
        Named { name: name.to_owned(), path: PathBuf::from(name), database }
    }

    #[test]
    fn a_field_is_read_from_the_first_database_that_has_it_or_from_the_named_one() {
        let databases = [
            named("a", "network,x,y.z\n10.0.0.0/8,1,\n11.0.0.0/8,,2\n"),
            named("b", "network,x,w\n10.0.0.0/8,1,3\n"),
        ];
        let place = |field: &str| column(field, &databases).map(|column| column.database);
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
        assert_eq!(name_and_path("a/city.mmdb"), ("city".to_owned(), PathBuf::from("a/city.mmdb")));
        assert_eq!(name_and_path("x=a.mmdb"), ("x".to_owned(), PathBuf::from("a.mmdb")));
        assert_eq!(name_and_path("a/x=b.mmdb"), ("x=b".to_owned(), PathBuf::from("a/x=b.mmdb")));
    }
}
