//! Transactions: `MULTI EXEC DISCARD WATCH UNWATCH`.
//!
//! For: queueing commands, running them in a row, and giving them up when a watched key changed.
//! Not for: how the queue lies in memory (`resp/transaction`), who is kept out (`resp/gate`).
//!
//! The replies of a transaction are one reply: it is held until the last write in it is durable.
//! Each handler returns whether it changed its keys (`effect`). `EXEC` itself notices a key that
//! has expired and one that `FLUSHALL` or `FLUSHDB` has removed.

use std::sync::Arc;

use super::{
    Access, Action, Channels, Command, Effect, Entry, Failure, Flag, InTransaction, KeySpec,
    Members, Outcome, WhenFull, call,
};
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::Session;
use crate::resp::transaction::Queue;

const TRANSACTION: Command = Command {
    name: "",
    arity: 1,
    flags: &[Flag::Fast],
    group: "transactions",
    keys: &[],
    names: &[],
    channels: Channels::None,
    members: Members::None,
    when_full: WhenFull::Runs,
    in_transaction: InTransaction::Queued,
    syntax: "",
    summary: "",
    cost: "O(1)",
    since: "1.2.0",
    action: Action::Subcommands(&[]),
};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "discard",
        in_transaction: InTransaction::Immediate,
        summary: "Discards the commands queued since MULTI",
        cost: "O(N) with N queued commands",
        since: "2.0.0",
        action: Action::Run(|session, _, reply| {
            if !session.transaction.is_open() {
                return Err(Failure::text("ERR DISCARD without MULTI"));
            }
            discard(session);
            reply.ok();
            Ok(Effect::Unchanged)
        }),
        ..TRANSACTION
    },
    Command {
        name: "exec",
        flags: &[Flag::NoSlowlog],
        in_transaction: InTransaction::Executes,
        summary: "Runs the commands queued since MULTI, with no other client's write between them",
        cost: "What the queued commands cost",
        action: Action::Run(exec),
        ..TRANSACTION
    },
    Command {
        name: "multi",
        in_transaction: InTransaction::Immediate,
        summary: "Starts a transaction: the commands that follow are queued",
        action: Action::Run(|session, _, reply| {
            if session.transaction.is_open() {
                return Err(Failure::text("ERR MULTI calls can not be nested"));
            }
            session.transaction.open();
            session.client.set_queued(Some(0));
            reply.ok();
            Ok(Effect::Unchanged)
        }),
        ..TRANSACTION
    },
    Command {
        name: "unwatch",
        summary: "Stops watching all keys",
        cost: "O(N) with N watched keys",
        since: "2.2.0",
        action: Action::Run(|session, _, reply| {
            unwatch(session);
            reply.ok();
            Ok(Effect::Unchanged)
        }),
        ..TRANSACTION
    },
    Command {
        name: "watch",
        arity: -2,
        keys: &[KeySpec::from(1, Access::Look)],
        in_transaction: InTransaction::Immediate,
        syntax: "key [key ...]",
        summary: "Makes EXEC do nothing if one of the keys changes before it",
        cost: "O(1) a key",
        since: "2.2.0",
        action: Action::Run(watch),
        ..TRANSACTION
    },
];

/// Puts a request into the queue.
pub(super) fn queue(
    session: &mut Session,
    entry: &'static Entry,
    args: Args<'_>,
    reply: &mut Reply,
) {
    let limit =
        session.shared.settings.query_limit_bytes.load(std::sync::atomic::Ordering::Relaxed);
    let Some(queue) = session.transaction.queue() else { return };
    let size_bytes: usize = args.from(0).map(<[u8]>::len).sum();
    if queue.size_bytes().saturating_add(size_bytes) > limit {
        let failure = Failure::text("ERR the transaction is longer than the limit of a query");
        return super::admission::reject(session, Some(entry), args, &failure, reply);
    }
    queue.push(entry.number, args);
    queue.writes |= entry.writes;
    queue.denies_oom |= entry.grows;
    let count = queue.len();
    session.client.set_queued(Some(count));
    session.command = entry.command.name;
    reply.simple("QUEUED");
}

/// Forgets the queue and the watched keys.
pub(super) fn discard(session: &mut Session) {
    session.transaction.take();
    session.client.set_queued(None);
    unwatch(session);
}

/// Runs what was queued, one after another.
fn run(session: &mut Session, queue: &Queue, reply: &mut Reply) {
    let shared = Arc::clone(&session.shared);
    let start = reply.out.len();
    reply.array(queue.len());
    let limit = session.output_limit().hard();
    session.in_exec = true;
    for (number, args) in queue.requests() {
        call(session, &shared.commands.entries()[number], args, reply);
        // The next reply must follow, so a long one is not left for later.
        reply.refill(start.saturating_add(limit).saturating_add(1));
        // The rest must run, but its replies would only take memory: the connection is closed.
        if reply.out.len() - start > limit {
            session.overflowed = true;
            reply.rest = None;
            reply.out.truncate(start);
        }
    }
    session.in_exec = false;
}

fn unwatch(session: &mut Session) {
    let shared = Arc::clone(&session.shared);
    session.transaction.unwatch(&shared.watches);
}

fn watch(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if session.transaction.is_open() {
        return Err(Failure::text("ERR WATCH inside MULTI is not allowed"));
    }
    let (shared, number) = (Arc::clone(&session.shared), session.number);
    for key in args.from(1) {
        let place = || shared.engine.keyspace().stored_number(number, key);
        session.transaction.watch(&shared.watches, number, key, place);
    }
    reply.ok();
    Ok(Effect::Unchanged)
}

fn exec(session: &mut Session, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let Some(queue) = session.transaction.take() else {
        return Err(Failure::text("ERR EXEC without MULTI"));
    };
    session.client.set_queued(None);
    if queue.failed {
        unwatch(session);
        let text = "EXECABORT Transaction discarded because of previous errors.";
        return Err(Failure::text(text));
    }
    let shared = Arc::clone(&session.shared);
    // From here on to the end nobody else writes: the gate keeps out prefix sets and sites too, and
    // orders writes with the flags of WATCH.
    let _closed = shared.gate.close();
    let keyspace = shared.engine.keyspace();
    // The keyspace keeps all writes of the transaction together, in the journal too. The flags are
    // looked at inside, where the links of followed keys are kept out as well.
    let written = keyspace.isolated(|| {
        let place = |number: usize, key: &[u8]| keyspace.stored_number(number, key);
        match session.transaction.is_stale(place) {
            true => reply.null_array(),
            false => run(session, &queue, reply),
        }
    });
    unwatch(session);
    reply.hold(written.ticket);
    session.ready.serve(&shared.waiting, (shared.engine.keyspace(), &shared.watches));
    session.command = "exec";
    Ok(Effect::Unchanged)
}
