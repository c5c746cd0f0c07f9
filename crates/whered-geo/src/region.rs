//! Where the points of a shape can lie at all: the proof behind "nothing was missed".
//!
//! For: a band of latitudes and an arc of longitudes that certainly hold every point inside a
//! shape; from it, the cells that the nine boxes left out; and a quick refusal of candidates.
//! Not for: deciding that a point is inside ([`Shape::distance_if_inside`] alone does that).
//!
//! ```text
//!        x: arc from `west` eastward, `width` long, modulo 2^26 (may pass the date line)
//!      ┌──────────────┐ y = north
//!      │   shape      │
//!      └──────────────┘ y = south            all in steps of a full cell
//! ```
//!
//! The proof. Let d be the angular radius, t the latitude of the centre.
//! Circle: every point within d has a latitude within t ± d. If no pole is within d, its
//! longitude differs by at most asin(sin d / cos t); otherwise every longitude is possible.
//! Box: latitudes within t ± height/2R. A point at latitude p is inside only if
//! cos p · sin(Δ/2) <= sin(width/4R), so Δ is largest at the band's latitude nearest a pole.
//! Polygon: the even-odd rule finds nothing outside the rectangle around the vertices: no edge is
//! crossed north or south of it, and beside it a ray to the east crosses all edges of a row, an
//! even number, or none. The rectangle is widened by 1e-9 rad as well.
//! Floating-point: each angle is widened by 1e-9 of itself and by 1e-9 rad (6 mm), a million
//! times the rounding error of the distance formula for angles below 3 rad; wider circles take
//! the whole globe. Points lie in the middle of their cells (those at the very limit on its edge),
//! half a cell from the next one, so the step of a bound cannot be rounded past a point.
//!
//! Cost: a few sines and cosines; up to [`MOST_CELLS`] cells are listed, at a coarser step if need
//! be.

use std::f64::consts::FRAC_PI_2;
use std::ops::Range;

use crate::boxes::Boxes;
use crate::cell::{Cell, END_BITS, OVERFLOW_BITS, STEPS, deinterleave, interleave, steps_of};
use crate::distance::{EARTH_RADIUS_METERS, degrees, radians};
use crate::place::{LATITUDE_LIMIT_DEGREES, Place};
use crate::polygon::Frame;
use crate::shape::Shape;

/// The most cells that a region is cut into.
pub const MOST_CELLS: u64 = 128;

/// Steps in a full turn of longitude.
const TURN: u32 = 1 << STEPS;
/// Widening of every angle, relative and absolute (radians).
const MARGIN: f64 = 1e-9;

/// A band of latitudes and an arc of longitudes around a search's shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Region {
    south: u32,
    north: u32,
    west: u32,
    /// Steps from the first to the last of the arc; `TURN - 1` is every longitude.
    width: u32,
}

impl Region {
    /// The whole globe.
    pub const EVERYWHERE: Region = Region { south: 0, north: TURN, west: 0, width: TURN - 1 };

    /// A region that holds every point for which the shape's test says inside.
    pub fn around(center: Place, shape: &Shape) -> Region {
        let latitude = radians(center.latitude_degrees);
        let (height, width) = match shape {
            Shape::Polygon(polygon) => return Region::holding(&polygon.frame()),
            &Shape::Circle { radius_meters } => {
                let reach = widened(radius_meters / EARTH_RADIUS_METERS);
                // A quotient beyond 1 gives no number: a pole lies inside.
                let touches_pole = latitude.abs() + reach >= FRAC_PI_2;
                let arc =
                    if touches_pole { f64::NAN } else { (reach.sin() / latitude.cos()).asin() };
                (if reach < 3.0 { reach } else { f64::NAN }, arc)
            }
            &Shape::Box { width_meters, height_meters } => {
                let height = widened(height_meters / 2.0 / EARTH_RADIUS_METERS);
                let poleward =
                    (latitude.abs() + height).min(radians(LATITUDE_LIMIT_DEGREES) + MARGIN);
                let quarter = widened(width_meters / 4.0 / EARTH_RADIUS_METERS);
                let narrow = quarter < 1.5;
                let arc =
                    if narrow { 2.0 * (quarter.sin() / poleward.cos()).asin() } else { f64::NAN };
                (height, arc)
            }
        };
        if height.is_nan() {
            return Region::EVERYWHERE;
        }
        Region::EVERYWHERE
            .between_latitudes(center.latitude_degrees, degrees(height))
            .between_longitudes(center.longitude_degrees, degrees(widened(width)))
    }

    /// The cells of a rectangle in degrees, with a margin against rounding.
    fn holding(frame: &Frame) -> Region {
        let middle = |low: f64, high: f64| low + (high - low) / 2.0;
        let half = |low: f64, high: f64| (high - low) / 2.0 + degrees(MARGIN);
        Region::EVERYWHERE
            .between_latitudes(middle(frame.south, frame.north), half(frame.south, frame.north))
            .between_longitudes(middle(frame.west, frame.east), half(frame.west, frame.east))
    }

    fn between_latitudes(self, latitude_degrees: f64, height_degrees: f64) -> Region {
        let row = |latitude_degrees: f64| {
            steps_of(Place { longitude_degrees: 0.0, latitude_degrees }, STEPS).1
        };
        Region {
            south: row(latitude_degrees - height_degrees),
            north: row(latitude_degrees + height_degrees),
            ..self
        }
    }

