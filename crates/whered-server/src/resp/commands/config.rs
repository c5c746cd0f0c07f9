//! `CONFIG`: what can be read and changed while the door is open.
//!
//! Not for: the parameters themselves (`parameters`). A `SET` of several parameters changes all of
//! them or none.

use super::parameters::{PARAMETERS, Parameter};
use super::{Action, Command, Effect, Failure, Flag, OPERATOR, Outcome, cut, wrong_arity};
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::Session;
use whered_engine::glob;

const CONFIG_COMMAND: Command = Command { since: "2.0.0", ..OPERATOR };

pub(super) const COMMANDS: &[Command] = &[Command {
    name: "config",
    arity: -2,
    flags: &[],
    syntax: "subcommand ...",
    summary: "A container for commands about the configuration",
    cost: "Depends on the subcommand.",
    action: Action::Subcommands(CONFIG),
    ..CONFIG_COMMAND
}];

const CONFIG: &[Command] = &[
    Command {
        name: "config|get",
        arity: -3,
        syntax: "parameter [parameter ...]",
        summary: "Returns the values of the parameters that match patterns",
        cost: "O(N) with N parameters",
        action: Action::Run(get),
        ..CONFIG_COMMAND
    },
    Command {
        name: "config|help",
        flags: &[],
        summary: "Shows what CONFIG can do",
        since: "5.0.0",
        action: Action::Run(|_, _, reply| {
            super::introspection::help("CONFIG", CONFIG, reply);
            Ok(Effect::Unchanged)
        }),
        ..CONFIG_COMMAND
    },
    Command {
        name: "config|resetstat",
        summary: "Resets the counters",
        action: Action::Run(|session, _, reply| {
            session.shared.counters.reset();
            session.shared.statistics.reset();
            reply.ok();
            Ok(Effect::Unchanged)
        }),
        ..CONFIG_COMMAND
    },
    Command {
        name: "config|set",
        arity: -4,
        flags: &[Flag::Admin, Flag::Dangerous, Flag::NoSlowlog],
        syntax: "parameter value [parameter value ...]",
        summary: "Changes parameters, all or none, until the server stops",
        cost: "O(N) with N parameters given",
        action: Action::Run(set),
        ..CONFIG_COMMAND
    },
];

fn get(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    // A name without wildcards is given back as it was asked for.
    let mut found: Vec<(&[u8], &Parameter)> = Vec::new();
    for pattern in args.from(2) {
        let lower = pattern.to_ascii_lowercase();
        let is_pattern = pattern.iter().any(|byte| b"[*?".contains(byte));
        for parameter in PARAMETERS.iter().filter(|it| glob::matches(&lower, it.name.as_bytes())) {
            let shown = if is_pattern { parameter.name.as_bytes() } else { pattern };
            if !found.iter().any(|(name, _)| *name == shown) {
                found.push((shown, parameter));
            }
        }
    }
    reply.map(found.len());
    for (name, parameter) in found {
        reply.bulk(name);
        reply.bulk((parameter.get)(session).as_bytes());
    }
    Ok(Effect::Unchanged)
}

fn set(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() % 2 == 1 {
        return Err(wrong_arity("config|set"));
    }
    let mut changes: Vec<(&Parameter, &str)> = Vec::new();
    for at in (2..args.len()).step_by(2) {
        let name = args.at(at).to_ascii_lowercase();
        let parameter = PARAMETERS.iter().find(|parameter| parameter.name.as_bytes() == name);
        let parameter = parameter.ok_or_else(|| {
            let shown = cut(args.at(at), 128);
            let text = b"ERR Unknown option or number of arguments for CONFIG SET - '";
            Failure::made([text, shown, b"'"].concat())
        })?;
        let refuse = |why: &str| {
            Failure::made(format!(
                "ERR CONFIG SET failed (possibly related to argument '{}') - {why}",
                parameter.name
            ))
        };
        if parameter.set.is_none() {
            return Err(refuse("can't set immutable config"));
        }
        if changes.iter().any(|(other, _)| other.name == parameter.name) {
            return Err(refuse("duplicate parameter"));
        }
        let value = std::str::from_utf8(args.at(at + 1)).map_err(|_| refuse("not UTF-8"))?;
        changes.push((parameter, value));
    }
    // First all are looked at, then all are changed: a wrong one changes nothing.
    for really in [false, true] {
        for (parameter, value) in &changes {
            let Some(change) = parameter.set else { continue };
            change(session, value, really).map_err(|why| {
                let name = parameter.name;
                let text = "ERR CONFIG SET failed (possibly related to argument";
                Failure::made(format!("{text} '{name}') - {why}"))
            })?;
        }
    }
    reply.ok();
    Ok(Effect::Unchanged)
}
