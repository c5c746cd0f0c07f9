//! Union, intersection and difference of sorted sets.
//!
//! For: what `ZUNION`, `ZINTER`, `ZDIFF` and the commands that store their results compute, to the
//! last bit of each score. Not for: arguments and replies (the protocol front ends).
//!
//! ```text
//! keys ──one moment, all locked for reading──> sources ──> members, scores ──> sorted
//!                                                                                └──> stored
//! ```
//!
//! Scores are those of Redis 7.0: a product or sum that is no number is 0, and sums are made in the
//! order of the sources' sizes. A product that is negative zero stays one in what is returned, and
//! is stored as 0, as any score is.
//! Cost, with n members of all sources and m in the result: a union O(n + m log m); an intersection
//! and a difference O(k n + m log m), with n members of the smallest or first of k sources. Memory:
//! the result, and for a union a hash table of it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::value::{Ordered, Value};
use super::{Keyspace, WriteError};
use crate::journal::log::Written;

/// Which members a combination of sorted sets has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CombineOperation {
    /// Those of any source.
    Union,
    /// Those of all sources.
    Intersection,
    /// Those of the first source that no other one has, with the scores that they have there.
    Difference,
}

/// What becomes of a member's scores in several sources.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Aggregate {
    /// Their sum.
    #[default]
    Sum,
    /// The lowest.
    Lowest,
    /// The highest.
    Highest,
}

/// A combination of sorted sets.
#[derive(Clone, Debug)]
pub struct Combination<'a> {
    /// Which members it has.
    pub operation: CombineOperation,
    /// The keys of the sources; one may come several times.
    pub keys: Vec<&'a [u8]>,
    /// What the scores of each source are multiplied by; empty: 1 for all. A difference has none.
    pub weights: Vec<f64>,
    /// What becomes of several scores.
    pub aggregate: Aggregate,
}

/// Members with their scores, in order.
pub type CombinedMembers<'a> = Vec<(&'a [u8], f64)>;

impl Aggregate {
    fn of(self, score: f64, other: f64) -> f64 {
        match self {
            Aggregate::Sum => number_or_zero(score + other),
            Aggregate::Lowest => {
                if other < score {
                    other
                } else {
                    score
                }
            }
            Aggregate::Highest => {
                if other > score {
                    other
                } else {
                    score
                }
            }
        }
    }
}

fn number_or_zero(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// One source: its members, or `None` without the key, and its weight.
type Source<'a> = (Option<Ordered<'a>>, f64);

impl Combination<'_> {
    /// The members of the combination, in order of score and name, from its sources' members;
    /// `None` is a key that does not exist.
    pub fn of<'v>(&self, sources: &[Option<Ordered<'v>>]) -> CombinedMembers<'v> {
        let weight = |index: usize| self.weights.get(index).copied().unwrap_or(1.0);
        let mut sources: Vec<Source<'v>> =
            sources.iter().enumerate().map(|(index, source)| (*source, weight(index))).collect();
        let mut combined = match self.operation {
            CombineOperation::Union => {
                sources.sort_by_key(|source| len(*source));
                self.union(&sources)
            }
            CombineOperation::Intersection => {
                sources.sort_by_key(|source| len(*source));
                self.intersection(&sources)
            }
            CombineOperation::Difference => difference(&sources),
        };
        // No score is no number: see `number_or_zero`.
        combined.sort_unstable_by(|(member, score), (other, other_score)| {
            let by_score = score.partial_cmp(other_score).unwrap_or(std::cmp::Ordering::Equal);
            by_score.then_with(|| member.cmp(other))
        });
        combined
    }

    /// How many members an intersection of these sources has; it stops counting at the limit.
    pub fn count_common(sources: &[Option<Ordered<'_>>], limit: usize) -> usize {
        let mut sources: Vec<Source<'_>> = sources.iter().map(|source| (*source, 1.0)).collect();
        sources.sort_by_key(|source| len(*source));
        let [(Some(first), _), others @ ..] = sources.as_slice() else {
            return 0;
        };
        let is_common = |member: &[u8]| others.iter().all(|other| score(*other, member).is_some());
        first.iter().filter(|(member, _)| is_common(member)).take(limit).count()
    }

    fn union<'v>(&self, sources: &[Source<'v>]) -> CombinedMembers<'v> {
        let largest = sources.last().map_or(0, |source| len(*source));
        let mut scores: HashMap<&[u8], f64> = HashMap::with_capacity(largest);
        for &(source, weight) in sources {
            for (member, score) in source.into_iter().flat_map(Ordered::iter) {
                let score = number_or_zero(weight * score);
                match scores.entry(member) {
                    Entry::Vacant(slot) => drop(slot.insert(score)),
                    Entry::Occupied(mut slot) => {
                        let known = *slot.get();
                        slot.insert(self.aggregate.of(known, score));
                    }
                }
            }
        }
        scores.into_iter().collect()
    }

    fn intersection<'v>(&self, sources: &[Source<'v>]) -> CombinedMembers<'v> {
        let [(Some(first), weight), others @ ..] = sources else {
            return Vec::new();
        };
        let common = first.iter().filter_map(|(member, own)| {
            let mut total = number_or_zero(weight * own);
            for &(other, weight) in others {
                total = self.aggregate.of(total, score((other, weight), member)? * weight);
            }
            Some((member, total))
        });
        common.collect()
    }
}

