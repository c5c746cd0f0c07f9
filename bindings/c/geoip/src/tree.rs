//! The search tree of a legacy file, walked node by node, and listed leaf by leaf.
//!
//! Not for what numbers mean. A node is two little-endian numbers of 3 or 4 bytes; one below the
//! layout's base is a node, any other ends the walk:
//!
//! ```text
//! node n:  | left | right |   at n * 2 * record bytes
//! ```
//!
//! Invariants: a node that is not wholly inside the file ends the walk without an answer, as does a
//! branch that goes on behind the address's last bit. Hostile trees give some answer in as many
//! steps as an address has bits; a list of leaves is cut off at [`LEAVES_PER_NODE`].

use crate::format::Layout;

/// How a walk ended: the number that is no node, and the bits of the address that it took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Leaf {
    pub(crate) number: u32,
    pub(crate) depth_bits: u8,
}

/// An address whose first bit is the highest of the 128.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Address {
    pub(crate) bits: u128,
    pub(crate) is_ipv6: bool,
}

impl Address {
    pub(crate) fn v4(number: u32) -> Address {
        Address { bits: u128::from(number) << 96, is_ipv6: false }
    }

    pub(crate) fn v6(bits: u128) -> Address {
        Address { bits, is_ipv6: true }
    }

    pub(crate) fn length_bits(self) -> u8 {
        if self.is_ipv6 { 128 } else { 32 }
    }
}

/// One node's record out of the node's bytes.
#[inline(always)]
pub(crate) fn record(node: &[u8], right: bool) -> Option<u32> {
    Some(match *node {
        [_, _, _, d, e, f] if right => u32::from_le_bytes([d, e, f, 0]),
        [a, b, c, _, _, _] => u32::from_le_bytes([a, b, c, 0]),
        [_, _, _, _, e, f, g, h] if right => u32::from_le_bytes([e, f, g, h]),
        [a, b, c, d, _, _, _, _] => u32::from_le_bytes([a, b, c, d]),
        _ => return None,
    })
}

/// Walks an address from a node. `record` gives the right or left record of a node, if the node is
/// in the file.
#[inline(always)]
pub(crate) fn walk(
    base: u32,
    from: Start,
    address: Address,
    mut record: impl FnMut(u32, bool) -> Option<u32>,
) -> Option<Leaf> {
    let mut node = from.node;
    let mut bits = address.bits << from.depth_bits;
    for depth_bits in from.depth_bits..address.length_bits() {
        let number = record(node, bits >> 127 == 1)?;
        if number >= base {
            return Some(Leaf { number, depth_bits: depth_bits + 1 });
        }
        node = number;
        bits <<= 1;
    }
    None
}

/// Where a walk begins.
#[derive(Clone, Copy, Default)]
pub(crate) struct Start {
    pub(crate) node: u32,
    pub(crate) depth_bits: u8,
}

/// Walks an address from the root of a file that is in memory.
#[inline(always)]
pub(crate) fn walk_bytes(bytes: &[u8], layout: &Layout, address: Address) -> Option<Leaf> {
    let size = layout.edition.node_bytes() as usize;
    let node_at = |node: u32| {
        let start = (node as usize).checked_mul(size)?;
        bytes.get(start..start.checked_add(size)?)
    };
    if size != 6 {
        return walk(layout.base, Start::default(), address, |node, right| {
            record(node_at(node)?, right)
        });
    }
    // Both numbers of a node in one read, unless the node is the file's last.
    walk(layout.base, Start::default(), address, |node, right| {
        let start = node as usize * 6;
        match bytes.get(start..).and_then(<[u8]>::first_chunk::<8>) {
            Some(&both) => {
                let number = u64::from_le_bytes(both) >> if right { 24 } else { 0 };
                Some(number as u32 & 0x00ff_ffff)
            }
            None => record(node_at(node)?, right),
        }
    })
}

