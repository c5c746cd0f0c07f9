//! The table from member to cell, without the members' text.
//!
//! For: finding a member's cell by name; together with the cell its leaf is found, and there the
//! text that proves the match.
//! Not for: holding names; a table of 10-byte names would double the size of a collection.
//!
//! ```text
//! hash     ┌ part 12 ┬ code 20 ┬ unused ┐       one part until 65,536 members, then 4,096
//! Bucket   │ slot │ slot │ ... 7 │ m m m m m m m │ n │        64 bytes, one cache line
//!            cell 52 + low 12 bits of the code    upper 8 bits of each code, and how many
//! ```
//!
//! A slot has the whole code, so that a part grows without asking anybody for names again; its
//! home bucket is the code scaled to the number of buckets. A cell at the very limit of the globe
//! has more than 52 bits; it is kept without the upper two, and the check of a slot tries what
//! they may have been ([`bits_of`]).
//!
//! A number below 2^31 needs no confirmation: hashes of numbers are a permutation of them with one
//! bit that no other name has (`hash.rs`), so that among many parts a slot with the number's part
//! and code is the number's.
//!
//! Invariants: a member lies in its home bucket, or in a later one if all between are full; slots
//! of a bucket are filled from the front; a part is at most [`FULLEST_PERCENT`] full.
//! The hash is keyed at random for each collection, so that chosen names cannot collide.
//! Cost: 9.9 to 12.4 bytes a member when there are many; a lookup reads one cache line, rarely the
//! next one too, and then the leaf if the name is no number. Of a thousand lookups of other names,
//! some 0.5 confirm another member's slot in vain for each million of them. A part of 1/4096 of the
//! members grows at a time, so that no insertion waits for all of them.

pub(super) mod bulk;
pub(super) mod groups;

use super::hash::{IS_NUMBER, Key};
use super::memory;

/// Bits of a cell in a slot.
pub(super) const CELL_BITS: u32 = 52;
const CELL_MASK: u64 = (1 << CELL_BITS) - 1;
/// Bits of a code, of which those not in `more` are in the slot.
const CODE_BITS: u32 = 20;
const TAG_BITS: u32 = 64 - CELL_BITS;
const PART_BITS: u32 = 12;
/// At this many members the table is dealt out to many parts.
const ONE_PART_MEMBERS: usize = 1 << 16;
const BUCKET_SLOTS: usize = 7;
/// A fuller part grows.
const FULLEST_PERCENT: usize = 92;

/// The cell of every member.
#[derive(Clone, Debug)]
pub(super) struct Members {
    key: Key,
    parts: Vec<Part>,
    len: usize,
    /// The bytes that the allocator takes for the parts' buckets.
    bytes: usize,
}

/// Where a member stands, until the table is next changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    part: usize,
    bucket: usize,
    index: usize,
}

/// The bits of a cell's code that are of its longitude, and of its latitude.
const X: u64 = 0xa_aaaa_aaaa_aaaa;
const Y: u64 = X >> 1;

/// Whether a code stands for one cell only.
#[inline]
fn is_one_cell(cell_code: u64) -> bool {
    cell_code & X != 0 && cell_code & Y != 0
}

/// The cells that a code may stand for: the code itself and, if it is on the western or southern
/// edge, those at the very limit that have no code of their own.
pub(super) fn bits_of(cell_code: u64) -> impl Iterator<Item = u64> {
    let east = (cell_code & X == 0).then_some(2 << CELL_BITS);
    let north = (cell_code & Y == 0).then_some(1 << CELL_BITS);
    let both = east.zip(north).map(|(east, north): (u64, u64)| east | north);
    [Some(0), east, north, both].into_iter().flatten().map(move |upper| cell_code | upper)
}

impl Members {
    pub(super) fn new() -> Members {
        Members { key: Key::random(), parts: vec![Part::default()], len: 0, bytes: 0 }
    }

    /// The key that names are hashed with.
    pub(super) fn key(&self) -> &Key {
        &self.key
    }

    /// The hash of a member's name in this table.
    pub(super) fn hash(&self, member: &[u8]) -> u64 {
        self.key.hash(member)
    }

