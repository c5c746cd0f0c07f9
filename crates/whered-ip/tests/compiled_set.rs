//! Compiled sets against a scan over all blocks: every shape of set, one at a time and in batches,
//! on the path of this process (`WHERED_SIMD` forces one; `make simd` runs all).

use std::collections::HashMap;
use std::net::IpAddr;

use proptest::prelude::*;
use whered_ip::naive::NaiveMap;
use whered_ip::{Block, CompiledForm, CompiledSet, Prefix};
use whered_random::Random;

mod support;

/// The smallest block that holds the address, of equally small ones the later.
fn scan(blocks: &[(Block, u32)], address: IpAddr) -> u32 {
    let holding = blocks.iter().enumerate().filter(|(_, (block, _))| block.contains(address));
    let smallest = holding.max_by_key(|(place, (block, _))| {
        (std::cmp::Reverse(block.size_less_one()), block.first(), *place)
    });
    smallest.map_or(0, |(_, (_, answer))| *answer)
}

fn v4(address: u32) -> IpAddr {
    IpAddr::V4(address.into())
}

fn v6(address: u128) -> IpAddr {
    IpAddr::V6(address.into())
}

fn v4_prefix(address: u32, length_bits: u64) -> Block {
    Prefix::new(v4(address), length_bits as u8).expect("a length of the family").into()
}

/// All ends of all blocks and their neighbours.
fn edges(blocks: &[(Block, u32)]) -> (Vec<u32>, Vec<u128>) {
    let (mut fours, mut sixes) = (Vec::new(), Vec::new());
    for (block, _) in blocks {
        for end in [block.first(), block.last()] {
            match end {
                IpAddr::V4(end) => {
                    let end = end.to_bits();
                    fours.extend([end.wrapping_sub(1), end, end.wrapping_add(1)]);
                }
                IpAddr::V6(end) => {
                    let end = end.to_bits();
                    sixes.extend([end.wrapping_sub(1), end, end.wrapping_add(1)]);
                }
            }
        }
    }
    (fours, sixes)
}

/// One at a time and in batches, answers are those of `expected`.
fn check4(set: &CompiledSet, addresses: &[u32], expected: impl Fn(u32) -> u32) {
    let mut found = vec![u32::MAX; addresses.len()];
    set.lookup4_batch(addresses, &mut found);
    for (address, found) in addresses.iter().zip(found) {
        let expected = expected(*address);
        assert_eq!(found, expected, "{} in a batch", v4(*address));
        assert_eq!(set.lookup4(*address), expected, "{}", v4(*address));
        assert_eq!(set.lookup(v4(*address)).unwrap_or(0), expected);
    }
}

fn check6(set: &CompiledSet, addresses: &[u128], expected: impl Fn(u128) -> u32) {
    let mut found = vec![u32::MAX; addresses.len()];
    set.lookup6_batch(addresses, &mut found);
    for (address, found) in addresses.iter().zip(found) {
        let expected = expected(*address);
        assert_eq!(found, expected, "{} in a batch", v6(*address));
        assert_eq!(set.lookup6(*address), expected, "{}", v6(*address));
        assert_eq!(set.lookup(v6(*address)).unwrap_or(0), expected);
    }
}

fn check_against_scan(blocks: &[(Block, u32)], random: &mut Random, more: usize) {
    let (mut fours, mut sixes) = edges(blocks);
    for _ in 0..more {
        fours.push(random.next_u64() as u32);
        let near = sixes.get(random.below(1 + sixes.len() as u64) as usize).copied().unwrap_or(0);
        sixes.push(near ^ u128::from(random.next_u64()) >> random.below(64));
    }
    let forms = [CompiledForm::Intervals, CompiledForm::UpperTable, CompiledForm::Rank].map(Some);
    for form in forms.into_iter().chain([None]) {
        let set = CompiledSet::build_as(form, blocks.iter().copied());
        check4(&set, &fours, |address| scan(blocks, v4(address)));
        check6(&set, &sixes, |address| scan(blocks, v6(address)));
    }
}

#[test]
fn small_sets_of_random_prefixes_answer_as_a_scan_does() {
    let mut random = Random(1);
    for count in [0, 1, 2, 16, 64, 300] {
        let blocks: Vec<_> = (1..=count)
            .map(|answer| (v4_prefix(random.next_u64() as u32, 1 + random.below(32)), answer))
            .collect();
        check_against_scan(&blocks, &mut random, 20_000);
    }
}

