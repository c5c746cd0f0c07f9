//! Commands about connections, also others': `CLIENT`.
//!
//! Cost: constant, except `LIST` and `KILL`, which take as long as there are connections.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::connection::check_client_name;
use super::{
    Action, Channels, Command, Effect, Failure, Flag, InTransaction, Members, Outcome,
    SYNTAX_ERROR, WhenFull, cut, number,
};
use crate::resp::clients::{Client, Transport};
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::{ReplyMode, Session};
use crate::resp::waiting::WaitEnd;

const CONNECTION: Command = Command {
    name: "",
    arity: 2,
    flags: &[],
    group: "connection",
    keys: &[],
    names: &[],
    channels: Channels::None,
    members: Members::None,
    when_full: WhenFull::Runs,
    in_transaction: InTransaction::Queued,
    syntax: "",
    summary: "",
    cost: "O(1)",
    since: "2.4.0",
    action: Action::Subcommands(&[]),
};

pub(super) const COMMANDS: &[Command] = &[Command {
    name: "client",
    arity: -2,
    syntax: "subcommand ...",
    summary: "A container for commands about connections",
    cost: "Depends on the subcommand.",
    action: Action::Subcommands(CLIENT),
    ..CONNECTION
}];

const OF_OTHERS: Command = Command { flags: &[Flag::Admin, Flag::Dangerous], ..CONNECTION };

const CLIENT: &[Command] = &[
    Command {
        name: "client|getname",
        summary: "Returns the name of the connection",
        since: "2.6.9",
        action: Action::Run(|session, _, reply| {
            match session.client.info().name {
                name if name.is_empty() => reply.null(),
                name => reply.bulk(&name),
            }
            Ok(Effect::Unchanged)
        }),
        ..CONNECTION
    },
    Command {
        name: "client|getredir",
        summary: "Returns -1: nothing is tracked",
        since: "6.0.0",
        action: Action::Run(|_, _, reply| {
            reply.integer(-1);
            Ok(Effect::Unchanged)
        }),
        ..CONNECTION
    },
    Command {
        name: "client|help",
        summary: "Shows what CLIENT can do",
        since: "5.0.0",
        action: Action::Run(|_, _, reply| {
            super::introspection::help("CLIENT", CLIENT, reply);
            Ok(Effect::Unchanged)
        }),
        ..CONNECTION
    },
    Command {
        name: "client|id",
        summary: "Returns the number of the connection",
        since: "5.0.0",
        action: Action::Run(|session, _, reply| {
            reply.count(session.client.id as usize);
            Ok(Effect::Unchanged)
        }),
        ..CONNECTION
    },
    Command {
        name: "client|info",
        summary: "Describes the connection",
        since: "6.2.0",
        action: Action::Run(|session, _, reply| {
            // What is noted once a turn is brought up to date first.
            session.client.note(session.command, Instant::now());
            reply.verbatim(&describe(&session.client, false));
            Ok(Effect::Unchanged)
        }),
        ..CONNECTION
    },
    Command {
        name: "client|kill",
        arity: -3,
        syntax: "address:port|[ID client-id] [TYPE NORMAL|MASTER|REPLICA|PUBSUB] [USER username] \
                 [ADDR address:port] [LADDR address:port] [SKIPME YES|NO]",
        summary: "Closes connections, and returns how many",
        cost: "O(N) with N connections",
        action: Action::Run(kill),
        ..OF_OTHERS
    },
    Command {
        name: "client|list",
        arity: -2,
        syntax: "[TYPE NORMAL|MASTER|REPLICA|PUBSUB] [ID client-id [client-id ...]]",
        summary: "Describes all connections",
        cost: "O(N) with N connections",
        action: Action::Run(list),
        ..OF_OTHERS
    },
    Command {
        name: "client|no-evict",
        arity: 3,
        syntax: "ON|OFF",
        summary: "Accepted for Redis clients; connections are never evicted",
        since: "7.0.0",
        action: Action::Run(|_, args, reply| on_or_off(args, reply)),
        ..OF_OTHERS
    },
    Command {
        name: "client|no-touch",
        arity: 3,
        syntax: "ON|OFF",
        summary: "Accepted for Redis clients; keys have no time of last use",
        since: "7.2.0",
        action: Action::Run(|_, args, reply| on_or_off(args, reply)),
        ..CONNECTION
    },
    Command {
        name: "client|pause",
        arity: -3,
        syntax: "timeout [WRITE|ALL]",
        summary: "Pauses all clients' commands, or writes, for a number of milliseconds",
        since: "3.0.0",
        action: Action::Run(pause),
        ..OF_OTHERS
    },
    Command {
        name: "client|reply",
        arity: 3,
        syntax: "ON|OFF|SKIP",
        summary: "Selects which replies the connection gets",
        since: "3.2.0",
        action: Action::Run(reply_mode),
        ..CONNECTION
    },
    Command {
        name: "client|setinfo",
        arity: 4,
        syntax: "LIB-NAME name|LIB-VER version",
        summary: "Sets the name or version of the client's library",
        since: "7.2.0",
        action: Action::Run(set_info),
        ..CONNECTION
    },
    Command {
        name: "client|setname",
        arity: 3,
        syntax: "connection-name",
        summary: "Names the connection",
        since: "2.6.9",
        action: Action::Run(|session, args, reply| {
            check_client_name(args.at(2))?;
            session.client.set_info(|info| info.name = args.at(2).to_vec());
            reply.ok();
            Ok(Effect::Unchanged)
        }),
        ..CONNECTION
    },
    Command {
        name: "client|tracking",
        arity: -3,
        syntax: "ON|OFF",
        summary: "Refused: there is no client-side caching",
        since: "6.0.0",
        action: Action::Run(|_, args, reply| {
            if args.len() == 3 && args.is(2, "off") {
                reply.ok();
                return Ok(Effect::Unchanged);
            }
            Err(Failure::text("ERR client-side caching (CLIENT TRACKING) is not supported"))
        }),
        ..CONNECTION
    },
    Command {
        name: "client|unblock",
        arity: -3,
        syntax: "client-id [TIMEOUT|ERROR]",
        summary: "Ends a client's wait for a key, as its timeout does or with an error",
        since: "5.0.0",
        action: Action::Run(unblock),
        ..OF_OTHERS
    },
    Command {
        name: "client|unpause",
        flags: &[Flag::Admin, Flag::Dangerous, Flag::NeverPaused],
        summary: "Ends a pause",
        since: "6.2.0",
        action: Action::Run(|session, _, reply| {
            session.shared.pause.end();
            wake_everybody(session);
            reply.ok();
            Ok(Effect::Unchanged)
        }),
        ..OF_OTHERS
    },
];

