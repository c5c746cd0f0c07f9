//! The world that uploads are made from: zones, objects in them, and the points where each appears.
//!
//! For: sightings as a map of a game's creatures got them: a few zones are busy, a few objects of a
//! zone are seen all the time, each appears at a handful of points and drops a handful of items.
//! Not for: texts; `upload.rs` writes them.
//!
//! ```text
//! zone 17 ─► objects 4001..4250 ─► points 0..8, 0.003 degrees apart ─► sightings within 8 m
//!                               └► items it drops, the first most often
//! ```
//!
//! Invariant: sightings of one point are within 18 m of each other, and those of two points of one
//! object at least 140 m apart; hence which of them are one position at 25 m does not depend on the
//! order of uploads. Coordinates are whole hundred-thousandths of a degree.
//! Cost: nothing is kept; everything follows from the seed and the numbers.

use crate::Random;

/// Objects of each zone.
const ZONE_OBJECTS: u32 = 250;
/// The most points of an object.
const POINTS_MAX: u32 = 8;
/// Kinds of items in the world.
const ITEMS: u64 = 6_000;
/// Hundred-thousandths of a degree between two points of an object.
const POINT_GRID: i64 = 300;
/// When the first upload was made, in seconds since 1970.
const START_SECONDS: i64 = 1_700_000_000;

/// One object that somebody saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Its number from 1.
    pub object: u32,
    /// Which of its points it was at, from 0. Not a part of uploads.
    pub point: u32,
    /// Hundred-thousandths of a degree east.
    pub longitude: i64,
    /// Hundred-thousandths of a degree north.
    pub latitude: i64,
    /// Seconds since 1970.
    pub time_seconds: i64,
    /// Items and how many of each, no item twice.
    pub loot: Vec<(u32, u32)>,
}

/// A world of a seed.
#[derive(Clone, Copy, Debug)]
pub struct World {
    seed: u64,
    zones: u32,
}

impl World {
    /// A world with at least `objects` objects.
    #[must_use]
    pub fn new(seed: u64, objects: u32) -> World {
        World { seed, zones: objects.div_ceil(ZONE_OBJECTS).max(1) }
    }

    /// How many objects there are.
    #[must_use]
    pub fn objects(&self) -> u32 {
        self.zones * ZONE_OBJECTS
    }

    /// The sightings of one upload, in its order, without end. An upload is of one player, who
    /// stays in one zone.
    pub fn sightings(&self, upload: u64) -> impl Iterator<Item = Sighting> {
        let world = *self;
        let mut random = Random::of(self.seed, 1, upload);
        let zone = rank(&mut random, self.zones);
        // Uploads come faster than they were played, so their times overlap.
        let mut time_seconds = START_SECONDS + upload as i64 * 20;
        std::iter::from_fn(move || {
            time_seconds += random.below(3) as i64;
            let object = zone * ZONE_OBJECTS + rank(&mut random, ZONE_OBJECTS) + 1;
            Some(world.sighting(&mut random, zone, object, time_seconds))
        })
    }

    fn sighting(&self, random: &mut Random, zone: u32, object: u32, time_seconds: i64) -> Sighting {
        let mut own = Random::of(self.seed, 2, u64::from(object));
        let (west, south) = self.zone_corner(zone);
        let camp = (west + own.below(100_000) as i64, south + own.below(60_000) as i64);
        let points = 1 + own.below(u64::from(POINTS_MAX)) as u32;
        let point = rank(random, points);
        // Five metres to each side; a hundred-thousandth of a degree is 1.1 m at most.
        let mut jitter = || random.below(10) as i64 - 5;
        let longitude = camp.0 + i64::from(point % 4) * POINT_GRID + jitter();
        let latitude = camp.1 + i64::from(point / 4) * POINT_GRID + jitter();
        let loot = loot(random, &mut own);
        Sighting { object, point, longitude, latitude, time_seconds, loot }
    }

    /// The south-western corner of a zone: never beyond 60 degrees, where degrees get short.
    fn zone_corner(&self, zone: u32) -> (i64, i64) {
        let mut own = Random::of(self.seed, 3, u64::from(zone));
        (own.below(35_800_000) as i64 - 17_900_000, own.below(11_900_000) as i64 - 6_000_000)
    }
}

/// What an object drops: most drop something, the first items of its list most often.
fn loot(random: &mut Random, own: &mut Random) -> Vec<(u32, u32)> {
    let list: [u32; 6] = std::array::from_fn(|_| 1 + own.below(ITEMS) as u32);
    let mut loot: Vec<(u32, u32)> = Vec::new();
    for (place, item) in list.into_iter().enumerate() {
        let drops = random.chance(0.7 / (place + 1) as f64);
        if drops && loot.iter().all(|(known, _)| *known != item) {
            loot.push((item, 1 + random.below(4) as u32));
        }
    }
    loot
}

/// A number below `count`, each as likely as it is small (Zipf's law with exponent 1, nearly).
fn rank(random: &mut Random, count: u32) -> u32 {
    let rank = (f64::from(count) + 1.0).powf(random.fraction()) as u32;
    rank.clamp(1, count) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upload_is_the_same_each_time_and_none_is_like_another() {
        let world = World::new(7, 5_000);
        let first: Vec<Sighting> = world.sightings(3).take(100).collect();
        assert_eq!(first, world.sightings(3).take(100).collect::<Vec<_>>());
        assert_ne!(first, world.sightings(4).take(100).collect::<Vec<_>>());
        assert_ne!(first, World::new(8, 5_000).sightings(3).take(100).collect::<Vec<_>>());
    }

    #[test]
    fn sightings_of_a_point_lie_together_and_those_of_two_do_not() {
        let world = World::new(7, 1_000);
        let seen: Vec<Sighting> = (0..20).flat_map(|n| world.sightings(n).take(300)).collect();
        for a in &seen {
            assert!((1..=world.objects()).contains(&a.object));
            for b in seen.iter().filter(|b| b.object == a.object) {
                let apart = (a.longitude - b.longitude).abs().max((a.latitude - b.latitude).abs());
                if a.point == b.point {
                    assert!(apart < 10);
                } else {
                    assert!(apart > 280);
                }
            }
        }
    }

    #[test]
    fn few_objects_are_seen_most() {
        let mut random = Random::new(1);
        let first = (0..10_000).filter(|_| rank(&mut random, 1_000) < 10).count();
        assert!((2_500..4_500).contains(&first), "{first}");
    }
}
