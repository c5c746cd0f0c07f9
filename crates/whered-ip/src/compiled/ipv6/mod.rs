//! The IPv6 side of a compiled index: 32 bits by a slot of its own for each /32 that is split,
//! 32 bits by a tree of few cache lines, the rest by nodes.
//!
//! For: laying out and reading these tables. Not for: nodes (`node`), what a slot means to a caller
//! (`mod`).
//!
//! ```text
//! address  | 32 bits: upper | 32 bits: lower | 64 bits |
//!
//! split    the answers inside a /32 that holds more than one network      ──► slot
//! uppers   all /32s as runs of equal slots, a sorted search                ──► slot, or such a /32
//! nodes    below 64 bits, where few networks are: octets 8 to 15, from slots that are children
//! ```
//!
//! A split /32 is mostly found by `split` itself, which needs one near read for that;
//! `uppers` knows it too, so that keys which cannot be kept apart there are only slower.
//!
//! Invariants: the tables are empty (no prefix in the family) or complete. What is read is checked
//! all the same, since the memory may be a file that somebody overwrote.
//!
//! Cost: see `split`; else log17 of a sixteenth of the runs in `uppers`, which mostly stay near,
//! and the slot's line; two at most for each further octet.

mod build;
mod split;

pub(super) use build::{Runs, SECTIONS};
pub(super) use split::Head;

use std::ops::Range;

use super::node::{lines_of_step, step};
use super::slot::Slot;
use crate::image::{Image, Section, bytes_of};
use crate::simd::Compare;
use crate::tables::{Each, KaryTree, LANES, Lanes, Line};
use split::{Split, Words, bound_of, has_parts};

/// Fewer addresses than this are looked up one by one: all lanes cost as much as this many.
const LANES_MIN: usize = 8;

/// The tables of a family, as they lie in memory.
pub(super) struct Ipv6Table {
    uppers: KaryTree<Words>,
    /// One a run; a child is the number of a split /32.
    upper_slots: Section<u32>,
    split: Split,
    nodes: Section<u32>,
}

impl Ipv6Table {
    /// The tables found in an image; `None` if they have no possible sizes.
    pub(super) fn from_sections(image: &Image, places: &[Range<usize>; SECTIONS]) -> Option<Self> {
        let [uppers, upper_slots, displacements, heads, parts, lines, leaves, nodes] =
            places.clone();
        let upper_slots = image.section::<u32>(upper_slots)?;
        let starts = upper_slots.len().saturating_sub(1);
        let leaf_lines = starts.div_ceil(Words::KEYS);
        Some(Ipv6Table {
            uppers: KaryTree::from_lines(image.section(uppers)?, leaf_lines)?,
            upper_slots,
            split: Split::from_sections(image, &[displacements, heads, parts, lines, leaves])?,
            nodes: image.section(nodes)?,
        })
    }

    /// The bytes of the sections, in the order of [`from_sections`](Self::from_sections).
    pub(super) fn sections(&self) -> [&[u8]; SECTIONS] {
        let [displacements, heads, parts, lines, leaves] = self.split.sections();
        let (uppers, upper_slots) = (self.uppers.as_bytes(), bytes_of(&self.upper_slots));
        let nodes = bytes_of(&self.nodes);
        [uppers, upper_slots, displacements, heads, parts, lines, leaves, nodes]
    }

    /// The answer's slot for an address.
    #[inline(always)]
    pub(super) fn slot(&self, processor: impl Compare, address: u128) -> Slot {
        let slot = self.slot_if_split(processor, address);
        slot.unwrap_or_else(|head| self.slot_if_other(processor, address, head))
    }

    /// The slot of an address whose /32 `split` knows and has no parts, as most are. Otherwise the
    /// head that has parts, if there is one.
    #[inline(always)]
    pub(super) fn slot_if_split(
        &self,
        processor: impl Compare,
        address: u128,
    ) -> Result<Slot, Option<Head>> {
        let (upper, bound) = parts_of(address);
        match self.split.head_of(upper) {
            Some(head) if !has_parts(head) => {
                Ok(self.slot_from(self.split.slot(processor, head, bound), address))
            }
            head => Err(head),
        }
    }

    /// The slot of all other addresses.
    #[inline(always)]
    pub(super) fn slot_if_other(
        &self,
        processor: impl Compare,
        address: u128,
        head: Option<Head>,
    ) -> Slot {
        let (upper, bound) = parts_of(address);
        let slot = match head {
            Some(head) => self.slot_of_divided(processor, head, bound),
            None => {
                let rank = self.uppers.rank(processor, upper);
                self.slot_of_upper(processor, rank, bound)
            }
        };
        self.slot_from(slot, address)
    }

    #[inline(always)]
    fn slot_from(&self, slot: Slot, address: u128) -> Slot {
        if slot.is_child() { self.slot_below(slot, address) } else { slot }
    }

