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
//!
//! ```text
//! row 3 │    ╱╲       edges by row of latitude: a point asks those of its own row only,
//! row 2 │ __╱  ╲      a rectangle those of the rows that it lies in
//! row 1 │ ╲     ╲
//! row 0 │  ╲_____╲
//! ```
//!
//! The row of a latitude never falls when the latitude grows, rounding included, so an edge stands
//! in every row that one of its points can have. There are enough rows that an edge crosses four of
//! them in the mean, at most: a polygon whose edges all go from its south to its north has a single
//! one. Cost: some three operations for each edge of the row, and a division for each that the ray
//! may cross.

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
    rows: Arc<Rows>,
}

/// Which edges touch which row of latitudes.
#[derive(PartialEq, Debug)]
struct Rows {
    south: f64,
    per_degree: f64,
    /// Where each row's edges begin, and where the last one's end.
    starts: Vec<u32>,
    /// An edge has the number of the vertex that it ends in.
    edges: Vec<u32>,
}

/// How many rows an edge stands in, in the mean, at most.
const ROWS_OF_EDGE: usize = 4;
/// More rows than this make nothing faster.
const MOST_ROWS: usize = 1 << 16;

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
        let rows = || Arc::new(Rows::of(vertices));
        (vertices.len() >= FEWEST_VERTICES)
            .then(|| Polygon { vertices: vertices.into(), rows: rows() })
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
        for (a, b) in self.edges_between(y, y) {
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

    /// Whether an edge may come within `margin` degrees of a rectangle; says no only if none does.
    pub(crate) fn may_touch(&self, frame: &Frame, margin: f64) -> bool {
        let mut edges = self.edges_between(frame.south - margin, frame.north + margin);
        edges.any(|(a, b)| frame.may_touch(a, b, margin))
    }

    /// Edges as a vertex with the one before it: all that have a point between two latitudes, and
    /// others; some more than once if the latitudes differ.
    fn edges_between(&self, south: f64, north: f64) -> impl Iterator<Item = (Place, Place)> + '_ {
        let rows = &*self.rows;
        let (first, last) = (rows.row(south), rows.row(north));
        let edges = &rows.edges[rows.starts[first] as usize..rows.starts[last + 1] as usize];
        edges.iter().map(|&edge| edge_of(&self.vertices, edge as usize))
    }

    /// The rectangle around the vertices.
    pub(crate) fn frame(&self) -> Frame {
        Frame::around(&self.vertices)
    }
}

/// A vertex, and the one before it.
fn edge_of(vertices: &[Place], number: usize) -> (Place, Place) {
    let before = number.checked_sub(1).unwrap_or(vertices.len() - 1);
    (vertices[number], vertices[before])
}

impl Rows {
    /// As many rows as there are edges, or half as many, and so on, until edges stand in few.
    fn of(vertices: &[Place]) -> Rows {
        let Frame { south, north, .. } = Frame::around(vertices);
        let mut count = vertices.len().min(MOST_ROWS);
        loop {
            let per_degree = if north > south { count as f64 / (north - south) } else { 0.0 };
            let mut rows =
                Rows { south, per_degree, starts: vec![0; count + 1], edges: Vec::new() };
            let spans = || (0..vertices.len()).map(|number| rows_of_edge(&rows, vertices, number));
            let entries: usize = spans().map(|(first, last)| last - first + 1).sum();
            if count == 1 || entries <= ROWS_OF_EDGE * vertices.len() {
                let spans: Vec<(usize, usize)> = spans().collect();
                rows.fill(&spans, entries);
                return rows;
            }
            count /= 2;
        }
    }

    /// Puts edges into all rows from a first one to a last one: counts, then places.
    fn fill(&mut self, spans: &[(usize, usize)], entries: usize) {
        let mut ends = vec![0_u32; self.starts.len()];
        for (first, last) in spans {
            ends[first + 1..=last + 1].iter_mut().for_each(|count| *count += 1);
        }
        for row in 1..ends.len() {
            ends[row] += ends[row - 1];
        }
        self.starts.copy_from_slice(&ends);
        self.edges = vec![0; entries];
        for (number, (first, last)) in spans.iter().enumerate() {
            for place in &mut ends[*first..=*last] {
                self.edges[*place as usize] = number as u32;
                *place += 1;
            }
        }
    }

