//! The tables of IPv6 held against the oracle: any number of networks inside a /32, and keys that
//! cannot be kept apart.

use std::net::{IpAddr, Ipv6Addr};

use crate::compiled::{Match, PrefixIndex};
use crate::naive::NaiveMap;
use crate::simd::Path;
use crate::tables::colliding_keys;
use crate::{IndexForm, Prefix};

fn prefix(address: u128, length_bits: u8) -> Prefix {
    Prefix::new(Ipv6Addr::from_bits(address).into(), length_bits).expect("up to 128 bits")
}

/// Looks up both ends of each network and their neighbours, one at a time and in batches, on all
/// paths.
fn check(networks: impl IntoIterator<Item = Prefix>) {
    let mut entries: Vec<(Prefix, u32)> = Vec::new();
    for (value, prefix) in networks.into_iter().enumerate() {
        entries.push((prefix, value as u32));
    }
    entries.sort_unstable();
    entries.dedup_by_key(|(prefix, _)| *prefix);
    let map: NaiveMap<u32> = entries.iter().copied().collect();
    let mut index =
        PrefixIndex::build(IndexForm::Compact, entries.iter().copied()).expect("they are in order");
    let near = entries.iter().flat_map(|(prefix, _)| {
        let inside = u128::MAX.checked_shr(u32::from(prefix.length_bits())).unwrap_or(0);
        let first = match prefix.address() {
            IpAddr::V6(address) => address.to_bits(),
            IpAddr::V4(address) => address.to_bits().into(),
        };
        let last = first | inside;
        [first.wrapping_sub(1), first, last, last.wrapping_add(1)]
    });
    let asked: Vec<u128> = near.chain([0, u128::MAX, 1 << 127]).collect();
    let expected = asked.iter().map(|address| {
        let (prefix, value) = map.longest_match(Ipv6Addr::from_bits(*address).into())?;
        Some(Match { value: *value, length_bits: prefix.length_bits() })
    });
    let expected: Vec<Option<Match>> = expected.collect();
    for path in [index.path, Path::Scalar] {
        index.path = path;
        for (address, expected) in asked.iter().zip(&expected) {
            assert_eq!(index.lookup6(*address), *expected, "{address:x}, {path:?}");
        }
        for size in [64, 7] {
            let mut found = vec![None::<Match>; asked.len()];
            for (asked, found) in asked.chunks(size).zip(found.chunks_mut(size)) {
                index.lookup6_batch(asked, found);
            }
            assert!(found == expected, "in batches of {size}, {path:?}");
        }
    }
}

#[test]
fn a_slash_32_may_hold_any_number_of_networks() {
    // Around a full leaf, a full line of leaves, all that one head tells apart, and 17 such.
    for count in [1, 6, 7, 8, 9, 134, 135, 136, 137, 2_310, 2_312, 2_313, 39_303, 39_305, 60_000] {
        for key in [0x2001_0db8_u128, 0, 0xffff_ffff] {
            check((0..count).map(|n| prefix(key << 96 | n << 80, 48)));
        }
        check((0..count.min(3_000)).map(|n| prefix(0x2001_0db8 << 96 | (n * n * 61) << 64, 64)));
    }
}

#[test]
fn networks_of_all_lengths_lie_beside_and_inside_one_another() {
    let longer = (20..=128_u8).flat_map(|length_bits| {
        (0..6_u128).map(move |n| {
            let mask = !u128::MAX.checked_shr(u32::from(length_bits)).unwrap_or(0);
            prefix(
                (0x2001_0db8_0001_0002_0003_0004_0005_0006 + (n << 93) + (n << 41)) & mask,
                length_bits,
            )
        })
    });
    check(longer.chain([prefix(0, 0), prefix(0xfc << 120, 7)]));
}

#[test]
fn keys_that_cannot_be_kept_apart_are_found_by_the_tree() {
    check(colliding_keys(300).into_iter().map(|key| prefix(u128::from(key) << 96 | 5 << 80, 48)));
}
