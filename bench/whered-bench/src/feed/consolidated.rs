//! What tables should hold after uploads: slow, obvious, independent of the order of uploads.
//!
//! For: checking a server's tables by numbers of our own. Not for: deciding which sightings are one
//! position by distance; the world says which point each was at (its invariant makes that right).

use std::collections::HashMap;

use super::world::Sighting;

/// One position of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// How often it was seen.
    pub seen: u64,
    /// The sum of its sightings' longitudes, in hundred-thousandths of a degree.
    pub longitude_sum: i64,
    /// The sum of their latitudes, likewise.
    pub latitude_sum: i64,
    /// Seconds since 1970.
    pub first_seconds: i64,
    /// Seconds since 1970.
    pub last_seconds: i64,
}

/// What one object dropped of one item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loot {
    /// In how many sightings.
    pub seen: u64,
    /// How many in all.
    pub count: u64,
    /// Seconds since 1970.
    pub last_seconds: i64,
}

/// The tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consolidated {
    /// By object and point.
    pub positions: HashMap<(u32, u32), Position>,
    /// By object and item.
    pub loot: HashMap<(u32, u32), Loot>,
    /// All sightings.
    pub events: u64,
}

impl Consolidated {
    /// Adds one sighting.
    pub fn add(&mut self, sighting: &Sighting) {
        self.events += 1;
        let position = self.positions.entry((sighting.object, sighting.point)).or_default();
        if position.seen == 0 {
            position.first_seconds = sighting.time_seconds;
        }
        position.seen += 1;
        position.longitude_sum += sighting.longitude;
        position.latitude_sum += sighting.latitude;
        position.first_seconds = position.first_seconds.min(sighting.time_seconds);
        position.last_seconds = position.last_seconds.max(sighting.time_seconds);
        for (item, count) in &sighting.loot {
            let loot = self.loot.entry((sighting.object, *item)).or_default();
            loot.seen += 1;
            loot.count += u64::from(*count);
            loot.last_seconds = loot.last_seconds.max(sighting.time_seconds);
        }
    }
}
