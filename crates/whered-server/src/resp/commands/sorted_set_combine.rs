//! Unions, intersections and differences of sorted sets: `ZUNION ZINTER ZDIFF`, the commands that
//! store their results, and `ZINTERCARD`.
//!
//! For: arguments, in the order in which Redis 7.0.15 checks them, and replies. Not for: the
//! computation (`whered_engine::Combination`).

use whered_engine::{Aggregate, Combination, CombineOperation, Kind, Ordered};

use super::sorted_set::SORTED_SET;
use super::sorted_set_range::write_members;
use super::{
    Access, Action, Command, Effect, Failure, Flag, KeySpec, Outcome, SYNTAX_ERROR, WRONG_KIND,
    WhenFull, float, integer,
};
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::Session;

const READ: Command = Command {
    arity: -3,
    flags: &[Flag::ReadOnly],
    keys: &[KeySpec::counted(1, Access::Read)],
    since: "6.2.0",
    ..SORTED_SET
};

const STORE: Command = Command {
    arity: -4,
    flags: &[Flag::Write],
    keys: &[KeySpec::at(1, Access::Overwrite), KeySpec::counted(2, Access::Read)],
    when_full: WhenFull::Refused,
    ..READ
};

const UNION_COST: &str = "O(N)+O(M*log(M)) with N members of all keys and M of the result";
const INTERSECTION_COST: &str =
    "O(N*K)+O(M*log(M)) with N members of the smallest of K keys and M of the result";
const DIFFERENCE_COST: &str =
    "O(N*K)+O(M*log(M)) with N members of the first of K keys and M of the result";

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "zdiff",
        syntax: "numkeys key [key ...] [WITHSCORES]",
        summary: "Returns the members of the first key that no other key has",
        cost: DIFFERENCE_COST,
        action: Action::Run(|session, args, reply| {
            read(session, args, reply, CombineOperation::Difference)
        }),
        ..READ
    },
    Command {
        name: "zdiffstore",
        syntax: "destination numkeys key [key ...]",
        summary: "Stores the members of the first key that no other key has",
        cost: DIFFERENCE_COST,
        action: Action::Run(|session, args, reply| {
            store(session, args, reply, CombineOperation::Difference)
        }),
        ..STORE
    },
    Command {
        name: "zinter",
        syntax: "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM|MIN|MAX] \
                 [WITHSCORES]",
        summary: "Returns the members that all keys have",
        cost: INTERSECTION_COST,
        action: Action::Run(|session, args, reply| {
            read(session, args, reply, CombineOperation::Intersection)
        }),
        ..READ
    },
    Command {
        name: "zintercard",
        syntax: "numkeys key [key ...] [LIMIT limit]",
        summary: "Returns how many members all keys have, up to a limit",
        cost: "O(N*K) with N members of the smallest of K keys",
        since: "7.0.0",
        action: Action::Run(count_common),
        ..READ
    },
    Command {
        name: "zinterstore",
        syntax: "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] \
                 [AGGREGATE SUM|MIN|MAX]",
        summary: "Stores the members that all keys have",
        cost: INTERSECTION_COST,
        since: "2.0.0",
        action: Action::Run(|session, args, reply| {
            store(session, args, reply, CombineOperation::Intersection)
        }),
        ..STORE
    },
    Command {
        name: "zunion",
        syntax: "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM|MIN|MAX] \
                 [WITHSCORES]",
        summary: "Returns the members of all keys",
        cost: UNION_COST,
        action: Action::Run(|session, args, reply| {
            read(session, args, reply, CombineOperation::Union)
        }),
        ..READ
    },
    Command {
        name: "zunionstore",
        syntax: "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] \
                 [AGGREGATE SUM|MIN|MAX]",
        summary: "Stores the members of all keys",
        cost: UNION_COST,
        since: "2.0.0",
        action: Action::Run(|session, args, reply| {
            store(session, args, reply, CombineOperation::Union)
        }),
        ..STORE
    },
];

/// The keys of a request, and where its options begin.
struct NamedKeys<'a> {
    keys: Vec<&'a [u8]>,
    options: usize,
}

