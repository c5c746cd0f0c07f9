//! `SLOWLOG`: the commands that took long, newest first.
//! Not for: what is entered and how it is cut (`resp/slowlog`), nor for timing (`resp/statistics`).

use super::{Action, Command, Effect, Failure, OPERATOR, Outcome, number};
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::Session;

const SLOWLOG: Command = Command { since: "2.2.12", ..OPERATOR };

pub(super) const COMMANDS: &[Command] = &[Command {
    name: "slowlog",
    arity: -2,
    flags: &[],
    syntax: "subcommand ...",
    summary: "A container for commands about the slow log",
    cost: "Depends on the subcommand.",
    action: Action::Subcommands(SUBCOMMANDS),
    ..SLOWLOG
}];

const SUBCOMMANDS: &[Command] = &[
    Command {
        name: "slowlog|get",
        arity: -2,
        syntax: "[count]",
        summary: "Returns the newest slow commands: number, time, microseconds, arguments, client",
        cost: "O(N) with N entries given",
        action: Action::Run(get),
        ..SLOWLOG
    },
    Command {
        name: "slowlog|help",
        flags: &[],
        summary: "Shows what SLOWLOG can do",
        since: "6.2.0",
        action: Action::Run(|_, _, reply| {
            super::introspection::help("SLOWLOG", SUBCOMMANDS, reply);
            Ok(Effect::Unchanged)
        }),
        ..SLOWLOG
    },
    Command {
        name: "slowlog|len",
        summary: "Returns the number of entries",
        action: Action::Run(|session, _, reply| {
            reply.count(session.shared.slowlog.len());
            Ok(Effect::Unchanged)
        }),
        ..SLOWLOG
    },
    Command {
        name: "slowlog|reset",
        summary: "Deletes all entries",
        cost: "O(N) with N entries",
        action: Action::Run(|session, _, reply| {
            session.shared.slowlog.clear();
            reply.ok();
            Ok(Effect::Unchanged)
        }),
        ..SLOWLOG
    },
];

/// How many entries are given when nobody says how many.
const USUAL_COUNT: usize = 10;

fn get(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() > 3 {
        return Err(super::unknown_or_wrong_arity(args.at(1), "SLOWLOG"));
    }
    let count = match args.get(2).map(number::integer) {
        None => USUAL_COUNT,
        Some(Some(-1)) => usize::MAX,
        Some(Some(count)) if count >= 0 => count as usize,
        Some(_) => {
            return Err(Failure::text("ERR count should be greater than or equal to -1"));
        }
    };
    let entries = session.shared.slowlog.newest(count);
    reply.array(entries.len());
    for entry in entries {
        reply.array(6);
        reply.count(entry.id as usize);
        reply.count(entry.unix_seconds as usize);
        reply.count(entry.duration.as_micros() as usize);
        reply.array(entry.arguments.len());
        entry.arguments.iter().for_each(|argument| reply.bulk(argument));
        reply.bulk(entry.address.as_bytes());
        reply.bulk(&entry.client_name);
    }
    Ok(Effect::Unchanged)
}
