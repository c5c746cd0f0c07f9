//! Whatever is written is read back as a linear scan over the insertions would answer.

#![allow(clippy::unwrap_used, reason = "a panic is a failed test")]

mod support;

use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use support::json::Json;
use support::twin::Twin;
use whered_ip::Prefix;
use whered_mmdb::{Database, TreeNode, Value, Writer, WriterOptions};

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        "[a-c]{0,6}".prop_map(Value::String),
        any::<String>().prop_map(Value::String),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(Value::Bytes),
        any::<i32>().prop_map(|number| Value::Double(f64::from(number) / 7.0)),
        any::<i16>().prop_map(|number| Value::Float(f32::from(number) / 7.0)),
        any::<u16>().prop_map(Value::Uint16),
        any::<u32>().prop_map(Value::Uint32),
        any::<u64>().prop_map(Value::Uint64),
        any::<u128>().prop_map(Value::Uint128),
        (any::<u128>(), 0..128_u32).prop_map(|(number, by)| Value::Uint128(number >> by)),
        any::<i32>().prop_map(Value::Int32),
        (-3..3).prop_map(Value::Int32),
        any::<bool>().prop_map(Value::Boolean),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..40).prop_map(Value::Array),
            prop::collection::btree_map("[a-z.]{0,12}", inner, 0..6)
                .prop_map(|map| Value::Map(map.into_iter().collect())),
        ]
    })
}

/// Few distinct high bits, so that prefixes meet and nest.
fn ipv4_prefix() -> impl Strategy<Value = Prefix> {
    (any::<u32>(), 0..=32_u8, any::<bool>()).prop_map(|(bits, length, is_dense)| {
        let bits = if is_dense { bits & 0x0103_0103 } else { bits };
        Prefix::new(IpAddr::V4(Ipv4Addr::from_bits(bits)), length).unwrap()
    })
}

fn ipv6_prefix() -> impl Strategy<Value = Prefix> {
    let start = prop_oneof![
        Just(0_u128),
        Just(0x2001 << 112),
        Just(0x2002 << 112),
        Just(0xffff << 32),
        any::<u128>(),
    ];
    (start, any::<u32>(), 0..=96_u32, 0..=128_u8).prop_map(|(start, low, by, length)| {
        let bits = start | u128::from(low) << by;
        Prefix::new(IpAddr::V6(Ipv6Addr::from_bits(bits)), length).unwrap()
    })
}

fn entries(is_ipv6: bool) -> BoxedStrategy<Vec<(Prefix, usize)>> {
    let prefix = if is_ipv6 {
        prop_oneof![3 => ipv4_prefix(), 2 => ipv6_prefix()].boxed()
    } else {
        ipv4_prefix().boxed()
    };
    prop::collection::vec((prefix, 0..6_usize), 0..30).boxed()
}

#[derive(Debug, Clone)]
struct Case {
    is_ipv6: bool,
    record_size_bits: Option<u16>,
    values: Vec<Value>,
    entries: Vec<(Prefix, usize)>,
}

fn case() -> impl Strategy<Value = Case> {
    let sizes = prop_oneof![Just(None), Just(Some(24)), Just(Some(28)), Just(Some(32))];
    (any::<bool>(), sizes).prop_flat_map(|(is_ipv6, record_size_bits)| {
        (prop::collection::vec(value(), 6), entries(is_ipv6))
            .prop_map(move |(values, entries)| Case { is_ipv6, record_size_bits, values, entries })
    })
}

fn write(case: &Case) -> (Vec<u8>, Twin) {
    let options = WriterOptions {
        database_type: "Test".to_string(),
        description: vec![("en".to_string(), "A test".to_string())],
        languages: vec!["en".to_string()],
        ip_version: if case.is_ipv6 { 6 } else { 4 },
        record_size_bits: case.record_size_bits,
        build_epoch_seconds: 1_700_000_000,
    };
    let mut writer = Writer::new(options).unwrap();
    let mut twin = Twin::default();
    let six_to_four: Prefix = "2002::/16".parse().unwrap();
    for (prefix, value) in &case.entries {
        let inserted = writer.insert(*prefix, case.values[*value].clone());
        // Nothing would lead to a network inside of that range, whose addresses are IPv4 ones.
        assert_eq!(inserted.is_err(), six_to_four.covers(prefix), "{prefix}");
        if inserted.is_ok() {
            twin.insert(prefix.to_canonical(), case.values[*value].clone());
        }
    }
    (writer.finish().unwrap(), twin)
}

