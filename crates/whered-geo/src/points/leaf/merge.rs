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
//! Runs are copied in whole chunks: what is behind the last entry means nothing.
//! Concurrency: a blob that somebody else holds is never written, a new one is made.
//! Cost: one pass over the leaf's bytes and one back.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use bytemuck::{cast_slice, cast_slice_mut};

use super::builder::blob_words;
use super::{Edit, HEADER_BYTES, Keys, Leaf, MOST_ENTRIES, MOST_TEXT_BYTES, OFFSET_BYTES};
use crate::points::bulk::name::Texts;
use crate::points::overflow::{Overflow, Text, inside_member_of, number_of};

/// Entries of a leaf that is made among others at once: a sixteenth is left for later ones.
const ENTRIES_MADE: usize = MOST_ENTRIES / 16 * 15;
const TEXT_BYTES_MADE: usize = MOST_TEXT_BYTES / 16 * 15;
/// So few edits are made one by one, if they find the leaf unshared.
const FEW_EDITS: usize = 2;

/// The result of merging a leaf.
#[derive(Debug)]
pub(in crate::points) enum MergeResult {
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
    /// The first `count` are in use, and so is `text` up to `text_len`.
    cells: Vec<u64>,
    /// Where each text begins.
    starts: Vec<u32>,
    text: Vec<u8>,
    count: usize,
    text_len: usize,
    long_count: usize,
}

/// A leaf whose header has been read.
struct Old<'l> {
    leaf: &'l Leaf,
    keys: Keys<'l>,
    offsets: &'l [u16],
    bytes: &'l [u8],
}

impl<'l> Old<'l> {
    fn new(leaf: &'l Leaf) -> Old<'l> {
        let (keys, offsets) = (leaf.keys(), leaf.offsets());
        Old { leaf, keys, offsets, bytes: cast_slice(&leaf.blob) }
    }

    /// Where an entry is (`Ok`) or would be inserted (`Err`); all before `from` are before it.
    #[inline]
    fn find(
        &self,
        from: usize,
        bits: u64,
        member: &[u8],
        overflow: &Overflow,
    ) -> Result<usize, usize> {
        let slot = self.keys.skip(from, bits);
        if !self.keys.has(slot, bits) {
            return Err(slot);
        }
        if self.keys.has(slot + 1, bits) {
            return self.leaf.find(bits, member, overflow);
        }
        let text = &self.bytes[self.text_at(slot)..self.text_at(slot + 1)];
        let there = match number_of(text) {
            Some(number) => overflow.member(number),
            None => inside_member_of(text),
        };
        match there.cmp(member) {
            Ordering::Equal => Ok(slot),
            Ordering::Less => Err(slot + 1),
            Ordering::Greater => Err(slot),
        }
    }

    /// Where a text begins in the blob; the blob's end after the last one.
    fn text_at(&self, slot: usize) -> usize {
        self.bytes.len() - self.offsets.get(slot).map_or(0, |&offset| usize::from(offset))
    }
}

impl Keys<'_> {
    /// Whether a slot has this cell; there may be no such slot.
    #[inline]
    fn has(&self, slot: usize, bits: u64) -> bool {
        match *self {
            Keys::Narrow { base, deltas } => {
                deltas.get(slot).is_some_and(|&delta| base + u64::from(delta) == bits)
            }
            Keys::Wide(cells) => cells.get(slot) == Some(&bits),
        }
    }

    /// The first slot from `from` on whose cell is not below this one.
    #[inline]
    fn skip(&self, from: usize, bits: u64) -> usize {
        match *self {
            Keys::Narrow { base, deltas } => match bits.checked_sub(base).map(u32::try_from) {
                None => from,
                Some(Err(_)) => deltas.len(),
                Some(Ok(wanted)) => skip(deltas, from, wanted),
            },
            Keys::Wide(cells) => skip(cells, from, bits),
        }
    }
}

