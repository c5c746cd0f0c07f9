//! What is written as rows and read again is the same database; what is compared is different
//! exactly where lookups are.

#![allow(clippy::unwrap_used, reason = "a panic is a failed test")]

mod support;

use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use support::{Random, legacy};
use whered_ip::Prefix;
use whered_mmdb::{Database, Difference, Value, Writer, WriterOptions, rows};

/// The database's networks as NDJSON.
fn dump(database: &Database, is_typed: bool) -> Vec<u8> {
    let mut out = Vec::new();
    for item in database.networks() {
        let (prefix, id) = item.unwrap();
        out.extend(format!("{{\"network\":\"{prefix}\",").as_bytes());
        if is_typed {
            out.extend(b"\"typed_record\":");
            database.write_typed_record_json(id, &mut out).unwrap();
        } else {
            out.extend(b"\"record\":");
            database.write_record_json(id, &mut out).unwrap();
        }
        out.extend(b"}\n");
    }
    out
}

fn rebuild(database: &Database, lines: &[u8]) -> Database {
    let ip_version = database.metadata().ip_version;
    let mut writer = Writer::new(WriterOptions { ip_version, ..Default::default() }).unwrap();
    // Rows name no aliases; a writer's own would be answers that the file did not have.
    writer.set_ipv4_aliases(false);
    rows::read_ndjson(lines, &mut writer).unwrap();
    Database::from_bytes(writer.finish().unwrap()).unwrap()
}

fn differences(old: &Database, new: &Database) -> Vec<Difference> {
    old.differences(new).collect::<Result<_, _>>().unwrap()
}

#[test]
fn every_conformance_file_survives_its_rows() {
    let Some(folder) = support::maxmind_data() else { return };
    let mut files: Vec<_> = std::fs::read_dir(folder.join("test-data"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "mmdb"))
        .collect();
    files.sort();
    let mut survived = 0;
    for path in files {
        let Ok(database) = Database::from_bytes(std::fs::read(&path).unwrap()) else { continue };
        if database.verify().is_err() || database.networks().any(|item| item.is_err()) {
            continue;
        }
        let again = rebuild(&database, &dump(&database, true));
        again.verify().unwrap();
        assert_eq!(differences(&database, &again), [], "{}", path.display());
        assert_eq!(differences(&again, &database), [], "{}", path.display());
        // Without types the text is the same, but for what JSON has no number for.
        let untyped = dump(&database, false);
        let again = dump(&rebuild(&database, &untyped), false);
        if !String::from_utf8_lossy(&untyped).contains("null") && !has_equal_neighbours(&database) {
            assert_eq!(again, untyped, "{}", path.display());
        }
        survived += 1;
    }
    assert!(survived > 25, "only {survived}");
}

/// Whether neighbours have equal records: the writer melts them into one network.
fn has_equal_neighbours(database: &Database) -> bool {
    rebuild(database, &dump(database, true)).networks().count() != database.networks().count()
}

#[test]
fn a_converted_legacy_file_has_every_network_as_it_was() {
    let mut random = Random(41);
    for edition in legacy::EDITIONS {
        let records = legacy::random_records(edition, 300, &mut random);
        let bytes = legacy::write_edition(edition, &records, "Text");
        let old = Database::from_bytes(bytes).unwrap();
        let ip_version = old.metadata().ip_version;
        let mut writer = Writer::new(WriterOptions { ip_version, ..Default::default() }).unwrap();
        writer.set_ipv4_aliases(false);
        writer.set_merging(false);
        for item in old.networks() {
            let (prefix, id) = item.unwrap();
            writer.insert(prefix, old.record(id).unwrap()).unwrap();
        }
        let new = Database::from_bytes(writer.finish().unwrap()).unwrap();
        new.verify().unwrap();
        assert_eq!(differences(&old, &new), [], "{edition:?}");
        let networks = |database: &Database| -> Vec<(Prefix, Value)> {
            let item = |item: Result<_, _>| {
                let (prefix, id) = item.unwrap();
                (prefix, database.record(id).unwrap())
            };
            database.networks().map(item).collect()
        };
        assert_eq!(networks(&old), networks(&new), "{edition:?}");
    }
}

fn database(ip_version: u16, entries: &[(Prefix, u32)]) -> Database {
    let mut writer = Writer::new(WriterOptions { ip_version, ..Default::default() }).unwrap();
    for &(prefix, number) in entries {
        writer.insert(prefix, Value::Map(vec![("a".to_string(), Value::Uint32(number))])).unwrap();
    }
    Database::from_bytes(writer.finish().unwrap()).unwrap()
}

fn entries(with_ipv6: bool) -> impl Strategy<Value = Vec<(Prefix, u32)>> {
    let ipv4 = (any::<u32>(), 0..=32_u8).prop_map(|(bits, length)| {
        let address = IpAddr::V4(Ipv4Addr::from_bits(bits & 0x0f00_00ff));
        Prefix::new(address, length).unwrap()
    });
    let ipv6 = (any::<u128>(), 0..=128_u8).prop_map(|(bits, length)| {
        let address = IpAddr::V6(Ipv6Addr::from_bits(bits & (0x2001 << 112 | 0xff)));
        Prefix::new(address, length).unwrap()
    });
    let prefix = if with_ipv6 { prop_oneof![ipv4, ipv6].boxed() } else { ipv4.boxed() };
    proptest::collection::vec((prefix, 0..3_u32), 0..12)
}

