//! Many edits below a branch in one pass.
//!
//! For: batches. Not for: single edits, which split and join as they go.
//!
//! ```text
//! lowest   edits in order ──► each leaf gets those from its first entry to the next leaf's
//!          leaves that vanish or divide are collected, and the columns written anew, once
//! others   children whose branch below was edited are counted again; those that have become
//!          empty are left out, those that have become two or more are put in
//! ```
//!
//! Invariants: those of `branch.rs`, afterwards; meanwhile a branch may have no children.
//! Cost: what its leaves cost; a column more where leaves have divided.

use super::{Branch, Effects, MOST_CHILDREN, Node, ROOM};
use crate::points::bulk::name::Texts;
use crate::points::leaf::{Edit, Leaf, MergeResult, Merger};
use crate::points::overflow::Overflow;

/// Children of a branch that is made among others at once: a sixteenth is left for later ones.
const CHILDREN_MADE: usize = MOST_CHILDREN / 16 * 15;
/// How many leaves ahead of the one being edited are asked for.
const AHEAD: usize = 2;

impl Branch<Leaf> {
    /// Applies edits that belong below this branch, in order. Removals that find nothing are
    /// appended to `missed`. The branch may have no children afterwards, or too many.
    pub(in crate::points) fn apply(
        &mut self,
        edits: &[Edit],
        texts: Texts<'_>,
        overflow: &Overflow,
        merger: &mut Merger,
        missed: &mut Vec<Edit>,
    ) {
        if self.children.is_empty() {
            *self = Branch::of(merger.gather(edits, texts, missed));
            return;
        }
        let mut ends = Vec::with_capacity(self.children.len());
        self.share_out(edits, texts, overflow, &mut ends);
        let mut divided: Vec<(usize, Vec<Leaf>)> = Vec::new();
        let mut start = 0;
        for (number, &(index, end)) in ends.iter().enumerate() {
            if let Some(&(later, _)) = ends.get(number + AHEAD) {
                self.children[later].prefetch_all();
            }
            let leaf = &mut self.children[index];
            match merger.merge(leaf, &edits[start..end], texts, overflow, missed) {
                MergeResult::Unchanged => {}
                MergeResult::Changed => {
                    self.firsts[index] = leaf.first();
                    self.counts[index] = leaf.len();
                }
                MergeResult::Divided(leaves) => divided.push((index, leaves)),
            }
            start = end;
        }
        self.replace_children(divided);
        self.join_all();
    }

    /// The leaves that edits belong to, and where the edits of each end.
    fn share_out(
        &self,
        edits: &[Edit],
        texts: Texts<'_>,
        overflow: &Overflow,
        ends: &mut Vec<(usize, usize)>,
    ) {
        let mut start = 0;
        while let Some(edit) = edits.get(start) {
            let index = self.child_for(edit.bits(), edit.member(texts), overflow).unwrap_or(0);
            let mut end = start + 1;
            match self.firsts.get(index + 1) {
                None => end = edits.len(),
                Some(&first) => {
                    let next = &self.children[index + 1];
                    let is_before = |edit: &Edit| {
                        edit.bits() < first
                            || edit.bits() == first
                                && edit.member(texts) < next.first_member(overflow)
                    };
                    while edits.get(end).is_some_and(is_before) {
                        end += 1;
                    }
                }
            }
            ends.push((index, end));
            start = end;
        }
    }
}

impl<C: Node> Branch<C> {
    /// A branch of these children, however many.
    pub(in crate::points) fn of(children: Vec<C>) -> Branch<C> {
        let mut branch = Branch::default();
        branch.reserve_all(children.len());
        for child in children {
            branch.push(child);
        }
        branch
    }

    /// Appends a child that has nothing below it yet.
    pub(in crate::points) fn push_empty(&mut self, child: C) {
        self.firsts.push(0);
        self.counts.push(0);
        self.children.push(child);
    }

    /// The children for writing; [`Branch::count_again`] is to follow.
    pub(in crate::points) fn children_mut(&mut self) -> &mut [C] {
        &mut self.children
    }

    /// Puts others into the places of some children, given in ascending order.
    pub(in crate::points) fn replace_children(&mut self, others: Vec<(usize, Vec<C>)>) {
        if others.is_empty() {
            return;
        }
        let more: usize = others.iter().map(|(_, children)| children.len()).sum();
        let mut replaced = Branch::default();
        replaced.reserve_all(self.children.len() - others.len() + more);
        let mut others = others.into_iter().peekable();
        let old = std::mem::take(self);
        let columns = old.firsts.into_iter().zip(old.counts).zip(old.children);
        for (index, ((first, count), child)) in columns.enumerate() {
            if let Some((_, children)) = others.next_if(|other| other.0 == index) {
                children.into_iter().for_each(|child| replaced.push(child));
                continue;
            }
            replaced.firsts.push(first);
            replaced.counts.push(count);
            replaced.children.push(child);
        }
        *self = replaced;
    }

    /// Reads the first cells and the counts from the children, none of which is empty.
    pub(in crate::points) fn count_again(&mut self) {
        for (index, child) in self.children.iter().enumerate() {
            self.firsts[index] = child.first();
            self.counts[index] = child.count();
        }
    }

    /// Joins all neighbours that are small together; returns how many bytes more the children
    /// take, modulo 2^64.
    pub(in crate::points) fn join_all(&mut self) -> usize {
        let is_small = |pair: &[usize]| pair[0] + pair[1] <= C::MOST_JOINED;
        let mut effects = Effects::default();
        if !self.counts.windows(2).any(is_small) {
            return 0;
        }
        let mut joined: Branch<C> = Branch::default();
        joined.reserve_all(self.children.len());
        let old = std::mem::take(self);
        for (count, child) in old.counts.into_iter().zip(old.children) {
            if let (Some(last), Some(last_count)) =
                (joined.children.last_mut(), joined.counts.last_mut())
                && *last_count + count <= C::MOST_JOINED
                && last.can_take(&child)
            {
                last.append(&child, &mut effects);
                effects.grow(child.memory_bytes(), 0);
                *last_count += count;
            } else {
                joined.push(child);
            }
        }
        *self = joined;
        effects.bytes
    }

    /// Cuts off what is more than a branch may have, in branches of about equal sizes.
    pub(in crate::points) fn cut_off(&mut self) -> Vec<Branch<C>> {
        let count = self.children.len();
        if count <= MOST_CHILDREN {
            return Vec::new();
        }
        let size = count.div_ceil(count.div_ceil(CHILDREN_MADE));
        let mut children = std::mem::take(self).children.into_iter();
        let mut branches = std::iter::from_fn(|| {
            let some: Vec<C> = children.by_ref().take(size).collect();
            (!some.is_empty()).then(|| Branch::of(some))
        });
        *self = branches.next().unwrap_or_default();
        branches.collect()
    }

    fn push(&mut self, child: C) {
        self.firsts.push(child.first());
        self.counts.push(child.count());
        self.children.push(child);
    }

    /// Makes the same room in all columns, as single insertions expect it.
    fn reserve_all(&mut self, count: usize) {
        let room = count.next_multiple_of(ROOM);
        self.firsts.reserve_exact(room);
        self.counts.reserve_exact(room);
        self.children.reserve_exact(room);
    }
}
