//! IPv6 by 32 bits, then 16: for large sets that mostly end at /48 and before, as routing tables
//! do.
//!
//! For: what `intervals` does for IPv6 in general. Not for: lists of hosts, whose lists behind /48
//! would be long; nor small sets, for which `others` is too much.
//!
//! ```text
//! address  | 32 bits | 16 bits | 80 bits |
//!
//! slots    the answer of each /32 that is unlike its neighbours (`perfect_hash`): an answer, or
//! lines    sorted keys of the next 16 bits with their values (`lines`): an answer, or
//! lists    the answers behind 48 bits (`lists`)
//! others   intervals of all other addresses by their first 32 bits (`upper_table`)
//! ```
//!
//! Invariants: a slot that is nobody's has key 0, and what is true of ::/32 unless that has its
//! own. Concurrency: never changes. Cost: one line of slots and one of lines; three to seven of
//! `others` for a /32 without a slot; 272 KiB, 20 bytes a slot and 64 a line of up to 15 (10)
//! boundaries: 5 to 8 a boundary in routing tables, 42 where /48s stand alone in their /32.

mod lines;
mod lists;

use super::address6::{Address6, uppers};
use super::sweep::{Intervals, NOTHING};
use super::upper_table::UpperTable4;
use crate::image::sections;
use crate::image::{Section, bytes_of};
use crate::simd::Compare;
use crate::tables::{Each, LANES, Lanes, PerfectHash, prefetch_ahead};
use lines::{DEEP, Line, Slot};
use lists::{LIST_BITS, Lists};

/// Fewer addresses than this are looked up one by one: all lanes cost as much as this many.
const LANES_MIN: usize = 12;
/// How many lanes of a batch are processed together.
const GROUP: usize = 16;
/// Fewer addresses than this are looked up in `others` one by one.
const OTHERS_MIN: usize = 12;

/// The form.
pub(super) struct Stages6 {
    /// Which slot is a /32's.
    places: PerfectHash,
    /// Those of `places`, and behind them such that they lead to.
    slots: Section<Slot>,
    lines: Section<Line>,
    /// Whether values of `lines` have 16 bits.
    is_narrow: bool,
    lists: Lists,
    others: UpperTable4,
    count: usize,
}

/// How many boundaries differ in the last 80 bits only.
pub(super) fn deep_len(intervals: &Intervals<u128>) -> usize {
    let is_deep = |start: u128| start << (128 - LIST_BITS) != 0;
    intervals.0.iter().filter(|(start, _)| is_deep(*start)).count()
}

/// Intervals of shorter numbers: those that begin in one number's range become one value, made of
/// the answer at the range's beginning and what begins later. Neighbours that are equal are joined.
fn folded<N: Copy + PartialEq>(
    intervals: &[(N, u32)],
    upper_of: impl Fn(N) -> u64,
    begins: impl Fn(N) -> bool,
    end: u64,
    mut made: impl FnMut(u32, &[(N, u32)]) -> u32,
) -> Vec<(u64, u32)> {
    let mut folded: Vec<(u64, u32)> = Vec::new();
    let mut push = |start: u64, value: u32| {
        if start < end && folded.last().is_none_or(|(_, before)| *before != value) {
            folded.push((start, value));
        }
    };
    let (mut before, mut expected) = (NOTHING, 0);
    for group in intervals.chunk_by(|(a, _), (b, _)| upper_of(*a) == upper_of(*b)) {
        let Some(((start, answer), rest)) = group.split_first() else { continue };
        let upper = upper_of(*start);
        if upper != expected {
            // What the group before ended with goes on behind it.
            push(expected, before);
        }
        let (first, rest) = if begins(*start) { (*answer, rest) } else { (before, group) };
        push(upper, if rest.is_empty() { first } else { made(first, rest) });
        before = group.last().map_or(before, |(_, answer)| *answer);
        expected = upper + 1;
    }
    push(expected, before);
    folded
}

/// In order: the answer of a /32 that has a slot, or of the addresses from a /32 on.
struct By32 {
    slots: Vec<(u32, u32)>,
    others: Intervals<u32>,
}

