//! The commands: one table that dispatch, `COMMAND`, help and the manual are made from.
//!
//! For: finding a command, checking what holds for all of them (arguments, password), and the
//! texts of Redis 7.0.15 for what is unknown.
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
//! What happens to a request: `admission` asks whether it may run now, `transaction` may queue it,
//! `call` runs it, times it, and tells whoever watches its keys. Moves of a pipeline are made together
//! (`moves`).
//!
//! Cost: finding a command is one hash of its name and usually one comparison.

mod acl;
mod acme;
mod admission;
mod ahead;
mod cidr;
mod cidr_whole;
mod client;
mod config;
mod connection;
mod expiry;
mod feed;
mod found;
mod geo;
mod geo_area;
mod geo_later;
mod geosearch;
mod info;
mod introspection;
mod ip;
mod keys;
mod keys_of;
mod latency;
mod look_up;
mod moves;
mod named;
mod object;
mod parameters;
mod persistence;
mod pubsub;
mod registry;
mod rules;
mod scripting;
mod slowlog;
mod sorted_set;
mod sorted_set_range;
mod sorted_set_write;
mod steer;
mod table;
mod text;
mod transaction;
mod transfer;
mod zone;

use whered_engine::{DATABASE_COUNT, Ordered};

use super::protocol::Args;
use super::reply::{Failure, Reply};
use super::session::Session;
use super::users::NameKind;
use super::{cross_protocol, number};
use ahead::Members;
pub(crate) use ahead::look_ahead;
pub(crate) use look_up::LookedUp;
pub(crate) use moves::{Moved, next_moves};
pub(crate) use named::Named;

pub(crate) use acl::allowed_by;
pub(crate) use registry::{Entry, all, by_name, count, entries, name_of};

