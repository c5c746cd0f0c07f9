//! Replication, as clients and other servers ask about it: `ROLE WAIT WAITAOF REPLICAOF SLAVEOF
//! SYNC PSYNC REPLCONF`.
//!
//! No Redis or Valkey can be a replica of this server, since only sorted sets are here: that is
//! refused with the reason. Another whered can (`upstream`). Not for: the primaries that this
//! server follows (`replica`).

use whered_replication::{FOLLOWS_OPTION, Follows};

use std::sync::Arc;

use super::{
    Action, Channels, Command, Effect, Failure, Flag, InTransaction, Members, OPERATOR, Outcome,
    WhenFull, database_number, integer, number, wrong_arity,
};
use crate::replica::LinkState;
use crate::resp::background;
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::{FollowerRequest, Session};

const WAIT: Command = Command {
    name: "wait",
    arity: 3,
    flags: &[],
    group: "generic",
    keys: &[],
    names: &[],
    channels: Channels::None,
    members: Members::None,
    when_full: WhenFull::Runs,
    in_transaction: InTransaction::Queued,
    syntax: "numreplicas timeout",
    summary: "Returns at once how many replicas have this connection's writes: 0, for none has",
    cost: "O(1)",
    since: "3.0.0",
    action: Action::Run(wait),
};

const REPLICATE: Command =
    Command { arity: 3, in_transaction: InTransaction::Refused, since: "1.0.0", ..OPERATOR };

pub(super) const COMMANDS: &[Command] = &[
    WAIT,
    Command {
        name: "waitaof",
        arity: 4,
        syntax: "numlocal numreplicas timeout",
        summary: "Returns at once how many servers have this connection's writes on disk: 1 here, for \
                  a write is answered when it is durable, and 0 replicas",
        since: "7.2.0",
        action: Action::Run(wait_durable),
        ..WAIT
    },
    Command {
        name: "role",
        arity: 1,
        flags: &[Flag::Admin, Flag::Dangerous, Flag::Fast],
        summary: "Returns the role in replication: that of a primary without replicas, or of a replica \
                  of the first primary that is followed",
        since: "2.8.12",
        action: Action::Run(role),
        ..OPERATOR
    },
    Command {
        name: "replicaof",
        syntax: "NO ONE",
        summary: "Ends replication: what was followed is own keys from now on. To follow a primary is \
                  refused: `[[replica]]` of the configuration names it",
        since: "5.0.0",
        action: Action::Run(replica_of),
        ..REPLICATE
    },
    Command {
        name: "slaveof",
        syntax: "NO ONE",
        summary: "An alias of `REPLICAOF`",
        action: Action::Run(replica_of),
        ..REPLICATE
    },
    Command {
        name: "psync",
        arity: -3,
        syntax: "replicationid offset",
        in_transaction: InTransaction::Refused,
        summary: "Sends the stream of a `[[replica]]` to another whered, and makes the connection that \
                  of a replica; refused to Redis and Valkey",
        since: "2.8.0",
        action: Action::Run(psync),
        ..REPLICATE
    },
    Command {
        name: "sync",
        arity: 1,
        summary: "Refused: there is no stream of commands that a replica could follow",
        action: Action::Run(|_, _, _| Err(NO_STREAM)),
        ..REPLICATE
    },
    Command {
        name: "replconf",
        arity: -3,
        in_transaction: InTransaction::Refused,
        syntax: "option value [value ...]",
        summary: "Says what a replica is; `whered-follows database pattern ...` says which keys another \
                  whered follows",
        since: "3.0.0",
        action: Action::Run(replica_says),
        ..REPLICATE
    },
];

const NO_STREAM: Failure = Failure::text(
    "ERR whered has no replication stream for Redis or Valkey: let both follow one primary, or copy \
     keys by DUMP and RESTORE",
);

