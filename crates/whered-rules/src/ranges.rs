//! A set of numbers as sorted ranges: what one condition allows in one field.
//!
//! For: conditions of the normal form, with negation folded in; exact set operations on them.
//! Not for: large live sets (those are one bit per packet) and not for lookups in a hot path.
//!
//! ```text
//! (first, last) (first, last) ...      both ends included
//! ```
//!
//! Invariants: sorted, disjoint, and never adjacent (`last + 1 < next first`), so that two sets
//! are equal exactly when their ranges are.
//!
//! Concurrency: immutable and shared; a clone is a pointer. Cost: `contains` binary search, the
//! rest linear in the number of ranges.

use std::sync::Arc;

/// Numbers of up to 128 bits as sorted, disjoint, inclusive ranges.
///
/// ```
/// use whered_rules::Ranges;
/// let ports = Ranges::new(vec![(80, 89), (22, 22), (85, 90)]);
/// assert_eq!(ports.as_slice(), [(22, 22), (80, 90)]);
/// assert!(ports.complement(65_535).contains(23));
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Ranges(Arc<[(u128, u128)]>);

impl Ranges {
    /// The set of everything in any of `ranges`, which may overlap and lie in any order; a range
    /// whose first number is above its last holds nothing.
    pub fn new(mut ranges: Vec<(u128, u128)>) -> Ranges {
        ranges.retain(|(first, last)| first <= last);
        ranges.sort_unstable();
        let mut merged: Vec<(u128, u128)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match merged.last_mut() {
                Some(previous) if first <= previous.1.saturating_add(1) => {
                    previous.1 = previous.1.max(last);
                }
                _ => merged.push((first, last)),
            }
        }
        Ranges(merged.into())
    }

    /// One range.
    pub fn single(first: u128, last: u128) -> Ranges {
        Ranges::new(vec![(first, last)])
    }

    /// No number at all.
    pub fn empty() -> Ranges {
        Ranges(Arc::new([]))
    }

    /// The ranges, sorted and disjoint.
    pub fn as_slice(&self) -> &[(u128, u128)] {
        &self.0
    }

    /// Whether there is no number in the set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `number` is in the set.
    pub fn contains(&self, number: u128) -> bool {
        let after = self.0.partition_point(|&(first, _)| first <= number);
        after > 0 && number <= self.0[after - 1].1
    }

    /// Everything from 0 to `largest` that is not in the set.
    #[must_use]
    pub fn complement(&self, largest: u128) -> Ranges {
        let mut gaps = Vec::with_capacity(self.0.len() + 1);
        let mut next = Some(0);
        for &(first, last) in self.0.iter() {
            let Some(start) = next else { break };
            if first > start {
                gaps.push((start, (first - 1).min(largest)));
            }
            next = last.checked_add(1).filter(|&start| start <= largest);
        }
        if let Some(start) = next {
            gaps.push((start, largest));
        }
        Ranges(gaps.into())
    }

    /// The intersection of both sets.
    #[must_use]
    pub fn intersect(&self, other: &Ranges) -> Ranges {
        let (mut left, mut right) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut both = Vec::new();
        while let (Some(&&a), Some(&&b)) = (left.peek(), right.peek()) {
            let (first, last) = (a.0.max(b.0), a.1.min(b.1));
            if first <= last {
                both.push((first, last));
            }
            if a.1 <= b.1 {
                left.next();
            } else {
                right.next();
            }
        }
        Ranges(both.into())
    }

    /// Whether any number is in both sets.
    pub fn overlaps(&self, other: &Ranges) -> bool {
        let (mut i, mut j) = (0, 0);
        while let (Some(a), Some(b)) = (self.0.get(i), other.0.get(j)) {
            if a.0.max(b.0) <= a.1.min(b.1) {
                return true;
            }
            if a.1 <= b.1 {
                i += 1;
            } else {
                j += 1;
            }
        }
        false
    }

    /// Whether every number of `other` is in this set.
    pub fn covers(&self, other: &Ranges) -> bool {
        other.0.iter().all(|&(first, last)| {
            let after = self.0.partition_point(|&(start, _)| start <= first);
            after > 0 && last <= self.0[after - 1].1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn member(ranges: &[(u128, u128)], number: u128) -> bool {
        ranges.iter().any(|&(first, last)| first <= number && number <= last)
    }

    fn some_ranges() -> impl Strategy<Value = Vec<(u128, u128)>> {
        proptest::collection::vec((0u128..40, 0u128..40), 0..6)
    }

    proptest! {
        /// Every operation agrees with asking each number of a small world.
        #[test]
        fn operations_agree_with_membership(a in some_ranges(), b in some_ranges()) {
            let (x, y) = (Ranges::new(a.clone()), Ranges::new(b.clone()));
            for n in 0..40 {
                prop_assert_eq!(x.contains(n), member(&a, n));
                prop_assert_eq!(x.intersect(&y).contains(n), member(&a, n) && member(&b, n));
                prop_assert_eq!(x.complement(39).contains(n), !member(&a, n));
            }
            let both = (0..40).any(|n| member(&a, n) && member(&b, n));
            prop_assert_eq!(x.overlaps(&y), both);
            prop_assert_eq!(x.covers(&y), (0..40).all(|n| !member(&b, n) || member(&a, n)));
            for pair in x.as_slice().windows(2) {
                prop_assert!(pair[0].1 + 1 < pair[1].0);
            }
        }
    }

    #[test]
    fn the_ends_of_the_number_line_do_not_overflow() {
        let all = Ranges::single(0, u128::MAX);
        assert!(all.complement(u128::MAX).is_empty());
        assert_eq!(Ranges::empty().complement(u128::MAX), all);
        assert_eq!(Ranges::single(5, 300).complement(255).as_slice(), [(0, 4)]);
        assert_eq!(Ranges::single(300, 400).complement(255).as_slice(), [(0, 255)]);
        let joined = Ranges::new(vec![(0, u128::MAX - 1), (u128::MAX, u128::MAX)]);
        assert_eq!(joined, all);
    }
}
