//! Filling a server with points, by GEOADD with many points a command.
//!
//! Not for measuring single additions. Members are the decimal ids 1 to N, member k at the point
//! with number k - 1; in a shuffled order as they would come, or in the order of their numbers.
//!
//! While the server works on a batch the next one is made, on the other core.

use super::points::{Order, Point, Points};
use super::resp::{push_header, push_word, read_reply};
use super::server::Server;
use std::time::Instant;

/// The key that holds all points.
pub const KEY: &[u8] = b"points";
const POINTS_A_COMMAND: u64 = 100;
const PIPELINE: u64 = 10;

/// What loading cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Loaded {
    /// Points.
    pub points: u64,
    /// Seconds on the wall.
    pub seconds: f64,
    /// The server's processor time for a point.
    pub cpu_nanoseconds_per_point: f64,
    /// The server's memory before.
    pub resident_bytes_before: u64,
    /// The server's memory after.
    pub resident_bytes: u64,
}

/// Sends `GEOADD points longitude latitude member ...` for all of an order's places.
///
/// # Errors
///
/// The server fails, or has had one of the members already.
pub fn load(server: &Server, points: &Points, order: &Order) -> Result<Loaded, String> {
    send_all(server, order, POINTS_A_COMMAND, |member| points.get(member))
}

/// Moves every point once, up to 200 meters; the same commands, but none is new.
///
/// # Errors
///
/// The server fails, or lacks one of the members.
pub fn move_all(server: &Server, points: &Points, order: &Order) -> Result<Loaded, String> {
    send_all(server, order, 0, |member| {
        points.get(member).near(super::MOVE_METERS, &mut points.stream(member))
    })
}

/// `expected_new` is what a full command replies.
fn send_all(
    server: &Server,
    order: &Order,
    expected_new: u64,
    place: impl Fn(u64) -> Point,
) -> Result<Loaded, String> {
    let mut wire = server.wire()?;
    let resident_bytes_before = server.resident_bytes()?;
    let cpu_before = server.cpu_nanoseconds()?;
    let began = Instant::now();
    let count = order.count();
    let mut batch = Vec::new();
    let mut next = push_batch(&mut batch, order, 0, &place);
    let mut sent = 0;
    while sent < next {
        wire.send(&batch)?;
        let (from, upto) = (sent, next);
        sent = next;
        batch.clear();
        next = push_batch(&mut batch, order, sent, &place);
        for command in (from..upto).step_by(POINTS_A_COMMAND as usize) {
            let size = POINTS_A_COMMAND.min(upto - command);
            let expected = format!(":{}\r\n", size * expected_new / POINTS_A_COMMAND);
            wire.receive(|bytes| {
                let Some(reply) = read_reply(bytes)? else { return Ok(None) };
                let found = &bytes[..reply.size_bytes];
                if found != expected.as_bytes() {
                    let found = String::from_utf8_lossy(found);
                    return Err(format!("GEOADD says {found:?} instead of {expected:?}"));
                }
                Ok(Some(((), reply.size_bytes)))
            })?;
        }
    }
    let cpu_nanoseconds = server.cpu_nanoseconds()? - cpu_before;
    Ok(Loaded {
        points: count,
        seconds: began.elapsed().as_secs_f64(),
        cpu_nanoseconds_per_point: cpu_nanoseconds as f64 / count.max(1) as f64,
        resident_bytes_before,
        resident_bytes: server.resident_bytes()?,
    })
}

/// Appends the commands of one batch; the place behind it.
fn push_batch(out: &mut Vec<u8>, order: &Order, from: u64, place: &impl Fn(u64) -> Point) -> u64 {
    let mut at = from;
    for _ in 0..PIPELINE {
        let size = POINTS_A_COMMAND.min(order.count() - at);
        if size == 0 {
            break;
        }
        push_header(out, b'*', 2 + 3 * size as usize);
        push_word(out, b"GEOADD");
        push_word(out, KEY);
        for number in (at..at + size).map(|place| order.at(place)) {
            let [longitude, latitude] = place(number).texts();
            push_word(out, &longitude);
            push_word(out, &latitude);
            push_word(out, member(number).as_bytes());
        }
        at += size;
    }
    at
}

/// The member of a number: ids begin at 1.
#[must_use]
pub fn member(number: u64) -> String {
    (number + 1).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geo::World;

    #[test]
    fn every_member_is_sent_once_at_its_point() {
        let points = Points::new(1, World::Mapped);
        let order = Order::shuffled(2_345, 1);
        let (mut bytes, mut at, mut members) = (Vec::new(), 0, Vec::new());
        while at < order.count() {
            at = push_batch(&mut bytes, &order, at, &|number| points.get(number));
        }
        let text = String::from_utf8(bytes).unwrap();
        let words: Vec<&str> = text.split("\r\n").collect();
        assert_eq!(words.iter().filter(|word| **word == "GEOADD").count(), 24);
        let mut values = words
            .iter()
            .filter(|word| word.starts_with(|first: char| first.is_ascii_digit() || first == '-'));
        while let (Some(longitude), Some(latitude), Some(id)) =
            (values.next(), values.next(), values.next())
        {
            let number: u64 = id.parse::<u64>().unwrap() - 1;
            assert_eq!(points.get(number).to_string(), format!("{longitude} {latitude}"));
            members.push(number);
        }
        members.sort_unstable();
        assert_eq!(members, (0..2_345).collect::<Vec<u64>>());
    }
}