/// The edges of every prefix and their neighbours, and the same IPv4 addresses by the aliases.
fn addresses(case: &Case) -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    for (prefix, _) in &case.entries {
        match prefix.address() {
            IpAddr::V4(address) => {
                let first = address.to_bits();
                let size = 1_u64 << (32 - prefix.length_bits());
                let last = first | (size - 1) as u32;
                for bits in [first.wrapping_sub(1), first, last, last.wrapping_add(1)] {
                    let address = Ipv4Addr::from_bits(bits);
                    addresses.push(IpAddr::V4(address));
                    if case.is_ipv6 {
                        addresses.push(IpAddr::V6(address.to_ipv6_mapped()));
                        let to4 = 0x2002 << 112 | u128::from(bits) << 80 | 77;
                        addresses.push(IpAddr::V6(Ipv6Addr::from_bits(to4)));
                        addresses.push(IpAddr::V6(Ipv6Addr::from_bits(u128::from(bits))));
                    }
                }
            }
            IpAddr::V6(address) => {
                let first = address.to_bits();
                let host_bits = 128 - u32::from(prefix.length_bits());
                let last = first | 1_u128.checked_shl(host_bits).unwrap_or(0).wrapping_sub(1);
                for bits in [first.wrapping_sub(1), first, last, last.wrapping_add(1)] {
                    addresses.push(IpAddr::V6(Ipv6Addr::from_bits(bits)));
                }
            }
        }
    }
    addresses
}

/// The answer of a walk by hand, bit by bit, over the tree's nodes.
fn walk(database: &Database, address: IpAddr) -> TreeNode {
    let (bits, count) = match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    };
    let mut node = database.root(count == 32).unwrap();
    for position in 0..count {
        node = database.child(node, bits >> (127 - position) & 1 == 1).unwrap();
    }
    node
}

