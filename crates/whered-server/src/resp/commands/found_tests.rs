//! However a long reply is taken, in pieces or copied, its bytes are the same.

use whered_engine::geo::{Cell, Order, Place, Points, Search, Shape};

use super::*;

/// More points than are replied at once, with a long name among them, and a search that finds most.
fn many() -> (Points, Search) {
    let mut points = Points::new();
    for number in 0..6_000u32 {
        let place = Place::new(7.0 + f64::from(number % 100) / 50.0, f64::from(number) / 3_000.0);
        let name = if number == 3_210 { "n".repeat(2_000) } else { format!("point {number}") };
        points.insert(name.as_bytes(), Cell::from_place(place.unwrap()));
    }
    let center = Place::new(8.0, 1.0).unwrap();
    let shape = Shape::Circle { radius_meters: 135_000.0 };
    (points, Search { center, shape, order: Order::Unsorted, count: None, any: false })
}

fn found_in(points: &Points, search: &Search) -> Found {
    let mut found = Found::new();
    points.find(search, &mut found);
    assert!((MOST_HITS_AT_ONCE + 1..6_000).contains(&found.len()));
    found
}

#[test]
fn a_long_reply_is_the_same_whatever_part_of_its_pieces_is_sent() {
    let (points, search) = many();
    let mut expected = Vec::new();
    let (found, mut cursor) = (found_in(&points, &search), FoundCursor::default());
    while let Some(bulks) = found.next_bulks(&points, &mut cursor) {
        expected.extend_from_slice(bulks);
    }
    let mut state = 1u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below
    };
    for _ in 0..50 {
        let (mut reply, mut found) = (Reply::new(), found_in(&points, &search));
        let view = if random(2) == 0 { points.hold(&mut found) } else { points.freeze() };
        write_in_parts(ReplyFields::default(), view, found, &mut reply);
        let mut rest = reply.rest.take().unwrap();
        let mut sent = Vec::new();
        while !rest.is_finished() {
            let mut pieces = Vec::new();
            rest.pieces(&mut pieces, 1 + random(9_000), 1 + random(40));
            let offered = pieces.iter().map(|piece| &**piece).collect::<Vec<_>>().concat();
            // All of it, a part, nothing; or it is offered and then copied after all.
            let taken = match random(4) {
                0 => random(offered.len()),
                1 => 0,
                _ => offered.len(),
            };
            sent.extend_from_slice(&offered[..taken]);
            rest.sent(taken);
            if random(5) == 0 {
                rest.append(&mut sent, 1 + random(3_000));
            }
        }
        assert!(sent == expected, "{} bytes for {}", sent.len(), expected.len());
    }
}
