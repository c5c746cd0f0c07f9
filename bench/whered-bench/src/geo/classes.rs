//! The kinds of commands that are measured, each as scripts made beforehand.
//!
//! For: the questions of Redis's public benchmark, the nearest few around dense and sparse places,
//! distances and positions of single members, and moves. Not for sending them (`driver.rs`).
//!
//! A class is named `what/CONNECTIONSxPIPELINE`. Dense places are the centres of Paris, Tokyo and
//! London in turn, sparse ones lie in the middle of Kansas, where a quarter of a point lies on a
//! square kilometer, thin ones in Jutland with some six: there Redis is nearly as fast within a
//! kilometer as Valkey is said to be in sparse land, 112,000 searches a second, and slower within
//! five (8,600). Searches do not all start in the same place. Members are drawn evenly from all.
//!
//! Moves go there and back: the first half of a script moves members away, the second half home,
//! and each connection has members of its own. So every command really moves its member, and at the
//! end of the script all are where they began.

use super::load::{KEY, member};
use super::points::{Order, Point, Points};
use super::script::Script;

/// Searches of one script: a multiple of three places and of sixteen commands.
const SEARCHES: u64 = 48;
/// Members that single-member commands ask for: far more than fit into a processor's caches.
/// A multiple of every pipeline, so that scripts need not come again.
const ASKED: u64 = 240_000;
/// Members that are moved.
const MOVED: u64 = 131_072;
/// How far a short move goes at most.
pub const MOVE_METERS: f64 = 200.0;

const DENSE: [(f64, f64); 3] = [(2.3522, 48.8566), (139.6917, 35.6895), (-0.1276, 51.5072)];
const THIN: [(f64, f64); 1] = [(9.3, 55.1)];
const SPARSE: [(f64, f64); 1] = [(-98.4, 38.5)];
const DENSE_JITTER_METERS: f64 = 250.0;
const OPEN_JITTER_METERS: f64 = 5_000.0;

/// Where the nearest few are looked for.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Land {
    Dense,
    Thin,
    Sparse,
}

impl Land {
    /// Places, and how far from them searches start.
    fn places(self) -> (&'static [(f64, f64)], f64) {
        match self {
            Land::Dense => (&DENSE, DENSE_JITTER_METERS),
            Land::Thin => (&THIN, OPEN_JITTER_METERS),
            Land::Sparse => (&SPARSE, OPEN_JITTER_METERS),
        }
    }
}

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Ask {
    Ping,
    Radius,
    Square,
    Nearest { radius: &'static str, land: Land },
    SamePair,
    RandomPairs,
    Position(&'static str),
    Moves { is_far: bool },
}

/// A kind of commands, and how many clients send them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Class {
    /// `what/CONNECTIONSxPIPELINE`.
    pub name: &'static str,
    /// The command, for people.
    pub about: &'static str,
    /// Connections.
    pub connections: usize,
    /// Commands on their way on each of them.
    pub pipeline: usize,
    ask: Ask,
}

const fn class(
    name: &'static str,
    about: &'static str,
    (connections, pipeline): (usize, usize),
    ask: Ask,
) -> Class {
    Class { name, about, connections, pipeline, ask }
}

const RADIUS: &str = "GEOSEARCH points FROMLONLAT 7.0 55.0 BYRADIUS 200 km";
const SQUARE: &str = "GEOSEARCH points FROMLONLAT 7.0 55.0 BYBOX 200 200 km";
const NEAREST: &str = "GEOSEARCH ... BYRADIUS radius COUNT 10 ASC WITHDIST";
const DENSE_1: Ask = Ask::Nearest { radius: "1", land: Land::Dense };
const DENSE_5: Ask = Ask::Nearest { radius: "5", land: Land::Dense };
const THIN_1: Ask = Ask::Nearest { radius: "1", land: Land::Thin };
const THIN_5: Ask = Ask::Nearest { radius: "5", land: Land::Thin };
const SPARSE_1: Ask = Ask::Nearest { radius: "1", land: Land::Sparse };
const SPARSE_5: Ask = Ask::Nearest { radius: "5", land: Land::Sparse };

/// All classes, in the order in which they are measured.
pub const CLASSES: [Class; 21] = [
    class("ping/1x1", "PING: what a round trip costs", (1, 1), Ask::Ping),
    class("ping/200x10", "PING", (200, 10), Ask::Ping),
    class("radius-200km/8x1", RADIUS, (8, 1), Ask::Radius),
    class("radius-200km/1x1", RADIUS, (1, 1), Ask::Radius),
    class("box-200km/8x1", SQUARE, (8, 1), Ask::Square),
    class("box-200km/1x1", SQUARE, (1, 1), Ask::Square),
    class("nearest-5km-dense/8x16", NEAREST, (8, 16), DENSE_5),
    class("nearest-5km-dense/1x1", NEAREST, (1, 1), DENSE_5),
    class("nearest-1km-dense/8x16", NEAREST, (8, 16), DENSE_1),
    class("nearest-1km-thin/8x16", NEAREST, (8, 16), THIN_1),
    class("nearest-5km-thin/8x16", NEAREST, (8, 16), THIN_5),
    class("nearest-1km-sparse/8x16", NEAREST, (8, 16), SPARSE_1),
    class("nearest-5km-sparse/8x16", NEAREST, (8, 16), SPARSE_5),
    class("geodist-same/200x10", "GEODIST points 1 2", (200, 10), Ask::SamePair),
    class("geodist-random/200x10", "GEODIST, random pairs", (200, 10), Ask::RandomPairs),
    class("geodist-random/200x100", "GEODIST, random pairs", (200, 100), Ask::RandomPairs),
    class("geodist-random/1x1", "GEODIST, random pairs", (1, 1), Ask::RandomPairs),
    class("geopos/200x10", "GEOPOS of a random member", (200, 10), Ask::Position("GEOPOS")),
    class("geohash/200x10", "GEOHASH of a random member", (200, 10), Ask::Position("GEOHASH")),
    class(
        "moves-200m/8x16",
        "GEOADD of a member, up to 200 m",
        (8, 16),
        Ask::Moves { is_far: false },
    ),
    class(
        "moves-anywhere/8x16",
        "GEOADD of a member, to another's place",
        (8, 16),
        Ask::Moves { is_far: true },
    ),
];

/// The class with this name.
#[must_use]
pub fn class_named(name: &str) -> Option<&'static Class> {
    CLASSES.iter().find(|class| class.name == name)
}

