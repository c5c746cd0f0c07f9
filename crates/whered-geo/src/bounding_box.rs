//! A rectangle between two longitudes and two latitudes, and what lies between these sides.
//!
//! For: the part of a map that somebody looks at. Not for: Redis's boxes, which are measured in
//! meters (`shape.rs`).
//!
//! ```text
//! west <= east          west > east: over the date line
//!  ┌──────┐             ────┐     ┌────
//!  │      │               2 │     │ 1       one range of columns, or two
//!  └──────┘             ────┘     └────
//! ```
//!
//! A point is inside if the centre of its cell is, sides included. A point at longitude exactly 180
//! is on the meridian of -180 as well. Everything is decided on columns and rows of cells: whole
//! numbers, which the constructor brings as near to the sides as the centres of cells tell.

use std::fmt;

use crate::cell::{Cell, STEPS, deinterleave, middle_degrees};
use crate::cover::Side;
use crate::place::{LATITUDE_LIMIT_DEGREES, LONGITUDE_LIMIT_DEGREES, POLE_LATITUDE_DEGREES};

/// Columns of cells, and rows; one more is at the limit of the globe.
const TURN: u32 = 1 << STEPS;

/// A rectangle of the map.
///
/// ```
/// use whered_geo::{BoundingBox, Cell, Place};
/// let fiji = BoundingBox::new(176.0, -20.0, -178.0, -15.0)?;
/// let suva = Cell::from_place(Place::new(178.44, -18.14)?);
/// assert!(fiji.contains(suva));
/// assert!(BoundingBox::new(0.0, 10.0, 1.0, 5.0).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BoundingBox {
    west_degrees: f64,
    south_degrees: f64,
    east_degrees: f64,
    north_degrees: f64,
    columns: [Steps; 3],
    rows: Steps,
}

/// Columns or rows, the last one included; none if the last is before the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Steps {
    pub(crate) first: u32,
    pub(crate) last: u32,
}

impl Steps {
    const NONE: Steps = Steps { first: 1, last: 0 };

    pub(crate) fn is_empty(self) -> bool {
        self.last < self.first
    }

    fn contains(self, step: u32) -> bool {
        self.first <= step && step <= self.last
    }

    /// Those whose middles are between two angles.
    fn between(low_degrees: f64, high_degrees: f64, limit_degrees: f64) -> Steps {
        let middle = |step: u32| middle_degrees(step, limit_degrees);
        let about = |degrees: f64| {
            let fraction = (degrees + limit_degrees) / (limit_degrees + limit_degrees);
            (fraction * f64::from(TURN)).clamp(0.0, f64::from(TURN)) as u32
        };
        let mut first = about(low_degrees).saturating_sub(2);
        while first <= TURN && middle(first) < low_degrees {
            first += 1;
        }
        let mut end = (about(high_degrees) + 3).min(TURN + 1);
        while end > 0 && middle(end - 1) > high_degrees {
            end -= 1;
        }
        match end {
            0 => Steps::NONE,
            end => Steps { first, last: end - 1 },
        }
    }
}

impl BoundingBox {
    /// The rectangle between these sides; one whose west is greater than its east goes over the
    /// date line.
    ///
    /// # Errors
    ///
    /// [`BoundingBoxError`] if a side is not on the globe, or the south is north of the north.
    pub fn new(
        west_degrees: f64,
        south_degrees: f64,
        east_degrees: f64,
        north_degrees: f64,
    ) -> Result<BoundingBox, BoundingBoxError> {
        let longitudes = [("west", west_degrees), ("east", east_degrees)];
        let latitudes = [("south", south_degrees), ("north", north_degrees)];
        let sides = longitudes.map(|side| (side, LONGITUDE_LIMIT_DEGREES));
        let sides = sides.into_iter().chain(latitudes.map(|side| (side, POLE_LATITUDE_DEGREES)));
        for ((side, degrees), limit_degrees) in sides {
            // Not a number fails the comparison.
            let fits = degrees.abs() <= limit_degrees;
            if !fits {
                return Err(BoundingBoxError::Beyond { side, degrees, limit_degrees });
            }
        }
        if south_degrees > north_degrees {
            return Err(BoundingBoxError::Upside { south_degrees, north_degrees });
        }
        let columns = |west, east| Steps::between(west, east, LONGITUDE_LIMIT_DEGREES);
        let is_wrapped = west_degrees > east_degrees;
        let columns = if is_wrapped {
            let (from, to) = (-LONGITUDE_LIMIT_DEGREES, LONGITUDE_LIMIT_DEGREES);
            [columns(from, east_degrees), columns(west_degrees, to), Steps::NONE]
        } else if west_degrees == -LONGITUDE_LIMIT_DEGREES && east_degrees < 180.0 {
            // The meridian of the western side is also that of the column at the limit.
            let limit = Steps { first: TURN, last: TURN };
            [columns(west_degrees, east_degrees), limit, Steps::NONE]
        } else {
            [columns(west_degrees, east_degrees), Steps::NONE, Steps::NONE]
        };
        let rows = Steps::between(south_degrees, north_degrees, LATITUDE_LIMIT_DEGREES);
        Ok(BoundingBox { west_degrees, south_degrees, east_degrees, north_degrees, columns, rows })
    }

