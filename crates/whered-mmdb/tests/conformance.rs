//! MaxMind's own test databases read as MaxMind says they should.

#![allow(clippy::unwrap_used, reason = "a panic is a failed test")]

mod support;

use std::net::IpAddr;
use std::path::Path;
use support::json::Json;
use whered_ip::Prefix;
use whered_mmdb::{Database, ErrorKind, MmdbError, RecordId, Value};

fn open(folder: &Path, name: &str) -> Result<Database, MmdbError> {
    let path = folder.join("test-data").join(name);
    Database::from_bytes(std::fs::read(path).expect("the conformance data is complete"))
}

fn lookup(database: &Database, address: &str) -> Option<RecordId> {
    let address = address.parse().expect("a test address");
    database.lookup(address).expect("a sound database").record
}

fn record(database: &Database, address: &str) -> Value {
    let id = lookup(database, address).expect("an address with a record");
    database.record(id).expect("a sound record")
}

fn field(database: &Database, address: &str, path: &str) -> Option<Value> {
    let id = lookup(database, address).expect("an address with a record");
    database.field(id, &path.parse().expect("a test path")).expect("a sound record")
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the conformance data is complete");
    let mut names: Vec<_> = entries
        .map(|entry| entry.expect("a readable folder").file_name().into_string().expect("a name"))
        .collect();
    names.sort();
    names
}

/// Where the source's networks overlap, the later one holds.
fn source_networks(json: &Json) -> Vec<(Prefix, &Json)> {
    let Json::Array(rows) = json else { panic!("the source is an array") };
    let mut networks = Vec::new();
    for row in rows {
        let Json::Object(row) = row else { panic!("a row is an object") };
        for (network, value) in row {
            networks.push((to_tree_prefix(network), value));
        }
    }
    networks
}

/// IPv4 networks of the sources are often written as `::1.2.3.0/120`.
fn to_tree_prefix(text: &str) -> Prefix {
    let (address, length) = text.split_once('/').expect("a network");
    let length: u8 = length.parse().expect("a length");
    match address.parse().expect("an address") {
        IpAddr::V6(v6) if length >= 96 && v6.to_bits() >> 32 == 0 => {
            let v4 = std::net::Ipv4Addr::from_bits(v6.to_bits() as u32);
            Prefix::new(IpAddr::V4(v4), length - 96).expect("a prefix")
        }
        address => Prefix::new(address, length).expect("a prefix"),
    }
}

fn check_against_source(database: &Database, json: &Json) {
    let networks = source_networks(json);
    let last_with = |address: IpAddr| {
        networks.iter().rev().find(|(prefix, _)| prefix.contains(address)).map(|(_, json)| *json)
    };
    for (prefix, _) in &networks {
        let expected = last_with(prefix.address()).expect("its own network holds it");
        let id = database.lookup(prefix.address()).expect("a sound tree").record;
        let value = database.record(id.expect("a record")).expect("a sound record");
        assert!(expected.equals(&value), "{prefix}: {expected:?} is not {value:?}");
    }
    let mut count = 0;
    let mut before = None;
    for item in database.networks() {
        let (prefix, id) = item.expect("a sound tree");
        let value = database.record(id).expect("a sound record");
        match last_with(prefix.address()) {
            Some(expected) => {
                assert!(expected.equals(&value), "{prefix}: {expected:?} is not {value:?}");
            }
            // MaxMind's generator fills the gaps of some databases with empty maps.
            None => assert_eq!(value, Value::Map(vec![]), "{prefix} is not in the source"),
        }
        let mut json = Vec::new();
        database.write_record_json(id, &mut json).expect("a sound record");
        let text = String::from_utf8(json).expect("JSON is text");
        assert!(Json::parse(&text).equals(&value), "{text}");
        let mut again = Vec::new();
        value.write_json(&mut again);
        assert_eq!(text.as_bytes(), again);
        let bits = match prefix.address() {
            IpAddr::V4(address) => u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits(),
        };
        assert!(before < Some(bits), "{prefix} is out of order");
        before = Some(bits);
        let answer = database.lookup(prefix.address()).expect("a sound tree");
        assert_eq!((answer.prefix, answer.record), (prefix, Some(id)));
        count += 1;
    }
    assert_eq!(database.verify().expect("a sound database").networks, count);
}

