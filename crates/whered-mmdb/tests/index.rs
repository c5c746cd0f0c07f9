//! The index of a database answers as the database itself does, for every kind of file.

#![allow(clippy::unwrap_used, reason = "a panic is a failed test")]

mod support;

use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use support::{Random, cells};
use whered_ip::Prefix;
use whered_mmdb::{
    Cell, Database, DatabaseIndex, ErrorKind, FieldPath, Found, IndexForm, IndexOptions, Value,
    Writer, WriterOptions,
};

/// The default fields and some of every type that the conformance files have.
fn fields() -> Vec<FieldPath> {
    let more = ["", "country", "boolean", "bytes", "double", "float", "int32", "uint16", "uint32"];
    let others = ["uint64", "uint128", "utf8_string", "array.0", "map.mapX.utf8_stringX", "ip"];
    let texts = more.iter().chain(&others).chain(&["subdivisions.0.iso_code", "isp", "v"]);
    let mut fields = IndexOptions::default().fields;
    fields.extend(texts.map(|text| text.parse::<FieldPath>().unwrap()));
    fields
}

fn options(form: IndexForm) -> IndexOptions {
    IndexOptions { form, fields: fields() }
}

/// The first and last address of a network, those beside it, and one inside.
fn probes(prefix: &Prefix, random: &mut Random) -> Vec<IpAddr> {
    let noise = u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
    match prefix.address() {
        IpAddr::V4(first) => {
            let first = first.to_bits();
            let host = u32::MAX.checked_shr(u32::from(prefix.length_bits())).unwrap_or(0);
            let last = first | host;
            [first, last, first.wrapping_sub(1), last.wrapping_add(1), first | noise as u32 & host]
                .map(|bits| Ipv4Addr::from_bits(bits).into())
                .to_vec()
        }
        IpAddr::V6(first) => {
            let first = first.to_bits();
            let host = u128::MAX.checked_shr(u32::from(prefix.length_bits())).unwrap_or(0);
            let last = first | host;
            [first, last, first.wrapping_sub(1), last.wrapping_add(1), first | noise & host]
                .map(|bits| Ipv6Addr::from_bits(bits).into())
                .to_vec()
        }
    }
}

/// Addresses at all edges of a database's networks, the same through the usual aliases, and random
/// ones.
fn addresses(database: &Database) -> Vec<IpAddr> {
    let mut random = Random(11);
    let networks = database.networks().take(3000).map(|network| network.unwrap().0);
    let mut addresses: Vec<IpAddr> =
        networks.flat_map(|prefix| probes(&prefix, &mut random)).collect();
    for address in addresses.clone() {
        if let IpAddr::V4(v4) = address {
            addresses.push(v4.to_ipv6_mapped().into());
            addresses.push(v4.to_ipv6_compatible().into());
            let bits = 0x2002_u128 << 112 | u128::from(v4.to_bits()) << 80;
            addresses.push(Ipv6Addr::from_bits(bits | u128::from(random.next_u64())).into());
        }
    }
    for _ in 0..500 {
        addresses.push(Ipv4Addr::from_bits(random.next_u64() as u32).into());
        addresses.push(Ipv6Addr::from_bits(u128::from(random.next_u64()) << 61 | 1 << 125).into());
    }
    addresses
}

