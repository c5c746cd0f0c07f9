//! The nine boxes that Redis scans for a search, in its sequence.
//!
//! For: the order of unsorted hits, and which hits `COUNT n ANY` finds first; clients and public
//! test suites see both.
//! Not for: deciding what a search finds. The boxes miss points now and then (the header of
//! `search.rs` lists when); `region.rs` finds the rest.
//!
//! ```text
//!      6 NW │ 1 N │ 5 NE       The world is cut into 2^step by 2^step boxes; 0 is the box of the
//!     ──────┼─────┼──────      centre, the others are its neighbours. They wrap around at the
//!      4 W  │ 0   │ 3 E        date line, and also from the northern edge to the southern.
//!     ──────┼─────┼──────      A box of the cells `bits << (52 - 2 step)` and up is one range
//!      8 SW │ 2 S │ 7 SE       of cells, so scanning it is one walk through the index.
//! ```
//!
//! How Redis chooses: the step comes from the radius (one less above latitude 66, two less above
//! 80). If the middle neighbours do not reach the bounding rectangle, the step falls by one. From
//! step 2 up, a side that the rectangle does not reach is left out with its corners. At step 1
//! opposite neighbours coincide, and a box equal to the one before it is skipped.
//! Cost: three cosines and some forty box edges; no allocation.

use std::ops::Range;

use crate::cell::{STEPS, as_score, edge_degrees, interleave, steps_of};
use crate::distance::{EARTH_RADIUS_METERS, degrees, radians};
use crate::place::{LATITUDE_LIMIT_DEGREES, LONGITUDE_LIMIT_DEGREES, Place};
use crate::polygon::Frame;
use crate::shape::Shape;

/// Half the side of the web Mercator square, in meters, as Redis rounds it.
const MERCATOR_LIMIT_METERS: f64 = 20_037_726.37;

/// The boxes of one search, up to nine, each a range of cell bits.
#[derive(Clone, Debug)]
pub struct Boxes {
    step: u32,
    ranges: [(u64, u64); 9],
    count: usize,
}

/// A box by its column and row among `2^step`; either is `2^step` at the upper limit, where the
/// fraction of the place is exactly 1.
#[derive(Clone, Copy, PartialEq)]
struct GridBox {
    x: u32,
    y: u32,
}

/// What Redis believes to be the smallest rectangle around the shape. It is too narrow near
/// the poles, and nonsense beyond them; the boxes depend on it all the same.
struct Rectangle {
    west: f64,
    south: f64,
    east: f64,
    north: f64,
}

impl Boxes {
    /// The boxes that Redis 7.0.15 scans for this search.
    ///
    /// ```
    /// use whered_geo::{Cell, Place, Shape, boxes::Boxes};
    /// let center = Place::new(15.0, 37.0)?;
    /// let boxes = Boxes::of(center, &Shape::Circle { radius_meters: 200_000.0 });
    /// // The box of the centre comes first.
    /// assert!(boxes.ranges().next().unwrap().contains(&Cell::from_place(center).bits()));
    /// # Ok::<(), whered_geo::PlaceError>(())
    /// ```
    pub fn of(center: Place, shape: &Shape) -> Boxes {
        let rectangle = Rectangle::around(center, shape);
        let mut step = estimated_step(reach_meters(center, shape), center.latitude_degrees);
        if step > 1 && !rectangle.is_reached_from(center, step) {
            step -= 1;
        }
        let mut boxes = Boxes { step, ranges: [(0, 0); 9], count: 0 };
        // Redis remembers the box it processed last by its index and takes index 0 for none, so
        // a first neighbour equal to the centre's box would not be skipped. It never is equal.
        for grid_box in rectangle.boxes_worth_a_scan(center, step).into_iter().flatten() {
            boxes.push(grid_box);
        }
        boxes
    }

