//! The process itself: `SERVER.RELOAD`, `SHUTDOWN`.
//!
//! Not for: what they do, which is the program's (`control`).

use super::{Action, Command, Effect, InTransaction, OPERATOR, Outcome, SYNTAX_ERROR};
use crate::control;
use crate::resp::background;
use crate::resp::protocol::Args;
use crate::resp::reply::{Failure, Reply};
use crate::resp::session::Session;

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "server.reload",
        arity: 1,
        in_transaction: InTransaction::Refused,
        summary: "Rereads the configuration and all that it names, as SIGHUP does; returns what serves now",
        cost: "O(N) with N bytes of files that changed",
        since: "0.1.0",
        action: Action::Run(reload),
        ..OPERATOR
    },
    Command {
        name: "shutdown",
        arity: -1,
        in_transaction: InTransaction::Refused,
        syntax: "[NOSAVE|SAVE] [NOW] [FORCE] [ABORT]",
        summary: "Stops the server cleanly; SAVE makes a snapshot before. Whatever was acknowledged is \
                  kept in any case",
        cost: "O(1), and O(N) with N bytes of data for SAVE",
        since: "1.0.0",
        action: Action::Run(shutdown),
        ..OPERATOR
    },
];

fn reload(session: &mut Session, _: Args<'_>, reply: &mut Reply) -> Outcome {
    background::begin(session, reply, |_| {
        let outcome = control::reload();
        Box::new(|reply: &mut Reply| {
            let line = outcome.map_err(|why| Failure::made(format!("ERR {why}")))?;
            reply.bulk(line.as_bytes());
            Ok(Effect::Unchanged)
        })
    })
}

/// Replies nothing where it stops, as Redis: the connection closes.
fn shutdown(session: &mut Session, args: Args<'_>, _: &mut Reply) -> Outcome {
    let mut saves = None;
    for at in 1..args.len() {
        if args.is(at, "save") || args.is(at, "nosave") {
            if saves.replace(args.is(at, "save")).is_some() {
                return Err(SYNTAX_ERROR);
            }
        } else if args.is(at, "abort") {
            return match args.len() {
                2 => Err(Failure::text("ERR No shutdown in progress.")),
                _ => Err(SYNTAX_ERROR),
            };
        } else if !args.is(at, "now") && !args.is(at, "force") {
            return Err(SYNTAX_ERROR);
        }
    }
    if saves == Some(true) {
        session.engine().snapshot().map_err(|error| Failure::made(format!("ERR {error}")))?;
    }
    control::stop().map_err(|why| Failure::made(format!("ERR {why}")))?;
    session.closing = true;
    Ok(Effect::Unchanged)
}
