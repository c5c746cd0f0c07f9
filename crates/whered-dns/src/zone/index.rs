//! The hash table of one zone: from a name's hash to its block.
//!
//! Not for: whether the block's owner is the name; the zone compares.
//!
//! ```text
//! slots: [ tag u32 | block u32 ] x twice the names, and a few, one after another from the home place
//!          low half of the hash    home: the hash's high bits, scaled to twice the number of names
//! ```
//!
//! A search goes on behind the last home, so that it never turns round; a free slot ends the table.
//! Immutable once built, in huge pages if it is large. Cost: eight slots to a cache line; at half
//! full a search that finds nothing reads 2.5 slots on average, one that finds 1.5.
#![deny(clippy::indexing_slicing)]

use whered_ip::image::{Image, Section, bytes_of};

use super::layout::NodeRef;

const FREE: u64 = u64::MAX;
/// How many slots a copy has more than what it is a copy of.
const SPARE_SLOTS: usize = 8;

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct NameIndex {
    slots: Section<u64>,
    homes: usize,
    /// How many slots are taken.
    used: usize,
}

/// Names that come, go, and have another block.
#[derive(Default)]
pub(super) struct IndexChanges {
    pub(super) added: Vec<(u64, NodeRef)>,
    /// The hash, and the blocks before and after. The block of a name that is gone is one whose
    /// owner is no name that is looked for.
    pub(super) moved: Vec<(u64, NodeRef, NodeRef)>,
}

impl NameIndex {
    /// Builds the table of distinct names.
    pub(crate) fn build(entries: impl ExactSizeIterator<Item = (u64, NodeRef)>) -> NameIndex {
        let (used, homes) = (entries.len(), entries.len() * 2 + 2);
        let mut slots = vec![FREE; homes];
        for (hash, node) in entries {
            let mut at = home(hash, homes);
            while slots.get(at).is_some_and(|&slot| slot != FREE) {
                at += 1;
            }
            let slot = slot_of(hash, node);
            match slots.get_mut(at) {
                Some(free) => *free = slot,
                None => slots.push(slot),
            }
        }
        slots.push(FREE);
        let (image, places) = Image::with_sections(&[bytes_of(&slots)]);
        let place = places.into_iter().next().expect("one section, one place");
        let slots = image.section(place).expect("sections begin where numbers may");
        NameIndex { slots, homes, used }
    }

    /// A copy with changes; none when it has no more room for them.
    pub(super) fn changed(&self, changes: &IndexChanges) -> Option<NameIndex> {
        let used = self.used + changes.added.len();
        // Searches stay short while two slots of three are taken.
        if used * 3 > self.homes * 2 {
            return None;
        }
        let mut fits = true;
        let spare = [FREE; SPARE_SLOTS];
        let parts = [bytes_of(&self.slots), bytes_of(&spare)];
        let image = Image::edited(&parts, |bytes| {
            let (slots, _) = bytes.as_chunks_mut::<8>();
            for &(hash, before, after) in &changes.moved {
                let slot = slot_of(hash, before).to_ne_bytes();
                let mut own = slots.iter_mut().skip(home(hash, self.homes));
                match own.find(|there| **there == slot) {
                    Some(there) => *there = slot_of(hash, after).to_ne_bytes(),
                    None => fits = false,
                }
            }
            for &(hash, node) in &changes.added {
                let mut own = slots.iter_mut().skip(home(hash, self.homes));
                match own.find(|there| **there == FREE.to_ne_bytes()) {
                    Some(free) => *free = slot_of(hash, node).to_ne_bytes(),
                    None => fits = false,
                }
            }
            // A free slot ends the table.
            fits &= slots.last() == Some(&FREE.to_ne_bytes());
        });
        let slots = image.section(0..image.as_bytes().len())?;
        fits.then_some(NameIndex { slots, homes: self.homes, used })
    }

    /// Asks for the slots of a hash before they are read.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        self.slots.prefetch(home(hash, self.homes));
    }

    /// Finds the name with this hash for which `is_name` holds.
    #[inline(always)]
    pub(crate) fn find(&self, hash: u64, is_name: impl Fn(NodeRef) -> bool) -> Option<NodeRef> {
        for &slot in self.slots.get(home(hash, self.homes)..)? {
            if slot == FREE {
                break;
            }
            if slot >> 32 == hash & 0xffff_ffff && is_name(NodeRef(slot as u32)) {
                return Some(NodeRef(slot as u32));
            }
        }
        None
    }

    pub(crate) fn size_bytes(&self) -> usize {
        size_of_val(&*self.slots)
    }
}

fn slot_of(hash: u64, node: NodeRef) -> u64 {
    hash << 32 | u64::from(node.0)
}

#[inline]
fn home(hash: u64, homes: usize) -> usize {
    ((u128::from(hash) * homes as u128) >> 64) as usize
}
