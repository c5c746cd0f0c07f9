//! Steering: the choice and its exact scope against a full walk over all addresses, changes of
//! sites, reloads, and restarts.

mod support;

use std::net::{IpAddr, Ipv4Addr};

use support::{Folder, database, open, place_database, place_database_of};
use whered_engine::geo::Place;
use whered_engine::{
    ADDRESSES_PER_SITE_MAX, Engine, HealthOverride, PoolSource, ProbeResult, Probed,
    SITES_PER_POOL_MAX, Setup, Site, SiteHealth, WriteError, ZoneSource,
};

const ZONE: &[u8] =
    b"$TTL 60\n@ IN SOA ns1 host 1 2 3 4 60\n@ IN NS ns1\nns1 IN A 192.0.2.1\nwww IN A 192.0.2.2\n";

const ROWS: &[(&str, Option<(f64, f64)>)] = &[
    ("10.0.0.0/8", Some((8.7, 50.1))),
    ("10.1.0.0/16", Some((-74.0, 40.7))),
    ("10.1.128.0/17", Some((-71.0, 42.3))),
    ("10.2.3.0/24", None),
    ("10.200.0.0/13", Some((139.7, 35.7))),
    ("192.0.2.0/24", Some((139.7, 35.7))),
    ("2001:db8::/32", Some((-74.0, 40.7))),
];

const ASKED: &[Ipv4Addr] = &[
    Ipv4Addr::new(10, 0, 0, 1),
    Ipv4Addr::new(10, 1, 2, 3),
    Ipv4Addr::new(10, 1, 200, 1),
    Ipv4Addr::new(10, 2, 3, 4),
    Ipv4Addr::new(10, 201, 0, 1),
    Ipv4Addr::new(10, 255, 0, 0),
    Ipv4Addr::new(172, 16, 0, 1),
    Ipv4Addr::new(192, 0, 2, 9),
];

fn site(name: &str, longitude: f64, latitude: f64, last: u8) -> Site {
    let place = Place::new(longitude, latitude).expect("a place");
    Site::new(name, Some(place), vec![Ipv4Addr::new(192, 0, 2, last).into()])
}

fn setup(folder: &Folder, rows: &[(&str, Option<(f64, f64)>)]) -> Setup {
    Setup {
        databases: vec![database("city", folder.file("city.mmdb", &place_database(rows)))],
        zones: vec![ZoneSource {
            name: "example.com".to_owned(),
            path: folder.file("zone", ZONE),
            reversed: None,
            dnssec: whered_dns::Dnssec::Refuse,
            sign: None,
            is_secondary: false,
            member: None,
            follows_file: true,
        }],
        pools: vec![PoolSource::new(
            "www",
            vec!["www.example.com".to_owned()],
            vec![
                site("fra", 8.7, 50.1, 10),
                site("nyc", -74.0, 40.7, 20),
                site("tyo", 139.7, 35.7, 30),
            ],
        )],
        place_database: Some("city".to_owned()),
        ..Setup::default()
    }
}

fn choose(engine: &Engine, address: IpAddr) -> (Option<String>, u8) {
    let generation = engine.generation();
    let client = whered_dns::Client {
        address,
        prefix_length_bits: if address.is_ipv4() { 32 } else { 128 },
        from_ecs: true,
    };
    let choice = generation.steer(0, &client, &engine.live());
    (
        choice.first().map(|site| generation.pools()[0].sites[site].name.clone()),
        choice.scope_length_bits,
    )
}

fn chosen(engine: &Engine, address: &str) -> String {
    choose(engine, address.parse().expect("an address")).0.expect("a site")
}

/// The twin: the shortest prefix of the address below which every sampled address gets the same
/// site. The rows end at /24, so no finer sampling is needed.
fn naive_scope(engine: &Engine, address: u32, samples: &[(u32, String)]) -> u8 {
    let own = choose(engine, Ipv4Addr::from(address).into()).0.expect("a site");
    let same_below = |length: u32| {
        let mask = if length == 0 { 0 } else { u32::MAX << (32 - length) };
        samples
            .iter()
            .filter(|(other, _)| other & mask == address & mask)
            .all(|(_, site)| *site == own)
    };
    (0..=24).find(|length| same_below(*length)).expect("the address's own /24 is uniform") as u8
}

