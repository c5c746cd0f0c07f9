//! The order of hits by distance.
//!
//! For: ranking the candidates of `nearest.rs`, and sorting what a scan has found. Not for: finding
//! them.
//!
//! Distances are told by series, within an error that is known ([`error_meters`]); two that are
//! closer to each other than their errors are compared to the last bit. Equal ones come in the
//! order of the scan: by box, then by (cell, member).
//!
//! Cost: some forty operations a hit and a comparison of numbers; two exact distances where it is
//! in doubt.

use std::cmp::Ordering;

use super::Tree;
use super::found::Found;
use super::walk::LeafAt;
use crate::boxes::Boxes;
use crate::cell::Cell;
use crate::distance::{NearOrigin, error_meters};
use crate::place::Place;
use crate::search::{Order, Search};

/// How many distances are computed at once.
const TOGETHER: usize = 8;

/// A point whose distance is known within its error.
#[derive(Clone, Copy, Debug)]
pub(super) struct RankedEntry {
    about_meters: f64,
    bits: u64,
    at: LeafAt,
    slot: usize,
    /// Which hit of the scan it is, or in which box it was met: what decides between ties.
    scan_index: usize,
}

impl RankedEntry {
    /// An upper bound of the distance.
    pub(super) fn most_meters(&self) -> f64 {
        self.about_meters + error_meters(self.about_meters)
    }
}

/// The order of hits by distance.
pub(super) struct Ranking<'a> {
    search: &'a Search,
    origin: NearOrigin,
}

impl<'a> Ranking<'a> {
    pub(super) fn new(search: &'a Search) -> Ranking<'a> {
        Ranking { search, origin: NearOrigin::new(search.center) }
    }

    /// The entries with their distances.
    pub(super) fn of(
        &self,
        points: &Tree,
        count: usize,
        entries: impl Iterator<Item = (LeafAt, usize)>,
    ) -> Vec<RankedEntry> {
        let hit = |(scan_index, (at, slot))| {
            let bits = points.leaf_at(at).cell_bits(slot);
            RankedEntry { about_meters: 0.0, bits, at, slot, scan_index }
        };
        let mut ranked = Vec::with_capacity(count);
        ranked.extend(entries.enumerate().map(hit));
        for hits in ranked.chunks_mut(TOGETHER) {
            let mut places = [self.search.center; TOGETHER];
            places.iter_mut().zip(&*hits).for_each(|(place, hit)| *place = place_of(hit.bits));
            let meters = self.origin.meters_to_all(&places);
            hits.iter_mut().zip(meters).for_each(|(hit, meters)| hit.about_meters = meters);
        }
        ranked
    }

    /// Drops those outside of a circle.
    pub(super) fn keep_inside(&self, radius_meters: f64, ranked: &mut Vec<RankedEntry>) {
        ranked.retain(|hit| {
            let about = hit.about_meters;
            let is_doubtful = (about - radius_meters).abs() <= error_meters(about);
            let tested = if is_doubtful { self.exact_meters(hit) } else { about };
            // A radius that is not a number excludes nothing.
            tested.partial_cmp(&radius_meters) != Some(Ordering::Greater)
        });
    }

    /// Brings hits into the order asked for, and where distances tie into that of the scan.
    pub(super) fn sort(&self, ranked: &mut [RankedEntry]) {
        ranked.sort_unstable_by(|a, b| self.by_distance(a, b));
        if ranked.is_sorted_by(|a, b| self.by_distance(a, b).is_lt()) {
            return;
        }
        let boxes = Boxes::of(self.search.center, &self.search.shape);
        for hit in ranked.iter_mut() {
            let mut ranges = boxes.ranges();
            hit.scan_index = ranges.position(|range| range.contains(&hit.bits)).unwrap_or(9);
        }
        let in_scan = |hit: &RankedEntry| (hit.scan_index, hit.at, hit.slot);
        ranked.sort_unstable_by(|a, b| {
            self.by_distance(a, b).then_with(|| in_scan(a).cmp(&in_scan(b)))
        });
    }

    /// As the exact distances are, which are asked for only where the errors leave a doubt.
    fn by_distance(&self, a: &RankedEntry, b: &RankedEntry) -> Ordering {
        let doubt = error_meters(a.about_meters) + error_meters(b.about_meters);
        let ascending = if a.bits == b.bits {
            Ordering::Equal
        } else if (a.about_meters - b.about_meters).abs() > doubt {
            a.about_meters.total_cmp(&b.about_meters)
        } else {
            self.exact_meters(a).total_cmp(&self.exact_meters(b))
        };
        if self.search.order == Order::Descending { ascending.reverse() } else { ascending }
    }

    fn exact_meters(&self, hit: &RankedEntry) -> f64 {
        self.origin.exact.meters_to(place_of(hit.bits))
    }
}

/// Sorts what a scan has found, and keeps as many as are wanted.
pub(super) fn arrange(points: &Tree, search: &Search, found: &mut Found) {
    let ranking = Ranking::new(search);
    let mut ranked = ranking.of(points, found.len(), found.entries());
    let by_key = |a: &RankedEntry, b: &RankedEntry| {
        ranking.by_distance(a, b).then(a.scan_index.cmp(&b.scan_index))
    };
    let count = search.count.unwrap_or(usize::MAX);
    if count < ranked.len() {
        ranked.select_nth_unstable_by(count, by_key);
        ranked.truncate(count);
    }
    ranked.sort_unstable_by(by_key);
    write(&ranked, count, found);
}

/// Puts the first of them in the place of what was found.
pub(super) fn write(ranked: &[RankedEntry], count: usize, found: &mut Found) {
    found.restart_keeping_center();
    found.reserve(count.min(ranked.len()));
    for hit in ranked.iter().take(count) {
        found.push_with_distance(hit.at, hit.slot, hit.about_meters);
    }
}

pub(super) fn place_of(bits: u64) -> Place {
    Cell::from_stored_bits(bits).place()
}
