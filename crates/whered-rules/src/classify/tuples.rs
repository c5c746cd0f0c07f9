//! Tuple space: hash tables by how much of two lanes the rules give, merged to at most 25.
//!
//! For: a form that is built in milliseconds, never explodes, and finds the first match among any
//! subset of the boxes (no rule is dropped because another hides it), which is what deletions need.
//! Not for: the best speed.
//!
//! ```text
//! table (lane a: 24 bits, lane b: 16 bits), first box 12
//!     slots: hash of the leading bits ─► start in `marks` of a list of rising boxes | 0 empty
//! tables in the order of their first box; one that starts behind the best match is not asked
//! ```
//!
//! The two lanes are those with the most distinct values. A box goes where its common leading bits
//! in each are rounded down to a quarter of the lane's width; what else it says is compared with
//! the whole box, as the graphs do it.
//!
//! Invariants: a list rises and ends with a marked entry; at least half of a table's slots are
//! empty, so that a probe ends.
//!
//! Concurrency: plain data. Cost: one probe a table, one comparison a box of the lists found.

use super::boxes::{Boxes, Keys};
use super::dag::{BATCH, Found, NO_BOX};
use super::hash::Map;
use super::simd::{Line, Processor};
use whered_simd::prefetch;

/// The last entry of a list.
const LAST: u32 = 1 << 31;
/// The rule must be asked, or does not end the search.
const SPECIAL: u32 = 1 << 30;
/// The box.
const BOX: u32 = SPECIAL - 1;

/// One hash table.
#[derive(Clone, Debug)]
struct Table {
    /// How far keys are shifted, so that the leading bits stay.
    shifts: [u32; 2],
    /// Leading bits of both lanes, and where the list starts, less one: zero is empty.
    slots: Vec<Slot>,
    /// How far a hash is shifted to be a slot.
    turn: u32,
    first: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    bits: [u32; 2],
    start: u32,
    spare: u32,
}

/// All tables over the boxes of a ruleset.
#[derive(Clone, Debug)]
pub(crate) struct Tuples {
    lanes: [usize; 2],
    tables: Vec<Table>,
    marks: Vec<u32>,
    records: Vec<Line>,
    narrow: bool,
    /// Bit by box: asks the rule; and: ends the search.
    slow: Vec<bool>,
    terminal: Vec<bool>,
}

/// The leading bits; a shift by all of them leaves none.
#[inline(always)]
fn leading(key: u32, shift: u32) -> u32 {
    (u64::from(key) >> shift) as u32
}

