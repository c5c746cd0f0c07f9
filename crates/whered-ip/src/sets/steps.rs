//! IPv6 by sixteen bits at a time, each step one comparison: for large sets that mostly end at /48
//! and before, as routing tables do.
//!
//! For: what `intervals` does for IPv6 in general. Not for: lists of hosts, whose lists behind /48
//! would be long; nor small sets, for which the table of the first 16 bits is too much.
//!
//! ```text
//! address  | 16 bits | 16 bits | 16 bits | 80 bits |
//!
//! known    the value of each /32 that has one of its own: one read (`displaced`); else
//! roots    a value for each of the first 16 bits
//! value    0 | answer                              for all of these addresses
//!          1 | guides: 2 bits | place: 29 bits     a block tells more (behind 48 bits: a list)
//!
//! block    | n | n keys, sorted: 16 bits each | n + 1 values |       n is at most 31
//!            as many keys as are not above the next 16 bits are the number of the value
//! guides   | n | n keys, sorted ... | child | child | ...            n + 1 blocks of one size, or guides
//! ```
//!
//! Keys of a block or of guides never cross a cache line, and a comparison takes a whole line: what
//! does not belong to the block is masked out. Values behind 48 bits have 16 bits where all fit.
//!
//! Invariants: place 0 is a block without keys; all children but the last are full; all data are
//! whole lines. Concurrency: never changes. Cost: one line of `known`, or three of `roots` and
//! `upper`, and one to three of `lower`; 256 KiB, and 5 to 8 bytes a boundary.

use super::displaced::Displaced;
use super::intervals::section;
use super::sweep::{Intervals, NOTHING};
use super::wide_tree::LANES;
use crate::image::{Section, bytes_of};
use crate::simd::{Compare, prefetch};

/// Marks a value that is a block or a list.
const DEEP: u32 = 1 << 31;
const NARROW_DEEP: u32 = 1 << 15;
const PLACE_BITS: u32 = 29;
/// How many 16-bit numbers a cache line has.
const LINE: usize = 32;
/// How many values a block has room for.
const BLOCK_VALUES: usize = 32;
const ROOTS: usize = 1 << 16;
/// The bits behind the third step.
const LIST_BITS: u32 = 80;
/// /32 that follow each other with one value are known one by one if they are no more.
const KNOWN_RUN_MAX: u64 = 1;

/// The form.
pub(super) struct Steps6 {
    /// What the first two steps find for the /32 that the set knows.
    known: Option<Displaced>,
    roots: Section<u32>,
    upper: Section<u16>,
    lower: Section<u16>,
    /// Whether values of `lower` have 16 bits.
    is_narrow: bool,
    /// Where each list behind 48 bits begins; one more than there are lists.
    bounds: Section<u32>,
    /// The last 80 bits of the boundaries in them, as upper 16 and lower 64.
    lows: Section<[u64; 2]>,
    low_answers: Section<u32>,
    count: usize,
}

/// The lists behind 48 bits while they are filled.
#[derive(Default)]
struct Draft {
    bounds: Vec<u32>,
    lows: Vec<[u64; 2]>,
    low_answers: Vec<u32>,
}

impl Draft {
    /// A list for what begins below one /48: the answer at its beginning, and the other intervals.
    fn list(&mut self, first: u32, rest: &[(u128, u32)]) -> u32 {
        let list = u32::try_from(self.bounds.len()).expect("fewer lists than boundaries");
        assert!(list < DEEP, "fewer lists than 2^31");
        self.bounds.push(u32::try_from(self.lows.len()).expect("fewer than 2^32 boundaries"));
        self.low_answers.push(first);
        for (start, answer) in rest {
            self.lows.push(low_of(*start));
            self.low_answers.push(*answer);
        }
        DEEP | list
    }
}

/// The last 80 bits, in order.
fn low_of(address: u128) -> [u64; 2] {
    [(address >> 64) as u64 & 0xffff, address as u64]
}