/// How many leaves a list may have for each node of the file. A tree that shares no node has one;
/// the aliases of IPv4 in IPv6 trees make a few.
const LEAVES_PER_NODE: usize = 16;

/// The leaves below the root, in the order of addresses, down to `max_depth_bits`; what is a node
/// there still is listed with that. `None`: the tree is broken or too large, or there is no memory.
pub(crate) fn leaves(
    bytes: &[u8],
    layout: &Layout,
    is_ipv6: bool,
    max_depth_bits: u8,
) -> Option<Vec<(u128, Leaf)>> {
    let size = layout.edition.node_bytes() as usize;
    let most = (bytes.len() / size).saturating_mul(LEAVES_PER_NODE).saturating_add(256);
    let length_bits = if is_ipv6 { 128 } else { 32 };
    let last_bits = max_depth_bits.min(length_bits);
    let mut found = Vec::new();
    let mut open = vec![(0_u128, Leaf::default())];
    while let Some((bits, Leaf { number: node, depth_bits })) = open.pop() {
        if found.len() + open.len() > most || depth_bits >= length_bits {
            return None;
        }
        let start = (node as usize).checked_mul(size)?;
        let node = bytes.get(start..start.checked_add(size)?)?;
        let depth_bits = depth_bits + 1;
        for right in [true, false] {
            let number = record(node, right)?;
            let bits = bits | u128::from(right) << (128 - u32::from(depth_bits));
            open.push((bits, Leaf { number, depth_bits }));
        }
        while let Some(&(_, leaf)) = open.last() {
            if leaf.number < layout.base && leaf.depth_bits < last_bits {
                break;
            }
            if leaf.number < layout.base && last_bits == length_bits {
                return None;
            }
            found.try_reserve(1).ok()?;
            found.extend(open.pop());
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::editions;

    fn layout(bytes: &[u8]) -> Layout {
        let edition = editions::read(editions::COUNTRY).unwrap();
        Layout { edition, base: 16_776_960, size_bytes: bytes.len() as u64 }
    }

    fn node(left: u32, right: u32) -> Vec<u8> {
        [left, right].iter().flat_map(|number| number.to_le_bytes()[..3].to_vec()).collect()
    }

    #[test]
    fn a_walk_ends_at_the_first_number_that_is_no_node() {
        let bytes = [node(1, 16_776_960 + 7), node(16_776_961, 1)].concat();
        let walked = |address| walk_bytes(&bytes, &layout(&bytes), Address::v4(address));
        let leaf = |number: u32, depth_bits| Some(Leaf { number: 16_776_960 + number, depth_bits });
        assert_eq!(walked(0x8000_0000), leaf(7, 1));
        assert_eq!(walked(0), leaf(1, 2));
        assert_eq!(walked(0x7f00_0000), leaf(1, 9));
        assert_eq!(walked(0x7fff_ffff), None);
    }

    #[test]
    fn leaves_tile_the_addresses_in_order() {
        let bytes = [node(1, 16_776_960 + 7), node(16_776_961, 16_776_960)].concat();
        let leaves = leaves(&bytes, &layout(&bytes), false, 32).unwrap();
        let found: Vec<_> = leaves
            .iter()
            .map(|(bits, leaf)| ((bits >> 96) as u32, leaf.number - 16_776_960, leaf.depth_bits))
            .collect();
        assert_eq!(found, [(0, 1, 2), (0x4000_0000, 0, 2), (0x8000_0000, 7, 1)]);
    }

    #[test]
    fn a_tree_that_loops_or_leaves_the_file_has_no_list() {
        let endless = node(0, 0);
        assert_eq!(leaves(&endless, &layout(&endless), false, 32), None);
        let outside = node(5, 16_776_960);
        assert_eq!(leaves(&outside, &layout(&outside), false, 32), None);
        assert_eq!(walk_bytes(&outside, &layout(&outside), Address::v4(1)), None);
    }
}
