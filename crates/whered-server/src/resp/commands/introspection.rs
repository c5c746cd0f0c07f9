//! What the server tells about itself: `INFO COMMAND`.
//!
//! `COMMAND` is made from the command table. `INFO` has the sections and field names of Redis
//! where they are true here, and fields of our own (`whered_...`, `journal_...`) beside them.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use whered_engine::DATABASE_COUNT;

use super::{Action, Command, Failure, Flag, Outcome, SYNTAX_ERROR, all, by_name, subcommand};
use crate::resp::glob;
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::Session;

/// The version of Redis whose replies are given.
pub(super) const REDIS_VERSION: &str = "7.0.15";

const SERVER: Command = Command {
    name: "",
    arity: -1,
    flags: &[],
    group: "server",
    keys: (0, 0, 0),
    syntax: "",
    summary: "",
    cost: "O(N) with N commands",
    since: "2.8.13",
    action: Action::Subcommands(&[]),
};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "info",
        flags: &[Flag::Dangerous],
        syntax: "[section [section ...]]",
        summary: "Tells what the server is and does",
        cost: "O(1)",
        since: "1.0.0",
        action: Action::Run(info),
        ..SERVER
    },
    Command {
        name: "command",
        syntax: "[subcommand ...]",
        summary: "Describes all commands",
        action: Action::Run(command),
        ..SERVER
    },
];

/// `COMMAND` works with and without a subcommand, so it looks them up itself.
const COMMAND: &[Command] = &[
    Command {
        name: "command|count",
        arity: 2,
        summary: "Gives the number of commands",
        action: Action::Run(|_, _, reply| {
            reply.count(all().count());
            Ok(())
        }),
        ..SERVER
    },
    Command {
        name: "command|docs",
        arity: -2,
        syntax: "[command-name ...]",
        summary: "Gives purpose, cost and arguments of commands",
        since: "7.0.0",
        action: Action::Run(docs),
        ..SERVER
    },
    Command {
        name: "command|getkeys",
        arity: -4,
        syntax: "command [arg ...]",
        summary: "Gives the keys of a request",
        cost: "O(N) with N arguments",
        action: Action::Run(get_keys),
        ..SERVER
    },
    Command {
        name: "command|help",
        arity: 2,
        summary: "Shows what COMMAND can do",
        since: "5.0.0",
        action: Action::Run(|_, _, reply| {
            help("COMMAND", COMMAND, reply);
            Ok(())
        }),
        ..SERVER
    },
    Command {
        name: "command|info",
        arity: -2,
        syntax: "[command-name ...]",
        summary: "Gives the properties of commands",
        action: Action::Run(|_, args, reply| {
            if args.len() == 2 {
                return every_command(reply);
            }
            reply.array(args.len() - 2);
            for name in args.from(2) {
                match any(name) {
                    Some(command) => write_command(command, reply),
                    None => reply.null_array(),
                }
            }
            Ok(())
        }),
        ..SERVER
    },
    Command {
        name: "command|list",
        arity: -2,
        syntax: "[FILTERBY MODULE module-name|ACLCAT category|PATTERN pattern]",
        summary: "Gives the names of commands",
        since: "7.0.0",
        action: Action::Run(list),
        ..SERVER
    },
];

fn command(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let Some(name) = args.get(1) else {
        return every_command(reply);
    };
    let container = by_name(b"command").expect("this function is called from its entry");
    let found = subcommand(container, COMMAND, name);
    let found = found.ok_or_else(|| super::unknown_subcommand(container, name))?;
    super::run(session, found, args, reply)
}

fn every_command(reply: &mut Reply) -> Outcome {
    reply.array(all().count());
    all().for_each(|command| write_command(command, reply));
    Ok(())
}

/// The subcommands of a command, those of `COMMAND` included.
fn subcommands(command: &Command) -> &'static [Command] {
    if command.name == "command" { COMMAND } else { command.subcommands() }
}

