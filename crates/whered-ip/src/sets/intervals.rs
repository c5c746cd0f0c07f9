//! Elementary intervals in k-ary trees: the compiled form of lists, ranges and IPv6.
//!
//! For: IPv4 by 17-way lines of 32-bit boundaries; IPv6 by the upper 64 bits in 9-way lines, and,
//! where boundaries differ in the lower ones only, by short sorted lists. Not for: overlaps
//! (`sweep` has removed them).
//!
//! ```text
//! IPv4   address ──► tree ──► rank r ──► answers[r]
//!                                   └──► r odd or even, where two answers take turns: no table
//!
//! IPv6   upper 64 ──► tree ──► answers[r] ──► the answer
//!                                        └──► deep | d: lower 64 among lows[bounds[d]..bounds[d+1]]
//!                                                       ──► low_answers, one more a list than lows
//! ```
//!
//! Invariants: there is one answer more than boundaries; an interval that is deep has upper 64
//! bits of its own. Concurrency: never changes.
//! Cost: a line a level, and one read for the answer; IPv4 4.3 bytes a boundary (8.3 with
//! answers), IPv6 13.

use std::ops::Range;

use super::address6::{Address6, uppers};
use super::rank::Answers as MarkedAnswers;
use super::sweep::{Intervals, NOTHING};
use crate::image::{Section, bytes_of, section};
use crate::simd::{Compare, prefetch};
use crate::tables::{KaryTree, LANES};

/// Marks an answer that is a list of lower bits.
const DEEP: u32 = 1 << 31;

/// The highest answer that a compiled form can keep.
pub(super) const ANSWER_MAX: u32 = DEEP - 1;

/// The answers of the intervals, by rank.
pub(super) enum Answers {
    /// The two take turns, the first of them at even ranks.
    Turns([u32; 2]),
    /// One each, in as many bits as the largest takes.
    U8(Section<u8>),
    U16(Section<u16>),
    U32(Section<u32>),
}

impl Answers {
    pub(super) fn of(intervals: &[(u32, u32)]) -> Answers {
        let first = intervals.first().map_or(NOTHING, |(_, answer)| *answer);
        let second = intervals.get(1).map_or(first, |(_, answer)| *answer);
        let turns = [first, second];
        if intervals.iter().enumerate().all(|(rank, (_, answer))| *answer == turns[rank % 2]) {
            return Answers::Turns(turns);
        }
        let each = || intervals.iter().map(|(_, answer)| *answer);
        match each().max().unwrap_or(NOTHING) {
            0..=0xff => Answers::U8(section(&each().map(|one| one as u8).collect::<Vec<_>>())),
            0x100..=0xffff => {
                Answers::U16(section(&each().map(|one| one as u16).collect::<Vec<_>>()))
            }
            _ => Answers::U32(section(&each().collect::<Vec<_>>())),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Answers::Turns(_) => 0,
            Answers::U8(each) => bytes_of(each).len(),
            Answers::U16(each) => bytes_of(each).len(),
            Answers::U32(each) => bytes_of(each).len(),
        }
    }

    #[inline(always)]
    pub(super) fn get(&self, rank: u32) -> u32 {
        match self {
            Answers::Turns(turns) => turns[rank as usize % 2],
            Answers::U8(each) => each[rank as usize].into(),
            Answers::U16(each) => each[rank as usize].into(),
            Answers::U32(each) => each[rank as usize],
        }
    }

    /// Prefetches the line of a rank's answer.
    #[inline(always)]
    pub(super) fn prefetch(&self, rank: u32) {
        match self {
            Answers::Turns(_) => {}
            Answers::U8(each) => each.prefetch(rank as usize),
            Answers::U16(each) => each.prefetch(rank as usize),
            Answers::U32(each) => each.prefetch(rank as usize),
        }
    }

    #[inline(always)]
    pub(super) fn get_many(&self, ranks: &[u32], found: &mut [u32]) {
        match self {
            Answers::Turns([even, odd]) => {
                for (found, rank) in found.iter_mut().zip(ranks) {
                    // No branch: which of the two it is cannot be guessed.
                    *found = even ^ ((even ^ odd) & 0_u32.wrapping_sub(rank & 1));
                }
            }
            Answers::U8(each) => get_each(each, ranks, found),
            Answers::U16(each) => get_each(each, ranks, found),
            Answers::U32(each) => get_each(each, ranks, found),
        }
    }
}

