//! Removing keys whose time is over, also when nobody asks for them, and looking after the disk.
//!
//! For: the thread that does both. Not for: which keys and how (`whered_engine::Keyspace::sweep`).
//! Cost: ten looks at the earliest expiry times a second; a bounded number of keys each time, so
//! that a million keys that end together are removed over some seconds.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use whered_engine::Engine;

use crate::disk_watch::DiskWatch;

/// How often it looks.
const PERIOD: Duration = Duration::from_millis(100);
/// How many keys are removed under one hold of the map.
const KEYS_PER_STEP: usize = 256;
/// How many steps are made in a row.
const STEPS_PER_PERIOD: usize = 64;
/// For this many periods after the start a large piece of memory is asked for and freed, untouched:
/// the allocator gives back what the start's threads have freed only when something is freed later,
/// and of a server that nobody writes to a fifth would stay resident for nothing.
const PERIODS_OF_GIVING_BACK: usize = 40;
/// Large enough to be no part of what a thread keeps for itself.
const GIVING_BACK_BYTES: usize = 32 << 20;

/// The running thread.
pub(crate) struct Sweeper {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Sweeper {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start(engine: &Arc<Engine>) -> io::Result<Sweeper> {
        let (stop, stopped) = channel();
        let engine = Arc::clone(engine);
        let thread = std::thread::Builder::new()
            .name("sweeper".to_owned())
            .spawn(move || run(&engine, &stopped))?;
        Ok(Sweeper { stop, thread })
    }

    /// Ends the thread.
    pub(crate) fn stop(self) {
        // A thread that has ended by itself does not listen any more, and has nothing to tell.
        let _ = self.stop.send(());
        let _ = self.thread.join();
    }
}

fn run(engine: &Engine, stopped: &Receiver<()>) {
    let mut periods = 0..PERIODS_OF_GIVING_BACK;
    let mut disk = DiskWatch::default();
    while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
        if periods.next().is_some() {
            drop(std::hint::black_box(Vec::<u8>::with_capacity(GIVING_BACK_BYTES)));
        }
        disk.look(engine);
        for _ in 0..STEPS_PER_PERIOD {
            // A journal that takes no writes says so to those who write. The keys are invisible.
            match engine.keyspace().sweep(KEYS_PER_STEP) {
                Ok(KEYS_PER_STEP) => {}
                Ok(_) | Err(_) => break,
            }
        }
    }
}
