//! Which cells of the quadtree a shape holds wholly, in part, or not at all.
//!
//! For: walking down from a range of cells, so that whole ranges are accepted without a look at
//! their points. Not for: single points (`filter.rs`, [`Shape::distance_if_inside`]).
//!
//! ```text
//! west         east            A quad of step s is a square of the map with 2^(26-s) cells a side
//!  ┌─────┬─────┐ north         and one range of cell bits. Its sides carry the haversine of their
//!  │  1  │  3  │               difference to the centre, and rows the cosine of their latitude;
//!  ├─────┼─────┤               a division makes one new column and one new row, and the four
//!  │  0  │  2  │               children share them.
//!  └─────┴─────┘ south
//! ```
//!
//! The bounds. Let u be hav(latitude difference), v be hav(longitude difference), c the cosine of a
//! latitude, C that of the centre. A point's haversine is u + C c v. It rises with v. For v at most
//! 1/2 and fixed, it is a falling and then rising function of the latitude (its maximum lies beyond
//! a pole), so over a quad it is largest at a corner with the largest v. For larger v the largest
//! u, c and v are put in separately, which is no less. The smallest u, c and v likewise give no
//! more than the smallest haversine. For a box the two conditions are bounded apart: rows by
//! latitude, and c² v for the width (along one parallel u is 0).
//!
//! The margins. A circle's angle r = radius / R has the haversine H. If a true angle e differs from
//! r by more than w = 1e-9 r + 1e-9 (6 mm), the haversines differ by more than M = w (r + w) / 2,
//! since sin²a - sin²b = sin(a+b) sin(a-b); the thresholds are H - M and H + M. What they must
//! outweigh: the rounding of Redis's formula (about 1e-15 in the angles, so at most 1e-14 of the
//! root of the haversine, and as much in its arc sine, measured in haversines, also next to the
//! antipode, where the arc sine is steep but the haversine flat), that of places (half a unit of
//! 180 degrees, 2e-16 rad), and of this file's series (relative 1e-11, see [`hav`]; cosines
//! absolute 1e-14). All are a thousandth of M or less. A radius of half the globe or more holds
//! everything, since no distance is longer, and so does one that is not a number. A polygon's quad
//! that no edge touches, within 1e-9 degrees, is wholly what its middle is: the crossing of a ray
//! is off by at most 2e-13 degrees in Valkey's formula.
//!
//! Cost: three short series for each division (some 20 ns), a dozen operations for each quad;
//! for polygons a few operations for each edge.

use std::f64::consts::{PI, TAU};
use std::ops::Range;

use crate::cell::{STEPS, deinterleave};
use crate::distance::{EARTH_RADIUS_METERS, degrees, hav, radians};
use crate::place::{LATITUDE_LIMIT_DEGREES, Place};
use crate::polygon::{Frame, Polygon};
use crate::region::Region;
use crate::shape::Shape;

/// Cells in a full turn of longitude.
const TURN: f64 = (1u64 << STEPS) as f64;
/// The width of a cell, in radians.
pub(crate) const COLUMN_RADIANS: f64 = TAU / TURN;
/// The height of a cell, in radians.
pub(crate) const ROW_RADIANS: f64 = LATITUDE_LIMIT_DEGREES / 90.0 * PI / TURN;
/// How far angles are kept from a threshold, relative and absolute (radians).
const MARGIN: f64 = 1e-9;
/// The margin of a polygon's lines, in degrees.
const LINE_MARGIN_DEGREES: f64 = 1e-9;

/// How a quad lies to a shape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// Every point in it is inside.
    Inside,
    /// Some may be inside.
    Edge,
    /// None is inside.
    Outside,
}

/// A square of the map, as one range of cells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quad {
    bits: u64,
    step: u32,
    west: Column,
    east: Column,
    south: Row,
    north: Row,
}

/// An edge between columns of cells.
#[derive(Clone, Copy, Debug)]
struct Column {
    x: u32,
    hav: f64,
}

/// An edge between rows of cells.
#[derive(Clone, Copy, Debug)]
struct Row {
    y: u32,
    hav: f64,
    cos: f64,
}

/// The centre of a search, in cells and as an angle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Center {
    /// From longitude -180, in cells; the middle of the first cell is 0.5.
    pub(crate) x: f64,
    /// From latitude -85.05112878, in cells; beyond the cells for a centre near a pole.
    pub(crate) y: f64,
    /// The sine of the latitude.
    pub(crate) sin: f64,
    /// The cosine of the latitude, not negative.
    pub(crate) cos: f64,
    antipode_x: f64,
}

/// Between what is certainly inside and what is certainly outside, in haversines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Threshold {
    /// At most this is inside.
    pub(crate) inside: f64,
    /// More than this is outside.
    pub(crate) outside: f64,
}

/// Rows of cells, the last one included; none if the last is before the first.
pub(crate) type Rows = (u32, u32);

/// A shape around a centre, ready to be held against quads.
#[derive(Clone, Debug)]
pub(crate) struct Cover {
    pub(crate) center: Center,
    pub(crate) kind: Kind,
}

