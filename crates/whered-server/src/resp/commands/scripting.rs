//! `SCRIPT FLUSH` and `FUNCTION FLUSH`, which client libraries and test harnesses send to start
//! from nothing. There are no scripts, so that there is nothing to do.

use super::{Action, Command, Failure, Flag, Members, Outcome};
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;

const SCRIPTING: Command = Command {
    name: "",
    arity: -2,
    flags: &[],
    group: "scripting",
    keys: (0, 0, 0),
    members: Members::None,
    syntax: "",
    summary: "",
    cost: "O(1)",
    since: "2.6.0",
    action: Action::Subcommands(&[]),
};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "function",
        syntax: "subcommand ...",
        summary: "A container for commands about functions, of which there are none",
        since: "7.0.0",
        action: Action::Subcommands(FUNCTION),
        ..SCRIPTING
    },
    Command {
        name: "script",
        syntax: "subcommand ...",
        summary: "A container for commands about scripts, of which there are none",
        action: Action::Subcommands(SCRIPT),
        ..SCRIPTING
    },
];

const FUNCTION: &[Command] = &[
    Command {
        name: "function|flush",
        flags: &[Flag::Write],
        syntax: "[ASYNC|SYNC]",
        summary: "Accepted for Redis clients: there are no functions",
        since: "7.0.0",
        action: Action::Run(|_, args, reply| {
            if args.len() > 3 {
                return Err(super::unknown_or_wrong_arity(args.at(1), "FUNCTION"));
            }
            let text = "ERR FUNCTION FLUSH only supports SYNC|ASYNC option";
            flush(args, reply, Failure::text(text))
        }),
        ..SCRIPTING
    },
    Command {
        name: "function|help",
        arity: 2,
        summary: "Shows what FUNCTION can do",
        since: "7.0.0",
        action: Action::Run(|_, _, reply| {
            super::introspection::help("FUNCTION", FUNCTION, reply);
            Ok(())
        }),
        ..SCRIPTING
    },
];

const SCRIPT: &[Command] = &[
    Command {
        name: "script|flush",
        syntax: "[ASYNC|SYNC]",
        summary: "Accepted for Redis clients: there are no scripts",
        action: Action::Run(|_, args, reply| {
            let text = "ERR SCRIPT FLUSH only support SYNC|ASYNC option";
            flush(args, reply, Failure::text(text))
        }),
        ..SCRIPTING
    },
    Command {
        name: "script|help",
        arity: 2,
        summary: "Shows what SCRIPT can do",
        since: "5.0.0",
        action: Action::Run(|_, _, reply| {
            super::introspection::help("SCRIPT", SCRIPT, reply);
            Ok(())
        }),
        ..SCRIPTING
    },
];

fn flush(args: Args<'_>, reply: &mut Reply, otherwise: Failure) -> Outcome {
    let fits = match args.len() {
        2 => true,
        3 => args.is(2, "sync") || args.is(2, "async"),
        _ => false,
    };
    if !fits {
        return Err(otherwise);
    }
    reply.ok();
    Ok(())
}
