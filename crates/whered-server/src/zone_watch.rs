//! Zones follow their files: one thread that looks once a second.
//!
//! Not for: SIGHUP and `ZONE.RELOAD` (those read at once); databases ([`crate::reload`]).
//!
//! A zone whose configuration says `reload = "off"` is not looked at. Any other is read when its
//! file, or one that it includes, differs from what was read last, and all were the same at two
//! looks. A wrong one is not tried again until it changes; the log and the metrics say so, and the
//! zone serves on. Zones that are signed here are signed again in time, and their rollovers go on.
//! Cost: a `stat` for each file and second; a zone is loaded at the lowest priority.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use whered_engine::{Engine, FileState, SigningTask};

use crate::reload::with_lowest_priority;

/// How often it looks.
const PERIOD: Duration = Duration::from_secs(1);
/// At each of how many looks it looks after zones that are signed here.
const SIGNING_LOOKS: u64 = 10;

/// The running thread.
pub(crate) struct ZoneWatch {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl ZoneWatch {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start(engine: &Arc<Engine>) -> io::Result<ZoneWatch> {
        let (stop, stopped) = channel();
        let engine = Arc::clone(engine);
        let thread = std::thread::Builder::new()
            .name("whered-zones".to_owned())
            .spawn(move || run(&engine, &stopped))?;
        Ok(ZoneWatch { stop, thread })
    }

    /// Ends the thread.
    pub(crate) fn stop(self) {
        // A thread that has ended by itself does not listen any more.
        let _ = self.stop.send(());
        if self.thread.join().is_err() {
            tracing::error!("the thread that watches zones has failed");
        }
    }
}

/// What is known of one zone's files.
#[derive(Default)]
struct KnownFiles {
    /// What was read, or refused.
    taken: Files,
    /// What was seen at the last look.
    seen: Files,
}

/// The files of a zone, and how each one was; `None`: it was not there.
type Files = BTreeMap<PathBuf, Option<FileState>>;

fn run(engine: &Engine, stopped: &Receiver<()>) {
    let mut known = BTreeMap::new();
    let (mut looks, mut failed) = (0_u64, BTreeMap::new());
    loop {
        look(engine, &mut known);
        // Nothing else looks so seldom.
        engine.forget_challenges();
        if looks.is_multiple_of(SIGNING_LOOKS) {
            look_after_signing(engine, &mut failed);
        }
        looks += 1;
        if stopped.recv_timeout(PERIOD) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

/// Zones that are signed here: their rollovers go on, and they are signed again in time. `failed`
/// has what was told of each that fails, which is told once and tried again at each look.
fn look_after_signing(engine: &Engine, failed: &mut BTreeMap<String, String>) {
    let mut still = BTreeMap::new();
    for task in engine.signing_tasks() {
        match task {
            SigningTask::Rollover { zone, step: Some(step) } => {
                tracing::info!("zone '{zone}': the rollover of its key is at the step '{step}'");
            }
            SigningTask::Rollover { zone, step: None } => {
                tracing::info!("zone '{zone}': the rollover of its key is at its end");
            }
            SigningTask::Failed { zone, error } => {
                still.insert(zone, error);
            }
            SigningTask::Sign { zone } => {
                match with_lowest_priority(|| engine.reload_zone(&zone)) {
                    Ok(report) => {
                        let generation = report.generation;
                        tracing::info!("zone '{zone}' signed again as generation {generation}");
                    }
                    Err(error) => {
                        still.insert(zone, error.to_string());
                    }
                }
            }
        }
    }
    for (zone, error) in &still {
        if failed.get(zone) != Some(error) {
            tracing::error!("zone '{zone}' is not signed again: {error}");
        }
    }
    *failed = still;
}

fn look(engine: &Engine, known: &mut BTreeMap<String, KnownFiles>) {
    for source in engine.zone_sources().into_iter().filter(|source| source.follows_file) {
        let state = |path: PathBuf| {
            let state = FileState::of(&path).ok();
            (path, state)
        };
        let seen: Files = engine.zone_files(&source).into_iter().map(state).collect();
        // One that it includes may be missing, which is a mistake to be told, and one to be mended.
        let is_there = seen.get(&source.path).is_some_and(Option::is_some);
        let zone = known.entry(source.name.clone()).or_default();
        // What was there at the first look is what was read; what a zone no longer includes is not
        // its concern.
        let taken = |path: &PathBuf| zone.taken.get(path).copied();
        zone.taken = seen
            .iter()
            .map(|(path, state)| (path.clone(), taken(path).unwrap_or(*state)))
            .collect();
        let is_quiet = zone.seen == seen;
        let is_taken = zone.taken == seen;
        zone.seen = seen;
        if !is_quiet || !is_there || is_taken {
            continue;
        }
        zone.taken = zone.seen.clone();
        let name = &source.name;
        match with_lowest_priority(|| engine.reload_zone(name)) {
            Ok(report) => tracing::info!(
                "zone '{name}' loaded anew as generation {}: serial {}, {} records",
                report.generation,
                report.serial,
                report.records
            ),
            Err(error) => tracing::error!("zone '{name}' serves on as before: {error}"),
        }
    }
}
