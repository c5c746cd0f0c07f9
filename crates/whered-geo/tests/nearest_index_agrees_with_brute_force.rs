//! The index for joins against a sort of all points by their distance.

use whered_geo::distance::haversine_meters;
use whered_geo::{Cell, NearestFinder, NearestIndex, Place, Points};
use whered_random::Random;

/// A member with its cell, in their order.
type Entry = (Cell, Vec<u8>);

fn place(random: &mut Random, (x, y): (f64, f64), spread: f64) -> Place {
    let mut signed = || random.below(2_000_001) as f64 / 1e6 - 1.0;
    let longitude = x + spread * signed();
    Place {
        longitude_degrees: (longitude + 540.0).rem_euclid(360.0) - 180.0,
        latitude_degrees: (y + spread.min(90.0) * signed()).clamp(-90.0, 90.0),
    }
}

fn index_of(cells: impl Iterator<Item = Cell>) -> (NearestIndex, Vec<Entry>) {
    let mut points = Points::new();
    let mut entries = Vec::new();
    for (number, cell) in cells.enumerate() {
        // Names of all lengths, also of those that are kept apart.
        let length = if number % 401 == 0 { 1500 } else { number % 30 };
        let member = format!("{:0length$}", (number * 7919) % 100_003).into_bytes();
        points.insert(&member, cell);
        entries.push((cell, member));
    }
    entries.sort();
    (NearestIndex::new(points.freeze()), entries)
}

fn brute_force(
    entries: &[Entry],
    center: Place,
    count: usize,
    radius_meters: f64,
) -> Vec<(f64, &[u8])> {
    let meters = |cell: Cell| haversine_meters(center, cell.place());
    let mut all: Vec<(f64, &[u8])> =
        entries.iter().map(|(cell, member)| (meters(*cell), &member[..])).collect();
    all.retain(|(meters, _)| *meters <= radius_meters);
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all.truncate(count);
    all
}

fn check(
    finder: &mut NearestFinder<'_>,
    entries: &[Entry],
    center: Place,
    count: usize,
    radius: f64,
) {
    let hits = finder.find(center, count, radius);
    let found: Vec<(f64, &[u8])> =
        hits.iter().map(|hit| (hit.distance_meters, hit.member)).collect();
    assert_eq!(found, brute_force(entries, center, count, radius), "{center:?} {count} {radius}");
    for hit in hits {
        assert_eq!(hit.place, hit.cell.place());
    }
}

const CORNERS: [(f64, f64); 7] = [
    (0.0, 0.0),
    (8.5, 50.0),
    (180.0, 10.0),
    (-180.0, -60.0),
    (20.0, 89.9),
    (-70.0, -90.0),
    (13.0, 85.0),
];

#[test]
fn the_nearest_are_those_of_a_sort_by_distance() {
    let mut random = Random::new(1);
    for round in 0..60 {
        let size = [0, 1, 2, 15, 16, 17, 255, 256, 257, 3000][round % 10];
        let corner = CORNERS[round % 7];
        let spread = [1e-6, 1e-4, 1e-2, 1.0, 30.0, 180.0][round % 6];
        let (index, entries) =
            index_of((0..size).map(|_| Cell::from_place(place(&mut random, corner, spread))));
        let mut finder = NearestFinder::new(&index);
        for query in 0..40 {
            let spread = spread * [1.0, 3.0, 100.0][query % 3];
            let mut center = place(&mut random, corner, spread.min(180.0));
            if query % 8 == 0 {
                // On the other side of the globe.
                center.longitude_degrees -= 180.0_f64.copysign(center.longitude_degrees);
                center.latitude_degrees *= -1.0;
            }
            let count = [1, 1, 2, 5, 40, 5000, 0][random.below(7) as usize];
            let radius = [f64::INFINITY, 3e7, 1e6, 1e4, 10.0, 0.0, -1.0][random.below(7) as usize];
            check(&mut finder, &entries, center, count, radius);
        }
    }
}

#[test]
fn members_of_one_cell_come_in_the_order_of_their_names() {
    let at = |x, y| Cell::from_place(Place::new(x, y).unwrap());
    let cells =
        (0..2000).map(|number| if number % 100 == 0 { at(8.5, 50.0) } else { at(8.0, 50.0) });
    let (index, entries) = index_of(cells);
    let mut finder = NearestFinder::new(&index);
    for count in [1, 2, 300, 1980, 1981, 1990, 3000] {
        for x in [8.1, 8.4, -100.0] {
            check(&mut finder, &entries, Place::new(x, 50.0).unwrap(), count, f64::INFINITY);
        }
    }
}

#[test]
fn a_point_at_exactly_the_radius_is_found_and_one_beyond_it_is_not() {
    let mut random = Random::new(2);
    let (index, entries) =
        index_of((0..500).map(|_| Cell::from_place(place(&mut random, (8.5, 50.0), 0.1))));
    let mut finder = NearestFinder::new(&index);
    for _ in 0..200 {
        let center = place(&mut random, (8.5, 50.0), 0.1);
        let (meters, _) = brute_force(&entries, center, 1, f64::INFINITY)[0];
        for radius in [meters, meters.next_down(), meters.next_up()] {
            check(&mut finder, &entries, center, 1, radius);
        }
    }
}

#[test]
fn cells_at_the_limits_of_the_globe_are_found() {
    let corners = [(180.0, 85.05112878), (-180.0, -85.05112878), (180.0, 0.0), (0.0, 85.05112878)];
    let cells = corners.map(|(x, y)| Cell::from_place(Place::new(x, y).unwrap()));
    let (index, entries) = index_of(cells.into_iter());
    let mut finder = NearestFinder::new(&index);
    for (x, y) in CORNERS.into_iter().chain(corners).chain([(0.0, 90.0), (0.0, -90.0)]) {
        check(&mut finder, &entries, Place::new_geographic(x, y).unwrap(), 4, f64::INFINITY);
    }
}

#[test]
fn a_radius_that_is_no_number_excludes_nothing() {
    let (index, _) = index_of([Cell::MIN, Cell::MAX].into_iter());
    let mut finder = NearestFinder::new(&index);
    assert_eq!(finder.find(Place::new(0.0, 0.0).unwrap(), 5, f64::NAN).len(), 2);
}

#[test]
fn building_ends_when_the_caller_says_so() {
    let mut points = Points::new();
    for number in 0..70_000_u64 {
        points.insert(&number.to_le_bytes(), Cell::from_bits(number << 20).unwrap());
    }
    assert_eq!(NearestIndex::try_new(points.freeze(), || Err("enough")).err(), Some("enough"));
    let index = NearestIndex::new(points.freeze());
    assert!((30 * 70_000..40 * 70_000).contains(&index.memory_bytes()));
    assert_eq!(index.tree().len(), 70_000);
}
