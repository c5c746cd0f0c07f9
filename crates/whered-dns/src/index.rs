//! A hash table from owner names to places in zones.
//!
//! Not for: what stands there (`zones.rs` compares the names and keeps the nodes).
//!
//! ```text
//! slots: [ tag u32 | zone u32 | node u32 | pool u32 ] x power of two, at most half full
//! ```
//!
//! The slot of a name is the low bits of its hash, then the next free one; the tag is the hash's
//! upper half. Immutable once built. Cost: one cache line per probe in the ordinary case.
#![deny(clippy::indexing_slicing)]

const NONE: u32 = u32::MAX;

/// Where a name is: its zone, its node there, and the pool that answers its addresses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    tag: u32,
    pub(crate) zone: u32,
    pub(crate) node: u32,
    pool: u32,
}

impl Slot {
    pub(crate) fn new(zone: usize, node: usize, pool: Option<usize>) -> Slot {
        let pool = pool.map_or(NONE, |pool| pool as u32);
        Slot { tag: 0, zone: zone as u32, node: node as u32, pool }
    }

    pub(crate) fn pool(&self) -> Option<usize> {
        (self.pool != NONE).then_some(self.pool as usize)
    }
}

const FREE: Slot = Slot { tag: 0, zone: NONE, node: NONE, pool: NONE };

/// The table.
#[derive(Debug, Default)]
pub(crate) struct NameIndex {
    slots: Box<[Slot]>,
}

impl NameIndex {
    /// Builds the table. The names must be distinct.
    pub(crate) fn build(entries: &[(u64, Slot)]) -> NameIndex {
        if entries.is_empty() {
            return NameIndex::default();
        }
        let size = (entries.len() * 2).next_power_of_two();
        let mut slots = vec![FREE; size].into_boxed_slice();
        for &(hash, slot) in entries {
            let mut at = hash as usize & (size - 1);
            while slots.get(at).is_some_and(|slot| slot.zone != NONE) {
                at = (at + 1) & (size - 1);
            }
            if let Some(place) = slots.get_mut(at) {
                *place = Slot { tag: (hash >> 32) as u32, ..slot };
            }
        }
        NameIndex { slots }
    }

    /// Finds the name with this hash for which `is_name` holds.
    #[inline]
    pub(crate) fn find(&self, hash: u64, is_name: impl Fn(&Slot) -> bool) -> Option<Slot> {
        let mask = self.slots.len().wrapping_sub(1);
        let mut at = hash as usize & mask;
        // The table is at most half full, so that a free slot ends every search.
        while let Some(slot) = self.slots.get(at) {
            if slot.zone == NONE {
                return None;
            }
            if slot.tag == (hash >> 32) as u32 && is_name(slot) {
                return Some(*slot);
            }
            at = (at + 1) & mask;
        }
        None
    }
}
