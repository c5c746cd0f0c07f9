//! Prefixes: parsing, and the compiled index.
//! Inputs come from `random` with a fixed seed for each operation; see `main` for the contract.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use whered_ip::{IndexForm, Match, Prefix, PrefixIndex};
use whered_random::Random;

use crate::Prepared;

fn prefix4(random: &mut Random) -> Prefix {
    let address = Ipv4Addr::from(random.next_u64() as u32);
    Prefix::new(address.into(), 8 + random.below(25) as u8).expect("at most 32")
}

fn prefix6(random: &mut Random) -> Prefix {
    // Real tables stand in 2000::/3 and are mostly /32 to /48.
    let bits =
        (u128::from(random.next_u64()) << 64 | u128::from(random.next_u64())) >> 3 | 1 << 125;
    Prefix::new(Ipv6Addr::from(bits).into(), 20 + random.below(45) as u8).expect("at most 128")
}

fn map(count: usize, mut prefix: impl FnMut() -> Prefix) -> BTreeMap<Prefix, u32> {
    let mut map = BTreeMap::new();
    for value in 0..count {
        map.insert(prefix(), value as u32);
    }
    map
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

/// A compiled index of `count` prefixes, and the prefixes in order.
fn compiled(count: usize, prefix: impl FnMut() -> Prefix) -> (PrefixIndex, Vec<Prefix>) {
    let map = map(count, prefix);
    let index =
        PrefixIndex::build(IndexForm::Compact, map.iter().map(|(prefix, value)| (*prefix, *value)));
    (index.expect("a map iterates in order"), map.into_keys().collect())
}

/// Addresses for the IPv4 index: half of them first addresses of its networks.
fn compiled4() -> (PrefixIndex, Vec<u32>) {
    let mut random = Random(5);
    let (index, members) = compiled(50_000, || prefix4(&mut random));
    let addresses = (0..20_000).map(|n| {
        match (n % 2, members[random.below(members.len() as u64) as usize].address()) {
            (0, IpAddr::V4(member)) => member.to_bits(),
            _ => random.next_u64() as u32,
        }
    });
    let addresses = addresses.collect();
    (index, addresses)
}

fn checksum(found: Option<Match>) -> u64 {
    found.map_or(1, |found| u64::from(found.value) * 131 + u64::from(found.length_bits))
}

/// Single lookups in a compiled index, IPv4.
pub(crate) fn compiled_lookup4() -> Prepared {
    let (index, addresses) = compiled4();
    Prepared {
        operations: 20_000,
        run: Box::new(move || {
            let found = addresses.iter().map(|address| index.lookup4(*address));
            found.map(checksum).fold(0, u64::wrapping_add)
        }),
    }
}

/// IPv4 lookups in batches of 64.
pub(crate) fn compiled_lookup4_batch() -> Prepared {
    let (index, addresses) = compiled4();
    Prepared {
        operations: 20_000,
        run: Box::new(move || {
            let mut found = [None; 64];
            let mut sum = 0u64;
            for addresses in addresses.chunks(64) {
                let found = &mut found[..addresses.len()];
                index.lookup4_batch(addresses, found);
                sum = found.iter().copied().map(checksum).fold(sum, u64::wrapping_add);
            }
            sum
        }),
    }
}

/// Single lookups in a compiled index, IPv6: prefixes that mostly stand alone in their /32.
pub(crate) fn compiled_lookup6() -> Prepared {
    compiled_lookup6_of(prefix6)
}

/// IPv6 lookups of prefixes inside 500 /32, as providers divide theirs.
pub(crate) fn compiled_lookup6_divided() -> Prepared {
    compiled_lookup6_of(|random| {
        let provider = 0x2a00_0000 + random.below(500) as u32 * 8;
        let bits = u128::from(provider) << 96 | u128::from(random.next_u64()) << 32;
        Prefix::new(Ipv6Addr::from(bits).into(), 33 + random.below(16) as u8).expect("at most 128")
    })
}

/// Half of the addresses are members.
fn compiled_lookup6_of(prefix: impl Fn(&mut Random) -> Prefix) -> Prepared {
    let mut random = Random(6);
    let (index, members) = compiled(50_000, || prefix(&mut random));
    let addresses: Vec<u128> = (0..10_000)
        .map(|n| match n % 2 {
            0 => members[random.below(members.len() as u64) as usize],
            _ => prefix(&mut random),
        })
        .map(|prefix| match prefix.address() {
            IpAddr::V4(v4) => u128::from(v4.to_bits()),
            IpAddr::V6(v6) => v6.to_bits(),
        })
        .collect();
    Prepared {
        operations: 10_000,
        run: Box::new(move || {
            let found = addresses.iter().map(|address| index.lookup6(*address));
            found.map(checksum).fold(0, u64::wrapping_add)
        }),
    }
}