/// Other servers say more of themselves, which changes nothing here.
fn replica_says(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.is(1, FOLLOWS_OPTION) {
        let database = database_number(args.at(2))? as u32;
        let patterns: Vec<Vec<u8>> = args.from(3).map(<[u8]>::to_vec).collect();
        if patterns.is_empty() {
            return Err(wrong_arity("replconf"));
        }
        session.follower = None;
        let upstream = &session.shared.context.replicas.upstream;
        let source = upstream.find(&Follows { database, patterns }).map_err(Failure::made)?;
        session.follower = Some(FollowerRequest { source, wanted: None });
    }
    reply.ok();
    Ok(Effect::Unchanged)
}

/// The reply comes from the thread that the connection goes to.
fn psync(session: &mut Session, args: Args<'_>, _: &mut Reply) -> Outcome {
    let follower = session.follower.as_mut().ok_or(NO_STREAM)?;
    let id = std::str::from_utf8(args.at(1)).ok().and_then(|id| id.parse().ok());
    // The place that is asked for is that of the next byte.
    let offset = number::integer(args.at(2)).and_then(|next| next.checked_sub(1));
    follower.wanted = Some(id.zip(offset));
    session.closing = true;
    Ok(Effect::Unchanged)
}

fn check_timeout(text: &[u8]) -> Result<(), Failure> {
    match number::integer(text) {
        None => Err(Failure::text("ERR timeout is not an integer or out of range")),
        Some(..0) => Err(Failure::text("ERR timeout is negative")),
        Some(_) => Ok(()),
    }
}

fn wait(_: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    integer(args.at(1))?;
    check_timeout(args.at(2))?;
    reply.count(0);
    Ok(Effect::Unchanged)
}

fn wait_durable(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let local = integer(args.at(1))?;
    if !(0..=1).contains(&local) {
        let text = "ERR value is out of range, value must between 0 and 1";
        return Err(Failure::text(text));
    }
    let replicas = number::integer(args.at(2)).filter(|count| *count >= 0);
    replicas.ok_or(Failure::text("ERR value is out of range, must be positive"))?;
    check_timeout(args.at(3))?;
    let is_durable = session.engine().journal_stats().is_some();
    if local > 0 && !is_durable {
        return Err(Failure::text(
            "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.",
        ));
    }
    reply.array(2);
    reply.count(usize::from(is_durable));
    reply.count(0);
    Ok(Effect::Unchanged)
}

fn role(session: &mut Session, _: Args<'_>, reply: &mut Reply) -> Outcome {
    if let Some(link) = session.shared.context.replicas.links().first() {
        let primary = link.primary();
        let (host, port) = primary.rsplit_once(':').unwrap_or((&primary, "0"));
        reply.array(5);
        reply.bulk(b"slave");
        reply.bulk(host.as_bytes());
        reply.integer(port.parse().unwrap_or(0));
        reply.bulk(match link.state() {
            LinkState::Connecting => b"connecting",
            LinkState::Synchronizing => b"sync",
            LinkState::Up => b"connected",
            LinkState::Down(_) => b"connect",
        });
        reply.integer(link.offset());
        return Ok(Effect::Unchanged);
    }
    reply.array(3);
    reply.bulk(b"master");
    reply.integer(0);
    reply.array(0);
    Ok(Effect::Unchanged)
}

fn replica_of(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.is(1, "no") && args.is(2, "one") {
        let replicas = Arc::clone(&session.shared.context.replicas);
        return background::begin(session, reply, move |_| {
            let promoted = replicas.promote();
            Box::new(|reply: &mut Reply| {
                promoted?;
                reply.ok();
                Ok(Effect::Unchanged)
            })
        });
    }
    let port = number::integer(args.at(2)).filter(|port| (0..=65535).contains(port));
    if port.is_none() {
        return Err(Failure::text("ERR Invalid master port"));
    }
    Err(Failure::text(
        "ERR REPLICAOF cannot follow a primary: name it in [[replica]] of the configuration",
    ))
}
