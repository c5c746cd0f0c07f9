//! Places: cells, distances, the point index.
//! Inputs come from `random` with a fixed seed for each operation; see `main` for the contract.

use whered_geo::{Cell, Found, Order, Place, Points, Search, Shape};
use whered_random::Random;

use crate::Prepared;

fn place(random: &mut Random) -> Place {
    let longitude_degrees = random.fraction() * 360.0 - 180.0;
    let latitude_degrees = random.fraction() * 140.0 - 70.0;
    Place { longitude_degrees, latitude_degrees }
}

/// Half of the points lie around twenty cities, half anywhere.
fn points(random: &mut Random, count: usize) -> Points {
    let cities: Vec<Place> = (0..20).map(|_| place(random)).collect();
    let mut points = Points::new();
    for member in 0..count {
        let at =
            if member % 2 == 0 { near(random, cities[member / 2 % 20]) } else { place(random) };
        points.insert(member.to_string().as_bytes(), Cell::from_place(at));
    }
    points
}

fn near(random: &mut Random, center: Place) -> Place {
    let offset = |random: &mut Random| (random.fraction() - 0.5) * 0.2;
    Place {
        longitude_degrees: (center.longitude_degrees + offset(random)).clamp(-180.0, 180.0),
        latitude_degrees: center.latitude_degrees + offset(random),
    }
}

/// Encoding a place.
pub(crate) fn cell_of_place() -> Prepared {
    let mut random = Random(11);
    let places: Vec<Place> = (0..5000).map(|_| place(&mut random)).collect();
    Prepared {
        operations: 5000,
        run: Box::new(move || places.iter().fold(0, |sum, p| sum ^ Cell::from_place(*p).bits())),
    }
}

/// Haversine of two decoded cells.
pub(crate) fn distance() -> Prepared {
    let mut random = Random(12);
    let places: Vec<Place> =
        (0..5000).map(|_| Cell::from_place(place(&mut random)).place()).collect();
    Prepared {
        operations: 4999,
        run: Box::new(move || {
            let pairs = places.windows(2).map(|pair| pair[0].distance_meters(pair[1]));
            pairs.map(|meters| meters as u64).sum()
        }),
    }
}

/// A member's cell.
pub(crate) fn member_cell() -> Prepared {
    let mut random = Random(13);
    let points = points(&mut random, 100_000);
    let members: Vec<String> = (0..5000).map(|_| random.below(110_000).to_string()).collect();
    Prepared {
        operations: 5000,
        run: Box::new(move || {
            let cell = |member: &String| points.cell(member.as_bytes()).map_or(1, Cell::bits);
            members.iter().map(cell).fold(0, u64::wrapping_add)
        }),
    }
}

/// Moving a known member anywhere.
pub(crate) fn move_point() -> Prepared {
    let mut random = Random(14);
    let mut points = points(&mut random, 100_000);
    let moves: Vec<(String, Cell)> = (0..5000)
        .map(|_| (random.below(100_000).to_string(), Cell::from_place(place(&mut random))))
        .collect();
    Prepared {
        operations: 5000,
        run: Box::new(move || {
            for (member, cell) in &moves {
                points.insert(member.as_bytes(), *cell);
            }
            points.iter().take(100).map(|(_, cell)| cell.bits()).fold(0, u64::wrapping_add)
        }),
    }
}

fn searches(seed: u64, radius_meters: f64, order: Order, count: Option<usize>) -> Prepared {
    let mut random = Random(seed);
    let points = points(&mut random, 100_000);
    let centers: Vec<Place> = points.iter().step_by(500).map(|(_, cell)| cell.place()).collect();
    Prepared {
        operations: centers.len() as u64,
        run: Box::new(move || {
            let mut found = Found::new();
            let mut sum = 0u64;
            for center in &centers {
                let shape = Shape::Circle { radius_meters };
                let search = Search { center: *center, shape, order, count, any: false };
                // As the doors search: a distance is computed only for who asks for it.
                points.find(&search, &mut found);
                sum = found.hits(&points).fold(sum, |sum, hit| sum.wrapping_add(hit.cell().bits()));
            }
            sum
        }),
    }
}

/// The ten nearest within 20 km.
pub(crate) fn nearest() -> Prepared {
    searches(15, 20_000.0, Order::Ascending, Some(10))
}

/// Everything within 20 km, unsorted.
pub(crate) fn radius() -> Prepared {
    searches(16, 20_000.0, Order::Unsorted, None)
}
