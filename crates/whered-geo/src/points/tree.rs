//! The ordered part of a collection: entries in (cell, member) order, shared by reference.
//!
//! For: everything that needs no name looked up: ranges, ranks, searches. A copy is a frozen view:
//! it costs two counted references and stays as it is, whatever becomes of the collection.
//! Not for: finding a member by its name alone (`members.rs`).
//!
//! ```text
//! Tree ─┬ root Branch ─┬ Branch ─┬ Branch ─┬ Leaf      branch.rs and leaf/mod.rs draw them
//!       │  any width   │  128    │  128    └ Leaf      128 * 177 entries below the lowest
//!       └ overflow       long members
//! ```
//!
//! Invariants: those of its parts; all leaves are equally deep; `bytes` is the sum of the memory
//! of all nodes.
//! Concurrency: a writer changes what it alone holds in place, and copies the rest (three branches
//! and a leaf, some 15 KB, once for each leaf and frozen view). Views may be read and dropped by
//! any thread.
//! Cost: a position is found by four binary searches; rank and position by rank add up to 128
//! counts on each of three levels.

pub(super) mod bulk;

use std::sync::Arc;

use super::branch::{Branch, Effects, Entry, MOST_CHILDREN, Node, own};
use super::leaf::Leaf;
use super::memory;
use super::overflow::{Overflow, Text};

type Lowest = Arc<Branch<Leaf>>;
type Middle = Arc<Branch<Lowest>>;

/// Branches between the tree and a leaf.
const LEVELS: usize = 3;

/// Entries in (cell, member) order; see [`Points::freeze`](super::Points::freeze).
#[derive(Clone, Debug, Default)]
pub struct Tree {
    pub(super) root: Arc<Branch<Middle>>,
    pub(super) overflow: Arc<Overflow>,
    len: usize,
    bytes: usize,
}

/// A place in the tree: an index into each branch on the way, and the slot in the leaf. The place
/// after the last entry is the root's child after the last one. An edit may change what a position
/// means; in a frozen view it means the same for ever.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Position {
    path: [u32; LEVELS],
    slot: u32,
}

impl Position {
    pub(super) fn new(path: [usize; LEVELS], slot: usize) -> Position {
        let number = |index: usize| index.try_into().expect("a tree is not that wide");
        Position { path: path.map(number), slot: number(slot) }
    }

    /// The slot in the leaf.
    pub(crate) fn slot(self) -> usize {
        self.slot as usize
    }

    /// Another slot of the same leaf.
    pub(crate) fn with_slot(self, slot: usize) -> Position {
        Position { slot: slot as u32, ..self }
    }

    /// Whether both are in one leaf.
    pub(super) fn is_beside(self, other: Position) -> bool {
        self.path == other.path
    }

    /// The index into the branch of this height; the lowest has 1.
    pub(super) fn index(self, height: usize) -> usize {
        self.path[LEVELS - height] as usize
    }
}

impl Tree {
    /// The number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of memory taken, spare room and what the allocator makes of it included. What a
    /// frozen view shares with its collection is counted by both.
    pub fn memory_bytes(&self) -> usize {
        memory::with_holes(self.bytes) + self.root.memory_bytes() + self.overflow.memory_bytes()
    }

    /// A tree over these leaves, none of which is empty, each of which ends before the next one
    /// begins. Long members are for the caller to add.
    /// They come with their first cells and numbers of entries, so that they are not read.
    pub(super) fn from_leaves(leaves: impl ExactSizeIterator<Item = (u64, usize, Leaf)>) -> Tree {
        let mut bytes = 0;
        let lowest: Vec<Lowest> = branches_over(leaves, &mut bytes);
        let middle: Vec<Middle> = branches_over(with_columns(lowest), &mut bytes);
        let root = Branch::of_children(with_columns(middle), &mut bytes);
        let len = root.counts().iter().sum();
        Tree { root: Arc::new(root), overflow: Arc::default(), len, bytes }
    }

    /// The leaf that a position is in, which is not the end.
    pub(crate) fn leaf(&self, at: Position) -> &Leaf {
        &self.root.children()[at.index(3)].children()[at.index(2)].children()[at.index(1)]
    }

    /// The leaf that a position was in, if there is one now.
    pub(super) fn leaf_if_any(&self, at: Position) -> Option<&Leaf> {
        let branch = self.root.children().get(at.index(3))?;
        branch.children().get(at.index(2))?.children().get(at.index(1))
    }

    /// Asks for what a new reference touches of a leaf some places after this one.
    pub(super) fn prefetch_ahead(&self, at: Position) {
        const AHEAD: usize = 12;
        let branch = &self.root.children()[at.index(3)].children()[at.index(2)];
        branch.children().get(at.index(1) + AHEAD).iter().for_each(|leaf| leaf.prefetch_header());
    }

