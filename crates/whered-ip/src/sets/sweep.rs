//! From blocks that nest and overlap to elementary intervals that do not.
//!
//! For: what compiled forms are built from. Not for: looking anything up.
//!
//! ```text
//! blocks      [0 ........... 9] a      [20 .. 29] b
//!                 [3 . 5] c         [18 ..... 25] d       equally small: the later one wins
//! intervals   |0 a|3 c|6 a|10 -|18 d|20 b|30 -            (start, answer); - is 0, no block
//! ```
//!
//! At each address the smallest block that holds it answers: for prefixes that is the longest
//! match. Of blocks with equally many addresses the one that begins later answers; of equal blocks
//! the one that came later.
//!
//! Cost: linear where blocks nest and come in order, as those of a set do; otherwise sorting, and
//! O(n log n) where some overlap without nesting.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A number that addresses are: `u32` or `u128`.
pub(crate) trait Number: Copy + Ord + std::fmt::Debug {
    const ZERO: Self;
    /// The next address; `None` behind the last one.
    fn next(self) -> Option<Self>;
    /// The address before; of the first one itself.
    fn before(self) -> Self;
    /// How far apart two addresses are; `high` is not below `low`.
    fn distance(low: Self, high: Self) -> Self;
}

impl Number for u32 {
    const ZERO: u32 = 0;

    fn next(self) -> Option<u32> {
        self.checked_add(1)
    }

    fn before(self) -> u32 {
        self.saturating_sub(1)
    }

    fn distance(low: u32, high: u32) -> u32 {
        high - low
    }
}

impl Number for u128 {
    const ZERO: u128 = 0;

    fn next(self) -> Option<u128> {
        self.checked_add(1)
    }

    fn before(self) -> u128 {
        self.saturating_sub(1)
    }

    fn distance(low: u128, high: u128) -> u128 {
        high - low
    }
}

/// A block and its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span<N> {
    pub(crate) first: N,
    pub(crate) last: N,
    pub(crate) answer: u32,
}

/// The answer of addresses that no block holds.
pub(crate) const NOTHING: u32 = 0;

/// Elementary intervals: where each begins and what it answers. The first begins at zero,
/// beginnings rise, neighbours differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Intervals<N>(pub(crate) Vec<(N, u32)>);

impl<N: Number> Intervals<N> {
    /// The intervals of these blocks.
    pub(crate) fn of(mut spans: Vec<Span<N>>) -> Intervals<N> {
        let order = |span: &Span<N>| (span.first, Reverse(span.last));
        if !spans.is_sorted_by_key(order) {
            // Stable: of equal blocks the later one stays later.
            spans.sort_by_key(order);
        }
        nested(&spans).unwrap_or_else(|| overlapping(&spans))
    }

    fn with_capacity(capacity: usize) -> Intervals<N> {
        let mut starts = Vec::with_capacity(capacity);
        starts.push((N::ZERO, NOTHING));
        Intervals(starts)
    }

    /// From `start` on the answer is this one.
    fn push(&mut self, start: N, answer: u32) {
        if let Some((last, old)) = self.0.last_mut()
            && *last == start
        {
            *old = answer;
            if let [.., (_, before), (_, _)] = self.0[..]
                && before == answer
            {
                self.0.pop();
            }
        } else if self.0.last().is_none_or(|(_, old)| *old != answer) {
            self.0.push((start, answer));
        }
    }

    /// The answer for an address.
    #[cfg(test)]
    pub(crate) fn answer(&self, number: N) -> u32 {
        let after = self.0.partition_point(|(start, _)| *start <= number);
        self.0[after - 1].1
    }
}

/// The intervals of sorted blocks, if no two overlap without one holding the other.
fn nested<N: Number>(spans: &[Span<N>]) -> Option<Intervals<N>> {
    let mut intervals = Intervals::with_capacity(2 * spans.len() + 1);
    let mut open: Vec<Span<N>> = Vec::new();
    let close = |open: &mut Vec<Span<N>>, intervals: &mut Intervals<N>| {
        let closed = open.pop()?;
        let outer = open.last().map_or(NOTHING, |outer| outer.answer);
        intervals.push(closed.last.next()?, outer);
        Some(())
    };
    for span in spans {
        while open.last().is_some_and(|inner| inner.last < span.first) {
            close(&mut open, &mut intervals);
        }
        if open.last().is_some_and(|outer| outer.last < span.last) {
            return None;
        }
        intervals.push(span.first, span.answer);
        open.push(*span);
    }
    while !open.is_empty() {
        close(&mut open, &mut intervals);
    }
    Some(intervals)
}

/// The intervals of sorted blocks that may overlap in any way.
fn overlapping<N: Number>(spans: &[Span<N>]) -> Intervals<N> {
    let mut edges: Vec<N> = spans.iter().map(|span| span.first).collect();
    edges.extend(spans.iter().filter_map(|span| span.last.next()));
    edges.sort_unstable();
    edges.dedup();
    let mut intervals = Intervals::with_capacity(edges.len() + 1);
    let mut coming = spans.iter().enumerate().peekable();
    // The smallest on top, the later of equal ones first; those that have ended stay inside until
    // they come to the top.
    let mut open = BinaryHeap::new();
    for edge in edges {
        while let Some((place, span)) = coming.next_if(|(_, span)| span.first == edge) {
            let size = N::distance(span.first, span.last);
            open.push((Reverse(size), span.first, place));
        }
        while open.peek().is_some_and(|(_, _, place)| spans[*place].last < edge) {
            open.pop();
        }
        let answer = open.peek().map_or(NOTHING, |(_, _, place)| spans[*place].answer);
        intervals.push(edge, answer);
    }
    intervals
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn naive(spans: &[Span<u32>], number: u32) -> u32 {
        let holding =
            spans.iter().enumerate().filter(|(_, s)| (s.first..=s.last).contains(&number));
        holding
            .max_by_key(|(place, s)| (Reverse(s.last - s.first), s.first, *place))
            .map_or(NOTHING, |(_, span)| span.answer)
    }

    proptest! {
        #[test]
        fn intervals_answer_as_a_scan_over_the_blocks_does(
            blocks in prop::collection::vec((0..60_u32, 0..20_u32, 1..5_u32), 0..20),
            at_end in any::<bool>(),
        ) {
            // At either end of the address space.
            let base = if at_end { u32::MAX - 60 } else { 0 };
            let spans: Vec<_> = blocks
                .into_iter()
                .map(|(first, more, answer)| Span {
                    first: base + first,
                    last: (base + first).saturating_add(more),
                    answer,
                })
                .collect();
            let intervals = Intervals::of(spans.clone());
            let mut before = None;
            for (start, answer) in &intervals.0 {
                prop_assert!(before.is_none_or(|(s, a)| s < *start && a != *answer));
                before = Some((*start, *answer));
            }
            for number in (base..=base.saturating_add(100)).chain([0, u32::MAX]) {
                prop_assert_eq!(intervals.answer(number), naive(&spans, number), "{}", number);
            }
        }
    }
}
