//! Changing a leaf: in place where the blob has room, else by a builder.
//!
//! For: one entry more, one less, one elsewhere. Not for: balance (`branch.rs`).
//!
//! ```text
//! insert   keys   │ a b c │        ──►  │ a b N c │            what follows moves up
//!          texts        │ A B C │  ──►     │ A B N C │         what comes before moves down
//! ```
//!
//! Texts are counted from the blob's end, so an insertion changes only the offsets before it.
//! Concurrency: a blob that a frozen view holds is copied first (`Arc::make_mut`), and the copy
//! edited; the layout is the same, so that the copy is one `memcpy`.
//! Cost: half of the keys, offsets and texts are moved on average, some 2 KB; a change of place
//! within the leaf moves what lies between.

use std::ops::Range;
use std::sync::Arc;

use bytemuck::cast_slice_mut;

use super::builder::blob_words;
use super::{Leaf, LeafBuilder, MOST_ENTRIES, MOST_TEXT_BYTES, OFFSET_BYTES, short};
use crate::points::overflow::Text;

impl Leaf {
    /// Whether one more entry with such a text would be too much.
    pub(in crate::points) fn is_full_for(&self, text: Text<'_>) -> bool {
        self.len() >= MOST_ENTRIES || self.text_bytes() + text.size() > MOST_TEXT_BYTES
    }

    /// Whether this leaf and the next one would make a leaf that is no more than three quarters
    /// full, so that one insertion does not split it again.
    pub(in crate::points) fn can_take(&self, next: &Leaf) -> bool {
        self.len() + next.len() <= MOST_ENTRIES / 4 * 3
            && self.text_bytes() + next.text_bytes() <= MOST_TEXT_BYTES / 4 * 3
    }

    /// Where a full leaf is best cut before an entry is inserted at `slot`: in the middle, of the
    /// text if that is what is too large. Entries that arrive in order leave full leaves behind.
    pub(in crate::points) fn cut_for(&self, slot: usize) -> usize {
        let count = self.len();
        if slot == count {
            return (count - count / 16).min(count - 1).max(1);
        }
        if count >= MOST_ENTRIES {
            return count / 2;
        }
        let half = self.text_bytes() / 2;
        self.offsets().partition_point(|&offset| usize::from(offset) > half).clamp(1, count - 1)
    }

    /// Inserts an entry before `slot`.
    pub(in crate::points) fn insert(&mut self, slot: usize, bits: u64, text: Text<'_>) {
        let more = self.key_bytes() + OFFSET_BYTES + text.size();
        if self.used_bytes() + more <= self.size() && self.make_sayable(bits) {
            self.insert_in_place(slot, bits, text);
            return;
        }
        let count = self.len();
        let (first, last) = (self.first().min(bits), self.last().max(bits));
        let mut builder = LeafBuilder::new(count + 1, self.text_bytes() + text.size(), first, last);
        builder.append(self, 0..slot);
        builder.push(bits, text);
        builder.append(self, slot..count);
        *self = builder.finish();
    }

    /// Removes an entry; the leaf has others.
    pub(in crate::points) fn remove(&mut self, slot: usize) {
        let size = self.offset(slot) - self.offset(slot + 1);
        let left = self.used_bytes() - size - self.key_bytes() - OFFSET_BYTES;
        // A sixteenth of room is left, so that entries that come and go do not copy the leaf.
        if blob_words(left + left / 16) >= self.blob.len() {
            self.remove_in_place(slot);
            return;
        }
        let count = self.len();
        let first = self.cell_bits(usize::from(slot == 0));
        let last = self.cell_bits(if slot + 1 == count { slot - 1 } else { count - 1 });
        let mut builder = LeafBuilder::new(count - 1, self.text_bytes() - size, first, last);
        builder.append(self, 0..slot);
        builder.append(self, slot + 1..count);
        *self = builder.finish();
    }

    /// Gives an entry another cell; `to` is its slot afterwards.
    pub(in crate::points) fn relocate(&mut self, from: usize, to: usize, bits: u64) {
        if !self.make_sayable(bits) {
            // The span has outgrown narrow keys: wide ones can say everything.
            let (first, last) = (self.first().min(bits), self.last().max(bits));
            let mut builder = LeafBuilder::new(self.len(), self.text_bytes(), first, last);
            builder.append(self, 0..self.len());
            *self = builder.finish();
        }
        let (is_wide, base) = (self.is_wide(), self.blob[1]);
        let low = from.min(to);
        let high = from.max(to) + 1;
        let text = self.size() - self.offset(low)..self.size() - self.offset(high);
        let text_size = self.offset(from) - self.offset(from + 1);
        let end = self.offset(high);
        let offsets_at = self.offsets_at(self.len()) / OFFSET_BYTES;
        let blob = Arc::make_mut(&mut self.blob);
        if is_wide {
            rotate(&mut blob[2 + low..2 + high], from < to, 1);
            blob[2 + to] = bits;
        } else {
            let deltas: &mut [u32] = cast_slice_mut(blob);
            rotate(&mut deltas[4 + low..4 + high], from < to, 1);
            deltas[4 + to] = (bits - base) as u32;
        }
        rotate(&mut cast_slice_mut::<u64, u8>(blob)[text], from < to, text_size);
        let offsets = &mut cast_slice_mut::<u64, u16>(blob)[offsets_at..];
        move_offset(offsets, from, to, short(text_size), short(end));
    }

