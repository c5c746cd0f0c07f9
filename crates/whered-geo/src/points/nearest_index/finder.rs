//! The searches of a [`NearestIndex`].
//!
//! ```text
//! the last answer ─► its distances from the new centre: no more is needed ─┐
//! top node ─► children within the limit, nearest first ─► blocks ─► chords ┴► lower limit
//!                                  candidates within the limit ─► exact distances ─► hits
//! ```
//!
//! Why it is exact. A square of a chord here is off by less than 1e-11 of itself and 1e-24 (the
//! vectors' numbers by 1e-15), and the exact distance by less than that of a haversine. The limit
//! is the `count`-th smallest square so far, widened by both ([`widened`]), so whatever is beyond
//! it is truly farther than `count` others. Candidates are ordered by exact distances, and by
//! cells where these are equal.
//!
//! Cost: some 0.3 µs for the nearest of a million if centres come in the order of cells; elsewhere
//! a wait for memory at each of two or three levels more.

use std::collections::BinaryHeap;

use super::vectors::{FANOUT, NODE_SLACK, Vector, rounded, square, vector_of};
use super::{NearestIndex, vectors};
use crate::cell::Cell;
use crate::distance::{EARTH_RADIUS_METERS, Origin};
use crate::place::Place;
use crate::search::Hit;

/// More than the square of any chord.
const EVERYWHERE: f64 = 8.0;

/// Searches an index, one search after another; each thread has its own.
#[derive(Clone, Debug)]
pub struct NearestFinder<'a> {
    index: &'a NearestIndex,
    path: whered_simd::Path,
    /// Nodes and blocks that may hold something nearer.
    pending: Vec<QueueEntry>,
    /// The smallest squares so far, as bits, which are ordered as the numbers are.
    smallest: BinaryHeap<u64>,
    candidates: Vec<Candidate>,
    /// Distances, entries and cells.
    ranked: Vec<(f64, u32, Cell)>,
    /// The entries of the hits.
    last: Vec<u32>,
    hits: Vec<Hit<'a>>,
}

/// A node, or a block at height 0.
#[derive(Clone, Copy, Debug)]
struct QueueEntry {
    square: f32,
    height: u32,
    number: u32,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    square: f64,
    entry: u32,
}

