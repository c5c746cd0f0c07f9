//! Asks a database everything, and checks that its answers agree with each other.
//!
//! Not for: how the database came about (the targets).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use whered_mmdb::{Database, ErrorKind, FieldPath, RecordId};

const NETWORKS_MAX: usize = 500;
const RECORDS_MAX: usize = 8;

/// Asks everything. What was verified answers without an error.
pub fn everything(database: &Database) {
    let is_sound = match database.verify() {
        Ok(_) => true,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    };
    let addresses: [IpAddr; 6] = [
        Ipv4Addr::UNSPECIFIED.into(),
        Ipv4Addr::new(192, 0, 2, 1).into(),
        Ipv4Addr::BROADCAST.into(),
        Ipv6Addr::LOCALHOST.into(),
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
        Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped().into(),
    ];
    let mut records = Vec::new();
    for address in addresses {
        match database.lookup(address) {
            Ok(found) => {
                assert!(found.prefix.contains(address), "{address} is not in {}", found.prefix);
                records.extend(found.record);
            }
            Err(error) => {
                let is_family = error.kind() == ErrorKind::AddressFamily;
                assert!(!is_sound || is_family, "verified, and {address}: {error}");
            }
        }
    }
    records.extend(networks(database, is_sound));
    records.sort_unstable();
    records.dedup();
    for &id in records.iter().take(RECORDS_MAX) {
        record(database, id, is_sound);
    }
}

/// Walks the networks; each is what a lookup of its first address finds.
fn networks(database: &Database, is_sound: bool) -> Vec<RecordId> {
    let mut records = Vec::new();
    for network in database.networks().take(NETWORKS_MAX) {
        match network {
            Ok((prefix, id)) => {
                let found = database.lookup(prefix.address()).expect("it was walked already");
                assert_eq!((found.prefix, found.record), (prefix, Some(id)));
                records.push(id);
            }
            Err(error) => {
                let is_limit = error.kind() == ErrorKind::Limit;
                assert!(!is_sound || is_limit, "verified, and the walk says: {error}");
            }
        }
    }
    records
}

/// Reads a record in every way; all ways tell the same.
fn record(database: &Database, id: RecordId, is_sound: bool) {
    let mut json = b"before".to_vec();
    let written = database.write_record_json(id, &mut json);
    let value = match database.record(id) {
        Ok(value) => value,
        Err(error) => {
            assert!(!is_sound, "verified, and record {id:?}: {error}");
            assert!(written.is_err() && json == b"before", "half a record was left");
            return;
        }
    };
    written.expect("the same walk as the record's");
    let mut own = b"before".to_vec();
    value.write_json(&mut own);
    assert_eq!(own, json, "the record and its JSON");
    for path in ["country.iso_code", "a.0", "subdivisions.-1.names.en", "location.latitude", ""] {
        let path: FieldPath = path.parse().unwrap_or_default();
        let expected = value.get(&path);
        let field = database.field(id, &path).expect("a part of what was read whole");
        let is_equal = match (&field, expected) {
            (Some(field), Some(expected)) => json_of(field) == json_of(expected),
            (field, expected) => field.is_none() && expected.is_none(),
        };
        assert!(is_equal, "{path}: {field:?} and {expected:?}");
        let text = database.text(id, &path).expect("a part of what was read whole");
        assert_eq!(text.as_deref(), expected.and_then(|value| value.as_str()), "{path}");
        let number = database.number(id, &path).expect("a part of what was read whole");
        let expected = expected.and_then(|value| value.as_f64());
        assert_eq!(number.map(f64::to_bits), expected.map(f64::to_bits), "{path}");
    }
}

fn json_of(value: &whered_mmdb::Value) -> Vec<u8> {
    let mut json = Vec::new();
    value.write_json(&mut json);
    json
}
