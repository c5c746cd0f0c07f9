//! Writes to a sorted set: `ZADD ZINCRBY ZREM ZREMRANGEBYRANK ZREMRANGEBYSCORE
//! ZREMRANGEBYLEX`.
//!
//! The order of the checks is that of Redis 7.0.15. As long as all scores are cells the key is a
//! point index; another score makes it a plain sorted set, which nobody sees.

use std::ops::Range;

use whered_engine::{AddCondition, Added, Increment, Ordered, ScoreRules};

use super::sorted_set::SORTED_SET;
use super::sorted_set_range::{MemberRange, ScoreRange, ranks_between};
use super::{
    Access, Action, Command, Effect, Failure, Flag, KeySpec, Members, Outcome, SYNTAX_ERROR,
    WhenFull, float, integer,
};
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::Session;

const WRITE: Command = Command {
    flags: &[Flag::Write, Flag::Fast],
    keys: &[KeySpec::at(1, Access::Update)],
    when_full: WhenFull::Refused,
    ..SORTED_SET
};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "zadd",
        arity: -4,
        syntax: "key [NX|XX] [GT|LT] [CH] [INCR] score member [score member ...]",
        summary: "Adds members with scores, or gives them these scores",
        cost: "O(log(N)) a member with N members",
        action: Action::Run(|session, args, reply| add(session, args, reply, false)),
        ..WRITE
    },
    Command {
        name: "zincrby",
        arity: 4,
        syntax: "key increment member",
        summary: "Adds to a member's score",
        cost: "O(log(N)) with N members",
        action: Action::Run(|session, args, reply| add(session, args, reply, true)),
        ..WRITE
    },
    Command {
        name: "zrem",
        members: Members::Named(None),
        when_full: WhenFull::Frees,
        arity: -3,
        keys: &[KeySpec::at(1, Access::Shorten)],
        syntax: "key member [member ...]",
        summary: "Removes members",
        cost: "O(M*log(N)) with N members of which M are removed",
        action: Action::Run(remove),
        ..WRITE
    },
    Command {
        name: "zremrangebylex",
        arity: 4,
        flags: &[Flag::Write],
        keys: &[KeySpec::at(1, Access::Shorten)],
        when_full: WhenFull::Frees,
        syntax: "key min max",
        summary: "Removes the members in a range of names, where all scores are equal",
        cost: "O(M*log(N)) with N members of which M are removed",
        since: "2.8.9",
        action: Action::Run(|session, args, reply| {
            let range = MemberRange::read(args.at(2), args.at(3))?;
            remove_ranks(session, args, reply, |members| range.ranks(members))
        }),
        ..WRITE
    },
    Command {
        name: "zremrangebyrank",
        arity: 4,
        flags: &[Flag::Write],
        keys: &[KeySpec::at(1, Access::Shorten)],
        when_full: WhenFull::Frees,
        syntax: "key start stop",
        summary: "Removes a range of members",
        cost: "O(M*log(N)) with N members of which M are removed",
        since: "2.0.0",
        action: Action::Run(|session, args, reply| {
            let (first, last) = (integer(args.at(2))?, integer(args.at(3))?);
            remove_ranks(session, args, reply, |members| ranks_between(first, last, members.len()))
        }),
        ..WRITE
    },
    Command {
        name: "zremrangebyscore",
        arity: 4,
        flags: &[Flag::Write],
        keys: &[KeySpec::at(1, Access::Shorten)],
        when_full: WhenFull::Frees,
        syntax: "key min max",
        summary: "Removes the members with scores in a range",
        cost: "O(M*log(N)) with N members of which M are removed",
        action: Action::Run(|session, args, reply| {
            let range = ScoreRange::read(args.at(2), args.at(3))?;
            remove_ranks(session, args, reply, |members| range.ranks(members))
        }),
        ..WRITE
    },
];

/// The options of `ZADD` before the scores.
#[derive(Default)]
struct Options {
    only_new: bool,
    only_existing: bool,
    only_greater: bool,
    only_less: bool,
    counts_moved: bool,
    increments: bool,
}

impl Options {
    fn check(&self, pairs: usize) -> Result<(), Failure> {
        let Options { only_new, only_existing, only_greater, only_less, .. } = *self;
        if only_new && only_existing {
            return Err(Failure::text("ERR XX and NX options at the same time are not compatible"));
        }
        if (only_new && (only_greater || only_less)) || (only_greater && only_less) {
            return Err(Failure::text(
                "ERR GT, LT, and/or NX options at the same time are not compatible",
            ));
        }
        if self.increments && pairs > 1 {
            return Err(Failure::text("ERR INCR option supports a single increment-element pair"));
        }
        Ok(())
    }

    fn rules(&self) -> ScoreRules {
        let condition = match (self.only_new, self.only_existing) {
            (true, _) => AddCondition::OnlyNew,
            (_, true) => AddCondition::OnlyExisting,
            _ => AddCondition::Always,
        };
        ScoreRules { condition, only_greater: self.only_greater, only_less: self.only_less }
    }
}

fn add(session: &mut Session, args: Args<'_>, reply: &mut Reply, increments: bool) -> Outcome {
    let mut options = Options { increments, ..Options::default() };
    let mut at = 2;
    while at < args.len() {
        match () {
            () if args.is(at, "nx") => options.only_new = true,
            () if args.is(at, "xx") => options.only_existing = true,
            () if args.is(at, "ch") => options.counts_moved = true,
            () if args.is(at, "incr") => options.increments = true,
            () if args.is(at, "gt") => options.only_greater = true,
            () if args.is(at, "lt") => options.only_less = true,
            () => break,
        }
        at += 1;
    }
    let pairs = args.skip(at);
    if pairs.len() == 0 || !pairs.len().is_multiple_of(2) {
        return Err(SYNTAX_ERROR);
    }
    options.check(pairs.len() / 2)?;
    let pair = |index: usize| -> Result<(&[u8], f64), Failure> {
        Ok((pairs.at(2 * index + 1), float(pairs.at(2 * index))?))
    };
    let scores: Vec<_> = (0..pairs.len() / 2).map(pair).collect::<Result<_, _>>()?;
    let keyspace = session.engine().keyspace();
    let (key, rules) = (args.at(1), options.rules());
    if !options.increments {
        let written = keyspace.add_scores(session.number, key, &scores, rules)?;
        reply.hold(written.ticket);
        let Added { added, moved } = written.value;
        reply.count(added + if options.counts_moved { moved } else { 0 });
        return Ok(Effect::changed_if(added + moved > 0));
    }
    let (member, by) = scores[0];
    let written = keyspace.increment(session.number, key, member, by, rules)?;
    reply.hold(written.ticket);
    match written.value {
        Increment::Score(score) | Increment::Unchanged(score) => reply.double(score),
        Increment::Refused => reply.null(),
        Increment::NotANumber => {
            return Err(Failure::text("ERR resulting score is not a number (NaN)"));
        }
    }
    Ok(Effect::changed_if(matches!(written.value, Increment::Score(_))))
}

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
    Ok(Effect::changed_if(written.value > 0))
}

fn remove_ranks(
    session: &Session,
    args: Args<'_>,
    reply: &mut Reply,
    choose: impl Fn(Ordered<'_>) -> Range<usize>,
) -> Outcome {
    let written = session.engine().keyspace().remove_ranks(session.number, args.at(1), choose)?;
    reply.hold(written.ticket);
    reply.count(written.value);
    Ok(Effect::changed_if(written.value > 0))
}
