//! Searches whose result a primary stores, and whether Redis can have found other members.
//!
//! A primary sends the search and not its result, and Redis's result is not always ours:
//! 1. Redis misses points in rare areas, which are found here (`whered_geo::search` says where).
//! 2. `COUNT` without `ANY` cuts between points of one distance, of which Redis takes some.
//!
//! Not for: the search itself (`geosearch`). Cost: the search once more without its count.

use whered_engine::geo::boxes::Boxes;
use whered_engine::geo::{self, Order, Search};
use whered_engine::{Data, Value};

use super::super::geo_area::{Form, Reader, Start, StoreMode};
use crate::resp::protocol::Args;
use crate::resp::session::Session;

/// Where the arguments of a command stand that can store a search.
fn form_of(name: &[u8]) -> Option<Form> {
    let is = |word: &[u8]| name.eq_ignore_ascii_case(word);
    let by = |start, options| Form { start, source: 1, options, storing: StoreMode::Optional };
    match () {
        () if is(b"geosearchstore") => {
            let (start, storing) = (Start::Options, StoreMode::Always);
            Some(Form { start, source: 2, options: 3, storing })
        }
        () if is(b"georadius") => Some(by(Start::Place, 6)),
        () if is(b"georadiusbymember") => Some(by(Start::Member, 5)),
        () => None,
    }
}

/// Whether Redis can have stored other members than this command stores here. A request that is
/// wrong is not: it fails when it is carried out.
pub(super) fn may_differ(session: &Session, args: Args<'_>) -> bool {
    let Some(form) = args.get(0).and_then(form_of).filter(|form| args.len() > form.options) else {
        return false;
    };
    let engine = session.engine();
    engine.keyspace().read(session.number, args.at(form.source), |value| {
        let Some(members) = value.and_then(Value::ordered) else {
            return false;
        };
        let options = Reader { form, args, members: Some(members), engine }.read();
        let Some(search) = options.ok().and_then(|options| options.search()) else {
            return false;
        };
        let all = Search { order: Order::Unsorted, count: None, any: false, ..search.clone() };
        match value.map(Value::data) {
            Some(Data::Collection(points)) => {
                let (mut found, mut taken) = (geo::Found::new(), geo::Found::new());
                points.find(&all, &mut found);
                let boxes = Boxes::of(search.center, &search.shape);
                let is_missed = |bits| !boxes.ranges().any(|range| range.contains(&bits));
                if found.hits(points).any(|hit| is_missed(hit.cell().bits())) {
                    return true;
                }
                if needs_cut(&search, found.len()) {
                    points.find(&search, &mut taken);
                }
                let distances = |found: &geo::Found| -> Vec<f64> {
                    found.hits(points).map(|hit| hit.distance_meters()).collect()
                };
                cuts_equals(&search, &distances(&taken), &distances(&found))
            }
            Some(Data::SortedSet(set)) => {
                let distances = |search: &Search| -> Vec<f64> {
                    set.search(search).iter().map(|hit| hit.distance_meters).collect()
                };
                let found = distances(&all);
                let is_cut = needs_cut(&search, found.len());
                let taken = if is_cut { distances(&search) } else { Vec::new() };
                cuts_equals(&search, &taken, &found)
            }
            _ => false,
        }
    })
}

/// Whether the count of a search leaves some of its hits out, by their distance.
fn needs_cut(search: &Search, hits: usize) -> bool {
    !search.any && search.count.is_some_and(|count| count < hits)
}

/// Whether a hit that was left out is as far away as one that was taken.
fn cuts_equals(search: &Search, taken: &[f64], found: &[f64]) -> bool {
    let is_farthest = search.effective_order() == Order::Descending;
    let edge = taken.iter().copied().reduce(if is_farthest { f64::min } else { f64::max });
    let Some(edge) = edge else {
        return false;
    };
    let is_within =
        |distance: &f64| if is_farthest { *distance >= edge } else { *distance <= edge };
    found.iter().filter(|distance| is_within(distance)).count() > taken.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use whered_engine::geo::{Place, Shape};

    fn search(count: Option<usize>, order: Order, any: bool) -> Search {
        let center = Place::new(8.0, 50.0).expect("a place");
        Search { center, shape: Shape::Circle { radius_meters: 9e5 }, order, count, any }
    }

    #[test]
    fn a_count_that_cuts_between_equal_distances_is_seen() {
        let found = [3.0, 1.0, 2.0, 2.0];
        let nearest = |count| search(Some(count), Order::Ascending, false);
        assert!(cuts_equals(&nearest(2), &[1.0, 2.0], &found));
        assert!(!cuts_equals(&nearest(3), &[1.0, 2.0, 2.0], &found));
        assert!(!cuts_equals(&nearest(1), &[1.0], &found));
        let farthest = search(Some(2), Order::Descending, false);
        assert!(cuts_equals(&farthest, &[3.0, 2.0], &found));
        assert!(needs_cut(&farthest, 4) && !needs_cut(&farthest, 2));
        assert!(!needs_cut(&search(Some(2), Order::Unsorted, true), 4));
        assert!(!needs_cut(&search(None, Order::Ascending, false), 4));
    }
}
