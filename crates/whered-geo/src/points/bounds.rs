//! The smallest rectangle that holds all points.
//!
//! For: where to look at a collection first. Not for: what is inside (`area.rs`).
//! Cost: each side goes down those squares only that may reach beyond what is known, as a rule some
//! hundred; a leaf is read once a side at most.

use super::Tree;
use super::walk::Cursor;
use crate::bounding_box::{BoundingBox, Steps};
use crate::cell::{OVERFLOW_BITS, STEPS, deinterleave};

/// A side of the rectangle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    West,
    East,
    South,
    North,
}

impl Tree {
    /// The smallest rectangle that holds the centres of all points' cells and does not go over the
    /// date line; `None` without points.
    ///
    /// ```
    /// use whered_geo::{Cell, Place, Points};
    /// let mut points = Points::new();
    /// assert_eq!(points.bounds(), None);
    /// for (member, longitude) in [(b"a", 13.0), (b"b", 15.0)] {
    ///     points.insert(member, Cell::from_place(Place::new(longitude, 38.0)?));
    /// }
    /// let [west, _, east, _] = points.bounds().expect("two points").sides_degrees();
    /// assert!(west <= 13.0 && east >= 14.999);
    /// # Ok::<(), whered_geo::PlaceError>(())
    /// ```
    pub fn bounds(&self) -> Option<BoundingBox> {
        let reach = |side| {
            let mut search = Reach { side, cursor: Cursor::new(self)?, most: None };
            search.square(0, 0);
            search.limit(self);
            search.most
        };
        let (first, last) = (reach(Side::West)?, reach(Side::East)?);
        let columns = Steps { first: mirrored(first), last };
        let (first, last) = (reach(Side::South)?, reach(Side::North)?);
        let rows = Steps { first: mirrored(first), last };
        Some(BoundingBox::enclosing(columns, rows))
    }
}

/// Steps counted from the other end: sides are always looked for upwards.
fn mirrored(step: u32) -> u32 {
    (1 << STEPS) - step
}

/// How far the points reach to one side.
struct Reach<'a> {
    side: Side,
    cursor: Cursor<'a>,
    /// The largest step that is known, mirrored for west and south.
    most: Option<u32>,
}

impl Reach<'_> {
    fn step_of(&self, bits: u64) -> u32 {
        let (x, y) = deinterleave(bits);
        match self.side {
            Side::West => mirrored(x),
            Side::East => x,
            Side::South => mirrored(y),
            Side::North => y,
        }
    }

    /// Looks into a square, if it may reach beyond what is known.
    fn square(&mut self, bits: u64, step: u32) {
        let size = 1_u64 << (2 * (STEPS - step));
        // Its outermost cell is in one of its corners.
        let corner = self.step_of(bits).max(self.step_of(bits + size - 1));
        if self.most.is_some_and(|most| corner <= most) {
            return;
        }
        self.cursor.seek(bits);
        if self.cursor.next_first() >= bits + size {
            let leaf = self.cursor.leaf();
            let slots = leaf.keys().rank(bits)..leaf.keys().rank(bits + size);
            let steps = slots.map(|slot| self.step_of(leaf.cell_bits(slot)));
            self.most = steps.max().max(self.most);
            return;
        }
        if step == STEPS {
            // Many points in one cell: the leaves after this one have some.
            self.most = Some(corner).max(self.most);
            return;
        }
        // The quarters that reach farthest come first.
        let order = match self.side {
            Side::West => [0, 1, 2, 3],
            Side::East => [3, 2, 1, 0],
            Side::South => [0, 2, 1, 3],
            Side::North => [3, 1, 2, 0],
        };
        order.into_iter().for_each(|quarter| self.square(bits + quarter * (size / 4), step + 1));
    }

    /// Looks at the points at the limit of the globe. On each edge of it cells ascend with the
    /// other coordinate, so that the first and the last one tell.
    fn limit(&mut self, tree: &Tree) {
        let edges = [OVERFLOW_BITS..=2 * OVERFLOW_BITS - 1, 2 * OVERFLOW_BITS..=u64::MAX];
        for edge in edges {
            let mut entries = tree.iter_bits(edge);
            let ends = [entries.next(), entries.next_back()];
            let steps = ends.into_iter().flatten().map(|(_, cell)| self.step_of(cell.bits()));
            self.most = steps.max().max(self.most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Points;
    use crate::cell::Cell;
    use crate::place::Place;
    use proptest::prelude::*;

    fn naive(points: &Points) -> Option<[f64; 4]> {
        let places: Vec<Place> = points.iter().map(|(_, cell)| cell.place()).collect();
        let (x, y) = (
            || places.iter().map(|place| place.longitude_degrees),
            || places.iter().map(|place| place.latitude_degrees),
        );
        let first = places.first()?;
        let (x0, y0) = (first.longitude_degrees, first.latitude_degrees);
        Some([
            x().fold(x0, f64::min),
            y().fold(y0, f64::min),
            x().fold(x0, f64::max),
            y().fold(y0, f64::max),
        ])
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_bounds_are_those_of_all_points(
            places in prop::collection::vec(
                prop_oneof![
                    (-180.0..=180.0_f64, -85.05112878..=85.05112878_f64),
                    (Just(180.0), -85.05112878..=85.05112878_f64),
                    (-180.0..=180.0_f64, Just(85.05112878)),
                    (7.0..=7.001_f64, 50.0..=50.001_f64),
                ],
                0..900,
            ),
        ) {
            let mut points = Points::new();
            for (number, (x, y)) in places.iter().enumerate() {
                let cell = Cell::from_place(Place::new(*x, *y).unwrap());
                points.insert(format!("m{number}").as_bytes(), cell);
            }
            prop_assert_eq!(points.bounds().map(|found| found.sides_degrees()), naive(&points));
        }
    }

    #[test]
    fn a_crowd_in_one_cell_has_that_cell_for_bounds() {
        let mut points = Points::new();
        let cell = Cell::from_place(Place::new(8.0, 50.0).unwrap());
        for number in 0..5_000 {
            points.insert(format!("m{number}").as_bytes(), cell);
        }
        assert_eq!(points.bounds().map(|found| found.sides_degrees()), naive(&points));
    }
}
