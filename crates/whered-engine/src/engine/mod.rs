//! The engine itself: opening with recovery, what serves now, closing.
//!
//! ```text
//! mod       open ─► Engine: generation, keyspace, sets, feeds, log ─► close
//! disk      the data directory and its lock        reader    the generation for single queries
//! reload    all files, one database, one ruleset   zones     one zone
//! arrivals  zones of other servers
//! sites, rules, challenges   changes by command    snapshot  snapshots and backups
//! pools     catchment areas
//! batches   a feed's batches                       explain   the reasons for an answer
//! ```
//! Only this folder sees all stores: the others take those that they need.
//!
//! At the same time: everything here may be called from any thread. Reloads and changes of sites
//! exclude each other (`control`); readers never wait for either.

mod aliases;
mod arrivals;
mod batches;
mod challenges;
mod disk;
mod explain;
mod places;
mod pools;
mod prefix_sets;
mod reader;
mod reload;
mod rules;
mod signing;
mod sites;
mod snapshot;
mod updates;
mod zones;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use whered_store::{Journal, JournalOptions, JournalStats, SyncPolicy};

use crate::account::MemoryReport;
use crate::clock::{self, Clock};
use crate::databases::{MemoryUse, NamedDatabase};
use crate::durability::open::Parts;
use crate::durability::{self, OpenReport, ShowProgress, SnapshotOptions, Snapshots};
use crate::error::{EngineError, Subject, WriteError};
use crate::feeds::budget::Residency;
use crate::feeds::state::States;
use crate::feeds::{self, Feeds};
use crate::generation::Generation;
use crate::generation::changes::Changes;
use crate::generation::setup::{LoadedFiles, Setup};
use crate::journal::log::{Durability, Log, Ticket};
use crate::journal::watch::Watch;
use crate::keyspace::Keyspace;
use crate::prefix_sets::PrefixSets;
use crate::rulesets::{ReadFile, RulesOptions};
use crate::steering::Live;
use crate::steering::catchment::Catchments;
use crate::sync::{Notify, lock};
use crate::zones::challenges::LiveChallenges;

pub use arrivals::ArrivedZone;
pub(crate) use disk::Disk;
use reader::Current;
pub use reader::{DatabaseReader, GenerationReader};
pub use reload::ReloadReport;
pub use rules::SetRules;
pub use signing::SigningTask;
pub use updates::UpdateError;
pub use zones::{MemberZone, ZoneReport};

/// How to open an engine.
#[derive(Default)]
pub struct EngineOptions {
    /// Where the journal lives; `None` keeps everything in memory only.
    pub data_dir: Option<PathBuf>,
    /// The journal's knobs.
    pub journal: JournalOptions,
    /// When uploads are on the disk: before they are acknowledged, unless this says otherwise,
    /// whatever the journal's policy is.
    pub spool_sync: SyncPolicy,
    /// What the configuration names.
    pub setup: Setup,
    /// What tells the time to keys that expire.
    pub clock: Clock,
    /// When snapshots are due.
    pub snapshots: SnapshotOptions,
    /// Told how far the start is; `None` for nobody.
    pub progress: Option<ShowProgress>,
    /// Called when all files are read and before the data directory is locked: the process that
    /// holds it is to give it up then. A reason that it gives ends the start.
    pub before_data: Option<BeforeData>,
    /// Feeds whose places and tables cannot be read, or lack what later batches build on, begin
    /// without any, in place of going out of service; see [`Feeds::reset`].
    pub repairs_feeds: bool,
}

/// What is done before the data directory is opened.
pub type BeforeData = Box<dyn FnOnce() -> Result<(), String>>;

/// Called when another generation serves. It must only signal.
pub type GenerationListener = Box<dyn Fn() + Send + Sync>;

