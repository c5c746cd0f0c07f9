//! Tests of the region: it holds what is inside, and the boxes and the rest tile it.

use super::*;
use crate::polygon::Polygon;
use proptest::prelude::*;

pub(crate) fn shapes() -> impl Strategy<Value = Shape> {
    let length = || (-1.0..7.6f64).prop_map(|exponent| 10f64.powf(exponent));
    prop_oneof![
        length().prop_map(|radius_meters| Shape::Circle { radius_meters }),
        (length(), length())
            .prop_map(|(width_meters, height_meters)| Shape::Box { width_meters, height_meters }),
        prop::collection::vec((-180.0..=180.0f64, -85.0..=85.0f64), 3..9)
            .prop_map(|vertices| polygon(&vertices)),
        (
            -179.0..=179.0f64,
            -84.0..=84.0f64,
            prop::collection::vec((-1.0..1.0f64, -1.0..1.0f64), 3..9)
        )
            .prop_map(|(x, y, offsets)| {
                polygon(
                    &offsets.iter().map(|(east, north)| (x + east, y + north)).collect::<Vec<_>>(),
                )
            }),
    ]
}

fn polygon(vertices: &[(f64, f64)]) -> Shape {
    let places: Vec<Place> = vertices.iter().map(|&(x, y)| Place::new(x, y).unwrap()).collect();
    Shape::Polygon(Polygon::new(&places).unwrap())
}

pub(crate) fn centers() -> impl Strategy<Value = Place> {
    let longitude = prop_oneof![-180.0..=180.0f64, 179.9..=180.0f64, Just(180.0), Just(-180.0)];
    let latitude = prop_oneof![-90.0..=90.0f64, 84.0..=90.0f64, -90.0..=-84.0f64, Just(90.0)];
    (longitude, latitude)
        .prop_map(|(longitude, latitude)| Place::new_geographic(longitude, latitude).unwrap())
}

/// A cell anywhere, or one around the rim of the shape, where errors would show.
pub(crate) fn candidates(center: Place, shape: &Shape, seed: [f64; 3]) -> Vec<Cell> {
    let (width, height) = match shape {
        &Shape::Circle { radius_meters } => (radius_meters, radius_meters),
        &Shape::Box { width_meters, height_meters } => (width_meters / 2.0, height_meters / 2.0),
        Shape::Polygon(_) => (1e6, 1e6),
    };
    let mut cells = vec![Cell::from_bits((seed[0] * OVERFLOW_BITS as f64) as u64).unwrap()];
    for step in 0..64 {
        let angle = (f64::from(step) + seed[1]) / 64.0 * std::f64::consts::TAU;
        let reach = 0.98 + 0.02 * seed[2];
        let latitude =
            center.latitude_degrees + degrees(height * reach * angle.sin() / EARTH_RADIUS_METERS);
        let latitude = latitude.clamp(-85.05112878, 85.05112878);
        let along = degrees(width * reach * angle.cos() / EARTH_RADIUS_METERS);
        let longitude = center.longitude_degrees + along / radians(latitude).cos();
        let longitude = (longitude + 540.0).rem_euclid(360.0) - 180.0;
        cells.push(Cell::from_place(Place::new(longitude, latitude).unwrap()));
    }
    cells
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]
    #[test]
    fn every_point_inside_lies_in_the_region_and_in_the_boxes_or_the_rest(
        center in centers(),
        shape in shapes(),
        seed in [0.0..1.0f64, 0.0..1.0f64, 0.0..1.0f64],
    ) {
        let region = Region::around(center, &shape);
        let boxes = Boxes::of(center, &shape);
        let rest = region.beyond(&boxes);
        for cell in candidates(center, &shape, seed) {
            if shape.distance_if_inside(center, cell.place()).is_some() {
                prop_assert!(region.may_hold(cell), "{cell:?}");
                let scans = boxes.ranges().chain(rest.iter().cloned());
                prop_assert_eq!(scans.filter(|scan| scan.contains(&cell.bits())).count(), 1);
            }
        }
    }

    #[test]
    fn scans_are_few_and_do_not_overlap(center in centers(), shape in shapes()) {
        let boxes = Boxes::of(center, &shape);
        let mut scans = Region::around(center, &shape).beyond(&boxes);
        prop_assert!(scans.windows(2).all(|pair| pair[0].end < pair[1].start));
        prop_assert!(scans.len() as u64 <= MOST_CELLS + 10);
        scans.extend(boxes.ranges());
        scans.sort_unstable_by_key(|scan| scan.start);
        prop_assert!(scans.windows(2).all(|pair| pair[0].end <= pair[1].start));
    }
}

#[test]
fn the_boxes_of_an_ordinary_search_leave_nothing_but_the_limit_of_the_globe() {
    for latitude in [-60.0, -33.3, 0.01, 12.0, 45.0, 60.0] {
        for radius_meters in [10.0, 1_000.0, 50_000.0, 400_000.0] {
            let center = Place::new(13.4, latitude).unwrap();
            let shape = Shape::Circle { radius_meters };
            let rest = Region::around(center, &shape).beyond(&Boxes::of(center, &shape));
            assert_eq!(rest.len(), 1, "{latitude} {radius_meters}");
            assert_eq!(rest[0], OVERFLOW_BITS..END_BITS);
        }
    }
}

#[test]
fn lengths_that_are_not_numbers_are_searched_everywhere() {
    let center = Place::new(1.0, 2.0).unwrap();
    let circle = Shape::Circle { radius_meters: f64::NAN };
    assert_eq!(Region::around(center, &circle), Region::EVERYWHERE);
    let endless = Shape::Box { width_meters: f64::INFINITY, height_meters: f64::INFINITY };
    assert_eq!(Region::around(center, &endless), Region::EVERYWHERE);
}
