//! Commands that take long: done on a thread of their own, while the worker serves others. And the
//! connection's side of commands that wait for data (`waiting`).
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
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Builder;

use whered_engine::Engine;

use super::commands::effect::Effect;
use super::pending::{Finish, PendingReply, Wait};
use super::reply::{Failure, Reply};
use super::session::{ReplyMode, Session};
use crate::reload::with_lowest_priority;

/// How many threads there are at the most.
const AT_A_TIME: usize = 4;

static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// A command whose work goes on elsewhere, or that waits for data.
pub(crate) struct BackgroundCommand {
    pending: PendingReply,
    /// Which replies the client wanted when it asked.
    mode: ReplyMode,
    /// What it waits for, if it is a wait for data.
    pub(crate) wait: Option<Wait>,
}

impl BackgroundCommand {
    /// A command that waits for data.
    pub(crate) fn waiting(pending: PendingReply, mode: ReplyMode, wait: Wait) -> BackgroundCommand {
        BackgroundCommand { pending, mode, wait: Some(wait) }
    }

    /// What is left to do, once the work is done.
    pub(crate) fn take(&self) -> Option<(Finish, ReplyMode)> {
        self.pending.take().map(|finish| (finish, self.mode))
    }

    /// What it takes in memory beside its connection.
    pub(crate) fn size_bytes(&self) -> usize {
        self.wait.as_ref().map_or(0, |wait| wait.size_bytes)
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
    let (pending, client) = (PendingReply::default(), Arc::clone(&session.client));
    let done = pending.clone();
    let run = move || {
        let finish = with_lowest_priority(|| catch_unwind(AssertUnwindSafe(|| work(&engine))));
        let finish: Finish = finish.unwrap_or_else(|_| {
            tracing::error!("a command has panicked on a thread of its own");
            Box::new(|_: &mut Reply| Err(Failure::text("ERR the command has failed")))
        });
        done.complete(finish);
        RUNNING.fetch_sub(1, Ordering::Relaxed);
        client.call();
    };
    if let Err(error) = Builder::new().name("resp-long".to_owned()).spawn(run) {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
        return Err(Failure::made(format!("ERR no thread for this command: {error}")));
    }
    session.background = Some(BackgroundCommand { pending, mode: session.replies, wait: None });
    Ok(Effect::Unchanged)
}
