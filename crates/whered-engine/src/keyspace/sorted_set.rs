//! A plain sorted set: members with any score, ordered by (score, member bytes).
//!
//! For: keys that hold other scores than cells. Not for: points (`whered-geo` has an index that is
//! made for them), locks, commands.
//!
//! ```text
//! scores   member ─> score                        (hash)
//! chunks   [ (score, member) ... up to 512 ] [ ... ] [ ... ]      ascending through all chunks
//!            member texts are shared between the two
//! ```
//!
//! Invariants: no chunk is empty; both sides hold the same members with the same scores; no score
//! is NaN or negative zero.
//! At the same time: a plain value; shared for reading, exclusive for writing.
//! Cost, with n members: a score O(1); insertion and removal O(log n) comparisons and the move of
//! at most a chunk; a rank O(n / 512) additions; a walk constant for each entry.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::iter::FusedIterator;
use std::ops::Range;
use std::sync::Arc;

use whered_geo::Inserted;

/// The most entries of a chunk.
const CHUNK_LEN: usize = 512;

type Entry = (f64, Arc<[u8]>);

/// See the file's header.
#[derive(Debug, Default)]
pub struct SortedSet {
    scores: HashMap<Arc<[u8]>, f64>,
    chunks: Vec<Vec<Entry>>,
    text_bytes: usize,
    /// The room of all chunks together, in entries.
    capacity: usize,
}

impl Clone for SortedSet {
    fn clone(&self) -> SortedSet {
        let chunks = self.chunks.clone();
        // A copied chunk has no room left over.
        let capacity = chunks.iter().map(Vec::capacity).sum();
        SortedSet { scores: self.scores.clone(), chunks, text_bytes: self.text_bytes, capacity }
    }
}

impl SortedSet {
    /// The number of members.
    pub fn len(&self) -> usize {
        self.scores.len()
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.scores.is_empty()
    }