    /// The cell that a lookup by this hash alone ends at. `None` if it takes the leaves to tell:
    /// the name is no number, the table has one part, or the slot stands for several cells.
    #[inline]
    pub(super) fn proved_cell(&self, hash: u64) -> Option<Option<u64>> {
        if hash & IS_NUMBER == 0 || self.parts.len() == 1 {
            return None;
        }
        match self.find(hash, Some) {
            None => Some(None),
            Some((_, cell_code)) => is_one_cell(cell_code).then_some(Some(cell_code)),
        }
    }

    /// The first slot with this hash whose cell is confirmed to be the member's, with what the
    /// confirmation found.
    pub(super) fn find<T>(
        &self,
        hash: u64,
        mut confirm: impl FnMut(u64) -> Option<T>,
    ) -> Option<(Slot, T)> {
        let (part_index, code) = (self.part_of(hash), code_of(hash));
        let part = &self.parts[part_index];
        let home = part.home(code);
        for (bucket_index, bucket) in part.buckets.iter().enumerate().skip(home) {
            let mut matches = bucket.matches(code);
            while matches != 0 {
                let index = matches.trailing_zeros() as usize;
                matches &= matches - 1;
                if let Some(found) = confirm(bucket.slots[index] & CELL_MASK) {
                    return Some((Slot { part: part_index, bucket: bucket_index, index }, found));
                }
            }
            if !bucket.is_full() {
                break;
            }
        }
        None
    }

    /// Whether this slot is that of a member with this hash in this cell. Where two are alike,
    /// either will do.
    pub(super) fn has(&self, slot: Slot, hash: u64, cell_code: u64) -> bool {
        let bucket = self.parts.get(slot.part).and_then(|part| part.buckets.get(slot.bucket));
        slot.part == self.part_of(hash)
            && bucket.is_some_and(|bucket| {
                slot.index < bucket.count()
                    && bucket.code(slot.index) == code_of(hash)
                    && bucket.slots[slot.index] & CELL_MASK == cell_code
            })
    }

    /// Asks for the bucket where a lookup begins.
    pub(super) fn prefetch(&self, hash: u64) {
        let part = &self.parts[self.part_of(hash)];
        whered_simd::prefetch(&part.buckets, part.home(code_of(hash)));
    }

    /// Adds a member that is not in the table.
    pub(super) fn insert(&mut self, hash: u64, bits: u64) {
        let part = self.part_of(hash);
        let part = &mut self.parts[part];
        let buckets = part.buckets.len();
        part.insert(code_of(hash), bits & CELL_MASK);
        if part.buckets.len() != buckets {
            self.bytes -= memory::allocated_room::<Bucket>(buckets);
            self.bytes += part.memory_bytes();
        }
        self.len += 1;
    }

    /// Whether the one part has become too large.
    pub(super) fn is_to_be_dealt_out(&self) -> bool {
        self.parts.len() == 1 && self.len >= ONE_PART_MEMBERS
    }

    /// Replaces the one part by many; all members are named once more.
    pub(super) fn deal_out<'a>(&mut self, members: impl Iterator<Item = (&'a [u8], u64)>) {
        self.parts = vec![Part::default(); 1 << PART_BITS];
        (self.len, self.bytes) = (0, 0);
        for (member, bits) in members {
            self.insert(self.hash(member), bits);
        }
    }

    /// Gives the member in this slot another cell.
    pub(super) fn replace(&mut self, slot: Slot, bits: u64) {
        let slot = &mut self.parts[slot.part].buckets[slot.bucket].slots[slot.index];
        *slot = *slot & !CELL_MASK | bits & CELL_MASK;
    }

    /// Takes the member in this slot out of the table.
    pub(super) fn remove(&mut self, slot: Slot) {
        self.parts[slot.part].remove(slot.bucket, slot.index);
        self.len -= 1;
    }

    /// The bytes that the allocator takes for the table.
    pub(super) fn memory_bytes(&self) -> usize {
        memory::allocated_room::<Part>(self.parts.capacity()) + self.bytes
    }

    /// The bytes, added up anew.
    #[cfg(test)]
    pub(super) fn recounted_bytes(&self) -> usize {
        memory::allocated_room::<Part>(self.parts.capacity()) + self.parts_bytes()
    }

    /// The bytes that the allocator takes for all parts.
    fn parts_bytes(&self) -> usize {
        let buckets = |part: &Part| memory::allocated_room::<Bucket>(part.buckets.capacity());
        self.parts.iter().map(buckets).sum()
    }

    fn part_of(&self, hash: u64) -> usize {
        if self.parts.len() == 1 { 0 } else { (hash >> (64 - PART_BITS)) as usize }
    }
}

