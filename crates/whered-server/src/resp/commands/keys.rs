//! Commands about keys, whatever they hold:
//! `DEL UNLINK EXISTS TOUCH TYPE KEYS SCAN RANDOMKEY DBSIZE FLUSHALL FLUSHDB SWAPDB`.
//!
//! Databases, prefix sets and pools are no keys and are not seen here.

use std::hash::{BuildHasher, RandomState};

use whered_engine::{DATABASE_COUNT, Kind};

use super::{
    Access, Action, Channels, Command, Effect, Failure, Flag, InTransaction, KeySpec, Members,
    NameKind, NameSpec, Outcome, SYNTAX_ERROR, WhenFull, integer, number,
};
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::Session;
use whered_engine::glob;

const KEYS: Command = Command {
    name: "",
    arity: 1,
    flags: &[Flag::ReadOnly, Flag::Fast],
    group: "generic",
    keys: &[],
    names: &[],
    channels: Channels::None,
    members: Members::None,
    when_full: WhenFull::Runs,
    in_transaction: InTransaction::Queued,
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
        flags: &[Flag::ReadOnly, Flag::Fast, Flag::Keyspace, Flag::ListsKeys],
        summary: "Returns the number of keys",
        action: Action::Run(|session, _, reply| {
            reply.count(session.engine().keyspace().len(session.number));
            Ok(Effect::Unchanged)
        }),
        ..KEYS
    },
    Command {
        name: "del",
        arity: -2,
        flags: &[Flag::Write],
        keys: &[KeySpec::from(1, Access::Delete)],
        when_full: WhenFull::Frees,
        syntax: "key [key ...]",
        summary: "Removes keys",
        cost: "O(N) with N members of the collections removed",
        action: Action::Run(delete),
        ..KEYS
    },
    Command {
        name: "exists",
        arity: -2,
        keys: &[KeySpec::from(1, Access::Look)],
        syntax: "key [key ...]",
        summary: "Counts the keys that exist; a key named twice counts twice",
        cost: "O(N) with N keys",
        action: Action::Run(exists),
        ..KEYS
    },
    Command {
        name: "flushall",
        names: &[NameSpec::All(NameKind::Key)],
        when_full: WhenFull::Frees,
        arity: -1,
        flags: &[Flag::Write, Flag::Dangerous, Flag::Keyspace],
        group: "server",
        syntax: "[ASYNC|SYNC]",
        summary: "Removes all keys of all numbered databases",
        cost: "O(N) with N members",
        action: Action::Run(|session, args, reply| flush(session, args, reply, None)),
        ..KEYS
    },
    Command {
        name: "flushdb",
        names: &[NameSpec::All(NameKind::Key)],
        when_full: WhenFull::Frees,
        arity: -1,
        flags: &[Flag::Write, Flag::Dangerous, Flag::Keyspace],
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
        names: &[NameSpec::Shown(NameKind::Key)],
        arity: 2,
        flags: &[Flag::ReadOnly, Flag::Dangerous, Flag::ListsKeys],
        syntax: "pattern",
        summary: "Returns all keys that match a pattern",
        cost: "O(N) with N keys",
        action: Action::Run(keys),
        ..KEYS
    },
    Command {
        name: "randomkey",
        names: &[NameSpec::All(NameKind::Key)],
        flags: &[Flag::ReadOnly, Flag::ListsKeys],
        summary: "Returns a random key",
        cost: "O(log(N)) with N keys",
        action: Action::Run(random_key),
        ..KEYS
    },
    Command {
        name: "scan",
        names: &[NameSpec::Shown(NameKind::Key)],
        arity: -2,
        flags: &[Flag::ReadOnly, Flag::ListsKeys],
        syntax: "cursor [MATCH pattern] [COUNT count] [TYPE type]",
        summary: "Iterates over the keys",
        cost: "O(count) a step",
        since: "2.8.0",
        action: Action::Run(scan),
        ..KEYS
    },
    Command {
        name: "swapdb",
        names: &[NameSpec::All(NameKind::Key)],
        when_full: WhenFull::Refused,
        arity: 3,
        flags: &[Flag::Write, Flag::Fast, Flag::Dangerous],
        group: "server",
        syntax: "index1 index2",
        summary: "Swaps the keys of two numbered databases",
        since: "4.0.0",
        action: Action::Run(swap),
        ..KEYS
    },
    Command {
        name: "touch",
        arity: -2,
        keys: &[KeySpec::from(1, Access::Read)],
        syntax: "key [key ...]",
        summary: "Counts the keys that exist, and updates their time of last use",
        cost: "O(N) with N keys",
        since: "3.2.1",
        action: Action::Run(touch),
        ..KEYS
    },
    Command {
        name: "type",
        arity: 2,
        keys: &[KeySpec::at(1, Access::Look)],
        syntax: "key",
        summary: "Returns the type of a key: zset, string or none",
        action: Action::Run(|session, args, reply| {
            let kind = session.engine().keyspace().kind(session.number, args.at(1));
            session.count_lookup(kind.is_some());
            reply.simple(kind.map_or("none", kind_name));
            Ok(Effect::Unchanged)
        }),
        ..KEYS
    },
    Command {
        name: "unlink",
        arity: -2,
        flags: &[Flag::Write, Flag::Fast],
        keys: &[KeySpec::from(1, Access::Delete)],
        when_full: WhenFull::Frees,
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
    if args.len() == 2 {
        let written = keyspace.delete_keys(session.number, &[args.at(1)])?;
        reply.hold(written.ticket);
        reply.count(written.value);
        return Ok(Effect::changed_if(written.value > 0));
    }
    let keys: Vec<&[u8]> = args.from(1).collect();
    let mut removed = Vec::new();
    let written = keyspace.delete_each_key(session.number, &keys, |key| {
        // Whoever watches from now on finds the key removed.
        if !session.shared.watches.is_empty() {
            removed.push(key);
        }
    })?;
    removed.iter().for_each(|key| session.shared.watches.mark(session.number, key));
    reply.hold(written.ticket);
    reply.count(written.value);
    Ok(if written.value > 0 { Effect::Reported } else { Effect::Unchanged })
}

