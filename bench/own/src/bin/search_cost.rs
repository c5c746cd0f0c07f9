//! What searches cost, without a server around them.
//!
//! For: measuring changes of the search: `cargo run --release -p whered-own-bench --bin search_cost
//! -- [points [name [milliseconds]]]`, 10 million points and every kind by default. Not for:
//! comparisons with other programs, nor for tests.
//!
//! The points are a fixed function of their number, clustered like a map: metropolitan areas,
//! towns, land at random. Members are the decimal numbers. For each kind of search: hits, and
//! microseconds of this thread's CPU time for one search with all reply bytes copied into a buffer
//! that is used again. Hot repeats one search; cold goes from place to place of the same kind.
#![allow(clippy::print_stdout, reason = "the program's output")]

use std::hint::black_box;

use whered_bench::Random;
use whered_geo::{Cell, Found, FoundCursor, Order, Place, Points, Search, Shape};

/// Longitude, latitude, weight.
const METROS: [(f64, f64, f64); 24] = [
    (2.35, 48.86, 5.0),
    (139.76, 35.68, 6.0),
    (-0.12, 51.5, 4.0),
    (13.4, 52.52, 3.0),
    (-74.0, 40.71, 4.0),
    (-118.24, 34.05, 3.0),
    (37.62, 55.75, 3.0),
    (8.55, 55.0, 1.0),
    (9.99, 53.55, 2.0),
    (4.9, 52.37, 3.0),
    (-99.13, 19.43, 2.0),
    (-46.63, -23.55, 2.0),
    (77.2, 28.61, 2.0),
    (116.4, 39.9, 3.0),
    (121.47, 31.23, 3.0),
    (151.2, -33.87, 1.0),
    (28.05, -26.2, 1.0),
    (31.24, 30.04, 1.0),
    (-87.63, 41.88, 2.0),
    (12.49, 41.9, 2.0),
    (-3.7, 40.42, 2.0),
    (106.85, -6.2, 2.0),
    (126.98, 37.57, 3.0),
    (-58.38, -34.6, 1.0),
];

fn near_point(random: &mut Random, longitude: f64, latitude: f64, reach_degrees: f64) -> Place {
    let radius = reach_degrees * random.fraction().powi(3);
    let angle = random.fraction() * std::f64::consts::TAU;
    let latitude = latitude + radius * angle.sin();
    let longitude = longitude + radius * angle.cos() / latitude.to_radians().cos();
    at((longitude + 540.0).rem_euclid(360.0) - 180.0, latitude)
}

fn at(longitude: f64, latitude: f64) -> Place {
    Place::new(longitude.clamp(-180.0, 180.0), latitude.clamp(-85.0, 85.0)).expect("on the globe")
}

