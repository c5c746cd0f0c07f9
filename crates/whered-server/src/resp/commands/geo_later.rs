//! Searches that go on after the lock of their collection is gone.
//!
//! For: what is done with a search's hits where it may take long, while others change the collection.
//! Not for: replies (`found`), searches of plain sorted sets, which hold the lock.
//!
//! ```text
//! under the lock                               after it
//! scan ─► few hits ─► sorted, written
//!      └► many ─► their leaves are held ─────► sorted, written in parts
//! a scan that itself may be slow: a frozen ──► scanned, sorted; the leaves held, written in parts
//! view of the whole collection
//! ```
//!
//! Writers copy what is held, if they change it: a leaf here and there beside held leaves, every leaf
//! and the branches above it beside a frozen view.
//! Cost: under the lock a scan in the time of its ranges, or what few hits take; a counted reference for each leaf held.

use whered_engine::geo::{Found, Order, Points, Search, Shape, Tree};

use super::found::MOST_HITS_AT_ONCE;

/// The most hits that are sorted under the lock.
const FEW_SORTED: usize = 1000;
/// A polygon of more is slow to scan.
const FEW_VERTICES: usize = 16;

/// What has been done under the lock.
pub(super) enum StartedSearch {
    /// The hits, in order.
    Finished(Found),
    /// The rest is done after the lock.
    Deferred(DeferredSearch),
}

/// What is to be done after it.
pub(super) struct DeferredSearch {
    view: Tree,
    search: Search,
    step: Step,
}

/// How far a search has come; hits are places in the view.
enum Step {
    ToBeFound,
    ToBeSorted(Found),
    Done(Found),
}

/// Begins a search; `for_later` if nothing is to be done with the hits under the lock, however few
/// they are.
pub(super) fn begin(points: &Points, search: Search, for_later: bool) -> StartedSearch {
    let has_count = search.count.is_some() && !search.any;
    let is_slow = has_count && search.count > Some(FEW_SORTED)
        || matches!(&search.shape, Shape::Polygon(it) if it.vertices().len() > FEW_VERTICES);
    if is_slow {
        return StartedSearch::Deferred(DeferredSearch {
            view: points.freeze(),
            search,
            step: Step::ToBeFound,
        });
    }
    // The nearest few are found in their order.
    let sorts = search.effective_order() != Order::Unsorted && !has_count;
    let mut found = Found::new();
    if sorts {
        points.find(&Search { order: Order::Unsorted, ..search.clone() }, &mut found);
    } else {
        points.find(&search, &mut found);
    }
    let few = if sorts { FEW_SORTED } else { MOST_HITS_AT_ONCE };
    if for_later || found.len() > few {
        let view = points.hold(&mut found);
        let step = if sorts { Step::ToBeSorted(found) } else { Step::Done(found) };
        return StartedSearch::Deferred(DeferredSearch { view, search, step });
    }
    if sorts {
        points.sort(&search, &mut found);
    }
    StartedSearch::Finished(found)
}

impl DeferredSearch {
    /// The hits in order, and what they are places in.
    pub(super) fn finish(self) -> (Tree, Found) {
        let DeferredSearch { view, search, step } = self;
        match step {
            Step::ToBeFound => {
                let mut found = Found::new();
                view.find(&search, &mut found);
                (view.hold(&mut found), found)
            }
            Step::ToBeSorted(mut found) => {
                view.sort(&search, &mut found);
                (view, found)
            }
            Step::Done(found) => (view, found),
        }
    }
}

#[cfg(test)]
#[path = "geo_later_tests.rs"]
mod tests;
