//! Access lists: `ACL` as far as it only reads, and what a user's rules allow.
//!
//! Users come from the configuration; nothing here changes them. The words are those of Redis:
//! `+name -name +container|subcommand +@category -@category`, `+@all` and `-@all`.

use super::{Action, Command, CommandTable, Effect, Entry, Failure, Flag, OPERATOR, Outcome};
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::Session;
use crate::resp::users::{self, User};

const ACL_COMMAND: Command = Command { cost: "O(N) with N users", since: "6.0.0", ..OPERATOR };

pub(super) const COMMANDS: &[Command] = &[Command {
    name: "acl",
    arity: -2,
    flags: &[],
    syntax: "subcommand ...",
    summary: "A container for commands about users",
    cost: "Depends on the subcommand.",
    action: Action::Subcommands(ACL),
    ..ACL_COMMAND
}];

const ACL: &[Command] = &[
    Command {
        name: "acl|cat",
        arity: -2,
        flags: &[],
        syntax: "[category]",
        summary: "Returns the categories, or the commands of one",
        cost: "O(N) with N commands",
        action: Action::Run(cat),
        ..ACL_COMMAND
    },
    Command {
        name: "acl|dryrun",
        arity: -4,
        syntax: "username command [arg ...]",
        summary: "Says whether a user may give a command, without running it",
        cost: "O(N) with N arguments",
        since: "7.0.0",
        action: Action::Run(dry_run),
        ..ACL_COMMAND
    },
    Command {
        name: "acl|getuser",
        arity: 3,
        syntax: "username",
        summary: "Returns the rules of a user",
        action: Action::Run(|session, args, reply| {
            match session.shared.users.find(args.at(2)) {
                Some(user) => write_user(&user, reply),
                None => reply.null(),
            }
            Ok(Effect::Unchanged)
        }),
        ..ACL_COMMAND
    },
    Command {
        name: "acl|help",
        flags: &[],
        summary: "Shows what ACL can do",
        action: Action::Run(|_, _, reply| {
            super::introspection::help("ACL", ACL, reply);
            Ok(Effect::Unchanged)
        }),
        ..ACL_COMMAND
    },
    Command {
        name: "acl|list",
        summary: "Returns the rules of all users, a line for each",
        action: Action::Run(|session, _, reply| {
            let users = session.shared.users.all();
            reply.array(users.len());
            users.iter().for_each(|user| reply.bulk(line_of(user).as_bytes()));
            Ok(Effect::Unchanged)
        }),
        ..ACL_COMMAND
    },
    Command {
        name: "acl|users",
        summary: "Returns the names of the users",
        action: Action::Run(|session, _, reply| {
            let users = session.shared.users.all();
            reply.array(users.len());
            users.iter().for_each(|user| reply.bulk(user.name.as_bytes()));
            Ok(Effect::Unchanged)
        }),
        ..ACL_COMMAND
    },
    Command {
        name: "acl|whoami",
        flags: &[],
        summary: "Returns the name of the connection's user",
        cost: "O(1)",
        action: Action::Run(|session, _, reply| {
            reply.bulk(session.user.name.as_bytes());
            Ok(Effect::Unchanged)
        }),
        ..ACL_COMMAND
    },
];

fn dry_run(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let quoted = |before: &str, name: &[u8]| {
        Failure::made(
            [before.as_bytes(), b" '", super::cut(name, name.len()), b"' not found"].concat(),
        )
    };
    let user = session.shared.users.find(args.at(2));
    let user = user.ok_or_else(|| quoted("ERR User", args.at(2)))?;
    let request = args.skip(3);
    let table = session.shared.commands;
    let entry = table.find(request.at(0)).and_then(|entry| match request.get(1) {
        Some(name) if entry.has_subcommands() => table.subcommand(entry, name),
        _ => Some(entry),
    });
    let entry = entry.ok_or_else(|| quoted("ERR Command", request.at(0)))?;
    entry.command.check_arity(request.len())?;
    match super::permissions::denied(session, &user, entry, request) {
        None => reply.ok(),
        Some(denied) => reply.bulk(&denied.text()),
    }
    Ok(Effect::Unchanged)
}

/// Every category, those of Redis first.
const CATEGORIES: [&str; 25] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
    "ip",
    "cidr",
    "rules",
    "steer",
];

fn cat(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let Some(wanted) = args.get(2) else {
        reply.array(CATEGORIES.len());
        CATEGORIES.iter().for_each(|category| reply.bulk(category.as_bytes()));
        return Ok(Effect::Unchanged);
    };
    if args.len() > 3 {
        return Err(super::unknown_or_wrong_arity(args.at(1), "ACL"));
    }
    let lower = wanted.to_ascii_lowercase();
    let Some(category) = CATEGORIES.iter().find(|category| category.as_bytes() == lower) else {
        let text = [b"ERR Unknown category '", super::cut(wanted, wanted.len()), b"'"].concat();
        return Err(Failure::made(text));
    };
    let entries = session.shared.commands.entries();
    let found = || entries.iter().filter(|entry| is_in(entry, category));
    reply.array(found().count());
    found().for_each(|entry| reply.bulk(entry.command.name.as_bytes()));
    Ok(Effect::Unchanged)
}

