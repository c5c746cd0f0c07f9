//! The leaves of what a search has found, kept while its reply is under way.
//!
//! For: long replies beside writers. Not for: views of a whole collection ([`Points::freeze`]).
//!
//! ```text
//! collection   │ leaf │ leaf │ leaf │ leaf │ leaf │ leaf │ ...     writers copy what is held,
//!                        ▲             ▲      ▲                    and change the rest in place
//! held tree    ──────────┴─────────────┴──────┴── in order, below branches of its own
//! found        the same spans, which are places in that tree now
//! ```
//!
//! A frozen view shares the root, so that a writer that changes a leaf copies it and three
//! branches, with one counted reference more for each of up to 128 leaves beside it. Here only a
//! leaf in which something was found is shared. That costs the search some 40 ns a leaf, so a
//! collection that nobody has changed lately is frozen all the same, and so is one in which hits
//! are in very many leaves.
//!
//! Concurrency: made while nobody writes; the tree is then a value like any other. How many more
//! searches take the collection for one that is written to is counted without order: two that read
//! the same number do no harm. Cost: a counted reference for each leaf, whose first line the reply
//! reads anyway; four words for each.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use super::found::Found;
use super::walk::{Cursor, LeafAt};
use super::{Points, Tree};

/// More leaves are not held one by one: they are counted while writers wait.
const MOST_LEAVES: usize = 8192;
/// Memory of a leaf's place in its branch.
const PLACE_BYTES: usize = 4 * size_of::<u64>();

/// For how many more searches a collection counts as one that is written to.
#[derive(Debug, Default)]
pub(super) struct LatelyChanged(AtomicU8);

impl LatelyChanged {
    const SEARCHES: u8 = 16;

    pub(super) fn note(&mut self) {
        *self.0.get_mut() = Self::SEARCHES;
    }

    fn count_search(&self) -> bool {
        let left = self.0.load(Ordering::Relaxed);
        if left > 0 {
            self.0.store(left - 1, Ordering::Relaxed);
        }
        left > 0
    }
}

impl Clone for LatelyChanged {
    fn clone(&self) -> LatelyChanged {
        LatelyChanged(AtomicU8::new(self.0.load(Ordering::Relaxed)))
    }
}

impl Points {
    /// What was found by searching the collection, for as long as a reply takes: the hits are
    /// places in the tree that it gives, which stays as it is, whatever becomes of the collection:
    /// a frozen view, or the hits' leaves alone if the collection is being changed.
    ///
    /// ```
    /// use whered_geo::{Cell, Found, Order, Place, Points, Search, Shape};
    /// let mut points = Points::new();
    /// points.insert(b"palermo", Cell::from_place(Place::new(13.361389, 38.115556)?));
    /// let center = Place::new(15.0, 37.0)?;
    /// let shape = Shape::Circle { radius_meters: 200_000.0 };
    /// let search = Search { center, shape, order: Order::Unsorted, count: None, any: false };
    /// let mut found = Found::new();
    /// points.find(&search, &mut found);
    /// let held = points.hold(&mut found);
    /// points.remove(b"palermo");
    /// assert_eq!(found.hits(&held).next().map(|hit| hit.member()), Some(&b"palermo"[..]));
    /// # Ok::<(), whered_geo::PlaceError>(())
    /// ```
    pub fn hold(&self, found: &mut Found) -> Tree {
        if self.lately_changed.count_search() { self.tree.hold(found) } else { self.freeze() }
    }
}

impl Tree {
    /// Like [`Points::hold`], for a frozen view that need not live longer: a tree of the leaves
    /// with hits, unless there are very many of them.
    pub fn hold(&self, found: &mut Found) -> Tree {
        const AHEAD: usize = 8;
        let mut places: Vec<LeafAt> = found.leaves().collect();
        places.sort();
        places.dedup();
        if places.len() > MOST_LEAVES {
            return self.clone();
        }
        let leaves = places.iter().enumerate().map(|(index, &at)| {
            if let Some(&later) = places.get(index + AHEAD) {
                self.leaf_at(later).prefetch_header();
            }
            let leaf = self.leaf_at(at).clone();
            (leaf.first(), leaf.len(), leaf)
        });
        let mut held = Tree::from_leaves(leaves);
        held.overflow = Arc::clone(&self.overflow);
        found.held_bytes = places.len() * PLACE_BYTES;
        let new_places: Vec<LeafAt> = held.leaf_places().collect();
        let mut index = 0;
        found.rewrite_leaves(|at| {
            // Spans come in few ascending runs: the leaf is most often the last one's or the next.
            index += usize::from(places.get(index + 1) == Some(&at));
            if places[index] != at {
                index = places.partition_point(|&place| place < at);
            }
            new_places[index]
        });
        held
    }

    /// The places of all leaves, in order.
    fn leaf_places(&self) -> impl Iterator<Item = LeafAt> {
        let mut next = Cursor::new(self);
        std::iter::from_fn(move || {
            let cursor = next.as_mut()?;
            let at = cursor.at();
            if !cursor.advance() {
                next = None;
            }
            Some(at)
        })
    }
}
