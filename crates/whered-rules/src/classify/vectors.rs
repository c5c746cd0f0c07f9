//! Bit vectors: for every interval of a lane the boxes that hold there, and their intersection.
//!
//! For: rules that overlap in such ways that graphs explode and hash tables have long lists. Not
//! for: small memory; a row has a bit for each box.
//!
//! ```text
//! lane ─► interval ─► row: blocks of 512 boxes, one line each     | all lanes' rows intersected,
//!                     sums: one bit a block, set if it has any    | sums first: the first bit left
//! ```
//!
//! Equal rows are one. Every lane that rules ask about has rows, so a bit that is left is a match,
//! but for boxes that are slow.
//!
//! Concurrency: plain data. Cost: one search a lane, then one line a lane for each block whose sums
//! meet.

use super::boxes::{Boxes, Keys};
use super::dag::{BATCH, Found, NO_BOX, StopReason};
use super::hash::{Map, Quick};
use super::simd::Line;
use std::hash::Hasher;
use whered_simd::prefetch;

/// Boxes of a block: the bits of a line.
const BLOCK: usize = 512;

/// The rows of one lane.
#[derive(Clone, Debug)]
struct Rows {
    lane: usize,
    shift: u32,
    /// By the top bits of a key: the first interval that may hold it.
    tops: Vec<u32>,
    starts: Vec<u32>,
    /// The row of each interval.
    row: Vec<u32>,
}

/// The rows of all lanes.
#[derive(Clone, Debug)]
pub(crate) struct Vectors {
    lanes: Vec<Rows>,
    blocks: usize,
    /// Blocks of all rows.
    lines: Vec<Line>,
    /// Words of 64 bits of the sums of a row.
    words: usize,
    sums: Vec<u64>,
    slow: Vec<bool>,
    terminal: Vec<bool>,
    special: bool,
}

impl Rows {
    /// The row of a key.
    #[inline(always)]
    fn of(&self, key: u32) -> u32 {
        let top = (key >> self.shift) as usize;
        let (from, to) = (self.tops[top] as usize, self.tops[top + 1] as usize);
        let above = self.starts[from + 1..=to].partition_point(|&start| start <= key);
        self.row[from + above]
    }
}

impl Vectors {
    /// Makes all rows.
    pub(crate) fn build(
        boxes: &Boxes,
        bytes: usize,
        stop: &dyn Fn() -> bool,
    ) -> Result<Vectors, StopReason> {
        let blocks = boxes.len().div_ceil(BLOCK).max(1);
        let mut vectors = Vectors {
            lanes: Vec::new(),
            blocks,
            lines: Vec::new(),
            words: blocks.div_ceil(64),
            sums: Vec::new(),
            slow: boxes.slow.clone(),
            terminal: boxes.terminal.clone(),
            special: boxes.slow.contains(&true) || boxes.terminal.contains(&false),
        };
        let mut known: Map<u64, Vec<u32>> = Map::default();
        let used = boxes.used();
        for lane in (0..16).filter(|lane| used >> lane & 1 != 0) {
            let rows = vectors.rows(boxes, lane, bytes, stop, &mut known)?;
            vectors.lanes.push(rows);
        }
        if vectors.lanes.is_empty() {
            // No rule asks for anything: one row, whatever the key.
            let all = vec![u64::MAX; blocks * 8];
            let row = vectors.row(&mask(all, boxes.len()), &mut known);
            let (tops, starts) = (vec![0; 3], vec![0]);
            vectors.lanes.push(Rows { lane: 0, shift: 31, tops, starts, row: vec![row] });
        }
        Ok(vectors)
    }

    /// The rows of one lane.
    fn rows(
        &mut self,
        boxes: &Boxes,
        lane: usize,
        bytes: usize,
        stop: &dyn Fn() -> bool,
        known: &mut Map<u64, Vec<u32>>,
    ) -> Result<Rows, StopReason> {
        let mut events: Vec<(u32, u32)> = Vec::with_capacity(boxes.len() * 2);
        for (number, extent) in boxes.ends.iter().enumerate() {
            events.push((extent.low[lane], number as u32));
            events.extend(extent.high[lane].checked_add(1).map(|end| (end, number as u32)));
        }
        events.sort_unstable();
        let mut holding = vec![0u64; self.blocks * 8];
        let (mut starts, mut row) = (Vec::new(), Vec::new());
        let (mut event, mut start) = (0, 0);
        loop {
            while event < events.len() && events[event].0 == start {
                let number = events[event].1;
                holding[number as usize / 64] ^= 1 << (number % 64);
                event += 1;
            }
            starts.push(start);
            row.push(self.row(&holding, known));
            if self.lines.len() * 64 > bytes {
                return Err(StopReason::Memory);
            }
            if starts.len().is_multiple_of(256) && stop() {
                return Err(StopReason::Time);
            }
            match events.get(event) {
                Some(next) if next.0 <= boxes.lanes.max(lane) => start = next.0,
                _ => break,
            }
        }
        let width = (32 - boxes.lanes.max(lane).leading_zeros()).max(1);
        let bits =
            (starts.len() as u32).next_power_of_two().trailing_zeros().clamp(1, 16).min(width);
        let shift = width - bits;
        let first =
            |top: u64| starts.partition_point(|&start| u64::from(start) <= top << shift) as u32 - 1;
        let mut tops: Vec<u32> = (0..1u64 << bits).map(first).collect();
        tops.push(starts.len() as u32 - 1);
        Ok(Rows { lane, shift, tops, starts, row })
    }

