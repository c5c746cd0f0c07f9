//! Everything inside an area, in (cell, member) order.
//!
//! For: pages of a map's area, which go on after the last entry of the page before, and a count of
//! all that is inside. Not for: the order of Redis's replies (`search.rs`).
//! Cost: as a search's scan; a rectangle asks nothing but whole numbers.

use std::ops::{ControlFlow, Range};

use super::Tree;
use super::found::Found;
use super::leaf::Leaf;
use super::search::{AreaTest, Descent, Sink, Taker};
use super::walk::{Cursor, LeafAt};
use crate::bounding_box::BoundingBox;
use crate::cell::{END_BITS, STEPS};
use crate::cover::{Cover, Side};
use crate::place::Place;
use crate::region::Region;
use crate::search::{Order, Search};
use crate::shape::Shape;

/// An area of the globe.
#[derive(Clone, Debug)]
pub enum Area {
    /// Between two longitudes and two latitudes.
    Box(BoundingBox),
    /// A circle, polygon or box in meters around a centre.
    Shape {
        /// The centre.
        center: Place,
        /// The shape.
        shape: Shape,
    },
}

impl Tree {
    /// Finds everything inside an area, in (cell, member) order; what `found` held is dropped
    /// first.
    ///
    /// ```
    /// use whered_geo::{Area, BoundingBox, Cell, Found, FoundCursor, Place, Points};
    /// let mut points = Points::new();
    /// let palermo = Cell::from_place(Place::new(13.361389, 38.115556)?);
    /// let catania = Cell::from_place(Place::new(15.087269, 37.502669)?);
    /// points.insert(b"palermo", palermo);
    /// points.insert(b"catania", catania);
    /// let sicily = BoundingBox::new(12.0, 36.0, 16.0, 39.0)?;
    /// let mut found = Found::new();
    /// points.find_area(&Area::Box(sicily), &mut found);
    /// assert_eq!(found.len(), 2);
    /// let mut rest = found.cursor_after(&points, palermo, b"palermo");
    /// let next = found.next_hit(&points, &mut rest).map(|hit| hit.member());
    /// assert_eq!(next, Some(&b"catania"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn find_area(&self, area: &Area, found: &mut Found) {
        let Some(cursor) = Cursor::new(self) else {
            found.restart(Place { longitude_degrees: 0.0, latitude_degrees: 0.0 });
            return;
        };
        match area {
            Area::Box(rectangle) => {
                let [west, south, ..] = rectangle.sides_degrees();
                found.restart(Place { longitude_degrees: west, latitude_degrees: south });
                let taker = RectangleTaker { rectangle: *rectangle, found };
                let _ = Descent::new(rectangle, cursor, taker).range(0..END_BITS);
            }
            Area::Shape { center, shape } => {
                found.restart(*center);
                if shape.is_negative() {
                    return;
                }
                let (order, shape) = (Order::Unsorted, shape.clone());
                let search = Search { center: *center, shape, order, count: None, any: false };
                let region = Region::around(search.center, &search.shape);
                let cover = Cover::new(search.center, &search.shape, &region);
                let taker = Taker::new(&search, &cover, &region, usize::MAX, found);
                let _ = Descent::new(&cover, cursor, taker).range(0..END_BITS);
            }
        }
    }
}

impl AreaTest for BoundingBox {
    /// Where it begins, and its step.
    type Square = (u64, u32);

    fn square(&self, bits: u64, step: u32) -> (u64, u32) {
        (bits, step)
    }

    fn quarters(&self, (bits, step): &(u64, u32)) -> [(u64, u32); 4] {
        let (step, size) = (step + 1, 1 << (2 * (STEPS - step - 1)));
        [0, 1, 2, 3].map(|quarter| (bits + quarter * size, step))
    }

    fn side(&self, (bits, step): &(u64, u32)) -> Side {
        BoundingBox::side(self, *bits, *step)
    }

    fn bits((bits, step): &(u64, u32)) -> Range<u64> {
        *bits..bits + (1 << (2 * (STEPS - step)))
    }
}

/// Takes what is inside a rectangle.
struct RectangleTaker<'a> {
    rectangle: BoundingBox,
    found: &'a mut Found,
}

