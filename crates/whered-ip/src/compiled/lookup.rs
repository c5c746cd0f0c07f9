//! Finding one address, and what that costs in memory accesses.
//!
//! For: single lookups; the network of an address that has no match. Not for: many addresses at
//! once (see `batch`).
//!
//! Cost: see the folder's header; nothing allocates.

use std::net::IpAddr;

use super::node::{Answer, Slot, slot_place, step};
use super::{Match, PrefixIndex, Trie};

/// How many words a cache line holds.
const LINE_WORDS: usize = 16;

/// An address of one family, read from its most significant end.
pub(super) trait Bits: Copy {
    /// The first `count` bits, 1 to 24.
    fn first(self, count: u32) -> usize;
    /// The eight bits behind the first `before`.
    fn octet(self, before: u32) -> u8;
}

impl Bits for u32 {
    #[inline]
    fn first(self, count: u32) -> usize {
        (self >> (32 - count)) as usize
    }

    #[inline]
    fn octet(self, before: u32) -> u8 {
        (self >> (24 - before)) as u8
    }
}

impl Bits for u128 {
    #[inline]
    fn first(self, count: u32) -> usize {
        (self >> (128 - count)) as usize
    }

    #[inline]
    fn octet(self, before: u32) -> u8 {
        (self >> (120 - before)) as u8
    }
}

impl<const FIRST_BITS4: u32> PrefixIndex<FIRST_BITS4> {
    /// The match of an address of either family.
    #[inline]
    pub fn lookup(&self, address: IpAddr) -> Option<Match> {
        match address {
            IpAddr::V4(v4) => self.lookup4(v4.to_bits()),
            IpAddr::V6(v6) => self.lookup6(v6.to_bits()),
        }
    }

    /// The match of an IPv4 address, given as a number (192.0.2.1 is 0xc000_0201).
    #[inline]
    pub fn lookup4(&self, address: u32) -> Option<Match> {
        self.match4(self.v4.descend(address))
    }

    /// The match of an IPv6 address, given as a number.
    #[inline]
    pub fn lookup6(&self, address: u128) -> Option<Match> {
        self.match6(self.v6.descend(address), address)
    }

    /// How long the network of an address is: that of its match, or else the shortest prefix that
    /// holds the address and overlaps with none that has a value.
    ///
    /// That is the netmask which MaxMind's readers report for an address without a record. In
    /// a family without any prefix it is 0. Costs a lookup for a match; for a miss up to 256 steps
    /// more, or a scan of the empty block around the address in the first table.
    pub fn network_length_bits(&self, address: IpAddr) -> u8 {
        match (self.lookup(address), address) {
            (Some(found), _) => found.length_bits,
            (None, IpAddr::V4(v4)) => self.v4.empty_length_bits(v4.to_bits()),
            (None, IpAddr::V6(v6)) => {
                let address = v6.to_bits();
                match self.v6.descend(address).answer() {
                    Answer::Alias(before) => {
                        before + self.v4.empty_length_bits(behind(address, before))
                    }
                    _ => self.v6.empty_length_bits(address),
                }
            }
        }
    }

    /// How many cache lines a lookup reads one after the other, each found by the one before.
    ///
    /// Counted as if the arrays began at the beginning of a line. A line beside the one just read
    /// counts too, although the processor often has it already.
    pub fn accesses(&self, address: IpAddr) -> usize {
        match address {
            IpAddr::V4(v4) => self.v4.accesses(v4.to_bits()),
            IpAddr::V6(v6) => {
                let address = v6.to_bits();
                let more = match self.v6.descend(address).answer() {
                    Answer::Alias(before) => self.v4.accesses(behind(address, before)),
                    _ => 0,
                };
                self.v6.accesses(address) + more
            }
        }
    }

    #[inline]
    pub(super) fn match4(&self, slot: Slot) -> Option<Match> {
        match slot.answer() {
            Answer::Narrow(value, length_bits) => Some(Match { value, length_bits }),
            // Aliases are only made in IPv6.
            Answer::Nothing | Answer::Alias(_) => None,
            Answer::Wide(place) => Some(self.v4.wide[place]),
        }
    }

    #[inline]
    pub(super) fn match6(&self, slot: Slot, address: u128) -> Option<Match> {
        match slot.answer() {
            Answer::Narrow(value, length_bits) => Some(Match { value, length_bits }),
            Answer::Nothing => None,
            Answer::Wide(place) => Some(self.v6.wide[place]),
            Answer::Alias(before) => {
                let found = self.lookup4(behind(address, before))?;
                Some(Match { length_bits: before + found.length_bits, ..found })
            }
        }
    }
}

impl<const FIRST_BITS: u32> Trie<FIRST_BITS> {
    /// The answer's slot for an address.
    #[inline]
    pub(super) fn descend(&self, address: impl Bits) -> Slot {
        let mut slot = self.first_slot(address);
        let mut before = FIRST_BITS;
        while slot.is_child() {
            slot = step(&self.nodes, slot, address.octet(before));
            before += 8;
        }
        slot
    }

    #[inline]
    pub(super) fn first_slot(&self, address: impl Bits) -> Slot {
        // An empty family has no table.
        self.first.get(address.first(FIRST_BITS)).map_or(Slot::NOTHING, |slot| Slot(*slot))
    }

    fn accesses(&self, address: impl Bits) -> usize {
        let mut slot = self.first_slot(address);
        let mut before = FIRST_BITS;
        let mut lines = 1;
        while slot.is_child() {
            let place = slot_place(&self.nodes, slot, address.octet(before));
            lines += 1 + usize::from(place / LINE_WORDS != slot.place() / LINE_WORDS);
            slot = Slot(self.nodes[place]);
            before += 8;
        }
        lines
    }

    /// The length of the largest block around an address without a match in which nothing is.
    fn empty_length_bits(&self, address: impl Bits) -> u8 {
        let mut slot = self.first_slot(address);
        let mut before = FIRST_BITS;
        if !slot.is_child() {
            let cell = address.first(FIRST_BITS);
            let nothing = |cell: usize| self.first.get(cell).is_none_or(is_nothing);
            return empty_length_bits(FIRST_BITS, cell, nothing);
        }
        loop {
            let cell = address.octet(before);
            let next = step(&self.nodes, slot, cell);
            if !next.is_child() {
                let nothing = |cell: usize| is_nothing(&step(&self.nodes, slot, cell as u8).0);
                return before as u8 + empty_length_bits(8, usize::from(cell), nothing);
            }
            slot = next;
            before += 8;
        }
    }
}

fn is_nothing(slot: &u32) -> bool {
    *slot == Slot::NOTHING.0
}

/// The length of the largest aligned block around a cell, of 2^`bits` cells, that is empty.
fn empty_length_bits(bits: u32, cell: usize, nothing: impl Fn(usize) -> bool) -> u8 {
    let mut length_bits = bits;
    while length_bits > 0 {
        // The other half of the block that is one bit shorter.
        let size = 1 << (bits - length_bits);
        let other = (cell & !(size - 1)) ^ size;
        if !(other..other + size).all(&nothing) {
            break;
        }
        length_bits -= 1;
    }
    length_bits as u8
}

/// The IPv4 address behind the first `before` bits, at most 96.
#[inline]
fn behind(address: u128, before: u8) -> u32 {
    (address >> (96 - u32::from(before))) as u32
}
