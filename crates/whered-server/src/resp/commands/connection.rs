//! Commands about the connection itself: `PING ECHO HELLO AUTH SELECT QUIT RESET`.
//!
//! Not for: sockets and buffers (`resp/connection`), other connections (`client`). Every command
//! here takes constant time.

use std::sync::atomic::Ordering;

use whered_engine::DATABASE_COUNT;

use super::introspection::REDIS_VERSION;
use super::{
    Action, Channels, Command, Effect, Failure, Flag, InTransaction, Members, Outcome,
    SYNTAX_ERROR, WhenFull, integer, number, transaction, wrong_arity,
};
use crate::resp::protocol::Args;
use crate::resp::reply::{Protocol, Reply};
use crate::resp::session::{ReplyMode, Session};

const CONNECTION: Command = Command {
    name: "",
    arity: 1,
    flags: &[Flag::Fast],
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
    since: "1.0.0",
    action: Action::Subcommands(&[]),
};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "auth",
        arity: -2,
        flags: &[Flag::Fast, Flag::NoAuth, Flag::NoSlowlog],
        syntax: "[username] password",
        summary: "Authenticates the connection",
        action: Action::Run(auth),
        ..CONNECTION
    },
    Command {
        name: "echo",
        arity: 2,
        syntax: "message",
        summary: "Returns the message",
        action: Action::Run(|_, args, reply| {
            reply.bulk(args.at(1));
            Ok(Effect::Unchanged)
        }),
        ..CONNECTION
    },
    Command {
        name: "hello",
        arity: -1,
        flags: &[Flag::Fast, Flag::NoAuth, Flag::NoSlowlog],
        syntax: "[protover [AUTH username password] [SETNAME clientname]]",
        summary: "Selects the version of the protocol, and can authenticate",
        since: "6.0.0",
        action: Action::Run(hello),
        ..CONNECTION
    },
    Command {
        name: "ping",
        arity: -1,
        flags: &[Flag::Fast, Flag::WhileSubscribed],
        syntax: "[message]",
        summary: "Replies PONG or the message",
        action: Action::Run(ping),
        ..CONNECTION
    },
    Command {
        name: "quit",
        arity: -1,
        flags: &[Flag::Fast, Flag::NoAuth],
        in_transaction: InTransaction::Immediate,
        summary: "Closes the connection after its replies",
        action: Action::Run(|session, _, reply| {
            session.closing = true;
            reply.ok();
            Ok(Effect::Unchanged)
        }),
        ..CONNECTION
    },
    Command {
        name: "reset",
        arity: 1,
        flags: &[Flag::Fast, Flag::NoAuth, Flag::WhileSubscribed],
        in_transaction: InTransaction::Immediate,
        summary: "Resets the connection to its initial state",
        since: "6.2.0",
        action: Action::Run(reset),
        ..CONNECTION
    },
    Command {
        name: "select",
        arity: 2,
        syntax: "index",
        summary: "Selects one of the sixteen numbered databases",
        action: Action::Run(select),
        ..CONNECTION
    },
    Command {
        name: "time",
        group: "server",
        summary: "Returns the time: seconds since 1970, and microseconds",
        since: "2.6.0",
        action: Action::Run(|session, _, reply| {
            let millis = session.engine().now_millis();
            let fine = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            let micros = fine.map_or(millis * 1000, |since| since.as_micros() as u64);
            reply.array(2);
            reply.bulk((micros / 1_000_000).to_string().as_bytes());
            reply.bulk((micros % 1_000_000).to_string().as_bytes());
            Ok(Effect::Unchanged)
        }),
        ..CONNECTION
    },
];

fn ping(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let listens = session.subscription_count() > 0 && reply.protocol == Protocol::Resp2;
    match args.len() {
        // A listener's replies all have the form of messages.
        1 | 2 if listens => {
            reply.array(2);
            reply.bulk(b"pong");
            reply.bulk(args.get(1).unwrap_or_default());
        }
        1 => reply.simple("PONG"),
        2 => reply.bulk(args.at(1)),
        _ => return Err(wrong_arity("ping")),
    }
    Ok(Effect::Unchanged)
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
    Ok(Effect::Unchanged)
}

fn reset(session: &mut Session, _: Args<'_>, reply: &mut Reply) -> Outcome {
    transaction::discard(session);
    session.unsubscribe_all();
    session.number = 0;
    let user = session.shared.users.default_user();
    let authenticated = user.password.is_none();
    session.become_user(user, authenticated);
    session.replies = ReplyMode::On;
    session.reads_replica = false;
    session.client.number.store(0, Ordering::Relaxed);
    session.client.set_info(|info| info.name.clear());
    set_protocol(session, reply, Protocol::Resp2);
    reply.simple("RESET");
    Ok(Effect::Unchanged)
}

fn auth(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (user, password) = match args.len() {
        2 if session.shared.users.default_user().password.is_none() => {
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
    Ok(Effect::Unchanged)
}

/// Makes the connection a user's, if the password is right.
fn authenticate(session: &mut Session, user: &[u8], password: &[u8]) -> Result<(), Failure> {
    let Some(user) = session.shared.users.login(user, password) else {
        return Err(Failure::text("WRONGPASS invalid username-password pair or user is disabled."));
    };
    session.become_user(user, true);
    Ok(())
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
             HELLO AUTH <user> <pass> option can be used to authenticate the client and select \
             the RESP protocol version at the same time",
        ));
    }
    if let Some(name) = client_name {
        session.client.set_info(|info| info.name = name.to_vec());
    }
    if let Some(protocol) = protocol {
        set_protocol(session, reply, protocol);
    }
    greet(session, reply);
    Ok(Effect::Unchanged)
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
    let replicas = &session.shared.context.replicas;
    reply.bulk(if replicas.topology().is_some() { b"cluster" } else { b"standalone" });
    reply.bulk(b"role");
    reply.bulk(if replicas.links().is_empty() { b"master" } else { b"replica" });
    reply.bulk(b"modules");
    reply.array(0);
}

/// Whether a word can stand in a line of `CLIENT LIST`.
pub(super) fn check_client_name(name: &[u8]) -> Result<(), Failure> {
    if name.iter().all(u8::is_ascii_graphic) {
        return Ok(());
    }
    Err(Failure::text("ERR Client names cannot contain spaces, newlines or special characters."))
}
