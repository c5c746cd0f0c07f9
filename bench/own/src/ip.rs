//! Prefixes: parsing, longest match, updates.
//! Inputs come from `random` with a fixed seed for each operation; see `main` for the contract.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use whered_ip::{Prefix, PrefixMap};

use crate::Prepared;
use crate::random::Random;

fn prefix4(random: &mut Random) -> Prefix {
    let address = Ipv4Addr::from(random.next() as u32);
    Prefix::new(address.into(), 8 + random.below(25) as u8).expect("at most 32")
}

fn prefix6(random: &mut Random) -> Prefix {
    // Real tables stand in 2000::/3 and are mostly /32 to /48.
    let bits = (u128::from(random.next()) << 64 | u128::from(random.next())) >> 3 | 1 << 125;
    Prefix::new(Ipv6Addr::from(bits).into(), 20 + random.below(45) as u8).expect("at most 128")
}

fn map(count: usize, mut prefix: impl FnMut() -> Prefix) -> PrefixMap<u32> {
    let mut map = PrefixMap::new();
    for value in 0..count {
        map.insert(prefix(), value as u32);
    }
    map
}

fn sum(map: &PrefixMap<u32>, addresses: &[IpAddr]) -> u64 {
    let value = |address| map.longest_match(address).map_or(1, |(_, value)| u64::from(*value));
    addresses.iter().map(|address| value(*address)).fold(0, u64::wrapping_add)
}

/// Text to prefix, both families.
pub(crate) fn parse() -> Prepared {
    let mut random = Random(1);
    let texts: Vec<String> = (0..2000)
        .map(|n| if n % 2 == 0 { prefix4(&mut random) } else { prefix6(&mut random) }.to_string())
        .collect();
    Prepared {
        operations: texts.len() as u64,
        run: Box::new(move || {
            let lengths =
                texts.iter().map(|text| text.parse::<Prefix>().map_or(0, |p| p.length_bits()));
            lengths.map(u64::from).sum()
        }),
    }
}

/// Single longest-prefix matches, IPv4.
pub(crate) fn longest_match4() -> Prepared {
    let mut random = Random(2);
    let map = map(100_000, || prefix4(&mut random));
    let addresses: Vec<IpAddr> =
        (0..20_000).map(|_| Ipv4Addr::from(random.next() as u32).into()).collect();
    Prepared { operations: 20_000, run: Box::new(move || sum(&map, &addresses)) }
}

/// Single longest-prefix matches, IPv6, half of them members.
pub(crate) fn longest_match6() -> Prepared {
    let mut random = Random(3);
    let map = map(50_000, || prefix6(&mut random));
    let members: Vec<IpAddr> = map.iter().map(|(prefix, _)| prefix.address()).collect();
    let addresses: Vec<IpAddr> = (0..10_000)
        .map(|n| match n % 2 {
            0 => members[random.below(members.len() as u64) as usize],
            _ => prefix6(&mut random).address(),
        })
        .collect();
    Prepared { operations: 10_000, run: Box::new(move || sum(&map, &addresses)) }
}

/// Removing a prefix and inserting another.
pub(crate) fn insert_remove() -> Prepared {
    let mut random = Random(4);
    let mut map = map(100_000, || prefix4(&mut random));
    let old: Vec<Prefix> = map.iter().map(|(prefix, _)| prefix).step_by(10).take(5000).collect();
    let new: Vec<Prefix> = (0..5000).map(|_| prefix4(&mut random)).collect();
    Prepared {
        operations: 5000,
        run: Box::new(move || {
            for (old, new) in old.iter().zip(&new) {
                map.remove(old);
                map.insert(*new, 7);
            }
            map.len() as u64
        }),
    }
}
