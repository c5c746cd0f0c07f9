//! The shapes of a search, and the one test of whether a point lies inside.
//!
//! For: the definition that every search, fast or slow, is held to.
//! Not for: which cells a shape touches (`boxes.rs`, `region.rs`).
//! A box is no rectangle on the globe: its height is measured along the meridian, its width along
//! the candidate's own latitude, so it is wider in degrees towards the pole.
//! A polygon is flat on the map (`polygon.rs`) and has its own centre.
//! Cost: one distance for a circle; up to three for a box, one cheap one first; for a polygon a
//! walk around its edges and then a distance.

use crate::distance::{Origin, haversine_meters, latitude_distance_meters};
use crate::place::Place;
use crate::polygon::Polygon;

/// The shape of a search around its centre. Lengths are not negative; a length that is not a
/// number excludes nothing.
#[derive(Clone, PartialEq, Debug)]
pub enum Shape {
    /// All points up to this far away.
    Circle {
        /// The largest distance, in meters; a point at exactly this distance is inside.
        radius_meters: f64,
    },
    /// All points within half the height north or south and half the width east or west.
    Box {
        /// East to west, measured along each point's own latitude, in meters.
        width_meters: f64,
        /// North to south, in meters.
        height_meters: f64,
    },
    /// All points within a polygon on the map. The centre of such a search is
    /// [`Polygon::center`]; another centre changes the distances and what is scanned first.
    Polygon(Polygon),
}

impl Shape {
    /// The distance from the centre in meters if the point is inside, decided as Redis 7.0.15
    /// decides it, edges included.
    ///
    /// ```
    /// use whered_geo::{Place, Shape};
    /// let here = Place::new(10.0, 50.0)?;
    /// let there = Place::new(10.0, 51.0)?;
    /// assert!(Shape::Circle { radius_meters: 111_000.0 }.distance_if_inside(here, there).is_none());
    /// assert!(Shape::Circle { radius_meters: 112_000.0 }.distance_if_inside(here, there).is_some());
    /// # Ok::<(), whered_geo::PlaceError>(())
    /// ```
    pub fn distance_if_inside(&self, center: Place, point: Place) -> Option<f64> {
        self.distance_if_inside_from(&Origin::new(center), point)
    }

    /// Like `distance_if_inside`, for many points around one centre.
    pub(crate) fn distance_if_inside_from(&self, origin: &Origin, point: Place) -> Option<f64> {
        let center = origin.place;
        match self {
            &Shape::Circle { radius_meters } => {
                let distance_meters = origin.meters_to(point);
                if distance_meters > radius_meters {
                    return None;
                }
                Some(distance_meters)
            }
            &Shape::Box { width_meters, height_meters } => {
                let north_south =
                    latitude_distance_meters(point.latitude_degrees, center.latitude_degrees);
                if north_south > height_meters / 2.0 {
                    return None;
                }
                let beside = Place { longitude_degrees: center.longitude_degrees, ..point };
                if haversine_meters(point, beside) > width_meters / 2.0 {
                    return None;
                }
                Some(origin.meters_to(point))
            }
            Shape::Polygon(polygon) => polygon.contains(point).then(|| origin.meters_to(point)),
        }
    }

    /// Whether the shape has a negative side or radius, so that nothing can lie inside.
    pub(crate) fn is_negative(&self) -> bool {
        match *self {
            Shape::Circle { radius_meters } => radius_meters < 0.0,
            Shape::Box { width_meters, height_meters } => width_meters < 0.0 || height_meters < 0.0,
            Shape::Polygon(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(longitude: f64, latitude: f64) -> Place {
        Place::new(longitude, latitude).unwrap()
    }

    #[test]
    fn a_point_on_the_rim_is_inside() {
        let (center, point) = (place(2.0, 48.0), place(3.0, 47.0));
        let radius_meters = center.distance_meters(point);
        let rim = Shape::Circle { radius_meters };
        assert_eq!(rim.distance_if_inside(center, point), Some(radius_meters));
        let short = Shape::Circle { radius_meters: radius_meters.next_down() };
        assert_eq!(short.distance_if_inside(center, point), None);
    }

    #[test]
    fn the_width_of_a_box_is_measured_at_the_latitude_of_the_point() {
        let center = place(0.0, 60.0);
        let shape = Shape::Box { width_meters: 100_000.0, height_meters: 400_000.0 };
        // 0.9 degrees east: 50.0 km at latitude 60, but only 48.5 km one degree further north.
        assert!(shape.distance_if_inside(center, place(0.9, 60.0)).is_none());
        assert!(shape.distance_if_inside(center, place(0.9, 61.0)).is_some());
        assert!(shape.distance_if_inside(center, place(0.9, 61.9)).is_none());
    }

    #[test]
    fn nothing_is_inside_a_negative_shape() {
        let here = place(1.0, 1.0);
        let circle = Shape::Circle { radius_meters: -1.0 };
        let box_ = Shape::Box { width_meters: -1.0, height_meters: 5.0 };
        assert!(circle.distance_if_inside(here, here).is_none() && circle.is_negative());
        assert!(box_.distance_if_inside(here, here).is_none() && box_.is_negative());
    }
}
