//! Points as OpenStreetMap's nodes lie: each one a pure function of a seed and its number.
//!
//! For: loading any server, and knowing beforehand where every member is.
//! Not for: real places. The world (areas, towns, boxes) is always the same; the seed moves the
//! points in it, so that the counts of large areas hold for every seed.
//!
//! ```text
//! (seed, number) ──► 55 % a metropolitan area (metros.rs), radius * u^0.6 from its centre
//!                ──► 28 % one of 20,000 towns, the k-th with weight 1 / (k + 50)
//!                ──► 12 % anywhere in a box of land
//!                ──►  5 % anywhere within Redis's limits
//! ```
//!
//! Points are kept in ten-millionths of a degree, as OpenStreetMap has them. A point costs some
//! 150 ns. A distance from a centre of `radius * u^0.6` means that the density falls with the
//! distance to the power of a third: the middle is the densest part, without one cell that has all.
//!
//! Sine, cosine and powers come from the C library: on another one a point may lie a ten-millionth
//! of a degree off.

mod census;
mod metros;
mod order;

pub use census::{Census, PUBLIC_POINTS};
pub use order::Order;

use self::metros::{COASTS, METRO_RADIUS_METERS, METROS, REGIONS, Region};
use crate::Random;
use std::fmt;

const TOWNS: u64 = 20_000;
/// Shares of metropolitan areas, towns and boxes; the rest lies anywhere.
const SHARES: [f64; 3] = [0.55, 0.28, 0.12];
const RADIUS_POWER: f64 = 0.6;
const METERS_PER_DEGREE: f64 = 111_195.0;
/// Redis's limit, in ten-millionths of a degree.
const LATITUDE_LIMIT: i32 = 850_511_287;
const LONGITUDE_LIMIT: i32 = 1_800_000_000;
/// The seed of the towns' places.
const WORLD_SEED: u64 = 0x0077_6865_7265;

mod kind {
    pub(super) const POINT: u64 = 101;
    pub(super) const TOWN: u64 = 102;
    pub(super) const NEAR: u64 = 103;
}

/// A point, in ten-millionths of a degree.
///
/// ```
/// use whered_bench::geo::Point;
/// let point = Point::from_degrees(7.0, -0.25);
/// assert_eq!(point.to_string(), "7.0000000 -0.2500000");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    longitude: i32,
    latitude: i32,
}

impl Point {
    /// The nearest point; a longitude beyond 180 goes on at the other side, a latitude beyond
    /// Redis's limit is held to it.
    #[must_use]
    pub fn from_degrees(longitude_degrees: f64, latitude_degrees: f64) -> Point {
        let turned = (longitude_degrees + 180.0).rem_euclid(360.0) - 180.0;
        let whole = |degrees: f64| (degrees * 1e7).round() as i32;
        Point {
            longitude: whole(turned).clamp(-LONGITUDE_LIMIT, LONGITUDE_LIMIT),
            latitude: whole(latitude_degrees).clamp(-LATITUDE_LIMIT, LATITUDE_LIMIT),
        }
    }

    /// Degrees east of Greenwich.
    #[must_use]
    pub fn longitude_degrees(self) -> f64 {
        f64::from(self.longitude) / 1e7
    }

    /// Degrees north of the equator.
    #[must_use]
    pub fn latitude_degrees(self) -> f64 {
        f64::from(self.latitude) / 1e7
    }

    /// Longitude and latitude, each with seven decimals, as a command has them.
    #[must_use]
    pub fn texts(self) -> [Vec<u8>; 2] {
        [self.longitude, self.latitude].map(|value| {
            let mut text = Vec::with_capacity(12);
            if value < 0 {
                text.push(b'-');
            }
            let value = value.unsigned_abs();
            let mut step = 1_000_000_000;
            while step > 10_000_000 && value / step == 0 {
                step /= 10;
            }
            while step > 0 {
                text.push(b'0' + (value / step % 10) as u8);
                if step == 10_000_000 {
                    text.push(b'.');
                }
                step /= 10;
            }
            text
        })
    }

    /// A point up to `meters` away, evenly over that circle.
    #[must_use]
    pub fn near(self, radius_meters: f64, random: &mut Random) -> Point {
        let distance = radius_meters * random.fraction().sqrt();
        self.moved(distance, random.fraction())
    }

    /// The point at a distance in the direction that is this part of a full turn.
    fn moved(self, distance_meters: f64, turn: f64) -> Point {
        let (sine, cosine) = (turn * std::f64::consts::TAU).sin_cos();
        let latitude = self.latitude_degrees();
        let shrink = latitude.to_radians().cos().max(0.05);
        let degrees = distance_meters / METERS_PER_DEGREE;
        Point::from_degrees(
            self.longitude_degrees() + degrees * cosine / shrink,
            latitude + degrees * sine,
        )
    }
}

/// Longitude and latitude with seven decimals, as a command has them.
impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [longitude, latitude] = self.texts();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        write!(f, "{} {}", text(longitude), text(latitude))
    }
}

/// Which world the points lie in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum World {
    /// All four kinds: 55, 28, 12 and 5 percent.
    Mapped,
    /// No uniform regions: their share goes to the other three in proportion.
    Clustered,
}

impl World {
    /// `mapped` or `clustered`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            World::Mapped => "mapped",
            World::Clustered => "clustered",
        }
    }
}

