//! The engine itself: opening with recovery, reloading, changing sites, closing.
//!
//! At the same time: everything here may be called from any thread. Reloads and changes of sites
//! exclude each other (`control`); readers never wait for either.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use whered_dns::{Name, Zone};
use whered_geo::Place;
use whered_store::{DataDirectory, Journal, JournalOptions, JournalStats, Storage, StoreError};

use crate::account::MemoryReport;
use crate::challenges::LiveChallenges;
use crate::changes::Changes;
use crate::clock::{self, Clock};
use crate::databases::{MemoryUse, NamedDatabase, ReloadFailure};
use crate::durability::open::Parts;
use crate::durability::{self, OpenReport, ShowProgress, SnapshotOptions, Snapshots};
use crate::error::{EngineError, WriteError};
use crate::feeds::budget::Residency;
use crate::feeds::state::States;
use crate::feeds::{self, Feeds};
use crate::generation::Generation;
use crate::keyspace::Keyspace;
use crate::log::{Durability, Log, Ticket, Written};
use crate::operation::Operation;
use crate::pool::Site;
use crate::prefix_sets::PrefixSets;
use crate::rulesets::NamedRuleset;
use crate::rulesets::RulesOptions;
use crate::rulesets::tend::Bell;
use crate::setup::{self, Loaded, Setup, ZoneSource, read_zone};

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
    /// When snapshots are due.
    pub snapshots: SnapshotOptions,
    /// Told how far the start is; `None` for nobody.
    pub progress: Option<ShowProgress>,
    /// Called when all files are read and before the data directory is locked: whoever holds it is
    /// to give it up then. A reason that it gives ends the start.
    pub before_data: Option<BeforeData>,
}

/// What is done before the data directory is opened.
pub type BeforeData = Box<dyn FnOnce() -> Result<(), String>>;

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

/// A zone that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneReport {
    /// The serial number of its SOA.
    pub serial: u32,
    /// How many records it has.
    pub records: usize,
    /// The number of the generation that serves now.
    pub generation: u64,
}

impl ZoneReport {
    fn new(zone: &Zone, generation: u64) -> ZoneReport {
        ZoneReport { serial: zone.serial(), records: zone.record_count(), generation }
    }
}

/// All data and its durability.
pub struct Engine {
    current: ArcSwap<Generation>,
    zone_failures: Mutex<BTreeMap<String, String>>,
    pub(crate) control: Mutex<Control>,
    pub(crate) keyspace: Keyspace,
    pub(crate) prefix_sets: PrefixSets,
    pub(crate) feeds: Feeds,
    pub(crate) log: Arc<Log>,
    pub(crate) snapshots: Snapshots,
    pub(crate) bell: Bell,
    pub(crate) live_challenges: LiveChallenges,
    /// The files that each zone's own includes, as they were when it was last read.
    zone_includes: Mutex<BTreeMap<String, Vec<PathBuf>>>,
    /// Held for the engine's life, so that no second process opens the same data; and its files.
    pub(crate) directory: Option<Disk>,
}

/// Gives the files of a folder.
type Folder = dyn Fn(&Path) -> Result<Arc<dyn Storage>, StoreError> + Send + Sync;

/// The files of an engine.
pub(crate) struct Disk {
    pub(crate) storage: Arc<dyn Storage>,
    folder: Box<Folder>,
    /// Holds the lock; `None` for a simulated disk.
    directory: Option<Arc<DataDirectory>>,
    /// Where people find what was refused.
    quarantine: Option<PathBuf>,
}