#[test]
fn the_scope_is_the_shortest_prefix_that_decides() {
    let folder = Folder::new();
    let engine = open(&folder.path().join("data"), setup(&folder, ROWS));
    // Every /24 of 10.0.0.0/8, and for each address asked for its neighbour across every bit.
    let networks = (0..1u32 << 16).map(|n| 10 << 24 | n << 8);
    let across = ASKED.iter().flat_map(|address| {
        let bits = address.to_bits();
        (0..24).map(move |bit| (bits ^ 1 << (31 - bit)) & u32::MAX << (31 - bit))
    });
    let sample = |address: u32| {
        (address, choose(&engine, Ipv4Addr::from(address).into()).0.expect("a site"))
    };
    let own = ASKED.iter().map(|address| address.to_bits());
    let samples: Vec<(u32, String)> = networks.chain(across).chain(own).map(sample).collect();
    for address in ASKED {
        let scope = choose(&engine, (*address).into()).1;
        assert_eq!(scope, naive_scope(&engine, address.to_bits(), &samples), "{address}");
    }
}

#[test]
fn the_nearest_healthy_site_is_chosen_and_the_first_one_where_nothing_is_known() {
    let folder = Folder::new();
    let engine = open(&folder.path().join("data"), setup(&folder, ROWS));
    for (address, site) in [
        ("10.0.0.1", "fra"),
        ("10.1.2.3", "nyc"),
        ("192.0.2.1", "tyo"),
        ("2001:db8::1", "nyc"),
        ("10.2.3.1", "fra"),
        ("172.16.0.1", "fra"),
    ] {
        assert_eq!(chosen(&engine, address), site, "{address}");
    }
    engine.override_site("www", "nyc", HealthOverride::Down).expect("room");
    assert_eq!(chosen(&engine, "10.1.2.3"), "fra");
    for site in ["fra", "tyo"] {
        engine.override_site("www", site, HealthOverride::Down).expect("room");
    }
    assert_eq!(chosen(&engine, "10.1.2.3"), "nyc", "when all are down, all are up");
}

#[test]
fn one_eligible_site_answers_everybody_with_scope_zero() {
    let folder = Folder::new();
    let engine = open(&folder.path().join("data"), setup(&folder, ROWS));
    engine.override_site("www", "nyc", HealthOverride::Down).expect("room");
    engine.override_site("www", "tyo", HealthOverride::Down).expect("room");
    assert_eq!(choose(&engine, "10.1.2.3".parse().unwrap()), (Some("fra".to_owned()), 0));
}

#[test]
fn changes_of_sites_survive_reload_and_restart() {
    let folder = Folder::new();
    let data = folder.path().join("data");
    let engine = open(&data, setup(&folder, ROWS));
    assert!(engine.put_site("www", site("ber", 13.4, 52.5, 40)).expect("room").value);
    engine.move_site("www", "ber", Place::new(8.6, 50.0).unwrap()).expect("room");
    engine.move_site("www", "fra", Place::new(100.0, 0.0).unwrap()).expect("room");
    assert_eq!(chosen(&engine, "10.0.0.1"), "ber");
    let before = engine.generation().number();
    engine.reload(setup(&folder, ROWS)).expect("the same files");
    assert_eq!(engine.generation().number(), before + 1);
    assert_eq!(chosen(&engine, "10.0.0.1"), "ber");
    engine.close().expect("the journal closes");
    drop(engine);
    let engine = open(&data, setup(&folder, ROWS));
    assert_eq!(chosen(&engine, "10.0.0.1"), "ber");
    engine.remove_site("www", "ber").expect("an added site can be removed");
    assert_eq!(chosen(&engine, "10.0.0.1"), "nyc");
}

#[test]
fn mistakes_are_refused_with_their_reason_and_change_nothing() {
    let folder = Folder::new();
    let engine = open(&folder.path().join("data"), setup(&folder, ROWS));
    let number = engine.generation().number();
    let place = Place::new(0.0, 0.0).unwrap();
    let no_pool = engine.move_site("nothing", "fra", place).unwrap_err();
    assert_eq!(no_pool.to_string(), "no such pool 'nothing'");
    let no_site = engine.move_site("www", "nothing", place).unwrap_err();
    assert_eq!(no_site.to_string(), "no such site 'nothing'");
    assert!(matches!(engine.remove_site("www", "fra"), Err(WriteError::Refused(_))));
    let without_address = Site { addresses: vec![], ..site("new", 0.0, 0.0, 1) };
    assert!(matches!(engine.put_site("www", without_address), Err(WriteError::Refused(_))));
    assert_eq!(engine.generation().number(), number);
}

