//! The generator: the same points for the same seed, within the limits, in the shares that are
//! told.

use super::*;

fn world() -> Points {
    Points::new(1, World::Mapped)
}

#[test]
fn a_point_is_a_function_of_seed_and_number() {
    let (first, again) = (world(), world());
    for number in [0, 1, 77, 1 << 40, u64::MAX] {
        assert_eq!(first.get(number), again.get(number));
    }
    let other = Points::new(2, World::Mapped);
    assert!((0..1000).filter(|&number| first.get(number) == other.get(number)).count() == 0);
}

#[test]
fn kept_points_stay_what_they_are() {
    // Dumps of rivals are kept between runs: a generator that changes must change their name too.
    let points: Vec<String> = (0..4).map(|number| world().get(number).to_string()).collect();
    assert_eq!(points, KEPT);
}

const KEPT: [&str; 4] = [
    "-1.9448776 54.6059073",
    "28.9767821 59.5731817",
    "15.8313246 -19.9653940",
    "29.0343949 -2.7624033",
];

#[test]
fn every_point_is_within_redis_limits() {
    for world in [World::Mapped, World::Clustered] {
        let points = Points::new(3, world);
        for number in 0..200_000 {
            let point = points.get(number);
            assert!(point.longitude.abs() <= 1_800_000_000, "{point}");
            assert!(point.latitude.abs() <= 850_511_287, "{point}");
        }
    }
}

#[test]
fn the_parts_have_their_shares() {
    let count = 200_000;
    let share = |world: World, part: Part| {
        let points = Points::new(5, world);
        let of_part = (0..count).filter(|&number| points.part_of(number) == part);
        of_part.count() as f64 / count as f64
    };
    let near =
        |found: f64, wanted: f64| assert!((found - wanted).abs() < 0.005, "{found} {wanted}");
    near(share(World::Mapped, Part::Metro), 0.55);
    near(share(World::Mapped, Part::Town), 0.28);
    near(share(World::Mapped, Part::Region), 0.12);
    near(share(World::Mapped, Part::Anywhere), 0.05);
    near(share(World::Clustered, Part::Metro), 0.55 / 0.88);
    near(share(World::Clustered, Part::Region), 0.0);
    near(share(World::Clustered, Part::Anywhere), 0.05 / 0.88);
}

#[test]
fn the_public_searches_return_what_they_should() {
    // One point in sixty: three standard deviations around the middle of what is wanted.
    let census = Census::take(&world(), 1_000_000, 1);
    assert_eq!(census.points, 1_000_000);
    assert!((1530..=1780).contains(&census.in_circle), "{census}");
    assert!((138..=219).contains(&census.in_box), "{census}");
    assert_eq!(census, Census::take(&world(), 1_000_000, 3));
}

#[test]
fn a_moved_point_is_as_far_as_it_should_be() {
    let mut random = Random::new(9);
    let paris = Point::from_degrees(2.35, 48.85);
    for _ in 0..1000 {
        let there = paris.near(200.0, &mut random);
        let north = (there.latitude_degrees() - 48.85) * METERS_PER_DEGREE;
        let east = (there.longitude_degrees() - 2.35) * METERS_PER_DEGREE * 0.658;
        assert!(north.hypot(east) <= 200.5, "{there}");
    }
    let beyond = Point::from_degrees(180.5, 89.0);
    assert_eq!(beyond.to_string(), "-179.5000000 85.0511287");
}

#[test]
fn degrees_are_written_with_their_sign() {
    assert_eq!(Point::from_degrees(-0.5, 0.000_000_1).to_string(), "-0.5000000 0.0000001");
    assert_eq!(Point::from_degrees(-180.0, -85.051_128_7).to_string(), "-180.0000000 -85.0511287");
}