impl Disk {
    fn lock(path: &Path) -> Result<Disk, EngineError> {
        let directory = Arc::new(DataDirectory::lock(path)?);
        let storage = Arc::new(directory.storage());
        let quarantine = Some(directory.path().join("quarantine"));
        let parent = Arc::clone(&directory);
        let folder = move |name: &Path| -> Result<Arc<dyn Storage>, StoreError> {
            Ok(Arc::new(parent.folder(name)?))
        };
        Ok(Disk { storage, folder: Box::new(folder), directory: Some(directory), quarantine })
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

fn states_of(setup: &Setup, disk: Option<&Disk>) -> States {
    let staying = setup.feeds.iter().filter(|feed| feed.limits.resident);
    let staying = staying.map(|feed| feed.name.clone()).collect();
    let storage = disk.map(|disk| Arc::clone(&disk.storage));
    States::new(Residency::new(setup.hot.clone(), storage, staying))
}

fn open_feeds(
    setup: &Setup,
    states: &Arc<States>,
    log: &Arc<Log>,
    disk: Option<&Disk>,
    journal: JournalOptions,
) -> Result<Feeds, EngineError> {
    let Some(disk) = disk else {
        return Feeds::open(&setup.feeds, states, log, None);
    };
    let spool = |feed: &str| (disk.folder)(&Path::new("spool").join(feed));
    let quarantine = disk.quarantine.as_deref();
    let places = feeds::Places { spool: &spool, quarantine, journal };
    Feeds::open(&setup.feeds, states, log, Some(&places))
}

/// What the next generation is built from.
pub(crate) struct Control {
    pub(crate) setup: Setup,
    pub(crate) changes: Changes,
}

impl Control {
    /// Whether the configuration defines a ruleset of this name.
    pub(crate) fn has_ruleset(&self, name: &str) -> bool {
        self.setup.rulesets.iter().any(|source| source.name == name)
    }

    /// What rulesets are compiled with.
    pub(crate) fn rules_options(&self) -> RulesOptions {
        self.setup.rules
    }
}

impl Engine {
    /// Locks the data directory, replays the journal, and loads what the setup names.
    ///
    /// # Errors
    /// One line: the directory is held by another process (see [`EngineError::holder_pid`]), the
    /// journal is damaged, or a file of the setup is missing or wrong.
    pub fn open(mut options: EngineOptions) -> Result<(Arc<Engine>, OpenReport), EngineError> {
        // Files come first: a mistake in one must not leave a new, empty directory behind.
        let loaded = Loaded::read(&options.setup, None)?;
        for feed in &options.setup.feeds {
            feed.check().map_err(EngineError::new)?;
        }
        if let Some(before_data) = options.before_data.take() {
            before_data().map_err(EngineError::new)?;
        }
        let disk = options.data_dir.as_deref().map(Disk::lock).transpose()?;
        Engine::open_on(options, loaded, disk)
    }

    /// As [`Engine::open`], when the files of the setup are read and the data directory is held.
    pub(crate) fn open_on(
        options: EngineOptions,
        loaded: Loaded,
        disk: Option<Disk>,
    ) -> Result<(Arc<Engine>, OpenReport), EngineError> {
        let mut changes = Changes::default();
        // Replaying needs the places that operations go to, and those need the log that is only
        // there after replaying: so replay collects into stand-ins that take no log.
        let unlogged = Arc::new(Log::new(None, 0));
        let keyspace = Keyspace::new(Arc::clone(&unlogged), options.clock);
        let prefix_sets = PrefixSets::new(unlogged);
        let show = options.progress.unwrap_or_else(|| Box::new(|_| {}));
        let states = Arc::new(states_of(&options.setup, disk.as_ref()));
        let parts = Parts {
            keyspace: &keyspace,
            prefix_sets: &prefix_sets,
            changes: &mut changes,
            feeds: &states,
        };
        let journal_options = options.journal.clone();
        let (journal, report) = match &disk {
            None => (None, OpenReport::default()),
            Some(disk) => {
                let opened = durability::open::open(&disk.storage, options.journal, parts, &show)?;
                (Some(opened.0), opened.1)
            }
        };
        prefix_sets.fold_all();
        let last_sequence = report.recovery.as_ref().map_or(0, |found| found.last_sequence);
        let log = Arc::new(Log::new(journal, last_sequence));
        let zone_includes = Mutex::new(loaded.zone_includes.clone());
        let live_challenges = LiveChallenges::default();
        live_challenges.show(&changes.challenges);
        let generation = Generation::build(1, &options.setup, &changes, loaded, None)?;
        let feeds = open_feeds(&options.setup, &states, &log, disk.as_ref(), journal_options)?;
        let engine = Engine {
            current: ArcSwap::from_pointee(generation),
            zone_failures: Mutex::default(),
            control: Mutex::new(Control { setup: options.setup, changes }),
            keyspace: keyspace.with_log(&log),
            prefix_sets: prefix_sets.with_log(&log),
            feeds,
            log,
            snapshots: Snapshots::new(options.snapshots, &report),
            bell: Bell::default(),
            live_challenges,
            zone_includes,
            directory: disk,
        };
        Ok((Arc::new(engine), report))
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
        let zone_includes = loaded.zone_includes.clone();
        let mut control = self.control();
        let current = self.generation();
        let number = current.number() + 1;
        let old = Some(&*current);
        let generation = Generation::build(number, &setup, &control.changes, loaded, old)?;
        let report = ReloadReport {
            generation: number,
            databases: setup.databases.len(),
            zones: setup.zones.len(),
            pools: setup.pools.len(),
        };
        generation.databases().iter().for_each(|named| named.status.note_success());
        for file in generation.rulesets().iter().filter_map(|named| named.file.as_ref()) {
            file.status.note_success();
        }
        control.setup = setup;
        self.serve(generation);
        *self.zone_includes() = zone_includes;
        self.zone_failures.lock().unwrap_or_else(PoisonError::into_inner).clear();
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
        let status = Arc::clone(&loaded.status);
        let next = current.with_changed_database(index, loaded).map_err(|error| {
            let failure = ReloadFailure::of_content(error.to_string());
            status.note_failure(&failure);
            failure
        })?;
        status.note_success();
        let number = next.number();
        self.serve(next);
        Ok(number)
    }

    /// Loads one zone anew and swaps it in; everything else is shared with the generation before.
    ///
    /// # Errors
    /// No such zone; its file cannot be read or is wrong, with the place: the zone serves on as
    /// before, and [`Engine::zone_failures`] says so until a good file is taken.
    pub fn reload_zone(&self, name: &str) -> Result<ZoneReport, EngineError> {
        let (index, source) = self.zone_source(name)?;
        let mut includes = Vec::new();
        let read = read_zone(&source, &mut includes);
        // Of a wrong file, too: the mistake may be mended in one that it includes.
        self.zone_includes().insert(source.name.clone(), includes);
        let taken = read.and_then(|zone| {
            // Reading took its time without the lock: the configuration may have been reloaded.
            let control = self.control();
            let current = self.generation();
            if control.setup.zones.get(index) != Some(&source) {
                return Ok(ZoneReport::new(&zone, current.number()));
            }
            let next = current.with_changed_zone(index, Arc::clone(&zone))?;
            let report = ZoneReport::new(&zone, next.number());
            self.serve(next);
            Ok(report)
        });
        let mut failures = self.zone_failures.lock().unwrap_or_else(PoisonError::into_inner);
        match &taken {
            Ok(_) => failures.remove(&source.name),
            Err(error) => failures.insert(source.name.clone(), error.to_string()),
        };
        taken
    }

    /// Reads a zone's file without serving it.
    ///
    /// # Errors
    /// As [`Engine::reload_zone`].
    pub fn check_zone(&self, name: &str) -> Result<ZoneReport, EngineError> {
        let (_, source) = self.zone_source(name)?;
        let zone = read_zone(&source, &mut Vec::new())?;
        Ok(ZoneReport::new(&zone, self.generation().number()))
    }

    /// The zones of the configuration, in its order.
    pub fn zone_sources(&self) -> Vec<ZoneSource> {
        self.control().setup.zones.clone()
    }

    /// The files that are read for a zone: its own, and what that includes.
    pub fn zone_files(&self, source: &ZoneSource) -> Vec<PathBuf> {
        let own = std::iter::once(source.path.clone());
        own.chain(self.zone_includes().get(&source.name).cloned().unwrap_or_default()).collect()
    }

    fn zone_includes(&self) -> MutexGuard<'_, BTreeMap<String, Vec<PathBuf>>> {
        self.zone_includes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The zones whose newest file was refused, and why.
    pub fn zone_failures(&self) -> BTreeMap<String, String> {
        self.zone_failures.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn zone_source(&self, name: &str) -> Result<(usize, ZoneSource), EngineError> {
        let unknown = || EngineError::new(format!("no such zone '{name}'"));
        let origin: Name = name.parse().map_err(|_| unknown())?;
        let sources = self.zone_sources();
        let is_it =
            |source: &ZoneSource| source.name.parse::<Name>().is_ok_and(|own| own == origin);
        let index = sources.iter().position(is_it).ok_or_else(unknown)?;
        Ok((index, sources[index].clone()))
    }

    /// Reads the file of one ruleset anew and swaps it in, as [`Engine::reload_database`] does.
    ///
    /// # Errors
    /// The file cannot be read or is wrong; the old ruleset serves on, and its status says so.
    pub fn reload_ruleset(&self, name: &str) -> Result<u64, ReloadFailure> {
        let current = self.generation();
        let Some(file) = current.ruleset(name).and_then(|named| named.file.as_ref()) else {
            return Ok(current.number());
        };
        let status = Arc::clone(&file.status);
        let refused = |error: EngineError| {
            let failure = ReloadFailure::of_content(error.to_string());
            status.note_failure(&failure);
            failure
        };
        let read = setup::read_ruleset(&file.source, Arc::clone(&status)).map_err(refused)?;
        let state = read.state;
        let refused = |error: EngineError| {
            let failure = ReloadFailure::of_content(error.to_string());
            let failure = ReloadFailure { file: Some(state), ..failure };
            status.note_failure(&failure);
            failure
        };
        let options = self.control().rules_options();
        // Compiling takes its time without the lock: databases may have been reloaded.
        let compile = |generation: &Generation| {
            NamedRuleset::compile_file(&read, &generation.surroundings(options)).map_err(refused)
        };
        let mut compiled = compile(&current)?;
        let control = self.control();
        if !control.setup.rulesets.contains(&read.source) {
            return Ok(self.generation().number());
        }
        let latest = self.generation();
        if compiled.has_places() && !Arc::ptr_eq(&latest, &current) {
            compiled = compile(&latest)?;
        }
        status.note_success();
        let next = latest.with_ruleset(name, Some(Arc::new(compiled)));
        let number = next.number();
        self.serve(next);
        Ok(number)
    }

    /// Swaps a generation in; rulesets that were compiled again go on counting. The caller holds
    /// `control`.
    pub(crate) fn serve(&self, next: Generation) {
        let old = self.current.swap(Arc::new(next));
        for named in self.current.load().rulesets() {
            match old.ruleset(&named.name) {
                Some(before) if named.continues(before) => named.inherit(before),
                _ => {}
            }
        }
    }

    /// The collections.
    pub fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// The prefix sets.
    pub fn prefix_sets(&self) -> &PrefixSets {
        &self.prefix_sets
    }

    /// The feeds and their tables.
    pub fn feeds(&self) -> &Feeds {
        &self.feeds
    }

    /// Where files of prefix sets may lie, if anywhere.
    pub(crate) fn sets_directory(&self) -> Option<PathBuf> {
        self.control().setup.sets_directory.clone()
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

    /// What the engine's memory is taken by. Costs a look at each prefix set, database,
    /// ruleset and zone.
    pub fn memory(&self) -> MemoryReport {
        let of_database = |named: &Arc<NamedDatabase>| {
            let MemoryUse { file_bytes, index_bytes, columns_bytes } = named.memory_use();
            file_bytes + index_bytes + columns_bytes
        };
        let generation = self.generation();
        let rulesets = generation.rulesets().iter();
        let zones = generation.zones().zones();
        MemoryReport {
            keys_bytes: self.keyspace.memory_bytes(),
            prefix_sets_bytes: self.prefix_sets.memory_bytes() as u64,
            tables_bytes: self.feeds.memory_bytes(),
            databases_bytes: generation.databases().iter().map(of_database).sum(),
            rulesets_bytes: rulesets.map(|named| named.edition().memory_bytes() as u64).sum(),
            zones_bytes: zones.map(|zone| zone.size_bytes() as u64).sum(),
            journal_bytes: self.journal_stats().map_or(0, |stats| stats.memory_bytes as u64),
        }
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
        let spools = self.feeds.close();
        if let Some(journal) = self.log.journal() {
            journal.close()?;
        }
        spools
    }

    /// Closes the journal and gives the data directory up for another process, while this one still
    /// answers from memory. Nothing may be saved any more: who makes snapshots must have ended.
    ///
    /// # Errors
    /// As [`Engine::close`]; the directory is free then, too, for whoever opens it next.
    pub fn give_up_data(&self) -> Result<(), EngineError> {
        let closed = self.close();
        if let Some(directory) = self.directory.as_ref().and_then(|disk| disk.directory.as_ref()) {
            directory.give_up()?;
        }
        closed
    }

    /// Changes one site and gives how many sites more the pool has now.
    pub(crate) fn change_site(
        &self,
        pool: &str,
        operation: &Operation<'_>,
    ) -> Result<Written<isize>, WriteError> {
        let room = self.log.reserve(operation.size_bytes())?;
        let mut control = self.control();
        control.changes.sites.check(operation, &control.setup.pools)?;
        let mut changes = control.changes.sites.clone();
        changes.record(operation);
        let current = self.generation();
        let index = current.pool_index(pool).expect("check() has found the pool in the setup");
        let next = current
            .with_changed_pool(index, changes.apply(&control.setup.pools[index]))
            .map_err(|error| WriteError::Refused(error.to_string()))?;
        let count = |generation: &Generation| generation.pools()[index].sites.len() as isize;
        let more_sites = count(&next) - count(&current);
        control.changes.sites = changes;
        self.serve(next);
        Ok(Written { value: more_sites, ticket: room.append(operation) })
    }

    pub(crate) fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
