//! The country numbers and trees agree with libGeoIP's `geoiplookup`.

#![allow(clippy::unwrap_used, reason = "a panic is a failed test")]

mod support;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::Command;
use support::Random;
use whered_mmdb::Database;

/// What a `geoiplookup` program says: code and name, or nothing.
fn peer(program: &str, file: &Path, address: IpAddr) -> Option<(String, String)> {
    let output = Command::new(program).arg("-f").arg(file).arg(address.to_string()).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    let (_, answer) = text.lines().next().unwrap().split_once(": ").unwrap();
    let (code, name) = answer.split_once(", ")?;
    Some((code.to_string(), name.to_string()))
}

fn own(database: &Database, address: IpAddr) -> Option<(String, String)> {
    let id = database.lookup(address).unwrap().record?;
    let text = |path: &str| {
        database
            .text(id, &path.parse().unwrap())
            .unwrap()
            .expect("every country has it")
            .to_string()
    };
    Some((text("country.iso_code"), text("country.names.en")))
}

fn open(program: &str, file: &Path) -> Option<Database> {
    if Command::new(program).arg("192.0.2.1").output().is_err() {
        support::skip("peers", &format!("there is no program {program}"));
        return None;
    }
    let Ok(bytes) = std::fs::read(file) else {
        support::skip("peers", &format!("there is no {}", file.display()));
        return None;
    };
    Some(Database::from_bytes(bytes).unwrap())
}

/// One network of every country, as far as the file has it.
fn one_of_each(database: &Database, take: impl Fn(IpAddr) -> bool) -> Vec<IpAddr> {
    let mut found = BTreeMap::new();
    for item in database.networks() {
        let (prefix, id) = item.unwrap();
        if take(prefix.address()) {
            found.entry(id).or_insert(prefix.address());
        }
    }
    found.into_values().collect()
}

#[test]
fn ipv4_countries_agree() {
    let file = Path::new("/usr/share/GeoIP/GeoIP.dat");
    let Some(database) = open("geoiplookup", file) else {
        return;
    };
    database.verify().unwrap();
    let dns: IpAddr = "8.8.8.8".parse().unwrap();
    assert_eq!(own(&database, dns).unwrap().0, "US");
    let mut addresses = one_of_each(&database, |address| address.is_ipv4());
    assert!(addresses.len() > 200);
    let mut random = Random(11);
    addresses.extend((0..300).map(|_| {
        // First octet 1 or more: the program takes 0.0.0.0/8 for host names.
        IpAddr::V4(Ipv4Addr::from_bits(random.next_u64() as u32 | 1 << 24))
    }));
    for address in addresses {
        assert_eq!(own(&database, address), peer("geoiplookup", file, address), "{address}");
    }
}

#[test]
fn ipv6_countries_agree() {
    let file = Path::new("/usr/share/GeoIP/GeoIPv6.dat");
    let Some(database) = open("geoiplookup6", file) else {
        return;
    };
    database.verify().unwrap();
    let mut addresses = one_of_each(&database, |address| address.is_ipv6());
    assert!(addresses.len() > 100);
    let mut random = Random(12);
    addresses.extend((0..150).map(|_| {
        let bits = 0x2000_0000 | random.next_u64() as u32 & 0x0fff_ffff;
        IpAddr::V6(Ipv6Addr::from_bits(u128::from(bits) << 96))
    }));
    addresses.extend((0..50).map(|_| {
        let address = Ipv4Addr::from_bits(random.next_u64() as u32);
        IpAddr::V6(address.to_ipv6_mapped())
    }));
    for address in addresses {
        assert_eq!(own(&database, address), peer("geoiplookup6", file, address), "{address}");
    }
}

#[test]
fn ipv4_addresses_are_found_in_the_ipv6_file() {
    let file = Path::new("/usr/share/GeoIP/GeoIPv6.dat");
    let Some(database) = open("geoiplookup6", file) else {
        return;
    };
    let Some(ipv4) = open("geoiplookup", Path::new("/usr/share/GeoIP/GeoIP.dat")) else {
        return;
    };
    let mut agreeing = 0;
    let mut random = Random(13);
    for _ in 0..1_000 {
        let address = IpAddr::V4(Ipv4Addr::from_bits(random.next_u64() as u32));
        agreeing += u32::from(own(&database, address) == own(&ipv4, address));
    }
    assert!(agreeing > 990, "only {agreeing} of 1000");
}

#[test]
fn every_country_number_has_the_peer_s_code_and_name() {
    if Command::new("geoiplookup").arg("192.0.2.1").output().is_err() {
        return support::skip("peers", "there is no program geoiplookup");
    }
    let prefixes: Vec<_> = (1..=255_u8)
        .map(|country| (format!("10.0.0.{country}/32").parse().unwrap(), country))
        .collect();
    let bytes = support::legacy::write(false, &prefixes, "every country");
    let name = format!("whered-mmdb-{}-countries.dat", std::process::id());
    let file = std::env::temp_dir().join(name);
    std::fs::write(&file, &bytes).unwrap();
    let database = Database::from_bytes(bytes).unwrap();
    for (prefix, _) in &prefixes {
        let address = prefix.address();
        assert_eq!(own(&database, address), peer("geoiplookup", &file, address), "{address}");
    }
    std::fs::remove_file(&file).unwrap();
}
