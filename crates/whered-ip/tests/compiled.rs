//! The compiled index against the oracle, one at a time and in batches.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use whered_ip::image::Image;
use whered_ip::naive::NaiveMap;
use whered_ip::{IndexError, IndexForm, Items, Match, Prefix, PrefixIndex, Target};

mod support;

type Entries = Vec<(Prefix, u32)>;

/// In order, each prefix once, the last value given for it.
fn ordered(entries: &[(Prefix, u32)]) -> Entries {
    let map: NaiveMap<u32> = entries.iter().copied().collect();
    map.sorted().into_iter().map(|(prefix, value)| (prefix, *value)).collect()
}

/// The first and last address of a prefix and the ones beside it, with some inside.
fn probes(prefix: &Prefix) -> Vec<IpAddr> {
    let spread = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835_u128;
    match prefix.address() {
        IpAddr::V4(v4) => {
            let first = v4.to_bits();
            let host = u32::MAX.checked_shr(u32::from(prefix.length_bits())).unwrap_or(0);
            let inside = first | (spread as u32 & host);
            [first, first | host, first.wrapping_sub(1), (first | host).wrapping_add(1), inside]
                .map(|bits| Ipv4Addr::from_bits(bits).into())
                .to_vec()
        }
        IpAddr::V6(v6) => {
            let first = v6.to_bits();
            let host = u128::MAX.checked_shr(u32::from(prefix.length_bits())).unwrap_or(0);
            let inside = first | (spread & host);
            [first, first | host, first.wrapping_sub(1), (first | host).wrapping_add(1), inside]
                .map(|bits| Ipv6Addr::from_bits(bits).into())
                .to_vec()
        }
    }
}

fn expected(map: &NaiveMap<u32>, address: IpAddr) -> Option<Match> {
    let (prefix, value) = map.longest_match(address)?;
    Some(Match { value: *value, length_bits: prefix.length_bits() })
}

/// Compares an index with a map, for all probes, one at a time and in batches.
fn compare(index: &PrefixIndex, addresses: &[IpAddr], expected: impl Fn(IpAddr) -> Option<Match>) {
    let (mut four, mut six) = (Vec::new(), Vec::new());
    for address in addresses {
        let found = index.lookup(*address);
        assert_eq!(found, expected(*address), "{address}");
        match address {
            IpAddr::V4(v4) => {
                assert_eq!(index.lookup4(v4.to_bits()), found);
                four.push((v4.to_bits(), found));
                assert!((0..=6).contains(&index.accesses(*address)));
            }
            IpAddr::V6(v6) => {
                assert_eq!(index.lookup6(v6.to_bits()), found);
                six.push((v6.to_bits(), found));
                assert!((0..=50).contains(&index.accesses(*address)));
            }
        }
    }
    let stale: Option<Match> = Some(Match { value: 77, length_bits: 99 });
    let (addresses, singly): (Vec<u32>, Vec<_>) = four.into_iter().unzip();
    let mut found = vec![stale; singly.len()];
    index.lookup4_batch(&addresses, &mut found);
    assert_eq!(found, singly);
    // What is asked for on the way need not be there.
    let mut found = vec![stale; singly.len()];
    index.lookup4_batch_with(&addresses, &mut found, Items { bytes: &[1, 2, 3], item_bytes: 64 });
    assert_eq!(found, singly);
    let (addresses, singly): (Vec<u128>, Vec<_>) = six.into_iter().unzip();
    let mut found = vec![stale; singly.len()];
    index.lookup6_batch(&addresses, &mut found);
    assert_eq!(found, singly);
}

fn check_probes(entries: &[(Prefix, u32)], more: &[IpAddr]) -> PrefixIndex {
    let entries = ordered(entries);
    let map: NaiveMap<u32> = entries.iter().copied().collect();
    let mut addresses: Vec<IpAddr> =
        entries.iter().flat_map(|(prefix, _)| probes(prefix)).collect();
    addresses.extend(more);
    let compact =
        PrefixIndex::build(IndexForm::Compact, entries.iter().copied()).expect("they are in order");
    compare(&compact, &addresses, |address| expected(&map, address));
    compact
}

/// The index of the entries, and of prefixes that stand for IPv4.
fn with_aliases(entries: &[(Prefix, u32)], aliases: &[Prefix]) -> PrefixIndex {
    let values = entries.iter().map(|(prefix, value)| (*prefix, Target::Value(*value)));
    let mut all: Vec<(Prefix, Target)> =
        values.chain(aliases.iter().map(|alias| (*alias, Target::Ipv4))).collect();
    all.sort_by_key(|(prefix, _)| *prefix);
    all.dedup_by_key(|(prefix, _)| *prefix);
    PrefixIndex::build(IndexForm::Compact, all).expect("they are in order")
}