/// A command or, as `container|name`, a subcommand.
fn any(name: &[u8]) -> Option<&'static Command> {
    match name.iter().position(|byte| *byte == b'|') {
        Some(end) => {
            let container = by_name(&name[..end])?;
            subcommand(container, subcommands(container), &name[end + 1..])
        }
        None => by_name(name),
    }
}

fn write_command(command: &Command, reply: &mut Reply) {
    reply.array(10);
    reply.bulk(command.name.as_bytes());
    reply.integer(i64::from(command.arity));
    let flags = [
        (Flag::Write, "write"),
        (Flag::ReadOnly, "readonly"),
        (Flag::Admin, "admin"),
        (Flag::Fast, "fast"),
        (Flag::NoAuth, "no_auth"),
    ];
    let flags = flags.iter().filter(|(flag, _)| command.has(*flag));
    reply.set(flags.clone().count());
    flags.for_each(|(_, name)| reply.simple(name));
    let (first, last, step) = command.keys;
    [first, last, step].iter().for_each(|key| reply.integer(i64::from(*key)));
    let categories = categories(command);
    reply.set(categories.len());
    categories.iter().for_each(|category| reply.simple(category));
    reply.array(0);
    // Key specifications, which only clusters need.
    reply.array(0);
    let subcommands = subcommands(command);
    reply.array(subcommands.len());
    subcommands.iter().for_each(|subcommand| write_command(subcommand, reply));
}

/// The categories that an access list of Redis would have for it.
fn categories(command: &Command) -> Vec<&'static str> {
    let by_group = match command.group {
        "generic" => Some("@keyspace"),
        "sorted-set" => Some("@sortedset"),
        "geo" => Some("@geo"),
        "connection" => Some("@connection"),
        "ip" => Some("@ip"),
        "cidr" => Some("@cidr"),
        "steer" => Some("@steer"),
        _ => None,
    };
    let by_flag = [
        (Flag::Write, "@write"),
        (Flag::ReadOnly, "@read"),
        (Flag::Admin, "@admin"),
        (Flag::Dangerous, "@dangerous"),
    ];
    let by_flag = by_flag.iter().filter(|(flag, _)| command.has(*flag)).map(|(_, name)| *name);
    let speed = if command.has(Flag::Fast) { "@fast" } else { "@slow" };
    by_group.into_iter().chain(by_flag).chain([speed]).collect()
}

fn docs(_: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let commands: Vec<&Command> =
        if args.len() == 2 { all().collect() } else { args.from(2).filter_map(any).collect() };
    reply.map(commands.len());
    for command in commands {
        write_docs(command, reply);
    }
    Ok(())
}

fn write_docs(command: &Command, reply: &mut Reply) {
    let subcommands = subcommands(command);
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

fn list(_: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
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
    let names = || all().filter(|command| fits(command));
    reply.array(names().count());
    names().for_each(|command| reply.bulk(command.name.as_bytes()));
    Ok(())
}

fn get_keys(_: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let request = args.skip(2);
    let command = by_name(request.at(0));
    let command = command.ok_or(Failure::text("ERR Invalid command specified"))?;
    let (first, last, step) = command.keys;
    if first == 0 {
        return Err(Failure::text("ERR The command has no key arguments"));
    }
    if !command.takes(request.len()) {
        return Err(Failure::text("ERR Invalid number of arguments specified for command"));
    }
    let last = if last < 0 { request.len() as i32 + last } else { last };
    let keys = || (first..=last).step_by(step.unsigned_abs() as usize);
    reply.array(keys().count());
    keys().for_each(|key| reply.bulk(request.at(key as usize)));
    Ok(())
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

type Section = fn(&Session, &mut String);

/// The sections in order; each writes its own lines.
const SECTIONS: [(&str, Section); 7] = [
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory),
    ("Persistence", persistence),
    ("Stats", stats),
    ("Replication", replication),
    ("Keyspace", keyspace),
];

fn info(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let everything = args.len() == 1
        || (1..args.len())
            .any(|at| ["all", "default", "everything"].iter().any(|w| args.is(at, w)));
    let mut text = String::new();
    for (name, write) in SECTIONS {
        if everything || (1..args.len()).any(|at| args.is(at, name)) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            text.push_str("# ");
            text.push_str(name);
            text.push_str("\r\n");
            write(session, &mut text);
        }
    }
    reply.verbatim(text.as_bytes());
    Ok(())
}

