//! Values of known 32-bit keys, one read each: a hash table in which no two keys meet.
//!
//! For: what steps of 16 bits find for the /32 that a routing table knows. Not for: keys that are
//! not in it (the caller has another way for those), nor for changes.
//!
//! ```text
//! key ──► product ──┬─ upper bits ──► displacements | d | ...           near
//!                   └─ lower bits ^ d, multiplied ──► slots | key, value | ...   one far line
//! ```
//!
//! Keys that share a displacement get the first one with which all of them stand in free slots;
//! those that are many come first, since they are hard to place. At least a fifth of the slots is free, so
//! that some trials do.
//!
//! Invariants: free slots hold key 0 with its own value, so that they are never wrong. Concurrency:
//! never changes. Cost: a multiplication and two reads; 16 to 32 bytes a key and one more for its
//! displacement; about 100 ns a key to build.

use super::intervals::section;
use crate::image::{Section, bytes_of};
use crate::simd::prefetch;

/// 2^64 divided by the golden ratio: spreads keys that count up.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
const SLOT_FACTOR: u32 = 0x9e37_79b1;
/// Keys that share a displacement, on average at most.
const SHARERS: usize = 4;
/// More keys than this share one only where somebody chose them to: not worth trying.
const SHARERS_MAX: usize = 64;
/// How many displacements are tried before there are more slots.
const TRIALS: u32 = 4096;

/// The table.
pub(super) struct Displaced {
    displacements: Section<u32>,
    /// Key below, value above.
    slots: Section<u64>,
    /// By how many bits a product is shifted to the number of its displacement.
    shift: u32,
    /// And a displaced one to the number of its slot.
    slot_shift: u32,
}

#[inline(always)]
fn product(key: u32) -> u64 {
    let product = u64::from(key).wrapping_mul(FACTOR);
    // Lower bits of a product know only lower bits of the key.
    product ^ product >> 29
}

/// The slot of a product with a displacement.
#[inline(always)]
fn slot_of(product: u64, by: u32, slot_shift: u32) -> usize {
    ((product as u32 ^ by).wrapping_mul(SLOT_FACTOR) >> slot_shift) as usize
}

impl Displaced {
    /// Of distinct keys; `of_zero` is what key 0 has. `None` if they cannot be kept apart.
    pub(super) fn build(pairs: &[(u32, u32)], of_zero: u32) -> Option<Displaced> {
        let least = (5 * pairs.len() / 4).next_power_of_two().max(64);
        [least, 2 * least, 4 * least]
            .into_iter()
            .find_map(|slots| Self::build_with(pairs, of_zero, slots))
    }

    fn build_with(pairs: &[(u32, u32)], of_zero: u32, count: usize) -> Option<Displaced> {
        let slot_shift = 32 - count.ilog2();
        let lists = (pairs.len() / SHARERS).next_power_of_two().max(2);
        let shift = 64 - lists.ilog2();
        let mut sharers: Vec<Vec<(u32, u32)>> = vec![Vec::new(); lists];
        for pair in pairs {
            sharers[(product(pair.0) >> shift) as usize].push(*pair);
        }
        if sharers.iter().any(|sharers| sharers.len() > SHARERS_MAX) {
            return None;
        }
        let mut order: Vec<usize> = (0..lists).collect();
        order.sort_by_key(|list| std::cmp::Reverse(sharers[*list].len()));
        let mut slots: Vec<Option<(u32, u32)>> = vec![None; count];
        let mut displacements = vec![0_u32; lists];
        for list in order {
            let sharers = &sharers[list];
            let place = |key: u32, by: u32| slot_of(product(key), by, slot_shift);
            let is_free = |by: &u32| {
                sharers.iter().enumerate().all(|(turn, (key, _))| {
                    let at = place(*key, *by);
                    let meets = sharers[..turn].iter().any(|(other, _)| place(*other, *by) == at);
                    slots[at].is_none() && !meets
                })
            };
            let trials = (0..TRIALS).map(|trial| product(trial) as u32);
            let by = trials.into_iter().find(is_free)?;
            displacements[list] = by;
            for pair in sharers {
                slots[place(pair.0, by)] = Some(*pair);
            }
        }
        let packed = |slot: &Option<(u32, u32)>| {
            let (key, value) = slot.unwrap_or((0, of_zero));
            u64::from(key) | u64::from(value) << 32
        };
        let slots: Vec<u64> = slots.iter().map(packed).collect();
        Some(Displaced {
            displacements: section(&displacements),
            slots: section(&slots),
            shift,
            slot_shift,
        })
    }

    pub(super) fn memory_bytes(&self) -> usize {
        bytes_of(&self.displacements).len() + bytes_of(&self.slots).len()
    }

    /// Where a key stands if it is there.
    #[inline(always)]
    pub(super) fn place(&self, key: u32) -> usize {
        let product = product(key);
        let by = self.displacements[(product >> self.shift) as usize];
        slot_of(product, by, self.slot_shift)
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, place: usize) {
        prefetch(&self.slots, place);
    }

    /// The value at a place, and whether it is this key's.
    #[inline(always)]
    pub(super) fn at(&self, place: usize, key: u32) -> (u32, bool) {
        let slot = self.slots[place & (self.slots.len() - 1)];
        ((slot >> 32) as u32, slot as u32 == key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_chosen_to_meet_are_refused_at_once() {
        let meeting = (1..u32::MAX).filter(|key| product(*key) >> 53 == 0).take(5_000);
        let pairs: Vec<(u32, u32)> = meeting.map(|key| (key, 1)).collect();
        assert!(pairs.len() == 5_000 && Displaced::build(&pairs, 0).is_none());
    }

    #[test]
    fn each_key_has_its_value_and_no_other_key_has_one() {
        for count in [0_u32, 1, 2, 5, 63, 64, 1_000, 30_000] {
            for keys in [
                (0..count).map(|n| n + 1).collect::<Vec<u32>>(),
                (0..count).map(|n| (n + 1) << 16).filter(|key| *key != 0).collect(),
                (0..count).map(|n| 0x2a00_0000 + n * 8).collect(),
            ] {
                let mut keys = keys;
                keys.sort_unstable();
                keys.dedup();
                let pairs: Vec<(u32, u32)> = keys.iter().map(|key| (*key, !key)).collect();
                let table = Displaced::build(&pairs, 7).expect("these can be kept apart");
                let near = keys.iter().flat_map(|key| [*key, key + 1, key ^ 1 << 30]);
                for key in near.filter(|key| *key != 0) {
                    let (value, is_its) = table.at(table.place(key), key);
                    assert_eq!(is_its, keys.binary_search(&key).is_ok(), "{key:x} of {count}");
                    assert!(!is_its || value == !key, "{key:x} of {count}");
                }
                let (value, is_its) = table.at(table.place(0), 0);
                assert!(!is_its || value == 7);
            }
        }
    }
}