/// The commands of a class.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// One for all connections, or one for each.
    pub scripts: Vec<Script>,
    /// What is always answered; otherwise replies are read first and compared.
    pub constant: Option<&'static [u8]>,
    /// Whether the scripts must be driven to their end afterwards.
    pub is_round_trip: bool,
}

impl Class {
    /// These commands by other clients.
    #[must_use]
    pub fn with_clients(self, connections: usize, pipeline: usize) -> Class {
        Class { connections, pipeline, ..self }
    }

    /// Makes the commands for a collection with this many points.
    #[must_use]
    pub fn workload(&self, points: &Points, count: u64) -> Workload {
        self.workload_where(points, count, |_| true)
    }

    /// The class with only those members that may be moved.
    #[must_use]
    pub fn workload_where(
        &self,
        points: &Points,
        count: u64,
        may_move: impl Fn(Point) -> bool,
    ) -> Workload {
        let constant: Option<&'static [u8]> = match self.ask {
            Ask::Ping => Some(b"+PONG\r\n"),
            Ask::Moves { .. } => Some(b":0\r\n"),
            _ => None,
        };
        let scripts = match self.ask {
            Ask::Moves { is_far } => self.moves(points, count, is_far, may_move),
            _ => vec![self.questions(points, count).in_batches(self.pipeline)],
        };
        Workload { scripts, constant, is_round_trip: matches!(self.ask, Ask::Moves { .. }) }
    }

    fn questions(&self, points: &Points, count: u64) -> Script {
        let mut script = Script::default();
        let members = Order::shuffled(count, 2);
        let drawn = |index: u64| member(members.at(index % count));
        match self.ask {
            Ask::Ping => script.push(&[b"PING"]),
            Ask::Radius => script.push(&words(RADIUS)),
            Ask::Square => script.push(&words(SQUARE)),
            Ask::Nearest { radius, land } => {
                let (places, jitter) = land.places();
                for (index, place) in (0..SEARCHES).zip(places.iter().cycle()) {
                    let center = Point::from_degrees(place.0, place.1);
                    push_nearest(
                        &mut script,
                        center.near(jitter, &mut points.stream(index)),
                        radius,
                    );
                }
            }
            Ask::SamePair => script.push(&[b"GEODIST", KEY, b"1", b"2"]),
            Ask::RandomPairs => {
                for index in 0..ASKED {
                    let pair = [drawn(2 * index), drawn(2 * index + 1)];
                    script.push(&[b"GEODIST", KEY, pair[0].as_bytes(), pair[1].as_bytes()]);
                }
            }
            Ask::Position(command) => {
                for index in 0..ASKED {
                    script.push(&[command.as_bytes(), KEY, drawn(index).as_bytes()]);
                }
            }
            // Each connection has its own: `moves`.
            Ask::Moves { .. } => {}
        }
        script
    }

    fn moves(
        &self,
        points: &Points,
        count: u64,
        is_far: bool,
        may_move: impl Fn(Point) -> bool,
    ) -> Vec<Script> {
        let members = Order::shuffled(count, 3);
        let batch = (self.connections * self.pipeline) as u64;
        let chosen: Vec<u64> = (0..count)
            .map(|place| members.at(place))
            .filter(|number| may_move(points.get(*number)))
            .take((MOVED.min(count / 2) / batch * batch).max(batch) as usize)
            .collect();
        // Whole batches for each connection; members of a tiny collection move more than once.
        let each = (chosen.len() / self.connections / self.pipeline).max(1) * self.pipeline;
        let mut cycle = chosen.iter().cycle();
        let parts = (0..self.connections).map(|_| {
            let part: Vec<u64> = cycle.by_ref().take(each).copied().collect();
            let mut script = Script::default();
            for &number in &part {
                let there = match is_far {
                    true => points.get(count + number),
                    false => points.get(number).near(MOVE_METERS, &mut points.stream(number)),
                };
                push_move(&mut script, number, there);
            }
            part.iter().for_each(|&number| push_move(&mut script, number, points.get(number)));
            script
        });
        parts.collect()
    }
}

