//! A file as it was read once: the database and, if wanted, its index.
//!
//! Not for choosing when to read. A generation is complete before anybody asks it, and never
//! changes; the old one lives until the last call that took it is done.

use crate::fault::{BAD_ARGUMENT, CANNOT_READ, Fault};
use arc_swap::ArcSwap;
use std::path::PathBuf;
use std::sync::Arc;
use whered_mmdb::{Database, DatabaseIndex, FieldPath, IndexForm, IndexOptions};

/// An open database, which C knows by its address only.
pub(crate) struct whered_database {
    path: PathBuf,
    is_indexed: bool,
    pub(crate) fields: Vec<FieldPath>,
    pub(crate) current: ArcSwap<Generation>,
}

pub(crate) struct Generation {
    pub(crate) database: Database,
    pub(crate) index: Option<DatabaseIndex>,
}

impl whered_database {
    pub(crate) fn open(
        path: PathBuf,
        is_indexed: bool,
        fields: Vec<FieldPath>,
    ) -> Result<whered_database, Fault> {
        if fields.len() > 255 {
            let text = format!("{} fields; allowed: at most 255", fields.len());
            return Err(Fault::new(BAD_ARGUMENT, text));
        }
        let first = Generation::read(&path, is_indexed, &fields)?;
        Ok(whered_database { path, is_indexed, fields, current: ArcSwap::from_pointee(first) })
    }

    pub(crate) fn reload(&self) -> Result<(), Fault> {
        let next = Generation::read(&self.path, self.is_indexed, &self.fields)?;
        self.current.store(Arc::new(next));
        Ok(())
    }
}

impl Generation {
    fn read(path: &PathBuf, is_indexed: bool, fields: &[FieldPath]) -> Result<Generation, Fault> {
        let bytes = std::fs::read(path)
            .map_err(|error| Fault::new(CANNOT_READ, format!("{}: {error}", path.display())))?;
        let database = Database::from_bytes(bytes)?;
        let options = IndexOptions { form: IndexForm::Compact, fields: fields.to_vec() };
        let index = is_indexed.then(|| DatabaseIndex::build(&database, &options)).transpose()?;
        Ok(Generation { database, index })
    }
}
