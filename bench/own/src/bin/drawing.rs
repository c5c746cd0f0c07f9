//! The server's cost of drawing a map: a million points as clusters, as numbers, their bounds, and
//! the catchment areas of a pool of ten sites over a city database.
//!
//! For: the bars of the console's questions. Not for: sockets, JSON.
//! Usage: `drawing [ROUNDS [DATABASE.mmdb]]`, five rounds and a generated database if not said.
//!
//! Time is the best of the rounds: of points the thread's processor time; of catchment areas, which
//! all processors share, the time of the clock. Clusters must add up to the points of their box,
//! which a walk over all points counts. The first drawing of a catchment area walks over the
//! database; `site down` is one after a site has gone down.

#![allow(clippy::print_stdout, reason = "the figures are what it is run for")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use whered_bench::Random;
use whered_bench::data::{Scale, city};
use whered_bench::measure::thread_cpu_nanoseconds;
use whered_engine::geo::{Area, BoundingBox, Cell, Found, Place, Points};
use whered_engine::{
    CatchmentGrid, DatabaseSource, Engine, EngineOptions, HealthOverride, PoolSource, Setup, Site,
    ZoneSource,
};

const POINTS: u64 = 1_000_000;
const SITES: u8 = 10;
const ZONE: &str = "$TTL 60\n@ IN SOA ns1 host 1 2 3 4 60\n@ IN NS ns1\nns1 IN A 192.0.2.1\n";
/// West, south, east, north, and the zoom of a screen that shows it.
const VIEWS: [(&str, [f64; 4], u32); 4] = [
    ("globe", [-180.0, -90.0, 180.0, 90.0], 2),
    ("Pacific", [120.0, -60.0, -100.0, 60.0], 3),
    ("Europe", [-12.0, 35.0, 35.0, 65.0], 5),
    ("a city", [8.0, 49.8, 9.0, 50.4], 11),
];

fn main() {
    let argument = |at| std::env::args().nth(at);
    let rounds: u32 =
        argument(1).map_or(5, |rounds| rounds.parse().expect("the first argument is a number"));
    println!("| what | ms |\n| --- | ---: |");
    draw_points(rounds);
    draw_catchments(rounds, argument(2).map(PathBuf::from));
}

fn print(what: &str, nanoseconds: f64) {
    println!("| {what} | {:.2} |", nanoseconds / 1e6);
}

/// The best time of the rounds.
fn best<T>(rounds: u32, mut act: impl FnMut() -> T) -> (T, f64) {
    let mut best = f64::MAX;
    let mut last = None;
    for _ in 0..rounds.max(1) {
        let now = || thread_cpu_nanoseconds().expect("a system with clocks of threads");
        let began = now();
        last = Some(act());
        best = best.min((now() - began) as f64);
    }
    (last.expect("there is a round"), best)
}

/// The time of the clock.
fn timed<T>(act: impl FnOnce() -> T) -> (T, f64) {
    let began = Instant::now();
    let done = act();
    (done, began.elapsed().as_nanos() as f64)
}

/// Half of the points all over the globe, half around two hundred towns.
fn points() -> Points {
    let mut random = Random::new(5);
    let mut degrees = |span: f64| random.fraction() * span - span / 2.0;
    let towns: Vec<(f64, f64)> = (0..200).map(|_| (degrees(350.0), degrees(120.0))).collect();
    let mut points = Points::new();
    for number in 0..POINTS {
        let (x, y) = match number % 2 {
            0 => (degrees(360.0), degrees(170.0)),
            _ => {
                let (x, y) = towns[(number / 2 % 200) as usize];
                (x + degrees(0.5), y + degrees(0.5))
            }
        };
        let cell = Cell::from_place(Place::new(x, y).expect("on the map"));
        points.insert(format!("point-{number}").as_bytes(), cell);
    }
    points
}

