//! Prefix sets: `CIDR.ADD CIDR.REM CIDR.DEL CIDR.MATCH CIDR.MMATCH CIDR.ISMEMBER CIDR.COUNT CIDR.CARD
//! CIDR.LIST`. Whole sets are in `cidr_whole`.
//!
//! A set is made by its first `CIDR.ADD` and stays when its last member goes, until `CIDR.DEL`. Sets
//! are no keys: `DEL` and `FLUSHALL` do not see them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use whered_engine::ip::{Block, PrefixMatch, prefix_without_host_bits};

use super::{
    Action, Channels, Command, Effect, Failure, Flag, InTransaction, Members, NameKind, NameSpec,
    Outcome, SYNTAX_ERROR, WhenFull, address, cut, explained, integer, name, named, no_such,
    wrong_arity,
};
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::Session;

pub(super) const CIDR: Command = Command {
    name: "",
    arity: -3,
    flags: &[Flag::ReadOnly, Flag::Fast],
    group: "cidr",
    keys: &[],
    names: &[NameSpec::Args(NameKind::Set, 1, 1)],
    channels: Channels::None,
    members: Members::None,
    when_full: WhenFull::Runs,
    in_transaction: InTransaction::Queued,
    syntax: "",
    summary: "",
    cost: "O(1)",
    since: "0.1.0",
    action: Action::Subcommands(&[]),
};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "cidr.add",
        flags: &[Flag::Write, Flag::Fast],
        when_full: WhenFull::Refused,
        syntax: "set [VALUE value] [EX seconds] prefix|range [prefix|range ...]",
        summary: "Adds prefixes and ranges such as 10.0.0.3-10.0.0.9 to a set, and returns how many are new",
        cost: "O(N) with N prefixes",
        action: Action::Run(add),
        ..CIDR
    },
    Command {
        name: "cidr.card",
        arity: 2,
        syntax: "set",
        summary: "An alias of `CIDR.COUNT`",
        cost: "O(1), or O(N) when some of the N members have expiry times",
        action: Action::Run(count),
        ..CIDR
    },
    Command {
        name: "cidr.count",
        arity: 2,
        syntax: "set",
        summary: "Returns the number of prefixes and ranges that have not expired",
        cost: "O(1), or O(N) when some of the N members have expiry times",
        action: Action::Run(count),
        ..CIDR
    },
    Command {
        name: "cidr.del",
        arity: -2,
        flags: &[Flag::Write],
        names: &[NameSpec::Args(NameKind::Set, 1, -1)],
        when_full: WhenFull::Frees,
        syntax: "set [set ...]",
        summary: "Deletes whole sets with their names, and returns how many existed",
        cost: "O(N) with N members",
        action: Action::Run(|session, args, reply| {
            let sets = args.from(1).map(name).collect::<Result<Vec<_>, _>>()?;
            let written = session.engine().prefix_sets().delete(&sets)?;
            reply.hold(written.ticket);
            reply.count(written.value);
            Ok(Effect::changed_if(written.value > 0))
        }),
        ..CIDR
    },
    Command {
        name: "cidr.ismember",
        arity: 3,
        syntax: "set prefix|range",
        summary: "Returns 1 if exactly this prefix or range is a member, otherwise 0",
        cost: "O(log N) with N members",
        action: Action::Run(is_member),
        ..CIDR
    },
    Command {
        name: "cidr.list",
        arity: 1,
        names: &[NameSpec::Shown(NameKind::Set)],
        summary: "Returns the names of the sets",
        cost: "O(N) with N sets",
        action: Action::Run(|session, _, reply| {
            let names = session.engine().prefix_sets().names();
            named::write_shown(session, NameKind::Set, names.iter().map(|name| &**name), reply);
            Ok(Effect::Unchanged)
        }),
        ..CIDR
    },
    Command {
        name: "cidr.match",
        syntax: "set address [ALL] [WITHVALUE] [EXPLAIN]",
        summary: "Returns the longest prefix or smallest range of a set that holds an address, or all of them",
        action: Action::Run(match_one),
        ..CIDR
    },
    Command {
        name: "cidr.mmatch",
        syntax: "set address [address ...]",
        summary: "Returns the longest prefix for each address, or an error in its position",
        cost: "O(N) with N addresses",
        action: Action::Run(match_many),
        ..CIDR
    },
    Command {
        name: "cidr.rem",
        flags: &[Flag::Write, Flag::Fast],
        when_full: WhenFull::Frees,
        syntax: "set prefix|range [prefix|range ...]",
        summary: "Removes prefixes and ranges from a set, and returns how many there were",
        cost: "O(N) with N prefixes",
        action: Action::Run(remove),
        ..CIDR
    },
];

pub(super) fn block(text: &[u8]) -> Result<Block, Failure> {
    let read = std::str::from_utf8(text).map(str::parse::<Block>);
    match read {
        // Whoever looks for such an address looks for the IPv4 address that it is.
        Ok(Ok(block)) => Ok(block.to_canonical()),
        Ok(Err(error)) => Err(Failure::made(format!("ERR {error}"))),
        Err(_) => {
            let shown = cut(text, 128).escape_ascii();
            Err(Failure::made(format!("ERR '{shown}' is not a prefix")))
        }
    }
}

fn blocks(args: Args<'_>, first: usize) -> Result<Vec<Block>, Failure> {
    args.from(first).map(block).collect()
}

