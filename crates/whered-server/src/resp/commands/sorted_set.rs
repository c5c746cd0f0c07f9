//! A collection as the sorted set that Redis clients know: `ZREM ZCARD ZSCORE ZRANGE`.
//!
//! A member's score is its cell. Members are ordered by (score, member), which is the order that
//! `Points` keeps, so ranges by rank and by score are jumps followed by a walk.
//!
//! Ranges by member (`BYLEX`) have a meaning only where all scores are equal. For other sets the
//! answer is that of Redis for a small set: a walk from one end to the first member inside, and
//! on from there to the first one outside. Cost: O(members).

use std::cmp::Ordering;
use std::ops::RangeInclusive;

use whered_engine::geo::{Cell, Points};

use super::{Action, Command, Failure, Flag, Members, Outcome, SYNTAX_ERROR, integer, number};
use crate::resp::protocol::Args;
use crate::resp::reply::{Protocol, Reply};
use crate::resp::session::Session;

const SORTED_SET: Command = Command {
    name: "",
    arity: 2,
    flags: &[Flag::ReadOnly, Flag::Fast],
    group: "sorted-set",
    keys: (1, 1, 1),
    members: Members::None,
    syntax: "",
    summary: "",
    cost: "O(1)",
    since: "1.2.0",
    action: Action::Subcommands(&[]),
};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "zcard",
        syntax: "key",
        summary: "Gives the number of members",
        action: Action::Run(|session, args, reply| {
            let keyspace = session.engine().keyspace();
            let count = |points: Option<&Points>| points.map_or(0, |points| points.len());
            reply.count(keyspace.read(session.number, args.at(1), count));
            Ok(())
        }),
        ..SORTED_SET
    },
    Command {
        name: "zrange",
        arity: -4,
        flags: &[Flag::ReadOnly],
        syntax: "key start stop [BYSCORE|BYLEX] [REV] [LIMIT offset count] [WITHSCORES]",
        summary: "Gives a range of members in order",
        cost: "O(log(N)+M) with N members of which M are given; BYLEX: O(N)",
        action: Action::Run(range),
        ..SORTED_SET
    },
    Command {
        name: "zrem",
        members: Members::Named(2, None),
        arity: -3,
        flags: &[Flag::Write, Flag::Fast],
        syntax: "key member [member ...]",
        summary: "Removes members",
        cost: "O(M*log(N)) with N members of which M are removed",
        action: Action::Run(remove),
        ..SORTED_SET
    },
    Command {
        name: "zscore",
        members: Members::Named(2, Some(2)),
        arity: 3,
        syntax: "key member",
        summary: "Gives a member's cell",
        action: Action::Run(score),
        ..SORTED_SET
    },
];

fn remove(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let keyspace = session.engine().keyspace();
    let written = if args.len() == 3 {
        keyspace.remove_members(session.number, args.at(1), &[args.at(2)])?
    } else {
        let members: Vec<&[u8]> = args.from(2).collect();
        keyspace.remove_members(session.number, args.at(1), &members)?
    };
    reply.hold(written.ticket);
    reply.count(written.value);
    Ok(())
}

fn score(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let keyspace = session.engine().keyspace();
    let cell = keyspace.read(session.number, args.at(1), |points| points?.cell(args.at(2)));
    match cell {
        Some(cell) => reply.score(cell.bits()),
        None => reply.null(),
    }
    Ok(())
}

/// What a range's two limits are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Member,
}

struct Options {
    by: By,
    reverse: bool,
    offset: i64,
    /// Negative: no limit.
    limit: i64,
    with_scores: bool,
}

/// A range with its limits read.
enum Range<'a> {
    Ranks(i64, i64),
    Scores(Option<RangeInclusive<u64>>),
    Members(MemberLimit<'a>, MemberLimit<'a>),
}