#[inline(always)]
fn get_each<T: Copy + Into<u32>>(each: &[T], ranks: &[u32], found: &mut [u32]) {
    for (found, rank) in found.iter_mut().zip(ranks) {
        *found = each[*rank as usize].into();
    }
}

/// IPv4.
pub(super) struct Intervals4 {
    tree: KaryTree<[u32; 16]>,
    answers: Answers,
    count: usize,
}

impl Intervals4 {
    pub(super) fn build(intervals: &Intervals<u32>) -> Intervals4 {
        let starts = intervals.0[1..].iter().map(|(start, _)| *start);
        Intervals4 {
            tree: KaryTree::build(starts),
            answers: Answers::of(&intervals.0),
            count: intervals.0.len(),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.tree.as_bytes().len() + self.answers.memory_bytes()
    }

    pub(super) fn depth(&self) -> usize {
        self.tree.depth()
    }

    /// How many intervals there are.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    #[inline(always)]
    pub(super) fn answer(&self, processor: impl Compare, address: u32) -> u32 {
        self.answers.get(self.tree.rank(processor, address))
    }

    /// The answers of at most [`LANES`] addresses.
    #[inline(always)]
    pub(super) fn answers(&self, processor: impl Compare, addresses: &[u32], found: &mut [u32]) {
        let mut ranks = [0; LANES];
        self.tree.ranks(processor, addresses, &mut ranks);
        self.answers.get_many(&ranks[..addresses.len().min(LANES)], found);
    }
}

/// IPv6.
pub(super) struct Intervals6 {
    /// The boundaries among the upper 64 bits.
    tree: KaryTree<[u64; 8]>,
    answers: MarkedAnswers,
    /// Where each list of lower bits begins among `lows`; one more than there are lists.
    bounds: Section<u32>,
    lows: Section<u64>,
    low_answers: Section<u32>,
    count: usize,
}

/// The tables while they are filled.
#[derive(Default)]
struct Builder {
    tops: Vec<(u64, u32)>,
    bounds: Vec<u32>,
    lows: Vec<u64>,
    low_answers: Vec<u32>,
}

impl Builder {
    fn push_top(&mut self, start: u64, answer: u32) {
        if self.tops.last().is_none_or(|(_, before)| *before != answer) {
            self.tops.push((start, answer));
        }
    }