/// How many boundaries are told apart by the last 80 bits.
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

/// Blocks while they are made.
struct Blocks {
    data: Vec<u16>,
    is_narrow: bool,
}

/// How many 16-bit numbers the children below so many levels of guides take, each.
const fn stride(is_narrow: bool, guides: u32) -> usize {
    let mut stride = LINE + if is_narrow { BLOCK_VALUES } else { 2 * BLOCK_VALUES };
    let mut level = 0;
    while level < guides {
        stride = LINE + BLOCK_VALUES * stride;
        level += 1;
    }
    stride
}

/// Where the values of a block begin: those of 32 bits at even places.
#[inline(always)]
const fn values_at(is_narrow: bool, place: usize, keys: usize) -> usize {
    let end = place + 1 + keys;
    if is_narrow { end } else { end.next_multiple_of(2) }
}

impl Blocks {
    fn new(is_narrow: bool) -> Blocks {
        // No keys, and one value that nobody reads.
        Blocks { data: vec![0; LINE], is_narrow }
    }

    /// Appends what tells these values apart; gives the value that leads there.
    fn append(&mut self, first: u32, rest: &[(u64, u32)]) -> u32 {
        let mut values = vec![(0, first)];
        values.extend(rest.iter().map(|(start, value)| (*start as u16, *value)));
        let guides = (0..3).find(|guides| values.len() <= BLOCK_VALUES.pow(guides + 1));
        let guides = guides.unwrap_or(3);
        if guides == 0 {
            self.make_room(values.len());
        } else {
            self.end_line();
        }
        let place = self.data.len();
        self.append_tree(&values, guides);
        let place = u32::try_from(place / 2).ok().filter(|place| *place < 1 << PLACE_BITS);
        DEEP | guides << PLACE_BITS | place.expect("tables have less than 2 GiB")
    }

    fn append_tree(&mut self, values: &[(u16, u32)], guides: u32) {
        if guides == 0 {
            return self.append_block(values);
        }
        let below = BLOCK_VALUES.pow(guides);
        let keys = values.chunks(below).skip(1).map(|child| child[0].0);
        self.data.push(keys.len() as u16);
        self.data.extend(keys);
        self.end_line();
        for child in values.chunks(below) {
            self.append_tree(child, guides - 1);
            self.end_line();
        }
    }

    fn append_block(&mut self, values: &[(u16, u32)]) {
        let place = self.data.len();
        self.data.push((values.len() - 1) as u16);
        self.data.extend(values[1..].iter().map(|(key, _)| *key));
        self.data.resize(values_at(self.is_narrow, place, values.len() - 1), 0);
        for (_, value) in values {
            if self.is_narrow {
                self.data.push((value & !DEEP) as u16 | (value >> 16) as u16 & NARROW_DEEP as u16);
            } else {
                self.data.extend([*value as u16, (value >> 16) as u16]);
            }
        }
        self.data.resize(self.data.len().next_multiple_of(2), 0);
    }

    /// Goes to the next line if keys would cross into it, or fewer lines would be touched there.
    fn make_room(&mut self, values: usize) {
        let inside = self.data.len() % LINE;
        let width = if self.is_narrow { 1 } else { 2 };
        let size = values_at(self.is_narrow, 0, values - 1) + values * width;
        let crosses = (inside + size).div_ceil(LINE) > size.div_ceil(LINE);
        if crosses || inside + values > LINE {
            self.end_line();
        }
    }

    fn end_line(&mut self) {
        self.data.resize(self.data.len().next_multiple_of(LINE), 0);
    }

    fn into_section(mut self) -> Section<u16> {
        self.end_line();
        section(&self.data)
    }
}

