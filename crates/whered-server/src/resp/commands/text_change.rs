//! Strings beyond `SET` and `GET`: several at once, counters, and changes of a part.
//!
//! The order of the checks is that of Redis 7.0.15. A changed string is written to the journal as a
//! whole, so that `APPEND` costs as much as the string is long.

use whered_engine::{AddCondition, SetText, TextChange, TextExpiry, TextForm};

use super::arguments::NOT_A_FLOAT;
use super::expiry::Time;
use super::text::{Options, TEXT, expires_at};
use super::{
    Access, Action, Command, Effect, Failure, Flag, KeySpec, NOT_AN_INTEGER, Outcome, WRONG_KIND,
    WhenFull, integer, number, wrong_arity,
};
use crate::resp::long_double::LongDouble;
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::Session;

/// How long a string may get: `proto-max-bulk-len` of Redis.
const TEXT_BYTES_MAX: usize = 512 << 20;

const TOO_LONG: Failure =
    Failure::text("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
const OVERFLOW: Failure = Failure::text("ERR increment or decrement would overflow");

const CHANGE: Command = Command {
    flags: &[Flag::Write, Flag::Fast],
    keys: &[KeySpec::at(1, Access::Exchange)],
    when_full: WhenFull::Refused,
    ..TEXT
};

/// What replaces a string, whatever the key held.
const REPLACE: Command =
    Command { flags: &[Flag::Write], keys: &[KeySpec::at(1, Access::Overwrite)], ..CHANGE };

const COST_OF_LENGTH: &str = "O(N) with N bytes of the string";

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "append",
        arity: 3,
        keys: &[KeySpec::at(1, Access::Extend)],
        syntax: "key value",
        summary: "Appends to a string, and returns how long it is",
        cost: COST_OF_LENGTH,
        since: "2.0.0",
        action: Action::Run(append),
        ..CHANGE
    },
    Command {
        name: "decr",
        summary: "Subtracts 1 from a whole number",
        action: Action::Run(|session, args, reply| add(session, args, reply, -1)),
        ..CHANGE
    },
    Command {
        name: "decrby",
        arity: 3,
        syntax: "key decrement",
        summary: "Subtracts from a whole number",
        action: Action::Run(|session, args, reply| {
            let by = integer(args.at(2))?.checked_neg();
            add(session, args, reply, by.ok_or(Failure::text("ERR decrement would overflow"))?)
        }),
        ..CHANGE
    },
    Command {
        name: "getdel",
        when_full: WhenFull::Frees,
        keys: &[KeySpec::at(1, Access::Move)],
        summary: "Returns a string and removes its key",
        since: "6.2.0",
        action: Action::Run(get_and_delete),
        ..CHANGE
    },
    Command {
        name: "getex",
        arity: -2,
        when_full: WhenFull::Frees,
        syntax: "key [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT \
                 unix-time-milliseconds|PERSIST]",
        summary: "Returns a string and sets or removes its key's expiry",
        since: "6.2.0",
        action: Action::Run(get_and_expire),
        ..CHANGE
    },
    Command {
        name: "getset",
        arity: 3,
        syntax: "key value",
        summary: "Sets a string and returns the one before it",
        action: Action::Run(get_and_set),
        ..CHANGE
    },
    Command {
        name: "incr",
        summary: "Adds 1 to a whole number",
        action: Action::Run(|session, args, reply| add(session, args, reply, 1)),
        ..CHANGE
    },
    Command {
        name: "incrby",
        arity: 3,
        syntax: "key increment",
        summary: "Adds to a whole number",
        action: Action::Run(|session, args, reply| {
            let by = integer(args.at(2))?;
            add(session, args, reply, by)
        }),
        ..CHANGE
    },
    Command {
        name: "incrbyfloat",
        arity: 3,
        syntax: "key increment",
        summary: "Adds to a number, with the 64 binary digits of Redis on x86",
        since: "2.6.0",
        action: Action::Run(add_float),
        ..CHANGE
    },
    Command {
        name: "mget",
        arity: -2,
        keys: &[KeySpec::from(1, Access::Read)],
        syntax: "key [key ...]",
        summary: "Returns the strings of keys, and null for a key that holds none",
        cost: "O(N) with N keys",
        action: Action::Run(get_many),
        ..TEXT
    },
    Command {
        name: "mset",
        arity: -3,
        keys: &[KeySpec::every(1, 2, Access::Overwrite)],
        syntax: "key value [key value ...]",
        summary: "Sets keys to strings, all at once",
        cost: "O(N) with N keys",
        since: "1.0.1",
        action: Action::Run(|session, args, reply| {
            if set_many(session, args, reply, false)? {
                reply.ok();
            }
            Ok(Effect::Changed)
        }),
        ..REPLACE
    },
    Command {
        name: "msetnx",
        arity: -3,
        keys: &[KeySpec::every(1, 2, Access::Create)],
        syntax: "key value [key value ...]",
        summary: "Sets keys to strings, all at once, unless one of the keys exists",
        cost: "O(N) with N keys",
        since: "1.0.1",
        action: Action::Run(|session, args, reply| {
            let is_set = set_many(session, args, reply, true)?;
            reply.count(usize::from(is_set));
            Ok(Effect::changed_if(is_set))
        }),
        ..REPLACE
    },
    Command {
        name: "psetex",
        arity: 4,
        syntax: "key milliseconds value",
        summary: "Sets a string that expires after a number of milliseconds",
        since: "2.6.0",
        action: Action::Run(|session, args, reply| {
            let time = Time { unit_millis: 1, is_absolute: false, name: "psetex" };
            set_expiring(session, args, reply, time)
        }),
        ..REPLACE
    },
    Command {
        name: "setex",
        arity: 4,
        syntax: "key seconds value",
        summary: "Sets a string that expires after a number of seconds",
        since: "2.0.0",
        action: Action::Run(|session, args, reply| {
            let time = Time { unit_millis: 1000, is_absolute: false, name: "setex" };
            set_expiring(session, args, reply, time)
        }),
        ..REPLACE
    },
    Command {
        name: "setnx",
        arity: 3,
        flags: &[Flag::Write, Flag::Fast],
        keys: &[KeySpec::at(1, Access::Create)],
        syntax: "key value",
        summary: "Sets a key to a string, unless the key exists",
        action: Action::Run(|session, args, reply| {
            let set = SetText { condition: AddCondition::OnlyNew, ..plain(args.at(2)) };
            let written = session.engine().keyspace().set_text(session.number, args.at(1), &set)?;
            reply.hold(written.ticket);
            reply.count(usize::from(written.value.done));
            Ok(Effect::changed_if(written.value.done))
        }),
        ..REPLACE
    },
    Command {
        name: "strlen",
        keys: &[KeySpec::at(1, Access::Look)],
        summary: "Returns how many bytes a string has",
        since: "2.2.0",
        action: Action::Run(|session, args, reply| {
            session.read_key(args.at(1), |value| {
                let text = value.map(|value| value.text().ok_or(WRONG_KIND)).transpose()?;
                reply.count(text.map_or(0, <[u8]>::len));
                Ok(Effect::Unchanged)
            })
        }),
        ..TEXT
    },
];

