//! Addresses and networks by cell and site, and maps over small keys.
//!
//! For: the sums of a drawing. Not for: what is summed up (`table.rs`).

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::{CatchmentCell, CatchmentGrid};

/// Addresses and networks by cell and site.
#[derive(Default)]
pub(super) struct Counts(FastMap<(u32, Option<u16>), (u64, u64)>);

impl Counts {
    pub(super) fn add(&mut self, cell: u32, site: Option<u16>, addresses_v4: u64, networks: u64) {
        let count = self.0.entry((cell, site)).or_default();
        count.0 += addresses_v4;
        count.1 += networks;
    }

    pub(super) fn merge(&mut self, other: &Counts) {
        for ((cell, site), (addresses_v4, networks)) in &other.0 {
            self.add(*cell, *site, *addresses_v4, *networks);
        }
    }

    pub(super) fn into_cells(self, grid: CatchmentGrid) -> Vec<CatchmentCell> {
        let mut counts: Vec<_> = self.0.into_iter().collect();
        counts.sort_unstable_by_key(|(key, _)| *key);
        let cell = |((cell, site), (addresses_v4, networks)): ((u32, Option<u16>), (u64, u64))| {
            let (west_degrees, south_degrees) = grid.west_and_south(cell);
            let site = site.map(usize::from);
            CatchmentCell { west_degrees, south_degrees, site, addresses_v4, networks }
        };
        counts.into_iter().map(cell).collect()
    }
}

/// A map over small keys that no stranger chooses: a database was verified, and equal hashes cost
/// time alone.
pub(super) type FastMap<K, V> = HashMap<K, V, BuildHasherDefault<FastHasher>>;

/// Multiplies and rotates, as the hasher of the Rust compiler does.
#[derive(Default)]
pub(super) struct FastHasher(u64);

impl Hasher for FastHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.chunks(8).for_each(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        });
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        // The upper bits are the best ones.
        self.0 ^ self.0 >> 32
    }
}
