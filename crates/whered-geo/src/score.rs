//! Places in the scores of a plain sorted set, whatever number a score is.
//!
//! For: sorted sets that hold other scores than cells, which GEO commands read all the same.
//! Not for: scores that are cells; [`Cell`] is their type.
//!
//! Redis cuts a score to an unsigned integer, as the processor does it, and takes the integer's
//! bits apart as if it were a cell. So every number has a place, and some have a silly one.
//! Cost: as for a cell.

use crate::cell::{Cell, STEPS, deinterleave, edge_degrees, geohash_of};
use crate::place::{LATITUDE_LIMIT_DEGREES, LONGITUDE_LIMIT_DEGREES, Place};

/// The cell with this score, if a cell has it.
///
/// ```
/// use whered_geo::score::cell_of_score;
/// assert_eq!(cell_of_score(3479099956230698.0).map(|cell| cell.bits()), Some(3479099956230698));
/// assert_eq!(cell_of_score(0.5), None);
/// assert_eq!(cell_of_score(-1.0), None);
/// ```
pub fn cell_of_score(score: f64) -> Option<Cell> {
    // Numbers that do not fit become the nearest that does, and then differ; so does NaN.
    let bits = score as u64;
    if bits as f64 == score { Cell::from_bits(bits) } else { None }
}

/// The place that Redis reads from a score.
pub fn place_of_score(score: f64) -> Place {
    let (x, y) = deinterleave(bits_of_score(score));
    Place {
        longitude_degrees: middle_degrees(x, LONGITUDE_LIMIT_DEGREES),
        latitude_degrees: middle_degrees(y, LATITUDE_LIMIT_DEGREES),
    }
}

/// The standard geohash of the place that Redis reads from a score; see [`Cell::geohash`].
pub fn geohash_of_score(score: f64) -> [u8; 11] {
    geohash_of(place_of_score(score))
}

/// A number cut to an unsigned integer as C programs on x86-64 do it. Negative numbers keep the
/// bits of the signed integer; what fits into neither becomes 2^63 or 0.
fn bits_of_score(score: f64) -> u64 {
    const TWO_63: f64 = 9_223_372_036_854_775_808.0;
    // The processor's conversion gives this for all that is out of range.
    let signed = |value: f64| {
        if (-TWO_63..TWO_63).contains(&value) { value as i64 } else { i64::MIN }
    };
    if score < TWO_63 { signed(score) as u64 } else { signed(score - TWO_63) as u64 ^ 1 << 63 }
}

fn middle_degrees(index: u32, limit_degrees: f64) -> f64 {
    let lower = edge_degrees(index, STEPS, limit_degrees);
    // The index is a 32-bit number in Redis too, and wraps around there.
    let upper = edge_degrees(index.wrapping_add(1), STEPS, limit_degrees);
    ((lower + upper) / 2.0).clamp(-limit_degrees, limit_degrees)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_that_is_a_cell_has_the_place_of_the_cell() {
        for bits in [0, 1, 3_479_099_956_230_698, Cell::MAX.bits()] {
            let cell = Cell::from_bits(bits).unwrap();
            assert_eq!(cell_of_score(bits as f64), Some(cell));
            assert_eq!(place_of_score(bits as f64), cell.place());
            assert_eq!(geohash_of_score(bits as f64), cell.geohash());
        }
    }

    #[test]
    fn scores_are_cut_to_integers_as_the_processor_does_it() {
        let cases = [
            (1.9, 1),
            (-0.5, 0),
            (-1.5, u64::MAX),
            (9_223_372_036_854_775_808.0, 1 << 63),
            (1e19, 10_000_000_000_000_000_000),
            (1e30, 0),
            (f64::INFINITY, 0),
            (f64::NEG_INFINITY, 1 << 63),
            (-1e30, 1 << 63),
        ];
        for (score, bits) in cases {
            assert_eq!(bits_of_score(score), bits, "{score}");
            let place = place_of_score(score);
            assert!(place.longitude_degrees.abs() <= 180.0, "{score}");
        }
        assert_eq!(cell_of_score(f64::NAN), None);
        assert_eq!(cell_of_score(f64::INFINITY), None);
        assert_eq!(cell_of_score(1e18), None);
    }
}
