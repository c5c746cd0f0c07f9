//! What another thread leaves for a connection to do.
//!
//! For: commands whose work is done elsewhere (`background`), and clients that wait for members
//! (`waiting`). Not for: when the connection looks for it (`connection/execute`).

use std::sync::{Arc, Mutex};
use std::time::Instant;

use whered_engine::sync;

use super::commands::effect::Effect;
use super::reply::{Failure, Reply};

/// What changes data and writes the reply when the work is done: on the connection's worker, with
/// its lane of the gate held. It must be short, and change no keys, since nothing reads its effect.
pub(crate) type Finish = Box<dyn FnOnce(&mut Reply) -> Result<Effect, Failure> + Send>;

/// Where another thread puts what is left to do.
#[derive(Clone, Default)]
pub(crate) struct PendingReply(Arc<Mutex<Option<Finish>>>);

impl PendingReply {
    /// The work is done. The caller then calls the client's worker.
    pub(crate) fn complete(&self, finish: Finish) {
        *sync::lock(&self.0) = Some(finish);
    }

    /// What is left to do, once the work is done.
    pub(crate) fn take(&self) -> Option<Finish> {
        sync::lock(&self.0).take()
    }
}

/// A connection's own side of its wait for members.
pub(crate) struct Wait {
    /// Its place among all waits.
    pub(crate) order: u64,
    /// When it ends without members.
    pub(crate) deadline: Option<Instant>,
    /// What it takes in memory.
    pub(crate) size_bytes: usize,
}