fn on_or_off(args: Args<'_>, reply: &mut Reply) -> Outcome {
    if !args.is(2, "on") && !args.is(2, "off") {
        return Err(SYNTAX_ERROR);
    }
    reply.ok();
    Ok(Effect::Unchanged)
}

fn reply_mode(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.is(2, "on") {
        session.replies = ReplyMode::On;
        reply.ok();
    } else if args.is(2, "off") {
        session.replies = ReplyMode::Off;
    } else if args.is(2, "skip") {
        if session.replies != ReplyMode::Off {
            session.replies = ReplyMode::SkipNext;
        }
    } else {
        return Err(SYNTAX_ERROR);
    }
    Ok(Effect::Unchanged)
}

fn set_info(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (attribute, value) = (args.at(2), args.at(3));
    let is_name = args.is(2, "lib-name");
    if !is_name && !args.is(2, "lib-ver") {
        let shown = cut(attribute, 128);
        return Err(Failure::made([b"ERR Unrecognized option '", shown, b"'"].concat()));
    }
    if !value.iter().all(u8::is_ascii_graphic) {
        let name = if is_name { "lib-name" } else { "lib-ver" };
        return Err(Failure::made(format!(
            "ERR {name} cannot contain spaces, newlines or special characters."
        )));
    }
    session.client.set_info(|info| {
        *(if is_name { &mut info.lib_name } else { &mut info.lib_version }) = value.to_vec();
    });
    reply.ok();
    Ok(Effect::Unchanged)
}

