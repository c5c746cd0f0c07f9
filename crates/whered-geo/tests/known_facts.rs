//! Facts that Redis's documentation and other programs state about the same places.

use whered_geo::{Cell, Order, Place, Points, Search, Shape};

fn sicily() -> Points {
    let mut points = Points::new();
    for (member, longitude, latitude) in [
        (&b"Palermo"[..], 13.361389, 38.115556),
        (b"Catania", 15.087269, 37.502669),
    ] {
        points.insert(
            member,
            Cell::from_place(Place::new(longitude, latitude).expect("both are on the globe")),
        );
    }
    points
}

#[test]
fn palermo_and_catania_have_the_cells_and_geohashes_that_redis_gives() {
    let points = sicily();
    let palermo = points.cell(b"Palermo").unwrap();
    let catania = points.cell(b"Catania").unwrap();
    assert_eq!(palermo.bits(), 3_479_099_956_230_698);
    assert_eq!(catania.bits(), 3_479_447_370_796_909);
    assert_eq!(&palermo.geohash(), b"sqc8b49rny0");
    assert_eq!(&catania.geohash(), b"sqdtr74hyu0");
}

#[test]
fn palermo_is_as_far_from_catania_as_redis_says() {
    let points = sicily();
    let palermo = points.cell(b"Palermo").unwrap().place();
    let catania = points.cell(b"Catania").unwrap().place();
    assert_eq!(
        format!("{:.4}", palermo.distance_meters(catania)),
        "166274.1516"
    );
    assert_eq!(
        palermo.distance_meters(catania),
        catania.distance_meters(palermo)
    );
}

#[test]
fn the_search_of_the_documentation_finds_both_nearest_first() {
    let points = sicily();
    let search = Search {
        center: Place::new(15.0, 37.0).unwrap(),
        shape: Shape::Circle {
            radius_meters: 200_000.0,
        },
        order: Order::Ascending,
        count: None,
        any: false,
    };
    let mut hits = Vec::new();
    points.search(&search, &mut hits);
    let found: Vec<_> = hits
        .iter()
        .map(|hit| (hit.member, format!("{:.4}", hit.distance_meters / 1e3)))
        .collect();
    assert_eq!(
        found,
        [
            (&b"Catania"[..], "56.4413".to_string()),
            (b"Palermo", "190.4424".to_string())
        ]
    );
}

#[test]
fn a_circle_across_the_pole_finds_what_lies_beyond_it() {
    let mut points = Points::new();
    let here = Place::new(10.0, 85.0).unwrap();
    points.insert(
        b"beyond",
        Cell::from_place(Place::new(-170.0, 85.0).unwrap()),
    );
    let search = Search {
        center: here,
        shape: Shape::Circle {
            radius_meters: 1_200_000.0,
        },
        order: Order::Unsorted,
        count: None,
        any: false,
    };
    let mut hits = Vec::new();
    points.search(&search, &mut hits);
    assert_eq!(hits.len(), 1);
}
