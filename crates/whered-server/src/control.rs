//! What clients ask of the process itself: to read its configuration anew, and to stop.
//!
//! For: `SERVER.RELOAD` and `SHUTDOWN`, whose work belongs to the program: it alone knows where the
//! configuration came from, and it alone ends. Not for: signals, which the program has itself.
//!
//! ```text
//! SERVER.RELOAD ─> request() ── ControlRequest::Reload ─> the program's loop: reloads
//!        reply <───────────────── answer() ───────────────────────┘
//! ```
//!
//! One for the process, as its signals are: the first [`ControlRequests::listen`] gets all requests.
//! At the same time: any thread may ask; the program answers one after the other.

use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

static REQUESTS: OnceLock<UnboundedSender<ControlRequest>> = OnceLock::new();

/// Why nothing was done where no program listens.
const NOBODY: &str = "this process takes no such request";

/// What the process is to do.
pub enum ControlRequest {
    /// Read the configuration anew, and say what has changed or why it was refused.
    Reload(ReloadAnswer),
    /// Stop cleanly.
    Stop,
}

/// Who waits for the outcome of a reload.
pub struct ReloadAnswer(SyncSender<Result<String, String>>);

impl ReloadAnswer {
    /// Gives the outcome, in one line either way.
    pub fn answer(self, outcome: Result<String, String>) {
        // The client may have gone meanwhile.
        let _ = self.0.send(outcome);
    }
}

/// The requests to this process.
pub struct ControlRequests(UnboundedReceiver<ControlRequest>);

impl ControlRequests {
    /// Takes all requests from now on; nothing for a second listener of a process.
    #[must_use]
    pub fn listen() -> Option<ControlRequests> {
        let (sender, receiver) = unbounded_channel();
        REQUESTS.set(sender).ok().map(|()| ControlRequests(receiver))
    }

    /// The next request.
    pub async fn next(&mut self) -> ControlRequest {
        match self.0.recv().await {
            Some(request) => request,
            None => std::future::pending().await,
        }
    }
}

/// Has the configuration read anew and waits for the outcome.
pub(crate) fn reload() -> Result<String, String> {
    let (sender, receiver): (_, Receiver<Result<String, String>>) = sync_channel(1);
    send(ControlRequest::Reload(ReloadAnswer(sender)))?;
    // The program drops the request when it stops first.
    receiver.recv().unwrap_or_else(|_| Err("the server stops".to_owned()))
}

/// Has the process stop.
pub(crate) fn stop() -> Result<(), String> {
    send(ControlRequest::Stop)
}

fn send(request: ControlRequest) -> Result<(), String> {
    let sent = REQUESTS.get().and_then(|requests| requests.send(request).ok());
    sent.ok_or_else(|| NOBODY.to_owned())
}
