//! IPv4 by rank in a bit map of all /24: the compiled form of routing-like tables.
//!
//! For: many intervals that mostly begin and end between /24s. Not for: small sets, since the
//! bit map alone takes 4 MiB; nor lists of hosts, whose /24s would nearly all be deep.
//!
//! ```text
//! address  | 18 bits: block | 6 bits: cell | 8 bits |
//!
//! block    | begins: 64 bits, one a /24 where an interval begins | base: 32 bits | own: 32 bits |
//!            the block's first /24 has no bit: its interval is number `base`
//! numbers  [base + ones up to the cell]  ──► the answer, in 16 or 32 bits
//!                                        └─► deep | d: intervals begin inside this /24
//!          all blocks and behind them the answers, read as numbers of that width: a block with
//!          so few answers that they fit into `own` has them there, in the line that is read first
//! deep     lows[bounds[d]..bounds[d+1]] ──► low_answers, one more a list than lows
//! ```
//!
//! Invariants: 2^18 blocks; each deep /24 is an interval of its own.
//! Concurrency: never changes. Cost: one read where a block has its answers itself, two elsewhere,
//! three where deep; 4 MiB and 2 or 4 bytes an interval.

use std::ops::Range;

use super::sweep::{Intervals, NOTHING};
use crate::image::{Image, Plain, Section, bytes_of, section};
use crate::tables::LANES;

const BLOCKS: usize = 1 << 18;
/// Marks a deep /24 among answers of 16 and of 32 bits.
const DEEP16: u16 = 1 << 15;
const DEEP32: u32 = 1 << 31;

/// Answers, or marked lists, as narrow as they fit.
pub(super) enum Answers {
    Narrow(Section<u16>),
    Wide(Section<u32>),
}

/// The form.
pub(super) struct Rank4 {
    blocks: Section<[u32; 4]>,
    /// All blocks as numbers, too, and the answers behind them.
    numbers: Answers,
    bounds: Section<u32>,
    lows: Section<u8>,
    low_answers: Section<u32>,
}

/// The tables while they are filled.
#[derive(Default)]
struct Builder {
    /// Of each block: where intervals begin, and which of `answers` is its first.
    blocks: Vec<(u64, usize)>,
    /// Cells so far, over all blocks.
    cells: u64,
    answers: Vec<u32>,
    bounds: Vec<u32>,
    lows: Vec<u8>,
    low_answers: Vec<u32>,
}

impl Builder {
    /// Cells up to `end` have this answer.
    fn fill(&mut self, end: u64, answer: u32) {
        while self.cells < end {
            let place = self.cells % 64;
            if place == 0 {
                self.blocks.push((0, self.answers.len()));
                self.answers.push(answer);
            } else if self.answers.last() != Some(&answer) {
                if let Some((begins, _)) = self.blocks.last_mut() {
                    *begins |= 1 << place;
                }
                self.answers.push(answer);
            }
            self.cells += (end - self.cells).min(64 - place);
        }
    }

    /// Blocks with bases and answers of their own, and all numbers: the answers of the other blocks
    /// stand behind the blocks, in the same memory.
    fn lay_out<N: Plain>(&self, numbered: impl Fn(u32) -> N) -> (Section<[u32; 4]>, Section<N>) {
        let (own_most, block_numbers) = (4 / size_of::<N>(), 16 / size_of::<N>());
        let ends = self.blocks.iter().skip(1).map(|(_, first)| *first).chain([self.answers.len()]);
        let (mut blocks, mut behind, mut last) = (Vec::with_capacity(BLOCKS), Vec::new(), None);
        for (place, ((begins, first), end)) in self.blocks.iter().zip(ends).enumerate() {
            let answers = &self.answers[*first..end];
            let mut own = [0; 4];
            let base = if answers.len() <= own_most {
                let numbers: Vec<N> = answers.iter().map(|answer| numbered(*answer)).collect();
                let bytes = bytes_of(&numbers);
                own[..bytes.len()].copy_from_slice(bytes);
                (place + 1) * block_numbers - own_most
            } else {
                // A block often begins with what the one before ended with.
                let is_shared = last == answers.first();
                let base =
                    self.blocks.len() * block_numbers + behind.len() - usize::from(is_shared);
                let new = &answers[usize::from(is_shared)..];
                behind.extend(new.iter().map(|answer| numbered(*answer)));
                last = answers.last();
                base
            };
            let own = u32::from_ne_bytes(own);
            blocks.push([*begins as u32, (begins >> 32) as u32, base as u32, own]);
        }
        let (image, places) = Image::with_sections(&[bytes_of(&blocks), bytes_of(&behind)]);
        let whole = "blocks fill whole lines, so that answers follow at once";
        let blocks = image.section(places[0].clone()).expect(whole);
        (blocks, image.section(0..places[1].end).expect(whole))
    }

