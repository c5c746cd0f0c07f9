//! Slots and nodes: the two kinds of 32-bit words that a compiled index is made of.
//!
//! For: packing answers into slots, writing nodes, and the one step from a node to a slot that
//! every lookup is made of. Not for: which nodes there are (see `build`), the way through them
//! (see `lookup`).
//!
//! A slot is either an answer or the place of a node:
//!
//! ```text
//! bit  31 | 30 ........ 23 | 22 ................................ 0
//!       0 | length 0-128   | value                                   an answer
//!       0 | 129            | place in the table of wide answers      value of 2^23 and more
//!       0 | 130            | length of the alias in bits             go on as IPv4
//!       0 | 255            | all ones                                nothing matches
//! bit  31 | 30 . 28 | 27 ........................................ 0
//!       1 | form    | where the node begins, in words
//! ```
//!
//! A node divides 256 cells (the next octet of the address) into runs of equal slots. Run r ends
//! at cell `end[r]`; the slot of cell c is that of run number "how many ends are smaller than c".
//! The last run always ends at 255, so its end is not kept. Three forms, told apart by the slot
//! that leads here, so that nothing has to be read to know how to read:
//!
//! ```text
//! form 0-4  | form words: up to 16 ends as octets, padded by 255 | slots, one a run |
//! form 5    | 8 words: one bit a cell, set where a run ends      |
//!           | 1 word: ends in the bitmap's first 0, 1, 2, 3 x 64 cells, an octet each | slots |
//! form 6    | 256 slots, one a cell |
//! ```
//!
//! With the runs 0-127, 128-191 and 192-255 (a /25 and two /26), form 1 is
//! `| 7f bf ff ff | slot | slot | slot |`. Cell 0x90: one end (7f) is smaller, so run 1.
//!
//! Invariants: runs are in order and adjacent runs differ; a node with one run holds a child,
//! because otherwise its slot stands in its parent; behind the last node follow
//! [`HEAD_WORDS`] words, so that a step may read that many from any node's beginning.
//!
//! Cost: a step reads the head (one cache line mostly) and one slot behind it (often the same
//! line), in some 35 instructions. Single lookups branch on the form; batches compute all forms.

use std::hint::select_unpredictable;

/// Slots below this bit are answers.
const CHILD: u32 = 1 << 31;
const LENGTH_SHIFT: u32 = 23;
/// Values below this stand in the slot itself.
const NARROW_VALUES: u32 = 1 << LENGTH_SHIFT;
const CODE_WIDE: u32 = 129;
const CODE_ALIAS: u32 = 130;
const FORM_SHIFT: u32 = 28;
/// One word past the last place where a node may begin.
const PLACES: usize = 1 << FORM_SHIFT;
const FORM_BITMAP: u32 = 5;
const FORM_DIRECT: u32 = 6;
/// How many words are read from a node's beginning, whatever its form.
pub(super) const HEAD_WORDS: usize = 9;
/// How many runs the forms with octets hold.
const OCTET_RUNS: usize = 17;

/// One word: an answer, or where to go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slot(pub(super) u32);

/// What a slot that is no child says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// No prefix holds the address.
    Nothing,
    /// The value and the length of the prefix.
    Narrow(u32, u8),
    /// The same, kept in the table of wide answers at this place.
    Wide(usize),
    /// The 32 bits behind this many are an IPv4 address, and its answer counts.
    Alias(u8),
}

impl Slot {
    /// No prefix holds the address.
    pub(super) const NOTHING: Slot = Slot(CHILD - 1);

    /// The slot for a value, or `None` if the value is too wide for one.
    pub(super) fn narrow(value: u32, length_bits: u8) -> Option<Slot> {
        (value < NARROW_VALUES).then_some(Slot(u32::from(length_bits) << LENGTH_SHIFT | value))
    }

    /// The slot for a place in the table of wide answers, or `None` if there are too many.
    pub(super) fn wide(place: usize) -> Option<Slot> {
        let place = u32::try_from(place).ok().filter(|place| *place < NARROW_VALUES)?;
        Some(Slot(CODE_WIDE << LENGTH_SHIFT | place))
    }

    /// The slot of a prefix of this length under which IPv4 addresses stand.
    pub(super) fn alias(length_bits: u8) -> Slot {
        Slot(CODE_ALIAS << LENGTH_SHIFT | u32::from(length_bits))
    }

    /// Whether the way goes on to a node.
    #[inline]
    pub(super) fn is_child(self) -> bool {
        self.0 >= CHILD
    }

    /// What the slot says; it must not be a child.
    #[inline]
    pub(super) fn answer(self) -> Answer {
        debug_assert!(!self.is_child(), "a lookup goes on while there are nodes");
        let low = self.0 & (NARROW_VALUES - 1);
        match self.0 >> LENGTH_SHIFT {
            CODE_WIDE => Answer::Wide(low as usize),
            CODE_ALIAS => Answer::Alias(low as u8),
            length @ 0..=128 => Answer::Narrow(low, length as u8),
            _ => Answer::Nothing,
        }
    }

