//! IPv4 by rank in bit maps of /24: the compiled form of routing-like tables.
//!
//! For: many intervals that mostly begin and end between /24s. Not for: small sets, since the
//! bit maps alone take 2.5 MiB; nor lists of hosts, whose /24s would nearly all be deep.
//!
//! ```text
//! address  | 16 bits: group | 2 bits: block | 6 bits: cell | 8 bits |
//!
//! groups   | base: 32 bits | four offsets: 8 bits each |     a block stands at base + its offset
//!                 ▼
//! words    | begins: 64 bits, one a /24 where an interval begins | answer | answer | ...
//!            the block's first /24 has no bit: its interval's answer is the first one
//!            [ones up to the cell] ──► the answer, in 16 or 32 bits
//!                                  └─► deep | d: intervals begin inside this /24
//! deep     lows[bounds[d]..bounds[d+1]] ──► low_answers, one more a list than lows
//! ```
//!
//! A block's bit map and answers stand side by side, in one cache line wherever they fit into one
//! (28 answers of 16 bits do): `groups` are near, so that a lookup waits for one far line.
//!
//! Invariants: 2^16 groups; each deep /24 is an interval of its own.
//! Concurrency: never changes. Cost: two reads, three where deep; 2.5 MiB and 2 or 4 bytes an
//! interval, and a tenth for padding.

use std::collections::HashMap;
use std::ops::Range;

use super::intervals::section;
use super::sweep::{Intervals, NOTHING};
use super::wide_tree::LANES;
use crate::image::{Section, bytes_of};
use crate::simd::prefetch;

const GROUPS: usize = 1 << 16;
/// /24s in a block, and blocks in a group.
const CELLS: u64 = 64;
const GROUP_BLOCKS: usize = 4;
/// Words in a cache line.
const LINE_WORDS: usize = 16;
/// Words of a block's bit map.
const MAP_WORDS: usize = 2;
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
    groups: Section<u64>,
    words: Section<u32>,
    /// Whether two answers share a word.
    is_narrow: bool,
    bounds: Section<u32>,
    lows: Section<u8>,
    low_answers: Section<u32>,
}

/// A block while tables are filled: where intervals begin, and where its answers do.
#[derive(Clone, Copy)]
struct Block {
    begins: u64,
    first: usize,
}

/// The tables while they are filled.
#[derive(Default)]
struct Draft {
    blocks: Vec<Block>,
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
            let place = self.cells % CELLS;
            if place == 0 {
                self.blocks.push(Block { begins: 0, first: self.answers.len() });
                self.answers.push(answer);
            } else if self.answers.last() != Some(&answer)
                && let Some(block) = self.blocks.last_mut()
            {
                block.begins |= 1 << place;
                self.answers.push(answer);
            }
            self.cells += (end - self.cells).min(CELLS - place);
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

    fn answers_of(&self, block: usize) -> &[u32] {
        let end = self.blocks.get(block + 1).map_or(self.answers.len(), |next| next.first);
        &self.answers[self.blocks[block].first..end]
    }

    /// The groups and words; each block where it touches as few lines as it can.
    fn laid_out(&self, is_narrow: bool) -> (Vec<u64>, Vec<u32>) {
        let (mut groups, mut words) = (Vec::with_capacity(GROUPS), Vec::new());
        // Groups of one answer each, of which one block says all: no offsets.
        let mut even: HashMap<u32, u64> = HashMap::new();
        for first in (0..self.blocks.len()).step_by(GROUP_BLOCKS) {
            let blocks = first..first + GROUP_BLOCKS;
            let one = self.blocks[first].first;
            let is_even = blocks.clone().all(|block| self.answers_of(block) == [self.answers[one]]);
            if is_even {
                let place = even
                    .entry(self.answers[one])
                    .or_insert_with(|| self.append(first, is_narrow, &mut words));
                groups.push(*place);
                continue;
            }
            let places = blocks.map(|block| self.append(block, is_narrow, &mut words));
            let places: Vec<u64> = places.collect();
            let offsets = places.iter().enumerate().fold(0, |offsets, (turn, place)| {
                let offset = place - places[0];
                assert!(offset < 256, "three blocks of 66 words, and the padding of each");
                offsets | offset << (8 * turn)
            });
            groups.push(places[0] | offsets << 32);
        }
        assert!(u32::try_from(words.len()).is_ok(), "2^18 blocks of at most 81 words");
        (groups, words)
    }