#[test]
fn ranges_that_overlap_in_every_way_answer_as_a_scan_does() {
    let mut random = Random(2);
    for _ in 0..4 {
        let blocks: Vec<_> = (1..150)
            .map(|answer| {
                let first = random.below(20_000) as u32;
                let last = first + random.below(2_000) as u32;
                let block = if answer % 2 == 0 {
                    Block::from_ends(v4(first), v4(last))
                } else {
                    let [first, last] = [first, last].map(|end| u128::from(end) << 60 | 5);
                    Block::from_ends(v6(first), v6(last))
                };
                (block.expect("upwards"), answer % 7 + 1)
            })
            .collect();
        check_against_scan(&blocks, &mut random, 2_000);
    }
}

#[test]
fn lists_of_every_length_in_one_neighbourhood_answer_as_a_scan_does() {
    // Around one comparison, one line of guides, and more; beginning at every place of a line.
    let mut random = Random(5);
    for (count, before) in
        [(31, 0), (32, 1), (33, 7), (64, 31), (65, 3), (100, 16), (1023, 5), (1025, 30), (2600, 9)]
    {
        let hosts = (0..before).chain((0..count).map(|n| 0x0a01_0000 + n * 13));
        let blocks: Vec<_> = hosts.zip(1..).map(|(host, n)| (v4_prefix(host, 32), n)).collect();
        let set = CompiledSet::build_as(Some(CompiledForm::UpperTable), blocks.iter().copied());
        let addresses: Vec<u32> = (0..40_000).map(|n| 0x0a01_0000 - 200 + n).collect();
        let expected = |address: u32| {
            let place = blocks.binary_search_by_key(&v4(address), |(block, _)| block.first());
            place.map_or(0, |place| blocks[place].1)
        };
        check4(&set, &addresses, expected);
        check_against_scan(&blocks[..blocks.len().min(40)], &mut random, 10);
    }
}

#[test]
fn members_alone_answer_as_a_scan_does_where_whole_upper_halves_are_of_one_answer() {
    let mut random = Random(6);
    for count in [0, 1, 40, 400] {
        let around = (0..count).map(|_| v4_prefix(random.next_u64() as u32, 12 + random.below(21)));
        let mut blocks: Vec<(Block, u32)> = around.map(|block| (block, 1)).collect();
        // Networks that begin or end exactly where an upper half does.
        for at in [0, 1 << 16, 0xfffe_0000, u32::MAX, 0xffff_0000, 0x0a00_ffff] {
            blocks.push((Block::from_ends(v4(at), v4(at | 0xff)).expect("upwards"), 1));
        }
        check_against_scan(&blocks, &mut random, 5_003);
    }
}

#[test]
fn crowded_and_empty_stretches_of_a_table_answer_as_the_oracle_does() {
    // Blocks of every number of answers, and so with every padding before them.
    let mut random = Random(7);
    for widest in [30_000, 1 << 20] {
        let mut map = NaiveMap::default();
        for upper in 0..200_u32 {
            for _ in 0..upper {
                let address = (upper * 3) << 16 | random.below(1 << 16) as u32;
                let length = if random.below(40) == 0 { 29 } else { 22 + random.below(3) as u8 };
                let prefix = Prefix::new(v4(address), length).expect("a length");
                map.insert(prefix, 1 + random.below(widest) as u32);
            }
        }
        let near = |n: u32| (n % 600) << 16 | n.wrapping_mul(0x9e37_79b9) >> 16;
        let fours: Vec<u32> = (0..200_000).map(near).collect();
        check_against_map(&map, &fours, &[]);
    }
}