fn code_of(hash: u64) -> u32 {
    (hash >> (64 - PART_BITS - CODE_BITS)) as u32 & ((1 << CODE_BITS) - 1)
}

/// One cache line of slots.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
struct Bucket {
    slots: [u64; BUCKET_SLOTS],
    /// The upper bits of the codes, and last the number of slots in use.
    more: [u8; BUCKET_SLOTS + 1],
}

impl Bucket {
    fn count(&self) -> usize {
        usize::from(self.more[BUCKET_SLOTS])
    }

    fn is_full(&self) -> bool {
        self.count() >= BUCKET_SLOTS
    }

    fn filled(&self) -> &[u64] {
        &self.slots[..self.count().min(BUCKET_SLOTS)]
    }

    fn has_code(&self, index: usize, slot: u64, code: u32) -> bool {
        slot >> CELL_BITS == u64::from(code) & ((1 << TAG_BITS) - 1)
            && u32::from(self.more[index]) == code >> TAG_BITS
    }

    /// The slots with a code, one bit each. All are compared, so that no branch depends on how many
    /// are in use.
    #[inline]
    fn matches(&self, code: u32) -> u32 {
        let (tag, more) = (u64::from(code) & ((1 << TAG_BITS) - 1), (code >> TAG_BITS) as u8);
        let mut matches = 0;
        for index in 0..BUCKET_SLOTS {
            let is_match = (self.slots[index] >> CELL_BITS == tag) & (self.more[index] == more);
            matches |= u32::from(is_match) << index;
        }
        matches & ((1 << self.count()) - 1)
    }

    fn code(&self, index: usize) -> u32 {
        u32::from(self.more[index]) << TAG_BITS | (self.slots[index] >> CELL_BITS) as u32
    }

    fn push(&mut self, code: u32, cell: u64) {
        let count = self.count();
        self.slots[count] = u64::from(code) << CELL_BITS | cell;
        self.more[count] = (code >> TAG_BITS) as u8;
        self.more[BUCKET_SLOTS] += 1;
    }

    /// Takes a slot out; the last one takes its place.
    fn swap_remove(&mut self, index: usize) {
        let last = self.count() - 1;
        self.slots[index] = self.slots[last];
        self.more[index] = self.more[last];
        self.more[BUCKET_SLOTS] -= 1;
    }
}

#[derive(Clone, Debug, Default)]
struct Part {
    /// Those that codes lead to, and a few after the last for what does not fit there.
    buckets: Vec<Bucket>,
    homes: usize,
    used: usize,
}

impl Part {
    /// An empty part of `count` buckets.
    fn of_size(size: usize) -> Part {
        let spare = (size / 16).min(4);
        Part { buckets: vec![Bucket::default(); size], homes: size - spare, used: 0 }
    }

    /// The bytes that the allocator takes for the buckets, which have no spare capacity.
    fn memory_bytes(&self) -> usize {
        memory::allocated_room::<Bucket>(self.buckets.len())
    }

    /// The bucket where a member with this code is looked for first.
    fn home(&self, code: u32) -> usize {
        ((u64::from(code) * self.homes as u64) >> CODE_BITS) as usize
    }

    fn insert(&mut self, code: u32, cell: u64) {
        if self.used >= self.buckets.len() * BUCKET_SLOTS * FULLEST_PERCENT / 100 {
            self.grow();
        }
        self.put(code, cell);
        self.used += 1;
    }

    /// Puts a member into the first bucket with room from its home on.
    fn put(&mut self, code: u32, cell: u64) {
        let home = self.home(code);
        if let Some(bucket) = self.buckets[home..].iter_mut().find(|bucket| !bucket.is_full()) {
            bucket.push(code, cell);
            return;
        }
        // One bucket, not twice as many: the end of a part is rarely overrun, and not by much.
        self.buckets.reserve_exact(1);
        self.buckets.push(Bucket::default());
        self.put(code, cell);
    }

    /// Moves all members to the next larger size.
    fn grow(&mut self) {
        let mut grown = Part::of_size(larger_size(self.buckets.len()));
        grown.used = self.used;
        for bucket in &self.buckets {
            for index in 0..bucket.count() {
                grown.put(bucket.code(index), bucket.slots[index] & CELL_MASK);
            }
        }
        *self = grown;
    }

