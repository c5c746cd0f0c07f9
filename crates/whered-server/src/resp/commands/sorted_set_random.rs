//! `ZRANDMEMBER`: members chosen at random, each as likely as any other.
//!
//! A positive count gives as many different members, a negative one may give a member several
//! times. The choice comes from the random numbers of the system, through the keys of a hash.
//! Cost: O(M log N) for M of N members; O(N) when M is more than a third of N.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use whered_engine::Ordered;

use super::sorted_set::SORTED_SET;
use super::{Action, Command, Effect, Failure, Flag, Outcome, SYNTAX_ERROR, integer, read_ordered};
use crate::resp::protocol::Args;
use crate::resp::reply::{Protocol, Reply};
use crate::resp::session::Session;

pub(super) const COMMANDS: &[Command] = &[Command {
    name: "zrandmember",
    arity: -2,
    flags: &[Flag::ReadOnly],
    syntax: "key [count [WITHSCORES]]",
    summary: "Returns members chosen at random; a negative count may repeat members",
    cost: "O(M*log(N)) with N members of which M are given",
    since: "6.2.0",
    action: Action::Run(random_members),
    ..SORTED_SET
}];

fn random_members(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let Some(count) = args.get(2) else {
        return read_ordered(session, args.at(1), |members| {
            let chosen =
                members.and_then(|members| members.by_rank().get(Dice::new().below(members.len())));
            match chosen {
                Some((member, _)) => reply.bulk(member),
                None => reply.null(),
            }
            Ok(Effect::Unchanged)
        });
    };
    let count = read_count(count)?;
    let with_scores = args.len() > 3;
    if args.len() > 4 || (with_scores && !args.is(3, "withscores")) {
        return Err(SYNTAX_ERROR);
    }
    if with_scores && count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(Failure::text("ERR value is out of range"));
    }
    let limit = session.output_limit().hard();
    let is_whole = read_ordered(session, args.at(1), |members| {
        Ok(write_chosen(members, count, with_scores, limit, reply))
    })?;
    // As in `EXEC`: replies beyond the limit would only take memory.
    session.overflowed |= !is_whole;
    Ok(Effect::Unchanged)
}

fn read_count(text: &[u8]) -> Result<i64, Failure> {
    match integer(text)? {
        i64::MIN => Err(Failure::made(format!(
            "ERR value is out of range, value must between {} and {}",
            -i64::MAX,
            i64::MAX
        ))),
        count => Ok(count),
    }
}

/// Writes the members that are chosen; false when they take more than the limit of bytes.
fn write_chosen(
    members: Option<Ordered<'_>>,
    count: i64,
    with_scores: bool,
    limit: usize,
    reply: &mut Reply,
) -> bool {
    let len = members.map_or(0, Ordered::len);
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    let wanted = if count > 0 { wanted.min(len) } else { wanted };
    let Some(members) = members.filter(|_| wanted > 0) else {
        reply.array(0);
        return true;
    };
    let in_pairs = with_scores && reply.protocol == Protocol::Resp3;
    reply.array(if with_scores && !in_pairs { 2 * wanted } else { wanted });
    let start = reply.out.len();
    let mut dice = Dice::new();
    let mut write = |(member, score): (&[u8], f64)| {
        if in_pairs {
            reply.array(2);
        }
        reply.bulk(member);
        if with_scores {
            reply.double(score);
        }
        if reply.out.len() - start <= limit {
            return true;
        }
        reply.out.truncate(start);
        false
    };
    let by_rank = members.by_rank();
    let at = |rank: usize| by_rank.get(rank);
    if count < 0 {
        (0..wanted).filter_map(|_| at(dice.below(len))).all(&mut write)
    } else if wanted > len / 3 {
        // One walk: each member is taken with the chance that is left for it.
        let mut left = wanted;
        let chosen = members.iter().enumerate().filter(|(rank, _)| {
            let takes = dice.below(len - rank) < left;
            left -= usize::from(takes);
            takes
        });
        chosen.map(|(_, entry)| entry).all(&mut write)
    } else {
        different_ranks(&mut dice, len, wanted).into_iter().filter_map(at).all(&mut write)
    }
}

/// Different ranks below `len`, every choice of N as likely as any other (Floyd's sampling).
fn different_ranks(dice: &mut Dice, len: usize, wanted: usize) -> Vec<usize> {
    let mut taken = HashSet::with_capacity(wanted);
    let ranks = (len - wanted..len).map(|last| {
        let rank = dice.below(last + 1);
        let rank = if taken.insert(rank) { rank } else { last };
        taken.insert(rank);
        rank
    });
    ranks.collect()
}

/// Random numbers that nobody can guess.
struct Dice {
    keys: RandomState,
    thrown: u64,
}

impl Dice {
    fn new() -> Dice {
        // The standard library seeds each hasher from the system's random numbers.
        Dice { keys: RandomState::new(), thrown: 0 }
    }

    /// A number below a limit that is not 0.
    fn below(&mut self, limit: usize) -> usize {
        self.thrown += 1;
        let random = self.keys.hash_one(self.thrown);
        // The high half of the product: the bias is below limit / 2^64.
        ((u128::from(random) * limit as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_ranks_are_different_and_all_ranks_come() {
        let mut dice = Dice::new();
        let mut seen = [0_u32; 20];
        for _ in 0..2000 {
            let ranks = different_ranks(&mut dice, 20, 5);
            let distinct: HashSet<usize> = ranks.iter().copied().collect();
            assert_eq!(distinct.len(), 5);
            ranks.iter().for_each(|rank| seen[*rank] += 1);
        }
        // 500 each in the mean; a fair choice is beyond these bounds once in 10^20 runs.
        assert!(seen.iter().all(|count| (300..700).contains(count)), "{seen:?}");
    }
}
