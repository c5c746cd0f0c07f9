//! Whether a request may run now: what holds for all commands, in the order in which Redis asks.
//!
//! ```text
//! arity ─> logged in? ─> permitted? ─> may stand in a transaction? ─> memory left?
//!       ─> keys that are followed? ─> a listener's command?
//!   any refusal: the transaction, if one is open, fails, and EXEC says why it was refused
//! ```
//!
//! Of moves that run together (`moves`) the first is asked about: they name one command and one key.
//!
//! Cost: for a connection without a transaction, channels or a restricted user, and without keys
//! that are followed, some comparisons and two atomic loads.

use super::{Entry, Failure, Flag, InTransaction, followed, permissions, transaction, wrong_arity};
use crate::resp::protocol::Args;
use crate::resp::reply::{Protocol, Reply};
use crate::resp::session::Session;

const NOT_LOGGED_IN: Failure = Failure::text("NOAUTH Authentication required.");
const OUT_OF_MEMORY: Failure =
    Failure::text("OOM command not allowed when used memory > 'maxmemory'.");

/// Asks whether a request may run.
///
/// # Errors
/// The text of Redis for the first reason against it.
pub(super) fn admit(
    session: &Session,
    entry: &'static Entry,
    args: Args<'_>,
) -> Result<(), Failure> {
    let command = entry.command;
    command.check_arity(args.len())?;
    if entry.has_subcommands() && matches!(command.action, super::Action::Subcommands(_)) {
        return Err(wrong_arity(command.name));
    }
    if !session.authenticated && !command.has(Flag::NoAuth) {
        return Err(NOT_LOGGED_IN);
    }
    if let Some(denied) = permissions::denied(session, &session.user, entry, args) {
        return Err(denied.failure());
    }
    if session.transaction.is_open() && command.in_transaction == InTransaction::Refused {
        return Err(Failure::text("ERR Command not allowed inside a transaction"));
    }
    if session.shared.has_memory_limit() {
        let queued =
            session.transaction.is_open() && command.in_transaction == InTransaction::Queued;
        let executed = command.executes_queue() && session.transaction.denies_oom();
        if (entry.grows || queued || executed) && session.shared.is_out_of_memory() {
            return Err(OUT_OF_MEMORY);
        }
    }
    followed::check(session, command, args)?;
    if session.subscription_count() > 0
        && session.client_protocol() == Protocol::Resp2
        && !command.has(Flag::WhileSubscribed)
    {
        return Err(Failure::made(format!(
            "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET \
             are allowed in this context",
            command.name
        )));
    }
    Ok(())
}

/// Answers a request that does not run.
pub(super) fn reject(
    session: &mut Session,
    entry: Option<&'static Entry>,
    args: Args<'_>,
    failure: &Failure,
    reply: &mut Reply,
) {
    match entry {
        Some(entry) => session.meter.note_rejected(entry.number),
        None => session.shared.refused_commands.note_unknown(),
    }
    let name = entry.map_or(args.at(0), |entry| entry.command.name.as_bytes());
    if entry.is_some_and(|entry| entry.command.executes_queue()) {
        transaction::discard(session);
        let text = failure.prefixed("EXECABORT Transaction discarded because of: ");
        super::count_error(session, name, &text);
        return reply.error(&text);
    }
    super::count_error(session, name, failure);
    session.transaction.fail();
    reply.error(failure);
}
