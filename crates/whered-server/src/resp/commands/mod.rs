//! The commands: one table that dispatch, `COMMAND`, help and the manual are made from.
//!
//! For: finding a command, checking what holds for all of them (arguments, password), and the
//! texts of Redis 7.0.15 for what is unknown. The table is the one definition: whatever depends on
//! which command it is, is a field of its entry.
//! Not for: what a command does (the files beside this one, each with its part of the table).
//!
//! ```text
//! name in any case ──hash──> slots[512] ──> Entry { number, command, subcommands }
//!                                                            │
//!                   Command { name, arity, ..., action } <───┘
//!                                                ├─ Run(handler)
//!                                                ├─ Subcommands([Command "client|id", ...])
//!                                                └─ Either(handler, [Command "command|count", ...])
//! ```
//!
//! What happens to a request: `admission` checks whether it may run now, `transaction` may queue it,
//! `call` runs it, times it, and marks the keys that it changed. GEOADDs of a pipeline that follow
//! each other run together (`moves`).
//!
//! Cost: finding a command is one hash of its name and usually one comparison.

mod acl;
mod acme;
mod admission;
mod ahead;
mod arguments;
mod cidr;
mod cidr_whole;
mod client;
mod cluster;
mod command;
mod config;
mod connection;
mod dump;
pub(crate) mod effect;
mod expiry;
mod feed;
mod followed;
mod found;
mod geo;
mod geo_area;
mod geo_later;
mod geosearch;
mod info;
mod introspection;
mod ip;
mod isolated;
mod key_spec;
mod keys;
mod latency;
mod look_up;
mod moves;
mod named;
mod object;
mod parameters;
mod permissions;
mod persistence;
mod pubsub;
mod registry;
mod replicated;
mod replication;
mod rules;
mod scripting;
mod server;
mod slowlog;
mod sort;
mod sorted_set;
mod sorted_set_combine;
mod sorted_set_pop;
mod sorted_set_random;
mod sorted_set_range;
mod sorted_set_write;
mod steer;
mod table;
mod text;
mod text_change;
mod transaction;
mod transfer;
mod zone;

use std::sync::LazyLock;

use super::protocol::Args;
use super::reply::{Failure, Reply};
use super::session::Session;
use super::users::NameKind;
use super::{cross_protocol, number};
pub(crate) use acl::allowed_by;
pub(crate) use ahead::look_ahead;
use arguments::{
    NOT_AN_INTEGER, REPEATED_BYTES, SYNTAX_ERROR, WRONG_KIND, address, cut, database_number,
    explained, float, integer, name, no_such, unknown_or_wrong_arity, wrong_arity,
};
use command::{Action, Command, Flag, InTransaction, Members, OPERATOR, Outcome, WhenFull};
use effect::Effect;
use isolated::isolated;
use key_spec::{Access, Channels, KeySpec};
pub(crate) use look_up::MemberLookups;
use look_up::read_ordered;
pub(crate) use moves::{MovesResult, next_moves};
use named::NameSpec;
pub(crate) use registry::{CommandTable, Entry};
pub(crate) use replicated::Executor;

/// Every command, by family.
static FAMILIES: &[&[Command]] = &[
    connection::COMMANDS,
    client::COMMANDS,
    acl::COMMANDS,
    transaction::COMMANDS,
    pubsub::COMMANDS,
    config::COMMANDS,
    slowlog::COMMANDS,
    latency::COMMANDS,
    persistence::COMMANDS,
    server::COMMANDS,
    cluster::COMMANDS,
    replication::COMMANDS,
    rules::COMMANDS,
    keys::COMMANDS,
    transfer::COMMANDS,
    expiry::COMMANDS,
    object::COMMANDS,
    dump::COMMANDS,
    sort::COMMANDS,
    text::COMMANDS,
    text_change::COMMANDS,
    geo::COMMANDS,
    geosearch::COMMANDS,
    sorted_set::COMMANDS,
    sorted_set_combine::COMMANDS,
    sorted_set_pop::COMMANDS,
    sorted_set_random::COMMANDS,
    sorted_set_range::COMMANDS,
    sorted_set_write::COMMANDS,
    ip::COMMANDS,
    cidr::COMMANDS,
    cidr_whole::COMMANDS,
    steer::COMMANDS,
    zone::COMMANDS,
    feed::COMMANDS,
    table::COMMANDS,
    acme::COMMANDS,
    introspection::COMMANDS,
    info::COMMANDS,
    scripting::COMMANDS,
];