fn draw_points(rounds: u32) {
    let points = points();
    for (name, [west, south, east, north], zoom) in VIEWS {
        let view = BoundingBox::new(west, south, east, north).expect("a box");
        let inside = points.iter().filter(|(_, cell)| view.contains(*cell)).count();
        let (clusters, time) = best(rounds, || points.clusters(&view, zoom));
        let sum: usize = clusters.clusters.iter().map(|cluster| cluster.count).sum();
        assert_eq!((clusters.total, sum), (inside, inside), "every point once");
        let count = clusters.clusters.len();
        print(&format!("{inside} points of {name} as {count} clusters"), time);
        let ((total, drawn), time) = best(rounds, || {
            let mut found = Found::new();
            points.find_area(&Area::Box(view), &mut found);
            let places = found.sample(&points, 200_000).map(Cell::place);
            let drawn: Vec<[f32; 2]> = places
                .map(|place| [place.longitude_degrees as f32, place.latitude_degrees as f32])
                .collect();
            (found.len(), drawn.len())
        });
        assert_eq!(total, inside);
        print(&format!("{drawn} of {inside} points of {name} as numbers"), time);
    }
    let (bounds, time) = best(rounds, || points.bounds());
    assert!(bounds.is_some());
    print("bounds", time);
}

fn draw_catchments(rounds: u32, database: Option<PathBuf>) {
    let engine = open(database);
    let grid = CatchmentGrid::new(1.0).expect("an allowed side");
    let draw = |pool: &str| {
        let drawn = engine.catchment(pool, Some("city"), grid, &|| false);
        drawn.expect("a pool and a database").1
    };
    for pool in ["plain", "pinned"] {
        let (first, time) = timed(|| draw(pool));
        let networks: u64 = first.cells.iter().map(|cell| cell.networks).sum();
        let cells = first.cells.len();
        print(&format!("{pool}: {networks} networks in {cells} cells, first drawing"), time);
        let mut least = f64::MAX;
        for round in 0..rounds.max(1) {
            let to = if round % 2 == 0 { HealthOverride::Down } else { HealthOverride::Up };
            engine.override_site(pool, "site3", to).expect("a site of the pool");
            let (after, time) = timed(|| draw(pool));
            let has_site = after.cells.iter().any(|cell| cell.site == Some(3));
            assert_eq!(has_site, to == HealthOverride::Up);
            least = least.min(time);
        }
        print(&format!("{pool}: site down"), least);
        print(&format!("{pool}: drawn before"), best(rounds, || draw(pool)).1);
    }
}

fn open(database: Option<PathBuf>) -> Arc<Engine> {
    let folder = std::env::temp_dir().join(format!("whered-drawing-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let database = database.unwrap_or_else(|| {
        let path = folder.join("city.mmdb");
        let made = city(7, Scale::Full).expect("the generator knows no bad seed");
        std::fs::write(&path, made.database.as_bytes()).expect("room for the database");
        path
    });
    let zone = folder.join("zone");
    std::fs::write(&zone, ZONE).expect("room for the zone");
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
        pools: vec![pool("plain"), pool("pinned")],
        ..Setup::default()
    };
    let options = EngineOptions { setup, ..EngineOptions::default() };
    let (engine, _) = Engine::open(options).expect("the engine opens");
    std::fs::remove_dir_all(&folder).expect("the folder was just made");
    let mut random = Random::new(3);
    for _ in 0..1_000 {
        let first = std::net::Ipv4Addr::from_bits((random.below(224 << 16) << 8) as u32);
        let prefix = whered_engine::ip::Prefix::new(first.into(), 24).expect("a length of IPv4");
        engine.prefix_sets().add("pins", &[prefix], Some(b"site5"), None).expect("no journal");
    }
    engine
}

/// `pinned` has a thousand overrides, so that records do not decide alone.
fn pool(name: &str) -> PoolSource {
    let mut random = Random::new(11);
    let sites = (0..SITES).map(|number| {
        let longitude = random.below(360) as f64 - 180.0;
        let latitude = random.below(120) as f64 - 50.0;
        let place = Place::new_geographic(longitude, latitude).expect("on the globe");
        Site::new(format!("site{number}"), Some(place), vec![[192, 0, 2, number].into()])
    });
    let mut pool = PoolSource::new(name, vec![format!("{name}.example")], sites.collect());
    pool.overrides = (name == "pinned").then(|| "pins".to_owned());
    pool
}
