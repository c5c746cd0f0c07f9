//! One key's value in Redis's format: `DUMP RESTORE`.
//!
//! For: sorted sets and strings, exchanged with any Redis from 4.0 and any Valkey. Not for: the
//! format (`whered_replication::rdb`), and other types, which have no value here.
//!
//! The order of the checks is that of Redis 7.0.15. `IDLETIME` and `FREQ` are checked and have no
//! effect: nothing is evicted by its age or use.

use std::collections::HashMap;

use whered_engine::{AddCondition, ExpiryCondition, SetText, TextExpiry, Value};
use whered_replication::rdb::{
    Event, Kind, Limits, RdbError, Reader, payload_of_sorted_set, payload_of_text,
};

use super::{
    Access, Action, Channels, Command, Effect, Failure, Flag, InTransaction, KeySpec, Members,
    Outcome, SYNTAX_ERROR, WhenFull, integer, isolated,
};
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::Session;

const DUMP: Command = Command {
    name: "dump",
    arity: 2,
    flags: &[Flag::ReadOnly],
    group: "generic",
    keys: &[KeySpec::at(1, Access::Read)],
    names: &[],
    channels: Channels::None,
    members: Members::None,
    when_full: WhenFull::Runs,
    in_transaction: InTransaction::Queued,
    syntax: "key",
    summary: "Returns a key's value in Redis's format, for RESTORE here or in any Redis from 4.0",
    cost: "O(N) with N members",
    since: "2.6.0",
    action: Action::Run(dump),
};

pub(super) const COMMANDS: &[Command] = &[
    DUMP,
    RESTORE,
    Command {
        name: "restore-asking",
        summary: "Is RESTORE, as a cluster's node sends it to another when it moves a slot",
        since: "3.0.0",
        ..RESTORE
    },
];

const RESTORE: Command = Command {
    name: "restore",
    arity: -4,
    flags: &[Flag::Write, Flag::Dangerous],
    keys: &[KeySpec::at(1, Access::Overwrite)],
    when_full: WhenFull::Refused,
    syntax: "key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]",
    summary: "Makes a key of a value that DUMP gave here, in Redis or in Valkey; of a sorted set \
                  or a string",
    cost: "O(N*log(N)) with N members",
    action: Action::Run(restore),
    ..DUMP
};

fn dump(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let limit = session.output_limit().hard();
    let payload = session.read_key(args.at(1), |value| Some(payload_of(value?, limit)));
    match payload {
        None => reply.null(),
        Some(Some(payload)) => reply.bulk(&payload),
        // As in `EXEC`: a reply beyond the limit would only take memory.
        Some(None) => session.overflowed = true,
    }
    Ok(Effect::Unchanged)
}

/// `None` when it would be longer than the limit.
fn payload_of(value: &Value, bytes_max: usize) -> Option<Vec<u8>> {
    match value.ordered() {
        Some(members) => payload_of_sorted_set(members.iter().rev(), bytes_max),
        None => value.text().map(payload_of_text),
    }
}

/// The options of `RESTORE`.
#[derive(Default)]
struct Options {
    replaces: bool,
    is_absolute: bool,
}

impl Options {
    fn read(args: Args<'_>) -> Result<Options, Failure> {
        let mut options = Options::default();
        let (mut has_idle_time, mut has_frequency) = (false, false);
        let mut at = 4;
        while at < args.len() {
            let has_value = at + 1 < args.len();
            match () {
                () if args.is(at, "replace") => options.replaces = true,
                () if args.is(at, "absttl") => options.is_absolute = true,
                () if args.is(at, "idletime") && has_value && !has_frequency => {
                    at += 1;
                    if integer(args.at(at))? < 0 {
                        return Err(Failure::text("ERR Invalid IDLETIME value, must be >= 0"));
                    }
                    has_idle_time = true;
                }
                () if args.is(at, "freq") && has_value && !has_idle_time => {
                    at += 1;
                    if !(0..=255).contains(&integer(args.at(at))?) {
                        let text = "ERR Invalid FREQ value, must be >= 0 and <= 255";
                        return Err(Failure::text(text));
                    }
                    has_frequency = true;
                }
                () => return Err(SYNTAX_ERROR),
            }
            at += 1;
        }
        Ok(options)
    }
}

const BUSY: Failure = Failure::text("BUSYKEY Target key name already exists.");
const BAD_VALUE: Failure = Failure::text("ERR Bad data format");

