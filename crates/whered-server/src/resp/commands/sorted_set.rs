//! A sorted set's members by name, and going through them: `ZCARD ZCOUNT ZLEXCOUNT ZSCORE
//! ZMSCORE ZRANK ZREVRANK ZSCAN`.
//!
//! A collection of points is a sorted set whose scores are cells; a key with other scores is
//! served alike. Not for: ranges (`sorted_set_range`), writes (`sorted_set_write`).

use whered_engine::{Ordered, Value};

use super::look_up::{MemberScore, look_up};
use super::sorted_set_range::{MemberRange, ScoreRange};
use super::{
    Access, Action, Channels, Command, Effect, Failure, Flag, InTransaction, KeySpec, Members,
    Outcome, SYNTAX_ERROR, WRONG_KIND, WhenFull, integer, number, read_ordered,
};
use crate::resp::double;
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::Session;
use whered_engine::glob;

pub(super) const SORTED_SET: Command = Command {
    name: "",
    arity: 3,
    flags: &[Flag::ReadOnly, Flag::Fast],
    group: "sorted-set",
    keys: &[KeySpec::at(1, Access::Read)],
    names: &[],
    channels: Channels::None,
    members: Members::None,
    when_full: WhenFull::Runs,
    in_transaction: InTransaction::Queued,
    syntax: "key member",
    summary: "",
    cost: "O(1)",
    since: "1.2.0",
    action: Action::Subcommands(&[]),
};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "zcard",
        arity: 2,
        keys: &[KeySpec::at(1, Access::Look)],
        syntax: "key",
        summary: "Returns the number of members",
        action: Action::Run(|session, args, reply| {
            read_ordered(session, args.at(1), |members| {
                reply.count(members.map_or(0, Ordered::len));
                Ok(Effect::Unchanged)
            })
        }),
        ..SORTED_SET
    },
    Command {
        name: "zcount",
        arity: 4,
        syntax: "key min max",
        summary: "Returns the number of members with scores in a range",
        cost: "O(log(N)) with N members",
        since: "2.0.0",
        action: Action::Run(count),
        ..SORTED_SET
    },
    Command {
        name: "zlexcount",
        arity: 4,
        syntax: "key min max",
        summary: "Returns the number of members in a range of names, where all scores are equal",
        cost: "O(log(N)) with N members; O(N) where scores differ",
        since: "2.8.9",
        action: Action::Run(|session, args, reply| {
            let range = MemberRange::read(args.at(2), args.at(3))?;
            read_ordered(session, args.at(1), |members| {
                reply.count(members.map_or(0, |members| range.ranks(members).len()));
                Ok(Effect::Unchanged)
            })
        }),
        ..SORTED_SET
    },
    Command {
        name: "zmscore",
        members: Members::Asked(None),
        arity: -3,
        syntax: "key member [member ...]",
        summary: "Returns members' scores",
        cost: "O(N) with N members given",
        since: "6.2.0",
        action: Action::Run(scores),
        ..SORTED_SET
    },
    Command {
        name: "zrank",
        members: Members::Named(Some(1)),
        summary: "Returns how many members precede a member",
        cost: "O(log(N)) with N members",
        since: "2.0.0",
        action: Action::Run(|session, args, reply| rank(session, args, reply, false)),
        ..SORTED_SET
    },
    Command {
        name: "zrevrank",
        members: Members::Named(Some(1)),
        summary: "Returns how many members follow a member",
        cost: "O(log(N)) with N members",
        since: "2.0.0",
        action: Action::Run(|session, args, reply| rank(session, args, reply, true)),
        ..SORTED_SET
    },
    Command {
        name: "zscan",
        arity: -3,
        flags: &[Flag::ReadOnly],
        syntax: "key cursor [MATCH pattern] [COUNT count]",
        summary: "Iterates over members and scores, in their order",
        cost: "O(count) a step; members with one score come in one step",
        since: "2.8.0",
        action: Action::Run(scan),
        ..SORTED_SET
    },
    Command {
        name: "zscore",
        members: Members::Asked(Some(1)),
        summary: "Returns a member's score; that of a point is its cell",
        action: Action::Run(score),
        ..SORTED_SET
    },
];

fn count(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let range = ScoreRange::read(args.at(2), args.at(3))?;
    read_ordered(session, args.at(1), |members| {
        reply.count(members.map_or(0, |members| range.ranks(members).len()));
        Ok(Effect::Unchanged)
    })
}

fn write_score(reply: &mut Reply, standing: Option<MemberScore>) {
    match standing {
        Some(standing) => reply.double(standing.score()),
        None => reply.null(),
    }
}

fn score(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    write_score(reply, look_up(session, args, 1)?[0]);
    Ok(Effect::Unchanged)
}

