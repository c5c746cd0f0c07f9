//! Damaged and malicious files: everything ends, nothing panics.

#![allow(clippy::unwrap_used, reason = "a panic is a failed test")]

mod support;

use std::net::IpAddr;
use support::Random;
use whered_ip::Prefix;
use whered_mmdb::{
    Database, ErrorKind, Format, LegacyEdition, MmdbError, Value, Writer, WriterOptions,
};

/// Asks a database everything. Errors are fine; that each call comes back is the test.
fn ask_everything(bytes: Vec<u8>, addresses: &[IpAddr]) {
    let database = match Database::from_bytes(bytes) {
        Ok(database) => database,
        Err(error) => return has_place(&error),
    };
    let path = "map.list.1".parse().unwrap();
    for &address in addresses {
        let answer = match database.lookup(address) {
            Ok(answer) => answer,
            Err(error) => {
                has_place(&error);
                continue;
            }
        };
        let Some(id) = answer.record else { continue };
        let value = database.record(id);
        if let Err(error) = &value {
            has_place(error);
        }
        let mut json = Vec::new();
        let written = database.write_record_json(id, &mut json);
        assert_eq!(value.is_ok(), written.is_ok());
        assert!(written.is_ok() || json.is_empty());
        let _ = database.field(id, &path);
        let _ = database.number(id, &path);
        let _ = database.text(id, &path);
    }
    let networks = dump(&database);
    let verified = database.verify();
    if let Err(error) = &verified {
        has_place(error);
    }
    if let Ok(verified) = verified {
        assert!(networks as u64 <= verified.networks);
        // What the verifier passes can be read without a fault.
        for item in database.networks().take(200) {
            database.record(item.unwrap().1).unwrap();
        }
        for &address in addresses {
            if address.is_ipv4() || database.root(false).is_some() {
                database.lookup(address).unwrap();
            }
        }
    }
}

/// A fault says where in the file it is, unless the file is none of ours at all or the question was
/// wrong.
fn has_place(error: &MmdbError) {
    let is_placeless = matches!(error.kind(), ErrorKind::NotADatabase | ErrorKind::AddressFamily);
    assert!(is_placeless || error.offset_bytes().is_some(), "without a place: {error}");
}

/// Writes the first networks with their records; how many networks there were.
fn dump(database: &Database) -> usize {
    let mut json = Vec::new();
    let mut networks = 0;
    for item in database.networks().take(200) {
        json.clear();
        match item {
            Ok((_, id)) => {
                networks += 1;
                if let Err(error) = database.write_typed_record_json(id, &mut json) {
                    has_place(&error);
                }
            }
            Err(error) => has_place(&error),
        }
    }
    networks
}

/// Every byte changed in several ways, and every length cut.
fn sweep(bytes: &[u8], addresses: &[IpAddr]) {
    let mut random = Random(7);
    for at in 0..bytes.len() {
        let old = bytes[at];
        let changes = [0, 0xff, old ^ 1, old ^ 0x80, old.wrapping_add(1), random.next_u64() as u8];
        for new in changes {
            let mut damaged = bytes.to_vec();
            damaged[at] = new;
            ask_everything(damaged, addresses);
        }
    }
    for length in 0..bytes.len() {
        ask_everything(bytes[..length].to_vec(), addresses);
        ask_everything(bytes[length..].to_vec(), addresses);
    }
}

fn small_database(ip_version: u16, record_size_bits: u16) -> Vec<u8> {
    let options = WriterOptions {
        database_type: "Small".to_string(),
        description: vec![("en".to_string(), "A small one".to_string())],
        languages: vec!["en".to_string()],
        ip_version,
        record_size_bits: Some(record_size_bits),
        build_epoch_seconds: 1,
    };
    let mut writer = Writer::new(options).unwrap();
    let text = |text: &str| Value::String(text.to_string());
    let list = Value::Array(vec![text("shared text"), Value::Double(1.5), Value::Bytes(vec![1])]);
    let map = Value::Map(vec![("list".to_string(), list), ("other".to_string(), text("é"))]);
    let record = Value::Map(vec![
        ("map".to_string(), map.clone()),
        ("again".to_string(), map),
        ("numbers".to_string(), Value::Array(vec![Value::Uint128(1 << 90), Value::Int32(-1)])),
    ]);
    writer.insert("10.0.0.0/6".parse().unwrap(), record).unwrap();
    writer.insert("10.128.0.0/10".parse().unwrap(), text("shared text")).unwrap();
    if ip_version == 6 {
        writer.insert("2001:db8::/29".parse().unwrap(), Value::Boolean(true)).unwrap();
    }
    writer.finish().unwrap()
}

