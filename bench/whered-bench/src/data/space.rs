//! Which address space is filled: the blocks that the registries give out, without the reserved
//! ones.
//!
//! Not for how a block is divided further (`blocks`).

use super::Scale;
use super::blocks::Block;
use crate::Random;

/// IPv4 blocks of special use (RFC 6890) inside the /8 blocks of [`ipv4`].
pub(super) const RESERVED4: [Block; 8] = [
    Block::new4([100, 64, 0, 0], 10),
    Block::new4([169, 254, 0, 0], 16),
    Block::new4([172, 16, 0, 0], 12),
    Block::new4([192, 0, 2, 0], 24),
    Block::new4([192, 168, 0, 0], 16),
    Block::new4([198, 18, 0, 0], 15),
    Block::new4([198, 51, 100, 0], 24),
    Block::new4([203, 0, 113, 0], 24),
];

/// The IPv6 space of the registries: the first and the last value of the first 16 bits, and how
/// many of the allocations lie there.
const REGISTRIES6: [(u16, u16, u32); 9] = [
    (0x2001, 0x2001, 5_000),
    (0x2003, 0x2003, 300),
    (0x2400, 0x2409, 5_500),
    (0x2600, 0x2609, 4_000),
    (0x2610, 0x2610, 200),
    (0x2620, 0x2620, 1_000),
    (0x2800, 0x2804, 2_800),
    (0x2a00, 0x2a0f, 8_000),
    (0x2a10, 0x2a14, 1_000),
];

/// The chance that an allocation larger than /32 is not divided. Above one half, since otherwise
/// the halves would mostly go on to be divided down to thousands of /32.
pub(super) const IPV6_WHOLE_CHANCE: f64 = 0.7;

/// The /8 blocks with public addresses.
pub(super) fn ipv4(scale: Scale) -> Vec<Block> {
    let is_public = |first: &u8| !matches!(first, 10 | 127);
    let blocks = (1..=223).filter(is_public).map(|first| Block::new4([first, 0, 0, 0], 8));
    blocks.step_by(scale.one_of()).collect()
}

/// IPv6 allocations of a registry: most are /32, some larger; disjoint and in address order.
pub(super) fn ipv6(scale: Scale, random: &mut Random) -> Vec<Block> {
    let mut blocks = Vec::new();
    for (first, last, count) in REGISTRIES6 {
        let start = u64::from(first) << 16;
        let size = (u64::from(last - first) + 1) << 16;
        for _ in 0..(count as usize).div_ceil(scale.one_of()) {
            // Larger ones begin where their length allows: the bits behind it are cut off.
            let length_bits = match random.fraction() {
                share if share < 0.002 && last > first => 19 + random.below(9) as u8,
                share if share < 0.035 => 28 + random.below(4) as u8,
                _ => 32,
            };
            let top = (start + random.below(size)) >> (32 - length_bits) << (32 - length_bits);
            // The first /23 of 2001::/16 is for protocols (Teredo among them); one is for examples.
            if top >= 0x2001_0200 && top != 0x2001_0db8 {
                blocks.push(Block { bits: u128::from(top) << 96, length_bits });
            }
        }
    }
    blocks.sort_by_key(|block| (block.bits, block.length_bits));
    blocks.dedup_by(|later, earlier| earlier.holds(*later));
    blocks
}
