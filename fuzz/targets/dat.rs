//! Any bytes behind a legacy country file's trailer: as `mmdb`, reached on the legacy path.
//!
//! Not for: inputs that are right; the tests have those.
#![no_main]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use libfuzzer_sys::fuzz_target;
use whered_mmdb::Database;

fuzz_target!(|input: &[u8]| {
    // The first byte chooses the edition; the trailer makes the rest a legacy file.
    let Some((edition, tree)) = input.split_first() else { return };
    let mut bytes = tree.to_vec();
    bytes.extend_from_slice(&[0xff, 0xff, 0xff, *edition]);
    let Ok(database) = Database::from_bytes(bytes) else { return };
    let _ = database.verify();
    for address in [IpAddr::V4(Ipv4Addr::new(8, 8, 8, 8)), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
        if let Ok(Some(record)) = database.lookup(address).map(|found| found.record) {
            let _ = database.record(record);
        }
    }
    for network in database.networks().take(1000) {
        let _ = network;
    }
});
