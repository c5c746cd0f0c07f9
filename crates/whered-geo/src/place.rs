//! A place on the globe, checked once where it enters.
//!
//! For: carrying longitude and latitude together, with their limits already checked.
//! Not for: altitude, datums, projections; a place is two angles on a sphere.
//! Layout: two `f64`, 16 bytes. Cost: everything here is a handful of comparisons, except the
//! distance (see `distance.rs`).

use std::fmt;

use crate::distance;

/// The easternmost longitude, in degrees; the westernmost is its negative.
pub const LONGITUDE_LIMIT_DEGREES: f64 = 180.0;
/// The northernmost latitude that a [`Cell`](crate::Cell) can hold, in degrees (EPSG:3857, the
/// web Mercator square); the southernmost is its negative.
pub const LATITUDE_LIMIT_DEGREES: f64 = 85.05112878;
/// The latitude of the pole, in degrees.
pub const POLE_LATITUDE_DEGREES: f64 = 90.0;

/// A place: longitude and latitude in degrees.
///
/// ```
/// use whered_geo::Place;
/// let palermo = Place::new(13.361389, 38.115556)?;
/// let catania = Place::new(15.087269, 37.502669)?;
/// assert_eq!(format!("{:.1}", palermo.distance_meters(catania)), "166274.3");
/// # Ok::<(), whered_geo::PlaceError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Place {
    /// Degrees east of Greenwich, -180 to 180.
    pub longitude_degrees: f64,
    /// Degrees north of the equator.
    pub latitude_degrees: f64,
}

impl Place {
    /// Makes a place that can be stored in a collection: within Redis's limits,
    /// ±180 and ±85.05112878 degrees.
    ///
    /// # Errors
    ///
    /// [`PlaceError`] if a number is beyond its limit or is not finite.
    #[inline]
    pub fn new(longitude_degrees: f64, latitude_degrees: f64) -> Result<Place, PlaceError> {
        Place::within(longitude_degrees, latitude_degrees, LATITUDE_LIMIT_DEGREES)
    }

    /// Makes a place anywhere on the globe, poles included: for the places of sites and of IP
    /// records, which are measured from but never stored in a collection.
    ///
    /// # Errors
    ///
    /// [`PlaceError`] if a number is beyond ±180 or ±90 degrees or is not finite.
    ///
    /// ```
    /// use whered_geo::Place;
    /// assert!(Place::new(0.0, 89.0).is_err());
    /// assert!(Place::new_geographic(0.0, 89.0).is_ok());
    /// ```
    pub fn new_geographic(
        longitude_degrees: f64,
        latitude_degrees: f64,
    ) -> Result<Place, PlaceError> {
        Place::within(longitude_degrees, latitude_degrees, POLE_LATITUDE_DEGREES)
    }

    #[inline]
    fn within(
        longitude_degrees: f64,
        latitude_degrees: f64,
        latitude_limit_degrees: f64,
    ) -> Result<Place, PlaceError> {
        // Not a number fails both comparisons, so it is refused as well.
        let longitude_fits = longitude_degrees.abs() <= LONGITUDE_LIMIT_DEGREES;
        let latitude_fits = latitude_degrees.abs() <= latitude_limit_degrees;
        if longitude_fits && latitude_fits {
            return Ok(Place { longitude_degrees, latitude_degrees });
        }
        Err(PlaceError {
            longitude_degrees,
            latitude_degrees,
            longitude_fits,
            latitude_fits,
            latitude_limit_degrees,
        })
    }

    /// The great-circle distance to another place, in meters, bit-equal to Redis's.
    ///
    /// See [`distance::haversine_meters`] for the formula and its error.
    pub fn distance_meters(self, other: Place) -> f64 {
        distance::haversine_meters(self, other)
    }
}

/// A longitude or latitude outside its limits, or not finite.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PlaceError {
    longitude_degrees: f64,
    latitude_degrees: f64,
    longitude_fits: bool,
    latitude_fits: bool,
    latitude_limit_degrees: f64,
}

impl PlaceError {
    /// The longitude that was given, in degrees.
    pub fn longitude_degrees(&self) -> f64 {
        self.longitude_degrees
    }

    /// The latitude that was given, in degrees.
    pub fn latitude_degrees(&self) -> f64 {
        self.latitude_degrees
    }

    /// Whether the longitude is one that was refused.
    pub fn is_longitude(&self) -> bool {
        !self.longitude_fits
    }

    /// Whether the latitude is one that was refused.
    pub fn is_latitude(&self) -> bool {
        !self.latitude_fits
    }
}

impl fmt::Display for PlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.longitude_fits {
            write!(f, "longitude {} is not within -180 to 180 degrees", self.longitude_degrees)?;
        }
        if !self.longitude_fits && !self.latitude_fits {
            f.write_str("; ")?;
        }
        if !self.latitude_fits {
            let limit = self.latitude_limit_degrees;
            write!(f, "latitude {} is not within -{limit} to {limit}", self.latitude_degrees)?;
            f.write_str(" degrees")?;
        }
        Ok(())
    }
}

impl std::error::Error for PlaceError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_themselves_are_allowed() {
        assert!(Place::new(180.0, LATITUDE_LIMIT_DEGREES).is_ok());
        assert!(Place::new(-180.0, -LATITUDE_LIMIT_DEGREES).is_ok());
        assert!(Place::new_geographic(-180.0, -90.0).is_ok());
    }

    #[test]
    fn beyond_the_limits_is_refused_with_the_number_and_the_limit() {
        let error = Place::new(180.000001, 86.0).unwrap_err();
        assert!(error.is_longitude() && error.is_latitude());
        assert_eq!(
            error.to_string(),
            "longitude 180.000001 is not within -180 to 180 degrees; \
             latitude 86 is not within -85.05112878 to 85.05112878 degrees"
        );
        assert!(!Place::new(0.0, 90.5).unwrap_err().is_longitude());
        assert!(Place::new_geographic(0.0, 90.5).is_err());
    }

    #[test]
    fn numbers_that_are_not_finite_are_refused() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(Place::new(bad, 0.0).unwrap_err().is_longitude());
            assert!(Place::new_geographic(0.0, bad).unwrap_err().is_latitude());
        }
    }
}
