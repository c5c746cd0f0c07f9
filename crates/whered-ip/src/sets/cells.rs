//! Places among many sorted 64-bit numbers, found by their leading bits first: for large IPv6 sets.
//!
//! For: what `wide_tree` does, where four levels of it and more would only tell the leading bits
//! apart. Not for: small sets, for which the table of the first 16 bits is too much.
//!
//! ```text
//! number   | 16 bits | as many bits as this part needs | ... |
//!
//! roots    | first cell, 27 bits | bits, 5 bits |      one for each value of the first 16 bits
//! cells    | s | s | s | ...                           where each cell's numbers begin; never falls
//! keys     | k k k k k k k k | k k k ...               all numbers, sorted
//! guides   | every 8th key: the last of each line |
//!
//! up to 8 in a cell    one comparison of the 8 from its beginning on: those behind are higher
//! more                 one of 8 guides for the line, one of the line; halving before, beyond 64
//! ```
//!
//! Numbers are kept as in `wide_tree`: the one below, with its highest bit flipped.
//!
//! Invariants: cells do not fall; eight keys and eight guides more than there are may be read.
//! Concurrency: never changes. Cost: three reads and one comparison, or four and two; 256 KiB,
//! 9 bytes a number, and 4 to 8 for cells.

use crate::image::section;
use crate::image::{Section, bytes_of};
use crate::simd::{Compare, prefetch};
use crate::tables::{LANES, Line};

const KEYS: usize = 8;
const ROOTS: usize = 1 << 16;
const BITS_MAX: u32 = 16;

/// The table.
pub(super) struct Cells6 {
    roots: Section<u32>,
    cells: Section<u32>,
    keys: Section<u64>,
    guides: Section<u64>,
}

