//! Which families a database covers, joined files next to their parts, and Teredo addresses next to
//! what libGeoIP does with them.

use super::*;
use crate::Value;
use proptest::prelude::*;

fn built(ip_version: u16, database_type: &str, networks: &[&str]) -> Database {
    let mut writer = Writer::new(WriterOptions {
        ip_version,
        database_type: database_type.to_owned(),
        ..WriterOptions::default()
    })
    .unwrap();
    for network in networks {
        writer.insert(network.parse().unwrap(), Value::String((*network).to_owned())).unwrap();
    }
    Database::from_bytes(writer.finish().unwrap()).unwrap()
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn a_family_without_networks_is_said_apart_from_an_address_without_record() {
    let four = built(4, "", &["192.0.2.0/24"]);
    let six = built(6, "", &["2001:db8::/32"]);
    // Its aliases are no IPv6 networks.
    let four_in_six = built(6, "", &["192.0.2.0/24"]);
    let both = built(6, "", &["192.0.2.0/24", "2001:db8::/32"]);
    let covers = |database: &Database| [true, false].map(|four| database.covers(four).unwrap());
    assert_eq!(covers(&four), [true, false]);
    assert_eq!(covers(&six), [false, true]);
    assert_eq!(covers(&four_in_six), [true, false]);
    assert_eq!(covers(&both), [true, true]);
    for (database, unknown, uncovered) in
        [(&four, "192.0.3.1", "2001:db8::1"), (&six, "2001:db9::1", "192.0.2.1")]
    {
        assert_eq!(database.answer(address(unknown)).unwrap().record, None);
        let error = database.answer(address(uncovered)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddressFamily, "{error}");
        assert_eq!(both.answer(address(unknown)).unwrap().record, None);
        assert!(both.answer(address(uncovered)).unwrap().record.is_some());
    }
    let error = six.answer(address("192.0.2.1")).unwrap_err().to_string();
    assert!(error.contains("no IPv4 networks"), "{error}");
}

#[test]
fn files_of_one_database_answer_for_one_family_each() {
    let (four, six, both, none) = ([true, false], [false, true], [true, true], [false, false]);
    assert_eq!(by_family(&[four, six]), Ok([Some(0), Some(1)]));
    assert_eq!(by_family(&[six, four]), Ok([Some(1), Some(0)]));
    assert_eq!(by_family(&[both]), Ok([Some(0), Some(0)]));
    assert_eq!(by_family(&[both, four]), Ok([Some(1), Some(0)]));
    assert_eq!(by_family(&[four, both]), Ok([Some(0), Some(1)]));
    assert_eq!(by_family(&[four]), Ok([Some(0), None]));
    assert_eq!(by_family(&[none]), Ok([None, None]));
    assert_eq!(by_family(&[four, four]), Err(1));
    assert_eq!(by_family(&[four, six, both]), Err(2));
    assert_eq!(by_family(&[both, both]), Err(1));
}

#[test]
fn a_teredo_address_is_looked_up_by_its_client_in_a_v6_edition_only() {
    let networks = ["81.2.64.0/18", "2001:db8::/32"];
    let teredo = address("2001:0:4136:e378:8000:63bf:aefd:ba71");
    let edition = built(6, "GeoIP Country V6 Edition", &networks);
    let found = edition.answer(teredo).unwrap();
    // libGeoIP says GB and /114 of Debian's GeoIPv6.dat.
    assert_eq!(found.prefix.to_string(), "2001:0:4136:e378:8000:63bf:aefd:8000/114");
    let record = edition.record(found.record.unwrap()).unwrap();
    assert_eq!(record, Value::String("81.2.64.0/18".to_owned()));
    assert_eq!(edition.teredo_client(address("2001:1::1")), None);
    for other in ["GeoIP Country Edition", "GeoLite2-City", ""] {
        assert_eq!(built(6, other, &networks).answer(teredo).unwrap().record, None, "{other}");
    }
}

#[test]
fn a_network_around_both_families_is_joined_for_its_own_family_only() {
    let four = built(6, "", &["::/0"]);
    let six = built(6, "", &["::/0"]);
    let joined = Database::from_bytes(Database::join(&four, &six).unwrap()).unwrap();
    joined.verify().unwrap();
    assert_eq!(joined.lookup(address("9.9.9.9")).unwrap().prefix.to_string(), "0.0.0.0/0");
    let only_four = Database::join(&four, &built(6, "", &["2001:db8::/32"])).unwrap();
    let only_four = Database::from_bytes(only_four).unwrap();
    assert!(only_four.lookup(address("9.9.9.9")).unwrap().record.is_some());
    assert_eq!(only_four.lookup(address("2001:db9::1")).unwrap().record, None);
}

fn prefixes(is_ipv4: bool) -> impl Strategy<Value = Vec<String>> {
    let one = (any::<u128>(), 1_u8..=128).prop_map(move |(bits, length)| {
        let address = if is_ipv4 {
            IpAddr::V4(Ipv4Addr::from_bits(bits as u32 & 0xff00_ff00))
        } else {
            // Few addresses, so that networks are inside of each other, and none in 2002::/16.
            IpAddr::V6(Ipv6Addr::from_bits(bits & (0x0f0d << 112) | 0x20 << 120))
        };
        let length = if is_ipv4 { length % 33 } else { length };
        Prefix::new(address, length).unwrap().to_string()
    });
    proptest::collection::vec(one, 1..12)
}

proptest! {
    #[test]
    fn joined_files_answer_as_each_of_them_does(
        four in prefixes(true),
        six in prefixes(false),
        addresses in proptest::collection::vec(any::<u128>(), 32),
    ) {
        let texts = |list: &[String]| list.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
        let (four_texts, six_texts) = (texts(&four), texts(&six));
        let of = |version, text: &str| built(version, "", &text.split(' ').collect::<Vec<_>>());
        let (four, six) = (of(4, &four_texts), of(6, &six_texts));
        let joined = Database::from_bytes(Database::join(&four, &six).unwrap()).unwrap();
        joined.verify().unwrap();
        let record = |database: &Database, address| {
            let found = database.lookup(address).unwrap();
            found.record.map(|record| database.record(record).unwrap())
        };
        for bits in addresses {
            let v4 = IpAddr::V4(Ipv4Addr::from_bits(bits as u32 & 0xff00_ffff));
            prop_assert_eq!(record(&joined, v4), record(&four, v4), "{}", v4);
            let v6 = IpAddr::V6(Ipv6Addr::from_bits(bits & !(0xf0f0 << 112) | 0x20 << 120));
            prop_assert_eq!(record(&joined, v6), record(&six, v6), "{}", v6);
        }
    }
}
