//! The parameters, hits and order of a search.
//!
//! For: [`Search`], [`Hit`] and the ordering of hits.
//! Not for: finding them (`points/search.rs`) nor the shapes (`shape.rs`).
//!
//! The set of hits is what [`Shape::distance_if_inside`] says of every point. The order of
//! unsorted hits is that of the scan: Redis's boxes in its sequence (`boxes.rs`), each in
//! (cell, member) order, then what the boxes miss, in (cell, member) order. Sorted hits of equal
//! distance keep the order of the scan. `COUNT n ANY` stops the scan at n hits and sorts those.
//!
//! Where Redis 7.0.15 misses points that are inside, and the scan here goes on (found by random
//! searches against redis-server; in 31,000 of them no hit of Redis was ever missing here, and
//! its order was always kept):
//! 1. A pole lies inside. Points across the pole are at the opposite longitude, outside all nine
//!    boxes unless those already span the globe: circles of 550 to 1,300 km above latitude 78.
//!    Past the pole the cosine in Redis's rectangle turns negative, which swaps west and east.
//! 2. High latitudes near the largest steps: Redis turns the width into degrees as if it were
//!    measured along the parallel, but it is measured along a great circle, which reaches
//!    farther. A side that is in fact reached is then left out: boxes above latitude 65 and
//!    wider than 2,000 km, or 1,100 km at latitude 85.
//! 3. The limit of the globe. A point at longitude exactly 180 or latitude exactly 85.05112878
//!    has a cell beyond 2^52, in a box of its own, which Redis scans only if the centre of the
//!    search lies at the same limit; and such a centre has the neighbours of that outer box.
//!
//! `tests/known_facts.rs` has one search of each kind.
//!
//! Cost of ordering: n log n; with a count, see `points/nearest.rs`.

use crate::cell::Cell;
use crate::place::Place;
use crate::shape::Shape;

/// The order of hits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// As the scan meets them; with a count but without `any`, as [`Order::Ascending`].
    #[default]
    Unsorted,
    /// Nearest first.
    Ascending,
    /// Farthest first; with a count, the farthest.
    Descending,
}

/// One search of a collection.
///
/// ```
/// use whered_geo::{Cell, Order, Place, Points, Search, Shape};
/// let mut points = Points::new();
/// points.insert(b"palermo", Cell::from_place(Place::new(13.361389, 38.115556)?));
/// points.insert(b"catania", Cell::from_place(Place::new(15.087269, 37.502669)?));
/// let search = Search {
///     center: Place::new(15.0, 37.0)?,
///     shape: Shape::Circle { radius_meters: 200_000.0 },
///     order: Order::Ascending,
///     count: None,
///     any: false,
/// };
/// let mut hits = Vec::new();
/// points.search(&search, &mut hits);
/// let members: Vec<&[u8]> = hits.iter().map(|hit| hit.member).collect();
/// assert_eq!(members, [b"catania", b"palermo"]);
/// # Ok::<(), whered_geo::PlaceError>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Search {
    /// Where distances are measured from.
    pub center: Place,
    /// The shape that must contain a point for it to be found.
    pub shape: Shape,
    /// The order of the hits.
    pub order: Order,
    /// The most hits wanted; `None` is all of them.
    pub count: Option<usize>,
    /// Whether any `count` hits will do, namely the first that are met.
    pub any: bool,
}

/// One point found.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Hit<'a> {
    /// The member's name.
    pub member: &'a [u8],
    /// Its cell.
    pub cell: Cell,
    /// The centre of its cell.
    pub place: Place,
    /// From the centre of the search, in meters.
    pub distance_meters: f64,
}

impl Search {
    /// After how many hits the scan may stop.
    pub(crate) fn scan_limit(&self) -> usize {
        match self.count {
            Some(count) if self.any || count == 0 => count,
            _ => usize::MAX,
        }
    }

    /// The order that comes of the options: a count without `any` means the nearest.
    pub fn effective_order(&self) -> Order {
        match self.order {
            Order::Unsorted if self.count.is_some() && !self.any => Order::Ascending,
            order => order,
        }
    }
}