/// Refuses or remarks on a prefix such as `10.0.0.1/8`, which is taken as `10.0.0.0/8`.
fn refuse_host_bits(session: &Session, args: Args<'_>, first: usize) -> Result<(), Failure> {
    let found = |text| Some((text, prefix_without_host_bits(text)?));
    let Some((text, taken_as)) = args.from(first).find_map(found) else { return Ok(()) };
    let shown = cut(text, 128).escape_ascii();
    if session.engine().sets_are_strict() {
        return Err(Failure::made(format!(
            "ERR '{shown}' has bits set behind its length; allowed is {taken_as}"
        )));
    }
    remark(&format!("CIDR.ADD: '{shown}' has bits set behind its length: taken as {taken_as}"));
    Ok(())
}

/// Logs a remark on what a client has sent, one a second at most.
pub(super) fn remark(line: &str) {
    static LAST_SECONDS: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs());
    if LAST_SECONDS.swap(now, Ordering::Relaxed) != now {
        tracing::warn!("{line}");
    }
}

/// The time that is a number of seconds from now.
pub(super) fn expiry(
    session: &Session,
    seconds: &[u8],
    command: &'static str,
) -> Result<u64, Failure> {
    let seconds = u64::try_from(integer(seconds)?).ok().filter(|seconds| *seconds > 0);
    let expiry = seconds
        .and_then(|seconds| seconds.checked_mul(1000))
        .and_then(|millis| millis.checked_add(session.engine().now_millis()));
    let wrong = || Failure::made(format!("ERR invalid expire time in '{command}' command"));
    expiry.ok_or_else(wrong)
}

fn add(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let set = name(args.at(1))?;
    let (mut value, mut expires_at_millis) = (None, None);
    let mut first = 2;
    while args.len() > first + 1 {
        if args.is(first, "value") {
            value = Some(args.at(first + 1));
        } else if args.is(first, "ex") {
            expires_at_millis = Some(expiry(session, args.at(first + 1), "cidr.add")?);
        } else {
            break;
        }
        first += 2;
    }
    if first >= args.len() {
        return Err(wrong_arity("cidr.add"));
    }
    let blocks = blocks(args, first)?;
    refuse_host_bits(session, args, first)?;
    let written = session.engine().prefix_sets().add(set, &blocks, value, expires_at_millis)?;
    reply.hold(written.ticket);
    reply.count(written.value);
    // Members that were there may have got another value or end.
    Ok(Effect::Changed)
}

fn remove(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let blocks = blocks(args, 2)?;
    let written = session.engine().prefix_sets().remove(name(args.at(1))?, &blocks)?;
    reply.hold(written.ticket);
    reply.count(written.value);
    Ok(Effect::changed_if(written.value > 0))
}

fn count(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let set = name(args.at(1))?;
    let now = session.engine().now_millis();
    let count = session.engine().prefix_sets().read(set, |members| members.live_len(now));
    reply.count(count.ok_or_else(|| no_such("prefix set", set))?);
    Ok(Effect::Unchanged)
}

fn is_member(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (set, block) = (name(args.at(1))?, block(args.at(2))?);
    let now = session.engine().now_millis();
    let found =
        session.engine().prefix_sets().read(set, |members| members.get(block, now).is_some());
    reply.count(usize::from(found.ok_or_else(|| no_such("prefix set", set))?));
    Ok(Effect::Unchanged)
}

fn match_one(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (args, explain) = explained(args, 3);
    let set = name(args.at(1))?;
    let address = address(args.at(2))?;
    let (mut all, mut with_value) = (false, false);
    for at in 3..args.len() {
        match () {
            () if args.is(at, "all") => all = true,
            () if args.is(at, "withvalue") => with_value = true,
            () => return Err(SYNTAX_ERROR),
        }
    }
    if explain {
        let reasons = session.engine().explain_match(set, address);
        let reasons = reasons.map_err(|error| Failure::made(format!("ERR {error}")))?;
        reply.bulk(reasons.to_string().as_bytes());
        return Ok(Effect::Unchanged);
    }
    let now = session.engine().now_millis();
    let found = session.engine().prefix_sets().read(set, |members| {
        if all {
            let found: Vec<PrefixMatch<'_>> = members.all_matches(address, now).collect();
            reply.array(found.len());
            // The longest first: that is the one that a plain match gives.
            found.iter().rev().for_each(|found| write_match(reply, found, with_value));
            return;
        }
        match members.longest_match(address, now) {
            Some(found) => write_match(reply, &found, with_value),
            None if with_value => reply.null_array(),
            None => reply.null(),
        }
    });
    found.map(|()| Effect::Unchanged).ok_or_else(|| no_such("prefix set", set))
}

fn match_many(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let set = name(args.at(1))?;
    let read: Vec<_> = args.from(2).map(address).collect();
    let addresses: Vec<_> = read.iter().filter_map(|one| one.as_ref().ok().copied()).collect();
    let now = session.engine().now_millis();
    let found = session.engine().prefix_sets().read(set, |members| {
        reply.array(read.len());
        let mut found = Vec::new();
        members.longest_match_batch(&addresses, now, &mut found);
        let mut found = found.into_iter();
        for one in &read {
            match one.as_ref().map(|_| found.next().flatten()) {
                Ok(Some(found)) => write_match(reply, &found, false),
                Ok(None) => reply.null(),
                Err(failure) => reply.error(failure),
            }
        }
    });
    found.map(|()| Effect::Unchanged).ok_or_else(|| no_such("prefix set", set))
}

/// A prefix, or an array of a prefix and its value.
pub(super) fn write_match(reply: &mut Reply, found: &PrefixMatch<'_>, with_value: bool) {
    if with_value {
        reply.array(2);
    }
    reply.bulk(found.block.to_string().as_bytes());
    if with_value {
        match found.value {
            Some(value) => reply.bulk(value),
            None => reply.null(),
        }
    }
}
