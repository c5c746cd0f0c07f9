//! Compaction of prefix sets: changes go into their compiled layers.
//!
//! For: the thread that does it. Not for: which sets and when (`PrefixSets::compact_due`).
//! Cost: ten looks at a flag a second while nothing changes, since each takes the core from a
//! thread that answers; while something does, fifty, and at most half of a core or so, since a
//! compaction begins after many changes only.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use whered_engine::Engine;

/// How often it looks while something has changed.
const PERIOD: Duration = Duration::from_millis(20);

/// How often it looks otherwise: changes that come then wait so long at the most, uncompiled.
const QUIET_PERIOD: Duration = Duration::from_millis(100);

/// The running thread.
pub(crate) struct Compactor {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Compactor {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start(engine: &Arc<Engine>) -> io::Result<Compactor> {
        let (stop, stopped) = channel();
        let engine = Arc::clone(engine);
        let thread = std::thread::Builder::new()
            .name("folder".to_owned())
            .spawn(move || run(&engine, &stopped))?;
        Ok(Compactor { stop, thread })
    }

    /// Ends the thread, after the compaction that is under way.
    pub(crate) fn stop(self) {
        // A thread that has ended by itself does not listen any more, and has nothing to tell.
        let _ = self.stop.send(());
        let _ = self.thread.join();
    }
}

fn run(engine: &Engine, stopped: &Receiver<()>) {
    let sets = engine.prefix_sets();
    let period = || if sets.is_compaction_awaited() { PERIOD } else { QUIET_PERIOD };
    while stopped.recv_timeout(period()) == Err(RecvTimeoutError::Timeout) {
        sets.compact_due();
    }
}