    /// A member's score.
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        self.scores.get(member).copied()
    }

    /// Adds a member or gives it another score. Negative zero becomes zero.
    ///
    /// # Panics
    /// When the score is NaN.
    pub fn insert(&mut self, member: &[u8], score: f64) -> Inserted {
        assert!(!score.is_nan(), "doors refuse scores that are no number");
        let score = score + 0.0;
        let (member, inserted) = match self.scores.get_key_value(member) {
            Some((_, old)) if *old == score => return Inserted::Unchanged,
            Some((member, old)) => {
                let (member, old) = (Arc::clone(member), *old);
                self.cut_out(old, &member);
                (member, Inserted::Moved)
            }
            None => {
                self.text_bytes += member.len();
                (Arc::from(member), Inserted::New)
            }
        };
        self.scores.insert(Arc::clone(&member), score);
        self.put_in(score, member);
        inserted
    }

    /// Removes a member and says whether it was there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        let Some((member, score)) = self.scores.remove_entry(member) else {
            return false;
        };
        self.text_bytes -= member.len();
        self.cut_out(score, &member);
        true
    }

    /// The number of members before this one.
    pub fn rank(&self, member: &[u8]) -> Option<usize> {
        let (chunk, slot) = self.position_of(self.score(member)?, member).ok()?;
        Some(self.rank_at(chunk, slot))
    }

    /// The number of members whose score is below a limit, or below it and equal to it.
    pub fn rank_of_limit(&self, limit: f64, with_equal: bool) -> usize {
        let is_before = |score: f64| score < limit || (with_equal && score == limit);
        let chunk = self.chunks.partition_point(|chunk| is_before(chunk[chunk.len() - 1].0));
        let slot = self
            .chunks
            .get(chunk)
            .map_or(0, |entries| entries.partition_point(|(score, _)| is_before(*score)));
        self.rank_at(chunk, slot)
    }

    /// The members with these ranks and their scores; ranks beyond the last have none.
    pub fn iter_ranks(&self, ranks: Range<usize>) -> Entries<'_> {
        let end = ranks.end.min(self.len());
        let start = ranks.start.min(end);
        let (front, back) = (self.position_at(start), self.position_at(end));
        Entries { chunks: &self.chunks, front, back, ranks: start..end }
    }

    /// What finds members by their ranks; made once for several. O(n / 512).
    pub fn rank_index(&self) -> RankIndex<'_> {
        let mut start = 0;
        let starts = self.chunks.iter().map(|chunk| {
            start += chunk.len();
            start - chunk.len()
        });
        RankIndex { starts: starts.collect(), chunks: &self.chunks }
    }

    /// The members that come after a place in the order, whether or not a member stands there.
    pub fn iter_after(&self, score: f64, member: &[u8]) -> Entries<'_> {
        let rank = match self.position_of(score, member) {
            Ok((chunk, slot)) => self.rank_at(chunk, slot) + 1,
            Err((chunk, slot)) => self.rank_at(chunk, slot),
        };
        self.iter_ranks(rank..self.len())
    }

    /// About how many bytes of memory it holds. O(1).
    pub fn memory_bytes(&self) -> usize {
        // A shared text has two counters before it; a slot of the hash has one byte of control.
        let entry_bytes = size_of::<Entry>();
        let texts = self.text_bytes + self.len() * 2 * size_of::<usize>();
        let chunks = self.capacity * entry_bytes;
        size_of::<SortedSet>() + texts + chunks + self.scores.capacity() * (entry_bytes + 1)
    }

    fn put_in(&mut self, score: f64, member: Arc<[u8]>) {
        let Err((chunk, slot)) = self.position_of(score, &member) else {
            return;
        };
        let Some(entries) = self.chunks.get_mut(chunk) else {
            self.chunks.push(vec![(score, member)]);
            self.capacity += self.chunks[chunk].capacity();
            return;
        };
        self.capacity -= entries.capacity();
        entries.insert(slot, (score, member));
        self.capacity += entries.capacity();
        if entries.len() > CHUNK_LEN {
            // What is added at the end stays at the end: full chunks are left behind then.
            let at = if slot + 1 == entries.len() { CHUNK_LEN } else { CHUNK_LEN / 2 };
            let upper = entries.split_off(at);
            self.capacity += upper.capacity();
            self.chunks.insert(chunk + 1, upper);
        }
    }

    fn cut_out(&mut self, score: f64, member: &[u8]) {
        let found = self.position_of(score, member);
        let (chunk, slot) = found.expect("both sides hold the same members");
        self.chunks[chunk].remove(slot);
        if self.chunks[chunk].is_empty() {
            self.capacity -= self.chunks.remove(chunk).capacity();
        } else if self.chunks[chunk].len() < CHUNK_LEN / 8 {
            self.join(chunk);
        }
    }

    /// Joins a chunk that has become small with a neighbour, if both together are not large.
    fn join(&mut self, chunk: usize) {
        let lower = if chunk > 0 { chunk - 1 } else { chunk };
        let Some([left, right]) = self.chunks.get_mut(lower..lower + 2) else {
            return;
        };
        if left.len() + right.len() <= CHUNK_LEN / 2 {
            self.capacity -= left.capacity();
            left.append(right);
            self.capacity += left.capacity();
            self.capacity -= self.chunks.remove(lower + 1).capacity();
        }
    }

    /// Where an entry is, or where it would be put.
    fn position_of(&self, score: f64, member: &[u8]) -> Result<(usize, usize), (usize, usize)> {
        let compare = |entry: &Entry| compare(entry, score, member);
        // The last chunk takes what comes after all others.
        let last = self.chunks.len().saturating_sub(1);
        let ends_before = |chunk: &Vec<Entry>| compare(&chunk[chunk.len() - 1]) == Ordering::Less;
        let chunk = self.chunks.partition_point(ends_before).min(last);
        let entries = self.chunks.get(chunk).map_or(&[][..], Vec::as_slice);
        match entries.binary_search_by(compare) {
            Ok(slot) => Ok((chunk, slot)),
            Err(slot) => Err((chunk, slot)),
        }
    }

    fn rank_at(&self, chunk: usize, slot: usize) -> usize {
        self.chunks[..chunk].iter().map(Vec::len).sum::<usize>() + slot
    }

    /// The position of a rank; that behind the last entry is the chunk behind the last one.
    fn position_at(&self, rank: usize) -> (usize, usize) {
        let mut slot = rank;
        for (chunk, entries) in self.chunks.iter().enumerate() {
            if slot < entries.len() {
                return (chunk, slot);
            }
            slot -= entries.len();
        }
        (self.chunks.len(), 0)
    }
}

