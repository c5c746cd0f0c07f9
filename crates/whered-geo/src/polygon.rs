//! A polygon on the map: Valkey 9's shape `BYPOLYGON`.
//!
//! For: the vertices, the centre that distances are measured from, and the test of a point.
//! Not for: cells (`cover.rs`, `region.rs`) nor the syntax of the command.
//!
//! The map is flat: an edge is a straight line between its ends in degrees, and no edge crosses
//! the date line, so a polygon around it is given as two. The last vertex is joined to the
//! first; which way round does not matter. A point is inside if a ray to the east crosses an odd
//! number of edges (the even-odd rule, also where the polygon crosses itself); of the points on the
//! rim those on western and southern edges are inside, as far as rounding lets one say.
//!
//! Rounding is part of the definition: the operations are those of Valkey 9.0.
//! Cost: some three operations for each edge, and a division for each that the ray may cross.

use std::sync::Arc;

use crate::distance::{degrees, radians};
use crate::place::Place;

/// The fewest vertices of a polygon.
pub const FEWEST_VERTICES: usize = 3;

/// A polygon of three or more vertices; cheap to clone.
///
/// ```
/// use whered_geo::{Place, Polygon};
/// let at = |longitude, latitude| Place::new(longitude, latitude);
/// let triangle = Polygon::new(&[at(0.0, 0.0)?, at(4.0, 0.0)?, at(0.0, 4.0)?]).unwrap();
/// assert!(triangle.contains(at(1.0, 1.0)?));
/// assert!(!triangle.contains(at(3.0, 3.0)?));
/// assert!(Polygon::new(&[at(0.0, 0.0)?, at(4.0, 0.0)?]).is_none());
/// # Ok::<(), whered_geo::PlaceError>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Polygon {
    vertices: Arc<[Place]>,
}

/// The smallest rectangle that holds all vertices, in degrees.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Frame {
    pub(crate) west: f64,
    pub(crate) south: f64,
    pub(crate) east: f64,
    pub(crate) north: f64,
}

impl Polygon {
    /// The polygon with these vertices in order; `None` if there are fewer than three.
    pub fn new(vertices: &[Place]) -> Option<Polygon> {
        (vertices.len() >= FEWEST_VERTICES).then(|| Polygon { vertices: vertices.into() })
    }

    /// The vertices in their order.
    pub fn vertices(&self) -> &[Place] {
        &self.vertices
    }

    /// Where Valkey measures distances from: the mean of the vertices as vectors, brought back to
    /// the surface. Where they cancel out it is wherever rounding points.
    pub fn center(&self) -> Place {
        let (mut x, mut y, mut z) = (0.0, 0.0, 0.0);
        for vertex in self.vertices.iter() {
            let longitude = radians(vertex.longitude_degrees);
            let latitude = radians(vertex.latitude_degrees);
            x += latitude.cos() * longitude.cos();
            y += latitude.cos() * longitude.sin();
            z += latitude.sin();
        }
        let level = (x * x + y * y).sqrt();
        Place { longitude_degrees: degrees(y.atan2(x)), latitude_degrees: degrees(z.atan2(level)) }
    }

    /// Whether the point lies inside.
    pub fn contains(&self, point: Place) -> bool {
        let Place { longitude_degrees: x, latitude_degrees: y } = point;
        let mut inside = false;
        for (a, b) in self.edges() {
            if (a.latitude_degrees > y) == (b.latitude_degrees > y) {
                continue;
            }
            let width = b.longitude_degrees - a.longitude_degrees;
            let height = b.latitude_degrees - a.latitude_degrees;
            if x < width * (y - a.latitude_degrees) / height + a.longitude_degrees {
                inside = !inside;
            }
        }
        inside
    }

    /// Each vertex with the one before it.
    pub(crate) fn edges(&self) -> impl Iterator<Item = (Place, Place)> + '_ {
        let last = self.vertices[self.vertices.len() - 1];
        let before = std::iter::once(last).chain(self.vertices.iter().copied());
        self.vertices.iter().copied().zip(before)
    }

    /// The rectangle around the vertices.
    pub(crate) fn frame(&self) -> Frame {
        let first = self.vertices[0];
        let start = Frame {
            west: first.longitude_degrees,
            south: first.latitude_degrees,
            east: first.longitude_degrees,
            north: first.latitude_degrees,
        };
        self.vertices.iter().fold(start, |frame, vertex| Frame {
            west: frame.west.min(vertex.longitude_degrees),
            south: frame.south.min(vertex.latitude_degrees),
            east: frame.east.max(vertex.longitude_degrees),
            north: frame.north.max(vertex.latitude_degrees),
        })
    }
}

