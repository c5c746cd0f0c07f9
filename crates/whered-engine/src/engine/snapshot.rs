//! Snapshots and backups of a running engine.
//!
//! For: one snapshot at a time, when it is asked for, and copies of the data directory. Not for:
//! the steps of a snapshot (`durability/snapshot.rs`) and what is written (`durability/save.rs`).
//!
//! At the same time: everybody goes on writing; a backup keeps snapshots and spools from removing
//! files.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use whered_store::{
    Confined, ConfinedError, Contents, DataDirectory, Storage, make_folder, path_of,
};

use super::{Disk, Engine};
use crate::durability::save::Sizes;
use crate::durability::snapshot::{SnapshotParts, make};
use crate::durability::{SnapshotReport, SnapshotStatus};
use crate::error::EngineError;

const NO_DIRECTORY: &str = "there is no data directory to keep a snapshot in";

impl Engine {
    /// Makes a snapshot now, in the caller's thread, while everybody goes on writing.
    ///
    /// # Errors
    /// There is no data directory, one is being made already, the disk is full or broken, or the
    /// journal has failed. What was there before is there still.
    pub fn snapshot(&self) -> Result<SnapshotReport, EngineError> {
        let Some(_making) = self.snapshots.try_make() else {
            return Err(EngineError::new("a snapshot is being made already"));
        };
        if self.keyspace.is_isolated_here() {
            return Err(EngineError::new("a snapshot cannot be made inside of a transaction"));
        }
        let _ending = EndOfPanic { engine: self };
        self.snapshots.begin(self.journal_bytes(), self.log.last_sequence());
        let result = self.make_snapshot();
        if result.is_err() {
            self.keyspace.abandon_saving();
        }
        let told = result.as_ref().map(|report| report.bytes).map_err(ToString::to_string);
        let elapsed = self.snapshots.end(told);
        result.map(|report| SnapshotReport { elapsed, ..report })
    }

    /// How many entries the journal has that the last snapshot has not: those since it began.
    pub fn changes_since_snapshot(&self) -> u64 {
        self.log.last_sequence().saturating_sub(self.snapshots.sequence())
    }

    /// Asks for a snapshot the thread that waits in [`Engine::wait_for_snapshot_request`].
    ///
    /// # Errors
    /// There is no data directory, or one is being made already: the reason.
    pub fn request_snapshot(&self) -> Result<(), String> {
        if self.directory.is_none() {
            return Err(NO_DIRECTORY.to_owned());
        }
        if self.snapshots.shown().running.is_some() {
            return Err("Background save already in progress".to_owned());
        }
        self.snapshots.ask();
        Ok(())
    }

    /// Waits until a snapshot is requested, or the time is over; gives whether one is.
    pub fn wait_for_snapshot_request(&self, timeout: Duration) -> bool {
        self.snapshots.wait_asked(timeout)
    }

    /// Gives up the snapshot that is being made, and makes none any more.
    pub fn stop_snapshots(&self) {
        self.snapshots.stopping.store(true, Ordering::Release);
        self.snapshots.ask();
    }

    /// Makes a copy of the data that an engine can be opened with, while everybody goes on
    /// writing: what was acknowledged before this was called is in it.
    ///
    /// # Errors
    /// There is no data directory, the target is not empty, the caller is inside of a transaction,
    /// or whatever the system reports.
    pub fn backup(&self, target: &Path) -> Result<Contents, EngineError> {
        let (Some(disk), Some(journal)) = (&self.directory, self.log.journal()) else {
            return Err(EngineError::new(NO_DIRECTORY));
        };
        // A snapshot that is being made could not end before the transaction does.
        if self.keyspace.is_isolated_here() {
            return Err(EngineError::new("a backup cannot be made inside of a transaction"));
        }
        self.feeds.check_whole()?;
        // No snapshot, and no spool, may remove files meanwhile.
        let _still = self.snapshots.hold_still();
        let _spools = self.feeds.hold_spools();
        let target = DataDirectory::lock(target)?;
        journal.roll()?;
        let files: Arc<dyn Storage> = Arc::new(target.storage());
        let contents = whered_store::backup(&*disk.storage, &files)?;
        // The spools come after: they have all that the journal does not know as applied.
        self.feeds.backup_spools(&|name| Ok(Arc::new(target.folder(name)?)))?;
        for name in disk.spools()? {
            if self.feeds.get(&name).is_none() {
                // Nobody writes to it: its feed is not in the configuration now.
                let name = Path::new("spool").join(name);
                copy_spool(&*disk.files(&name)?, &target, &name)?;
            }
        }
        Ok(contents)
    }

