//! The table for all members of a collection at once.
//!
//! For: a collection that comes back from pages. Not for: single members (`members.rs`).
//!
//! ```text
//! record   │ cell 52 + low 12 of the code │ upper 8 of the code + 24 more bits of hash │  12 bytes
//! members ──hash──► 4,096 rows of records, one a part ──► parts, each sized once and filled in L2
//! ```
//!
//! A part's members are written in the order of their hashes' upper bits twice: first to the row of
//! their part, which is a stream, then to their bucket, in memory that a core keeps near. Filling
//! the table directly waits for memory once a member.
//!
//! Two records that agree in all 56 bits of hash are suspected to be of one member; only the larger
//! cell gets a slot, and both are reported for somebody who has the names to look at.
//!
//! Invariant: rows hold what `members.rs` needs of a hash, and nothing is asked for twice.
//! Concurrency: a row belongs to one thread while it is filled; parts are filled by any thread.
//! Cost: a dozen nanoseconds a member for both.

use super::{
    BUCKET_SLOTS, Bucket, CELL_BITS, CELL_MASK, CODE_BITS, FULLEST_PERCENT, Members,
    ONE_PART_MEMBERS, PART_BITS, Part, larger_size,
};
use crate::points::hash::Key;

/// The parts of a table that is filled at once.
pub(in crate::points) const PARTS: usize = 1 << PART_BITS;
/// With fewer members a table has one part and is filled one by one.
pub(in crate::points) const FEWEST: usize = ONE_PART_MEMBERS;
/// Bits of hash beyond a slot's.
const CHECK_BITS: u32 = 24;
const TAG_BITS: u32 = super::TAG_BITS;

/// A member without its name. Twelve bytes without padding.
#[derive(Clone, Copy, Debug)]
struct Record {
    slot_low: u32,
    slot_high: u32,
    /// The upper bits of the code, then those of the check.
    check: u32,
}

/// The upper 56 bits of a member's hash.
pub(in crate::points) type HashKey = u64;

/// The part of a hash that a record and its part have.
pub(in crate::points) fn key_of(hash: u64) -> HashKey {
    hash >> (64 - PART_BITS - CODE_BITS - CHECK_BITS)
}

/// A cell, without its upper two bits, where a member with this hash has an entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::points) struct Suspect {
    pub(in crate::points) cell_code: u64,
    pub(in crate::points) key: HashKey,
}

/// Records by the part they belong to.
#[derive(Debug)]
pub(in crate::points) struct Rows(Vec<Vec<Record>>);

impl Rows {
    /// Rows for about this many members.
    pub(in crate::points) fn new(count: usize) -> Rows {
        let mean = count / PARTS;
        // Six standard deviations more: next to no row is moved to a larger place.
        let room = mean + 6 * mean.isqrt() + 8;
        Rows((0..PARTS).map(|_| Vec::with_capacity(room)).collect())
    }

    pub(in crate::points) fn push(&mut self, hash: u64, bits: u64) {
        let part = (hash >> (64 - PART_BITS)) as usize;
        self.0[part].push(Record::new(hash, bits));
    }

    /// The rows by part, each to be dropped when it has been used.
    pub(in crate::points) fn into_rows(self) -> impl Iterator<Item = Row> {
        self.0.into_iter().map(Row)
    }
}

/// The records of one part.
#[derive(Debug)]
pub(in crate::points) struct Row(Vec<Record>);

impl Record {
    fn new(hash: u64, bits: u64) -> Record {
        let key = key_of(hash);
        let code = key >> CHECK_BITS;
        let slot = code << CELL_BITS | bits & CELL_MASK;
        let more = (code >> TAG_BITS) as u32 & 0xff;
        let check = more << CHECK_BITS | key as u32 & ((1 << CHECK_BITS) - 1);
        Record { slot_low: slot as u32, slot_high: (slot >> 32) as u32, check }
    }

    fn slot(self) -> u64 {
        u64::from(self.slot_high) << 32 | u64::from(self.slot_low)
    }

    fn code(self) -> u32 {
        self.check >> CHECK_BITS << TAG_BITS | self.slot_high >> (CELL_BITS - 32)
    }

    fn key(self, part: usize) -> HashKey {
        let check = u64::from(self.check & ((1 << CHECK_BITS) - 1));
        ((part as u64) << CODE_BITS | u64::from(self.code())) << CHECK_BITS | check
    }
}

