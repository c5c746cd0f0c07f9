//! The nearest few and the farthest few.
//!
//! For: `COUNT k` nearest first without a look at all that is inside; the farthest few.
//! Not for: what is inside (`search.rs`), the order of what was found (`ranking.rs`).
//!
//! ```text
//! density around the centre ─► reach ─► candidates within it, each with the filter's h
//!                               ▲            │ fewer than k, or the k-th is beyond the reach?
//!                               └── larger ──┤ yes
//!                                            └ no ─► those that h cannot tell from the k nearest
//!                                                    ─► distances ─► sorted, ties in scan order
//! ```
//!
//! Why it is exact. All points nearer than the reach are candidates (the proof in `cover.rs`). If
//! h is off by at most E, a point whose h is more than 2 E above the k-th smallest is truly farther
//! than k others, which are inside the circle as it is. For shapes that are no circle candidates
//! are tested first.
//!
//! Cost: one or two passes over some times k keys, then k to 2 k distances by series; cells far
//! from the centre are never looked at.

use std::f64::consts::PI;
use std::ops::{ControlFlow, Range};

use super::Tree;
use super::found::Found;
use super::leaf::Leaf;
use super::ranking::{RankedEntry, Ranking, place_of, write};
use super::search::{Descent, Sink};
use super::walk::{Cursor, LeafAt};
use crate::cell::{Cell, END_BITS, OVERFLOW_BITS};
use crate::cover::{COLUMN_RADIANS, Cover, ROW_RADIANS};
use crate::distance::{EARTH_RADIUS_METERS, radians};
use crate::filter::{BLOCK, Filter, Masks};
use crate::place::Place;
use crate::region::Region;
use crate::search::Search;
use crate::shape::Shape;
use crate::simd;

/// A first reach holds this many times the wanted hits, if the density is right.
const PLENTY: f64 = 1.6;
/// The smallest reach, in meters.
const LEAST_REACH_METERS: f64 = 0.1;
/// More candidates than this many times the wanted hits and some more are too many.
const MOST_PER_HIT: usize = 4;
const MOST_MORE: usize = 64;
/// A reach beyond this part of the radius is made the radius.
const MOST_OF_RADIUS: f64 = 0.7;

/// A point that may be among the wanted.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    /// About the haversine of its distance.
    h: f32,
    slot: u32,
    at: LeafAt,
}

/// Finds the `count` nearest, nearest first; false if this is not the way to find them.
pub(super) fn find_nearest(
    points: &Tree,
    search: &Search,
    count: usize,
    found: &mut Found,
) -> bool {
    let farthest_meters = match search.shape {
        Shape::Circle { radius_meters } => radius_meters,
        // Whatever lies farther away than this is found by the scan of all.
        Shape::Box { width_meters, height_meters } => width_meters.max(height_meters) / 2.0,
        Shape::Polygon(_) => PI * EARTH_RADIUS_METERS,
    };
    // Later walks begin where the centre is.
    let mut cursor = Cursor::new(points);
    let at_center = cursor.as_mut();
    let mut reach = at_center.map_or(f64::INFINITY, |at| first_reach(at, search.center, count));
    // Room enough where few are wanted.
    let mut candidates = Vec::with_capacity(count.saturating_mul(2).min(MOST_MORE));
    let mut most = count.saturating_add(MOST_MORE).saturating_mul(MOST_PER_HIT);
    loop {
        let is_whole = farthest_meters.is_nan() || reach >= farthest_meters * MOST_OF_RADIUS;
        if is_whole && !matches!(search.shape, Shape::Circle { .. }) {
            return false;
        }
        let circle = if is_whole { farthest_meters } else { reach };
        let Limits { error, is_full, .. } =
            gather(points, cursor.clone(), search, circle, most, &mut candidates);
        if is_full {
            // Far too many: as near as the k-th of these, the k-th of all is at least.
            reach = reach_of(nearest_h(count, &mut candidates), error).min(circle);
            most = most.saturating_mul(2);
            continue;
        }
        if is_whole || candidates.len() >= count {
            drop_those_beyond(count, error, &mut candidates);
            let ranked = ranked(points, search, &candidates);
            let last = ranked.get(count - 1);
            if is_whole || last.is_some_and(|last| last.most_meters() <= circle) {
                write(&ranked, count, found);
                return true;
            }
        }
        let wanted = PLENTY * count as f64;
        reach *= (wanted / (candidates.len() as f64 + 0.5)).sqrt().clamp(1.5, 8.0);
    }
}

