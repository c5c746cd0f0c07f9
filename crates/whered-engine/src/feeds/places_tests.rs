//! Sightings in groups, each approached before the group's others are noted, beside a walk through
//! all positions one sighting at a time.

use whered_geo::Place;

use super::*;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// What a sum of places is of.
struct Position {
    member: u32,
    ordinal: u32,
    count: f64,
    longitudes: f64,
    latitudes: f64,
}

/// The rule as it is written: of the member's positions within the radius the nearest, the oldest of
/// equally near ones; else a new one.
fn naive(rows: &mut Vec<Position>, member: u32, place: Place, radius_meters: f64) -> Sighted {
    let mut best: Option<(f64, usize)> = None;
    for (number, row) in rows.iter().enumerate().filter(|(_, row)| row.member == member) {
        let longitude_degrees = row.longitudes / row.count;
        let mean = Place { longitude_degrees, latitude_degrees: row.latitudes / row.count };
        let meters = mean.distance_meters(place);
        if meters <= radius_meters && best.is_none_or(|(least, _)| meters < least) {
            best = Some((meters, number));
        }
    }
    let Place { longitude_degrees, latitude_degrees } = place;
    if let Some((_, number)) = best {
        let row = &mut rows[number];
        row.longitudes += longitude_degrees;
        row.latitudes += latitude_degrees;
        row.count += 1.0;
        return Sighted { row: number as u32, ordinal: row.ordinal };
    }
    let ordinal = 1 + rows.iter().filter(|row| row.member == member).count() as u32;
    let (longitudes, latitudes) = (longitude_degrees, latitude_degrees);
    rows.push(Position { member, ordinal, count: 1.0, longitudes, latitudes });
    Sighted { row: rows.len() as u32 - 1, ordinal }
}

#[test]
fn sightings_that_are_approached_together_are_those_of_one_after_the_other() {
    let mut random = Random(5);
    for (radius_meters, spread) in
        [(25.0, 40), (25.0, 2_000), (3_000.0, 40_000), (90_000.0, 400_000)]
    {
        let mut places = Places::new(PlaceRule::Merged(radius_meters));
        let (mut rows, mut names) = (Vec::new(), Vec::new());
        places.begin(1);
        for _ in 0..60 {
            let group: Vec<(u64, Place)> = (0..1 + random.below(40))
                .map(|_| {
                    let mut degrees = |from: f64| from + random.below(spread) as f64 * 1e-5;
                    let (longitude_degrees, latitude_degrees) = (degrees(8.0), degrees(79.0));
                    (random.below(4), Place { longitude_degrees, latitude_degrees })
                })
                .collect();
            let texts: Vec<Vec<u8>> =
                group.iter().map(|(name, _)| format!("object {name}").into_bytes()).collect();
            let mut approaches: Vec<Approach> =
                texts.iter().map(|text| places.approach(text)).collect();
            for ((approach, text), (_, place)) in approaches.iter_mut().zip(&texts).zip(&group) {
                places.approach_member(approach, text, *place);
            }
            approaches.iter_mut().for_each(|approach| places.approach_rows(approach));
            for ((approach, text), (name, place)) in approaches.iter().zip(&texts).zip(&group) {
                let known = names.iter().position(|other| other == name);
                let member = known.unwrap_or(names.len()) as u32;
                if known.is_none() {
                    names.push(*name);
                }
                let expected = naive(&mut rows, member, *place, radius_meters);
                assert_eq!(places.sight(approach, text, *place, 0), expected, "{place:?}");
            }
        }
        assert_eq!(places.len() as usize, rows.len());
    }
}
