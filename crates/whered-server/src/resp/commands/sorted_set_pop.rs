//! Removing the first or last members and returning them: `ZPOPMIN ZPOPMAX ZMPOP`, and
//! `BZPOPMIN BZPOPMAX BZMPOP`, which wait for some.
//!
//! For: arguments, in the order in which Redis 7.0.15 checks them, and replies. Not for: who waits
//! and is served when (`resp/waiting`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::sorted_set::SORTED_SET;
use super::{
    Access, Action, Command, Effect, Failure, Flag, KeySpec, Outcome, SYNTAX_ERROR, WhenFull,
    integer, number,
};
use crate::resp::background::BackgroundCommand;
use crate::resp::protocol::Args;
use crate::resp::reply::{Protocol, Reply};
use crate::resp::session::Session;
use crate::resp::waiting::{self, PopForm, PopOutcome, PopRequest};

const POP: Command = Command {
    flags: &[Flag::Write, Flag::Fast],
    keys: &[KeySpec::at(1, Access::Update)],
    when_full: WhenFull::Frees,
    arity: -2,
    syntax: "key [count]",
    cost: "O(M*log(N)) with N members of which M are removed",
    since: "5.0.0",
    ..SORTED_SET
};

const BLOCKING: Command = Command {
    flags: &[Flag::Write, Flag::Fast, Flag::Blocking],
    keys: &[KeySpec::before_end(1, 1, Access::Move)],
    arity: -3,
    syntax: "key [key ...] timeout",
    cost: "O(log(N)) with N members",
    ..POP
};

const SEVERAL: Command = Command {
    flags: &[Flag::Write],
    keys: &[KeySpec::counted(1, Access::Move)],
    arity: -4,
    syntax: "numkeys key [key ...] MIN|MAX [COUNT count]",
    cost: "O(K)+O(M*log(N)) with K keys and N members of which M are removed",
    since: "7.0.0",
    ..POP
};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "bzmpop",
        arity: -5,
        flags: &[Flag::Write, Flag::Blocking],
        keys: &[KeySpec::counted(2, Access::Move)],
        syntax: "timeout numkeys key [key ...] MIN|MAX [COUNT count]",
        summary: "Does as ZMPOP, and waits while all keys are empty; a timeout of 0 is for ever",
        action: Action::Run(|session, args, reply| {
            let (keys, request) = read_several(args, 2)?;
            pop_or_wait(session, &keys, request, args.at(1), reply)
        }),
        ..SEVERAL
    },
    Command {
        name: "bzpopmax",
        summary: "Does as ZPOPMAX for the first key that has members, and waits while none has",
        action: Action::Run(|session, args, reply| blocking_pop(session, args, reply, true)),
        ..BLOCKING
    },
    Command {
        name: "bzpopmin",
        summary: "Does as ZPOPMIN for the first key that has members, and waits while none has",
        action: Action::Run(|session, args, reply| blocking_pop(session, args, reply, false)),
        ..BLOCKING
    },
    Command {
        name: "zmpop",
        summary: "Removes the first or last members of the first key that has some, and returns them",
        action: Action::Run(|session, args, reply| {
            let (keys, request) = read_several(args, 1)?;
            match waiting::pop_first(session.engine().keyspace(), session.number, &keys, request)? {
                Some(popped) => {
                    session.shared.watches.mark(session.number, &popped.key);
                    popped.write(request.form, reply);
                    Ok(Effect::Reported)
                }
                None => {
                    reply.null_array();
                    Ok(Effect::Unchanged)
                }
            }
        }),
        ..SEVERAL
    },
    Command {
        name: "zpopmax",
        summary: "Removes the members with the highest scores and returns them",
        action: Action::Run(|session, args, reply| pop(session, args, reply, true)),
        ..POP
    },
    Command {
        name: "zpopmin",
        summary: "Removes the members with the lowest scores and returns them",
        action: Action::Run(|session, args, reply| pop(session, args, reply, false)),
        ..POP
    },
];

