//! Which earlier rules may overlap with a rule, found by one address.
//!
//! For: the planner, which would otherwise look at all pairs. Not for: whether they do overlap
//! ([`Candidate::overlaps`]).
//!
//! ```text
//! addresses   |  bucket 0  |  bucket 1  |  bucket 2  |  ...      as many rules in each
//! rules             [1]  [--2--]    [3]                          2 is in two buckets
//! wide        [--------------------4-----------------------]     asked for every rule
//! ```
//!
//! Invariant: a rule that overlaps is found. Concurrency: plain data. Cost: linear in the buckets
//! of a rule and in the wide rules.

use super::candidate::Candidate;

/// Into how many buckets addresses are divided.
const BUCKETS: usize = 512;
/// A rule in more buckets is wide.
const WIDE: usize = 8;

/// The rules of one family so far.
struct FamilyIndex {
    /// The source is 0, the destination is 1.
    field: usize,
    /// Where buckets begin, without the first one.
    bounds: Vec<u128>,
    buckets: Vec<Vec<usize>>,
    wide: Vec<usize>,
    /// All of them in order.
    all: Vec<usize>,
}

impl FamilyIndex {
    fn new(candidates: &[Candidate], family: usize) -> FamilyIndex {
        let ranges =
            |field: usize| candidates.iter().filter_map(move |one| one.range(family, field));
        // The field in which fewer rules are wide.
        let width =
            |field: usize| ranges(field).filter(|range| range.1 - range.0 > 1 << 28).count();
        let field = usize::from(width(1) < width(0));
        let mut lows: Vec<u128> = ranges(field).map(|range| range.0).collect();
        lows.sort_unstable();
        let step = (lows.len() / BUCKETS).max(1);
        let mut bounds: Vec<u128> = lows.into_iter().step_by(step).skip(1).collect();
        bounds.dedup();
        let buckets = vec![Vec::new(); bounds.len() + 1];
        FamilyIndex { field, bounds, buckets, wide: Vec::new(), all: Vec::new() }
    }

    /// The buckets of a range: first and last.
    fn buckets_of(&self, range: (u128, u128)) -> (usize, usize) {
        let bucket = |number: u128| self.bounds.partition_point(|bound| *bound <= number);
        (bucket(range.0), bucket(range.1))
    }
}

/// The rules so far.
pub(super) struct OverlapIndex([FamilyIndex; 2]);

impl OverlapIndex {
    /// An index that will hold these candidates.
    pub(super) fn new(candidates: &[Candidate]) -> OverlapIndex {
        OverlapIndex([0, 1].map(|family| FamilyIndex::new(candidates, family)))
    }

    /// Takes a candidate in.
    pub(super) fn insert(&mut self, number: usize, candidate: &Candidate) {
        for (family, index) in self.0.iter_mut().enumerate() {
            let Some(range) = candidate.range(family, index.field) else { continue };
            let (first, last) = index.buckets_of(range);
            index.all.push(number);
            if last - first >= WIDE {
                index.wide.push(number);
            } else {
                index.buckets[first..=last].iter_mut().for_each(|bucket| bucket.push(number));
            }
        }
    }

    /// The candidates so far that may overlap with one, in order.
    pub(super) fn near(&self, candidate: &Candidate) -> Vec<usize> {
        let mut found = Vec::new();
        for (family, index) in self.0.iter().enumerate() {
            let Some(range) = candidate.range(family, index.field) else { continue };
            let (first, last) = index.buckets_of(range);
            if (last - first) * 2 > index.buckets.len() {
                found.extend(&index.all);
            } else {
                found.extend(index.buckets[first..=last].iter().flatten());
                found.extend(&index.wide);
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}