fn is_in(entry: &Entry, category: &str) -> bool {
    // A container runs nothing itself.
    !matches!(entry.command.action, Action::Subcommands(_))
        && categories(entry.command).iter().any(|name| &name[1..] == category)
}

/// The categories of a command, each with its `@`.
pub(super) fn categories(command: &Command) -> Vec<&'static str> {
    let by_group = match command.group {
        "generic" => Some("@keyspace"),
        "string" => Some("@string"),
        "sorted-set" => Some("@sortedset"),
        "geo" => Some("@geo"),
        "connection" => Some("@connection"),
        "transactions" => Some("@transaction"),
        "scripting" => Some("@scripting"),
        "ip" => Some("@ip"),
        "cidr" => Some("@cidr"),
        "rules" => Some("@rules"),
        "steer" => Some("@steer"),
        _ => None,
    };
    let by_flag = [
        (Flag::Write, "@write"),
        (Flag::ReadOnly, "@read"),
        (Flag::PubSub, "@pubsub"),
        (Flag::Blocking, "@blocking"),
        (Flag::Admin, "@admin"),
        (Flag::Dangerous, "@dangerous"),
    ];
    let by_flag = by_flag.iter().filter(|(flag, _)| command.has(*flag)).map(|(_, name)| *name);
    let speed = if command.has(Flag::Fast) { "@fast" } else { "@slow" };
    let keyspace = command.has(Flag::Keyspace).then_some("@keyspace");
    by_group.into_iter().chain(keyspace).chain(by_flag).chain([speed]).collect()
}

/// What rules allow, by command number: the last rule that fits counts, and without one nothing
/// is allowed.
///
/// # Errors
/// The first rule that is none.
pub(crate) fn allowed_by(table: &CommandTable, rules: &[String]) -> Result<Vec<bool>, String> {
    let mut allowed = vec![false; table.entries().len()];
    for rule in rules {
        let (give, what) = match (rule.strip_prefix('+'), rule.strip_prefix('-'), rule.as_str()) {
            (Some(what), _, _) => (true, what),
            (_, Some(what), _) => (false, what),
            (_, _, "allcommands") => (true, "@all"),
            (_, _, "nocommands") => (false, "@all"),
            _ => return Err(rule.clone()),
        };
        let what = what.to_ascii_lowercase();
        let fits: Box<dyn Fn(&Entry) -> bool> = match what.strip_prefix('@') {
            Some("all") => Box::new(|_| true),
            Some(category) if CATEGORIES.contains(&category) => {
                Box::new(move |entry| categories(entry.command).iter().any(|c| &c[1..] == category))
            }
            Some(_) => return Err(rule.clone()),
            None => {
                let entry = table.find_any(what.as_bytes()).ok_or_else(|| rule.clone())?;
                let last = entry.number + table.subcommands(entry).len();
                Box::new(move |other| (entry.number..=last).contains(&other.number))
            }
        };
        table.entries().iter().filter(|entry| fits(entry)).for_each(|e| allowed[e.number] = give);
    }
    Ok(allowed)
}

/// A user's rules for commands in one line.
fn rules_of(user: &User) -> String {
    match user.rules.as_slice() {
        [all] if all == "+@all" || all == "allcommands" => "+@all".to_owned(),
        rules => std::iter::once("-@all")
            .chain(rules.iter().map(String::as_str))
            .collect::<Vec<_>>()
            .join(" "),
    }
}

fn patterns(sign: char, patterns: &[String]) -> String {
    patterns.iter().map(|pattern| format!("{sign}{pattern}")).collect::<Vec<_>>().join(" ")
}

fn line_of(user: &User) -> String {
    let password = match &user.password {
        Some(hash) => format!("#{}", users::hexadecimal(hash)),
        None => "nopass".to_owned(),
    };
    let keys = patterns('~', &user.keys);
    let mut channels = patterns('&', &user.channels);
    if !user.channels.iter().any(|channel| channel == "*") {
        channels = format!("resetchannels {channels}").trim_end().to_owned();
    }
    let name = &user.name;
    let names = names_of(user).map(|(list, patterns)| format!("{list}{patterns}"));
    let names = names.collect::<Vec<_>>().join(" ");
    let parts = ["user", name, "on", &password, &keys, &channels, &names, &rules_of(user)];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(" ")
}

/// The lists of the kinds that Redis does not have, with their patterns.
fn names_of(user: &User) -> impl Iterator<Item = (&'static str, String)> + '_ {
    user.names.iter().map(|(kind, names)| (kind.list(), patterns('~', names)))
}

fn write_user(user: &User, reply: &mut Reply) {
    reply.map(6 + user.names.len());
    reply.bulk(b"flags");
    let flags: &[&str] = if user.password.is_none() { &["on", "nopass"] } else { &["on"] };
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    reply.array(usize::from(user.password.is_some()));
    if let Some(hash) = &user.password {
        reply.bulk(users::hexadecimal(hash).as_bytes());
    }
    for (field, value) in [
        ("commands", rules_of(user)),
        ("keys", patterns('~', &user.keys)),
        ("channels", patterns('&', &user.channels)),
    ] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    for (list, patterns) in names_of(user) {
        reply.bulk(list.as_bytes());
        reply.bulk(patterns.as_bytes());
    }
    reply.bulk(b"selectors");
    reply.array(0);
}
