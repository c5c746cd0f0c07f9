//! The quick test of single points: certainly inside, certainly outside, or doubtful.
//!
//! For: the keys of leaves that a shape's rim crosses, 64 at a time; and the order of candidates
//! for the nearest. Not for: the last word on a doubtful point
//! ([`Shape::distance_if_inside`](crate::Shape::distance_if_inside)), nor for whole ranges
//! (`cover.rs`).
//!
//! ```text
//! keys ─► columns x, rows y ─► dx, dy to the centre ─► h = a(dy) + p(dy) a(dx) ─► masks
//!         (simd/)              (whole cells, exact)     │
//!                              circle: h is the haversine of the distance:
//!                                      a(d) = hav(d), p(dy) = cos(centre) cos(centre + dy)
//!                              box:    h is that of the way along the point's own latitude:
//!                                      no a(dy) of its own, p(dy) = cos²(centre + dy)
//!                              polygon: h is 0, so that all within the region are doubtful
//! ```
//!
//! Points outside the shape's region (`region.rs`) are outside, so the numbers need to be right
//! only for points within it; this bounds dx and dy by the region's reaches Dx and Dy (radians).
//!
//! Short form, for reaches below 2^22 cells (some 2,500 by 1,200 km): single precision,
//! hav(d) = d²/4 - d⁴/48, p as a polynomial of fourth degree. What it errs, in haversines, with
//! u = 2^-24 and P = the sum of the absolute values of p's terms:
//! - left-out terms: Dy⁶/1440 + P Dx⁶/1440 + p5 hav(Dx), where p5 = Dy⁵/120 times C for a circle and 16 Dy⁵/120
//!   for a box bounds the rest of p;
//! - rounding: differences are whole numbers below 2^24, so exact; adding the centre's fraction of a cell
//!   costs u; then every product and sum at most u of its value: 8 u for a(d), 12 u of P for
//!   p, since its terms may cancel. Together below 32 u (hav(Dy) + P hav(Dx)).
//!
//! Both are added to the threshold's own margin. For a radius of 200 km that leaves
//! a band of some 40 cm, for 5 km of 1 cm, in which points are tested exactly.
//! Long form, for all else: double precision, the full series (relative error 1e-11), rounded to
//! single precision at the end (u of the value).
//!
//! Cost, measured: see `docs/design/points-search.md`.

use crate::cell::STEPS;
use crate::cover::{COLUMN_RADIANS, Center, Cover, Kind, ROW_RADIANS, Threshold};
use crate::distance::hav;
use crate::region::Region;

/// Keys that are tested together.
pub(crate) const BLOCK: usize = 64;
/// Columns of a full turn, less one.
pub(crate) const TURN_MASK: u32 = (1 << STEPS) - 1;
/// The short form is for differences below this many cells.
const SHORT_REACH: f64 = (1u32 << 22) as f64;
/// The rounding of a number in single precision.
const ROUNDING: f64 = 1.0 / (1u32 << 24) as f64;

/// A shape around a centre, ready to be held against points.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub(crate) bounds: Bounds,
    pub(crate) form: Form,
    /// At most this is inside.
    pub(crate) inside: f32,
    /// More than this is outside.
    pub(crate) outside: f32,
    /// How far `h` may be from the true haversine.
    pub(crate) error: f64,
}

/// Where points can be inside at all, in whole cells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The first column, and the steps to the last one, modulo a turn.
    pub(crate) west: u32,
    pub(crate) width: u32,
    /// The first row and the steps to the last one.
    pub(crate) south: u32,
    pub(crate) height: u32,
    /// The rows in which a point can be certainly inside.
    pub(crate) inner_south: u32,
    pub(crate) inner_height: u32,
    /// The `h` of a point in another row, between the two limits.
    pub(crate) doubtful: f32,
    /// The cell of the centre.
    pub(crate) x: u32,
    pub(crate) y: u32,
}

/// How `h` is computed.
#[derive(Clone, Debug)]
pub(crate) enum Form {
    Short(Short),
    Long(Long),
}

/// Coefficients for differences in cells.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Short {
    /// From the middle of the centre's cell to the centre, negative.
    pub(crate) dx: f32,
    pub(crate) dy: f32,
    /// hav(dx) and hav(dy): of the square, and of its square.
    pub(crate) across: [f32; 2],
    pub(crate) along: [f32; 2],
    /// p(dy), from the constant up.
    pub(crate) cosines: [f32; 5],
}

/// The constants of the long form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Long {
    pub(crate) dx: f64,
    pub(crate) dy: f64,
    /// The centre's sine and cosine of latitude.
    pub(crate) sin: f64,
    pub(crate) cos: f64,
    /// Whether p(dy) is cos² instead, and hav(dy) is left out.
    pub(crate) is_box: bool,
}

/// The result of the test of a block of keys; bit `n` is key `n`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Masks {
    /// Certainly inside.
    pub(crate) inside: u64,
    /// Perhaps inside.
    pub(crate) doubtful: u64,
}

