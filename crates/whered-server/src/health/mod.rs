//! Health: probes that ask sites whether they work, on a thread of their own.
//!
//! For: TCP, HTTP(S) and command checks with hysteresis; what they come to goes to the engine.
//! Not for: what that means for the choice (`whered_engine::SiteHealth`), overrides by hand.
//!
//! ```text
//! configuration ─> checks ─> one task a check: wait ─> permit ─> ask ─> hysteresis
//!                                                                          │ note
//!                                       SITE.LIST, INFO, /metrics <─ HealthBoard
//!                                                                          │ what is new
//!                                  Engine::set_probe_results <─ collector ─┘ many at once
//! ```
//! Invariants: a check has at most one probe under way; what a check that is gone has found is
//! not told any more (its site's number has changed); an answer in one reload's site is kept over
//! the next when its checks are the same.
//! At the same time: up to [`CONNECTIONS_MAX`] connections and [`COMMANDS_MAX`] commands.
//! Cost: a task of about 1 KB a check while it waits.

mod board;
mod check;
mod exec;
mod http;
mod hysteresis;
mod probe;
mod task;
mod tls;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, watch};
use whered_engine::{Engine, ProbeResult, Probed};

pub use self::board::HealthBoard;
use self::board::{CheckReport, SiteKey};
pub(crate) use self::board::{RESULTS, SiteReport};
pub use self::check::{Check, HttpTarget, SiteChecks, Target};
use self::probe::{Limits, PreparedCheck};
use self::task::{StatusChange, TaskContext};
use self::tls::Trust;
use crate::runtime::RuntimeThread;

const CONNECTIONS_MAX: usize = 256;
const COMMANDS_MAX: usize = 16;
/// For host names, and for telling the engine.
const BLOCKING_THREADS: usize = 8;
/// How long probes may take to finish when the server stops.
const FINISH_TIME: Duration = Duration::from_secs(2);
/// How many changes the engine is told at once.
const TOLD_MAX: usize = 4096;

/// Checks whose files were read.
pub(crate) struct Ready(Vec<(SiteChecks, Vec<PreparedCheck>)>);

/// Reads what checks need.
///
/// # Errors
/// One line with the site and the file that cannot be read.
pub(crate) fn prepare(sites: &[SiteChecks]) -> io::Result<Ready> {
    let mut trust = Trust::default();
    let prepare = |site: &SiteChecks| Ok((site.clone(), probe::prepare(site, &mut trust)?));
    sites.iter().map(prepare).collect::<io::Result<_>>().map(Ready)
}

/// Reads what checks need, and keeps none of it.
///
/// # Errors
/// One line with the site and the file that cannot be read.
pub fn verify(sites: &[SiteChecks]) -> io::Result<()> {
    prepare(sites).map(drop)
}

/// The running thread.
pub(crate) struct Prober {
    configured: mpsc::UnboundedSender<Ready>,
    thread: RuntimeThread,
}

impl Prober {
    /// Starts asking.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start(
        engine: &Arc<Engine>,
        board: &Arc<HealthBoard>,
        ready: Ready,
    ) -> io::Result<Prober> {
        let (configured, received) = mpsc::unbounded_channel();
        let limits = Limits {
            connections: Semaphore::new(CONNECTIONS_MAX),
            commands: Semaphore::new(COMMANDS_MAX),
        };
        let (engine, board) = (Arc::clone(engine), Arc::clone(board));
        let thread =
            RuntimeThread::start("health", BLOCKING_THREADS, FINISH_TIME, move |stopped| {
                let (changes, turned) = mpsc::unbounded_channel();
                let shared = Arc::new(TaskContext { limits, board, changes });
                let collector = Collector { engine, shared, sites: BTreeMap::new(), number: 0 };
                collector.run(ready, received, turned, stopped)
            })?;
        Ok(Prober { configured, thread })
    }

    /// Asks these from now on. Sites whose checks are the same go on as they are.
    pub(crate) fn configure(&self, ready: Ready) {
        // A thread that has ended by itself does not listen any more.
        let _ = self.configured.send(ready);
    }

    /// Ends asking; commands that run are killed.
    pub(crate) fn stop(self) {
        self.thread.stop();
    }
}

