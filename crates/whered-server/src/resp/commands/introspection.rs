//! What the commands tell about themselves: `COMMAND`, made from the command table.
//! Not for: which keys a request has (`key_spec`), categories (`acl`).

use super::acl::categories;
use super::key_spec::{KeySpec, range_of};
use super::{
    Access, Action, Channels, Command, CommandTable, Effect, Failure, Flag, InTransaction, Members,
    Outcome, SYNTAX_ERROR, WhenFull,
};
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::Session;
use whered_engine::glob;

/// The version of Redis whose replies are given.
pub(super) const REDIS_VERSION: &str = "7.0.15";

const SERVER: Command = Command {
    name: "",
    arity: -1,
    flags: &[],
    group: "server",
    keys: &[],
    names: &[],
    channels: Channels::None,
    members: Members::None,
    when_full: WhenFull::Runs,
    in_transaction: InTransaction::Queued,
    syntax: "",
    summary: "",
    cost: "O(N) with N commands",
    since: "2.8.13",
    action: Action::Subcommands(&[]),
};

pub(super) const COMMANDS: &[Command] = &[Command {
    name: "command",
    syntax: "[subcommand ...]",
    summary: "Describes all commands",
    action: Action::Either(every_command, COMMAND),
    ..SERVER
}];

const COMMAND: &[Command] = &[
    Command {
        name: "command|count",
        arity: 2,
        summary: "Returns the number of commands",
        action: Action::Run(|session, _, reply| {
            reply.count(session.shared.commands.all().count());
            Ok(Effect::Unchanged)
        }),
        ..SERVER
    },
    Command {
        name: "command|docs",
        arity: -2,
        syntax: "[command-name ...]",
        summary: "Returns purpose, cost and arguments of commands",
        since: "7.0.0",
        action: Action::Run(docs),
        ..SERVER
    },
    Command {
        name: "command|getkeys",
        arity: -4,
        syntax: "command [arg ...]",
        summary: "Returns the keys of a request",
        cost: "O(N) with N arguments",
        action: Action::Run(|session, args, reply| {
            get_keys(session.shared.commands, args, reply, false)
        }),
        ..SERVER
    },
    Command {
        name: "command|getkeysandflags",
        arity: -4,
        syntax: "command [arg ...]",
        summary: "Returns the keys of a request and what is done to each",
        cost: "O(N) with N arguments",
        since: "7.0.0",
        action: Action::Run(|session, args, reply| {
            get_keys(session.shared.commands, args, reply, true)
        }),
        ..SERVER
    },
    Command {
        name: "command|help",
        arity: 2,
        summary: "Shows what COMMAND can do",
        since: "5.0.0",
        action: Action::Run(|_, _, reply| {
            help("COMMAND", COMMAND, reply);
            Ok(Effect::Unchanged)
        }),
        ..SERVER
    },
    Command {
        name: "command|info",
        arity: -2,
        syntax: "[command-name ...]",
        summary: "Returns the properties of commands",
        action: Action::Run(|session, args, reply| {
            if args.len() == 2 {
                return every_command(session, args, reply);
            }
            reply.array(args.len() - 2);
            for name in args.from(2) {
                match any(session.shared.commands, name) {
                    Some(command) => write_command(command, reply),
                    None => reply.null(),
                }
            }
            Ok(Effect::Unchanged)
        }),
        ..SERVER
    },
    Command {
        name: "command|list",
        arity: -2,
        syntax: "[FILTERBY MODULE module-name|ACLCAT category|PATTERN pattern]",
        summary: "Returns the names of commands",
        since: "7.0.0",
        action: Action::Run(list),
        ..SERVER
    },
];

fn every_command(session: &mut Session, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let table = session.shared.commands;
    reply.array(table.all().count());
    table.all().for_each(|command| write_command(command, reply));
    Ok(Effect::Unchanged)
}

/// A command or, as `container|name`, a subcommand.
fn any(table: &CommandTable, name: &[u8]) -> Option<&'static Command> {
    table.find_any(name).map(|entry| entry.command)
}

fn write_command(command: &Command, reply: &mut Reply) {
    reply.array(10);
    reply.bulk(command.name.as_bytes());
    reply.integer(i64::from(command.arity));
    let flags = [
        (Flag::Write, "write"),
        (Flag::ReadOnly, "readonly"),
        (Flag::Admin, "admin"),
        (Flag::PubSub, "pubsub"),
        (Flag::Blocking, "blocking"),
        (Flag::Fast, "fast"),
        (Flag::NoAuth, "no_auth"),
        (Flag::NoSlowlog, "skip_slowlog"),
    ];
    let flags = flags.iter().filter(|(flag, _)| command.has(*flag)).map(|(_, name)| *name);
    let is_movable = command.keys.iter().any(KeySpec::is_movable);
    let flags = flags.chain(command.denies_oom().then_some("denyoom"));
    let flags: Vec<&str> = flags.chain(is_movable.then_some("movablekeys")).collect();
    reply.set(flags.len());
    flags.iter().for_each(|name| reply.simple(name));
    range_of(command.keys).into_iter().for_each(|key| reply.integer(key));
    let categories = categories(command);
    reply.set(categories.len());
    categories.iter().for_each(|category| reply.simple(category));
    reply.array(0);
    // Key specifications, which only clusters need.
    reply.array(0);
    let subcommands = command.subcommands();
    reply.array(subcommands.len());
    subcommands.iter().for_each(|subcommand| write_command(subcommand, reply));
}

