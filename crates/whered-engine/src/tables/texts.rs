//! The texts of a table's columns, each kept once; and the bytes of its keys.
//!
//! ```text
//! Texts  number ─> (bytes, how many rows have it)      free numbers are used again
//!        bytes  ─> number
//! Arena  | key key key ... | key key ... |             blocks of 1 MiB, never moved as a whole
//!        where = block << 40 | offset << 20 | length
//! ```
//! Invariants: a text without rows is gone; a key is never removed, and lies in one block.
//! Cost: one hash of the text for each that is put; a key costs its bytes.

use std::collections::HashMap;
use std::sync::Arc;

use super::cell::{push_varint, take_bytes, take_varint};
use whered_simd::prefetch;

/// What a text takes beside its own bytes: its slot, its place in the map, its counts.
const TEXT_OVERHEAD_BYTES: usize = 72;

/// See the file's header.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    slots: Vec<(Arc<[u8]>, u32)>,
    free: Vec<u32>,
    numbers: HashMap<Arc<[u8]>, u32>,
    bytes: usize,
}

impl Texts {
    pub(crate) fn get(&self, number: u64) -> &[u8] {
        self.slots.get(number as usize).map_or(&[], |(text, _)| text)
    }

    /// The number of a text for one row more.
    pub(crate) fn put(&mut self, text: &[u8]) -> u64 {
        if let Some(&number) = self.numbers.get(text) {
            self.slots[number as usize].1 += 1;
            return u64::from(number);
        }
        let shared: Arc<[u8]> = text.into();
        let slot = (Arc::clone(&shared), 1);
        let number = if let Some(number) = self.free.pop() {
            self.slots[number as usize] = slot;
            number
        } else {
            self.slots.push(slot);
            u32::try_from(self.slots.len() - 1).expect("a table has fewer than 2^32 rows")
        };
        self.numbers.insert(shared, number);
        self.bytes += text.len() + TEXT_OVERHEAD_BYTES;
        u64::from(number)
    }

    /// One row has it no more.
    pub(crate) fn release(&mut self, number: u64) {
        let Some((text, rows)) = self.slots.get_mut(number as usize) else { return };
        *rows -= 1;
        if *rows == 0 {
            self.bytes -= text.len() + TEXT_OVERHEAD_BYTES;
            self.numbers.remove(&**text);
            *text = Arc::from([]);
            self.free.push(number as u32);
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes
    }

    /// How many slots there are, free ones included.
    pub(super) fn slots_len(&self) -> usize {
        self.slots.len()
    }

    /// Whether some row has the text with this number.
    pub(super) fn is_used(&self, number: u64) -> bool {
        let slot = usize::try_from(number).ok().and_then(|number| self.slots.get(number));
        slot.is_some_and(|(_, rows)| *rows > 0)
    }

    /// Appends slots from `first` on, until the bytes are enough; gives where to go on.
    pub(super) fn push_slots(&self, out: &mut Vec<u8>, first: usize, enough_bytes: usize) -> usize {
        let (start, mut number) = (out.len(), first);
        while number < self.slots.len() && out.len() - start < enough_bytes {
            let (text, rows) = &self.slots[number];
            push_varint(out, u64::from(*rows));
            push_varint(out, text.len() as u64);
            out.extend_from_slice(text);
            number += 1;
        }
        number
    }

    /// Adds slots, to the end of the input.
    ///
    /// # Errors
    /// They are none.
    pub(super) fn add_slots(&mut self, mut input: &[u8]) -> Result<(), &'static str> {
        while !input.is_empty() {
            let (rows, text) = take_slot(&mut input).ok_or("a text cannot be read")?;
            let number = u32::try_from(self.slots.len()).map_err(|_| "too many texts")?;
            let shared: Arc<[u8]> = text.into();
            if rows == 0 {
                self.free.push(number);
            } else {
                self.numbers.insert(Arc::clone(&shared), number);
                self.bytes += text.len() + TEXT_OVERHEAD_BYTES;
            }
            self.slots.push((shared, rows));
        }
        Ok(())
    }
}

/// Takes what [`Texts::push_slots`] has written of one slot off the front: how many rows, the text.
pub(super) fn take_slot<'a>(input: &mut &'a [u8]) -> Option<(u32, &'a [u8])> {
    let rows = u32::try_from(take_varint(input)?).ok()?;
    let length = take_varint(input)?;
    Some((rows, take_bytes(input, length)?))
}

const BLOCK_BITS: u32 = 20;
const BLOCK_BYTES: usize = 1 << BLOCK_BITS;
const PART_MASK: u64 = (1 << BLOCK_BITS) - 1;

