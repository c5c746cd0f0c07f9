//! What a command is: its names, keys, flags and texts, and its handler.
//!
//! For: the entries of the command table. Each file of commands defines its own as a `COMMANDS` slice.
//! Not for: finding a command by its name (`registry`), running it (`commands/mod.rs`).
//!
//! Invariant: this file knows the session that a handler takes, and no handler.

use super::arguments::wrong_arity;
use super::named::Named;
use crate::resp::protocol::Args;
use crate::resp::reply::{Failure, Reply};
use crate::resp::session::Session;

/// What a handler gives: its reply is written, or an error is to be.
pub(super) type Outcome = Result<(), Failure>;
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

/// Which arguments of a command are members that are looked up by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Members {
    /// None of them.
    None,
    /// The second and those behind it, so many or all; where they are is all that is asked, and
    /// the command takes it from `look_up`.
    Asked(Option<usize>),
    /// The same, but more is done with them.
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
    keys: (0, 0, 0),
    names: &[],
    members: Members::None,
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

    pub(super) fn takes(&self, count: usize) -> bool {
        let wanted = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { count >= wanted } else { count == wanted }
    }

    pub(super) fn check_arity(&self, count: usize) -> Outcome {
        if self.takes(count) { Ok(()) } else { Err(wrong_arity(self.name)) }
    }
}