fn compare((score, member): &Entry, other_score: f64, other: &[u8]) -> Ordering {
    // There is neither NaN nor a negative zero, so this is the numbers' own order.
    score.total_cmp(&other_score).then_with(|| (**member).cmp(other))
}

/// Members by rank; see [`SortedSet::rank_index`].
#[derive(Clone, Debug)]
pub struct RankIndex<'a> {
    /// The rank of each chunk's first entry.
    starts: Vec<usize>,
    chunks: &'a [Vec<Entry>],
}

impl<'a> RankIndex<'a> {
    /// The member with this rank and its score; O(log n).
    pub fn get(&self, rank: usize) -> Option<(&'a [u8], f64)> {
        let chunk = self.starts.partition_point(|start| *start <= rank).checked_sub(1)?;
        let (score, member) = self.chunks[chunk].get(rank - self.starts[chunk])?;
        Some((member, *score))
    }
}

/// Members and scores in order; see [`SortedSet::iter_ranks`].
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    chunks: &'a [Vec<Entry>],
    front: (usize, usize),
    back: (usize, usize),
    ranks: Range<usize>,
}

impl<'a> Entries<'a> {
    fn entry(&self, (chunk, slot): (usize, usize)) -> (&'a [u8], f64) {
        let (score, member) = &self.chunks[chunk][slot];
        (member, *score)
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = (&'a [u8], f64);

    fn next(&mut self) -> Option<Self::Item> {
        self.ranks.next()?;
        let entry = self.entry(self.front);
        self.front.1 += 1;
        if self.front.1 == self.chunks[self.front.0].len() {
            self.front = (self.front.0 + 1, 0);
        }
        Some(entry)
    }

    fn nth(&mut self, n: usize) -> Option<Self::Item> {
        let skipped = n.min(self.ranks.len());
        self.ranks.start += skipped;
        let mut slot = self.front.1 + skipped;
        while let Some(entries) = self.chunks.get(self.front.0)
            && slot >= entries.len()
        {
            slot -= entries.len();
            self.front.0 += 1;
        }
        self.front.1 = slot;
        self.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.ranks.size_hint()
    }
}

impl DoubleEndedIterator for Entries<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.ranks.next_back()?;
        if self.back.1 == 0 {
            self.back = (self.back.0 - 1, self.chunks[self.back.0 - 1].len());
        }
        self.back.1 -= 1;
        Some(self.entry(self.back))
    }

    fn nth_back(&mut self, n: usize) -> Option<Self::Item> {
        let mut skipped = n.min(self.ranks.len());
        self.ranks.end -= skipped;
        while skipped > self.back.1 {
            skipped -= self.back.1;
            self.back = (self.back.0 - 1, self.chunks[self.back.0 - 1].len());
        }
        self.back.1 -= skipped;
        self.next_back()
    }
}

