//! The index and its naive twin answer alike, whatever was done to them before.

use std::sync::OnceLock;

use proptest::prelude::*;
use whered_geo::{
    Cell, Found, FoundCursor, Hit, NaivePoints, Order, Place, Points, Polygon, Search, Shape,
};

#[derive(Clone, Debug)]
enum Update {
    Insert(Vec<u8>, Place),
    Remove(Vec<u8>),
}

/// Few names, so that moves and removals meet something; some long enough for the overflow store.
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

/// Polygons anywhere and ones of a degree or a kilometre.
fn polygons() -> impl Strategy<Value = Shape> {
    let offsets = prop::collection::vec((-1.0..1.0f64, -1.0..1.0f64), 3..8);
    let size = prop_oneof![Just(1.0), Just(0.01), Just(80.0)];
    (places(), size, offsets).prop_map(|(middle, size, offsets)| {
        let vertex = |(east, north): (f64, f64)| {
            let longitude = middle.longitude_degrees + east * size;
            let latitude = middle.latitude_degrees + north * size;
            let latitude = latitude.clamp(-85.05112878, 85.05112878);
            Place::new(longitude.clamp(-180.0, 180.0), latitude).expect("on the globe")
        };
        let vertices: Vec<Place> = offsets.into_iter().map(vertex).collect();
        Shape::Polygon(Polygon::new(&vertices).expect("there are three or more"))
    })
}

fn searches(centers: impl Strategy<Value = Place>) -> impl Strategy<Value = Search> {
    let shape = prop_oneof![
        4 => lengths().prop_map(|radius_meters| Shape::Circle { radius_meters }),
        2 => (lengths(), lengths())
            .prop_map(|(width_meters, height_meters)| Shape::Box { width_meters, height_meters }),
        2 => polygons(),
    ];
    let order = prop_oneof![Just(Order::Unsorted), Just(Order::Ascending), Just(Order::Descending)];
    let count = prop_oneof![2 => Just(None), 3 => (0usize..40).prop_map(Some), 1 => (0usize..3000).prop_map(Some), 1 => prop_oneof![Just(Some(usize::MAX)), Just(Some(usize::MAX / 3))]];
    (centers, shape, order, count, any::<bool>()).prop_map(|(center, shape, order, count, any)| {
        let center = match &shape {
            Shape::Polygon(polygon) => polygon.center(),
            _ => center,
        };
        Search { center, shape, order, count, any }
    })
}

fn centers() -> impl Strategy<Value = Place> {
    prop_oneof![
        8 => places(),
        1 => (-180.0..=180.0f64).prop_map(|lon| Place::new_geographic(lon, 90.0).expect("on the globe")),
        1 => (-180.0..=180.0f64).prop_map(|lon| Place::new_geographic(lon, -89.9).expect("on the globe")),
    ]
}

/// Fails unless a search finds the same hits in the same order as the twin's, in every form.
fn assert_same(points: &Points, twin: &NaivePoints, search: &Search) {
    let (mut hits, mut expected): (Vec<Hit<'_>>, Vec<Hit<'_>>) = (Vec::new(), Vec::new());
    points.search(search, &mut hits);
    twin.search(search, &mut expected);
    assert_eq!(hits.len(), expected.len(), "{search:?}");
    for (hit, expected) in hits.iter().zip(&expected) {
        assert_eq!(hit, expected, "{search:?}");
    }
    let mut found = Found::new();
    points.find(search, &mut found);
    assert_eq!(found.len(), expected.len());
    let (mut reply, mut cursor) = (Vec::new(), FoundCursor::default());
    while let Some(bulks) = found.next_bulks(points, &mut cursor) {
        assert!(!bulks.is_empty());
        reply.extend_from_slice(bulks);
    }
    assert_eq!(reply.len(), found.bulk_bytes(points));
    for (hit, expected) in found.hits(points).zip(&expected) {
        let (least, most) = hit.distance_bounds_meters();
        assert!((least..=most).contains(&expected.distance_meters), "{search:?}: {expected:?}");
    }
    let mut bulks = Vec::new();
    for hit in expected {
        bulks.extend_from_slice(format!("${}\r\n", hit.member.len()).as_bytes());
        bulks.extend_from_slice(hit.member);
        bulks.extend_from_slice(b"\r\n");
    }
    assert_eq!(reply, bulks, "{search:?}");
}

/// Five thousand points: dense and sparse clusters, many in one cell, some at the limits.
fn clustered() -> &'static (Points, NaivePoints) {
    static CLUSTERED: OnceLock<(Points, NaivePoints)> = OnceLock::new();
    CLUSTERED.get_or_init(|| {
        let mut random = 42u64;
        let mut unit = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 11) as f64 / (1u64 << 53) as f64
        };
        let (mut points, mut twin) = (Points::new(), NaivePoints::new());
        for id in 0..5000u32 {
            let (longitude, latitude, size) = match id % 10 {
                0..=3 => (10.0, 50.0, 0.01),
                4 | 5 => (10.0, 50.0, 1.0),
                6 => (10.004, 50.004, 0.0),
                7 => (179.995, 84.99, 0.12),
                8 => (-180.0, -60.0, 2.0),
                _ => (0.0, 0.0, 180.0),
            };
            let longitude: f64 = longitude + size * (2.0 * unit() - 1.0);
            let latitude: f64 = latitude + size * (2.0 * unit() - 1.0);
            let place = Place::new(
                longitude.clamp(-180.0, 180.0),
                latitude.clamp(-85.05112878, 85.05112878),
            );
            let cell = Cell::from_place(place.expect("on the globe"));
            let name = if id % 997 == 0 { format!("{id:2000}") } else { id.to_string() };
            points.insert(name.as_bytes(), cell);
            twin.insert(name.as_bytes(), cell);
        }
        (points, twin)
    })
}

