//! Looks the targets of `[[zone.alias]]` up, again and again, and tells the engine what it found.
//!
//! Not for: the lookup itself (`lookup.rs`), what is served of it (the engine).
//!
//! ```text
//! each alias   due ─► lookup ─► addresses: served from then on; due again after their TTL
//!                         ├───► of A or AAAA alone: the last ones of the other serve on for a day
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
use whered_engine::{AliasAddresses, AliasSource, Engine, sync};

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
    /// When IPv4 and IPv6 addresses were found last, or when lookups began: a reload may have left
    /// some. None: that is too long ago.
    found: [Option<Instant>; 2],
    is_tried: bool,
    is_failing: bool,
    /// Of one family nothing new is told, which the log has.
    is_partial: bool,
}

impl AliasState {
    fn new(source: AliasSource) -> AliasState {
        let due = Instant::now();
        let (is_running, is_tried, is_failing, is_partial) = (false, false, false, false);
        let found = [Some(due); 2];
        AliasState { source, due, is_running, found, is_tried, is_failing, is_partial }
    }

    /// The addresses that serve after a lookup; `known` are those that serve now.
    fn served(&mut self, found: &LookupResult, known: AliasAddresses) -> AliasAddresses {
        let [v4, v6] = &mut self.found;
        note_family(v4, found.ipv4.is_some());
        note_family(v6, found.ipv6.is_some());
        let last_v4 = if v4.is_some() { known.ipv4 } else { Vec::new() };
        let last_v6 = if v6.is_some() { known.ipv6 } else { Vec::new() };
        AliasAddresses {
            ipv4: found.ipv4.clone().unwrap_or(last_v4),
            ipv6: found.ipv6.clone().unwrap_or(last_v6),
        }
    }

    fn succeeded(&mut self, found: &LookupResult) {
        let AliasSource { owner, target, .. } = &self.source;
        if self.is_failing {
            tracing::info!("the alias {owner} has the addresses of {target} again");
        }
        if let Some(failure) = found.failure.as_ref().filter(|_| !self.is_partial) {
            let family = if found.ipv4.is_none() { "IPv4" } else { "IPv6" };
            tracing::warn!(
                "the alias {owner} has no new {family} addresses of {target}: {failure}"
            );
        }
        let seconds = found.ttl_seconds.min(self.source.ttl_seconds).max(INTERVAL_MIN_SECONDS);
        self.due = Instant::now() + Duration::from_secs(seconds.into());
        (self.is_failing, self.is_partial) = (false, found.failure.is_some());
    }

    /// Whether the last addresses are too old to serve on.
    fn failed(&mut self, error: &str) -> bool {
        let AliasSource { owner, target, .. } = &self.source;
        if !self.is_failing {
            tracing::warn!("the alias {owner} has no new addresses of {target}: {error}");
        }
        (self.is_failing, self.due) = (true, Instant::now() + RETRY_TIME);
        let was_served = self.found.iter().any(Option::is_some);
        self.found.iter_mut().for_each(|found| note_family(found, false));
        let is_over = was_served && self.found.iter().all(Option::is_none);
        if is_over {
            tracing::error!("the alias {owner} is answered by SERVFAIL: {target}: {error}");
        }
        is_over
    }
}

/// Notes whether addresses of a family were found, and whether the last ones are too old.
fn note_family(found: &mut Option<Instant>, is_found: bool) {
    if is_found {
        *found = Some(Instant::now());
    }
    *found = found.filter(|at| at.elapsed() <= KEPT_TIME);
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
        let found = {
            let mut states = sync::lock(&self.states);
            let found = done.iter().filter_map(|(source, found)| {
                let found = found.as_ref().ok()?;
                let state =
                    states.get_mut(&source.owner).filter(|state| state.source == *source)?;
                let known = self.engine.alias_addresses(source).unwrap_or_default();
                Some((source.clone(), Some(state.served(found, known))))
            });
            found.collect()
        };
        let served = self.engine.set_alias_addresses(found);
        let served = served.map_err(|error| error.to_string());
        let mut given_up = Vec::new();
        let mut states = sync::lock(&self.states);
        for (source, found) in done {
            self.lookups.fetch_add(1, Ordering::Relaxed);
            let state = states.get_mut(&source.owner).filter(|state| state.source == source);
            let Some(state) = state else { continue };
            (state.is_running, state.is_tried) = (false, true);
            match found.and_then(|found| served.clone().map(|()| found)) {
                Ok(found) => state.succeeded(&found),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_addresses_of_a_family_serve_on_for_a_day_while_the_other_is_found() {
        let [owner, target] = ["a.test", "b.test"].map(|name| name.parse().expect("a name"));
        let source = AliasSource { zone: "a.test".into(), owner, target, ttl_seconds: 60 };
        let mut state = AliasState::new(source);
        let known = AliasAddresses {
            ipv4: vec![Ipv4Addr::new(192, 0, 2, 1)],
            ipv6: vec![std::net::Ipv6Addr::LOCALHOST],
        };
        let ipv4 = Some(vec![Ipv4Addr::new(192, 0, 2, 2)]);
        let failure = Some("no answer".to_owned());
        let found = LookupResult { ipv4: ipv4.clone(), ipv6: None, ttl_seconds: 60, failure };
        let served = state.served(&found, known.clone());
        assert_eq!((Some(served.ipv4), &served.ipv6), (ipv4, &known.ipv6));
        let Some(long_ago) = Instant::now().checked_sub(KEPT_TIME * 2) else { return };
        state.found[1] = Some(long_ago);
        assert!(state.served(&found, known).ipv6.is_empty());
        state.succeeded(&found);
        assert!(state.is_partial && !state.is_failing);
        assert!(!state.failed("no answer"), "the other family serves on");
        state.found[0] = Some(long_ago);
        assert!(state.failed("no answer"), "nothing serves on");
        assert!(!state.failed("no answer"), "it is said once");
    }
}