fn addresses() -> Vec<IpAddr> {
    ["10.0.0.1", "10.128.0.1", "192.0.2.1", "2001:db8::1", "::ffff:10.0.0.1", "2002:a00::"]
        .map(|text| text.parse().unwrap())
        .to_vec()
}

#[test]
fn damaged_databases_of_every_record_size_give_errors_or_answers() {
    for (ip_version, bits) in [(4, 24), (4, 28), (4, 32), (6, 24)] {
        sweep(&small_database(ip_version, bits), &addresses());
    }
}

fn legacy_prefixes() -> Vec<(Prefix, u8)> {
    vec![
        ("10.0.0.0/6".parse().unwrap(), 225),
        ("10.128.0.0/10".parse().unwrap(), 77),
        ("192.0.2.0/24".parse().unwrap(), 255),
    ]
}

#[test]
fn damaged_legacy_files_give_errors_or_answers() {
    let bytes = support::legacy::write(false, &legacy_prefixes(), "A file 20200101");
    sweep(&bytes, &addresses());
    let mut prefixes = legacy_prefixes();
    prefixes.push(("2001:db8::/32".parse().unwrap(), 3));
    let bytes = support::legacy::write(true, &prefixes, "");
    sweep(&bytes, &addresses());
}

#[test]
fn damaged_files_of_every_legacy_edition_give_errors_or_answers() {
    let mut random = Random(5);
    for edition in support::legacy::EDITIONS {
        let records = support::legacy::random_records(edition, 3, &mut random);
        let asked: Vec<IpAddr> = records.iter().map(|(prefix, _)| prefix.address()).collect();
        let bytes = support::legacy::write_edition(edition, &records, "Text");
        sweep(&bytes, &asked);
    }
}

#[test]
fn a_legacy_record_without_an_end_is_a_fault_with_its_place() {
    let prefix = "10.0.0.0/8".parse().unwrap();
    let record = support::legacy::Record::Bytes(vec![b'x'; 2000]);
    let bytes = support::legacy::write_edition(LegacyEdition::Isp, &[(prefix, record)], "");
    let database = Database::from_bytes(bytes).unwrap();
    let error = database.verify().unwrap_err();
    assert_eq!((error.kind(), error.offset_bytes()), (ErrorKind::Data, Some(65)), "{error}");
    assert!(error.to_string().contains("a text without an end"), "{error}");
    let id = database.lookup("10.1.2.3".parse().unwrap()).unwrap().record.unwrap();
    assert_eq!(database.record(id), Err(error));
}

#[test]
fn a_legacy_file_that_announces_more_nodes_than_it_has_is_refused() {
    let prefix = "10.0.0.0/8".parse().unwrap();
    let record = support::legacy::Record::Bytes(b"x\0".to_vec());
    let mut bytes = support::legacy::write_edition(LegacyEdition::Domain, &[(prefix, record)], "");
    let end = bytes.len();
    bytes[end - 3] = 200;
    let error = Database::from_bytes(bytes).unwrap_err();
    assert_eq!((error.kind(), error.offset_bytes()), (ErrorKind::Metadata, Some(end as u64 - 3)));
}

#[test]
fn random_bytes_are_no_database() {
    let mut random = Random(1);
    for length in 0..600 {
        let bytes: Vec<u8> = (0..length).map(|_| random.next_u64() as u8).collect();
        ask_everything(bytes.clone(), &addresses());
        // The marker alone does not make metadata.
        let marked = [&bytes[..], b"\xab\xcd\xefMaxMind.com", &bytes[..]].concat();
        let error = Database::from_bytes(marked).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Metadata | ErrorKind::Unsupported), "{error}");
    }
}

