//! Edits of leaves as a batch brings them, and the order in which they are applied.
//!
//! For: batches. Not for: applying them (`merge.rs`).
//!
//! ```text
//! Edit    │ cell << 1, and whether it comes │ Name │        24 bytes
//! packed  │ cell - smallest │ comes? │ number of the edit │  8 bytes, which are what is sorted
//! ```
//!
//! Numbers of eight bytes are sorted several times as fast as edits; these are moved once, when
//! their order is known. Edits of one cell, which are few, are put in order by their members then.
//!
//! Cost: for each edit what sorting a number takes, and two copies.

use std::cmp::Ordering;

use crate::points::bulk::name::{Name, Texts};

/// An entry that comes or goes; the member lies inside.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::points) struct Edit {
    /// The cell, and in the lowest bit whether the entry comes.
    key: u64,
    name: Name,
}

impl Edit {
    pub(in crate::points) fn insertion(bits: u64, name: Name) -> Edit {
        Edit { key: bits << 1 | 1, name }
    }

    pub(in crate::points) fn removal(bits: u64, name: Name) -> Edit {
        Edit { key: bits << 1, name }
    }

    pub(in crate::points) fn bits(&self) -> u64 {
        self.key >> 1
    }

    pub(in crate::points) fn name(&self) -> &Name {
        &self.name
    }

    pub(in crate::points) fn member<'a>(&'a self, texts: Texts<'a>) -> &'a [u8] {
        self.name.bytes(texts)
    }

    pub(super) fn is_insertion(&self) -> bool {
        self.key & 1 != 0
    }

    /// Whether the next edit puts the same entry back.
    pub(super) fn is_undone_by(&self, next: &Edit, texts: Texts<'_>) -> bool {
        next.key == self.key | 1 && next.name.is_same(&self.name, texts)
    }

    /// The order in which a leaf is edited: that of the entries; what goes before what comes.
    fn order(&self, other: &Edit, texts: Texts<'_>) -> Ordering {
        if self.bits() != other.bits() {
            return self.key.cmp(&other.key);
        }
        self.member(texts).cmp(other.member(texts)).then(self.key.cmp(&other.key))
    }
}

/// Sorts edits; its memory is used again.
#[derive(Debug, Default)]
pub(in crate::points) struct Sorter {
    edits: Vec<Edit>,
    packed: Vec<u64>,
    sorted: Vec<Edit>,
}

impl Sorter {
    /// Sorts edits that come in pieces.
    pub(in crate::points) fn sort<'p>(
        &mut self,
        pieces: impl Iterator<Item = &'p [Edit]>,
        texts: Texts<'_>,
    ) {
        self.edits.clear();
        self.sorted.clear();
        pieces.for_each(|piece| self.edits.extend_from_slice(piece));
        let keys = || self.edits.iter().map(|edit| edit.key);
        let (Some(least), Some(most)) = (keys().min(), keys().max()) else { return };
        let number_bits = usize::BITS - self.edits.len().leading_zeros();
        if (most - least).leading_zeros() < number_bits {
            self.sorted.extend_from_slice(&self.edits);
            self.sorted.sort_unstable_by(|one, other| one.order(other, texts));
            return;
        }
        self.packed.clear();
        self.packed.extend((0..).zip(keys()).map(|(n, key)| (key - least) << number_bits | n));
        self.packed.sort_unstable();
        let mask = (1 << number_bits) - 1;
        self.sorted.extend(self.packed.iter().map(|&packed| self.edits[(packed & mask) as usize]));
        for same in self.sorted.chunk_by_mut(|one, next| one.bits() == next.bits()) {
            if same.len() > 1 {
                same.sort_unstable_by(|one, other| one.order(other, texts));
            }
        }
    }

    /// What was sorted last.
    pub(in crate::points) fn sorted(&self) -> &[Edit] {
        &self.sorted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_sorted_by_cell_then_member_then_what_goes_first() {
        let mut state = 5u64;
        for cell_bits in [2, 20, 40, 54] {
            let mut text = Vec::new();
            let edits: Vec<Edit> = (0..3000)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let bits = (state >> 9) & ((1 << cell_bits) - 1);
                    let member = vec![b'a' + (state >> 33) as u8 % 3; (state >> 40) as usize % 20];
                    let name = Name::new(&member, &mut text, 0);
                    if state >> 63 == 0 {
                        Edit::removal(bits, name)
                    } else {
                        Edit::insertion(bits, name)
                    }
                })
                .collect();
            let texts = [&*text];
            let whole =
                |edit: &Edit| (edit.bits(), edit.member(&texts).to_vec(), edit.is_insertion());
            let mut expected: Vec<_> = edits.iter().map(whole).collect();
            expected.sort();
            let mut sorter = Sorter::default();
            for pieces in [1, 7, 3000] {
                sorter.sort(edits.chunks(3000 / pieces), &texts);
                assert!(sorter.sorted().iter().map(whole).eq(expected.iter().cloned()));
            }
        }
    }
}
