//! GEO searches in a plain sorted set, as Redis does them.
//!
//! For: keys that hold other scores than cells. Not for: point indexes, which search themselves.
//!
//! Redis looks at the scores in the nine boxes of the search, in their order, and takes each score
//! for a cell. That is repeated here as it is, and what the boxes miss is missed: such a key is
//! served, not sought for.
//! Cost: the members in the boxes.

use whered_geo::boxes::Boxes;
use whered_geo::score::place_of_score;
use whered_geo::{Order, Place, Search};

use super::sorted_set::SortedSet;

/// One member found by a search.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Found<'a> {
    /// The member's name.
    pub member: &'a [u8],
    /// Its score.
    pub score: f64,
    /// The place that its score stands for.
    pub place: Place,
    /// From the centre of the search, in meters.
    pub distance_meters: f64,
}

impl SortedSet {
    /// Finds the members of a search; the score of each is taken for a cell.
    pub fn search(&self, search: &Search) -> Vec<Found<'_>> {
        let limit = search.count.filter(|_| search.any).unwrap_or(usize::MAX);
        let mut found = Vec::new();
        for range in Boxes::of(search.center, &search.shape).ranges() {
            let first = self.rank_of_limit(range.start as f64, false);
            let end = self.rank_of_limit(range.end as f64, false);
            let inside = self.iter_ranks(first..end).filter_map(|(member, score)| {
                let place = place_of_score(score);
                let distance_meters = search.shape.distance_if_inside(search.center, place)?;
                Some(Found { member, score, place, distance_meters })
            });
            found.extend(inside.take(limit - found.len()));
        }
        arrange(search, &mut found);
        found
    }
}

/// Sorts as the search asks, and drops what is too many.
fn arrange(search: &Search, found: &mut Vec<Found<'_>>) {
    let by_distance =
        |a: &Found<'_>, b: &Found<'_>| a.distance_meters.total_cmp(&b.distance_meters);
    match search.order {
        Order::Unsorted if search.any || search.count.is_none() => {}
        Order::Unsorted | Order::Ascending => found.sort_by(by_distance),
        Order::Descending => found.sort_by(|a, b| by_distance(b, a)),
    }
    found.truncate(search.count.unwrap_or(usize::MAX));
}