impl ExactSizeIterator for Entries<'_> {}
impl FusedIterator for Entries<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use whered_random::Random;

    fn sorted(twin: &BTreeMap<Vec<u8>, f64>) -> Vec<(Vec<u8>, f64)> {
        let mut all: Vec<_> = twin.iter().map(|(member, score)| (member.clone(), *score)).collect();
        all.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
        all
    }

    fn assert_equal(set: &SortedSet, twin: &BTreeMap<Vec<u8>, f64>, random: &mut Random) {
        let expected = sorted(twin);
        assert_eq!(set.capacity, set.chunks.iter().map(Vec::capacity).sum::<usize>());
        let owned = |(member, score): (&[u8], f64)| (member.to_vec(), score);
        assert_eq!(set.len(), expected.len());
        assert_eq!(set.iter_ranks(0..usize::MAX).map(owned).collect::<Vec<_>>(), expected);
        let backwards: Vec<_> = set.iter_ranks(0..set.len()).rev().map(owned).collect();
        assert!(backwards.iter().eq(expected.iter().rev()));
        for _ in 0..20 {
            let start = random.below(expected.len() as u64 + 3) as usize;
            let len = random.below(700) as usize;
            let skip = random.below(600) as usize;
            let range = start.min(expected.len())..(start + len).min(expected.len());
            let forth: Vec<_> = set.iter_ranks(start..start + len).skip(skip).map(owned).collect();
            assert!(forth.iter().eq(expected[range.clone()].iter().skip(skip)));
            let back: Vec<_> =
                set.iter_ranks(start..start + len).rev().skip(skip).map(owned).collect();
            assert!(back.iter().eq(expected[range].iter().rev().skip(skip)));
            let limit = random.below(60) as f64 / 2.0 - 5.0;
            let below = expected.iter().filter(|(_, score)| *score < limit).count();
            let up_to = expected.iter().filter(|(_, score)| *score <= limit).count();
            assert_eq!(set.rank_of_limit(limit, false), below);
            assert_eq!(set.rank_of_limit(limit, true), up_to);
            assert_eq!(set.rank_index().get(start).map(owned), expected.get(start).cloned());
        }
        for (rank, (member, score)) in expected.iter().enumerate().step_by(97) {
            let after = set.iter_after(*score, member).map(owned);
            assert!(after.eq(expected[rank + 1..].iter().cloned()));
            let behind_it = [&member[..], b"!"].concat();
            let after = set.iter_after(*score, &behind_it).map(owned);
            assert!(after.eq(expected[rank + 1..].iter().cloned()));
            assert_eq!(set.rank(member), Some(rank));
            assert_eq!(set.score(member), Some(*score));
        }
    }

    #[test]
    fn it_answers_like_a_sorted_list() {
        for seed in 0..4 {
            let mut random = Random(seed);
            let mut set = SortedSet::default();
            let mut twin = BTreeMap::new();
            for step in 0..12_000 {
                let member = format!("m{}", random.below(3000)).into_bytes();
                let score = random.below(50) as f64 / 2.0 - 4.0;
                // It grows at first and shrinks at last.
                if random.below(12_000) > step {
                    let expected = match twin.insert(member.clone(), score) {
                        None => Inserted::New,
                        Some(old) if old == score => Inserted::Unchanged,
                        Some(_) => Inserted::Moved,
                    };
                    assert_eq!(set.insert(&member, score), expected);
                } else {
                    assert_eq!(set.remove(&member), twin.remove(&member).is_some());
                }
                if step % 1500 == 0 {
                    assert_equal(&set, &twin, &mut random);
                }
            }
            assert_equal(&set, &twin, &mut random);
            for member in twin.keys() {
                assert!(set.remove(member));
            }
            assert!(set.is_empty() && set.chunks.is_empty() && set.text_bytes == 0);
        }
    }

    #[test]
    fn extreme_scores_have_their_places_and_negative_zero_is_zero() {
        let mut set = SortedSet::default();
        for (member, score) in
            [("z", -0.0), ("max", f64::MAX), ("inf", f64::INFINITY), ("-inf", f64::NEG_INFINITY)]
        {
            set.insert(member.as_bytes(), score);
        }
        assert_eq!(set.insert(b"z", 0.0), Inserted::Unchanged);
        let order: Vec<_> = set.iter_ranks(0..4).map(|(member, _)| member).collect();
        assert_eq!(order, [&b"-inf"[..], b"z", b"max", b"inf"]);
        assert!(set.score(b"z").is_some_and(f64::is_sign_positive));
    }
}