    /// The whole globe.
    pub fn everywhere() -> BoundingBox {
        let (longitude, latitude) = (LONGITUDE_LIMIT_DEGREES, POLE_LATITUDE_DEGREES);
        let globe = BoundingBox::new(-longitude, -latitude, longitude, latitude);
        globe.expect("the globe is a rectangle of the map")
    }

    /// The smallest rectangle that holds these columns and rows and does not go over the date line.
    pub(crate) fn enclosing(columns: Steps, rows: Steps) -> BoundingBox {
        let longitude = |step| middle_degrees(step, LONGITUDE_LIMIT_DEGREES);
        let latitude = |step| middle_degrees(step, LATITUDE_LIMIT_DEGREES);
        let (west, east) = (longitude(columns.first), longitude(columns.last));
        let (south, north) = (latitude(rows.first), latitude(rows.last));
        BoundingBox::new(west, south, east, north).expect("cells are on the globe")
    }

    /// West, south, east and north, in degrees.
    pub fn sides_degrees(&self) -> [f64; 4] {
        [self.west_degrees, self.south_degrees, self.east_degrees, self.north_degrees]
    }

    /// Whether a cell's centre is inside.
    #[inline]
    pub fn contains(&self, cell: Cell) -> bool {
        self.contains_bits(cell.bits())
    }

    #[inline]
    pub(crate) fn contains_bits(&self, bits: u64) -> bool {
        let (x, y) = deinterleave(bits);
        self.rows.contains(y) && self.columns.iter().any(|columns| columns.contains(x))
    }

    /// How a square of `2^(26 - step)` cells a side lies to the rectangle.
    pub(crate) fn side(&self, bits: u64, step: u32) -> Side {
        let (x, y) = deinterleave(bits);
        let more = (1 << (STEPS - step)) - 1;
        let (last_x, last_y) = (x + more, y + more);
        if last_y < self.rows.first || y > self.rows.last || self.rows.is_empty() {
            return Side::Outside;
        }
        let has_rows = self.rows.first <= y && last_y <= self.rows.last;
        let mut side = Side::Outside;
        for columns in &self.columns {
            if columns.is_empty() || last_x < columns.first || x > columns.last {
                continue;
            }
            if has_rows && columns.first <= x && last_x <= columns.last {
                return Side::Inside;
            }
            side = Side::Edge;
        }
        side
    }

    /// How many squares of `2^(26 - step)` cells a side it touches.
    pub(crate) fn squares(&self, step: u32) -> u64 {
        let shift = STEPS - step;
        let count = |steps: &Steps| {
            let at = |step: u32| u64::from(step.min(TURN - 1) >> shift);
            if steps.is_empty() { 0 } else { at(steps.last) - at(steps.first) + 1 }
        };
        self.columns.iter().map(count).sum::<u64>() * count(&self.rows)
    }
}

impl fmt::Display for BoundingBox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [west, south, east, north] = self.sides_degrees();
        write!(f, "{west},{south},{east},{north}")
    }
}