/// The limits that a point's numbers are compared with.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// The haversine of the distance.
    Circle(Threshold),
    /// The row, and the haversine of the way along the point's own latitude.
    Box {
        width: Threshold,
        /// Rows that are certainly near enough.
        inner: Rows,
        /// Rows that may be near enough.
        outer: Rows,
    },
    Polygon(Polygon),
}

impl Cover {
    /// The cover of a shape; `region` is the shape's own.
    pub(crate) fn new(center: Place, shape: &Shape, region: &Region) -> Cover {
        let kind = match shape {
            Shape::Circle { radius_meters } => {
                Kind::Circle(Threshold::of(radius_meters / EARTH_RADIUS_METERS))
            }
            Shape::Box { width_meters, height_meters } => Kind::Box {
                width: Threshold::of(width_meters / 2.0 / EARTH_RADIUS_METERS),
                inner: inner_rows(center, height_meters / 2.0 / EARTH_RADIUS_METERS),
                outer: region.rows(),
            },
            Shape::Polygon(polygon) => Kind::Polygon(polygon.clone()),
        };
        Cover { center: Center::of(center), kind }
    }

    /// The quad of `2^(26 - step)` cells a side that begins at these bits.
    pub(crate) fn quad(&self, bits: u64, step: u32) -> Quad {
        let (x, y) = deinterleave(bits);
        let side = 1 << (STEPS - step);
        let column = |x: u32| self.center.column(x);
        let row = |y: u32| self.center.row(y);
        Quad {
            bits,
            step,
            west: column(x),
            east: column(x + side),
            south: row(y),
            north: row(y + side),
        }
    }

    /// The four quarters of a quad, ascending in cells; the quad is larger than a cell.
    pub(crate) fn quarters(&self, quad: &Quad) -> [Quad; 4] {
        let step = quad.step + 1;
        let side = 1 << (STEPS - step);
        let size = 1u64 << (2 * (STEPS - step));
        let column = self.center.column(quad.west.x + side);
        let row = self.center.row(quad.south.y + side);
        let quarter = |number: u64| {
            let (west, east) =
                if number & 2 == 0 { (quad.west, column) } else { (column, quad.east) };
            let (south, north) =
                if number & 1 == 0 { (quad.south, row) } else { (row, quad.north) };
            Quad { bits: quad.bits + number * size, step, west, east, south, north }
        };
        [quarter(0), quarter(1), quarter(2), quarter(3)]
    }

    /// How a quad lies to the shape; [`Side::Edge`] where that is not certain.
    pub(crate) fn side(&self, quad: &Quad) -> Side {
        match &self.kind {
            Kind::Circle(threshold) => {
                let (low, high) = self.center.haversines(quad);
                threshold.side(low, high)
            }
            Kind::Box { width, inner, outer } => {
                let (first, last) = (quad.south.y, quad.north.y - 1);
                if last < outer.0 || first > outer.1 {
                    return Side::Outside;
                }
                let (low, high) = self.center.widths(quad);
                match width.side(low, high) {
                    Side::Inside if first >= inner.0 && last <= inner.1 => Side::Inside,
                    Side::Outside => Side::Outside,
                    _ => Side::Edge,
                }
            }
            Kind::Polygon(polygon) => side_of_polygon(polygon, quad),
        }
    }
}

impl Quad {
    /// The cells of the quad.
    pub(crate) fn bits(&self) -> Range<u64> {
        self.bits..self.bits + (1u64 << (2 * (STEPS - self.step)))
    }
}

/// Cuts a range of cells into the largest quads, ascending: where each begins, and its step.
pub(crate) fn quads_of(mut range: Range<u64>) -> impl Iterator<Item = (u64, u32)> {
    std::iter::from_fn(move || {
        if range.is_empty() {
            return None;
        }
        let bits = range.start;
        let aligned = (bits.trailing_zeros() / 2).min(STEPS);
        let fitting = (range.end - bits).ilog2() / 2;
        let level = aligned.min(fitting);
        range.start += 1 << (2 * level);
        Some((bits, STEPS - level))
    })
}

impl Center {
    fn of(place: Place) -> Center {
        let x = (place.longitude_degrees + 180.0) / 360.0 * TURN;
        let y = (place.latitude_degrees + LATITUDE_LIMIT_DEGREES) / (2.0 * LATITUDE_LIMIT_DEGREES);
        let latitude = radians(place.latitude_degrees);
        Center {
            x,
            y: y * TURN,
            sin: latitude.sin(),
            cos: latitude.cos().max(0.0),
            antipode_x: if x < TURN / 2.0 { x + TURN / 2.0 } else { x - TURN / 2.0 },
        }
    }

    fn column(&self, x: u32) -> Column {
        let mut difference = f64::from(x) - self.x;
        if difference > TURN / 2.0 {
            difference -= TURN;
        } else if difference < -TURN / 2.0 {
            difference += TURN;
        }
        Column { x, hav: hav(difference * COLUMN_RADIANS) }
    }