/// All data and its durability.
pub struct Engine {
    current: Arc<Current>,
    zone_failures: Mutex<BTreeMap<String, String>>,
    pub(crate) control: Mutex<Control>,
    pub(crate) keyspace: Keyspace,
    pub(crate) prefix_sets: PrefixSets,
    pub(crate) feeds: Feeds,
    pub(crate) log: Arc<Log>,
    pub(crate) snapshots: Snapshots,
    /// Wakes the thread that maintains rulesets.
    rules_wake: Notify,
    /// Told of each generation.
    generation_listeners: Mutex<Vec<GenerationListener>>,
    pub(crate) live_challenges: LiveChallenges,
    catchments: Catchments,
    /// The files that each zone's own includes, as they were when it was last read.
    zone_includes: Mutex<BTreeMap<String, Vec<PathBuf>>>,
    /// Held for the engine's life, so that no second process opens the same data; and its files.
    pub(crate) directory: Option<Disk>,
}

fn states_of(setup: &Setup, disk: Option<&Disk>, repairs: bool) -> States {
    let staying = setup.feeds.iter().filter(|feed| feed.limits.resident);
    let staying = staying.map(|feed| feed.name.clone()).collect();
    let storage = disk.map(|disk| Arc::clone(&disk.storage));
    States::new(Residency::new(setup.hot.clone(), storage, staying), repairs)
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

/// The files of a start as they serve when commands have changed nothing.
pub(crate) struct StartFiles {
    generation: Generation,
    rulesets: Vec<ReadFile>,
    zone_includes: BTreeMap<String, Vec<PathBuf>>,
}

impl StartFiles {
    /// Reads them and puts them together.
    ///
    /// # Errors
    /// As [`LoadedFiles::read`], [`Generation::build`] and [`Generation::check_places`].
    pub(crate) fn read(setup: &Setup) -> Result<StartFiles, EngineError> {
        let loaded = LoadedFiles::read(setup, None, clock::now_millis() / 1000)?;
        let (rulesets, zone_includes) = (loaded.rulesets.clone(), loaded.zone_includes.clone());
        let generation = Generation::build(1, setup, &Changes::default(), loaded, None)?;
        generation.check_places()?;
        Ok(StartFiles { generation, rulesets, zone_includes })
    }
}

/// What the next generation is built from.
pub(crate) struct Control {
    pub(crate) setup: Setup,
    pub(crate) changes: Changes,
    /// How often another setup was taken.
    pub(crate) reloads: u64,
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
        // What would stop it later stops it before another process gives its data up.
        let files = StartFiles::read(&options.setup)?;
        for feed in &options.setup.feeds {
            let about = |why| EngineError::new(why).about(Subject::Feed(feed.name.clone()));
            feed.check().map_err(about)?;
        }
        if let Some(before_data) = options.before_data.take() {
            before_data().map_err(EngineError::new)?;
        }
        let disk = options.data_dir.as_deref().map(Disk::lock).transpose()?;
        Engine::open_on(options, files, disk)
    }

    /// What [`Engine::open`] would be refused for because of its data directory, without making or
    /// changing anything; `may_be_held` when another process is to give it up first.
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub fn examine_data(data_dir: &Path, may_be_held: bool) -> Result<(), EngineError> {
        Disk::examine(data_dir, may_be_held)
    }

    /// As [`Engine::open`], when the files of the setup are read and the data directory is held.
    pub(crate) fn open_on(
        options: EngineOptions,
        files: StartFiles,
        disk: Option<Disk>,
    ) -> Result<(Arc<Engine>, OpenReport), EngineError> {
        let mut changes = Changes::default();
        // Replaying needs the places that operations go to, and those need the log that is only
        // there after replaying: so replay collects into stand-ins that take no log.
        let unlogged = Arc::new(Log::new(None, 0));
        let keyspace = Keyspace::new(Arc::clone(&unlogged), options.clock);
        let prefix_sets = PrefixSets::new(unlogged);
        let show = options.progress.unwrap_or_else(|| Box::new(|_| {}));
        let states = Arc::new(states_of(&options.setup, disk.as_ref(), options.repairs_feeds));
        let parts = Parts {
            keyspace: &keyspace,
            prefix_sets: &prefix_sets,
            changes: &mut changes,
            feeds: &states,
        };
        let spool_options = JournalOptions { sync: options.spool_sync, ..options.journal.clone() };
        let (journal, report) = match &disk {
            None => (None, OpenReport::default()),
            Some(disk) => {
                let opened = durability::open::open(&disk.storage, options.journal, parts, &show)?;
                (Some(opened.0), opened.1)
            }
        };
        prefix_sets.compact_all();
        let last_sequence = report.recovery.as_ref().map_or(0, |found| found.last_sequence);
        let log = Arc::new(Log::new(journal, last_sequence));
        let zone_includes = Mutex::new(files.zone_includes);
        let live_challenges = LiveChallenges::default();
        live_challenges.show(&changes.challenges);
        let now_seconds = clock::now_millis() / 1000;
        let StartFiles { generation, rulesets, .. } = files;
        let generation =
            generation.with_changes(&options.setup, &changes, rulesets, now_seconds)?;
        if disk.is_some() {
            generation.keep_serials(&options.setup)?;
        }
        let feeds = open_feeds(&options.setup, &states, &log, disk.as_ref(), spool_options)?;
        let engine = Engine {
            current: Current::new(generation),
            zone_failures: Mutex::default(),
            control: Mutex::new(Control { setup: options.setup, changes, reloads: 0 }),
            keyspace: keyspace.with_log(&log),
            prefix_sets: prefix_sets.with_log(&log),
            feeds,
            log,
            snapshots: Snapshots::new(options.snapshots, &report),
            rules_wake: Notify::default(),
            generation_listeners: Mutex::default(),
            live_challenges,
            catchments: Catchments::default(),
            zone_includes,
            directory: disk,
        };
        Ok((Arc::new(engine), report))
    }

    /// The generation that serves now. Take it once per query or batch; for many single queries, a
    /// [`reader`](Engine::reader) costs less.
    pub fn generation(&self) -> Arc<Generation> {
        self.current.load()
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
        drop(old);
        self.catchments.forget_stale();
        lock(&self.generation_listeners).iter().for_each(|listener| listener());
    }

    /// Calls `listener` whenever another generation serves, from the thread that has changed
    /// something: it must only signal.
    pub fn on_generation(&self, listener: GenerationListener) {
        lock(&self.generation_listeners).push(listener);
    }

    /// The collections.
    pub fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// Changes of collections, for those who follow them.
    pub fn watch(&self) -> &Watch {
        self.log.watch()
    }

    /// What is live, for [`Generation::steer`].
    pub fn live(&self) -> Live<'_> {
        Live { keyspace: self.keyspace(), prefix_sets: self.prefix_sets() }
    }

    /// The prefix sets.
    pub fn prefix_sets(&self) -> &PrefixSets {
        &self.prefix_sets
    }

    /// The feeds and their tables.
    pub fn feeds(&self) -> &Feeds {
        &self.feeds
    }

    /// Whether commands on prefix sets refuse prefixes with bits behind their length.
    pub fn sets_are_strict(&self) -> bool {
        self.control().setup.sets_strict
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

    /// Why the disk has no room for the journal, while it has none.
    pub fn journal_full(&self) -> Option<String> {
        self.log.journal().and_then(Journal::full)
    }

    /// How many writes the journal had no room for or could not take, by reason.
    pub fn refused_writes(&self) -> [(&'static str, u64); 3] {
        self.log.refused()
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
    /// As [`Engine::close`]; the directory is free then, too, for the process that opens it next.
    pub fn give_up_data(&self) -> Result<(), EngineError> {
        let closed = self.close();
        let directory = self.directory.as_ref().and_then(|disk| disk.directory.as_ref());
        let given = directory.map_or(Ok(()), |directory| directory.give_up());
        closed.and(given.map_err(EngineError::from))
    }

    pub(crate) fn control(&self) -> MutexGuard<'_, Control> {
        lock(&self.control)
    }
}