    /// One cell in which intervals begin; `before` answers up to the first one.
    fn fill_deep(&mut self, group: &[(u32, u32)], before: u32) {
        let list = self.bounds.len() as u32;
        self.bounds.push(self.lows.len() as u32);
        let (at_zero, lows) = match group {
            [(start, answer), rest @ ..] if *start as u8 == 0 => (*answer, rest),
            all => (before, all),
        };
        self.low_answers.push(at_zero);
        for (start, answer) in lows {
            self.lows.push(*start as u8);
            self.low_answers.push(*answer);
        }
        self.fill(self.cells + 1, DEEP32 | list);
    }
}

/// How many /24 have boundaries inside them.
pub(super) fn deep_len(intervals: &Intervals<u32>) -> usize {
    let inside = intervals.0.iter().filter(|(start, _)| *start as u8 != 0);
    let (mut count, mut last) = (0, None);
    for (start, _) in inside {
        count += usize::from(last != Some(start >> 8));
        last = Some(start >> 8);
    }
    count
}

impl Rank4 {
    pub(super) fn build(intervals: &Intervals<u32>) -> Rank4 {
        let mut builder = Builder { blocks: Vec::with_capacity(BLOCKS), ..Builder::default() };
        let mut before = NOTHING;
        for group in intervals.0.chunk_by(|(a, _), (b, _)| a >> 8 == b >> 8) {
            let [(start, answer), rest @ ..] = group else { continue };
            let cell = u64::from(start >> 8);
            builder.fill(cell, before);
            if *start as u8 != 0 || !rest.is_empty() {
                builder.fill_deep(group, before);
            } else {
                builder.fill(cell + 1, *answer);
            }
            before = group.last().map_or(before, |(_, answer)| *answer);
        }
        builder.fill(1 << 24, before);
        builder.bounds.push(builder.lows.len() as u32);
        let (blocks, numbers) = if Answers::are_narrow(&builder.answers) {
            let (blocks, numbers) = builder.lay_out(narrowed);
            (blocks, Answers::Narrow(numbers))
        } else {
            let (blocks, numbers) = builder.lay_out(|answer| answer);
            (blocks, Answers::Wide(numbers))
        };
        Rank4 {
            blocks,
            numbers,
            bounds: section(&builder.bounds),
            lows: section(&builder.lows),
            low_answers: section(&builder.low_answers),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let deep =
            bytes_of(&self.bounds).len() + self.lows.len() + bytes_of(&self.low_answers).len();
        self.numbers.memory_bytes() + deep
    }

    /// How many bits an answer has.
    pub(super) fn answer_bits(&self) -> u32 {
        match &self.numbers {
            Answers::Narrow(_) => u16::BITS,
            Answers::Wide(_) => u32::BITS,
        }
    }

    #[inline(always)]
    fn place(&self, address: u32) -> usize {
        let [low, high, base, _] = self.blocks[(address >> 14) as usize];
        let begins = u64::from(low) | u64::from(high) << 32;
        let ones = (begins << (63 - (address >> 8 & 63))).count_ones();
        (base + ones) as usize
    }

    #[inline(always)]
    pub(super) fn answer(&self, address: u32) -> u32 {
        let answer = self.numbers.get(self.place(address));
        if answer & DEEP32 == 0 { answer } else { self.deep(answer & !DEEP32, address as u8) }
    }

    /// The answer of one list for the last octet.
    fn deep(&self, list: u32, low: u8) -> u32 {
        let Range { start, end } = self.list(list);
        let below: usize =
            self.lows[start..end].iter().map(|begin| usize::from(*begin <= low)).sum();
        self.low_answers[start + list as usize + below]
    }

    fn list(&self, list: u32) -> Range<usize> {
        self.bounds[list as usize] as usize..self.bounds[list as usize + 1] as usize
    }

    /// The answers of at most [`LANES`] addresses, in three stages: each prefetches the lines that
    /// the next one reads, so that none of them waits for another's.
    #[inline(always)]
    pub(super) fn answers(&self, addresses: &[u32], found: &mut [u32]) {
        for address in addresses {
            self.blocks.prefetch((address >> 14) as usize);
        }
        let mut places = [0_u32; LANES];
        for (place, address) in places.iter_mut().zip(addresses) {
            *place = self.place(*address) as u32;
            self.numbers.prefetch(*place as usize);
        }
        let places = &places[..addresses.len().min(LANES)];
        let mut any_deep = 0;
        match &self.numbers {
            Answers::Narrow(answers) => {
                for (found, place) in found.iter_mut().zip(places) {
                    *found = widened(answers[*place as usize]);
                    any_deep |= *found;
                }
            }
            Answers::Wide(answers) => {
                for (found, place) in found.iter_mut().zip(places) {
                    *found = answers[*place as usize];
                    any_deep |= *found;
                }
            }
        }
        if any_deep & DEEP32 != 0 {
            self.go_deep(addresses, found);
        }
    }

    /// Replaces answers that are lists by what the lists say.
    #[inline(never)]
    fn go_deep(&self, addresses: &[u32], found: &mut [u32]) {
        for (found, address) in found.iter_mut().zip(addresses) {
            if *found & DEEP32 != 0 {
                *found = self.deep(*found & !DEEP32, *address as u8);
            }
        }
    }
}

impl Answers {
    /// Narrow if all answers and lists fit beside the mark.
    pub(super) fn of(answers: &[u32]) -> Answers {
        if !Answers::are_narrow(answers) {
            return Answers::Wide(section(answers));
        }
        let narrow: Vec<u16> = answers.iter().map(|answer| narrowed(*answer)).collect();
        Answers::Narrow(section(&narrow))
    }

