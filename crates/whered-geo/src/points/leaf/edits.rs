//! Edits of leaves as a batch brings them, and the order in which they are applied.
//!
//! For: batches. Not for: applying them (`merge.rs`).
//!
//! ```text
//! Edit    │ cell << 1, and whether it comes │ Name or Number │  24 bytes or 12
//! packed  │ cell - smallest │ comes? │ place of the edit │       8 bytes, which are what is sorted
//! ```
//!
//! Numbers of eight bytes are sorted several times as fast as edits; these are moved once, when
//! their order is known. Edits of one cell, which are few, are put in order by their members then.
//! Numbers get their names when they are moved.
//!
//! Cost: for each edit what sorting a number takes, and two copies.

use std::cmp::Ordering;

use crate::points::bulk::name::{BatchName, Name, Number, Texts};
use crate::points::bulk::rows::Rows;

/// An entry that comes or goes; the member lies inside.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::points) struct Edit<N = Name> {
    /// The cell, and in the lowest bit whether the entry comes; in halves, so that it stands at any
    /// place that is good for one.
    key_low: u32,
    key_high: u32,
    name: N,
}

impl<N: BatchName> Edit<N> {
    pub(in crate::points) fn insertion(bits: u64, name: N) -> Edit<N> {
        Edit::new(bits << 1 | 1, name)
    }

    pub(in crate::points) fn removal(bits: u64, name: N) -> Edit<N> {
        Edit::new(bits << 1, name)
    }

    fn new(key: u64, name: N) -> Edit<N> {
        Edit { key_low: key as u32, key_high: (key >> 32) as u32, name }
    }

    pub(in crate::points) fn bits(&self) -> u64 {
        self.key() >> 1
    }

    fn key(&self) -> u64 {
        u64::from(self.key_high) << 32 | u64::from(self.key_low)
    }

    /// The name, whatever stands for it here.
    pub(in crate::points) fn name(&self) -> Name {
        self.name.name()
    }

    fn named(&self) -> Edit {
        Edit::new(self.key(), self.name())
    }
}

impl Edit {
    pub(in crate::points) fn member<'a>(&'a self, texts: Texts<'a>) -> &'a [u8] {
        self.name.bytes(texts)
    }

    pub(super) fn is_insertion(&self) -> bool {
        self.key_low & 1 != 0
    }

    /// Whether the next edit puts the same entry back.
    pub(super) fn is_undone_by(&self, next: &Edit, texts: Texts<'_>) -> bool {
        next.key() == self.key() | 1 && next.name.is_same(self.name, texts)
    }

    /// The order in which a leaf is edited: that of the entries; what goes before what comes.
    fn order(&self, other: &Edit, texts: Texts<'_>) -> Ordering {
        if self.bits() != other.bits() {
            return self.key().cmp(&other.key());
        }
        self.member(texts).cmp(other.member(texts)).then(self.key().cmp(&other.key()))
    }
}

/// Edits by lane, as one thread makes them of its groups.
#[derive(Clone, Debug)]
pub(in crate::points) struct Edits {
    pub(in crate::points) numbers: Rows<Edit<Number>>,
    pub(in crate::points) names: Rows<Edit>,
}

impl Edits {
    /// No edits, for this many lanes.
    pub(in crate::points) fn new(lanes: usize) -> Edits {
        Edits { numbers: Rows::new(lanes), names: Rows::new(lanes) }
    }

    /// Empties all lanes and sets their number; keeps the memory.
    pub(in crate::points) fn clear(&mut self, lanes: usize) {
        self.numbers.clear(lanes);
        self.names.clear(lanes);
    }

    /// The number of lanes.
    pub(in crate::points) fn lanes(&self) -> usize {
        self.numbers.count()
    }

    /// How many edits a lane has.
    pub(in crate::points) fn len(&self, lane: usize) -> usize {
        self.numbers.len(lane) + self.names.len(lane)
    }
}

/// Sorts edits; its memory is used again.
#[derive(Debug, Default)]
pub(in crate::points) struct Sorter {
    numbers: Vec<Edit<Number>>,
    names: Vec<Edit>,
    packed: Vec<u64>,
    sorted: Vec<Edit>,
}

impl Sorter {
    /// Sorts the edits of a lane.
    pub(in crate::points) fn sort(&mut self, pieces: &[Edits], lane: usize, texts: Texts<'_>) {
        self.numbers.clear();
        self.names.clear();
        for piece in pieces {
            let (numbers, names) = (piece.numbers.blocks(lane), piece.names.blocks(lane));
            numbers.for_each(|some| self.numbers.extend_from_slice(some));
            names.for_each(|some| self.names.extend_from_slice(some));
        }
        self.put_in_order(texts);
    }

    fn put_in_order(&mut self, texts: Texts<'_>) {
        let Sorter { numbers, names, packed, sorted } = self;
        sorted.clear();
        let keys = || numbers.iter().map(Edit::key).chain(names.iter().map(Edit::key));
        let least = keys().fold(u64::MAX, u64::min);
        let most = keys().fold(0, u64::max);
        let place_bits = usize::BITS - (numbers.len() + names.len()).leading_zeros();
        if most.saturating_sub(least).leading_zeros() < place_bits {
            sorted.extend(numbers.iter().map(Edit::named));
            sorted.extend_from_slice(names);
            sorted.sort_unstable_by(|one, other| one.order(other, texts));
            return;
        }
        packed.clear();
        packed.extend((0..).zip(keys()).map(|(n, key)| (key - least) << place_bits | n));
        packed.sort_unstable();
        sorted.extend(packed.iter().map(|&packed| {
            let place = (packed & ((1 << place_bits) - 1)) as usize;
            match numbers.get(place) {
                Some(edit) => edit.named(),
                None => names[place - numbers.len()],
            }
        }));
        for same in sorted.chunk_by_mut(|one, next| one.bits() == next.bits()) {
            if same.len() > 1 {
                same.sort_unstable_by(|one, other| one.order(other, texts));
            }
        }
    }

    /// The last sorted range.
    pub(in crate::points) fn sorted(&self) -> &[Edit] {
        &self.sorted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::points::number::number;

    #[test]
    fn edits_are_sorted_by_cell_then_member_then_what_goes_first() {
        let mut state = 5u64;
        for cell_bits in [2, 20, 40, 54] {
            let mut text = Vec::new();
            let edits: Vec<Edit> = (0..3000)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let bits = (state >> 9) & ((1 << cell_bits) - 1);
                    let letter = if state >> 62 & 1 == 0 { b'a' } else { b'1' };
                    let member =
                        vec![letter + (state >> 33) as u8 % 3; (state >> 40) as usize % 20];
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
            for count in [1, 7, 300] {
                let mut pieces = vec![Edits::new(2); count];
                for (at, edit) in edits.iter().enumerate() {
                    let piece = &mut pieces[at % count];
                    match number(edit.member(&texts)) {
                        Some(number) => {
                            piece.numbers.push(1, Edit::new(edit.key(), Number(number as u32)));
                        }
                        None => piece.names.push(1, *edit),
                    }
                }
                sorter.sort(&pieces, 1, &texts);
                assert!(sorter.sorted().iter().map(whole).eq(expected.iter().cloned()));
            }
        }
    }
}
