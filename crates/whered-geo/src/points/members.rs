//! The table from member to cell, without the members' text.
//!
//! For: finding a member's cell by name; together with the cell its leaf is found, and there the
//! text that proves the match.
//! Not for: holding names; a table of 10-byte names would double the size of a collection.
//!
//! ```text
//! hash u32   ┌ part (8) ┬ position (24) ┐        one part until 65,536 members, then 256
//! part       hashes │ h │ - │ h │ h │ ...        u32, so that a part grows by itself
//!            cells  │ c │ E │ c │ c │ ...        u64 bits, E = empty
//! ```
//!
//! Invariants: a member lies at its position or after it with no empty slot between (linear
//! probing; removal closes the gap, there are no tombstones); a part is at most 3/4 full.
//! The hash is keyed at random for each collection, so that chosen names cannot collide.
//! Cost: 16-32 bytes a member; a lookup reads two cache lines and then the leaf. A part of 1/256
//! of the members grows at a time, so that no insertion waits for all.

use std::hash::{BuildHasher, RandomState};

/// No cell has these bits.
const EMPTY: u64 = u64::MAX;
const FIRST_SLOTS: usize = 8;
/// From this many members on, the table has many parts.
const ONE_PART_MEMBERS: usize = 1 << 16;
const PART_BITS: u32 = 8;

/// Hash and cell of every member.
#[derive(Clone, Debug)]
pub(super) struct Members {
    hasher: RandomState,
    parts: Vec<Part>,
    len: usize,
}

/// Where a member stands, until the table is next changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    part: usize,
    index: usize,
}

#[derive(Clone, Debug, Default)]
struct Part {
    hashes: Vec<u32>,
    cells: Vec<u64>,
    used: usize,
}

impl Members {
    pub(super) fn new() -> Members {
        Members { hasher: RandomState::new(), parts: vec![Part::default()], len: 0 }
    }

    /// The hash of a member's name in this table.
    pub(super) fn hash(&self, member: &[u8]) -> u32 {
        (self.hasher.hash_one(member) >> 32) as u32
    }

    /// The first slot with this hash whose cell is confirmed to be the member's.
    pub(super) fn find(
        &self,
        hash: u32,
        mut confirm: impl FnMut(u64) -> bool,
    ) -> Option<(Slot, u64)> {
        let part_index = self.part_of(hash);
        let part = &self.parts[part_index];
        let mask = part.cells.len().checked_sub(1)?;
        let mut index = hash as usize & mask;
        loop {
            let cell = part.cells[index];
            if cell == EMPTY {
                return None;
            }
            if part.hashes[index] == hash && confirm(cell) {
                return Some((Slot { part: part_index, index }, cell));
            }
            index = (index + 1) & mask;
        }
    }

    /// Adds a member that is not in the table.
    pub(super) fn insert(&mut self, hash: u32, bits: u64) {
        if self.len == ONE_PART_MEMBERS && self.parts.len() == 1 {
            self.divide();
        }
        let part = self.part_of(hash);
        self.parts[part].insert(hash, bits);
        self.len += 1;
    }

    /// Gives the member in this slot another cell.
    pub(super) fn replace(&mut self, slot: Slot, bits: u64) {
        self.parts[slot.part].cells[slot.index] = bits;
    }

    /// Takes the member in this slot out of the table.
    pub(super) fn remove(&mut self, slot: Slot) {
        self.parts[slot.part].remove(slot.index);
        self.len -= 1;
    }

    /// Heap bytes of the table.
    pub(super) fn memory_bytes(&self) -> usize {
        let slots: usize = self.parts.iter().map(|part| part.cells.capacity()).sum();
        slots * 12 + self.parts.capacity() * size_of::<Part>()
    }

    fn part_of(&self, hash: u32) -> usize {
        if self.parts.len() == 1 { 0 } else { (hash >> (32 - PART_BITS)) as usize }
    }

    /// Deals the one part out to many.
    fn divide(&mut self) {
        let whole = std::mem::replace(&mut self.parts, vec![Part::default(); 1 << PART_BITS]);
        for (hash, bits) in whole.into_iter().flat_map(Part::into_filled) {
            let part = self.part_of(hash);
            self.parts[part].insert(hash, bits);
        }
    }
}

impl Part {
    fn insert(&mut self, hash: u32, bits: u64) {
        if (self.used + 1) * 4 > self.cells.len() * 3 {
            self.grow();
        }
        self.put(hash, bits);
        self.used += 1;
    }

    fn put(&mut self, hash: u32, bits: u64) {
        let mask = self.cells.len() - 1;
        let mut index = hash as usize & mask;
        while self.cells[index] != EMPTY {
            index = (index + 1) & mask;
        }
        self.hashes[index] = hash;
        self.cells[index] = bits;
    }

    fn grow(&mut self) {
        let slots = (self.cells.len() * 2).max(FIRST_SLOTS);
        let grown = Part { hashes: vec![0; slots], cells: vec![EMPTY; slots], used: self.used };
        for (hash, bits) in std::mem::replace(self, grown).into_filled() {
            self.put(hash, bits);
        }
    }

    /// Empties a slot and moves later members back over it, each not before its position.
    fn remove(&mut self, index: usize) {
        let mask = self.cells.len() - 1;
        let (mut hole, mut next) = (index, index);
        loop {
            next = (next + 1) & mask;
            if self.cells[next] == EMPTY {
                break;
            }
            let position = self.hashes[next] as usize & mask;
            if next.wrapping_sub(position) & mask >= next.wrapping_sub(hole) & mask {
                self.hashes[hole] = self.hashes[next];
                self.cells[hole] = self.cells[next];
                hole = next;
            }
        }
        self.cells[hole] = EMPTY;
        self.used -= 1;
    }

    fn into_filled(self) -> impl Iterator<Item = (u32, u64)> {
        self.hashes.into_iter().zip(self.cells).filter(|&(_, bits)| bits != EMPTY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn the_table_agrees_with_a_map_through_growth_division_and_removal() {
        let mut members = Members::new();
        let mut twin: HashMap<u32, u64> = HashMap::new();
        let mut state = 1u64;
        for round in 0..1_000_000u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let hash = ((state >> 44) as u32).wrapping_mul(4099);
            let found = members.find(hash, |_| true);
            assert_eq!(found.map(|(_, bits)| bits), twin.get(&hash).copied());
            match found {
                None => {
                    members.insert(hash, round);
                    twin.insert(hash, round);
                }
                Some((slot, _)) if round % 3 == 0 => {
                    members.replace(slot, round);
                    twin.insert(hash, round);
                }
                Some((slot, _)) => {
                    members.remove(slot);
                    twin.remove(&hash);
                }
            }
            assert_eq!(members.len, twin.len());
        }
        assert!(members.parts.len() > 1);
        for (&hash, &bits) in &twin {
            assert_eq!(members.find(hash, |_| true).map(|found| found.1), Some(bits));
        }
    }

    #[test]
    fn members_of_one_hash_are_told_apart_by_confirmation() {
        let mut members = Members::new();
        for bits in 0..100 {
            members.insert(77, bits);
        }
        let (slot, _) = members.find(77, |bits| bits == 42).unwrap();
        members.remove(slot);
        assert!(members.find(77, |bits| bits == 42).is_none());
        assert!((0..100).filter(|&b| b != 42).all(|b| members.find(77, |c| c == b).is_some()));
    }
}
