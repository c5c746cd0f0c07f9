//! How many points the two searches of the public benchmark return, by a plain scan.
//!
//! For: saying beside every result how alike the data are to the public data set, and choosing the
//! weights that make them so. Not for: checking an index; the scan's arithmetic is its own, so that
//! a point on the rim may be counted otherwise than by a server, which knows the cell's centre
//! only.
//!
//! The public searches start at (7, 55), in the German Bight. At 60,841,557 points of a mapped
//! world the circle of 200 km has 95 to 106 thousand and the box of 200 km 10.3 to 11.4 thousand.

use super::{METERS_PER_DEGREE, Point, Points};
use std::fmt;

/// The size of the public data set.
pub const PUBLIC_POINTS: u64 = 60_841_557;
const CENTER: (f64, f64) = (7.0, 55.0);
const RADIUS_METERS: f64 = 200_000.0;
/// Half of the box's sides.
const REACH_METERS: f64 = 100_000.0;

/// What was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Census {
    /// All points.
    pub points: u64,
    /// Those within 200 km of (7, 55).
    pub in_circle: u64,
    /// Those in the box of 200 by 200 km around it.
    pub in_box: u64,
}

impl Census {
    /// Counts the first `count` points, in as many threads as asked for.
    #[must_use]
    pub fn take(points: &Points, count: u64, threads: u64) -> Census {
        let threads = threads.max(1);
        let part = |thread: u64| {
            let mut census = Census::default();
            for number in (thread * count / threads)..((thread + 1) * count / threads) {
                census.add(points.get(number));
            }
            census
        };
        let parts: Vec<Census> = std::thread::scope(|scope| {
            let running: Vec<_> =
                (0..threads).map(|thread| scope.spawn(move || part(thread))).collect();
            let ended = running.into_iter().map(|thread| thread.join().expect("counting ends"));
            ended.collect()
        });
        parts.iter().fold(Census::default(), |sum, part| Census {
            points: sum.points + part.points,
            in_circle: sum.in_circle + part.in_circle,
            in_box: sum.in_box + part.in_box,
        })
    }

    fn add(&mut self, point: Point) {
        self.points += 1;
        let (longitude, latitude) = (point.longitude_degrees(), point.latitude_degrees());
        let north_south = (latitude - CENTER.1).abs() * METERS_PER_DEGREE;
        if north_south > RADIUS_METERS {
            return;
        }
        let east_west = (longitude - CENTER.0).to_radians().abs();
        let here = latitude.to_radians();
        let there = CENTER.1.to_radians();
        // Haversine; the box's width is measured along the point's own latitude.
        let sine = ((here - there) / 2.0).sin();
        let half = (east_west / 2.0).sin();
        let root = (sine * sine + here.cos() * there.cos() * half * half).sqrt();
        let radius = METERS_PER_DEGREE.to_degrees();
        let distance = 2.0 * radius * root.asin();
        let beside = 2.0 * radius * (here.cos() * half).asin();
        self.in_circle += u64::from(distance <= RADIUS_METERS);
        self.in_box += u64::from(north_south <= REACH_METERS && beside <= REACH_METERS);
    }
}

impl fmt::Display for Census {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Census { points, in_circle, in_box } = self;
        write!(
            f,
            "{points} points: {in_circle} within 200 km of (7, 55), {in_box} in the box of 200 km"
        )?;
        let scale = PUBLIC_POINTS as f64 / (*points).max(1) as f64;
        let scaled = |count: u64| (count as f64 * scale).round();
        write!(
            f,
            "; at {PUBLIC_POINTS} that is {} (wanted 95000 to 106000) and {} (10300 to 11400)",
            scaled(*in_circle),
            scaled(*in_box)
        )
    }
}
