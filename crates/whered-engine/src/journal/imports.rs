//! Slots of a cluster that one of its servers takes over from another.
//!
//! Source: `CLUSTER SYNCSLOTS` in `cluster_migrateslots.c` of Valkey 9.1.

/// How many slots a cluster has.
pub const SLOTS: u16 = 16384;

/// Slots that a followed primary imports. Until all of their keys have come, it shows none of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlotImport {
    /// The name of the migration.
    pub name: Vec<u8>,
    /// The first and the last slot of each range. Both are below [`SLOTS`].
    pub ranges: Vec<(u16, u16)>,
}

impl SlotImport {
    /// Whether a slot is one of these.
    pub fn has(&self, slot: u16) -> bool {
        self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&slot))
    }
}
