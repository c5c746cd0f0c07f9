//! Facts that Redis's documentation and other programs state about the same places.

use whered_geo::boxes::Boxes;
use whered_geo::{Cell, Order, Place, Points, Search, Shape};

fn sicily() -> Points {
    let mut points = Points::new();
    for (member, longitude, latitude) in
        [(&b"Palermo"[..], 13.361389, 38.115556), (b"Catania", 15.087269, 37.502669)]
    {
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
    assert_eq!(format!("{:.4}", palermo.distance_meters(catania)), "166274.1516");
    assert_eq!(palermo.distance_meters(catania), catania.distance_meters(palermo));
}

#[test]
fn the_search_of_the_documentation_finds_both_nearest_first() {
    let points = sicily();
    let search = Search {
        center: Place::new(15.0, 37.0).unwrap(),
        shape: Shape::Circle { radius_meters: 200_000.0 },
        order: Order::Ascending,
        count: None,
        any: false,
    };
    let mut hits = Vec::new();
    points.search(&search, &mut hits);
    let found: Vec<_> =
        hits.iter().map(|hit| (hit.member, format!("{:.4}", hit.distance_meters / 1e3))).collect();
    assert_eq!(
        found,
        [(&b"Catania"[..], "56.4413".to_string()), (b"Palermo", "190.4424".to_string())]
    );
}

/// Whether a search for everything inside finds a point, and whether Redis's boxes hold it.
fn found_and_in_boxes(center: Place, shape: &Shape, point: Place) -> (bool, bool) {
    let cell = Cell::from_place(point);
    let mut points = Points::new();
    points.insert(b"point", cell);
    let shape = shape.clone();
    let search = Search { center, shape, order: Order::Unsorted, count: None, any: false };
    let mut hits = Vec::new();
    points.search(&search, &mut hits);
    let in_boxes =
        Boxes::of(center, &search.shape).ranges().any(|range| range.contains(&cell.bits()));
    (hits.len() == 1, in_boxes)
}

fn place(longitude: f64, latitude: f64) -> Place {
    Place::new(longitude, latitude).expect("on the globe")
}

#[test]
fn a_point_beyond_the_pole_is_found_where_redis_misses_it() {
    let shape = Shape::Circle { radius_meters: 1_244_351.0 };
    let answer = found_and_in_boxes(place(0.7, 78.9), &shape, place(-73.3, 83.7));
    assert_eq!(answer, (true, false));
}

#[test]
fn a_point_within_the_width_of_a_polar_box_is_found_where_redis_misses_it() {
    let shape = Shape::Box { width_meters: 2_280_954.0, height_meters: 3_782.0 };
    let answer = found_and_in_boxes(place(-43.1, -76.2), &shape, place(0.2, -76.2));
    assert_eq!(answer, (true, false));
}

#[test]
fn a_point_at_the_limit_of_the_globe_is_found_where_redis_misses_it() {
    let shape = Shape::Circle { radius_meters: 20_000.0 };
    let at_the_date_line = found_and_in_boxes(place(179.9, 10.0), &shape, place(180.0, 10.0));
    assert_eq!(at_the_date_line, (true, false));
    let northernmost = found_and_in_boxes(place(5.0, 85.0), &shape, place(5.0, 85.05112878));
    assert_eq!(northernmost, (true, false));
    let from_the_limit = found_and_in_boxes(place(180.0, 10.0), &shape, place(180.0, 10.0));
    assert_eq!(from_the_limit, (true, true));
}

#[test]
fn a_circle_across_the_date_line_finds_both_sides_in_the_boxes() {
    let shape = Shape::Circle { radius_meters: 50_000.0 };
    let answer = found_and_in_boxes(place(179.95, -17.0), &shape, place(-179.9, -17.1));
    assert_eq!(answer, (true, true));
}
