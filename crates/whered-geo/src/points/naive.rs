//! The twin of [`Points`](super::Points): a list, and every answer by a walk through all of it.
//!
//! For: tests, fuzzing and benchmarks that check their answers. Not for: serving anybody.
//! It shares with the index only what defines an answer: cells, the shape's test, and Redis's
//! sequence of boxes. Cost: linear or worse, everywhere.

use crate::boxes::Boxes;
use crate::cell::Cell;
use crate::points::Inserted;
use crate::search::{Hit, Order, Search};

/// The slow and obvious form of [`Points`](super::Points), with the same answers.
#[derive(Clone, Debug, Default)]
pub struct NaivePoints {
    /// In (cell, member) order.
    entries: Vec<(Cell, Vec<u8>)>,
}

impl NaivePoints {
    /// An empty collection.
    pub fn new() -> NaivePoints {
        NaivePoints::default()
    }

    /// The number of members.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Puts a member into a cell.
    pub fn insert(&mut self, member: &[u8], cell: Cell) -> Inserted {
        let old = self.cell(member);
        if old == Some(cell) {
            return Inserted::Unchanged;
        }
        self.remove(member);
        self.entries.push((cell, member.to_vec()));
        self.entries.sort();
        if old.is_some() { Inserted::Moved } else { Inserted::New }
    }

    /// Removes a member; says whether there was one.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        let len = self.entries.len();
        self.entries.retain(|(_, name)| name != member);
        self.entries.len() < len
    }

    /// The member's cell.
    pub fn cell(&self, member: &[u8]) -> Option<Cell> {
        self.entries.iter().find(|(_, name)| name == member).map(|&(cell, _)| cell)
    }

    /// The number of entries before this member.
    pub fn rank(&self, member: &[u8]) -> Option<usize> {
        self.entries.iter().position(|(_, name)| name == member)
    }

    /// All entries in (cell, member) order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&[u8], Cell)> {
        self.entries.iter().map(|(cell, member)| (member.as_slice(), *cell))
    }

    /// Finds the points of a search; `hits` is cleared first.
    pub fn search<'a>(&'a self, search: &Search, hits: &mut Vec<Hit<'a>>) {
        *hits = self.scan_order(search);
        let order = match (search.order, search.count) {
            (Order::Unsorted, Some(_)) if !search.any => Order::Ascending,
            (order, _) => order,
        };
        if search.any {
            hits.truncate(search.count.unwrap_or(usize::MAX));
        }
        match order {
            Order::Unsorted => {}
            Order::Ascending => {
                hits.sort_by(|a, b| a.distance_meters.total_cmp(&b.distance_meters));
            }
            Order::Descending => {
                hits.sort_by(|a, b| b.distance_meters.total_cmp(&a.distance_meters));
            }
        }
        hits.truncate(search.count.unwrap_or(usize::MAX));
    }

    /// Every point inside: box by box, then those that are in no box.
    fn scan_order<'a>(&'a self, search: &Search) -> Vec<Hit<'a>> {
        let boxes = Boxes::of(search.center, &search.shape);
        let box_of = |hit: &Hit<'_>| {
            let mut ranges = boxes.ranges();
            ranges.position(|range| range.contains(&hit.cell.bits())).unwrap_or(9)
        };
        let inside = self.iter().filter_map(|(member, cell)| {
            let place = cell.place();
            let distance_meters = search.shape.distance_if_inside(search.center, place)?;
            Some(Hit { member, cell, place, distance_meters })
        });
        let mut hits: Vec<Hit<'a>> = inside.collect();
        hits.sort_by_key(box_of);
        hits
    }
}