fn answer(database: &Database, bits: u128) -> Option<Value> {
    // In a file of version 4 there is nothing beyond ::/96.
    let is_ipv4 = bits >> 32 == 0;
    if !is_ipv4 && database.metadata().ip_version == 4 {
        return None;
    }
    let address = match database.metadata().ip_version {
        4 => IpAddr::V4(Ipv4Addr::from_bits(bits as u32)),
        _ => IpAddr::V6(Ipv6Addr::from_bits(bits)),
    };
    let id = database.lookup(address).unwrap().record?;
    Some(database.record(id).unwrap())
}

/// First and last address.
fn ends(prefix: Prefix) -> [u128; 2] {
    let (first, free) = match prefix.address() {
        IpAddr::V4(address) => (u128::from(address.to_bits()), 32 - prefix.length_bits()),
        IpAddr::V6(address) => (address.to_bits(), 128 - prefix.length_bits()),
    };
    [first, first | u128::MAX.checked_shr(128 - u32::from(free)).unwrap_or(0)]
}

fn check_differences(old: &Database, new: &Database, asked: &[u128]) -> Result<(), TestCaseError> {
    let found = differences(old, new);
    let ranges: Vec<[u128; 2]> = found.iter().map(|found| ends(found.prefix)).collect();
    for pair in ranges.windows(2) {
        prop_assert!(pair[0][1] < pair[1][0], "not in order, or not apart: {found:?}");
    }
    let edges = ranges
        .iter()
        .flatten()
        .flat_map(|&edge| [edge.saturating_sub(1), edge, edge.saturating_add(1)]);
    for bits in asked.iter().copied().chain(edges) {
        // What the aliases of IPv4 lead to is told under its IPv4 address only.
        if bits >> 32 == 0xffff || bits >> 112 == 0x2002 {
            continue;
        }
        let (before, after) = (answer(old, bits), answer(new, bits));
        let told = ranges.iter().position(|range| (range[0]..=range[1]).contains(&bits));
        prop_assert_eq!(told.is_some(), before != after, "{}", Ipv6Addr::from_bits(bits));
        if let Some(found) = told.and_then(|at| found.get(at)) {
            prop_assert_eq!(found.old.map(|id| old.record(id).unwrap()), before);
            prop_assert_eq!(found.new.map(|id| new.record(id).unwrap()), after);
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn differences_are_where_lookups_differ(
        old in entries(true),
        new in entries(true),
        ipv4 in entries(false),
        asked in proptest::collection::vec(any::<u128>(), 20),
    ) {
        let mut asked: Vec<u128> =
            asked.iter().flat_map(|bits| [bits & 0x0f00_00ff, bits & (0x2001 << 112 | 0xff)]).collect();
        asked.extend(old.iter().chain(&new).chain(&ipv4).flat_map(|(prefix, _)| ends(*prefix)));
        let (old, new, ipv4) = (database(6, &old), database(6, &new), database(4, &ipv4));
        check_differences(&old, &new, &asked)?;
        check_differences(&old, &ipv4, &asked)?;
        check_differences(&ipv4, &new, &asked)?;
        check_differences(&old, &old, &asked)?;
    }
}

#[test]
fn changed_fields_are_named_with_both_values() {
    let read = |json: &str| {
        let mut writer = Writer::new(WriterOptions::default()).unwrap();
        let line = format!("{{\"network\":\"::/1\",\"typed_record\":{json}}}");
        rows::read_ndjson(line.as_bytes(), &mut writer).unwrap();
        let database = Database::from_bytes(writer.finish().unwrap()).unwrap();
        let (_, id) = database.networks().next().unwrap().unwrap();
        database.record(id).unwrap()
    };
    let changes = |old: &str, new: &str| -> Vec<String> {
        let json = |value: &Option<Value>| {
            let mut out = Vec::new();
            if let Some(value) = value {
                value.write_typed_json(&mut out);
            }
            String::from_utf8(out).unwrap()
        };
        let found = read(old).changes(&read(new));
        found.iter().map(|c| format!("{} {} {}", c.path, json(&c.old), json(&c.new))).collect()
    };
    assert_eq!(changes(r#"{"a":1,"b":{"c":2}}"#, r#"{"b":{"c":2},"a":1}"#), [""; 0]);
    assert_eq!(
        changes(r#"{"a":1,"b":{"c":2,"x.y":[1,2]}}"#, r#"{"b":{"c":3,"x.y":[1]},"d":{}}"#),
        ["a 1 ", "b.c 2 3", "b.x\\.y.1 2 ", "d  {}"]
    );
    assert_eq!(changes("1", r#"{"a":1}"#), [r#" 1 {"a":1}"#]);
    assert_eq!(changes(r##"{"a":{"#uint16":5}}"##, r#"{"a":5}"#), [r##"a {"#uint16":5} 5"##]);
    let nan = r##"{"a":{"#double":"NaN"}}"##;
    assert_eq!(changes(nan, nan), [""; 0]);
}
