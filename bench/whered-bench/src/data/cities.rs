//! The city database: which place each network has.
//!
//! Not for what the places' records say (`places`). Walking the address space in order, the
//! country changes at a few short lengths and the part of the country at longer ones, so that
//! what is near on the network is near on the map; a third of the networks repeat the record of
//! one before them.

use super::blocks::{Block, Content, Divider, Filler, Lengths};
use super::places::{COUNTRY_RECORDS, Places};
use super::{Made, Scale, names, space, writer};
use crate::Random;
use whered_mmdb::{MmdbError, StoredValue, Writer};

/// How many networks of lengths 8, 9, 10, ... 32 there shall be: 67 % are longer than /24.
const IPV4_COUNTS: [u32; 25] = [
    5, 16, 34, 133, 277, 540, 1_130, 1_440, 6_950, 5_600, 11_000, 25_000, 46_000, 81_000, 203_000,
    246_000, 584_000, 374_000, 339_000, 346_000, 381_000, 325_000, 284_000, 180_000, 228_000,
];
/// Counts of IPv6 lengths 32, 33, 34, ... 64: 6 % are /48, 5 % /62, 7 % /63 and 26 % /64. What is
/// shorter than /32 comes as such from the registry.
const IPV6_COUNTS: [u32; 33] = [
    22_000, 3_000, 4_000, 4_000, 12_000, 5_000, 6_000, 7_000, 22_000, 8_000, 10_000, 10_000,
    24_000, 14_000, 20_000, 24_000, 126_000, 25_000, 30_000, 36_000, 60_000, 48_000, 58_000,
    75_000, 150_000, 70_000, 80_000, 95_000, 130_000, 110_000, 104_000, 145_000, 540_000,
];
const RECORD_COUNT: u32 = 275_000;
/// Networks that the file leaves out.
const HOLE_CHANCE: f64 = 0.015;

/// What is known of a block.
#[derive(Debug, Clone, Copy)]
struct Near {
    country: u16,
    /// A record about which the others lie.
    center: u32,
}

struct Cities {
    places: Places,
    writer: Writer,
    stored: Vec<Option<StoredValue>>,
    /// The last few records, in a ring.
    recent: [u32; 4],
    is_ipv4: bool,
}

/// Makes the file.
pub(super) fn make(seed: u64, scale: Scale) -> Result<Made, MmdbError> {
    let places = Places::new(seed, RECORD_COUNT / scale.one_of() as u32);
    let mut cities = Cities {
        stored: vec![None; places.record_count() as usize],
        places,
        writer: writer("GeoLite2-City", &names::LANGUAGES)?,
        recent: [0; 4],
        is_ipv4: true,
    };
    let mut random = Random::new(seed);
    let lengths = Lengths::from_counts(8, &IPV4_COUNTS, 0.0);
    let reserved = &space::RESERVED4;
    cities.fill(&space::ipv4(scale), &lengths, reserved, &mut random)?;
    cities.is_ipv4 = false;
    let lengths = Lengths::from_counts(32, &IPV6_COUNTS, space::IPV6_WHOLE_CHANCE);
    let blocks = space::ipv6(scale, &mut random);
    cities.fill(&blocks, &lengths, &[], &mut random)?;
    Made::new(cities.writer.finish()?)
}

impl Cities {
    fn fill(
        &mut self,
        blocks: &[Block],
        lengths: &Lengths,
        reserved: &[Block],
        random: &mut Random,
    ) -> Result<(), MmdbError> {
        let mut divider = Divider { lengths, reserved, random: Random::new(random.next_u64()) };
        for &block in blocks {
            let near = self.somewhere(random);
            divider.divide(block, near, None, self)?;
        }
        Ok(())
    }

    /// Any part of any country.
    fn somewhere(&self, random: &mut Random) -> Near {
        let country = self.places.random_country(random);
        self.elsewhere(country, random)
    }

    /// Any part of a country.
    fn elsewhere(&self, country: u16, random: &mut Random) -> Near {
        let range = &self.places.countries[usize::from(country)];
        let first = range.first + COUNTRY_RECORDS;
        Near { country, center: first + random.below(u64::from(range.end - first)) as u32 }
    }

    /// A record near the center, or one of the country as a whole.
    fn record(&self, near: Near, random: &mut Random) -> u32 {
        let range = &self.places.countries[usize::from(near.country)];
        if random.chance(0.12) {
            return range.first + random.below(u64::from(COUNTRY_RECORDS)) as u32;
        }
        let record = near.center + random.below(12) as u32;
        record.min(range.end - 1)
    }
}

impl Filler for Cities {
    type Near = Near;

    fn enter(&mut self, around: Near, length_bits: u8, random: &mut Random) -> Near {
        let (country_chance, part_chance) = match (self.is_ipv4, length_bits) {
            (true, 0..=16) => (0.15, 0.5),
            (true, 17..=24) | (false, 33..=48) => (0.01, 0.3),
            (false, 0..=32) => (0.0, 0.0),
            _ => (0.005, 0.15),
        };
        if random.chance(country_chance) {
            self.somewhere(random)
        } else if random.chance(part_chance) {
            self.elsewhere(around.country, random)
        } else {
            around
        }
    }

    fn content(&mut self, near: Near, sibling: Option<Content>, random: &mut Random) -> Content {
        let is_free = |content: Content| sibling != Some(content);
        if random.chance(HOLE_CHANCE) && is_free(None) {
            return None;
        }
        if random.chance(0.35) {
            let record = Some(*random.pick(&self.recent));
            if is_free(record) {
                return record;
            }
        }
        loop {
            // A country has more than one record, so that this ends.
            let record = Some(self.record(near, random));
            if is_free(record) {
                return record;
            }
        }
    }

    fn take(&mut self, block: Block, record: u32) -> Result<(), MmdbError> {
        let stored = match self.stored[record as usize] {
            Some(stored) => stored,
            None => self.writer.store(&self.places.record(record))?,
        };
        self.stored[record as usize] = Some(stored);
        self.recent.rotate_left(1);
        self.recent[0] = record;
        self.writer.insert_stored(block.prefix(self.is_ipv4), stored)
    }
}