    fn row(&self, y: u32) -> Row {
        let difference = (f64::from(y) - self.y) * ROW_RADIANS;
        let hav = hav(difference);
        // The cosine of a sum; sin d = 2 sin(d/2) cos(d/2).
        let sin = (2.0 * (hav * (1.0 - hav)).max(0.0).sqrt()).copysign(difference);
        let cos = self.cos * (1.0 - 2.0 * hav) - self.sin * sin;
        Row { y, hav, cos: cos.max(0.0) }
    }

    /// The smallest and the largest haversine of a longitude difference in the quad.
    fn across(&self, quad: &Quad) -> (f64, f64) {
        let (west, east) = (f64::from(quad.west.x), f64::from(quad.east.x));
        let holds = |x: f64| west <= x && x <= east;
        let low = if holds(self.x) { 0.0 } else { quad.west.hav.min(quad.east.hav) };
        let high = if holds(self.antipode_x) { 1.0 } else { quad.west.hav.max(quad.east.hav) };
        (low, high)
    }

    /// Bounds of the haversines of the quad's points.
    fn haversines(&self, quad: &Quad) -> (f64, f64) {
        let (near, far) = self.across(quad);
        let (south, north) = (&quad.south, &quad.north);
        let is_beside = f64::from(south.y) <= self.y && self.y <= f64::from(north.y);
        let level = if is_beside { 0.0 } else { south.hav.min(north.hav) };
        let low = level + self.cos * south.cos.min(north.cos) * near;
        let high = if far <= 0.5 {
            let at = |row: &Row| row.hav + self.cos * row.cos * far;
            at(south).max(at(north))
        } else {
            south.hav.max(north.hav) + self.cos * largest_cosine(quad) * far
        };
        (low, high)
    }

    /// Bounds of the haversines of the ways along the points' own latitudes to the centre's
    /// meridian.
    fn widths(&self, quad: &Quad) -> (f64, f64) {
        let (near, far) = self.across(quad);
        let (least, most) = (quad.south.cos.min(quad.north.cos), largest_cosine(quad));
        (least * least * near, most * most * far)
    }
}

/// The largest cosine of a latitude in the quad: at the equator, if that is within.
fn largest_cosine(quad: &Quad) -> f64 {
    let equator = 1 << (STEPS - 1);
    if quad.south.y <= equator && equator <= quad.north.y {
        return 1.0;
    }
    quad.south.cos.max(quad.north.cos)
}

impl Threshold {
    /// Everything is inside.
    pub(crate) const NONE: Threshold = Threshold { inside: f64::INFINITY, outside: f64::INFINITY };

    /// The threshold of an angle, in radians.
    pub(crate) fn of(radians: f64) -> Threshold {
        // What is no number excludes nothing.
        if radians.is_nan() || radians >= PI * (1.0 + 10.0 * MARGIN) {
            return Threshold::NONE;
        }
        let reach = radians.min(PI);
        let haversine = (reach / 2.0).sin().powi(2);
        let width = reach * MARGIN + MARGIN;
        let margin = width * (reach + width) / 2.0;
        Threshold { inside: haversine - margin, outside: haversine + margin }
    }

    fn side(&self, low: f64, high: f64) -> Side {
        if high <= self.inside {
            Side::Inside
        } else if low > self.outside {
            Side::Outside
        } else {
            Side::Edge
        }
    }
}

/// The rows whose points are certainly no farther north or south than this angle, in radians.
fn inner_rows(center: Place, height: f64) -> Rows {
    let height = degrees(height - height * MARGIN - MARGIN);
    if height < 0.0 {
        return (1, 0);
    }
    let row = |latitude_degrees: f64| {
        crate::cell::steps_of(Place { longitude_degrees: 0.0, latitude_degrees }, STEPS).1
    };
    if height.is_nan() || height > 200.0 {
        return (0, u32::MAX >> 1);
    }
    // The row of a latitude may lie on either side of it; the next one is beyond it.
    let (south, north) = (center.latitude_degrees - height, center.latitude_degrees + height);
    let first = if south < -LATITUDE_LIMIT_DEGREES { 0 } else { row(south) + 1 };
    let last = if north > LATITUDE_LIMIT_DEGREES { u32::MAX >> 1 } else { row(north) };
    if last <= first { (1, 0) } else { (first, last - 1) }
}

fn side_of_polygon(polygon: &Polygon, quad: &Quad) -> Side {
    let longitude = |x: u32| f64::from(x) / TURN * 360.0 - 180.0;
    let latitude = |y: u32| (f64::from(y) / TURN * 2.0 - 1.0) * LATITUDE_LIMIT_DEGREES;
    let frame = Frame {
        west: longitude(quad.west.x),
        south: latitude(quad.south.y),
        east: longitude(quad.east.x),
        north: latitude(quad.north.y),
    };
    if polygon.may_touch(&frame, LINE_MARGIN_DEGREES) {
        return Side::Edge;
    }
    let middle = Place {
        longitude_degrees: (frame.west + frame.east) / 2.0,
        latitude_degrees: (frame.south + frame.north) / 2.0,
    };
    if polygon.contains(middle) { Side::Inside } else { Side::Outside }
}

#[cfg(test)]
#[path = "cover_tests.rs"]
mod tests;
