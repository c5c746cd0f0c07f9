//! The answers by the second 32 bits of an address, for each /32 that holds more than one
//! network: a tree of cache lines, mostly of two levels and a leaf.
//!
//! For: laying out and reading the runs inside a /32. Not for: which /32 are split (`build`), nor
//! what is true of the others (`mod`).
//!
//! ```text
//! key ──► places ──► head   | key | target | first | second |        16 octets, near
//!
//! lines    | e e e e e e e e e e e e e e e e |     16 ends; a number of ends below the address is a
//!              line `first` says which group, `second` + group is that group's line, which says
//!              which leaf of the group
//!
//! leaves   | e e e e e e e - | s s s s s s s s |   `target` + 17 * group + that: 7 ends, 8 slots
//! ```
//!
//! An end is the last address of a run, its highest bit flipped, since AVX2 compares signed
//! numbers; places without one hold the highest, which no address is above. Line 0 has no ends: a
//! /32 of one group of leaves has it for its first line, one of a single leaf for both. So all take
//! the same steps, and there is nothing to guess: two lookups overlap.
//!
//! Where 17 groups of 17 leaves are not enough, a head with its highest target bit leads to other
//! heads (`parts`), one for each of 289 leaves, by its first line alone.
//!
//! Invariants: every key of `heads` is a /32's; those that `places` leaves free repeat another one.
//! What is read is checked all the same, since the memory may be a file that somebody overwrote.
//! Concurrency: never changes. Cost: the displacement, the head, two lines and the leaf, of which
//! all but the last are 4 % of its memory and stay near; 9 octets a run in full leaves.

use std::ops::Range;

use crate::compiled::slot::Slot;
use crate::image::{Image, Section, bytes_of};
use crate::simd::Compare;
use crate::tables::{Each, LANES, Lanes, PerfectHash};

/// Sixteen words: a cache line.
pub(super) type Words = [u32; 16];
/// Key, target, first and second line.
pub(in crate::compiled) type Head = [u32; 4];

/// How many runs a leaf has at most.
const LEAF_RUNS: usize = 8;
/// How many children a line tells apart.
const WAYS: usize = 17;
const LEAVES_MAX: usize = WAYS * WAYS;
/// Marks a target that is a place among the parts.
const PARTED: u32 = 1 << 31;
/// More levels of parts than 2^32 runs have.
const PART_LEVELS_MAX: usize = 8;
/// The number of the line without ends.
const NO_ENDS: u32 = 0;
/// A place without an end.
const NO_END: u32 = i32::MAX as u32;

/// The tables.
pub(super) struct Split {
    places: PerfectHash,
    heads: Section<Head>,
    parts: Section<Head>,
    lines: Section<Words>,
    leaves: Section<Words>,
}

/// Whether a head leads to others.
#[inline(always)]
pub(super) fn has_parts(head: Head) -> bool {
    head[1] & PARTED != 0
}

/// The number of a /32's address that is compared with ends.
#[inline(always)]
pub(super) fn bound_of(lower: u32) -> u32 {
    lower ^ 1 << 31
}

impl Split {
    /// The tables found in an image; `None` if they have no possible sizes.
    pub(super) fn from_sections(image: &Image, places: &[Range<usize>; 5]) -> Option<Split> {
        let [displacements, heads, parts, lines, leaves] = places.clone();
        let heads = image.section::<Head>(heads)?;
        Some(Split {
            places: PerfectHash::from_displacements(image.section(displacements)?, heads.len())?,
            heads,
            parts: image.section(parts)?,
            lines: image.section(lines)?,
            leaves: image.section(leaves)?,
        })
    }

    /// The bytes of the sections, in the order of [`from_sections`](Self::from_sections).
    pub(super) fn sections(&self) -> [&[u8]; 5] {
        [
            self.places.as_bytes(),
            bytes_of(&self.heads),
            bytes_of(&self.parts),
            bytes_of(&self.lines),
            bytes_of(&self.leaves),
        ]
    }

    /// The head with this number.
    #[inline(always)]
    pub(super) fn head(&self, number: usize) -> Option<Head> {
        self.heads.get(number).copied()
    }

