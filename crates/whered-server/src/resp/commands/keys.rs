//! Commands about keys, whatever they hold:
//! `DEL UNLINK EXISTS TYPE KEYS SCAN DBSIZE FLUSHALL FLUSHDB`.
//!
//! Every key is a collection. Databases, prefix sets and pools are no keys and are not seen here.

use super::{Action, Command, Failure, Flag, Members, Outcome, SYNTAX_ERROR, integer, number};
use crate::resp::glob;
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::Session;

const KEYS: Command = Command {
    name: "",
    arity: 1,
    flags: &[Flag::ReadOnly, Flag::Fast],
    group: "generic",
    keys: (0, 0, 0),
    members: Members::None,
    syntax: "",
    summary: "",
    cost: "O(1)",
    since: "1.0.0",
    action: Action::Subcommands(&[]),
};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "dbsize",
        group: "server",
        summary: "Gives the number of keys",
        action: Action::Run(|session, _, reply| {
            reply.count(session.engine().keyspace().len(session.number));
            Ok(())
        }),
        ..KEYS
    },
    Command {
        name: "del",
        arity: -2,
        flags: &[Flag::Write],
        keys: (1, -1, 1),
        syntax: "key [key ...]",
        summary: "Removes keys",
        cost: "O(N) with N members of the collections removed",
        action: Action::Run(delete),
        ..KEYS
    },
    Command {
        name: "exists",
        arity: -2,
        keys: (1, -1, 1),
        syntax: "key [key ...]",
        summary: "Counts the keys that exist, one named twice twice",
        cost: "O(N) with N keys",
        action: Action::Run(exists),
        ..KEYS
    },
    Command {
        name: "flushall",
        arity: -1,
        flags: &[Flag::Write, Flag::Dangerous],
        group: "server",
        syntax: "[ASYNC|SYNC]",
        summary: "Removes all keys of all numbered databases",
        cost: "O(N) with N members",
        action: Action::Run(|session, args, reply| flush(session, args, reply, None)),
        ..KEYS
    },
    Command {
        name: "flushdb",
        arity: -1,
        flags: &[Flag::Write, Flag::Dangerous],
        group: "server",
        syntax: "[ASYNC|SYNC]",
        summary: "Removes all keys of the chosen numbered database",
        cost: "O(N) with N members",
        action: Action::Run(|session, args, reply| {
            let number = session.number;
            flush(session, args, reply, Some(number))
        }),
        ..KEYS
    },
    Command {
        name: "keys",
        arity: 2,
        flags: &[Flag::ReadOnly, Flag::Dangerous],
        syntax: "pattern",
        summary: "Gives all keys that match a pattern",
        cost: "O(N) with N keys",
        action: Action::Run(keys),
        ..KEYS
    },
    Command {
        name: "scan",
        arity: -2,
        flags: &[Flag::ReadOnly],
        syntax: "cursor [MATCH pattern] [COUNT count] [TYPE type]",
        summary: "Goes through the keys step by step",
        cost: "O(count) a step",
        since: "2.8.0",
        action: Action::Run(scan),
        ..KEYS
    },
    Command {
        name: "type",
        arity: 2,
        keys: (1, 1, 1),
        syntax: "key",
        summary: "Says what a key holds: zset or none",
        action: Action::Run(|session, args, reply| {
            let exists = session.engine().keyspace().exists(session.number, args.at(1));
            reply.simple(if exists { "zset" } else { "none" });
            Ok(())
        }),
        ..KEYS
    },
    Command {
        name: "unlink",
        arity: -2,
        flags: &[Flag::Write, Flag::Fast],
        keys: (1, -1, 1),
        syntax: "key [key ...]",
        summary: "Removes keys",
        cost: "O(N) with N members of the collections removed",
        since: "4.0.0",
        action: Action::Run(delete),
        ..KEYS
    },
];

fn delete(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let keyspace = session.engine().keyspace();
    let written = if args.len() == 2 {
        keyspace.delete_keys(session.number, &[args.at(1)])?
    } else {
        let keys: Vec<&[u8]> = args.from(1).collect();
        keyspace.delete_keys(session.number, &keys)?
    };
    reply.hold(written.ticket);
    reply.count(written.value);
    Ok(())
}

fn exists(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let keyspace = session.engine().keyspace();
    reply.count(args.from(1).filter(|key| keyspace.exists(session.number, key)).count());
    Ok(())
}

fn flush(
    session: &mut Session,
    args: Args<'_>,
    reply: &mut Reply,
    number: Option<usize>,
) -> Outcome {
    // Both ways are the same here: what was emptied is freed after the lock is given back.
    match args.len() {
        1 => {}
        2 if args.is(1, "sync") || args.is(1, "async") => {}
        _ => return Err(SYNTAX_ERROR),
    }
    let written = session.engine().keyspace().flush(number)?;
    reply.hold(written.ticket);
    reply.ok();
    Ok(())
}

fn keys(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let mut keys = session.engine().keyspace().keys(session.number);
    keys.retain(|key| glob::matches(args.at(1), key));
    reply.array(keys.len());
    keys.iter().for_each(|key| reply.bulk(key));
    Ok(())
}

fn scan(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let cursor = number::cursor(args.at(1)).ok_or(Failure::text("ERR invalid cursor"))?;
    let (mut count, mut pattern, mut kind_fits) = (10, None, true);
    let mut at = 2;
    while at < args.len() {
        let Some(value) = args.get(at + 1) else {
            return Err(SYNTAX_ERROR);
        };
        if args.is(at, "count") {
            count = match usize::try_from(integer(value)?) {
                Ok(count) if count > 0 => count,
                _ => return Err(SYNTAX_ERROR),
            };
        } else if args.is(at, "match") {
            pattern = Some(value);
        } else if args.is(at, "type") {
            kind_fits = number::until_zero(value).eq_ignore_ascii_case(b"zset");
        } else {
            return Err(SYNTAX_ERROR);
        }
        at += 2;
    }
    let (next, mut keys) = session.engine().keyspace().scan(session.number, cursor, count);
    keys.retain(|key| kind_fits && pattern.is_none_or(|pattern| glob::matches(pattern, key)));
    reply.array(2);
    reply.bulk(next.to_string().as_bytes());
    reply.array(keys.len());
    keys.iter().for_each(|key| reply.bulk(key));
    Ok(())
}
