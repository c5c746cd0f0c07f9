//! The distance between two places, to the last bit as Redis 7.0.15 computes it.
//!
//! For: one formula, used by every search, sort and reply; and the same by series, within a known
//! error (`NearOrigin`), for callers that know where the error does not matter. Not for:
//! ellipsoids; the earth is a sphere here, as it is for Redis (error up to 0.5 %). Why bits matter:
//! a point lies inside a circle by `distance <= radius`, and stored distances are printed with 17
//! digits, so another order of operations would be seen by clients. Cost: four sines or cosines,
//! one of them once for all distances from an origin, an arc sine and a root; on one meridian two.

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

/// An [`Origin`] whose distances to near places are told without the C library.
///
/// Up to [`NEAR_RADIANS`] either way, and not near the poles, from the same differences of
/// coordinates as [`Origin::meters_to`] takes: sines, the arc sine and the other place's cosine,
/// `cos(a + d) = cos a cos d - sin a sin d`, are series whose first omitted term is below 2e-16 of
/// the value. Either way to compute it makes some twenty roundings of 1.1e-16 each, of which those
/// in the cosine may count fifteenfold at the latitudes allowed; all other distances are the exact
/// ones. [`error_meters`] allows more than ten times as much. Cost: some forty operations and a
/// root.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NearOrigin {
    pub(crate) exact: Origin,
    sine: f64,
    is_moderate: bool,
}

/// The largest differences of coordinates that the series are taken for.
const NEAR_RADIANS: f64 = 0.05;
/// The latitudes that they are taken from; with the difference the cosine is 0.069 at least.
const MODERATE_RADIANS: f64 = 1.45;

/// How far a distance told by a [`NearOrigin`] may be from the exact one, itself told so.
pub(crate) fn error_meters(meters: f64) -> f64 {
    1e-9 + 1e-13 * meters
}

impl NearOrigin {
    pub(crate) fn new(place: Place) -> NearOrigin {
        let exact = Origin::new(place);
        let is_moderate = exact.latitude.abs() <= MODERATE_RADIANS;
        NearOrigin { exact, sine: exact.latitude.sin(), is_moderate }
    }

    /// About the distances from here to several places: each step is taken for all of them before
    /// the next one.
    #[inline]
    pub(crate) fn meters_to_all<const COUNT: usize>(
        &self,
        places: &[Place; COUNT],
    ) -> [f64; COUNT] {
        let (mut x, mut y, mut meters) = ([0.0; COUNT], [0.0; COUNT], [0.0; COUNT]);
        for (index, place) in places.iter().enumerate() {
            x[index] = radians(place.longitude_degrees) - self.exact.longitude;
            y[index] = radians(place.latitude_degrees) - self.exact.latitude;
        }
        for index in 0..COUNT {
            meters[index] = self.meters_by_series(x[index], y[index]);
        }
        for index in 0..COUNT {
            let is_near = x[index].abs() <= NEAR_RADIANS && y[index].abs() <= NEAR_RADIANS;
            if !(is_near && self.is_moderate) {
                meters[index] = self.exact.meters_to(places[index]);
            }
        }
        meters
    }

    /// For differences of longitude and latitude that are near.
    #[inline(always)]
    fn meters_by_series(&self, longitude: f64, latitude: f64) -> f64 {
        let square = latitude * latitude;
        let beside = hav_series::<4>(longitude * longitude);
        let along = hav_series::<4>(square);
        let sine = latitude * (1.0 + square * series(&SINE, square));
        let cosine = self.exact.cosine * (1.0 - 2.0 * along) - self.sine * sine;
        let h = along + self.exact.cosine * cosine * beside;
        2.0 * EARTH_RADIUS_METERS * h.sqrt() * (1.0 + h * series(&ASIN, h))
    }
}

/// The series of `sin x / x - 1`, divided by `x²`.
const SINE: [f64; 3] = [-1.0 / 6.0, 1.0 / 120.0, -1.0 / 5040.0];
/// The series of `asin √h / √h - 1`, divided by `h`.
const ASIN: [f64; 4] = [1.0 / 6.0, 3.0 / 40.0, 15.0 / 336.0, 105.0 / 3456.0];

/// A polynomial with these coefficients, the lowest first.
#[inline(always)]
fn series<const COUNT: usize>(terms: &[f64; COUNT], x: f64) -> f64 {
    terms.iter().rev().fold(0.0, |sum, term| sum * x + term)
}

/// The haversine of an angle, `sin²(angle / 2)`, by a series instead of the C library.
///
/// For bounds and filters only: the relative error is below 1e-11 for angles of at most π either
/// way. The series `x²/4 - x⁴/48 + x⁶/1440 - ...` alternates, so it errs by less than the first
/// term left out: 4e-12 of the value below half a radian with five terms, 2e-14 up to π with
/// thirteen. Below half a radian it costs some twelve operations, and thirty beyond.
#[inline(always)]
pub(crate) fn hav(angle_radians: f64) -> f64 {
    let square = angle_radians * angle_radians;
    if square < 0.25 { hav_series::<5>(square) } else { hav_series::<13>(square) }
}

/// [`hav`] with this many terms, from the square of the angle.
#[inline(always)]
pub(crate) fn hav_series<const COUNT: usize>(square: f64) -> f64 {
    series(&const { hav_terms::<COUNT>() }, square) * square
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
    fn near_distances_err_by_less_than_they_say() {
        let mut state = 7_u64;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let (mut worst, mut near) = (0.0_f64, 0);
        for _ in 0..400_000 {
            let here = place(360.0 * random() - 180.0, 180.0 * random() - 90.0);
            // From a thousandth of a millimeter to far beyond what is near.
            let span = 10.0_f64.powf(10.0 * random() - 8.5);
            let along = |degrees: f64, limit: f64, random: f64| {
                (degrees + span * (2.0 * random - 1.0)).clamp(-limit, limit)
            };
            let there = place(
                along(here.longitude_degrees, 180.0, random()),
                along(here.latitude_degrees, 90.0, random()),
            );
            let origin = NearOrigin::new(here);
            let [about] = origin.meters_to_all(&[there]);
            let exact = origin.exact.meters_to(there);
            worst = worst.max((about - exact).abs() / error_meters(exact));
            near += usize::from(about != exact);
        }
        assert!(
            near > 50_000 && worst < 0.1,
            "{near} were told by series, {worst} of the error allowed"
        );
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
