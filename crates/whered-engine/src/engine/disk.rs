//! The files of an engine, and the lock on their directory.
//!
//! For: one data directory, real or simulated, and folders in it. Not for: what the files hold
//! (`durability`, `feeds`).
//!
//! At the same time: the lock is held for as long as a [`Disk`] lives, or until it is given up.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use whered_store::{DataDirectory, DirectoryStorage, Journal, Storage, StoreError};

use crate::durability;
use crate::error::EngineError;

/// Gives the files of a folder.
pub(super) type Folder = dyn Fn(&Path) -> Result<Arc<dyn Storage>, StoreError> + Send + Sync;

/// The files of an engine.
pub(crate) struct Disk {
    pub(crate) storage: Arc<dyn Storage>,
    pub(super) folder: Box<Folder>,
    /// Holds the lock; `None` for a simulated disk.
    pub(super) directory: Option<Arc<DataDirectory>>,
    /// Where people find what was refused.
    pub(super) quarantine: Option<PathBuf>,
}

impl Disk {
    /// Where it is; `None` for a simulated one.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.directory.as_ref().map(|directory| directory.path())
    }

    pub(super) fn lock(path: &Path) -> Result<Disk, EngineError> {
        let directory = Arc::new(DataDirectory::lock(path)?);
        let storage = Arc::new(directory.storage());
        let quarantine = Some(directory.path().join("quarantine"));
        let parent = Arc::clone(&directory);
        let folder = move |name: &Path| -> Result<Arc<dyn Storage>, StoreError> {
            Ok(Arc::new(parent.folder(name)?))
        };
        Ok(Disk { storage, folder: Box::new(folder), directory: Some(directory), quarantine })
    }

    /// What opening a data directory would be refused for, without making or changing anything.
    /// Costs a read of the journal after the newest snapshot, unless another process may hold the
    /// directory: then the headers alone are read.
    pub(super) fn examine(path: &Path, may_be_held: bool) -> Result<(), EngineError> {
        let storage = DirectoryStorage::new(path);
        if may_be_held {
            if DataDirectory::examine_shared(path)? {
                Journal::check_versions(&storage)?;
            }
        } else if DataDirectory::examine(path)? {
            durability::open::examine(&storage)?;
        }
        Ok(())
    }

    /// The files of a folder.
    pub(crate) fn files(&self, name: &Path) -> Result<Arc<dyn Storage>, StoreError> {
        (self.folder)(name)
    }

    /// The names of all feeds that have a spool.
    pub(crate) fn spools(&self) -> Result<Vec<String>, StoreError> {
        self.directory.as_ref().map_or(Ok(Vec::new()), |directory| directory.folders("spool"))
    }

    /// The files of a simulated disk.
    #[cfg(test)]
    pub(crate) fn simulated(disk: &whered_store::SimulatedDisk) -> Disk {
        let disk = disk.clone();
        let storage = Arc::new(disk.clone());
        let folder = move |name: &Path| -> Result<Arc<dyn Storage>, StoreError> {
            Ok(Arc::new(disk.directory(&name.display().to_string())))
        };
        Disk { storage, folder: Box::new(folder), directory: None, quarantine: None }
    }
}