/// A part that is being filled, with more bits of its members' hashes than it will keep.
struct FillState {
    part: Part,
    checks: Vec<[u32; BUCKET_SLOTS + 1]>,
}

/// A part that is filled, with its number.
#[derive(Debug)]
pub(in crate::points) struct FilledTable {
    number: usize,
    part: Part,
}

impl FilledTable {
    /// Makes a part of its records.
    pub(in crate::points) fn new(
        number: usize,
        rows: &[Row],
        suspects: &mut Vec<Suspect>,
    ) -> FilledTable {
        let count = rows.iter().map(|row| row.0.len()).sum();
        let mut filling = FillState::new(count);
        for &record in rows.iter().flat_map(|row| &row.0) {
            if let Some(other) = filling.put(record) {
                let key = record.key(number);
                let cells = [record.slot() & CELL_MASK, other];
                suspects.extend(cells.map(|cell_code| Suspect { cell_code, key }));
            }
        }
        FilledTable { number, part: filling.part }
    }
}

impl FillState {
    fn new(count: usize) -> FillState {
        let mut size = 0;
        while count > size * BUCKET_SLOTS * FULLEST_PERCENT / 100 {
            size = larger_size(size);
        }
        let part = Part::of_size(size);
        FillState { part, checks: vec![[0; BUCKET_SLOTS + 1]; size] }
    }

    /// Puts a record into its bucket or the next one with room. If one with the same hash is there
    /// the larger cell stays alone, and the cell that was there is returned.
    fn put(&mut self, record: Record) -> Option<u64> {
        let (code, cell) = (record.code(), record.slot() & CELL_MASK);
        let mut at = self.part.home(code);
        loop {
            let (Some(bucket), Some(checks)) =
                (self.part.buckets.get_mut(at), self.checks.get_mut(at))
            else {
                self.part.buckets.reserve_exact(1);
                self.part.buckets.push(Bucket::default());
                self.checks.push([0; BUCKET_SLOTS + 1]);
                continue;
            };
            let count = bucket.count();
            let mut same = 0u32;
            for (index, &check) in checks.iter().enumerate() {
                same |= u32::from(check == record.check) << index;
            }
            same &= (1 << count) - 1;
            while same != 0 {
                let slot = &mut bucket.slots[same.trailing_zeros() as usize];
                if (*slot ^ record.slot()) >> CELL_BITS == 0 {
                    let there = *slot & CELL_MASK;
                    *slot = *slot & !CELL_MASK | there.max(cell);
                    return Some(there);
                }
                same &= same - 1;
            }
            if count < BUCKET_SLOTS {
                checks[count] = record.check;
                bucket.push(code, cell);
                self.part.used += 1;
                return None;
            }
            at += 1;
        }
    }
}

impl Members {
    /// A table of filled parts, one for each number.
    pub(in crate::points) fn of_parts(key: Key, filled: Vec<FilledTable>) -> Members {
        assert_eq!(filled.len(), PARTS, "there is a part for each number");
        let mut members = Members { key, parts: vec![Part::default(); PARTS], len: 0, bytes: 0 };
        for FilledTable { number, part } in filled {
            members.len += part.used;
            members.bytes += part.memory_bytes();
            members.parts[number] = part;
        }
        members
    }

    /// Takes out the slot that was filled for these suspects, all of one hash.
    pub(in crate::points) fn remove_suspects(&mut self, suspects: &[Suspect]) {
        let Some(largest) = suspects.iter().max() else { return };
        let hash = largest.key << (64 - PART_BITS - CODE_BITS - CHECK_BITS);
        let is_it = |cell_code| (cell_code == largest.cell_code).then_some(());
        if let Some((slot, ())) = self.find(hash, is_it) {
            self.remove(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_what_a_slot_needs() {
        let hash = 0xfedc_ba98_7654_3210;
        let record = Record::new(hash, 3 << 52 | 0x9_8765_4321_0fed);
        assert_eq!(record.slot() & CELL_MASK, 0x9_8765_4321_0fed);
        assert_eq!(record.code(), super::super::code_of(hash));
        assert_eq!(record.key(0xfed), key_of(hash));
        assert_eq!(size_of::<Record>(), 12);
    }
}
