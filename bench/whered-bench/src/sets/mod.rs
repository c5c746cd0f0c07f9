//! Sets of prefixes to measure with: their shapes follow published figures, their places a seed.
//!
//! For: `bench/versus` and benchmarks of sets and rules. Not for: timing anything.
//!
//! ```text
//! cidrs        n random prefixes of /16 to /32: the set of the question from 2007
//! full_table   IPv4 routes by the lengths that the global table has, in neighbourhoods
//! blocklist    hosts in neighbourhoods, some networks
//! full_table6  IPv6 routes by the lengths that the global table has, below allocations
//! ```
//!
//! Lengths of the IPv4 table are those that the CIDR report and potaroo.net give for 2024 (59 % are
//! /24, a tenth each /22 and /23), those of IPv6 likewise (46 % are /48). Concurrency: plain
//! functions. Cost: about a microsecond a prefix, for sorting and for leaving out doubles.

mod asked;

pub use asked::{batches4, batches6, singly4, singly6};

use std::collections::HashSet;

use crate::Random;

/// An IPv4 prefix: the address, with no bits behind the length, and the length.
pub type Prefix4 = (u32, u8);
/// An IPv6 prefix.
pub type Prefix6 = (u128, u8);

/// Lengths of the IPv4 table, 8 to 24: routes in a hundred thousand.
const LENGTHS4: [(u8, u64); 17] = [
    (8, 2),
    (9, 1),
    (10, 4),
    (11, 11),
    (12, 32),
    (13, 62),
    (14, 125),
    (15, 215),
    (16, 1_440),
    (17, 870),
    (18, 1_480),
    (19, 2_640),
    (20, 4_640),
    (21, 5_330),
    (22, 11_550),
    (23, 10_600),
    (24, 60_998),
];

/// Lengths of the IPv6 table: routes in ten thousand.
const LENGTHS6: [(u8, u64); 20] = [
    (20, 2),
    (24, 4),
    (28, 20),
    (29, 260),
    (30, 45),
    (31, 20),
    (32, 1_260),
    (33, 150),
    (34, 140),
    (35, 60),
    (36, 420),
    (38, 110),
    (40, 880),
    (42, 300),
    (44, 980),
    (45, 210),
    (46, 410),
    (47, 290),
    (48, 4_400),
    (64, 39),
];

fn length_of(random: &mut Random, lengths: &[(u8, u64)]) -> u8 {
    let total: u64 = lengths.iter().map(|(_, share)| share).sum();
    let mut left = random.below(total);
    for (length, share) in lengths {
        if left < *share {
            return *length;
        }
        left -= share;
    }
    lengths.last().map_or(0, |(length, _)| *length)
}

/// The first `length_bits` bits of an address.
#[must_use]
pub fn masked4(address: u32, length_bits: u8) -> u32 {
    address & !u32::MAX.checked_shr(u32::from(length_bits)).unwrap_or(0)
}

/// The first `length_bits` bits of an address.
#[must_use]
pub fn masked6(address: u128, length_bits: u8) -> u128 {
    address & !u128::MAX.checked_shr(u32::from(length_bits)).unwrap_or(0)
}

/// Random prefixes of 16 to 32 bits, each once, sorted.
#[must_use]
pub fn cidrs(count: usize, seed: u64) -> Vec<Prefix4> {
    let mut random = Random::new(seed);
    let mut found = HashSet::with_capacity(count);
    while found.len() < count {
        let length = 16 + random.below(17) as u8;
        found.insert((masked4(random.next_u64() as u32, length), length));
    }
    sorted(found)
}

/// IPv4 routes by the lengths of the global table, each once, sorted.
#[must_use]
pub fn full_table(count: usize, seed: u64) -> Vec<Prefix4> {
    let mut random = Random::new(seed);
    let mut found = HashSet::with_capacity(count);
    let mut near = 0;
    while found.len() < count {
        // Networks come in neighbourhoods: of most, the neighbours are announced too.
        if random.chance(0.12) {
            let first_octet = 1 + random.below(223) as u32;
            near = first_octet << 24 | random.next_u64() as u32 >> 8;
        } else {
            near = near.wrapping_add(256 << random.below(4));
        }
        let length = length_of(&mut random, &LENGTHS4);
        found.insert((masked4(near, length), length));
    }
    sorted(found)
}

