//! Leaves as they come back from a disk: words that nobody has vouched for.
//!
//! For: finding a leaf's end in a row of leaves, and proving in one pass that the rest of the code
//! may read it. Not for: checksums, which the reader of the words has verified; a leaf with a good
//! checksum may still have been written by another program.
//!
//! The layout is that of `mod.rs`. Numbers of long members mean nothing outside the process that
//! wrote them; such entries are dropped here and come beside the leaf (`pages.rs`).
//!
//! Invariant: what [`Leaf::from_stored`] returns is a leaf as any other.
//! Cost: one pass; a few comparisons for each entry, and one copy.

use std::sync::Arc;

use bytemuck::cast_slice;

use super::{HEADER_BYTES, Keys, Leaf, LeafBuilder, MOST_ENTRIES, MOST_TEXT_BYTES, OFFSET_BYTES};
use crate::cell::{Cell, OVERFLOW_BITS};
use crate::points::overflow::{self, Text};

/// A fault of a leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::points) enum LeafFault {
    /// It does not hold what its header announces.
    Size,
    /// No leaf has such a header.
    Header,
    /// The cells do not ascend, or are none.
    Cells,
    /// The texts do not follow each other.
    Offsets,
    /// A text is no bulk string of a member that belongs inside a leaf.
    Text,
    /// Members of one cell do not ascend.
    Members,
}

impl LeafFault {
    pub(in crate::points) fn describe(self) -> &'static str {
        match self {
            LeafFault::Size => "it is shorter than its entries",
            LeafFault::Header => "its header is that of no leaf",
            LeafFault::Cells => "its cells are not valid and in order",
            LeafFault::Offsets => "its texts do not follow each other",
            LeafFault::Text => "a member is not in its stored form",
            LeafFault::Members => "the members of one cell are not in order",
        }
    }
}

/// The words of the leaf that begins with this one; 0 if no leaf does.
pub(in crate::points) fn words_of(header: u64) -> usize {
    (header >> 48) as usize
}

/// Words whose header has been read.
struct StoredLeaf<'a> {
    bytes: &'a [u8],
    cells: Cells<'a>,
    offsets: &'a [u16],
    long_count: usize,
}