/// What a handler gives: its reply is written, or an error is to be.
type Outcome = Result<(), Failure>;
type Handler = fn(&mut Session, Args<'_>, &mut Reply) -> Outcome;

/// One command, defined once.
pub(crate) struct Command {
    /// In small letters; a subcommand carries its container's name: `client|id`.
    pub(crate) name: &'static str,
    /// The number of arguments, the name included; negative: at least as many.
    pub(crate) arity: i32,
    /// What it does to data and to whom.
    pub(crate) flags: &'static [Flag],
    /// The family, as `COMMAND DOCS` names it.
    pub(crate) group: &'static str,
    /// Where its keys stand: first, last (negative: from the end), step; zeros without keys.
    pub(crate) keys: (i32, i32, i32),
    /// What it names beside those keys: every set, table, feed and so on that it reads or writes.
    pub(crate) names: &'static [Named],
    /// Which arguments are members that are looked up by name.
    pub(crate) members: Members,
    /// Its arguments, as a manual shows them.
    pub(crate) syntax: &'static str,
    /// One line of purpose.
    pub(crate) summary: &'static str,
    /// How long it takes.
    pub(crate) cost: &'static str,
    /// The version that had it first: of Redis for its commands, of `whered` for ours.
    pub(crate) since: &'static str,
    /// What happens.
    pub(crate) action: Action,
}

/// What a command does when it is called.
pub(crate) enum Action {
    /// Calls a function.
    Run(Handler),
    /// Looks at the second argument.
    Subcommands(&'static [Command]),
    /// Looks at the second argument, if there is one, and calls a function otherwise.
    Either(Handler, &'static [Command]),
}

/// A property of a command, under the name that `COMMAND INFO` shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flag {
    /// Changes data.
    Write,
    /// Reads data.
    ReadOnly,
    /// Takes a short, constant time.
    Fast,
    /// Needs no password.
    NoAuth,
    /// Concerns the operator.
    Admin,
    /// Can be long or destructive.
    Dangerous,
    /// Can make the memory grow.
    DenyOom,
    /// Is about channels.
    PubSub,
    /// Never stands in the slow log: it carries secrets, or others that stand there themselves.
    NoSlowlog,
}

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
    rules::COMMANDS,
    keys::COMMANDS,
    transfer::COMMANDS,
    expiry::COMMANDS,
    object::COMMANDS,
    text::COMMANDS,
    geo::COMMANDS,
    geosearch::COMMANDS,
    sorted_set::COMMANDS,
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

/// What the subcommands of the operator's containers have in common.
const OPERATOR: Command = Command {
    name: "",
    arity: 2,
    flags: &[Flag::Admin, Flag::Dangerous],
    group: "server",
    keys: (0, 0, 0),
    names: &[],
    members: Members::None,
    syntax: "",
    summary: "",
    cost: "O(1)",
    since: "",
    action: Action::Subcommands(&[]),
};

const SYNTAX_ERROR: Failure = Failure::text("ERR syntax error");
const NOT_AN_INTEGER: Failure = Failure::text("ERR value is not an integer or out of range");
const NOT_A_FLOAT: Failure = Failure::text("ERR value is not a valid float");

const WRONG_KIND: Failure =
    Failure::text("WRONGTYPE Operation against a key holding the wrong kind of value");

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
    let entry = match find(args) {
        Ok(entry) => entry,
        Err(_) if cross_protocol::is_http_name(args.at(0)) => return session.abort_http(),
        Err(failure) => return admission::reject(session, None, args, &failure, reply),
    };
    if let Err(failure) = admission::admit(session, entry, args) {
        return admission::reject(session, Some(entry), args, &failure, reply);
    }
    if session.transaction.is_open() && !transaction::is_immediate(entry.command) {
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

/// Whether a request has to wait for the end of `CLIENT PAUSE`.
pub(crate) fn must_wait(session: &Session, args: Args<'_>) -> bool {
    let pause = &session.shared.pause;
    if !pause.stops(true) {
        return false;
    }
    let Ok(entry) = find(args) else {
        return false;
    };
    let name = entry.command.name;
    // What is queued waits with EXEC.
    let writes = match session.transaction.is_open() {
        true => name == "exec" && session.transaction.writes(),
        false => entry.writes || name == "publish",
    };
    // Otherwise nobody could end a pause of all commands.
    name != "client|unpause" && pause.stops(writes)
}

/// Runs a command that was admitted, times it, and tells whoever watches its keys.
fn call(session: &mut Session, entry: &'static Entry, args: Args<'_>, reply: &mut Reply) {
    session.command = entry.command.name;
    let shares_time = entry.short && args.len() <= SHORT_ARGUMENTS && !session.wants_exact_times();
    if let Some((number, duration)) = session.meter.begin(entry.number, shares_time) {
        session.log_run(number, duration);
    }
    let start = reply.out.len();
    let (Action::Run(handler) | Action::Either(handler, _)) = entry.command.action else {
        return reply.error(&wrong_arity(entry.command.name));
    };
    match handler(session, args, reply) {
        Ok(()) if entry.writes && !session.shared.watches.is_empty() => {
            transaction::touch(session, entry, args, &reply.out[start..]);
        }
        Ok(()) => {}
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

/// Requests with more arguments are timed alone.
const SHORT_ARGUMENTS: usize = 16;

/// Counts an error that is answered to a command, and logs it if it comes again and again.
#[cold]
pub(crate) fn count_error(session: &Session, name: &[u8], failure: &Failure) {
    session.shared.counters.errors.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    session.shared.statistics.note_error(failure.code());
    let Some(told) = session.shared.refusals.note(name, std::time::Instant::now()) else {
        return;
    };
    let words = session.client.words();
    tracing::warn!(
        "the command '{}' was refused {} times within {:.1} s, the last time with '{}': client {} \
         name={} lib-name={} lib-ver={}",
        told.name,
        told.count,
        told.within.as_secs_f64(),
        failure.loggable().escape_ascii(),
        session.client.origin.address,
        words.name.escape_ascii(),
        words.lib_name.escape_ascii(),
        words.lib_version.escape_ascii()
    );
}

/// The command or subcommand that a request names.
///
/// # Errors
/// The text of Redis for an unknown command or subcommand.
fn find(args: Args<'_>) -> Result<&'static Entry, Failure> {
    let entry = registry::find(args.at(0)).ok_or_else(|| unknown_command(args))?;
    match (entry.has_subcommands(), args.get(1)) {
        (true, Some(name)) => {
            entry.subcommand(name).ok_or_else(|| unknown_subcommand(entry.command, name))
        }
        _ => Ok(entry),
    }
}

impl Command {
    /// Whether it has a property.
    pub(crate) fn has(&self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }

    /// Its subcommands, if it is a container.
    pub(crate) fn subcommands(&self) -> &'static [Command] {
        match self.action {
            Action::Subcommands(subcommands) | Action::Either(_, subcommands) => subcommands,
            Action::Run(_) => &[],
        }
    }

    /// Whether it can make the memory grow: every write does that does not only take away.
    pub(crate) fn denies_oom(&self) -> bool {
        const ONLY_TAKE_AWAY: [&str; 22] = [
            "acme.del",
            "cidr.del",
            "cidr.rem",
            "del",
            "expire",
            "expireat",
            "flushall",
            "flushdb",
            "function|flush",
            "persist",
            "pexpire",
            "pexpireat",
            "rename",
            "renamenx",
            "script|flush",
            "site.down",
            "site.move",
            "site.rem",
            "site.up",
            "unlink",
            "zrem",
            "zremrangebyrank",
        ];
        self.has(Flag::DenyOom)
            || (self.has(Flag::Write)
                && !ONLY_TAKE_AWAY.contains(&self.name)
                && !self.name.starts_with("zremrangeby"))
    }

    fn takes(&self, count: usize) -> bool {
        let wanted = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { count >= wanted } else { count == wanted }
    }

    fn check_arity(&self, count: usize) -> Outcome {
        if self.takes(count) { Ok(()) } else { Err(wrong_arity(self.name)) }
    }
}

fn wrong_arity(name: &str) -> Failure {
    Failure::made(format!("ERR wrong number of arguments for '{name}' command"))
}

/// How much of a client's words an error repeats.
const REPEATED_BYTES: usize = 128;

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

fn unknown_or_wrong_arity(name: &[u8], container: &str) -> Failure {
    let mut text = b"ERR unknown subcommand or wrong number of arguments for '".to_vec();
    text.extend_from_slice(cut(name, REPEATED_BYTES));
    text.extend_from_slice(format!("'. Try {container} HELP.").as_bytes());
    Failure::made(text)
}

/// A client's words as an error repeats them.
fn cut(words: &[u8], limit: usize) -> &[u8] {
    let words = number::until_zero(words);
    &words[..words.len().min(limit)]
}

fn integer(text: &[u8]) -> Result<i64, Failure> {
    number::integer(text).ok_or(NOT_AN_INTEGER)
}

fn float(text: &[u8]) -> Result<f64, Failure> {
    number::float(text).ok_or(NOT_A_FLOAT)
}

/// Reads a sorted set of either kind; `None` without the key.
///
/// # Errors
/// The key holds something else, or what `read` gives.
fn read_ordered<R>(
    session: &Session,
    key: &[u8],
    read: impl FnOnce(Option<Ordered<'_>>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    session.engine().keyspace().read(session.number, key, |value| {
        let ordered = value.map(|value| value.ordered().ok_or(WRONG_KIND)).transpose()?;
        read(ordered)
    })
}

/// A numbered database, as `MOVE` and `COPY` name it.
fn database_number(text: &[u8]) -> Result<usize, Failure> {
    let index = integer(text)?;
    if i32::try_from(index).is_err() {
        return Err(Failure::made(format!(
            "ERR value is out of range, value must between {} and {}",
            i32::MIN,
            i32::MAX
        )));
    }
    let number = usize::try_from(index).ok().filter(|number| *number < DATABASE_COUNT);
    number.ok_or(Failure::text("ERR DB index is out of range"))
}

/// A name of ours: databases, sets, pools and sites are named in UTF-8.
fn name(text: &[u8]) -> Result<&str, Failure> {
    std::str::from_utf8(text).map_err(|_| Failure::text("ERR a name must be UTF-8"))
}

/// An address as people write it; one that is IPv4-mapped is the IPv4 address.
fn address(text: &[u8]) -> Result<std::net::IpAddr, Failure> {
    whered_engine::ip::text::read(text).ok_or_else(|| {
        let shown = cut(text, REPEATED_BYTES).escape_ascii();
        Failure::made(format!("ERR '{shown}' is not an IP address"))
    })
}

fn no_such(what: &str, name: &str) -> Failure {
    Failure::made(format!("ERR no such {what} '{name}'"))
}

/// Whether a request ends with `EXPLAIN`, and the request without it.
fn explained(args: Args<'_>, least: usize) -> (Args<'_>, bool) {
    let asked = args.len() > least && args.is(args.len() - 1, "explain");
    (if asked { args.without_last() } else { args }, asked)
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
