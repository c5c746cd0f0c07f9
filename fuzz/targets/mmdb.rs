//! Any bytes as a database file: opening, verifying, looking up and decoding end without a panic.
//!
//! Not for: inputs that are right; the tests have those.
#![no_main]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use libfuzzer_sys::fuzz_target;
use whered_mmdb::Database;

fuzz_target!(|bytes: &[u8]| {
    let Ok(database) = Database::from_bytes(bytes.to_vec()) else { return };
    let _ = database.verify();
    let addresses: [IpAddr; 4] = [
        Ipv4Addr::new(1, 2, 3, 4).into(),
        Ipv4Addr::BROADCAST.into(),
        Ipv6Addr::LOCALHOST.into(),
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
    ];
    for address in addresses {
        if let Ok(Some(record)) = database.lookup(address).map(|found| found.record) {
            let _ = database.record(record);
            let mut json = Vec::new();
            let _ = database.write_record_json(record, &mut json);
            let _ = database.field(record, &"country.iso_code".parse().expect("a path"));
        }
    }
    for network in database.networks().take(1000) {
        let _ = network;
    }
});