    /// The first position of the next leaf; the end after the last one.
    pub(crate) fn next_leaf(&self, at: Position) -> Position {
        let (top, middle, lowest) = (at.index(3), at.index(2), at.index(1));
        let branch = &self.root.children()[top];
        if lowest + 1 < branch.children()[middle].children().len() {
            Position::new([top, middle, lowest + 1], 0)
        } else if middle + 1 < branch.children().len() {
            Position::new([top, middle + 1, 0], 0)
        } else {
            Position::new([top + 1, 0, 0], 0)
        }
    }

    /// The position of the last entry before a leaf's first; there must be one.
    pub(super) fn last_of_previous_leaf(&self, at: Position) -> Position {
        let (mut top, mut middle, mut lowest) = (at.index(3), at.index(2), at.index(1));
        if lowest == 0 {
            if middle == 0 {
                top -= 1;
                middle = self.root.children()[top].children().len();
            }
            middle -= 1;
            lowest = self.root.children()[top].children()[middle].children().len();
        }
        let first = Position::new([top, middle, lowest - 1], 0);
        first.with_slot(self.leaf(first).len() - 1)
    }

    /// Inserts an entry at the position where it belongs; a long member goes into the overflow
    /// store.
    pub(super) fn insert(&mut self, at: Position, bits: u64, member: &[u8]) {
        let text = if member.len() > super::overflow::LONGEST_INSIDE_BYTES {
            Text::Overflow(Arc::make_mut(&mut self.overflow).insert(member))
        } else {
            Text::Inside(member)
        };
        self.insert_text(at, Entry { bits, text });
    }

    /// Removes an entry, and its long member if it has one.
    pub(super) fn remove(&mut self, at: Position) {
        if let Some(number) = self.leaf(at).overflow_number(at.slot()) {
            Arc::make_mut(&mut self.overflow).remove(number);
        }
        self.remove_text(at);
    }

    /// Moves an entry; `to` is where it belongs, as found while it is still at `from`.
    pub(super) fn relocate(&mut self, from: Position, to: Position, bits: u64, member: &[u8]) {
        if from.is_beside(to) {
            let slot = to.slot() - usize::from(to.slot() > from.slot());
            let mut effects = Effects::default();
            own(&mut self.root).relocate(from, slot, bits, &mut effects);
            self.bytes = self.bytes.wrapping_add(effects.bytes);
            return;
        }
        let number = self.leaf(from).overflow_number(from.slot());
        let text = number.map_or(Text::Inside(member), Text::Overflow);
        let effects = self.remove_text(from);
        let to = if effects.reshaped { self.place_for(bits, member) } else { to };
        self.insert_text(to, Entry { bits, text });
    }

    /// Where an entry that is not there belongs.
    fn place_for(&self, bits: u64, member: &[u8]) -> Position {
        self.locate(bits, member).expect_err("an entry is inserted once")
    }

    fn insert_text(&mut self, at: Position, entry: Entry<'_>) {
        self.len += 1;
        let root = own(&mut self.root);
        if root.children().is_empty() {
            let middle = Middle::of_leaf(Leaf::of_one(entry.bits, entry.text));
            let lowest = &middle.children()[0];
            let leaf_bytes = Node::memory_bytes(&lowest.children()[0]);
            self.bytes = leaf_bytes + Node::memory_bytes(lowest) + Node::memory_bytes(&middle);
            root.insert_child(0, middle);
            return;
        }
        let mut effects = Effects::default();
        let room = root.room();
        root.insert(at, entry, &mut effects);
        // The root counts itself.
        let root_growth = root.growth_since(room);
        self.bytes = self.bytes.wrapping_add(effects.bytes).wrapping_sub(root_growth);
    }

    fn remove_text(&mut self, at: Position) -> Effects {
        self.len -= 1;
        let mut effects = Effects::default();
        let root = own(&mut self.root);
        let room = root.room();
        root.remove(at, &mut effects);
        let root_growth = root.growth_since(room);
        self.bytes = self.bytes.wrapping_add(effects.bytes).wrapping_sub(root_growth);
        effects
    }
}

/// Nodes with what their branch says of them.
fn with_columns<C: Node>(nodes: Vec<C>) -> impl ExactSizeIterator<Item = (u64, usize, C)> {
    nodes.into_iter().map(|node| (node.first(), node.count(), node))
}

/// Branches over all children, as alike as can be and with some room for more.
fn branches_over<C: Node>(
    mut children: impl ExactSizeIterator<Item = (u64, usize, C)>,
    bytes: &mut usize,
) -> Vec<Arc<Branch<C>>> {
    const CHILDREN: usize = MOST_CHILDREN / 8 * 7;
    let (mut left, mut branches_left) = (children.len(), children.len().div_ceil(CHILDREN));
    let mut branches = Vec::with_capacity(branches_left);
    while branches_left > 0 {
        let count = left.div_ceil(branches_left);
        branches.push(Arc::new(Branch::of_children(children.by_ref().take(count), bytes)));
        left -= count;
        branches_left -= 1;
    }
    branches
}
