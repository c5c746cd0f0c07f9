//! A leaf: up to 256 neighbouring entries of a collection in one piece of memory.
//!
//! For: entries in (cell, member) order, with members in the form in which replies carry them.
//! Not for: finding the leaf (`branch.rs`), changing it (`edit.rs` in place, `builder.rs` anew), or
//! long members (`overflow.rs`).
//!
//! ```text
//! u16    │ count │ wide? │ long │ words │ 8 bytes; `long` = entries in the overflow store,
//!                                         `words` = length of the blob, 8 bytes each
//! u64    │ base                        │ the smallest cell that a narrow key can say
//! keys   │ d0 │ d1 │ d2 │ ...            u32, cell - base; u64 cells if the leaf spans 2^32
//! u16    │ o0 │ o1 │ o2 │ ...            where each text begins, counted from the blob's end
//!        │ free                          room for growth, see `builder.rs`
//! text   │ $3\r\nfra\r\n │ !0007 │ ...   one after the other in the same order, up to the end
//! ```
//!
//! Storage format of a text, which replies copy as it stands: the RESP bulk string `$`, length in
//! decimal, CRLF, the member's bytes, CRLF. A member longer than
//! [`LONGEST_INSIDE_BYTES`](super::overflow::LONGEST_INSIDE_BYTES) is in the overflow store; its
//! entry is `!` and its number there, 4 bytes little endian. So a leaf's text stays below 64 KiB
//! whatever the members are, and `u16` suffices.
//!
//! Invariants: (cell, member) ascends strictly; a leaf in the tree is never empty and has at most
//! [`MOST_ENTRIES`] entries and [`MOST_TEXT_BYTES`] bytes of text. The blob is written only while
//! nobody else holds it; a frozen view keeps the blob it has, and the writer a copy.
//! Cost: finding an entry is a binary search; an edit in place moves some 2 KB at most.

mod builder;
mod edit;
mod edits;
mod merge;
mod stored;

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use bytemuck::cast_slice;

use super::memory;
use super::overflow::{self, Overflow};
pub(super) use builder::LeafBuilder;
pub(super) use edits::{Edit, Edits, Sorter};
pub(super) use merge::{MergeResult, Merger};
pub(super) use stored::{LeafFault, words_of};

/// The most entries of a leaf.
pub(super) const MOST_ENTRIES: usize = 256;
/// The most bytes of text in a leaf with more than one entry.
pub(super) const MOST_TEXT_BYTES: usize = 32 << 10;

/// Into how many parts the keys are cut where not all of them are prefetched.
const PARTS: usize = 4;

const HEADER_BYTES: usize = 16;
const OFFSET_BYTES: usize = 2;
/// The reference counts in front of a shared blob.
const COUNTS_BYTES: usize = 16;

/// Entries in (cell, member) order.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    blob: Arc<[u64]>,
}

/// The cells of a leaf as they are stored.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Keys<'a> {
    /// The cells are `base` plus each of the deltas.
    Narrow {
        /// The record to add.
        base: u64,
        /// Ascending.
        deltas: &'a [u32],
    },
    /// The cells themselves; only where they span 2^32 and more, or lately did.
    Wide(&'a [u64]),
}

impl Keys<'_> {
    /// The number of cells before the first that is at least this one.
    pub(crate) fn rank(&self, bits: u64) -> usize {
        match *self {
            Keys::Narrow { base, deltas } => match bits.checked_sub(base).map(u32::try_from) {
                None => 0,
                Some(Err(_)) => deltas.len(),
                Some(Ok(wanted)) => deltas.partition_point(|&delta| delta < wanted),
            },
            Keys::Wide(cells) => cells.partition_point(|&cell| cell < bits),
        }
    }
}