fn read_keys<'a>(session: &Session, args: Args<'a>, at: usize) -> Result<NamedKeys<'a>, Failure> {
    let count = integer(args.at(at))?;
    if count < 1 {
        let name = session.command;
        let text = format!("ERR at least 1 input key is needed for '{name}' command");
        return Err(Failure::made(text));
    }
    let first = at + 1;
    let count = usize::try_from(count).ok().filter(|count| *count <= args.len() - first);
    let count = count.ok_or(SYNTAX_ERROR)?;
    let keys: Vec<&[u8]> = args.skip(first).first(count).collect();
    let keyspace = session.engine().keyspace();
    // Redis looks at the keys before it reads the options.
    if keys.iter().any(|key| keyspace.kind(session.number, key) == Some(Kind::Text)) {
        return Err(WRONG_KIND);
    }
    Ok(NamedKeys { keys, options: first + count })
}

/// Reads the request of a combination whose number of keys stands at an index; says whether scores
/// are wanted, which is no option of those that are stored.
fn read_combination<'a>(
    session: &Session,
    args: Args<'a>,
    at: usize,
    operation: CombineOperation,
    stores: bool,
) -> Result<(Combination<'a>, bool), Failure> {
    let NamedKeys { keys, options } = read_keys(session, args, at)?;
    let has_weights = operation != CombineOperation::Difference;
    let (mut weights, mut aggregate, mut with_scores) = (Vec::new(), Aggregate::Sum, false);
    let mut at = options;
    while at < args.len() {
        let left = args.len() - 1 - at;
        if has_weights && left >= keys.len() && args.is(at, "weights") {
            let weight = |text| float(text).map_err(|_: Failure| WEIGHT_NOT_A_FLOAT);
            weights =
                args.skip(at + 1).first(keys.len()).map(weight).collect::<Result<_, Failure>>()?;
            at += keys.len();
        } else if has_weights && left >= 1 && args.is(at, "aggregate") {
            at += 1;
            aggregate = match () {
                () if args.is(at, "sum") => Aggregate::Sum,
                () if args.is(at, "min") => Aggregate::Lowest,
                () if args.is(at, "max") => Aggregate::Highest,
                () => return Err(SYNTAX_ERROR),
            };
        } else if !stores && args.is(at, "withscores") {
            with_scores = true;
        } else {
            return Err(SYNTAX_ERROR);
        }
        at += 1;
    }
    Ok((Combination { operation, keys, weights, aggregate }, with_scores))
}

const WEIGHT_NOT_A_FLOAT: Failure = Failure::text("ERR weight value is not a float");

/// Reads sorted sets at one moment, and counts each key as asked for.
fn read_sets<R>(
    session: &Session,
    keys: &[&[u8]],
    read: impl FnOnce(&[Option<Ordered<'_>>]) -> R,
) -> Result<R, Failure> {
    let keyspace = session.engine().keyspace();
    let read = |sets: &[Option<Ordered<'_>>]| {
        sets.iter().for_each(|set| session.count_lookup(set.is_some()));
        read(sets)
    };
    Ok(keyspace.read_sorted_sets(session.number, keys, read)?)
}

fn read(
    session: &mut Session,
    args: Args<'_>,
    reply: &mut Reply,
    operation: CombineOperation,
) -> Outcome {
    let (combination, with_scores) = read_combination(session, args, 1, operation, false)?;
    read_sets(session, &combination.keys, |sets| {
        let members = combination.of(sets);
        write_members(members.into_iter(), with_scores, reply);
    })?;
    Ok(Effect::Unchanged)
}

fn store(
    session: &mut Session,
    args: Args<'_>,
    reply: &mut Reply,
    operation: CombineOperation,
) -> Outcome {
    let (combination, _) = read_combination(session, args, 2, operation, true)?;
    let keyspace = session.engine().keyspace();
    for key in &combination.keys {
        session.count_lookup(keyspace.exists(session.number, key));
    }
    let written = keyspace.store_combination(session.number, args.at(1), &combination)?;
    reply.hold(written.ticket);
    let (count, is_changed) = written.value;
    reply.count(count);
    Ok(Effect::changed_if(is_changed))
}

fn count_common(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let NamedKeys { keys, options } = read_keys(session, args, 1)?;
    // 0 is no limit.
    let mut limit = 0;
    let mut at = options;
    while at < args.len() {
        if !args.is(at, "limit") || at + 1 == args.len() {
            return Err(SYNTAX_ERROR);
        }
        let value = integer(args.at(at + 1)).ok().and_then(|limit| usize::try_from(limit).ok());
        limit = value.ok_or(Failure::text("ERR LIMIT can't be negative"))?;
        at += 2;
    }
    let limit = if limit == 0 { usize::MAX } else { limit };
    let count = read_sets(session, &keys, |sets| Combination::count_common(sets, limit))?;
    reply.count(count);
    Ok(Effect::Unchanged)
}
