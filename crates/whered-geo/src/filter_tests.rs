//! Tests of the filter: what it says of a key is what the exact test says, on every path.

use super::*;
use crate::cell::{Cell, OVERFLOW_BITS};
use crate::distance::EARTH_RADIUS_METERS;
use crate::place::Place;
use crate::region::tests::{candidates, centers, shapes};
use crate::shape::Shape;
use crate::simd::{KeyBlock, masks};
use proptest::prelude::*;
use whered_simd::Path;

/// Every path of this processor.
fn paths() -> Vec<Path> {
    #[cfg_attr(not(target_arch = "x86_64"), expect(unused_mut, reason = "it has one path"))]
    let mut paths = vec![Path::Scalar];
    #[cfg(target_arch = "x86_64")]
    {
        paths.extend(whered_simd::Avx2::new().map(Path::Avx2));
        paths.extend(whered_simd::Avx512::new().map(Path::Avx512));
    }
    paths
}

/// Fails unless the masks agree with the shape's own test; tells how many were doubtful.
fn check(center: Place, shape: &Shape, keys: &[u64]) -> u32 {
    let region = Region::around(center, shape);
    let filter = Filter::new(&Cover::new(center, shape, &region), &region);
    let base = keys[0].saturating_sub(12_345);
    let deltas: Option<Vec<u32>> = keys.iter().map(|&key| u32::try_from(key - base).ok()).collect();
    let narrow = deltas.as_ref().map(|deltas| KeyBlock::Narrow { base, deltas });
    let mut doubtful = 0;
    for path in paths() {
        for block in narrow.into_iter().chain([KeyBlock::Wide(keys)]) {
            let mut haversines = [0.0; BLOCK];
            let found = masks(path, &filter, block, &mut haversines);
            assert_eq!(found.inside & found.doubtful, 0);
            assert_eq!(
                (found.inside | found.doubtful).checked_shr(keys.len() as u32).unwrap_or(0),
                0
            );
            for (lane, &key) in keys.iter().enumerate() {
                let place = Cell::from_bits(key).unwrap().place();
                let inside = shape.distance_if_inside(center, place).is_some();
                let is = |mask: u64| mask >> lane & 1 == 1;
                let agrees = is(found.doubtful) || is(found.inside) == inside;
                assert!(agrees, "{path:?} {center:?} {shape:?} {place:?} {inside}");
                check_haversine(center, shape, &filter, place, haversines[lane]);
            }
            doubtful = doubtful.max(found.doubtful.count_ones());
        }
    }
    doubtful
}

/// The ranking of the nearest.
fn check_haversine(center: Place, shape: &Shape, filter: &Filter, place: Place, h: f32) {
    if h <= filter.outside && matches!(shape, Shape::Circle { .. }) {
        let angle = center.distance_meters(place) / EARTH_RADIUS_METERS;
        let error = f64::from(h) - (angle / 2.0).sin().powi(2);
        assert!(error.abs() <= filter.error + 1e-18, "{error} {}", filter.error);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]
    #[test]
    fn keys_anywhere_and_around_the_rim_are_judged_rightly(
        center in centers(),
        shape in shapes(),
        seed in [0.0..1.0f64, 0.0..1.0f64, 0.0..1.0f64],
        count in 1usize..=64,
    ) {
        let mut keys: Vec<u64> =
            candidates(center, &shape, seed).iter().map(|cell| cell.bits()).collect();
        keys.retain(|&key| key < OVERFLOW_BITS);
        keys.truncate(count);
        keys.sort_unstable();
        check(center, &shape, &keys);
        let close: Vec<u64> = (0..64).map(|n| (keys[0] & !0xffff) + n * (seed[2] * 900.0) as u64).collect();
        check(center, &shape, &close);
    }

    #[test]
    fn points_a_hair_from_the_radius_are_judged_rightly(
        center in centers(),
        anywhere in 0..OVERFLOW_BITS,
        ulps in -3i32..=3,
        share in prop_oneof![Just(0.0), -1e-6..1e-6f64, -1e-9..1e-9f64],
    ) {
        let near = Place {
            longitude_degrees: (center.longitude_degrees * 0.999).clamp(-179.99, 179.99),
            latitude_degrees: (center.latitude_degrees * 0.999).clamp(-85.0, 85.0),
        };
        for bits in [anywhere, Cell::from_place(near).bits()] {
            let distance = center.distance_meters(Cell::from_bits(bits).unwrap().place());
            let mut radius_meters = distance * (1.0 + share);
            for _ in 0..ulps.abs() {
                radius_meters = if ulps < 0 { radius_meters.next_down() } else { radius_meters.next_up() };
            }
            check(center, &Shape::Circle { radius_meters }, &[bits]);
            let shape = Shape::Box { width_meters: 2.0 * radius_meters, height_meters: 2.0 * distance };
            check(center, &shape, &[bits]);
        }
    }
}

#[test]
fn few_points_around_the_rim_are_doubtful() {
    let center = Place::new(7.0, 55.0).unwrap();
    for (radius_meters, most) in [(200_000.0, 1), (5_000.0, 1), (100.0, 2)] {
        let shape = Shape::Circle { radius_meters };
        // Along the parallel, a hundredth of the radius to either side of the rim.
        let degrees = radius_meters / 111_200.0 / 55f64.to_radians().cos();
        let cells = (0..64).map(|n| {
            let longitude = 7.0 + degrees * (0.99 + 0.02 / 64.0 * f64::from(n));
            Cell::from_place(Place::new(longitude, 55.0).unwrap()).bits()
        });
        let mut keys: Vec<u64> = cells.collect();
        keys.sort_unstable();
        assert!(check(center, &shape, &keys) <= most, "{radius_meters}");
    }
}