fn pop(session: &mut Session, args: Args<'_>, reply: &mut Reply, highest: bool) -> Outcome {
    if args.len() > 3 {
        return Err(SYNTAX_ERROR);
    }
    let count = match args.get(2) {
        None => 1,
        Some(text) => {
            let count = number::integer(text).and_then(|count| usize::try_from(count).ok());
            count.ok_or(Failure::text("ERR value is out of range, must be positive"))?
        }
    };
    let written = session.engine().keyspace().pop(session.number, args.at(1), count, highest)?;
    reply.hold(written.ticket);
    let in_pairs = args.len() == 3 && reply.protocol == Protocol::Resp3;
    reply.array(written.value.len() * if in_pairs { 1 } else { 2 });
    for (member, score) in &written.value {
        if in_pairs {
            reply.array(2);
        }
        reply.bulk(member);
        reply.double(*score);
    }
    Ok(Effect::changed_if(!written.value.is_empty()))
}

/// The keys and the request of `ZMPOP` and `BZMPOP`, whose number of keys stands at an index.
fn read_several(args: Args<'_>, at: usize) -> Result<(Vec<&[u8]>, PopRequest), Failure> {
    let positive = |text: &[u8], error: &'static str| {
        let count = integer(text).ok().and_then(|count| usize::try_from(count).ok());
        count.filter(|count| *count > 0).ok_or(Failure::text(error))
    };
    let count = positive(args.at(at), "ERR numkeys should be greater than 0")?;
    let end = count.checked_add(at + 1).filter(|end| *end < args.len()).ok_or(SYNTAX_ERROR)?;
    let highest = match () {
        () if args.is(end, "min") => false,
        () if args.is(end, "max") => true,
        () => return Err(SYNTAX_ERROR),
    };
    let most = match args.len() - end - 1 {
        0 => 1,
        2 if args.is(end + 1, "count") => {
            positive(args.at(end + 2), "ERR count should be greater than 0")?
        }
        // Redis reads the first count before it finds a second one wrong.
        3.. if args.is(end + 1, "count") => {
            positive(args.at(end + 2), "ERR count should be greater than 0")?;
            return Err(SYNTAX_ERROR);
        }
        _ => return Err(SYNTAX_ERROR),
    };
    let keys = args.skip(at + 1).first(count).collect();
    Ok((keys, PopRequest { highest, most, form: PopForm::Several }))
}

fn blocking_pop(
    session: &mut Session,
    args: Args<'_>,
    reply: &mut Reply,
    highest: bool,
) -> Outcome {
    let keys: Vec<&[u8]> = args.skip(1).first(args.len() - 2).collect();
    let request = PopRequest { highest, most: 1, form: PopForm::One };
    pop_or_wait(session, &keys, request, args.at(args.len() - 1), reply)
}

/// Pops from the first key that has members, or lets the connection wait for some.
fn pop_or_wait(
    session: &mut Session,
    keys: &[&[u8]],
    request: PopRequest,
    timeout: &[u8],
    reply: &mut Reply,
) -> Outcome {
    let timeout = read_timeout(timeout)?;
    let shared = Arc::clone(&session.shared);
    let keyspace = shared.engine.keyspace();
    let number = session.number;
    // Nobody overtakes those who wait.
    let is_first = session.in_exec || shared.waiting.is_empty();
    let popped = match is_first {
        true => waiting::pop_first(keyspace, number, keys, request)?,
        false => None,
    };
    let outcome = match popped {
        Some(popped) => PopOutcome::Members(popped),
        // Nobody else's write can come within a transaction.
        None if session.in_exec => {
            reply.null_array();
            return Ok(Effect::Unchanged);
        }
        None => {
            let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
            let (keys, own) = ((number, keys), (keyspace, &shared.watches));
            shared.waiting.pop_or_wait(&session.client, own, keys, request, deadline)?
        }
    };
    match outcome {
        PopOutcome::Members(popped) => {
            shared.watches.mark(number, &popped.key);
            popped.write(request.form, reply);
            Ok(Effect::Reported)
        }
        PopOutcome::Waits(pending, wait) => {
            let command = BackgroundCommand::waiting(pending, session.replies, wait);
            session.background = Some(command);
            Ok(Effect::Unchanged)
        }
    }
}

/// A number of seconds, rounded up to milliseconds; `None` is for ever.
fn read_timeout(text: &[u8]) -> Result<Option<Duration>, Failure> {
    let seconds =
        number::float(text).ok_or(Failure::text("ERR timeout is not a float or out of range"))?;
    let millis = (seconds * 1000.0).ceil();
    // Redis says so of what is too large, too.
    if millis < 0.0 || millis >= i64::MAX as f64 {
        return Err(Failure::text("ERR timeout is negative"));
    }
    Ok((millis > 0.0).then(|| Duration::from_millis(millis as u64)))
}