fn exists(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let keyspace = session.engine().keyspace();
    let exists = |key: &&[u8]| {
        let exists = keyspace.exists(session.number, key);
        session.count_lookup(exists);
        exists
    };
    reply.count(args.from(1).filter(exists).count());
    Ok(Effect::Unchanged)
}

fn touch(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let keyspace = session.engine().keyspace();
    let touch = |key: &&[u8]| {
        let exists = keyspace.touch(session.number, key);
        session.count_lookup(exists);
        exists
    };
    reply.count(args.from(1).filter(touch).count());
    Ok(Effect::Unchanged)
}

/// What `TYPE` says.
pub(super) fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::SortedSet => "zset",
        Kind::Text => "string",
    }
}

fn random_key(session: &mut Session, _: Args<'_>, reply: &mut Reply) -> Outcome {
    // The standard library seeds each hasher from the system's random numbers.
    let random = RandomState::new().hash_one(session.client.id);
    match session.engine().keyspace().random_key(session.number, random) {
        Some(key) => reply.bulk(&key),
        None => reply.null(),
    }
    Ok(Effect::Unchanged)
}

fn swap(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let index = |at: usize, error: &'static str| {
        let index = number::integer(args.at(at)).and_then(|index| i32::try_from(index).ok());
        index.ok_or(Failure::text(error))
    };
    let first = index(1, "ERR invalid first DB index")?;
    let second = index(2, "ERR invalid second DB index")?;
    let number = |index: i32| {
        let number = usize::try_from(index).ok().filter(|number| *number < DATABASE_COUNT);
        number.ok_or(Failure::text("ERR DB index is out of range"))
    };
    let (first, second) = (number(first)?, number(second)?);
    let keyspace = session.engine().keyspace();
    let written = keyspace.swap_numbers(first, second)?;
    reply.hold(written.ticket);
    reply.ok();
    if first == second {
        return Ok(Effect::Unchanged);
    }
    let watches = &session.shared.watches;
    watches.mark_swapped([first, second], |number, key| keyspace.exists(number, key));
    Ok(Effect::Reported)
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
    // EXEC finds out by itself which watched keys have gone.
    Ok(Effect::Changed)
}

fn keys(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let mut keys = session.engine().keyspace().keys(session.number);
    keys.retain(|key| glob::matches(args.at(1), key) && session.user.may_touch(key));
    reply.array(keys.len());
    keys.iter().for_each(|key| reply.bulk(key));
    Ok(Effect::Unchanged)
}

fn scan(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let cursor = number::cursor(args.at(1)).ok_or(Failure::text("ERR invalid cursor"))?;
    let (mut count, mut pattern, mut kind) = (10, None, None);
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
            kind = Some(number::until_zero(value));
        } else {
            return Err(SYNTAX_ERROR);
        }
        at += 2;
    }
    let (next, mut keys) = session.engine().keyspace().scan(session.number, cursor, count);
    keys.retain(|(key, found)| {
        kind.is_none_or(|kind| kind.eq_ignore_ascii_case(kind_name(*found).as_bytes()))
            && pattern.is_none_or(|pattern| glob::matches(pattern, key))
            && session.user.may_touch(key)
    });
    reply.array(2);
    reply.bulk(next.to_string().as_bytes());
    reply.array(keys.len());
    keys.iter().for_each(|(key, _)| reply.bulk(key));
    Ok(Effect::Unchanged)
}
