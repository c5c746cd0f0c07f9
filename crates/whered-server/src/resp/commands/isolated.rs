//! Commands that read keys and store what they found, as one step.
//!
//! For: `GEOSEARCHSTORE ZRANGESTORE` and the like. Not for: `EXEC`, which keeps other listeners'
//! writes out as well (`transaction`).

use std::sync::Arc;

use super::Outcome;
use crate::resp::reply::Reply;
use crate::resp::session::Session;

/// Runs a command that reads keys and stores what it found, so that no other write comes between.
pub(super) fn isolated(
    session: &mut Session,
    reply: &mut Reply,
    act: impl FnOnce(&mut Session, &mut Reply) -> Outcome,
) -> Outcome {
    let shared = Arc::clone(&session.shared);
    let written = shared.engine.keyspace().isolated(|| act(session, reply));
    reply.hold(written.ticket);
    written.value
}
