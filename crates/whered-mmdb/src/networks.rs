//! All networks of a search tree, in address order.
//!
//! Not for single addresses. A depth-first walk, left before right, over a stack of at most one
//! entry per address bit; a step costs one read of a node. Nothing is allocated after the start.
#![deny(clippy::indexing_slicing)]

use crate::database::prefix;
use crate::error::{ErrorKind, MmdbError};
use crate::tree::{RecordId, SearchTree, TreeNode};
use std::iter::FusedIterator;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use whered_ip::Prefix;

/// How many inner nodes are visited for each node of the file. A sound tree has one way to each
/// node beside the aliases, which are skipped; a writer may share equal subtrees. Without a bound
/// 128 shared nodes would describe 2^128 networks.
const VISITS_PER_NODE: u64 = 64;

/// How many inner nodes a walk may still visit. Walks over parts of a tree share one number, of
/// which each takes some at a time.
#[derive(Debug, Clone)]
pub(crate) struct Visits {
    left: u64,
    shared: Option<Arc<AtomicU64>>,
    at_once: u64,
}

impl Visits {
    pub(crate) fn of(tree: &SearchTree) -> Visits {
        let left = u64::from(tree.node_count()) * VISITS_PER_NODE;
        Visits { left, shared: None, at_once: 0 }
    }

    /// For walks over this many parts, each of which gets a copy.
    pub(crate) fn shared(tree: &SearchTree, parts: usize) -> Visits {
        let all = Visits::of(tree).left;
        // What parts leave over is at most half of all.
        let at_once = (all / (2 * parts.max(1) as u64)).max(1);
        Visits { left: 0, shared: Some(Arc::new(AtomicU64::new(all))), at_once }
    }

    /// Counts a visit of a node.
    pub(crate) fn take(&mut self, tree: &SearchTree, node: u32) -> Result<(), MmdbError> {
        if self.left == 0 && !self.refill() {
            return Err(MmdbError::new(
                ErrorKind::Limit,
                "a search tree whose nodes are reached in too many ways",
                format!("{VISITS_PER_NODE} visits for each node of the file"),
            )
            .at(tree.node_offset(node)));
        }
        self.left -= 1;
        Ok(())
    }

    #[cold]
    fn refill(&mut self) -> bool {
        let Some(shared) = &self.shared else { return false };
        let rest = |all: u64| (all > 0).then(|| all.saturating_sub(self.at_once));
        match shared.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest) {
            Ok(before) => {
                self.left = before.min(self.at_once);
                true
            }
            Err(_) => false,
        }
    }
}

/// Iterator of [`crate::Database::networks`].
#[derive(Debug)]
pub struct Networks<'a> {
    tree: &'a SearchTree,
    bytes: &'a [u8],
    open: Vec<Place>,
    visits: Visits,
}

/// A place of the tree that was not looked at yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) node: TreeNode,
    /// The bits that led here, from the highest on.
    pub(crate) bits: u128,
    pub(crate) depth: u8,
}

impl Place {
    pub(crate) const ROOT: Place = Place { node: TreeNode::Node(0), bits: 0, depth: 0 };

    /// The place below this one.
    pub(crate) fn below(&self, node: TreeNode, bit: bool) -> Place {
        let bits = if bit { self.bits | 1 << (127 - self.depth) } else { self.bits };
        Place { node, bits, depth: self.depth + 1 }
    }

    /// Whether this place leads back to the IPv4 subtree from elsewhere.
    pub(crate) fn is_alias(&self, tree: &SearchTree) -> bool {
        match (self.node, tree.ipv4_subtree()) {
            (TreeNode::Node(node), Some(subtree)) => {
                node == subtree && (self.bits, self.depth) != (0, 96)
            }
            _ => false,
        }
    }

    /// The network that this place stands for.
    pub(crate) fn prefix(&self, tree: &SearchTree) -> Prefix {
        if !tree.is_ipv6() {
            prefix(self.bits, self.depth, true)
        } else if self.depth >= 96 && self.bits >> 32 == 0 {
            prefix(self.bits << 96, self.depth - 96, true)
        } else {
            prefix(self.bits, self.depth, false)
        }
    }
}

impl<'a> Networks<'a> {
    pub(crate) fn new(tree: &'a SearchTree, bytes: &'a [u8]) -> Networks<'a> {
        let mut open = Vec::with_capacity(129);
        open.push(Place::ROOT);
        Networks { tree, bytes, open, visits: Visits::of(tree) }
    }

    /// The networks of these subtrees only; the last one comes first.
    pub(crate) fn of(tree: &'a SearchTree, bytes: &'a [u8], places: Vec<Place>) -> Networks<'a> {
        Networks { open: places, ..Networks::new(tree, bytes) }
    }

    /// The networks of one subtree, with a bound that other subtrees share.
    pub(crate) fn of_part(
        tree: &'a SearchTree,
        bytes: &'a [u8],
        place: Place,
        visits: Visits,
    ) -> Networks<'a> {
        Networks { tree, bytes, open: vec![place], visits }
    }

    pub(crate) fn push(&mut self, place: Place) {
        self.open.push(place);
    }

    /// Puts the children of an inner node on the stack, the left one on top.
    pub(crate) fn descend(&mut self, place: &Place, node: u32) -> Result<(), MmdbError> {
        if place.depth == self.tree.address_bits() {
            return Err(self.tree.too_deep(node));
        }
        self.visits.take(self.tree, node)?;
        for bit in [true, false] {
            let child = self.tree.child(self.bytes, node, bit)?;
            if child != TreeNode::Empty {
                self.open.push(place.below(child, bit));
            }
        }
        Ok(())
    }
}

impl Iterator for Networks<'_> {
    type Item = Result<(Prefix, RecordId), MmdbError>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(place) = self.open.pop() {
            match place.node {
                TreeNode::Empty => {}
                TreeNode::Record(id) => return Some(Ok((place.prefix(self.tree), id))),
                TreeNode::Node(_) if place.is_alias(self.tree) => {}
                TreeNode::Node(node) => {
                    if let Err(error) = self.descend(&place, node) {
                        self.open.clear();
                        return Some(Err(error.within(&place.prefix(self.tree).to_string())));
                    }
                }
            }
        }
        None
    }
}

impl FusedIterator for Networks<'_> {}