    /// Whether all answers and lists fit beside the mark in 16 bits.
    fn are_narrow(answers: &[u32]) -> bool {
        answers.iter().all(|answer| answer & !DEEP32 < u32::from(DEEP16))
    }

    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Answers::Narrow(answers) => bytes_of(answers).len(),
            Answers::Wide(answers) => bytes_of(answers).len(),
        }
    }

    /// Prefetches an answer's line.
    #[inline(always)]
    pub(super) fn prefetch(&self, place: usize) {
        match self {
            Answers::Narrow(answers) => answers.prefetch(place),
            Answers::Wide(answers) => answers.prefetch(place),
        }
    }

    /// With the mark of a list in the highest of 32 bits.
    #[inline(always)]
    pub(super) fn get(&self, place: usize) -> u32 {
        match self {
            Answers::Narrow(answers) => widened(answers[place]),
            Answers::Wide(answers) => answers[place],
        }
    }
}

/// An answer with its mark in the highest of 16 bits.
fn narrowed(answer: u32) -> u16 {
    answer as u16 | ((answer >> 16) as u16 & DEEP16)
}

/// A narrow answer with its mark in the highest of 32 bits.
#[inline(always)]
fn widened(answer: u16) -> u32 {
    let answer = u32::from(answer);
    (answer & !u32::from(DEEP16)) | (answer & u32::from(DEEP16)) << 16
}
