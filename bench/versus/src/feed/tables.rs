//! The tables that every contestant must end with: positions, loot, statistics.
//!
//! For: comparing what a contestant holds with the naive consolidation of what it was given.
//! Not for: consolidating fast.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;

use whered_bench::feed::{Consolidated, Loot, Position};

/// How often and when an object was seen anywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Statistic {
    pub(crate) seen: u64,
    pub(crate) first_seconds: i64,
    pub(crate) last_seconds: i64,
}

/// Everything that a contestant holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tables {
    /// By object and point.
    pub(crate) positions: HashMap<(u32, u32), Position>,
    /// By object and item.
    pub(crate) loot: HashMap<(u32, u32), Loot>,
    /// By object.
    pub(crate) statistics: HashMap<u32, Statistic>,
}

impl Tables {
    /// What a consolidation says, with the statistics that follow from its positions.
    pub(crate) fn of(all: &Consolidated, has_loot: bool) -> Tables {
        if !has_loot {
            return Tables { positions: all.positions.clone(), ..Tables::default() };
        }
        let statistics = statistics(all);
        Tables { positions: all.positions.clone(), loot: all.loot.clone(), statistics }
    }

    /// How many rows.
    pub(crate) fn rows(&self) -> usize {
        self.positions.len() + self.loot.len() + self.statistics.len()
    }

    /// The first difference is an error.
    pub(crate) fn compare(&self, expected: &Tables) -> Result<(), String> {
        same("positions", &self.positions, &expected.positions)?;
        same("loot", &self.loot, &expected.loot)?;
        same("statistics", &self.statistics, &expected.statistics)
    }
}

/// The statistics of all objects.
pub(crate) fn statistics(all: &Consolidated) -> HashMap<u32, Statistic> {
    let mut statistics: HashMap<u32, Statistic> = HashMap::new();
    for ((object, _), position) in &all.positions {
        let known = statistics.entry(*object).or_insert(Statistic {
            seen: 0,
            first_seconds: position.first_seconds,
            last_seconds: position.last_seconds,
        });
        known.seen += position.seen;
        known.first_seconds = known.first_seconds.min(position.first_seconds);
        known.last_seconds = known.last_seconds.max(position.last_seconds);
    }
    statistics
}

pub(crate) fn same<K: Eq + Hash + Debug, V: PartialEq + Debug>(
    table: &str,
    found: &HashMap<K, V>,
    expected: &HashMap<K, V>,
) -> Result<(), String> {
    for (key, row) in expected {
        if found.get(key) != Some(row) {
            return Err(format!("{table}: {key:?} is {:?}, not {row:?}", found.get(key)));
        }
    }
    if found.len() != expected.len() {
        return Err(format!("{table}: {} rows where ours has {}", found.len(), expected.len()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use whered_bench::feed::{Upload, UploadFormat, UploadOptions, World};

    #[test]
    fn another_sum_or_a_row_too_many_is_a_difference() {
        let world = World::new(1, 500);
        let options =
            UploadOptions { format: UploadFormat::Xml, has_loot: true, size_bytes: 20_000 };
        let mut all = Consolidated::default();
        let upload = Upload::new(&world, 0, &options);
        upload.sightings.iter().for_each(|sighting| all.add(sighting));
        let expected = Tables::of(&all, true);
        let seen: u64 = expected.statistics.values().map(|row| row.seen).sum();
        assert_eq!(seen, upload.sightings.len() as u64);
        assert_eq!(expected.clone().compare(&expected), Ok(()));
        all.add(&upload.sightings[0]);
        assert!(Tables::of(&all, true).compare(&expected).is_err());
        let mut more = expected.clone();
        more.loot.insert((0, 0), Loot::default());
        assert!(more.compare(&expected).is_err());
    }
}