    /// Narrows the arc, unless the width is not a number.
    fn between_longitudes(self, longitude_degrees: f64, width_degrees: f64) -> Region {
        let column = |degrees: f64| ((degrees + 180.0) * (f64::from(TURN) / 360.0)).floor();
        let west = column(longitude_degrees - width_degrees);
        let width = column(longitude_degrees + width_degrees) - west;
        if width.is_nan() || width >= f64::from(TURN - 1) {
            return self;
        }
        Region { west: west.rem_euclid(f64::from(TURN)) as u32, width: width as u32, ..self }
    }

    /// The rows of the region, the first and the last one.
    pub(crate) fn rows(&self) -> (u32, u32) {
        (self.south, self.north)
    }

    /// The first column of the region and the steps from there to the last one, modulo a turn.
    pub(crate) fn columns_from_west(&self) -> (u32, u32) {
        (self.west, self.width)
    }

    /// Up to four quads that together hold the region, apart from the limit of the globe, as ranges
    /// of cell bits; no smaller than the region.
    pub(crate) fn quads(&self) -> impl Iterator<Item = Range<u64>> {
        let (south, north) = (self.south.min(TURN - 1), self.north.min(TURN - 1));
        let extent = self.width.max(north - south) + 1;
        let shift = extent.next_power_of_two().trailing_zeros().min(STEPS);
        let columns = self.columns(STEPS - shift) as u32;
        let (turn, first_column) = (TURN >> shift, self.west >> shift);
        ((south >> shift)..=(north >> shift)).flat_map(move |y| {
            (0..columns).map(move |column| {
                let bits = interleave((first_column + column) % turn, y);
                bits << (2 * shift)..(bits + 1) << (2 * shift)
            })
        })
    }

    /// Whether the cell lies in the region. Says no only if its centre is certainly outside.
    pub fn may_hold(&self, cell: Cell) -> bool {
        let (x, y) = deinterleave(cell.bits());
        // Longitude 180 is the same meridian as -180, so an overflown x wraps to 0.
        y >= self.south && y <= self.north && x.wrapping_sub(self.west) % TURN <= self.width
    }

    /// Whether a cell at the limit of the globe, east or north of all others, may lie in the
    /// region.
    pub(crate) fn touches_limit(&self) -> bool {
        // As above: the eastern limit is the meridian of the first column.
        self.north >= TURN || TURN.wrapping_sub(self.west) % TURN <= self.width
    }

    /// The cells of the region that lie in none of the boxes, as ascending ranges of cell bits
    /// that do not overlap; somewhat more is listed if the region is large. Empty in ordinary
    /// cases, apart from the cells at the very limit of the globe (bit 52 and up).
    pub fn beyond(&self, boxes: &Boxes) -> Vec<Range<u64>> {
        let step = self.finest_step(boxes.step());
        let shift = STEPS - step;
        let turn = 1u32 << step;
        let first_column = self.west >> shift;
        let columns = self.columns(step) as u32;
        // Rows of cells at the very limit are above the last row and listed apart.
        let rows = (self.south.min(TURN - 1) >> shift)..=(self.north.min(TURN - 1) >> shift);
        let mut missing = Vec::new();
        for y in rows {
            for column in 0..columns {
                let bits = interleave((first_column + column) % turn, y);
                let cells = bits << (2 * shift)..(bits + 1) << (2 * shift);
                if !boxes.ranges().any(|seen| seen.start <= cells.start && cells.end <= seen.end) {
                    missing.push(cells);
                }
            }
        }
        missing.push(OVERFLOW_BITS..END_BITS);
        subtract(missing, boxes)
    }

    /// The step of the boxes, or the finest coarser one with few enough cells.
    fn finest_step(&self, boxes_step: u32) -> u32 {
        let few = |&step: &u32| self.columns(step) * self.row_count(step) <= MOST_CELLS;
        (1..=boxes_step).rev().find(few).unwrap_or(1)
    }

    fn columns(&self, step: u32) -> u64 {
        let shift = STEPS - step;
        let columns = ((self.west + self.width) >> shift) - (self.west >> shift) + 1;
        u64::from(columns.min(1 << step))
    }

    fn row_count(&self, step: u32) -> u64 {
        let shift = STEPS - step;
        u64::from((self.north.min(TURN - 1) >> shift) - (self.south.min(TURN - 1) >> shift) + 1)
    }
}

/// Widens an angle against rounding; what is not a number stays so.
fn widened(radians: f64) -> f64 {
    radians * (1.0 + MARGIN) + MARGIN
}

/// Sorts and joins the ranges and cuts the boxes out of them.
fn subtract(mut ranges: Vec<Range<u64>>, boxes: &Boxes) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut seen: Vec<Range<u64>> = boxes.ranges().collect();
    seen.sort_unstable_by_key(|range| range.start);
    let mut left: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    let mut keep = |range: Range<u64>| match left.last_mut() {
        _ if range.is_empty() => {}
        Some(last) if last.end == range.start => last.end = range.end,
        _ => left.push(range),
    };
    for mut range in ranges {
        for cut in &seen {
            if cut.start < range.end && range.start < cut.end {
                keep(range.start..cut.start.max(range.start));
                range.start = cut.end.min(range.end);
            }
        }
        keep(range);
    }
    left
}

#[cfg(test)]
#[path = "region_tests.rs"]
pub(crate) mod tests;
