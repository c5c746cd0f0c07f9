//! `SORT` and `SORT_RO` of a sorted set's members: as numbers, as texts, or by the strings of other
//! keys.
//!
//! For: the options of Redis 7.0.15 but `STORE`, which would make a list. Not for: the order by
//! scores (`sorted_set_range`), which is what `BY nosort` gives.
//!
//! Members are copied first: other keys are read while no lock of the sorted set is held.
//! Texts are compared byte by byte, as Redis does in the locale `C`.

use std::cmp::Ordering;
use std::ops::Range;

use whered_engine::{Ordered, Value};

use super::{
    Access, Action, Channels, Command, Effect, Failure, Flag, InTransaction, KeySpec, Members,
    NameKind, Outcome, SYNTAX_ERROR, WhenFull, integer, number, read_ordered,
};
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::Session;

const SORT: Command = Command {
    name: "sort",
    arity: -2,
    flags: &[Flag::ReadOnly],
    group: "generic",
    keys: &[KeySpec::at(1, Access::Read)],
    names: &[],
    channels: Channels::None,
    members: Members::None,
    when_full: WhenFull::Runs,
    in_transaction: InTransaction::Queued,
    syntax: "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC|DESC] \
             [ALPHA]",
    summary: "Returns the members of a sorted set, sorted as numbers or texts, or by other keys' \
              strings; STORE is refused: it would make a list",
    cost: "O(N+M*log(M)) with N members of which M are given",
    since: "1.0.0",
    action: Action::Run(|session, args, reply| sort(session, args, reply, true)),
};

pub(super) const COMMANDS: &[Command] = &[
    SORT,
    Command {
        name: "sort_ro",
        summary: "Is SORT without STORE",
        since: "7.0.0",
        action: Action::Run(|session, args, reply| sort(session, args, reply, false)),
        ..SORT
    },
];

const STORE_REFUSED: Failure = Failure::text(
    "ERR SORT with STORE is not supported: it makes a list; ZRANGESTORE stores a sorted set",
);

/// The options of a request.
struct Options<'a> {
    is_descending: bool,
    as_text: bool,
    offset: i64,
    count: i64,
    /// None: by the members themselves.
    by: Option<&'a [u8]>,
    /// What is given for each member; nothing: the member.
    gets: Vec<&'a [u8]>,
    stores: bool,
}

impl<'a> Options<'a> {
    fn read(session: &Session, args: Args<'a>, may_store: bool) -> Result<Options<'a>, Failure> {
        let mut options = Options {
            is_descending: false,
            as_text: false,
            offset: 0,
            count: -1,
            by: None,
            gets: Vec::new(),
            stores: false,
        };
        let reads_any_key = session.user.may_name_all(NameKind::Key);
        let mut at = 2;
        while at < args.len() {
            let left = args.len() - 1 - at;
            match () {
                () if args.is(at, "asc") => options.is_descending = false,
                () if args.is(at, "desc") => options.is_descending = true,
                () if args.is(at, "alpha") => options.as_text = true,
                () if args.is(at, "limit") && left >= 2 => {
                    options.offset = integer(args.at(at + 1))?;
                    options.count = integer(args.at(at + 2))?;
                    at += 2;
                }
                () if may_store && args.is(at, "store") && left >= 1 => {
                    options.stores = true;
                    at += 1;
                }
                () if args.is(at, "by") && left >= 1 => {
                    let pattern = args.at(at + 1);
                    if pattern.contains(&b'*') && !reads_any_key {
                        return Err(denied("BY"));
                    }
                    options.by = Some(pattern);
                    at += 1;
                }
                () if args.is(at, "get") && left >= 1 => {
                    if !reads_any_key {
                        return Err(denied("GET"));
                    }
                    options.gets.push(args.at(at + 1));
                    at += 1;
                }
                () => return Err(SYNTAX_ERROR),
            }
            at += 1;
        }
        Ok(options)
    }

    /// Whether the members stay in the order of their scores.
    fn keeps_order(&self) -> bool {
        self.by.is_some_and(|pattern| !pattern.contains(&b'*'))
    }

    /// Which of N sorted members are given.
    fn range(&self, len: usize) -> Range<usize> {
        let start = usize::try_from(self.offset.max(0)).unwrap_or(usize::MAX).min(len);
        let count = usize::try_from(self.count).unwrap_or(usize::MAX).min(len - start);
        start..start + count
    }
}

fn denied(option: &str) -> Failure {
    Failure::made(format!(
        "ERR {option} option of SORT denied due to insufficient ACL permissions."
    ))
}

fn sort(session: &mut Session, args: Args<'_>, reply: &mut Reply, may_store: bool) -> Outcome {
    let options = Options::read(session, args, may_store)?;
    if options.stores {
        return Err(STORE_REFUSED);
    }
    let members = read_ordered(session, args.at(1), |members| {
        Ok(members.map_or_else(Vec::new, |members| copied(members, &options)))
    })?;
    let members = match options.keeps_order() {
        true => members,
        false => sorted(session, members, &options)?,
    };
    write(session, &members, &options, reply);
    Ok(Effect::Unchanged)
}

/// The members to be sorted; where they stay in their order only those that are given.
fn copied(members: Ordered<'_>, options: &Options<'_>) -> Vec<Vec<u8>> {
    let name = |(member, _): (&[u8], f64)| member.to_vec();
    if !options.keeps_order() {
        return members.iter().map(name).collect();
    }
    let range = options.range(members.len());
    match options.is_descending {
        false => members.iter_ranks(range).map(name).collect(),
        true => {
            let ranks = members.len() - range.end..members.len() - range.start;
            members.iter_ranks(ranks).rev().map(name).collect()
        }
    }
}

/// What a member is sorted by.
enum Weight {
    Number(f64),
    /// The string of another key; a key without one comes first.
    Text(Option<Vec<u8>>),
    /// The member alone.
    Member,
}

impl Weight {
    fn of(session: &Session, member: &[u8], options: &Options<'_>) -> Result<Weight, Failure> {
        let text = match options.by {
            None if options.as_text => return Ok(Weight::Member),
            None => return weight_number(member).map(Weight::Number),
            Some(pattern) => by_pattern(session, pattern, member),
        };
        match (options.as_text, text) {
            (true, text) => Ok(Weight::Text(text)),
            (false, Some(text)) => weight_number(&text).map(Weight::Number),
            (false, None) => Ok(Weight::Number(0.0)),
        }
    }