proptest! {
    #[test]
    fn lookups_agree_with_a_linear_scan(case in case()) {
        let (bytes, twin) = write(&case);
        prop_assert_eq!(&write(&case).0, &bytes, "equal input must give equal bytes");
        let database = Database::from_bytes(bytes).unwrap();
        for address in addresses(&case) {
            let answer = database.lookup(address).unwrap();
            let value = answer.record.map(|id| database.record(id).unwrap());
            prop_assert_eq!(value.as_ref(), twin.lookup(address), "{}", address);
            prop_assert_eq!(answer.prefix.is_ipv4(), address.is_ipv4());
            prop_assert!(answer.prefix.contains(address));
            let node = walk(&database, address);
            prop_assert_eq!(node, answer.record.map_or(TreeNode::Empty, TreeNode::Record));
        }
    }

    #[test]
    fn networks_are_in_order_and_cover_what_lookups_find(case in case()) {
        let (bytes, twin) = write(&case);
        let database = Database::from_bytes(bytes).unwrap();
        let networks: Vec<_> = database.networks().map(Result::unwrap).collect();
        let verified = database.verify().unwrap();
        prop_assert_eq!(verified.networks, networks.len() as u64);
        prop_assert_eq!(verified.unreachable_nodes, 0);
        let mut ids: Vec<_> = networks.iter().map(|(_, id)| *id).collect();
        ids.sort();
        ids.dedup();
        prop_assert_eq!(verified.records, ids.len() as u64);
        let starts: Vec<_> = networks
            .iter()
            .map(|(prefix, _)| support::twin::as_ipv6_prefix(*prefix).address())
            .collect();
        prop_assert!(starts.is_sorted_by(|a, b| a < b), "{:?}", starts);
        for (prefix, id) in &networks {
            let answer = database.lookup(prefix.address()).unwrap();
            prop_assert_eq!(answer.record, Some(*id));
            prop_assert_eq!(twin.lookup(prefix.address()), Some(&database.record(*id).unwrap()));
        }
        for address in addresses(&case) {
            let is_covered = networks.iter().any(|(prefix, _)| prefix.contains(address));
            let is_found = database.lookup(address).unwrap().record.is_some();
            // Aliases lead to networks that are given once, in their IPv4 form, and an answer
            // above ::/96 is given as the IPv6 network it is.
            prop_assert!(is_found || !is_covered, "{}", address);
        }
    }

    #[test]
    fn json_from_the_bytes_is_json_from_the_value_and_says_the_same(value in value()) {
        let mut writer = Writer::new(WriterOptions::default()).unwrap();
        writer.insert("192.0.2.0/24".parse().unwrap(), value.clone()).unwrap();
        let database = Database::from_bytes(writer.finish().unwrap()).unwrap();
        let id = database.lookup("192.0.2.1".parse().unwrap()).unwrap().record.unwrap();
        let (mut from_bytes, mut from_value) = (b"before".to_vec(), b"before".to_vec());
        database.write_record_json(id, &mut from_bytes).unwrap();
        value.write_json(&mut from_value);
        prop_assert_eq!(&from_bytes, &from_value);
        let text = std::str::from_utf8(&from_bytes[6..]).unwrap();
        prop_assert!(Json::parse(text).equals(&without_bytes(&value)), "{}", text);
    }

    #[test]
    fn every_field_is_found_at_its_path(value in value()) {
        let mut writer = Writer::new(WriterOptions::default()).unwrap();
        writer.insert("::/0".parse().unwrap(), value.clone()).unwrap();
        let database = Database::from_bytes(writer.finish().unwrap()).unwrap();
        let id = database.lookup("::1".parse().unwrap()).unwrap().record.unwrap();
        let mut places = Vec::new();
        collect_places(&value, &mut Vec::new(), &mut places);
        for (segments, expected) in places {
            let path = whered_mmdb::FieldPath::new(segments);
            let found = database.field(id, &path).unwrap();
            prop_assert_eq!(found.as_ref(), Some(expected), "{}", path);
            prop_assert_eq!(value.get(&path), Some(expected), "{}", path);
            prop_assert_eq!(database.number(id, &path).unwrap(), expected.as_f64());
        }
    }
}

/// Byte strings become strings in JSON.
fn without_bytes(value: &Value) -> Value {
    match value {
        Value::Map(pairs) => Value::Map(
            pairs.iter().map(|(key, value)| (key.clone(), without_bytes(value))).collect(),
        ),
        Value::Array(values) => Value::Array(values.iter().map(without_bytes).collect()),
        Value::Bytes(bytes) => {
            Value::String(bytes.iter().map(|byte| format!("{byte:02X}")).collect())
        }
        _ => value.clone(),
    }
}

fn collect_places<'a>(
    value: &'a Value,
    segments: &mut Vec<String>,
    places: &mut Vec<(Vec<String>, &'a Value)>,
) {
    places.push((segments.clone(), value));
    let children: Vec<(String, &Value)> = match value {
        Value::Map(pairs) => pairs.iter().map(|(key, value)| (key.clone(), value)).collect(),
        Value::Array(values) => {
            values.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect()
        }
        _ => return,
    };
    for (segment, child) in children {
        segments.push(segment);
        collect_places(child, segments, places);
        segments.pop();
    }
}

#[test]
fn the_order_of_insertion_does_not_matter_for_nested_networks() {
    let insert = |prefixes: &[&str]| {
        let mut writer = Writer::new(WriterOptions::default()).unwrap();
        for prefix in prefixes {
            writer.insert(prefix.parse().unwrap(), Value::String((*prefix).to_string())).unwrap();
        }
        Database::from_bytes(writer.finish().unwrap()).unwrap()
    };
    let nested = ["10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24"];
    let forwards = insert(&nested);
    let backwards = insert(&[nested[2], nested[1], nested[0]]);
    for (address, expected) in
        [("10.1.2.3", nested[2]), ("10.1.3.1", nested[1]), ("10.2.0.1", nested[0])]
    {
        for database in [&forwards, &backwards] {
            let id = database.lookup(address.parse().unwrap()).unwrap().record.unwrap();
            assert_eq!(database.record(id).unwrap(), Value::String(expected.to_string()));
        }
    }
}