    /// The ranges of cell bits in the order in which they are scanned; they do not overlap.
    pub fn ranges(&self) -> impl ExactSizeIterator<Item = Range<u64>> + '_ {
        self.ranges[..self.count].iter().map(|&(start, end)| start..end)
    }

    /// How often the world was halved in each direction to get boxes of this size, 1 to 26.
    pub fn step(&self) -> u32 {
        self.step
    }

    fn push(&mut self, grid_box: GridBox) {
        let shift = 2 * (STEPS - self.step);
        let bits = interleave(grid_box.x, grid_box.y);
        let range = (as_score(bits << shift), as_score((bits + 1) << shift));
        if !self.ranges[..self.count].contains(&range) {
            self.ranges[self.count] = range;
            self.count += 1;
        }
    }
}

impl GridBox {
    /// The neighbour this far away; an axis that does not move keeps even an overflown index.
    fn neighbour(self, east: i32, north: i32, step: u32) -> GridBox {
        GridBox { x: moved(self.x, east, step), y: moved(self.y, north, step) }
    }
}

/// Moves an index by -1, 0 or 1 and wraps it around, as Redis's masks do.
fn moved(index: u32, by: i32, step: u32) -> u32 {
    if by == 0 {
        return index;
    }
    index.wrapping_add_signed(by) & ((1 << step) - 1)
}

impl Rectangle {
    fn around(center: Place, shape: &Shape) -> Rectangle {
        let (half_width_meters, half_height_meters) = match shape {
            &Shape::Circle { radius_meters } => (radius_meters, radius_meters),
            &Shape::Box { width_meters, height_meters } => {
                (width_meters / 2.0, height_meters / 2.0)
            }
            Shape::Polygon(polygon) => {
                let Frame { west, south, east, north } = polygon.frame();
                return Rectangle { west, south, east, north };
            }
        };
        let Place { longitude_degrees, latitude_degrees } = center;
        let height = degrees(half_height_meters / EARTH_RADIUS_METERS);
        // The parallel that is nearer to the pole is the shorter one.
        let poleward = if latitude_degrees < 0.0 {
            latitude_degrees - height
        } else {
            latitude_degrees + height
        };
        let width = degrees(half_width_meters / EARTH_RADIUS_METERS / radians(poleward).cos());
        Rectangle {
            west: longitude_degrees - width,
            south: latitude_degrees - height,
            east: longitude_degrees + width,
            north: latitude_degrees + height,
        }
    }

    /// Whether the outer edges of the four straight neighbours lie beyond the rectangle.
    fn is_reached_from(&self, center: Place, step: u32) -> bool {
        let (x, y) = steps_of(center, step);
        let middle = GridBox { x, y };
        let north = upper_edge(middle.neighbour(0, 1, step).y, step, LATITUDE_LIMIT_DEGREES);
        let south = edge_degrees(middle.neighbour(0, -1, step).y, step, LATITUDE_LIMIT_DEGREES);
        let east = upper_edge(middle.neighbour(1, 0, step).x, step, LONGITUDE_LIMIT_DEGREES);
        let west = edge_degrees(middle.neighbour(-1, 0, step).x, step, LONGITUDE_LIMIT_DEGREES);
        // Written as Redis's four refusals: what is not a number refuses nothing.
        let falls_short =
            north < self.north || south > self.south || east < self.east || west > self.west;
        !falls_short
    }

    /// The nine boxes in sequence, without those that Redis takes to be useless.
    fn boxes_worth_a_scan(&self, center: Place, step: u32) -> [Option<GridBox>; 9] {
        let (x, y) = steps_of(center, step);
        let middle = GridBox { x, y };
        // Asked as Redis asks, for what is *not* needed: an edge that is no number is needed.
        let fine = step >= 2;
        let south = !(fine && edge_degrees(y, step, LATITUDE_LIMIT_DEGREES) < self.south);
        let north = !(fine && upper_edge(y, step, LATITUDE_LIMIT_DEGREES) > self.north);
        let west = !(fine && edge_degrees(x, step, LONGITUDE_LIMIT_DEGREES) < self.west);
        let east = !(fine && upper_edge(x, step, LONGITUDE_LIMIT_DEGREES) > self.east);
        let at = |wanted: bool, east: i32, north: i32| {
            wanted.then(|| middle.neighbour(east, north, step))
        };
        [
            Some(middle),
            at(north, 0, 1),
            at(south, 0, -1),
            at(east, 1, 0),
            at(west, -1, 0),
            at(north && east, 1, 1),
            at(north && west, -1, 1),
            at(south && east, 1, -1),
            at(south && west, -1, -1),
        ]
    }
}