#[test]
fn every_source_is_read_back_from_its_database() {
    let Some(folder) = support::maxmind_data() else {
        return;
    };
    let mut checked = 0;
    for name in names(&folder.join("source-data")) {
        let database = name.replace(".json", ".mmdb");
        if !folder.join("test-data").join(&database).exists() {
            println!("{name} has no database beside it");
            continue;
        }
        let text = std::fs::read_to_string(folder.join("source-data").join(&name));
        let database = open(&folder, &database).expect("a sound database");
        check_against_source(&database, &Json::parse(&text.expect("the source is text")));
        checked += 1;
    }
    assert!(checked >= 15, "only {checked} sources");
}

#[test]
fn the_verifier_passes_every_sound_file_and_finds_every_broken_one() {
    let Some(folder) = support::maxmind_data() else {
        return;
    };
    for name in names(&folder.join("test-data")) {
        if !name.ends_with(".mmdb") {
            continue;
        }
        let verified = open(&folder, &name).and_then(|database| database.verify());
        let is_broken = ["broken", "Broken", "Invalid"].iter().any(|word| name.contains(word));
        match verified {
            Ok(verified) => assert!(!is_broken, "{name}: {verified:?}"),
            Err(error) => {
                assert!(is_broken, "{name}: {error}");
                assert!(error.offset_bytes().is_some() || !error.path().is_empty(), "{error}");
            }
        }
    }
}

#[test]
fn broken_files_give_errors_where_they_are_broken_and_answers_elsewhere() {
    let Some(folder) = support::maxmind_data() else {
        return;
    };
    let error = open(&folder, "GeoIP2-City-Test-Invalid-Node-Count.mmdb").unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Metadata | ErrorKind::Tree), "{error}");

    let pointers = open(&folder, "MaxMind-DB-test-broken-pointers-24.mmdb").expect("it opens");
    let id = lookup(&pointers, "1.1.1.16").expect("its record number is sound");
    assert_eq!(pointers.record(id).unwrap_err().kind(), ErrorKind::Data);

    let error = pointers.lookup("1.1.1.32".parse().unwrap()).unwrap_err();
    assert_eq!((error.kind(), error.offset_bytes()), (ErrorKind::Tree, Some(216)));

    let doubles = open(&folder, "GeoIP2-City-Test-Broken-Double-Format.mmdb").expect("it opens");
    let id = lookup(&doubles, "2001:220::").expect("its record number is sound");
    let error = doubles.record(id).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Data);
    assert!(error.path().starts_with("location"), "{error}");

    let tree = open(&folder, "MaxMind-DB-test-broken-search-tree-24.mmdb").expect("it opens");
    let error = tree.lookup("255.255.255.255".parse().unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Tree);
    assert!(tree.networks().any(|item| item.is_err()), "the walk must end with an error");
}

#[test]
fn all_record_sizes_answer_ipv4_addresses_with_their_networks() {
    let Some(folder) = support::maxmind_data() else {
        return;
    };
    for bits in [24, 28, 32] {
        for kind in ["ipv4", "mixed"] {
            let name = format!("MaxMind-DB-test-{kind}-{bits}.mmdb");
            let database = open(&folder, &name).expect("a sound database");
            assert_eq!(database.metadata().record_size_bits, bits);
            for (address, network) in [
                ("1.1.1.1", "1.1.1.1/32"),
                ("1.1.1.3", "1.1.1.2/31"),
                ("1.1.1.7", "1.1.1.4/30"),
                ("1.1.1.15", "1.1.1.8/29"),
                ("1.1.1.17", "1.1.1.16/28"),
                ("1.1.1.32", "1.1.1.32/32"),
            ] {
                let answer = database.lookup(address.parse().unwrap()).expect("a sound tree");
                assert_eq!(answer.prefix.to_string(), network, "{name}");
                let expected = network.split('/').next().unwrap();
                let expected =
                    if kind == "mixed" { format!("::{expected}") } else { expected.to_string() };
                let found = field(&database, address, "ip");
                assert_eq!(found, Some(Value::String(expected)), "{name}");
            }
            assert_eq!(lookup(&database, "1.1.1.33"), None);
            assert_eq!(lookup(&database, "255.254.253.123"), None);
        }
    }
}