/// A site that is asked.
struct ProbedSite {
    checks: SiteChecks,
    /// Told apart from the same site's checks of another time.
    number: u64,
    /// What the engine was told last.
    told: Probed,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Drop for ProbedSite {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

/// Starts and ends tasks, and tells the engine what they find.
struct Collector {
    engine: Arc<Engine>,
    shared: Arc<TaskContext>,
    sites: BTreeMap<SiteKey, ProbedSite>,
    number: u64,
}

impl Collector {
    async fn run(
        mut self,
        first: Ready,
        mut configured: mpsc::UnboundedReceiver<Ready>,
        mut turned: mpsc::UnboundedReceiver<StatusChange>,
        mut stopped: watch::Receiver<bool>,
    ) {
        self.configure(first).await;
        let mut changes = Vec::new();
        loop {
            tokio::select! {
                // An error means that the owner is gone, which is a stop too.
                _ = stopped.wait_for(|stop| *stop) => return,
                Some(ready) = configured.recv() => self.configure(ready).await,
                _ = turned.recv_many(&mut changes, TOLD_MAX) => {
                    let changes = std::mem::take(&mut changes);
                    self.take(changes).await;
                }
            }
        }
    }

    /// Begins what is new, ends what is gone, leaves the rest alone.
    async fn configure(&mut self, ready: Ready) {
        let mut old = std::mem::take(&mut self.sites);
        let mut told = Vec::new();
        for (checks, prepared) in ready.0 {
            let key: SiteKey = (checks.pool.as_str().into(), checks.site.as_str().into());
            let asked = match old.remove(&key) {
                Some(asked) if asked.checks == checks => asked,
                _ => {
                    told.push((key.clone(), Probed::Unknown));
                    self.begin(&key, checks, prepared)
                }
            };
            self.sites.insert(key, asked);
        }
        for key in old.keys() {
            self.shared.board.remove(key);
            told.push((key.clone(), Probed::Unchecked));
        }
        self.tell(told).await;
    }

    fn begin(
        &mut self,
        key: &SiteKey,
        checks: SiteChecks,
        prepared: Vec<PreparedCheck>,
    ) -> ProbedSite {
        self.number += 1;
        let number = self.number;
        let report = |check: &PreparedCheck| CheckReport::new(check.check.target.to_string());
        let reports = prepared.iter().map(report).collect();
        let report = SiteReport { probed: Probed::Unknown, checks: reports };
        self.shared.board.put(key.clone(), report);
        let begin = |(index, check)| {
            let task = task::run(Arc::clone(&self.shared), key.clone(), number, index, check);
            tokio::spawn(task)
        };
        let tasks = prepared.into_iter().enumerate().map(begin).collect();
        ProbedSite { checks, number, told: Probed::Unknown, tasks }
    }

    async fn take(&mut self, changes: Vec<StatusChange>) {
        // Of several turns of one site the last one counts.
        let mut told = BTreeMap::new();
        for turn in changes {
            let Some(asked) = self.sites.get_mut(&turn.key) else { continue };
            if asked.number != turn.number || asked.told == turn.probed {
                continue;
            }
            asked.told = turn.probed;
            let (pool, site) = (&turn.key.0, &turn.key.1);
            match turn.probed {
                Probed::Down => {
                    tracing::warn!("site '{site}' of pool '{pool}' is down: {}", turn.reason);
                }
                _ => tracing::info!("site '{site}' of pool '{pool}' is {}", turn.probed.name()),
            }
            told.insert(turn.key, turn.probed);
        }
        self.tell(told.into_iter().collect()).await;
    }

    /// Telling may wait for a reload, which probes must not.
    async fn tell(&self, told: Vec<(SiteKey, Probed)>) {
        if told.is_empty() {
            return;
        }
        let engine = Arc::clone(&self.engine);
        let tell = move || {
            let results = told.iter().map(|((pool, site), probed)| ProbeResult {
                pool,
                site,
                probed: *probed,
            });
            engine.set_probe_results(&results.collect::<Vec<_>>());
        };
        if tokio::task::spawn_blocking(tell).await.is_err() {
            tracing::error!("telling what probes have found has failed");
        }
    }
}
