//! Networks inside a prefix against their twin: all networks, filtered.

#![allow(clippy::unwrap_used, reason = "a panic is a failed test")]

mod support;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use support::Random;
use whered_ip::Prefix;
use whered_mmdb::{Database, ErrorKind, RecordId, Value, Writer, WriterOptions};

type Network = (Prefix, RecordId);

fn random_prefix(random: &mut Random, is_ipv6: bool) -> Prefix {
    // Few first bits, so that networks and questions meet.
    let bits = u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
    if is_ipv6 {
        let bits = 0x2001 << 112 | (bits >> 20 & 0x3ff) << 102 | (bits & 0xff);
        Prefix::new(Ipv6Addr::from(bits).into(), 8 + random.below(110) as u8).unwrap()
    } else {
        let bits = 10 << 24 | (bits as u32 & 0x003f_fff8);
        Prefix::new(Ipv4Addr::from(bits).into(), random.below(32) as u8 + 1).unwrap()
    }
}

fn database(random: &mut Random, ip_version: u16) -> Database {
    let options = WriterOptions { ip_version, ..WriterOptions::default() };
    let mut writer = Writer::new(options).unwrap();
    for number in 0..random.below(60) {
        let prefix = random_prefix(random, ip_version == 6 && number % 3 == 0);
        writer.insert(prefix, Value::Uint32(random.below(20) as u32)).unwrap();
    }
    Database::from_bytes(writer.finish().unwrap()).unwrap()
}

/// First and last address as places of an IPv6 tree, in which IPv4 stands at `::/96`.
fn range(prefix: Prefix) -> (u128, u128) {
    let (first, rest) = match prefix.address() {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()), 32 - prefix.length_bits()),
        IpAddr::V6(v6) => (v6.to_bits(), 128 - prefix.length_bits()),
    };
    (first, first | 1_u128.checked_shl(rest.into()).map_or(u128::MAX, |size| size - 1))
}

/// All networks that share an address with `prefix`, from the one around `first` on.
fn twin(all: &[Network], prefix: Prefix, first: u128) -> Vec<Network> {
    let (_, end) = range(prefix);
    let meets = |network: &&Network| {
        let (start, last) = range(network.0);
        last >= first && start <= end
    };
    all.iter().filter(meets).copied().collect()
}

#[test]
fn networks_inside_a_prefix_are_those_that_a_filter_leaves() {
    let mut random = Random(5);
    for round in 0..100 {
        let ip_version = if round % 2 == 0 { 6 } else { 4 };
        let database = database(&mut random, ip_version);
        let all: Vec<Network> = database.networks().map(Result::unwrap).collect();
        for question in 0..20 {
            let is_ipv6 = ip_version == 6 && question % 2 == 0;
            let mut prefix = random_prefix(&mut random, is_ipv6);
            if question < 2 {
                prefix = if is_ipv6 { "::/0" } else { "0.0.0.0/0" }.parse().unwrap();
            }
            let found = database.networks_within(prefix, None).unwrap();
            let found: Vec<Network> = found.map(Result::unwrap).collect();
            assert_eq!(found, twin(&all, prefix, range(prefix).0), "{prefix} in {all:?}");
            // From any network of the answer on, the rest of the answer comes.
            for (index, (network, _)) in found.iter().enumerate() {
                if range(*network).0 < range(prefix).0 {
                    continue;
                }
                let rest = database.networks_within(prefix, Some(network.address())).unwrap();
                let rest: Vec<Network> = rest.map(Result::unwrap).collect();
                assert_eq!(rest, found[index..], "{prefix} from {network}");
            }
        }
    }
}

#[test]
fn an_alias_is_skipped_inside_a_prefix_and_walked_when_it_is_asked_for() {
    let mut writer = Writer::new(WriterOptions::default()).unwrap();
    writer.insert("192.0.2.0/24".parse().unwrap(), Value::Boolean(true)).unwrap();
    writer.insert("2001:db8::/32".parse().unwrap(), Value::Boolean(true)).unwrap();
    let database = Database::from_bytes(writer.finish().unwrap()).unwrap();
    let within = |prefix: &str| -> Vec<String> {
        let found = database.networks_within(prefix.parse().unwrap(), None).unwrap();
        found.map(|item| item.unwrap().0.to_string()).collect()
    };
    assert_eq!(within("::/0"), ["192.0.2.0/24", "2001:db8::/32"]);
    assert_eq!(within("2000::/3"), ["2001:db8::/32"]);
    assert_eq!(within("2002::/16"), ["2002:c000:200::/40"]);
    assert_eq!(within("2002:c000::/24"), ["2002:c000:200::/40"]);
    assert_eq!(within("2002:c000:2ff::/48"), ["2002:c000:200::/40"]);
}

#[test]
fn prefixes_and_addresses_that_are_not_there_are_refused() {
    let options = WriterOptions { ip_version: 4, ..WriterOptions::default() };
    let bytes = Writer::new(options).unwrap().finish().unwrap();
    let database = Database::from_bytes(bytes).unwrap();
    let ask = |prefix: &str, first: Option<&str>| {
        let first = first.map(|first| first.parse().unwrap());
        database.networks_within(prefix.parse().unwrap(), first).map(Iterator::count)
    };
    assert_eq!(ask("192.0.2.0/24", Some("192.0.2.255")), Ok(0));
    for (prefix, first) in
        [("2001:db8::/32", None), ("192.0.2.0/24", Some("192.0.3.0")), ("0.0.0.0/0", Some("::1"))]
    {
        assert_eq!(ask(prefix, first).unwrap_err().kind(), ErrorKind::AddressFamily, "{prefix}");
    }
}
