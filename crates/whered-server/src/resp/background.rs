//! Commands that take long: done on a thread of their own, while the worker serves others.
//!
//! Not for: changing data that other commands change too, which `EXEC` must keep out: that is left
//! to what the work gives, which the worker runs behind its gate; nor for what `SAVE` does, which
//! is meant to hold its client up.
//!
//! ```text
//! handler ─ begin(work) ─> thread ── work ──> reply, kept here ── client.call() ─> worker's queue
//!    └ no reply yet: the connection executes nothing more until ─────────────────> take()
//! ```
//!
//! Invariants: a connection has at most one; its replies keep their order, since nothing behind it
//! is executed before it is answered. A panic is an error of that command. At the same time: up to
//! [`AT_A_TIME`] threads; more commands are done by their workers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::Builder;
use whered_engine::sync;

use whered_engine::Engine;

use super::commands::effect::Effect;
use super::reply::{Failure, Reply};
use super::session::{ReplyMode, Session};
use crate::reload::with_lowest_priority;

/// How many threads there are at the most.
const AT_A_TIME: usize = 4;

static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// What changes data and writes the reply when the work is done: on the connection's worker, with
/// its lane of the gate held. It must be short, and change no keys, since nothing reads its effect.
pub(crate) type Finish = Box<dyn FnOnce(&mut Reply) -> Result<Effect, Failure> + Send>;

/// A command whose work goes on elsewhere.
pub(crate) struct BackgroundCommand {
    finish: Arc<Mutex<Option<Finish>>>,
    /// Which replies the client wanted when it asked.
    mode: ReplyMode,
}

impl BackgroundCommand {
    /// What is left to do, once the work is done.
    pub(crate) fn take(&self) -> Option<(Finish, ReplyMode)> {
        let finish = sync::lock(&self.finish).take();
        finish.map(|finish| (finish, self.mode))
    }
}

/// Does the work elsewhere and lets the reply follow; here, where that cannot be: within `EXEC`,
/// and when too many others are at work.
///
/// # Errors
/// What `work` gives, if it was done here.
pub(crate) fn begin(
    session: &mut Session,
    reply: &mut Reply,
    work: impl FnOnce(&Engine) -> Finish + Send + 'static,
) -> Result<Effect, Failure> {
    let engine = Arc::clone(&session.shared.engine);
    let is_room = !session.in_exec && RUNNING.fetch_add(1, Ordering::Relaxed) < AT_A_TIME;
    if !is_room {
        if !session.in_exec {
            RUNNING.fetch_sub(1, Ordering::Relaxed);
        }
        return work(&engine)(reply);
    }
    let (done, client) = (Arc::new(Mutex::new(None)), Arc::clone(&session.client));
    let finish = Arc::clone(&done);
    let run = move || {
        let finish = with_lowest_priority(|| catch_unwind(AssertUnwindSafe(|| work(&engine))));
        let finish: Finish = finish.unwrap_or_else(|_| {
            tracing::error!("a command has panicked on a thread of its own");
            Box::new(|_: &mut Reply| Err(Failure::text("ERR the command has failed")))
        });
        *sync::lock(&done) = Some(finish);
        RUNNING.fetch_sub(1, Ordering::Relaxed);
        client.call();
    };
    if let Err(error) = Builder::new().name("resp-long".to_owned()).spawn(run) {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
        return Err(Failure::made(format!("ERR no thread for this command: {error}")));
    }
    session.background = Some(BackgroundCommand { finish, mode: session.replies });
    Ok(Effect::Unchanged)
}
