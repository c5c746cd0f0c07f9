//! Searching the collection: ranges of cells in the right order, whole ones accepted untested.
//!
//! For: bringing boxes, region, cover, filter and leaves together.
//! Not for: any geometry of its own; the nearest few (`nearest.rs`).
//!
//! ```text
//! boxes (Redis's nine, its sequence), rest of the region (ascending)
//!   └► quads ─► Outside: skipped
//!            ├► Inside:  leaves and slots are taken as they are ──────────────────┐
//!            └► Edge:    over many leaves ─► its quarters                         ├─► Sink
//!                        in one leaf, many keys ─► its quarters, by slots         │
//!                        in one leaf, few keys ─► filter ─► doubtful: exact test ─┘
//! ```
//!
//! Order is kept by two pending pieces: slots at the edge, and after them a range that is inside.
//! Both grow while what follows adjoins them, so that quads that were cut only to be accepted one
//! by one cost one binary search together, and the filter gets long runs.
//!
//! Cost: a quad that is cut, some 30 ns; a key at the edge, about 1 ns; a leaf inside, the
//! reading of its first cell.

use std::ops::{ControlFlow, Range};

use super::Tree;
use super::found::Found;
use super::leaf::Leaf;
use super::nearest;
use super::ranking;
use super::walk::{Cursor, LeafAt};
use crate::boxes::Boxes;
use crate::cell::{Cell, OVERFLOW_BITS};
use crate::cover::{Cover, Quad, Side, quads_of};
use crate::filter::{BLOCK, Filter, Masks};
use crate::region::Region;
use crate::search::{Hit, Order, Search};
use crate::simd;

/// How often the part of a quad that lies in one leaf is cut.
const MOST_CUTS: u32 = 3;

impl Tree {
    /// Finds the points of a search; `hits` is cleared first. See [`crate::search`] for what is
    /// found and in which order. [`Tree::find`] does not look at each hit.
    pub fn search<'a>(&'a self, search: &Search, hits: &mut Vec<Hit<'a>>) {
        let mut found = Found::new();
        self.find(search, &mut found);
        hits.clear();
        hits.extend(found.hits(self).map(Hit::from));
    }

    /// Finds the points of a search, as spans of the collection; what `found` held is dropped
    /// first.
    pub fn find(&self, search: &Search, found: &mut Found) {
        found.restart(search.center);
        if search.count == Some(0) || search.shape.is_negative() {
            return;
        }
        let Some(cursor) = Cursor::new(self) else {
            return;
        };
        let is_done = match (search.effective_order(), search.count) {
            (Order::Ascending, Some(count)) if !search.any => {
                nearest::find_nearest(self, search, count, found)
            }
            (Order::Descending, Some(count)) if !search.any => {
                nearest::find_farthest(self, search, count, found)
            }
            _ => false,
        };
        if is_done {
            return;
        }
        scan_in_order(self, search, cursor, found);
        self.sort(search, found);
    }

    /// Brings what the scan of a search has found, which is what it finds [`Order::Unsorted`], into
    /// its order, and keeps as many hits as it wants. The tree is the one that was searched, or one
    /// that holds what was found ([`Tree::hold`]).
    pub fn sort(&self, search: &Search, found: &mut Found) {
        if search.effective_order() != Order::Unsorted {
            ranking::arrange(self, search, found);
        }
    }

    /// Whether a point lies exactly at the eastern or northern limit of the globe, and may lie in
    /// this region.
    pub(super) fn has_overflown_cells(&self, region: &Region) -> bool {
        let last = || (!self.is_empty()).then(|| self.iter().next_back()).flatten();
        region.touches_limit() && last().is_some_and(|(_, cell)| cell.bits() >= OVERFLOW_BITS)
    }
}

/// Appends everything inside in the order of the scan, up to the search's limit.
fn scan_in_order(points: &Tree, search: &Search, cursor: Cursor<'_>, found: &mut Found) {
    let region = Region::around(search.center, &search.shape);
    let cover = Cover::new(search.center, &search.shape, &region);
    let taker = Taker::new(search, &cover, &region, search.scan_limit(), found);
    let mut descent = Descent::new(&cover, cursor, taker);
    let boxes = Boxes::of(search.center, &search.shape);
    let scans = boxes.ranges().chain(region.beyond(&boxes));
    for range in scans {
        if range.start >= OVERFLOW_BITS && !points.has_overflown_cells(&region) {
            continue;
        }
        if descent.range(range).is_break() {
            return;
        }
    }
}

/// What a walk asks of a shape on the map.
pub(super) trait AreaTest {
    /// A square of the map, as one range of cells.
    type Square;
    /// The square of `2^(26 - step)` cells a side that begins at these bits.
    fn square(&self, bits: u64, step: u32) -> Self::Square;
    /// Its four quarters, ascending in cells; it is larger than a cell.
    fn quarters(&self, square: &Self::Square) -> [Self::Square; 4];
    /// How it lies to the shape; [`Side::Edge`] where that is not certain.
    fn side(&self, square: &Self::Square) -> Side;
    /// Its cells.
    fn bits(square: &Self::Square) -> Range<u64>;
}

