//! Inner nodes: up to 128 children with their first cells and their numbers of entries.
//!
//! For: edits that follow a position from the top to a leaf and keep the tree balanced on the way
//! back. Not for: finding the position (`lookup.rs`).
//!
//! ```text
//! Branch   firsts    │ c0 │ c1 │ c2 │ ...     u64, the first cell below each child
//!          counts    │ n0 │ n1 │ n2 │ ...     entries below each child
//!          children  │ *  │ *  │ *  │ ...     leaves, or branches counted by reference
//! ```
//!
//! Invariants: `firsts` and `counts` repeat what is below; no child is empty; a branch has at most
//! [`MOST_CHILDREN`] children, but for the root, which has as many as it takes.
//! Concurrency: a branch that somebody else holds is copied before it is changed, which counts
//! one reference more for each child; their headers are asked for beforehand, so that the caches
//! are waited for once and not 128 times.
//! Cost: an edit walks three branches down and up; a split moves 64 children.

mod bulk;

use std::sync::Arc;

use super::leaf::{Leaf, MOST_ENTRIES};
use super::memory;
use super::overflow::{Overflow, Text};
use super::tree::Position;

/// The most children of a branch.
pub(super) const MOST_CHILDREN: usize = 128;
/// How many children a branch makes room for at a time.
const ROOM: usize = 8;

/// An inner node.
#[derive(Debug)]
pub(crate) struct Branch<C> {
    firsts: Vec<u64>,
    counts: Vec<usize>,
    children: Vec<C>,
}

/// An entry to be inserted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    pub(super) bits: u64,
    pub(super) text: Text<'a>,
}

/// The other effects of an edit.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// Bytes that the tree has more, modulo 2^64.
    pub(super) bytes: usize,
    /// Whether leaves or branches were split, joined or dropped, so that positions found before
    /// mean nothing any more.
    pub(super) reshaped: bool,
}

impl Effects {
    fn grow(&mut self, before: usize, after: usize) {
        self.bytes = self.bytes.wrapping_add(after).wrapping_sub(before);
    }
}

/// A leaf or a branch with what is below it.
pub(super) trait Node: Clone {
    /// Branches below and including this one; where in a position's path the own child stands.
    const HEIGHT: usize;
    /// Neighbours that have more entries together are not joined, which can be told without
    /// reading them.
    const MOST_JOINED: usize;
    /// A node with nothing but this leaf.
    fn of_leaf(leaf: Leaf) -> Self;
    /// The number of entries.
    fn count(&self) -> usize;
    /// The cell of the first entry.
    fn first(&self) -> u64;
    /// The member of the first entry.
    fn first_member<'a>(&'a self, overflow: &'a Overflow) -> &'a [u8];
    /// Inserts an entry; returns the upper half if there are two now.
    fn insert(&mut self, at: Position, entry: Entry<'_>, effects: &mut Effects) -> Option<Self>;
    /// Removes an entry; true if it was the only one, and the node is to be dropped as a whole.
    fn remove(&mut self, at: Position, effects: &mut Effects) -> bool;
    /// Gives an entry another cell within its leaf.
    fn relocate(&mut self, from: Position, to_slot: usize, bits: u64, effects: &mut Effects);
    /// Whether the next node may be appended.
    fn can_take(&self, next: &Self) -> bool;
    /// Appends the next node.
    fn append(&mut self, next: &Self, effects: &mut Effects);
    /// Own memory, without what is below.
    fn memory_bytes(&self) -> usize;
    /// Asks for what a new reference to the node touches.
    fn prefetch(&self);
}

impl Node for Leaf {
    const HEIGHT: usize = 0;
    const MOST_JOINED: usize = MOST_ENTRIES / 4 * 3;