static TABLE: LazyLock<CommandTable> = LazyLock::new(|| CommandTable::new(FAMILIES));

/// The table of all commands.
pub(crate) fn table() -> &'static CommandTable {
    &TABLE
}

/// Executes one request and writes its reply.
pub(crate) fn execute(session: &mut Session, args: Args<'_>, reply: &mut Reply) {
    // QUIT is answered whatever stands around it, as in Redis.
    if args.is(0, "quit") {
        session.command = "quit";
        session.closing = true;
        // Nothing is published to a client any more that has read the reply.
        session.unsubscribe_all();
        return reply.ok();
    }
    let entry = match find(session, args) {
        Ok(entry) => entry,
        Err(_) if is_http(args) => return session.abort_http(),
        Err(failure) => return admission::reject(session, None, args, &failure, reply),
    };
    if let Err(failure) = admission::admit(session, entry, args) {
        return admission::reject(session, Some(entry), args, &failure, reply);
    }
    if session.transaction.is_open() && entry.command.in_transaction == InTransaction::Queued {
        return transaction::queue(session, entry, args, reply);
    }
    if entry.writes {
        let shared = std::sync::Arc::clone(&session.shared);
        let _passage = shared.gate.pass(session.client.origin.worker);
        call(session, entry, args, reply);
    } else {
        call(session, entry, args, reply);
    }
}

/// Whether the request of an unknown command is a line of HTTP.
#[cold]
fn is_http(args: Args<'_>) -> bool {
    let is_request_line =
        args.len() > 2 && cross_protocol::is_http_version(args.at(args.len() - 1));
    cross_protocol::is_http_name(args.at(0)) || is_request_line
}

/// Whether a request has to wait for the end of `CLIENT PAUSE`.
pub(crate) fn must_wait(session: &Session, args: Args<'_>) -> bool {
    let pause = &session.shared.pause;
    if !pause.stops(true) {
        return false;
    }
    let Ok(entry) = find(session, args) else {
        return false;
    };
    let command = entry.command;
    // What is queued waits with EXEC.
    let writes = match session.transaction.is_open() {
        true => command.executes_queue() && session.transaction.writes(),
        false => entry.writes || command.has(Flag::PausedAsWrite),
    };
    // Otherwise nobody could end a pause of all commands.
    !command.has(Flag::NeverPaused) && pause.stops(writes)
}

/// Runs a command that was admitted, times it, and marks the keys that it has changed.
fn call(session: &mut Session, entry: &'static Entry, args: Args<'_>, reply: &mut Reply) {
    session.command = entry.command.name;
    let shares_time = entry.short && args.len() <= SHORT_ARGUMENTS && !session.wants_exact_times();
    if let Some((number, duration)) = session.meter.begin(entry.number, shares_time) {
        session.log_run(number, duration);
    }
    let (Action::Run(handler) | Action::Either(handler, _)) = entry.command.action else {
        return reply.error(&wrong_arity(entry.command.name));
    };
    match handler(session, args, reply) {
        Ok(Effect::Unchanged) => {}
        Ok(effect) => {
            debug_assert!(
                entry.writes,
                "'{}' is no write and has changed data",
                entry.command.name
            );
            if effect == Effect::Changed && !session.shared.watches.is_empty() {
                mark_written_keys(session, entry.command, args);
            }
            if !session.shared.waiting.is_empty() {
                serve_waiting(session, entry.command, args, effect);
            }
        }
        Err(failure) => {
            count_error(session, entry.command.name.as_bytes(), &failure);
            session.meter.note_failed(entry.number);
            reply.error(&failure);
        }
    }
    if shares_time {
        if let Some((number, duration)) = session.meter.end_short(entry.number, 1) {
            session.log_run(number, duration);
        }
    } else {
        let duration = session.meter.end(entry.number);
        if !entry.command.has(Flag::NoSlowlog) {
            session.log_if_slow(duration, args);
        }
    }
}

