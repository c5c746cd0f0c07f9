//! What a choice can depend on, as a question about prefixes: have all addresses below the same?
//!
//! ```text
//! region = prefix ─ databases: the node of each tree at the prefix; a leaf is the same for all
//!                 ├ bounds:    where static lists begin and end; none within is the same for all
//!                 └ sets:      no member begins or ends within
//! ```
//!
//! Invariants: two addresses of a uniform region are told apart by no step of a policy. At a full
//! address every region is uniform.
//! Cost: to split a region one step in each tree; to ask it a binary search in bounds and each set.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use whered_ip::{LayeredSet, Prefix};
use whered_mmdb::{RecordId, TreeNode};

use crate::databases::NamedDatabase;

/// How many databases one pool may ask.
pub(super) const DATABASES_MAX: usize = 6;

/// Everything that a pool's choice can depend on.
#[derive(Clone, Default)]
pub(super) struct Inputs {
    pub(super) databases: Vec<Arc<NamedDatabase>>,
    /// First addresses of pieces, IPv4 and IPv6, as leading bits, in order.
    pub(super) bounds: Arc<[Vec<u128>; 2]>,
    pub(super) sets: Vec<Arc<LayeredSet>>,
}

/// A prefix and where it is in each database's tree.
#[derive(Clone, Copy)]
pub(super) struct Region {
    pub(super) bits: u128,
    pub(super) length: u8,
    pub(super) is_ipv4: bool,
    pub(super) nodes: [TreeNode; DATABASES_MAX],
}

impl Region {
    /// The longest prefix of the family.
    pub(super) fn length_max(&self) -> u8 {
        if self.is_ipv4 { 32 } else { 128 }
    }

    /// The first address.
    pub(super) fn address(&self) -> IpAddr {
        if self.is_ipv4 {
            Ipv4Addr::from_bits((self.bits >> 96) as u32).into()
        } else {
            Ipv6Addr::from_bits(self.bits).into()
        }
    }

    /// Whether all addresses of a prefix are in it.
    pub(super) fn holds(&self, prefix: Prefix) -> bool {
        let differing = self.bits ^ bits_of(prefix.address());
        self.is_ipv4 == prefix.is_ipv4()
            && self.length <= prefix.length_bits()
            && differing.leading_zeros() >= u32::from(self.length)
    }

    /// The record of a database; the region is uniform.
    pub(super) fn record(&self, database: usize) -> Option<RecordId> {
        match self.nodes.get(database) {
            Some(TreeNode::Record(record)) => Some(*record),
            _ => None,
        }
    }
}

/// The leading bits of an address.
pub(super) fn bits_of(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

impl Inputs {
    /// The number of a database, which is added where it is new; `None` when there are too many.
    pub(super) fn add_database(&mut self, named: &Arc<NamedDatabase>) -> Option<usize> {
        if let Some(known) = self.databases.iter().position(|known| Arc::ptr_eq(known, named)) {
            return Some(known);
        }
        (self.databases.len() < DATABASES_MAX).then(|| {
            self.databases.push(Arc::clone(named));
            self.databases.len() - 1
        })
    }

    /// All addresses of a family.
    pub(super) fn root(&self, is_ipv4: bool) -> Region {
        let mut nodes = [TreeNode::Empty; DATABASES_MAX];
        for (node, named) in nodes.iter_mut().zip(&self.databases) {
            *node = named.database().root(is_ipv4).unwrap_or(TreeNode::Empty);
        }
        Region { bits: 0, length: 0, is_ipv4, nodes }
    }

    /// Half of a region: the one with this bit.
    #[inline]
    pub(super) fn half(&self, region: &Region, bit: bool) -> Region {
        let mut half = *region;
        for (node, named) in half.nodes.iter_mut().zip(&self.databases) {
            // A loaded database was verified; a node that cannot be read all the same knows
            // nothing.
            *node = named.database().child(*node, bit).unwrap_or(TreeNode::Empty);
        }
        half.bits |= u128::from(bit) << (127 - u32::from(region.length));
        half.length += 1;
        half
    }

    /// The half that an address is in, and the other one.
    pub(super) fn halves(&self, region: &Region, bits: u128) -> (Region, Region) {
        let bit = bits >> (127 - u32::from(region.length)) & 1 == 1;
        (self.half(region, bit), self.half(region, !bit))
    }

    /// Whether no step can tell addresses of the region apart.
    pub(super) fn is_uniform(&self, region: &Region) -> bool {
        if region.length == region.length_max() {
            return true;
        }
        let nodes = &region.nodes[..self.databases.len()];
        if nodes.iter().any(|node| matches!(node, TreeNode::Node(_))) {
            return false;
        }
        let bounds = &self.bounds[usize::from(!region.is_ipv4)];
        if !bounds.is_empty() {
            let last = region.bits | u128::MAX.checked_shr(region.length.into()).unwrap_or(0);
            let next = bounds.partition_point(|bound| *bound <= region.bits);
            if bounds.get(next).is_some_and(|bound| *bound <= last) {
                return false;
            }
        }
        self.sets.is_empty() || {
            let prefix = Prefix::new(region.address(), region.length);
            let prefix = prefix.expect("a region's length is one of its family");
            self.sets.iter().all(|set| set.is_uniform(prefix))
        }
    }

    /// Whether nothing tells any two addresses apart.
    pub(super) fn is_empty(&self) -> bool {
        let has_bounds = self.bounds.iter().any(|bounds| !bounds.is_empty());
        self.databases.is_empty() && !has_bounds && self.sets.is_empty()
    }
}
