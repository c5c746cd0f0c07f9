//! The hits of a search: spans of leaves, in the order of the reply.
//!
//! For: replies of any length without a step for each member: the count for the header, then the
//! members' bytes as pieces that are copied or sent as they lie. Not for: searching.
//!
//! ```text
//! Found ── spans ─┬ leaf 17, slots 0..256 ──► one piece: `$3\r\nfra\r\n$4\r\n...`
//!   │  count      ├ leaf 18, slots 3..9   ──► one piece
//!   │  distances  └ leaf 21, slots 5..6   ──► one piece
//!   └ center         (only if the order needed them)
//! ```
//!
//! Spans are places, not references: they are good for the collection that was searched until it
//! changes, and for a frozen view of it for as long as that lives; once they are held, for what
//! holds them alone (`held.rs`). A reply can so be streamed from a view after the lock is gone, a
//! piece at a time, from a [`FoundCursor`] that the door keeps.
//!
//! Invariants: no span is empty; `count` is the sum of their lengths; if there are distances,
//! there is one for each hit, in order, within its `error_meters` of the exact one.
//! Cost: a piece is two reads from a leaf; long members are pieces of their own.

use std::cmp::Ordering;
use std::ops::Range;

use super::Tree;
use super::overflow::member_of;
use super::walk::LeafAt;
use crate::cell::Cell;
use crate::distance::error_meters;
use crate::place::Place;
use crate::search::Hit;

/// The hits of one search, in order. Made by [`Tree::find`].
///
/// ```
/// use whered_geo::{FoundCursor, Cell, Found, Order, Place, Points, Search, Shape};
/// let mut points = Points::new();
/// points.insert(b"palermo", Cell::from_place(Place::new(13.361389, 38.115556)?));
/// points.insert(b"catania", Cell::from_place(Place::new(15.087269, 37.502669)?));
/// let center = Place::new(15.0, 37.0)?;
/// let shape = Shape::Circle { radius_meters: 200_000.0 };
/// let search = Search { center, shape, order: Order::Unsorted, count: None, any: false };
/// let mut found = Found::new();
/// points.find(&search, &mut found);
/// let mut reply = format!("*{}\r\n", found.len()).into_bytes();
/// reply.reserve(found.bulk_bytes(&points));
/// let mut cursor = FoundCursor::default();
/// while let Some(bulks) = found.next_bulks(&points, &mut cursor) {
///     reply.extend_from_slice(bulks);
/// }
/// assert_eq!(reply, b"*2\r\n$7\r\npalermo\r\n$7\r\ncatania\r\n");
/// # Ok::<(), whered_geo::PlaceError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Found {
    spans: Vec<Span>,
    count: usize,
    distances: Vec<f64>,
    center: Option<Place>,
    /// Memory of branches that are there only for the hits' leaves.
    pub(super) held_bytes: usize,
}

/// Neighbouring entries of one leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    pub(super) at: LeafAt,
    pub(super) start: u32,
    pub(super) end: u32,
}

/// How far the hits of a [`Found`] have been taken, as pieces or one by one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FoundCursor {
    span: usize,
    /// Hits of that span that have been taken.
    taken: u32,
    /// Hits of all spans that have been taken.
    hits: usize,
}

impl FoundCursor {
    /// How many hits have been taken.
    pub fn hits(&self) -> usize {
        self.hits
    }

    fn pass(&mut self, span: &Span, count: u32) {
        self.hits += count as usize;
        self.taken += count;
        if span.start + self.taken == span.end {
            (self.span, self.taken) = (self.span + 1, 0);
        }
    }
}

/// One hit, whose parts are computed when asked for.
#[derive(Clone, Copy, Debug)]
pub struct FoundHit<'a> {
    bulk: &'a [u8],
    cell: Cell,
    center: Place,
    about_meters: Option<f64>,
}

impl Found {
    /// Nothing found yet; to be used for many searches, so that its memory is kept.
    pub fn new() -> Found {
        Found::default()
    }

