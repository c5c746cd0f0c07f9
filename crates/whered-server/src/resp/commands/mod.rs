//! The commands: one table that dispatch, `COMMAND`, help and the manual are made from.
//!
//! For: finding a command, checking what holds for all of them (arguments, password), and the
//! texts of Redis 7.0.15 for what is unknown.
//! Not for: what a command does (the files beside this one, each with its part of the table).
//!
//! ```text
//! name in any case ──hash──> slots[512] ──> Command { name, arity, ..., action }
//!                                                     ├─ Run(handler)
//!                                                     └─ Subcommands([Command "client|id", ...])
//! ```
//!
//! Cost: finding a command is one hash of its name and usually one comparison.

mod cidr;
mod connection;
mod expiry;
mod geo;
mod geo_area;
mod geosearch;
mod introspection;
mod ip;
mod keys;
mod object;
mod sorted_set;
mod sorted_set_range;
mod sorted_set_write;
mod steer;
mod text;
mod transfer;

use std::sync::LazyLock;

use whered_engine::{DATABASE_COUNT, Ordered};

use super::number;
use super::protocol::Args;
use super::reply::{Failure, Reply};
use super::session::Session;

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
}

/// Every command, by family.
static FAMILIES: &[&[Command]] = &[
    connection::COMMANDS,
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
    steer::COMMANDS,
    introspection::COMMANDS,
];

const SYNTAX_ERROR: Failure = Failure::text("ERR syntax error");
const NOT_AN_INTEGER: Failure = Failure::text("ERR value is not an integer or out of range");
const NOT_A_FLOAT: Failure = Failure::text("ERR value is not a valid float");

const WRONG_KIND: Failure =
    Failure::text("WRONGTYPE Operation against a key holding the wrong kind of value");

/// Every command of the table.
pub(crate) fn all() -> impl Iterator<Item = &'static Command> {
    FAMILIES.iter().flat_map(|family| family.iter())
}

/// Executes one request and writes its reply.
pub(crate) fn execute(session: &mut Session, args: Args<'_>, reply: &mut Reply) {
    // QUIT is answered whatever stands around it, as in Redis.
    if args.is(0, "quit") {
        session.command = "quit";
        session.closing = true;
        return reply.ok();
    }
    let outcome = match find(args) {
        Ok(command) => run(session, command, args, reply),
        Err(failure) => Err(failure),
    };
    if let Err(failure) = outcome {
        count_error(session);
        reply.error(&failure);
    }
}

fn run(
    session: &mut Session,
    command: &'static Command,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    command.check_arity(args.len())?;
    if !session.authenticated && !command.has(Flag::NoAuth) {
        return Err(Failure::text("NOAUTH Authentication required."));
    }
    session.command = command.name;
    match command.action {
        Action::Run(handler) => handler(session, args, reply),
        Action::Subcommands(_) => Err(wrong_arity(command.name)),
    }
}

fn count_error(session: &Session) {
    session.shared.counters.errors.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
}

/// The command or subcommand that a request names.
///
/// # Errors
/// The text of Redis for an unknown command or subcommand.
fn find(args: Args<'_>) -> Result<&'static Command, Failure> {
    let command = by_name(args.at(0)).ok_or_else(|| unknown_command(args))?;
    match (&command.action, args.get(1)) {
        (Action::Subcommands(subcommands), Some(name)) => {
            subcommand(command, subcommands, name).ok_or_else(|| unknown_subcommand(command, name))
        }
        _ => Ok(command),
    }
}

/// The command of that name, in any case.
pub(crate) fn by_name(name: &[u8]) -> Option<&'static Command> {
    static SLOTS: LazyLock<Box<[Option<&'static Command>]>> = LazyLock::new(|| {
        let mut slots = vec![None; SLOT_COUNT].into_boxed_slice();
        for command in all() {
            let mut slot = hash(command.name.as_bytes());
            while slots[slot].is_some() {
                slot = (slot + 1) % SLOT_COUNT;
            }
            slots[slot] = Some(command);
        }
        slots
    });
    let mut slot = hash(name);
    while let Some(command) = SLOTS[slot] {
        if command.name.as_bytes().eq_ignore_ascii_case(name) {
            return Some(command);
        }
        slot = (slot + 1) % SLOT_COUNT;
    }
    None
}

/// A power of two, several times the number of commands.
const SLOT_COUNT: usize = 512;

/// FNV-1a over small letters.
fn hash(name: &[u8]) -> usize {
    let step = |hash: u32, byte: &u8| {
        (hash ^ u32::from(byte.to_ascii_lowercase())).wrapping_mul(0x0100_0193)
    };
    name.iter().take(64).fold(0x811c_9dc5, step) as usize % SLOT_COUNT
}

fn subcommand(
    container: &Command,
    subcommands: &'static [Command],
    name: &[u8],
) -> Option<&'static Command> {
    let own_name = |command: &Command| &command.name.as_bytes()[container.name.len() + 1..];
    subcommands.iter().find(|command| own_name(command).eq_ignore_ascii_case(name))
}

impl Command {
    /// Whether it has a property.
    pub(crate) fn has(&self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }

    /// Its subcommands, if it is a container.
    pub(crate) fn subcommands(&self) -> &'static [Command] {
        match self.action {
            Action::Subcommands(subcommands) => subcommands,
            Action::Run(_) => &[],
        }
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

fn address(text: &[u8]) -> Result<std::net::IpAddr, Failure> {
    let parsed = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| {
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
