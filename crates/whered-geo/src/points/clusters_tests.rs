//! Clusters against a twin that looks at every point.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::Points;
use super::*;
use crate::bounding_box::is_between;

/// A cluster as the twin counts it: sums over its points.
#[derive(Default)]
struct Sum {
    count: usize,
    columns: u64,
    rows: u64,
    last: Option<(Vec<u8>, Place)>,
}

/// Looks at every point, each at its place in the grid.
fn naive(points: &Points, sides: [f64; 4], step: u32) -> Vec<(Place, usize, Option<Vec<u8>>)> {
    let part_step = (step + PART_STEPS).min(STEPS);
    let mut sums: BTreeMap<u64, Sum> = BTreeMap::new();
    for (member, cell) in points.iter().filter(|(_, cell)| is_between(sides, cell.place())) {
        let (x, y) = deinterleave(cell.bits());
        let last = (1 << STEPS) - 1;
        let (x, y) = (x.min(last), y.min(last));
        let at = |step: u32| (x >> (STEPS - step), y >> (STEPS - step));
        let sum = sums.entry(interleave(at(step).0, at(step).1)).or_default();
        sum.count += 1;
        sum.columns += u64::from(at(part_step).0);
        sum.rows += u64::from(at(part_step).1);
        sum.last = Some((member.to_vec(), cell.place()));
    }
    let shown = |sum: Sum| match sum {
        Sum { count: 1, last: Some((member, place)), .. } => (place, 1, Some(member)),
        Sum { count, columns, rows, .. } => {
            let degrees = |sum: u64, limit: f64| {
                let mean = sum as f64 / count as f64 + 0.5;
                mean / f64::from(1_u32 << part_step) * 2.0 * limit - limit
            };
            let longitude_degrees = degrees(columns, 180.0);
            let latitude_degrees = degrees(rows, LATITUDE_LIMIT_DEGREES);
            (Place { longitude_degrees, latitude_degrees }, count, None)
        }
    };
    sums.into_values().map(shown).collect()
}

fn agrees(points: &Points, sides: [f64; 4], zoom: u32) -> usize {
    let [west, south, east, north] = sides;
    let rectangle = BoundingBox::new(west, south, east, north).unwrap();
    let found = points.clusters(&rectangle, zoom);
    let expected = naive(points, sides, step_of(&rectangle, zoom));
    assert!(found.clusters.len() <= CLUSTERS_MAX);
    assert_eq!(found.total, expected.iter().map(|cluster| cluster.1).sum::<usize>());
    let owned =
        |cluster: &Cluster<'_>| (cluster.place, cluster.count, cluster.member.map(<[u8]>::to_vec));
    let found: Vec<_> = found.clusters.iter().map(owned).collect();
    assert_eq!(found, expected, "{sides:?} at zoom {zoom}");
    found.len()
}

fn points_of(places: impl IntoIterator<Item = (f64, f64)>) -> Points {
    let mut points = Points::new();
    for (number, (x, y)) in places.into_iter().enumerate() {
        let place = Place::new(x, y.clamp(-LATITUDE_LIMIT_DEGREES, LATITUDE_LIMIT_DEGREES));
        points.insert(format!("m{number}").as_bytes(), Cell::from_place(place.unwrap()));
    }
    points
}

const EVERYWHERE: [f64; 4] = [-180.0, -90.0, 180.0, 90.0];

fn longitude() -> impl Strategy<Value = f64> {
    prop_oneof![-180.0..=180.0_f64, Just(180.0), Just(-180.0), 7.0..=7.01_f64]
}

fn latitude() -> impl Strategy<Value = f64> {
    prop_oneof![-85.05112878..=85.05112878_f64, Just(85.05112878), 50.0..=50.01_f64]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn clusters_are_those_of_the_twin(
        places in prop::collection::vec((longitude(), latitude()), 0..2000),
        west in longitude(), east in longitude(), south in latitude(), height in 0.0..90.0_f64,
        zoom in 0_u32..30,
    ) {
        let points = points_of(places);
        agrees(&points, [west, south, east, (south + height).min(90.0)], zoom);
        agrees(&points, EVERYWHERE, zoom);
    }
}

#[test]
fn crowds_are_counted_by_the_branches_as_their_points_are() {
    // A spiral of 60,000 points around one place: far more than are read one by one.
    let spiral = (0..60_000).map(|number| {
        let turn = f64::from(number) * 0.1;
        let radius = f64::from(number) * 1e-4;
        (8.0 + radius * turn.cos(), 50.0 + radius * turn.sin())
    });
    let points = points_of(spiral);
    for zoom in [0, 1, 3, 6, 10, 15] {
        agrees(&points, EVERYWHERE, zoom);
        agrees(&points, [7.3, 49.7, 9.1, 50.2], zoom);
        agrees(&points, [9.1, 49.7, 7.3, 50.2], zoom);
    }
}

#[test]
fn one_crowded_cell_is_one_cluster_inside_and_none_outside() {
    let points = points_of((0..20_000).map(|_| (8.0, 50.0)));
    for zoom in [0, 5, 23, 30] {
        assert_eq!(agrees(&points, EVERYWHERE, zoom), 1);
        assert_eq!(agrees(&points, [7.9, 49.9, 8.1, 50.1], zoom), 1);
        assert_eq!(agrees(&points, [8.1, 49.9, 8.2, 50.1], zoom), 0);
    }
}

#[test]
fn the_poles_and_both_sides_of_the_date_line_have_their_points() {
    let limit = LATITUDE_LIMIT_DEGREES;
    let corners =
        [(180.0, limit), (-180.0, -limit), (180.0, -limit), (-180.0, limit), (0.0, limit)];
    let points = points_of(corners.into_iter().cycle().take(1_000));
    let counts = |sides| agrees(&points, sides, 3);
    assert_eq!(counts(EVERYWHERE), 5);
    assert_eq!(counts([170.0, -90.0, -170.0, 90.0]), 4);
    assert_eq!(counts([-180.0, 80.0, -170.0, 90.0]), 2, "longitude 180 is that of -180");
    assert_eq!(counts([-10.0, 85.0, 10.0, 90.0]), 1);
}

#[test]
fn an_empty_collection_has_no_cluster() {
    assert_eq!(Points::new().clusters(&BoundingBox::everywhere(), 3), Clusters::default());
}