/// Edits of a batch are some entries apart: looking on from the last one takes fewer steps than
/// halving the leaf, and none that the processor would guess wrong more than once.
#[inline]
fn skip<T: Copy + PartialOrd>(keys: &[T], from: usize, wanted: T) -> usize {
    const FAR: usize = 32;
    let mut at = from;
    while keys.get(at + FAR - 1).is_some_and(|key| *key < wanted) {
        at += FAR;
    }
    while let Some(some) = keys[at..].first_chunk::<CHUNK>() {
        let below = some.iter().filter(|key| **key < wanted).count();
        at += below;
        if below < CHUNK {
            return at;
        }
    }
    at + keys[at..].iter().take_while(|key| **key < wanted).count()
}

/// Items that are copied or compared at once.
const CHUNK: usize = 8;
/// Bytes of text that are copied at once.
const TEXT_CHUNK: usize = 32;

/// Copies items and, up to the end of a chunk, what comes after them. A call for each short run
/// would take longer than its copy.
#[inline]
fn copy_in_chunks<const N: usize, S: Copy, T>(
    to: &mut [T],
    from: &[S],
    run: Range<usize>,
    make: impl Fn(S) -> T,
) {
    for (at, start) in run.clone().step_by(N).enumerate() {
        let to = &mut to[at * N..];
        match (from[start..].first_chunk::<N>(), to.first_chunk_mut::<N>()) {
            (Some(some), Some(room)) => {
                for (room, &item) in room.iter_mut().zip(some) {
                    *room = make(item);
                }
            }
            _ => {
                for (room, &item) in to.iter_mut().zip(&from[start..run.end]) {
                    *room = make(item);
                }
            }
        }
    }
}

impl Merger {
    /// Applies edits, which ascend, to a leaf. Removals that find nothing are appended to `missed`.
    pub(in crate::points) fn merge(
        &mut self,
        leaf: &mut Leaf,
        edits: &[Edit],
        texts: Texts<'_>,
        overflow: &Overflow,
        missed: &mut Vec<Edit>,
    ) -> MergeResult {
        if edits.len() <= FEW_EDITS
            && leaf.len() > FEW_EDITS
            && let Some(merged) = few(leaf, edits, texts, overflow, missed)
        {
            return merged;
        }
        self.clear(leaf.len(), leaf.text_bytes(), edits, texts);
        let old = Old::new(leaf);
        // Slots before this one have been copied or left out.
        let mut done = 0;
        let mut edits = edits.iter();
        let mut is_changed = false;
        while let Some(edit) = edits.next() {
            let member = edit.member(texts);
            match old.find(done, edit.bits(), member, overflow) {
                Ok(slot) if !edit.is_insertion() => {
                    let next = edits.as_slice().first();
                    if next.is_some_and(|next| edit.is_undone_by(next, texts)) {
                        edits.next();
                        continue;
                    }
                    self.copy(&old, done..slot);
                    done = slot + 1;
                    is_changed = true;
                }
                Err(slot) if edit.is_insertion() => {
                    self.copy(&old, done..slot);
                    done = slot;
                    self.push(edit.bits(), member);
                    is_changed = true;
                }
                Ok(_) => {}
                Err(_) => missed.push(*edit),
            }
        }
        if !is_changed {
            return MergeResult::Unchanged;
        }
        self.copy(&old, done..old.offsets.len());
        if self.count == 0 || self.is_too_much() {
            return MergeResult::Divided(self.leaves());
        }
        self.write_to(leaf);
        MergeResult::Changed
    }

    /// Leaves of nothing but what edits bring.
    pub(in crate::points) fn gather(
        &mut self,
        edits: &[Edit],
        texts: Texts<'_>,
        missed: &mut Vec<Edit>,
    ) -> Vec<Leaf> {
        self.clear(0, 0, edits, texts);
        for edit in edits {
            if edit.is_insertion() {
                self.push(edit.bits(), edit.member(texts));
            } else {
                missed.push(*edit);
            }
        }
        self.leaves()
    }