/// A string without condition and expiry time.
fn plain(text: &[u8]) -> SetText<'_> {
    SetText { text, condition: AddCondition::Always, expiry: TextExpiry::Never, wants_old: false }
}

/// Another string, with the expiry time of the one before it.
fn put(text: Vec<u8>, form: TextForm) -> TextChange {
    TextChange::Put { text, expiry: TextExpiry::Keep, form }
}

/// Changes a key's string; `change` gives the reply's value or a failure, and what becomes of it.
fn change<T>(
    session: &Session,
    key: &[u8],
    reply: &mut Reply,
    change: impl Fn(Option<&[u8]>, Option<u64>) -> Result<(T, TextChange), Failure>,
) -> Result<T, Failure> {
    let keyspace = session.engine().keyspace();
    let written =
        keyspace.change_text(session.number, key, |text, expiry| match change(text, expiry) {
            Ok((value, change)) => (Ok(value), change),
            Err(failure) => (Err(failure), TextChange::Keep),
        })?;
    reply.hold(written.ticket);
    written.value
}

fn append(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let len = change(session, args.at(1), reply, |text, _| {
        let old = text.unwrap_or_default();
        let len = old.len() + args.at(2).len();
        if text.is_some() && len > TEXT_BYTES_MAX {
            return Err(TOO_LONG);
        }
        // A new string is kept as SET keeps it.
        let form = if text.is_some() { TextForm::Raw } else { TextForm::Compact };
        Ok((len, put([old, args.at(2)].concat(), form)))
    })?;
    reply.count(len);
    Ok(Effect::Changed)
}

fn add(session: &mut Session, args: Args<'_>, reply: &mut Reply, by: i64) -> Outcome {
    let sum = change(session, args.at(1), reply, |text, _| {
        let old = match text {
            Some(text) => number::integer(text).ok_or(NOT_AN_INTEGER)?,
            None => 0,
        };
        let sum = old.checked_add(by).ok_or(OVERFLOW)?;
        Ok((sum, put(sum.to_string().into_bytes(), TextForm::Compact)))
    })?;
    reply.integer(sum);
    Ok(Effect::Changed)
}