/// Replaces the tree of a written database, which must have as many nodes.
fn with_tree(ip_version: u16, nodes: &[[u32; 2]]) -> Result<Database, MmdbError> {
    let options = WriterOptions { record_size_bits: Some(32), ip_version, ..Default::default() };
    let mut writer = Writer::new(options).unwrap();
    writer.set_ipv4_aliases(false);
    // A chain of nodes to one address: as many nodes as the prefix has bits.
    let length = u8::try_from(nodes.len()).unwrap();
    let start = if ip_version == 4 { "0.0.0.0" } else { "::" };
    let prefix = Prefix::new(start.parse().unwrap(), length).unwrap();
    writer.insert(prefix, Value::Boolean(true)).unwrap();
    let mut bytes = writer.finish().unwrap();
    for (index, [left, right]) in nodes.iter().enumerate() {
        bytes[index * 8..index * 8 + 4].copy_from_slice(&left.to_be_bytes());
        bytes[index * 8 + 4..index * 8 + 8].copy_from_slice(&right.to_be_bytes());
    }
    Database::from_bytes(bytes)
}

#[test]
fn a_tree_that_leads_back_to_itself_is_a_fault_and_walks_end() {
    let database = with_tree(4, &[[0, 0]]).unwrap();
    let error = database.lookup("192.0.2.1".parse().unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Tree);
    assert_eq!(with_tree(6, &[[0, 0]]).unwrap_err().kind(), ErrorKind::Tree);
    assert_eq!(database.verify().unwrap_err().kind(), ErrorKind::Tree);
    assert!(database.networks().any(|item| item.is_err()));
}

#[test]
fn a_tree_of_few_shared_nodes_does_not_keep_anyone_busy() {
    // 100 nodes, both sides of each lead to the next: 2^100 networks.
    let mut nodes: Vec<[u32; 2]> = (1..=100).map(|next| [next, next]).collect();
    nodes[99] = [116, 116];
    let database = with_tree(6, &nodes).unwrap();
    let verified = database.verify().unwrap();
    assert_eq!(verified.networks, u64::MAX);
    let fault = database.networks().find_map(Result::err).unwrap();
    assert_eq!(fault.kind(), ErrorKind::Limit);
    let answer = database.lookup("2001:db8::1".parse().unwrap()).unwrap();
    assert_eq!(answer.prefix.length_bits(), 100);
}

#[test]
fn numbers_between_the_nodes_and_the_data_are_faults() {
    for number in [2, 15, 16, 19, u32::MAX] {
        let database = with_tree(6, &[[1, number]]).unwrap();
        let error = database.lookup("8000::".parse().unwrap()).unwrap_err();
        assert_eq!((error.kind(), error.offset_bytes()), (ErrorKind::Tree, Some(0)), "{number}");
        let error = database.verify().unwrap_err();
        assert_eq!(error.path(), "::/0");
    }
}

#[test]
fn the_verifier_finds_pointers_into_the_middle_of_fields() {
    let mut writer = Writer::new(WriterOptions::default()).unwrap();
    let record = Value::Array(vec![Value::String("a long text".to_string()); 2]);
    writer.insert("::/1".parse().unwrap(), record).unwrap();
    let mut bytes = writer.finish().unwrap();
    let database = Database::from_bytes(bytes.clone()).unwrap();
    database.verify().unwrap();
    // The second text is a pointer (0x20 0x02) to the first, behind the array's header.
    let at = bytes.windows(4).position(|window| window == *b"xt\x20\x02").unwrap();
    bytes[at + 3] = 5;
    let error = Database::from_bytes(bytes).unwrap().verify().unwrap_err();
    assert_eq!((error.kind(), error.offset_bytes()), (ErrorKind::Data, Some(at as u64 + 2)));
}

#[test]
fn a_text_that_is_no_utf8_is_named_by_its_place_and_path() {
    let text = |text: &str| Value::String(text.to_string());
    let names = Value::Map(vec![("en".to_string(), text("Somewhere far away"))]);
    let record =
        Value::Map(vec![("city".to_string(), Value::Map(vec![("names".to_string(), names)]))]);
    let mut writer = Writer::new(WriterOptions::default()).unwrap();
    writer.insert("192.0.2.0/24".parse().unwrap(), record).unwrap();
    let mut bytes = writer.finish().unwrap();
    let at = bytes.windows(9).position(|window| window == b"Somewhere").unwrap();
    bytes[at + 4] = 0xff;
    let error = Database::from_bytes(bytes).unwrap().verify().unwrap_err();
    assert_eq!((error.kind(), error.offset_bytes()), (ErrorKind::Data, Some(at as u64 + 4)));
    assert_eq!(error.path(), "city.names.en");
}

