//! Ranges of a sorted set: `ZRANGE ZREVRANGE ZRANGEBYSCORE ZREVRANGEBYSCORE ZRANGEBYLEX
//! ZREVRANGEBYLEX ZRANGESTORE`.
//!
//! Members are ordered by (score, member). A range of scores becomes a range of ranks first, so
//! both are jumps followed by a walk.
//!
//! Ranges by member (`BYLEX`) have a meaning only where all scores are equal. There they become
//! ranks by two binary searches. For other sets the answer is that of Redis for a small set: a walk
//! from one end to the first member inside, and on from there to the first one outside. Cost:
//! O(members).

use std::cmp::Ordering;
use std::ops::Range;

use whered_engine::Ordered;

use super::sorted_set::SORTED_SET;
use super::{
    Access, Action, Command, Effect, Failure, Flag, KeySpec, Outcome, SYNTAX_ERROR, WhenFull,
    integer, isolated, number, read_ordered,
};
use crate::resp::protocol::Args;
use crate::resp::reply::{Protocol, Reply};
use crate::resp::session::Session;

const RANGE: Command = Command {
    arity: -4,
    flags: &[Flag::ReadOnly],
    cost: "O(log(N)+M) with N members of which M are given",
    ..SORTED_SET
};

const BY_NAME_COST: &str =
    "O(log(N)+M) with N members of which M are given; O(N) where scores differ";

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "zrange",
        syntax: "key start stop [BYSCORE|BYLEX] [REV] [LIMIT offset count] [WITHSCORES]",
        summary: "Returns a range of members in order",
        cost: "O(log(N)+M) with N members of which M are given; O(N) for BYLEX where scores differ",
        action: Action::Run(|session, args, reply| range(session, args, reply, FORM)),
        ..RANGE
    },
    Command {
        name: "zrangebylex",
        syntax: "key min max [LIMIT offset count]",
        summary: "Returns the members in a range of names, upwards, where all scores are equal",
        cost: BY_NAME_COST,
        since: "2.8.9",
        action: Action::Run(|session, args, reply| {
            let form = Form { by: Some(By::Member), reverse: Some(false), ..FORM };
            range(session, args, reply, form)
        }),
        ..RANGE
    },
    Command {
        name: "zrangebyscore",
        syntax: "key min max [WITHSCORES] [LIMIT offset count]",
        summary: "Returns the members with scores in a range, upwards",
        since: "1.0.5",
        action: Action::Run(|session, args, reply| {
            let form = Form { by: Some(By::Score), reverse: Some(false), ..FORM };
            range(session, args, reply, form)
        }),
        ..RANGE
    },
    Command {
        name: "zrangestore",
        arity: -5,
        flags: &[Flag::Write],
        keys: &[KeySpec::at(1, Access::Overwrite), KeySpec::at(2, Access::Read)],
        when_full: WhenFull::Refused,
        syntax: "dst src min max [BYSCORE|BYLEX] [REV] [LIMIT offset count]",
        summary: "Stores a range of members with their scores",
        since: "6.2.0",
        action: Action::Run(store),
        ..RANGE
    },
    Command {
        name: "zrevrange",
        syntax: "key start stop [WITHSCORES]",
        summary: "Returns a range of members, counted from the last one",
        action: Action::Run(|session, args, reply| {
            let form = Form { by: Some(By::Rank), reverse: Some(true), ..FORM };
            range(session, args, reply, form)
        }),
        ..RANGE
    },
    Command {
        name: "zrevrangebylex",
        syntax: "key max min [LIMIT offset count]",
        summary: "Returns the members in a range of names, downwards, where all scores are equal",
        cost: BY_NAME_COST,
        since: "2.8.9",
        action: Action::Run(|session, args, reply| {
            let form = Form { by: Some(By::Member), reverse: Some(true), ..FORM };
            range(session, args, reply, form)
        }),
        ..RANGE
    },
    Command {
        name: "zrevrangebyscore",
        syntax: "key max min [WITHSCORES] [LIMIT offset count]",
        summary: "Returns the members with scores in a range, downwards",
        since: "2.2.0",
        action: Action::Run(|session, args, reply| {
            let form = Form { by: Some(By::Score), reverse: Some(true), ..FORM };
            range(session, args, reply, form)
        }),
        ..RANGE
    },
];

