//! Keys that get another name or a second one: `RENAME RENAMENX COPY MOVE`.
//!
//! A key takes its expiry time along. What stands in the way is replaced, or stops the command.

use whered_engine::Renamed;

use super::{
    Access, Action, Channels, Command, Effect, Failure, Flag, InTransaction, KeySpec, Members,
    Outcome, SYNTAX_ERROR, WhenFull, database_number,
};
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::Session;

const TRANSFER: Command = Command {
    name: "",
    arity: 3,
    flags: &[Flag::Write],
    group: "generic",
    keys: &[KeySpec::at(1, Access::Move), KeySpec::at(2, Access::Overwrite)],
    names: &[],
    channels: Channels::None,
    members: Members::None,
    when_full: WhenFull::Refused,
    in_transaction: InTransaction::Queued,
    syntax: "key newkey",
    summary: "",
    cost: "O(1), and O(N) when a collection with N members is replaced",
    since: "1.0.0",
    action: Action::Subcommands(&[]),
};

const SAME_OBJECT: Failure = Failure::text("ERR source and destination objects are the same");

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "copy",
        arity: -3,
        keys: &[KeySpec::at(1, Access::Read), KeySpec::at(2, Access::Overwrite)],
        syntax: "source destination [DB destination-db] [REPLACE]",
        summary: "Copies a key",
        cost: "O(N) with N members, during which no key is made or removed",
        since: "6.2.0",
        action: Action::Run(copy),
        ..TRANSFER
    },
    Command {
        name: "move",
        flags: &[Flag::Write, Flag::Fast],
        keys: &[KeySpec::at(1, Access::Update)],
        syntax: "key db",
        summary: "Moves a key to another numbered database, unless its name is taken there",
        cost: "O(1)",
        action: Action::Run(move_key),
        ..TRANSFER
    },
    Command {
        name: "rename",
        when_full: WhenFull::Frees,
        summary: "Renames a key, and replaces the key that had the new name",
        action: Action::Run(rename),
        ..TRANSFER
    },
    Command {
        name: "renamenx",
        flags: &[Flag::Write, Flag::Fast],
        when_full: WhenFull::Frees,
        summary: "Renames a key, unless the new name exists",
        cost: "O(1)",
        action: Action::Run(rename_new),
        ..TRANSFER
    },
];

fn copy(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (mut to_number, mut replace) = (session.number, false);
    let mut at = 3;
    while at < args.len() {
        if args.is(at, "replace") {
            replace = true;
        } else if args.is(at, "db") && at + 1 < args.len() {
            to_number = database_number(args.at(at + 1))?;
            at += 1;
        } else {
            return Err(SYNTAX_ERROR);
        }
        at += 1;
    }
    let (from, to) = (args.at(1), args.at(2));
    if session.number == to_number && from == to {
        return Err(SAME_OBJECT);
    }
    let keyspace = session.engine().keyspace();
    let written = keyspace.copy((session.number, from), (to_number, to), replace)?;
    reply.hold(written.ticket);
    reply.count(usize::from(written.value));
    if !written.value {
        return Ok(Effect::Unchanged);
    }
    session.shared.watches.mark(to_number, to);
    Ok(Effect::Reported)
}

fn move_key(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let to_number = database_number(args.at(2))?;
    if session.number == to_number {
        return Err(SAME_OBJECT);
    }
    let keyspace = session.engine().keyspace();
    let written = keyspace.move_key(session.number, args.at(1), to_number)?;
    reply.hold(written.ticket);
    reply.count(usize::from(written.value));
    if !written.value {
        return Ok(Effect::Unchanged);
    }
    session.shared.watches.mark(session.number, args.at(1));
    session.shared.watches.mark(to_number, args.at(1));
    Ok(Effect::Reported)
}

fn rename(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if change_name(session, args, reply, false)? {
        reply.ok();
    }
    // A key may get the name that it has.
    Ok(Effect::changed_if(args.at(1) != args.at(2)))
}

fn rename_new(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    // A key's own name is taken as well.
    let renamed = change_name(session, args, reply, true)?;
    reply.count(usize::from(renamed));
    Ok(Effect::changed_if(renamed))
}

fn change_name(
    session: &Session,
    args: Args<'_>,
    reply: &mut Reply,
    only_new: bool,
) -> Result<bool, Failure> {
    let keyspace = session.engine().keyspace();
    let written = keyspace.rename(session.number, args.at(1), args.at(2), only_new)?;
    reply.hold(written.ticket);
    match written.value {
        Renamed::Done => Ok(true),
        Renamed::Taken => Ok(false),
        Renamed::NoSuchKey => Err(Failure::text("ERR no such key")),
    }
}