fn upper_edge(index: u32, step: u32, limit_degrees: f64) -> f64 {
    edge_degrees(index + 1, step, limit_degrees)
}

/// From the centre to the farthest point of the shape, in meters: for a box as if on a flat map,
/// for a polygon to the farthest corner of the rectangle around it, as Valkey 9.0 does.
fn reach_meters(center: Place, shape: &Shape) -> f64 {
    match shape {
        &Shape::Circle { radius_meters } => radius_meters,
        &Shape::Box { width_meters, height_meters } => {
            let (half_width, half_height) = (width_meters / 2.0, height_meters / 2.0);
            (half_width * half_width + half_height * half_height).sqrt()
        }
        Shape::Polygon(polygon) => {
            let Frame { west, south, east, north } = polygon.frame();
            let corners = [(west, north), (east, north), (west, south), (east, south)];
            let distances = corners.map(|(longitude_degrees, latitude_degrees)| {
                center.distance_meters(Place { longitude_degrees, latitude_degrees })
            });
            distances.into_iter().fold(0.0, f64::max)
        }
    }
}

/// Redis's estimate of the step at which nine boxes cover a radius.
fn estimated_step(mut reach_meters: f64, latitude_degrees: f64) -> u32 {
    // A negative reach would double forever; it finds nothing anyway.
    if reach_meters <= 0.0 {
        return STEPS;
    }
    let mut step = 1i32;
    while reach_meters < MERCATOR_LIMIT_METERS {
        reach_meters *= 2.0;
        step += 1;
    }
    step -= 2;
    if latitude_degrees.abs() > 66.0 {
        step -= 1;
        if latitude_degrees.abs() > 80.0 {
            step -= 1;
        }
    }
    step.clamp(1, STEPS as i32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Cell;

    fn boxes(longitude: f64, latitude: f64, radius_meters: f64) -> Boxes {
        let center = Place::new(longitude, latitude).unwrap();
        Boxes::of(center, &Shape::Circle { radius_meters })
    }

    #[test]
    fn no_radius_is_searched_in_the_finest_boxes_and_a_world_in_the_coarsest() {
        assert_eq!(boxes(10.0, 10.0, 0.0).step(), 26);
        assert_eq!(boxes(10.0, 10.0, 3e7).step(), 1);
        assert_eq!(boxes(10.0, 10.0, f64::INFINITY).step(), 1);
        assert_eq!(boxes(10.0, 10.0, f64::NAN).step(), 1);
        assert_eq!(boxes(10.0, 10.0, 5e-324).step(), 26);
    }

    #[test]
    fn the_coarsest_boxes_are_the_four_quarters_each_once() {
        let quarters: Vec<u64> = boxes(10.0, 10.0, 3e7).ranges().map(|r| r.start >> 50).collect();
        assert_eq!(quarters, [3, 2, 1, 0]);
    }

    #[test]
    fn boxes_wrap_around_at_the_date_line() {
        let found = boxes(179.99, 10.0, 50_000.0);
        let beyond = Cell::from_place(Place::new(-179.9, 10.0).unwrap());
        assert!(found.ranges().any(|range| range.contains(&beyond.bits())));
    }

    #[test]
    fn a_centre_at_the_very_limit_has_a_box_of_overflown_cells() {
        let found = boxes(180.0, LATITUDE_LIMIT_DEGREES, 1000.0);
        assert!(found.ranges().next().unwrap().contains(&Cell::MAX.bits()));
    }
}
