//! The engine itself: opening with recovery, reloading, changing sites, closing.
//!
//! At the same time: everything here may be called from any thread. Reloads and changes of sites
//! exclude each other (`control`); readers never wait for either.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use whered_geo::Place;
use whered_store::{
    DataDirectory, DirectoryStorage, Entry, Journal, JournalOptions, JournalStats, RecoveryReport,
    Wanted,
};

use crate::clock::{self, Clock};
use crate::databases::{NamedDatabase, ReloadFailure};
use crate::error::{EngineError, WriteError};
use crate::generation::Generation;
use crate::keyspace::Keyspace;
use crate::log::{Durability, Log, Ticket, Written};
use crate::operation::Operation;
use crate::pool::Site;
use crate::prefix_sets::PrefixSets;
use crate::setup::{Loaded, Setup};
use crate::site_changes::SiteChanges;

/// How to open an engine.
#[derive(Default)]
pub struct EngineOptions {
    /// Where the journal lives; `None` keeps everything in memory only.
    pub data_dir: Option<PathBuf>,
    /// The journal's knobs.
    pub journal: JournalOptions,
    /// What the configuration names.
    pub setup: Setup,
    /// What tells the time to keys that expire.
    pub clock: Clock,
}

/// What opening found.
#[derive(Debug, Default)]
pub struct OpenReport {
    /// What recovery read from the journal; `None` without a data directory.
    pub recovery: Option<RecoveryReport>,
}

impl fmt::Display for OpenReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(recovery) = &self.recovery else {
            return f.write_str("no data directory: nothing is kept");
        };
        let RecoveryReport { entries, segments, bytes, torn_tail, .. } = recovery;
        write!(f, "replayed {entries} journal entries, {bytes} bytes in {segments} segments")?;
        match torn_tail {
            Some(torn) => write!(
                f,
                "; cut {} unacknowledged bytes of a torn tail in {} at byte {}",
                torn.cut_bytes, torn.file, torn.offset_bytes
            ),
            None => Ok(()),
        }
    }
}

/// What a reload did.
#[derive(Debug)]
pub struct ReloadReport {
    /// The number of the generation that serves now.
    pub generation: u64,
    /// How many databases it has.
    pub databases: usize,
    /// How many zones.
    pub zones: usize,
    /// How many pools.
    pub pools: usize,
}

/// All data and its durability.
pub struct Engine {
    current: ArcSwap<Generation>,
    control: Mutex<Control>,
    keyspace: Keyspace,
    prefix_sets: PrefixSets,
    log: Arc<Log>,
    /// Held for the engine's life, so that no second process opens the same data.
    _data_directory: Option<DataDirectory>,
}

/// What the next generation is built from.
struct Control {
    setup: Setup,
    changes: SiteChanges,
}