    fn compare(&self, other: &Weight) -> Ordering {
        match (self, other) {
            (Weight::Number(one), Weight::Number(other)) => {
                one.partial_cmp(other).unwrap_or(Ordering::Equal)
            }
            (Weight::Text(one), Weight::Text(other)) => one.cmp(other),
            _ => Ordering::Equal,
        }
    }
}

fn weight_number(text: &[u8]) -> Result<f64, Failure> {
    let not_a_number = Failure::text("ERR One or more scores can't be converted into double");
    number::weight(text).ok_or(not_a_number)
}

/// Sorts members and gives those that are in the range.
fn sorted(
    session: &Session,
    members: Vec<Vec<u8>>,
    options: &Options<'_>,
) -> Result<Vec<Vec<u8>>, Failure> {
    let weighed = members.into_iter().map(|member| {
        let weight = Weight::of(session, &member, options)?;
        Ok::<(Weight, Vec<u8>), Failure>((weight, member))
    });
    let mut weighed = weighed.collect::<Result<Vec<_>, Failure>>()?;
    weighed.sort_unstable_by(|(one_weight, one), (other_weight, other)| {
        let order = one_weight.compare(other_weight).then_with(|| one.cmp(other));
        if options.is_descending { order.reverse() } else { order }
    });
    let range = options.range(weighed.len());
    Ok(weighed.drain(range).map(|(_, member)| member).collect())
}

/// The string of the key that a pattern makes of a member: `#` is the member, the first `*` stands
/// for it. There is none behind `->`, which names a field of a hash.
fn by_pattern(session: &Session, pattern: &[u8], member: &[u8]) -> Option<Vec<u8>> {
    if pattern == b"#" {
        return Some(member.to_vec());
    }
    let star = pattern.iter().position(|byte| *byte == b'*')?;
    let (before, after) = (&pattern[..star], &pattern[star + 1..]);
    let arrow = after.windows(2).position(|pair| pair == b"->");
    if arrow.is_some_and(|arrow| arrow + 2 < after.len()) {
        return None;
    }
    let key = [before, member, after].concat();
    session.read_key(&key, |value| value.and_then(Value::text).map(<[u8]>::to_vec))
}

fn write(session: &mut Session, members: &[Vec<u8>], options: &Options<'_>, reply: &mut Reply) {
    let gets = options.gets.len();
    reply.array(members.len() * gets.max(1));
    let (start, limit) = (reply.out.len(), session.output_limit().hard());
    for member in members {
        if gets == 0 {
            reply.bulk(member);
        }
        for pattern in &options.gets {
            match by_pattern(session, pattern, member) {
                Some(text) => reply.bulk(&text),
                None => reply.null(),
            }
        }
        // As in `EXEC`: replies beyond the limit would only take memory.
        if reply.out.len() - start > limit {
            reply.out.truncate(start);
            session.overflowed = true;
            return;
        }
    }
}
