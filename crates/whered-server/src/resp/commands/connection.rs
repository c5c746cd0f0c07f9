//! Commands about the connection itself: `PING ECHO HELLO AUTH CLIENT SELECT QUIT RESET`.
//!
//! Not for: sockets and buffers (`resp/connection`). Every command here takes constant time,
//! except `CLIENT LIST`, which takes as long as there are clients.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use whered_engine::DATABASE_COUNT;

use super::introspection::REDIS_VERSION;
use super::{
    Action, Command, Failure, Flag, Members, Outcome, SYNTAX_ERROR, cut, integer, number,
    wrong_arity,
};
use crate::resp::protocol::Args;
use crate::resp::reply::{Protocol, Reply};
use crate::resp::session::{Client, ReplyMode, Session};

const CONNECTION: Command = Command {
    name: "",
    arity: 1,
    flags: &[Flag::Fast],
    group: "connection",
    keys: (0, 0, 0),
    members: Members::None,
    syntax: "",
    summary: "",
    cost: "O(1)",
    since: "1.0.0",
    action: Action::Subcommands(&[]),
};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "auth",
        arity: -2,
        flags: &[Flag::Fast, Flag::NoAuth],
        syntax: "[username] password",
        summary: "Gives the password of the connection",
        action: Action::Run(auth),
        ..CONNECTION
    },
    Command {
        name: "client",
        arity: -2,
        flags: &[],
        syntax: "subcommand ...",
        summary: "A container for commands about connections",
        cost: "Depends on the subcommand.",
        since: "2.4.0",
        action: Action::Subcommands(CLIENT),
        ..CONNECTION
    },
    Command {
        name: "echo",
        arity: 2,
        syntax: "message",
        summary: "Gives the message back",
        action: Action::Run(|_, args, reply| {
            reply.bulk(args.at(1));
            Ok(())
        }),
        ..CONNECTION
    },
    Command {
        name: "hello",
        arity: -1,
        flags: &[Flag::Fast, Flag::NoAuth],
        syntax: "[protover [AUTH username password] [SETNAME clientname]]",
        summary: "Shakes hands and chooses the version of the protocol",
        since: "6.0.0",
        action: Action::Run(hello),
        ..CONNECTION
    },
    Command {
        name: "ping",
        arity: -1,
        syntax: "[message]",
        summary: "Answers, to show that the server does",
        action: Action::Run(ping),
        ..CONNECTION
    },
    Command {
        name: "quit",
        arity: -1,
        flags: &[Flag::Fast, Flag::NoAuth],
        summary: "Closes the connection after its replies",
        action: Action::Run(|session, _, reply| {
            session.closing = true;
            reply.ok();
            Ok(())
        }),
        ..CONNECTION
    },
    Command {
        name: "reset",
        arity: 1,
        flags: &[Flag::Fast, Flag::NoAuth],
        summary: "Brings the connection into its first state",
        since: "6.2.0",
        action: Action::Run(reset),
        ..CONNECTION
    },
    Command {
        name: "select",
        arity: 2,
        syntax: "index",
        summary: "Chooses one of the sixteen numbered databases",
        action: Action::Run(select),
        ..CONNECTION
    },
];