#[inline(always)]
fn hash(bits: [u32; 2]) -> u64 {
    let both = u64::from(bits[0]) << 32 | u64::from(bits[1]);
    let product = (both ^ both >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (product ^ product >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

impl Tuples {
    /// Sorts all boxes into tables.
    pub(crate) fn build(boxes: &Boxes) -> Tuples {
        let lanes = lanes(boxes);
        let mut sorted: Map<[u32; 2], Map<[u32; 2], Vec<u32>>> = Map::default();
        for (number, extent) in boxes.ends.iter().enumerate() {
            let shift =
                |lane: usize| rounded(extent.low[lane] ^ extent.high[lane], boxes.lanes.max(lane));
            let shifts = lanes.map(shift);
            let bits = [0, 1].map(|side| leading(extent.low[lanes[side]], shifts[side]));
            sorted.entry(shifts).or_default().entry(bits).or_default().push(number as u32);
        }
        let mut marks = Vec::with_capacity(boxes.len());
        let mut tables: Vec<Table> = sorted
            .into_iter()
            .map(|(shifts, lists)| table(boxes, shifts, lists, &mut marks))
            .collect();
        tables.sort_by_key(|table| table.first);
        Tuples {
            lanes,
            tables,
            marks,
            records: boxes.records(),
            narrow: boxes.lanes.narrow,
            slow: boxes.slow.clone(),
            terminal: boxes.terminal.clone(),
        }
    }

    /// Bytes that lookups may touch.
    pub(crate) fn memory_bytes(&self) -> usize {
        let slots: usize = self.tables.iter().map(|table| table.slots.len() * 16).sum();
        slots + self.marks.len() * 4 + self.records.len() * 64 + self.slow.len() * 2
    }

    /// How many tables there are.
    pub(crate) fn tables(&self) -> usize {
        self.tables.len()
    }

    /// The first terminal box that matches and that `alive` admits, or [`NO_BOX`]; those that do
    /// not end the search are given to `passed`, some perhaps from behind the terminal one.
    #[inline(always)]
    pub(crate) fn find<P: Processor>(
        &self,
        processor: P,
        keys: &Keys,
        ask: impl Fn(u32) -> bool,
        alive: impl Fn(u32) -> bool,
        mut passed: impl FnMut(u32),
    ) -> u32 {
        let mut best = NO_BOX;
        for table in &self.tables {
            if table.first >= best {
                break;
            }
            let bits = self.bits(table, keys);
            let start = table.probe(bits, (hash(bits) >> table.turn) as usize);
            if start != 0 {
                best = self.compare(processor, keys, start, best, &ask, &alive, &mut passed);
            }
        }
        best
    }

    /// Like [`find`](Self::find), for up to [`BATCH`] packets and without deleted rules.
    #[inline(always)]
    pub(crate) fn find_batch<P: Processor>(
        &self,
        processor: P,
        count: usize,
        keys: &[Keys; BATCH],
        ask: impl Fn(usize, u32) -> bool,
        found: &mut Found,
    ) {
        for table in &self.tables {
            let mut slots = [0u32; BATCH];
            for (place, slot) in slots.iter_mut().enumerate().take(count) {
                *slot = (hash(self.bits(table, &keys[place])) >> table.turn) as u32;
                prefetch(&table.slots, *slot as usize);
            }
            for (place, &slot) in slots.iter().enumerate().take(count) {
                if table.first >= found.boxes[place] {
                    continue;
                }
                let start = table.probe(self.bits(table, &keys[place]), slot as usize);
                if start == 0 {
                    continue;
                }
                let Found { boxes, passed } = &mut *found;
                boxes[place] = self.compare(
                    processor,
                    &keys[place],
                    start,
                    boxes[place],
                    &|number| ask(place, number),
                    &|_| true,
                    &mut |number| passed.push((place as u8, number)),
                );
            }
        }
    }

    /// The key of a packet in a table.
    #[inline(always)]
    fn bits(&self, table: &Table, keys: &Keys) -> [u32; 2] {
        [0, 1].map(|side| leading(keys.0[self.lanes[side] % 16], table.shifts[side]))
    }

    /// The first terminal box of a list that matches, if it is before `best`.
    #[inline(always)]
    #[allow(clippy::too_many_arguments, reason = "it is inlined, and each is another thing")]
    fn compare<P: Processor>(
        &self,
        processor: P,
        keys: &Keys,
        start: u32,
        best: u32,
        ask: &impl Fn(u32) -> bool,
        alive: &impl Fn(u32) -> bool,
        passed: &mut impl FnMut(u32),
    ) -> u32 {
        for &mark in &self.marks[start as usize - 1..] {
            let number = mark & BOX;
            if number >= best {
                break;
            }
            if self.inside(processor, keys, number) && alive(number) {
                if mark & SPECIAL == 0 {
                    return number;
                }
                if !self.slow[number as usize] || ask(number) {
                    if self.terminal[number as usize] {
                        return number;
                    }
                    passed(number);
                }
            }
            if mark & LAST != 0 {
                break;
            }
        }
        best
    }

    /// Whether the keys lie in a box.
    #[inline(always)]
    fn inside<P: Processor>(&self, processor: P, keys: &Keys, number: u32) -> bool {
        if self.narrow {
            return processor.inside8(keys, &self.records[number as usize]);
        }
        let pair = &self.records[number as usize * 2..][..2];
        processor.inside16(keys, &pair[0], &pair[1])
    }
}

impl Table {
    /// Where the list of these bits starts, plus one, or zero.
    #[inline(always)]
    fn probe(&self, bits: [u32; 2], mut slot: usize) -> u32 {
        let last = self.slots.len() - 1;
        loop {
            let found = &self.slots[slot & last];
            if found.start == 0 || found.bits == bits {
                return found.start;
            }
            slot += 1;
        }
    }
}

/// One table of lists by leading bits.
fn table(
    boxes: &Boxes,
    shifts: [u32; 2],
    lists: Map<[u32; 2], Vec<u32>>,
    marks: &mut Vec<u32>,
) -> Table {
    let size = (lists.len() * 2).next_power_of_two().max(2);
    let turn = 64 - size.trailing_zeros();
    let mut table = Table { shifts, slots: vec![Slot::default(); size], turn, first: NO_BOX };
    for (bits, list) in lists {
        let mut slot = (hash(bits) >> turn) as usize;
        while table.slots[slot & (size - 1)].start != 0 {
            slot += 1;
        }
        table.slots[slot & (size - 1)] = Slot { bits, start: marks.len() as u32 + 1, spare: 0 };
        table.first = table.first.min(list[0]);
        for number in list {
            let place = number as usize;
            let special = boxes.slow[place] || !boxes.terminal[place];
            marks.push(number | if special { SPECIAL } else { 0 });
        }
        if let Some(last) = marks.last_mut() {
            *last |= LAST;
        }
    }
    table
}

/// The two lanes with the most distinct ranges.
fn lanes(boxes: &Boxes) -> [usize; 2] {
    let mut counts: Vec<(usize, usize)> = (0..16)
        .map(|lane| {
            let mut ends: Vec<(u32, u32)> =
                boxes.ends.iter().map(|extent| (extent.low[lane], extent.high[lane])).collect();
            if boxes.used() >> lane & 1 == 0 {
                return (0, lane);
            }
            ends.sort_unstable();
            ends.dedup();
            (ends.len(), lane)
        })
        .collect();
    counts.sort_unstable_by_key(|&(count, lane)| (std::cmp::Reverse(count), lane));
    [counts[0].1, counts[1].1]
}

/// How many low bits are given up when these differ: rounded up to quarters of the lane's width.
fn rounded(differ: u32, max: u32) -> u32 {
    let width = (32 - max.leading_zeros()).max(1);
    let low = 32 - differ.leading_zeros();
    let quarter = width.div_ceil(4);
    (low.div_ceil(quarter) * quarter).min(width)
}
