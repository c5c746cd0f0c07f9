//! Our compiled sets as engines, and the crates that do the same.
//!
//! Not for timing. Batches are of at most 64 addresses in arrival order, as the bars want it.

use super::rounds::Engine;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;
use whered_bench::measure::weighed;
use whered_bench::sets::{self, Prefix4, Prefix6};
use whered_ip::{Block, CompiledForm, CompiledSet, Prefix};

/// A prefix of ours.
pub(crate) fn block4((address, length_bits): Prefix4) -> Block {
    let prefix = Prefix::new(IpAddr::V4(Ipv4Addr::from_bits(address)), length_bits);
    prefix.expect("generated lengths are those of the family").into()
}

fn block6((address, length_bits): Prefix6) -> Block {
    let prefix = Prefix::new(IpAddr::V6(Ipv6Addr::from_bits(address)), length_bits);
    prefix.expect("generated lengths are those of the family").into()
}

/// Ours for IPv4: in batches and one at a time.
pub(crate) fn compiled4(
    prefixes: &[(Prefix4, u32)],
    form: Option<CompiledForm>,
) -> (Vec<Engine<u32>>, String) {
    let blocks = prefixes.iter().map(|(prefix, answer)| (block4(*prefix), *answer));
    let set = Rc::new(CompiledSet::build_as(form, blocks));
    let bytes = set.memory_bytes();
    let explained = set.explain();
    let one = Rc::clone(&set);
    let suffix = form.map_or(String::new(), |form| format!(" {form:?}"));
    let batch = Engine::new(&format!("whered batch{suffix}"), bytes, move |addresses: &[u32]| {
        sets::batches4(&set, addresses)
    });
    let single =
        Engine::new(&format!("whered single{suffix}"), bytes, move |addresses: &[u32]| {
            sets::singly4(&one, addresses)
        });
    (vec![batch, single], explained)
}

/// Ours for IPv6, asked for addresses as octets as the rivals are.
pub(crate) fn compiled6(prefixes: &[(Prefix6, u32)]) -> (Vec<Engine<[u8; 16]>>, String) {
    let blocks = prefixes.iter().map(|(prefix, answer)| (block6(*prefix), *answer));
    let set = Rc::new(CompiledSet::build(blocks));
    let bytes = set.memory_bytes();
    let explained = set.explain();
    let one = Rc::clone(&set);
    let batch = Engine::new("whered batch", bytes, move |addresses: &[[u8; 16]]| {
        sets::batches6(&set, addresses)
    });
    let single = Engine::new("whered single", bytes, move |addresses: &[[u8; 16]]| {
        sets::singly6(&one, addresses)
    });
    (vec![batch, single], explained)
}

/// The crates prefix-trie and ip_network_table.
pub(crate) fn crates4(prefixes: &[(Prefix4, u32)]) -> Vec<Engine<u32>> {
    let mut trie = prefix_trie::PrefixMap::new();
    let mut table = ip_network_table::IpNetworkTable::new();
    for ((address, length_bits), answer) in prefixes {
        let address = Ipv4Addr::from_bits(*address);
        let net = ipnet::Ipv4Net::new(address, *length_bits);
        trie.insert(net.expect("generated lengths are those of the family"), *answer);
        let net = ip_network::Ipv4Network::new(address, *length_bits);
        table.insert(net.expect("generated prefixes have no host bits"), *answer);
    }
    let trie = Engine::new("prefix-trie", 0, move |addresses: &[u32]| {
        let each = addresses.iter().enumerate();
        each.fold(0, |sum, (place, address)| {
            let host = ipnet::Ipv4Net::from(Ipv4Addr::from_bits(*address));
            weighed(sum, place, trie.get_lpm(&host).map_or(0, |(_, answer)| *answer))
        })
    });
    let table = Engine::new("ip_network_table", 0, move |addresses: &[u32]| {
        let each = addresses.iter().enumerate();
        each.fold(0, |sum, (place, address)| {
            let found = table.longest_match_ipv4(Ipv4Addr::from_bits(*address));
            weighed(sum, place, found.map_or(0, |(_, answer)| *answer))
        })
    });
    vec![trie, table]
}