fn pause(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let writes_only = match args.get(3) {
        None => false,
        Some(_) if args.len() > 4 => return Err(SYNTAX_ERROR),
        Some(_) if args.is(3, "write") => true,
        Some(_) if args.is(3, "all") => false,
        Some(_) => return Err(Failure::text("ERR CLIENT PAUSE mode must be WRITE or ALL")),
    };
    let millis = number::integer(args.at(2));
    let millis = millis.ok_or(Failure::text("ERR timeout is not an integer or out of range"))?;
    let millis = u64::try_from(millis).map_err(|_| Failure::text("ERR timeout is negative"))?;
    session.shared.pause.begin(Duration::from_millis(millis), writes_only);
    reply.ok();
    Ok(Effect::Unchanged)
}

fn unblock(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let end = match args.len() {
        3 => WaitEnd::TimedOut,
        4 if args.is(3, "timeout") => WaitEnd::TimedOut,
        4 if args.is(3, "error") => WaitEnd::Unblocked,
        4 => {
            return Err(Failure::text("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"));
        }
        _ => return Err(super::unknown_or_wrong_arity(args.at(1), "CLIENT")),
    };
    let id = u64::try_from(super::integer(args.at(2))?).ok();
    let is_ended = id.is_some_and(|id| session.shared.waiting.end(id, end));
    reply.count(usize::from(is_ended));
    Ok(Effect::Unchanged)
}

/// Workers whose connections wait for a pause's end look again.
fn wake_everybody(session: &Session) {
    for client in session.shared.clients.open() {
        client.origin.notifier.wake();
    }
}

/// Which connections `KILL` and `LIST` mean.
#[derive(Default)]
struct Filter {
    ids: Option<Vec<u64>>,
    kind: Option<Kind>,
    user: Option<Vec<u8>>,
    address: Option<Vec<u8>>,
    local: Option<Vec<u8>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Normal,
    PubSub,
    /// Of a replication that there is not.
    Replicating,
}

impl Filter {
    fn fits(&self, client: &Client) -> bool {
        let kind = if client.is_subscriber() { Kind::PubSub } else { Kind::Normal };
        let is = |wanted: &Option<Vec<u8>>, found: &[u8]| {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
        };
        self.ids.as_ref().is_none_or(|ids| ids.contains(&client.id))
            && self.kind.is_none_or(|wanted| wanted == kind)
            && is(&self.address, client.origin.address.as_bytes())
            && is(&self.local, client.origin.local.as_bytes())
            && (self.user.is_none() || is(&self.user, client.info().user.as_bytes()))
    }
}

fn kind(name: &[u8]) -> Result<Kind, Failure> {
    match name.to_ascii_lowercase().as_slice() {
        b"normal" => Ok(Kind::Normal),
        b"pubsub" => Ok(Kind::PubSub),
        b"master" | b"replica" | b"slave" => Ok(Kind::Replicating),
        _ => {
            let text = [b"ERR Unknown client type '", cut(name, name.len()), b"'"].concat();
            Err(Failure::made(text))
        }
    }
}

fn kill(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    // The old form names one address and ends the asker's own connection as well.
    if args.len() == 3 {
        let filter = Filter { address: Some(args.at(2).to_vec()), ..Filter::default() };
        if end_connections(session, &filter, false) == 0 {
            return Err(Failure::text("ERR No such client"));
        }
        reply.ok();
        return Ok(Effect::Unchanged);
    }
    let (mut filter, mut skips_self) = (Filter::default(), true);
    for at in (2..args.len()).step_by(2) {
        let value = args.get(at + 1).ok_or(SYNTAX_ERROR)?;
        match args.at(at).to_ascii_lowercase().as_slice() {
            b"id" => {
                let id = number::integer(value).and_then(|id| u64::try_from(id).ok());
                let id = id.filter(|id| *id > 0);
                let id = id.ok_or(Failure::text("ERR client-id should be greater than 0"))?;
                filter.ids = Some(vec![id]);
            }
            b"type" => filter.kind = Some(kind(value)?),
            b"addr" => filter.address = Some(value.to_vec()),
            b"laddr" => filter.local = Some(value.to_vec()),
            b"user" if session.shared.users.find(value).is_none() => {
                let shown = cut(value, value.len());
                return Err(Failure::made([b"ERR No such user '", shown, b"'"].concat()));
            }
            b"user" => filter.user = Some(value.to_vec()),
            b"skipme" if args.is(at + 1, "yes") => skips_self = true,
            b"skipme" if args.is(at + 1, "no") => skips_self = false,
            _ => return Err(SYNTAX_ERROR),
        }
    }
    reply.count(end_connections(session, &filter, skips_self));
    Ok(Effect::Unchanged)
}