    fn of_leaf(leaf: Leaf) -> Leaf {
        leaf
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn first(&self) -> u64 {
        self.first()
    }

    fn first_member<'a>(&'a self, overflow: &'a Overflow) -> &'a [u8] {
        self.member(0, overflow)
    }

    fn insert(&mut self, at: Position, entry: Entry<'_>, effects: &mut Effects) -> Option<Leaf> {
        let before = self.memory_bytes();
        let slot = at.slot();
        let upper = self.is_full_for(entry.text).then(|| {
            effects.reshaped = true;
            let cut = self.cut_for(slot);
            let mut upper = self.cut(cut);
            if slot >= cut {
                upper.insert(slot - cut, entry.bits, entry.text);
            } else {
                Leaf::insert(self, slot, entry.bits, entry.text);
            }
            upper
        });
        if upper.is_none() {
            Leaf::insert(self, slot, entry.bits, entry.text);
        }
        effects.grow(before, self.memory_bytes());
        upper
    }

    fn remove(&mut self, at: Position, effects: &mut Effects) -> bool {
        if self.len() == 1 {
            return true;
        }
        let before = self.memory_bytes();
        Leaf::remove(self, at.slot());
        effects.grow(before, self.memory_bytes());
        false
    }

    fn relocate(&mut self, from: Position, to_slot: usize, bits: u64, effects: &mut Effects) {
        let before = self.memory_bytes();
        Leaf::relocate(self, from.slot(), to_slot, bits);
        effects.grow(before, self.memory_bytes());
    }

    fn can_take(&self, next: &Leaf) -> bool {
        Leaf::can_take(self, next)
    }

    fn append(&mut self, next: &Leaf, effects: &mut Effects) {
        let before = self.memory_bytes();
        Leaf::append(self, next);
        effects.grow(before, self.memory_bytes());
    }

    fn memory_bytes(&self) -> usize {
        Leaf::memory_bytes(self)
    }

    fn prefetch(&self) {
        self.prefetch_header();
    }
}

impl<C: Node> Node for Arc<Branch<C>> {
    const HEIGHT: usize = C::HEIGHT + 1;
    const MOST_JOINED: usize = MOST_CHILDREN / 2 * C::MOST_JOINED;

    fn of_leaf(leaf: Leaf) -> Self {
        let mut branch = Branch::default();
        branch.insert_child(0, C::of_leaf(leaf));
        Arc::new(branch)
    }

    fn count(&self) -> usize {
        self.counts.iter().sum()
    }

    fn first(&self) -> u64 {
        self.firsts[0]
    }

    fn first_member<'a>(&'a self, overflow: &'a Overflow) -> &'a [u8] {
        self.children[0].first_member(overflow)
    }

    fn insert(&mut self, at: Position, entry: Entry<'_>, effects: &mut Effects) -> Option<Self> {
        let branch = own(self);
        branch.insert(at, entry, effects);
        if branch.children.len() <= MOST_CHILDREN {
            return None;
        }
        let before = branch.memory_bytes();
        let upper = branch.split(at.index(Self::HEIGHT));
        effects.grow(before, branch.memory_bytes());
        Some(Arc::new(upper))
    }

    fn remove(&mut self, at: Position, effects: &mut Effects) -> bool {
        own(self).remove(at, effects)
    }

    fn relocate(&mut self, from: Position, to_slot: usize, bits: u64, effects: &mut Effects) {
        own(self).relocate(from, to_slot, bits, effects);
    }

    fn can_take(&self, next: &Self) -> bool {
        self.children.len() + next.children.len() <= MOST_CHILDREN / 2
    }

    fn append(&mut self, next: &Self, effects: &mut Effects) {
        let branch = own(self);
        let before = branch.memory_bytes();
        branch.firsts.extend_from_slice(&next.firsts);
        branch.counts.extend_from_slice(&next.counts);
        branch.children.extend_from_slice(&next.children);
        effects.grow(before, branch.memory_bytes());
    }

    fn memory_bytes(&self) -> usize {
        Branch::memory_bytes(self)
    }

