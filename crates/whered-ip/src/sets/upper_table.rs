//! IPv4 by the upper half of the address and sorted lists of the lower halves: the compiled form
//! of lists.
//!
//! For: hundreds to millions of intervals anywhere. Not for: a handful of them, for which the
//! table of upper halves is too much (`intervals` has a tree).
//!
//! ```text
//! address    | 16 bits: upper | 16 bits: lower |      (up to 20 bits where lists would be long)
//!
//! starts     | s0 | s1 | ... | s65536 |      where the boundaries of each upper half begin
//!                  ▼
//! lows       ... | l l l l l l | ...         their lower halves, sorted; 32 fit into 64 octets
//!
//! rank = starts[upper] + how many lows up to starts[upper + 1] are not above lower
//!   ──► answers[rank]; where two answers take turns: rank odd or even, no table
//!
//! resolved   two bits for each upper half, where two answers take turns and most /16s are of one:
//!              0 1   rank is even or odd in all of it: the answer
//!              1 -   where its list begins stands among those of such upper halves only, found by
//!                    how many of them there are before it; there is no table of starts then
//! ```
//!
//! `resolved`, with 16 bits only, has 16 KiB, so that it stays in the nearest cache, and of 4,096
//! random networks it answers 94 of 100 random addresses. The other lists' beginnings are 40 KiB
//! then.
//!
//! One comparison tells the place among up to 32 lows. Of longer lists every 32nd low stands in a
//! list of *guides* too, in which the same comparison finds the 32 that matter: one more line up to
//! 1,024 lows in a list. Beyond, halving comes before. Where many boundaries would stand in long
//! lists, upper halves have more than 16 bits: a comparison of all 16 lower ones stays right.
//!
//! Invariants: starts do not fall; 32 lows more than there are may be read. Concurrency: never
//! changes. Cost: two reads and one comparison, or one read; 256 KiB, and 2 bytes a boundary (4
//! more with answers; up to 2 more where lists would be long); with `resolved` 24 KiB and 8 bytes
//! for each upper half that it does not tell.

use super::intervals::Answers;
use super::sweep::Intervals;
use crate::image::{Section, bytes_of, section, sections};
use crate::simd::{Compare, prefetch};
use crate::tables::Each;
use crate::tables::LANES;

/// How many lows one comparison takes.
const LINE: usize = 32;
const UPPER_BITS: u32 = 16;
const UPPERS: usize = 1 << UPPER_BITS;
/// The most bits of the upper table: more make lists shorter, but the table too large.
const UPPER_BITS_MAX: u32 = 20;
/// At most one boundary in this many may be in a list that is longer than one comparison.
const LONG_SHARE: usize = 16;
/// Words of the bits of [`Resolved`]: sixteen codes each.
const RESOLVED_WORDS: usize = UPPERS / 16;
/// The second bits of their codes.
const UNRESOLVED: u32 = 0xaaaa_aaaa;
/// At most one /16 in this many may be unresolved.
const RESOLVED_SHARE: usize = 3;

/// The form.
pub(super) struct UpperTable4 {
    /// Empty where `resolved` has the starts that lookups need.
    starts: Section<u32>,
    /// By how many bits an address is shifted to the number of its start.
    upper_shift: u32,
    lows: Section<u16>,
    /// Every 32nd low: the last one of each whole 32 since the beginning of `lows`.
    guides: Section<u16>,
    answers: Answers,
    count: usize,
    /// Whether no list has more lows than one comparison takes.
    is_short: bool,
    resolved: Option<Resolved>,
}

/// Two bits for each upper half, and the answers of even and of odd ranks.
struct Resolved {
    bits: Section<u32>,
    turns: [u32; 2],
    /// How many unresolved upper halves there are before each word.
    before: Section<u16>,
    /// Start and count of the lows of each unresolved upper half.
    parts: Section<u32>,
}

impl Resolved {
    /// `None` where it would not help: see [`RESOLVED_SHARE`].
    fn build(starts: &[u32], lows: &[u16], answers: &Answers) -> Option<Resolved> {
        let Answers::Turns(turns) = answers else { return None };
        let mut bits = vec![0_u32; RESOLVED_WORDS];
        let (mut before, mut parts) = (Vec::new(), Vec::new());
        for (upper, ends) in starts.windows(2).enumerate() {
            let (start, end) = (ends[0] as usize, ends[1] as usize);
            // A boundary at the /16's own beginning is no boundary inside it.
            let first_inside = start + usize::from(start < end && lows[start] == 0);
            let is_unresolved = first_inside < end;
            if upper % 16 == 0 {
                before.push((parts.len() / 2) as u16);
            }
            if is_unresolved {
                parts.extend([ends[0], ends[1] - ends[0]]);
            }
            let code = (first_inside % 2) as u32 | u32::from(is_unresolved) << 1;
            bits[upper / 16] |= code << (upper % 16 * 2);
        }
        (parts.len() / 2 <= UPPERS / RESOLVED_SHARE).then(|| Resolved {
            bits: section(&bits),
            turns: *turns,
            before: section(&before),
            parts: section(&parts),
        })
    }

