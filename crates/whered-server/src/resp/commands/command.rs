//! What a command is: its names, keys, flags and texts, what happens to it when memory is full or a
//! transaction is open, and its handler. All that depends on a command is a field of it.
//!
//! For: the entries of the command table. Each file of commands defines its own as a `COMMANDS` slice.
//! Not for: finding a command by its name (`registry`), running it (`commands/mod.rs`).
//!
//! Invariant: this file knows the session that a handler takes, and no handler.

use super::arguments::wrong_arity;
use super::effect::Effect;
use super::key_spec::{Access, Channels, KeySpec};
use super::named::NameSpec;
use crate::resp::protocol::Args;
use crate::resp::reply::{Failure, Reply};
use crate::resp::session::Session;

/// What a handler gives: its reply is written, or an error is to be and nothing was changed.
pub(super) type Outcome = Result<Effect, Failure>;
pub(super) type Handler = fn(&mut Session, Args<'_>, &mut Reply) -> Outcome;

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
    /// Which arguments are keys, and what it does to each.
    pub(crate) keys: &'static [KeySpec],
    /// Which arguments name other things: sets, tables, feeds and so on that it reads or writes.
    pub(crate) names: &'static [NameSpec],
    /// Which arguments are channels.
    pub(crate) channels: Channels,
    /// Which arguments are members that are looked up by name.
    pub(crate) members: Members,
    /// What happens when memory is full.
    pub(crate) when_full: WhenFull,
    /// What happens between `MULTI` and `EXEC`.
    pub(crate) in_transaction: InTransaction,
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

/// What happens to a command when more memory is used than `maxmemory`. A full disk is another
/// matter: it refuses every write that the journal keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WhenFull {
    /// It runs: it is no write.
    Runs,
    /// It runs although it is a write: it only removes data or takes no more memory.
    Frees,
    /// It is refused.
    Refused,
}

/// What happens to a command between `MULTI` and `EXEC`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum InTransaction {
    /// It is queued.
    Queued,
    /// It runs at once.
    Immediate,
    /// It runs at once, and runs those that are queued.
    Executes,
    /// It is refused: it waits for something that cannot happen while `EXEC` keeps all others
    /// out, or would keep them out for long.
    Refused,
}

/// A property of a command. `COMMAND INFO` shows some of them.
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
    /// Is about channels.
    PubSub,
    /// Can wait for data that another client brings.
    Blocking,
    /// Never stands in the slow log: it carries secrets, or others that stand there themselves.
    NoSlowlog,
    /// Is about keys although its family is another one.
    Keyspace,
    /// Is so short that reading the clock for it alone would be felt, although it is not `Fast`.
    Short,
    /// May be used by a RESP2 connection that has subscribed to channels.
    WhileSubscribed,
    /// Waits for the end of a pause of writes, although it changes no data.
    PausedAsWrite,
    /// Is never paused: it ends a pause.
    NeverPaused,
    /// Tells which keys a database has.
    ListsKeys,
}

/// Which arguments of a command are members that are looked up by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Members {
    /// None of them.
    None,
    /// The second argument and those behind it, a number of them or all. Only their slots are
    /// looked up; the command takes these from `look_up`.
    Asked(Option<usize>),
    /// The second and those behind it, up to a number or all; the command looks them up itself.
    Named(Option<usize>),
    /// Those behind longitudes and latitudes, as `GEOADD` has them.
    Points,
}

/// What the subcommands of the operator's containers have in common.
pub(super) const OPERATOR: Command = Command {
    name: "",
    arity: 2,
    flags: &[Flag::Admin, Flag::Dangerous],
    group: "server",
    keys: &[],
    names: &[],
    channels: Channels::None,
    members: Members::None,
    when_full: WhenFull::Runs,
    in_transaction: InTransaction::Queued,
    syntax: "",
    summary: "",
    cost: "O(1)",
    since: "",
    action: Action::Subcommands(&[]),
};

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

    /// Whether it is refused when memory is full.
    pub(crate) fn denies_oom(&self) -> bool {
        self.when_full == WhenFull::Refused
    }

    /// Whether it is `EXEC`.
    pub(super) fn executes_queue(&self) -> bool {
        self.in_transaction == InTransaction::Executes
    }

    /// The keys of a request in order, and what is done to each.
    pub(super) fn keys_of<'a>(
        &'static self,
        args: Args<'a>,
    ) -> impl Iterator<Item = (&'a [u8], Access)> {
        self.keys.iter().flat_map(move |spec| spec.keys_of(args))
    }

    pub(super) fn takes(&self, count: usize) -> bool {
        let wanted = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { count >= wanted } else { count == wanted }
    }

    pub(super) fn check_arity(&self, count: usize) -> Result<(), Failure> {
        if self.takes(count) { Ok(()) } else { Err(wrong_arity(self.name)) }
    }
}
