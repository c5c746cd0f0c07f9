//! `SAVE`, `BGSAVE`, `LASTSAVE`, `BGREWRITEAOF`, `BACKUP`: snapshots on request.
//!
//! A snapshot takes the place of both of Redis's files: it makes a start fast and the journal
//! short. So `BGREWRITEAOF` asks for one, too.

use super::{Action, Command, Effect, InTransaction, OPERATOR, Outcome, SYNTAX_ERROR};
use crate::resp::protocol::Args;
use crate::resp::reply::{Failure, Reply};
use crate::resp::session::Session;

const OF_REDIS: Command = Command { arity: 1, since: "1.0.0", ..OPERATOR };

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "backup",
        arity: 2,
        in_transaction: InTransaction::Refused,
        syntax: "directory",
        summary: "Makes a copy of the data, by hard links where it can, that a server can start from; \
                  below `directory` of `[backup]`, from which relative names start",
        cost: "O(N) with N files; O(bytes) on another file system",
        since: "0.1.0",
        action: Action::Run(backup),
        ..OPERATOR
    },
    Command {
        name: "bgrewriteaof",
        summary: "Starts a snapshot, after which the journal is short",
        cost: "O(1); the work is done in the background",
        action: Action::Run(|session, _, reply| {
            ask(session, reply, "Background append only file rewriting started")
        }),
        ..OF_REDIS
    },
    Command {
        name: "bgsave",
        arity: -1,
        syntax: "[SCHEDULE]",
        summary: "Starts a snapshot",
        cost: "O(1); the work is done in the background",
        action: Action::Run(background_save),
        ..OF_REDIS
    },
    Command {
        name: "lastsave",
        summary: "Returns when the last snapshot was completed, in seconds since 1970",
        cost: "O(1)",
        action: Action::Run(|session, _, reply| {
            reply.integer((session.engine().snapshot_status().last_millis / 1000) as i64);
            Ok(Effect::Unchanged)
        }),
        ..OF_REDIS
    },
    Command {
        name: "save",
        in_transaction: InTransaction::Refused,
        summary: "Makes a snapshot and waits for it",
        cost: "O(N) with N bytes of data",
        action: Action::Run(save),
        ..OF_REDIS
    },
];

fn background_save(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() > 2 || (args.len() == 2 && !args.is(1, "schedule")) {
        return Err(SYNTAX_ERROR);
    }
    ask(session, reply, "Background saving started")
}

fn ask(session: &Session, reply: &mut Reply, started: &str) -> Outcome {
    match session.engine().request_snapshot() {
        Ok(()) => reply.simple(started),
        Err(reason) => return Err(Failure::made(format!("ERR {reason}"))),
    }
    Ok(Effect::Unchanged)
}

fn save(session: &mut Session, _: Args<'_>, reply: &mut Reply) -> Outcome {
    match session.engine().snapshot() {
        Ok(_) => reply.ok(),
        Err(error) => return Err(Failure::made(format!("ERR {error}"))),
    }
    Ok(Effect::Unchanged)
}

fn backup(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let Ok(directory) = std::str::from_utf8(args.at(1)) else {
        return Err(Failure::text("ERR the directory's name is not UTF-8"));
    };
    match session.engine().backup_below(directory) {
        Ok(contents) => {
            reply.simple(&format!("backed up to entry {}", contents.last_sequence));
        }
        Err(error) => return Err(Failure::made(format!("ERR {error}"))),
    }
    Ok(Effect::Unchanged)
}
