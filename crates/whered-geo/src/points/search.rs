//! Searching the collection: ranges of cells in the right order, each candidate tested.
//!
//! For: bringing boxes, region and leaves together. Not for: any geometry of its own.
//!
//! ```text
//! boxes (Redis's nine, its sequence) ──► rest of the region (ascending) ──► arrange
//!            each range: leaf by leaf, slot by slot: region.may_hold ─► shape test ─► hit
//! ```
//!
//! Cost: a candidate outside the region is refused by three comparisons; one inside costs a
//! distance; a range costs the search of its first leaf.

use std::ops::{ControlFlow, Range};

use super::tree::Tree;
use crate::boxes::Boxes;
use crate::cell::{Cell, OVERFLOW_BITS};
use crate::region::Region;
use crate::search::{Hit, Search};

impl Tree {
    /// Finds the points of a search; `hits` is cleared first. See [`crate::search`] for what is
    /// found and in which order.
    pub fn search<'a>(&'a self, search: &Search, hits: &mut Vec<Hit<'a>>) {
        hits.clear();
        if search.scan_limit() == 0 || search.shape.is_negative() || self.is_empty() {
            return;
        }
        // A stop only means that there are enough hits.
        let _enough = self.scan_all(search, hits);
        search.arrange(hits);
    }

    fn scan_all<'a>(&'a self, search: &Search, hits: &mut Vec<Hit<'a>>) -> ControlFlow<()> {
        let boxes = Boxes::of(search.center, &search.shape);
        let region = Region::around(search.center, &search.shape);
        for range in boxes.ranges() {
            self.scan(range, search, &region, hits)?;
        }
        for range in region.beyond(&boxes) {
            if range.start < OVERFLOW_BITS || self.has_overflown_cells() {
                self.scan(range, search, &region, hits)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Appends the points inside among a range of cells; breaks off when the limit is reached.
    fn scan<'a>(
        &'a self,
        range: Range<u64>,
        search: &Search,
        region: &Region,
        hits: &mut Vec<Hit<'a>>,
    ) -> ControlFlow<()> {
        let limit = search.scan_limit();
        for (at, leaf) in self.leaves_from(self.first_from(range.start)) {
            let end = leaf.keys().rank(range.end);
            for slot in at.slot()..end {
                let bits = leaf.cell_bits(slot);
                let cell = Cell::from_stored_bits(bits);
                if !region.may_hold(cell) {
                    continue;
                }
                let place = cell.place();
                let inside = search.shape.distance_if_inside(search.center, place);
                if let Some(distance_meters) = inside {
                    let member = leaf.member(slot, &self.outside);
                    hits.push(Hit { member, cell, place, distance_meters });
                    if hits.len() >= limit {
                        return ControlFlow::Break(());
                    }
                }
            }
            if end < leaf.len() {
                break;
            }
        }
        ControlFlow::Continue(())
    }

    /// Whether a point lies exactly at the eastern or northern limit of the globe.
    fn has_overflown_cells(&self) -> bool {
        self.first_from(OVERFLOW_BITS) < self.end()
    }
}