fn point(number: u64) -> Place {
    let mut random = Random::new(number.wrapping_mul(0xd134_2543_de82_ef95));
    let kind = random.fraction();
    if kind < 0.5 {
        let total: f64 = METROS.iter().map(|metro| metro.2).sum();
        let mut share = random.fraction() * total;
        for &(longitude, latitude, weight) in &METROS {
            share -= weight;
            if share <= 0.0 {
                return near_point(&mut random, longitude, latitude, 0.6);
            }
        }
    }
    if kind < 0.85 {
        // A town's place is itself a function of its number.
        let town = (20_000.0 * random.fraction().powi(3)) as u64;
        let mut of_town = Random::new(town.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let europe = of_town.fraction() < 0.4;
        let (west, width, south, height) =
            if europe { (-9.0, 40.0, 37.0, 24.0) } else { (-125.0, 270.0, -35.0, 95.0) };
        let (longitude, latitude) =
            (west + width * of_town.fraction(), south + height * of_town.fraction());
        return near_point(&mut random, longitude, latitude, 0.15);
    }
    at(-180.0 + 360.0 * random.fraction(), -60.0 + 135.0 * random.fraction())
}

/// Nanoseconds that this thread has run.
fn cpu_nanoseconds() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// One search, and its reply as a door would write it.
fn answer(points: &Points, search: &Search, found: &mut Found, reply: &mut Vec<u8>) -> usize {
    points.find(search, found);
    reply.clear();
    if search.order == Order::Unsorted {
        let mut cursor = FoundCursor::default();
        while let Some(bulks) = found.next_bulks(points, &mut cursor) {
            reply.extend_from_slice(bulks);
        }
    } else {
        for hit in found.hits(points) {
            reply.extend_from_slice(hit.bulk());
            reply.extend_from_slice(&hit.distance_bounds_meters().0.to_le_bytes());
        }
    }
    found.len()
}

fn measure(points: &Points, name: &str, searches: &[Search], budget_nanoseconds: u64) {
    let (mut found, mut reply) = (Found::new(), Vec::new());
    let (mut hits, mut bytes) = (0, 0);
    for search in searches {
        hits += answer(points, search, &mut found, &mut reply);
        bytes += reply.len();
    }
    let mut best = f64::INFINITY;
    let mut rounds = 1;
    let start = cpu_nanoseconds();
    while cpu_nanoseconds() - start < budget_nanoseconds {
        let before = cpu_nanoseconds();
        for _ in 0..rounds {
            for search in searches {
                black_box(answer(points, search, &mut found, &mut reply));
            }
        }
        let spent = cpu_nanoseconds() - before;
        if spent < 200_000_000 {
            rounds *= 2;
            continue;
        }
        best = best.min(spent as f64 / 1e3 / (rounds * searches.len()) as f64);
    }
    let (hits, bytes) = (hits / searches.len(), bytes / searches.len());
    println!("{name:<34} {hits:>8} hits {bytes:>9} bytes {best:>9.2} us");
}

fn search(center: Place, shape: &Shape, count: Option<usize>) -> Search {
    let order = if count.is_some() { Order::Ascending } else { Order::Unsorted };
    Search { center, shape: shape.clone(), order, count, any: false }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let count = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(10_000_000u64);
    let only = arguments.next().unwrap_or_default();
    let budget = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(600u64);
    let mut entries: Vec<(u64, u64)> =
        (1..=count).map(|number| (Cell::from_place(point(number)).bits(), number)).collect();
    entries.sort_unstable();
    let before = cpu_nanoseconds();
    let mut points = Points::new();
    for &(bits, number) in &entries {
        let cell = Cell::from_bits(bits).expect("it came from a cell");
        points.insert(number.to_string().as_bytes(), cell);
    }
    let spent = (cpu_nanoseconds() - before) as f64 / count as f64;
    let size = points.memory_bytes() as f64 / count as f64;
    println!(
        "{count} points, {size:.1} bytes and {spent:.0} ns each; path {:?}",
        whered_simd::path()
    );
    drop(entries);

    let circle = |radius_meters: f64| Shape::Circle { radius_meters };
    let spec = at(7.0, 55.0);
    let paris = at(2.35, 48.86);
    let kansas = at(-98.5, 38.5);
    let mut random = Random::new(5);
    let mut near = |longitude: f64, latitude: f64, reach: f64| -> Vec<Place> {
        (0..512)
            .map(|_| {
                at(
                    longitude + reach * (random.fraction() - 0.5),
                    latitude + reach * (random.fraction() - 0.5),
                )
            })
            .collect()
    };
    let (dense, sparse) = (near(2.35, 48.86, 0.1), near(-98.5, 38.5, 6.0));
    let all = |places: &[Place], shape: &Shape, count: Option<usize>| -> Vec<Search> {
        places.iter().map(|&place| search(place, shape, count)).collect()
    };
    let wide = Shape::Box { width_meters: 200_000.0, height_meters: 200_000.0 };
    let kinds: [(&str, Vec<Search>); 16] = [
        ("200 km", all(&[spec], &circle(200_000.0), None)),
        ("200 by 200 km", all(&[spec], &wide, None)),
        ("5 km, 10 nearest, dense, hot", all(&[paris], &circle(5_000.0), Some(10))),
        ("5 km, 10 nearest, dense, cold", all(&dense, &circle(5_000.0), Some(10))),
        ("1 km, 10 nearest, dense, cold", all(&dense, &circle(1_000.0), Some(10))),
        ("5 km, 10 nearest, sparse, cold", all(&sparse, &circle(5_000.0), Some(10))),
        ("200 km, 10 nearest, sparse, cold", all(&sparse, &circle(200_000.0), Some(10))),
        ("1 km, 1000 nearest, dense, cold", all(&dense, &circle(1_000.0), Some(1000))),
        ("5 km, dense, hot", all(&[paris], &circle(5_000.0), None)),
        ("1 km, dense, hot", all(&[paris], &circle(1_000.0), None)),
        ("1 km, dense, cold", all(&dense, &circle(1_000.0), None)),
        ("100 m, dense, cold", all(&dense, &circle(100.0), None)),
        ("1 km, sparse, hot", all(&[kansas], &circle(1_000.0), None)),
        ("1 km, sparse, cold", all(&sparse, &circle(1_000.0), None)),
        ("5 km, sparse, cold", all(&sparse, &circle(5_000.0), None)),
        ("5,000 km", all(&[spec], &circle(5_000_000.0), None)),
    ];
    for (name, searches) in &kinds {
        if only.is_empty() || *name == only {
            measure(&points, name, searches, budget * 1_000_000);
        }
    }
    if only.is_empty() {
        measure_the_rest(&points, spec);
    }
}

/// Shapes and orders that no bar is set for.
fn measure_the_rest(points: &Points, spec: Place) {
    let circle = Shape::Circle { radius_meters: 200_000.0 };
    let triangle = [at(2.0, 53.0), at(11.0, 54.0), at(8.0, 57.0)];
    let polygon = whered_geo::Polygon::new(&triangle).expect("three vertices");
    let center = polygon.center();
    measure(points, "triangle", &[search(center, &Shape::Polygon(polygon), None)], 600_000_000);
    let farthest = Search { order: Order::Descending, ..search(spec, &circle, Some(10)) };
    measure(points, "200 km, 10 farthest", &[farthest], 600_000_000);
    let sorted = Search { order: Order::Ascending, ..search(spec, &circle, None) };
    measure(points, "200 km, all sorted", &[sorted], 600_000_000);
}
