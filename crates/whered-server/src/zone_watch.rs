//! Zones follow their files: one thread that looks once a second.
//!
//! Not for: SIGHUP and `ZONE.RELOAD` (those read at once); databases ([`crate::reload`]). Files that a
//! zone includes are not looked at: touch the zone's own file after changing one of them.
//!
//! A file is read when it differs from what was read last and was the same at two looks. A wrong one
//! is not tried again until it changes; the log and the metrics say so, and the zone serves on.
//! Cost: a `stat` for each zone and second; a zone is loaded at the lowest priority.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use whered_engine::{Engine, FileState};

use crate::reload::with_lowest_priority;

/// How often it looks.
const PERIOD: Duration = Duration::from_secs(1);

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

/// What is known of one zone's file.
struct Known {
    /// What was read, or refused.
    taken: Option<FileState>,
    /// What was seen at the last look.
    seen: Option<FileState>,
}

fn run(engine: &Engine, stopped: &Receiver<()>) {
    let mut known = BTreeMap::new();
    loop {
        look(engine, &mut known);
        if stopped.recv_timeout(PERIOD) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

fn look(engine: &Engine, known: &mut BTreeMap<String, Known>) {
    for source in engine.zone_sources() {
        let seen = FileState::of(&source.path).ok();
        // What was there at the first look is what the start has read.
        let file = known.entry(source.name.clone()).or_insert(Known { taken: seen, seen });
        let is_quiet = file.seen == seen;
        file.seen = seen;
        if !is_quiet || seen.is_none() || seen == file.taken {
            continue;
        }
        file.taken = seen;
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
