//! A leaf and many edits become leaves again, in one pass.
//!
//! For: batches that change several entries of a leaf at once. Not for: single edits (`edit.rs`).
//!
//! ```text
//! leaf    │ a b c d e f g │          edits in order: - c, + d', - g
//! merged  │ a b │ d d' │ e f │       runs of the leaf copied, entries written between them
//!           cells, starts and text as three columns, however many entries there are
//! cut     │ a b d d' e f │           into leaves that are not too large; the first takes the
//!                                    old leaf's memory if nobody holds it and the size is right
//! ```
//!
//! Invariants: `cells` and `starts` have one item for each entry; texts lie one after the other.
//! Concurrency: a blob that somebody else holds is never written, a new one is made.
//! Cost: one binary search for each edit, one pass over the leaf's bytes and one back.

use std::ops::Range;
use std::sync::Arc;

use bytemuck::cast_slice_mut;

use super::draft::blob_words;
use super::{Edit, HEADER_BYTES, Keys, Leaf, MOST_ENTRIES, MOST_TEXT_BYTES, OFFSET_BYTES};
use crate::points::bulk::name::Texts;
use crate::points::outside::{Outside, Text, number_of};

/// Entries of a leaf that is made among others at once: a sixteenth is left for later ones.
const ENTRIES_MADE: usize = MOST_ENTRIES / 16 * 15;
const TEXT_BYTES_MADE: usize = MOST_TEXT_BYTES / 16 * 15;
/// So few edits are made one by one, if they find the leaf unshared.
const FEW_EDITS: usize = 2;

/// What became of a leaf.
#[derive(Debug)]
pub(in crate::points) enum Merged {
    /// It is as it was.
    Unchanged,
    /// It has other entries.
    Changed,
    /// It has become these, of which there may be none.
    Divided(Vec<Leaf>),
}

/// Columns for the entries of a leaf and what is to be added; kept from leaf to leaf.
#[derive(Debug, Default)]
pub(in crate::points) struct Merger {
    cells: Vec<u64>,
    /// Where each text begins.
    starts: Vec<u32>,
    text: Vec<u8>,
    long_count: usize,
}

impl Merger {
    /// Applies edits, which ascend, to a leaf. Removals that find nothing are appended to `missed`.
    pub(in crate::points) fn merge(
        &mut self,
        leaf: &mut Leaf,
        edits: &[Edit],
        texts: Texts<'_>,
        outside: &Outside,
        missed: &mut Vec<Edit>,
    ) -> Merged {
        if edits.len() <= FEW_EDITS
            && leaf.len() > FEW_EDITS
            && let Some(merged) = few(leaf, edits, texts, outside, missed)
        {
            return merged;
        }
        self.clear();
        // Slots before this one have been copied or left out.
        let mut done = 0;
        let mut edits = edits.iter();
        let mut is_changed = false;
        while let Some(edit) = edits.next() {
            match leaf.find(edit.bits(), edit.member(texts), outside) {
                Ok(slot) if !edit.is_insertion() => {
                    let next = edits.as_slice().first();
                    if next.is_some_and(|next| edit.is_undone_by(next, texts)) {
                        edits.next();
                        continue;
                    }
                    self.copy(leaf, done..slot);
                    done = slot + 1;
                    is_changed = true;
                }
                Err(slot) if edit.is_insertion() => {
                    self.copy(leaf, done..slot);
                    done = slot;
                    self.push(edit.bits(), edit.member(texts));
                    is_changed = true;
                }
                Ok(_) => {}
                Err(_) => missed.push(*edit),
            }
        }
        if !is_changed {
            return Merged::Unchanged;
        }
        self.copy(leaf, done..leaf.len());
        if self.cells.is_empty() || self.is_too_much() {
            return Merged::Divided(self.leaves());
        }
        self.write_to(leaf);
        Merged::Changed
    }