    /// The number of hits.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no hit.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of memory held: places and distances, and what [`Points::hold`](super::Points::hold)
    /// has made of them; not the members themselves.
    pub fn memory_bytes(&self) -> usize {
        let places = self.spans.capacity() * size_of::<Span>();
        places + self.distances.capacity() * size_of::<f64>() + self.held_bytes
    }

    /// The bytes of all pieces together: of all members as RESP bulk strings.
    pub fn bulk_bytes(&self, points: &Tree) -> usize {
        let mut cursor = FoundCursor::default();
        std::iter::from_fn(|| self.next_bulks(points, &mut cursor)).map(<[u8]>::len).sum()
    }

    /// The next members as RESP bulk strings, some hundred of them in one piece where they lie
    /// together; `None` after the last. `points` is what was searched, a frozen
    /// view of it, or what holds the hits.
    #[inline]
    pub fn next_bulks<'a>(&self, points: &'a Tree, cursor: &mut FoundCursor) -> Option<&'a [u8]> {
        let span = self.spans.get(cursor.span)?;
        let leaf = points.leaf_at(span.at);
        let slots = span.start + cursor.taken..span.end;
        if let Some(piece) = leaf.bulks(slots.start as usize..slots.end as usize) {
            cursor.pass(span, slots.end - slots.start);
            return Some(piece);
        }
        // A long member is among them: one by one.
        cursor.pass(span, 1);
        Some(leaf.bulk(slots.start as usize, &points.overflow))
    }

    /// The next hit; `None` after the last. `points` is what was searched, a frozen
    /// view of it, or what holds the hits.
    pub fn next_hit<'a>(&self, points: &'a Tree, cursor: &mut FoundCursor) -> Option<FoundHit<'a>> {
        let span = self.spans.get(cursor.span)?;
        let leaf = points.leaf_at(span.at);
        let slot = (span.start + cursor.taken) as usize;
        let about_meters = self.distances.get(cursor.hits).copied();
        cursor.pass(span, 1);
        Some(FoundHit {
            bulk: leaf.bulk(slot, &points.overflow),
            cell: Cell::from_stored_bits(leaf.cell_bits(slot)),
            center: self.center.unwrap_or(Place { longitude_degrees: 0.0, latitude_degrees: 0.0 }),
            about_meters,
        })
    }

    /// Where the hits after an entry begin, for hits in (cell, member) order
    /// ([`Tree::find_area`]); the entry need not be among them, nor exist.
    pub fn cursor_after(&self, points: &Tree, cell: Cell, member: &[u8]) -> FoundCursor {
        let (at, first) = match points.locate(cell.bits(), member) {
            Ok(entry) => (entry, entry.slot() + 1),
            Err(place) => (place, place.slot()),
        };
        let (leaf, first) = (LeafAt::of(at), first as u32);
        let mut cursor = FoundCursor::default();
        for span in &self.spans {
            let before = match span.at.cmp(&leaf) {
                Ordering::Less => span.end - span.start,
                Ordering::Equal => first.clamp(span.start, span.end) - span.start,
                Ordering::Greater => 0,
            };
            if before > 0 {
                cursor.pass(span, before);
            }
            if before < span.end - span.start {
                break;
            }
        }
        cursor
    }

    /// The cells of this many of the hits, taken evenly from all of them; of all if they are fewer.
    pub fn sample<'a>(&'a self, points: &'a Tree, count: usize) -> impl Iterator<Item = Cell> + 'a {
        let count = count.min(self.count);
        let (mut span, mut passed) = (0, 0);
        (0..count).map(move |number| {
            // Without a product that could overflow: the hits may be more than 2^32.
            let hit = (number as u128 * self.count as u128 / count as u128) as usize;
            while hit >= passed + self.spans[span].slots().len() {
                passed += self.spans[span].slots().len();
                span += 1;
            }
            let Span { at, start, .. } = self.spans[span];
            let slot = start as usize + hit - passed;
            Cell::from_stored_bits(points.leaf_at(at).cell_bits(slot))
        })
    }

    /// The hits one by one, for replies that tell more than the member.
    pub fn hits<'a>(&self, points: &'a Tree) -> impl Iterator<Item = FoundHit<'a>> {
        let mut cursor = FoundCursor::default();
        std::iter::from_fn(move || self.next_hit(points, &mut cursor))
    }

    /// Empties it for another search.
    pub(super) fn restart(&mut self, center: Place) {
        self.restart_keeping_center();
        self.center = Some(center);
        self.held_bytes = 0;
    }

    /// Empties it for the same hits in another order.
    pub(super) fn restart_keeping_center(&mut self) {
        self.spans.clear();
        self.distances.clear();
        self.count = 0;
    }

    /// Appends neighbouring entries, at least one.
    #[inline]
    pub(super) fn push(&mut self, at: LeafAt, slots: Range<usize>) {
        let (start, end) = (slots.start as u32, slots.end as u32);
        self.count += slots.len();
        match self.spans.last_mut() {
            Some(last) if last.at == at && last.end == start => last.end = end,
            _ => self.spans.push(Span { at, start, end }),
        }
    }

    /// Reserves memory for `count` entries with distances.
    pub(super) fn reserve(&mut self, count: usize) {
        self.spans.reserve(count);
        self.distances.reserve(count);
    }

    /// Appends one entry whose distance is known; all or none have one.
    pub(super) fn push_with_distance(&mut self, at: LeafAt, slot: usize, about_meters: f64) {
        self.push(at, slot..slot + 1);
        self.distances.push(about_meters);
    }

    /// Drops hits beyond this many.
    pub(super) fn truncate(&mut self, count: usize) {
        while self.count > count {
            let surplus = self.count - count;
            let Some(last) = self.spans.last_mut() else {
                return;
            };
            let length = (last.end - last.start) as usize;
            if length <= surplus {
                self.count -= length;
                self.spans.pop();
            } else {
                self.count -= surplus;
                last.end -= surplus as u32;
            }
        }
        self.distances.truncate(count);
    }

    /// The leaves that hits are in, in their order; one after another only once.
    pub(super) fn leaves(&self) -> impl Iterator<Item = LeafAt> {
        self.spans.chunk_by(|a, b| a.at == b.at).map(|spans| spans[0].at)
    }

    /// Says of each span's leaf where it is now.
    pub(super) fn rewrite_leaves(&mut self, mut place_of: impl FnMut(LeafAt) -> LeafAt) {
        self.spans.iter_mut().for_each(|span| span.at = place_of(span.at));
    }

    /// The places of all hits.
    pub(super) fn entries(&self) -> impl Iterator<Item = (LeafAt, usize)> + '_ {
        self.spans.iter().flat_map(|span| span.slots().map(|slot| (span.at, slot)))
    }
}