    /// Puts a block where it touches as few lines as it can; says where.
    fn append(&self, block: usize, is_narrow: bool, words: &mut Vec<u32>) -> u64 {
        let answers = packed(self.answers_of(block), is_narrow);
        let count = MAP_WORDS + answers.len();
        let inside = words.len() % LINE_WORDS;
        if (inside + count).div_ceil(LINE_WORDS) > count.div_ceil(LINE_WORDS) {
            words.resize(words.len().next_multiple_of(LINE_WORDS), 0);
        }
        let place = words.len() as u64;
        let begins = self.blocks[block].begins;
        words.extend([begins as u32, (begins >> 32) as u32]);
        words.extend(answers);
        place
    }
}

/// Answers as words: one each, or two where they are narrow.
fn packed(answers: &[u32], is_narrow: bool) -> Vec<u32> {
    if !is_narrow {
        return answers.to_vec();
    }
    let narrow = |answer: &u32| (answer & !DEEP32) | (answer >> 16 & u32::from(DEEP16));
    let pair = |pair: &[u32]| narrow(&pair[0]) | pair.get(1).map_or(0, narrow) << 16;
    answers.chunks(2).map(pair).collect()
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
        let mut draft = Draft::default();
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
        let is_narrow = are_narrow(&draft.answers);
        let (groups, words) = draft.laid_out(is_narrow);
        Rank4 {
            groups: section(&groups),
            words: section(&words),
            is_narrow,
            bounds: section(&draft.bounds),
            lows: section(&draft.lows),
            low_answers: section(&draft.low_answers),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let near = bytes_of(&self.groups).len() + bytes_of(&self.words).len();
        let deep =
            bytes_of(&self.bounds).len() + self.lows.len() + bytes_of(&self.low_answers).len();
        near + deep
    }

    /// How many bits an answer has.
    pub(super) fn answer_bits(&self) -> u32 {
        if self.is_narrow { u16::BITS } else { u32::BITS }
    }

    /// Where the block of an address begins.
    #[inline(always)]
    fn block(&self, address: u32) -> usize {
        let groups: &[u64; GROUPS] = self.groups.first_chunk().expect("one for each upper half");
        let group = groups[(address >> 16) as usize];
        let offset = group >> (32 + (address >> 11 & 0x18)) & 0xff;
        (group as u32) as usize + offset as usize
    }

    /// The answer of a block, with the mark of a list in the highest of 32 bits.
    #[inline(always)]
    fn marked<const IS_NARROW: bool>(&self, block: usize, address: u32) -> u32 {
        let words = &self.words[block..];
        let [low, high] = *words.first_chunk::<MAP_WORDS>().expect("a block begins with its map");
        let begins = u64::from(low) | u64::from(high) << 32;
        let ones = (begins << (63 - (address >> 8 & 63))).count_ones();
        if IS_NARROW {
            let pair = words[MAP_WORDS + ones as usize / 2];
            widened((pair >> (ones % 2 * 16)) as u16)
        } else {
            words[MAP_WORDS + ones as usize]
        }
    }

    #[inline(always)]
    pub(super) fn answer(&self, address: u32) -> u32 {
        let block = self.block(address);
        let answer = if self.is_narrow {
            self.marked::<true>(block, address)
        } else {
            self.marked::<false>(block, address)
        };
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

    /// The answers of at most [`LANES`] addresses, in two stages of reads that do not wait for each
    /// other: blocks are asked for before the first of them is read.
    #[inline(always)]
    pub(super) fn answers(&self, addresses: &[u32], found: &mut [u32]) {
        let mut blocks = [0_u32; LANES];
        for (block, address) in blocks.iter_mut().zip(addresses) {
            let place = self.block(*address);
            *block = place as u32;
            prefetch(&self.words, place);
        }
        let any = if self.is_narrow {
            self.read::<true>(&blocks, addresses, found)
        } else {
            self.read::<false>(&blocks, addresses, found)
        };
        if any & DEEP32 != 0 {
            self.go_deep(addresses, found);
        }
    }

    /// The answers of these blocks; all of them or'ed together.
    #[inline(always)]
    fn read<const IS_NARROW: bool>(
        &self,
        blocks: &[u32; LANES],
        addresses: &[u32],
        found: &mut [u32],
    ) -> u32 {
        let mut any = 0;
        for ((found, block), address) in found.iter_mut().zip(blocks).zip(addresses) {
            *found = self.marked::<IS_NARROW>(*block as usize, *address);
            any |= *found;
        }
        any
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

/// Whether all answers and lists fit into 15 bits.
fn are_narrow(answers: &[u32]) -> bool {
    answers.iter().all(|answer| answer & !DEEP32 < u32::from(DEEP16))
}

impl Answers {
    /// Narrow if all answers and lists fit beside the mark.
    pub(super) fn of(answers: &[u32]) -> Answers {
        if !are_narrow(answers) {
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