fn end_connections(session: &mut Session, filter: &Filter, skips_self: bool) -> usize {
    let mut count = 0;
    for client in session.shared.clients.open() {
        let is_self = Arc::ptr_eq(&client, &session.client);
        if !filter.fits(&client) || (is_self && skips_self) || client.is_killed() {
            continue;
        }
        count += 1;
        // Its own connection first gets the reply.
        if is_self {
            session.closing = true;
        } else {
            client.kill();
        }
    }
    count
}

fn list(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let mut filter = Filter::default();
    if args.len() == 4 && args.is(2, "type") {
        filter.kind = Some(kind(args.at(3))?);
    } else if args.len() > 3 && args.is(2, "id") {
        let id = |text| {
            let id = number::integer(text).and_then(|id| u64::try_from(id).ok());
            id.ok_or(Failure::text("ERR Invalid client ID"))
        };
        filter.ids = Some(args.from(3).map(id).collect::<Result<_, _>>()?);
    } else if args.len() != 2 {
        return Err(SYNTAX_ERROR);
    }
    session.client.note(session.command, Instant::now());
    let mut text = Vec::new();
    for client in session.shared.clients.open() {
        if filter.fits(&client) {
            let waits = session.shared.waiting.has(client.id);
            text.extend_from_slice(&describe(&client, waits));
        }
    }
    reply.verbatim(&text);
    Ok(Effect::Unchanged)
}

/// One line about a client, with the fields of Redis; those without a meaning here are 0.
fn describe(client: &Client, waits: bool) -> Vec<u8> {
    let age = client.connected.elapsed().as_secs();
    let idle = age.saturating_sub(client.active_seconds.load(Ordering::Relaxed));
    let (words, origin) = (client.info(), &client.origin);
    let mut flags = String::new();
    if origin.transport == Transport::Unix {
        flags.push('U');
    }
    if client.is_subscriber() {
        flags.push('P');
    }
    if client.queued().is_some() {
        flags.push('x');
    }
    if waits {
        flags.push('b');
    }
    if flags.is_empty() {
        flags.push('N');
    }
    let load = |count: &std::sync::atomic::AtomicUsize| count.load(Ordering::Relaxed);
    let (used, room) = (load(&client.input_bytes), load(&client.input_size));
    let output = load(&client.output_bytes);
    let queued = client.queued().map_or(-1, |count| count as i64);
    let (mut start, mut end) = (String::new(), String::new());
    // Writing to a string cannot fail.
    let _ = write!(start, "id={} addr={} laddr={} fd=0", client.id, origin.address, origin.local);
    let _ = write!(
        end,
        " age={age} idle={idle} flags={flags} db={} sub={} psub={} ssub=0 multi={queued} \
         qbuf={used} qbuf-free={} argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl={output} oll=0 \
         omem={output} tot-mem={} events=r cmd={} user={} redir=-1 resp={}",
        load(&client.number),
        load(&client.channels),
        load(&client.patterns),
        room.saturating_sub(used),
        room + output,
        words.command,
        words.user,
        load(&client.protocol),
    );
    let library = [b" lib-name=", words.lib_name.as_slice(), b" lib-ver="].concat();
    let parts: [&[u8]; 7] = [
        start.as_bytes(),
        b" name=",
        &words.name,
        end.as_bytes(),
        &library,
        &words.lib_version,
        b"\n",
    ];
    parts.concat()
}
