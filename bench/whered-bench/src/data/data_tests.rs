//! The generator at small scale: reproducible, disjoint, of the promised shape.

use super::*;
use std::collections::HashSet;
use whered_mmdb::{Database, FieldPath};

fn prefixes(database: &Database) -> Vec<(whered_ip::Prefix, u32)> {
    let networks = database.networks().map(|network| network.unwrap());
    networks.map(|(prefix, record)| (prefix, record.to_u32())).collect()
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_does_not() {
    let first = city(7, Scale::Small).unwrap();
    let bytes = |made: &Made| made.database.as_bytes().to_vec();
    assert_eq!(bytes(&first), bytes(&city(7, Scale::Small).unwrap()));
    assert_ne!(bytes(&first), bytes(&city(8, Scale::Small).unwrap()));
    let [first, second] = [7, 7].map(|seed| asn(seed, Scale::Small).unwrap());
    assert_eq!(bytes(&first), bytes(&second));
}

#[test]
fn networks_are_disjoint_in_order_and_as_many_as_stated() {
    for made in [city(1, Scale::Small).unwrap(), asn(1, Scale::Small).unwrap()] {
        let database = made.database;
        let verified = database.verify().unwrap();
        assert_eq!(verified.records, made.records);
        let networks = prefixes(&database);
        for pair in networks.windows(2) {
            assert!(pair[0].0 < pair[1].0, "{pair:?}");
            assert!(!pair[0].0.contains(pair[1].0.address()), "{pair:?}");
        }
        let ipv4 = networks.iter().filter(|(prefix, _)| prefix.address().is_ipv4()).count();
        assert_eq!(ipv4 as u64, made.networks4);
        assert_eq!((networks.len() - ipv4) as u64, made.networks6);
    }
}

#[test]
fn the_lengths_are_those_of_the_real_files() {
    let made = city(2, Scale::Small).unwrap();
    let database = made.database;
    let mut ipv4 = [0_u32; 33];
    let mut ipv6 = [0_u32; 129];
    for (prefix, _) in prefixes(&database) {
        let lengths = if prefix.address().is_ipv4() { &mut ipv4[..] } else { &mut ipv6[..] };
        lengths[usize::from(prefix.length_bits())] += 1;
    }
    let all: u32 = ipv4.iter().sum();
    let short: u32 = ipv4[..20].iter().sum();
    assert!((35_000..90_000).contains(&all), "{all}");
    assert!(short * 20 < all, "{ipv4:?}");
    assert_near(ipv4[25..].iter().sum(), all, 67.0, "IPv4 longer than /24");
    assert!(ipv4[24] > ipv4[23] && ipv4[24] > ipv4[25], "{ipv4:?}");
    let all: u32 = ipv6.iter().sum();
    assert!((15_000..50_000).contains(&all), "{all}");
    assert_eq!(ipv6[65..].iter().sum::<u32>(), 0);
    for (length, percent) in [(48, 6.0), (62, 5.0), (63, 7.0), (64, 26.0)] {
        assert_near(ipv6[length], all, percent, &format!("IPv6 of /{length}"));
    }
}

/// A share in percent, give or take a fifth: the small file is made of few large blocks.
fn assert_near(count: u32, all: u32, percent: f64, what: &str) {
    let found = f64::from(count) * 100.0 / f64::from(all);
    assert!((found / percent - 1.0).abs() < 0.2, "{what}: {found:.1} %, wanted: {percent} %");
}

#[test]
fn records_have_the_fields_of_the_real_files() {
    let made = city(3, Scale::Small).unwrap();
    let database = made.database;
    let mut seen = HashSet::new();
    let paths = [
        "city.geoname_id",
        "city.names.en",
        "city.names.zh-CN",
        "continent.code",
        "country.iso_code",
        "country.names.ru",
        "location.latitude",
        "location.longitude",
        "location.time_zone",
        "postal.code",
        "registered_country.iso_code",
        "subdivisions.0.names.ja",
    ];
    for (_, record) in prefixes(&database).into_iter().step_by(50) {
        let record = database.record(whered_mmdb::RecordId::from_u32(record)).unwrap();
        for path in paths {
            if record.get(&path.parse::<FieldPath>().unwrap()).is_some() {
                seen.insert(path);
            }
        }
        assert!(record.get(&"country.iso_code".parse().unwrap()).is_some());
    }
    assert_eq!(seen.len(), paths.len(), "{seen:?}");
}

#[test]
fn the_three_aliases_lead_to_the_ipv4_networks() {
    let made = city(4, Scale::Small).unwrap();
    let database = made.database;
    let plain = database.lookup("1.2.3.4".parse().unwrap()).unwrap().record;
    for alias in ["::ffff:1.2.3.4", "2002:102:304::", "2001:0:102:304::"] {
        let found = database.lookup(alias.parse().unwrap()).unwrap().record;
        assert_eq!(found, plain, "{alias}");
    }
}
