//! What a command does before a signal ends it.
//!
//! For: commands that leave something behind if they end in the middle. Not for the server, which
//! has its own signals: it says so before it writes a file.
//!
//! A signal that the command was started with as ignored (as by `nohup`, or in the background of a
//! script) stays ignored. The exit code is 128 and the signal's number, as shells have it.

use std::fs;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// The signals, and their numbers.
const SIGNALS: [(fn() -> SignalKind, i32); 3] =
    [(SignalKind::hangup, 1), (SignalKind::interrupt, 2), (SignalKind::terminate, 15)];

static HAS_OWN_SIGNALS: AtomicBool = AtomicBool::new(false);

/// Says that the process looks after its signals: [`before_end`] then does nothing.
pub(crate) fn leave_signals() {
    HAS_OWN_SIGNALS.store(true, Ordering::Relaxed);
}

/// Does something before SIGHUP, SIGINT or SIGTERM ends the process. Where the system lends
/// no signals, these end it at once, as they do without this.
#[allow(
    clippy::disallowed_methods,
    reason = "a signal ends the process, as it does without this; no journal is open"
)]
pub(crate) fn before_end(work: impl FnOnce() + Send + 'static) {
    if HAS_OWN_SIGNALS.load(Ordering::Relaxed) {
        return;
    }
    let ignored = ignored_signals();
    let runtime = runtime::Builder::new_current_thread().enable_io().build();
    let Ok(runtime) = runtime else { return };
    let (sender, mut receiver) = mpsc::channel(1);
    for (kind, number) in SIGNALS.into_iter().filter(|(_, number)| !ignored(*number)) {
        let _context = runtime.enter();
        // From here on the signal does nothing by itself.
        let Ok(mut stream) = signal(kind()) else { continue };
        let sender = sender.clone();
        runtime.spawn(async move {
            stream.recv().await;
            // The receiver lives as long as the process.
            let _ = sender.send(number).await;
        });
    }
    drop(sender);
    thread::spawn(move || {
        if let Some(number) = runtime.block_on(receiver.recv()) {
            work();
            process::exit(128 + number);
        }
    });
}

/// The signals that the process was started with as ignored.
fn ignored_signals() -> impl Fn(i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    move |number| mask >> (number - 1) & 1 == 1
}