/// Marks every key that a request names for writing as changed.
#[cold]
fn mark_written_keys(session: &Session, command: &'static Command, args: Args<'_>) {
    // What a link changes is watched under the name that clients know.
    let shown_in = session.engine().keyspace().shown_in(session.number);
    let Some(number) = shown_in else { return };
    for (key, access) in command.keys_of(args) {
        if access.writes() {
            session.shared.watches.mark(number, key);
        }
    }
}

/// Serves clients that wait for a key that this request has changed; within `EXEC` at its end.
#[cold]
fn serve_waiting(session: &mut Session, command: &'static Command, args: Args<'_>, effect: Effect) {
    let number = session.number;
    let filled = command.keys_of(args).filter(|(_, access)| access.fills()).map(|(key, _)| key);
    // What a command without keys, or one that reports by itself, has filled is not known.
    let is_open = effect == Effect::Reported
        && (command.keys.is_empty() || command.keys.iter().any(|spec| spec.access.fills()));
    if session.in_exec {
        session.ready.note(is_open, number, filled);
        return;
    }
    let shared = &session.shared;
    if is_open {
        return shared.waiting.serve_all((shared.engine.keyspace(), &shared.watches));
    }
    filled.for_each(|key| session.serve_waiting(number, key));
}

/// Requests with more arguments are timed alone.
const SHORT_ARGUMENTS: usize = 16;

/// Counts an error that is answered to a command, and logs it if it comes again and again.
#[cold]
pub(crate) fn count_error(session: &Session, name: &[u8], failure: &Failure) {
    session.shared.counters.errors.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    session.shared.statistics.note_error(failure.code());
    let Some(told) = session.shared.refused_commands.note(name, std::time::Instant::now()) else {
        return;
    };
    let info = session.client.info();
    tracing::warn!(
        "the command '{}' was refused {} times within {:.1} s, the last time with '{}': client {} \
         name={} lib-name={} lib-ver={}",
        told.name,
        told.count,
        told.within.as_secs_f64(),
        failure.loggable().escape_ascii(),
        session.client.origin.address,
        info.name.escape_ascii(),
        info.lib_name.escape_ascii(),
        info.lib_version.escape_ascii()
    );
}

/// The command or subcommand that a request names.
///
/// # Errors
/// The text of Redis for an unknown command or subcommand.
fn find(session: &Session, args: Args<'_>) -> Result<&'static Entry, Failure> {
    let table = session.shared.commands;
    let entry = table.find(args.at(0)).ok_or_else(|| unknown_command(args))?;
    match (entry.has_subcommands(), args.get(1)) {
        (true, Some(name)) => {
            table.subcommand(entry, name).ok_or_else(|| unknown_subcommand(entry.command, name))
        }
        _ => Ok(entry),
    }
}

fn unknown_command(args: Args<'_>) -> Failure {
    let mut shown = Vec::new();
    for arg in args.from(1) {
        if shown.len() >= REPEATED_BYTES {
            break;
        }
        let room = REPEATED_BYTES - shown.len();
        shown.push(b'\'');
        shown.extend_from_slice(cut(arg, room));
        shown.extend_from_slice(b"' ");
    }
    let mut text = b"ERR unknown command '".to_vec();
    text.extend_from_slice(cut(args.at(0), REPEATED_BYTES));
    text.extend_from_slice(b"', with args beginning with: ");
    text.extend_from_slice(&shown);
    Failure::made(text)
}

fn unknown_subcommand(container: &Command, name: &[u8]) -> Failure {
    let mut text = b"ERR unknown subcommand '".to_vec();
    text.extend_from_slice(cut(name, REPEATED_BYTES));
    text.extend_from_slice(format!("'. Try {} HELP.", container.name.to_uppercase()).as_bytes());
    Failure::made(text)
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