#[test]
fn all_record_sizes_answer_ipv6_addresses_with_their_networks() {
    let Some(folder) = support::maxmind_data() else {
        return;
    };
    for bits in [24, 28, 32] {
        let name = format!("MaxMind-DB-test-ipv6-{bits}.mmdb");
        let database = open(&folder, &name).expect("a sound database");
        for (address, network) in [
            ("::1:ffff:ffff", "::1:ffff:ffff/128"),
            ("::2:0:1", "::2:0:0/122"),
            ("::2:0:41", "::2:0:40/124"),
            ("::2:0:51", "::2:0:50/125"),
            ("::2:0:59", "::2:0:58/127"),
        ] {
            let answer = database.lookup(address.parse().unwrap()).expect("a sound tree");
            assert_eq!(answer.prefix, network.parse().unwrap(), "{name}");
            let expected = network.split('/').next().unwrap();
            assert_eq!(field(&database, address, "ip"), Some(Value::String(expected.into())));
        }
        assert_eq!(lookup(&database, "1.1.1.1"), None);
        assert_eq!(lookup(&database, "::2:0:5a"), None);
    }
}

#[test]
fn an_ipv6_address_in_an_ipv4_file_is_an_error() {
    let Some(folder) = support::maxmind_data() else {
        return;
    };
    let database = open(&folder, "MaxMind-DB-test-ipv4-24.mmdb").expect("a sound database");
    let error = database.lookup("2001::".parse().unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddressFamily);
    assert_eq!(database.root(false), None);
}

#[test]
fn mapped_and_6to4_addresses_follow_the_aliases_and_networks_skip_them() {
    let Some(folder) = support::maxmind_data() else {
        return;
    };
    let database = open(&folder, "MaxMind-DB-test-mixed-28.mmdb").expect("a sound database");
    let plain = lookup(&database, "1.1.1.1");
    assert!(plain.is_some());
    assert_eq!(lookup(&database, "::ffff:1.1.1.1"), plain);
    assert_eq!(lookup(&database, "2002:101:101::"), plain);
    assert_eq!(lookup(&database, "::1.1.1.1"), plain);
    let prefixes: Vec<String> =
        database.networks().map(|item| item.expect("a sound tree").0.to_string()).collect();
    assert_eq!(prefixes.iter().filter(|prefix| *prefix == "1.1.1.1/32").count(), 1);
    assert!(prefixes.iter().all(|prefix| !prefix.starts_with("2002:")), "{prefixes:?}");
}

#[test]
fn a_record_above_the_ipv4_networks_answers_for_all_ipv4_addresses() {
    let Some(folder) = support::maxmind_data() else {
        return;
    };
    let database = open(&folder, "MaxMind-DB-no-ipv4-search-tree.mmdb").expect("a sound database");
    let answer = database.lookup("198.51.100.7".parse().unwrap()).expect("a sound tree");
    assert_eq!(answer.prefix.to_string(), "0.0.0.0/0");
    let value = database.record(answer.record.expect("a record")).expect("a sound record");
    assert_eq!(value, Value::String("::/64".to_string()));
}

