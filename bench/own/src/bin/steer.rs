//! What a pool costs above a plain answer, without the network: the choice for a client subnet and
//! its exact scope, over a generated database of a city database's size.
//!
//! For: the figures in `docs/design/steering.md`. Not for: sockets.
//! Usage: `steer [ROUNDS [small]]`, five rounds if not said.
//!
//! Every query has a client subnet option with a random /24 below 224.0.0.0. `plain` asks for an
//! address record of the zone, `nearest` a pool of twenty sites, `map` one by countries and
//! continents, `pinned` the nearest with a thousand overrides. Time is the thread's processor time,
//! the best of the rounds; `first` is the round that finds nothing made yet. Scopes are printed,
//! and every answer must be one.

#![allow(clippy::print_stdout, reason = "the figures are what it is run for")]

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use whered_bench::Random;
use whered_bench::data::{Scale, city};
use whered_bench::measure::thread_cpu_nanoseconds;
use whered_dns::message::{self, Message};
use whered_dns::{
    Answers, Client, Context, Name, Outcome, Query, RecordType, Transport, Workspace, answer_batch,
};
use whered_engine::geo::Place;
use whered_engine::ip::Prefix;
use whered_engine::{
    DatabaseSource, Engine, EngineOptions, MapSource, PolicyStep, PoolSource, Setup, Site,
    ZoneSource,
};

const BATCH: usize = 32;
const ROOM: usize = 1232;
const QUERIES: usize = 1_000_000;
const SITES: u8 = 20;
const SOURCE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const ZONE: &str = "$TTL 60\n@ IN SOA ns1 host 1 2 3 4 60\n@ IN NS ns1\nns1 IN A 192.0.2.1\nplain IN A 192.0.2.2\n";

fn main() {
    let argument = |at| std::env::args().nth(at);
    let rounds =
        argument(1).map_or(5, |rounds| rounds.parse().expect("the first argument is a number"));
    let scale = if argument(2).as_deref() == Some("small") { Scale::Small } else { Scale::Full };
    let engine = open(scale);
    println!("| kind | first, ns | ns | above plain | answers/s | mean scope |");
    println!("| --- | --- | --- | --- | --- | --- |");
    let mut plain = 0.0;
    for kind in ["plain", "nearest", "map", "pinned"] {
        let queries = queries(kind);
        let (first, scope) = check(&engine, &queries);
        let mut best = f64::MAX;
        for _ in 0..rounds {
            best = best.min(run(&engine, &queries, |_| {}));
        }
        if kind == "plain" {
            plain = best;
        }
        let (above, rate) = (best - plain, 1e3 / best);
        println!("| {kind} | {first:.0} | {best:.0} | {above:.0} | {rate:.1} M | {scope:.1} |");
    }
}

