//! Items dealt out to rows, in memory that is kept from batch to batch.
//!
//! For: what a batch deals out by hash or by lane. Not for: items that are looked up or removed.
//!
//! ```text
//! row     │ first block │ last block │ items │ ...      one for each group or lane
//! blocks  │ 32 items │ 32 items │ ...                    in chunks that never move
//! next    │ the block that goes on │ ...                 one for each block
//! ```
//!
//! Pages that a process touches for the first time cost more than what is written to them, and a
//! list for each of some thousand rows that grows by itself is copied again and again. Blocks are
//! given to rows as these need them, and all of them are used again after [`Rows::clear`].
//!
//! Concurrency: a plain value.
//! Cost: an item is written once; on average half a block for each row is left empty.

use std::iter;

/// Items of a block.
const BLOCK: usize = 32;
/// Blocks of a chunk at most.
const MOST_CHUNK_BLOCKS: usize = 1024;

/// Items by row.
#[derive(Clone, Debug)]
pub(in crate::points) struct Rows<T> {
    rows: Vec<Row>,
    chunks: Vec<Vec<T>>,
    /// The block after each that is in use, if the row goes on.
    next: Vec<u32>,
    chunk_bits: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Row {
    first: u32,
    last: u32,
    len: u32,
}

impl<T: Copy + Default> Rows<T> {
    /// `count` empty rows.
    pub(in crate::points) fn new(count: usize) -> Rows<T> {
        let chunk = count.next_power_of_two().clamp(4, MOST_CHUNK_BLOCKS);
        let rows = vec![Row::default(); count];
        Rows { rows, chunks: Vec::new(), next: Vec::new(), chunk_bits: chunk.trailing_zeros() }
    }

    /// Empties all rows and sets their number; keeps the memory.
    pub(in crate::points) fn clear(&mut self, count: usize) {
        self.rows.clear();
        self.rows.resize(count, Row::default());
        self.next.clear();
    }

    /// The number of rows.
    pub(in crate::points) fn count(&self) -> usize {
        self.rows.len()
    }

    /// The number of items in a row.
    pub(in crate::points) fn len(&self, row: usize) -> usize {
        self.rows[row].len as usize
    }

    /// Appends an item to a row.
    #[inline]
    pub(in crate::points) fn push(&mut self, row: usize, item: T) {
        let len = self.rows[row].len as usize;
        if len.is_multiple_of(BLOCK) {
            self.add_block(row);
        }
        let row = &mut self.rows[row];
        row.len += 1;
        let (chunk, start) = place(self.chunk_bits, row.last);
        let at = start + len % BLOCK;
        self.chunks[chunk][at] = item;
        // The row's next item comes much later: its line is asked for now.
        whered_simd::prefetch(&self.chunks[chunk], at + 2);
    }

    #[cold]
    fn add_block(&mut self, row: usize) {
        let block = u32::try_from(self.next.len()).expect("a batch has less than 2^32 blocks");
        self.next.push(0);
        if place(self.chunk_bits, block).0 == self.chunks.len() {
            self.chunks.push(vec![T::default(); BLOCK << self.chunk_bits]);
        }
        let row = &mut self.rows[row];
        if row.len == 0 {
            row.first = block;
        } else {
            self.next[row.last as usize] = block;
        }
        row.last = block;
    }

    /// Asks for a block, which lies where no processor would guess.
    #[inline]
    fn prefetch(&self, block: u32) {
        let (chunk, start) = place(self.chunk_bits, block);
        let Some(chunk) = self.chunks.get(chunk) else { return };
        for at in (start..start + BLOCK).step_by(2) {
            whered_simd::prefetch(chunk, at);
        }
    }

    /// The items of a row in order, in pieces.
    pub(in crate::points) fn blocks(&self, row: usize) -> impl Iterator<Item = &[T]> + Clone {
        let Row { first, len, .. } = self.rows[row];
        let (mut block, mut left) = (first, len as usize);
        iter::from_fn(move || {
            let count = left.min(BLOCK);
            if count == 0 {
                return None;
            }
            let (chunk, start) = place(self.chunk_bits, block);
            left -= count;
            block = self.next[block as usize];
            self.prefetch(block);
            Some(&self.chunks[chunk][start..start + count])
        })
    }
}

/// The chunk that a block is in, and where it begins there.
fn place(chunk_bits: u32, block: u32) -> (usize, usize) {
    let block = block as usize;
    (block >> chunk_bits, (block & ((1 << chunk_bits) - 1)) * BLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_its_items_in_order_and_memory_is_used_again() {
        for count in [1, 3, 100] {
            let mut rows: Rows<u64> = Rows::new(count);
            for round in 0..3 {
                let mut twin = vec![Vec::new(); count];
                let mut state = round;
                for number in 0..5000 {
                    state = u64::wrapping_mul(state + 7, 6_364_136_223_846_793_005);
                    let row = (state >> 33) as usize % count;
                    rows.push(row, number);
                    twin[row].push(number);
                }
                for (row, twin) in twin.iter().enumerate() {
                    assert_eq!(rows.len(row), twin.len());
                    assert_eq!(&rows.blocks(row).collect::<Vec<_>>().concat(), twin);
                }
                let chunks = rows.chunks.len();
                assert!(round == 0 || chunks <= 5000 / BLOCK + count + 1);
                rows.clear(count);
                assert!((0..count).all(|row| rows.blocks(row).next().is_none()));
                assert_eq!(rows.chunks.len(), chunks);
            }
        }
    }
}