impl Cells6 {
    /// Of numbers that rise strictly and are not zero.
    pub(super) fn build(numbers: &[u64]) -> Cells6 {
        let mut roots = Vec::with_capacity(ROOTS);
        let mut cells = Vec::new();
        let mut done = 0;
        for root in 0..ROOTS as u64 {
            let count = numbers[done..].partition_point(|number| number >> 48 <= root);
            // One or two numbers a cell, where they lie evenly.
            let bits = count.checked_ilog2().map_or(0, |log| log.min(BITS_MAX));
            roots.push((cells.len() as u32) << 5 | bits);
            for cell in 0..1_u64 << bits {
                let first = root << 48 | cell.unbounded_shl(48 - bits);
                let before = numbers[done..done + count].partition_point(|number| *number < first);
                cells.push((done + before) as u32);
            }
            done += count;
        }
        assert!(cells.len() < 1 << 27, "65,536 parts of at most 65,536 cells, four for a number");
        cells.push(numbers.len() as u32);
        let kept = |number: &u64| {
            <[u64; KEYS]>::kept(*number).expect("no interval but the first begins at zero")
        };
        let mut keys: Vec<u64> = numbers.iter().map(kept).collect();
        let mut guides: Vec<u64> =
            keys.chunks_exact(KEYS).filter_map(|line| line.last().copied()).collect();
        keys.extend(<[u64; KEYS]>::EMPTY);
        keys.extend(<[u64; KEYS]>::EMPTY);
        guides.extend(<[u64; KEYS]>::EMPTY);
        Cells6 {
            roots: section(&roots),
            cells: section(&cells),
            keys: section(&keys),
            guides: section(&guides),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let keys = bytes_of(&self.keys).len() + bytes_of(&self.guides).len();
        bytes_of(&self.roots).len() + bytes_of(&self.cells).len() + keys
    }

    /// The cell of a number.
    #[inline(always)]
    fn cell(&self, number: u64) -> usize {
        let root = self.roots[(number >> 48) as usize];
        let bits = root & 31;
        // In two steps, since no bits at all shift all 64 out.
        (root >> 5) as usize + (number << 16 >> 1 >> (63 - bits)) as usize
    }

    /// Where a cell's numbers begin and end.
    #[inline(always)]
    fn part(&self, cell: usize) -> (usize, usize) {
        match self.cells[cell..cell + 2] {
            [start, end] => (start as usize, end as usize),
            _ => (0, 0),
        }
    }

    /// The place of the line that decides, for a part with more numbers than one comparison takes.
    #[inline(always)]
    fn line(&self, processor: impl Compare, (start, end): (usize, usize), bound: u64) -> usize {
        let (mut at, mut left) = (start / KEYS, end / KEYS - start / KEYS);
        while left > KEYS {
            let half = left / 2;
            let is_past = (self.guides[at + half - 1] as i64) < bound as i64;
            at += if is_past { half } else { 0 };
            left -= half;
        }
        (at + below(processor, &self.guides, at, bound)) * KEYS
    }

    /// How many of the numbers are not above this one.
    #[inline(always)]
    pub(super) fn rank(&self, processor: impl Compare, number: u64) -> u32 {
        let bound = <[u64; KEYS]>::asked(number);
        let (mut start, end) = self.part(self.cell(number));
        if end - start > KEYS {
            start = self.line(processor, (start, end), bound);
        }
        (start + below(processor, &self.keys, start, bound)) as u32
    }

    /// The same of at most [`LANES`] numbers, in stages so that waits overlap.
    #[inline(always)]
    pub(super) fn ranks(&self, processor: impl Compare, numbers: &[u64], ranks: &mut [u32; LANES]) {
        let mut cells = [0_usize; LANES];
        for (cell, number) in cells.iter_mut().zip(numbers) {
            *cell = self.cell(*number);
            prefetch(&self.cells, *cell);
        }
        let mut long = [0_u8; LANES];
        let mut long_count = 0;
        for (lane, (cell, rank)) in
            cells.iter().zip(ranks.iter_mut()).take(numbers.len()).enumerate()
        {
            let (start, end) = self.part(*cell);
            *rank = start as u32;
            let is_long = end - start > KEYS;
            // What is asked for in vain takes the place of what is needed: one of the two.
            if is_long {
                prefetch(&self.guides, start / KEYS);
            } else {
                prefetch(&self.keys, start);
                prefetch(&self.keys, start + KEYS - 1);
            }
            long[long_count % LANES] = lane as u8;
            long_count += usize::from(is_long);
        }
        for lane in &long[..long_count] {
            let lane = usize::from(*lane);
            let bound = <[u64; KEYS]>::asked(numbers[lane]);
            let start = self.line(processor, self.part(cells[lane]), bound);
            ranks[lane] = start as u32;
            prefetch(&self.keys, start);
        }
        for (rank, number) in ranks.iter_mut().zip(numbers) {
            let bound = <[u64; KEYS]>::asked(*number);
            *rank += below(processor, &self.keys, *rank as usize, bound) as u32;
        }
    }
}

/// How many of the eight sorted numbers from `start` on are below the bound.
#[inline(always)]
fn below(processor: impl Compare, sorted: &[u64], start: usize, bound: u64) -> usize {
    let line = sorted[start..start + KEYS].first_chunk().expect("a line's length");
    processor.below8(line, bound) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Scalar;

    #[test]
    fn ranks_are_those_of_the_sorted_numbers_in_thin_and_in_dense_parts() {
        let dense = (0..3000_u64).map(|n| 0x2001 << 48 | n << 16);
        let thin = (1..200_u64).map(|n| n << 55 | 9);
        let middle = (0..40_u64).map(|n| 0x2a00 << 48 | n << 40);
        let ends = [1, 2, u64::MAX - 1, u64::MAX];
        let mut numbers: Vec<u64> = dense.chain(thin).chain(middle).chain(ends).collect();
        numbers.sort_unstable();
        numbers.dedup();
        for count in [0, 1, 7, 8, 9, 500, numbers.len()] {
            let numbers = &numbers[numbers.len() - count..];
            let cells = Cells6::build(numbers);
            let near = numbers.iter().flat_map(|n| [n - 1, *n, n.saturating_add(1), n ^ 1 << 40]);
            let asked: Vec<u64> = near.chain([0, u64::MAX]).collect();
            let mut ranks = [0; LANES];
            for asked in asked.chunks(LANES) {
                cells.ranks(Scalar, asked, &mut ranks);
                for (asked, rank) in asked.iter().zip(ranks) {
                    let expected = numbers.partition_point(|number| number <= asked);
                    assert_eq!(cells.rank(Scalar, *asked) as usize, expected, "{asked:x}");
                    assert_eq!(rank as usize, expected, "{asked:x} in a batch");
                }
            }
        }
    }
}