#[test]
fn a_broken_file_leaves_the_old_generation_serving() {
    let folder = Folder::new();
    let engine = open(&folder.path().join("data"), setup(&folder, ROWS));
    let good = setup(&folder, ROWS);
    folder.file("city.mmdb", b"not a database");
    let error = engine.reload(good.clone()).unwrap_err();
    assert!(error.to_string().contains("city.mmdb"), "{error}");
    assert_eq!(engine.generation().number(), 1);
    assert_eq!(chosen(&engine, "10.1.2.3"), "nyc");
    folder.file("city.mmdb", &place_database(&[("10.0.0.0/8", Some((139.7, 35.7)))]));
    folder.file("zone", b"@ IN A 192.0.2.1\n");
    assert!(engine.reload(good.clone()).is_err(), "a zone without SOA");
    folder.file("zone", ZONE);
    engine.reload(good).expect("both files are right again");
    assert_eq!(chosen(&engine, "10.1.2.3"), "tyo");
}

#[test]
fn reasons_tell_prefix_candidates_and_choice() {
    let folder = Folder::new();
    let engine = open(&folder.path().join("data"), setup(&folder, ROWS));
    let client = whered_dns::Client {
        address: "10.1.2.3".parse().unwrap(),
        prefix_length_bits: 32,
        from_ecs: false,
    };
    let reasons = engine.explain_steer("www", &client).expect("a pool");
    assert_eq!(reasons["choice"], "nyc");
    assert_eq!(reasons["prefix"], "10.1.0.0/17");
    assert_eq!(reasons["candidates"].as_array().map(Vec::len), Some(3));
    assert_eq!(reasons["candidates"][1]["distance_meters"], 0.0);
    assert!(reasons["set_entry"].is_null() && reasons["rule"].is_null());
    assert!(engine.explain_steer("nothing", &client).is_err());
}

#[test]
fn steering_and_its_reasons_agree_on_an_address_whose_family_the_database_does_not_have() {
    let folder = Folder::new();
    let setup = setup(&folder, ROWS);
    folder.file("city.mmdb", &place_database_of(4, &[("10.0.0.0/8", Some((139.7, 35.7)))]));
    let engine = open(&folder.path().join("data"), setup);
    let address: IpAddr = "2001:db8::1".parse().unwrap();
    let (site, scope) = choose(&engine, address);
    assert_eq!((site.as_deref(), scope), (Some("fra"), 0));
    let client = whered_dns::Client { address, prefix_length_bits: 128, from_ecs: false };
    let reasons = engine.explain_steer("www", &client).expect("what is answered has reasons");
    assert_eq!(reasons["choice"], "fra");
    assert!(reasons["record"].is_null() && reasons["prefix"].is_null());
    assert_eq!(reasons["database"]["name"], "city");
}

#[test]
fn a_command_may_make_no_more_sites_or_addresses_than_the_configuration_may() {
    let folder = Folder::new();
    let mut full = setup(&folder, ROWS);
    let names = 0..SITES_PER_POOL_MAX;
    full.pools[0].sites = names.map(|n| site(&format!("s{n}"), 8.7, 50.1, 1)).collect();
    let engine = open(&folder.path().join("data"), full);
    let refused = engine.put_site("www", site("more", 0.0, 0.0, 1)).unwrap_err();
    assert!(refused.to_string().contains("4096"), "{refused}");
    engine.put_site("www", site("s7", 0.0, 0.0, 1)).expect("a site may be replaced");
    let address = |last| IpAddr::from(Ipv4Addr::new(192, 0, 2, last));
    let many = (0..=ADDRESSES_PER_SITE_MAX as u8).map(address).collect();
    let refused = engine.put_site("www", Site { addresses: many, ..site("s7", 0.0, 0.0, 1) });
    assert!(matches!(refused, Err(WriteError::Refused(_))));
    let twice = vec![address(1), address(1)];
    let refused = engine.put_site("www", Site { addresses: twice, ..site("s7", 0.0, 0.0, 1) });
    assert!(matches!(refused, Err(WriteError::Refused(_))));
}

#[test]
fn the_scope_of_an_ipv6_address_is_the_shortest_prefix_that_decides() {
    let rows = [
        ("2001:db8::/32", Some((-74.0, 40.7))),
        ("2001:db8:8000::/33", Some((139.7, 35.7))),
        ("2001:db8:8000::1/128", Some((-74.0, 40.7))),
        ("2001:db9::/32", Some((-74.0, 40.7))),
        ("10.0.0.0/8", Some((139.7, 35.7))),
    ];
    let folder = Folder::new();
    let engine = open(&folder.path().join("data"), setup(&folder, &rows));
    for (address, site, scope) in [
        ("2001:db8::1", "nyc", 33),
        ("2001:db8:8000::1", "nyc", 128),
        ("2001:db8:8000::", "tyo", 128),
        ("2001:db8:8000::2", "tyo", 127),
        ("2001:db9::1", "nyc", 32),
        ("2001:dba::1", "fra", 31),
        ("4000::", "fra", 2),
        // Inside the IPv6 tree the IPv4 addresses lie below ::/96.
        ("::a00:1", "tyo", 104),
        ("10.0.0.1", "tyo", 8),
        ("128.0.0.1", "fra", 1),
    ] {
        let address: IpAddr = address.parse().unwrap();
        assert_eq!(choose(&engine, address), (Some(site.to_owned()), scope), "{address}");
    }
}

