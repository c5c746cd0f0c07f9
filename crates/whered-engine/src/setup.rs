//! What the configuration names, read from disk and checked before anything serves it.
//!
//! Loading is all or nothing: the first fault is an error that names file and place, and the
//! caller's old generation serves on. Files are read whole into memory; a file that is replaced
//! or truncated later does not matter to a loaded one.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use whered_dns::{Name, Zone};
use whered_mmdb::Database;

use crate::error::EngineError;
use crate::pool::PoolSource;

/// An IP database to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseSource {
    /// The name that questions use.
    pub name: String,
    /// The `.mmdb` or legacy `.dat` file.
    pub path: PathBuf,
}

/// A DNS zone to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneSource {
    /// The zone's origin, such as `example.com`.
    pub name: String,
    /// The master file (RFC 1035).
    pub path: PathBuf,
}

/// Everything that a generation is built from.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// IP databases, in the order that `IP.LIST` gives them.
    pub databases: Vec<DatabaseSource>,
    /// Zones.
    pub zones: Vec<ZoneSource>,
    /// Pools.
    pub pools: Vec<PoolSource>,
    /// The database that DNS takes clients' places from; the first one when not named.
    pub place_database: Option<String>,
}

/// A loaded database and its name.
#[derive(Debug)]
pub struct NamedDatabase {
    /// The name that questions use.
    pub name: String,
    /// Where it came from.
    pub path: PathBuf,
    /// The data.
    pub database: Database,
}

/// The files of a setup, read and checked.
pub(crate) struct Loaded {
    pub(crate) databases: Vec<Arc<NamedDatabase>>,
    pub(crate) zones: Vec<Arc<Zone>>,
}

impl Loaded {
    /// Reads every file of the setup.
    ///
    /// # Errors
    /// The first file that cannot be read or is wrong, with the place of the fault.
    pub(crate) fn read(setup: &Setup) -> Result<Loaded, EngineError> {
        let databases = setup.databases.iter().map(read_database).collect::<Result<_, _>>()?;
        let zones = setup.zones.iter().map(read_zone).collect::<Result<_, _>>()?;
        Ok(Loaded { databases, zones })
    }
}

/// Opens and verifies one database file; for programs that ask without a server as well.
///
/// # Errors
/// The file cannot be read, is no database, or fails verification: one line with the place.
pub fn read_database_file(path: &Path) -> Result<Database, EngineError> {
    let wrong =
        |error: &dyn std::fmt::Display| EngineError::new(format!("{}: {error}", path.display()));
    let bytes = read_file(path).map_err(|error| wrong(&error))?;
    Database::from_bytes(bytes).map_err(|error| wrong(&error))
}

/// Reads a regular file whole. A pipe that nobody writes to would block a reload for ever, and a
/// device such as `/dev/zero` has no end: both are refused before they are opened.
///
/// # Errors
/// The system's, or that it is no regular file.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let kind = std::fs::metadata(path)?.file_type();
    // Reading a folder has an error of its own.
    if !kind.is_file() && !kind.is_dir() {
        let message = "is a pipe, a socket or a device; allowed: a regular file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    std::fs::read(path)
}

fn read_database(source: &DatabaseSource) -> Result<Arc<NamedDatabase>, EngineError> {
    let database = read_database_file(&source.path)?;
    database
        .verify()
        .map_err(|error| EngineError::new(format!("{}: {error}", source.path.display())))?;
    let (name, path) = (source.name.clone(), source.path.clone());
    Ok(Arc::new(NamedDatabase { name, path, database }))
}

fn read_zone(source: &ZoneSource) -> Result<Arc<Zone>, EngineError> {
    let wrong = |error: &dyn std::fmt::Display| {
        EngineError::new(format!("{}: {error}", source.path.display()))
    };
    let origin: Name = source.name.parse().map_err(|error| wrong(&error))?;
    let text = read_file(&source.path).map_err(|error| wrong(&error))?;
    let folder = source.path.parent().unwrap_or(Path::new(".")).to_path_buf();
    let mut include = |name: &str| {
        let path = folder.join(name);
        read_file(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let zone = Zone::from_master_file(&origin, &text, &mut include);
    let zone = zone.map_err(|error| match error.file() {
        Some(_) => wrong(&format_args!("included {error}")),
        None => EngineError::new(format!("{}:{error}", source.path.display())),
    })?;
    Ok(Arc::new(zone))
}
