//! The answers by the third 16 bits of an address: cache lines of sorted keys with their values
//! beside them, and for each /32 a slot that says which line it is.
//!
//! For: `stages`. Not for: how slots are found.
//!
//! ```text
//! slot    | key: 32 | value: 32 | margins: 4 of 16 |
//!
//! value   0 | answer: 31         for all of these addresses
//!         10 | line: 30          one of up to five lines from this one on
//!         11 | slot: 30          one of up to five slots from this one on: a tree, where lines are many
//!
//! margins   each line but the first begins at an even key; half of it and its margin are 2^15, so
//!           that half of a key and the margin have bit 15 where the line begins at or before it
//!           (and slots for what they lead to)
//!
//! line    narrow | 15 keys | - | 16 values of 16 bits |     values below 2^15, which most sets have
//!         wide   | 10 keys | 11 values of 32 bits     |
//!                  as many keys as are not above the 16 bits are the number of the value
//! ```
//!
//! A value of a line with its highest bit is a list's number: boundaries behind 48 bits.
//!
//! Invariants: keys that a line does not need are the largest, and repeat its last value.
//! Concurrency: never changes. Cost: a slot and a line, each one cache line; 4 to 6 bytes a
//! boundary in full lines, and 16 a /32.

use crate::simd::Compare;

/// A cache line of keys and values.
pub(super) type Line = [u16; 32];
/// Key below and value above; margins.
pub(super) type Slot = [u64; 2];

/// Marks a value that is not an answer: of a slot, that there are lines or slots; of a line, a
/// list.
pub(super) const DEEP: u32 = 1 << 31;
const NARROW_DEEP: u16 = 1 << 15;
/// Marks a slot's value that leads to slots.
const PARTED: u32 = 1 << 30;
/// Values of slots that lead to slots are not below this.
pub(super) const PARTED_MIN: u32 = DEEP | PARTED;
/// How many lines or slots one slot tells apart.
const WAYS: usize = 5;
/// Half of a key and its margin.
const HALF: u64 = 1 << 15;
/// The highest bit of each margin.
const HIGHEST: u64 = 0x8000_8000_8000_8000;

/// How many values a line has.
const fn line_values(is_narrow: bool) -> usize {
    if is_narrow { 16 } else { 11 }
}

/// Lines and the slots that lead to them while they are made.
pub(super) struct Builder {
    pub(super) lines: Vec<Line>,
    /// Slots that slots lead to.
    pub(super) parts: Vec<Slot>,
    is_narrow: bool,
}

impl Builder {
    pub(super) fn new(is_narrow: bool) -> Builder {
        // A line that is read where there is an answer already.
        Builder { lines: vec![[u16::MAX; 32]], parts: Vec::new(), is_narrow }
    }

    /// The slot of a /32 with more than one value: that of its beginning, which has key 0, and
    /// others. `parts_at` is where slots that slots lead to will stand.
    pub(super) fn slot(&mut self, key: u32, values: &[(u16, u32)], parts_at: usize) -> Slot {
        let first = self.lines.len();
        let starts = self.append(values);
        let mut level = leading_to(DEEP, first, &starts);
        while level.len() > 1 {
            let place = parts_at + self.parts.len();
            let starts: Vec<u16> = level.iter().map(|part| part.start).collect();
            self.parts.extend(level.iter().map(|part| slot_of(0, part.value, part.margins)));
            level = leading_to(PARTED_MIN, place, &starts);
        }
        slot_of(key, level[0].value, level[0].margins)
    }

    /// Appends lines of these values; gives where they begin.
    fn append(&mut self, values: &[(u16, u32)]) -> Vec<u16> {
        let (mut starts, mut from) = (vec![0], 0);
        loop {
            let to = values.len().min(from + line_values(self.is_narrow));
            self.lines.push(line_of(&values[from..to], self.is_narrow));
            let Some((key, _)) = values.get(to) else { return starts };
            // At an even key: with the value of the key before, if this one is odd.
            starts.push(key & !1);
            from = to - usize::from(key % 2);
        }
    }
}

