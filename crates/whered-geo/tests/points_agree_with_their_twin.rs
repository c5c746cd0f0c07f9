//! The index and its naive twin answer alike, whatever was done to them before.

use proptest::prelude::*;
use whered_geo::{Cell, Hit, NaivePoints, Order, Place, Points, Search, Shape};

#[derive(Clone, Debug)]
enum Update {
    Insert(Vec<u8>, Place),
    Remove(Vec<u8>),
}

/// Few names, so that moves and removals meet something; some long enough to lie outside.
fn members() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        20 => (0u16..900).prop_map(|id| id.to_string().into_bytes()),
        2 => prop::collection::vec(any::<u8>(), 0..3),
        1 => (1020usize..1030).prop_map(|length| vec![b'\n'; length]),
    ]
}

fn places() -> impl Strategy<Value = Place> {
    let longitude = prop_oneof![
        4 => -180.0..=180.0f64,
        2 => 10.0..10.01f64,
        1 => 179.99..=180.0f64,
        1 => -180.0..=-179.99f64,
        1 => Just(180.0),
        1 => Just(-180.0),
    ];
    let limit = 85.05112878f64;
    let latitude = prop_oneof![
        4 => -limit..=limit,
        2 => 50.0..50.01f64,
        1 => 84.0..=limit,
        1 => -limit..=-84.0,
        1 => Just(limit),
        1 => Just(-limit),
    ];
    (longitude, latitude).prop_map(|(lon, lat)| Place::new(lon, lat).expect("on the globe"))
}

fn updates(count: usize) -> impl Strategy<Value = Vec<Update>> {
    let update = prop_oneof![
        5 => (members(), places()).prop_map(|(member, place)| Update::Insert(member, place)),
        1 => members().prop_map(Update::Remove),
    ];
    prop::collection::vec(update, 0..count)
}

fn apply(updates: &[Update]) -> (Points, NaivePoints) {
    let (mut points, mut twin) = (Points::new(), NaivePoints::new());
    for update in updates {
        match update {
            Update::Insert(member, place) => {
                let cell = Cell::from_place(*place);
                assert_eq!(points.insert(member, cell), twin.insert(member, cell));
            }
            Update::Remove(member) => assert_eq!(points.remove(member), twin.remove(member)),
        }
    }
    (points, twin)
}

/// Lengths from a centimeter to 25,000 km, and none at all.
fn lengths() -> impl Strategy<Value = f64> {
    prop_oneof![
        8 => (-2.0..7.4f64).prop_map(|exponent| 10f64.powf(exponent)),
        1 => Just(0.0),
        1 => Just(25_000_000.0),
    ]
}

fn searches() -> impl Strategy<Value = Search> {
    let center = prop_oneof![
        8 => places(),
        1 => (-180.0..=180.0f64).prop_map(|lon| Place::new_geographic(lon, 90.0).expect("on the globe")),
        1 => (-180.0..=180.0f64).prop_map(|lon| Place::new_geographic(lon, -89.9).expect("on the globe")),
    ];
    let shape = prop_oneof![
        lengths().prop_map(|radius_meters| Shape::Circle { radius_meters }),
        (lengths(), lengths())
            .prop_map(|(width_meters, height_meters)| Shape::Box { width_meters, height_meters }),
    ];
    let order = prop_oneof![Just(Order::Unsorted), Just(Order::Ascending), Just(Order::Descending)];
    let count = prop_oneof![2 => Just(None), 3 => (0usize..40).prop_map(Some)];
    (center, shape, order, count, any::<bool>())
        .prop_map(|(center, shape, order, count, any)| Search { center, shape, order, count, any })
}

proptest! {
    #[test]
    fn updates_lookups_ranks_and_walks_agree(updates in updates(900), at in 0usize..900) {
        let (points, twin) = apply(&updates);
        prop_assert_eq!(points.len(), twin.len());
        prop_assert_eq!(points.is_empty(), twin.is_empty());
        prop_assert!(points.iter().eq(twin.iter()));
        prop_assert!(points.iter().rev().eq(twin.iter().rev()));
        prop_assert!(points.iter_from_rank(at).eq(twin.iter().skip(at)));
        prop_assert!(points.iter_from_rank(at).rev().eq(twin.iter().skip(at).collect::<Vec<_>>().into_iter().rev()));
        prop_assert!(points.iter().skip(at).eq(twin.iter().skip(at)));
        prop_assert!(points.iter().rev().skip(at).eq(twin.iter().rev().skip(at)));
        prop_assert!(points.iter_ranks(at / 2..at).eq(twin.iter().take(at).skip(at / 2)));
        prop_assert_eq!(points.iter_from_rank(at).remaining(), twin.len().saturating_sub(at));

        let names: Vec<Vec<u8>> = (0..900u16).map(|id| id.to_string().into_bytes()).collect();
        let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
        let mut found = Vec::new();
        points.cells_batch(&names, &mut found);
        for (name, cell) in names.iter().zip(found) {
            prop_assert_eq!(cell, twin.cell(name));
            prop_assert_eq!(points.cell(name), cell);
            prop_assert_eq!(points.rank(name), twin.rank(name));
        }
    }

    #[test]
    fn ranges_of_cells_agree(updates in updates(600), from in places(), to in places()) {
        let (points, twin) = apply(&updates);
        let (from, to) = (Cell::from_place(from), Cell::from_place(to));
        let expected = || twin.iter().filter(|&(_, cell)| cell >= from && cell <= to);
        prop_assert!(points.iter_cells(from, to).eq(expected()));
        prop_assert!(points.iter_cells(from, to).rev().eq(expected().rev()));
        prop_assert_eq!(points.iter_cells(from, to).remaining(), expected().count());
    }

    #[test]
    fn searches_agree_in_their_hits_and_in_their_order(
        updates in updates(300),
        searches in prop::collection::vec(searches(), 40),
    ) {
        let (points, twin) = apply(&updates);
        let (mut hits, mut expected): (Vec<Hit<'_>>, Vec<Hit<'_>>) = (Vec::new(), Vec::new());
        for search in searches {
            points.search(&search, &mut hits);
            twin.search(&search, &mut expected);
            prop_assert_eq!(&hits, &expected, "{:?}", search);
        }
    }
}
