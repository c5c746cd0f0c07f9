//! The end of keys: `EXPIRE PEXPIRE EXPIREAT PEXPIREAT PERSIST TTL PTTL EXPIRETIME PEXPIRETIME`.
//!
//! Times are kept in milliseconds since 1970; a time that has come removes the key at once.

use whered_engine::ExpiryCondition;

use super::{
    Access, Action, Channels, Command, Effect, Failure, Flag, InTransaction, KeySpec, Members,
    Outcome, WhenFull, cut, integer,
};
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::Session;

const EXPIRE: Command = Command {
    name: "",
    arity: -3,
    flags: &[Flag::Write, Flag::Fast],
    group: "generic",
    keys: &[KeySpec::at(1, Access::Update)],
    names: &[],
    channels: Channels::None,
    members: Members::None,
    when_full: WhenFull::Frees,
    in_transaction: InTransaction::Queued,
    syntax: "",
    summary: "",
    cost: "O(log(N)) with N keys that expire",
    since: "1.0.0",
    action: Action::Subcommands(&[]),
};

const READ: Command = Command {
    arity: 2,
    flags: &[Flag::ReadOnly, Flag::Fast],
    keys: &[KeySpec::at(1, Access::Read)],
    when_full: WhenFull::Runs,
    syntax: "key",
    cost: "O(1)",
    ..EXPIRE
};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "expire",
        syntax: "key seconds [NX|XX|GT|LT]",
        summary: "Sets the time until a key expires, in seconds",
        action: Action::Run(|session, args, reply| {
            let time = Time { unit_millis: 1000, is_absolute: false, name: "expire" };
            expire(session, args, reply, time)
        }),
        ..EXPIRE
    },
    Command {
        name: "expireat",
        syntax: "key unix-time-seconds [NX|XX|GT|LT]",
        summary: "Sets the time at which a key expires, in seconds since 1970",
        since: "1.2.0",
        action: Action::Run(|session, args, reply| {
            let time = Time { unit_millis: 1000, is_absolute: true, name: "expireat" };
            expire(session, args, reply, time)
        }),
        ..EXPIRE
    },
    Command {
        name: "expiretime",
        summary: "Returns the time at which a key expires, in seconds since 1970; -1: never, -2: no such key",
        since: "7.0.0",
        action: Action::Run(|session, args, reply| remaining(session, args, reply, 1000, true)),
        ..READ
    },
    Command {
        name: "persist",
        arity: 2,
        syntax: "key",
        summary: "Removes a key's expiry",
        since: "2.2.0",
        action: Action::Run(persist),
        ..EXPIRE
    },
    Command {
        name: "pexpire",
        syntax: "key milliseconds [NX|XX|GT|LT]",
        summary: "Sets the time until a key expires, in milliseconds",
        since: "2.6.0",
        action: Action::Run(|session, args, reply| {
            let time = Time { unit_millis: 1, is_absolute: false, name: "pexpire" };
            expire(session, args, reply, time)
        }),
        ..EXPIRE
    },
    Command {
        name: "pexpireat",
        syntax: "key unix-time-milliseconds [NX|XX|GT|LT]",
        summary: "Sets the time at which a key expires, in milliseconds since 1970",
        since: "2.6.0",
        action: Action::Run(|session, args, reply| {
            let time = Time { unit_millis: 1, is_absolute: true, name: "pexpireat" };
            expire(session, args, reply, time)
        }),
        ..EXPIRE
    },
    Command {
        name: "pexpiretime",
        summary: "Returns the time at which a key expires, in milliseconds since 1970",
        since: "7.0.0",
        action: Action::Run(|session, args, reply| remaining(session, args, reply, 1, true)),
        ..READ
    },
    Command {
        name: "pttl",
        keys: &[KeySpec::at(1, Access::Look)],
        summary: "Returns the milliseconds until a key expires; -1: never, -2: no such key",
        since: "2.6.0",
        action: Action::Run(|session, args, reply| remaining(session, args, reply, 1, false)),
        ..READ
    },
    Command {
        name: "ttl",
        keys: &[KeySpec::at(1, Access::Look)],
        summary: "Returns the seconds until a key expires; -1: never, -2: no such key",
        action: Action::Run(|session, args, reply| remaining(session, args, reply, 1000, false)),
        ..READ
    },
];