impl Span {
    fn slots(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

impl<'a> FoundHit<'a> {
    /// The member's name.
    pub fn member(&self) -> &'a [u8] {
        member_of(self.bulk)
    }

    /// The member as a RESP bulk string.
    pub fn bulk(&self) -> &'a [u8] {
        self.bulk
    }

    /// Its cell.
    pub fn cell(&self) -> Cell {
        self.cell
    }

    /// The centre of its cell.
    pub fn place(&self) -> Place {
        self.cell.place()
    }

    /// From the centre of the search, in meters.
    pub fn distance_meters(&self) -> f64 {
        self.center.distance_meters(self.place())
    }

    /// What [`FoundHit::distance_meters`] is at least and at most: much quicker where the order
    /// needed the distance, and within a millionth of a millimeter for near hits.
    pub fn distance_bounds_meters(&self) -> (f64, f64) {
        match self.about_meters {
            Some(about) => (about - error_meters(about), about + error_meters(about)),
            None => {
                let exact = self.distance_meters();
                (exact, exact)
            }
        }
    }
}

impl<'a> From<FoundHit<'a>> for Hit<'a> {
    fn from(hit: FoundHit<'a>) -> Hit<'a> {
        Hit {
            member: hit.member(),
            cell: hit.cell,
            place: hit.place(),
            distance_meters: hit.distance_meters(),
        }
    }
}