/// Finds the `count` farthest within a circle, farthest first; false for another shape.
pub(super) fn find_farthest(
    points: &Tree,
    search: &Search,
    count: usize,
    found: &mut Found,
) -> bool {
    let Shape::Circle { radius_meters } = search.shape else {
        return false;
    };
    let mut candidates = Vec::new();
    let Limits { error, inside, .. } =
        gather(points, Cursor::new(points), search, radius_meters, usize::MAX, &mut candidates);
    // Those at the rim may be outside, and must not count among the farthest.
    candidates.retain(|candidate| candidate.h <= inside || is_inside(points, search, candidate));
    for candidate in &mut candidates {
        candidate.h = -candidate.h;
    }
    drop_those_beyond(count, error, &mut candidates);
    let ranked = ranked(points, search, &candidates);
    write(&ranked, count, found);
    true
}

/// How far around the centre about the wanted number of points lies, in meters.
fn first_reach(cursor: &mut Cursor<'_>, center: Place, count: usize) -> f64 {
    let latitude = radians(center.latitude_degrees);
    let cell = Cell::from_place(center).bits();
    cursor.seek(cell);
    let leaf = cursor.leaf();
    let middle = leaf.keys().rank(cell);
    // Before and after the centre, whichever is denser: a reach too small costs a try, one too
    // large may cost any number of candidates.
    let last = leaf.len() - 1;
    let middle = middle.min(last);
    let around = count.saturating_add(4);
    let near = [middle.saturating_sub(around), middle.saturating_add(around).min(last)];
    let center = leaf.cell_bits(middle);
    let cells_per_entry = near.map(|slot| {
        let cells = leaf.cell_bits(slot).abs_diff(center) + 1;
        if slot == middle { f64::INFINITY } else { cells as f64 / slot.abs_diff(middle) as f64 }
    });
    let cells = cells_per_entry[0].min(cells_per_entry[1]).min(1e12);
    let side = COLUMN_RADIANS * ROW_RADIANS * latitude.cos().max(0.01);
    let area = cells * side * EARTH_RADIUS_METERS * EARTH_RADIUS_METERS;
    (area * PLENTY * count as f64 / PI).sqrt().max(LEAST_REACH_METERS)
}

/// How far the h of candidates can be trusted.
struct Limits {
    /// By how much it may err.
    error: f64,
    /// At most this is certainly within the circle.
    inside: f32,
    /// Whether there were more candidates than allowed, so that some are missing.
    is_full: bool,
}

/// Collects all points inside the shape that may be within a circle, unless there are too many.
fn gather(
    points: &Tree,
    cursor: Option<Cursor<'_>>,
    search: &Search,
    reach_meters: f64,
    most: usize,
    candidates: &mut Vec<Candidate>,
) -> Limits {
    candidates.clear();
    let circle = Shape::Circle { radius_meters: reach_meters };
    let region = Region::around(search.center, &circle);
    let cover = Cover::new(search.center, &circle, &region);
    let filter = Filter::new(&cover, &region);
    let limits = Limits { error: filter.error, inside: filter.inside, is_full: false };
    let is_circle = matches!(search.shape, Shape::Circle { .. });
    let Some(cursor) = cursor else {
        return limits;
    };
    let shape = (!is_circle).then_some(search);
    let path = whered_simd::path();
    let sink = Gatherer {
        center: search.center,
        shape,
        filter,
        path,
        candidates,
        most,
        count: search.count.unwrap_or(usize::MAX),
        last_bits: END_BITS,
        of_last: 0,
    };
    let mut descent = Descent::new(&cover, cursor, sink);
    let limit_of_globe = points.has_overflown_cells(&region).then_some(OVERFLOW_BITS..END_BITS);
    for range in region.quads().chain(limit_of_globe) {
        if descent.range(range).is_break() {
            return Limits { is_full: true, ..limits };
        }
    }
    limits
}

/// Collects candidates.
struct Gatherer<'a> {
    center: Place,
    /// The search, if its shape must be asked for each candidate.
    shape: Option<&'a Search>,
    filter: Filter,
    path: whered_simd::Path,
    candidates: &'a mut Vec<Candidate>,
    /// More candidates than this are too many.
    most: usize,
    /// How many hits are wanted.
    count: usize,
    /// The cell of the entry that was met last, and how many of it were met.
    last_bits: u64,
    of_last: usize,
}

