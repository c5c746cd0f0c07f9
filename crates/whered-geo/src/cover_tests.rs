//! Tests of the cover: what it says of a quad holds for every point in it.

use super::*;
use crate::cell::{Cell, OVERFLOW_BITS};
use crate::region::tests::{centers, shapes};
use proptest::prelude::*;

/// Quads of all sizes around a cell, and some cells of each: its corners and one within.
fn probes(bits: u64) -> impl Iterator<Item = (u64, u32, Vec<u64>)> {
    (0..=STEPS).map(move |step| {
        let size = 1u64 << (2 * (STEPS - step));
        let start = bits / size * size;
        let corners = [0, size / 3, size / 3 * 2, size - 1, bits - start];
        (start, step, corners.iter().map(|corner| start + corner).collect())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]
    #[test]
    fn points_of_a_quad_are_what_the_quad_is(
        center in centers(),
        shape in shapes(),
        anywhere in 0..OVERFLOW_BITS,
        near in (-0.1..0.1f64, -0.1..0.1f64),
    ) {
        let region = Region::around(center, &shape);
        let cover = Cover::new(center, &shape, &region);
        let beside = Place {
            longitude_degrees: (center.longitude_degrees + near.0).clamp(-179.999_99, 179.999_99),
            latitude_degrees: (center.latitude_degrees + near.1).clamp(-85.051, 85.051),
        };
        let rim = region.quads().map(|range| range.start).filter(|&bits| bits < OVERFLOW_BITS);
        let places = [anywhere, Cell::from_place(beside).bits()].into_iter().chain(rim);
        for (start, step, cells) in places.flat_map(probes) {
            let quad = cover.quad(start, step);
            let side = cover.side(&quad);
            for bits in cells {
                let place = Cell::from_bits(bits).unwrap().place();
                let inside = shape.distance_if_inside(center, place).is_some();
                let agrees = match side {
                    Side::Inside => inside,
                    Side::Outside => !inside,
                    Side::Edge => true,
                };
                prop_assert!(agrees, "{side:?} {inside} step {step} at {start}");
            }
        }
    }

    #[test]
    fn quarters_are_the_quads_of_the_next_step(
        center in centers(),
        shape in shapes(),
        bits in 0..OVERFLOW_BITS,
        step in 0..STEPS,
    ) {
        let size = 1u64 << (2 * (STEPS - step));
        let cover = Cover::new(center, &shape, &Region::EVERYWHERE);
        let quad = cover.quad(bits / size * size, step);
        for (number, quarter) in cover.quarters(&quad).iter().enumerate() {
            let start = quad.bits + number as u64 * (size / 4);
            prop_assert_eq!(format!("{quarter:?}"), format!("{:?}", cover.quad(start, step + 1)));
        }
    }

    #[test]
    fn a_range_is_cut_into_quads_without_a_gap(start in 0..OVERFLOW_BITS, length in 1u64..1 << 40) {
        let range = start..(start + length).min(OVERFLOW_BITS);
        let mut at = range.start;
        for (bits, step) in quads_of(range.clone()) {
            let size = 1u64 << (2 * (STEPS - step));
            prop_assert!(bits == at && bits % size == 0);
            at += size;
        }
        prop_assert_eq!(at, range.end);
    }
}

#[test]
fn half_the_globe_and_lengths_that_are_no_numbers_hold_everything() {
    let center = Place::new(12.0, 34.0).unwrap();
    for radius_meters in [PI * EARTH_RADIUS_METERS * 1.1, f64::INFINITY, f64::NAN] {
        let shape = Shape::Circle { radius_meters };
        let cover = Cover::new(center, &shape, &Region::around(center, &shape));
        assert_eq!(cover.side(&cover.quad(0, 0)), Side::Inside);
        let shape = Shape::Box { width_meters: radius_meters * 2.0, height_meters: f64::NAN };
        let cover = Cover::new(center, &shape, &Region::around(center, &shape));
        assert_eq!(cover.side(&cover.quad(0, 0)), Side::Inside);
    }
}

#[test]
fn a_circle_is_covered_by_few_quads_at_its_edge() {
    let center = Place::new(7.0, 55.0).unwrap();
    let shape = Shape::Circle { radius_meters: 200_000.0 };
    let region = Region::around(center, &shape);
    let cover = Cover::new(center, &shape, &region);
    let mut quads: Vec<Quad> =
        region.quads().flat_map(quads_of).map(|(bits, step)| cover.quad(bits, step)).collect();
    let mut edges = Vec::new();
    while quads.first().is_some_and(|quad| quad.step < 16) {
        quads.retain(|quad| cover.side(quad) == Side::Edge);
        edges.push((quads[0].step, quads.len()));
        quads = quads.iter().flat_map(|quad| cover.quarters(quad)).collect();
    }
    // A curve crosses about twice as many when they are half as large.
    for pair in edges.windows(2).skip(5) {
        assert!(pair[1].1 * 10 < pair[0].1 * 23, "{edges:?}");
    }
    assert!(edges.last().unwrap().1 < 6_000, "{edges:?}");
}
