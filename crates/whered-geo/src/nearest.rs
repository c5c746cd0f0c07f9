//! Which of a few places is nearest to another one, within a radius.
//!
//! For: telling what a sighting is a sighting of, where each of a handful of places is looked at
//! once. Not for: searching an index ([`crate::search`]).
//!
//! ```text
//! offer ─> latitude alone is too far ─> no
//!      └─> on a plane that touches the globe ─┬─ clearly within, clearly nearer ─> it is the nearest
//!                                             ├─ clearly not ─> no
//!                                             └─ in doubt ─> both by `haversine_meters`
//! ```
//! The plane: `h = sin²(a/2) + cos φ cos φ' sin²(b/2)`, of differences `a` and `b`, is taken for
//! `(a² + cos² φ b²) / 4`. Up to 80 degrees of latitude, within a radius of `α` and differences of
//! longitudes up to a tenth (all in radians), `cos φ' / cos φ` lies within `5.68 α + α²` of 1, and
//! each sine's square within a twelfth of the angle's. Elsewhere everything is in doubt, and so is
//! what differs by less than a millimetre: degrees become radians with an error of some nanometres.
//!
//! Invariant: the result is the one that [`haversine_meters`] gives, and of equally near places the
//! one with the lowest number. Cost: some ten operations a place, no call of the C library but for
//! doubtful ones, a thousandth of those near a radius of some metres.

use crate::Place;
use crate::distance::{EARTH_RADIUS_METERS, hav_series, haversine_meters, radians};

/// Beyond this latitude there is no plane.
const FLAT_LATITUDE_DEGREES_MAX: f64 = 80.0;
/// Nor between longitudes that differ by more, a tenth in radians.
const FLAT_EAST_DEGREES_MAX: f64 = 5.7;
/// Nor for a larger radius.
const FLAT_METERS_MAX: f64 = 200e3;
/// A millimetre, in degrees, and its square: what is nearer than that is in doubt.
const NEAR_DEGREES: f64 = 1e-8;
const NEAR_SQUARE: f64 = NEAR_DEGREES * NEAR_DEGREES;

/// A radius, with what is asked of it again and again.
#[derive(Clone, Copy, Debug)]
pub struct Radius {
    meters: f64,
    /// A little more than the radius.
    degrees: f64,
    /// Above and below these squares, of degrees on the plane, there is no doubt.
    beyond: f64,
    within: f64,
    /// What two squares differ by at least, as a part of either, if there is no doubt which is
    /// nearer.
    clearly: f64,
}

impl Radius {
    /// A radius in metres.
    #[must_use]
    pub fn new(meters: f64) -> Radius {
        let angle = meters / EARTH_RADIUS_METERS;
        let degrees = angle.to_degrees();
        let doubt = 1e-3 + 6.0 * angle + 50.0 * angle * angle;
        let degrees_max = degrees * (1.0 + 1e-6) + NEAR_DEGREES;
        if meters > FLAT_METERS_MAX {
            let (beyond, within, clearly) = (f64::INFINITY, 0.0, f64::INFINITY);
            return Radius { meters, degrees: degrees_max, beyond, within, clearly };
        }
        let square = degrees * degrees;
        let beyond = square * (1.0 + doubt) + NEAR_SQUARE;
        let within = square * (1.0 - doubt) - NEAR_SQUARE;
        Radius { meters, degrees: degrees_max, beyond, within, clearly: 2.5 * doubt }
    }
}

/// A place that others are compared with, and what that needs of it.
#[derive(Clone, Copy, Debug)]
pub struct Center {
    place: Place,
    /// Not a number where there is no plane.
    cosine_square: f64,
}

impl Center {
    /// Computes what comparisons need of a place.
    #[inline]
    #[must_use]
    pub fn new(place: Place) -> Center {
        let latitude = radians(place.latitude_degrees);
        let cosine = 1.0 - 2.0 * hav_series::<6>(latitude * latitude);
        let is_flat = place.latitude_degrees.abs() <= FLAT_LATITUDE_DEGREES_MAX;
        Center { place, cosine_square: if is_flat { cosine * cosine } else { f64::NAN } }
    }
}