impl Sink for RectangleTaker<'_> {
    const FEW_KEYS: usize = 64;

    fn inside(&mut self, at: LeafAt, _leaf: &Leaf, slots: Range<usize>) -> ControlFlow<()> {
        self.found.push(at, slots);
        ControlFlow::Continue(())
    }

    fn edge(&mut self, at: LeafAt, leaf: &Leaf, slots: Range<usize>) -> ControlFlow<()> {
        for slot in slots {
            if self.rectangle.contains_bits(leaf.cell_bits(slot)) {
                // Neighbours become one span.
                self.found.push(at, slot..slot + 1);
            }
        }
        ControlFlow::Continue(())
    }

    fn exact(&mut self, at: LeafAt, leaf: &Leaf, slots: Range<usize>) -> ControlFlow<()> {
        self.edge(at, leaf, slots)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Points;
    use super::super::found::FoundCursor;
    use super::*;
    use crate::bounding_box::is_between;
    use crate::cell::Cell;
    use crate::polygon::Polygon;
    use proptest::prelude::*;

    fn longitude() -> impl Strategy<Value = f64> {
        prop_oneof![-180.0..=180.0_f64, Just(180.0), Just(-180.0), 179.9..=180.0_f64]
    }

    fn latitude() -> impl Strategy<Value = f64> {
        prop_oneof![-85.05112878..=85.05112878_f64, Just(85.05112878), 80.0..=85.0_f64]
    }

    /// Points all over the globe, some of them together, and some at its limit.
    pub(super) fn points_of(places: &[(f64, f64)]) -> Points {
        let mut points = Points::new();
        for (number, (x, y)) in places.iter().enumerate() {
            let cell = Cell::from_place(Place::new(*x, *y).unwrap());
            points.insert(format!("m{number}").as_bytes(), cell);
            points.insert(format!("twin{number}").as_bytes(), cell);
        }
        points
    }

    fn hits(points: &Points, found: &Found, mut cursor: FoundCursor) -> Vec<Vec<u8>> {
        let next = || found.next_hit(points, &mut cursor);
        std::iter::from_fn(next).map(|hit| hit.member().to_vec()).collect()
    }

    fn naive(points: &Points, is_inside: impl Fn(Place) -> bool) -> Vec<Vec<u8>> {
        let inside = points.iter().filter(|(_, cell)| is_inside(cell.place()));
        inside.map(|(member, _)| member.to_vec()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_box_has_what_lies_between_its_sides_in_the_order_of_the_index(
            places in prop::collection::vec((longitude(), latitude()), 0..700),
            west in longitude(), east in longitude(), south in latitude(), height in 0.0..90.0_f64,
            after in any::<prop::sample::Index>(),
        ) {
            let points = points_of(&places);
            let sides = [west, south, east, (south + height).min(90.0)];
            let [west, south, east, north] = sides;
            let area = Area::Box(BoundingBox::new(west, south, east, north).unwrap());
            let mut found = Found::new();
            points.find_area(&area, &mut found);
            let expected = naive(&points, |place| is_between(sides, place));
            prop_assert_eq!(found.len(), expected.len());
            prop_assert_eq!(&hits(&points, &found, FoundCursor::default()), &expected);
            // A page goes on after any entry, be it a hit or not.
            if !points.is_empty() {
                let (member, cell) = points.iter().nth(after.index(points.len())).unwrap();
                let rest = found.cursor_after(&points, cell, member);
                let later: Vec<Vec<u8>> = points
                    .iter()
                    .filter(|(m, c)| (*c, *m) > (cell, member) && is_between(sides, c.place()))
                    .map(|(member, _)| member.to_vec())
                    .collect();
                prop_assert_eq!(rest.hits(), expected.len() - later.len());
                prop_assert_eq!(hits(&points, &found, rest), later);
            }
            let sample: Vec<Cell> = found.sample(&points, 7).collect();
            prop_assert_eq!(sample.len(), expected.len().min(7));
            prop_assert!(sample.iter().all(|cell| is_between(sides, cell.place())));
        }

        #[test]
        fn circles_and_polygons_have_what_their_shapes_say(
            places in prop::collection::vec((longitude(), latitude()), 0..700),
            x in longitude(), y in latitude(), radius_meters in 0.0..12e6_f64,
            corners in prop::collection::vec((longitude(), latitude()), 3..7),
        ) {
            let points = points_of(&places);
            let at = |(x, y): &(f64, f64)| Place::new(*x, *y).unwrap();
            let polygon = Polygon::new(&corners.iter().map(at).collect::<Vec<_>>()).unwrap();
            let circle = (at(&(x, y)), Shape::Circle { radius_meters });
            for (center, shape) in [circle, (polygon.center(), Shape::Polygon(polygon))] {
                let mut found = Found::new();
                points.find_area(&Area::Shape { center, shape: shape.clone() }, &mut found);
                let is_inside = |place| shape.distance_if_inside(center, place).is_some();
                let expected = naive(&points, is_inside);
                prop_assert_eq!(hits(&points, &found, FoundCursor::default()), expected);
            }
        }
    }

    #[test]
    fn an_empty_collection_has_nothing_in_any_area() {
        let mut found = Found::new();
        Points::new().find_area(&Area::Box(BoundingBox::everywhere()), &mut found);
        assert!(found.is_empty());
        let cursor = found.cursor_after(&Points::new(), Cell::MIN, b"a");
        assert_eq!(cursor, FoundCursor::default());
        assert_eq!(found.sample(&Points::new(), 10).count(), 0);
    }
}