impl AreaTest for Cover {
    type Square = Quad;

    fn square(&self, bits: u64, step: u32) -> Quad {
        self.quad(bits, step)
    }

    fn quarters(&self, quad: &Quad) -> [Quad; 4] {
        Cover::quarters(self, quad)
    }

    fn side(&self, quad: &Quad) -> Side {
        Cover::side(self, quad)
    }

    fn bits(quad: &Quad) -> Range<u64> {
        quad.bits()
    }
}

/// Receives the entries of a range, in their order.
pub(super) trait Sink {
    /// Fewer keys at the edge are tested, more are cut into quarters.
    const FEW_KEYS: usize;
    /// All of these are inside.
    fn inside(&mut self, at: LeafAt, leaf: &Leaf, slots: Range<usize>) -> ControlFlow<()>;
    /// These must be tested.
    fn edge(&mut self, at: LeafAt, leaf: &Leaf, slots: Range<usize>) -> ControlFlow<()>;
    /// These must be tested, and are not for the filter: they lie at the limit of the globe, or all
    /// in one cell.
    fn exact(&mut self, at: LeafAt, leaf: &Leaf, slots: Range<usize>) -> ControlFlow<()>;
}

/// A walk down the quadtree beside a walk through the leaves.
pub(super) struct Descent<'a, O, S> {
    cover: &'a O,
    cursor: Cursor<'a>,
    pub(super) sink: S,
    /// Slots at the edge that have not been handed on yet.
    edge: Option<(Cursor<'a>, Range<usize>)>,
    /// Cells inside, after those, that have not been handed on yet.
    inside: Range<u64>,
}

impl<'a, O: AreaTest, S: Sink> Descent<'a, O, S> {
    pub(super) fn new(cover: &'a O, cursor: Cursor<'a>, sink: S) -> Descent<'a, O, S> {
        Descent { cover, cursor, sink, edge: None, inside: 0..0 }
    }

    /// Hands on what may be inside among a range of cells.
    pub(super) fn range(&mut self, range: Range<u64>) -> ControlFlow<()> {
        // A range may end beyond the last quad, among the cells at the limit of the globe.
        let whole = range.start..range.end.min(OVERFLOW_BITS);
        for (bits, step) in quads_of(whole) {
            let quad = self.cover.square(bits, step);
            self.quad(&quad)?;
        }
        self.flush()?;
        if range.end <= OVERFLOW_BITS {
            return ControlFlow::Continue(());
        }
        self.slots_of(range.start.max(OVERFLOW_BITS)..range.end, S::exact)
    }

    fn quad(&mut self, quad: &O::Square) -> ControlFlow<()> {
        let cells = O::bits(quad);
        match self.cover.side(quad) {
            Side::Outside => return ControlFlow::Continue(()),
            Side::Inside => return self.push_inside(cells),
            Side::Edge => {}
        }
        self.cursor.seek(cells.start);
        if self.cursor.next_first() >= cells.end {
            let keys = self.cursor.leaf().keys();
            let slots = keys.rank(cells.start)..keys.rank(cells.end);
            return self.quad_in_leaf(quad, slots, MOST_CUTS);
        }
        if is_cell(&cells) {
            self.flush()?;
            return self.slots_of(cells, S::exact);
        }
        for quarter in &self.cover.quarters(quad) {
            self.quad(quarter)?;
        }
        ControlFlow::Continue(())
    }

    /// An edge quad whose entries are these slots of the leaf at the cursor.
    fn quad_in_leaf(
        &mut self,
        quad: &O::Square,
        slots: Range<usize>,
        cuts: u32,
    ) -> ControlFlow<()> {
        if slots.is_empty() {
            return ControlFlow::Continue(());
        }
        let whole = O::bits(quad);
        if slots.len() <= S::FEW_KEYS || cuts == 0 || is_cell(&whole) {
            return self.push_edge(slots);
        }
        let keys = self.cursor.leaf().keys();
        let mut start = slots.start;
        for quarter in &self.cover.quarters(quad) {
            let cells = O::bits(quarter);
            let end = if cells.end == whole.end { slots.end } else { keys.rank(cells.end) };
            let part = start..end;
            start = end;
            if part.is_empty() {
                continue;
            }
            match self.cover.side(quarter) {
                Side::Outside => {}
                Side::Inside => self.push_inside(cells)?,
                Side::Edge => self.quad_in_leaf(quarter, part, cuts - 1)?,
            }
        }
        ControlFlow::Continue(())
    }

    fn push_inside(&mut self, cells: Range<u64>) -> ControlFlow<()> {
        if self.inside.end == cells.start && !self.inside.is_empty() {
            self.inside.end = cells.end;
            return ControlFlow::Continue(());
        }
        self.flush()?;
        self.inside = cells;
        ControlFlow::Continue(())
    }

    fn push_edge(&mut self, slots: Range<usize>) -> ControlFlow<()> {
        if self.inside.is_empty()
            && let Some((cursor, pending)) = &mut self.edge
            && cursor.at() == self.cursor.at()
            && pending.end == slots.start
        {
            pending.end = slots.end;
            return ControlFlow::Continue(());
        }
        self.flush()?;
        self.edge = Some((self.cursor.clone(), slots));
        ControlFlow::Continue(())
    }

    /// Hands on what is pending.
    fn flush(&mut self) -> ControlFlow<()> {
        if let Some((cursor, slots)) = self.edge.take() {
            self.sink.edge(cursor.at(), cursor.leaf(), slots)?;
        }
        let cells = std::mem::replace(&mut self.inside, 0..0);
        if cells.is_empty() {
            return ControlFlow::Continue(());
        }
        let place = self.cursor.clone();
        let flow = self.slots_of(cells, S::inside);
        self.cursor = place;
        flow
    }

    /// Calls `take` for the slots of each leaf that has entries among these cells.
    fn slots_of(
        &mut self,
        cells: Range<u64>,
        mut take: impl FnMut(&mut S, LeafAt, &Leaf, Range<usize>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.cursor.seek(cells.start);
        let mut start = self.cursor.leaf().keys().rank(cells.start);
        loop {
            let leaf = self.cursor.leaf();
            let is_last = self.cursor.next_first() >= cells.end;
            let end = if is_last { leaf.keys().rank(cells.end) } else { leaf.len() };
            if start < end {
                take(&mut self.sink, self.cursor.at(), leaf, start..end)?;
            }
            if is_last || !self.cursor.advance() {
                return ControlFlow::Continue(());
            }
            start = 0;
        }
    }
}

