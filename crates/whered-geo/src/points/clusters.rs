//! Points of a rectangle, counted by the squares of a grid.
//!
//! For: drawing millions of points as some hundred circles with numbers. Not for: which points they
//! are (`area.rs`).
//!
//! ```text
//! cluster   a square of the grid, one range of cells
//!  ┌┬┬┬┬┬┬┬┐   8 by 8 parts, each a smaller range; a cluster's place is the mean of the
//!  ├┼┼┼┼┼┼┼┤   middles of its points' parts
//!  └┴┴┴┴┴┴┴┘
//! ```
//!
//! Invariants: every point inside is counted once; clusters are in the order of their cells. A
//! point at the limit of the globe belongs to the square next to it. The grid depends on the
//! rectangle and the zoom alone, so that clusters stay where they are while points move.
//! Cost: the points of clusters with few points are read, about 1 ns each; parts of others are
//! counted by the branches of the tree, some 0.2 µs each, whatever they hold.

use std::ops::Range;

use super::Tree;
use super::leaf::{Keys, Leaf};
use super::walk::{Cursor, LeafAt};
use crate::bounding_box::BoundingBox;
use crate::cell::{Cell, OVERFLOW_BITS, STEPS, deinterleave, interleave};
use crate::cover::Side;
use crate::place::{LATITUDE_LIMIT_DEGREES, LONGITUDE_LIMIT_DEGREES, Place};

/// The most squares of a grid: no answer has more clusters.
pub const CLUSTERS_MAX: usize = 2_048;

/// How many steps a cluster is smaller than a tile of 256 pixels of a web map.
const STEPS_BELOW_ZOOM: u32 = 3;
/// How many steps a part is smaller than its cluster.
const PART_STEPS: u32 = 3;
/// Parts of a cluster.
const PARTS: usize = 1 << (2 * PART_STEPS);
/// Up to how many points are read one by one; it costs as much as to look into all parts.
const FEW_POINTS: usize = 8_192;

/// Points of one square.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster<'a> {
    /// The mean of the points' places, within an eighth of the square; exact for a single point.
    pub place: Place,
    /// How many points there are.
    pub count: usize,
    /// The only point.
    pub member: Option<&'a [u8]>,
}

/// All clusters of a rectangle.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clusters<'a> {
    /// How many points there are in all.
    pub total: usize,
    /// In the order of their cells.
    pub clusters: Vec<Cluster<'a>>,
}

impl Tree {
    /// The points inside a rectangle as clusters: squares of 32 pixels of a web map of this zoom,
    /// larger ones where these would be more than [`CLUSTERS_MAX`].
    ///
    /// ```
    /// use whered_geo::{BoundingBox, Cell, Place, Points};
    /// let mut points = Points::new();
    /// for (member, longitude) in [(b"a", 13.36), (b"b", 13.37), (b"c", -70.0)] {
    ///     points.insert(member, Cell::from_place(Place::new(longitude, 38.1)?));
    /// }
    /// let found = points.clusters(&BoundingBox::everywhere(), 2);
    /// let counts: Vec<_> = found.clusters.iter().map(|cluster| cluster.count).collect();
    /// assert_eq!(counts, [1, 2]);
    /// assert_eq!(found.clusters[0].member, Some(&b"c"[..]));
    /// # Ok::<(), whered_geo::PlaceError>(())
    /// ```
    pub fn clusters(&self, rectangle: &BoundingBox, zoom: u32) -> Clusters<'_> {
        let step = step_of(rectangle, zoom);
        let Some(cursor) = Cursor::new(self) else {
            return Clusters::default();
        };
        let mut counter = Counter::new(self, *rectangle, step, cursor);
        counter.square(0, 0);
        counter.finish_square();
        counter.add_limit();
        counter.into_clusters()
    }
}

/// How large the squares are: the finest step that is wanted and has few enough of them.
fn step_of(rectangle: &BoundingBox, zoom: u32) -> u32 {
    let mut step = zoom.saturating_add(STEPS_BELOW_ZOOM).min(STEPS);
    while step > 0 && rectangle.squares(step) > CLUSTERS_MAX as u64 {
        step -= 1;
    }
    step
}

