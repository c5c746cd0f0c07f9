//! How many of many sorted numbers are not above a given one: a B+-tree without pointers whose
//! nodes are one cache line each.
//!
//! For: the boundaries between elementary intervals. Not for: what an interval answers.
//!
//! ```text
//! sixteen u32 a line (17 ways), or eight u64 (9 ways); levels one behind the other:
//!
//! level 0   | s s s ...               |  separators: the last key of each child but the last one
//!            ▼
//! level 1   | s s ... | s s ... | ...    child of node n by s separators below: 17 n + s
//!            ▼
//! leaves    | k k ... | k k ... | ...    rank of a key in leaf n with k keys below: 16 n + k
//! ```
//!
//! A number is kept as the one below it with its highest bit flipped, and places without a number
//! hold the highest that there is: "not above" becomes "below", as signed numbers, and an empty
//! place is below nothing. Zero itself cannot be kept; the first interval begins there anyway.
//!
//! Invariants: all levels are complete but for their last node; numbers rise strictly. Neither is
//! relied on, since the lines may stand in a file that somebody overwrote: ranks are then wrong.
//! Concurrency: never changes. Cost: one line a level, 17^5 is 1.4 million; memory 4.3 bytes a u32,
//! 9 bytes a u64.

use super::each::LANES;
use crate::image::{Plain, Section, bytes_of, section};
use crate::simd::{Compare, prefetch};

/// The most levels there can be: 9^11 is more than there are lines.
const LEVELS_MAX: usize = 12;

/// One cache line of sorted numbers.
pub(crate) trait Line: Plain {
    /// The kind of number.
    type Key: Copy + Ord + Default;
    /// How many there are.
    const KEYS: usize;
    /// A line of empty places.
    const EMPTY: Self;
    /// A number as it is kept: see the header. `None` for zero.
    fn kept(number: Self::Key) -> Option<Self::Key>;
    /// A number as callers give it.
    fn asked(number: Self::Key) -> Self::Key;
    fn as_slice(&self) -> &[Self::Key];
    fn as_mut_slice(&mut self) -> &mut [Self::Key];
    fn below(&self, processor: impl Compare, bound: Self::Key) -> u32;
}

impl Line for [u32; 16] {
    type Key = u32;
    const KEYS: usize = 16;
    const EMPTY: Self = [i32::MAX as u32; 16];

    fn kept(number: u32) -> Option<u32> {
        number.checked_sub(1).map(|below| below ^ 1 << 31)
    }

    #[inline(always)]
    fn asked(number: u32) -> u32 {
        number ^ 1 << 31
    }

    fn as_slice(&self) -> &[u32] {
        self
    }

    fn as_mut_slice(&mut self) -> &mut [u32] {
        self
    }

    #[inline(always)]
    fn below(&self, processor: impl Compare, bound: u32) -> u32 {
        processor.below16(self, bound)
    }
}

impl Line for [u64; 8] {
    type Key = u64;
    const KEYS: usize = 8;
    const EMPTY: Self = [i64::MAX as u64; 8];

    fn kept(number: u64) -> Option<u64> {
        number.checked_sub(1).map(|below| below ^ 1 << 63)
    }

    #[inline(always)]
    fn asked(number: u64) -> u64 {
        number ^ 1 << 63
    }

    fn as_slice(&self) -> &[u64] {
        self
    }

    fn as_mut_slice(&mut self) -> &mut [u64] {
        self
    }

    #[inline(always)]
    fn below(&self, processor: impl Compare, bound: u64) -> u32 {
        processor.below8(self, bound)
    }
}

/// The tree.
pub(crate) struct KaryTree<L> {
    lines: Section<L>,
    /// Where each level begins and ends among the lines, the root first.
    levels: [(u32, u32); LEVELS_MAX],
    depth: usize,
}

impl<L: Line> KaryTree<L> {
    /// A tree of these numbers, which rise strictly and are not zero.
    pub(crate) fn build(numbers: impl ExactSizeIterator<Item = L::Key>) -> KaryTree<L> {
        let leaf_count = numbers.len().div_ceil(L::KEYS).max(1);
        let mut leaves = vec![L::EMPTY; leaf_count];
        for (place, number) in numbers.enumerate() {
            let kept = L::kept(number).expect("no interval but the first begins at zero");
            leaves[place / L::KEYS].as_mut_slice()[place % L::KEYS] = kept;
        }
        let mut stack = vec![leaves];
        // The last key below each node of the level on top of the stack.
        let mut lasts: Vec<L::Key> = stack[0].iter().map(|leaf| last_of(leaf)).collect();
        while lasts.len() > 1 {
            let groups = lasts.chunks(L::KEYS + 1);
            let level: Vec<L> = groups.clone().map(separators).collect();
            lasts = groups.map(|group| group.last().copied().unwrap_or_default()).collect();
            stack.push(level);
        }
        stack.reverse();
        let lines = section(&stack.concat());
        KaryTree::from_lines(lines, leaf_count).expect("lines as many as the levels have")
    }