fn entry() -> impl Strategy<Value = (Prefix, u32)> {
    // Few values, so that neighbours share them; some too wide for a slot.
    let value = prop_oneof![
        4 => 0..3u32,
        1 => prop::sample::select(vec![(1 << 23) - 1, 1 << 23, (1 << 23) + 1, u32::MAX]),
    ];
    (support::prefix(), value)
}

proptest! {
    #[test]
    fn random_tables_agree_with_the_oracle(
        entries in prop::collection::vec(entry(), 0..60),
        more in prop::collection::vec(support::address(), 0..40),
    ) {
        check_probes(&entries, &more);
    }

    #[test]
    fn aliases_answer_like_ipv4_and_lengthen_its_networks(
        entries in prop::collection::vec(entry(), 0..20),
        aliases in prop::collection::vec(
            support::prefix().prop_filter("no alias", |p| !p.is_ipv4() && p.length_bits() <= 96),
            0..3
        ),
        low in any::<u64>(),
    ) {
        let mut entries = ordered(&entries);
        entries.retain(|(prefix, _)| !aliases.contains(prefix));
        let map: NaiveMap<u32> = entries.iter().copied().collect();
        let index = with_aliases(&entries, &aliases);
        // The longest prefix decides; of an alias and an equal prefix, the prefix.
        let answer = |address: IpAddr| {
            let found = expected(&map, address);
            let IpAddr::V6(v6) = address else { return found };
            let holding = aliases.iter().filter(|alias| alias.contains(address));
            let alias = holding.map(Prefix::length_bits).max();
            match (alias, found) {
                (Some(alias), found) if found.is_none_or(|found| found.length_bits < alias) => {
                    let v4 = (v6.to_bits() >> (96 - u32::from(alias))) as u32;
                    let found = expected(&map, Ipv4Addr::from_bits(v4).into())?;
                    Some(Match { length_bits: found.length_bits + alias, ..found })
                }
                _ => found,
            }
        };
        let mut addresses: Vec<IpAddr> =
            entries.iter().flat_map(|(prefix, _)| probes(prefix)).collect();
        addresses.extend(aliases.iter().flat_map(probes));
        for alias in &aliases {
            let IpAddr::V6(first) = alias.address() else { continue };
            for v4 in addresses.clone() {
                let IpAddr::V4(v4) = v4 else { continue };
                let length = u32::from(alias.length_bits());
                let behind = u128::from(low).checked_shr(32 + length).unwrap_or(0);
                let bits = u128::from(v4.to_bits()) << (96 - length) | behind;
                addresses.push(Ipv6Addr::from_bits(first.to_bits() | bits).into());
            }
        }
        compare(&index, &addresses, answer);
    }
}

/// xorshift64 with a fixed seed.
fn random_numbers(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

/// Splits a prefix at random into prefixes that tile it.
fn tile(prefix: Prefix, deepest: u8, random: &mut impl FnMut() -> u64, out: &mut Entries) {
    let length = prefix.length_bits();
    if length == deepest || random().is_multiple_of(8) {
        out.push((prefix, (random() % 50) as u32));
        return;
    }
    let upper = match prefix.address() {
        IpAddr::V4(v4) => Ipv4Addr::from_bits(v4.to_bits() | 1 << (31 - length)).into(),
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() | 1 << (127 - length)).into(),
    };
    tile(
        Prefix::new(prefix.address(), length + 1).expect("within the family"),
        deepest,
        random,
        out,
    );
    tile(Prefix::new(upper, length + 1).expect("within the family"), deepest, random, out);
}

/// A dense table: nodes of all forms, nested prefixes, the last octets full of hosts.
fn dense_table(seed: u64) -> Entries {
    let mut random = random_numbers(seed);
    let mut entries = Entries::new();
    for (text, deepest) in [
        ("10.0.0.0/13", 27),
        ("192.0.2.0/24", 32),
        ("198.51.100.0/22", 32),
        ("255.255.0.0/16", 29),
        ("2001:db8::/33", 46),
        ("2001:db8:ffff:ff00::/56", 66),
        ("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ff00/120", 128),
    ] {
        tile(text.parse().expect("a fixed text"), deepest, &mut random, &mut entries);
    }
    for host in 0..=255u32 {
        let address = Ipv4Addr::from_bits(0xcb00_7100 | host);
        entries.push((Prefix::host(address.into()), host * 3));
    }
    for text in ["10.0.0.0/8", "10.1.0.0/16", "2001:db8::/32", "2001:db8:4000::/40", "::/0"] {
        entries.push((text.parse().expect("a fixed text"), 5000 + entries.len() as u32));
    }
    entries
}