    fn prefetch(&self) {
        self.prefetch_columns();
    }
}

/// The branch for writing: a copy if somebody else holds it.
pub(super) fn own<C: Node>(branch: &mut Arc<Branch<C>>) -> &mut Branch<C> {
    if Arc::strong_count(branch) > 1 {
        branch.children.iter().for_each(C::prefetch);
    }
    Arc::make_mut(branch)
}

/// A copy has as much room, so that the account of the tree holds for it too.
impl<C: Clone> Clone for Branch<C> {
    fn clone(&self) -> Branch<C> {
        let mut copy = Branch {
            firsts: Vec::with_capacity(self.firsts.capacity()),
            counts: Vec::with_capacity(self.counts.capacity()),
            children: Vec::with_capacity(self.children.capacity()),
        };
        copy.firsts.extend_from_slice(&self.firsts);
        copy.counts.extend_from_slice(&self.counts);
        copy.children.extend_from_slice(&self.children);
        copy
    }
}

impl<C> Default for Branch<C> {
    fn default() -> Branch<C> {
        Branch { firsts: Vec::new(), counts: Vec::new(), children: Vec::new() }
    }
}

impl<C> Branch<C> {
    /// The first cell below each child.
    pub(super) fn firsts(&self) -> &[u64] {
        &self.firsts
    }

    /// The number of entries below each child.
    pub(super) fn counts(&self) -> &[usize] {
        &self.counts
    }

    /// The children.
    pub(super) fn children(&self) -> &[C] {
        &self.children
    }

    /// Asks for the columns' places.
    pub(super) fn prefetch_columns(&self) {
        whered_simd::prefetch(std::slice::from_ref(self), 0);
    }

    /// Asks for the first cells.
    pub(super) fn prefetch_firsts(&self) {
        for line in (0..self.firsts.len()).step_by(8) {
            whered_simd::prefetch(&self.firsts, line);
        }
    }

    /// The bytes that the allocator takes for the branch and its columns.
    pub(super) fn memory_bytes(&self) -> usize {
        Self::bytes_of_room(self.room())
    }

    /// The room of each column, on which the branch's memory depends alone.
    pub(super) fn room(&self) -> [usize; 3] {
        [self.firsts.capacity(), self.counts.capacity(), self.children.capacity()]
    }

    /// How much more memory the branch has than with this room, modulo 2^64.
    pub(super) fn growth_since(&self, room: [usize; 3]) -> usize {
        if self.room() == room {
            return 0;
        }
        self.memory_bytes().wrapping_sub(Self::bytes_of_room(room))
    }

    fn bytes_of_room([firsts, counts, children]: [usize; 3]) -> usize {
        memory::allocated_shared(size_of::<Self>())
            + memory::allocated_room::<u64>(firsts)
            + memory::allocated_room::<usize>(counts)
            + memory::allocated_room::<C>(children)
    }
}

impl<C: Node> Branch<C> {
    /// A branch over children with their first cells and numbers of entries; adds their memory.
    pub(super) fn of_children(
        children: impl ExactSizeIterator<Item = (u64, usize, C)>,
        bytes: &mut usize,
    ) -> Branch<C> {
        let room = children.len().next_multiple_of(ROOM);
        let mut branch = Branch {
            firsts: Vec::with_capacity(room),
            counts: Vec::with_capacity(room),
            children: Vec::with_capacity(room),
        };
        for (first, count, child) in children {
            *bytes += child.memory_bytes();
            branch.firsts.push(first);
            branch.counts.push(count);
            branch.children.push(child);
        }
        branch
    }