    /// The slot of an address whose run in `uppers` is this one.
    #[inline(always)]
    fn slot_of_upper(&self, processor: impl Compare, rank: u32, bound: u32) -> Slot {
        let slot = self.upper_slots.get(rank as usize).copied().map_or(Slot::NOTHING, Slot);
        if !slot.is_child() {
            return slot;
        }
        let head = self.split.head(slot.place());
        head.map_or(Slot::NOTHING, |head| self.slot_of_divided(processor, head, bound))
    }

    /// The slot of an address, given by the head of its /32, which may have parts.
    #[inline(always)]
    fn slot_of_divided(&self, processor: impl Compare, head: Head, bound: u32) -> Slot {
        self.split.slot(processor, self.split.part(processor, head, bound), bound)
    }

    /// Goes on below the 64th bit.
    #[inline(never)]
    fn slot_below(&self, mut slot: Slot, address: u128) -> Slot {
        let mut before_bits = 56;
        // Two nodes at most for each of eight octets.
        for _ in 0..16 {
            before_bits += 8 * slot.octets_on();
            slot = step(&self.nodes, slot, octet(address, before_bits));
            if !slot.is_child() {
                return slot;
            }
        }
        Slot::NOTHING
    }

    /// The answers' slots for at most [`LANES`] addresses, in stages for all lanes.
    #[inline(always)]
    pub(super) fn slots_of_lanes(
        &self,
        processor: impl Compare,
        addresses: &[u128],
        slots: &mut [Slot; LANES],
    ) {
        if addresses.len() < LANES_MIN {
            for (slot, address) in slots.iter_mut().zip(addresses) {
                *slot = self.slot(processor, *address);
            }
            return;
        }
        let (mut uppers, mut bounds) = (Each::new(), Each::new());
        for ((upper, bound), address) in uppers.iter_mut().zip(bounds.iter_mut()).zip(addresses) {
            (*upper, *bound) = parts_of(*address);
        }
        let slots = &mut slots[..addresses.len().min(LANES)];
        let others = self.split.slots_of_lanes(processor, &uppers, &bounds, slots);
        self.slots_of_uppers(processor, others, [&uppers, &bounds], slots);
        for (slot, address) in slots.iter_mut().zip(addresses) {
            if slot.is_child() {
                *slot = self.slot_below(*slot, *address);
            }
        }
    }

    /// The slots of those lanes that `split` does not know.
    #[inline(always)]
    fn slots_of_uppers(
        &self,
        processor: impl Compare,
        lanes: Lanes,
        [uppers, bounds]: [&Each<u32>; 2],
        slots: &mut [Slot],
    ) {
        let (mut asked, mut ranks) = ([0; LANES], [0; LANES]);
        for (asked, lane) in asked.iter_mut().zip(lanes) {
            *asked = uppers[lane];
        }
        self.uppers.ranks(processor, &asked[..lanes.len()], &mut ranks);
        for rank in &ranks[..lanes.len()] {
            self.upper_slots.prefetch(*rank as usize);
        }
        for (rank, lane) in ranks.iter().zip(lanes) {
            if let Some(slot) = slots.get_mut(lane) {
                *slot = self.slot_of_upper(processor, *rank, bounds[lane]);
            }
        }
    }

    /// How many cache lines a lookup reads one after the other, each found by the one before.
    pub(super) fn lines(&self, processor: impl Compare, address: u128) -> usize {
        if self.upper_slots.is_empty() {
            return 0;
        }
        let (upper, bound) = parts_of(address);
        let (mut lines, mut slot) = match self.split.head_of(upper) {
            Some(head) => {
                let slot = self.slot_of_divided(processor, head, bound);
                (self.split.lines(processor, head, bound), slot)
            }
            None => {
                // The displacement and the head, which is another one's.
                let rank = self.uppers.rank(processor, upper);
                (2 + self.uppers.depth() + 1, self.slot_of_upper(processor, rank, bound))
            }
        };
        let mut before_bits = 56;
        while slot.is_child() && before_bits < 128 {
            before_bits += 8 * slot.octets_on();
            lines += lines_of_step(&self.nodes, slot, octet(address, before_bits));
            slot = step(&self.nodes, slot, octet(address, before_bits));
        }
        lines
    }
}

/// The first 32 bits of an address, and the bound that the next 32 make.
#[inline(always)]
fn parts_of(address: u128) -> (u32, u32) {
    ((address >> 96) as u32, bound_of((address >> 64) as u32))
}

/// The eight bits behind the first `before_bits`; those of the last octet beyond the end.
#[inline(always)]
fn octet(address: u128, before_bits: u32) -> u8 {
    (address >> 120_u32.saturating_sub(before_bits)) as u8
}

#[cfg(test)]
#[path = "ipv6_tests.rs"]
mod tests;