    /// The answer, where the two bits of an address's upper half resolve it.
    #[inline(always)]
    fn answer(&self, address: u32) -> Option<u32> {
        let words: &[u32; RESOLVED_WORDS] = self.bits.first_chunk().expect("as many as were made");
        let code = words[(address >> 20) as usize] >> (address >> 15 & 30) & 3;
        (code < 2).then(|| self.turns[code as usize])
    }

    /// The part of `lows` that an unresolved address is found in.
    #[inline(always)]
    fn part(&self, address: u32) -> Part {
        let words: &[u32; RESOLVED_WORDS] = self.bits.first_chunk().expect("as many as were made");
        let before: &[u16; RESOLVED_WORDS] = self.before.first_chunk().expect("one for each word");
        let word = (address >> 20) as usize;
        let lower = words[word] & ((1 << (address >> 15 & 30)) - 1) & UNRESOLVED;
        let place = (u32::from(before[word]) + lower.count_ones()) as usize;
        match self.parts.get(place * 2..place * 2 + 2) {
            Some(&[start, count]) => Part { start, count },
            _ => Part::default(),
        }
    }

    fn memory_bytes(&self) -> usize {
        bytes_of(&self.bits).len() + bytes_of(&self.before).len() + bytes_of(&self.parts).len()
    }

    /// Writes the resolved answers and returns a bit for each unresolved address, the first one
    /// lowest. All words are loaded before any is examined, so that a few instructions examine
    /// many.
    #[inline(always)]
    fn answers64(
        &self,
        processor: impl Compare,
        addresses: &[u32; LANES],
        found: &mut [u32; LANES],
    ) -> u64 {
        let words: &[u32; RESOLVED_WORDS] = self.bits.first_chunk().expect("as many as were made");
        let mut read = Each::<u32>::new();
        for (read, address) in read.iter_mut().zip(addresses) {
            *read = words[(address >> 20) as usize];
        }
        let [even, odd] = self.turns;
        let turn = even ^ odd;
        let mut unresolved = 0;
        for (group, ((read, addresses), found)) in (read.as_chunks::<16>().0.iter())
            .zip(addresses.as_chunks::<16>().0)
            .zip(found.as_chunks_mut::<16>().0)
            .enumerate()
        {
            let mut codes = [0; 16];
            for lane in 0..16 {
                let code = read[lane] >> (addresses[lane] >> 15 & 30);
                found[lane] = even ^ (turn & 0_u32.wrapping_sub(code & 1));
                codes[lane] = code;
            }
            let unresolved16 = processor.second_bits16(&codes);
            unresolved |= u64::from(unresolved16) << (16 * group);
        }
        unresolved
    }
}

/// A part of `lows` in which the place of an address is still to be found.
#[derive(Clone, Copy, Default)]
struct Part {
    start: u32,
    count: u32,
}

/// Where the boundaries of each number of `upper_bits` begin, and where all end.
fn starts_by(boundaries: &[(u32, u32)], upper_bits: u32) -> Vec<u32> {
    let mut starts = Vec::with_capacity((1 << upper_bits) + 1);
    for (place, (start, _)) in boundaries.iter().enumerate() {
        let upper = (start >> (32 - upper_bits)) as usize;
        starts.resize(starts.len().max(upper + 1), place as u32);
    }
    starts.resize((1 << upper_bits) + 1, boundaries.len() as u32);
    starts
}

/// The fewest bits with which few boundaries stand in long lists, of which the table of starts is
/// at most as large as the lows; half of an address where none are enough.
fn upper_bits_for(boundaries: &[(u32, u32)]) -> u32 {
    let may_have =
        |bits: &u32| *bits == UPPER_BITS || (4 << bits) <= size_of::<u16>() * boundaries.len();
    let few_are_long = |bits: &u32| {
        let lists = boundaries.chunk_by(|(a, _), (b, _)| (a ^ b) >> (32 - bits) == 0);
        let long = lists.map(<[_]>::len).filter(|len| *len > LINE).sum::<usize>();
        long <= boundaries.len() / LONG_SHARE
    };
    let mut may = (UPPER_BITS..=UPPER_BITS_MAX).take_while(may_have);
    may.find(few_are_long).unwrap_or(UPPER_BITS)
}

