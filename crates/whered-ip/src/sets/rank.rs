//! IPv4 by rank in a bit map of all /24: the compiled form of routing-like tables.
//!
//! For: many intervals that mostly begin and end between /24s. Not for: small sets, since the
//! bit map alone takes 4 MiB; nor lists of hosts, whose /24s would nearly all be deep.
//!
//! ```text
//! address  | 18 bits: block | 6 bits: cell | 8 bits |
//!
//! block    | begins: 64 bits, one a /24 where an interval begins | base: 32 bits | - |
//!            the block's first /24 has no bit: its interval is number `base`
//! answers  [base + ones up to the cell]  ──► the answer, in 16 or 32 bits
//!                                        └─► deep | d: intervals begin inside this /24
//! deep     lows[bounds[d]..bounds[d+1]] ──► low_answers, one more a list than lows
//! ```
//!
//! Invariants: 2^18 blocks; each deep /24 is an interval of its own.
//! Concurrency: never changes. Cost: two reads, three where deep; 4 MiB and 2 or 4 bytes an
//! interval.

use std::ops::Range;

use super::sweep::{Intervals, NOTHING};
use crate::image::section;
use crate::image::{Section, bytes_of};
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
    answers: Answers,
    bounds: Section<u32>,
    lows: Section<u8>,
    low_answers: Section<u32>,
}

/// The tables while they are filled.
#[derive(Default)]
struct Draft {
    blocks: Vec<[u32; 4]>,
    begins: u64,
    base: u32,
    /// Cells so far, over all blocks.
    cells: u64,
    answers: Vec<u32>,
    bounds: Vec<u32>,
    lows: Vec<u8>,
    low_answers: Vec<u32>,
}

impl Draft {
    /// Cells up to `end` have this answer.
    fn fill(&mut self, end: u64, answer: u32) {
        while self.cells < end {
            let place = self.cells % 64;
            let begins_anew = self.answers.last() != Some(&answer);
            if begins_anew {
                self.answers.push(answer);
            }
            if place == 0 {
                self.base = self.answers.len() as u32 - 1;
                self.begins = 0;
            } else if begins_anew {
                self.begins |= 1 << place;
            }
            let taken = (end - self.cells).min(64 - place);
            self.cells += taken;
            if self.cells.is_multiple_of(64) {
                self.blocks.push([self.begins as u32, (self.begins >> 32) as u32, self.base, 0]);
            }
        }
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
        let mut draft = Draft { blocks: Vec::with_capacity(BLOCKS), ..Draft::default() };
        let mut before = NOTHING;
        for group in intervals.0.chunk_by(|(a, _), (b, _)| a >> 8 == b >> 8) {
            let [(start, answer), rest @ ..] = group else { continue };
            let cell = u64::from(start >> 8);
            draft.fill(cell, before);
            if *start as u8 != 0 || !rest.is_empty() {
                draft.fill_deep(group, before);
            } else {
                draft.fill(cell + 1, *answer);
            }
            before = group.last().map_or(before, |(_, answer)| *answer);
        }
        draft.fill(1 << 24, before);
        draft.bounds.push(draft.lows.len() as u32);
        Rank4 {
            blocks: section(&draft.blocks),
            answers: Answers::of(&draft.answers),
            bounds: section(&draft.bounds),
            lows: section(&draft.lows),
            low_answers: section(&draft.low_answers),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let answers = self.answers.memory_bytes();
        let deep =
            bytes_of(&self.bounds).len() + self.lows.len() + bytes_of(&self.low_answers).len();
        bytes_of(&self.blocks).len() + answers + deep
    }

    /// How many bits an answer has.
    pub(super) fn answer_bits(&self) -> u32 {
        match &self.answers {
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
        let answer = self.answers.get(self.place(address));
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

    /// The answers of at most [`LANES`] addresses, in three stages: each asks for the lines that the
    /// next one reads, so that none of them waits for another's.
    #[inline(always)]
    pub(super) fn answers(&self, addresses: &[u32], found: &mut [u32]) {
        for address in addresses {
            self.blocks.prefetch((address >> 14) as usize);
        }
        let mut places = [0_u32; LANES];
        for (place, address) in places.iter_mut().zip(addresses) {
            *place = self.place(*address) as u32;
            self.answers.warm(*place as usize);
        }
        let places = &places[..addresses.len().min(LANES)];
        let mut any_deep = 0;
        match &self.answers {
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
        let widest = answers.iter().map(|answer| answer & !DEEP32).max();
        if widest.is_some_and(|widest| widest >= u32::from(DEEP16)) {
            return Answers::Wide(section(answers));
        }
        let narrow = |answer: &u32| *answer as u16 | ((answer >> 16) as u16 & DEEP16);
        let narrow: Vec<u16> = answers.iter().map(narrow).collect();
        Answers::Narrow(section(&narrow))
    }

    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Answers::Narrow(answers) => bytes_of(answers).len(),
            Answers::Wide(answers) => bytes_of(answers).len(),
        }
    }

    /// Asks for an answer's line.
    #[inline(always)]
    pub(super) fn warm(&self, place: usize) {
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

/// A narrow answer with its mark in the highest of 32 bits.
#[inline(always)]
fn widened(answer: u16) -> u32 {
    let answer = u32::from(answer);
    (answer & !u32::from(DEEP16)) | (answer & u32::from(DEEP16)) << 16
}