    /// The head of a /32; `None` if it has none that `places` knows.
    #[inline(always)]
    pub(super) fn head_of(&self, key: u32) -> Option<Head> {
        self.head(self.places.place(key)).filter(|head| head[0] == key)
    }

    /// The slot of an address, given by the head of its /32, or of a part of it, and the bound.
    #[inline(always)]
    pub(super) fn slot(&self, processor: impl Compare, head: Head, bound: u32) -> Slot {
        let group = self.group(processor, head, bound);
        self.slot_of_leaf(processor, self.leaf(processor, group, bound), bound)
    }

    #[inline(always)]
    fn group(&self, processor: impl Compare, head: Head, bound: u32) -> Group {
        let [_, target, first, second] = head;
        let way = self.way(processor, first as usize, bound);
        Group { leaf: target as usize + WAYS * way, line: (second as usize).wrapping_add(way) }
    }

    /// The head of the part that an address is in, if its /32 has parts.
    #[inline(always)]
    pub(super) fn part(&self, processor: impl Compare, mut head: Head, bound: u32) -> Head {
        for _ in 0..PART_LEVELS_MAX {
            if !has_parts(head) {
                break;
            }
            let way = self.way(processor, head[2] as usize, bound);
            head = self.parts.get((head[1] & !PARTED) as usize + way).copied().unwrap_or_default();
        }
        head
    }

    /// The leaf of an address whose group this is.
    #[inline(always)]
    fn leaf(&self, processor: impl Compare, group: Group, bound: u32) -> usize {
        group.leaf + self.way(processor, group.line, bound)
    }

    /// Which of the children of a line is an address's.
    #[inline(always)]
    fn way(&self, processor: impl Compare, line: usize, bound: u32) -> usize {
        self.lines.get(line).map_or(0, |line| processor.below16(line, bound) as usize)
    }

    /// The slot that a leaf has for an address.
    #[inline(always)]
    fn slot_of_leaf(&self, processor: impl Compare, leaf: usize, bound: u32) -> Slot {
        let Some(leaf) = self.leaves.get(leaf) else { return Slot::NOTHING };
        Slot(leaf[LEAF_RUNS + processor.below8_of16(leaf, bound) as usize % LEAF_RUNS])
    }

    /// The slots of those lanes whose /32 has a head that `places` knows, and no parts; gives the
    /// others.
    ///
    /// In stages: each stage prefetches what the next one reads, for all lanes.
    #[inline(always)]
    pub(super) fn slots_of_lanes(
        &self,
        processor: impl Compare,
        keys: &Each<u32>,
        bounds: &Each<u32>,
        slots: &mut [Slot],
    ) -> Lanes {
        let places = self.places.places(processor, keys);
        for place in places.iter() {
            self.heads.prefetch(*place as usize);
        }
        let (mut heads, mut is_known) = ([[0; 4]; LANES], [false; LANES]);
        for lane in 0..LANES {
            let Some(head) = self.head(places[lane] as usize) else { continue };
            heads[lane] = head;
            is_known[lane] = head[0] == keys[lane] && !has_parts(head);
            self.lines.prefetch(head[2] as usize);
        }
        let others = Lanes::of(|lane| !is_known[lane]).first(slots.len());
        if others.len() == slots.len() {
            return others;
        }
        // All lanes go on, without a branch: what becomes of the others does not count.
        let mut groups = [Group { leaf: 0, line: 0 }; LANES];
        for lane in 0..LANES {
            groups[lane] = self.group(processor, heads[lane], bounds[lane]);
            self.lines.prefetch(groups[lane].line);
        }
        let mut leaves = [0; LANES];
        for lane in 0..LANES {
            leaves[lane] = self.leaf(processor, groups[lane], bounds[lane]);
            self.leaves.prefetch(leaves[lane]);
        }
        for (lane, slot) in slots.iter_mut().take(LANES).enumerate() {
            *slot = self.slot_of_leaf(processor, leaves[lane], bounds[lane]);
        }
        others
    }

    /// How many cache lines a lookup in a /32 reads one after the other.
    pub(super) fn lines(&self, processor: impl Compare, mut head: Head, bound: u32) -> usize {
        // The displacement, the head, the leaf.
        let mut lines = 3;
        while has_parts(head) && lines < 2 * PART_LEVELS_MAX {
            // A line, and the part.
            lines += 2;
            head = self.part(processor, head, bound);
        }
        // And lines but that without ends.
        lines + head[2..].iter().filter(|line| **line != NO_ENDS).count()
    }
}

