//! `whered db index`: a database's index as a file beside it, for runs that are too short to build
//! one.
//!
//! Not for using it (`enrich`), nor for what is in it (`whered-mmdb`).

use std::path::{Path, PathBuf};

use serde_json::json;
use whered_engine::read_database_file;
use whered_mmdb::{DatabaseIndex, IndexForm, IndexOptions};

use super::{field_paths, replace_file};
use crate::cli::{IndexArguments, IndexChoice};
use crate::outcome::{Failure, Outcome, say};

/// Where the index of a database file lies: `city.mmdb.index`.
pub(crate) fn index_path(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(".index");
    PathBuf::from(path)
}

/// `whered db index FILE`.
pub(crate) fn index(arguments: &IndexArguments) -> Result<Outcome, Failure> {
    let path = &arguments.file;
    let mut options = IndexOptions::default();
    if !arguments.field.is_empty() {
        options.fields = field_paths(&arguments.field)?;
    }
    options.form = match arguments.form {
        IndexChoice::Compact => IndexForm::Compact,
        IndexChoice::Fast => IndexForm::Fast,
    };
    let database = read_database_file(path).map_err(Failure::new)?;
    let built = DatabaseIndex::build(&database, &options);
    let index = built.map_err(|error| Failure::file(path, error))?;
    let target = index_path(path);
    let bytes = index.to_bytes(&database);
    replace_file(&target, &bytes)?;
    let (records, size_bytes) = (index.row_count() - 1, bytes.len());
    let target = target.display().to_string();
    let object = json!({ "file": target, "records": records, "bytes": size_bytes });
    say(arguments.json, &object, &format!("{target}: {records} records, {size_bytes} bytes"))?;
    Ok(Outcome::Found)
}