impl Frame {
    /// Whether some point of the line between two places may lie within `margin` degrees of the
    /// rectangle; says no only if none does.
    pub(crate) fn may_touch(&self, a: Place, b: Place, margin: f64) -> bool {
        let (west, east) = (self.west - margin, self.east + margin);
        let (south, north) = (self.south - margin, self.north + margin);
        let beside = a.longitude_degrees.max(b.longitude_degrees) < west
            || a.longitude_degrees.min(b.longitude_degrees) > east
            || a.latitude_degrees.max(b.latitude_degrees) < south
            || a.latitude_degrees.min(b.latitude_degrees) > north;
        if beside {
            return false;
        }
        // All corners on one side of the line, and by more than rounding: no touch.
        let width = b.longitude_degrees - a.longitude_degrees;
        let height = b.latitude_degrees - a.latitude_degrees;
        let side =
            |x: f64, y: f64| width * (y - a.latitude_degrees) - height * (x - a.longitude_degrees);
        let corners = [side(west, south), side(west, north), side(east, south), side(east, north)];
        let slack = 1e-12 * (width.abs() + height.abs()) * 720.0;
        !(corners.iter().all(|&c| c > slack) || corners.iter().all(|&c| c < -slack))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn polygon(vertices: &[(f64, f64)]) -> Polygon {
        let places: Vec<Place> = vertices.iter().map(|&(x, y)| Place::new(x, y).unwrap()).collect();
        Polygon::new(&places).unwrap()
    }

    fn holds(polygon: &Polygon, x: f64, y: f64) -> bool {
        polygon.contains(Place::new(x, y).unwrap())
    }

    #[test]
    fn a_square_holds_its_western_and_southern_rim_only() {
        let square = polygon(&[(0.0, 0.0), (2.0, 0.0), (2.0, 2.0), (0.0, 2.0)]);
        assert!(holds(&square, 0.0, 1.0) && holds(&square, 1.0, 0.0) && holds(&square, 0.0, 0.0));
        assert!(!holds(&square, 2.0, 1.0) && !holds(&square, 1.0, 2.0));
        assert!(!holds(&square, 2.0, 2.0));
    }

    #[test]
    fn the_direction_of_the_vertices_does_not_matter() {
        let (there, back) = (
            polygon(&[(0.0, 0.0), (4.0, 1.0), (1.0, 4.0)]),
            polygon(&[(1.0, 4.0), (4.0, 1.0), (0.0, 0.0)]),
        );
        for step in 0..100 {
            let (x, y) = (f64::from(step % 10) * 0.41 + 0.013, f64::from(step / 10) * 0.43 + 0.007);
            assert_eq!(holds(&there, x, y), holds(&back, x, y));
        }
    }

    #[test]
    fn a_part_that_is_covered_twice_is_outside() {
        // A pentagram: its middle lies inside two of its turns.
        let star = polygon(&[(0.0, 10.0), (6.0, -8.0), (-10.0, 3.0), (10.0, 3.0), (-6.0, -8.0)]);
        assert!(!holds(&star, 0.0, 0.0));
        assert!(holds(&star, 0.0, 8.0));
    }

    #[test]
    fn a_line_back_and_forth_holds_nothing() {
        let line = polygon(&[(0.0, 0.0), (3.0, 3.0), (0.0, 0.0)]);
        assert!(!holds(&line, 1.0, 1.0) && !holds(&line, 0.5, 1.0));
    }

    #[test]
    fn the_centre_is_the_mean_of_the_vertices_on_the_sphere() {
        let around = polygon(&[(170.0, 0.0), (-170.0, 0.0), (180.0, 10.0), (180.0, -10.0)]);
        let center = around.center();
        assert!((center.longitude_degrees.abs() - 180.0).abs() < 1e-9);
        assert!(center.latitude_degrees.abs() < 1e-9);
    }

    #[test]
    fn lines_far_from_a_rectangle_do_not_touch_it() {
        let frame = Frame { west: 0.0, south: 0.0, east: 1.0, north: 1.0 };
        let touches = |x1: f64, y1: f64, x2: f64, y2: f64| {
            frame.may_touch(Place::new(x1, y1).unwrap(), Place::new(x2, y2).unwrap(), 1e-9)
        };
        assert!(touches(-1.0, 0.5, 2.0, 0.6) && touches(0.2, 0.2, 0.3, 0.3));
        assert!(touches(1.0, 1.0, 2.0, 2.0) && touches(-1.0, 1.0, 1.0, -1.0));
        assert!(!touches(-1.0, 0.9, 0.9, 2.0) && !touches(1.1, 0.0, 1.1, 1.0));
        assert!(!touches(-1.0, 0.5, 0.5, -1.0));
    }
}