fn difference<'v>(sources: &[Source<'v>]) -> CombinedMembers<'v> {
    let [(Some(first), _), others @ ..] = sources else {
        return Vec::new();
    };
    let is_elsewhere = |member: &[u8]| others.iter().any(|other| score(*other, member).is_some());
    first.iter().filter(|(member, _)| !is_elsewhere(member)).collect()
}

fn len((source, _): Source<'_>) -> usize {
    source.map_or(0, Ordered::len)
}

fn score((source, _): Source<'_>, member: &[u8]) -> Option<f64> {
    source.and_then(|source| source.score(member))
}

/// The members of each value, if all are sorted sets.
fn ordered<'v>(values: &[Option<&'v Value>]) -> Option<Vec<Option<Ordered<'v>>>> {
    let one = |value: &Option<&'v Value>| match value {
        Some(value) => value.ordered().map(Some),
        None => Some(None),
    };
    values.iter().map(one).collect()
}

impl Keyspace {
    /// Reads several sorted sets as they are at one moment; `None` are keys that do not exist.
    ///
    /// # Errors
    /// `WrongKind` when a key holds something else.
    pub fn read_sorted_sets<R>(
        &self,
        number: usize,
        keys: &[&[u8]],
        read: impl FnOnce(&[Option<Ordered<'_>>]) -> R,
    ) -> Result<R, WriteError> {
        self.read_all(number, keys, |values| {
            ordered(values).map(|sets| read(&sets)).ok_or(WriteError::WrongKind)
        })
    }

    /// Stores a combination in the place of whatever the destination holds, without an expiry time;
    /// an empty one removes the key. Returns how many members it has, and whether the destination
    /// has changed. No write comes between the reading and the storing.
    ///
    /// # Errors
    /// [`WriteError`] when a source holds something else than a sorted set, or the journal has no
    /// room or has failed; then nothing was applied.
    pub fn store_combination(
        &self,
        number: usize,
        destination: &[u8],
        combination: &Combination<'_>,
    ) -> Result<Written<(usize, bool)>, WriteError> {
        self.try_isolated(|| {
            let owned = self.read_sorted_sets(number, &combination.keys, |sources| {
                MemberList::copy_of(&combination.of(sources))
            })?;
            let scores = owned.scores();
            let written = self.store_scores(number, destination, &scores)?;
            Ok((scores.len(), written.value))
        })
    }
}

/// Members with scores, all names in one piece of memory.
struct MemberList {
    names: Vec<u8>,
    /// Where each name ends, and its score.
    ends: Vec<(usize, f64)>,
}

impl MemberList {
    fn copy_of(members: &[(&[u8], f64)]) -> MemberList {
        let mut names = Vec::with_capacity(members.iter().map(|(name, _)| name.len()).sum());
        let mut ends = Vec::with_capacity(members.len());
        for (name, score) in members {
            names.extend_from_slice(name);
            ends.push((names.len(), *score));
        }
        MemberList { names, ends }
    }

    fn scores(&self) -> Vec<(&[u8], f64)> {
        let mut start = 0;
        let one = |&(end, score): &(usize, f64)| {
            (&self.names[std::mem::replace(&mut start, end)..end], score)
        };
        self.ends.iter().map(one).collect()
    }
}

#[cfg(test)]
#[path = "combine_tests.rs"]
mod tests;