impl By32 {
    /// Of intervals by 32 bits. A value that is no answer is that of a single /32.
    fn of(intervals: &[(u64, u32)]) -> By32 {
        let (mut slots, mut others) = (Vec::new(), vec![(0, NOTHING)]);
        let ends = intervals.iter().skip(1).map(|(start, _)| *start).chain([1 << 32]);
        for ((start, value), end) in intervals.iter().zip(ends) {
            let start = *start as u32;
            if *value != NOTHING && end - u64::from(start) == 1 {
                slots.push((start, *value));
            } else if start == 0 {
                others[0].1 = *value;
            } else if others.last().is_none_or(|(_, before)| before != value) {
                others.push((start, *value));
            }
        }
        By32 { slots, others: Intervals(others) }
    }
}

impl Stages6 {
    /// `None` where slots would meet, as if somebody had chosen the addresses for that.
    pub(super) fn build(intervals: &Intervals<u128>) -> Option<Stages6> {
        let mut lists = lists::Builder::default();
        let by_48 = folded(
            &intervals.0,
            |start| (start >> LIST_BITS) as u64,
            |start| start << (128 - LIST_BITS) == 0,
            1 << 48,
            |first, rest| DEEP | lists.push(first, rest),
        );
        let is_narrow = by_48.iter().all(|(_, value)| lines::is_narrow(*value));
        // Of each /32 with more than one value: where they are.
        let mut below: Vec<Vec<(u16, u32)>> = Vec::new();
        let by_32 = folded(
            &by_48,
            |start| start >> 16,
            |start| start as u16 == 0,
            1 << 32,
            |first, rest| {
                let rest = rest.iter().map(|(start, value)| (*start as u16, *value));
                below.push([(0, first)].into_iter().chain(rest).collect());
                DEEP | (below.len() - 1) as u32
            },
        );
        let by_32 = By32::of(&by_32);
        let keys: Vec<u32> = by_32.slots.iter().map(|(key, _)| *key).collect();
        let places = PerfectHash::build(&keys)?;
        let mut builder = lines::Builder::new(is_narrow);
        let of_zero = lines::answer_slot(0, by_32.others.0[0].1);
        let mut slots = vec![of_zero; places.len()];
        for (key, value) in by_32.slots {
            slots[places.place(key)] = if value & DEEP == 0 {
                lines::answer_slot(key, value)
            } else {
                builder.slot(key, &below[(value & !DEEP) as usize], places.len())
            };
        }
        slots.extend(builder.parts);
        let (slots, lines) = sections(&slots, &builder.lines);
        Some(Stages6 {
            places,
            slots,
            lines,
            is_narrow,
            lists: lists.finish(),
            others: UpperTable4::build(&by_32.others),
            count: intervals.0.len(),
        })
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let slots = bytes_of(&self.slots).len() + self.places.as_bytes().len();
        let lines = bytes_of(&self.lines).len() + self.lists.memory_bytes();
        slots + lines + self.others.memory_bytes()
    }

    /// How many intervals there are.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// How many /48 have boundaries inside them.
    pub(super) fn deep_len(&self) -> usize {
        self.lists.len()
    }

    #[inline(always)]
    pub(super) fn answer(&self, processor: impl Compare, address: u128) -> u32 {
        if self.is_narrow {
            self.answer_as::<true>(processor, address)
        } else {
            self.answer_as::<false>(processor, address)
        }
    }

    #[inline(always)]
    fn answer_as<const IS_NARROW: bool>(&self, processor: impl Compare, address: u128) -> u32 {
        let (key, third) = ((address >> 96) as u32, (address >> 80) as u16);
        let [head, margins] = self.slots[self.places.place(key)];
        if head as u32 != key {
            return self.others.answer(processor, key);
        }
        let mut value = lines::value_of(head);
        if value & DEEP != 0 {
            let line = if value < lines::PARTED_MIN {
                lines::line_at(value, margins, third)
            } else {
                self.line_of_part(value, margins, third)
            };
            let raw = lines::raw_in::<IS_NARROW>(processor, &self.lines[line as usize], third);
            value = lines::widened::<IS_NARROW>(raw);
        }
        if value & DEEP == 0 { value } else { self.lists.answer(value & !DEEP, address) }
    }

    /// The answers of at most [`LANES`] addresses.
    #[inline(always)]
    pub(super) fn answers(
        &self,
        processor: impl Compare,
        addresses: &[impl Address6],
        found: &mut [u32],
    ) {
        if addresses.len() < LANES_MIN {
            for (found, address) in found.iter_mut().zip(addresses) {
                *found = self.answer(processor, address.number());
            }
        } else if self.is_narrow {
            self.answers_as::<true>(processor, addresses, found);
        } else {
            self.answers_as::<false>(processor, addresses, found);
        }
    }