/// A slot without its key, and the key at which what it leads to begins.
struct Part {
    start: u16,
    value: u32,
    margins: u64,
}

/// Slots that lead to lines or slots from a place on, which begin at these keys.
fn leading_to(mark: u32, place: usize, starts: &[u16]) -> Vec<Part> {
    let groups = starts.chunks(WAYS).zip((place..).step_by(WAYS));
    let part_of = |(starts, place): (&[u16], usize)| {
        let place = u32::try_from(place).ok().filter(|place| *place < PARTED);
        let margins = starts[1..]
            .iter()
            .rev()
            .fold(0, |margins, start| margins << 16 | (HALF - u64::from(start / 2)));
        Part { start: starts[0], value: mark | place.expect("fewer than 2^30"), margins }
    };
    groups.map(part_of).collect()
}

/// The slot of a /32 with one answer.
pub(super) fn answer_slot(key: u32, answer: u32) -> Slot {
    slot_of(key, answer, 0)
}

fn slot_of(key: u32, value: u32, margins: u64) -> Slot {
    [u64::from(key) | u64::from(value) << 32, margins]
}

/// A line of these values, of which each but the first begins at its key.
fn line_of(values: &[(u16, u32)], is_narrow: bool) -> Line {
    let mut line = [u16::MAX; 32];
    for (place, (key, _)) in values[1..].iter().enumerate() {
        line[place] = *key;
    }
    let last = values.len() - 1;
    for place in 0..line_values(is_narrow) {
        let (_, value) = values[place.min(last)];
        if is_narrow {
            line[16 + place] = (value & !DEEP) as u16 | (value >> 16) as u16 & NARROW_DEEP;
        } else {
            line[10 + 2 * place] = value as u16;
            line[11 + 2 * place] = (value >> 16) as u16;
        }
    }
    line
}

/// Whether a value fits into narrow lines, of which the highest bit marks a list.
pub(super) fn is_narrow(value: u32) -> bool {
    value & !DEEP < u32::from(NARROW_DEEP)
}

/// The value of a slot, from its first word.
#[inline(always)]
pub(super) fn value_of(head: u64) -> u32 {
    (head >> 32) as u32
}

/// Which of the lines or slots that a slot leads to is a key's.
#[inline(always)]
fn begun(margins: u64, key: u16) -> u32 {
    let half = u64::from(key / 2);
    let pairs = half | half << 32;
    let begun = (pairs | pairs << 16).wrapping_add(margins) >> 15 & (HIGHEST >> 15);
    let begun = begun + (begun >> 32);
    (begun + (begun >> 16)) as u32 & 7
}

/// The place that a slot which leads to slots has for a key.
#[inline(always)]
pub(super) fn slot_at(value: u32, margins: u64, key: u16) -> usize {
    ((value & !PARTED_MIN) + begun(margins, key)) as usize
}

/// The line for a key of a slot that leads to no slots; the first of all lines where the slot's
/// value is an answer.
#[inline(always)]
pub(super) fn line_at(value: u32, margins: u64, key: u16) -> u32 {
    let is_deep = ((value as i32) >> 31) as u32;
    ((value & !DEEP) + begun(margins, key)) & is_deep
}

/// The value of a line for a key, as it stands there.
#[inline(always)]
pub(super) fn raw_in<const IS_NARROW: bool>(processor: impl Compare, line: &Line, key: u16) -> u32 {
    let keys = (1 << (line_values(IS_NARROW) - 1)) - 1;
    let rank = (processor.not_above32(line, key) & keys).count_ones() as usize;
    if IS_NARROW {
        u32::from(line[16 + rank])
    } else {
        u32::from(line[10 + 2 * rank]) | u32::from(line[11 + 2 * rank]) << 16
    }
}

/// The value that stands so in a line.
#[inline(always)]
pub(super) fn widened<const IS_NARROW: bool>(raw: u32) -> u32 {
    let narrow_deep = u32::from(NARROW_DEEP);
    if IS_NARROW { raw & !narrow_deep | (raw & narrow_deep) << 16 } else { raw }
}
