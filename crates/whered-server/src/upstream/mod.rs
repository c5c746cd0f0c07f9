//! Other whereds that follow this one: one full synchronization from a primary serves them all.
//!
//! For: what a link hands on (`Source`), and the threads that send it. Not for: the link itself
//! (`replica`), and not for Redis or Valkey as followers, since only sorted sets are here.
//!
//! ```text
//! primary ──> link ── applies a batch ──> keys ── dump, at a follower's beginning ──┐
//!                └─── hands it on ─────> backlog ───────────────────────────────────┴─> followers
//! ```
//!
//! A follower has the primary's own offsets, and may go on at the primary itself, or there first
//! and here later.
//!
//! Invariant: a batch and the offset behind it are applied and handed on under one lock, under
//! which a dump is made: so it is of one moment. Cost for a link without followers: that lock.

mod backlog;
mod dump;
mod follower;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use whered_engine::{Engine, ReplicationId, StreamPosition, sync};
use whered_replication::Follows;

pub(crate) use backlog::Backlog;
use backlog::Cursor;
use dump::Dump;
use follower::Follower;
pub(crate) use follower::{FollowerStart, IsKilled};

use crate::stream::Stream;

/// How much of the stream is kept for followers.
const BACKLOG_BYTES: usize = 16 << 20;
/// How many followers there may be.
const FOLLOWERS_MAX: usize = 64;
const NO_DATA: &str = "NOMASTERLINK Can't SYNC while not connected with my master";

/// How long one waits for a lock before it does something else.
const PAUSE: Duration = Duration::from_millis(10);

/// What a link hands on.
pub(crate) struct Source {
    engine: Arc<Engine>,
    link: usize,
    follows: Follows,
    /// Where dumps are made.
    directory: Option<PathBuf>,
    backlog: Backlog,
    /// Held while the link applies a batch.
    step: Mutex<()>,
    /// The latest dump, as long as somebody sends it.
    latest: Mutex<Weak<Dump>>,
}

impl Source {
    pub(crate) fn new(
        engine: &Arc<Engine>,
        link: usize,
        follows: Follows,
        directory: Option<PathBuf>,
    ) -> Source {
        Source {
            engine: Arc::clone(engine),
            link,
            follows,
            directory,
            backlog: Backlog::new(BACKLOG_BYTES),
            step: Mutex::default(),
            latest: Mutex::default(),
        }
    }

    /// The stream, to hand on to.
    pub(crate) fn backlog(&self) -> &Backlog {
        &self.backlog
    }

    /// Held from before a batch is applied until it is handed on.
    pub(crate) fn step(&self) -> MutexGuard<'_, ()> {
        sync::lock(&self.step)
    }

    /// As [`Source::step`]; `None` while a dump is being made, after a moment.
    pub(crate) fn step_soon(&self) -> Option<MutexGuard<'_, ()>> {
        let step = try_lock(&self.step);
        if step.is_none() {
            std::thread::park_timeout(PAUSE);
        }
        step
    }

    fn resume(&self, id: ReplicationId, offset: i64) -> Option<(ReplicationId, Cursor)> {
        self.backlog.resume(id, offset)
    }

    /// A dump, and where the stream goes on behind it.
    /// Asks now and then whether to go on.
    fn dump(
        &self,
        goes_on: &mut dyn FnMut() -> io::Result<()>,
    ) -> Result<(Arc<Dump>, Cursor), String> {
        let mut latest =
            lock_patiently(&self.latest, goes_on).map_err(|error| error.to_string())?;
        if let Some(dump) = latest.upgrade()
            && let Some((_, cursor)) = self.backlog.resume(dump.id, dump.offset)
        {
            return Ok((dump, cursor));
        }
        let directory = self.directory.as_deref();
        let directory = directory.ok_or("ERR followers need a data_dir, where dumps are made")?;
        let _still = lock_patiently(&self.step, goes_on).map_err(|error| error.to_string())?;
        let here = self.backlog.here();
        let (id, cursor) = here.ok_or(NO_DATA)?;
        let keyspace = self.engine.keyspace();
        let position = keyspace.position(self.link).filter(|it| it.offset == cursor.offset);
        // Some keys may hold what is of no worth for a moment.
        let is_whole = |it: &StreamPosition| it.replication_id != ReplicationId::LOST;
        let position = position.filter(is_whole).ok_or(NO_DATA)?;
        // The history may have a new name, which the next batch will keep.
        let position = StreamPosition { replication_id: id, ..position };
        let what = (self.link, self.follows.database as usize);
        let made = Dump::make(keyspace, what, position, directory, goes_on);
        let dump = Arc::new(made.map_err(|error| {
            tracing::error!("a dump for a follower could not be made: {error}");
            format!("ERR the dump could not be made: {error}")
        })?);
        *latest = Arc::downgrade(&dump);
        Ok((dump, cursor))
    }

    fn has(&self, wanted: &Follows) -> bool {
        let is_here = |pattern: &Vec<u8>| {
            self.follows.patterns.iter().any(|own| own == pattern || own == b"*")
        };
        self.follows.database == wanted.database && wanted.patterns.iter().all(is_here)
    }
}