/// What a command has decided before its options are read.
#[derive(Clone, Copy)]
struct Form {
    by: Option<By>,
    reverse: Option<bool>,
    /// The index of the key; its limits and options follow.
    key: usize,
    stores: bool,
}

const FORM: Form = Form { by: None, reverse: None, key: 1, stores: false };

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
enum Limits<'a> {
    Ranks(i64, i64),
    Scores(ScoreRange),
    Members(MemberRange<'a>),
}

/// A range of scores.
#[derive(Clone, Copy)]
pub(super) struct ScoreRange {
    low: f64,
    low_excluded: bool,
    high: f64,
    high_excluded: bool,
}

impl ScoreRange {
    /// Reads two limits; `(` before one excludes it.
    pub(super) fn read(low: &[u8], high: &[u8]) -> Result<ScoreRange, Failure> {
        let limit = |text: &[u8]| match text.strip_prefix(b"(") {
            Some(text) => number::score_limit(text).map(|limit| (limit, true)),
            None => number::score_limit(text).map(|limit| (limit, false)),
        };
        let limits = limit(low).zip(limit(high));
        let ((low, low_excluded), (high, high_excluded)) =
            limits.ok_or(Failure::text("ERR min or max is not a float"))?;
        Ok(ScoreRange { low, low_excluded, high, high_excluded })
    }

    /// The ranks of the members with such scores.
    pub(super) fn ranks(self, members: Ordered<'_>) -> Range<usize> {
        let first = members.rank_of_limit(self.low, self.low_excluded);
        let end = members.rank_of_limit(self.high, !self.high_excluded);
        first..end.max(first)
    }
}

/// The ranks from one to another, counted from the end where they are negative.
pub(super) fn ranks_between(first: i64, last: i64, len: usize) -> Range<usize> {
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    let from_end = |rank: i64| if rank < 0 { rank.saturating_add(len) } else { rank };
    let (first, last) = (from_end(first).max(0), from_end(last).min(len - 1));
    if first > last { 0..0 } else { first as usize..last as usize + 1 }
}

/// A range of names of members.
#[derive(Clone, Copy)]
pub(super) struct MemberRange<'a> {
    low: MemberLimit<'a>,
    high: MemberLimit<'a>,
}

impl<'a> MemberRange<'a> {
    /// Reads two limits: `-`, `+`, or a name behind `[` or, if it is excluded, `(`.
    pub(super) fn read(low: &'a [u8], high: &'a [u8]) -> Result<MemberRange<'a>, Failure> {
        let limits = member_limit(low).zip(member_limit(high));
        let (low, high) =
            limits.ok_or(Failure::text("ERR min or max not valid string range item"))?;
        Ok(MemberRange { low, high })
    }

    fn is_above_low(&self, member: &[u8]) -> bool {
        match self.low.compared_to(member) {
            Ordering::Less => true,
            Ordering::Equal => !matches!(self.low, MemberLimit::Excluding(_)),
            Ordering::Greater => false,
        }
    }

    fn is_below_high(&self, member: &[u8]) -> bool {
        match self.high.compared_to(member) {
            Ordering::Less => false,
            Ordering::Equal => !matches!(self.high, MemberLimit::Excluding(_)),
            Ordering::Greater => true,
        }
    }

    /// Whether no member of this set can be in the range.
    fn misses(&self, members: Ordered<'_>) -> bool {
        let ends = members.iter().next().zip(members.iter().next_back());
        let Some(((first, _), (last, _))) = ends else {
            return true;
        };
        is_empty(self.low, self.high) || !self.is_above_low(last) || !self.is_below_high(first)
    }

    /// The ranks of the members in the range, counted upwards: see the head of this file.
    pub(super) fn ranks(&self, members: Ordered<'_>) -> Range<usize> {
        if self.misses(members) {
            return 0..0;
        }
        if have_one_score(members) {
            let first = partition_point(members, |member| !self.is_above_low(member));
            let end = partition_point(members, |member| self.is_below_high(member));
            return first..end.max(first);
        }
        let first = members.iter().take_while(|(member, _)| !self.is_above_low(member)).count();
        let rest = members.iter_ranks(first..members.len());
        first..first + rest.take_while(|(member, _)| self.is_below_high(member)).count()
    }
}

