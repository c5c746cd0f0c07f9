//! Whatever is done under the lock and whatever after it, the hits are those of a search at once.

use whered_engine::geo::{Cell, Place, Polygon};

use super::*;

/// Points close together, some of them at the same place, so that distances tie.
fn many() -> Points {
    let mut points = Points::new();
    for number in 0..9_000u32 {
        let place = Place::new(7.0 + f64::from(number % 90) / 50.0, f64::from(number / 180) / 30.0);
        points.insert(format!("point {number}").as_bytes(), Cell::from_place(place.unwrap()));
    }
    points
}

fn members(found: &Found, tree: &Tree) -> Vec<Vec<u8>> {
    found.hits(tree).map(|hit| hit.member().to_vec()).collect()
}

fn searches() -> Vec<Search> {
    let center = Place::new(8.0, 1.0).unwrap();
    let corner = |number: u32| {
        let angle = f64::from(number) / 17.0 * std::f64::consts::TAU;
        Place::new(8.0 + angle.cos(), 1.0 + angle.sin()).unwrap()
    };
    let polygon = Polygon::new(&(0..17).map(corner).collect::<Vec<_>>()).expect("enough vertices");
    let mut shapes = vec![Shape::Polygon(polygon)];
    shapes.extend([3e3, 4e4, 7e4, 3e5].map(|radius_meters| Shape::Circle { radius_meters }));
    let mut searches = Vec::new();
    for shape in shapes {
        for order in [Order::Unsorted, Order::Ascending, Order::Descending] {
            for (count, any) in
                [(None, false), (Some(10), false), (Some(2000), false), (Some(2000), true)]
            {
                searches.push(Search { center, shape: shape.clone(), order, count, any });
            }
        }
    }
    searches
}

#[test]
fn a_search_in_two_steps_finds_what_one_does() {
    let (mut few, mut later, mut sorted_later) = (0, 0, 0);
    for search in searches() {
        let mut points = many();
        let mut at_once = Found::new();
        points.find(&search, &mut at_once);
        let expected = members(&at_once, &points);
        for for_later in [false, true] {
            let begun = begin(&points, search.clone(), for_later);
            let found = match begun {
                StartedSearch::Finished(found) => {
                    few += 1;
                    assert!(!for_later);
                    members(&found, &points)
                }
                StartedSearch::Deferred(begun) => {
                    later += 1;
                    sorted_later += usize::from(matches!(begun.step, Step::ToBeSorted(_)));
                    // Everything goes elsewhere before the rest is done.
                    let mut others = std::mem::replace(&mut points, many());
                    for number in 0..9_000u32 {
                        others.insert(format!("point {number}").as_bytes(), Cell::MIN);
                    }
                    let (view, found) = begun.finish();
                    members(&found, &view)
                }
            };
            assert!(found == expected, "{search:?}");
        }
    }
    assert!(few > 10 && later > 50 && sorted_later > 10, "{few}, {later}, {sorted_later}");
}

#[test]
fn nothing_found_is_nothing_to_hold() {
    let points = many();
    let center = Place::new(-100.0, 1.0).unwrap();
    let shape = Shape::Circle { radius_meters: 1e3 };
    let search = Search { center, shape, order: Order::Unsorted, count: None, any: false };
    let StartedSearch::Deferred(later) = begin(&points, search, true) else {
        panic!("it is for later")
    };
    let (_, found) = later.finish();
    assert!(found.is_empty());
}
