//! What the doors ask: DNS answers from bytes to bytes, and the engine's write path.
//! Inputs come from `random` with a fixed seed for each operation; see `main` for the contract.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use whered_dns::{Choice, Context, Name, Transport, Zone, Zones, answer};
use whered_engine::geo::{Cell, Place, Points};
use whered_engine::{AddCondition, Engine, EngineOptions, PoolSource, Setup, Site, Value};
use whered_random::Random;

use crate::Prepared;

const NAMES: u64 = 10_000;

/// A zone of ten thousand addresses below `bench.example`.
fn zone_text() -> String {
    let mut text = String::from(
        "$TTL 300\n@ IN SOA ns1 host 1 2 3 4 60\n@ IN NS ns1\nns1 IN A 192.0.2.1\nwww IN A 192.0.2.2\n",
    );
    for n in 0..NAMES {
        text.push_str(&format!("host{n} IN A 192.0.2.{}\n", n % 250));
    }
    text
}

/// A query for one name; with a client subnet when one is given.
fn query(name: &str, subnet: Option<Ipv4Addr>) -> Vec<u8> {
    let additional = if subnet.is_some() { 1 } else { 0 };
    let mut out = vec![0x12, 0x34, 0, 0, 0, 1, 0, 0, 0, 0, 0, additional];
    for label in name.split('.') {
        out.push(label.len() as u8);
        out.extend_from_slice(label.as_bytes());
    }
    out.extend_from_slice(&[0, 0, 1, 0, 1]);
    if let Some(address) = subnet {
        // OPT with size 1232 and one option 8 (RFC 7871): family 1, source 24, scope 0.
        let octets = address.octets();
        out.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 11, 0, 8, 0, 7, 0, 1, 24, 0]);
        out.extend_from_slice(&octets[..3]);
    }
    out
}

fn answered(
    zones: &Zones,
    queries: &[Vec<u8>],
    choose: &mut dyn FnMut(usize, &whered_dns::Client) -> Choice,
) -> u64 {
    let context = Context::new(Transport::Udp, IpAddr::V4(Ipv4Addr::LOCALHOST));
    let mut reply = Vec::with_capacity(1232);
    let mut sum = 0u64;
    for query in queries {
        answer(zones, query, &context, choose, &mut reply);
        sum = sum.wrapping_mul(31).wrapping_add(reply.iter().map(|byte| u64::from(*byte)).sum());
    }
    sum
}

fn dns(seed: u64, name: impl Fn(u64) -> String) -> Prepared {
    let origin: Name = "bench.example".parse().expect("a name");
    let zone = Zone::from_master_file(&origin, zone_text().as_bytes(), &mut |_| Err("none".into()))
        .expect("a zone");
    let zones = Zones::builder().add_zone(zone).build().expect("zones");
    let mut random = Random(seed);
    let queries: Vec<_> = (0..5000).map(|_| query(&name(random.below(NAMES)), None)).collect();
    Prepared {
        operations: 5000,
        run: Box::new(move || answered(&zones, &queries, &mut |_, _| Choice::of(None, 0))),
    }
}

/// One address at an existing name.
pub(crate) fn dns_positive() -> Prepared {
    dns(31, |n| format!("host{n}.bench.example"))
}

/// No such name.
pub(crate) fn dns_nxdomain() -> Prepared {
    dns(32, |n| format!("nothing{n}.bench.example"))
}

/// A pool owner asked with client subnets: walk, nearest site, exact scope.
pub(crate) fn dns_pool() -> Prepared {
    let engine = pool_engine();
    let generation = engine.generation();
    let mut random = Random(33);
    let queries: Vec<_> = (0..2000)
        .map(|_| {
            query("www.bench.example", Some(Ipv4Addr::from(random.next_u64() as u32 & 0xffff_ff00)))
        })
        .collect();
    Prepared {
        operations: 2000,
        run: Box::new(move || {
            answered(generation.zones(), &queries, &mut |pool, client| {
                generation.steer(pool, client, &engine.live())
            })
        }),
    }
}

/// An engine that loads its database and zone from a folder of this process, removed afterwards.
fn pool_engine() -> Arc<Engine> {
    let folder = std::env::temp_dir().join(format!("whered-own-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let (database, zone) = (folder.join("city.mmdb"), folder.join("bench.zone"));
    std::fs::write(&database, crate::mmdb::city_file()).expect("room for the database");
    std::fs::write(&zone, zone_text()).expect("room for the zone");
    let site = |number: usize, longitude: f64, latitude: f64| {
        let place = Place::new(longitude, latitude).expect("a place");
        let addresses = vec![Ipv4Addr::new(192, 0, 2, number as u8).into()];
        Site::new(format!("site{number}"), Some(place), addresses)
    };
    let setup = Setup {
        databases: vec![whered_engine::DatabaseSource::new("city", database)],
        zones: vec![whered_engine::ZoneSource {
            name: "bench.example".to_owned(),
            path: zone,
            reversed: None,
            dnssec: whered_dns::Dnssec::Refuse,
            sign: None,
            is_secondary: false,
            follows_file: true,
            member: None,
        }],
        pools: vec![PoolSource::new(
            "www",
            vec!["www.bench.example".to_owned()],
            vec![
                site(1, 8.7, 50.1),
                site(2, -74.0, 40.7),
                site(3, 139.7, 35.7),
                site(4, -46.6, -23.5),
            ],
        )],
        place_database: None,
        ..Setup::default()
    };
    let (engine, _) = Engine::open(EngineOptions { setup, ..EngineOptions::default() })
        .expect("the engine opens");
    std::fs::remove_dir_all(&folder).expect("the folder was just made");
    engine
}

/// One new point a command, through the engine's locks, without a journal. Each collection draws a
/// hash key of its own, by which the cost of a table so small differs by a twentieth, so there are
/// several.
pub(crate) fn add_points() -> Prepared {
    let (engine, _) = Engine::open(EngineOptions::default()).expect("the engine opens");
    let mut random = Random(34);
    let points: Vec<(String, Cell)> = (0..5000)
        .map(|n| (n.to_string(), Cell::from_bits(random.next_u64() >> 12).expect("52 bits")))
        .collect();
    let keys: Vec<String> = (0..16).map(|n| format!("key{n}")).collect();
    Prepared {
        operations: 16 * 5000,
        run: Box::new(move || {
            let keyspace = engine.keyspace();
            let all = keys.iter().flat_map(|key| points.iter().map(move |point| (key, point)));
            for (key, (member, cell)) in all {
                let one = [(member.as_bytes(), *cell)];
                keyspace
                    .add_points(0, key.as_bytes(), &one, AddCondition::Always)
                    .expect("no journal, no error");
            }
            let count =
                |value: Option<&Value>| value.and_then(Value::points).map_or(0, Points::len);
            keys.iter().map(|key| keyspace.read(0, key.as_bytes(), count) as u64).sum()
        }),
    }
}
