//! The search tree: from an address, bit by bit, to a record.
//!
//! Not for what a record holds. One type serves MaxMind DB trees and legacy country files, which
//! differ in how the two records of a node are laid out:
//!
//! ```text
//! 24 bits   LLLLLL RRRRRR         28 bits   LLLLLL lr RRRRRR   (l, r: the highest four bits)
//! 32 bits   LLLLLLLL RRRRRRRR     legacy    LLLLLL RRRRRR or LLLLLLLL RRRRRRRR, little-endian
//! ```
//!
//! and in what a record's number means:
//!
//! ```text
//! MaxMind DB: [0, nodes) node | nodes: empty | (nodes, nodes + 16): error | rest: data + nodes + 16
//! legacy:     [0, nodes) node | ... error ...| base: empty | base + number or offset of the record
//! ```
//!
//! Invariants: the caller keeps the bytes; nodes that are not among them are asked of the reader,
//! and where there is none it is an error. Sizes are computed in 64 bits; every read still goes
//! through `get`. An IPv6 tree holds IPv4 addresses under `::/96`; the node there is found once at
//! opening. Immutable: any number of threads may read. A step costs one read of up to 8 bytes.
#![deny(clippy::indexing_slicing)]

use crate::error::{ErrorKind, MmdbError};
use crate::read_at::{self, ReadAt};
use std::sync::Arc;

/// The zero bytes between the tree and the data section, which record numbers count too.
pub(crate) const SEPARATOR_BYTES: usize = 16;

/// A record's name inside its database: the data-section offset of a MaxMind DB record, or the
/// number or offset of a legacy file's record. Equal ids mean equal records.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct RecordId(u32);

impl RecordId {
    /// An id from its number. A number that this database never gave out makes
    /// [`crate::Database::record`] return an error or some part of a record, never more.
    #[must_use]
    pub fn from_u32(number: u32) -> RecordId {
        RecordId(number)
    }

    /// The number behind the id.
    #[must_use]
    pub fn to_u32(self) -> u32 {
        self.0
    }
}

/// The node at a position of the search tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TreeNode {
    /// An inner node; ask [`crate::Database::child`] for its children.
    Node(u32),
    /// No record for all addresses below.
    Empty,
    /// This record for all addresses below.
    Record(RecordId),
}

/// How the two records of a node are laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Layout {
    Bits24,
    Bits28,
    Bits32,
    Legacy(LegacyLayout),
}

/// The layout of a legacy edition's tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LegacyLayout {
    /// 3 or 4.
    pub(crate) record_bytes: u8,
    /// The number that stands for "no record"; those of records follow.
    pub(crate) base: u32,
    /// The first of the numbers behind the base that mean nothing, and the first that means
    /// something again.
    pub(crate) unused: (u32, u32),
}

impl LegacyLayout {
    fn is_used(&self, id: u32) -> bool {
        !(self.unused.0..self.unused.1).contains(&id)
    }
}

impl Layout {
    /// The layout of MaxMind DB records of `bits` bits.
    pub(crate) fn from_record_size(bits: u64) -> Option<Layout> {
        match bits {
            24 => Some(Layout::Bits24),
            28 => Some(Layout::Bits28),
            32 => Some(Layout::Bits32),
            _ => None,
        }
    }

    pub(crate) fn node_bytes(self) -> usize {
        match self {
            Layout::Bits24 => 6,
            Layout::Bits28 => 7,
            Layout::Bits32 => 8,
            Layout::Legacy(legacy) => 2 * usize::from(legacy.record_bytes),
        }
    }
}

/// Where the walk for an address ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    /// Never `TreeNode::Node`.
    pub(crate) node: TreeNode,
    /// How many bits of the address it took.
    pub(crate) depth: u8,
}

/// A tree's shape, and where to ask for nodes that are not in memory; the bytes in memory are
/// passed in by the owner.
#[derive(Clone, Debug)]
pub(crate) struct SearchTree {
    layout: Layout,
    node_count: u32,
    /// How many bytes the data section has: the bound of record offsets (and, in a legacy file
    /// whose records are numbers, of those).
    data_bytes: usize,
    is_ipv6: bool,
    /// The node at `::/96` of an IPv6 tree (or above it); the root of an IPv4 tree.
    ipv4_root: Answer,
    reader: Option<Arc<dyn ReadAt>>,
}