#[test]
fn every_type_is_decoded() {
    let Some(folder) = support::maxmind_data() else {
        return;
    };
    let database = open(&folder, "MaxMind-DB-test-decoder.mmdb").expect("a sound database");
    let text = |text: &str| Value::String(text.to_string());
    for (path, expected) in [
        ("array", Value::Array(vec![Value::Uint32(1), Value::Uint32(2), Value::Uint32(3)])),
        ("boolean", Value::Boolean(true)),
        ("bytes", Value::Bytes(vec![0, 0, 0, 42])),
        ("double", Value::Double(42.123456)),
        ("float", Value::Float(1.1)),
        ("int32", Value::Int32(-(1 << 28))),
        ("map.mapX.arrayX.1", Value::Uint32(8)),
        ("map.mapX.arrayX.-1", Value::Uint32(9)),
        ("map.mapX.utf8_stringX", text("hello")),
        ("uint16", Value::Uint16(100)),
        ("uint32", Value::Uint32(1 << 28)),
        ("uint64", Value::Uint64(1 << 60)),
        ("uint128", Value::Uint128(1 << 120)),
        ("utf8_string", text("unicode! ☯ - ♫")),
    ] {
        let found = field(&database, "1.1.1.1", path);
        assert_eq!(found.as_ref(), Some(&expected), "{path}");
        assert_eq!(record(&database, "::1.1.1.0").get(&path.parse().unwrap()), Some(&expected));
        let id = lookup(&database, "1.1.1.1").expect("a record");
        let number = database.number(id, &path.parse().unwrap()).expect("a sound record");
        assert_eq!(number, expected.as_f64(), "{path}");
        let borrowed = database.text(id, &path.parse().unwrap()).expect("a sound record");
        assert_eq!(borrowed.as_deref(), expected.as_str(), "{path}");
    }
    assert_eq!(field(&database, "1.1.1.1", "array.3"), None);
    assert_eq!(field(&database, "1.1.1.1", "boolean.x"), None);
    let zeros = record(&database, "::0.0.0.0");
    assert_eq!(zeros.get(&"uint128".parse().unwrap()), Some(&Value::Uint128(0)));
    assert_eq!(zeros.get(&"bytes".parse().unwrap()), Some(&Value::Bytes(vec![])));
    let edges = record(&database, "255.255.255.255");
    assert_eq!(edges.get(&"uint128".parse().unwrap()), Some(&Value::Uint128(u128::MAX)));
    assert_eq!(edges.get(&"double".parse().unwrap()), Some(&Value::Double(f64::INFINITY)));
}

#[test]
fn records_that_are_bare_strings_are_found_at_the_empty_path() {
    let Some(folder) = support::maxmind_data() else {
        return;
    };
    let name = "MaxMind-DB-string-value-entries.mmdb";
    let database = open(&folder, name).expect("a sound database");
    let expected = Value::String("1.1.1.1/32".to_string());
    assert_eq!(record(&database, "1.1.1.1"), expected);
    assert_eq!(field(&database, "1.1.1.1", ""), Some(expected));
}

#[test]
fn nested_values_and_pointers_to_them_are_read() {
    let Some(folder) = support::maxmind_data() else {
        return;
    };
    let nested = open(&folder, "MaxMind-DB-test-nested.mmdb").expect("a sound database");
    for (path, expected) in [("a", 1), ("b", 2), ("c", 3)] {
        let path = format!("map1.map2.array.0.map3.{path}");
        assert_eq!(field(&nested, "1.1.1.1", &path), Some(Value::Uint32(expected)));
    }
    let pointers = open(&folder, "MaxMind-DB-test-pointer-decoder.mmdb").expect("it opens");
    pointers.verify().expect("a sound database");
}

#[test]
fn metadata_is_read_through_pointers() {
    let Some(folder) = support::maxmind_data() else {
        return;
    };
    let name = "MaxMind-DB-test-metadata-pointers.mmdb";
    let database = open(&folder, name).expect("a sound database");
    let metadata = database.metadata();
    let text = "Lots of pointers in metadata";
    assert_eq!(metadata.database_type, text);
    let languages: Vec<&str> =
        metadata.description.iter().map(|(language, _)| language.as_str()).collect();
    assert_eq!(languages, ["en", "es", "zh"]);
    assert!(metadata.description.iter().all(|(_, description)| description == text));
    assert_eq!(metadata.languages, ["en", "es", "zh"]);
    assert_eq!((metadata.format_major, metadata.format_minor), (2, 0));
    assert_eq!((metadata.ip_version, metadata.record_size_bits), (6, 24));
    assert_eq!(metadata.node_count, 0x14f);
}
