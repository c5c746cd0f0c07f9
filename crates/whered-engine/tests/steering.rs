//! Policies against a naive twin: every choice, and that each scope is the shortest prefix below
//! which all addresses have it; what moves meanwhile.
//!
//! The twin knows nothing of trees: it looks through lists. Choices change only where some list's
//! prefix begins or ends, so that these addresses stand for all.

mod support;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use support::{Folder, database};
use whered_dns::{ChoiceVerdict, Client};
use whered_engine::geo::{Cell, Place};
use whered_engine::ip::Prefix;
use whered_engine::mmdb::{Value, Writer, WriterOptions};
use whered_engine::{
    AddCondition, CatchmentCell, CatchmentGrid, Engine, EngineOptions, MapSource, PolicyStep,
    PoolSource, RulesetSource, Setup, Site, SitesFrom, ZoneSource,
};

const ZONE: &[u8] = b"$TTL 60\n@ IN SOA ns1 host 1 2 3 4 60\n@ IN NS ns1\nns1 IN A 192.0.2.1\n";
/// Longitude, latitude, country, continent.
const PLACES: [(f64, f64, &str, &str); 6] = [
    (8.7, 50.1, "DE", "EU"),
    (2.3, 48.9, "FR", "EU"),
    (-74.0, 40.7, "US", "NA"),
    (-79.4, 43.7, "CA", "NA"),
    (139.7, 35.7, "JP", "AS"),
    (103.8, 1.35, "SG", "AS"),
];
const SITES: [(&str, f64, f64); 4] =
    [("fra", 8.7, 50.1), ("nyc", -74.0, 40.7), ("tyo", 139.7, 35.7), ("sin", 103.8, 1.35)];

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    /// Prefixes that nest and neighbour each other: few values for each octet.
    fn prefix(&mut self, is_ipv4: bool) -> Prefix {
        let octet = |random: &mut Random| [0, 1, 2, 128, 255][random.below(5) as usize];
        if is_ipv4 {
            let address = Ipv4Addr::from([0; 4].map(|_: u8| octet(self)));
            Prefix::new(address.into(), self.below(33) as u8).expect("what a test gives is right")
        } else {
            let mut octets = [0_u8; 16];
            octets[..4].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
            octets[4..].iter_mut().for_each(|place| *place = octet(self));
            Prefix::new(Ipv6Addr::from(octets).into(), 28 + self.below(101) as u8)
                .expect("what a test gives is right")
        }
    }

    fn prefixes(&mut self, count: usize) -> Vec<Prefix> {
        (0..count).map(|at| self.prefix(at % 3 != 0)).collect()
    }
}