impl SearchTree {
    /// Looks the IPv4 root up in `bytes`, which must hold all `node_count` nodes.
    pub(crate) fn new(
        bytes: &[u8],
        layout: Layout,
        node_count: u32,
        data_bytes: usize,
        is_ipv6: bool,
    ) -> Result<SearchTree, MmdbError> {
        SearchTree::on_demand(bytes, None, layout, node_count, data_bytes, is_ipv6)
    }

    /// Like `new`, for a tree whose nodes the reader fetches where `bytes` lacks them.
    pub(crate) fn on_demand(
        bytes: &[u8],
        reader: Option<Arc<dyn ReadAt>>,
        layout: Layout,
        node_count: u32,
        data_bytes: usize,
        is_ipv6: bool,
    ) -> Result<SearchTree, MmdbError> {
        let ipv4_root = Answer { node: TreeNode::Node(0), depth: 0 };
        let mut tree = SearchTree { layout, node_count, data_bytes, is_ipv6, ipv4_root, reader };
        let mut way = Vec::new();
        while is_ipv6 && tree.ipv4_root.depth < 96 {
            let TreeNode::Node(node) = tree.ipv4_root.node else {
                break;
            };
            way.push(node);
            tree.ipv4_root.node = tree.child(bytes, node, false)?;
            tree.ipv4_root.depth += 1;
        }
        match tree.ipv4_subtree() {
            // An IPv4 root that is its own ancestor: everything would look like its alias.
            Some(subtree) if way.contains(&subtree) => Err(tree.loop_at(subtree)),
            _ => Ok(tree),
        }
    }

    /// A tree whose IPv4 root nobody asks for: its walks start where the caller says.
    pub(crate) fn without_ipv4_root(
        layout: Layout,
        reader: Option<Arc<dyn ReadAt>>,
        node_count: u32,
        data_bytes: usize,
        is_ipv6: bool,
    ) -> SearchTree {
        let ipv4_root = Answer { node: TreeNode::Empty, depth: 0 };
        SearchTree { layout, node_count, data_bytes, is_ipv6, ipv4_root, reader }
    }

    pub(crate) fn node_count(&self) -> u32 {
        self.node_count
    }

    pub(crate) fn is_ipv6(&self) -> bool {
        self.is_ipv6
    }

    /// How many bits an address of this tree has.
    pub(crate) fn address_bits(&self) -> u8 {
        if self.is_ipv6 { 128 } else { 32 }
    }

    pub(crate) fn ipv4_root(&self) -> TreeNode {
        self.ipv4_root.node
    }

    /// The node at `::/96` if the tree goes on below it: what aliases point to.
    pub(crate) fn ipv4_subtree(&self) -> Option<u32> {
        match self.ipv4_root {
            Answer { node: TreeNode::Node(node), .. } if self.is_ipv6 => Some(node),
            _ => None,
        }
    }

    /// Where in the file a node begins.
    pub(crate) fn node_offset(&self, node: u32) -> u64 {
        u64::from(node) * self.layout.node_bytes() as u64
    }

    /// One child of an inner node: the right one if `bit` is set.
    #[inline]
    pub(crate) fn child(&self, bytes: &[u8], node: u32, bit: bool) -> Result<TreeNode, MmdbError> {
        let number = if node < self.node_count { self.read(bytes, node, bit) } else { None };
        match number {
            Some(number) => self.meaning(node, bit, number),
            None => self.child_absent(node, bit),
        }
    }

    /// The meaning of a number in a node's record.
    #[inline(always)]
    fn meaning(&self, node: u32, bit: bool, number: u32) -> Result<TreeNode, MmdbError> {
        if number < self.node_count {
            return Ok(TreeNode::Node(number));
        }
        if let Layout::Legacy(legacy) = self.layout {
            return match number.checked_sub(legacy.base) {
                Some(0) => Ok(TreeNode::Empty),
                Some(id) if (id as usize) < self.data_bytes && legacy.is_used(id) => {
                    Ok(TreeNode::Record(RecordId(id)))
                }
                _ => Err(self.bad_record(node, bit, number)),
            };
        }
        self.leaf(number).ok_or_else(|| self.bad_record(node, bit, number))
    }

    /// One child of a node that is not in memory.
    #[cold]
    #[inline(never)]
    fn child_absent(&self, node: u32, bit: bool) -> Result<TreeNode, MmdbError> {
        let number = self.number_absent(node, bit)?;
        self.meaning(node, bit, number)
    }