impl Gatherer<'_> {
    fn limited(&self) -> ControlFlow<()> {
        if self.candidates.len() > self.most {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    /// Whether no more entries of this cell are wanted. They are all equally far, and come in the
    /// order of the scan, so that only the first `count` can be among the hits.
    fn has_enough_of(&self, bits: u64) -> bool {
        bits == self.last_bits && self.of_last >= self.count
    }

    /// Whether all of these entries are in a cell of which there are enough.
    fn can_skip(&self, leaf: &Leaf, slots: &Range<usize>) -> bool {
        self.of_last >= self.count
            && self.has_enough_of(leaf.cell_bits(slots.start))
            && self.has_enough_of(leaf.cell_bits(slots.end - 1))
    }

    fn push(&mut self, at: LeafAt, leaf: &Leaf, slot: usize, h: f32) {
        let bits = leaf.cell_bits(slot);
        if self.has_enough_of(bits) {
            return;
        }
        self.of_last = if bits == self.last_bits { self.of_last + 1 } else { 1 };
        self.last_bits = bits;
        if let Some(search) = self.shape
            && search.shape.distance_if_inside(search.center, place_of(bits)).is_none()
        {
            return;
        }
        self.candidates.push(Candidate { h, slot: slot as u32, at });
    }
}

impl Sink for Gatherer<'_> {
    // The circle is drawn around few points.
    const FEW_KEYS: usize = 2 * BLOCK;

    fn inside(&mut self, at: LeafAt, leaf: &Leaf, slots: Range<usize>) -> ControlFlow<()> {
        // Whatever is inside needs its h as well.
        self.edge(at, leaf, slots)
    }

    fn edge(&mut self, at: LeafAt, leaf: &Leaf, slots: Range<usize>) -> ControlFlow<()> {
        if self.can_skip(leaf, &slots) {
            return ControlFlow::Continue(());
        }
        let keys = leaf.keys();
        let mut haversines = [0.0; BLOCK];
        let mut start = slots.start;
        while start < slots.end {
            let end = slots.end.min(start + BLOCK);
            let Masks { inside, doubtful } =
                simd::masks(self.path, &self.filter, keys.block(start..end), &mut haversines);
            let mut near = inside | doubtful;
            while near != 0 {
                let lane = near.trailing_zeros() as usize;
                self.push(at, leaf, start + lane, haversines[lane]);
                near &= near - 1;
            }
            start = end;
        }
        self.limited()
    }

    fn exact(&mut self, at: LeafAt, leaf: &Leaf, slots: Range<usize>) -> ControlFlow<()> {
        if self.can_skip(leaf, &slots) {
            return ControlFlow::Continue(());
        }
        for slot in slots {
            if self.has_enough_of(leaf.cell_bits(slot)) {
                continue;
            }
            let place = place_of(leaf.cell_bits(slot));
            let angle = self.center.distance_meters(place) / EARTH_RADIUS_METERS;
            let h = (angle / 2.0).sin().powi(2) as f32;
            if h <= self.filter.outside {
                self.push(at, leaf, slot, h);
            }
        }
        self.limited()
    }
}

/// Drops candidates that are certainly not among the `count` with the smallest h.
fn drop_those_beyond(count: usize, error: f64, candidates: &mut Vec<Candidate>) {
    if candidates.len() <= count {
        return;
    }
    // The sum is rounded to single precision, and up.
    let limit = ((f64::from(nearest_h(count, candidates)) + 2.0 * error) as f32).next_up();
    candidates.retain(|candidate| candidate.h <= limit);
}

/// The `count`-th smallest h; there are as many candidates.
fn nearest_h(count: usize, candidates: &mut [Candidate]) -> f32 {
    let (_, last, _) = candidates.select_nth_unstable_by(count - 1, |a, b| a.h.total_cmp(&b.h));
    last.h
}

/// A distance, in meters, that is no less than any with this h.
fn reach_of(h: f32, error: f64) -> f64 {
    let half_angle = (f64::from(h) + error).clamp(0.0, 1.0).sqrt().asin();
    2.0 * EARTH_RADIUS_METERS * half_angle * (1.0 + 1e-6) + 1e-3
}

fn is_inside(points: &Tree, search: &Search, candidate: &Candidate) -> bool {
    let bits = points.leaf_at(candidate.at).cell_bits(candidate.slot as usize);
    search.shape.distance_if_inside(search.center, place_of(bits)).is_some()
}

/// Candidates in their order, without those outside of a circle: those of other shapes were tested.
fn ranked(points: &Tree, search: &Search, candidates: &[Candidate]) -> Vec<RankedEntry> {
    let ranking = Ranking::new(search);
    let entries = candidates.iter().map(|candidate| (candidate.at, candidate.slot as usize));
    let mut ranked = ranking.of(points, candidates.len(), entries);
    if let Shape::Circle { radius_meters } = search.shape {
        ranking.keep_inside(radius_meters, &mut ranked);
    }
    ranking.sort(&mut ranked);
    ranked
}
