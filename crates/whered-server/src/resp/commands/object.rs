//! What is to be said of a key beside its value: `OBJECT MEMORY`.
//!
//! Encodings are those that Redis would use; memory is what the value takes here.

use whered_engine::Value;

use super::{
    Access, Action, Channels, Command, Effect, Failure, Flag, InTransaction, KeySpec, Members,
    Outcome, SYNTAX_ERROR, WhenFull, integer,
};
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::Session;

const OBJECT_COMMAND: Command = Command {
    name: "",
    arity: 3,
    flags: &[Flag::ReadOnly],
    group: "generic",
    keys: &[KeySpec::at(2, Access::Read)],
    names: &[],
    channels: Channels::None,
    members: Members::None,
    when_full: WhenFull::Runs,
    in_transaction: InTransaction::Queued,
    syntax: "key",
    summary: "",
    cost: "O(1)",
    since: "2.2.3",
    action: Action::Subcommands(&[]),
};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "memory",
        arity: -2,
        flags: &[],
        group: "server",
        keys: &[],
        names: &[],
        channels: Channels::None,
        members: Members::None,
        when_full: WhenFull::Runs,
        in_transaction: InTransaction::Queued,
        syntax: "subcommand ...",
        summary: "A container for commands about memory",
        cost: "Depends on the subcommand.",
        since: "4.0.0",
        action: Action::Subcommands(MEMORY),
    },
    Command {
        name: "object",
        arity: -2,
        flags: &[],
        keys: &[],
        members: Members::None,
        syntax: "subcommand ...",
        summary: "A container for commands about keys' values",
        cost: "Depends on the subcommand.",
        action: Action::Subcommands(OBJECT),
        ..OBJECT_COMMAND
    },
];

const OBJECT: &[Command] = &[
    Command {
        name: "object|encoding",
        keys: &[KeySpec::at(2, Access::Look)],
        summary: "Returns the encoding that Redis would use for a value",
        action: Action::Run(|session, args, reply| {
            let keyspace = session.engine().keyspace();
            let encoding = keyspace.inspect(session.number, args.at(2), Value::encoding);
            session.count_lookup(encoding.is_some());
            match encoding {
                Some(encoding) => reply.bulk(encoding.as_bytes()),
                None => reply.null(),
            }
            Ok(Effect::Unchanged)
        }),
        ..OBJECT_COMMAND
    },
    Command {
        name: "object|freq",
        summary: "Refused, as by Redis without LFU: uses of keys are not counted",
        since: "4.0.0",
        action: Action::Run(|session, args, reply| {
            let exists = session.engine().keyspace().exists(session.number, args.at(2));
            session.count_lookup(exists);
            if !exists {
                reply.null();
                return Ok(Effect::Unchanged);
            }
            Err(Failure::text(
                "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please \
                 note that when switching between policies at runtime LRU and LFU data will take \
                 some time to adjust.",
            ))
        }),
        ..OBJECT_COMMAND
    },
    Command {
        name: "object|help",
        arity: 2,
        flags: &[],
        keys: &[],
        members: Members::None,
        syntax: "",
        summary: "Shows what OBJECT can do",
        since: "6.2.0",
        action: Action::Run(|_, _, reply| {
            super::introspection::help("OBJECT", OBJECT, reply);
            Ok(Effect::Unchanged)
        }),
        ..OBJECT_COMMAND
    },
    Command {
        name: "object|idletime",
        summary: "Returns the seconds since the last use of a key",
        action: Action::Run(|session, args, reply| {
            let seconds = session.engine().keyspace().idle_seconds(session.number, args.at(2));
            session.count_lookup(seconds.is_some());
            match seconds {
                Some(seconds) => reply.count(seconds as usize),
                None => reply.null(),
            }
            Ok(Effect::Unchanged)
        }),
        ..OBJECT_COMMAND
    },
    Command {
        name: "object|refcount",
        summary: "Returns the reference count that Redis would return",
        action: Action::Run(|session, args, reply| {
            let keyspace = session.engine().keyspace();
            let count = keyspace.inspect(session.number, args.at(2), references);
            session.count_lookup(count.is_some());
            match count {
                Some(count) => reply.integer(count),
                None => reply.null(),
            }
            Ok(Effect::Unchanged)
        }),
        ..OBJECT_COMMAND
    },
];

const MEMORY: &[Command] = &[
    Command {
        name: "memory|help",
        arity: 2,
        flags: &[],
        group: "server",
        keys: &[],
        members: Members::None,
        syntax: "",
        summary: "Shows what MEMORY can do",
        since: "4.0.0",
        action: Action::Run(|_, _, reply| {
            super::introspection::help("MEMORY", MEMORY, reply);
            Ok(Effect::Unchanged)
        }),
        ..OBJECT_COMMAND
    },
    Command {
        name: "memory|usage",
        arity: -3,
        keys: &[KeySpec::at(2, Access::Look)],
        group: "server",
        syntax: "key [SAMPLES count]",
        summary: "Returns an estimate of the bytes of memory that a key takes",
        cost: "O(1), or O(N) for sorted sets with other scores than cells",
        since: "4.0.0",
        action: Action::Run(usage),
        ..OBJECT_COMMAND
    },
];

/// Redis shares the small integers among all keys; everything else has one reference.
fn references(value: &Value) -> i64 {
    let text = value.text().filter(|_| value.encoding() == "int");
    let digits = text.and_then(crate::resp::number::integer);
    if digits.is_some_and(|number| (0..10_000).contains(&number)) { i64::from(i32::MAX) } else { 1 }
}

fn usage(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let mut at = 3;
    while at < args.len() {
        if !args.is(at, "samples") || at + 1 >= args.len() || integer(args.at(at + 1))? < 0 {
            return Err(SYNTAX_ERROR);
        }
        at += 2;
    }
    // Every byte is accounted for: nothing has to be sampled.
    let key = args.at(2);
    let keyspace = session.engine().keyspace();
    match keyspace.inspect(session.number, key, |value| value.memory_bytes() + key.len()) {
        Some(bytes) => reply.count(bytes),
        None => reply.null(),
    }
    Ok(Effect::Unchanged)
}