/// A limit of a range of members.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MemberLimit<'a> {
    Lowest,
    Highest,
    Including(&'a [u8]),
    Excluding(&'a [u8]),
}

fn range(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let options = read_options(args)?;
    let range = read_range(args, &options)?;
    let keyspace = session.engine().keyspace();
    keyspace.read(session.number, args.at(1), |points| match points {
        Some(points) => write_range(points, &options, &range, reply),
        None => reply.array(0),
    });
    Ok(())
}

fn read_options(args: Args<'_>) -> Result<Options, Failure> {
    let mut by = None;
    let mut options =
        Options { by: By::Rank, reverse: false, offset: 0, limit: -1, with_scores: false };
    let mut at = 4;
    while at < args.len() {
        let left = args.len() - 1 - at;
        if args.is(at, "withscores") {
            options.with_scores = true;
        } else if args.is(at, "limit") && left >= 2 {
            options.offset = integer(args.at(at + 1))?;
            options.limit = integer(args.at(at + 2))?;
            at += 2;
        } else if args.is(at, "rev") && !options.reverse {
            options.reverse = true;
        } else if args.is(at, "bylex") && by.is_none() {
            by = Some(By::Member);
        } else if args.is(at, "byscore") && by.is_none() {
            by = Some(By::Score);
        } else {
            return Err(SYNTAX_ERROR);
        }
        at += 1;
    }
    options.by = by.unwrap_or(By::Rank);
    if options.limit != -1 && options.by == By::Rank {
        return Err(Failure::text(
            "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
        ));
    }
    if options.by == By::Rank {
        // `LIMIT offset -1` is let through, and means nothing.
        options.offset = 0;
    }
    if options.with_scores && options.by == By::Member {
        return Err(Failure::text(
            "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
        ));
    }
    Ok(options)
}

fn read_range<'a>(args: Args<'a>, options: &Options) -> Result<Range<'a>, Failure> {
    let (first, second) = (args.at(2), args.at(3));
    // Backwards, the greater limit comes first; ranks count from the other end instead.
    let (low, high) = if options.reverse { (second, first) } else { (first, second) };
    match options.by {
        By::Rank => Ok(Range::Ranks(integer(first)?, integer(second)?)),
        By::Score => read_scores(low, high)
            .map(Range::Scores)
            .ok_or(Failure::text("ERR min or max is not a float")),
        By::Member => member_limit(low)
            .zip(member_limit(high))
            .map(|(low, high)| Range::Members(low, high))
            .ok_or(Failure::text("ERR min or max not valid string range item")),
    }
}

/// The scores between two limits; the inner `None` is an empty range, the outer one an error.
fn read_scores(low: &[u8], high: &[u8]) -> Option<Option<RangeInclusive<u64>>> {
    let limit = |text: &[u8]| match text.strip_prefix(b"(") {
        Some(text) => number::score_limit(text).map(|limit| (limit, true)),
        None => number::score_limit(text).map(|limit| (limit, false)),
    };
    let (low, low_excluded) = limit(low)?;
    let (high, high_excluded) = limit(high)?;
    // Scores are whole numbers below 2^55, where floats still have every even one.
    let largest = (1u64 << 55) as f64;
    let least = if low_excluded { low.floor() + 1.0 } else { low.ceil() };
    let most = if high_excluded { high.ceil() - 1.0 } else { high.floor() };
    if low > high || most < 0.0 || least > largest || least > most {
        return Some(None);
    }
    Some(Some(least.max(0.0) as u64..=most.min(largest) as u64))
}

fn member_limit(text: &[u8]) -> Option<MemberLimit<'_>> {
    match text {
        [b'-'] | [b'-', 0, ..] => Some(MemberLimit::Lowest),
        [b'+'] | [b'+', 0, ..] => Some(MemberLimit::Highest),
        [b'[', member @ ..] => Some(MemberLimit::Including(member)),
        [b'(', member @ ..] => Some(MemberLimit::Excluding(member)),
        _ => None,
    }
}

fn write_range(points: &Points, options: &Options, range: &Range<'_>, reply: &mut Reply) {
    match range {
        Range::Ranks(first, last) => {
            let len = i64::try_from(points.len()).unwrap_or(i64::MAX);
            let from_end = |rank: i64| {
                if rank < 0 { rank.saturating_add(len) } else { rank }
            };
            let (first, last) = (from_end(*first).max(0), from_end(*last).min(len - 1));
            if first > last {
                return reply.array(0);
            }
            let (first, last) =
                if options.reverse { (len - 1 - last, len - 1 - first) } else { (first, last) };
            let entries = points.iter_ranks(first as usize..last as usize + 1);
            write_entries(entries, options, reply);
        }
        Range::Scores(None) => reply.array(0),
        Range::Scores(Some(bits)) => {
            write_entries(points.iter_bits(bits.clone()), options, reply);
        }
        Range::Members(low, high) => write_members(points, options, *low, *high, reply),
    }
}

