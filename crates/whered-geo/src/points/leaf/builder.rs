//! A leaf that is being written anew, from whole runs of entries of other leaves.
//!
//! For: everything that changes a leaf's size: growth, splits, joins, cells that no longer fit
//! narrow keys. Not for: edits in place (`edit.rs`).
//!
//! ```text
//! run of a leaf ──► keys shifted by the difference of the bases,
//!                   offsets shifted by the difference of the ends, text copied in one piece
//! ```
//!
//! Sizes: a blob, its reference counts and one word more are rounded up to the next of four sizes
//! in each octave (8, 10, 12, 14, 16, 20 ... words), which are the size classes of mimalloc and of
//! most other allocators: what they would waste is room for growth here, on average a twelfth. The
//! word stays free because the program's allocator adds the alignment to what is asked for, and
//! would take the next class for a size that fills its own.
//! Cost: one allocation and one pass over what is copied.

use std::ops::Range;
use std::sync::Arc;

use bytemuck::cast_slice_mut;

use super::{COUNTS_BYTES, HEADER_BYTES, Keys, Leaf, OFFSET_BYTES, short};
use crate::points::overflow::Text;

/// A leaf under construction.
pub(in crate::points) struct LeafBuilder {
    blob: Arc<[u64]>,
    is_wide: bool,
    base: u64,
    /// Entries in all, and those written.
    count: usize,
    filled: usize,
    /// Where the next text goes, counted from the end.
    offset: usize,
    long_count: usize,
}

impl LeafBuilder {
    /// A builder of `count` entries with `text_bytes` of text, with cells from `first` to `last`.
    pub(in crate::points) fn new(
        count: usize,
        text_bytes: usize,
        first: u64,
        last: u64,
    ) -> LeafBuilder {
        let is_wide = last - first > u64::from(u32::MAX);
        let key_bytes = if is_wide { 8 } else { 4 };
        let bytes = HEADER_BYTES + (key_bytes + OFFSET_BYTES) * count + text_bytes;
        let blob = std::iter::repeat_n(0, blob_words(bytes)).collect();
        LeafBuilder {
            blob,
            is_wide,
            base: first,
            count,
            filled: 0,
            offset: text_bytes,
            long_count: 0,
        }
    }

    /// Copies entries from a leaf.
    pub(in crate::points) fn append(&mut self, leaf: &Leaf, slots: Range<usize>) {
        if slots.is_empty() {
            return;
        }
        let (from, to) = (self.filled, self.filled + slots.len());
        self.copy_keys(leaf, slots.clone());
        let shift = short(self.offset).wrapping_sub(short(leaf.offset(slots.start)));
        let offsets_at = self.offsets_at();
        let (offsets, blob) = (&leaf.offsets()[slots.clone()], self.blob());
        let own = &mut cast_slice_mut::<u64, u16>(blob)[offsets_at..][from..to];
        for (own, &offset) in own.iter_mut().zip(offsets) {
            *own = offset.wrapping_add(shift);
        }
        let text = leaf.text(slots.clone());
        self.write_text(text.len()).copy_from_slice(text);
        if leaf.long_count() > 0 {
            self.long_count += slots.filter(|&slot| leaf.overflow_number(slot).is_some()).count();
        }
        self.filled = to;
    }

    /// Writes one entry.
    pub(in crate::points) fn push(&mut self, bits: u64, text: Text<'_>) {
        let (index, base, offsets_at) = (self.filled, self.base, self.offsets_at());
        let offset = short(self.offset);
        if self.is_wide {
            self.blob()[2 + index] = bits;
        } else {
            cast_slice_mut::<u64, u32>(self.blob())[4 + index] = narrow(bits - base);
        }
        cast_slice_mut::<u64, u16>(self.blob())[offsets_at + index] = offset;
        text.write(self.write_text(text.size()));
        self.long_count += usize::from(text.is_overflow());
        self.filled += 1;
    }

    /// The leaf; everything announced must have been written.
    pub(in crate::points) fn finish(mut self) -> Leaf {
        assert!(self.filled == self.count && self.offset == 0, "a builder is written in full");
        let (count, base) = (self.count as u64, self.base);
        let words = u64::from(short(self.blob.len()));
        let kind = u64::from(self.is_wide) << 16 | (self.long_count as u64) << 32;
        self.blob()[..2].copy_from_slice(&[count | kind | words << 48, base]);
        Leaf { blob: self.blob }
    }