/// Why four numbers are no rectangle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BoundingBoxError {
    /// A side is not on the globe, or no number.
    Beyond {
        /// Which one.
        side: &'static str,
        /// What was given.
        degrees: f64,
        /// How far from 0 it may be.
        limit_degrees: f64,
    },
    /// The southern side is north of the northern one.
    Upside {
        /// The southern side.
        south_degrees: f64,
        /// The northern side.
        north_degrees: f64,
    },
}

impl fmt::Display for BoundingBoxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BoundingBoxError::Beyond { side, degrees, limit_degrees: limit } => {
                write!(f, "the {side} {degrees} is not within -{limit} to {limit} degrees")
            }
            BoundingBoxError::Upside { south_degrees, north_degrees } => {
                write!(f, "the south {south_degrees} is north of the north {north_degrees}")
            }
        }
    }
}

impl std::error::Error for BoundingBoxError {}

/// Whether a place is between four sides: what the rectangle must come to.
#[cfg(test)]
pub(crate) fn is_between(sides: [f64; 4], place: crate::place::Place) -> bool {
    let [west, south, east, north] = sides;
    let x = place.longitude_degrees;
    let between =
        |x: f64| if west <= east { west <= x && x <= east } else { west <= x || x <= east };
    let y = place.latitude_degrees;
    (between(x) || (x == 180.0 && between(-180.0))) && south <= y && y <= north
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Place;
    use proptest::prelude::*;

    /// Angles that fall on sides, cells and limits often enough.
    fn angle(limit: f64) -> impl Strategy<Value = f64> {
        prop_oneof![
            -limit..=limit,
            (-8_i32..=8).prop_map(move |eighth| f64::from(eighth) / 8.0 * limit),
            (0_u32..=16).prop_map(move |step| middle_degrees(step, limit)),
            (0_u32..=16).prop_map(move |step| middle_degrees(TURN - step, limit)),
        ]
    }

    proptest! {
        #[test]
        fn a_cell_is_inside_if_its_centre_is(
            west in angle(180.0),
            east in angle(180.0),
            south in angle(90.0),
            height in 0.0..60.0_f64,
            x in angle(180.0),
            y in angle(85.05112878),
        ) {
            let north = (south + height).min(90.0);
            let rectangle = BoundingBox::new(west, south, east, north).unwrap();
            let cell = Cell::from_place(Place::new(x, y).unwrap());
            let expected = is_between([west, south, east, north], cell.place());
            prop_assert_eq!(rectangle.contains(cell), expected);
        }

        #[test]
        fn squares_are_inside_or_outside_as_all_their_cells_are(
            west in angle(180.0),
            east in angle(180.0),
            south in angle(90.0),
            step in 0_u32..=26,
            bits in 0_u64..1 << 52,
            within in any::<u64>(),
        ) {
            let rectangle = BoundingBox::new(west, south, east, 90.0).unwrap();
            let shift = 2 * (STEPS - step);
            let first = bits >> shift << shift;
            let cell = first | within & ((1_u64 << shift) - 1);
            match rectangle.side(first, step) {
                Side::Inside => prop_assert!(rectangle.contains_bits(cell)),
                Side::Outside => prop_assert!(!rectangle.contains_bits(cell)),
                Side::Edge => prop_assert!(step < STEPS, "a cell is inside or outside"),
            }
        }
    }

    #[test]
    fn what_is_no_rectangle_is_refused_by_its_side() {
        let message = |sides: [f64; 4]| {
            let [west, south, east, north] = sides;
            BoundingBox::new(west, south, east, north).unwrap_err().to_string()
        };
        assert_eq!(
            message([-181.0, 0.0, 0.0, 1.0]),
            "the west -181 is not within -180 to 180 degrees"
        );
        assert_eq!(message([0.0, 0.0, 0.0, 91.0]), "the north 91 is not within -90 to 90 degrees");
        assert_eq!(message([0.0, 2.0, 0.0, 1.0]), "the south 2 is north of the north 1");
        assert!(message([0.0, f64::NAN, 0.0, 1.0]).starts_with("the south NaN"));
    }

    #[test]
    fn the_whole_globe_holds_its_corners() {
        let everywhere = BoundingBox::everywhere();
        assert!(everywhere.contains(Cell::MIN) && everywhere.contains(Cell::MAX));
        assert_eq!(everywhere.side(0, 0), Side::Inside);
        assert_eq!(everywhere.squares(5), 1024);
    }
}