const CLIENT: &[Command] = &[
    Command {
        name: "client|getname",
        arity: 2,
        summary: "Gives the name of the connection",
        since: "2.6.9",
        action: Action::Run(|session, _, reply| {
            match session.client.name() {
                name if name.is_empty() => reply.null(),
                name => reply.bulk(&name),
            }
            Ok(())
        }),
        ..CONNECTION
    },
    Command {
        name: "client|help",
        arity: 2,
        summary: "Shows what CLIENT can do",
        since: "5.0.0",
        action: Action::Run(|_, _, reply| {
            super::introspection::help("CLIENT", CLIENT, reply);
            Ok(())
        }),
        ..CONNECTION
    },
    Command {
        name: "client|id",
        arity: 2,
        summary: "Gives the number of the connection",
        since: "5.0.0",
        action: Action::Run(|session, _, reply| {
            reply.count(session.client.id as usize);
            Ok(())
        }),
        ..CONNECTION
    },
    Command {
        name: "client|info",
        arity: 2,
        summary: "Describes the connection",
        since: "6.2.0",
        action: Action::Run(|session, _, reply| {
            // What is noted once a turn is brought up to date first.
            session.client.note(session.command);
            reply.verbatim(&describe(&session.client));
            Ok(())
        }),
        ..CONNECTION
    },
    Command {
        name: "client|list",
        arity: -2,
        flags: &[Flag::Admin, Flag::Dangerous],
        syntax: "[TYPE NORMAL|MASTER|REPLICA|PUBSUB] [ID client-id [client-id ...]]",
        summary: "Describes all connections",
        cost: "O(N) with N connections",
        since: "2.4.0",
        action: Action::Run(client_list),
        ..CONNECTION
    },
    Command {
        name: "client|no-evict",
        arity: 3,
        flags: &[Flag::Admin, Flag::Dangerous],
        syntax: "ON|OFF",
        summary: "Accepted for Redis clients; connections are never evicted",
        since: "7.0.0",
        action: Action::Run(|_, args, reply| {
            if !args.is(2, "on") && !args.is(2, "off") {
                return Err(SYNTAX_ERROR);
            }
            reply.ok();
            Ok(())
        }),
        ..CONNECTION
    },
    Command {
        name: "client|reply",
        arity: 3,
        syntax: "ON|OFF|SKIP",
        summary: "Chooses which replies the connection gets",
        since: "3.2.0",
        action: Action::Run(client_reply),
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
            session.client.set_name(args.at(2));
            reply.ok();
            Ok(())
        }),
        ..CONNECTION
    },
];

fn ping(_: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    match args.len() {
        1 => reply.simple("PONG"),
        2 => reply.bulk(args.at(1)),
        _ => return Err(wrong_arity("ping")),
    }
    Ok(())
}

fn select(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let index = integer(args.at(1))?;
    if i32::try_from(index).is_err() {
        return Err(Failure::made(format!(
            "ERR value is out of range, value must between {} and {}",
            i32::MIN,
            i32::MAX
        )));
    }
    match usize::try_from(index) {
        Ok(number) if number < DATABASE_COUNT => session.number = number,
        _ => return Err(Failure::text("ERR DB index is out of range")),
    }
    session.client.number.store(session.number, Ordering::Relaxed);
    reply.ok();
    Ok(())
}

fn reset(session: &mut Session, _: Args<'_>, reply: &mut Reply) -> Outcome {
    session.number = 0;
    session.authenticated = session.shared.options.password.is_none();
    session.replies = ReplyMode::On;
    session.client.number.store(0, Ordering::Relaxed);
    session.client.set_name(b"");
    set_protocol(session, reply, Protocol::Resp2);
    reply.simple("RESET");
    Ok(())
}

fn auth(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (user, password) = match args.len() {
        2 if session.shared.options.password.is_none() => {
            return Err(Failure::text(
                "ERR AUTH <password> called without any password configured for the default \
                 user. Are you sure your configuration is correct?",
            ));
        }
        2 => (&b"default"[..], args.at(1)),
        3 => (args.at(1), args.at(2)),
        _ => return Err(SYNTAX_ERROR),
    };
    authenticate(session, user, password)?;
    reply.ok();
    Ok(())
}

/// There is one user, `default`; without a configured password every password is right.
fn authenticate(session: &mut Session, user: &[u8], password: &[u8]) -> Outcome {
    let right = match &session.shared.options.password {
        Some(wanted) => equal_in_constant_time(wanted.as_bytes(), password),
        None => true,
    };
    if user != b"default" || !right {
        return Err(Failure::text("WRONGPASS invalid username-password pair or user is disabled."));
    }
    session.authenticated = true;
    Ok(())
}

/// Compares in a time that tells nothing about where two passwords differ.
fn equal_in_constant_time(wanted: &[u8], given: &[u8]) -> bool {
    let differences = given.iter().enumerate().fold(0, |differences, (index, byte)| {
        differences | (byte ^ wanted.get(index).copied().unwrap_or(0))
    });
    differences == 0 && wanted.len() == given.len()
}