    /// Step by step for all lanes, so that waits overlap and what is not a read is done for several
    /// at once. What is rare comes afterwards, lane by lane.
    #[inline(always)]
    fn answers_as<const IS_NARROW: bool>(
        &self,
        processor: impl Compare,
        addresses: &[impl Address6],
        found: &mut [u32],
    ) {
        let uppers = uppers(addresses);
        let keys = uppers.map(|upper| (upper >> 32) as u32);
        let thirds = uppers.map(|upper| (upper >> 16) as u16);
        let places = self.places.places(processor, &keys);
        for place in places.iter() {
            self.slots.prefetch(*place as usize);
        }
        let (mut values, mut unlike, mut line_of) = (Each::new(), keys, Each::<u32>::new());
        // Some lanes at a time, so that the first lines are on their way for long when the last
        // ones are asked for.
        for lanes in (0..LANES).step_by(GROUP) {
            let (mut heads, mut margins) = ([0; GROUP], [0; GROUP]);
            for lane in 0..GROUP {
                [heads[lane], margins[lane]] = self.slots[places[lanes + lane] as usize];
            }
            for lane in 0..GROUP {
                let value = lines::value_of(heads[lane]);
                values[lanes + lane] = value;
                unlike[lanes + lane] ^= heads[lane] as u32;
                line_of[lanes + lane] = lines::line_at(value, margins[lane], thirds[lanes + lane]);
            }
            for line in &line_of[lanes..lanes + GROUP] {
                self.lines.prefetch(*line as usize);
            }
        }
        for lane in Lanes::not_below(processor, &values, lines::PARTED_MIN) {
            let margins = self.slots[places[lane] as usize][1];
            line_of[lane] = self.line_of_part(values[lane], margins, thirds[lane]);
            self.lines.prefetch(line_of[lane] as usize);
        }
        let mut inner = Each::<u32>::new();
        for lane in 0..LANES {
            prefetch_ahead(addresses, lane);
            let line = &self.lines[line_of[lane] as usize];
            inner[lane] = lines::raw_in::<IS_NARROW>(processor, line, thirds[lane]);
        }
        for (inner, value) in inner.iter_mut().zip(values.iter()) {
            let widened = lines::widened::<IS_NARROW>(*inner);
            *inner = if *value & DEEP == 0 { *value } else { widened };
        }
        match found.first_chunk_mut::<LANES>() {
            Some(found) => *found = *inner,
            None => found.copy_from_slice(&inner[..found.len()]),
        }
        // Not before: numbers that were written one by one cannot be read side by side at once.
        for lane in Lanes::not_below(processor, &inner, DEEP) {
            if let (Some(found), Some(address)) = (found.get_mut(lane), addresses.get(lane)) {
                *found = self.lists.answer(inner[lane] & !DEEP, address.number());
            }
        }
        let others = Lanes::not_below(processor, &unlike, 1).first(addresses.len());
        self.answer_others(processor, &keys, others, found);
    }

    /// The line for a key of a slot that leads to slots. Rare in routing tables.
    #[inline(never)]
    fn line_of_part(&self, mut value: u32, mut margins: u64, third: u16) -> u32 {
        while value >= lines::PARTED_MIN {
            let [head, inner] = self.slots[lines::slot_at(value, margins, third)];
            (value, margins) = (lines::value_of(head), inner);
        }
        lines::line_at(value, margins, third)
    }