    /// Where the node begins that a child slot leads to.
    #[inline]
    pub(super) fn place(self) -> usize {
        (self.0 & (PLACES as u32 - 1)) as usize
    }

    #[inline]
    fn form(self) -> u32 {
        self.0 >> FORM_SHIFT & 7
    }
}

/// The words that a node begins with, whatever they are.
#[inline(always)]
fn head(nodes: &[u32], child: Slot) -> &[u32; HEAD_WORDS] {
    let place = child.place();
    let words = nodes[place..place + HEAD_WORDS].first_chunk();
    words.expect("the slice was cut to this many words")
}

/// Which run a cell is in, for the forms with octets.
#[inline(always)]
fn run_by_octets(head: &[u32; HEAD_WORDS], form: u32, cell: u8) -> usize {
    // Words behind the ends are slots, and count for nothing.
    let [low, high] = KEPT_ENDS[form as usize];
    let low = ends_below(u64::from(head[0]) | u64::from(head[1]) << 32, cell) & low;
    let high = ends_below(u64::from(head[2]) | u64::from(head[3]) << 32, cell) & high;
    ((low + high).wrapping_mul(EACH) >> 56) as usize
}

/// Which run a cell is in, for the form with a bitmap.
#[inline(always)]
fn run_by_bitmap(head: &[u32; HEAD_WORDS], cell: u8) -> usize {
    let quarter = usize::from(cell >> 6);
    let bits = u64::from(head[2 * quarter]) | u64::from(head[2 * quarter + 1]) << 32;
    let before = head[8] >> (8 * quarter) & 0xff;
    before as usize + (bits & ((1 << (cell & 63)) - 1)).count_ones() as usize
}

/// Where the slot of a cell stands, for a node that begins where `child` says.
#[inline(always)]
pub(super) fn slot_place(nodes: &[u32], child: Slot, cell: u8) -> usize {
    let form = child.form();
    let behind_ends = if form < FORM_BITMAP {
        form as usize + run_by_octets(head(nodes, child), form, cell)
    } else if form == FORM_BITMAP {
        HEAD_WORDS + run_by_bitmap(head(nodes, child), cell)
    } else {
        usize::from(cell)
    };
    child.place() + behind_ends
}

/// The same without a branch: all forms are computed and one is taken.
///
/// For batches, where a wrong guess throws away the reads of the lanes behind it.
#[inline(always)]
pub(super) fn slot_place_unbranched(nodes: &[u32], child: Slot, cell: u8) -> usize {
    let form = child.form();
    let head = head(nodes, child);
    let octets = form as usize + run_by_octets(head, form, cell);
    let bitmap = HEAD_WORDS + run_by_bitmap(head, cell);
    let behind_ends = select_unpredictable(form == FORM_BITMAP, bitmap, octets);
    child.place() + select_unpredictable(form == FORM_DIRECT, usize::from(cell), behind_ends)
}

/// The word that a node begins with, read to have its cache line near.
#[inline(always)]
pub(super) fn first_word(nodes: &[u32], child: Slot) -> u32 {
    nodes[child.place()]
}

/// A one in each octet.
const EACH: u64 = u64::MAX / 255;

/// Which octets of a node's first four words are ends, by form; a one in each.
const KEPT_ENDS: [[u64; 2]; 8] = {
    let half = EACH >> 32;
    let all = [EACH, EACH];
    [[0, 0], [half, 0], [EACH, 0], [EACH, half], all, all, all, all]
};

/// A one in each octet that is below `cell`, and zero in the others.
///
/// Eight comparisons in one register: the subtraction compares the lower seven bits of all
/// octets, without a borrow from one into the next; the highest bit decides where it differs.
/// Written as a loop over octets, it came out as 130 instructions on a plain x86-64.
#[inline]
fn ends_below(ends: u64, cell: u8) -> u64 {
    const HIGH: u64 = EACH << 7;
    let cells = EACH * u64::from(cell);
    let not_below = (ends | HIGH) - (cells & !HIGH);
    ((!ends & cells) | (!(ends ^ cells) & !not_below)) >> 7 & EACH
}

/// One step down: the slot of a cell in the node that `child` leads to.
#[inline(always)]
pub(super) fn step(nodes: &[u32], child: Slot, cell: u8) -> Slot {
    Slot(nodes[slot_place(nodes, child, cell)])
}

/// The nodes of an index while it is built; equal nodes are kept once.
pub(super) struct NodePool {
    words: Vec<u32>,
    /// Open addressing: the upper half of a node's hash, then its slot; 0 is free.
    shared: Vec<u64>,
    shared_count: usize,
    /// The node that is being written, kept for its memory.
    scratch: Vec<u32>,
    /// From how many runs on a node gets one slot a cell.
    direct_from_runs: usize,
}