impl Steps6 {
    pub(super) fn build(intervals: &Intervals<u128>) -> Steps6 {
        let mut draft = Draft::default();
        let tops = folded(
            &intervals.0,
            |start| (start >> LIST_BITS) as u64,
            |start| start << (128 - LIST_BITS) == 0,
            1 << 48,
            |first, rest| draft.list(first, rest),
        );
        draft.bounds.push(u32::try_from(draft.lows.len()).expect("fewer than 2^32 boundaries"));
        let is_narrow = tops.iter().all(|(_, value)| value & !DEEP < NARROW_DEEP);
        let (mut lower, mut upper) = (Blocks::new(is_narrow), Blocks::new(false));
        let begins = |start: u64| start as u16 == 0;
        let by_32 = folded(
            &tops,
            |start| start >> 16,
            begins,
            1 << 32,
            |first, rest| lower.append(first, rest),
        );
        let by_16 = folded(
            &by_32,
            |start| start >> 16,
            begins,
            1 << 16,
            |first, rest| upper.append(first, rest),
        );
        let known = Displaced::build(&known_of(&by_32), by_32[0].1);
        let mut roots = Vec::with_capacity(ROOTS);
        for (place, (_, value)) in by_16.iter().enumerate() {
            let end = by_16.get(place + 1).map_or(ROOTS as u64, |(start, _)| *start);
            roots.resize(end as usize, *value);
        }
        Steps6 {
            known,
            roots: section(&roots),
            upper: upper.into_section(),
            lower: lower.into_section(),
            is_narrow,
            bounds: section(&draft.bounds),
            lows: section(&draft.lows),
            low_answers: section(&draft.low_answers),
            count: intervals.0.len(),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let steps = bytes_of(&self.roots).len() + bytes_of(&self.upper).len();
        let lists = bytes_of(&self.bounds).len() + bytes_of(&self.lows).len();
        let known = self.known.as_ref().map_or(0, Displaced::memory_bytes);
        let lower = bytes_of(&self.lower).len() + bytes_of(&self.low_answers).len();
        steps + lower + lists + known
    }

    /// How many intervals there are.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// How many /48 have boundaries inside them.
    pub(super) fn deep_len(&self) -> usize {
        self.bounds.len() - 1
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
        let [_, _, third] = keys_of(address);
        let mut value = self.value_of_32(processor, address);
        if value & DEEP != 0 {
            let place = past_guides::<IS_NARROW>(processor, &self.lower, value, third);
            value = value_of::<IS_NARROW>(processor, &self.lower, place, third);
        }
        if value & DEEP == 0 { value } else { self.listed(value & !DEEP, address) }
    }

    /// What the first 32 bits tell: an answer, or a block of `lower`.
    #[inline(always)]
    fn value_of_32(&self, processor: impl Compare, address: u128) -> u32 {
        if let Some(known) = &self.known {
            let key = (address >> 96) as u32;
            let (value, is_known) = known.at(known.place(key), key);
            if is_known {
                return value;
            }
        }
        self.step_twice(processor, address)
    }

    #[inline(always)]
    fn step_twice(&self, processor: impl Compare, address: u128) -> u32 {
        let [first, second, _] = keys_of(address);
        let value = self.root(first);
        if value & DEEP == 0 {
            return value;
        }
        let place = past_guides::<false>(processor, &self.upper, value, second);
        value_of::<false>(processor, &self.upper, place, second)
    }

    #[inline(always)]
    fn root(&self, first: u16) -> u32 {
        let roots: &[u32; ROOTS] = self.roots.first_chunk().expect("one for each 16 bits");
        roots[usize::from(first)]
    }

    /// The answer of a list for the last 80 bits.
    fn listed(&self, list: u32, address: u128) -> u32 {
        let (start, end) =
            (self.bounds[list as usize] as usize, self.bounds[list as usize + 1] as usize);
        let low = low_of(address);
        let below = self.lows[start..end].partition_point(|boundary| *boundary <= low);
        self.low_answers[start + list as usize + below]
    }

    /// The answers of at most [`LANES`] addresses.
    #[inline(always)]
    pub(super) fn answers(&self, processor: impl Compare, addresses: &[u128], found: &mut [u32]) {
        if self.is_narrow {
            self.answers_as::<true>(processor, addresses, found);
        } else {
            self.answers_as::<false>(processor, addresses, found);
        }
    }

    /// Step by step for all of them, so that waits overlap. A value that is an answer already goes
    /// on through the block without keys: whether it is cannot be guessed.
    #[inline(always)]
    fn answers_as<const IS_NARROW: bool>(
        &self,
        processor: impl Compare,
        addresses: &[u128],
        found: &mut [u32],
    ) {
        let mut places = [0_u32; LANES];
        let Some(known) = &self.known else {
            for (found, address) in found.iter_mut().zip(addresses) {
                *found = self.answer_as::<IS_NARROW>(processor, *address);
            }
            return;
        };
        for (place, address) in places.iter_mut().zip(addresses) {
            let at = known.place((address >> 96) as u32);
            *place = at as u32;
            known.prefetch(at);
        }
        let (mut strange, mut strange_count) = ([0_u8; LANES], 0);
        for (lane, ((place, found), address)) in
            places.iter_mut().zip(found.iter_mut()).zip(addresses).enumerate()
        {
            let (value, is_known) = known.at(*place as usize, (address >> 96) as u32);
            *found = value;
            let at = place_of(block_or_none(value));
            *place = at as u32;
            prefetch(&self.lower, at);
            strange[strange_count % LANES] = lane as u8;
            strange_count += usize::from(!is_known);
        }
        for lane in &strange[..strange_count] {
            let lane = usize::from(*lane);
            found[lane] = self.step_twice(processor, addresses[lane]);
            let at = place_of(block_or_none(found[lane]));
            places[lane] = at as u32;
            prefetch(&self.lower, at);
        }
        let (mut guided, mut guided_count) = ([0_u8; LANES], 0);
        for (lane, found) in found.iter().enumerate() {
            guided[guided_count % LANES] = lane as u8;
            guided_count += usize::from(block_or_none(*found) >> PLACE_BITS & 3 != 0);
        }
        for lane in &guided[..guided_count] {
            let lane = usize::from(*lane);
            let [_, _, third] = keys_of(addresses[lane]);
            let at = past_guides::<IS_NARROW>(processor, &self.lower, found[lane], third);
            places[lane] = at as u32;
            // Keys of a full block take a line, and its values another.
            prefetch(&self.lower, at);
            prefetch(&self.lower, at + LINE);
        }
        let mut any = 0;
        for ((place, found), address) in places.iter().zip(found.iter_mut()).zip(addresses) {
            let [_, _, third] = keys_of(*address);
            let value = value_of::<IS_NARROW>(processor, &self.lower, *place as usize, third);
            *found = if *found & DEEP == 0 { *found } else { value };
            any |= *found;
        }
        if any & DEEP != 0 {
            self.go_deep(addresses, found);
        }
    }

    /// Replaces values that are lists by what the lists say. Rare in routing tables.
    #[inline(never)]
    fn go_deep(&self, addresses: &[u128], found: &mut [u32]) {
        for found in found.iter().filter(|found| **found & DEEP != 0) {
            prefetch(&self.bounds, (*found & !DEEP) as usize);
        }
        for (found, address) in found.iter_mut().zip(addresses) {
            if *found & DEEP != 0 {
                *found = self.listed(*found & !DEEP, *address);
            }
        }
    }
}

/// The /32 that have a value of their own or share it with a few, but for nothing at all.
fn known_of(by_32: &[(u64, u32)]) -> Vec<(u32, u32)> {
    let mut known = Vec::new();
    for pair in by_32.windows(2) {
        let ((start, value), (end, _)) = (pair[0], pair[1]);
        if value != NOTHING && end - start <= KNOWN_RUN_MAX {
            known.extend((start..end).map(|key| (key as u32, value)));
        }
    }
    known
}

/// The three steps of an address.
#[inline(always)]
fn keys_of(address: u128) -> [u16; 3] {
    let high = (address >> 64) as u64;
    [(high >> 48) as u16, (high >> 32) as u16, (high >> 16) as u16]
}

/// The block that a value leads to, or the one without keys.
#[inline(always)]
fn block_or_none(value: u32) -> u32 {
    value & ((value as i32) >> 31) as u32
}

#[inline(always)]
fn place_of(value: u32) -> usize {
    (value & ((1 << PLACE_BITS) - 1)) as usize * 2
}

/// The place of the block behind the guides that a value names.
#[inline(always)]
fn past_guides<const IS_NARROW: bool>(
    processor: impl Compare,
    data: &[u16],
    value: u32,
    key: u16,
) -> usize {
    let mut place = place_of(value);
    for level in (0..value >> PLACE_BITS & 3).rev() {
        let (rank, _) = rank_of(processor, data, place, key);
        place += LINE + rank * stride(IS_NARROW, level);
    }
    place
}

/// The value of a block for a key.
#[inline(always)]
fn value_of<const IS_NARROW: bool>(
    processor: impl Compare,
    data: &[u16],
    place: usize,
    key: u16,
) -> u32 {
    let (rank, count) = rank_of(processor, data, place, key);
    let values = values_at(IS_NARROW, place, count);
    if IS_NARROW {
        let value = u32::from(data[values + rank]);
        (value & !NARROW_DEEP) | (value & NARROW_DEEP) << 16
    } else {
        match data[values + 2 * rank..values + 2 * rank + 2] {
            [low, high] => u32::from(low) | u32::from(high) << 16,
            _ => NOTHING,
        }
    }
}

/// How many of the keys at a place are not above this one, and how many keys there are.
#[inline(always)]
fn rank_of(processor: impl Compare, data: &[u16], place: usize, key: u16) -> (usize, usize) {
    let inside = place % LINE;
    let line = data[place - inside..].first_chunk::<LINE>().expect("data are whole lines");
    let count = usize::from(line[inside]);
    let not_above = u64::from(processor.not_above32(line, key)) >> (inside + 1);
    let mask = (1_u64 << (count % 64)) - 1;
    ((not_above & mask).count_ones() as usize, count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Scalar;

    /// Compared with the intervals themselves, at and around every boundary.
    fn check(boundaries: impl IntoIterator<Item = u128>, answer_of: impl Fn(usize) -> u32) {
        let mut starts: Vec<u128> = boundaries.into_iter().collect();
        starts.push(0);
        starts.sort_unstable();
        starts.dedup();
        let each = starts.iter().enumerate();
        let intervals = Intervals(each.map(|(place, start)| (*start, answer_of(place))).collect());
        let steps = Steps6::build(&intervals);
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
            let mut found = [0; LANES];
            steps.answers(Scalar, asked, &mut found[..asked.len()]);
            for (asked, found) in asked.iter().zip(found) {
                let expected = intervals.answer(*asked);
                assert_eq!(steps.answer(Scalar, *asked), expected, "{asked:x}");
                assert_eq!(found, expected, "{asked:x} in a batch");
            }
        }
    }

    #[test]
    fn answers_are_those_of_the_intervals_with_any_number_of_guides() {
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
    fn boundaries_behind_48_bits_and_at_the_last_addresses_have_lists() {
        let answer_of = |place: usize| place as u32 % 9;
        let deep = (0..300_u128).map(|n| 0x2001_0db8 << 96 | (n % 7) << 80 | (n * n) << 20);
        let ends = [1, u128::MAX, u128::MAX - 1, 0xffff << 112, 0xffff_ffff << 96, !0 << 80];
        check(deep.chain(ends), answer_of);
        // Values of the first steps that are answers beside such that are not.
        check((0..2_000_u128).map(|n| (n * n * 977) << 96 & !(0xfff << 112)), answer_of);
    }
}