impl Filter {
    /// The filter of a cover; `region` is that of the same shape.
    pub(crate) fn new(cover: &Cover, region: &Region) -> Filter {
        let (west, width) = region.columns_from_west();
        let (south, north) = region.rows();
        let center = &cover.center;
        let (x, y) = (center.x.floor(), center.y.floor());
        let mut bounds = Bounds {
            west,
            width,
            south,
            height: north - south,
            inner_south: south,
            inner_height: north - south,
            doubtful: 0.0,
            x: x as u32 & TURN_MASK,
            // A centre beyond the rows has a negative number, in two's complement.
            y: y as i32 as u32,
        };
        let (threshold, is_box) = match &cover.kind {
            Kind::Circle(threshold) => (*threshold, false),
            Kind::Box { width, inner, .. } => {
                // No row at all is one that does not exist.
                let (first, last) = if inner.0 <= inner.1 { *inner } else { (1 << 31, 1 << 31) };
                (bounds.inner_south, bounds.inner_height) = (first, last - first);
                (*width, true)
            }
            Kind::Polygon(_) => return Filter::doubting(bounds),
        };
        let reach = Reach::of(center, region);
        let (dx, dy) = (0.5 - (center.x - x), 0.5 - (center.y - y));
        let (form, error) = if reach.is_short {
            let (short, error) = Short::of(center, &reach, is_box);
            (Form::Short(Short { dx: dx as f32, dy: dy as f32, ..short }), error)
        } else {
            let long = Long { dx, dy, sin: center.sin, cos: center.cos, is_box };
            (Form::Long(long), 4.0 * ROUNDING * threshold.outside.min(1.0))
        };
        Filter::with_limits(bounds, form, threshold, error)
    }

    /// All within the bounds are doubtful.
    fn doubting(bounds: Bounds) -> Filter {
        let form = Form::Short(Short::default());
        Filter { bounds, form, inside: -1.0, outside: f32::MAX, error: 0.0 }
    }

    fn with_limits(bounds: Bounds, form: Form, threshold: Threshold, error: f64) -> Filter {
        // Rounded to single precision, a limit moves by less than twice its last bit.
        let slack = |limit: f64| error + 2.0 * ROUNDING * limit.abs();
        // What is outside the bounds is infinite, so a limit is not.
        let largest = f64::from(f32::MAX);
        let inside = (threshold.inside - slack(threshold.inside)).min(largest) as f32;
        let outside = (threshold.outside + slack(threshold.outside)).min(largest) as f32;
        let bounds = Bounds { doubtful: inside.max(0.0).next_up().min(outside), ..bounds };
        // With no limit of the width, rows alone decide; a doubtful row must not be below it.
        let inside = if inside < bounds.doubtful { inside } else { bounds.doubtful.next_down() };
        Filter { bounds, form, inside, outside, error }
    }
}

/// The largest differences from the centre to a point of the region, in radians.
struct Reach {
    across: f64,
    along: f64,
    is_short: bool,
}

impl Reach {
    fn of(center: &Center, region: &Region) -> Reach {
        let turn = f64::from(TURN_MASK) + 1.0;
        let (west, width) = region.columns_from_west();
        let (south, north) = region.rows();
        let to_west = (center.x - f64::from(west)).rem_euclid(turn);
        let to_east = (f64::from(west) + f64::from(width) - center.x).rem_euclid(turn);
        // A centre outside its region (a polygon's can be) is not what the short form is for.
        let is_within = to_west <= f64::from(width) + 1.0 && to_east <= f64::from(width) + 1.0;
        let across = to_west.max(to_east) + 1.0;
        let to_south = (center.y - f64::from(south)).abs();
        let to_north = (f64::from(north) - center.y).abs();
        let along = to_south.max(to_north) + 1.0;
        Reach {
            across: across * COLUMN_RADIANS,
            along: along * ROW_RADIANS,
            is_short: is_within && across < SHORT_REACH && along < SHORT_REACH,
        }
    }
}

impl Short {
    /// The coefficients, and a bound of the error within the reach.
    fn of(center: &Center, reach: &Reach, is_box: bool) -> (Short, f64) {
        let Center { sin, cos, .. } = *center;
        let haversine = |cell: f64| [(cell.powi(2) / 4.0) as f32, (-cell.powi(4) / 48.0) as f32];
        // The derivatives of p at the centre's latitude, each by its factorial.
        let (terms, rest) = if is_box {
            let (double_sin, double_cos) = (2.0 * sin * cos, cos * cos - sin * sin);
            let terms =
                [cos * cos, -double_sin, -double_cos, 2.0 / 3.0 * double_sin, double_cos / 3.0];
            (terms, 16.0)
        } else {
            let terms = [cos, -sin, -cos / 2.0, sin / 6.0, cos / 24.0].map(|term| cos * term);
            (terms, cos)
        };
        let mut cosines = [0.0; 5];
        let mut sum = 0.0;
        for (power, term) in (0..).zip(terms) {
            cosines[power as usize] = (term * ROW_RADIANS.powi(power)) as f32;
            sum += term.abs() * reach.along.powi(power);
        }
        let along = if is_box { [0.0; 2] } else { haversine(ROW_RADIANS) };
        let short = Short { across: haversine(COLUMN_RADIANS), along, cosines, dx: 0.0, dy: 0.0 };
        let left_out = if is_box { 0.0 } else { reach.along.powi(6) / 1440.0 }
            + sum * reach.across.powi(6) / 1440.0
            + rest * reach.along.powi(5) / 120.0 * hav(reach.across);
        let largest = if is_box { 0.0 } else { hav(reach.along) } + sum * hav(reach.across);
        (short, left_out + 32.0 * ROUNDING * largest)
    }
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;