fn docs(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let table = session.shared.commands;
    let commands: Vec<&Command> = match args.len() {
        2 => table.all().collect(),
        _ => args.from(2).filter_map(|name| any(table, name)).collect(),
    };
    reply.map(commands.len());
    for command in commands {
        write_docs(command, reply);
    }
    Ok(Effect::Unchanged)
}

fn write_docs(command: &Command, reply: &mut Reply) {
    let subcommands = command.subcommands();
    reply.bulk(command.name.as_bytes());
    let texts = [
        ("summary", command.summary),
        ("since", command.since),
        ("group", command.group),
        ("complexity", command.cost),
        ("syntax", command.syntax),
    ];
    let texts = texts.iter().filter(|(_, text)| !text.is_empty());
    reply.map(texts.clone().count() + usize::from(!subcommands.is_empty()));
    for (key, text) in texts {
        reply.bulk(key.as_bytes());
        reply.bulk(text.as_bytes());
    }
    if !subcommands.is_empty() {
        reply.bulk(b"subcommands");
        reply.map(subcommands.len());
        subcommands.iter().for_each(|subcommand| write_docs(subcommand, reply));
    }
}

fn list(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let fits: Box<dyn Fn(&Command) -> bool> = match args.len() {
        2 => Box::new(|_| true),
        5 if args.is(2, "filterby") && args.is(3, "pattern") => {
            let pattern = args.at(4).to_ascii_lowercase();
            Box::new(move |command| glob::matches(&pattern, command.name.as_bytes()))
        }
        5 if args.is(2, "filterby") && args.is(3, "aclcat") => {
            let category = [b"@", args.at(4).to_ascii_lowercase().as_slice()].concat();
            Box::new(move |command| {
                categories(command).iter().any(|name| name.as_bytes() == category)
            })
        }
        // There are no modules.
        5 if args.is(2, "filterby") && args.is(3, "module") => Box::new(|_| false),
        _ => return Err(SYNTAX_ERROR),
    };
    let table = session.shared.commands;
    let names = || table.all().filter(|command| fits(command));
    reply.array(names().count());
    names().for_each(|command| reply.bulk(command.name.as_bytes()));
    Ok(Effect::Unchanged)
}

fn get_keys(table: &CommandTable, args: Args<'_>, reply: &mut Reply, with_flags: bool) -> Outcome {
    let request = args.skip(2);
    let command = table.by_name(request.at(0));
    let command = command.ok_or(Failure::text("ERR Invalid command specified"))?;
    if command.keys.is_empty() {
        return Err(Failure::text("ERR The command has no key arguments"));
    }
    if !command.takes(request.len()) {
        return Err(Failure::text("ERR Invalid number of arguments specified for command"));
    }
    let keys: Vec<_> = command.keys_of(request).collect();
    let is_counted = command.keys.iter().any(KeySpec::is_movable);
    if is_counted && keys.is_empty() {
        return Err(Failure::text("ERR Invalid arguments specified for command"));
    }
    reply.array(keys.len());
    for (key, access) in keys {
        if !with_flags {
            reply.bulk(key);
            continue;
        }
        let flags: &[&str] = match access {
            Access::Look => &["RO"],
            Access::Read => &["RO", "access"],
            Access::Update => &["RW", "update"],
            Access::Overwrite => &["OW", "update"],
            Access::Exchange => &["RW", "access", "update"],
            Access::Extend => &["RW", "insert"],
            Access::Create => &["OW", "insert"],
            Access::Shorten => &["RW", "delete"],
            Access::Delete => &["RM", "delete"],
            Access::Move => &["RW", "access", "delete"],
        };
        reply.array(2);
        reply.bulk(key);
        reply.set(flags.len());
        flags.iter().for_each(|flag| reply.simple(flag));
    }
    Ok(Effect::Unchanged)
}

/// The answer of `HELP`: one line for a subcommand and one for what it does.
pub(super) fn help(container: &str, subcommands: &[Command], reply: &mut Reply) {
    reply.array(1 + 2 * subcommands.len());
    reply.simple(&format!("{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    for command in subcommands {
        let name = command.name[container.len() + 1..].to_uppercase();
        reply.simple(format!("{name} {}", command.syntax).trim_end());
        reply.simple(&format!("    {}.", command.summary));
    }
}
