//! Feeds: `FEED.PUSH FEED.STATUS FEED.LIST FEED.INFO`.
//!
//! For: uploads over RESP, and what became of them. Not for: what is in an upload (the engine).
//! The reply of a push waits for the spool's group as other writes wait for the journal's. A push is
//! no part of a transaction: it has a disk of its own.

use serde_json::Value;
use whered_engine::feeds::{Encoding, Feed, PushError, Upload, UploadStatus};

use super::{
    Action, Channels, Command, Effect, Failure, Flag, InTransaction, Members, NameKind, NameSpec,
    Outcome, SYNTAX_ERROR, WhenFull, integer, name, named, no_such,
};
use crate::feeds::describe;
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::Session;

const FEED: Command = Command {
    name: "",
    arity: 2,
    flags: &[Flag::ReadOnly],
    group: "feed",
    keys: &[],
    names: &[NameSpec::Args(NameKind::Feed, 1, 1)],
    channels: Channels::None,
    members: Members::None,
    when_full: WhenFull::Runs,
    in_transaction: InTransaction::Queued,
    syntax: "feed",
    summary: "",
    cost: "O(1)",
    since: "0.1.0",
    action: Action::Subcommands(&[]),
};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "feed.info",
        summary: "Returns what waits in a feed's spool, what it has done, and how its sinks and \
                  streams are",
        action: Action::Run(info),
        ..FEED
    },
    Command {
        name: "feed.list",
        arity: 1,
        names: &[NameSpec::Shown(NameKind::Feed)],
        flags: &[Flag::ReadOnly, Flag::Fast],
        syntax: "",
        summary: "Returns the names of the feeds",
        cost: "O(N) with N feeds",
        action: Action::Run(list),
        ..FEED
    },
    Command {
        name: "feed.push",
        arity: -3,
        flags: &[Flag::Write],
        when_full: WhenFull::Refused,
        in_transaction: InTransaction::Refused,
        syntax: "feed [KEY key] [ENCODING identity|gzip|zstd] upload",
        summary: "Hands an upload over; returns its number when it is on the disk, or a map of id and \
                  durable where [feeds] sync does not wait for that. What has a key that was used \
                  before is not taken again, and returns the number of then",
        cost: "O(N) with N bytes",
        action: Action::Run(push),
        ..FEED
    },
    Command {
        name: "feed.status",
        arity: 3,
        flags: &[Flag::ReadOnly, Flag::Fast],
        syntax: "feed number",
        summary: "Returns whether an upload is spooled, applied, rejected or unknown, with its records \
                  and reasons",
        action: Action::Run(status),
        ..FEED
    },
];

fn feed<'a>(session: &'a Session, text: &[u8]) -> Result<&'a Feed, Failure> {
    let name = name(text)?;
    let found = session.engine().feeds().get(name).map(|feed| &**feed);
    found.ok_or_else(|| no_such("feed", name))
}

fn push(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let feed = feed(session, args.at(1))?;
    let (mut encoding, mut idempotency_key) = (Encoding::Identity, None);
    let last = args.len() - 1;
    let mut at = 2;
    while at < last {
        // An option has a value, and the upload is behind both.
        if at + 1 >= last {
            return Err(SYNTAX_ERROR);
        }
        match () {
            () if args.is(at, "key") => {
                let refusal = Failure::text("ERR a key is UTF-8 of 1 to 255 bytes");
                let key = std::str::from_utf8(args.at(at + 1)).ok();
                let key = key.filter(|key| (1..=255).contains(&key.len()));
                idempotency_key = Some(key.ok_or(refusal)?);
            }
            () if args.is(at, "encoding") => {
                encoding = match () {
                    () if args.is(at + 1, "identity") => Encoding::Identity,
                    () if args.is(at + 1, "gzip") => Encoding::Gzip,
                    () if args.is(at + 1, "zstd") => Encoding::Zstd,
                    () => {
                        let text = "ERR unknown encoding; allowed is identity, gzip, zstd";
                        return Err(Failure::text(text));
                    }
                };
            }
            () => return Err(SYNTAX_ERROR),
        }
        at += 2;
    }
    let upload = Upload { bytes: args.at(last), encoding, idempotency_key, ..Upload::default() };
    let pushed = feed.push(upload).map_err(|error| refused(&error))?;
    reply.hold_spool(feed.number(), pushed.ticket);
    if feed.syncs_first() {
        reply.integer(pushed.id as i64);
        return Ok(Effect::Unchanged);
    }
    // The configuration has loosened what a number alone says.
    reply.map(2);
    for (field, value) in [("id", pushed.id), ("durable", feed.is_on_disk(pushed.ticket).into())] {
        reply.bulk(field.as_bytes());
        reply.integer(value as i64);
    }
    Ok(Effect::Unchanged)
}

fn refused(error: &PushError) -> Failure {
    let code = match error {
        PushError::Full { .. } => "TRYAGAIN",
        PushError::Failed(_) => "MISCONF",
        PushError::TooLarge { .. } | PushError::Invalid(_) => "ERR",
    };
    Failure::made(format!("{code} {error}"))
}

fn status(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let feed = feed(session, args.at(1))?;
    let id = u64::try_from(integer(args.at(2))?).unwrap_or(0);
    let head = |reply: &mut Reply, fields: usize, word: &str| {
        reply.map(fields);
        reply.bulk(b"status");
        reply.bulk(word.as_bytes());
    };
    match feed.status(id) {
        UploadStatus::Spooled => head(reply, 1, "spooled"),
        UploadStatus::Unknown => head(reply, 1, "unknown"),
        UploadStatus::OutOfService { reason } => {
            return Err(Failure::made(format!("MISCONF {reason}")));
        }
        UploadStatus::Applied { records, rejected_records } => {
            head(reply, 3, "applied");
            for (field, count) in [("records", records), ("rejected_records", rejected_records)] {
                reply.bulk(field.as_bytes());
                reply.integer(count as i64);
            }
        }
        UploadStatus::Rejected { reason } => {
            head(reply, 2, "rejected");
            reply.bulk(b"reason");
            reply.bulk(reason.as_bytes());
        }
    }
    Ok(Effect::Unchanged)
}

fn list(session: &mut Session, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    let names = session.engine().feeds().iter().map(|feed| feed.name());
    named::write_shown(session, NameKind::Feed, names, reply);
    Ok(Effect::Unchanged)
}

fn info(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let description = describe(feed(session, args.at(1))?);
    write_value(reply, &description);
    Ok(Effect::Unchanged)
}

/// A description as a reply: objects as maps, fractions as text.
fn write_value(reply: &mut Reply, value: &Value) {
    match value {
        Value::Null => reply.null(),
        Value::Bool(flag) => reply.integer(i64::from(*flag)),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => reply.integer(whole),
            None => reply.bulk(number.to_string().as_bytes()),
        },
        Value::String(text) => reply.bulk(text.as_bytes()),
        Value::Array(values) => {
            reply.array(values.len());
            values.iter().for_each(|value| write_value(reply, value));
        }
        Value::Object(members) => {
            reply.map(members.len());
            for (key, value) in members {
                reply.bulk(key.as_bytes());
                write_value(reply, value);
            }
        }
    }
}