impl<'a> NearestFinder<'a> {
    /// A finder that has found nothing yet.
    pub fn new(index: &'a NearestIndex) -> NearestFinder<'a> {
        NearestFinder {
            index,
            path: whered_simd::path(),
            pending: Vec::new(),
            smallest: BinaryHeap::new(),
            candidates: Vec::new(),
            ranked: Vec::new(),
            last: Vec::new(),
            hits: Vec::new(),
        }
    }

    /// The members nearest to a place, up to `count` of them and up to a distance, nearest first.
    /// Of those at the same distance the one with the lower cell comes first, in a cell the one
    /// with the lower name.
    ///
    /// A radius that is not a number excludes nothing.
    pub fn find(&mut self, center: Place, count: usize, radius_meters: f64) -> &[Hit<'a>] {
        let from = vector_of(center);
        let limit = limit_of(radius_meters).min(self.limit_of_last(from, count));
        self.hits.clear();
        if count == 0 || radius_meters < 0.0 {
            self.last.clear();
            return &self.hits;
        }
        let path = self.path;
        let limit = whered_simd::dispatch!(
            path,
            ['b, 'c](
                finder: &'c mut NearestFinder<'b> = self,
                from: Vector = from,
                count: usize = count,
                limit: f64 = limit
            ) -> f64,
            |_token| finder.gather(from, count, limit)
        );
        self.candidates.retain(|candidate| candidate.square <= limit);
        self.take_hits(center, count, radius_meters);
        &self.hits
    }

    /// No more than this is needed, since the last hits are no farther.
    fn limit_of_last(&self, from: Vector, count: usize) -> f64 {
        if self.hits.len() < count {
            return EVERYWHERE;
        }
        let squares = self.last.iter().map(|entry| {
            let (block, lane) = (*entry as usize / FANOUT, *entry as usize % FANOUT);
            square(from, self.index.blocks[block].vector(lane))
        });
        widened(squares.fold(0.0, f64::max))
    }

    /// Collects all that may be among the nearest; returns the limit in the end.
    #[inline(always)]
    fn gather(&mut self, from: Vector, count: usize, mut limit: f64) -> f64 {
        self.candidates.clear();
        self.smallest.clear();
        self.pending.clear();
        let around = rounded(from);
        let height = self.index.levels.len() as u32;
        if height > 0 {
            self.pending.push(QueueEntry { square: 0.0, height, number: 0 });
        }
        while let Some(next) = self.pending.pop() {
            if next.square > single(limit) {
                continue;
            }
            if next.height == 0 {
                limit = self.gather_block(next.number, from, count, limit);
            } else {
                self.push_children(next, &around, single(limit));
            }
        }
        limit
    }

    /// Appends the children of a node that are within the limit, the nearest last.
    #[inline(always)]
    fn push_children(&mut self, node: QueueEntry, around: &vectors::Bounds, limit: f32) {
        let squares =
            self.index.levels[node.height as usize - 1][node.number as usize].squares(around);
        let mut near = 0_u32;
        for (lane, square) in squares.iter().enumerate() {
            near |= u32::from(*square <= limit) << lane;
        }
        let first = self.pending.len();
        while near != 0 {
            let lane = near.trailing_zeros();
            near &= near - 1;
            let square = squares[lane as usize];
            let number = node.number * FANOUT as u32 + lane;
            self.pending.push(QueueEntry { square, height: node.height - 1, number });
            let mut at = self.pending.len() - 1;
            while at > first && self.pending[at - 1].square < square {
                self.pending.swap(at - 1, at);
                at -= 1;
            }
        }
    }

    /// Appends the entries of a block that are within the limit, and lowers that.
    #[inline(always)]
    fn gather_block(&mut self, number: u32, from: Vector, count: usize, mut limit: f64) -> f64 {
        let squares = self.index.blocks[number as usize].squares(from);
        let mut near = 0_u32;
        for (lane, square) in squares.iter().enumerate() {
            near |= u32::from(*square <= limit) << lane;
        }
        while near != 0 {
            let lane = near.trailing_zeros();
            near &= near - 1;
            let square = squares[lane as usize];
            if square > limit {
                continue;
            }
            self.candidates.push(Candidate { square, entry: number * FANOUT as u32 + lane });
            if self.smallest.len() < count {
                self.smallest.push(square.to_bits());
            } else if let Some(mut largest) = self.smallest.peek_mut()
                && square.to_bits() < *largest
            {
                *largest = square.to_bits();
            }
            if self.smallest.len() == count
                && let Some(largest) = self.smallest.peek()
            {
                limit = limit.min(widened(f64::from_bits(*largest)));
            }
        }
        limit
    }

    /// The candidates by their exact distances as hits.
    fn take_hits(&mut self, center: Place, count: usize, radius_meters: f64) {
        let origin = Origin::new(center);
        let index = self.index;
        let is_inside = |meters: f64| meters <= radius_meters || radius_meters.is_nan();
        let exact = self.candidates.iter().map(|candidate| {
            let cell = index.cell(candidate.entry);
            (origin.meters_to(cell.place()), candidate.entry, cell)
        });
        self.ranked.clear();
        self.ranked.extend(exact.filter(|(meters, ..)| is_inside(*meters)));
        self.ranked.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        self.last.clear();
        for &(distance_meters, entry, cell) in &self.ranked {
            if self.hits.len() == count {
                return;
            }
            self.last.push(entry);
            let hit = |member| Hit { member, cell, place: cell.place(), distance_meters };
            self.hits.push(hit(index.first_member(entry)));
            let left = count - self.hits.len();
            if left > 0 {
                self.hits.extend(index.members(entry).skip(1).take(left).map(hit));
            }
        }
    }
}

/// A square that is certainly no less than any that is truly at most this one.
fn widened(square: f64) -> f64 {
    square + 1e-11 * square + 2e-12 * square.sqrt() + 1e-24
}

/// The limit in single precision, for the boxes of nodes.
fn single(limit: f64) -> f32 {
    ((limit * (1.0 + NODE_SLACK)) as f32).next_up()
}

/// The limit of a radius.
fn limit_of(radius_meters: f64) -> f64 {
    let half_angle = radius_meters / EARTH_RADIUS_METERS / 2.0;
    if half_angle < 1.5 { widened(4.0 * half_angle.sin().powi(2)) } else { EVERYWHERE }
}