    /// The number of a row, made if it is new.
    fn row(&mut self, holding: &[u64], known: &mut Map<u64, Vec<u32>>) -> u32 {
        let mut hasher = Quick::default();
        holding.iter().for_each(|&word| hasher.write_u64(word));
        let same = known.entry(hasher.finish()).or_default();
        let lines: Vec<Line> = holding
            .chunks_exact(8)
            .map(|block| {
                let mut line = Line([0; 16]);
                for (pair, &word) in line.0.chunks_exact_mut(2).zip(block) {
                    (pair[0], pair[1]) = (word as u32, (word >> 32) as u32);
                }
                line
            })
            .collect();
        let old = same
            .iter()
            .find(|&&row| self.lines[row as usize * self.blocks..][..self.blocks] == lines);
        if let Some(&row) = old {
            return row;
        }
        let row = (self.lines.len() / self.blocks) as u32;
        same.push(row);
        let mut sums = vec![0u64; self.words];
        for (block, line) in lines.iter().enumerate() {
            sums[block / 64] |= u64::from(*line != Line([0; 16])) << (block % 64);
        }
        self.lines.extend(lines);
        self.sums.extend(sums);
        row
    }

    /// Bytes that lookups may touch.
    pub(crate) fn memory_bytes(&self) -> usize {
        let lane = |rows: &Rows| (rows.tops.len() + rows.starts.len() + rows.row.len()) * 4;
        let lanes: usize = self.lanes.iter().map(lane).sum();
        self.lines.len() * 64 + self.sums.len() * 8 + lanes + self.slow.len() * 2
    }

    /// The first terminal box that matches, or [`NO_BOX`]; those before it that do not end the
    /// search are given to `passed`.
    #[inline(always)]
    pub(crate) fn find(
        &self,
        keys: &Keys,
        ask: impl Fn(u32) -> bool,
        mut passed: impl FnMut(u32),
    ) -> u32 {
        let rows = self.rows_of(keys);
        self.meet(&rows, ask, &mut passed)
    }

    /// Like [`find`](Self::find), for up to [`BATCH`] packets.
    #[inline(always)]
    pub(crate) fn find_batch(
        &self,
        count: usize,
        keys: &[Keys; BATCH],
        ask: impl Fn(usize, u32) -> bool,
        found: &mut Found,
    ) {
        let mut rows = [[0u32; 16]; BATCH];
        for (keys, rows) in keys.iter().zip(&mut rows).take(count) {
            *rows = self.rows_of(keys);
            for &row in rows.iter().take(self.lanes.len()) {
                prefetch(&self.sums, row as usize * self.words);
            }
        }
        for (place, rows) in rows.iter().enumerate().take(count) {
            let Found { boxes, passed } = &mut *found;
            let ask = |number: u32| ask(place, number);
            boxes[place] = self.meet(rows, ask, &mut |number| passed.push((place as u8, number)));
        }
    }

    /// Each lane's row.
    #[inline(always)]
    fn rows_of(&self, keys: &Keys) -> [u32; 16] {
        let mut rows = [0; 16];
        for (row, lane) in rows.iter_mut().zip(&self.lanes) {
            *row = lane.of(keys.0[lane.lane % 16]);
        }
        rows
    }

    /// The first box that all rows have.
    #[inline(always)]
    fn meet(
        &self,
        rows: &[u32; 16],
        ask: impl Fn(u32) -> bool,
        passed: &mut impl FnMut(u32),
    ) -> u32 {
        let rows = &rows[..self.lanes.len().min(16)];
        for word in 0..self.words {
            let sum = |&row: &u32| self.sums[row as usize * self.words + word];
            let mut sums = rows.iter().map(sum).fold(u64::MAX, |all, one| all & one);
            while sums != 0 {
                let block = word * 64 + sums.trailing_zeros() as usize;
                sums &= sums - 1;
                let mut left = Line([u32::MAX; 16]);
                for &row in rows {
                    let line = &self.lines[row as usize * self.blocks + block];
                    left.0.iter_mut().zip(&line.0).for_each(|(left, bits)| *left &= bits);
                }
                for (part, bits) in left.0.into_iter().enumerate() {
                    let mut bits = bits;
                    while bits != 0 {
                        let number = (block * BLOCK + part * 32) as u32 + bits.trailing_zeros();
                        bits &= bits - 1;
                        if !self.special || self.decides(number, &ask, passed) {
                            return number;
                        }
                    }
                }
            }
        }
        NO_BOX
    }

    /// Whether a box that holds ends the search.
    #[inline]
    fn decides(
        &self,
        number: u32,
        ask: impl Fn(u32) -> bool,
        passed: &mut impl FnMut(u32),
    ) -> bool {
        let place = number as usize;
        if self.slow[place] && !ask(number) {
            return false;
        }
        if !self.terminal[place] {
            passed(number);
        }
        self.terminal[place]
    }
}

/// Only the bits below `count`.
fn mask(mut words: Vec<u64>, count: usize) -> Vec<u64> {
    for (place, word) in words.iter_mut().enumerate() {
        let left = count.saturating_sub(place * 64).min(64);
        *word &= if left == 64 { u64::MAX } else { (1 << left) - 1 };
    }
    words
}