/// Appends one line `field:value`.
fn line(text: &mut String, field: &str, value: impl std::fmt::Display) {
    // Writing to a string cannot fail.
    let _ = write!(text, "{field}:{value}\r\n");
}

fn server(session: &Session, text: &mut String) {
    let shared = &session.shared;
    let uptime_seconds = shared.started.elapsed().as_secs();
    line(text, "redis_version", REDIS_VERSION);
    line(text, "whered_version", shared.options.version);
    line(text, "redis_mode", "standalone");
    line(text, "os", std::env::consts::OS);
    line(text, "arch_bits", usize::BITS);
    line(text, "multiplexing_api", "epoll");
    line(text, "process_id", std::process::id());
    line(text, "run_id", &shared.options.run_id);
    line(text, "tcp_port", shared.port);
    line(text, "server_time_usec", session.engine().now_millis() * 1000);
    line(text, "uptime_in_seconds", uptime_seconds);
    line(text, "uptime_in_days", uptime_seconds / 86_400);
    line(text, "io_threads_active", shared.options.threads.max(1));
}

fn clients(session: &Session, text: &mut String) {
    let shared = &session.shared;
    line(text, "connected_clients", shared.counters.connections_open.load(Ordering::Relaxed));
    line(text, "maxclients", shared.options.max_clients);
    line(text, "blocked_clients", 0);
}

fn memory(_: &Session, text: &mut String) {
    // The second number of this file counts resident pages of 4 KiB (proc(5)).
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|statm| statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()));
    if let Some(pages) = pages {
        line(text, "used_memory_rss", pages * 4096);
    }
    line(text, "maxmemory", 0);
    line(text, "maxmemory_policy", "noeviction");
}

fn persistence(session: &Session, text: &mut String) {
    line(text, "loading", 0);
    let Some(stats) = session.engine().journal_stats() else {
        return line(text, "aof_enabled", 0);
    };
    let poisoned = session.engine().journal_poisoned();
    line(text, "aof_enabled", 1);
    line(text, "aof_last_write_status", if poisoned.is_none() { "ok" } else { "err" });
    line(text, "journal_groups", stats.groups);
    line(text, "journal_frames", stats.frames);
    line(text, "journal_bytes", stats.bytes);
    line(text, "journal_poisoned", u8::from(poisoned.is_some()));
    if let Some(reason) = poisoned {
        let reason = reason.replace(['\r', '\n'], " ");
        line(text, "journal_error", reason);
        line(text, "journal_note", "memory may hold writes that were not acknowledged");
    }
}

fn stats(session: &Session, text: &mut String) {
    let counters = &session.shared.counters;
    let fields = [
        ("total_connections_received", &counters.connections_accepted),
        ("total_commands_processed", &counters.commands),
        ("total_net_input_bytes", &counters.input_bytes),
        ("total_net_output_bytes", &counters.output_bytes),
        ("rejected_connections", &counters.connections_rejected),
        ("total_error_replies", &counters.errors),
        ("client_query_buffer_limit_disconnections", &counters.query_limit_closed),
        ("client_output_buffer_limit_disconnections", &counters.output_limit_closed),
    ];
    for (field, counter) in fields {
        line(text, field, counter.load(Ordering::Relaxed));
    }
}

fn replication(_: &Session, text: &mut String) {
    line(text, "role", "master");
    line(text, "connected_slaves", 0);
}

fn keyspace(session: &Session, text: &mut String) {
    for number in 0..DATABASE_COUNT {
        let keyspace = session.engine().keyspace();
        let (keys, expires) = (keyspace.len(number), keyspace.expiring_len(number));
        if keys > 0 {
            let fields = format_args!("keys={keys},expires={expires},avg_ttl=0");
            line(text, &format!("db{number}"), fields);
        }
    }
}