impl Leaf {
    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        (self.blob[0] & 0xffff) as usize
    }

    /// The cells of all entries, ascending.
    pub(crate) fn keys(&self) -> Keys<'_> {
        let count = self.len();
        if self.is_wide() {
            Keys::Wide(&self.blob[2..2 + count])
        } else {
            let words: &[u32] = cast_slice(&self.blob);
            Keys::Narrow { base: self.blob[1], deltas: &words[4..4 + count] }
        }
    }

    /// The cell of an entry.
    pub(crate) fn cell_bits(&self, slot: usize) -> u64 {
        match self.keys() {
            Keys::Narrow { base, deltas } => base + u64::from(deltas[slot]),
            Keys::Wide(cells) => cells[slot],
        }
    }

    /// The cell of the first entry.
    pub(super) fn first(&self) -> u64 {
        self.cell_bits(0)
    }

    /// The member of an entry.
    pub(crate) fn member<'a>(&'a self, slot: usize, overflow: &'a Overflow) -> &'a [u8] {
        let text = self.text(slot..slot + 1);
        match overflow::number_of(text) {
            Some(number) => overflow.member(number),
            None => overflow::inside_member_of(text),
        }
    }

    /// The reply-ready texts of neighbouring entries in one piece; `None` if one of them is a
    /// long member, which is in the overflow store.
    pub(crate) fn bulks(&self, slots: Range<usize>) -> Option<&[u8]> {
        let has_long = self.long_count() > 0
            && slots.clone().any(|slot| overflow::number_of(self.text(slot..slot + 1)).is_some());
        (!has_long).then(|| self.text(slots))
    }

    /// The reply-ready text of an entry, wherever it lies.
    pub(crate) fn bulk<'a>(&'a self, slot: usize, overflow: &'a Overflow) -> &'a [u8] {
        let text = self.text(slot..slot + 1);
        overflow::number_of(text).map_or(text, |number| overflow.bulk(number))
    }

    /// The number of an entry's member in the overflow store, if it is there.
    pub(super) fn overflow_number(&self, slot: usize) -> Option<u32> {
        if self.long_count() == 0 {
            return None;
        }
        overflow::number_of(self.text(slot..slot + 1))
    }

    /// Where the entry is (`Ok`) or would be inserted (`Err`).
    pub(super) fn find(
        &self,
        bits: u64,
        member: &[u8],
        overflow: &Overflow,
    ) -> Result<usize, usize> {
        let keys = self.keys();
        let first = keys.rank(bits);
        // Nearly always there is one entry in a cell or none, so the end of the ties is looked for
        // entry by entry only as far as it takes to see that.
        let mut slot = first;
        let mut ties = match self.is_tie(first, bits) {
            false => 0,
            true if !self.is_tie(first + 1, bits) => 1,
            true => keys.rank(bits + 1) - first,
        };
        while ties > 0 {
            let half = ties / 2;
            match self.member(slot + half, overflow).cmp(member) {
                Ordering::Equal => return Ok(slot + half),
                Ordering::Less => {
                    slot += half + 1;
                    ties -= half + 1;
                }
                Ordering::Greater => ties = half,
            }
        }
        Err(slot)
    }

    fn is_tie(&self, slot: usize, bits: u64) -> bool {
        slot < self.len() && self.cell_bits(slot) == bits
    }

    /// The bytes that the allocator takes for the blob, spare capacity included.
    pub(super) fn memory_bytes(&self) -> usize {
        memory::allocated_shared(self.size())
    }

    /// Asks for the header and the keys, before anything of the leaf was read.
    pub(super) fn prefetch_keys(&self) {
        // A key is a fifth of an entry in ordinary collections; what is asked for in vain is in
        // the same page and costs little.
        for word in (0..self.blob.len() / 5 + 2).step_by(8) {
            whered_simd::prefetch(&self.blob, word);
        }
    }

    /// Asks for the header and the keys that [`Leaf::prefetch_part`] reads, before anything of the
    /// leaf was read.
    pub(super) fn prefetch_samples(&self) {
        let keys = self.blob.len() / 5;
        for part in 0..PARTS {
            whered_simd::prefetch(&self.blob, 2 + keys * part / PARTS);
        }
    }

    /// Asks for the part of the keys where a cell is found, of four parts; the samples should be
    /// there.
    pub(super) fn prefetch_part(&self, bits: u64) {
        let (count, first_word) = (self.len(), HEADER_BYTES / 8);
        let per_word = 8 / self.key_bytes();
        let guessed = (self.blob.len() / 5 * per_word).min(count);
        let sample = |part: usize| guessed * part / PARTS;
        let part = (1..PARTS).take_while(|&part| self.cell_bits(sample(part)) < bits).count();
        let end = if part + 1 == PARTS { count } else { sample(part + 1) };
        for slot in (sample(part)..end).step_by(8 * per_word) {
            whered_simd::prefetch(&self.blob, first_word + slot / per_word);
        }
        whered_simd::prefetch(&self.blob, first_word + end / per_word);
    }

    /// Asks for the header only.
    pub(super) fn prefetch_header(&self) {
        whered_simd::prefetch(&self.blob, 0);
    }

    /// Asks for where an entry's text is said to be; the header should be there.
    pub(super) fn prefetch_offset(&self, slot: usize) {
        let at = self.offsets_at(self.len()) + OFFSET_BYTES * slot;
        whered_simd::prefetch(&self.blob, at / 8);
    }

    /// Asks for an entry's text; its offset should be there.
    pub(super) fn prefetch_text(&self, slot: usize) {
        let at = self.size() - self.offset(slot);
        whered_simd::prefetch(&self.blob, at / 8);
        // An ordinary text may go on in the next line.
        whered_simd::prefetch(&self.blob, at / 8 + 2);
    }

    /// Whether the entry in this slot is this one; the slot may be the one after the last.
    pub(super) fn has(&self, slot: usize, bits: u64, member: &[u8], overflow: &Overflow) -> bool {
        self.is_tie(slot, bits) && self.member(slot, overflow) == member
    }

    /// Whether an entry in this cell belongs before this slot, where no other can be: both
    /// neighbours are there, and in other cells.
    pub(super) fn is_between(&self, slot: usize, bits: u64) -> bool {
        slot > 0
            && slot < self.len()
            && self.cell_bits(slot - 1) < bits
            && bits < self.cell_bits(slot)
    }

    /// Asks for what an insertion into this cell, or a removal from it, moves; the keys should be
    /// there. Of the texts only both ends: between them the processor sees what comes. Returns the
    /// rank of the cell.
    pub(super) fn prefetch_edit(&self, bits: u64) -> usize {
        let (rank, offsets) = (self.keys().rank(bits), self.offsets_at(self.len()) / 8);
        self.prefetch_words(self.key_word(rank)..offsets + 1);
        self.prefetch_words(offsets..offsets + rank / 4 + 1);
        let (first, last) = (self.text_word(0), self.text_word(rank));
        self.prefetch_words(first..first + 16);
        self.prefetch_words(last.saturating_sub(8)..last + 9);
        rank
    }

    /// Asks for all that a move between two cells of the leaf moves; the keys should be there.
    /// Returns the ranks of both.
    pub(super) fn prefetch_move(&self, from: u64, to: u64) -> (usize, usize) {
        let (keys, offsets) = (self.keys(), self.offsets_at(self.len()) / 8);
        let ranks = (keys.rank(from), keys.rank(to));
        let (low, high) = (ranks.0.min(ranks.1), ranks.0.max(ranks.1));
        self.prefetch_words(self.key_word(low)..self.key_word(high) + 1);
        self.prefetch_words(offsets + low / 4..offsets + high / 4 + 1);
        self.prefetch_words(self.text_word(low)..self.text_word(high + 1) + 8);
        ranks
    }

    fn prefetch_words(&self, words: Range<usize>) {
        for word in words.step_by(8) {
            whered_simd::prefetch(&self.blob, word);
        }
    }

    /// The word that a key is in.
    fn key_word(&self, slot: usize) -> usize {
        (HEADER_BYTES + self.key_bytes() * slot) / 8
    }

    /// The word where a text is likely to begin: as if all were of one length, so that the offsets
    /// need not be waited for.
    fn text_word(&self, slot: usize) -> usize {
        let (count, words) = (self.len(), self.blob.len());
        let texts = self.offsets_at(count) / 8 + count / 4;
        texts + (words - texts) * slot / count
    }

    /// Texts of neighbouring entries.
    fn text(&self, slots: Range<usize>) -> &[u8] {
        let (offsets, size) = (self.offsets(), self.size());
        let edge = |slot: usize| size - offsets.get(slot).map_or(0, |&offset| usize::from(offset));
        &cast_slice::<u64, u8>(&self.blob)[edge(slots.start)..edge(slots.end)]
    }

    /// All texts together.
    fn text_bytes(&self) -> usize {
        self.offset(0)
    }

    /// How far before the blob's end a text begins; 0 for the slot after the last one.
    fn offset(&self, slot: usize) -> usize {
        self.offsets().get(slot).map_or(0, |&offset| usize::from(offset))
    }

    fn offsets(&self) -> &[u16] {
        let (count, numbers): (usize, &[u16]) = (self.len(), cast_slice(&self.blob));
        let at = self.offsets_at(count) / OFFSET_BYTES;
        &numbers[at..at + count]
    }

    /// Where the offsets begin if there are this many keys.
    fn offsets_at(&self, count: usize) -> usize {
        HEADER_BYTES + self.key_bytes() * count
    }

    fn key_bytes(&self) -> usize {
        if self.is_wide() { 8 } else { 4 }
    }

    fn is_wide(&self) -> bool {
        self.blob[0] >> 16 & 0xffff != 0
    }

    fn long_count(&self) -> usize {
        (self.blob[0] >> 32 & 0xffff) as usize
    }

    /// Bytes of the blob.
    fn size(&self) -> usize {
        self.blob.len() * 8
    }

    /// Bytes of the blob that are in use.
    fn used_bytes(&self) -> usize {
        self.offsets_at(self.len()) + OFFSET_BYTES * self.len() + self.text_bytes()
    }
}

/// An offset; leaves are split long before it could overflow.
fn short(offset: usize) -> u16 {
    u16::try_from(offset).expect("a leaf has less than 64 KiB of text")
}

#[cfg(test)]
#[path = "leaf_tests.rs"]
mod tests;