    /// Replaces the answers of /32 without a slot.
    #[inline(always)]
    fn answer_others(
        &self,
        processor: impl Compare,
        keys: &[u32; LANES],
        lanes: Lanes,
        found: &mut [u32],
    ) {
        if lanes.len() < OTHERS_MIN {
            for lane in lanes {
                if let Some(found) = found.get_mut(lane) {
                    *found = self.others.answer(processor, keys[lane]);
                }
            }
            return;
        }
        let (mut others, mut answers) = ([0; LANES], [0; LANES]);
        for (other, lane) in others.iter_mut().zip(lanes) {
            *other = keys[lane];
        }
        let count = lanes.len();
        self.others.answers(processor, &others[..count], &mut answers[..count]);
        for (answer, lane) in answers.iter().zip(lanes) {
            if let Some(found) = found.get_mut(lane) {
                *found = *answer;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Scalar;

    /// The least size of `others`.
    const UPPERS_BYTES: usize = 300 << 10;

    /// Compared with the intervals themselves, at and around every boundary.
    fn check(boundaries: impl IntoIterator<Item = u128>, answer_of: impl Fn(usize) -> u32) {
        let mut starts: Vec<u128> = boundaries.into_iter().collect();
        starts.push(0);
        starts.sort_unstable();
        starts.dedup();
        let each = starts.iter().enumerate();
        let intervals = Intervals(each.map(|(place, start)| (*start, answer_of(place))).collect());
        let stages = Stages6::build(&intervals).expect("nobody chose them");
        let near = starts.iter().flat_map(|start| {
            [
                start.wrapping_sub(1),
                *start,
                start.wrapping_add(1),
                start | 0xffff << 64,
                start ^ 1 << 85,
            ]
        });
        let asked: Vec<u128> = near.chain([u128::MAX]).collect();
        for asked in asked.chunks(LANES) {
            let expected: Vec<u32> = asked.iter().map(|asked| intervals.answer(*asked)).collect();
            answers(&stages, Scalar, asked, &expected);
            #[cfg(target_arch = "x86_64")]
            {
                use whered_simd::Path;
                match whered_simd::path() {
                    Path::Avx512(processor) => {
                        answers(&stages, processor, asked, &expected);
                        answers(&stages, processor.avx2(), asked, &expected);
                    }
                    Path::Avx2(processor) => answers(&stages, processor, asked, &expected),
                    Path::Scalar => {}
                }
            }
        }
    }

    /// One at a time and in batches, full and partial, as numbers and as octets.
    fn answers(stages: &Stages6, processor: impl Compare, asked: &[u128], expected: &[u32]) {
        for (asked, expected) in asked.iter().zip(expected) {
            assert_eq!(stages.answer(processor, *asked), *expected, "{asked:x}");
        }
        let octets: Vec<[u8; 16]> = asked.iter().map(|asked| asked.to_be_bytes()).collect();
        for count in [asked.len(), asked.len().min(LANES_MIN), asked.len().min(51)] {
            let mut found = [0; LANES];
            stages.answers(processor, &asked[..count], &mut found[..count]);
            assert_eq!(found[..count], expected[..count], "{asked:x?} in a batch");
            stages.answers(processor, &octets[..count], &mut found[..count]);
            assert_eq!(found[..count], expected[..count], "octets {asked:x?} in a batch");
        }
    }

    #[test]
    fn answers_are_those_of_the_intervals_with_any_number_of_lines() {
        for widest in [1 << 14, 1 << 30] {
            let answer_of = |place: usize| (place as u32).wrapping_mul(0x9e37_79b9) % widest;
            check([], answer_of);
            for count in [1, 14, 15, 16, 30, 31, 32, 33, 63, 64, 1023, 1024, 1025, 5_000, 40_000] {
                // Below one /32, at its beginning and at its end, and among the /32 of one /16.
                check((0..count).map(|n| 0x2001_0db8 << 96 | n << 80), answer_of);
                check((0..count).map(|n| 0x2001_0db8_ffff << 80 | (0xffff - n) << 80), answer_of);
                check((0..count).map(|n| 0x2a00 << 112 | (n * 1_637 % 65_536) << 96), answer_of);
            }
        }
    }

    #[test]
    fn boundaries_side_by_side_take_little_memory() {
        let starts = (0..500_u128).flat_map(|n| {
            (0..200).map(move |key| (0x2a00_0000 + 3 * n) << 96 | (30_001 + key) << 80)
        });
        let each = starts.enumerate().map(|(place, start)| (start, 1 + place as u32 % 7));
        let intervals = Intervals([(0, NOTHING)].into_iter().chain(each).collect());
        let stages = Stages6::build(&intervals).expect("nobody chose them");
        assert!(stages.memory_bytes() < UPPERS_BYTES + 6 * intervals.0.len());
    }

    #[test]
    fn boundaries_behind_48_bits_and_at_the_last_addresses_have_lists() {
        let answer_of = |place: usize| place as u32 % 9;
        let deep = (0..300_u128).map(|n| 0x2001_0db8 << 96 | (n % 7) << 80 | (n * n) << 20);
        let ends = [1, u128::MAX, u128::MAX - 1, 0xffff << 112, 0xffff_ffff << 96, !0 << 80];
        check(deep.chain(ends), answer_of);
        // Some values of the first stage are answers, others are not.
        check((0..2_000_u128).map(|n| (n * n * 977) << 96 & !(0xfff << 112)), answer_of);
    }
}