fn words(command: &str) -> Vec<&[u8]> {
    command.split(' ').map(str::as_bytes).collect()
}

fn push_nearest(script: &mut Script, from: Point, radius_km: &str) {
    let [longitude, latitude] = from.texts();
    let radius = radius_km.as_bytes();
    let search =
        [b"GEOSEARCH", KEY, b"FROMLONLAT", &longitude, &latitude, b"BYRADIUS", radius, b"km"];
    let limits: [&[u8]; 4] = [b"COUNT", b"10", b"ASC", b"WITHDIST"];
    script.push(&[&search[..], &limits[..]].concat());
}

fn push_move(script: &mut Script, number: u64, to: Point) {
    let [longitude, latitude] = to.texts();
    script.push(&[b"GEOADD", KEY, &longitude, &latitude, member(number).as_bytes()]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geo::World;

    #[test]
    fn every_class_has_whole_batches_for_any_number_of_points() {
        for count in [10, 5_000] {
            let points = Points::new(1, World::Mapped);
            for class in &CLASSES {
                let workload = class.workload(&points, count);
                assert!([1, class.connections].contains(&workload.scripts.len()), "{}", class.name);
                for script in &workload.scripts {
                    assert!(!script.is_empty(), "{}", class.name);
                    assert_eq!(script.len() % class.pipeline, 0, "{}", class.name);
                    assert!(script.len() <= 240_000, "{}", class.name);
                }
                assert_eq!(class_named(class.name), Some(class));
                let clients = format!("/{}x{}", class.connections, class.pipeline);
                assert!(class.name.ends_with(&clients), "{}", class.name);
            }
        }
    }

    #[test]
    fn moves_come_home() {
        let points = Points::new(1, World::Mapped);
        let class = class_named("moves-200m/8x16").unwrap();
        let workload = class.workload(&points, 100_000);
        let text = String::from_utf8(workload.scripts[1].bytes().to_vec()).unwrap();
        let commands: Vec<Vec<&str>> = text
            .split("*5\r\n")
            .skip(1)
            .map(|command| command.split("\r\n").filter(|word| !word.starts_with('$')).collect())
            .collect();
        let half = commands.len() / 2;
        for (away, home) in commands[..half].iter().zip(&commands[half..]) {
            assert_eq!(away[4], home[4]);
            let number = home[4].parse::<u64>().unwrap() - 1;
            assert_eq!(points.get(number).to_string(), format!("{} {}", home[2], home[3]));
            assert_ne!(away[2..4], home[2..4]);
        }
    }
}