/// The longest key.
pub(crate) const KEY_BYTES_MAX: usize = 64 << 10;

/// See the file's header.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    blocks: Vec<Vec<u8>>,
}

/// A moment in the life of an [`Arena`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ArenaMark {
    blocks: usize,
    bytes: usize,
}

impl Arena {
    /// The bytes at a place that [`Arena::push`] gave.
    #[inline]
    pub(crate) fn get(&self, place: u64) -> &[u8] {
        let block = &self.blocks[(place >> (2 * BLOCK_BITS)) as usize];
        let start = (place >> BLOCK_BITS & PART_MASK) as usize;
        &block[start..start + (place & PART_MASK) as usize]
    }

    /// Asks for the first of those bytes.
    #[inline]
    pub(crate) fn fetch(&self, place: u64) {
        let block = &self.blocks[(place >> (2 * BLOCK_BITS)) as usize];
        prefetch(block, (place >> BLOCK_BITS & PART_MASK) as usize);
    }

    /// Keeps bytes, which are at most [`KEY_BYTES_MAX`].
    pub(crate) fn push(&mut self, bytes: &[u8]) -> u64 {
        assert!(bytes.len() <= KEY_BYTES_MAX, "keys are checked before they are staged");
        let is_full = |block: &Vec<u8>| block.len() + bytes.len() > BLOCK_BYTES;
        if self.blocks.last().is_none_or(is_full) {
            self.blocks.push(Vec::new());
        }
        let number = self.blocks.len() - 1;
        let block = &mut self.blocks[number];
        let start = block.len() as u64;
        block.extend_from_slice(bytes);
        (number as u64) << (2 * BLOCK_BITS) | start << BLOCK_BITS | bytes.len() as u64
    }

    /// Where the next bytes go.
    pub(crate) fn mark(&self) -> ArenaMark {
        ArenaMark { blocks: self.blocks.len(), bytes: self.blocks.last().map_or(0, Vec::len) }
    }

    /// Forgets what was pushed since the mark was taken.
    pub(crate) fn reset(&mut self, mark: ArenaMark) {
        self.blocks.truncate(mark.blocks);
        if let Some(block) = self.blocks.last_mut() {
            block.truncate(mark.bytes);
        }
    }

    /// The blocks, for a file.
    pub(crate) fn blocks(&self) -> &[Vec<u8>] {
        &self.blocks
    }

    /// Adds a block from a file.
    ///
    /// # Errors
    /// It is longer than blocks are.
    pub(crate) fn add_block(&mut self, bytes: &[u8]) -> Result<(), &'static str> {
        if bytes.len() > BLOCK_BYTES {
            return Err("a block of names is too long");
        }
        // Only the last one grows; it takes its room when it does.
        self.blocks.push(bytes.to_vec());
        Ok(())
    }

    /// Whether there are bytes at a place.
    #[inline]
    pub(crate) fn has(&self, place: u64) -> bool {
        let (number, start, length) = parts(place);
        let block = self.blocks.get(number);
        length <= KEY_BYTES_MAX && block.is_some_and(|block| start + length <= block.len())
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.blocks.iter().map(|block| block.capacity() + size_of::<Vec<u8>>()).sum()
    }
}

/// The block of a place, and where in it how many bytes are.
#[inline]
pub(super) fn parts(place: u64) -> (usize, usize, usize) {
    let start = (place >> BLOCK_BITS & PART_MASK) as usize;
    ((place >> (2 * BLOCK_BITS)) as usize, start, (place & PART_MASK) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_kept_once_and_goes_with_its_last_row() {
        let mut texts = Texts::default();
        let (a, b) = (texts.put(b"a"), texts.put(b"b"));
        assert_eq!(texts.put(b"a"), a);
        texts.release(a);
        assert_eq!(texts.get(a), b"a");
        texts.release(a);
        assert_eq!(texts.put(b"c"), a, "its number is used again");
        assert_eq!((texts.get(a), texts.get(b)), (&b"c"[..], &b"b"[..]));
        texts.release(a);
        texts.release(b);
        assert_eq!(texts.memory_bytes(), 0);
    }

    #[test]
    fn keys_stay_where_they_are_over_many_blocks() {
        let mut arena = Arena::default();
        let keys: Vec<Vec<u8>> = (0..60_u8).map(|n| vec![n; 1000 * usize::from(n)]).collect();
        let places: Vec<u64> = keys.iter().map(|key| arena.push(key)).collect();
        for (key, place) in keys.iter().zip(places) {
            assert_eq!(arena.get(place), key);
        }
    }
}