    /// The last child that begins at or before the wanted entry, or the first child; `None` if
    /// there is no child.
    #[inline(always)]
    pub(super) fn child_for(&self, bits: u64, member: &[u8], overflow: &Overflow) -> Option<usize> {
        let mut low = self.firsts.partition_point(|&first| first < bits);
        if self.firsts.get(low) == Some(&bits) {
            // Children that begin in the wanted cell are told apart by their first members.
            let mut high = low + self.firsts[low..].partition_point(|&first| first == bits);
            while low < high {
                let middle = low + (high - low) / 2;
                if self.children[middle].first_member(overflow) <= member {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
        }
        if self.children.is_empty() { None } else { Some(low.saturating_sub(1)) }
    }

    /// Inserts an entry, without a limit for the children.
    pub(super) fn insert(&mut self, at: Position, entry: Entry<'_>, effects: &mut Effects) {
        let index = at.index(C::HEIGHT + 1);
        let upper = self.children[index].insert(at, entry, effects);
        self.counts[index] += 1;
        self.set_first(index, self.firsts[index].min(entry.bits));
        if let Some(upper) = upper {
            let before = self.memory_bytes();
            self.counts[index] -= upper.count();
            effects.grow(0, upper.memory_bytes());
            self.insert_child(index + 1, upper);
            effects.grow(before, self.memory_bytes());
        }
    }

    /// Removes an entry; true if the branch has no children any more.
    pub(super) fn remove(&mut self, at: Position, effects: &mut Effects) -> bool {
        let index = at.index(C::HEIGHT + 1);
        let is_empty = self.children[index].remove(at, effects);
        if is_empty {
            self.drop_child(index, effects);
            return self.children.is_empty();
        }
        self.counts[index] -= 1;
        self.set_first(index, self.children[index].first());
        self.join(index, effects);
        false
    }

    /// Gives an entry another cell within its leaf.
    pub(super) fn relocate(
        &mut self,
        from: Position,
        to_slot: usize,
        bits: u64,
        effects: &mut Effects,
    ) {
        let index = from.index(C::HEIGHT + 1);
        self.children[index].relocate(from, to_slot, bits, effects);
        self.set_first(index, self.children[index].first());
    }

    /// Says where a child begins, if it is not said already: what nobody writes stays in the caches
    /// of all cores.
    fn set_first(&mut self, index: usize, first: u64) {
        if self.firsts[index] != first {
            self.firsts[index] = first;
        }
    }

    /// Puts a child before the one at this index.
    pub(super) fn insert_child(&mut self, index: usize, child: C) {
        if self.children.len() == self.children.capacity() {
            self.firsts.reserve_exact(ROOM);
            self.counts.reserve_exact(ROOM);
            self.children.reserve_exact(ROOM);
        }
        self.firsts.insert(index, child.first());
        self.counts.insert(index, child.count());
        self.children.insert(index, child);
    }

    fn drop_child(&mut self, index: usize, effects: &mut Effects) {
        effects.reshaped = true;
        let before = self.memory_bytes() + self.children[index].memory_bytes();
        self.firsts.remove(index);
        self.counts.remove(index);
        self.children.remove(index);
        effects.grow(before, self.memory_bytes());
    }

    /// Joins a child that has become small with the one after or before it.
    fn join(&mut self, index: usize, effects: &mut Effects) {
        let fits = |lower: usize| {
            self.counts.get(lower + 1).is_some_and(|count| {
                self.counts[lower] + count <= C::MOST_JOINED
                    && self.children[lower].can_take(&self.children[lower + 1])
            })
        };
        let lower = if fits(index) {
            index
        } else if index > 0 && fits(index - 1) {
            index - 1
        } else {
            return;
        };
        let upper = self.children[lower + 1].clone();
        self.children[lower].append(&upper, effects);
        self.counts[lower] += self.counts[lower + 1];
        self.drop_child(lower + 1, effects);
    }

    /// Cuts off the upper half; little, if the last child was inserted last.
    fn split(&mut self, grown: usize) -> Branch<C> {
        let len = self.children.len();
        let at = if grown + 2 >= len { len - len / 16 } else { len / 2 };
        let upper = Branch {
            firsts: self.firsts[at..].to_vec(),
            counts: self.counts[at..].to_vec(),
            children: self.children[at..].to_vec(),
        };
        self.firsts.truncate(at);
        self.counts.truncate(at);
        self.children.truncate(at);
        upper
    }
}