/// Whether all members have the same score, so that they are in the order of their names.
fn have_one_score(members: Ordered<'_>) -> bool {
    let ends = members.iter().next().zip(members.iter().next_back());
    ends.is_none_or(|((_, first), (_, last))| first == last)
}

/// The number of members for which `is_before` holds; these come first.
fn partition_point(members: Ordered<'_>, is_before: impl Fn(&[u8]) -> bool) -> usize {
    let by_rank = members.by_rank();
    let (mut low, mut high) = (0, members.len());
    while low < high {
        let middle = low + (high - low) / 2;
        let member = by_rank.get(middle);
        if member.is_some_and(|(member, _)| is_before(member)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// A limit of a range of names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MemberLimit<'a> {
    Lowest,
    Highest,
    Including(&'a [u8]),
    Excluding(&'a [u8]),
}

fn range(session: &mut Session, args: Args<'_>, reply: &mut Reply, form: Form) -> Outcome {
    let options = read_options(args, form)?;
    let limits = read_limits(args, form, &options)?;
    read_ordered(session, args.at(form.key), |members| {
        let Some(members) = members else {
            reply.array(0);
            return Ok(Effect::Unchanged);
        };
        match limits.ranks(members, &options) {
            Some(ranks) if options.reverse => {
                let members = members.iter_ranks(ranks).rev();
                write_members(members, options.with_scores, reply);
            }
            Some(ranks) => write_members(members.iter_ranks(ranks), options.with_scores, reply),
            None => {
                let members = limits.members(members, &options).into_iter();
                write_members(members, options.with_scores, reply);
            }
        }
        Ok(Effect::Unchanged)
    })
}

fn store(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    isolated(session, reply, |session, reply| store_range(session, args, reply))
}

fn store_range(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let form = Form { key: 2, stores: true, ..FORM };
    let options = read_options(args, form)?;
    let limits = read_limits(args, form, &options)?;
    let owned = |(member, score): (&[u8], f64)| (member.to_vec(), score);
    let found: Vec<(Vec<u8>, f64)> = read_ordered(session, args.at(2), |members| {
        let Some(members) = members else {
            return Ok(Vec::new());
        };
        Ok(match limits.ranks(members, &options) {
            Some(ranks) => members.iter_ranks(ranks).map(owned).collect(),
            None => limits.members(members, &options).into_iter().map(owned).collect(),
        })
    })?;
    let scores: Vec<(&[u8], f64)> = found.iter().map(|(m, score)| (m.as_slice(), *score)).collect();
    let keyspace = session.engine().keyspace();
    let written = keyspace.store_scores(session.number, args.at(1), &scores)?;
    reply.hold(written.ticket);
    reply.count(scores.len());
    Ok(Effect::changed_if(written.value))
}

fn read_options(args: Args<'_>, form: Form) -> Result<Options, Failure> {
    let (mut by, mut reverse) = (form.by, form.reverse);
    let (mut offset, mut limit, mut with_scores) = (0, -1, false);
    let mut at = form.key + 3;
    while at < args.len() {
        let left = args.len() - 1 - at;
        if args.is(at, "withscores") && !form.stores {
            with_scores = true;
        } else if args.is(at, "limit") && left >= 2 {
            offset = integer(args.at(at + 1))?;
            limit = integer(args.at(at + 2))?;
            at += 2;
        } else if args.is(at, "rev") && reverse.is_none() {
            reverse = Some(true);
        } else if args.is(at, "bylex") && by.is_none() {
            by = Some(By::Member);
        } else if args.is(at, "byscore") && by.is_none() {
            by = Some(By::Score);
        } else {
            return Err(SYNTAX_ERROR);
        }
        at += 1;
    }
    let by = by.unwrap_or(By::Rank);
    if limit != -1 && by == By::Rank {
        return Err(Failure::text(
            "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
        ));
    }
    if by == By::Rank {
        // `LIMIT offset -1` is let through, and means nothing.
        offset = 0;
    }
    if with_scores && by == By::Member {
        return Err(Failure::text(
            "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
        ));
    }
    Ok(Options { by, reverse: reverse.unwrap_or(false), offset, limit, with_scores })
}

fn read_limits<'a>(args: Args<'a>, form: Form, options: &Options) -> Result<Limits<'a>, Failure> {
    let (first, second) = (args.at(form.key + 1), args.at(form.key + 2));
    // Backwards, the greater limit comes first; ranks count from the other end instead.
    let (low, high) = if options.reverse { (second, first) } else { (first, second) };
    match options.by {
        By::Rank => Ok(Limits::Ranks(integer(first)?, integer(second)?)),
        By::Score => ScoreRange::read(low, high).map(Limits::Scores),
        By::Member => MemberRange::read(low, high).map(Limits::Members),
    }
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

impl Options {
    /// A negative offset skips everything, a negative limit limits nothing.
    fn skipped(&self) -> usize {
        usize::try_from(self.offset).unwrap_or(usize::MAX)
    }

    fn taken(&self) -> usize {
        usize::try_from(self.limit).unwrap_or(usize::MAX)
    }

    /// What offset and limit leave of ranks that are counted in the asked direction.
    fn cut(&self, ranks: Range<usize>) -> Range<usize> {
        let skipped = self.skipped().min(ranks.len());
        let taken = self.taken().min(ranks.len() - skipped);
        if self.reverse {
            ranks.end - skipped - taken..ranks.end - skipped
        } else {
            ranks.start + skipped..ranks.start + skipped + taken
        }
    }
}

impl Limits<'_> {
    /// The ranks of the members in the range; `None` for a range of names where scores differ.
    fn ranks(&self, members: Ordered<'_>, options: &Options) -> Option<Range<usize>> {
        match self {
            Limits::Ranks(first, last) => {
                let len = members.len();
                let ranks = ranks_between(*first, *last, len);
                let mirrored = options.reverse && !ranks.is_empty();
                Some(if mirrored { len - ranks.end..len - ranks.start } else { ranks })
            }
            Limits::Scores(scores) => Some(options.cut(scores.ranks(members))),
            Limits::Members(range) if have_one_score(members) => {
                Some(options.cut(range.ranks(members)))
            }
            Limits::Members(_) => None,
        }
    }

    /// The members of a range of names where scores differ, in the direction of the options.
    fn members<'m>(&self, members: Ordered<'m>, options: &Options) -> Vec<(&'m [u8], f64)> {
        let Limits::Members(range) = self else {
            return Vec::new();
        };
        if range.misses(members) {
            return Vec::new();
        }
        if options.reverse {
            let entries = members.iter().rev();
            let entries = entries.skip_while(|(member, _)| !range.is_below_high(member));
            take_while(entries, options, |member| range.is_above_low(member))
        } else {
            let entries = members.iter();
            let entries = entries.skip_while(|(member, _)| !range.is_above_low(member));
            take_while(entries, options, |member| range.is_below_high(member))
        }
    }
}

/// The entries from the first one on until one is beyond the far limit.
fn take_while<'m>(
    entries: impl Iterator<Item = (&'m [u8], f64)>,
    options: &Options,
    before_far_limit: impl Fn(&[u8]) -> bool,
) -> Vec<(&'m [u8], f64)> {
    let mut entries = entries.peekable();
    if !entries.peek().is_some_and(|(member, _)| before_far_limit(member)) {
        return Vec::new();
    }
    let inside = entries.skip(options.skipped()).take_while(|(member, _)| before_far_limit(member));
    inside.take(options.taken()).collect()
}

/// Writes an array of members, with their scores if they are wanted.
pub(super) fn write_members<'m>(
    entries: impl ExactSizeIterator<Item = (&'m [u8], f64)>,
    with_scores: bool,
    reply: &mut Reply,
) {
    let in_pairs = with_scores && reply.protocol == Protocol::Resp3;
    let flat = if with_scores && !in_pairs { 2 } else { 1 };
    reply.array(entries.len() * flat);
    for (member, score) in entries {
        if in_pairs {
            reply.array(2);
        }
        reply.bulk(member);
        if with_scores {
            reply.double(score);
        }
    }
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
