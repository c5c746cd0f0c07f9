//! Looks the targets of `[[zone.alias]]` up, again and again, and tells the engine what it found.
//!
//! Not for: the lookup itself (`lookup.rs`), what is served of it (the engine).
//!
//! ```text
//! each alias   due ─► lookup ─► addresses: served from then on; due again after their TTL
//!                         └───► failure: the last ones serve on for a day, then SERVFAIL; due soon
//! ```
//!
//! A failure is logged when it begins and when it ends. At the same time: one thread for all, with
//! at most [`LOOKUPS_MAX`] lookups under way. Cost: nothing for answers.

mod lookup;

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use whered_dns::Name;
use whered_engine::{AliasSource, Engine, sync};

use self::lookup::LookupResult;
use crate::runtime::RuntimeThread;

/// For how long the last addresses serve on while lookups fail.
const KEPT_TIME: Duration = Duration::from_secs(24 * 60 * 60);
/// The shortest time between two lookups.
const INTERVAL_MIN_SECONDS: u32 = 5;
/// The time to the next lookup after a failure.
const RETRY_TIME: Duration = Duration::from_secs(10);
const LOOKUPS_MAX: usize = 64;
/// How long a start waits for the first lookups.
const START_TIME: Duration = Duration::from_secs(2);
/// How long a lookup may end after the stop.
const FINISH_TIME: Duration = Duration::from_millis(100);
/// How long the thread sleeps when nothing is due.
const IDLE_TIME: Duration = Duration::from_secs(3600);
const SYSTEM_RESOLVERS: &str = "/etc/resolv.conf";

/// See the head of this file.
pub(crate) struct Aliases {
    engine: Arc<Engine>,
    /// Empty: those of the system.
    resolvers: Vec<SocketAddr>,
    states: Mutex<BTreeMap<Name, AliasState>>,
    first_lookups: Condvar,
    changed: Notify,
    pub(crate) lookups: AtomicU64,
    pub(crate) lookups_failed: AtomicU64,
}

/// A lookup that has ended.
type Lookup = (AliasSource, Result<LookupResult, String>);

struct AliasState {
    source: AliasSource,
    due: Instant,
    is_running: bool,
    /// When addresses were found last, or when lookups began: a reload may have left some. None:
    /// that is too long ago.
    found: Option<Instant>,
    is_tried: bool,
    is_failing: bool,
}

impl AliasState {
    fn new(source: AliasSource) -> AliasState {
        let due = Instant::now();
        let (is_running, is_tried, is_failing) = (false, false, false);
        AliasState { source, due, is_running, found: Some(due), is_tried, is_failing }
    }

    fn succeeded(&mut self, ttl_seconds: u32) {
        let AliasSource { owner, target, .. } = &self.source;
        if self.is_failing {
            tracing::info!("the alias {owner} has the addresses of {target} again");
        }
        let now = Instant::now();
        let seconds = ttl_seconds.min(self.source.ttl_seconds).max(INTERVAL_MIN_SECONDS);
        self.due = now + Duration::from_secs(seconds.into());
        (self.found, self.is_failing) = (Some(now), false);
    }

    /// Whether the last addresses are too old to serve on.
    fn failed(&mut self, error: &str) -> bool {
        let AliasSource { owner, target, .. } = &self.source;
        if !self.is_failing {
            tracing::warn!("the alias {owner} has no new addresses of {target}: {error}");
        }
        (self.is_failing, self.due) = (true, Instant::now() + RETRY_TIME);
        let is_over = self.found.is_some_and(|found| found.elapsed() > KEPT_TIME);
        if is_over {
            self.found = None;
            tracing::error!("the alias {owner} is answered by SERVFAIL: {target}: {error}");
        }
        is_over
    }
}

impl Aliases {
    fn new(engine: &Arc<Engine>, resolvers: &[SocketAddr]) -> Aliases {
        let aliases = Aliases {
            engine: Arc::clone(engine),
            resolvers: resolvers.to_vec(),
            states: Mutex::default(),
            first_lookups: Condvar::new(),
            changed: Notify::new(),
            lookups: AtomicU64::new(0),
            lookups_failed: AtomicU64::new(0),
        };
        aliases.follow_configuration();
        aliases
    }

    /// Takes the aliases of the configuration; those that are as they were keep what they know.
    pub(crate) fn follow_configuration(&self) {
        let sources = self.engine.alias_sources();
        let mut states = sync::lock(&self.states);
        let mut old = std::mem::take(&mut *states);
        for source in sources {
            let same = old.remove(&source.owner).filter(|state| state.source == source);
            let state = same.unwrap_or_else(|| AliasState::new(source.clone()));
            states.insert(source.owner, state);
        }
        drop(states);
        self.changed.notify_one();
    }

    /// For each alias: its name, and whether its last lookup found addresses.
    pub(crate) fn statuses(&self) -> Vec<(Name, bool)> {
        let states = sync::lock(&self.states);
        let is_up = |state: &AliasState| state.is_tried && !state.is_failing;
        states.iter().map(|(owner, state)| (owner.clone(), is_up(state))).collect()
    }