/// Compares an index with its database at all the addresses, one at a time and in batches.
fn compare(database: &Database, index: &DatabaseIndex, addresses: &[IpAddr]) {
    let (mut four, mut six) = (Vec::new(), Vec::new());
    for address in addresses {
        let found = index.lookup(*address);
        match address {
            IpAddr::V4(v4) => four.push((v4.to_bits(), found)),
            IpAddr::V6(v6) => six.push((v6.to_bits(), found)),
        }
        let Ok(expected) = database.lookup(*address) else {
            assert_eq!((found, index.is_ipv6()), (Found::default(), false), "{address}");
            continue;
        };
        assert_eq!(index.record(found), expected.record, "{address}");
        assert_eq!(found.network(*address), expected.prefix, "{address}");
        assert_eq!(found.is_record(), expected.record.is_some());
        let Some(record) = expected.record else {
            assert!(index.row(found).record().is_none());
            assert!((0..index.fields().len()).all(|n| index.row(found).get(n) == Cell::Absent));
            continue;
        };
        let row = index.row(found);
        assert_eq!(row.record(), Some(record));
        cells::compare_row(database, index, found);
    }
    let (addresses, singly): (Vec<u32>, Vec<Found>) = four.into_iter().unzip();
    let mut found = vec![Found { row: 9, length_bits: 9 }; singly.len()];
    index.lookup4_batch(&addresses, &mut found);
    index.prefetch_rows(&found);
    assert_eq!(found, singly);
    let mut found = vec![Found { row: 9, length_bits: 9 }; singly.len()];
    index.lookup4_batch_with_rows(&addresses, &mut found);
    assert_eq!(found, singly);
    let (addresses, singly): (Vec<u128>, Vec<Found>) = six.into_iter().unzip();
    let mut found = vec![Found { row: 9, length_bits: 9 }; singly.len()];
    index.lookup6_batch(&addresses, &mut found);
    assert_eq!(found, singly);
}

fn check(database: &Database) {
    let addresses = addresses(database);
    for form in [IndexForm::Compact, IndexForm::Fast] {
        let index = DatabaseIndex::build(database, &options(form)).unwrap();
        compare(database, &index, &addresses);
        let kept = index.to_bytes(database);
        let again = DatabaseIndex::from_bytes(Arc::new(kept), database).unwrap();
        assert_eq!(again.fields(), index.fields());
        compare(database, &again, &addresses);
    }
}

#[test]
fn conformance_files_are_answered_as_by_their_tree() {
    let Some(folder) = support::maxmind_data() else { return };
    let (mut sound, mut broken) = (0, 0);
    for entry in std::fs::read_dir(folder.join("test-data")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "mmdb") {
            continue;
        }
        let Ok(database) = Database::from_bytes(std::fs::read(&path).unwrap()) else {
            broken += 1;
            continue;
        };
        if database.verify().is_err() {
            // An error or an index, but neither a panic nor an endless walk.
            let index = DatabaseIndex::build(&database, &options(IndexForm::Compact));
            drop(index);
            broken += 1;
            continue;
        }
        check(&database);
        sound += 1;
    }
    assert!(sound >= 20 && broken >= 1, "{sound} sound and {broken} broken files");
}

#[test]
fn legacy_files_are_answered_as_by_their_tree() {
    for name in ["GeoIP.dat", "GeoIPv6.dat"] {
        let Ok(bytes) = std::fs::read(format!("/usr/share/GeoIP/{name}")) else {
            support::skip("peers", &format!("there is no {name} of the package geoip-database"));
            return;
        };
        check(&Database::from_bytes(bytes).unwrap());
    }
}

/// A database of these networks, each with a record that holds `v`.
fn database(ip_version: u16, networks: &[(Prefix, u32)]) -> Database {
    let mut writer = Writer::new(WriterOptions { ip_version, ..WriterOptions::default() }).unwrap();
    for (prefix, value) in networks {
        let record = Value::Map(vec![("v".to_owned(), Value::Uint32(*value))]);
        writer.insert(*prefix, record).unwrap();
    }
    Database::from_bytes(writer.finish().unwrap()).unwrap()
}

