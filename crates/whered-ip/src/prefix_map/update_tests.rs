//! The shape of the trie: its invariants after every change.

use proptest::prelude::*;

use super::super::{ROOT_IPV4, ROOT_IPV6};
use super::*;

fn prefix(text: &str) -> Prefix {
    text.parse().expect("a fixed text")
}

/// Counts nodes and entries below a node and checks the promises of the folder's header.
fn check_below(map: &PrefixMap<u32>, node: u32, depth: usize, counts: &mut (usize, usize)) {
    counts.0 += 1;
    let before = counts.1;
    let held = &map.nodes[node];
    for octet in 0..=255u8 {
        match held.link(octet) {
            Some(Link::Node(child)) => check_below(map, child, depth + 1, counts),
            Some(Link::Entry(entry)) => {
                let prefix = map.entries[entry].prefix;
                assert_eq!(octets_of(prefix.address())[depth], octet);
                assert!(home_depth(&prefix) > depth);
                counts.1 += 1;
            }
            None => {}
        }
    }
    for index in 1..=255u8 {
        if let Some(entry) = held.entry(index) {
            let prefix = map.entries[entry].prefix;
            let octet = octets_of(prefix.address()).get(depth).copied().unwrap_or(0);
            assert_eq!(home_depth(&prefix), depth);
            assert_eq!(base_index(octet, prefix.length_bits() % 8), index);
            counts.1 += 1;
        }
    }
    assert!(depth < 16);
    assert!(depth == 0 || counts.1 - before >= 2, "a node below the roots has two entries");
}

fn check_shape(map: &PrefixMap<u32>) {
    let mut counts = (0, 0);
    check_below(map, ROOT_IPV4, 0, &mut counts);
    check_below(map, ROOT_IPV6, 0, &mut counts);
    assert_eq!(counts, (map.nodes.len(), map.entries.len()));
}

#[test]
fn a_lone_host_costs_no_node() {
    let mut map = PrefixMap::new();
    map.insert(prefix("2001:db8::1"), 1);
    map.insert(prefix("192.0.2.1"), 2);
    assert_eq!(map.nodes.len(), 2);
    check_shape(&map);
}

#[test]
fn two_hosts_that_part_in_the_last_bit_cost_a_node_for_each_octet() {
    let mut map = PrefixMap::new();
    map.insert(prefix("2001:db8::"), 1);
    map.insert(prefix("2001:db8::1"), 2);
    assert_eq!(map.nodes.len(), 2 + 15);
    check_shape(&map);
    map.remove(&prefix("2001:db8::"));
    assert_eq!(map.nodes.len(), 2);
    check_shape(&map);
}

#[test]
fn an_emptied_map_gives_its_memory_back() {
    let mut map = PrefixMap::new();
    let fresh_bytes = map.memory_bytes();
    let hosts: Vec<Prefix> =
        (0..5000u32).map(|n| prefix(&format!("10.{}.{}.1", n / 256, n % 256))).collect();
    map.extend(hosts.iter().map(|host| (*host, 0)));
    assert!(map.memory_bytes() > 5000 * 20);
    for host in &hosts {
        assert_eq!(map.remove(host), Some(0));
    }
    assert!(map.is_empty());
    assert_eq!(map.memory_bytes(), fresh_bytes);
}

proptest! {
    #[test]
    fn the_shape_does_not_depend_on_history(
        steps in prop::collection::vec((any::<bool>(), 0..6u8, 0..4u8, 0..=128u8, any::<bool>()), 1..80)
    ) {
        let mut map = PrefixMap::new();
        for (insert, place, octet, length, is_ipv4) in steps {
            let mut octets = [0; 16];
            octets[usize::from(place)] = octet;
            octets[15] = octet << 6;
            let prefix = if is_ipv4 {
                let first: [u8; 4] = octets[..4].try_into().unwrap();
                Prefix::new(first.into(), length % 33).unwrap()
            } else {
                Prefix::new(octets.into(), length).unwrap()
            };
            if insert {
                map.insert(prefix, 7);
            } else {
                map.remove(&prefix);
            }
            check_shape(&map);
        }
        let again: PrefixMap<u32> = map.iter().map(|(prefix, value)| (prefix, *value)).collect();
        prop_assert_eq!(again.nodes.len(), map.nodes.len());
        prop_assert_eq!(again, map);
    }
}
