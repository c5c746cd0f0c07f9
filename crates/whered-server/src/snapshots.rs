//! Making snapshots beside the listeners: when one is due, and when somebody asks.
//!
//! For: the thread that does it, and what the log says. Not for: when one is due and what it holds
//! (`whered_engine::Engine::snapshot`).
//! Cost: a look at the journal's size each half second.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use whered_engine::Engine;

/// How often it looks without being asked.
const PERIOD: Duration = Duration::from_millis(500);

/// The running thread.
pub(crate) struct Snapshotter {
    engine: Arc<Engine>,
    stopping: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Snapshotter {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start(engine: &Arc<Engine>) -> io::Result<Snapshotter> {
        let stopping = Arc::new(AtomicBool::new(false));
        let (of_thread, is_stopping) = (Arc::clone(engine), Arc::clone(&stopping));
        let thread = std::thread::Builder::new()
            .name("snapshotter".to_owned())
            .spawn(move || run(&of_thread, &is_stopping))?;
        Ok(Snapshotter { engine: Arc::clone(engine), stopping, thread })
    }

    /// Ends the thread; a snapshot that is being made is given up.
    pub(crate) fn stop(self) {
        self.stopping.store(true, Ordering::Release);
        self.engine.stop_snapshots();
        // A thread that has ended by itself has nothing to tell.
        let _ = self.thread.join();
    }
}

fn run(engine: &Engine, stopping: &AtomicBool) {
    while !stopping.load(Ordering::Acquire) {
        let is_asked = engine.wait_for_snapshot_request(PERIOD);
        if stopping.load(Ordering::Acquire) || !(is_asked || engine.snapshot_due()) {
            continue;
        }
        match engine.snapshot() {
            Ok(report) => tracing::info!("{report}"),
            Err(error) => tracing::error!("no snapshot was made: {error}"),
        }
    }
}
