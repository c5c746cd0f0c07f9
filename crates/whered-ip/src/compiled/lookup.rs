//! Asking an index: one address, or many at once.
//!
//! For: choosing the code for this processor, and turning slots into matches. Not for: how slots
//! are found (see `ipv4`, `ipv6`).
//!
//! Each question has one body, generic over the processor, and two entries: one compiled for any
//! machine and one with the instructions that the index found at its making. A call costs one
//! predictable branch for that.
//!
//! Cost: see the folder's header; nothing allocates.
#![allow(unsafe_code, reason = "code for more than the baseline is entered behind its token")]

use std::net::IpAddr;

#[cfg(target_arch = "x86_64")]
use super::ipv6::Head;
use super::prefetch::{Items, Node, Prefetch};
use super::slot::{Answer, Slot};
use super::{LANES, Match, PrefixIndex};
#[cfg(target_arch = "x86_64")]
use crate::simd::Avx2;
use crate::simd::{Path, Scalar};

impl PrefixIndex {
    /// The match of an address of either family.
    #[inline]
    pub fn lookup(&self, address: IpAddr) -> Option<Match> {
        match address {
            IpAddr::V4(v4) => self.lookup4(v4.to_bits()),
            IpAddr::V6(v6) => self.lookup6(v6.to_bits()),
        }
    }

    /// The match of an IPv4 address, given as a number (192.0.2.1 is 0xc000_0201).
    #[inline(always)]
    pub fn lookup4(&self, address: u32) -> Option<Match> {
        self.match4(self.slot4(address))
    }

    /// The match of an IPv6 address, given as a number.
    #[inline(always)]
    pub fn lookup6(&self, address: u128) -> Option<Match> {
        let slot = match self.path {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the token says that the instructions are there.
            Path::Avx2(processor) => unsafe { self.slot6_avx2(processor, address) },
            Path::Scalar => self.slot6_scalar(address),
        };
        self.match6(slot, address)
    }

    #[inline(always)]
    fn slot4(&self, address: u32) -> Slot {
        match self.path {
            #[cfg(target_arch = "x86_64")]
            Path::Avx2(processor) => self.ipv4.slot(processor, address),
            Path::Scalar => self.slot4_scalar(address),
        }
    }

    #[inline(never)]
    fn slot4_scalar(&self, address: u32) -> Slot {
        self.ipv4.slot(Scalar, address)
    }

