//! A perfect hash of some 32-bit keys, with one read of a small table: a hash function without
//! collisions, found by trial.
//!
//! For: what `stages` keeps for the /32 that a routing table knows. Not for: telling whether a key
//! is one of them (the caller compares what stands at the place), nor for changes.
//!
//! ```text
//! key ──► mixed ──┬─ multiplied, upper bits ──► displacements | d | ...      16 bits each, near
//!                 └─ ^ d, multiplied, times the number of places ──► upper half: the place
//! ```
//!
//! Keys that share a displacement get the first one with which all of them have free places; those
//! that are many come first, since they are hard to place. A fifth of the places stays free, so
//! that some trials do.
//!
//! Invariants: no two of the keys have one place. Concurrency: never changes. Cost: four
//! multiplications and a read; half a byte to one a key; about 150 ns a key to build. Source: hash,
//! displace and compress, Belazzougui, Botelho and Dietzfelbinger, ESA 2009.

use super::each::Each;
use crate::image::{Section, bytes_of, section};
use crate::simd::Compare;

/// Odd numbers whose bits are mixed; the first is 2^32 divided by the golden ratio.
const FACTORS: [u32; 3] = [0x9e37_79b1, 0x85eb_ca77, 0xc2b2_ae3d];
/// Keys that share a displacement, on average at most.
const SHARERS: usize = 4;
/// More keys than this share one only where somebody chose them to: not worth trying.
const SHARERS_MAX: usize = 32;
/// And more trials than this in all are needed only there.
const TRIALS_A_KEY: usize = 64;
const TRIALS_MIN: usize = 1 << 16;

/// The function.
pub(crate) struct PerfectHash {
    displacements: Section<u16>,
    /// By how many bits a mixed key is shifted to the number of its displacement.
    shift: u32,
    /// How many places there are.
    len: u32,
}

#[inline(always)]
fn mixed(key: u32) -> u32 {
    let product = key.wrapping_mul(FACTORS[0]);
    // Lower bits of a product know only lower bits of the key.
    product ^ product >> 15
}

/// The number of a mixed key's displacement.
#[inline(always)]
fn list_of(mixed: u32, shift: u32) -> u32 {
    // Once more: keys on a grid have upper bits on a grid.
    mixed.wrapping_mul(FACTORS[2]) >> (shift & 31)
}

/// The place of a mixed key with a displacement.
#[inline(always)]
fn displace(mixed: u32, by: u32, len: u32) -> u32 {
    let product = (mixed ^ by.wrapping_mul(FACTORS[2])).wrapping_mul(FACTORS[1]);
    ((u64::from(product) * u64::from(len)) >> 32) as u32
}

impl PerfectHash {
    /// For distinct keys; `None` if no displacements that are soon found keep them apart.
    pub(crate) fn build(keys: &[u32]) -> Option<PerfectHash> {
        let len = u32::try_from(5 * keys.len() / 4 + 1).ok()?;
        let lists = (keys.len() / SHARERS).next_power_of_two().max(2);
        let shift = 32 - lists.ilog2();
        let mut sharers: Vec<Vec<u32>> = vec![Vec::new(); lists];
        for key in keys {
            let mixed = mixed(*key);
            sharers[list_of(mixed, shift) as usize].push(mixed);
        }
        if sharers.iter().any(|sharers| sharers.len() > SHARERS_MAX) {
            return None;
        }
        let mut order: Vec<usize> = (0..lists).collect();
        order.sort_by_key(|list| std::cmp::Reverse(sharers[*list].len()));
        let mut trials_left = TRIALS_MIN + TRIALS_A_KEY * keys.len();
        let mut is_taken = vec![false; len as usize];
        // One more than there are, since two are read at once.
        let mut displacements = vec![0; lists + 1];
        for list in order {
            let sharers = &sharers[list];
            let is_free = |by: &u16| {
                let place = |mixed: &u32| displace(*mixed, u32::from(*by), len);
                sharers.iter().enumerate().all(|(turn, mixed)| {
                    let at = place(mixed);
                    let meets = || sharers[..turn].iter().any(|other| place(other) == at);
                    !is_taken[at as usize] && !meets()
                })
            };
            let by = (0..=u16::MAX).take(trials_left).find(is_free)?;
            trials_left -= usize::from(by);
            displacements[list] = by;
            for mixed in sharers {
                is_taken[displace(*mixed, u32::from(by), len) as usize] = true;
            }
        }
        PerfectHash::from_displacements(section(&displacements), len as usize)
    }