/// What is known of a square's points.
#[derive(Clone, Copy, Debug)]
struct Square {
    /// The bits of its cells in front of those that differ.
    number: u64,
    count: usize,
    /// The sums of columns and rows of parts.
    columns: u64,
    rows: u64,
    /// One of the points.
    at: LeafAt,
    slot: usize,
}

/// A walk down the quadtree beside one through the leaves.
struct Counter<'a> {
    tree: &'a Tree,
    rectangle: BoundingBox,
    step: u32,
    part_step: u32,
    cursor: Cursor<'a>,
    /// The square that is being counted, and the points in each of its parts.
    number: u64,
    parts: [usize; PARTS],
    /// A point of it.
    last: Option<(LeafAt, usize)>,
    squares: Vec<Square>,
}

impl<'a> Counter<'a> {
    fn new(tree: &'a Tree, rectangle: BoundingBox, step: u32, cursor: Cursor<'a>) -> Counter<'a> {
        let part_step = (step + PART_STEPS).min(STEPS);
        let (parts, squares) = ([0; PARTS], Vec::new());
        let (number, last) = (0, None);
        Counter { tree, rectangle, step, part_step, cursor, number, parts, last, squares }
    }

    /// Counts the points of a square of the map that are inside.
    fn square(&mut self, bits: u64, step: u32) {
        let side = self.rectangle.side(bits, step);
        if side == Side::Outside {
            return;
        }
        let cells = bits..bits + (1 << (2 * (STEPS - step)));
        self.cursor.seek(cells.start);
        if self.cursor.next_first() >= cells.end {
            let keys = self.cursor.leaf().keys();
            let slots = keys.rank(cells.start)..keys.rank(cells.end);
            return self.leaf(slots, side);
        }
        if side == Side::Inside && step >= self.step {
            let first = self.tree.rank_at(self.tree.first_from(cells.start));
            let count = self.tree.rank_at(self.tree.first_from(cells.end)) - first;
            if count <= FEW_POINTS {
                return self.leaves(cells);
            }
            if step >= self.part_step {
                self.enter(self.number_of(cells.start));
                self.parts[self.part_of(cells.start)] += count;
                return;
            }
        }
        debug_assert!(step < STEPS, "a cell is inside or outside, and its points were counted");
        let size = (cells.end - cells.start) / 4;
        (0..4).for_each(|quarter| self.square(bits + quarter * size, step + 1));
    }

    /// Counts the points of these cells, all of which are inside.
    fn leaves(&mut self, cells: Range<u64>) {
        self.cursor.seek(cells.start);
        let mut start = self.cursor.leaf().keys().rank(cells.start);
        loop {
            let leaf = self.cursor.leaf();
            let is_last = self.cursor.next_first() >= cells.end;
            let end = if is_last { leaf.keys().rank(cells.end) } else { leaf.len() };
            self.leaf(start..end, Side::Inside);
            if is_last || !self.cursor.advance() {
                return;
            }
            start = 0;
        }
    }

    /// Counts points of the leaf at the cursor.
    fn leaf(&mut self, slots: Range<usize>, side: Side) {
        let leaf: &Leaf = self.cursor.leaf();
        let (at, rectangle) = (self.cursor.at(), self.rectangle);
        let mut take = |slot: usize, bits: u64| {
            if side == Side::Inside || rectangle.contains_bits(bits) {
                self.enter(self.number_of(bits));
                self.parts[self.part_of(bits)] += 1;
                self.last = Some((at, slot));
            }
        };
        match leaf.keys() {
            Keys::Narrow { base, deltas } => {
                let deltas = slots.clone().zip(&deltas[slots]);
                deltas.for_each(|(slot, delta)| take(slot, base + u64::from(*delta)));
            }
            Keys::Wide(keys) => slots.clone().zip(&keys[slots]).for_each(|(s, key)| take(s, *key)),
        }
    }

    fn number_of(&self, bits: u64) -> u64 {
        bits >> (2 * (STEPS - self.step))
    }

    fn part_of(&self, bits: u64) -> usize {
        (bits >> (2 * (STEPS - self.part_step))) as usize % PARTS
    }

    /// Goes on with a square, which may be the one that is being counted.
    #[inline]
    fn enter(&mut self, number: u64) {
        if self.number != number {
            self.finish_square();
            self.number = number;
        }
    }

    /// Notes what was counted, if there was anything.
    fn finish_square(&mut self) {
        let parts = std::mem::replace(&mut self.parts, [0; PARTS]);
        let count: usize = parts.iter().sum();
        let last = self.last.take();
        if count == 0 {
            return;
        }
        let (mut columns, mut rows) = (0, 0);
        // A square of cells has fewer parts: with one step less there are four, and so on.
        let levels = self.part_step - self.step;
        let first = self.number << (2 * levels);
        for (part, count) in parts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let part = first | part as u64 & ((1 << (2 * levels)) - 1);
            let (column, row) = deinterleave(part);
            columns += u64::from(column) * *count as u64;
            rows += u64::from(row) * *count as u64;
        }
        // Only squares with many points are counted without a look at one.
        let (at, slot) = last.unwrap_or((self.cursor.at(), 0));
        let number = self.number;
        self.squares.push(Square { number, count, columns, rows, at, slot });
    }

    /// Adds the points at the limit of the globe to the squares beside them.
    fn add_limit(&mut self) {
        let mut cursor = self.cursor.clone();
        cursor.seek(OVERFLOW_BITS);
        let mut start = cursor.leaf().keys().rank(OVERFLOW_BITS);
        loop {
            let leaf = cursor.leaf();
            for slot in start..leaf.len() {
                let bits = leaf.cell_bits(slot);
                if self.rectangle.contains_bits(bits) {
                    self.add_to_neighbour(bits, cursor.at(), slot);
                }
            }
            if !cursor.advance() {
                return;
            }
            start = 0;
        }
    }

    fn add_to_neighbour(&mut self, bits: u64, at: LeafAt, slot: usize) {
        let (x, y) = deinterleave(bits);
        let last = (1 << STEPS) - 1;
        let bits = interleave(x.min(last), y.min(last));
        let number = self.number_of(bits);
        let (column, row) = deinterleave(bits >> (2 * (STEPS - self.part_step)));
        let index = match self.squares.binary_search_by_key(&number, |square| square.number) {
            Ok(index) => index,
            Err(index) => {
                let square = Square { number, count: 0, columns: 0, rows: 0, at, slot };
                self.squares.insert(index, square);
                index
            }
        };
        let square = &mut self.squares[index];
        square.count += 1;
        square.columns += u64::from(column);
        square.rows += u64::from(row);
    }

    fn into_clusters(self) -> Clusters<'a> {
        let total = self.squares.iter().map(|square| square.count).sum();
        let cluster = |square: &Square| {
            if square.count == 1 {
                let leaf = self.tree.leaf_at(square.at);
                let place = Cell::from_stored_bits(leaf.cell_bits(square.slot)).place();
                let member = leaf.member(square.slot, &self.tree.overflow);
                return Cluster { place, count: 1, member: Some(member) };
            }
            let degrees = |sum: u64, limit_degrees: f64| {
                let mean = sum as f64 / square.count as f64 + 0.5;
                let fraction = mean / f64::from(1_u32 << self.part_step);
                fraction * 2.0 * limit_degrees - limit_degrees
            };
            let place = Place {
                longitude_degrees: degrees(square.columns, LONGITUDE_LIMIT_DEGREES),
                latitude_degrees: degrees(square.rows, LATITUDE_LIMIT_DEGREES),
            };
            Cluster { place, count: square.count, member: None }
        };
        Clusters { total, clusters: self.squares.iter().map(cluster).collect() }
    }
}

#[cfg(test)]
#[path = "clusters_tests.rs"]
mod tests;
