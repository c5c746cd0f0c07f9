//! Database files: the tree walk, a field read in place.
//! Inputs come from `random` with a fixed seed for each operation; see `main` for the contract.

use std::net::{IpAddr, Ipv4Addr};

use whered_ip::Prefix;
use whered_mmdb::{Database, FieldPath, Value, Writer, WriterOptions};
use whered_random::Random;

use crate::Prepared;

/// A City-like file of about 50,000 networks and a thousand records, made the same every time.
pub(crate) fn city_file() -> Vec<u8> {
    let mut random = Random(21);
    let options = WriterOptions {
        database_type: "Bench-City".to_owned(),
        description: vec![("en".to_owned(), "fixed".to_owned())],
        languages: vec!["en".to_owned()],
        ip_version: 6,
        record_size_bits: None,
        build_epoch_seconds: 1,
    };
    let mut writer = Writer::new(options).expect("the options are right");
    for _ in 0..50_000 {
        let address = Ipv4Addr::from(random.next_u64() as u32);
        let prefix = Prefix::new(address.into(), 12 + random.below(13) as u8).expect("at most 32");
        writer.insert(prefix, record(random.below(1000))).expect("the value is right");
    }
    writer.finish().expect("the file is written")
}

fn record(number: u64) -> Value {
    let map = |items: Vec<(&str, Value)>| {
        Value::Map(items.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    };
    let text = |prefix: &str, number: u64| Value::String(format!("{prefix}{number}"));
    map(vec![
        ("city", map(vec![("names", map(vec![("en", text("city ", number))]))])),
        ("country", map(vec![("iso_code", text("C", number % 100))])),
        (
            "location",
            map(vec![
                ("latitude", Value::Double((number * 7919 % 140) as f64 - 70.0)),
                ("longitude", Value::Double((number * 104_729 % 360) as f64 - 180.0)),
            ]),
        ),
    ])
}

fn addresses(seed: u64, count: usize) -> Vec<IpAddr> {
    let mut random = Random(seed);
    (0..count).map(|_| Ipv4Addr::from(random.next_u64() as u32).into()).collect()
}

/// Address to record, by walking the file's tree.
pub(crate) fn lookup4() -> Prepared {
    let database = Database::from_bytes(city_file()).expect("just written");
    let addresses = addresses(22, 5000);
    Prepared {
        operations: 5000,
        run: Box::new(move || {
            let length = |address: &IpAddr| {
                let found = database.lookup(*address).expect("just written");
                u64::from(found.prefix.length_bits()) + u64::from(found.record.is_some()) * 1000
            };
            addresses.iter().map(length).sum()
        }),
    }
}

/// Address to one nested text field, read in place.
pub(crate) fn field4() -> Prepared {
    let database = Database::from_bytes(city_file()).expect("just written");
    let addresses = addresses(23, 5000);
    let path: FieldPath = "city.names.en".parse().expect("a path");
    Prepared {
        operations: 5000,
        run: Box::new(move || {
            let length = |address: &IpAddr| {
                let found = database.lookup(*address).expect("just written").record?;
                match database.field(found, &path).expect("just written")? {
                    Value::String(text) => Some(text.len() as u64),
                    _ => None,
                }
            };
            addresses.iter().filter_map(length).sum()
        }),
    }
}