#[test]
fn only_the_last_128_kib_are_searched_for_the_last_marker() {
    let bytes = small_database(6, 24);
    let marker = b"\xab\xcd\xefMaxMind.com";
    let metadata_bytes = bytes.len() - bytes.windows(14).rposition(|it| it == marker).unwrap();
    // What follows the metadata map does not matter, as long as the marker is near enough.
    let padded = |size: usize| [&bytes[..], &vec![0; size - metadata_bytes][..]].concat();
    assert!(Database::from_bytes(padded(128 << 10)).is_ok());
    let error = Database::from_bytes(padded((128 << 10) + 1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotADatabase);
    // The last of two markers counts: the first map is then a part of the data.
    let two = [&bytes[..], &bytes[bytes.len() - metadata_bytes..]].concat();
    assert_eq!(Database::from_bytes(two).unwrap().metadata().database_type, "Small");
}

#[test]
fn sizes_beyond_32_bits_are_refused_and_not_cut() {
    let bytes = small_database(6, 32);
    let at = bytes.windows(10).rposition(|window| window == b"node_count").unwrap() + 10;
    // A uint32 behind the key: 0xc1 and one byte becomes 0xc4 and four, and the tree 32 GiB long.
    assert_eq!(bytes[at], 0xc1, "a small count takes one byte");
    let huge = [&bytes[..at], &[0xc4, 0xff, 0xff, 0xff, 0xff], &bytes[at + 2..]].concat();
    let error = Database::from_bytes(huge).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::Metadata, "node_count"));
    assert!(error.to_string().contains("34359738360 bytes"), "{error}");
}

#[test]
fn legacy_files_answer_under_the_newer_paths() {
    let mut prefixes = legacy_prefixes();
    let bytes = support::legacy::write(false, &prefixes, "GEO-106 20260704 Build");
    let database = Database::from_bytes(bytes).unwrap();
    assert_eq!(database.format(), Format::Legacy(LegacyEdition::Country));
    assert_eq!(database.metadata().build_epoch_seconds, 1_783_123_200);
    let text = "GEO-106 20260704 Build".to_string();
    assert_eq!(database.metadata().description, [("en".to_string(), text)]);
    let answer = database.lookup("10.129.0.1".parse().unwrap()).unwrap();
    assert_eq!(answer.prefix.to_string(), "10.128.0.0/10");
    let id = answer.record.unwrap();
    for (path, expected) in [
        ("country.iso_code", Some("GB")),
        ("country.names.en", Some("United Kingdom")),
        ("continent.code", Some("EU")),
        ("city", None),
    ] {
        let path = path.parse().unwrap();
        assert_eq!(database.text(id, &path).unwrap().as_deref(), expected);
        let value = expected.map(|text| Value::String(text.to_string()));
        assert_eq!(database.field(id, &path).unwrap(), value);
    }
    let nothing = database.lookup("11.255.255.255".parse().unwrap()).unwrap();
    assert!(nothing.record.is_some(), "10.0.0.0/6 reaches up to 11.255.255.255");
    assert_eq!(database.lookup("12.0.0.0".parse().unwrap()).unwrap().record, None);
    assert_eq!(database.verify().unwrap().records, 3);

    prefixes.push(("2001:db8::/32".parse().unwrap(), 244));
    let database = Database::from_bytes(support::legacy::write(true, &prefixes, "")).unwrap();
    assert_eq!(database.format(), Format::Legacy(LegacyEdition::CountryV6));
    let id = database.lookup("2001:db8::1".parse().unwrap()).unwrap().record.unwrap();
    let mut json = Vec::new();
    database.write_record_json(id, &mut json).unwrap();
    assert_eq!(json, br#"{"country":{"iso_code":"A1","names":{"en":"Anonymous Proxy"}}}"#);
    assert_eq!(
        database.networks().map(|item| item.unwrap().0.to_string()).collect::<Vec<_>>(),
        [
            "8.0.0.0/7",
            "10.0.0.0/9",
            "10.128.0.0/10",
            "10.192.0.0/10",
            "11.0.0.0/8",
            "192.0.2.0/24",
            "2001:db8::/32"
        ]
    );
}

#[test]
fn a_legacy_file_without_its_structure_marker_is_a_country_edition() {
    let mut bytes = support::legacy::write(false, &legacy_prefixes(), "");
    bytes.truncate(bytes.len() - 4);
    let database = Database::from_bytes(bytes).unwrap();
    let id = database.lookup("192.0.2.1".parse().unwrap()).unwrap().record.unwrap();
    let code = database.text(id, &"country.iso_code".parse().unwrap()).unwrap();
    assert_eq!(code.as_deref(), Some("O1"));
}