/// All links that hand on, and those who follow them.
#[derive(Default)]
pub(crate) struct Upstream {
    sources: Mutex<Vec<Arc<Source>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Upstream {
    /// A link hands on from now on.
    pub(crate) fn add(&self, source: &Arc<Source>) {
        sync::lock(&self.sources).push(Arc::clone(source));
    }

    /// A link hands nothing on any more.
    pub(crate) fn remove(&self, source: &Arc<Source>) {
        sync::lock(&self.sources).retain(|other| !Arc::ptr_eq(other, source));
        source.backlog.close();
    }

    /// The source of these keys.
    ///
    /// # Errors
    /// Why there is none, as a reply.
    pub(crate) fn find(&self, wanted: &Follows) -> Result<Arc<Source>, String> {
        let sources = sync::lock(&self.sources);
        let found = sources.iter().find(|source| source.has(wanted));
        found.map(Arc::clone).ok_or_else(|| {
            let names = |patterns: &[Vec<u8>]| {
                let names = patterns.iter().map(|name| format!("'{}'", name.escape_ascii()));
                names.collect::<Vec<_>>().join(" ")
            };
            let offered = sources.iter().map(|source| {
                let Follows { database, patterns } = &source.follows;
                format!("{} of database {database}", names(patterns))
            });
            let offered = offered.collect::<Vec<_>>().join(", ");
            let (wanted, database) = (names(&wanted.patterns), wanted.database);
            match sources.is_empty() {
                true => format!("ERR nothing is followed here that {wanted} could be of"),
                false => format!(
                    "ERR {wanted} of database {database} is not all followed here; followed: \
                     {offered}"
                ),
            }
        })
    }

    /// How many followers there are.
    pub(crate) fn follower_count(&self) -> usize {
        let mut threads = sync::lock(&self.threads);
        threads.retain(|thread| !thread.is_finished());
        threads.len()
    }

    /// Serves a follower by a thread of its own.
    pub(crate) fn serve(
        &self,
        (stream, name, is_killed): (Stream, String, IsKilled),
        source: Arc<Source>,
        wanted: FollowerStart,
    ) {
        if self.follower_count() >= FOLLOWERS_MAX {
            tracing::warn!("{name} is not served: there are {FOLLOWERS_MAX} followers");
            return;
        }
        let serve = move || {
            tracing::info!("{name} follows");
            let ended =
                Follower::new(stream, source, is_killed).and_then(|follower| follower.run(wanted));
            match ended {
                Ok(()) => tracing::info!("{name} follows no more: it has to begin anew"),
                Err(error) => tracing::info!("{name} follows no more: {error}"),
            }
        };
        match std::thread::Builder::new().name("follower".to_owned()).spawn(serve) {
            Ok(thread) => sync::lock(&self.threads).push(thread),
            Err(error) => tracing::error!("a follower's thread could not be started: {error}"),
        }
    }

    /// Ends all followers' threads.
    pub(crate) fn stop(&self) {
        for source in std::mem::take(&mut *sync::lock(&self.sources)) {
            source.backlog.close();
        }
        // INFO counts them meanwhile.
        let threads = std::mem::take(&mut *sync::lock(&self.threads));
        for thread in threads {
            // One that has panicked has said so.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Upstream")
    }
}

/// Waits for a lock, and asks meanwhile whether to go on.
fn lock_patiently<'a, T>(
    lock: &'a Mutex<T>,
    goes_on: &mut dyn FnMut() -> io::Result<()>,
) -> io::Result<MutexGuard<'a, T>> {
    loop {
        if let Some(guard) = try_lock(lock) {
            return Ok(guard);
        }
        goes_on()?;
        std::thread::park_timeout(PAUSE);
    }
}

fn try_lock<T>(lock: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match lock.try_lock() {
        Ok(guard) => Some(guard),
        // It protects no half-done change.
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