/// How a command gives a time.
#[derive(Clone, Copy)]
pub(super) struct Time {
    pub(super) unit_millis: i64,
    pub(super) is_absolute: bool,
    /// The command's name, for its error.
    pub(super) name: &'static str,
}

impl Time {
    /// The time is beyond what is counted.
    pub(super) fn invalid(self) -> Failure {
        Failure::made(format!("ERR invalid expire time in '{}' command", self.name))
    }

    /// Milliseconds since 1970.
    pub(super) fn millis(self, value: i64, now_millis: u64) -> Result<i64, Failure> {
        let millis = value.checked_mul(self.unit_millis).ok_or(self.invalid())?;
        if self.is_absolute {
            return Ok(millis);
        }
        let now_millis = i64::try_from(now_millis).unwrap_or(i64::MAX);
        millis.checked_add(now_millis).ok_or(self.invalid())
    }
}

fn expire(session: &mut Session, args: Args<'_>, reply: &mut Reply, time: Time) -> Outcome {
    let condition = read_condition(args)?;
    let keyspace = session.engine().keyspace();
    let at_millis = time.millis(integer(args.at(2))?, keyspace.now_millis())?;
    let written = keyspace.set_expiry(session.number, args.at(1), at_millis, condition)?;
    reply.hold(written.ticket);
    reply.count(usize::from(written.value));
    Ok(Effect::changed_if(written.value))
}

fn read_condition(args: Args<'_>) -> Result<ExpiryCondition, Failure> {
    let mut condition = ExpiryCondition::default();
    for at in 3..args.len() {
        match () {
            () if args.is(at, "nx") => condition.only_new = true,
            () if args.is(at, "xx") => condition.only_existing = true,
            () if args.is(at, "gt") => condition.only_later = true,
            () if args.is(at, "lt") => condition.only_earlier = true,
            () => {
                let mut text = b"ERR Unsupported option ".to_vec();
                text.extend_from_slice(cut(args.at(at), args.at(at).len()));
                return Err(Failure::made(text));
            }
        }
    }
    let ExpiryCondition { only_new, only_existing, only_later, only_earlier } = condition;
    if only_new && (only_existing || only_later || only_earlier) {
        return Err(Failure::text(
            "ERR NX and XX, GT or LT options at the same time are not compatible",
        ));
    }
    if only_later && only_earlier {
        return Err(Failure::text("ERR GT and LT options at the same time are not compatible"));
    }
    Ok(condition)
}

fn persist(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let written = session.engine().keyspace().persist(session.number, args.at(1))?;
    reply.hold(written.ticket);
    reply.count(usize::from(written.value));
    Ok(Effect::changed_if(written.value))
}

fn remaining(
    session: &mut Session,
    args: Args<'_>,
    reply: &mut Reply,
    unit_millis: u64,
    absolute: bool,
) -> Outcome {
    let keyspace = session.engine().keyspace();
    let expiry = keyspace.expires_at_millis(session.number, args.at(1));
    session.count_lookup(expiry.is_some());
    let value = match expiry {
        None => -2,
        Some(None) => -1,
        Some(Some(at)) => {
            let from = if absolute { 0 } else { keyspace.now_millis() };
            let millis = at.saturating_sub(from);
            // Seconds are rounded to the nearest.
            i64::try_from((millis + unit_millis / 2) / unit_millis).unwrap_or(i64::MAX)
        }
    };
    reply.integer(value);
    Ok(Effect::Unchanged)
}