    #[inline(never)]
    fn slot6_scalar(&self, address: u128) -> Slot {
        self.ipv6.slot(Scalar, address)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn slot6_avx2(&self, processor: Avx2, address: u128) -> Slot {
        let slot = self.ipv6.slot_if_split(processor, address);
        // By itself, so that what most addresses need is short.
        slot.unwrap_or_else(|head| self.slot6_of_others_avx2(processor, address, head))
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    #[inline(never)]
    fn slot6_of_others_avx2(&self, processor: Avx2, address: u128, head: Option<Head>) -> Slot {
        self.ipv6.slot_if_other(processor, address, head)
    }

    /// Looks up many IPv4 addresses at once: `found[n]` becomes the match of `addresses[n]`.
    ///
    /// Addresses go side by side, 64 at a time, so that the processor waits for memory once rather
    /// than once an address.
    ///
    /// # Panics
    ///
    /// When the two slices differ in length.
    #[inline]
    pub fn lookup4_batch<T: From<Option<Match>>>(&self, addresses: &[u32], found: &mut [T]) {
        self.lookup4_batch_and(addresses, found, |addresses, slots| {
            self.slots4(addresses, slots, Node);
        });
    }

    /// Like [`lookup4_batch`](Self::lookup4_batch), and prefetches the first cache line of each
    /// value's item. Values of 2^23 and more get no prefetch.
    ///
    /// # Panics
    ///
    /// When the two slices differ in length.
    #[inline]
    pub fn lookup4_batch_with<T: From<Option<Match>>>(
        &self,
        addresses: &[u32],
        found: &mut [T],
        items: Items<'_>,
    ) {
        self.lookup4_batch_and(addresses, found, |addresses, slots| {
            self.slots4(addresses, slots, items);
        });
    }

    #[inline(always)]
    fn lookup4_batch_and<T: From<Option<Match>>>(
        &self,
        addresses: &[u32],
        found: &mut [T],
        mut find: impl FnMut(&[u32], &mut [Slot; LANES]),
    ) {
        assert_eq!(addresses.len(), found.len(), "one answer an address");
        let mut slots = [Slot::NOTHING; LANES];
        for (addresses, found) in addresses.chunks(LANES).zip(found.chunks_mut(LANES)) {
            find(addresses, &mut slots);
            for (found, slot) in found.iter_mut().zip(&slots) {
                *found = self.match4(*slot).into();
            }
        }
    }

    /// Looks up many IPv6 addresses at once: `found[n]` becomes the match of `addresses[n]`.
    ///
    /// # Panics
    ///
    /// When the two slices differ in length.
    #[inline]
    pub fn lookup6_batch<T: From<Option<Match>>>(&self, addresses: &[u128], found: &mut [T]) {
        assert_eq!(addresses.len(), found.len(), "one answer an address");
        let mut slots = [Slot::NOTHING; LANES];
        for (addresses, found) in addresses.chunks(LANES).zip(found.chunks_mut(LANES)) {
            self.slots6(addresses, &mut slots);
            for ((found, address), slot) in found.iter_mut().zip(addresses).zip(&slots) {
                *found = self.match6(*slot, *address).into();
            }
        }
    }

    fn slots4(&self, addresses: &[u32], slots: &mut [Slot; LANES], next: impl Prefetch) {
        match self.path {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the token says that the instructions are there.
            Path::Avx2(processor) => unsafe { self.slots4_avx2(processor, addresses, slots, next) },
            Path::Scalar => self.ipv4.slots_of_lanes(Scalar, addresses, slots, next),
        }
    }

    fn slots6(&self, addresses: &[u128], slots: &mut [Slot; LANES]) {
        match self.path {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the token says that the instructions are there.
            Path::Avx2(processor) => unsafe { self.slots6_avx2(processor, addresses, slots) },
            Path::Scalar => self.ipv6.slots_of_lanes(Scalar, addresses, slots),
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn slots4_avx2(
        &self,
        processor: Avx2,
        addresses: &[u32],
        slots: &mut [Slot; LANES],
        next: impl Prefetch,
    ) {
        self.ipv4.slots_of_lanes(processor, addresses, slots, next);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn slots6_avx2(&self, processor: Avx2, addresses: &[u128], slots: &mut [Slot; LANES]) {
        self.ipv6.slots_of_lanes(processor, addresses, slots);
    }

    /// How many cache lines a lookup reads one after the other, each found by the one before.
    ///
    /// A line beside the one just read counts too, although the processor often has it already.
    pub fn accesses(&self, address: IpAddr) -> usize {
        match address {
            IpAddr::V4(v4) => self.ipv4.lines(Scalar, v4.to_bits()),
            IpAddr::V6(v6) => {
                let address = v6.to_bits();
                let more = match self.ipv6.slot(Scalar, address).answer() {
                    Answer::Alias(before) => self.ipv4.lines(Scalar, behind(address, before)),
                    _ => 0,
                };
                self.ipv6.lines(Scalar, address) + more
            }
        }
    }

    #[inline(always)]
    fn match4(&self, slot: Slot) -> Option<Match> {
        match slot.answer() {
            Answer::Narrow(value, length_bits) => Some(Match { value, length_bits }),
            // Aliases are only made in IPv6.
            Answer::Nothing | Answer::Alias(_) => None,
            Answer::Wide(place) => self.wide[0].get(place).copied().map(Match::unpacked),
        }
    }

    #[inline(always)]
    fn match6(&self, slot: Slot, address: u128) -> Option<Match> {
        match slot.answer() {
            Answer::Narrow(value, length_bits) => Some(Match { value, length_bits }),
            Answer::Nothing => None,
            Answer::Wide(place) => self.wide[1].get(place).copied().map(Match::unpacked),
            Answer::Alias(before) => self.match_of_alias(address, before),
        }
    }

    /// The match of an address whose IPv4 address begins behind `before` bits.
    #[inline(never)]
    fn match_of_alias(&self, address: u128, before: u8) -> Option<Match> {
        let found = self.lookup4(behind(address, before))?;
        // Only an index whose memory somebody overwrote has lengths that do not fit.
        Some(Match { length_bits: before.saturating_add(found.length_bits), ..found })
    }
}

/// The IPv4 address behind the first `before` bits, at most 96.
#[inline]
fn behind(address: u128, before: u8) -> u32 {
    (address >> (96 - u32::from(before))) as u32
}
