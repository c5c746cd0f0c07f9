//! Plain strings: `SET GET`. Clients and their tools keep marks and locks in them. Other commands
//! for them: `text_change`.
//!
//! The order of the checks is that of Redis 7.0.15.

use whered_engine::{AddCondition, SetText, TextExpiry};

use super::expiry::Time;
use super::{
    Access, Action, Channels, Command, Effect, Failure, Flag, InTransaction, KeySpec, Members,
    Outcome, SYNTAX_ERROR, WRONG_KIND, WhenFull, integer,
};
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::Session;

pub(super) const TEXT: Command = Command {
    name: "",
    arity: 2,
    flags: &[Flag::ReadOnly, Flag::Fast],
    group: "string",
    keys: &[KeySpec::at(1, Access::Read)],
    names: &[],
    channels: Channels::None,
    members: Members::None,
    when_full: WhenFull::Runs,
    in_transaction: InTransaction::Queued,
    syntax: "key",
    summary: "",
    cost: "O(1)",
    since: "1.0.0",
    action: Action::Subcommands(&[]),
};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "get",
        summary: "Returns the string of a key",
        action: Action::Run(get),
        ..TEXT
    },
    Command {
        name: "set",
        arity: -3,
        flags: &[Flag::Write],
        keys: &[KeySpec::at(1, Access::Overwrite)],
        when_full: WhenFull::Refused,
        syntax: "key value [NX|XX] [GET] [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT \
                 unix-time-milliseconds|KEEPTTL]",
        summary: "Sets a key to a string, whatever it held",
        action: Action::Run(set),
        ..TEXT
    },
];

fn get(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    session.read_key(args.at(1), |value| {
        match value {
            Some(value) => reply.bulk(value.text().ok_or(WRONG_KIND)?),
            None => reply.null(),
        }
        Ok(Effect::Unchanged)
    })
}

/// The options of `SET` and `GETEX` as they are read.
#[derive(Default)]
pub(super) struct Options<'a> {
    only_new: bool,
    only_existing: bool,
    wants_old: bool,
    keeps_expiry: bool,
    /// `PERSIST`, of `GETEX` alone.
    pub(super) persists: bool,
    pub(super) expiry: Option<(&'static str, &'a [u8])>,
}

fn set(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let options = Options::read(args, 3, true)?;
    let keyspace = session.engine().keyspace();
    let expiry = match options.expiry {
        Some((option, text)) => {
            TextExpiry::At(expires_at(option, text, keyspace.now_millis(), "set")?)
        }
        None if options.keeps_expiry => TextExpiry::Keep,
        None => TextExpiry::Never,
    };
    let condition = match (options.only_new, options.only_existing) {
        (true, _) => AddCondition::OnlyNew,
        (_, true) => AddCondition::OnlyExisting,
        _ => AddCondition::Always,
    };
    let set = SetText { text: args.at(2), condition, expiry, wants_old: options.wants_old };
    let written = keyspace.set_text(session.number, args.at(1), &set)?;
    reply.hold(written.ticket);
    if options.wants_old {
        session.count_lookup(written.value.old.is_some());
    }
    let is_set = written.value.done;
    match written.value.old {
        Some(old) => reply.bulk(&old),
        None if is_set && !options.wants_old => reply.ok(),
        None => reply.null(),
    }
    Ok(Effect::changed_if(is_set))
}

impl<'a> Options<'a> {
    /// Reads the options from an index on; `sets` for those of `SET`.
    pub(super) fn read(args: Args<'a>, first: usize, sets: bool) -> Result<Options<'a>, Failure> {
        let mut options = Options::default();
        let mut at = first;
        while at < args.len() {
            let time = ["ex", "px", "exat", "pxat"].into_iter().find(|option| args.is(at, option));
            let may_persist = !sets && options.expiry.is_none();
            match time {
                // The same option may come twice; the last one counts.
                Some(option)
                    if !options.keeps_expiry
                        && !options.persists
                        && at + 1 < args.len()
                        && options.expiry.is_none_or(|(other, _)| other == option) =>
                {
                    options.expiry = Some((option, args.at(at + 1)));
                    at += 1;
                }
                Some(_) => return Err(SYNTAX_ERROR),
                None if args.is(at, "persist") && may_persist => options.persists = true,
                None if !sets => return Err(SYNTAX_ERROR),
                None if args.is(at, "nx") && !options.only_existing => options.only_new = true,
                None if args.is(at, "xx") && !options.only_new => options.only_existing = true,
                None if args.is(at, "get") => options.wants_old = true,
                None if args.is(at, "keepttl") && options.expiry.is_none() => {
                    options.keeps_expiry = true;
                }
                None => return Err(SYNTAX_ERROR),
            }
            at += 1;
        }
        Ok(options)
    }
}

/// The moment that an option of a command names.
pub(super) fn expires_at(
    option: &str,
    text: &[u8],
    now_millis: u64,
    name: &'static str,
) -> Result<u64, Failure> {
    let time = Time {
        unit_millis: if option.starts_with('e') { 1000 } else { 1 },
        is_absolute: option.ends_with("at"),
        name,
    };
    let value = integer(text)?;
    if value <= 0 {
        return Err(time.invalid());
    }
    u64::try_from(time.millis(value, now_millis)?).map_err(|_| time.invalid())
}