/// Up to 17 leaves: the first of them, and the line that says which.
#[derive(Clone, Copy)]
struct Group {
    leaf: usize,
    line: usize,
}

/// The tables while they are filled.
pub(super) struct Builder {
    pub(super) heads: Vec<Head>,
    pub(super) parts: Vec<Head>,
    pub(super) lines: Vec<Words>,
    pub(super) leaves: Vec<Words>,
}

impl Builder {
    pub(super) fn new() -> Builder {
        let lines = vec![[NO_END; 16]];
        Builder { heads: Vec::new(), parts: Vec::new(), lines, leaves: Vec::new() }
    }

    /// Adds a /32 with these runs, each given by the last address of its second 32 bits; gives the
    /// number of its head. `None` when there are too many leaves.
    pub(super) fn push(&mut self, key: u32, runs: &[(u32, Slot)]) -> Option<usize> {
        let mut level: Vec<(u32, Head)> = Vec::new();
        for runs in runs.chunks(LEAF_RUNS * LEAVES_MAX) {
            let part = self.part(key, runs)?;
            level.push((runs[runs.len() - 1].0, part));
        }
        while level.len() > 1 {
            level = level.chunks(WAYS).map(|parts| self.over(key, parts)).collect::<Option<_>>()?;
        }
        self.heads.push(level.first()?.1);
        Some(self.heads.len() - 1)
    }

    /// The head of at most 289 leaves, which it adds.
    fn part(&mut self, key: u32, runs: &[(u32, Slot)]) -> Option<Head> {
        let target = target(self.leaves.len())?;
        self.leaves.extend(runs.chunks(LEAF_RUNS).map(leaf_of));
        let ends: Vec<u32> = runs.chunks(LEAF_RUNS).map(|runs| runs[runs.len() - 1].0).collect();
        let groups: Vec<u32> = ends.chunks(WAYS).map(|ends| ends[ends.len() - 1]).collect();
        let (first, second) = match groups.len() {
            1 => (NO_ENDS, self.line_of(&ends)?),
            _ => {
                let first = self.line_of(&groups)?;
                // One after the other, those of a single leaf too.
                let mut seconds = ends.chunks(WAYS).map(|ends| self.push_line(ends));
                let second = seconds.next()??;
                seconds.try_for_each(|line| line.map(drop))?;
                (first, second)
            }
        };
        Some([key, target, first, second])
    }

    /// The head of heads, with the last address of all.
    fn over(&mut self, key: u32, parts: &[(u32, Head)]) -> Option<(u32, Head)> {
        let target = target(self.parts.len())?;
        self.parts.extend(parts.iter().map(|(_, part)| part));
        let ends: Vec<u32> = parts.iter().map(|(end, _)| *end).collect();
        Some((ends[ends.len() - 1], [key, target | PARTED, self.line_of(&ends)?, NO_ENDS]))
    }

    /// The line that tells apart the children with these last addresses.
    fn line_of(&mut self, ends: &[u32]) -> Option<u32> {
        if ends.len() == 1 { Some(NO_ENDS) } else { self.push_line(ends) }
    }

    fn push_line(&mut self, ends: &[u32]) -> Option<u32> {
        let mut line = [NO_END; 16];
        for (place, end) in line.iter_mut().zip(&ends[..ends.len() - 1]) {
            *place = bound_of(*end);
        }
        self.lines.push(line);
        u32::try_from(self.lines.len() - 1).ok()
    }
}

fn target(place: usize) -> Option<u32> {
    u32::try_from(place).ok().filter(|place| *place < PARTED - (1 << 10))
}

fn leaf_of(runs: &[(u32, Slot)]) -> Words {
    let mut leaf = [NO_END; 16];
    let last = runs.len() - 1;
    for place in 0..LEAF_RUNS {
        let (end, slot) = runs[place.min(last)];
        if place < last {
            leaf[place] = bound_of(end);
        }
        leaf[LEAF_RUNS + place] = slot.0;
    }
    leaf
}