    /// All intervals that begin with these upper 64 bits; `before` answers up to the first one.
    fn push_group(&mut self, high: u64, group: &[(u128, u32)], before: u32) {
        let (at_zero, lows) = match group {
            [(start, answer), rest @ ..] if *start as u64 == 0 => (*answer, rest),
            all => (before, all),
        };
        if lows.is_empty() {
            self.push_top(high, at_zero);
            return;
        }
        let list = u32::try_from(self.bounds.len()).expect("fewer lists than addresses");
        assert!(list < DEEP, "fewer lists than 2^31");
        self.bounds.push(self.lows.len() as u32);
        self.low_answers.push(at_zero);
        for (start, answer) in lows {
            self.lows.push(*start as u64);
            self.low_answers.push(*answer);
        }
        self.tops.push((high, DEEP | list));
    }
}

impl Intervals6 {
    pub(super) fn build(intervals: &Intervals<u128>) -> Intervals6 {
        let mut builder = Builder::default();
        let mut before = NOTHING;
        let mut expected = 0_u64;
        for group in intervals.0.chunk_by(|(a, _), (b, _)| a >> 64 == b >> 64) {
            let Some((start, _)) = group.first() else { continue };
            let high = (start >> 64) as u64;
            if high != expected {
                // What the group before ended with goes on behind its own upper bits.
                builder.push_top(expected, before);
            }
            builder.push_group(high, group, before);
            before = group.last().map_or(before, |(_, answer)| *answer);
            expected = high.wrapping_add(1);
        }
        if expected != 0 {
            builder.push_top(expected, before);
        }
        let Builder { tops, mut bounds, lows, low_answers } = builder;
        bounds.push(u32::try_from(lows.len()).expect("fewer intervals than 2^32"));
        let boundaries: Vec<u64> = tops[1..].iter().map(|(start, _)| *start).collect();
        let answers: Vec<u32> = tops.iter().map(|(_, answer)| *answer).collect();
        Intervals6 {
            tree: KaryTree::build(boundaries.into_iter()),
            answers: MarkedAnswers::of(&answers),
            bounds: section(&bounds),
            lows: section(&lows),
            low_answers: section(&low_answers),
            count: intervals.0.len(),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.tree.as_bytes().len()
            + self.answers.memory_bytes()
            + bytes_of(&self.bounds).len()
            + bytes_of(&self.lows).len()
            + bytes_of(&self.low_answers).len()
    }

    /// How the boundaries are found, for people.
    pub(super) fn ways(&self) -> String {
        format!("a wide tree of {} levels of 9 ways", self.tree.depth())
    }

    /// How many intervals there are.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// How many upper halves have boundaries in the lower one.
    pub(super) fn deep_len(&self) -> usize {
        self.bounds.len() - 1
    }

    #[inline(always)]
    pub(super) fn answer(&self, processor: impl Compare, address: u128) -> u32 {
        let high = (address >> 64) as u64;
        let rank = self.tree.rank(processor, high);
        let answer = self.answers.get(rank as usize);
        if answer & DEEP == 0 { answer } else { self.deep(answer & !DEEP, address as u64) }
    }

    /// The answer of one list for the lower 64 bits.
    fn deep(&self, list: u32, low: u64) -> u32 {
        let Range { start, end } = self.list(list);
        let below = self.lows[start..end].partition_point(|boundary| *boundary <= low);
        self.low_answers[start + list as usize + below]
    }

    fn list(&self, list: u32) -> Range<usize> {
        self.bounds[list as usize] as usize..self.bounds[list as usize + 1] as usize
    }

    /// The answers of at most [`LANES`] addresses.
    #[inline(always)]
    pub(super) fn answers(
        &self,
        processor: impl Compare,
        addresses: &[impl Address6],
        found: &mut [u32],
    ) {
        let highs = uppers(addresses);
        let mut ranks = [0; LANES];
        let count = addresses.len().min(LANES);
        self.tree.ranks(processor, &highs[..count], &mut ranks);
        for rank in &ranks[..count] {
            self.answers.prefetch(*rank as usize);
        }
        let mut any_deep = 0;
        for (found, rank) in found.iter_mut().zip(&ranks[..count]) {
            *found = self.answers.get(*rank as usize);
            any_deep |= *found;
        }
        if any_deep & DEEP != 0 {
            self.go_deep(addresses, found);
        }
    }

    /// Replaces answers that are lists by what the lists say. Rare in routing tables.
    #[inline(never)]
    fn go_deep(&self, addresses: &[impl Address6], found: &mut [u32]) {
        for found in found.iter().filter(|found| **found & DEEP != 0) {
            prefetch(&self.bounds, (*found & !DEEP) as usize);
        }
        for found in found.iter().filter(|found| **found & DEEP != 0) {
            prefetch(&self.lows, self.list(*found & !DEEP).start);
        }
        for (found, address) in found.iter_mut().zip(addresses) {
            if *found & DEEP != 0 {
                *found = self.deep(*found & !DEEP, address.number() as u64);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_take_as_many_bits_as_the_largest() {
        for (largest, bytes) in [(0xff, 1), (0x100, 2), (0xffff, 2), (0x1_0000, 4)] {
            let answers = Answers::of(&[(0, 3), (1, 1), (2, largest), (3, 0)]);
            assert_eq!(answers.memory_bytes(), 4 * bytes, "{largest}");
            let mut found = [9; 3];
            answers.get_many(&[2, 0, 3], &mut found);
            assert_eq!(found, [largest, 3, 0]);
            assert_eq!([answers.get(2), answers.get(0), answers.get(3)], found);
        }
    }
}
