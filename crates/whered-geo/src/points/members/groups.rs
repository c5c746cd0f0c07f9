//! The table of members in groups of parts, each of which one thread may change.
//!
//! For: batches, whose members are dealt out to the groups by their hashes first. Not for: single
//! changes.
//!
//! A slot cannot say whose it is without the leaf that it leads to, and a batch does not go there
//! first: it takes out *every* slot that has the member's code, and tells the leaves to give up
//! the member. Nearly always there is one slot, and it was the member's. Where a leaf has no such
//! member the slot was another's and is put back. That is enough, since a slot is nothing but
//! code and cell: a table is right if it has the right ones, in whatever places.
//!
//! Invariants: a batch has no two members with one code (`bulk/` sees to that), or the slot that
//! one of them put in would be taken out for the other.
//! Cost: one or two cache lines a member, which can be asked for beforehand.

use super::{BUCKET_SLOTS, CELL_BITS, CELL_MASK, CODE_BITS, Members, PART_BITS, Part, is_one_cell};
use crate::points::hash::IS_NUMBER;

/// As many slots of one code are taken out; more are left to be looked at one by one.
pub(in crate::points) const MOST_TAKEN: usize = 4;

/// A slot has the lower bits of a hash's upper half.
const CODE_MASK: u32 = (1 << CODE_BITS) - 1;
const _: () = assert!(PART_BITS + CODE_BITS == u32::BITS);
// A number and another name never have one code: a batch may look at each kind by itself.
const _: () = assert!((IS_NUMBER >> u32::BITS) as u32 & CODE_MASK != 0);

/// Parts that belong to one thread for a while.
#[derive(Debug)]
pub(in crate::points) struct Group<'a> {
    parts: &'a mut [Part],
}

/// The cells of the slots that were taken out.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::points) struct TakenParts {
    cells: [u64; MOST_TAKEN],
    count: usize,
}

impl TakenParts {
    pub(in crate::points) fn cells(&self) -> &[u64] {
        &self.cells[..self.count]
    }
}

impl Members {
    /// The number of parts, which is a power of two.
    pub(in crate::points) fn part_count(&self) -> usize {
        self.parts.len()
    }

    /// Which bits of a hash's upper half part and slot have: the table cannot tell members apart
    /// for which these are the same.
    pub(in crate::points) fn telling_mask(&self) -> u32 {
        if self.parts.len() == 1 { CODE_MASK } else { u32::MAX }
    }

    /// All parts in `count` groups, a power of two and at most the number of parts.
    pub(in crate::points) fn groups(&mut self, count: usize) -> impl Iterator<Item = Group<'_>> {
        let size = self.parts.len() / count;
        self.parts.chunks_mut(size).map(|parts| Group { parts })
    }

    /// Adds to the groups' numbers of members, modulo 2^64.
    pub(in crate::points) fn add_to_len(&mut self, more: usize) {
        self.len = self.len.wrapping_add(more);
        self.bytes = self.parts_bytes();
    }
}

impl Group<'_> {
    /// Asks for the bucket where a search begins.
    #[inline]
    pub(in crate::points) fn prefetch(&self, telling: u32) {
        let part = &self.parts[self.part_of(telling)];
        let home = part.home(telling & CODE_MASK);
        whered_simd::prefetch(&part.buckets, home);
        // A third of the searches go on.
        whered_simd::prefetch(&part.buckets, home + 1);
    }

    /// Takes out all slots of a member, and puts one in for a cell if there is one. `None` if the
    /// slots leave open where the member is; nothing has been changed then.
    #[inline]
    pub(in crate::points) fn exchange(
        &mut self,
        telling: u32,
        bits: Option<u64>,
    ) -> Option<TakenParts> {
        let (part, code) = (self.part_of(telling), telling & CODE_MASK);
        let part = &mut self.parts[part];
        let (taken, place) = part.slots_of(code)?;
        match (place, bits) {
            (Some((bucket, index)), Some(bits)) => {
                let slot = &mut part.buckets[bucket].slots[index];
                *slot = *slot & !CELL_MASK | bits & CELL_MASK;
            }
            (Some((bucket, index)), None) => part.remove(bucket, index),
            (None, Some(bits)) => part.insert(code, bits & CELL_MASK),
            (None, None) => {}
        }
        for &cell in taken.cells().iter().skip(1) {
            part.remove_one(code, cell);
        }
        Some(taken)
    }

    fn part_of(&self, telling: u32) -> usize {
        (telling >> CODE_BITS) as usize & (self.parts.len() - 1)
    }
}

impl Part {
    /// The cells of all slots with a code, and where the first of them is.
    #[inline]
    fn slots_of(&self, code: u32) -> Option<(TakenParts, Option<(usize, usize)>)> {
        let (mut taken, mut place) = (TakenParts::default(), None);
        for (number, bucket) in self.buckets.iter().enumerate().skip(self.home(code)) {
            let mut matches = bucket.matches(code);
            while matches != 0 {
                let index = matches.trailing_zeros() as usize;
                matches &= matches - 1;
                let cell = bucket.slots[index] & CELL_MASK;
                let is_open = taken.count == MOST_TAKEN
                    || taken.cells().contains(&cell)
                    || !is_one_cell(cell);
                if is_open {
                    return None;
                }
                place = place.or(Some((number, index)));
                taken.cells[taken.count] = cell;
                taken.count += 1;
            }
            if !bucket.is_full() {
                break;
            }
        }
        Some((taken, place))
    }

    /// Removes a slot with this code and cell, which there is.
    fn remove_one(&mut self, code: u32, cell: u64) {
        let home = self.home(code);
        let slot = u64::from(code) << CELL_BITS | cell;
        let place = (home * BUCKET_SLOTS..self.buckets.len() * BUCKET_SLOTS).find_map(|at| {
            let (number, index) = (at / BUCKET_SLOTS, at % BUCKET_SLOTS);
            let bucket = &self.buckets[number];
            let is_here =
                bucket.filled().get(index) == Some(&slot) && bucket.has_code(index, slot, code);
            is_here.then_some((number, index))
        });
        let (bucket, index) = place.expect("the slot was seen a moment ago");
        self.remove(bucket, index);
    }
}

#[cfg(test)]
impl Members {
    pub(in crate::points) fn with_key(key: crate::points::hash::Key) -> Members {
        Members { key, ..Members::new() }
    }

    /// Fails unless there are this many slots and each part and bucket counts its own rightly.
    pub(in crate::points) fn assert_sound(&self, len: usize) {
        assert_eq!(self.len, len);
        let used = |part: &Part| part.buckets.iter().map(super::Bucket::count).sum::<usize>();
        assert!(self.parts.iter().all(|part| part.used == used(part)));
        assert_eq!(self.parts.iter().map(used).sum::<usize>(), len);
    }
}