    /// Empties the columns and reserves memory for entries and bytes and what edits add.
    fn clear(&mut self, entries: usize, text_bytes: usize, edits: &[Edit], texts: Texts<'_>) {
        (self.count, self.text_len, self.long_count) = (0, 0, 0);
        let entries = entries + edits.len() + CHUNK;
        if self.cells.len() < entries {
            self.cells.resize(entries, 0);
            self.starts.resize(entries, 0);
        }
        let sizes = edits.iter().map(|edit| Text::Inside(edit.member(texts)).size());
        let bytes = text_bytes + sizes.sum::<usize>() + TEXT_CHUNK;
        if self.text.len() < bytes {
            self.text.resize(bytes, 0);
        }
    }

    fn is_too_much(&self) -> bool {
        self.count > MOST_ENTRIES || self.text_len > MOST_TEXT_BYTES
    }

    /// Copies entries of a leaf.
    #[inline]
    fn copy(&mut self, old: &Old<'_>, slots: Range<usize>) {
        if slots.is_empty() {
            return;
        }
        let cells = &mut self.cells[self.count..];
        match old.keys {
            Keys::Narrow { base, deltas } => {
                let cell = |delta| base + u64::from(delta);
                copy_in_chunks::<CHUNK, _, _>(cells, deltas, slots.clone(), cell);
            }
            Keys::Wide(from) => {
                copy_in_chunks::<CHUNK, _, _>(cells, from, slots.clone(), |cell| cell);
            }
        }
        let text = old.text_at(slots.start)..old.text_at(slots.end);
        // Offsets fall from the first text on as the starts rise.
        let shift = self.text_len as u32 + u32::from(old.offsets[slots.start]);
        let starts = &mut self.starts[self.count..];
        let start = |offset| shift - u32::from(offset);
        copy_in_chunks::<CHUNK, _, _>(starts, old.offsets, slots.clone(), start);
        if old.leaf.long_count() > 0 {
            let is_long = |&slot: &usize| old.leaf.overflow_number(slot).is_some();
            self.long_count += slots.clone().filter(is_long).count();
        }
        self.count += slots.len();
        let room = &mut self.text[self.text_len..];
        self.text_len += text.len();
        copy_in_chunks::<TEXT_CHUNK, _, _>(room, old.bytes, text, |byte| byte);
    }

    fn push(&mut self, bits: u64, member: &[u8]) {
        let text = Text::Inside(member);
        self.cells[self.count] = bits;
        self.starts[self.count] = self.text_len as u32;
        self.count += 1;
        let end = self.text_len + text.size();
        text.write(&mut self.text[self.text_len..end]);
        self.text_len = end;
    }

    /// All entries as leaves of about equal sizes.
    fn leaves(&self) -> Vec<Leaf> {
        let count = self.count;
        let by_text = self.text_len.div_ceil(TEXT_BYTES_MADE);
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
        let all = 0..self.count;
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
        if entry == self.count { self.text_len } else { self.starts[entry] as usize }
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
    overflow: &Overflow,
    missed: &mut Vec<Edit>,
) -> Option<MergeResult> {
    let more: usize = edits.iter().map(|edit| Text::Inside(edit.member(texts)).size()).sum();
    if leaf.len() + edits.len() > MOST_ENTRIES || leaf.text_bytes() + more > MOST_TEXT_BYTES {
        return None;
    }
    if let [edit, next] = edits
        && edit.is_undone_by(next, texts)
        && leaf.find(edit.bits(), edit.member(texts), overflow).is_ok()
    {
        return Some(MergeResult::Unchanged);
    }
    let mut merged = MergeResult::Unchanged;
    for edit in edits {
        match leaf.find(edit.bits(), edit.member(texts), overflow) {
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
        merged = MergeResult::Changed;
    }
    Some(merged)
}

impl Leaf {
    /// Asks for all of the leaf.
    pub(in crate::points) fn prefetch_all(&self) {
        for word in (0..self.blob.len()).step_by(8) {
            whered_simd::prefetch(&self.blob, word);
        }
    }
}

const _: () = assert!(MOST_TEXT_BYTES <= u16::MAX as usize);