    /// As [`Engine::backup`], for a client: the target lies below the setup's directory for
    /// backups, or below `backups` of the data directory where the setup has none.
    ///
    /// # Errors
    /// As [`Engine::backup`], and for a target that lies elsewhere.
    pub fn backup_below(&self, named: &str) -> Result<Contents, EngineError> {
        let directory = self.directory.as_ref().ok_or_else(|| EngineError::new(NO_DIRECTORY))?;
        let configured = self.control().setup.backup_directory.clone();
        let root = match (&configured, directory.path()) {
            (Some(root), _) => root.clone(),
            (None, Some(data)) => {
                let root = data.join("backups");
                let failed = |error| EngineError::new(format!("{}: {error}", root.display()));
                make_folder(&root).map_err(failed)?;
                root
            }
            (None, None) => return Err(EngineError::new(NO_DIRECTORY)),
        };
        let shown = named.escape_debug();
        let failed = |error| EngineError::new(format!("'{shown}': {error}"));
        let outside = || {
            let root = root.display();
            EngineError::new(match configured {
                Some(_) => format!("'{shown}' is not below {root}, 'directory' of [backup]"),
                None => format!(
                    "'{shown}' is not below {root}; 'directory' of [backup] in the configuration \
                     allows another place"
                ),
            })
        };
        let opened = Confined::open(&root).map_err(failed)?.open_or_make_folder(Path::new(named));
        let target = opened.map_err(|error| match error {
            ConfinedError::Outside => outside(),
            ConfinedError::Io(error) => failed(error),
        })?;
        // The folder that was checked, whatever becomes of its name meanwhile.
        let path = path_of(&target);
        self.backup(&path).map_err(|error| {
            EngineError::new(error.to_string().replace(&path.display().to_string(), named))
        })
    }

    /// What is known about snapshots.
    pub fn snapshot_status(&self) -> SnapshotStatus {
        self.snapshots.shown()
    }

    /// Whether it is time for a snapshot, by the journal's size or the last one's age.
    pub fn snapshot_due(&self) -> bool {
        self.directory.is_some()
            && self.snapshots.is_due(self.journal_bytes(), self.log.last_sequence())
    }

    /// What the journal has taken since the engine was opened.
    fn journal_bytes(&self) -> u64 {
        self.journal_stats().map_or(0, |stats| stats.bytes)
    }

    fn make_snapshot(&self) -> Result<SnapshotReport, EngineError> {
        self.feeds.states.check_savable()?;
        let (Some(Disk { storage, .. }), Some(journal)) = (&self.directory, self.log.journal())
        else {
            return Err(EngineError::new(NO_DIRECTORY));
        };
        let snapshots = &self.snapshots;
        let mut before_block = |bytes: usize| {
            snapshots.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            match snapshots.stopping.load(Ordering::Acquire) {
                true => Err(EngineError::new("the engine is about to be closed")),
                false => Ok(()),
            }
        };
        let parts = SnapshotParts {
            keyspace: &self.keyspace,
            prefix_sets: &self.prefix_sets,
            changes: &|| self.control().changes.clone(),
            feeds: &self.feeds.states,
            log: &self.log,
        };
        let made = make(storage, journal, &parts, Sizes::default(), &mut before_block);
        self.feeds.states.residency.files.end_saving();
        let made = made?;
        // Nothing was written since the last one: that is as good.
        let unchanged = SnapshotReport { bytes: snapshots.shown().last_bytes, ..made.report };
        Ok(if made.is_new { made.report } else { unchanged })
    }
}

/// Ends a snapshot that panics: no operation may be registered for it for ever, and another may be
/// made.
struct EndOfPanic<'a> {
    engine: &'a Engine,
}

impl Drop for EndOfPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.engine.keyspace.abandon_saving();
            self.engine.snapshots.end(Err("making it has panicked".to_owned()));
        }
    }
}

/// Copies a spool that nobody writes to, if there is one.
fn copy_spool(
    source: &dyn Storage,
    target: &DataDirectory,
    name: &Path,
) -> Result<(), EngineError> {
    // A start that a crash has ended may have left a folder with nothing in it.
    if whered_store::Spool::exists(source)? {
        whered_store::restore_spool(source, &target.folder(name)?)?;
    }
    Ok(())
}
