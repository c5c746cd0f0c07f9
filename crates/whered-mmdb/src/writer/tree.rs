//! The search tree that is being written: first a trie of what was inserted, then the file's nodes.
//!
//! Not for values: here they are numbers.
//!
//! ```text
//! trie node: children [left, right], own value     (one node per bit of a prefix)
//!     │ build: values move down to where no child is; equal neighbours melt into one
//!     ▼
//! file node: [left, right], each a node number, empty, or a part's number
//! ```
//!
//! Invariants: node 0 is the root; a child comes after its parent in both forms, except that an
//! alias of the built tree leads back to the IPv4 subtree. Nodes are numbered in the order of a
//! walk, left before right, which makes the output deterministic and neighbours close.

use super::{NOTHING, refuse};
use crate::error::MmdbError;
use crate::tree::{Layout, SEPARATOR_BYTES};

/// No child, no value.
const NONE: u32 = u32::MAX;
/// The ranges that lead to the IPv4 subtree: their first bits, and how many.
pub(super) const MAPPED: (u128, u8) = (0xffff << 32, 96);
pub(super) const SIX_TO_FOUR: (u128, u8) = (0x2002 << 112, 16);
pub(super) const TEREDO: (u128, u8) = (0x2001 << 112, 32);
/// In place of a child: the IPv4 subtree.
const ALIAS: u32 = u32::MAX - 1;

#[derive(Debug, Clone, Copy)]
struct TrieNode {
    children: [u32; 2],
    value: u32,
}

impl TrieNode {
    const EMPTY: TrieNode = TrieNode { children: [NONE; 2], value: NONE };
}

/// Prefixes and the numbers of their values as they were inserted.
#[derive(Debug)]
pub(super) struct Trie {
    nodes: Vec<TrieNode>,
    /// The node at `::/96`, once there is one: most networks begin there.
    ipv4: Option<u32>,
}

/// The content of a slot of the built tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    Empty,
    Value(u32),
    Node(u32),
}

/// The nodes as they go to the file.
#[derive(Debug)]
pub(super) struct BuiltTree {
    nodes: Vec<[Slot; 2]>,
}

/// The first bits of an address, the highest first.
fn bit(bits: u128, position: u8) -> usize {
    usize::from(bits >> (127 - position) & 1 == 1)
}

impl Trie {
    pub(super) fn new() -> Trie {
        Trie { nodes: vec![TrieNode::EMPTY], ipv4: None }
    }

    /// Gives a prefix a value; with `is_last_winning` those inside of it are forgotten.
    pub(super) fn insert(
        &mut self,
        bits: u128,
        length_bits: u8,
        value: u32,
        is_last_winning: bool,
    ) -> Result<(), MmdbError> {
        let node = self.reach(bits, length_bits)?;
        let node = &mut self.nodes[node as usize];
        node.value = value;
        if is_last_winning && node.children != [NONE; 2] {
            node.children = [NONE; 2];
            self.ipv4 = None;
        }
        Ok(())
    }

    /// The node of a prefix, made if it is missing.
    fn reach(&mut self, bits: u128, length_bits: u8) -> Result<u32, MmdbError> {
        let is_ipv4 = length_bits >= 96 && bits >> 32 == 0;
        let (mut node, start) = match self.ipv4 {
            Some(node) if is_ipv4 => (node, 96),
            _ => (0, 0),
        };
        for position in start..length_bits {
            if is_ipv4 && position == 96 {
                self.ipv4 = Some(node);
            }
            let side = bit(bits, position);
            let child = self.nodes[node as usize].children[side];
            node = if child == NONE {
                let new = u32::try_from(self.nodes.len()).unwrap_or(NONE);
                if new >= ALIAS {
                    return Err(refuse("too many networks", "below 2^32 nodes"));
                }
                self.nodes.push(TrieNode::EMPTY);
                self.nodes[node as usize].children[side] = new;
                new
            } else {
                child
            };
        }
        Ok(node)
    }

    /// Makes the subtree of IPv4 networks the whole tree, if there is nothing else; whether it was.
    pub(super) fn keep_ipv4(&mut self) -> bool {
        let mut node = 0;
        for _ in 0..96 {
            let TrieNode { children: [left, right], value } = self.nodes[node as usize];
            if right != NONE || value != NONE {
                return false;
            }
            if left == NONE {
                break;
            }
            node = left;
        }
        self.nodes[0] = self.nodes[node as usize];
        self.ipv4 = None;
        true
    }

    fn has(&self, bits: u128, length_bits: u8) -> bool {
        let mut node = 0;
        for position in 0..length_bits {
            node = self.nodes[node as usize].children[bit(bits, position)];
            if node == NONE {
                return false;
            }
        }
        true
    }