fn probe(engine: &Engine, site: &str, probed: Probed) -> usize {
    engine.set_probe_results(&[ProbeResult { pool: "www", site, probed }])
}

fn health(engine: &Engine, site: &str) -> (bool, SiteHealth) {
    let generation = engine.generation();
    let found = generation.pools()[0].sites.iter().find(|found| found.name == site);
    let found = found.expect("a site of that name");
    (found.healthy, found.health)
}

#[test]
fn probes_decide_unless_a_person_has_said_otherwise() {
    let folder = Folder::new();
    let engine = open(&folder.path().join("data"), setup(&folder, ROWS));
    assert_eq!(probe(&engine, "nyc", Probed::Unknown), 0);
    assert_eq!(chosen(&engine, "10.1.2.3"), "nyc", "nothing known yet counts as up");
    assert_eq!(probe(&engine, "nyc", Probed::Down), 1);
    assert_eq!(chosen(&engine, "10.1.2.3"), "fra");
    engine.override_site("www", "nyc", HealthOverride::Up).expect("room");
    assert_eq!(chosen(&engine, "10.1.2.3"), "nyc");
    engine.override_site("www", "nyc", HealthOverride::Auto).expect("room");
    assert_eq!(chosen(&engine, "10.1.2.3"), "fra");
    assert_eq!(probe(&engine, "nyc", Probed::Up), 1);
    assert_eq!(chosen(&engine, "10.1.2.3"), "nyc");
    engine.override_site("www", "nyc", HealthOverride::Down).expect("room");
    assert_eq!(chosen(&engine, "10.1.2.3"), "fra");
    assert_eq!(probe(&engine, "nyc", Probed::Down), 0, "it was down by hand already");
}

#[test]
fn results_that_say_nothing_new_make_no_generation_and_strangers_are_left_out() {
    let folder = Folder::new();
    let engine = open(&folder.path().join("data"), setup(&folder, ROWS));
    probe(&engine, "nyc", Probed::Down);
    let number = engine.generation().number();
    assert_eq!(probe(&engine, "nyc", Probed::Down), 0);
    assert_eq!(probe(&engine, "nobody", Probed::Down), 0);
    let elsewhere = ProbeResult { pool: "elsewhere", site: "nyc", probed: Probed::Down };
    assert_eq!(engine.set_probe_results(&[elsewhere]), 0);
    assert_eq!(engine.generation().number(), number);
    let results = ["fra", "nyc", "tyo"].map(|site| (site, Probed::Up));
    let results = results.map(|(site, probed)| ProbeResult { pool: "www", site, probed });
    assert_eq!(engine.set_probe_results(&results), 1);
    assert_eq!(engine.generation().number(), number + 1, "many results, one generation");
}

#[test]
fn overrides_survive_a_restart_and_results_of_probes_only_a_reload() {
    let folder = Folder::new();
    let data = folder.path().join("data");
    let engine = open(&data, setup(&folder, ROWS));
    probe(&engine, "fra", Probed::Down);
    probe(&engine, "nyc", Probed::Up);
    for (site, to) in [
        ("fra", HealthOverride::Up),
        ("nyc", HealthOverride::Down),
        ("tyo", HealthOverride::Down),
        ("tyo", HealthOverride::Auto),
    ] {
        engine.override_site("www", site, to).expect("room");
    }
    let with = |probed, manual| SiteHealth { probed, manual };
    engine.reload(setup(&folder, ROWS)).expect("the same files");
    assert_eq!(health(&engine, "fra"), (true, with(Probed::Down, HealthOverride::Up)));
    assert_eq!(health(&engine, "nyc"), (false, with(Probed::Up, HealthOverride::Down)));
    engine.close().expect("the journal closes");
    drop(engine);
    let engine = open(&data, setup(&folder, ROWS));
    assert_eq!(health(&engine, "fra"), (true, with(Probed::Unchecked, HealthOverride::Up)));
    assert_eq!(health(&engine, "nyc"), (false, with(Probed::Unchecked, HealthOverride::Down)));
    assert_eq!(health(&engine, "tyo"), (true, SiteHealth::default()));
}