    /// The tree with these lines, of which `leaves` are leaves; `None` if it has fewer.
    pub(crate) fn from_lines(lines: Section<L>, leaf_count: usize) -> Option<KaryTree<L>> {
        let mut sizes = vec![leaf_count.max(1)];
        while let Some(size) = sizes.last().filter(|size| **size > 1 && sizes.len() < LEVELS_MAX) {
            sizes.push(size.div_ceil(L::KEYS + 1));
        }
        let (mut levels, mut end) = ([(0, 0); LEVELS_MAX], 0);
        for (bounds, size) in levels.iter_mut().zip(sizes.iter().rev()) {
            let start = end;
            end += u32::try_from(*size).ok()?;
            *bounds = (start, end);
        }
        (lines.len() == end as usize).then_some(KaryTree { lines, levels, depth: sizes.len() })
    }

    /// The lines, to be kept in a file.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        bytes_of(&self.lines)
    }

    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    #[inline(always)]
    fn level(&self, number: usize) -> &[L] {
        let (start, end) = self.levels[number];
        &self.lines[start as usize..end as usize]
    }

    /// How many of the numbers are not above this one.
    #[inline(always)]
    pub(crate) fn rank(&self, processor: impl Compare, number: L::Key) -> u32 {
        let bound = L::asked(number);
        // By the place among all lines, not in its level: one check less.
        let below = |start: u32, node: u32| below(&self.lines, start + node, processor, bound);
        let mut node = 0;
        for (start, _) in &self.levels[..self.depth - 1] {
            node = node * (L::KEYS as u32 + 1) + below(*start, node);
        }
        node * L::KEYS as u32 + below(self.levels[self.depth - 1].0, node)
    }

    /// The ranks of at most [`LANES`] numbers, level by level for all of them. Each level
    /// prefetches the lines of the next one, so that waits for memory overlap.
    #[inline(always)]
    pub(crate) fn ranks(
        &self,
        processor: impl Compare,
        numbers: &[L::Key],
        ranks: &mut [u32; LANES],
    ) {
        let mut bounds = [L::Key::default(); LANES];
        for (bound, number) in bounds.iter_mut().zip(numbers) {
            *bound = L::asked(*number);
        }
        let bounds = &bounds[..numbers.len().min(LANES)];
        *ranks = [0; LANES];
        for number in 0..self.depth - 1 {
            let (level, next) = (self.level(number), self.level(number + 1));
            // Small levels are near already.
            let is_far = size_of_val(next) > 32 << 10;
            for (node, bound) in ranks.iter_mut().zip(bounds) {
                let below = below(level, *node, processor, *bound);
                *node = *node * (L::KEYS as u32 + 1) + below;
                if is_far {
                    prefetch(next, *node as usize);
                }
            }
        }
        let leaves = self.level(self.depth - 1);
        for (node, bound) in ranks.iter_mut().zip(bounds) {
            *node = *node * L::KEYS as u32 + below(leaves, *node, processor, *bound);
        }
    }
}

/// How many of a line's numbers are below `bound`; none of a line that is not there.
#[inline(always)]
fn below<L: Line>(lines: &[L], place: u32, processor: impl Compare, bound: L::Key) -> u32 {
    lines.get(place as usize).map_or(0, |line| line.below(processor, bound))
}

/// The last number of a line, empty places included: they are above all others.
fn last_of<L: Line>(line: &L) -> L::Key {
    line.as_slice().last().copied().unwrap_or_default()
}

/// A node over at most one child more than it has places: all lasts but the last one's.
fn separators<L: Line>(lasts: &[L::Key]) -> L {
    let mut line = L::EMPTY;
    let kept = &lasts[..lasts.len() - 1];
    line.as_mut_slice()[..kept.len()].copy_from_slice(kept);
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Scalar;

    fn check<L: Line>(numbers: &[L::Key], asked: &[L::Key])
    where
        L::Key: std::fmt::Debug,
    {
        let tree = KaryTree::<L>::build(numbers.iter().copied());
        let mut ranks = [0; LANES];
        for asked in asked.chunks(LANES) {
            tree.ranks(Scalar, asked, &mut ranks);
            for (asked, rank) in asked.iter().zip(ranks) {
                let expected = numbers.partition_point(|number| number <= asked);
                assert_eq!(tree.rank(Scalar, *asked) as usize, expected, "{asked:?}");
                assert_eq!(rank as usize, expected, "{asked:?}");
            }
        }
    }

    #[test]
    fn ranks_are_those_of_the_sorted_numbers_at_every_size_around_a_full_level() {
        for count in [0, 1, 15, 16, 17, 271, 272, 273, 16 * 17 * 17, 5000] {
            let numbers: Vec<u32> = (1..=count).map(|n| n * 7).collect();
            let asked: Vec<u32> = (0..=count * 7 + 8).chain([u32::MAX - 1, u32::MAX]).collect();
            check::<[u32; 16]>(&numbers, &asked);
        }
        for count in [0, 1, 8, 9, 72, 73, 648, 649, 3000] {
            let numbers: Vec<u64> = (1..=count).map(|n| n << 50 | 3).collect();
            let near = numbers.iter().flat_map(|n| [n - 1, *n, n + 1]);
            let asked: Vec<u64> = near.chain([0, u64::MAX - 1, u64::MAX]).collect();
            check::<[u64; 8]>(&numbers, &asked);
        }
    }

    #[test]
    fn the_highest_number_has_a_place_too() {
        check::<[u32; 16]>(
            &[1, u32::MAX - 1, u32::MAX],
            &[0, 1, 2, u32::MAX - 2, u32::MAX - 1, u32::MAX],
        );
        check::<[u64; 8]>(&[u64::MAX], &[0, u64::MAX - 1, u64::MAX]);
    }
}