    /// Leaves of nothing but what edits bring.
    pub(in crate::points) fn gather(
        &mut self,
        edits: &[Edit],
        texts: Texts<'_>,
        missed: &mut Vec<Edit>,
    ) -> Vec<Leaf> {
        self.clear();
        for edit in edits {
            if edit.is_insertion() {
                self.push(edit.bits(), edit.member(texts));
            } else {
                missed.push(*edit);
            }
        }
        self.leaves()
    }

    fn clear(&mut self) {
        self.cells.clear();
        self.starts.clear();
        self.text.clear();
        self.long_count = 0;
    }

    fn is_too_much(&self) -> bool {
        self.cells.len() > MOST_ENTRIES || self.text.len() > MOST_TEXT_BYTES
    }

    /// Copies entries of a leaf.
    #[inline]
    fn copy(&mut self, leaf: &Leaf, slots: Range<usize>) {
        if slots.is_empty() {
            return;
        }
        match leaf.keys() {
            Keys::Narrow { base, deltas } => {
                self.cells.extend(deltas[slots.clone()].iter().map(|&d| base + u64::from(d)));
            }
            Keys::Wide(cells) => self.cells.extend_from_slice(&cells[slots.clone()]),
        }
        let offsets = &leaf.offsets()[slots.clone()];
        // Offsets fall from the first text on as the starts rise.
        let shift = self.text.len() as u32 + u32::from(offsets[0]);
        self.starts.extend(offsets.iter().map(|&offset| shift - u32::from(offset)));
        if leaf.long_count() > 0 {
            let is_long = |&slot: &usize| leaf.outside_number(slot).is_some();
            self.long_count += slots.clone().filter(is_long).count();
        }
        self.text.extend_from_slice(leaf.text(slots));
    }

    fn push(&mut self, bits: u64, member: &[u8]) {
        let (start, text) = (self.text.len(), Text::Inside(member));
        self.cells.push(bits);
        self.starts.push(start as u32);
        self.text.resize(start + text.size(), 0);
        text.write(&mut self.text[start..]);
    }

    /// All entries as leaves of about equal sizes.
    fn leaves(&self) -> Vec<Leaf> {
        let count = self.cells.len();
        let by_text = self.text.len().div_ceil(TEXT_BYTES_MADE);
        let wanted = count.div_ceil(ENTRIES_MADE).max(by_text);
        let most = count.div_ceil(wanted.max(1));
        let mut leaves = Vec::with_capacity(wanted);
        let mut start = 0;
        while start < count {
            let text_limit = self.start(start) + MOST_TEXT_BYTES;
            let fitting = (start + 1..=start + most.min(count - start))
                .rfind(|&end| self.start(end) <= text_limit);
            // A single text is far from the limit, so that one entry always fits.
            let end = fitting.unwrap_or(start + 1);
            leaves.push(self.leaf(start..end));
            start = end;
        }
        leaves
    }

    fn leaf(&self, entries: Range<usize>) -> Leaf {
        let words = blob_words(self.bytes(&entries));
        let mut blob: Arc<[u64]> = std::iter::repeat_n(0, words).collect();
        self.fill(Arc::get_mut(&mut blob).expect("nobody else has it yet"), entries);
        Leaf { blob }
    }

    /// Makes the leaf have all entries, in its own memory if that has the right size.
    fn write_to(&self, leaf: &mut Leaf) {
        let all = 0..self.cells.len();
        let bytes = self.bytes(&all);
        let held = leaf.blob.len();
        // As `Leaf::remove` does: a sixteenth of room may be left over.
        let has_size = blob_words(bytes) <= held && held <= blob_words(bytes + bytes / 16);
        match Arc::get_mut(&mut leaf.blob) {
            Some(blob) if has_size => self.fill(blob, all),
            _ => *leaf = self.leaf(all),
        }
    }

    /// Where a text begins, or where the last one ends.
    fn start(&self, entry: usize) -> usize {
        self.starts.get(entry).map_or(self.text.len(), |&start| start as usize)
    }