    /// Waits until each alias was looked up once, for a short time: a restart is to lose no answer.
    fn wait_for_first_lookups(&self) {
        let is_waiting =
            |states: &mut BTreeMap<Name, AliasState>| states.values().any(|state| !state.is_tried);
        let states = sync::lock(&self.states);
        // Whoever is not found in time is answered by SERVFAIL until then.
        drop(self.first_lookups.wait_timeout_while(states, START_TIME, is_waiting));
    }

    async fn run(self: Arc<Aliases>, mut stopped: watch::Receiver<bool>) {
        let mut running = JoinSet::new();
        loop {
            let next = self.start_due(&mut running);
            tokio::select! {
                _ = stopped.wait_for(|stop| *stop) => return,
                () = self.changed.notified() => {}
                Some(first) = running.join_next() => {
                    let mut done: Vec<Lookup> = first.into_iter().collect();
                    while let Some(next) = running.try_join_next() {
                        done.extend(next);
                    }
                    self.note(done);
                }
                () = tokio::time::sleep_until(next.into()) => {}
            }
        }
    }

    /// Starts what is due. Gives when to look again.
    fn start_due(
        &self,
        running: &mut JoinSet<(AliasSource, Result<LookupResult, String>)>,
    ) -> Instant {
        let now = Instant::now();
        let mut due = Vec::new();
        let mut next = now + IDLE_TIME;
        for state in sync::lock(&self.states).values_mut().filter(|state| !state.is_running) {
            if state.due > now {
                next = next.min(state.due);
            } else if running.len() + due.len() < LOOKUPS_MAX {
                state.is_running = true;
                due.push(state.source.clone());
            }
        }
        if !due.is_empty() {
            let resolvers: Arc<[SocketAddr]> = self.resolvers().into();
            for source in due {
                let resolvers = Arc::clone(&resolvers);
                running.spawn(async move {
                    let found = lookup::look_up(&resolvers, &source.target).await;
                    (source, found)
                });
            }
        }
        next
    }

    /// The configured resolvers, or those of the system at this moment.
    fn resolvers(&self) -> Vec<SocketAddr> {
        if !self.resolvers.is_empty() {
            return self.resolvers.clone();
        }
        let text = std::fs::read_to_string(SYSTEM_RESOLVERS).unwrap_or_default();
        let found = lookup::resolvers_of(&text);
        match found.is_empty() {
            true => vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 53))],
            false => found,
        }
    }

    /// Serves what was found, all of it at once, and notes where nothing was.
    fn note(&self, done: Vec<Lookup>) {
        let found = done.iter().filter_map(|(source, found)| {
            let found = found.as_ref().ok()?;
            Some((source.clone(), Some(found.addresses.clone())))
        });
        let served = self.engine.set_alias_addresses(found.collect());
        let served = served.map_err(|error| error.to_string());
        let mut given_up = Vec::new();
        let mut states = sync::lock(&self.states);
        for (source, found) in done {
            self.lookups.fetch_add(1, Ordering::Relaxed);
            let state = states.get_mut(&source.owner).filter(|state| state.source == source);
            let Some(state) = state else { continue };
            (state.is_running, state.is_tried) = (false, true);
            match found.and_then(|found| served.clone().map(|()| found.ttl_seconds)) {
                Ok(ttl_seconds) => state.succeeded(ttl_seconds),
                Err(error) => {
                    self.lookups_failed.fetch_add(1, Ordering::Relaxed);
                    if state.failed(&error) {
                        given_up.push((source, None));
                    }
                }
            }
        }
        drop(states);
        if !given_up.is_empty()
            && let Err(error) = self.engine.set_alias_addresses(given_up)
        {
            tracing::error!("aliases: {error}");
        }
        self.first_lookups.notify_all();
    }
}

/// The running thread, which ends when this goes.
pub(crate) struct AliasThread {
    pub(crate) aliases: Arc<Aliases>,
    thread: Option<RuntimeThread>,
}

impl Drop for AliasThread {
    fn drop(&mut self) {
        self.thread.take().into_iter().for_each(RuntimeThread::stop);
    }
}

impl AliasThread {
    /// Starts lookups and waits a moment for the first ones.
    ///
    /// # Errors
    /// The system has no thread or descriptor left.
    pub(crate) fn start(engine: &Arc<Engine>, resolvers: &[SocketAddr]) -> io::Result<AliasThread> {
        let aliases = Arc::new(Aliases::new(engine, resolvers));
        let of_thread = Arc::clone(&aliases);
        let work = move |stopped| of_thread.run(stopped);
        let thread = RuntimeThread::start("whered-alias", 1, FINISH_TIME, work)?;
        aliases.wait_for_first_lookups();
        Ok(AliasThread { aliases, thread: Some(thread) })
    }
}