    /// The row of a latitude; the outermost ones go on beyond the polygon.
    fn row(&self, latitude_degrees: f64) -> usize {
        let row = ((latitude_degrees - self.south) * self.per_degree).max(0.0) as usize;
        row.min(self.starts.len() - 2)
    }
}

fn rows_of_edge(rows: &Rows, vertices: &[Place], number: usize) -> (usize, usize) {
    let (a, b) = edge_of(vertices, number);
    let (low, high) =
        (a.latitude_degrees.min(b.latitude_degrees), a.latitude_degrees.max(b.latitude_degrees));
    (rows.row(low), rows.row(high))
}

impl Frame {
    /// The rectangle around places, of which there is one at least.
    fn around(vertices: &[Place]) -> Frame {
        let first = vertices[0];
        let start = Frame {
            west: first.longitude_degrees,
            south: first.latitude_degrees,
            east: first.longitude_degrees,
            north: first.latitude_degrees,
        };
        vertices.iter().fold(start, |frame, vertex| Frame {
            west: frame.west.min(vertex.longitude_degrees),
            south: frame.south.min(vertex.latitude_degrees),
            east: frame.east.max(vertex.longitude_degrees),
            north: frame.north.max(vertex.latitude_degrees),
        })
    }

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

    /// The even-odd rule over all edges.
    fn holds_by_all_edges(polygon: &Polygon, point: Place) -> bool {
        let Place { longitude_degrees: x, latitude_degrees: y } = point;
        let edges = (0..polygon.vertices.len()).map(|number| edge_of(&polygon.vertices, number));
        let crossed = edges.filter(|(a, b)| {
            let width = b.longitude_degrees - a.longitude_degrees;
            let height = b.latitude_degrees - a.latitude_degrees;
            (a.latitude_degrees > y) != (b.latitude_degrees > y)
                && x < width * (y - a.latitude_degrees) / height + a.longitude_degrees
        });
        crossed.count() % 2 == 1
    }

    #[test]
    fn rows_of_edges_miss_no_edge_whatever_the_polygon_looks_like() {
        let mut state = 7_u64;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 40) as f64 / f64::from(1 << 24)
        };
        for round in 0..200 {
            let count = 3 + (random() * 300.0) as usize;
            // Round ones, wild ones, flat ones, and some with many points on the same latitudes.
            let vertices: Vec<Place> = (0..count)
                .map(|number| {
                    let turn = number as f64 / count as f64 * std::f64::consts::TAU;
                    let (x, y) = match round % 4 {
                        0 => (turn.cos() * 50.0, turn.sin() * 40.0),
                        1 => (random() * 100.0 - 50.0, random() * 80.0 - 40.0),
                        2 => (random() * 100.0 - 50.0, 10.0),
                        _ => (random() * 10.0, (random() * 6.0).floor()),
                    };
                    Place::new(x, y).unwrap()
                })
                .collect();
            let polygon = Polygon::new(&vertices).unwrap();
            assert!(polygon.rows.edges.len() <= ROWS_OF_EDGE * count);
            for index in 0..300 {
                // Every other one on the latitude of a vertex, where rows and rule must agree.
                let vertex = vertices[index % count].latitude_degrees;
                let y = if index % 2 == 0 { vertex } else { random() * 100.0 - 50.0 };
                let point = Place::new(random() * 110.0 - 55.0, y).unwrap();
                let expected = holds_by_all_edges(&polygon, point);
                assert_eq!(polygon.contains(point), expected, "round {round}, {point:?}");
                let size = random() * random() * 20.0;
                let (west, south) = (point.longitude_degrees, point.latitude_degrees);
                let frame = Frame { west, south, east: west + size, north: south + size };
                let touched = (0..count)
                    .map(|number| edge_of(&vertices, number))
                    .any(|(a, b)| frame.may_touch(a, b, 1e-9));
                assert_eq!(polygon.may_touch(&frame, 1e-9), touched, "round {round}, {frame:?}");
            }
        }
    }

    #[test]
    fn a_round_polygon_has_few_edges_in_each_row() {
        let round: Vec<(f64, f64)> = (0..10_000)
            .map(|number| f64::from(number) / 10_000.0 * std::f64::consts::TAU)
            .map(|turn| (turn.cos() * 50.0, turn.sin() * 40.0))
            .collect();
        let polygon = polygon(&round);
        assert!(polygon.edges_between(1.0, 1.0).count() < 20);
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