/// What the engine was given, as lists.
struct World {
    rows: Vec<(Prefix, usize)>,
    /// The same as a database of IPv6 has them: what is of IPv4 lies below ::/96, too.
    held: Vec<(Prefix, usize)>,
    overrides: Vec<(Prefix, &'static str)>,
    rules: Vec<(Prefix, &'static str)>,
    networks: Vec<(Prefix, Vec<String>)>,
}

impl World {
    fn generate(seed: u64, wide: bool) -> World {
        let mut random = Random(seed);
        let mut rows: Vec<(Prefix, usize)> = Vec::new();
        for prefix in random.prefixes(if wide { 400 } else { 60 }) {
            rows.push((prefix, random.below(PLACES.len() as u64) as usize));
        }
        let names = ["fra", "nyc", "tyo", "asia", "nowhere"];
        let name = |random: &mut Random| names[random.below(5) as usize];
        let overrides = random.prefixes(12).into_iter().map(|p| (p, name(&mut random))).collect();
        let verdicts = ["site tyo", "site asia", "drop", "reject", "continue", "accept"];
        let verdict = |random: &mut Random| verdicts[random.below(6) as usize];
        let rules = random.prefixes(8).into_iter().map(|p| (p, verdict(&mut random))).collect();
        let listed = |name: &str| vec![name.to_owned()];
        let networks =
            random.prefixes(8).into_iter().map(|p| (p, listed(name(&mut random)))).collect();
        let in_ipv6 = |(prefix, place): &(Prefix, usize)| {
            let IpAddr::V4(first) = prefix.address() else { return None };
            let first = Ipv6Addr::from_bits(first.to_bits().into());
            Some((
                Prefix::new(first.into(), 96 + prefix.length_bits())
                    .expect("what a test gives is right"),
                *place,
            ))
        };
        let mut held = rows.clone();
        held.extend(rows.iter().filter_map(in_ipv6));
        World { rows, held, overrides, rules, networks }
    }

    fn database(&self) -> Vec<u8> {
        let options = WriterOptions {
            database_type: "Test-City".to_owned(),
            ip_version: 6,
            build_epoch_seconds: 1,
            ..WriterOptions::default()
        };
        let mut writer = Writer::new(options).expect("what a test gives is right");
        // The twin knows of no ways around.
        writer.set_ipv4_aliases(false);
        // A shorter prefix written later would take longer ones' places.
        let mut rows = self.rows.clone();
        rows.sort_by_key(|(prefix, _)| prefix.length_bits());
        for (prefix, place) in rows {
            let (longitude, latitude, country, continent) = PLACES[place];
            let text = |text: &str| Value::String(text.to_owned());
            let map = |pairs: Vec<(&str, Value)>| {
                Value::Map(pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
            };
            let location = vec![
                ("latitude", Value::Double(latitude)),
                ("longitude", Value::Double(longitude)),
            ];
            let record = map(vec![
                ("continent", map(vec![("code", text(continent))])),
                ("country", map(vec![("iso_code", text(country))])),
                ("location", map(location)),
            ]);
            writer.insert(prefix, record).expect("what a test gives is right");
        }
        writer.finish().expect("what a test gives is right")
    }

    /// Where something may change: first addresses, and those behind last ones.
    fn edges(&self, is_ipv4: bool) -> Vec<u128> {
        let prefixes = self.held.iter().map(|row| row.0);
        let prefixes = prefixes.chain(self.overrides.iter().map(|entry| entry.0));
        let prefixes = prefixes.chain(self.rules.iter().map(|rule| rule.0));
        let prefixes = prefixes.chain(self.networks.iter().map(|network| network.0));
        let mut edges = vec![0];
        for prefix in prefixes.filter(|prefix| prefix.is_ipv4() == is_ipv4) {
            let first = number(prefix.address());
            let width = if is_ipv4 { 32 } else { 128 };
            let last = first | ones(width - u32::from(prefix.length_bits()));
            edges.push(first);
            edges.extend(last.checked_add(1).filter(|next| *next <= ones(width)));
        }
        edges.sort_unstable();
        edges.dedup();
        edges
    }
}

fn ones(count: u32) -> u128 {
    u128::MAX.checked_shr(128 - count).unwrap_or(0)
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn address(number: u128, is_ipv4: bool) -> IpAddr {
    if is_ipv4 {
        Ipv4Addr::from_bits(number as u32).into()
    } else {
        Ipv6Addr::from_bits(number).into()
    }
}

/// The last of equals counts, as a map's later entry takes an earlier one's place.
fn longest<T>(list: &[(Prefix, T)], address: IpAddr) -> Option<&T> {
    let holding = list.iter().filter(|(prefix, _)| prefix.contains(address));
    holding.max_by_key(|(prefix, _)| prefix.length_bits()).map(|(_, value)| value)
}

fn sites() -> Vec<Site> {
    let mut sites: Vec<Site> = SITES
        .iter()
        .zip(1..)
        .map(|((name, longitude, latitude), last)| {
            let place = Place::new(*longitude, *latitude).expect("what a test gives is right");
            Site::new(*name, Some(place), vec![Ipv4Addr::new(192, 0, 2, last).into()])
        })
        .collect();
    for site in &mut sites[2..] {
        site.details.group = Some("asia".to_owned());
    }
    sites
}

/// What a client gets: names of sites, or a verdict.
fn said(engine: &Engine, pool: usize, address: IpAddr) -> (String, u8) {
    let generation = engine.generation();
    let prefix_length_bits = if address.is_ipv4() { 32 } else { 128 };
    let client = Client { address, prefix_length_bits, from_ecs: true };
    let choice = generation.steer(pool, &client, &engine.live());
    let names = choice.answers().map(|site| generation.pools()[pool].sites[site].name.clone());
    let names: Vec<String> = names.collect();
    let text = match choice.verdict {
        ChoiceVerdict::Answer => names.join(" "),
        verdict => format!("{verdict:?}"),
    };
    (text, choice.scope_length_bits)
}

fn members(name: &str) -> Vec<usize> {
    match name {
        "asia" => vec![2, 3],
        other => SITES.iter().position(|site| site.0 == other).into_iter().collect(),
    }
}

/// Lets time pass.
#[allow(clippy::disallowed_methods, reason = "what is waited for is the clock itself")]
fn pause(millis: u64) {
    std::thread::sleep(Duration::from_millis(millis));
}

/// Which parts of a world a pool asks.
#[derive(Clone, Copy)]
struct Asks {
    overrides: bool,
    rules: bool,
    map: bool,
    answers: usize,
}

/// The twin: the policy `rules, map, healthy, nearest` over lists, without site `down`.
fn naive(world: &World, asks: Asks, down: Option<usize>, address: IpAddr) -> String {
    let up = |list: Vec<usize>| -> Vec<usize> {
        list.into_iter().filter(|site| Some(*site) != down).collect()
    };
    let named = |list: &[usize]| {
        let names: Vec<&str> = list.iter().take(asks.answers).map(|site| SITES[*site].0).collect();
        names.join(" ")
    };
    if asks.overrides
        && let Some(name) = longest(&world.overrides, address)
    {
        let list = up(members(name));
        if !list.is_empty() {
            return named(&list);
        }
    }
    if asks.rules
        && let Some((_, verdict)) = world.rules.iter().find(|(prefix, _)| prefix.contains(address))
    {
        match *verdict {
            "drop" => return "Drop".to_owned(),
            "reject" => return "Refuse".to_owned(),
            other => {
                let list = up(members(other.strip_prefix("site ").unwrap_or("")));
                if !list.is_empty() {
                    return named(&list);
                }
            }
        }
    }
    let place = longest(&world.held, address).map(|place| PLACES[*place]);
    let mut list: Vec<usize> = (0..SITES.len()).collect();
    if asks.map {
        let network = longest(&world.networks, address).map(|names| members(&names[0]));
        let country = place.and_then(|place| match place.2 {
            "DE" => Some(vec![0]),
            "US" => Some(vec![1, 0]),
            _ => None,
        });
        let continent = place.filter(|place| place.3 == "AS").map(|_| vec![2, 3]);
        let lists = [network, country, continent];
        if let Some(kept) = lists.into_iter().flatten().find(|kept| !kept.is_empty()) {
            list = kept;
        }
    }
    let left = up(list.clone());
    let mut list = if left.is_empty() { list } else { left };
    if let Some((longitude, latitude, ..)) = place {
        let at = Place::new(longitude, latitude).expect("what a test gives is right");
        let distance = |site: &usize| {
            at.distance_meters(
                Place::new(SITES[*site].1, SITES[*site].2).expect("what a test gives is right"),
            )
        };
        list.sort_by(|a, b| distance(a).total_cmp(&distance(b)));
    }
    named(&list)
}

fn engine_of(world: &World, folder: &Folder, asks: &[Asks], set_rules: bool) -> Arc<Engine> {
    let mut rules = String::from("chain steer policy continue {\n");
    for (prefix, verdict) in &world.rules {
        // A rule that goes on has nothing behind it that the twin would ask: it is the first that
        // fits.
        let verdict = if *verdict == "continue" { "accept" } else { verdict };
        rules.push_str(&format!("    src {prefix} {verdict}\n"));
    }
    rules.push_str("}\n");
    let map = MapSource {
        countries: [
            ("DE".to_owned(), vec!["fra".to_owned()]),
            ("US".to_owned(), vec!["nyc".to_owned(), "fra".to_owned()]),
        ]
        .into(),
        continents: [("AS".to_owned(), vec!["asia".to_owned()])].into(),
        networks: world.networks.clone(),
        ..MapSource::default()
    };
    let pools = asks.iter().enumerate().map(|(index, asks)| {
        let owners = vec![format!("p{index}.example.com")];
        let mut pool = PoolSource::new(format!("p{index}"), owners, sites());
        pool.policy.clear();
        if asks.rules {
            pool.policy.push(PolicyStep::Rules("edge".to_owned()));
        }
        if asks.map {
            pool.policy.push(PolicyStep::Map(Arc::new(map.clone())));
        }
        pool.policy.extend([PolicyStep::Healthy, PolicyStep::Nearest]);
        pool.overrides = asks.overrides.then(|| "pins".to_owned());
        pool.answers = asks.answers;
        pool
    });
    let setup = Setup {
        databases: vec![database("city", folder.file("city.mmdb", &world.database()))],
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
        rulesets: vec![RulesetSource::new("edge", folder.file("edge.rules", rules.as_bytes()))],
        pools: pools.collect(),
        place_database: Some("city".to_owned()),
        ..Setup::default()
    };
    let (engine, _) = Engine::open(EngineOptions { setup, ..EngineOptions::default() })
        .expect("what a test gives is right");
    if set_rules {
        for (prefix, name) in &world.overrides {
            engine
                .prefix_sets()
                .add("pins", &[*prefix], Some(name.as_bytes()), None)
                .expect("what a test gives is right");
        }
    }
    engine
}

/// Every edge has the twin's choice; its scope holds that one only, and the next shorter one
/// others.
fn agrees(engine: &Engine, pool: usize, world: &World, asks: Asks, down: Option<usize>) -> usize {
    let mut scopes = 0;
    for is_ipv4 in [true, false] {
        let width = if is_ipv4 { 32 } else { 128 };
        let edges = world.edges(is_ipv4);
        let expected: Vec<String> =
            edges.iter().map(|edge| naive(world, asks, down, address(*edge, is_ipv4))).collect();
        for (edge, expected_here) in edges.iter().zip(&expected) {
            let (told, scope) = said(engine, pool, address(*edge, is_ipv4));
            assert_eq!(told, *expected_here, "{}", address(*edge, is_ipv4));
            let others = |length: u8| {
                let first = edge & !ones(width - u32::from(length));
                let last = edge | ones(width - u32::from(length));
                // What holds at the first address is what the last edge before it says.
                let from = edges.partition_point(|edge| *edge <= first) - 1;
                let inside = edges[from..].iter().zip(&expected[from..]);
                let mut inside = inside.take_while(|(edge, _)| **edge <= last);
                inside.any(|(_, other)| other != expected_here)
            };
            assert!(!others(scope), "{}/{scope} is too short", address(*edge, is_ipv4));
            if scope > 0 {
                assert!(others(scope - 1), "{}/{scope} is too long", address(*edge, is_ipv4));
                scopes += 1;
            }
        }
    }
    scopes
}

#[test]
fn choices_and_scopes_are_those_of_the_twin() {
    let asks = [
        Asks { overrides: false, rules: false, map: false, answers: 1 },
        Asks { overrides: false, rules: false, map: true, answers: 1 },
        Asks { overrides: false, rules: true, map: false, answers: 1 },
        Asks { overrides: true, rules: false, map: false, answers: 2 },
        Asks { overrides: true, rules: true, map: true, answers: 1 },
    ];
    let mut scopes = 0;
    for seed in 0..6 {
        let world = World::generate(seed, seed % 3 == 0);
        let folder = Folder::new();
        let engine = engine_of(&world, &folder, &asks, true);
        for (pool, asks) in asks.iter().enumerate() {
            scopes += agrees(&engine, pool, &world, *asks, None);
            engine
                .override_site(&format!("p{pool}"), "tyo", whered_engine::HealthOverride::Down)
                .unwrap();
            scopes += agrees(&engine, pool, &world, *asks, Some(2));
        }
    }
    assert!(scopes > 1000, "{scopes}");
}

/// What a grid has in each cell for each site, by asking for every address at which a choice can
/// change.
fn naive_catchment(engine: &Engine, pool: usize, world: &World) -> Vec<CatchmentCell> {
    let generation = engine.generation();
    let database = generation.databases()[0].database();
    let [longitude, latitude] =
        ["longitude", "latitude"].map(|name| format!("location.{name}").parse().expect("a path"));
    let mut counts: BTreeMap<(i64, i64, Option<usize>), (u64, u64)> = BTreeMap::new();
    let edges = [true, false].map(|is_ipv4| world.edges(is_ipv4));
    for network in database.networks() {
        let (prefix, record) = network.expect("a sound database");
        let degrees = |path| database.number(record, path).expect("a sound record");
        let (Some(x), Some(y)) = (degrees(&longitude), degrees(&latitude)) else { continue };
        let (is_ipv4, first) = (prefix.is_ipv4(), number(prefix.address()));
        let width = if is_ipv4 { 32 } else { 128 };
        let last = first | ones(width - u32::from(prefix.length_bits()));
        let edges = &edges[usize::from(!is_ipv4)];
        let inside = edges.iter().copied().filter(|edge| first < *edge && *edge <= last);
        let starts: Vec<u128> = std::iter::once(first).chain(inside).collect();
        let mut sites: BTreeMap<Option<usize>, u64> = BTreeMap::new();
        for (at, start) in starts.iter().enumerate() {
            let next = starts.get(at + 1).copied();
            let count = next.unwrap_or(last.wrapping_add(1)).wrapping_sub(*start);
            let told = said(engine, pool, address(*start, is_ipv4)).0;
            let name = told.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            let site = SITES.iter().position(|site| site.0 == name);
            *sites.entry(site).or_default() += if is_ipv4 { count as u64 } else { 0 };
        }
        for (site, addresses) in sites {
            let key = ((y + 90.0).floor() as i64, (x + 180.0).floor() as i64, site);
            let count = counts.entry(key).or_default();
            *count = (count.0 + addresses, count.1 + 1);
        }
    }
    let cell = |((row, column, site), (addresses_v4, networks))| CatchmentCell {
        west_degrees: column as f64 - 180.0,
        south_degrees: row as f64 - 90.0,
        site,
        addresses_v4,
        networks,
    };
    counts.into_iter().map(cell).collect()
}

fn catchment(engine: &Engine, pool: usize) -> Vec<CatchmentCell> {
    let grid = CatchmentGrid::new(1.0).expect("an allowed side");
    let drawn = engine.catchment(&format!("p{pool}"), None, grid, &|| false);
    drawn.expect("a pool and a database").1.cells.clone()
}

#[test]
fn catchments_are_what_every_address_is_told() {
    let asks = [
        Asks { overrides: false, rules: false, map: false, answers: 1 },
        Asks { overrides: false, rules: false, map: true, answers: 1 },
        Asks { overrides: false, rules: true, map: false, answers: 1 },
        Asks { overrides: true, rules: false, map: false, answers: 2 },
        Asks { overrides: true, rules: true, map: true, answers: 1 },
    ];
    let mut cells = 0;
    for seed in 0..4 {
        let world = World::generate(seed, seed % 3 == 0);
        let folder = Folder::new();
        let engine = engine_of(&world, &folder, &asks, true);
        for pool in 0..asks.len() {
            let drawn = catchment(&engine, pool);
            cells += drawn.len();
            assert_eq!(drawn, naive_catchment(&engine, pool, &world), "seed {seed}, pool {pool}");
            let down = whered_engine::HealthOverride::Down;
            engine.override_site(&format!("p{pool}"), "tyo", down).unwrap();
            let drawn = catchment(&engine, pool);
            assert_eq!(drawn, naive_catchment(&engine, pool, &world), "seed {seed}, pool {pool}");
        }
    }
    assert!(cells > 100, "{cells}");
}

#[test]
fn a_catchment_follows_overrides_and_is_given_again_until_something_changes() {
    let asks = [Asks { overrides: true, rules: false, map: false, answers: 1 }];
    let mut world = World::generate(9, false);
    let folder = Folder::new();
    let engine = engine_of(&world, &folder, &asks, false);
    world.overrides.clear();
    let grid = CatchmentGrid::new(1.0).expect("an allowed side");
    let draw = || engine.catchment("p0", Some("city"), grid, &|| false).expect("a drawing").1;
    let first = draw();
    assert!(Arc::ptr_eq(&first, &draw()), "it is drawn once");
    let prefix = "0.0.0.0/1".parse().unwrap();
    world.overrides.push((prefix, "nyc"));
    engine.prefix_sets().add("pins", &[prefix], Some(b"nyc"), None).unwrap();
    let second = draw();
    assert_ne!(first, second);
    assert_eq!(second.cells, naive_catchment(&engine, 0, &world));
}

#[test]
fn a_catchment_ends_when_nobody_waits_for_it() {
    let asks = [Asks { overrides: false, rules: false, map: false, answers: 1 }];
    let world = World::generate(2, false);
    let folder = Folder::new();
    let engine = engine_of(&world, &folder, &asks, false);
    let grid = CatchmentGrid::new(1.0).expect("an allowed side");
    let draw = |pool, database| engine.catchment(pool, database, grid, &|| true);
    assert_eq!(draw("p0", None).unwrap_err(), whered_engine::ExplainError::TooLong);
    assert!(draw("p9", None).unwrap_err().to_string().contains("no such pool 'p9'"));
    assert!(draw("p0", Some("x")).unwrap_err().to_string().contains("no such database 'x'"));
}

#[test]
fn a_place_alone_gets_the_nearest_site_and_rules_and_overrides_are_left_out() {
    let asks = [Asks { overrides: true, rules: true, map: true, answers: 1 }];
    let world = World::generate(4, false);
    let folder = Folder::new();
    let engine = engine_of(&world, &folder, &asks, true);
    let choose = |longitude, latitude| {
        let place = Place::new_geographic(longitude, latitude).unwrap();
        let generation = engine.generation();
        let first = generation.steer_at(0, place, &engine.live()).first();
        let told = engine.explain_steer_at("p0", place).unwrap();
        let name = first.map(|site| SITES[site].0);
        assert_eq!(told["choice"].as_str(), name);
        assert_eq!(told["question"]["left_out"], serde_json::json!(["overrides", "rules", "map"]));
        name
    };
    assert_eq!(choose(10.0, 50.0), Some("fra"));
    assert_eq!(choose(140.0, 36.0), Some("tyo"));
    engine.override_site("p0", "tyo", whered_engine::HealthOverride::Down).unwrap();
    assert_eq!(choose(140.0, 36.0), Some("sin"));
    assert_eq!(choose(0.0, 90.0), Some("fra"), "the pole is a place");
}

#[test]
fn overrides_work_at_once_and_go_at_once() {
    let asks = [Asks { overrides: true, rules: false, map: false, answers: 1 }];
    let mut world = World::generate(77, false);
    let all = std::mem::take(&mut world.overrides);
    let folder = Folder::new();
    let engine = engine_of(&world, &folder, &asks, true);
    agrees(&engine, 0, &world, asks[0], None);
    for (prefix, name) in all {
        world.overrides.retain(|(known, _)| *known != prefix);
        world.overrides.push((prefix, name));
        engine.prefix_sets().add("pins", &[prefix], Some(name.as_bytes()), None).unwrap();
        agrees(&engine, 0, &world, asks[0], None);
    }
    while let Some((prefix, _)) = world.overrides.pop() {
        engine.prefix_sets().remove("pins", &[prefix]).unwrap();
        agrees(&engine, 0, &world, asks[0], None);
    }
}

#[test]
fn many_questions_between_changes_are_kept_and_stay_right() {
    let asks = [Asks { overrides: true, rules: true, map: true, answers: 1 }];
    let mut world = World::generate(5, true);
    let folder = Folder::new();
    let engine = engine_of(&world, &folder, &asks, true);
    // More than it takes for blocks to be kept.
    for _ in 0..2 {
        agrees(&engine, 0, &world, asks[0], None);
    }
    let prefix = "2.0.0.0/7".parse().unwrap();
    world.overrides.push((prefix, "nyc"));
    engine.prefix_sets().add("pins", &[prefix], Some(b"nyc"), None).unwrap();
    agrees(&engine, 0, &world, asks[0], None);
}

#[test]
fn an_override_that_expires_is_gone() {
    let asks = [Asks { overrides: true, rules: false, map: false, answers: 1 }];
    let mut world = World::generate(3, false);
    world.overrides.clear();
    let folder = Folder::new();
    let engine = engine_of(&world, &folder, &asks, false);
    let client: IpAddr = "203.0.113.9".parse().unwrap();
    let before = said(&engine, 0, client).0;
    let other = if before == "nyc" { "fra" } else { "nyc" };
    let until = engine.now_millis() + 150;
    let prefix: Prefix = "203.0.113.0/24".parse().unwrap();
    engine.prefix_sets().add("pins", &[prefix], Some(other.as_bytes()), Some(until)).unwrap();
    assert_eq!(said(&engine, 0, client).0, other);
    while engine.now_millis() <= until {
        pause(10);
    }
    assert_eq!(said(&engine, 0, client).0, before);
}

#[test]
fn points_that_move_move_the_answers() {
    let world = World::generate(1, false);
    let folder = Folder::new();
    let mut setup_pool = PoolSource::new("fleet", vec!["fleet.example.com".to_owned()], sites());
    setup_pool.sites_from =
        Some(SitesFrom { collection: "fleet".to_owned(), refresh: Duration::ZERO });
    let setup = Setup {
        databases: vec![database("city", folder.file("city.mmdb", &world.database()))],
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
        pools: vec![setup_pool],
        ..Setup::default()
    };
    let (engine, _) = Engine::open(EngineOptions { setup, ..EngineOptions::default() }).unwrap();
    let row = world.rows.iter().max_by_key(|row| row.0.length_bits()).unwrap();
    let (longitude, latitude, ..) = PLACES[row.1];
    let client = row.0.address();
    assert_eq!(said(&engine, 0, client).0, "", "nobody is in the collection");
    let put = |member: &[u8], longitude: f64, latitude: f64| {
        let cell = Cell::from_place(Place::new(longitude, latitude).unwrap());
        let points: [(&[u8], Cell); 1] = [(member, cell)];
        engine.keyspace().add_points(0, b"fleet", &points, AddCondition::Always).unwrap();
        pause(5);
    };
    put(b"nyc", -longitude, -latitude);
    assert_eq!(said(&engine, 0, client), ("nyc".to_owned(), 0));
    put(b"tyo", longitude, latitude);
    assert_eq!(said(&engine, 0, client).0, "tyo");
    put(b"nyc", longitude, latitude);
    put(b"tyo", -longitude, -latitude);
    assert_eq!(said(&engine, 0, client).0, "nyc");
}

#[test]
fn failover_keeps_the_first_group_of_which_enough_is_up() {
    let folder = Folder::new();
    let mut pool = PoolSource::new("p", vec!["p.example.com".to_owned()], Vec::new());
    for (name, group) in [("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("b2", "b")] {
        let mut site = Site::new(name, None, vec!["192.0.2.1".parse().unwrap()]);
        site.details.group = Some(group.to_owned());
        pool.sites.push(site);
    }
    pool.policy = vec![PolicyStep::Failover { threshold: 0.6 }, PolicyStep::Healthy];
    pool.answers = 16;
    let zone = folder.file("zone", ZONE);
    let zones = vec![ZoneSource {
        name: "example.com".to_owned(),
        path: zone,
        reversed: None,
        dnssec: whered_dns::Dnssec::Refuse,
        sign: None,
        is_secondary: false,
        member: None,
        follows_file: true,
    }];
    let setup = Setup { zones, pools: vec![pool], ..Setup::default() };
    let (engine, _) = Engine::open(EngineOptions { setup, ..EngineOptions::default() }).unwrap();
    let said = || said(&engine, 0, "192.0.2.9".parse().unwrap());
    let set = |site: &str, healthy| {
        use whered_engine::HealthOverride::{Down, Up};
        engine.override_site("p", site, if healthy { Up } else { Down }).unwrap();
    };
    assert_eq!(said(), ("a1 a2 a3".to_owned(), 0));
    set("a2", false);
    assert_eq!(said().0, "a1 a3", "two of three are enough");
    set("a3", false);
    assert_eq!(said().0, "b1 b2", "one of three is not");
    set("b1", false);
    assert_eq!(said().0, "a1", "of none enough: the first group, as far as it is up");
    set("a1", false);
    assert_eq!(said().0, "a1 a2 a3", "and all of it when none is");
}

#[test]
fn weights_decide_at_random_for_each_query_and_leave_the_scope() {
    let folder = Folder::new();
    let mut pool = PoolSource::new("p", vec!["p.example.com".to_owned()], sites());
    pool.policy = vec![PolicyStep::Healthy, PolicyStep::Weighted { is_sticky: false }];
    for (site, weight) in pool.sites.iter_mut().zip([5, 3, 2, 0]) {
        site.details.weight = weight;
    }
    let zone = folder.file("zone", ZONE);
    let zones = vec![ZoneSource {
        name: "example.com".to_owned(),
        path: zone,
        reversed: None,
        dnssec: whered_dns::Dnssec::Refuse,
        sign: None,
        is_secondary: false,
        member: None,
        follows_file: true,
    }];
    let setup = Setup { zones, pools: vec![pool], ..Setup::default() };
    let (engine, _) = Engine::open(EngineOptions { setup, ..EngineOptions::default() }).unwrap();
    let mut counts = std::collections::BTreeMap::<String, usize>::new();
    for _ in 0..10_000 {
        let (name, scope) = said(&engine, 0, "192.0.2.9".parse().unwrap());
        assert_eq!(scope, 0);
        *counts.entry(name).or_default() += 1;
    }
    let near = |name: &str, expected: usize| counts[name].abs_diff(expected) < 300;
    assert!(near("fra", 5000) && near("nyc", 3000) && near("tyo", 2000), "{counts:?}");
    assert_eq!(counts.len(), 3);
    let reasons = engine.explain_steer(
        "p",
        &Client { address: "192.0.2.9".parse().unwrap(), prefix_length_bits: 32, from_ecs: false },
    );
    let reasons = reasons.unwrap();
    assert_eq!(reasons["choice"][0]["share"], 0.5);
}

#[test]
fn reasons_name_the_override_the_rule_and_the_list() {
    let asks = [Asks { overrides: true, rules: true, map: true, answers: 1 }];
    let mut world = World::generate(9, false);
    world.overrides = vec![("192.0.2.0/25".parse().unwrap(), "nyc")];
    world.rules = vec![("192.0.2.128/26".parse().unwrap(), "site tyo")];
    world.networks = vec![("192.0.2.192/26".parse().unwrap(), vec!["asia".to_owned()])];
    let folder = Folder::new();
    let engine = engine_of(&world, &folder, &asks, true);
    let explain = |address: &str| {
        let client =
            Client { address: address.parse().unwrap(), prefix_length_bits: 32, from_ecs: true };
        engine.explain_steer("p0", &client).unwrap()
    };
    let pinned = explain("192.0.2.1");
    assert_eq!(pinned["set_entry"]["prefix"], "192.0.2.0/25");
    assert_eq!(pinned["choice"], "nyc");
    let ruled = explain("192.0.2.129");
    assert_eq!(ruled["rule"]["verdict"], "site tyo");
    assert!(ruled["rule"]["origin"].as_str().unwrap().ends_with("edge.rules:2"), "{ruled}");
    assert_eq!(ruled["choice"], "tyo");
    let listed = explain("192.0.2.193");
    assert_eq!(listed["map"]["list"], "192.0.2.192/26");
    assert_eq!(listed["rule"]["verdict"], "continue");
}
