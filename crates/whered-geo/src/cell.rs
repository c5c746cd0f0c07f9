//! Redis's cell: longitude and latitude cut into 2^26 steps each and interleaved.
//!
//! For: the integer that orders a collection, that Redis clients see as the sorted-set score.
//! Not for: neighbours and ranges of cells (`boxes.rs`), geohash text as input.
//!
//! ```text
//! bit  53 52 │ 51 50 49 48 ...  3  2  1  0
//!      ▲  ▲  │  x  y  x  y      x  y  x  y      x = longitude step, y = latitude step
//!      │  └ y = 2^26: latitude exactly 85.05112878   (both only at the very limit, where the
//!      └ x = 2^26: longitude exactly 180              fraction is 1 and the step overflows)
//! ```
//!
//! Invariants: `x <= 2^26`, `y <= 2^26`, and the bits are exactly representable as an `f64`,
//! since Redis keeps them as a floating-point score. At longitude 180 that score has 54 bits and
//! its lowest bit is rounded away, in Redis and here alike.
//! Cost: encoding and decoding are some twenty operations each, without branches or tables.

use crate::place::{LATITUDE_LIMIT_DEGREES, LONGITUDE_LIMIT_DEGREES, POLE_LATITUDE_DEGREES, Place};

/// Bits of one coordinate in a full cell.
pub(crate) const STEPS: u32 = 26;
/// Cells below this number have no overflowing coordinate.
pub(crate) const OVERFLOW_BITS: u64 = 1 << (2 * STEPS);
/// No cell reaches this number.
pub(crate) const END_BITS: u64 = 1 << (2 * STEPS + 2);

const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";

/// A cell of about 0.6 m by 0.3 m at the equator: the score of a point in its sorted set.
///
/// ```
/// use whered_geo::{Cell, Place};
/// let palermo = Cell::from_place(Place::new(13.361389, 38.115556)?);
/// assert_eq!(palermo.bits(), 3479099956230698);
/// assert_eq!(&palermo.geohash(), b"sqc8b49rny0");
/// # Ok::<(), whered_geo::PlaceError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Cell(u64);

impl Cell {
    /// The smallest cell: the south-western corner.
    pub const MIN: Cell = Cell(0);
    /// The largest cell: the north-eastern corner, both coordinates at their limit.
    pub const MAX: Cell = Cell(3 << (2 * STEPS));

    /// The cell of a place, bit-equal to the score that GEOADD stores.
    ///
    /// A latitude beyond ±85.05112878 (see [`Place::new_geographic`]) counts as that limit.
    pub fn from_place(place: Place) -> Cell {
        let (x, y) = steps_of(place, STEPS);
        // Redis passes the bits through a floating-point score, see the file's header.
        Cell(as_score(interleave(x, y)))
    }

    /// The cell with these bits, or `None` if no place has such a cell.
    pub fn from_bits(bits: u64) -> Option<Cell> {
        let (x, y) = deinterleave(bits);
        let fits = bits < END_BITS && x <= 1 << STEPS && y <= 1 << STEPS;
        (bits < OVERFLOW_BITS || (fits && as_score(bits) == bits)).then_some(Cell(bits))
    }

    /// The cell with bits that came from a cell, without another check.
    pub(crate) fn from_stored_bits(bits: u64) -> Cell {
        debug_assert!(Cell::from_bits(bits).is_some(), "{bits} never was a cell");
        Cell(bits)
    }

    /// The bits, longitude in the odd and latitude in the even positions.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// The centre of the cell, bit-equal to GEOPOS before it is printed.
    pub fn place(self) -> Place {
        let (x, y) = deinterleave(self.0);
        Place {
            longitude_degrees: middle_degrees(x, LONGITUDE_LIMIT_DEGREES),
            latitude_degrees: middle_degrees(y, LATITUDE_LIMIT_DEGREES),
        }
    }

    /// The standard geohash of the centre as GEOHASH prints it: latitude cut from -90 to 90, ten
    /// characters of 5 bits and a final `0`, since 52 bits do not fill the eleventh.
    pub fn geohash(self) -> [u8; 11] {
        geohash_of(self.place())
    }
}

/// The geohash of a place, as [`Cell::geohash`] gives it for the centre of a cell.
pub(crate) fn geohash_of(place: Place) -> [u8; 11] {
    let x = step_of(place.longitude_degrees, LONGITUDE_LIMIT_DEGREES, STEPS);
    let y = step_of(place.latitude_degrees, POLE_LATITUDE_DEGREES, STEPS);
    let bits = interleave(x, y);
    let mut text = [b'0'; 11];
    for (index, letter) in text.iter_mut().take(10).enumerate() {
        let shift = 2 * STEPS as usize - 5 * (index + 1);
        *letter = ALPHABET[(bits >> shift) as usize & 31];
    }
    text
}

