//! Unit vectors of places, sixteen together, and boxes around them.
//!
//! Boxes are in single precision, rounded outwards, and so are the sides that a place is compared
//! with; what single precision does after that is allowed for by [`NODE_SLACK`].

use crate::distance::radians;
use crate::place::Place;

/// Entries of a block, and children of a node.
pub(super) const FANOUT: usize = 16;

/// What a square computed by [`Node::squares`] may be too large by, as a part of it: five
/// roundings of 6e-8 each, and as many again.
pub(super) const NODE_SLACK: f64 = 1e-6;

/// A place on the unit sphere: x, y and z.
pub(super) type Vector = [f64; 3];

/// The unit vectors of some entries.
#[derive(Clone, Debug)]
pub(super) struct Block {
    axes: [[f64; FANOUT]; 3],
}

/// A box: its lower and its upper corner.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    low: [f32; 3],
    high: [f32; 3],
}

/// The boxes around some children.
#[derive(Clone, Debug)]
pub(super) struct Node {
    low: [[f32; FANOUT]; 3],
    high: [[f32; FANOUT]; 3],
}

/// The unit vector of a place, each number within 1e-15 of the true one.
pub(super) fn vector_of(place: Place) -> Vector {
    let (east, upward) = (radians(place.longitude_degrees), radians(place.latitude_degrees));
    let level = upward.cos();
    [level * east.cos(), level * east.sin(), upward.sin()]
}

/// A vector rounded down and rounded up.
pub(super) fn rounded(vector: Vector) -> Bounds {
    Bounds { low: vector.map(below), high: vector.map(above) }
}

/// The square of the distance between two vectors.
pub(super) fn square(a: Vector, b: Vector) -> f64 {
    let [x, y, z] = [a[0] - b[0], a[1] - b[1], a[2] - b[2]];
    x * x + y * y + z * z
}

impl Block {
    /// No entries: all are infinitely far away.
    pub(super) const EMPTY: Block = Block { axes: [[f64::INFINITY; FANOUT]; 3] };

    /// Puts an entry into a lane.
    pub(super) fn set(&mut self, lane: usize, vector: Vector) {
        for (axis, number) in self.axes.iter_mut().zip(vector) {
            axis[lane] = number;
        }
    }

    /// The entry of a lane.
    pub(super) fn vector(&self, lane: usize) -> Vector {
        [self.axes[0][lane], self.axes[1][lane], self.axes[2][lane]]
    }

    /// The box around all entries, of which there is one at least.
    pub(super) fn bounds(&self) -> Bounds {
        let ends = self.axes.map(|axis| {
            let numbers = axis.iter().copied().filter(|number| number.is_finite());
            numbers.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), number| {
                (low.min(number), high.max(number))
            })
        });
        Bounds { low: ends.map(|(low, _)| below(low)), high: ends.map(|(_, high)| above(high)) }
    }

    /// The squares of the distances from a vector to all lanes.
    #[inline(always)]
    pub(super) fn squares(&self, from: Vector) -> [f64; FANOUT] {
        let [xs, ys, zs] = &self.axes;
        let mut squares = [0.0; FANOUT];
        for lane in 0..FANOUT {
            let [x, y, z] = [xs[lane] - from[0], ys[lane] - from[1], zs[lane] - from[2]];
            squares[lane] = x * x + y * y + z * z;
        }
        squares
    }
}

impl Node {
    /// A node over up to [`FANOUT`] children; those that are missing are infinitely far away.
    pub(super) fn over(children: &[Bounds]) -> Node {
        let infinite = [[f32::INFINITY; FANOUT]; 3];
        let mut node = Node { low: infinite, high: infinite };
        for (lane, child) in children.iter().enumerate() {
            for axis in 0..3 {
                node.low[axis][lane] = child.low[axis];
                node.high[axis][lane] = child.high[axis];
            }
        }
        node
    }

    /// The box around all children.
    pub(super) fn bounds(&self) -> Bounds {
        let finite =
            |numbers: &[f32; FANOUT]| numbers.map(|number| Some(number).filter(|n| n.is_finite()));
        let least =
            |axis: &[f32; FANOUT]| finite(axis).into_iter().flatten().fold(f32::INFINITY, f32::min);
        let most = |axis: &[f32; FANOUT]| {
            finite(axis).into_iter().flatten().fold(f32::NEG_INFINITY, f32::max)
        };
        Bounds {
            low: [least(&self.low[0]), least(&self.low[1]), least(&self.low[2])],
            high: [most(&self.high[0]), most(&self.high[1]), most(&self.high[2])],
        }
    }

    /// The squares of the distances from a vector to all boxes: at most [`NODE_SLACK`] of them more
    /// than the true ones, and less by what rounding to single precision hides.
    #[inline(always)]
    pub(super) fn squares(&self, from: &Bounds) -> [f32; FANOUT] {
        let mut squares = [0.0; FANOUT];
        for axis in 0..3 {
            let (low, high) = (&self.low[axis], &self.high[axis]);
            let (from_low, from_high) = (from.low[axis], from.high[axis]);
            for lane in 0..FANOUT {
                let before = low[lane] - from_high;
                let beyond = from_low - high[lane];
                // Written out: `f32::max` minds NaN, which costs twice as much.
                let side = if before > beyond { before } else { beyond };
                let side = if side > 0.0 { side } else { 0.0 };
                squares[lane] += side * side;
            }
        }
        squares
    }
}

/// The largest number of single precision that is not above this one.
fn below(number: f64) -> f32 {
    let near = number as f32;
    if f64::from(near) > number { near.next_down() } else { near }
}

/// The smallest number of single precision that is not below this one.
fn above(number: f64) -> f32 {
    let near = number as f32;
    if f64::from(near) < number { near.next_up() } else { near }
}
