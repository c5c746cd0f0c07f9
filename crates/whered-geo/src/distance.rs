//! The distance between two places, to the last bit as Redis 7.0.15 computes it.
//!
//! For: one formula, used by every search, sort and reply.
//! Not for: ellipsoids; the earth is a sphere here, as it is for Redis (error up to 0.5 %).
//! Why bits matter: a point lies inside a circle by `distance <= radius`, and stored distances
//! are printed with 17 digits, so another order of operations would be seen by clients.
//! Cost: four sines or cosines, one of them once for all distances from an origin, an arc sine and a
//! root; on one meridian two.

use crate::place::Place;

/// The radius of the sphere, in meters (the quadratic mean radius of WGS 84 that Redis uses).
pub const EARTH_RADIUS_METERS: f64 = 6_372_797.560856;

/// One degree, in radians.
const DEGREE_RADIANS: f64 = std::f64::consts::PI / 180.0;

/// Turns degrees into radians by one multiplication.
pub(crate) fn radians(degrees: f64) -> f64 {
    degrees * DEGREE_RADIANS
}

/// Turns radians into degrees by one division: the inverse of [`radians`], as Redis rounds it.
pub(crate) fn degrees(radians: f64) -> f64 {
    radians / DEGREE_RADIANS
}

/// The distance along a meridian between two latitudes, in meters.
pub fn latitude_distance_meters(from_degrees: f64, to_degrees: f64) -> f64 {
    EARTH_RADIUS_METERS * (radians(to_degrees) - radians(from_degrees)).abs()
}

/// The great-circle distance by the haversine formula, in meters.
///
/// Two places on one meridian take the shorter way through [`latitude_distance_meters`], which
/// rounds differently from the long way and is therefore part of the definition. The root is
/// held to at most 1, so that no rounding between antipodes can give a distance that is not a
/// number; in twenty million random pairs of antipodes it was never more.
pub fn haversine_meters(from: Place, to: Place) -> f64 {
    Origin::new(from).meters_to(to)
}

/// A place that many distances are told from, with what they all need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub(crate) place: Place,
    longitude: f64,
    latitude: f64,
    cosine: f64,
}

impl Origin {
    pub(crate) fn new(place: Place) -> Origin {
        let latitude = radians(place.latitude_degrees);
        Origin {
            place,
            longitude: radians(place.longitude_degrees),
            latitude,
            cosine: latitude.cos(),
        }
    }

    /// [`haversine_meters`] from here.
    pub(crate) fn meters_to(&self, to: Place) -> f64 {
        let v = ((radians(to.longitude_degrees) - self.longitude) / 2.0).sin();
        if v == 0.0 {
            return latitude_distance_meters(self.place.latitude_degrees, to.latitude_degrees);
        }
        let to_latitude = radians(to.latitude_degrees);
        let u = ((to_latitude - self.latitude) / 2.0).sin();
        let haversine = u * u + self.cosine * to_latitude.cos() * v * v;
        2.0 * EARTH_RADIUS_METERS * haversine.sqrt().min(1.0).asin()
    }
}

/// The haversine of an angle, `sin²(angle / 2)`, by a series instead of the C library.
///
/// For bounds and filters only: the relative error is below 1e-11 for angles of at most π either
/// way. The series `x²/4 - x⁴/48 + x⁶/1440 - ...` alternates, so it errs by less than the first term
/// left out: 4e-12 of the value below half a radian with five terms, 2e-14 up to π with thirteen.
/// Below half a radian it costs some twelve operations, and thirty beyond.
#[inline(always)]
pub(crate) fn hav(angle_radians: f64) -> f64 {
    let square = angle_radians * angle_radians;
    if square < 0.25 { hav_series::<5>(square) } else { hav_series::<13>(square) }
}

/// [`hav`] with this many terms, from the square of the angle.
#[inline(always)]
pub(crate) fn hav_series<const COUNT: usize>(square: f64) -> f64 {
    let terms = const { hav_terms::<COUNT>() };
    terms.iter().rev().fold(0.0, |sum, term| sum * square + term) * square
}

/// The coefficients of [`hav`]: `±1 / (2 (2k)!)` for `k` from 1.
const fn hav_terms<const COUNT: usize>() -> [f64; COUNT] {
    let mut terms = [0.0; COUNT];
    let mut term = 0.5;
    let mut index = 0;
    while index < COUNT {
        let k = (index + 1) as f64;
        term /= -((2.0 * k - 1.0) * (2.0 * k));
        terms[index] = -term;
        index += 1;
    }
    terms
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(longitude_degrees: f64, latitude_degrees: f64) -> Place {
        Place::new_geographic(longitude_degrees, latitude_degrees).unwrap()
    }

    #[test]
    fn a_place_is_at_no_distance_from_itself() {
        for (longitude, latitude) in [(0.0, 0.0), (13.4, 52.5), (-180.0, 85.0), (180.0, -90.0)] {
            let here = place(longitude, latitude);
            assert_eq!(here.distance_meters(here), 0.0);
        }
    }

    #[test]
    fn a_quarter_of_a_meridian_is_a_quarter_of_the_circumference() {
        let quarter = EARTH_RADIUS_METERS * std::f64::consts::FRAC_PI_2;
        assert_eq!(place(20.0, 0.0).distance_meters(place(20.0, 90.0)), quarter);
        let along_the_equator = place(-60.0, 0.0).distance_meters(place(30.0, 0.0));
        assert!((along_the_equator - quarter).abs() < 1e-6);
    }

    #[test]
    fn antipodes_have_a_number_for_a_distance() {
        let half = EARTH_RADIUS_METERS * std::f64::consts::PI;
        for step in 0..20_000 {
            let latitude = -85.0 + f64::from(step) * 0.0085;
            let longitude = -180.0 + f64::from(step) * 0.009;
            let there = place(longitude + 180.0, -latitude);
            let distance = place(longitude, latitude).distance_meters(there);
            assert!((distance - half).abs() < 1.0, "{longitude} {latitude}: {distance}");
        }
    }

    #[test]
    fn the_date_line_does_not_lengthen_a_way() {
        let distance = place(179.9, 10.0).distance_meters(place(-179.9, 10.0));
        assert!((distance - 21_907.0).abs() < 10.0, "{distance}");
    }

    #[test]
    fn the_series_of_the_haversine_errs_by_less_than_it_says() {
        for step in -31_416..=31_416 {
            let angle = f64::from(step) * 1e-4;
            let exact = (angle / 2.0).sin().powi(2);
            let error = (hav(angle) - exact).abs();
            assert!(error <= 1e-11 * exact, "{angle}: {error}");
        }
        let pi = std::f64::consts::PI;
        assert!((hav(pi) - 1.0).abs() < 1e-13 && (hav(-pi) - 1.0).abs() < 1e-13);
        assert!((hav(1e-9) / 2.5e-19 - 1.0).abs() < 1e-15);
    }
}