/// How many places are tried for an equal node. Input made to collide costs memory, never time.
const SHARED_TRIES: usize = 16;

impl NodePool {
    pub(super) fn new(direct_from_runs: usize) -> NodePool {
        NodePool {
            words: Vec::new(),
            shared: vec![0; 1024],
            shared_count: 0,
            scratch: Vec::new(),
            direct_from_runs,
        }
    }

    /// Adds the node with these runs, each given by its last cell and its slot, or finds an equal
    /// one; `None` when the words are used up.
    pub(super) fn add(&mut self, ends: &[u8], slots: &[u32]) -> Option<Slot> {
        debug_assert_eq!(ends.len(), slots.len(), "one slot a run");
        debug_assert_eq!(ends.last(), Some(&255), "a node is added when it is full");
        let form = self.write_scratch(ends, slots);
        let hash = hash_of(form, &self.scratch);
        if (self.shared_count + 1) * 2 > self.shared.len() {
            self.grow_shared();
        }
        let mut free = None;
        for place in tries(hash, self.shared.len()) {
            let known = self.shared[place];
            if known == 0 {
                free = Some(place);
                break;
            }
            let slot = Slot(known as u32);
            if known >> 32 == hash >> 32 && slot.form() == form {
                let words = self.words.get(slot.place()..slot.place() + self.scratch.len());
                if words == Some(&self.scratch[..]) {
                    return Some(slot);
                }
            }
        }
        let place = self.words.len();
        if place + self.scratch.len() + HEAD_WORDS > PLACES {
            return None;
        }
        let slot = Slot(CHILD | form << FORM_SHIFT | place as u32);
        self.words.extend_from_slice(&self.scratch);
        if let Some(free) = free {
            self.shared[free] = hash >> 32 << 32 | u64::from(slot.0);
            self.shared_count += 1;
        }
        Some(slot)
    }

    /// All nodes, with the words behind the last one.
    pub(super) fn finish(mut self) -> Vec<u32> {
        drop(std::mem::take(&mut self.shared));
        if !self.words.is_empty() {
            self.words.extend([0; HEAD_WORDS]);
        }
        self.words.shrink_to_fit();
        self.words
    }

    /// Writes a node's words and returns its form.
    fn write_scratch(&mut self, ends: &[u8], slots: &[u32]) -> u32 {
        self.scratch.clear();
        let kept = &ends[..ends.len() - 1];
        if ends.len() >= self.direct_from_runs {
            let mut from = 0;
            for (end, slot) in ends.iter().zip(slots) {
                let cells = usize::from(*end) + 1 - from;
                self.scratch.extend(std::iter::repeat_n(*slot, cells));
                from += cells;
            }
            return FORM_DIRECT;
        }
        let form = if ends.len() <= OCTET_RUNS {
            for four in kept.chunks(4) {
                let mut octets = [255; 4];
                octets[..four.len()].copy_from_slice(four);
                self.scratch.push(u32::from_le_bytes(octets));
            }
            kept.len().div_ceil(4) as u32
        } else {
            let mut bitmap = [0u32; 8];
            for end in kept {
                bitmap[usize::from(end >> 5)] |= 1 << (end & 31);
            }
            let mut before = 0;
            let mut ranks = [0u8; 4];
            for (rank, pair) in ranks.iter_mut().zip(bitmap.chunks(2)) {
                *rank = before;
                before += pair.iter().map(|word| word.count_ones() as u8).sum::<u8>();
            }
            self.scratch.extend(bitmap);
            self.scratch.push(u32::from_le_bytes(ranks));
            FORM_BITMAP
        };
        self.scratch.extend_from_slice(slots);
        form
    }

    /// Doubles the table of known nodes. The upper halves of the hashes are all it needs.
    fn grow_shared(&mut self) {
        let old = std::mem::take(&mut self.shared);
        self.shared = vec![0; old.len() * 2];
        self.shared_count = 0;
        for known in old.into_iter().filter(|known| *known != 0) {
            let free = tries(known, self.shared.len()).find(|place| self.shared[*place] == 0);
            if let Some(free) = free {
                self.shared[free] = known;
                self.shared_count += 1;
            }
        }
    }
}

/// The places of a table of `size` (a power of two) where a node with this hash may be.
fn tries(hash: u64, size: usize) -> impl Iterator<Item = usize> {
    let first = (hash >> 32) as usize;
    (first..first + SHARED_TRIES).map(move |place| place & (size - 1))
}

/// A multiplicative hash of a node; its upper half is used.
fn hash_of(form: u32, words: &[u32]) -> u64 {
    let mut hash = u64::from(form) + 1;
    for word in words {
        hash = (hash.rotate_left(23) ^ u64::from(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    hash ^ hash << 29
}

#[cfg(test)]
#[path = "node_tests.rs"]
mod tests;