fn scores(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let found = look_up(session, args, args.len() - 2)?;
    reply.array(found.len());
    found.iter().for_each(|standing| write_score(reply, *standing));
    Ok(Effect::Unchanged)
}

fn rank(session: &mut Session, args: Args<'_>, reply: &mut Reply, reverse: bool) -> Outcome {
    read_ordered(session, args.at(1), |members| {
        let rank = members.and_then(|members| {
            let rank = members.rank(args.at(2))?;
            Some(if reverse { members.len() - 1 - rank } else { rank })
        });
        match rank {
            Some(rank) => reply.count(rank),
            None => reply.null(),
        }
        Ok(Effect::Unchanged)
    })
}

/// What a step of `ZSCAN` is asked for.
struct Step<'a> {
    cursor: u64,
    count: usize,
    pattern: Option<&'a [u8]>,
}

/// The order is that of the scores, and a cursor is the first score of the next step: a member
/// whose score changes during the iteration may be given twice or not at all.
fn scan(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let cursor = number::cursor(args.at(2)).ok_or(Failure::text("ERR invalid cursor"))?;
    session.read_key(args.at(1), |value| {
        let Some(value) = value else {
            write_step(reply, 0, &[], true);
            return Ok(Effect::Unchanged);
        };
        let members = value.ordered().ok_or(WRONG_KIND)?;
        let step = read_step(args, cursor)?;
        let (next, mut found) = take_step(value, members, &step);
        found.retain(|(member, _)| step.pattern.is_none_or(|p| glob::matches(p, member)));
        write_step(reply, next, &found, value.is_large());
        Ok(Effect::Unchanged)
    })
}

fn read_step(args: Args<'_>, cursor: u64) -> Result<Step<'_>, Failure> {
    let mut step = Step { cursor, count: 10, pattern: None };
    let mut at = 3;
    while at < args.len() {
        let Some(value) = args.get(at + 1) else {
            return Err(SYNTAX_ERROR);
        };
        if args.is(at, "count") {
            step.count = match usize::try_from(integer(value)?) {
                Ok(count) if count > 0 => count,
                _ => return Err(SYNTAX_ERROR),
            };
        } else if args.is(at, "match") {
            step.pattern = Some(value);
        } else {
            return Err(SYNTAX_ERROR);
        }
        at += 2;
    }
    Ok(step)
}

/// The members of one step, and the cursor of the next; a small set comes in one.
fn take_step<'a>(
    value: &Value,
    members: Ordered<'a>,
    step: &Step<'_>,
) -> (u64, Vec<(&'a [u8], f64)>) {
    if !value.is_large() {
        return (0, members.iter().collect());
    }
    let first = match step.cursor {
        0 => 0,
        cursor => members.rank_of_limit(score_of_cursor(cursor), false),
    };
    let mut found: Vec<(&[u8], f64)> = Vec::new();
    for (member, score) in members.iter_ranks(first..members.len()) {
        let is_new = found.last().is_none_or(|(_, last)| *last < score);
        if found.len() >= step.count && is_new {
            return (cursor_of_score(score), found);
        }
        found.push((member, score));
    }
    (0, found)
}

/// A number that grows with the score and is not 0: negative numbers come before the others, and
/// the larger their bits are the smaller they are.
fn cursor_of_score(score: f64) -> u64 {
    let bits = score.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

fn score_of_cursor(cursor: u64) -> f64 {
    let score = f64::from_bits(if cursor >> 63 == 1 { cursor & !(1 << 63) } else { !cursor });
    // A cursor that never was one may be no number.
    if score.is_nan() { f64::INFINITY } else { score }
}

fn write_step(reply: &mut Reply, next: u64, found: &[(&[u8], f64)], is_large: bool) {
    reply.array(2);
    reply.bulk(next.to_string().as_bytes());
    reply.array(2 * found.len());
    for (member, score) in found {
        reply.bulk(member);
        // A small set of Redis keeps whole numbers as integers, and gives them so.
        let is_integer = score.trunc() == *score && score.abs() < 4.6e18;
        if is_integer && !is_large {
            reply.bulk((*score as i64).to_string().as_bytes());
        } else {
            reply.bulk(double::print(*score).as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_grow_with_scores_and_give_them_back() {
        let scores = [f64::NEG_INFINITY, -2.5, -1e-300, 0.0, 5e-324, 1.0, 1e300, f64::INFINITY];
        let cursors = scores.map(cursor_of_score);
        assert!(cursors.is_sorted_by(|a, b| a < b) && cursors[0] > 0);
        assert_eq!(cursors.map(score_of_cursor), scores);
        assert!(!score_of_cursor(u64::MAX).is_nan() && !score_of_cursor(1).is_nan());
    }
}