fn network(is_ipv6: bool) -> impl Strategy<Value = (Prefix, u32)> {
    let ipv4 = (any::<u32>(), 0..=32_u8).prop_map(|(bits, length)| {
        Prefix::new(Ipv4Addr::from_bits(bits & 0xff01_0fff).into(), length).unwrap()
    });
    let ipv6 = (any::<u128>(), 16..=128_u8).prop_map(|(bits, length)| {
        let bits = bits >> 8 & 0x000f_0001_0000_0000_0003_0000_ff00_ffff | 0x2a00 << 112;
        Prefix::new(Ipv6Addr::from_bits(bits).into(), length).unwrap()
    });
    let prefix = if is_ipv6 { prop_oneof![ipv4, ipv6].boxed() } else { ipv4.boxed() };
    (prefix, 0..5_u32)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn random_ipv6_databases_are_answered_as_by_their_tree(
        networks in prop::collection::vec(network(true), 0..60),
    ) {
        check(&database(6, &networks));
    }

    #[test]
    fn random_ipv4_databases_are_answered_as_by_their_tree(
        networks in prop::collection::vec(network(false), 0..40),
    ) {
        check(&database(4, &networks));
    }
}

#[test]
fn a_kept_index_is_refused_when_anything_about_it_is_wrong() {
    let one = database(6, &[("192.0.2.0/24".parse().unwrap(), 1)]);
    let other = database(6, &[("192.0.2.0/25".parse().unwrap(), 1)]);
    let options = IndexOptions { form: IndexForm::Compact, fields: vec!["v".parse().unwrap()] };
    let kept = DatabaseIndex::build(&one, &options).unwrap().to_bytes(&one);
    let refused = |bytes: Vec<u8>, database: &Database| {
        let error = DatabaseIndex::from_bytes(Arc::new(bytes), database).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Index, "{error}");
        error.to_string()
    };
    let text = refused(kept.clone(), &other);
    assert!(text.contains("another database"), "{text}");
    for length in (0..600).chain([kept.len() - 1]) {
        refused(kept[..length].to_vec(), &one);
    }
    let mut random = Random(1);
    for at in (0..700).chain((0..200).map(|_| random.below(kept.len() as u64) as usize)) {
        let mut damaged = kept.clone();
        damaged[at] ^= 1 << (at % 8);
        refused(damaged, &one);
    }
}

#[test]
fn columns_of_several_types_and_texts_of_any_length_come_back() {
    let values = [
        Value::String(String::new()),
        Value::String("x".repeat(40)),
        Value::String("y".repeat(5_000)),
        Value::Double(1.5),
        Value::Double(f64::NAN),
        Value::Uint64(u64::MAX),
        Value::Int32(-7),
        Value::Boolean(true),
        Value::Boolean(false),
        Value::Map(vec![]),
        Value::Uint128(1 << 100),
    ];
    let mut writer = Writer::new(WriterOptions::default()).unwrap();
    let mut random = Random(3);
    for network in 0..2000_u32 {
        let mut any = || values[random.below(values.len() as u64) as usize].clone();
        let short = Value::String("z".repeat(network as usize % 90));
        let fields = [("mixed", any()), ("other", any()), ("text", short)];
        let present = fields.into_iter().filter(|(name, _)| name.len() + network as usize % 3 != 6);
        let record = present.map(|(name, value)| (name.to_owned(), value)).collect();
        let address = Ipv4Addr::from_bits(network << 8).into();
        writer.insert(Prefix::new(address, 24).unwrap(), Value::Map(record)).unwrap();
    }
    let database = Database::from_bytes(writer.finish().unwrap()).unwrap();
    let fields: Vec<FieldPath> =
        ["mixed", "text", "other", "nothing"].iter().map(|text| text.parse().unwrap()).collect();
    for count in 0..=fields.len() {
        let fields = fields[..count].to_vec();
        let options = IndexOptions { form: IndexForm::Compact, fields };
        let index = DatabaseIndex::build(&database, &options).unwrap();
        compare(&database, &index, &addresses(&database));
    }
}

#[test]
fn too_many_fields_are_refused() {
    let options = IndexOptions {
        form: IndexForm::Compact,
        fields: (0..256).map(|n| FieldPath::new([n.to_string()])).collect(),
    };
    let error = DatabaseIndex::build(&database(4, &[]), &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
}