fn hello(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let protocol = match args.get(1).map(number::integer) {
        None => None,
        Some(Some(2)) => Some(Protocol::Resp2),
        Some(Some(3)) => Some(Protocol::Resp3),
        Some(Some(_)) => return Err(Failure::text("NOPROTO unsupported protocol version")),
        Some(None) => {
            return Err(Failure::text("ERR Protocol version is not an integer or out of range"));
        }
    };
    let (mut login, mut client_name) = (None, None);
    let mut at = 2;
    while at < args.len() {
        let left = args.len() - 1 - at;
        if args.is(at, "auth") && left >= 2 {
            login = Some((args.at(at + 1), args.at(at + 2)));
            at += 3;
        } else if args.is(at, "setname") && left >= 1 {
            check_client_name(args.at(at + 1))?;
            client_name = Some(args.at(at + 1));
            at += 2;
        } else {
            let mut text = b"ERR Syntax error in HELLO option '".to_vec();
            text.extend_from_slice(number::until_zero(args.at(at)));
            text.push(b'\'');
            return Err(Failure::made(text));
        }
    }
    if let Some((user, password)) = login {
        authenticate(session, user, password)?;
    }
    if !session.authenticated {
        return Err(Failure::text(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
             HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and \
             select the RESP protocol version at the same time",
        ));
    }
    if let Some(name) = client_name {
        session.client.set_name(name);
    }
    if let Some(protocol) = protocol {
        set_protocol(session, reply, protocol);
    }
    greet(session, reply);
    Ok(())
}

fn set_protocol(session: &Session, reply: &mut Reply, protocol: Protocol) {
    reply.protocol = protocol;
    let version = if protocol == Protocol::Resp3 { 3 } else { 2 };
    session.client.protocol.store(version, Ordering::Relaxed);
}

fn greet(session: &Session, reply: &mut Reply) {
    let version = session.client.protocol.load(Ordering::Relaxed);
    reply.map(7);
    // Clients choose their behaviour by these two, and it is this version that we answer like.
    reply.bulk(b"server");
    reply.bulk(b"redis");
    reply.bulk(b"version");
    reply.bulk(REDIS_VERSION.as_bytes());
    reply.bulk(b"proto");
    reply.count(version);
    reply.bulk(b"id");
    reply.count(session.client.id as usize);
    reply.bulk(b"mode");
    reply.bulk(b"standalone");
    reply.bulk(b"role");
    reply.bulk(b"master");
    reply.bulk(b"modules");
    reply.array(0);
}

fn check_client_name(name: &[u8]) -> Outcome {
    if name.iter().all(u8::is_ascii_graphic) {
        return Ok(());
    }
    Err(Failure::text("ERR Client names cannot contain spaces, newlines or special characters."))
}

fn client_reply(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
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
    Ok(())
}

fn client_list(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let mut wanted_ids: Option<Vec<u64>> = None;
    let mut normal = true;
    if args.len() == 4 && args.is(2, "type") {
        let kind = args.at(3).to_ascii_lowercase();
        normal = match kind.as_slice() {
            b"normal" => true,
            b"master" | b"replica" | b"slave" | b"pubsub" => false,
            _ => {
                let mut text = b"ERR Unknown client type '".to_vec();
                text.extend_from_slice(cut(args.at(3), args.at(3).len()));
                text.push(b'\'');
                return Err(Failure::made(text));
            }
        };
    } else if args.len() > 3 && args.is(2, "id") {
        let id = |text| {
            let id = number::integer(text).and_then(|id| u64::try_from(id).ok());
            id.ok_or(Failure::text("ERR Invalid client ID"))
        };
        wanted_ids = Some(args.from(3).map(id).collect::<Result<_, _>>()?);
    } else if args.len() != 2 {
        return Err(SYNTAX_ERROR);
    }
    session.client.note(session.command);
    let mut text = Vec::new();
    if normal {
        for client in session.shared.clients().values() {
            if wanted_ids.as_ref().is_none_or(|ids| ids.contains(&client.id)) {
                text.extend_from_slice(&describe(client));
            }
        }
    }
    reply.verbatim(&text);
    Ok(())
}

/// One line about a client, with the fields of Redis that have a meaning here.
fn describe(client: &Client) -> Vec<u8> {
    let age = client.connected.elapsed().as_secs();
    let idle = age.saturating_sub(client.active_seconds.load(Ordering::Relaxed));
    let mut start = String::new();
    let mut end = String::new();
    // Writing to a string cannot fail.
    let _ = write!(start, "id={} addr={} laddr={} name=", client.id, client.address, client.local);
    let _ = writeln!(
        end,
        " age={age} idle={idle} flags=N db={} cmd={} user=default resp={}",
        client.number.load(Ordering::Relaxed),
        client.command(),
        client.protocol.load(Ordering::Relaxed),
    );
    [start.as_bytes(), &client.name(), end.as_bytes()].concat()
}