    /// Sees to it that the keys can say this cell, if that can be done in place.
    fn make_sayable(&mut self, bits: u64) -> bool {
        let base = self.blob[1];
        let span_limit = u64::from(u32::MAX);
        if self.is_wide() || bits.checked_sub(base).is_some_and(|delta| delta <= span_limit) {
            return true;
        }
        if bits > base || self.last() - bits > span_limit {
            return false;
        }
        let count = self.len();
        let blob = Arc::make_mut(&mut self.blob);
        blob[1] = bits;
        for delta in &mut cast_slice_mut::<u64, u32>(blob)[4..4 + count] {
            *delta += (base - bits) as u32;
        }
        true
    }

    fn insert_in_place(&mut self, slot: usize, bits: u64, text: Text<'_>) {
        let (count, base, is_wide) = (self.len(), self.blob[1], self.is_wide());
        let (key_bytes, size) = (self.key_bytes(), self.size());
        let (offset, text_size) = (self.offset(slot), text.size());
        let before = size - self.text_bytes()..size - offset;
        let (old_offsets, offsets) = (self.offsets_at(count), self.offsets_at(count + 1));
        let blob = Arc::make_mut(&mut self.blob);
        blob[0] += 1 | u64::from(text.is_overflow()) << 32;

        let bytes: &mut [u8] = cast_slice_mut(blob);
        bytes.copy_within(before.clone(), before.start - text_size);
        text.write(&mut bytes[size - offset - text_size..size - offset]);
        // The offsets make way for the key, those after the new one first.
        let cut = OFFSET_BYTES * slot;
        bytes.copy_within(old_offsets + cut..old_offsets + OFFSET_BYTES * count, offsets + cut + 2);
        bytes.copy_within(old_offsets..old_offsets + cut, offsets);
        let key = super::HEADER_BYTES + key_bytes * slot;
        bytes.copy_within(key..old_offsets, key + key_bytes);

        if is_wide {
            blob[2 + slot] = bits;
        } else {
            cast_slice_mut::<u64, u32>(blob)[4 + slot] = (bits - base) as u32;
        }
        let offsets = &mut cast_slice_mut::<u64, u16>(blob)[offsets / OFFSET_BYTES..][..=slot];
        offsets[slot] = short(offset);
        for offset in offsets {
            *offset += short(text_size);
        }
    }

    fn remove_in_place(&mut self, slot: usize) {
        let (count, size, key_bytes) = (self.len(), self.size(), self.key_bytes());
        let text_size = self.offset(slot) - self.offset(slot + 1);
        let before = size - self.text_bytes()..size - self.offset(slot);
        let is_overflow = self.overflow_number(slot).is_some();
        let (old_offsets, offsets) = (self.offsets_at(count), self.offsets_at(count - 1));
        let blob = Arc::make_mut(&mut self.blob);
        blob[0] -= 1 | u64::from(is_overflow) << 32;

        let bytes: &mut [u8] = cast_slice_mut(blob);
        bytes.copy_within(before.clone(), before.start + text_size);
        let key = super::HEADER_BYTES + key_bytes * slot;
        bytes.copy_within(key + key_bytes..old_offsets, key);
        let cut = OFFSET_BYTES * slot;
        bytes.copy_within(old_offsets..old_offsets + cut, offsets);
        bytes.copy_within(old_offsets + cut + 2..old_offsets + OFFSET_BYTES * count, offsets + cut);
        let offsets = &mut cast_slice_mut::<u64, u16>(blob)[offsets / OFFSET_BYTES..][..slot];
        for offset in offsets {
            *offset -= short(text_size);
        }
    }
}

/// Takes the first items behind all others, or the last ones before them.
fn rotate<T>(items: &mut [T], upwards: bool, count: usize) {
    if upwards {
        items.rotate_left(count);
    } else {
        items.rotate_right(count);
    }
}

/// Follows a text of `size` bytes from one slot to another; `end` is the offset after the slots
/// between, which does not change.
fn move_offset(offsets: &mut [u16], from: usize, to: usize, size: u16, end: u16) {
    if from < to {
        offsets.copy_within(from + 1..to + 1, from);
        add(offsets, from..to, size);
        offsets[to] = end + size;
    } else {
        // The moved text now begins where the one at `to` began, and the others after it.
        let first = offsets[to];
        offsets.copy_within(to..from, to + 1);
        for offset in &mut offsets[to + 1..=from] {
            *offset -= size;
        }
        offsets[to] = first;
    }
}

fn add(offsets: &mut [u16], slots: Range<usize>, size: u16) {
    for offset in &mut offsets[slots] {
        *offset += size;
    }
}