    fn is_wide(&self, entries: &Range<usize>) -> bool {
        self.cells[entries.end - 1] - self.cells[entries.start] > u64::from(u32::MAX)
    }

    fn bytes(&self, entries: &Range<usize>) -> usize {
        let key_bytes = if self.is_wide(entries) { 8 } else { 4 };
        let text_bytes = self.start(entries.end) - self.start(entries.start);
        HEADER_BYTES + (key_bytes + OFFSET_BYTES) * entries.len() + text_bytes
    }

    /// Writes a leaf of these entries.
    fn fill(&self, blob: &mut [u64], entries: Range<usize>) {
        let (count, base) = (entries.len(), self.cells[entries.start]);
        let is_wide = self.is_wide(&entries);
        let text = &self.text[self.start(entries.start)..self.start(entries.end)];
        let (cells, starts) = (&self.cells[entries.clone()], &self.starts[entries.clone()]);
        let is_long = |start: &&u32| number_of(&self.text[**start as usize..][..5]).is_some();
        let long_count = match self.long_count {
            0 => 0,
            _ => starts.iter().filter(is_long).count(),
        };
        let kind = u64::from(is_wide) << 16 | (long_count as u64) << 32;
        blob[0] = count as u64 | kind | (blob.len() as u64) << 48;
        blob[1] = base;
        let offsets_at = if is_wide {
            blob[2..2 + count].copy_from_slice(cells);
            (HEADER_BYTES + 8 * count) / OFFSET_BYTES
        } else {
            let deltas = &mut cast_slice_mut::<u64, u32>(blob)[4..4 + count];
            for (delta, cell) in deltas.iter_mut().zip(cells) {
                *delta = (cell - base) as u32;
            }
            (HEADER_BYTES + 4 * count) / OFFSET_BYTES
        };
        let end = self.start(entries.end) as u32;
        assert!(text.len() <= MOST_TEXT_BYTES, "offsets have sixteen bits");
        let offsets = &mut cast_slice_mut::<u64, u16>(blob)[offsets_at..offsets_at + count];
        for (offset, start) in offsets.iter_mut().zip(starts) {
            *offset = (end - start) as u16;
        }
        let bytes: &mut [u8] = cast_slice_mut(blob);
        let text_at = bytes.len() - text.len();
        bytes[text_at..].copy_from_slice(text);
    }
}

/// Applies a few edits in place. `None` if that is not the way, and nothing has been done.
fn few(
    leaf: &mut Leaf,
    edits: &[Edit],
    texts: Texts<'_>,
    outside: &Outside,
    missed: &mut Vec<Edit>,
) -> Option<Merged> {
    let more: usize = edits.iter().map(|edit| Text::Inside(edit.member(texts)).size()).sum();
    if leaf.len() + edits.len() > MOST_ENTRIES || leaf.text_bytes() + more > MOST_TEXT_BYTES {
        return None;
    }
    if let [edit, next] = edits
        && edit.is_undone_by(next, texts)
        && leaf.find(edit.bits(), edit.member(texts), outside).is_ok()
    {
        return Some(Merged::Unchanged);
    }
    let mut merged = Merged::Unchanged;
    for edit in edits {
        match leaf.find(edit.bits(), edit.member(texts), outside) {
            Ok(slot) if !edit.is_insertion() => Leaf::remove(leaf, slot),
            Err(slot) if edit.is_insertion() => {
                Leaf::insert(leaf, slot, edit.bits(), Text::Inside(edit.member(texts)));
            }
            Ok(_) => continue,
            Err(_) => {
                missed.push(*edit);
                continue;
            }
        }
        merged = Merged::Changed;
    }
    Some(merged)
}

impl Leaf {
    /// Asks for all of the leaf.
    pub(in crate::points) fn prefetch_all(&self) {
        for word in (0..self.blob.len()).step_by(8) {
            whered_cpu::prefetch(&self.blob, word);
        }
    }
}

const _: () = assert!(MOST_TEXT_BYTES <= u16::MAX as usize);