/// Whether a square's cells are a single one.
fn is_cell(cells: &Range<u64>) -> bool {
    cells.end - cells.start == 1
}

/// Takes what is inside into a [`Found`], up to a limit.
pub(super) struct Taker<'a> {
    search: &'a Search,
    filter: Filter,
    path: whered_simd::Path,
    limit: usize,
    found: &'a mut Found,
}

impl<'a> Taker<'a> {
    pub(super) fn new(
        search: &'a Search,
        cover: &Cover,
        region: &Region,
        limit: usize,
        found: &'a mut Found,
    ) -> Taker<'a> {
        let filter = Filter::new(cover, region);
        Taker { search, filter, path: whered_simd::path(), limit, found }
    }

    fn is_inside(&self, leaf: &Leaf, slot: usize) -> bool {
        let place = Cell::from_stored_bits(leaf.cell_bits(slot)).place();
        self.search.shape.distance_if_inside(self.search.center, place).is_some()
    }

    fn limited(&mut self) -> ControlFlow<()> {
        if self.found.len() < self.limit {
            return ControlFlow::Continue(());
        }
        self.found.truncate(self.limit);
        ControlFlow::Break(())
    }
}

impl Sink for Taker<'_> {
    const FEW_KEYS: usize = 64;

    fn inside(&mut self, at: LeafAt, _leaf: &Leaf, slots: Range<usize>) -> ControlFlow<()> {
        self.found.push(at, slots);
        self.limited()
    }

    fn edge(&mut self, at: LeafAt, leaf: &Leaf, slots: Range<usize>) -> ControlFlow<()> {
        let keys = leaf.keys();
        let mut haversines = [0.0; BLOCK];
        let mut start = slots.start;
        while start < slots.end {
            let end = slots.end.min(start + BLOCK);
            let block = keys.block(start..end);
            let Masks { mut inside, mut doubtful } =
                simd::masks(self.path, &self.filter, block, &mut haversines);
            while doubtful != 0 {
                let slot = doubtful.trailing_zeros();
                inside |= u64::from(self.is_inside(leaf, start + slot as usize)) << slot;
                doubtful &= doubtful - 1;
            }
            while inside != 0 {
                let first = inside.trailing_zeros();
                let length = (!(inside >> first)).trailing_zeros();
                let from = start + first as usize;
                self.found.push(at, from..from + length as usize);
                // Adding the lowest bit carries through the run.
                inside &= inside.wrapping_add(1 << first);
            }
            start = end;
        }
        self.limited()
    }

    fn exact(&mut self, at: LeafAt, leaf: &Leaf, slots: Range<usize>) -> ControlFlow<()> {
        // One answer will do for neighbours in the same cell, however many there are.
        let mut last = None;
        for slot in slots {
            let bits = leaf.cell_bits(slot);
            let is_inside = match last {
                Some((cell, is_inside)) if cell == bits => is_inside,
                _ => self.is_inside(leaf, slot),
            };
            last = Some((bits, is_inside));
            if is_inside {
                self.found.push(at, slot..slot + 1);
            }
        }
        self.limited()
    }
}