impl Engine {
    /// Locks the data directory, replays the journal, and loads what the setup names.
    ///
    /// # Errors
    /// One line: the directory is held by another process (see [`EngineError::holder_pid`]), the
    /// journal is damaged, or a file of the setup is missing or wrong.
    pub fn open(options: EngineOptions) -> Result<(Arc<Engine>, OpenReport), EngineError> {
        // Files come first: a mistake in one must not leave a new, empty directory behind.
        let loaded = Loaded::read(&options.setup, None)?;
        let mut changes = SiteChanges::default();
        // Replaying needs the places that operations go to, and those need the log that is only
        // there after replaying: so replay collects into stand-ins that take no log.
        let unlogged = Arc::new(Log::new(None, 0));
        let keyspace = Keyspace::new(Arc::clone(&unlogged), options.clock);
        let prefix_sets = PrefixSets::new(unlogged);
        let mut replay = |entry: Entry<'_>| -> Result<(), String> {
            let operation = Operation::decode(entry.kind, entry.payload)?;
            let applied = keyspace.replay(&operation)
                || prefix_sets.replay(&operation)
                || changes.record(&operation);
            assert!(applied, "every operation belongs to one of the three");
            Ok(())
        };
        let (data_directory, journal, recovery) = match &options.data_dir {
            None => (None, None, None),
            Some(path) => {
                let directory = DataDirectory::lock(path)?;
                let storage = Arc::new(DirectoryStorage::new(path));
                let (journal, report) =
                    Journal::open(storage, options.journal, Wanted::all(), &mut replay)?;
                (Some(directory), Some(journal), Some(report))
            }
        };
        let last_sequence = recovery.as_ref().map_or(0, |report| report.last_sequence);
        let log = Arc::new(Log::new(journal, last_sequence));
        let generation = Generation::build(1, &options.setup, &changes, loaded)?;
        let engine = Engine {
            current: ArcSwap::from_pointee(generation),
            control: Mutex::new(Control { setup: options.setup, changes }),
            keyspace: keyspace.with_log(&log),
            prefix_sets: prefix_sets.with_log(&log),
            log,
            _data_directory: data_directory,
        };
        Ok((Arc::new(engine), OpenReport { recovery }))
    }

    /// The generation that serves now. Take it once per query or batch.
    pub fn generation(&self) -> Arc<Generation> {
        self.current.load_full()
    }

    /// Reads everything the setup names anew and swaps it in as a whole.
    ///
    /// # Errors
    /// The first fault, with its place; the old generation serves on.
    pub fn reload(&self, setup: Setup) -> Result<ReloadReport, EngineError> {
        let loaded = Loaded::read(&setup, Some(&*self.generation()))?;
        let mut control = self.control();
        let number = self.current.load().number() + 1;
        let generation = Generation::build(number, &setup, &control.changes, loaded)?;
        let report = ReloadReport {
            generation: number,
            databases: setup.databases.len(),
            zones: setup.zones.len(),
            pools: setup.pools.len(),
        };
        generation.databases().iter().for_each(|named| named.status.note_success());
        control.setup = setup;
        self.current.store(Arc::new(generation));
        Ok(report)
    }

    /// Loads one database anew and swaps it in; everything else is shared with the generation
    /// before. Gives the number of the generation that serves now; a database that is not in it
    /// (any more) is left alone.
    ///
    /// # Errors
    /// The file cannot be read or is wrong; the old generation serves on, and the database's
    /// status says so unless the file was just being changed.
    pub fn reload_database(&self, name: &str) -> Result<u64, ReloadFailure> {
        let current = self.generation();
        let Some(old) = current.database(name) else {
            return Ok(current.number());
        };
        let loaded = NamedDatabase::load(&old.source, Arc::clone(&old.status));
        let loaded = loaded.inspect_err(|failure| {
            if !failure.is_changing {
                old.status.note_failure(failure);
            }
        })?;
        // Reading took its time without the lock: the configuration may have been reloaded.
        let _control = self.control();
        let current = self.generation();
        let same = |named: &Arc<NamedDatabase>| named.source == loaded.source;
        let Some(index) = current.databases().iter().position(same) else {
            return Ok(current.number());
        };
        loaded.status.note_success();
        let next = current.with_changed_database(index, loaded);
        let number = next.number();
        self.current.store(Arc::new(next));
        Ok(number)
    }

    /// The collections.
    pub fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// The prefix sets.
    pub fn prefix_sets(&self) -> &PrefixSets {
        &self.prefix_sets
    }

    /// Adds a site to a pool, or replaces one; gives whether it is new.
    ///
    /// # Errors
    /// [`WriteError`]: no such pool, no address, or the journal refuses.
    pub fn put_site(&self, pool: &str, site: Site) -> Result<Written<bool>, WriteError> {
        let operation = Operation::PutSite { pool, site: Cow::Owned(site) };
        let Written { value: more_sites, ticket } = self.change_site(pool, &operation)?;
        Ok(Written { value: more_sites > 0, ticket })
    }

    /// Moves a site.
    ///
    /// # Errors
    /// As [`Engine::put_site`], and `NoSuch` for an unknown site.
    pub fn move_site(
        &self,
        pool: &str,
        site: &str,
        place: Place,
    ) -> Result<Written<()>, WriteError> {
        let written = self.change_site(pool, &Operation::MoveSite { pool, site, place })?;
        Ok(Written { value: (), ticket: written.ticket })
    }

    /// Takes a site down by hand, or up again.
    ///
    /// # Errors
    /// As [`Engine::move_site`].
    pub fn set_site_healthy(
        &self,
        pool: &str,
        site: &str,
        healthy: bool,
    ) -> Result<Written<()>, WriteError> {
        let operation = Operation::SetSiteHealthy { pool, site, healthy };
        let written = self.change_site(pool, &operation)?;
        Ok(Written { value: (), ticket: written.ticket })
    }

    /// Removes a site that a command has added.
    ///
    /// # Errors
    /// As [`Engine::move_site`], and `Refused` for a site of the configuration.
    pub fn remove_site(&self, pool: &str, site: &str) -> Result<Written<()>, WriteError> {
        let written = self.change_site(pool, &Operation::RemoveSite { pool, site })?;
        Ok(Written { value: (), ticket: written.ticket })
    }

    /// What has become of a write. One atomic load when it is durable.
    pub fn durability(&self, ticket: Ticket) -> Durability {
        self.log.durability(ticket)
    }

    /// Calls `wake` after every durable group and when the journal fails. May be called often
    /// and from the journal's thread: it must only signal.
    pub fn on_durable(&self, wake: Box<dyn Fn() + Send + Sync>) {
        if let Some(journal) = self.log.journal() {
            journal.on_progress(wake);
        }
    }

    /// Blocks until a write is durable.
    ///
    /// # Errors
    /// `Poisoned` when the journal failed first.
    pub fn wait_durable(&self, ticket: Ticket) -> Result<(), WriteError> {
        self.log.wait(ticket)
    }

    /// Why the journal has failed, if it has.
    pub fn journal_poisoned(&self) -> Option<String> {
        self.log.journal().and_then(Journal::poisoned)
    }

    /// The journal's counters; `None` without a data directory.
    pub fn journal_stats(&self) -> Option<JournalStats> {
        self.log.journal().map(Journal::stats)
    }

    /// Milliseconds since 1970, as expiry times count.
    pub fn now_millis(&self) -> u64 {
        clock::now_millis()
    }

    /// Writes and syncs everything and stops the journal; later writes are refused.
    ///
    /// # Errors
    /// The last write or fdatasync failed.
    pub fn close(&self) -> Result<(), EngineError> {
        match self.log.journal() {
            Some(journal) => Ok(journal.close()?),
            None => Ok(()),
        }
    }

    /// Changes one site and gives how many sites more the pool has now.
    fn change_site(
        &self,
        pool: &str,
        operation: &Operation<'_>,
    ) -> Result<Written<isize>, WriteError> {
        let room = self.log.reserve(operation.size_bytes())?;
        let mut control = self.control();
        control.changes.check(operation, &control.setup.pools)?;
        let mut changes = control.changes.clone();
        changes.record(operation);
        let current = self.generation();
        let index = current.pool_index(pool).expect("check() has found the pool in the setup");
        let next = current
            .with_changed_pool(index, changes.apply(&control.setup.pools[index]))
            .map_err(|error| WriteError::Refused(error.to_string()))?;
        let count = |generation: &Generation| generation.pools()[index].sites.len() as isize;
        let more_sites = count(&next) - count(&current);
        control.changes = changes;
        self.current.store(Arc::new(next));
        Ok(Written { value: more_sites, ticket: room.append(operation) })
    }

    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
