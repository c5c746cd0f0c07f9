//! Address space divided into networks as the registries and MaxMind's files divide it.
//!
//! Not for what the networks' records say: that is a [`Filler`]'s.
//!
//! A block is either one network or split in two halves. The chance of being one depends on the
//! length alone and is worked out from the table of wanted counts, from the longest networks up:
//! `blocks(l) = networks(l) + blocks(l + 1) / 2`, `chance(l) = networks(l) / blocks(l)`. What is
//! divided this way has no gaps, as in the real files; the filler leaves holes.
//!
//! ```text
//! 24.0.0.0/8 ── split ─┬─ 24.0.0.0/9 ── network
//!                      └─ 24.128.0.0/9 ── split ─┬─ ...
//! ```
//!
//! Invariant: networks come out in address order and are disjoint. Cost: linear in their number.

use crate::Random;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use whered_ip::Prefix;
use whered_mmdb::MmdbError;

/// A block of addresses: its first bits stand at the top of the 128.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) bits: u128,
    pub(super) length_bits: u8,
}

impl Block {
    pub(super) const fn new4(address: [u8; 4], length_bits: u8) -> Block {
        Block { bits: (u32::from_be_bytes(address) as u128) << 96, length_bits }
    }

    pub(super) fn holds(self, other: Block) -> bool {
        let shift = 128 - u32::from(self.length_bits);
        self.length_bits <= other.length_bits
            && (self.bits ^ other.bits).checked_shr(shift).unwrap_or(0) == 0
    }

    fn halves(self) -> [Block; 2] {
        let length_bits = self.length_bits + 1;
        let upper = self.bits | 1 << (128 - u32::from(length_bits));
        [Block { length_bits, ..self }, Block { bits: upper, length_bits }]
    }

    pub(super) fn prefix(self, is_ipv4: bool) -> Prefix {
        let address = if is_ipv4 {
            IpAddr::V4(Ipv4Addr::from_bits((self.bits >> 96) as u32))
        } else {
            IpAddr::V6(Ipv6Addr::from_bits(self.bits))
        };
        Prefix::new(address, self.length_bits).expect("blocks are never longer than an address")
    }
}

/// For each length the chance that a block is one network.
#[derive(Debug)]
pub(super) struct Lengths {
    shortest: u8,
    /// The chance of blocks that are shorter than all in the table.
    chance_of_shorter: f64,
    chances: Vec<f64>,
}

impl Lengths {
    /// From the wanted counts of networks, the first being of length `shortest`.
    pub(super) fn from_counts(shortest: u8, counts: &[u32], chance_of_shorter: f64) -> Lengths {
        let mut blocks = 0.0;
        let mut chances: Vec<f64> = Vec::with_capacity(counts.len());
        for &count in counts.iter().rev() {
            blocks = f64::from(count) + blocks / 2.0;
            chances.push(f64::from(count) / blocks);
        }
        chances.reverse();
        Lengths { shortest, chance_of_shorter, chances }
    }

    fn longest(&self) -> u8 {
        self.shortest + self.chances.len() as u8 - 1
    }

    fn chance(&self, length_bits: u8) -> f64 {
        if length_bits >= self.longest() {
            return 1.0;
        }
        let place = length_bits.checked_sub(self.shortest);
        place.map_or(self.chance_of_shorter, |place| self.chances[place as usize])
    }
}

/// What a network gets: the number of a record, or nothing.
pub(super) type Content = Option<u32>;

/// Decides what networks hold, and takes them.
pub(super) trait Filler {
    /// What is known of a block from the blocks around it.
    type Near: Copy;

    /// What is known of a block, given what was known of the one around it.
    fn enter(&mut self, around: Self::Near, length_bits: u8, random: &mut Random) -> Self::Near;

    /// What a network holds; never `sibling`, the content of the other half of the same block:
    /// equal halves would be one network.
    fn content(
        &mut self,
        near: Self::Near,
        sibling: Option<Content>,
        random: &mut Random,
    ) -> Content;

    /// Takes the next network in address order.
    fn take(&mut self, block: Block, record: u32) -> Result<(), MmdbError>;
}

/// Divides blocks.
#[derive(Debug)]
pub(super) struct Divider<'a> {
    pub(super) lengths: &'a Lengths,
    /// Blocks that hold no networks.
    pub(super) reserved: &'a [Block],
    pub(super) random: Random,
}

impl Divider<'_> {
    /// Divides one block; what came of it if it is one network. Recursion ends with the longest
    /// length.
    pub(super) fn divide<F: Filler>(
        &mut self,
        block: Block,
        around: F::Near,
        sibling: Option<Content>,
        filler: &mut F,
    ) -> Result<Option<Content>, MmdbError> {
        if self.reserved.iter().any(|reserved| reserved.holds(block)) {
            return Ok(Some(None));
        }
        let near = filler.enter(around, block.length_bits, &mut self.random);
        let is_whole = !self.reserved.iter().any(|&reserved| block.holds(reserved));
        if is_whole && self.random.chance(self.lengths.chance(block.length_bits)) {
            let content = filler.content(near, sibling, &mut self.random);
            if let Some(record) = content {
                filler.take(block, record)?;
            }
            return Ok(Some(content));
        }
        let [lower, upper] = block.halves();
        let content = self.divide(lower, near, None, filler)?;
        self.divide(upper, near, content, filler)?;
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_bring_the_wanted_counts() {
        let lengths = Lengths::from_counts(8, &[1, 0, 4], 0.0);
        // 4 of length 10 come from 2 blocks of length 9, they from one of length 8.
        assert_eq!(lengths.chances, [0.5, 0.0, 1.0]);
        assert_eq!(lengths.chance(7), 0.0);
        assert_eq!(lengths.chance(11), 1.0);
    }

    #[test]
    fn blocks_know_what_they_hold() {
        let ten = Block::new4([10, 0, 0, 0], 8);
        let [lower, upper] = ten.halves();
        assert!(ten.holds(lower) && ten.holds(upper) && ten.holds(ten));
        assert!(!upper.holds(ten) && !upper.holds(lower));
        assert_eq!(upper.prefix(true).to_string(), "10.128.0.0/9");
        assert!(Block { bits: 0, length_bits: 0 }.holds(ten));
    }
}