fn add_float(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let by = LongDouble::read(args.at(2));
    let sum = change(session, args.at(1), reply, |text, _| {
        let old = match text {
            Some(text) => LongDouble::read(text).ok_or(NOT_A_FLOAT)?,
            None => LongDouble::ZERO,
        };
        let sum = old.plus(by.as_ref().ok_or(NOT_A_FLOAT)?);
        let sum = sum.ok_or(Failure::text("ERR increment would produce NaN or Infinity"))?;
        let text = sum.print().into_bytes();
        Ok((text.clone(), put(text, TextForm::Embedded)))
    })?;
    reply.bulk(&sum);
    Ok(Effect::Changed)
}

fn get_and_delete(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let old = change(session, args.at(1), reply, |text, _| {
        let change = if text.is_some() { TextChange::Remove } else { TextChange::Keep };
        Ok((text.map(<[u8]>::to_vec), change))
    })?;
    session.count_lookup(old.is_some());
    write_old(old.as_deref(), reply);
    Ok(Effect::changed_if(old.is_some()))
}

fn write_old(old: Option<&[u8]>, reply: &mut Reply) {
    match old {
        Some(old) => reply.bulk(old),
        None => reply.null(),
    }
}

fn get_and_set(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let set = SetText { wants_old: true, ..plain(args.at(2)) };
    let written = session.engine().keyspace().set_text(session.number, args.at(1), &set)?;
    reply.hold(written.ticket);
    session.count_lookup(written.value.old.is_some());
    write_old(written.value.old.as_deref(), reply);
    Ok(Effect::Changed)
}

fn get_and_expire(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let options = Options::read(args, 2, false)?;
    let now_millis = session.engine().keyspace().now_millis();
    let at = options.expiry.map(|(option, text)| expires_at(option, text, now_millis, "getex"));
    let (old, is_changed) = change(session, args.at(1), reply, |text, expires_at| {
        let Some(text) = text else {
            return Ok(((None, false), TextChange::Keep));
        };
        let change = match &at {
            Some(Ok(at)) => TextChange::Expire(TextExpiry::At(*at)),
            Some(Err(failure)) => return Err(failure.clone()),
            None if options.persists && expires_at.is_some() => {
                TextChange::Expire(TextExpiry::Never)
            }
            None => TextChange::Keep,
        };
        Ok(((Some(text.to_vec()), change != TextChange::Keep), change))
    })?;
    session.count_lookup(old.is_some());
    write_old(old.as_deref(), reply);
    Ok(Effect::changed_if(is_changed))
}

fn get_many(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let keys: Vec<&[u8]> = args.from(1).collect();
    let (from, limit) = (reply.out.len(), session.output_limit().hard());
    reply.array(keys.len());
    let is_whole = session.engine().keyspace().read_all(session.number, &keys, |values| {
        for value in values {
            if reply.out.len() - from > limit {
                reply.out.truncate(from);
                return false;
            }
            session.count_lookup(value.is_some());
            write_old(value.and_then(|value| value.text()), reply);
        }
        true
    });
    // As in `EXEC`: a reply beyond the limit would only take memory.
    session.overflowed |= !is_whole;
    Ok(Effect::Unchanged)
}

/// Sets the strings of a request, and says whether it did.
fn set_many(
    session: &Session,
    args: Args<'_>,
    reply: &mut Reply,
    only_new: bool,
) -> Result<bool, Failure> {
    if args.len().is_multiple_of(2) {
        return Err(wrong_arity(session.command));
    }
    let pairs: Vec<(&[u8], &[u8])> =
        (1..args.len()).step_by(2).map(|at| (args.at(at), args.at(at + 1))).collect();
    let written = session.engine().keyspace().set_strings(session.number, &pairs, only_new)?;
    reply.hold(written.ticket);
    Ok(written.value)
}

fn set_expiring(session: &mut Session, args: Args<'_>, reply: &mut Reply, time: Time) -> Outcome {
    let value = integer(args.at(2))?;
    let keyspace = session.engine().keyspace();
    if value <= 0 {
        return Err(time.invalid());
    }
    let at = time.millis(value, keyspace.now_millis())?;
    let at = u64::try_from(at).map_err(|_| time.invalid())?;
    let set = SetText { expiry: TextExpiry::At(at), ..plain(args.at(3)) };
    let written = keyspace.set_text(session.number, args.at(1), &set)?;
    reply.hold(written.ticket);
    reply.ok();
    Ok(Effect::Changed)
}
