//! The prefixes of a live table, with their answers: what is there, and what is around it.
//!
//! Not for readers, who never see it.
//!
//! ```text
//! slots   u64 each, open addressing; 0 is free
//!         | address, 32 bits | length, 6 bits | answer, 25 bits |
//!
//! bits    one for each possible prefix of 0 to 24 bits, in heap order:
//!         1: /0   2 3: /1   4 5 6 7: /2   ...   2^24 ..: /24      half of a number is what is around it
//! ```
//!
//! Invariants: a bit is set exactly for the prefixes of that length that have a slot; slots follow
//! their place without a gap. Cost: one line for a slot and one for a bit, and up to eight for what
//! is around a prefix; 4 MiB and 16 to 32 bytes a prefix. Growing moves all slots at once.

use crate::simd::prefetch;

const ANSWER_BITS: u32 = 25;
const ANSWER_MASK: u64 = (1 << ANSWER_BITS) - 1;
const BIT_LENGTH_MAX: u8 = 24;
const SLOTS_MIN: usize = 64;

pub(super) struct LiveMembers {
    slots: Vec<u64>,
    count: usize,
    bits: Vec<u64>,
    /// How many prefixes have each length, 0 to 32.
    lengths: [u32; 33],
}

/// A slot's bits above the answer.
fn key_of(address: u32, length: u8) -> u64 {
    u64::from(address) << 6 | u64::from(length)
}

fn masked(address: u32, length: u8) -> u32 {
    address & !u32::MAX.checked_shr(u32::from(length)).unwrap_or(0)
}

fn bit_of(address: u32, length: u8) -> usize {
    (1_u64 << length | u64::from(address).wrapping_shl(u32::from(length)) >> 32) as usize
}

impl LiveMembers {
    pub(super) fn new() -> LiveMembers {
        LiveMembers {
            slots: vec![0; SLOTS_MIN],
            count: 0,
            bits: vec![0; (2 << BIT_LENGTH_MAX) / 64],
            lengths: [0; 33],
        }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn memory_bytes(&self) -> usize {
        (self.slots.capacity() + self.bits.capacity()) * size_of::<u64>()
    }

    /// Asks for what a change of this prefix reads.
    pub(super) fn warm(&self, address: u32, length: u8) {
        prefetch(&self.slots, self.place(key_of(address, length)));
        let length = length.min(BIT_LENGTH_MAX);
        let bit = bit_of(address, length);
        for up in 0..u32::from(length).min(4) {
            prefetch(&self.bits, (bit >> up) / 64);
        }
    }

    /// Asks for what is around this prefix; its own bits should have been asked for some time ago.
    pub(super) fn warm_outer(&self, address: u32, length: u8) {
        // Longer ones are rare, and looked for among the slots.
        if let Some(outer) = self.outer_by_bits(address, length.min(BIT_LENGTH_MAX + 1)) {
            prefetch(&self.slots, self.place(key_of(masked(address, outer), outer)));
        }
    }

    fn place(&self, key: u64) -> usize {
        let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> (64 - self.slots.len().trailing_zeros())) as usize
    }

    /// Where the key's slot is, or the free one where it would be.
    fn find(&self, key: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut place = self.place(key);
        while self.slots[place] != 0 && self.slots[place] >> ANSWER_BITS != key {
            place = (place + 1) & mask;
        }
        place
    }

    pub(super) fn get(&self, address: u32, length: u8) -> Option<u32> {
        let slot = self.slots[self.find(key_of(address, length))];
        (slot != 0).then_some((slot & ANSWER_MASK) as u32)
    }

    /// Adds or replaces; the answer it had.
    pub(super) fn insert(&mut self, address: u32, length: u8, answer: u32) -> Option<u32> {
        if self.count * 8 >= self.slots.len() * 5 {
            self.grow();
        }
        let key = key_of(address, length);
        let place = self.find(key);
        let old = std::mem::replace(&mut self.slots[place], key << ANSWER_BITS | u64::from(answer));
        if old != 0 {
            return Some((old & ANSWER_MASK) as u32);
        }
        self.count += 1;
        self.lengths[usize::from(length)] += 1;
        self.set_bit(address, length, true);
        None
    }

    pub(super) fn remove(&mut self, address: u32, length: u8) -> Option<u32> {
        let place = self.find(key_of(address, length));
        let old = self.slots[place];
        if old == 0 {
            return None;
        }
        self.close_gap(place);
        self.count -= 1;
        self.lengths[usize::from(length)] -= 1;
        self.set_bit(address, length, false);
        Some((old & ANSWER_MASK) as u32)
    }

    /// Moves what follows a slot that goes, as long as it wants to be nearer to its place.
    fn close_gap(&mut self, mut gap: usize) {
        let mask = self.slots.len() - 1;
        let mut next = gap;
        loop {
            next = (next + 1) & mask;
            let slot = self.slots[next];
            if slot == 0 {
                break;
            }
            let wanted = self.place(slot >> ANSWER_BITS);
            if next.wrapping_sub(wanted) & mask >= next.wrapping_sub(gap) & mask {
                self.slots[gap] = slot;
                gap = next;
            }
        }
        self.slots[gap] = 0;
    }

    /// The longest other prefix around this one, as length and answer.
    pub(super) fn outer(&self, address: u32, length: u8) -> Option<(u8, u32)> {
        let long = (BIT_LENGTH_MAX + 1..length).rev();
        for outer in long.filter(|outer| self.lengths[usize::from(*outer)] > 0) {
            if let Some(answer) = self.get(masked(address, outer), outer) {
                return Some((outer, answer));
            }
        }
        let outer = self.outer_by_bits(address, length.min(BIT_LENGTH_MAX + 1))?;
        Some((outer, self.get(masked(address, outer), outer)?))
    }

    /// The length of the longest prefix around this address that is shorter than `length`.
    fn outer_by_bits(&self, address: u32, length: u8) -> Option<u8> {
        let shorter = (0..length).rev();
        let mut there = shorter.filter(|outer| self.lengths[usize::from(*outer)] > 0);
        there.find(|outer| self.bit(address, *outer))
    }

    fn bit(&self, address: u32, length: u8) -> bool {
        let bit = bit_of(address, length);
        self.bits[bit / 64] >> (bit % 64) & 1 != 0
    }

    fn set_bit(&mut self, address: u32, length: u8, is_there: bool) {
        if length <= BIT_LENGTH_MAX {
            let bit = bit_of(address, length);
            let word = &mut self.bits[bit / 64];
            *word = *word & !(1 << (bit % 64)) | u64::from(is_there) << (bit % 64);
        }
    }

    fn grow(&mut self) {
        let slots = vec![0; self.slots.len() * 2];
        let old = std::mem::replace(&mut self.slots, slots);
        for slot in old.into_iter().filter(|slot| *slot != 0) {
            let place = self.find(slot >> ANSWER_BITS);
            self.slots[place] = slot;
        }
    }
}