impl UpperTable4 {
    pub(super) fn build(intervals: &Intervals<u32>) -> UpperTable4 {
        let boundaries = &intervals.0[1..];
        let upper_bits = upper_bits_for(boundaries);
        let starts = starts_by(boundaries, upper_bits);
        let is_short = starts.windows(2).all(|pair| pair[1] - pair[0] <= LINE as u32);
        let mut lows: Vec<u16> = boundaries.iter().map(|(start, _)| *start as u16).collect();
        let guides: Vec<u16> =
            lows.chunks_exact(LINE).filter_map(|line| line.last().copied()).collect();
        let answers = Answers::of(&intervals.0);
        let resolved =
            (upper_bits == UPPER_BITS).then(|| Resolved::build(&starts, &lows, &answers)).flatten();
        let spare = [u16::MAX; LINE];
        lows.extend(spare);
        let (lows, starts) = match resolved {
            Some(_) => (section(&lows), section(&[])),
            None => sections(&lows, &starts),
        };
        UpperTable4 {
            starts,
            upper_shift: 32 - upper_bits,
            lows,
            guides: section(&[guides.as_slice(), &spare].concat()),
            answers,
            count: intervals.0.len(),
            is_short,
            resolved,
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let lows = bytes_of(&self.lows).len() + bytes_of(&self.guides).len();
        let resolved = self.resolved.as_ref().map_or(0, Resolved::memory_bytes);
        bytes_of(&self.starts).len() + lows + resolved + self.answers.memory_bytes()
    }

    /// How many intervals there are.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    #[inline(always)]
    fn part(&self, address: u32) -> Part {
        let upper = (address >> (self.upper_shift & 31)) as usize;
        match self.starts[upper..upper + 2] {
            [start, end] => Part { start, count: end.wrapping_sub(start) },
            _ => Part::default(),
        }
    }

    /// Makes a part of more than 32 shorter: at most 32 lows, before which all are not above.
    #[inline(always)]
    fn narrowed(&self, processor: impl Compare, part: Part, low: u16) -> Part {
        let Part { start, count } = part;
        let end = start + count;
        // The line where the part begins also ends in it, as all do up to the one where it ends.
        let (mut line, mut left) = (start / LINE as u32, end / LINE as u32 - start / LINE as u32);
        while left > LINE as u32 {
            let half = left / 2;
            let is_past = self.guides[(line + half - 1) as usize] <= low;
            line += if is_past { half } else { 0 };
            left -= half;
        }
        line += not_above(processor, &self.guides, line, left, low);
        let from = start.max(line * LINE as u32);
        Part { start: from, count: end.min((line + 1) * LINE as u32) - from }
    }

    #[inline(always)]
    fn rank(&self, processor: impl Compare, mut part: Part, address: u32) -> u32 {
        if part.count > LINE as u32 {
            part = self.narrowed(processor, part, address as u16);
        }
        part.start + not_above(processor, &self.lows, part.start, part.count, address as u16)
    }

    #[inline(always)]
    pub(super) fn answer(&self, processor: impl Compare, address: u32) -> u32 {
        match self.resolved(address) {
            Some(answer) => answer,
            None => self.answer_unresolved(processor, address),
        }
    }

    /// The answer of an unresolved address.
    #[inline(always)]
    pub(super) fn answer_unresolved(&self, processor: impl Compare, address: u32) -> u32 {
        let part = match &self.resolved {
            Some(resolved) => resolved.part(address),
            None => self.part(address),
        };
        // Near the one that it will be: it need not wait for the lows.
        self.answers.prefetch(part.start);
        self.answers.get(self.rank(processor, part, address))
    }

    /// Prefetches the line that a lookup reads first.
    #[inline(always)]
    pub(super) fn prefetch(&self, address: u32) {
        // The resolved bits stay in the nearest cache.
        prefetch(&self.starts, (address >> self.upper_shift) as usize);
    }

    /// Whether most upper halves resolve the answer alone.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "for the choice of a path"))]
    pub(super) fn is_resolved(&self) -> bool {
        self.resolved.is_some()
    }

    /// The answer, where the upper half alone resolves it. It uses baseline instructions only.
    #[inline(always)]
    pub(super) fn resolved(&self, address: u32) -> Option<u32> {
        self.resolved.as_ref()?.answer(address)
    }

    /// The answers that upper halves resolve, and then the others. One load each is
    /// faster than gathering sixteen at a time with AVX-512 (docs/design/prefix-sets.md, Tried).
    #[inline(always)]
    fn answers_resolved(
        &self,
        resolved: &Resolved,
        processor: impl Compare,
        addresses: &[u32],
        found: &mut [u32],
    ) {
        let (Ok(addresses), Ok(found)) =
            (<&[u32; LANES]>::try_from(addresses), <&mut [u32; LANES]>::try_from(&mut *found))
        else {
            for (address, found) in addresses.iter().zip(found) {
                *found = self.answer(processor, *address);
            }
            return;
        };
        let mut unresolved = resolved.answers64(processor, addresses, found);
        while unresolved != 0 {
            let lane = unresolved.trailing_zeros() as usize;
            found[lane] = self.answer_unresolved(processor, addresses[lane]);
            unresolved &= unresolved - 1;
        }
    }

    /// The answers of at most [`LANES`] addresses, in stages so that waits overlap.
    #[inline(always)]
    pub(super) fn answers(&self, processor: impl Compare, addresses: &[u32], found: &mut [u32]) {
        if let Some(resolved) = &self.resolved {
            return self.answers_resolved(resolved, processor, addresses, found);
        }
        if self.is_short && self.upper_shift == 32 - UPPER_BITS {
            // Nothing to find first, and small enough to be near: stages would only cost. An array
            // of this length needs no check of a place that has 16 bits.
            let starts: &[u32; UPPERS + 1] =
                self.starts.first_chunk().expect("one more than uppers");
            let mut ranks = [0; LANES];
            for (rank, address) in ranks.iter_mut().zip(addresses) {
                let upper = (address >> 16) as usize;
                let (start, end) = (starts[upper], starts[upper + 1]);
                let count = end.wrapping_sub(start);
                *rank = start + not_above(processor, &self.lows, start, count, *address as u16);
            }
            return self.answers.get_many(&ranks[..addresses.len().min(LANES)], found);
        }
        let mut parts = [Part::default(); LANES];
        let mut longest = 0;
        for (part, address) in parts.iter_mut().zip(addresses) {
            *part = self.part(*address);
            longest = longest.max(part.count);
            prefetch(&self.lows, part.start as usize);
        }
        if longest > LINE as u32 {
            self.narrow(processor, addresses, &mut parts);
        }
        let mut ranks = [0; LANES];
        for ((rank, part), address) in ranks.iter_mut().zip(&parts).zip(addresses) {
            let low = *address as u16;
            *rank = part.start + not_above(processor, &self.lows, part.start, part.count, low);
        }
        self.answers.get_many(&ranks[..addresses.len().min(LANES)], found);
    }

    #[inline(always)]
    fn narrow(&self, processor: impl Compare, addresses: &[u32], parts: &mut [Part; LANES]) {
        for part in parts.iter().filter(|part| part.count > LINE as u32) {
            prefetch(&self.guides, part.start as usize / LINE);
        }
        for (part, address) in parts.iter_mut().zip(addresses) {
            if part.count > LINE as u32 {
                *part = self.narrowed(processor, *part, *address as u16);
                prefetch(&self.lows, part.start as usize);
            }
        }
    }
}

/// How many of `count`, at most 32, sorted numbers from `start` on are not above this one.
#[inline(always)]
fn not_above(processor: impl Compare, sorted: &[u16], start: u32, count: u32, number: u16) -> u32 {
    let start = start as usize;
    let line = sorted.get(start..).and_then(<[u16]>::first_chunk).expect("spare numbers follow");
    let inside = ((1_u64 << (count & 63)) - 1) as u32;
    (processor.not_above32(line, number) & inside).count_ones()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Scalar;

    #[test]
    fn lists_that_would_be_long_have_more_upper_bits_where_those_help() {
        // 60 boundaries in each of 5,000 /16s: spread over it, or all in its first /24; then lists
        // that are longer than all guides that one comparison takes.
        for (each, step, bits) in [(60, 1092, 17), (60, 3, UPPER_BITS), (3_001, 3, UPPER_BITS)] {
            let starts = (0..300_000_u32).map(|n| ((1 + n / each * 13) << 16) + n % each * step);
            let each = starts.enumerate().map(|(place, start)| (start, 1 + place as u32 % 5));
            let intervals = Intervals([(0, 0)].into_iter().chain(each).collect());
            let table = UpperTable4::build(&intervals);
            assert_eq!(32 - table.upper_shift, bits);
            let near = intervals.0.iter().step_by(37).flat_map(|(start, _)| {
                [start.wrapping_sub(1), *start, start.wrapping_add(step - 1), start ^ 0xffff]
            });
            let asked: Vec<u32> = near.collect();
            for asked in asked.chunks(LANES) {
                let mut found = [0; LANES];
                table.answers(Scalar, asked, &mut found[..asked.len()]);
                for (asked, found) in asked.iter().zip(found) {
                    let expected = intervals.answer(*asked);
                    assert_eq!((table.answer(Scalar, *asked), found), (expected, expected));
                }
            }
        }
    }
}