#[test]
fn dense_tables_agree_with_the_oracle_in_both_forms() {
    let entries = ordered(&dense_table(0x1234_5678_9abc_def1));
    assert!(entries.len() > 3000, "{} entries", entries.len());
    check_probes(&entries, &[]);
    let map: NaiveMap<u32> = entries.iter().copied().collect();
    let addresses: Vec<IpAddr> = entries.iter().flat_map(|(prefix, _)| probes(prefix)).collect();
    let fast =
        PrefixIndex::build(IndexForm::Fast, entries.iter().copied()).expect("they are in order");
    compare(&fast, &addresses, |address| expected(&map, address));
    for address in addresses.iter().filter(|address| address.is_ipv4()) {
        assert!(fast.accesses(*address) <= 5);
    }
}

#[test]
fn wide_networks_are_answered_by_the_first_table() {
    let entries = ["10.0.0.0/8", "10.128.0.0/18", "192.0.2.0/24"];
    let entries = entries.iter().map(|text| text.parse().expect("a fixed text")).zip(1..);
    let entries: Vec<(Prefix, u32)> = entries.collect();
    let index = check_probes(&entries, &[]);
    let lines = |address: &str| index.accesses(address.parse().expect("a fixed text"));
    assert_eq!([lines("10.1.2.3"), lines("10.128.63.255"), lines("11.0.0.0")], [1, 1, 1]);
    assert_eq!([lines("192.0.2.1"), lines("192.0.3.1")], [2, 2]);
}

#[test]
fn an_empty_index_finds_nothing_and_takes_next_to_no_memory() {
    let index = check_probes(
        &[],
        &["0.0.0.0".parse().expect("a fixed text"), "::".parse().expect("a fixed text")],
    );
    assert!(index.memory_bytes() < 1000);
}

#[test]
fn each_length_alone_and_all_lengths_nested_are_found() {
    for (text, most) in [("255.255.255.255", 32), ("::", 128), ("a5a5:5a5a::ffff:ffff", 128)] {
        let address: IpAddr = text.parse().expect("a fixed text");
        let nested: Entries = (0..=most)
            .map(|length| {
                (Prefix::new(address, length).expect("within the family"), u32::from(length))
            })
            .collect();
        check_probes(&nested, &[]);
        for entry in &nested {
            check_probes(std::slice::from_ref(entry), &[address]);
        }
    }
}

#[test]
fn equal_values_side_by_side_keep_the_lengths_of_their_networks() {
    let texts = ["10.0.0.0/25", "10.0.0.128/25", "10.0.1.0/24", "10.0.2.0/23"];
    let entries: Entries =
        texts.iter().map(|text| (text.parse().expect("a fixed text"), 1)).collect();
    check_probes(&entries, &[]);
}

#[test]
fn the_whole_space_tiled_leaves_no_gap() {
    let mut random = random_numbers(99);
    let mut entries = Entries::new();
    tile("0.0.0.0/0".parse().expect("a fixed text"), 12, &mut random, &mut entries);
    tile("::/0".parse().expect("a fixed text"), 12, &mut random, &mut entries);
    let index = check_probes(&entries, &[]);
    for _ in 0..1000 {
        assert!(index.lookup4(random() as u32).is_some());
        assert!(index.lookup6(u128::from(random()) << 64).is_some());
    }
}

#[test]
fn equal_subtrees_are_kept_once() {
    let blocks = |count: u32| -> Entries {
        (0..count)
            .flat_map(|block| (0..64).map(move |part| (block, part)))
            .map(|(block, part)| {
                let address = Ipv4Addr::from_bits(block << 24 | part << 2);
                (Prefix::new(address.into(), 30).expect("within the family"), part)
            })
            .collect()
    };
    let one = PrefixIndex::build(IndexForm::Compact, blocks(1)).expect("in order");
    let many = PrefixIndex::build(IndexForm::Compact, blocks(200)).expect("in order");
    assert_eq!(one.memory_bytes(), many.memory_bytes());
}