#[test]
fn an_empty_writer_makes_a_sound_database_without_records() {
    for ip_version in [4, 6] {
        let options = WriterOptions { ip_version, ..Default::default() };
        let bytes = Writer::new(options).unwrap().finish().unwrap();
        let database = Database::from_bytes(bytes).unwrap();
        assert_eq!(database.verify().unwrap().networks, 0);
        assert_eq!(database.lookup("192.0.2.1".parse().unwrap()).unwrap().record, None);
    }
}

#[test]
fn what_the_format_cannot_hold_is_refused() {
    let options = |ip_version, record_size_bits| WriterOptions {
        ip_version,
        record_size_bits,
        ..Default::default()
    };
    assert!(Writer::new(options(5, None)).is_err());
    assert!(Writer::new(options(6, Some(20))).is_err());
    let mut writer = Writer::new(options(4, None)).unwrap();
    let anywhere: Prefix = "192.0.2.0/24".parse().unwrap();
    assert!(writer.insert("2001:db8::/32".parse().unwrap(), Value::Boolean(true)).is_err());
    let twice = vec![("a".to_string(), Value::Uint16(1)), ("a".to_string(), Value::Uint16(2))];
    assert_eq!(writer.insert(anywhere, Value::Map(twice)).unwrap_err().path(), "a");
    let mut deep = Value::Boolean(true);
    for _ in 0..512 {
        deep = Value::Array(vec![deep]);
    }
    writer.insert(anywhere, deep.clone()).unwrap();
    assert!(writer.insert(anywhere, Value::Array(vec![deep.clone()])).is_err());
    assert!(writer.insert(anywhere, Value::Array(vec![Value::Uint16(0); 65_536])).is_err());
    assert!(writer.insert(anywhere, Value::Bytes(vec![0; 16_843_037])).is_err());
    let bytes = writer.finish().unwrap();
    let database = Database::from_bytes(bytes).unwrap();
    database.verify().unwrap();
    let id = database.lookup("192.0.2.1".parse().unwrap()).unwrap().record.unwrap();
    assert_eq!(database.record(id).unwrap(), deep);
}

#[test]
fn the_metadata_are_read_back() {
    let options = WriterOptions {
        database_type: "Offices".to_string(),
        description: vec![
            ("en".to_string(), "Where we are".to_string()),
            ("de".to_string(), "Wo wir sind".to_string()),
        ],
        languages: vec!["en".to_string(), "de".to_string()],
        ip_version: 4,
        record_size_bits: Some(28),
        build_epoch_seconds: 1_783_123_200,
    };
    let database =
        Database::from_bytes(Writer::new(options.clone()).unwrap().finish().unwrap()).unwrap();
    let metadata = database.metadata();
    assert_eq!(metadata.database_type, options.database_type);
    assert_eq!(metadata.description, options.description);
    assert_eq!(metadata.languages, options.languages);
    assert_eq!((metadata.ip_version, metadata.record_size_bits), (4, 28));
    assert_eq!(metadata.build_epoch_seconds, options.build_epoch_seconds);
}

#[test]
fn the_record_size_grows_with_the_data() {
    let mut writer = Writer::new(WriterOptions::default()).unwrap();
    for last in 0..2_u8 {
        let prefix = format!("192.0.2.{last}/32").parse().unwrap();
        writer.insert(prefix, Value::Bytes(vec![last; 9 << 20])).unwrap();
    }
    let database = Database::from_bytes(writer.finish().unwrap()).unwrap();
    assert_eq!(database.metadata().record_size_bits, 28);
    for last in 0..2_u8 {
        let address = format!("192.0.2.{last}").parse().unwrap();
        let id = database.lookup(address).unwrap().record.unwrap();
        assert_eq!(database.record(id).unwrap(), Value::Bytes(vec![last; 9 << 20]));
    }
    let small = WriterOptions { record_size_bits: Some(24), ..Default::default() };
    let mut writer = Writer::new(small).unwrap();
    for last in 0..2_u8 {
        let prefix = format!("192.0.2.{last}/32").parse().unwrap();
        writer.insert(prefix, Value::Bytes(vec![last; 9 << 20])).unwrap();
    }
    assert!(writer.finish().is_err());
}