/// The longitude and latitude steps of a place when each axis is cut into `2^step` parts. Equal
/// to `2^step` at the upper limit.
pub(crate) fn steps_of(place: Place, step: u32) -> (u32, u32) {
    let latitude = place.latitude_degrees.clamp(-LATITUDE_LIMIT_DEGREES, LATITUDE_LIMIT_DEGREES);
    (
        step_of(place.longitude_degrees, LONGITUDE_LIMIT_DEGREES, step),
        step_of(latitude, LATITUDE_LIMIT_DEGREES, step),
    )
}

fn step_of(degrees: f64, limit_degrees: f64, step: u32) -> u32 {
    let fraction = (degrees + limit_degrees) / (limit_degrees + limit_degrees);
    (fraction * (1u64 << step) as f64) as u32
}

/// The lower edge, in degrees, of the part with this index out of `2^step`.
pub(crate) fn edge_degrees(index: u32, step: u32, limit_degrees: f64) -> f64 {
    let fraction = f64::from(index) / (1u64 << step) as f64;
    -limit_degrees + fraction * (limit_degrees + limit_degrees)
}

/// The middle, in degrees, of a full cell's column or row; the limit itself for the outermost.
pub(crate) fn middle_degrees(index: u32, limit_degrees: f64) -> f64 {
    let lower = edge_degrees(index, STEPS, limit_degrees);
    let upper = edge_degrees(index + 1, STEPS, limit_degrees);
    ((lower + upper) / 2.0).clamp(-limit_degrees, limit_degrees)
}

/// The bits that a floating-point score preserves.
pub(crate) fn as_score(bits: u64) -> u64 {
    bits as f64 as u64
}

/// Puts the bits of `x` into the odd and those of `y` into the even positions.
pub(crate) fn interleave(x: u32, y: u32) -> u64 {
    (spread(x) << 1) | spread(y)
}

/// Takes interleaved bits apart into `(x, y)`.
pub(crate) fn deinterleave(bits: u64) -> (u32, u32) {
    (gather(bits >> 1), gather(bits))
}

/// Moves bit `n` to bit `2n`, halving the distance of each move: 16, 8, 4, 2, 1.
fn spread(value: u32) -> u64 {
    let mut bits = u64::from(value);
    bits = (bits | bits << 16) & 0x0000_ffff_0000_ffff;
    bits = (bits | bits << 8) & 0x00ff_00ff_00ff_00ff;
    bits = (bits | bits << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    bits = (bits | bits << 2) & 0x3333_3333_3333_3333;
    (bits | bits << 1) & 0x5555_5555_5555_5555
}

/// The inverse of [`spread`]; odd positions are ignored.
fn gather(bits: u64) -> u32 {
    let mut bits = bits & 0x5555_5555_5555_5555;
    bits = (bits | bits >> 1) & 0x3333_3333_3333_3333;
    bits = (bits | bits >> 2) & 0x0f0f_0f0f_0f0f_0f0f;
    bits = (bits | bits >> 4) & 0x00ff_00ff_00ff_00ff;
    bits = (bits | bits >> 8) & 0x0000_ffff_0000_ffff;
    (bits | bits >> 16) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cell(longitude: f64, latitude: f64) -> Cell {
        Cell::from_place(Place::new(longitude, latitude).unwrap())
    }

    #[test]
    fn the_corners_of_the_square_have_the_smallest_and_the_largest_cell() {
        let south_west = cell(-180.0, -LATITUDE_LIMIT_DEGREES);
        let north_east = cell(180.0, LATITUDE_LIMIT_DEGREES);
        assert_eq!(south_west, Cell::MIN);
        assert_eq!(north_east, Cell::MAX);
        assert_eq!(north_east.place(), Place::new(180.0, LATITUDE_LIMIT_DEGREES).unwrap());
    }

    #[test]
    fn bits_that_no_place_has_are_refused() {
        assert_eq!(Cell::from_bits(Cell::MAX.bits()), Some(Cell::MAX));
        assert_eq!(Cell::from_bits(Cell::MAX.bits() + 4), None);
        assert_eq!(Cell::from_bits(u64::MAX), None);
        // Longitude 180 and an odd latitude step: no score can hold it.
        assert_eq!(Cell::from_bits((1 << 53) + 1), None);
        assert_eq!(Cell::from_bits((1 << 53) + 4), Some(Cell((1 << 53) + 4)));
    }

    proptest! {
        #[test]
        fn interleaving_comes_apart_again(x: u32, y: u32) {
            prop_assert_eq!(deinterleave(interleave(x, y)), (x, y));
        }

        #[test]
        fn the_centre_of_a_cell_lies_in_the_cell(bits in 0u64..OVERFLOW_BITS) {
            let cell = Cell::from_bits(bits).unwrap();
            prop_assert_eq!(Cell::from_place(cell.place()), cell);
        }

        #[test]
        fn every_place_has_a_cell_that_its_bits_give_back(
            longitude in -180.0..=180.0f64,
            latitude in -85.05112878..=85.05112878f64,
        ) {
            let here = cell(longitude, latitude);
            prop_assert_eq!(Cell::from_bits(here.bits()), Some(here));
            prop_assert!((here.place().longitude_degrees - longitude).abs() < 5.4e-6);
            prop_assert!((here.place().latitude_degrees - latitude).abs() < 2.6e-6);
        }
    }
}