    /// The function with these displacements and `len` slots; `None` if the former have no possible
    /// number. Their values are not relied on: with others, keys have other places.
    pub(crate) fn from_displacements(
        displacements: Section<u16>,
        len: usize,
    ) -> Option<PerfectHash> {
        let lists = displacements.len().checked_sub(1)?;
        let is_possible = lists.is_power_of_two() && (2..=1 << 31).contains(&lists);
        let shift = if is_possible { 32 - lists.ilog2() } else { return None };
        Some(PerfectHash { displacements, shift, len: u32::try_from(len).ok()? })
    }

    /// A function to `len` slots that separates no keys.
    pub(crate) fn any(len: usize) -> Option<PerfectHash> {
        PerfectHash::from_displacements(section(&[0; 3]), len)
    }

    /// The displacements, to be kept in a file.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        bytes_of(&self.displacements)
    }

    /// How many places there are: all of [`place`](Self::place) are below.
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// The place of a key; some place if it is none of them.
    #[inline(always)]
    pub(crate) fn place(&self, key: u32) -> usize {
        let mixed = mixed(key);
        let by = self.displacements[list_of(mixed, self.shift) as usize];
        displace(mixed, u32::from(by), self.len) as usize
    }

    /// The places of many keys. What is not a read is done for several at once, so that the three
    /// loops must stay apart.
    #[inline(always)]
    pub(crate) fn places(&self, processor: impl Compare, keys: &Each<u32>) -> Each<u32> {
        let mixed = keys.map(mixed);
        let mut places = mixed.map(|mixed| list_of(mixed, self.shift));
        for places in places.as_chunks_mut::<16>().0 {
            *places = processor.read16(&self.displacements, places);
        }
        for (place, mixed) in places.iter_mut().zip(mixed.iter()) {
            *place = displace(*mixed, *place, self.len);
        }
        places
    }
}

/// Keys that somebody chose to share a displacement.
#[cfg(test)]
pub(crate) fn colliding_keys(count: usize) -> Vec<u32> {
    (1..u32::MAX).filter(|key| list_of(mixed(*key), 21) == 0).take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_chosen_to_meet_are_refused_at_once() {
        let keys = colliding_keys(1_000);
        assert!(keys.len() == 1_000 && PerfectHash::build(&keys).is_none());
    }

    #[test]
    fn keys_on_a_grid_have_places_soon() {
        for (rows, columns, shift) in [(4096_u32, 16_u32, 2), (1024, 64, 2), (256, 256, 8)] {
            let row = |h: u32| (0..columns).map(move |l| 0x2000_0000 + (h << 16) + (l << shift));
            let keys: Vec<u32> = (0..rows).flat_map(row).collect();
            assert!(PerfectHash::build(&keys).is_some(), "{rows} {columns} {shift}");
        }
    }

    #[test]
    fn each_key_has_a_place_of_its_own() {
        for count in [0_u32, 1, 2, 5, 63, 64, 1_000, 30_000] {
            for keys in [
                (0..count).map(|n| n + 1).collect::<Vec<u32>>(),
                (0..count).map(|n| n.rotate_left(16)).collect(),
                (0..count).map(|n| 0x2a00_0000 + n * 8).collect(),
            ] {
                let table = PerfectHash::build(&keys).expect("these can be kept apart");
                let mut places: Vec<usize> = keys.iter().map(|key| table.place(*key)).collect();
                places.sort_unstable();
                places.dedup();
                assert_eq!(places.len(), keys.len());
                assert!(places.iter().all(|place| *place < table.len()));
                for keys in keys.as_chunks::<{ crate::tables::LANES }>().0 {
                    let expected = keys.map(|key| table.place(key) as u32);
                    assert_eq!(*table.places(crate::simd::Scalar, &Each::from(*keys)), expected);
                }
            }
        }
    }
}