enum Cells<'a> {
    Narrow(u64, &'a [u32]),
    Wide(&'a [u64]),
}

impl Leaf {
    /// The leaf in these words; `None` if all of its members are long ones.
    pub(in crate::points) fn from_stored(words: &[u64]) -> Result<Option<Leaf>, LeafFault> {
        let stored = StoredLeaf::new(words)?;
        let has_ties = stored.cells.check()?;
        stored.check_texts(has_ties)?;
        if stored.long_count > 0 {
            return Ok(stored.without_long());
        }
        Ok(Some(Leaf { blob: Arc::from(words) }))
    }

    /// The words of the leaf, which say how many they are.
    pub(in crate::points) fn words(&self) -> &[u64] {
        &self.blob
    }

    /// Calls with the slot, cell and member of each entry of a leaf that has no long members.
    /// Several times as fast as asking entry by entry.
    #[inline]
    pub(in crate::points) fn for_each_short<'a>(&'a self, mut f: impl FnMut(usize, u64, &'a [u8])) {
        let bytes: &[u8] = cast_slice(&self.blob);
        let ends = self.offsets().iter().skip(1).chain(&[0]);
        let mut start = bytes.len() - self.text_bytes();
        let mut visit = |slot: usize, bits: u64, end: u16| {
            let end = bytes.len() - usize::from(end);
            f(slot, bits, overflow::inside_member_of(&bytes[start..end]));
            start = end;
        };
        match self.keys() {
            Keys::Narrow { base, deltas } => {
                for (slot, (&delta, &end)) in deltas.iter().zip(ends).enumerate() {
                    visit(slot, base + u64::from(delta), end);
                }
            }
            Keys::Wide(cells) => {
                for (slot, (&bits, &end)) in cells.iter().zip(ends).enumerate() {
                    visit(slot, bits, end);
                }
            }
        }
    }

    /// Whether all members are in the overflow store.
    pub(in crate::points) fn is_all_long(&self) -> bool {
        self.long_count() == self.len()
    }
}

impl<'a> StoredLeaf<'a> {
    fn new(words: &'a [u64]) -> Result<StoredLeaf<'a>, LeafFault> {
        let &[header, base, ..] = words else { return Err(LeafFault::Size) };
        let part = |index: u32| (header >> (16 * index) & 0xffff) as usize;
        let (count, wide, long_count) = (part(0), part(1), part(2));
        if !(1..=MOST_ENTRIES).contains(&count) || wide > 1 || long_count > count {
            return Err(LeafFault::Header);
        }
        let offsets_at = HEADER_BYTES + if wide == 1 { 8 } else { 4 } * count;
        if words_of(header) != words.len() || words.len() * 8 < offsets_at + OFFSET_BYTES * count {
            return Err(LeafFault::Size);
        }
        let cells = if wide == 1 {
            Cells::Wide(&words[2..2 + count])
        } else {
            Cells::Narrow(base, &cast_slice(words)[4..4 + count])
        };
        let offsets = &cast_slice(words)[offsets_at / OFFSET_BYTES..][..count];
        let stored = StoredLeaf { bytes: cast_slice(words), cells, offsets, long_count };
        let room = words.len() * 8 - offsets_at - OFFSET_BYTES * count;
        let is_sound = stored.offset(0) <= room.min(MOST_TEXT_BYTES)
            && offsets.windows(2).all(|pair| pair[0] > pair[1])
            && stored.offset(count - 1) > 0;
        is_sound.then_some(stored).ok_or(LeafFault::Offsets)
    }

    fn offset(&self, slot: usize) -> usize {
        self.offsets.get(slot).map_or(0, |&offset| usize::from(offset))
    }

    /// A text; that the offsets descend has been checked.
    fn text(&self, slot: usize) -> &'a [u8] {
        let size = self.bytes.len();
        &self.bytes[size - self.offset(slot)..size - self.offset(slot + 1)]
    }

    fn check_texts(&self, has_ties: bool) -> Result<(), LeafFault> {
        let mut long_count = 0;
        for slot in 0..self.offsets.len() {
            let text = self.text(slot);
            if !overflow::is_inside_bulk(text) {
                if !overflow::is_long_mark(text) {
                    return Err(LeafFault::Text);
                }
                long_count += 1;
            }
        }
        if long_count != self.long_count {
            return Err(LeafFault::Header);
        }
        if has_ties && !self.are_ties_sorted() { Err(LeafFault::Members) } else { Ok(()) }
    }

    fn are_ties_sorted(&self) -> bool {
        let mut previous = None;
        self.short_entries().all(|(bits, member)| {
            let entry = Some((bits, member));
            let ascends = previous < entry;
            previous = entry;
            ascends
        })
    }

    /// The entries whose members are here; the texts have been checked.
    fn short_entries(&self) -> impl Iterator<Item = (u64, &'a [u8])> {
        (0..self.offsets.len()).filter_map(|slot| {
            let text = self.text(slot);
            let is_short = overflow::number_of(text).is_none();
            is_short.then(|| (self.cells.bits(slot), overflow::member_of(text)))
        })
    }

    /// The leaf of the entries whose members are here.
    fn without_long(&self) -> Option<Leaf> {
        let entries: Vec<(u64, &[u8])> = self.short_entries().collect();
        Leaf::of_entries(&entries)
    }
}

impl Leaf {
    /// A leaf of entries in order, no more than it can hold; `None` if there are none.
    pub(in crate::points) fn of_entries(entries: &[(u64, &[u8])]) -> Option<Leaf> {
        let (first, last) = (entries.first()?.0, entries.last()?.0);
        let text_bytes = entries.iter().map(|&(_, member)| Text::Inside(member).size()).sum();
        let mut builder = LeafBuilder::new(entries.len(), text_bytes, first, last);
        for &(bits, member) in entries {
            builder.push(bits, Text::Inside(member));
        }
        Some(builder.finish())
    }
}

impl Cells<'_> {
    fn bits(&self, slot: usize) -> u64 {
        match *self {
            Cells::Narrow(base, deltas) => base + u64::from(deltas[slot]),
            Cells::Wide(cells) => cells[slot],
        }
    }

    /// Checks that all are cells and none is below the one before; says whether some are equal.
    fn check(&self) -> Result<bool, LeafFault> {
        let (is_sorted, has_ties, last) = match *self {
            Cells::Narrow(base, deltas) => {
                let (is_sorted, has_ties) = order_of(deltas);
                let last = base.checked_add(u64::from(deltas[deltas.len() - 1]));
                (is_sorted, has_ties, last.unwrap_or(u64::MAX))
            }
            Cells::Wide(cells) => {
                let (is_sorted, has_ties) = order_of(cells);
                (is_sorted, has_ties, cells[cells.len() - 1])
            }
        };
        let are_cells = last < OVERFLOW_BITS || last < u64::MAX && self.are_cells();
        if is_sorted && are_cells { Ok(has_ties) } else { Err(LeafFault::Cells) }
    }

    fn are_cells(&self) -> bool {
        let count = match self {
            Cells::Narrow(_, deltas) => deltas.len(),
            Cells::Wide(cells) => cells.len(),
        };
        (0..count).all(|slot| Cell::from_bits(self.bits(slot)).is_some())
    }
}

/// Whether numbers ascend, and whether some are equal. Without an early end, so that the compiler
/// can take several at a time.
fn order_of<T: PartialOrd + Copy>(numbers: &[T]) -> (bool, bool) {
    let pairs = numbers.iter().zip(&numbers[1..]);
    pairs.fold((true, false), |(is_sorted, has_ties), (a, b)| {
        (is_sorted & (a <= b), has_ties | (a == b))
    })
}
