//! The ASN database: which operator each network belongs to.
//!
//! Not for places. Operators are fewer than networks: a few have thousands, most have a handful,
//! and neighbouring networks often have the same one.

use super::blocks::{Block, Content, Divider, Filler, Lengths};
use super::{Made, Scale, names, space, writer};
use crate::Random;
use whered_mmdb::{MmdbError, StoredValue, Value, Writer};

/// How many networks of lengths 8, 9, 10, ... 24 there shall be.
const IPV4_COUNTS: [u32; 17] = [
    20, 20, 60, 110, 220, 450, 800, 900, 16_000, 6_000, 9_000, 16_000, 25_000, 28_000, 52_000,
    48_000, 210_000,
];
/// Counts of IPv6 networks of lengths 32 to 48.
const IPV6_COUNTS: [u32; 17] = [
    16_000, 1_500, 1_500, 1_500, 8_000, 1_000, 1_000, 1_000, 9_000, 1_000, 2_000, 2_000, 8_000,
    2_000, 3_000, 4_000, 38_000,
];
const OPERATOR_COUNT: u32 = 76_000;
const HOLE_CHANCE: f64 = 0.03;
/// The stream that operators are made from.
const OPERATOR_KIND: u64 = 6;

struct Operators {
    seed: u64,
    count: u32,
    writer: Writer,
    stored: Vec<Option<StoredValue>>,
    is_ipv4: bool,
}

/// Makes the file.
pub(super) fn make(seed: u64, scale: Scale) -> Result<Made, MmdbError> {
    let count = OPERATOR_COUNT / scale.one_of() as u32;
    let mut operators = Operators {
        seed,
        count,
        writer: writer("GeoLite2-ASN", &["en"])?,
        stored: vec![None; count as usize],
        is_ipv4: true,
    };
    let mut random = Random::of(seed, OPERATOR_KIND, u64::MAX);
    let lengths = Lengths::from_counts(8, &IPV4_COUNTS, 0.0);
    operators.fill(&space::ipv4(scale), &lengths, &space::RESERVED4, &mut random)?;
    operators.is_ipv4 = false;
    let lengths = Lengths::from_counts(32, &IPV6_COUNTS, space::IPV6_WHOLE_CHANCE);
    let blocks = space::ipv6(scale, &mut random);
    operators.fill(&blocks, &lengths, &[], &mut random)?;
    Made::new(operators.writer.finish()?)
}

impl Operators {
    fn fill(
        &mut self,
        blocks: &[Block],
        lengths: &Lengths,
        reserved: &[Block],
        random: &mut Random,
    ) -> Result<(), MmdbError> {
        let mut divider = Divider { lengths, reserved, random: Random::new(random.next_u64()) };
        for &block in blocks {
            let operator = self.random_operator(random);
            divider.divide(block, operator, None, self)?;
        }
        Ok(())
    }

    /// Small numbers come far more often: the fourth power of a fraction.
    fn random_operator(&self, random: &mut Random) -> u32 {
        let fraction = random.fraction();
        let share = fraction * fraction * fraction * fraction;
        (share * f64::from(self.count)) as u32
    }

    fn record(&self, operator: u32) -> Value {
        let mut random = Random::of(self.seed, OPERATOR_KIND, u64::from(operator));
        let number = Value::Uint32(1 + operator * 5 + random.below(5) as u32);
        let kind =
            *random.pick(&["Telecom", "Networks", "Hosting Ltd", "LLC", "University", "Inc."]);
        let name = Value::String(format!("{} {kind}", names::english(&mut random)));
        Value::Map(vec![
            ("autonomous_system_number".to_owned(), number),
            ("autonomous_system_organization".to_owned(), name),
        ])
    }
}

impl Filler for Operators {
    type Near = u32;

    fn enter(&mut self, around: u32, length_bits: u8, random: &mut Random) -> u32 {
        let chance = if self.is_ipv4 && length_bits <= 14 { 0.5 } else { 0.2 };
        if random.chance(chance) { self.random_operator(random) } else { around }
    }

    fn content(&mut self, near: u32, sibling: Option<Content>, random: &mut Random) -> Content {
        let is_free = |content: Content| sibling != Some(content);
        if random.chance(HOLE_CHANCE) && is_free(None) {
            return None;
        }
        if is_free(Some(near)) {
            return Some(near);
        }
        loop {
            // There is more than one operator, so that this ends.
            let operator = Some(self.random_operator(random));
            if is_free(operator) {
                return operator;
            }
        }
    }

    fn take(&mut self, block: Block, record: u32) -> Result<(), MmdbError> {
        let stored = match self.stored[record as usize] {
            Some(stored) => stored,
            None => self.writer.store(&self.record(record))?,
        };
        self.stored[record as usize] = Some(stored);
        self.writer.insert_stored(block.prefix(self.is_ipv4), stored)
    }
}