/// Writes entries in the direction asked for, and no more than the limit.
fn write_entries<'a>(
    entries: impl DoubleEndedIterator<Item = (&'a [u8], Cell)>,
    options: &Options,
    reply: &mut Reply,
) {
    if options.reverse {
        write_limited(entries.rev(), options, reply);
    } else {
        write_limited(entries, options, reply);
    }
}

fn write_limited<'a>(
    entries: impl Iterator<Item = (&'a [u8], Cell)>,
    options: &Options,
    reply: &mut Reply,
) {
    // A negative offset skips everything, a negative limit limits nothing.
    let skipped = usize::try_from(options.offset).unwrap_or(usize::MAX);
    let taken = usize::try_from(options.limit).unwrap_or(usize::MAX);
    let mark = reply.mark_array();
    let mut count = 0;
    for (member, cell) in entries.skip(skipped).take(taken) {
        count += 1;
        let pair = options.with_scores && reply.protocol == Protocol::Resp3;
        if pair {
            reply.array(2);
        }
        reply.bulk(member);
        if options.with_scores {
            reply.score(cell.bits());
            count += usize::from(!pair);
        }
    }
    reply.fill_array(mark, count);
}

fn write_members(
    points: &Points,
    options: &Options,
    low: MemberLimit<'_>,
    high: MemberLimit<'_>,
    reply: &mut Reply,
) {
    let from_low = |member: &[u8]| match low.compared_to(member) {
        Ordering::Less => true,
        Ordering::Equal => !matches!(low, MemberLimit::Excluding(_)),
        Ordering::Greater => false,
    };
    let to_high = |member: &[u8]| match high.compared_to(member) {
        Ordering::Less => false,
        Ordering::Equal => !matches!(high, MemberLimit::Excluding(_)),
        Ordering::Greater => true,
    };
    let ends = points.iter().next().zip(points.iter().next_back());
    let Some(((first, _), (last, _))) = ends else {
        return reply.array(0);
    };
    if is_empty(low, high) || !from_low(last) || !to_high(first) {
        return reply.array(0);
    }
    if options.reverse {
        let entries = points.iter().rev().skip_while(|(member, _)| !to_high(member));
        write_while(entries, options, reply, from_low);
    } else {
        let entries = points.iter().skip_while(|(member, _)| !from_low(member));
        write_while(entries, options, reply, to_high);
    }
}

/// Writes from the first entry on until one is beyond the far limit.
fn write_while<'a>(
    entries: impl Iterator<Item = (&'a [u8], Cell)>,
    options: &Options,
    reply: &mut Reply,
    before_far_limit: impl Fn(&[u8]) -> bool,
) {
    let mut entries = entries.peekable();
    if !entries.peek().is_some_and(|(member, _)| before_far_limit(member)) {
        return reply.array(0);
    }
    let skipped = usize::try_from(options.offset).unwrap_or(usize::MAX);
    let inside = entries.skip(skipped).take_while(|(member, _)| before_far_limit(member));
    let rest = Options { offset: 0, ..*options };
    write_limited(inside, &rest, reply);
}

fn is_empty(low: MemberLimit<'_>, high: MemberLimit<'_>) -> bool {
    let excluding = |limit| matches!(limit, MemberLimit::Excluding(_));
    match low.compared_to_limit(high) {
        Ordering::Less => false,
        Ordering::Equal => excluding(low) || excluding(high),
        Ordering::Greater => true,
    }
}

impl<'a> MemberLimit<'a> {
    fn compared_to(self, member: &[u8]) -> Ordering {
        match self {
            MemberLimit::Lowest => Ordering::Less,
            MemberLimit::Highest => Ordering::Greater,
            MemberLimit::Including(limit) | MemberLimit::Excluding(limit) => limit.cmp(member),
        }
    }

    fn compared_to_limit(self, other: MemberLimit<'a>) -> Ordering {
        match other {
            MemberLimit::Including(limit) | MemberLimit::Excluding(limit) => {
                self.compared_to(limit)
            }
            // Two equal ends are one limit: the range between them holds nothing of its own.
            _ if self == other => Ordering::Equal,
            MemberLimit::Lowest => Ordering::Greater,
            MemberLimit::Highest => Ordering::Less,
        }
    }
}