#[test]
fn disorder_and_repetition_are_errors_with_their_place() {
    let build = |texts: &[&str]| {
        PrefixIndex::build(
            IndexForm::Compact,
            texts.iter().map(|text| (text.parse().expect("a fixed text"), 1)),
        )
        .map(|_| ())
    };
    let error = |position, text: &str| {
        Err(IndexError::OutOfOrder { position, prefix: text.parse().expect("a fixed text") })
    };
    assert_eq!(build(&["10.0.0.0/8", "10.0.0.0/8"]), error(1, "10.0.0.0/8"));
    assert_eq!(build(&["10.0.0.0/8", "10.0.0.0/7"]), error(1, "10.0.0.0/7"));
    assert_eq!(build(&["::/0", "10.0.0.0/7"]), error(1, "10.0.0.0/7"));
    assert_eq!(build(&["1.0.0.0/8", "1::/16", "2::/16", "1::/17"]), error(3, "1::/17"));
    assert_eq!(build(&["10.0.0.0/7", "10.0.0.0/8", "::/0"]), Ok(()));
    let alias = "10.0.0.0/8".parse().expect("a fixed text");
    let found = PrefixIndex::build(IndexForm::Compact, [(alias, Target::Ipv4)]).map(|_| ());
    assert_eq!(found, Err(IndexError::Alias { position: 0, prefix: alias }));
    let alias = "::/97".parse().expect("a fixed text");
    let found = PrefixIndex::build(IndexForm::Compact, [(alias, Target::Ipv4)]).map(|_| ());
    assert_eq!(found, Err(IndexError::Alias { position: 0, prefix: alias }));
}

#[test]
fn batches_of_any_size_are_answered_whole() {
    let entries = [
        ("10.0.0.0/8".parse().expect("a fixed text"), 1),
        ("10.0.0.9/32".parse().expect("a fixed text"), 2),
    ];
    let index = PrefixIndex::build(IndexForm::Compact, entries).expect("in order");
    for count in [0, 1, 31, 32, 33, 64, 100] {
        let addresses: Vec<u32> = (0..count).map(|n| 0x0a00_0000 + (n % 2) * (9 + n)).collect();
        let mut found: Vec<Option<Match>> = vec![None; addresses.len()];
        index.lookup4_batch(&addresses, &mut found);
        let singly: Vec<_> = addresses.iter().map(|address| index.lookup4(*address)).collect();
        assert_eq!(found, singly);
    }
}

#[test]
fn an_index_reads_back_from_its_sections() {
    let entries = ordered(&dense_table(77));
    let map: NaiveMap<u32> = entries.iter().copied().collect();
    let addresses: Vec<IpAddr> = entries.iter().flat_map(|(prefix, _)| probes(prefix)).collect();
    for form in [IndexForm::Compact, IndexForm::Fast] {
        let index = PrefixIndex::build(form, entries.iter().copied()).expect("they are in order");
        assert_eq!(index.form(), form);
        let (image, places) = Image::with_sections(&index.sections());
        let again = PrefixIndex::from_sections(&image, &places).expect("they are its own");
        drop(index);
        compare(&again, &addresses, |address| expected(&map, address));
        for wrong in (0..places.len()).filter(|place| !places[*place].is_empty()) {
            let mut fewer = places.clone();
            fewer.remove(wrong);
            assert!(PrefixIndex::from_sections(&image, &fewer).is_none());
            let mut shorter = places.clone();
            shorter[wrong].end -= 1;
            assert!(PrefixIndex::from_sections(&image, &shorter).is_none(), "section {wrong}");
        }
    }
}

#[test]
fn an_index_that_somebody_overwrote_answers_something() {
    let entries = ordered(&dense_table(5));
    let index = PrefixIndex::build(IndexForm::Compact, entries.iter().copied()).expect("in order");
    let mut random = random_numbers(3);
    let addresses: Vec<IpAddr> = entries.iter().flat_map(|(prefix, _)| probes(prefix)).collect();
    for _ in 0..20 {
        let noisy: Vec<Vec<u8>> = index
            .sections()
            .iter()
            .map(|section| {
                let mut bytes = section.to_vec();
                for byte in &mut bytes {
                    if random().is_multiple_of(3) {
                        *byte = random() as u8;
                    }
                }
                bytes
            })
            .collect();
        let noisy: Vec<&[u8]> = noisy.iter().map(Vec::as_slice).collect();
        let (image, places) = Image::with_sections(&noisy);
        let broken = PrefixIndex::from_sections(&image, &places).expect("the sizes are right");
        for address in &addresses {
            let singly = broken.lookup(*address);
            match address {
                IpAddr::V4(v4) => {
                    let mut found = [None::<Match>];
                    broken.lookup4_batch(&[v4.to_bits()], &mut found);
                    assert_eq!(found[0], singly);
                }
                IpAddr::V6(v6) => {
                    let mut found = [None::<Match>];
                    broken.lookup6_batch(&[v6.to_bits()], &mut found);
                    assert_eq!(found[0], singly);
                }
            }
            broken.accesses(*address);
        }
    }
}
