//! Maps of games and halls: a rectangle of coordinates that lies on a rectangle of the globe.
//!
//! For: turning x and y of a named map into longitude and latitude, linearly.
//! Not for: projections; a zone is small or does not care.
//!
//! ```text
//!            west                east
//!      north  x.0,y.0 ───────────  x.1,y.0        y.0 is the upper edge, as on screens;
//!                │                    │           for a map with y upwards write y
//!      south  x.0,y.1 ───────────  x.1,y.1        with its greater number first
//! ```
//! Cost: a search among the zones by name, and four multiplications.

use whered_geo::Place;

use crate::error::MappingError;

/// A named map and where it lies.
#[derive(Clone, Debug, PartialEq)]
pub struct Zone {
    /// The name that records use.
    pub name: String,
    /// The coordinates of its western and eastern edge.
    pub x: (f64, f64),
    /// The coordinates of its northern and southern edge.
    pub y: (f64, f64),
    /// Degrees east of its western edge.
    pub west_degrees: f64,
    /// Degrees north of its southern edge.
    pub south_degrees: f64,
    /// Degrees east of its eastern edge.
    pub east_degrees: f64,
    /// Degrees north of its northern edge.
    pub north_degrees: f64,
}

impl Zone {
    /// The place of a pair of coordinates; `None` outside the zone.
    ///
    /// ```
    /// use whered_feeds::Zone;
    /// let zone = Zone {
    ///     name: "forest".to_owned(),
    ///     x: (0.0, 100.0),
    ///     y: (0.0, 100.0),
    ///     west_degrees: 10.0,
    ///     south_degrees: 50.0,
    ///     east_degrees: 12.0,
    ///     north_degrees: 51.0,
    /// };
    /// let place = zone.place(50.0, 25.0).expect("inside");
    /// assert_eq!((place.longitude_degrees, place.latitude_degrees), (11.0, 50.75));
    /// assert!(zone.place(101.0, 25.0).is_none());
    /// ```
    #[must_use]
    pub fn place(&self, x: f64, y: f64) -> Option<Place> {
        let east = fraction(self.x, x)?;
        let south = fraction(self.y, y)?;
        let longitude = self.west_degrees + east * (self.east_degrees - self.west_degrees);
        let latitude = self.north_degrees - south * (self.north_degrees - self.south_degrees);
        // Rounding may step over an edge by the last bit.
        let longitude = longitude.clamp(self.west_degrees, self.east_degrees);
        let latitude = latitude.clamp(self.south_degrees, self.north_degrees);
        Place::new(longitude, latitude).ok()
    }

    pub(crate) fn check(&self) -> Result<(), MappingError> {
        let wrong = |found: String, allowed: &str| {
            Err(MappingError::new(format!("zone {:?}", self.name), found, allowed))
        };
        if self.name.is_empty() {
            return wrong("no name".to_owned(), "the name that records use");
        }
        for (name, (from, to)) in [("x", self.x), ("y", self.y)] {
            if !from.is_finite() || !to.is_finite() || from == to {
                return wrong(format!("{name} from {from} to {to}"), "two different numbers");
            }
        }
        let (west, east) = (self.west_degrees, self.east_degrees);
        let (south, north) = (self.south_degrees, self.north_degrees);
        if Place::new(west, south).is_err() || Place::new(east, north).is_err() {
            let found = format!("{west} {south} to {east} {north}");
            return wrong(found, "longitudes within 180 and latitudes within 85.05112878 degrees");
        }
        if west >= east || south >= north {
            let found = format!("{west} {south} to {east} {north}");
            return wrong(found, "west below east and south below north");
        }
        Ok(())
    }
}

/// How far along the way from one edge to the other; `None` beyond either.
fn fraction((from, to): (f64, f64), at: f64) -> Option<f64> {
    let fraction = (at - from) / (to - from);
    (0.0..=1.0).contains(&fraction).then_some(fraction)
}
