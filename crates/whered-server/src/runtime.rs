//! A thread that runs asynchronous listeners.
//!
//! Each listener that uses asynchronous sockets has one such thread: a busy listener does not slow
//! another one, and each is stopped alone.

use std::future::Future;
use std::io;
use std::thread::{Builder, JoinHandle, available_parallelism};
use std::time::Duration;

use tokio::sync::watch;

/// How long searches may go on after that.
const BLOCKING_FINISH_TIME: Duration = Duration::from_secs(1);

/// A running thread with its runtime.
pub(crate) struct RuntimeThread {
    stop: watch::Sender<bool>,
    thread: JoinHandle<()>,
}

impl RuntimeThread {
    /// Starts a named thread that runs `work` to its end. `work` ends soon after the value that
    /// it is given turns true, and is cut off after `finish_time`.
    ///
    /// # Errors
    /// The system has no thread or no descriptor left.
    pub(crate) fn start<F: Future<Output = ()>>(
        name: &str,
        blocking_threads: usize,
        finish_time: Duration,
        work: impl FnOnce(watch::Receiver<bool>) -> F + Send + 'static,
    ) -> io::Result<RuntimeThread> {
        let (stop, stopped) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(blocking_threads)
            .thread_name(format!("{name}-search"))
            .build()?;
        let thread = Builder::new().name(name.to_owned()).spawn(move || {
            runtime.block_on(async {
                let mut asked = stopped.clone();
                let overdue = async {
                    // An error means that the owner is gone, which is a stop too.
                    let _ = asked.wait_for(|stop| *stop).await;
                    tokio::time::sleep(finish_time).await;
                };
                tokio::select! {
                    () = work(stopped) => {}
                    () = overdue => tracing::warn!("connections were cut off at the stop"),
                }
            });
            runtime.shutdown_timeout(BLOCKING_FINISH_TIME);
        })?;
        Ok(RuntimeThread { stop, thread })
    }

    /// Asks the work to end and waits for that, a second longer than it may take at the most.
    pub(crate) fn stop(self) {
        // Nobody listens any more when the work has ended by itself.
        let _ = self.stop.send(true);
        if self.thread.join().is_err() {
            tracing::error!("a door's thread has panicked");
        }
    }
}

/// How many threads run at the same time here.
pub(crate) fn core_count() -> usize {
    available_parallelism().map_or(1, usize::from)
}
