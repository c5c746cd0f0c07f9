//! Finding many addresses at once.
//!
//! For: waiting for memory once rather than once an address. Not for: threads.
//!
//! Addresses go down side by side, [`LANES`] at a time, one level of nodes a stage. A stage is a
//! loop whose iterations do not depend on each other, so that the processor has the reads of
//! several lanes under way. Lanes that have their answer leave the list of those that go on,
//! without a branch on where each one ends:
//!
//! ```text
//! lanes      0      1      2      3           going
//! first      node   17     node   nothing     0 2
//! level 1    23            node               2
//! level 2                  5                  -
//! ```
//!
//! Cost: that of the single lookups in instructions and a few more; see `docs/design/ip-index.md`
//! for what it does to time.

use std::hint::black_box;

use super::lookup::Bits;
use super::node::{Slot, first_word, slot_place_unbranched};
use super::{Match, PrefixIndex, Trie};

/// How many addresses go down side by side.
const LANES: usize = 32;

impl<const FIRST_BITS4: u32> PrefixIndex<FIRST_BITS4> {
    /// Looks up many IPv4 addresses at once: `found[n]` becomes the match of `addresses[n]`.
    ///
    /// # Panics
    ///
    /// When the two slices differ in length.
    pub fn lookup4_batch(&self, addresses: &[u32], found: &mut [Option<Match>]) {
        assert_eq!(addresses.len(), found.len(), "one answer an address");
        for (addresses, found) in addresses.chunks(LANES).zip(found.chunks_mut(LANES)) {
            let slots = self.v4.descend_lanes(addresses);
            for (found, slot) in found.iter_mut().zip(slots) {
                *found = self.match4(slot);
            }
        }
    }

    /// Looks up many IPv6 addresses at once: `found[n]` becomes the match of `addresses[n]`.
    ///
    /// # Panics
    ///
    /// When the two slices differ in length.
    pub fn lookup6_batch(&self, addresses: &[u128], found: &mut [Option<Match>]) {
        assert_eq!(addresses.len(), found.len(), "one answer an address");
        for (addresses, found) in addresses.chunks(LANES).zip(found.chunks_mut(LANES)) {
            let slots = self.v6.descend_lanes(addresses);
            for ((found, address), slot) in found.iter_mut().zip(addresses).zip(slots) {
                *found = self.match6(slot, *address);
            }
        }
    }
}

impl<const FIRST_BITS: u32> Trie<FIRST_BITS> {
    /// The answers' slots for at most [`LANES`] addresses.
    #[inline]
    fn descend_lanes<A: Bits>(&self, addresses: &[A]) -> [Slot; LANES] {
        let mut slots = [Slot::NOTHING; LANES];
        for (slot, address) in slots.iter_mut().zip(addresses) {
            *slot = self.first_slot(*address);
        }
        let mut going: [u8; LANES] = std::array::from_fn(|lane| lane as u8);
        let mut count = keep_children(&mut going, addresses.len().min(LANES), &slots);
        let mut places = [0; LANES];
        let mut before = FIRST_BITS;
        while count > 0 {
            let lanes = || going[..count].iter().map(|lane| usize::from(*lane) % LANES);
            // Three short loops rather than one long: the processor only looks some 500
            // instructions ahead, and the first and third loop fit in there with all lanes.
            let touched = lanes().fold(0, |sum, lane| sum ^ first_word(&self.nodes, slots[lane]));
            black_box(touched);
            for lane in lanes() {
                let cell = addresses[lane].octet(before);
                places[lane] = slot_place_unbranched(&self.nodes, slots[lane], cell);
            }
            for lane in lanes() {
                slots[lane] = Slot(self.nodes[places[lane]]);
            }
            count = keep_children(&mut going, count, &slots);
            before += 8;
        }
        slots
    }
}

/// Keeps the lanes whose slots are children, of the first `count`; returns how many they are.
///
/// A loop of its own: the place a lane is kept at depends on slots that are still being read, and
/// a stage that mixed both made later reads wait for where those writes would go.
#[inline]
fn keep_children(going: &mut [u8; LANES], count: usize, slots: &[Slot; LANES]) -> usize {
    let mut kept = 0;
    for place in 0..count {
        let lane = going[place];
        going[kept] = lane;
        kept += usize::from(slots[usize::from(lane)].is_child());
    }
    kept
}