    fn copy_keys(&mut self, leaf: &Leaf, slots: Range<usize>) {
        let (from, to, draft_base) = (self.filled, self.filled + slots.len(), self.base);
        if self.is_wide {
            let own = &mut self.blob()[2 + from..2 + to];
            for (own, slot) in own.iter_mut().zip(slots) {
                *own = leaf.cell_bits(slot);
            }
            return;
        }
        let own = &mut cast_slice_mut::<u64, u32>(self.blob())[4 + from..4 + to];
        match leaf.keys() {
            Keys::Narrow { base, deltas } => {
                // The lower halves suffice: cell - base fits, whichever of the bases is larger.
                let shift = base.wrapping_sub(draft_base) as u32;
                for (own, delta) in own.iter_mut().zip(&deltas[slots]) {
                    *own = delta.wrapping_add(shift);
                }
            }
            Keys::Wide(cells) => {
                for (own, cell) in own.iter_mut().zip(&cells[slots]) {
                    *own = narrow(cell - draft_base);
                }
            }
        }
    }

    /// Room for the next text.
    fn write_text(&mut self, size: usize) -> &mut [u8] {
        let at = self.blob.len() * 8 - self.offset;
        self.offset -= size;
        &mut cast_slice_mut::<u64, u8>(self.blob())[at..at + size]
    }

    /// Where the offsets begin, counted in offsets.
    fn offsets_at(&self) -> usize {
        let key_bytes = if self.is_wide { 8 } else { 4 };
        (HEADER_BYTES + key_bytes * self.count) / OFFSET_BYTES
    }

    fn blob(&mut self) -> &mut [u64] {
        Arc::get_mut(&mut self.blob).expect("nobody else has a builder's blob")
    }
}

impl LeafBuilder {
    /// A copy of a leaf without some of its entries, which ascend and are not all.
    pub(in crate::points) fn without(leaf: &Leaf, gone: impl Iterator<Item = usize>) -> Leaf {
        let mut runs: Vec<Range<usize>> = Vec::new();
        let mut start = 0;
        for slot in gone.chain([leaf.len()]) {
            runs.push(start..slot);
            start = slot + 1;
        }
        runs.retain(|run| !run.is_empty());
        let text_size = |run: &Range<usize>| leaf.offset(run.start) - leaf.offset(run.end);
        let text_bytes = runs.iter().map(text_size).sum();
        let count = runs.iter().map(ExactSizeIterator::len).sum();
        let (first, last) = (leaf.cell_bits(runs[0].start), runs[runs.len() - 1].end - 1);
        let mut builder = LeafBuilder::new(count, text_bytes, first, leaf.cell_bits(last));
        for run in runs {
            builder.append(leaf, run);
        }
        builder.finish()
    }
}

impl Leaf {
    /// A leaf of one entry.
    pub(in crate::points) fn of_one(bits: u64, text: Text<'_>) -> Leaf {
        let mut builder = LeafBuilder::new(1, text.size(), bits, bits);
        builder.push(bits, text);
        builder.finish()
    }

    /// Cuts the leaf in two before `slot`, which is neither the first nor after the last.
    pub(in crate::points) fn cut(&mut self, slot: usize) -> Leaf {
        let upper = self.part(slot..self.len());
        *self = self.part(0..slot);
        upper
    }

    /// Appends all entries of the leaf that follows this one.
    pub(in crate::points) fn append(&mut self, next: &Leaf) {
        let (count, text_bytes) = (self.len() + next.len(), self.text_bytes() + next.text_bytes());
        let mut builder = LeafBuilder::new(count, text_bytes, self.first(), next.last());
        builder.append(self, 0..self.len());
        builder.append(next, 0..next.len());
        *self = builder.finish();
    }

    /// The cell of the last entry.
    pub(in crate::points) fn last(&self) -> u64 {
        self.cell_bits(self.len() - 1)
    }

    pub(super) fn part(&self, slots: Range<usize>) -> Leaf {
        let text_bytes = self.offset(slots.start) - self.offset(slots.end);
        let (first, last) = (self.cell_bits(slots.start), self.cell_bits(slots.end - 1));
        let mut builder = LeafBuilder::new(slots.len(), text_bytes, first, last);
        builder.append(self, slots);
        builder.finish()
    }
}

/// The words of a blob that can hold this many bytes.
pub(super) fn blob_words(bytes: usize) -> usize {
    const BESIDE_WORDS: usize = COUNTS_BYTES / 8 + 1;
    let words = bytes.div_ceil(8) + BESIDE_WORDS;
    let step = (words - 1).ilog2().saturating_sub(2);
    words.next_multiple_of(1 << step) - BESIDE_WORDS
}

fn narrow(delta: u64) -> u32 {
    u32::try_from(delta).expect("a builder with a wider span has wide keys")
}

/// Texts of a leaf that are written as they are.
#[cfg(test)]
impl Leaf {
    pub(super) fn all_text(&self) -> &[u8] {
        &bytemuck::cast_slice::<u64, u8>(&self.blob)[self.size() - self.text_bytes()..]
    }
}
