//! Members that come more than once with another place: a collection keeps the last one.
//!
//! For: telling how much of a file is not in the collection in the end. Not for: members that the
//! collection had before.
//!
//! Memory: 16 bytes a member and the table's room, up to [`MEMBERS_MAX`] members; of a file with
//! more, those that came later are not looked at. Two members of one hash in 64 bits would count as
//! one.

use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::BuildHasher;

use whered_geo::{Cell, Place};

/// The most members that are remembered.
const MEMBERS_MAX: usize = 1 << 23;
/// Set beside a cell, which has 54 bits at most, when its member has come with another one.
const HAS_MOVED: u64 = 1 << 63;

/// See the head of this file.
#[derive(Default)]
pub(super) struct Repeats {
    hasher: RandomState,
    cells: HashMap<u64, u64>,
    /// Members that came with more than one place.
    pub(super) members: u64,
    /// Records in whose place a later one counts.
    pub(super) records: u64,
    /// Some members were not looked at.
    pub(super) is_part: bool,
}

impl Repeats {
    pub(super) fn note(&mut self, member: &[u8], place: Place) {
        let cell = Cell::from_place(place).bits();
        let is_full = self.cells.len() >= MEMBERS_MAX;
        match self.cells.entry(self.hasher.hash_one(member)) {
            Entry::Occupied(mut known) => {
                let before = *known.get();
                if before & !HAS_MOVED != cell {
                    self.records += 1;
                    self.members += u64::from(before & HAS_MOVED == 0);
                    known.insert(cell | HAS_MOVED);
                }
            }
            Entry::Vacant(_) if is_full => self.is_part = true,
            Entry::Vacant(room) => drop(room.insert(cell)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_again_counts_only_with_another_place() {
        let mut repeats = Repeats::default();
        for (member, longitude) in
            [("a", 1.0), ("b", 1.0), ("a", 1.0), ("a", 2.0), ("a", 1.0), ("b", 3.0)]
        {
            repeats.note(member.as_bytes(), Place::new(longitude, 50.0).unwrap());
        }
        assert_eq!((repeats.members, repeats.records, repeats.is_part), (2, 3, false));
    }
}
