//! Which of a few places is nearest to another one, within a radius.
//!
//! For: telling what a sighting is a sighting of, where each of a handful of places is looked at once.
//! Not for: searching an index ([`crate::search`]).
//!
//! ```text
//! offer ─> latitude alone is too far ─> no
//!      └─> haversine by a series ─┬─ clearly within, clearly nearer ─> it is the nearest
//!                                 ├─ clearly not ─> no
//!                                 └─ within a millionth of either ─> both by `haversine_meters`
//! ```
//! Invariant: the result is the one that [`haversine_meters`] gives, and of equally near places the
//! one with the lowest number. Cost: some forty operations a place, no call of the C library but for
//! doubtful ones; one root and a series for each [`Center`], which may be made long before its turn.

use std::f64::consts::PI;

use crate::Place;
use crate::distance::{EARTH_RADIUS_METERS, hav, hav_series, haversine_meters, radians};

/// What lies within this part of a limit is told by the exact distance: the series' error is a
/// hundredth of it, also next to a pole.
const DOUBT: f64 = 1e-6;
/// Up to this difference of latitudes a cosine follows from the other one, to 2e-10.
const CLOSE_RADIANS: f64 = 1e-3;

/// Below the square of this angle, some kilometres on the globe, two terms of a haversine's series err
/// by 3e-15 of it.
const SMALL_SQUARE: f64 = 1e-6;

/// A radius, with what is asked of it again and again.
#[derive(Clone, Copy, Debug)]
pub struct Radius {
    meters: f64,
    radians: f64,
    /// Above and below these haversines there is no doubt.
    beyond: f64,
    within: f64,
}

impl Radius {
    /// A radius in metres.
    #[must_use]
    pub fn new(meters: f64) -> Radius {
        let angle = (meters / EARTH_RADIUS_METERS).min(PI);
        Radius {
            meters,
            radians: angle * (1.0 + DOUBT),
            beyond: hav(angle) * (1.0 + DOUBT),
            within: hav(angle) * (1.0 - DOUBT),
        }
    }
}

/// A place that others are compared with, and what that needs of it.
#[derive(Clone, Copy, Debug)]
pub struct Center {
    place: Place,
    longitude: f64,
    latitude: f64,
    sine: f64,
    cosine: f64,
}

impl Center {
    /// Reckons what comparisons need of a place.
    #[inline]
    #[must_use]
    pub fn new(place: Place) -> Center {
        let latitude = radians(place.latitude_degrees);
        let cosine = cosine_of(latitude);
        let sine = (1.0 - cosine * cosine).max(0.0).sqrt().copysign(latitude);
        Center { place, longitude: radians(place.longitude_degrees), latitude, sine, cosine }
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
    hav: f64,
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
        let Center { longitude, latitude, sine, cosine, .. } = *self.from;
        let other_latitude = radians(place.latitude_degrees);
        let north = other_latitude - latitude;
        if north.abs() > self.radius.radians {
            return;
        }
        let east = radians(place.longitude_degrees) - longitude;
        // Across the date line the difference of longitudes has lost its last digits, and near a pole a
        // cosine has.
        if east.abs() > PI || cosine < 1e-3 {
            return self.offer_exactly(place, number);
        }
        let other_cosine = if north.abs() < CLOSE_RADIANS {
            cosine * (1.0 - 0.5 * north * north) - sine * north
        } else {
            cosine_of(other_latitude)
        };
        let (north_square, east_square) = (north * north, east * east);
        let hav = if north_square.max(east_square) < SMALL_SQUARE {
            hav_series::<2>(north_square) + cosine * other_cosine * hav_series::<2>(east_square)
        } else {
            hav(north) + cosine * other_cosine * hav(east)
        };
        if hav > self.radius.beyond {
            return;
        }
        let is_within = hav < self.radius.within;
        match self.best {
            Some(best) if hav > best.hav * (1.0 + DOUBT) => {}
            Some(best) if !is_within || hav >= best.hav * (1.0 - DOUBT) => {
                self.offer_exactly(place, number);
            }
            None if !is_within => self.offer_exactly(place, number),
            _ => self.best = Some(Best { hav, place, number }),
        }
    }

    #[cold]
    fn offer_exactly(&mut self, place: Place, number: u32) {
        let meters = haversine_meters(self.from.place, place);
        let is_better = |best: Best| {
            let least = haversine_meters(self.from.place, best.place);
            meters < least || meters == least && number < best.number
        };
        if meters <= self.radius.meters && self.best.is_none_or(is_better) {
            // The series has made nothing of some differences that come here.
            let hav = hav(meters / EARTH_RADIUS_METERS);
            self.best = Some(Best { hav, place, number });
        }
    }
}

/// The cosine of a latitude, to 1e-12.
#[inline]
fn cosine_of(latitude: f64) -> f64 {
    1.0 - 2.0 * hav_series::<8>(latitude * latitude)
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