/// A list of members to be refused: mostly hosts, in neighbourhoods; each once, sorted.
#[must_use]
pub fn blocklist(count: usize, seed: u64) -> Vec<Prefix4> {
    let mut random = Random::new(seed);
    let mut found = HashSet::with_capacity(count);
    let mut near = 0;
    while found.len() < count {
        if random.chance(0.3) {
            near = (1 + random.below(223) as u32) << 24 | random.next_u64() as u32 >> 8;
        } else {
            near = near.wrapping_add(1 + random.below(4096) as u32);
        }
        let length = if random.chance(0.9) { 32 } else { 22 + random.below(8) as u8 };
        found.insert((masked4(near, length), length));
    }
    sorted(found)
}

/// IPv6 routes by the lengths of the global table, each once, sorted.
#[must_use]
pub fn full_table6(count: usize, seed: u64) -> Vec<Prefix6> {
    const HEADS: [u128; 7] = [0x2001, 0x2400, 0x2600, 0x2800, 0x2a00, 0x2a10, 0x2c0f];
    let mut random = Random::new(seed);
    // One allocation of 32 bits for seven routes, a few of them with very many.
    let allocations: Vec<u128> = (0..count.div_ceil(7))
        .map(|_| {
            let head = random.pick(&HEADS) + u128::from(random.below(15));
            (head << 16 | u128::from(random.below(1 << 16))) << 96
        })
        .collect();
    let mut found = HashSet::with_capacity(count);
    while found.len() < count {
        let skewed = random.fraction() * random.fraction() * allocations.len() as f64;
        let allocation = allocations.get(skewed as usize).copied().unwrap_or(0);
        let length = length_of(&mut random, &LENGTHS6);
        // Low numbers below an allocation are used first.
        let more = u128::from(random.next_u64() >> random.below(14)) << 32;
        found.insert((masked6(allocation | more, length), length));
    }
    sorted(found)
}

fn sorted<T: Ord>(found: HashSet<T>) -> Vec<T> {
    let mut found: Vec<T> = found.into_iter().collect();
    found.sort_unstable();
    found
}

/// Addresses that are uniformly random.
#[must_use]
pub fn uniform(count: usize, seed: u64) -> Vec<u32> {
    let mut random = Random::new(seed);
    (0..count).map(|_| random.next_u64() as u32).collect()
}

/// Addresses of which this share are members of some random prefix, the others uniform.
#[must_use]
pub fn members4(prefixes: &[Prefix4], share: f64, count: usize, seed: u64) -> Vec<u32> {
    let mut random = Random::new(seed);
    let mut member = || {
        let any = random.next_u64() as u32;
        if prefixes.is_empty() || !random.chance(share) {
            return any;
        }
        let (address, length) = *random.pick(prefixes);
        address | (any & u32::MAX.checked_shr(u32::from(length)).unwrap_or(0))
    };
    (0..count).map(|_| member()).collect()
}

/// Addresses that are members of some random prefix.
#[must_use]
pub fn members6(prefixes: &[Prefix6], count: usize, seed: u64) -> Vec<u128> {
    let mut random = Random::new(seed);
    let mut member = || {
        let any = random.next_u128();
        if prefixes.is_empty() {
            return any;
        }
        let (address, length) = *random.pick(prefixes);
        address | (any & u128::MAX.checked_shr(u32::from(length)).unwrap_or(0))
    };
    (0..count).map(|_| member()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_have_the_size_asked_for_and_the_shares_published() {
        assert_eq!(cidrs(4096, 1).len(), 4096);
        let table = full_table(50_000, 1);
        let share =
            |length| table.iter().filter(|(_, found)| *found == length).count() * 100 / 50_000;
        assert!((52..66).contains(&share(24)), "{}", share(24));
        assert!((8..14).contains(&share(22)), "{}", share(22));
        let list = blocklist(10_000, 1);
        assert!(list.iter().filter(|(_, length)| *length == 32).count() > 8_000);
        let table6 = full_table6(20_000, 1);
        assert_eq!(table6.len(), 20_000);
        assert!(table6.iter().filter(|(_, length)| *length == 48).count() > 7_000);
        assert!(table6.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn members_are_members() {
        let list = blocklist(1_000, 2);
        let holds = |address: &u32| list.iter().any(|(a, l)| masked4(*address, *l) == *a);
        assert!(members4(&list, 1.0, 200, 3).iter().all(holds));
        assert_eq!(masked4(u32::MAX, 0), 0);
        assert_eq!(masked6(u128::MAX, 128), u128::MAX);
    }
}
