//! Places out of database files, for rules that are asked without a server.
//!
//! For: `--db` of the command line. Not for: a running engine, whose generations have databases
//! that are replaced (`DatabasePlaces` alone).
//!
//! Concurrency: never changes. Cost: the files are read whole; a predicate is resolved by one walk
//! over its database.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use whered_rules::normal::Places;
use whered_rules::{Family, Predicate, Ranges};

use super::places::DatabasePlaces;
use crate::databases::{
    AccessMode, DatabaseSource, DatabaseStatus, NamedDatabase, ReloadFailure, ReloadMode,
};

/// Databases by name, in the order in which they are asked for a field that names none.
pub struct FilePlaces {
    databases: Vec<Arc<NamedDatabase>>,
}

impl FilePlaces {
    /// Opens and verifies each database, which may have several files, under its name.
    ///
    /// # Errors
    ///
    /// The first file that is no database.
    pub fn open(
        named: impl IntoIterator<Item = (String, Vec<PathBuf>)>,
    ) -> Result<FilePlaces, ReloadFailure> {
        let load = |(name, paths): (String, Vec<PathBuf>)| {
            let mut paths = paths.into_iter();
            let new = DatabaseSource::new(name, paths.next().unwrap_or_default());
            let (mode, reload) = (AccessMode::Memory, ReloadMode::Off);
            let source = DatabaseSource { mode, reload, further_paths: paths.collect(), ..new };
            NamedDatabase::load(&source, Arc::new(DatabaseStatus::default())).map(Arc::new)
        };
        let databases = named.into_iter().map(load).collect::<Result<_, _>>()?;
        Ok(FilePlaces { databases })
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.databases.is_empty()
    }

    fn places(&self) -> DatabasePlaces<'_> {
        DatabasePlaces { databases: &self.databases, default: None }
    }

    /// Whether a predicate is true of one address; what cannot be read is not.
    #[must_use]
    pub fn is_at(&self, predicate: &Predicate, address: IpAddr) -> bool {
        self.places().is_at(predicate, address)
    }

    /// Looks whether a predicate can be asked at all.
    ///
    /// # Errors
    ///
    /// What was found and what is allowed.
    pub fn check(&self, predicate: &Predicate) -> Result<(), String> {
        self.places().check(predicate)
    }
}

impl Places for FilePlaces {
    fn resolve(&self, predicate: &Predicate, family: Family) -> Result<Ranges, String> {
        self.places().resolve(predicate, family)
    }
}
