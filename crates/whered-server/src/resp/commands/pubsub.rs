//! Channels: `SUBSCRIBE PSUBSCRIBE UNSUBSCRIBE PUNSUBSCRIBE PUBLISH PUBSUB`.
//!
//! For: the replies, which are pushes: RESP3 marks them, in RESP2 they look like arrays.
//! Not for: who gets a message (`resp/pubsub`), nor for what a listener may not do (`admission`).
//!
//! A message to the publisher's own connection comes before the reply to `PUBLISH`, as in Redis;
//! inside `EXEC` it comes after the transaction's reply.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Action, Channels, Command, Effect, Flag, InTransaction, Members, Outcome, WhenFull};
use crate::resp::protocol::Args;
use crate::resp::pubsub::SubscriptionKind;
use crate::resp::reply::Reply;
use crate::resp::session::{ReplyMode, Session};

const PUBSUB: Command = Command {
    name: "",
    arity: -2,
    flags: &[Flag::PubSub],
    group: "pubsub",
    keys: &[],
    names: &[],
    channels: Channels::None,
    members: Members::None,
    when_full: WhenFull::Runs,
    in_transaction: InTransaction::Queued,
    syntax: "",
    summary: "",
    cost: "O(N) with N channels or patterns given",
    since: "2.0.0",
    action: Action::Subcommands(&[]),
};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "psubscribe",
        flags: &[Flag::PubSub, Flag::WhileSubscribed],
        channels: Channels::Patterns,
        syntax: "pattern [pattern ...]",
        summary: "Subscribes to the channels that match patterns",
        action: Action::Run(|session, args, reply| {
            subscribe(session, args, reply, SubscriptionKind::Pattern)
        }),
        ..PUBSUB
    },
    Command {
        name: "publish",
        arity: 3,
        flags: &[Flag::PubSub, Flag::Fast, Flag::PausedAsWrite],
        channels: Channels::First,
        syntax: "channel message",
        summary: "Sends a message to the subscribers of a channel, and returns how many there are",
        cost: "O(N+M) with N listeners and M patterns of all listeners",
        action: Action::Run(publish),
        ..PUBSUB
    },
    Command {
        name: "pubsub",
        flags: &[],
        syntax: "subcommand ...",
        summary: "A container for commands about channels",
        cost: "Depends on the subcommand.",
        since: "2.8.0",
        action: Action::Subcommands(SUBCOMMANDS),
        ..PUBSUB
    },
    Command {
        name: "punsubscribe",
        arity: -1,
        flags: &[Flag::PubSub, Flag::WhileSubscribed],
        syntax: "[pattern [pattern ...]]",
        summary: "Unsubscribes from patterns, or from all",
        action: Action::Run(|session, args, reply| {
            unsubscribe(session, args, reply, SubscriptionKind::Pattern)
        }),
        ..PUBSUB
    },
    Command {
        name: "subscribe",
        flags: &[Flag::PubSub, Flag::WhileSubscribed],
        channels: Channels::All,
        syntax: "channel [channel ...]",
        summary: "Subscribes to channels",
        action: Action::Run(|session, args, reply| {
            subscribe(session, args, reply, SubscriptionKind::Channel)
        }),
        ..PUBSUB
    },
    Command {
        name: "unsubscribe",
        arity: -1,
        flags: &[Flag::PubSub, Flag::WhileSubscribed],
        syntax: "[channel [channel ...]]",
        summary: "Unsubscribes from channels, or from all",
        action: Action::Run(|session, args, reply| {
            unsubscribe(session, args, reply, SubscriptionKind::Channel)
        }),
        ..PUBSUB
    },
];