    /// The number in a record of a node, also of one that is not in memory.
    pub(crate) fn number_of(&self, bytes: &[u8], node: u32, bit: bool) -> Result<u32, MmdbError> {
        let number = if node < self.node_count { self.read(bytes, node, bit) } else { None };
        number.map_or_else(|| self.number_absent(node, bit), Ok)
    }

    /// The number in a record of a node that is not in memory.
    fn number_absent(&self, node: u32, bit: bool) -> Result<u32, MmdbError> {
        let reader = self.reader.as_deref().filter(|_| node < self.node_count);
        let mut bytes = [0; 8];
        let bytes = bytes.get_mut(..self.layout.node_bytes());
        let (Some(reader), Some(bytes)) = (reader, bytes) else {
            return Err(self.no_such_node(node));
        };
        read_at::fill(reader, bytes, self.node_offset(node))?;
        self.number(bytes, bit).ok_or_else(|| self.no_such_node(node))
    }

    /// The number in one of a node's records; the node's own number is not checked.
    pub(crate) fn read(&self, bytes: &[u8], node: u32, bit: bool) -> Option<u32> {
        let width = self.layout.node_bytes();
        let start = usize::try_from(self.node_offset(node)).ok()?;
        self.number(bytes.get(start..start.checked_add(width)?)?, bit)
    }

    /// The left or right record of a node.
    fn number(&self, node: &[u8], bit: bool) -> Option<u32> {
        Some(match (self.layout, node) {
            (Layout::Bits24, &[a, b, c, d, e, f]) => {
                if bit {
                    u32::from_be_bytes([0, d, e, f])
                } else {
                    u32::from_be_bytes([0, a, b, c])
                }
            }
            (Layout::Bits28, &[a, b, c, middle, d, e, f]) => {
                if bit {
                    u32::from_be_bytes([middle & 15, d, e, f])
                } else {
                    u32::from_be_bytes([middle >> 4, a, b, c])
                }
            }
            (Layout::Bits32, &[a, b, c, d, e, f, g, h]) => {
                if bit {
                    u32::from_be_bytes([e, f, g, h])
                } else {
                    u32::from_be_bytes([a, b, c, d])
                }
            }
            (Layout::Legacy(_), &[a, b, c, d, e, f]) => {
                if bit {
                    u32::from_le_bytes([d, e, f, 0])
                } else {
                    u32::from_le_bytes([a, b, c, 0])
                }
            }
            (Layout::Legacy(_), &[a, b, c, d, e, f, g, h]) => {
                if bit {
                    u32::from_le_bytes([e, f, g, h])
                } else {
                    u32::from_le_bytes([a, b, c, d])
                }
            }
            _ => return None,
        })
    }

    /// Walks `address`, whose first bit is the highest of the 128, to where its branch ends.
    ///
    /// `is_ipv4`: the address is one of 32 bits, and the walk begins at the IPv4 root.
    #[inline]
    pub(crate) fn walk(
        &self,
        bytes: &[u8],
        address: u128,
        is_ipv4: bool,
    ) -> Result<Answer, MmdbError> {
        let bits = if is_ipv4 { 32 } else { 128 };
        let root = if is_ipv4 { self.ipv4_root.node } else { TreeNode::Node(0) };
        match root {
            TreeNode::Node(root) => self.walk_from(bytes, root, address, bits),
            TreeNode::Empty | TreeNode::Record(_) => Ok(Answer { node: root, depth: 0 }),
        }
    }

    /// Walks `bits` bits of an address from the node `root`, or from what another number means.
    #[inline]
    pub(crate) fn walk_from(
        &self,
        bytes: &[u8],
        root: u32,
        address: u128,
        bits: u8,
    ) -> Result<Answer, MmdbError> {
        // One loop for each layout, so that none asks for the layout at every step.
        let end = match self.layout {
            Layout::Bits24 => self.descend(bytes, root, address, bits, 6, |node, right| {
                (node >> if right { 16 } else { 40 }) as u32 & 0xff_ffff
            }),
            Layout::Bits28 => self.descend(bytes, root, address, bits, 7, |node, right| {
                let left = (node >> 40) as u32 | ((node >> 12) as u32 & 0xf00_0000);
                if right { (node >> 8) as u32 & 0xfff_ffff } else { left }
            }),
            Layout::Bits32 => self.descend(bytes, root, address, bits, 8, |node, right| {
                (node >> if right { 0 } else { 32 }) as u32
            }),
            Layout::Legacy(_) => None,
        };
        match end.and_then(|(number, depth)| Some((self.leaf(number)?, depth))) {
            Some((node, depth)) => Ok(Answer { node, depth }),
            None => self.walk_step_by_step(bytes, address, bits, root),
        }
    }