/// A value that was read from a payload.
enum RestoredValue {
    /// Of a type that has no value here.
    Other(Kind),
    Text(Vec<u8>),
    SortedSet(HashMap<Vec<u8>, f64>),
}

impl RestoredValue {
    fn read(payload: &[u8]) -> Result<RestoredValue, Failure> {
        let wrong = Failure::text("ERR DUMP payload version or checksum are wrong");
        let mut reader = Reader::of_payload(payload, Limits::default()).map_err(|_| wrong)?;
        let mut members = HashMap::new();
        loop {
            let event = reader.next_event().map_err(|_: RdbError| BAD_VALUE)?;
            match event {
                Some(Event::Text { value, .. }) => {
                    let text = value.to_vec();
                    // Nothing may follow the value.
                    reader.next_event().map_err(|_| BAD_VALUE)?;
                    return Ok(RestoredValue::Text(text));
                }
                // Found at once, so that a small payload cannot stand for millions of members.
                Some(Event::Member { member, score }) => {
                    if members.insert(member.to_vec(), score).is_some() {
                        return Err(BAD_VALUE);
                    }
                }
                Some(Event::Skipped { kind, .. }) => return Ok(RestoredValue::Other(kind)),
                Some(
                    Event::Note { .. }
                    | Event::SlotImport { .. }
                    | Event::SortedSet { .. }
                    | Event::SortedSetEnd,
                ) => {}
                // An empty sorted set is none, as in Redis.
                None if members.is_empty() => return Err(BAD_VALUE),
                None => return Ok(RestoredValue::SortedSet(members)),
            }
        }
    }
}

fn restore(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let options = Options::read(args)?;
    let keyspace = session.engine().keyspace();
    if !options.replaces && keyspace.exists(session.number, args.at(1)) {
        return Err(BUSY);
    }
    let ttl_millis = integer(args.at(2))?;
    if ttl_millis < 0 {
        return Err(Failure::text("ERR Invalid TTL value, must be >= 0"));
    }
    let value = RestoredValue::read(args.at(3))?;
    let expires_at_millis = match ttl_millis {
        0 => None,
        at if options.is_absolute => Some(at),
        millis => {
            let now_millis = i64::try_from(keyspace.now_millis()).unwrap_or(i64::MAX);
            Some(millis.saturating_add(now_millis))
        }
    };
    isolated(session, reply, |session, reply| {
        if !options.replaces && session.engine().keyspace().exists(session.number, args.at(1)) {
            return Err(BUSY);
        }
        put(session, args.at(1), value, expires_at_millis, reply)
    })
}

/// Puts the value in the place of what the key holds.
fn put(
    session: &mut Session,
    key: &[u8],
    value: RestoredValue,
    expires_at_millis: Option<i64>,
    reply: &mut Reply,
) -> Outcome {
    let (keyspace, number) = (session.engine().keyspace(), session.number);
    let now_millis = i64::try_from(keyspace.now_millis()).unwrap_or(i64::MAX);
    let is_over = expires_at_millis.is_some_and(|at| at <= now_millis);
    match value {
        RestoredValue::SortedSet(members) if !is_over => {
            let members: Vec<(&[u8], f64)> = members.iter().map(|(m, s)| (&m[..], *s)).collect();
            reply.hold(keyspace.store_scores(number, key, &members)?.ticket);
            if let Some(at) = expires_at_millis {
                let always = ExpiryCondition::default();
                reply.hold(keyspace.set_expiry(number, key, at, always)?.ticket);
            }
        }
        RestoredValue::Text(text) if !is_over => {
            let expiry = expires_at_millis.and_then(|at| u64::try_from(at).ok());
            let expiry = expiry.map_or(TextExpiry::Never, TextExpiry::At);
            let condition = AddCondition::Always;
            let set = SetText { text: &text, condition, expiry, wants_old: false };
            reply.hold(keyspace.set_text(number, key, &set)?.ticket);
        }
        RestoredValue::Other(kind) => {
            return Err(Failure::made(format!(
                "ERR RESTORE of a {kind} is not supported: whered keeps sorted sets and strings"
            )));
        }
        RestoredValue::SortedSet(_) | RestoredValue::Text(_) => {
            let written = keyspace.delete_keys(number, &[key])?;
            reply.hold(written.ticket);
            reply.ok();
            return Ok(Effect::changed_if(written.value > 0));
        }
    }
    reply.ok();
    Ok(Effect::Changed)
}