const SUBCOMMANDS: &[Command] = &[
    Command {
        name: "pubsub|channels",
        syntax: "[pattern]",
        summary: "Returns the channels that have subscribers by name",
        cost: "O(N) with N channels",
        since: "2.8.0",
        action: Action::Run(|session, args, reply| {
            if args.len() > 3 {
                return Err(super::unknown_or_wrong_arity(args.at(1), "PUBSUB"));
            }
            let mut channels = session.shared.pubsub.channels(args.get(2));
            channels.retain(|channel| session.user.may_use_channel(channel, false));
            reply.array(channels.len());
            channels.iter().for_each(|channel| reply.bulk(channel));
            Ok(Effect::Unchanged)
        }),
        ..PUBSUB
    },
    Command {
        name: "pubsub|help",
        arity: 2,
        flags: &[],
        summary: "Shows what PUBSUB can do",
        cost: "O(1)",
        since: "6.2.0",
        action: Action::Run(|_, _, reply| {
            super::introspection::help("PUBSUB", SUBCOMMANDS, reply);
            Ok(Effect::Unchanged)
        }),
        ..PUBSUB
    },
    Command {
        name: "pubsub|numpat",
        arity: 2,
        summary: "Returns the number of different patterns",
        cost: "O(1)",
        since: "2.8.0",
        action: Action::Run(|session, _, reply| {
            reply.count(session.shared.pubsub.pattern_count());
            Ok(Effect::Unchanged)
        }),
        ..PUBSUB
    },
    Command {
        name: "pubsub|numsub",
        syntax: "[channel [channel ...]]",
        summary: "Returns for each channel the number of its subscribers by name",
        since: "2.8.0",
        action: Action::Run(|session, args, reply| {
            reply.array(2 * (args.len() - 2));
            for channel in args.from(2) {
                reply.bulk(channel);
                reply.count(session.shared.pubsub.listener_count(channel));
            }
            Ok(Effect::Unchanged)
        }),
        ..PUBSUB
    },
];

fn publish(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let shared = Arc::clone(&session.shared);
    let limit = shared.settings.pubsub_output.hard();
    let count = shared.pubsub.publish(args.at(1), args.at(2), limit);
    shared.counters.published.fetch_add(1, Ordering::Relaxed);
    // Without replies messages must not stand in this one: they would go with it.
    let has_reply = session.replies == ReplyMode::On;
    if session.subscription_count() > 0 && !session.in_exec && has_reply {
        session.client.take_messages(usize::MAX, |message| reply.pushed(message));
    }
    reply.count(count);
    Ok(Effect::Unchanged)
}

fn subscribe(
    session: &mut Session,
    args: Args<'_>,
    reply: &mut Reply,
    by: SubscriptionKind,
) -> Outcome {
    for name in args.from(1) {
        let names = session.names_mut(by);
        if names.insert(name.into()) {
            session.shared.pubsub.subscribe(by, name, &session.client);
        }
        session.note_subscriptions();
        confirm(session, reply, by, "subscribe", Some(name));
    }
    Ok(Effect::Unchanged)
}

fn unsubscribe(
    session: &mut Session,
    args: Args<'_>,
    reply: &mut Reply,
    by: SubscriptionKind,
) -> Outcome {
    let names: Vec<Box<[u8]>> = if args.len() > 1 {
        args.from(1).map(Box::from).collect()
    } else {
        session.names_mut(by).iter().cloned().collect()
    };
    for name in &names {
        if session.names_mut(by).remove(name) {
            session.shared.pubsub.unsubscribe(by, name, &session.client);
        }
        session.note_subscriptions();
        // What was published until now comes before the confirmation, and nothing after it.
        session.client.take_messages(usize::MAX, |message| reply.pushed(message));
        confirm(session, reply, by, "unsubscribe", Some(name));
    }
    if names.is_empty() {
        confirm(session, reply, by, "unsubscribe", None);
    }
    Ok(Effect::Unchanged)
}

/// What a connection is told about one name: the deed, the name, and how many names it has left.
fn confirm(
    session: &Session,
    reply: &mut Reply,
    by: SubscriptionKind,
    deed: &str,
    name: Option<&[u8]>,
) {
    // Within a transaction it is a part of the reply to EXEC.
    if !session.in_exec {
        reply.set_notice();
    }
    let sign = if by == SubscriptionKind::Pattern { "p" } else { "" };
    reply.push(3);
    reply.bulk([sign, deed].concat().as_bytes());
    match name {
        Some(name) => reply.bulk(name),
        None => reply.null(),
    }
    reply.count(session.subscription_count());
}