#[test]
fn whole_families_and_the_last_addresses_can_be_members() {
    let blocks: Vec<(Block, u32)> =
        ["0.0.0.0/0", "255.255.255.255", "0.0.0.0", "::/0", "::", "::1"]
            .into_iter()
            .chain(["ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "ffff:ffff:ffff:ffff::/64"])
            .zip(1..)
            .map(|(text, answer)| (text.parse().expect("a fixed text"), answer))
            .collect();
    for count in 0..=blocks.len() {
        check_against_scan(&blocks[..count], &mut Random(3), 50);
        check_against_scan(&blocks[count..], &mut Random(3), 50);
    }
}

/// The longest match of a map: the oracle where a scan would take too long.
fn check_against_map(map: &NaiveMap<u32>, fours: &[u32], sixes: &[u128]) {
    let blocks = || map.sorted().into_iter().map(|(prefix, answer)| (prefix.into(), *answer));
    let answer = |address| map.longest_match(address).map_or(0, |(_, answer)| *answer);
    let asked = fours.iter().map(|four| v4(*four)).chain(sixes.iter().map(|six| v6(*six)));
    let answers: HashMap<IpAddr, u32> = asked.map(|address| (address, answer(address))).collect();
    let longest = |address| answers[&address];
    for form in [CompiledForm::Intervals, CompiledForm::UpperTable, CompiledForm::Rank] {
        let set = CompiledSet::build_as(Some(form), blocks());
        check4(&set, fours, |address| longest(v4(address)));
        check6(&set, sixes, |address| longest(v6(address)));
    }
    let members = CompiledSet::members(blocks().map(|(block, _)| block));
    check4(&members, fours, |address| u32::from(longest(v4(address)) != 0));
    check6(&members, sixes, |address| u32::from(longest(v6(address)) != 0));
}

#[test]
fn a_large_table_answers_as_the_oracle_does_after_updates_too() {
    let mut random = Random(4);
    let mut map = NaiveMap::default();
    let mut given = Vec::new();
    for round in 0..2 {
        for answer in 1..60_000 {
            // Answers of more than 15 bits in the second round: wide ones.
            let answer = if round == 0 { answer % 30_000 + 1 } else { answer };
            let length =
                [8, 16, 19, 20, 22, 23, 24, 24, 24, 24, 24, 32, 29][random.below(13) as usize];
            let prefix = Prefix::new(v4(random.next_u64() as u32), length).expect("a length");
            map.insert(prefix, answer);
            let high = 0x2000 + u128::from(random.below(64));
            let address = high << 112 | u128::from(random.next_u64()) << 48;
            let length =
                [20, 29, 32, 40, 44, 48, 48, 48, 56, 64, 80, 128][random.below(12) as usize];
            let prefix6 = Prefix::new(v6(address), length).expect("a length");
            map.insert(prefix6, answer);
            given.extend([prefix, prefix6]);
        }
        for _ in 0..20_000 {
            let place = random.below(given.len() as u64) as usize;
            map.remove(&given.swap_remove(place));
        }
        let mut fours: Vec<u32> = (0..150_000).map(|_| random.next_u64() as u32).collect();
        let mut sixes = Vec::new();
        for prefix in &given {
            match Block::from(*prefix).last() {
                IpAddr::V4(last) => fours.push(last.to_bits().wrapping_add(random.below(2) as u32)),
                IpAddr::V6(last) => sixes.push(last.to_bits().wrapping_add(random.below(2).into())),
            }
        }
        check_against_map(&map, &fours, &sixes);
    }
}

#[test]
fn the_form_follows_from_the_data_and_is_explained() {
    let list = CompiledSet::members((0..1000_u32).map(|n| v4_prefix(n << 12, 32)));
    assert_eq!(list.form(), CompiledForm::UpperTable);
    assert!(list.explain().contains("2000 intervals by upper half"), "{}", list.explain());
    let few = CompiledSet::members((0..100_u32).map(|n| v4_prefix(n << 12, 32)));
    assert_eq!(few.form(), CompiledForm::Intervals);
    assert!(few.explain().contains("wide tree of 200 intervals"), "{}", few.explain());
    let table = CompiledSet::build((0..300_000_u32).map(|n| (v4_prefix(n << 9, 24), n % 100 + 1)));
    assert_eq!(table.form(), CompiledForm::Rank);
    assert!(table.explain().contains("answers of 16 bits"), "{}", table.explain());
    assert!(table.memory_bytes() < 300_000 * 18);
    assert_eq!((table.len(), table.is_empty()), (300_000, false));
}

proptest! {
    #[test]
    fn crowded_prefixes_answer_as_a_scan_does(
        prefixes in prop::collection::vec((support::prefix(), 1..6_u32), 0..40),
        addresses in prop::collection::vec(support::address(), 1..70),
    ) {
        let blocks: Vec<(Block, u32)> =
            prefixes.into_iter().map(|(prefix, answer)| (prefix.into(), answer)).collect();
        let set = CompiledSet::build(blocks.iter().copied());
        for address in addresses {
            prop_assert_eq!(set.lookup(address).unwrap_or(0), scan(&blocks, address));
        }
    }
}