    /// Empties a slot and moves later members back over it, none before its home.
    fn remove(&mut self, bucket: usize, index: usize) {
        self.used -= 1;
        let mut hole = bucket;
        let mut was_full = self.buckets[hole].is_full();
        self.buckets[hole].swap_remove(index);
        let mut next = hole + 1;
        while was_full && next < self.buckets.len() {
            let later = self.buckets[next];
            let movable = (0..later.count()).find(|&index| self.home(later.code(index)) <= hole);
            was_full = later.is_full();
            if let Some(index) = movable {
                let (code, cell) = (later.code(index), later.slots[index] & CELL_MASK);
                self.buckets[hole].push(code, cell);
                self.buckets[next].swap_remove(index);
                hole = next;
            }
            next += 1;
        }
    }
}

/// The next of four sizes in each octave, as allocators have them, less one bucket for what they
/// add to keep the alignment; of sixteen beyond 512 KiB, where they no longer have classes.
fn larger_size(buckets: usize) -> usize {
    let class = buckets + 1;
    let octave = class.ilog2();
    let step = octave.saturating_sub(if octave >= 13 { 4 } else { 2 });
    buckets + (1 << step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn the_table_agrees_with_a_map_through_growth_division_and_removal() {
        let mut members = Members::new();
        let mut twin: HashMap<Vec<u8>, u64> = HashMap::new();
        let mut state = 1u64;
        for round in 0..1_000_000u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let name = (state >> 45).to_string().into_bytes();
            let hash = members.hash(&name);
            let wanted = twin.get(&name).copied();
            let found = members.find(hash, |cell| (Some(cell) == wanted).then_some(cell));
            assert_eq!(found.map(|(_, bits)| bits), wanted);
            match found {
                None => {
                    members.insert(hash, round);
                    twin.insert(name, round);
                    if members.is_to_be_dealt_out() {
                        members.deal_out(twin.iter().map(|(name, &bits)| (name.as_slice(), bits)));
                    }
                }
                Some((slot, _)) if round % 3 == 0 => {
                    members.replace(slot, round);
                    twin.insert(name, round);
                }
                Some((slot, _)) => {
                    members.remove(slot);
                    twin.remove(&name);
                }
            }
            assert_eq!(members.len, twin.len());
        }
        assert!(members.parts.len() > 1);
        for (name, &bits) in &twin {
            let found = members.find(members.hash(name), |cell| (cell == bits).then_some(()));
            assert!(found.is_some());
        }
    }

    #[test]
    fn members_of_one_hash_are_told_apart_by_confirmation() {
        for hash in [77, u64::MAX, u64::MAX / 2] {
            let mut members = Members::new();
            for bits in 0..100 {
                members.insert(hash, bits);
            }
            let confirm = |wanted: u64| move |bits: u64| (bits == wanted).then_some(());
            let (slot, ()) = members.find(hash, confirm(42)).unwrap();
            members.remove(slot);
            assert!(members.find(hash, confirm(42)).is_none());
            assert!(
                (0..100).filter(|&b| b != 42).all(|b| members.find(hash, confirm(b)).is_some())
            );
            assert!(members.memory_bytes() < 20_000, "{}", members.memory_bytes());
        }
    }

    #[test]
    fn large_tables_hold_a_member_in_few_bytes() {
        let mut members = Members::new();
        let mut state = 1u64;
        for bits in 0..3_000_000u64 {
            if members.is_to_be_dealt_out() {
                members.deal_out([].into_iter());
            }
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            members.insert(state ^ state >> 32, bits);
        }
        let bytes = members.memory_bytes() as f64 / members.len as f64;
        assert!(bytes < 12.8, "{bytes}");
    }

    #[test]
    fn a_code_stands_for_the_cells_at_the_limit_too() {
        let all = |code| bits_of(code).collect::<Vec<_>>();
        assert_eq!(all(0b1011), [0b1011]);
        assert_eq!(all(0b0101), [0b0101, 2 << 52 | 0b0101]);
        assert_eq!(all(0b1010), [0b1010, 1 << 52 | 0b1010]);
        assert_eq!(all(0), [0, 2 << 52, 1 << 52, 3 << 52]);
    }
}
