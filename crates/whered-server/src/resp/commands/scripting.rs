//! Scripts and functions, of which there are none: what Redis says when it does not have the script that
//! a client asks for, and one error where a client would bring one.
//!
//! A client library asks with `EVALSHA`, hears `NOSCRIPT`, and sends the text with `EVAL` or `SCRIPT LOAD`:
//! that must be an error that it hands to its caller, since anything else makes it ask again for ever.
//! `SCRIPT FLUSH` and `FUNCTION FLUSH` are what libraries and test harnesses start with.

use super::{
    Action, Channels, Command, Effect, Failure, Flag, InTransaction, Members, Outcome, WhenFull,
};
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::Session;

const SCRIPTING: Command = Command {
    name: "",
    arity: -2,
    flags: &[],
    group: "scripting",
    keys: &[],
    names: &[],
    channels: Channels::None,
    members: Members::None,
    when_full: WhenFull::Runs,
    in_transaction: InTransaction::Queued,
    syntax: "",
    summary: "",
    cost: "O(1)",
    since: "2.6.0",
    action: Action::Subcommands(&[]),
};

const NO_SCRIPT: Failure = Failure::text("NOSCRIPT No matching script. Please use EVAL.");
const NOT_OFFERED: Failure = Failure::text(
    "ERR scripts and functions are not offered here: nothing runs Lua. In their place: GEOADD with NX, \
     XX or CH, SET with NX, XX, GET or PX, or WATCH with MULTI and EXEC",
);
const NOT_BUSY: Failure = Failure::text("NOTBUSY No scripts in execution right now.");

/// Scripts have digests of SHA-1 in hexadecimal digits.
const DIGEST_SIZE: usize = 40;

/// What clients send to run a script or a function: its name, how many keys, keys and arguments.
const RUN: Command = Command { arity: -3, action: Action::Run(not_offered), ..SCRIPTING };
/// What is about having some.
const BRING: Command = Command { arity: -2, action: Action::Run(not_offered), ..SCRIPTING };

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "eval",
        syntax: "script numkeys [key ...] [arg ...]",
        summary: "Refused: there are no scripts",
        ..RUN
    },
    Command {
        name: "eval_ro",
        syntax: "script numkeys [key ...] [arg ...]",
        summary: "Refused: there are no scripts",
        since: "7.0.0",
        ..RUN
    },
    Command {
        name: "evalsha",
        syntax: "sha1 numkeys [key ...] [arg ...]",
        summary: "NOSCRIPT: there are no scripts",
        action: Action::Run(evalsha),
        ..RUN
    },
    Command {
        name: "evalsha_ro",
        syntax: "sha1 numkeys [key ...] [arg ...]",
        summary: "NOSCRIPT: there are no scripts",
        since: "7.0.0",
        action: Action::Run(evalsha),
        ..RUN
    },
    Command {
        name: "fcall",
        syntax: "function numkeys [key ...] [arg ...]",
        summary: "Refused: there are no functions",
        since: "7.0.0",
        ..RUN
    },
    Command {
        name: "fcall_ro",
        syntax: "function numkeys [key ...] [arg ...]",
        summary: "Refused: there are no functions",
        since: "7.0.0",
        ..RUN
    },
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
        name: "function|delete",
        arity: 3,
        syntax: "library",
        summary: "Refused: there are no functions",
        since: "7.0.0",
        ..BRING
    },
    Command {
        name: "function|dump",
        arity: 2,
        summary: "Refused: there are no functions",
        since: "7.0.0",
        ..BRING
    },
    Command {
        name: "function|flush",
        flags: &[Flag::Write],
        when_full: WhenFull::Frees,
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
            Ok(Effect::Unchanged)
        }),
        ..SCRIPTING
    },
    Command {
        name: "function|kill",
        arity: 2,
        summary: "NOTBUSY: there are no functions",
        since: "7.0.0",
        action: Action::Run(|_, _, _| Err(NOT_BUSY)),
        ..SCRIPTING
    },
    Command {
        name: "function|list",
        syntax: "[LIBRARYNAME pattern] [WITHCODE]",
        summary: "An empty list: there are no functions",
        since: "7.0.0",
        action: Action::Run(list),
        ..SCRIPTING
    },
    Command {
        name: "function|load",
        arity: -3,
        syntax: "[REPLACE] code",
        summary: "Refused: there are no functions",
        since: "7.0.0",
        ..BRING
    },
    Command {
        name: "function|restore",
        arity: -3,
        syntax: "payload [FLUSH|APPEND|REPLACE]",
        summary: "Refused: there are no functions",
        since: "7.0.0",
        ..BRING
    },
    Command {
        name: "function|stats",
        arity: 2,
        summary: "Refused: there are no functions",
        since: "7.0.0",
        ..BRING
    },
];

const SCRIPT: &[Command] = &[
    Command {
        name: "script|debug",
        arity: 3,
        syntax: "YES|SYNC|NO",
        summary: "Refused: there are no scripts",
        since: "3.2.0",
        ..BRING
    },
    Command {
        name: "script|exists",
        arity: -3,
        syntax: "sha1 [sha1 ...]",
        summary: "A zero for each: there are no scripts",
        cost: "O(n) with n digests",
        action: Action::Run(|_, args, reply| {
            reply.array(args.len() - 2);
            args.from(2).for_each(|_| reply.integer(0));
            Ok(Effect::Unchanged)
        }),
        ..SCRIPTING
    },
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
            Ok(Effect::Unchanged)
        }),
        ..SCRIPTING
    },
    Command {
        name: "script|kill",
        arity: 2,
        summary: "NOTBUSY: there are no scripts",
        action: Action::Run(|_, _, _| Err(NOT_BUSY)),
        ..SCRIPTING
    },
    Command {
        name: "script|load",
        arity: 3,
        syntax: "script",
        summary: "Refused: there are no scripts",
        ..BRING
    },
];

fn not_offered(_: &mut Session, _: Args<'_>, _: &mut Reply) -> Outcome {
    Err(NOT_OFFERED)
}

/// As Redis: what cannot be a digest is no script, and the number of keys is looked at before.
fn evalsha(_: &mut Session, args: Args<'_>, _: &mut Reply) -> Outcome {
    if args.at(1).len() == DIGEST_SIZE {
        let key_count = super::integer(args.at(2))?;
        if key_count > args.len() as i64 - 3 {
            let text = "ERR Number of keys can't be greater than number of args";
            return Err(Failure::text(text));
        }
        if key_count < 0 {
            return Err(Failure::text("ERR Number of keys can't be negative"));
        }
    }
    Err(NO_SCRIPT)
}

fn list(_: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (mut at, mut has_name, mut has_code) = (2, false, false);
    while let Some(word) = args.get(at) {
        if !has_code && args.is(at, "withcode") {
            has_code = true;
        } else if !has_name && args.is(at, "libraryname") {
            at += 1;
            if args.get(at).is_none() {
                return Err(Failure::text("ERR library name argument was not given"));
            }
            has_name = true;
        } else {
            let mut text = b"ERR Unknown argument ".to_vec();
            text.extend_from_slice(super::cut(word, super::REPEATED_BYTES));
            return Err(Failure::made(text));
        }
        at += 1;
    }
    reply.array(0);
    Ok(Effect::Unchanged)
}

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
    Ok(Effect::Unchanged)
}