    /// Follows an address from a node to the first number that is no node, or to its last bit.
    ///
    /// A node is read as one number of 64 bits, whatever its width: behind the last one stand the
    /// separator's 16 bytes. Which record counts is known before the node arrives, and chosen
    /// without a branch, which would be mispredicted at every second step.
    #[inline(always)]
    fn descend(
        &self,
        bytes: &[u8],
        root: u32,
        address: u128,
        bits: u8,
        node_bytes: usize,
        record: impl Fn(u64, bool) -> u32,
    ) -> Option<(u32, u8)> {
        let mut number = root;
        let mut depth = 0;
        for half in [(address >> 64) as u64, address as u64] {
            let mut rest = half;
            let end = bits.min(if depth < 64 { 64 } else { 128 });
            while depth < end {
                if number >= self.node_count {
                    return Some((number, depth));
                }
                let start = number as usize * node_bytes;
                let node = u64::from_be_bytes(*bytes.get(start..)?.first_chunk()?);
                number = record(node, rest >> 63 == 1);
                rest <<= 1;
                depth += 1;
            }
        }
        Some((number, depth))
    }

    /// The walk for every layout and for nodes that are not in memory. Its error says where the
    /// tree is broken.
    #[cold]
    fn walk_step_by_step(
        &self,
        bytes: &[u8],
        address: u128,
        bits: u8,
        root: u32,
    ) -> Result<Answer, MmdbError> {
        let mut node = TreeNode::Node(root);
        let mut depth = 0_u8;
        let mut rest = address;
        while let TreeNode::Node(number) = node {
            if depth == bits {
                return Err(self.too_deep(number));
            }
            node = self.child(bytes, number, rest >> 127 == 1)?;
            rest <<= 1;
            depth += 1;
        }
        Ok(Answer { node, depth })
    }

    /// The meaning of a number that is no node of a MaxMind DB tree.
    #[inline]
    fn leaf(&self, number: u32) -> Option<TreeNode> {
        let beyond = number.checked_sub(self.node_count)?;
        if beyond == 0 {
            return Some(TreeNode::Empty);
        }
        let offset = beyond.checked_sub(SEPARATOR_BYTES as u32)?;
        ((offset as usize) < self.data_bytes).then_some(TreeNode::Record(RecordId(offset)))
    }

    /// A walk went past the last bit of an address.
    #[cold]
    pub(crate) fn too_deep(&self, node: u32) -> MmdbError {
        MmdbError::new(
            ErrorKind::Tree,
            format!("a branch that goes on to node {node} after the address's last bit"),
            format!("branches of up to {} bits", self.address_bits()),
        )
        .at(self.node_offset(node))
    }

    /// A branch came back to a node above it.
    #[cold]
    pub(crate) fn loop_at(&self, node: u32) -> MmdbError {
        let found = format!("a branch that leads back to node {node}");
        MmdbError::new(ErrorKind::Tree, found, "trees without loops").at(self.node_offset(node))
    }

    #[cold]
    fn no_such_node(&self, node: u32) -> MmdbError {
        MmdbError::new(
            ErrorKind::Tree,
            format!("node {node}"),
            format!("nodes below {}", self.node_count),
        )
    }

    #[cold]
    fn bad_record(&self, node: u32, bit: bool, number: u32) -> MmdbError {
        let side = if bit { "right" } else { "left" };
        let count = self.node_count;
        let allowed = if let Layout::Legacy(LegacyLayout { base, unused, .. }) = self.layout {
            let end = u64::from(base) + self.data_bytes as u64;
            let hole = match unused {
                (first, end) if first < end => {
                    format!(" but {} to {}", base + first, base + end - 1)
                }
                _ => String::new(),
            };
            format!("nodes below {count}, {base} for none, below {end}{hole} for records")
        } else {
            let first = u64::from(count) + SEPARATOR_BYTES as u64;
            let end = first + self.data_bytes as u64;
            format!("nodes below {count}, {count} for none, {first} to below {end} for records")
        };
        MmdbError::new(
            ErrorKind::Tree,
            format!("{number} as the {side} record of node {node}"),
            allowed,
        )
        .at(self.node_offset(node))
    }
}