/// Places where the clusters are, some of them cells of points.
fn clustered_centers() -> impl Strategy<Value = Place> {
    prop_oneof![
        centers(),
        (9.99..10.01f64, 49.99..50.01f64)
            .prop_map(|(lon, lat)| Place::new(lon, lat).expect("on the globe")),
        (0usize..5000).prop_map(|rank| {
            let (_, cell) = clustered().1.iter().nth(rank).expect("there are as many");
            cell.place()
        }),
    ]
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
        searches in prop::collection::vec(searches(centers()), 40),
    ) {
        let (points, twin) = apply(&updates);
        for search in searches {
            assert_same(&points, &twin, &search);
        }
    }

    #[test]
    fn searches_of_clusters_agree(
        searches in prop::collection::vec(searches(clustered_centers()), 8),
    ) {
        let (points, twin) = clustered();
        for search in searches {
            assert_same(points, twin, &search);
        }
    }

    #[test]
    fn radii_that_end_at_a_point_agree(
        center in clustered_centers(),
        rank in 0usize..5000,
        step in -1i32..=1,
        any: bool,
    ) {
        let (points, twin) = clustered();
        let (_, cell) = twin.iter().nth(rank).expect("there are as many");
        let distance = center.distance_meters(cell.place());
        let radius_meters = match step {
            0 => distance,
            1 => distance.next_up(),
            _ => distance.next_down(),
        };
        let order = if any { Order::Unsorted } else { Order::Ascending };
        let count = (!any).then_some(7);
        let shape = Shape::Circle { radius_meters };
        assert_same(points, twin, &Search { center, shape, order, count, any: false });
    }
}

/// The rest of the region may go on into the cells at the limit of the globe without a gap.
#[test]
fn circles_around_a_pole_that_end_at_the_limit_of_the_globe_agree() {
    let (points, twin) = clustered();
    for (longitude, latitude) in
        [(62.49847512076088, 90.0), (-180.0, 90.0), (180.0, 89.0), (0.0, -90.0)]
    {
        let center = Place::new_geographic(longitude, latitude).expect("on the globe");
        let limit = Place::new(longitude, 85.05112878f64.copysign(latitude)).expect("on the globe");
        let distance = center.distance_meters(limit);
        let around = (0..40).map(|step| 550_300.0 + f64::from(step) * 10.0);
        for radius_meters in around.chain([distance, 550_444.634_977_09, 550_444.634_977_090_6]) {
            let shape = Shape::Circle { radius_meters };
            let order = Order::Unsorted;
            assert_same(points, twin, &Search { center, shape, order, count: None, any: false });
        }
    }
}

/// Points to the east and west, north and south of a centre, as far as each other but for the last
/// bits of their distances.
#[test]
fn distances_that_differ_in_their_last_bits_are_in_their_order() {
    for (longitude, latitude) in [(0.0, 0.0), (90.0, 42.5), (11.0, 78.0), (-45.0, -10.0)] {
        let center = Place::new(longitude, latitude).expect("on the globe");
        let (mut points, mut twin) = (Points::new(), NaivePoints::new());
        for id in 0..400 {
            let (ring, side) = (f64::from(id / 8), id % 8);
            let (mut x, mut y) = (0.002 * (1.0 + ring), 0.0003 * ring);
            if side & 1 == 1 {
                x = -x;
            }
            if side & 2 == 2 {
                y = -y;
            }
            // On the meridian, and beside it by a cell, which is told in another way.
            if side & 4 == 4 {
                (x, y) = (y * 1e-3, x);
            }
            let place = Place::new(longitude + x, latitude + y).expect("on the globe");
            let (name, cell) = (id.to_string(), Cell::from_place(place));
            points.insert(name.as_bytes(), cell);
            twin.insert(name.as_bytes(), cell);
        }
        for order in [Order::Ascending, Order::Descending] {
            for count in (1..60).chain([399]).map(Some).chain([None]) {
                let shape = Shape::Circle { radius_meters: 20_000.0 };
                assert_same(&points, &twin, &Search { center, shape, order, count, any: false });
            }
        }
        // Each of these distances as a radius, and a hair less.
        let shape = Shape::Circle { radius_meters: 20_000.0 };
        let all = Search { center, shape, order: Order::Ascending, count: None, any: false };
        let mut hits = Vec::new();
        twin.search(&all, &mut hits);
        for hit in hits.iter().step_by(7) {
            for radius_meters in [hit.distance_meters, hit.distance_meters.next_down()] {
                let shape = Shape::Circle { radius_meters };
                let search = Search { shape, count: Some(1000), ..all.clone() };
                assert_same(&points, &twin, &search);
            }
        }
    }
}