fn open(scale: Scale) -> Arc<Engine> {
    let folder = std::env::temp_dir().join(format!("whered-steer-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let (database, zone) = (folder.join("city.mmdb"), folder.join("zone"));
    let made = city(7, scale).expect("the generator knows no bad seed");
    std::fs::write(&database, made.database.as_bytes()).expect("room for the database");
    std::fs::write(&zone, ZONE).expect("room for the zone");
    println!("{} networks of IPv4, {} records\n", made.networks4, made.records);
    drop(made);
    let setup = Setup {
        databases: vec![DatabaseSource::new("city", database)],
        zones: vec![ZoneSource {
            name: "example".to_owned(),
            path: zone,
            reversed: None,
            dnssec: whered_dns::Dnssec::Refuse,
            sign: None,
            is_secondary: false,
            follows_file: true,
            member: None,
        }],
        pools: vec![pool("nearest"), pool("map"), pool("pinned")],
        ..Setup::default()
    };
    let options = EngineOptions { setup, ..EngineOptions::default() };
    let (engine, _) = Engine::open(options).expect("the engine opens");
    std::fs::remove_dir_all(&folder).expect("the folder was just made");
    let mut random = Random::new(3);
    for number in 0..1000_u32 {
        let first = Ipv4Addr::from_bits((random.below(224 << 16) << 8) as u32);
        let prefix = Prefix::new(first.into(), 24).expect("a length of IPv4");
        let value = format!("site{}", number % u32::from(SITES));
        engine
            .prefix_sets()
            .add("pins", &[prefix], Some(value.as_bytes()), None)
            .expect("no journal");
    }
    engine
}

fn pool(name: &str) -> PoolSource {
    let mut random = Random::new(11);
    let sites = (0..SITES).map(|number| {
        let longitude = random.below(360) as f64 - 180.0;
        let latitude = random.below(120) as f64 - 50.0;
        let place = Place::new_geographic(longitude, latitude).expect("on the globe");
        Site::new(format!("site{number}"), Some(place), vec![[192, 0, 2, number].into()])
    });
    let mut pool = PoolSource::new(name, vec![format!("{name}.example")], sites.collect());
    if name == "map" {
        let list = |at: usize| vec![format!("site{at}")];
        let countries = ["US", "DE", "JP", "BR", "IN", "GB", "FR"].iter().zip(0..);
        let continents = ["EU", "NA", "AS", "SA", "AF", "OC"].iter().zip(7..);
        let map = MapSource {
            countries: countries.map(|(code, at)| ((*code).to_owned(), list(at))).collect(),
            continents: continents.map(|(code, at)| ((*code).to_owned(), list(at))).collect(),
            ..MapSource::default()
        };
        pool.policy = vec![PolicyStep::Healthy, PolicyStep::Map(Arc::new(map))];
    }
    pool.overrides = (name == "pinned").then(|| "pins".to_owned());
    pool
}

fn queries(kind: &str) -> Vec<Vec<u8>> {
    let name: Name = format!("{kind}.example").parse().expect("a name");
    let mut random = Random::new(5);
    let query = |_| {
        let client = Ipv4Addr::from_bits((random.below(224 << 16) << 8) as u32);
        message::Query::new(&name, RecordType::A).client_subnet(client.into(), 24).build()
    };
    (0..QUERIES).map(query).collect()
}

struct Rooms {
    rooms: Vec<[u8; ROOM]>,
    sizes: [usize; BATCH],
}

impl Answers for Rooms {
    fn room(&mut self, index: usize) -> &mut [u8] {
        &mut self.rooms[index]
    }

    fn answered(&mut self, index: usize, size_bytes: usize, _: Outcome) {
        self.sizes[index] = size_bytes;
    }
}

/// Answers all queries and gives the nanoseconds that one took.
fn run(engine: &Engine, queries: &[Vec<u8>], mut told: impl FnMut(&[u8])) -> f64 {
    let generation = engine.generation();
    let live = engine.live();
    let mut choose = |pool: usize, client: &Client| generation.steer(pool, client, &live);
    let context = Context { chooser: Some(&*generation), ..Context::new(Transport::Udp, SOURCE) };
    let mut workspace = Workspace::new();
    let mut rooms = Rooms { rooms: vec![[0; ROOM]; BATCH], sizes: [0; BATCH] };
    let mut nanoseconds = 0;
    for queries in queries.chunks(BATCH * 64) {
        // Looking at answers is not timed.
        let now = || thread_cpu_nanoseconds().expect("the clock of this thread");
        let start = now();
        for queries in queries.chunks(BATCH) {
            let mut batch = [Query { bytes: &[], source: SOURCE }; BATCH];
            for (query, bytes) in batch.iter_mut().zip(queries) {
                query.bytes = bytes;
            }
            let batch = &batch[..queries.len()];
            let zones = generation.zones();
            answer_batch(zones, &context, batch, 0, &mut choose, &mut workspace, &mut rooms);
        }
        nanoseconds += now() - start;
        told(&rooms.rooms[0][..rooms.sizes[0]]);
    }
    nanoseconds as f64 / queries.len() as f64
}

/// The first round, of which answers are looked at; and the mean of their scopes.
fn check(engine: &Engine, queries: &[Vec<u8>]) -> (f64, f64) {
    let (mut count, mut scopes) = (0.0, 0.0);
    let first = run(engine, queries, |reply| {
        let message = Message::read(reply).expect("a reply that can be read");
        assert_eq!(message.answers.len(), 1);
        let scope = message.client_subnet().expect("the option").scope_length_bits;
        count += 1.0;
        scopes += f64::from(scope);
    });
    (first, scopes / count)
}