/// Takes places one after the other, and keeps the nearest.
///
/// ```
/// use whered_geo::{Center, NearestWithin, Place, Radius};
///
/// let at = |longitude_degrees, latitude_degrees| Place { longitude_degrees, latitude_degrees };
/// let (center, radius) = (Center::new(at(8.5, 50.0)), Radius::new(25.0));
/// let mut nearest = NearestWithin::new(&center, &radius);
/// nearest.offer(at(8.5001, 50.0), 7);
/// nearest.offer(at(8.5003, 50.0), 3);
/// nearest.offer(at(8.6, 50.0), 1);
/// assert_eq!(nearest.number(), Some(7));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct NearestWithin<'a> {
    from: &'a Center,
    radius: &'a Radius,
    best: Option<Best>,
}

#[derive(Clone, Copy, Debug)]
struct Best {
    /// On the plane; not a number if that is not known.
    square: f64,
    place: Place,
    number: u32,
}

impl<'a> NearestWithin<'a> {
    /// Nothing yet is within this radius of a place.
    #[inline]
    #[must_use]
    pub fn new(from: &'a Center, radius: &'a Radius) -> NearestWithin<'a> {
        NearestWithin { from, radius, best: None }
    }

    /// The number of the nearest place within the radius.
    #[inline]
    #[must_use]
    pub fn number(&self) -> Option<u32> {
        self.best.map(|best| best.number)
    }

    /// Looks at one more place.
    #[inline]
    pub fn offer(&mut self, place: Place, number: u32) {
        let Center { place: from, cosine_square } = *self.from;
        let north = place.latitude_degrees - from.latitude_degrees;
        if north.abs() > self.radius.degrees {
            return;
        }
        let east = place.longitude_degrees - from.longitude_degrees;
        let square = north * north + cosine_square * east * east;
        // Of what is not a number nothing is said, and it comes to the exact distance.
        let square = if east.abs() < FLAT_EAST_DEGREES_MAX { square } else { f64::NAN };
        if square > self.radius.beyond {
            return;
        }
        let clearly = self.radius.clearly;
        let is_better = match self.best {
            Some(best) if square > best.square * (1.0 + clearly) + NEAR_SQUARE => return,
            Some(best) => square < best.square * (1.0 - clearly) - NEAR_SQUARE,
            None => true,
        };
        if is_better && square < self.radius.within {
            self.best = Some(Best { square, place, number });
        } else {
            self.offer_exactly(square, place, number);
        }
    }

    #[cold]
    fn offer_exactly(&mut self, square: f64, place: Place, number: u32) {
        let meters = haversine_meters(self.from.place, place);
        let is_better = |best: Best| {
            let least = haversine_meters(self.from.place, best.place);
            meters < least || meters == least && number < best.number
        };
        if meters <= self.radius.meters && self.best.is_none_or(is_better) {
            self.best = Some(Best { square, place, number });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn naive(from: Place, radius_meters: f64, places: &[Place]) -> Option<u32> {
        let mut best: Option<(f64, u32)> = None;
        for (number, place) in (0..).zip(places) {
            let meters = haversine_meters(from, *place);
            if meters <= radius_meters && best.is_none_or(|(least, _)| meters < least) {
                best = Some((meters, number));
            }
        }
        best.map(|(_, number)| number)
    }

    struct Random(u64);

    impl Random {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.0 >> 33) % bound
        }

        fn signed(&mut self) -> f64 {
            self.below(2_000_001) as f64 / 1e6 - 1.0
        }
    }

    #[test]
    fn it_is_the_nearest_by_the_exact_distance() {
        let corners = [
            (0.0, 0.0),
            (8.5, 50.0),
            (180.0, 10.0),
            (-180.0, -60.0),
            (20.0, 89.999),
            (-70.0, -90.0),
            (120.0, 85.0),
        ];
        let mut random = Random(7);
        let mut found = 0;
        for round in 0..40_000 {
            let radius_meters = [0.01, 1.0, 25.0, 3e3, 2e5, 3e7][round % 6];
            let degrees = (radius_meters / 1e5_f64).min(90.0);
            let (x, y) = corners[random.below(7) as usize];
            let mut place = || {
                let x = x + random.signed() * degrees * [1.0, 1.0, 30.0][random.below(3) as usize];
                let y = (y + random.signed() * degrees).clamp(-90.0, 90.0);
                Place {
                    longitude_degrees: (x + 540.0).rem_euclid(360.0) - 180.0,
                    latitude_degrees: y,
                }
            };
            let from = place();
            let mut places: Vec<Place> = (0..6).map(|_| place()).collect();
            // The same place twice, the place itself, one due north, and one due east.
            places.push(places[1]);
            places.push(Place { latitude_degrees: places[2].latitude_degrees, ..from });
            places.push(Place { longitude_degrees: places[3].longitude_degrees, ..from });
            if round % 5 == 0 {
                places.push(from);
            }
            let (center, radius) = (Center::new(from), Radius::new(radius_meters));
            let mut nearest = NearestWithin::new(&center, &radius);
            let numbers = (0..).zip(&places);
            if round % 2 == 0 {
                numbers.for_each(|(number, place)| nearest.offer(*place, number));
            } else {
                let numbers: Vec<_> = numbers.collect();
                numbers.iter().rev().for_each(|(number, place)| nearest.offer(**place, *number));
            }
            let expected = naive(from, radius_meters, &places);
            assert_eq!(nearest.number(), expected, "{from:?} {radius_meters} {places:?}");
            found += usize::from(expected.is_some());
        }
        assert!((20_000..40_000).contains(&found), "{found}");
    }

    #[test]
    fn neighbours_that_radians_cannot_tell_apart_are_equally_near() {
        let mut random = Random(3);
        let mut equal = 0;
        for round in 0..20_000 {
            // Some steps of a double beside each other, where one of a degree is half of one in
            // radians.
            let (x, y) = (115.0 + random.signed().abs() * 13.0, random.signed() * 79.0);
            let mut place = || {
                let steps = |random: &mut Random| random.below(5) as f64 * 1.5e-14;
                let longitude_degrees = x + steps(&mut random);
                Place { longitude_degrees, latitude_degrees: y + steps(&mut random) }
            };
            let (from, places) = (place(), [place(), place(), place()]);
            let radius_meters = [1e-9, 1e-3, 25.0, 3e5][round % 4];
            let (center, radius) = (Center::new(from), Radius::new(radius_meters));
            let mut nearest = NearestWithin::new(&center, &radius);
            let mut numbers = [0, 1, 2];
            if round % 2 == 0 {
                numbers.reverse();
            }
            for number in numbers {
                nearest.offer(places[number], number as u32);
            }
            assert_eq!(
                nearest.number(),
                naive(from, radius_meters, &places),
                "{from:?} {places:?}"
            );
            equal += usize::from(haversine_meters(from, places[1]) == 0.0 && from != places[1]);
        }
        assert!(equal > 0, "some of them are equal in radians");
    }

    #[test]
    fn a_radius_that_a_place_is_at_exactly_includes_it() {
        let from = Place { longitude_degrees: 8.5, latitude_degrees: 50.0 };
        for (x, y) in [(8.5001, 50.0), (8.5, 50.0002), (8.4999, 49.9997), (-171.0, -50.0)] {
            let place = Place { longitude_degrees: x, latitude_degrees: y };
            let meters = haversine_meters(from, place);
            for (radius_meters, expected) in
                [(meters, Some(1)), (meters.next_down(), None), (meters.next_up(), Some(1))]
            {
                let (center, radius) = (Center::new(from), Radius::new(radius_meters));
                let mut nearest = NearestWithin::new(&center, &radius);
                nearest.offer(place, 1);
                assert_eq!(nearest.number(), expected, "{place:?} {radius_meters}");
            }
        }
    }
}