    /// Marks the ranges that lead to the IPv4 subtree, unless something was inserted inside them.
    pub(super) fn add_aliases(&mut self, with_teredo: bool) -> Result<(), MmdbError> {
        let teredo = with_teredo.then_some(TEREDO);
        for (bits, length_bits) in [MAPPED, SIX_TO_FOUR].into_iter().chain(teredo) {
            if !self.has(bits, length_bits) {
                let parent = self.reach(bits, length_bits - 1)?;
                let side = bit(bits, length_bits - 1);
                self.nodes[parent as usize].children[side] = ALIAS;
            }
        }
        Ok(())
    }

    /// The tree for the file; `parts` has the part that each value's number stands for.
    pub(super) fn build(&self, is_merging: bool, parts: &[u32]) -> Result<BuiltTree, MmdbError> {
        let mut builder = Builder { trie: self, parts, nodes: Vec::new(), ipv4: None, is_merging };
        let root = builder.place(0, Slot::Empty, Some(0));
        if let Slot::Empty | Slot::Value(_) = root {
            // A tree has at least its root, even if both sides say the same.
            builder.nodes.push([root; 2]);
        }
        if u32::try_from(builder.nodes.len()).is_err() {
            return Err(refuse("too many networks", "below 2^32 nodes"));
        }
        Ok(BuiltTree { nodes: builder.nodes })
    }
}

struct Builder<'a> {
    trie: &'a Trie,
    parts: &'a [u32],
    nodes: Vec<[Slot; 2]>,
    /// The slot at `::/96`, which the walk reaches before any alias.
    ipv4: Option<Slot>,
    /// Whether two equal leaves beside each other become one.
    is_merging: bool,
}

impl Builder<'_> {
    /// Builds what is at and below a trie node. `inherited` is the value of the prefixes around
    /// it; `zeros` is the depth as long as only zero bits led here. Recursion ends with the
    /// prefix's bits.
    fn place(&mut self, trie_node: u32, inherited: Slot, zeros: Option<u8>) -> Slot {
        let slot = match trie_node {
            NONE => inherited,
            ALIAS => match self.ipv4 {
                Some(Slot::Empty) | None => inherited,
                Some(slot) => slot,
            },
            _ => self.inner(trie_node, inherited, zeros),
        };
        // The highest place above ::/96 below which all is the same stands for ::/96 itself.
        let is_leaf = !matches!(slot, Slot::Node(_));
        if self.ipv4.is_none() && zeros.is_some_and(|depth| depth == 96 || is_leaf && depth < 96) {
            self.ipv4 = Some(slot);
        }
        slot
    }

    fn inner(&mut self, trie_node: u32, inherited: Slot, zeros: Option<u8>) -> Slot {
        let TrieNode { children, value } = self.trie.nodes[trie_node as usize];
        let own = match value {
            NONE => inherited,
            value => match self.parts[value as usize] {
                NOTHING => Slot::Empty,
                part => Slot::Value(part),
            },
        };
        if children == [NONE; 2] {
            return own;
        }
        let number = self.nodes.len();
        self.nodes.push([Slot::Empty; 2]);
        let left = self.place(children[0], own, zeros.map(|depth| depth + 1));
        let right = self.place(children[1], own, None);
        let is_one = left == Slot::Empty || self.is_merging;
        if left == right && is_one && !matches!(left, Slot::Node(_)) {
            // Both sides are leaves, so that no node was numbered after this one.
            self.nodes.pop();
            return left;
        }
        self.nodes[number] = [left, right];
        // A count beyond 32 bits is refused when the walk is done.
        Slot::Node(number as u32)
    }
}

impl BuiltTree {
    pub(super) fn node_count(&self) -> u32 {
        u32::try_from(self.nodes.len()).expect("the builder refuses more nodes")
    }

    /// The parts that are records, in the order of the tree.
    pub(super) fn records(&self) -> impl Iterator<Item = u32> {
        self.nodes.iter().flatten().filter_map(|slot| match slot {
            Slot::Value(part) => Some(*part),
            Slot::Empty | Slot::Node(_) => None,
        })
    }

    /// Appends the nodes; `offset` says where a part stands. The record size was checked against
    /// the largest number before.
    pub(super) fn write(&self, layout: Layout, offset: impl Fn(u32) -> u32, out: &mut Vec<u8>) {
        let count = self.node_count();
        let number = |slot: Slot| match slot {
            Slot::Empty => count,
            Slot::Value(part) => count + SEPARATOR_BYTES as u32 + offset(part),
            Slot::Node(node) => node,
        };
        for &[left, right] in &self.nodes {
            let (left, right) = (number(left).to_be_bytes(), number(right).to_be_bytes());
            match layout {
                Layout::Bits24 => {
                    out.extend(&left[1..]);
                    out.extend(&right[1..]);
                }
                Layout::Bits28 => {
                    out.extend(&left[1..]);
                    out.push(left[0] << 4 | right[0]);
                    out.extend(&right[1..]);
                }
                Layout::Bits32 => {
                    out.extend(left);
                    out.extend(right);
                }
                Layout::Legacy(_) => panic!("the writer makes no legacy files"),
            }
        }
    }
}