/// A centre with a radius that all of its points lie within.
#[derive(Debug, Clone, Copy)]
struct Cluster {
    center: Point,
    radius_meters: f64,
}

/// Where points lie.
#[derive(Debug, Clone)]
pub struct Points {
    seed: u64,
    world: World,
    metros: Weighted<Cluster>,
    towns: Weighted<Cluster>,
    regions: Weighted<Region>,
}

/// Which part of the world a point was drawn from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// A metropolitan area.
    Metro,
    /// A town.
    Town,
    /// A box of land.
    Region,
    /// Anywhere.
    Anywhere,
}

impl Points {
    /// The points of a seed.
    #[must_use]
    pub fn new(seed: u64, world: World) -> Points {
        let metros = METROS.iter().map(|&(_, longitude, latitude, weight)| {
            let center = Point::from_degrees(longitude, latitude);
            (Cluster { center, radius_meters: METRO_RADIUS_METERS * weight.sqrt().sqrt() }, weight)
        });
        let settled = Weighted::new(REGIONS.iter().map(|&region| (region, share(region))));
        let regions = REGIONS.iter().chain(&COASTS).map(|&region| (region, share(region)));
        let regions = Weighted::new(regions);
        let towns = (0..TOWNS).map(|number| {
            let mut random = Random::of(WORLD_SEED, kind::TOWN, number);
            let center = in_region(&settled, &mut random);
            let weight = 1.0 / (number as f64 + 51.0);
            (Cluster { center, radius_meters: 500.0 + 45_000.0 * weight.sqrt() }, weight)
        });
        let towns = Weighted::new(towns);
        Points { seed, world, metros: Weighted::new(metros), towns, regions }
    }

    /// The world that the points lie in.
    #[must_use]
    pub fn world(&self) -> World {
        self.world
    }

    /// The seed.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The point with a number.
    #[must_use]
    pub fn get(&self, number: u64) -> Point {
        let mut random = Random::of(self.seed, kind::POINT, number);
        match self.part(random.fraction()) {
            Part::Metro => in_cluster(&self.metros, &mut random),
            Part::Town => in_cluster(&self.towns, &mut random),
            Part::Region => in_region(&self.regions, &mut random),
            Part::Anywhere => anywhere(&mut random),
        }
    }

    /// The part of the world that a point was drawn from.
    #[must_use]
    pub fn part_of(&self, number: u64) -> Part {
        self.part(Random::of(self.seed, kind::POINT, number).fraction())
    }

    fn part(&self, fraction: f64) -> Part {
        let [metros, towns, regions] = SHARES;
        let (scale, regions) = match self.world {
            World::Mapped => (1.0, regions),
            World::Clustered => (1.0 - regions, 0.0),
        };
        match fraction * scale {
            share if share < metros => Part::Metro,
            share if share < metros + towns => Part::Town,
            share if share < metros + towns + regions => Part::Region,
            _ => Part::Anywhere,
        }
    }

    /// A stream of its own for something about a numbered member, such as where it moves to.
    #[must_use]
    pub fn stream(&self, number: u64) -> Random {
        Random::of(self.seed, kind::NEAR, number)
    }
}

/// A box's size on the globe times its weight.
fn share(region: Region) -> f64 {
    let (_, west, south, east, north, weight) = region;
    (east - west) * (north.to_radians().sin() - south.to_radians().sin()) * weight
}

fn in_cluster(clusters: &Weighted<Cluster>, random: &mut Random) -> Point {
    let cluster = clusters.pick(random.fraction());
    let distance = cluster.radius_meters * random.fraction().powf(RADIUS_POWER);
    cluster.center.moved(distance, random.fraction())
}

fn in_region(regions: &Weighted<Region>, random: &mut Random) -> Point {
    let &(_, west, south, east, north, _) = regions.pick(random.fraction());
    evenly((west, east), (south, north), random)
}

fn anywhere(random: &mut Random) -> Point {
    evenly((-180.0, 180.0), (-85.051_128_7, 85.051_128_7), random)
}

/// A point of a box, evenly over its surface on the globe.
fn evenly((west, east): (f64, f64), (south, north): (f64, f64), random: &mut Random) -> Point {
    let longitude = west + random.fraction() * (east - west);
    let (low, high) = (south.to_radians().sin(), north.to_radians().sin());
    let sine = low + random.fraction() * (high - low);
    Point::from_degrees(longitude, sine.asin().to_degrees())
}

/// Things with weights, of which one is drawn by a fraction.
#[derive(Debug, Clone)]
struct Weighted<T> {
    things: Vec<T>,
    /// For each the share of all weights that it and those before it have.
    upto: Vec<f64>,
}

impl<T> Weighted<T> {
    fn new(pairs: impl Iterator<Item = (T, f64)>) -> Weighted<T> {
        let (things, weights): (Vec<T>, Vec<f64>) = pairs.unzip();
        let total: f64 = weights.iter().sum();
        let mut sum = 0.0;
        let upto = weights.iter().map(|weight| {
            sum += weight / total;
            sum
        });
        Weighted { upto: upto.collect(), things }
    }

    fn pick(&self, fraction: f64) -> &T {
        let place = self.upto.partition_point(|&upto| upto <= fraction);
        &self.things[place.min(self.things.len() - 1)]
    }
}

#[cfg(test)]
#[path = "points_tests.rs"]
mod tests;
