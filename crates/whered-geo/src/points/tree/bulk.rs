//! Many edits of the tree in one pass, by several threads.
//!
//! For: batches. Not for: finding out which edits a batch means (`bulk/`).
//!
//! ```text
//! Lanes    first entry of each lowest branch ──► the lane of an edit
//! edits    those of each lane, in no order ──► sorted, applied by one thread
//! above    middle branches and the root are written anew where lanes have been edited
//! ```
//!
//! Concurrency: lanes are disjoint. What a frozen view holds is copied as by single edits.
//! Cost: each leaf that is edited is read and written once.

use std::sync::Arc;

use super::{Lowest, Middle, Tree};
use crate::points::branch::{Branch, Node, own};
use crate::points::bulk::name::{BatchName, Texts};
use crate::points::bulk::work_off;
use crate::points::leaf::{Edit, Edits, Leaf, Merger, Sorter};
use crate::points::overflow::Overflow;

/// The lowest branches in their order, each of which one thread edits.
#[derive(Debug)]
pub(in crate::points) struct Lanes<'a> {
    firsts: Vec<u64>,
    branches: Vec<&'a Lowest>,
    overflow: &'a Overflow,
}

impl Lanes<'_> {
    /// The number of lanes; an empty tree has one.
    pub(in crate::points) fn count(&self) -> usize {
        self.branches.len().max(1)
    }

    /// The lane of an edit.
    #[inline]
    pub(in crate::points) fn lane<N: BatchName>(&self, edit: &Edit<N>, texts: Texts<'_>) -> usize {
        let bits = edit.bits();
        let at = self.firsts.partition_point(|&first| first < bits);
        if self.firsts.get(at) == Some(&bits) {
            return self.lane_among_equals(at, bits, edit.name().bytes(texts));
        }
        at.saturating_sub(1)
    }

    /// Lanes that begin in one cell are told apart by their first members.
    #[cold]
    fn lane_among_equals(&self, at: usize, bits: u64, member: &[u8]) -> usize {
        let equals = self.firsts[at..].partition_point(|&first| first == bits);
        let is_before = |branch: &&Lowest| branch.first_member(self.overflow) <= member;
        let lane = at + self.branches[at..at + equals].partition_point(is_before);
        lane.saturating_sub(1)
    }
}

/// The edits of a lane.
struct Task<'t> {
    lane: usize,
    branch: &'t mut Lowest,
}

/// The state of a thread between lanes, and its results.
#[derive(Default)]
struct ThreadState {
    merger: Merger,
    sorter: Sorter,
    missed: Vec<Edit>,
    /// Branches to be put in after those of lanes.
    more: Vec<(usize, Vec<Branch<Leaf>>)>,
    growth: SizeChange,
}

/// How much more there is, modulo 2^64.
#[derive(Default)]
struct SizeChange {
    entries: usize,
    bytes: usize,
}

impl SizeChange {
    fn before<C: Node>(&mut self, branch: &Branch<C>) {
        self.entries = self.entries.wrapping_sub(branch.counts().iter().sum());
        self.bytes = self.bytes.wrapping_sub(memory_bytes(branch));
    }

    fn after<C: Node>(&mut self, branch: &Branch<C>) {
        self.entries = self.entries.wrapping_add(branch.counts().iter().sum());
        self.bytes = self.bytes.wrapping_add(memory_bytes(branch));
    }
}

/// Memory of a branch and its children, but not of what is below these; none if it is empty.
fn memory_bytes<C: Node>(branch: &Branch<C>) -> usize {
    let children: usize = branch.children().iter().map(C::memory_bytes).sum();
    if children == 0 { 0 } else { branch.memory_bytes() + children }
}

impl Tree {
    /// The lanes as they are now.
    pub(in crate::points) fn lanes(&self) -> Lanes<'_> {
        let middles = self.root.children().iter();
        let firsts = middles.clone().flat_map(|middle| middle.firsts()).copied().collect();
        let branches = middles.flat_map(|middle| middle.children()).collect();
        Lanes { firsts, branches, overflow: &self.overflow }
    }

    /// Applies edits, given by lane, in any number of pieces. Returns the removals that found
    /// nothing.
    pub(in crate::points) fn apply(
        &mut self,
        pieces: &[Edits],
        texts: Texts<'_>,
        threads: usize,
    ) -> Vec<Edit> {
        let is_edited = |lane: usize| pieces.iter().any(|piece| piece.len(lane) > 0);
        if !(0..pieces.first().map_or(0, Edits::lanes)).any(is_edited) {
            return Vec::new();
        }
        let overflow = Arc::clone(&self.overflow);
        let root = own(&mut self.root);
        if root.children().is_empty() {
            *root = Branch::of_empty();
        }
        let mut touched = Vec::new();
        let mut tasks = Vec::new();
        let mut next_lane = 0;
        let mut growth = SizeChange::default();
        for (index, middle) in root.children_mut().iter_mut().enumerate() {
            let lanes = next_lane..next_lane + middle.children().len();
            next_lane = lanes.end;
            if !lanes.clone().any(is_edited) {
                continue;
            }
            touched.push((index, lanes.start));
            growth.bytes = growth.bytes.wrapping_sub(middle_bytes(middle));
            for (lane, branch) in lanes.zip(own(middle).children_mut()) {
                if is_edited(lane) {
                    tasks.push(Task { lane, branch });
                }
            }
        }
        let kept = work_off(threads, tasks, ThreadState::default, |kept, task| {
            kept.sorter.sort(pieces, task.lane, texts);
            kept.work(task, texts, &overflow);
        });
        self.gather(touched, kept, growth)
    }

    /// Writes the upper branches anew, with what the threads have left to be put in.
    fn gather(
        &mut self,
        touched: Vec<(usize, usize)>,
        kept: Vec<ThreadState>,
        mut growth: SizeChange,
    ) -> Vec<Edit> {
        let (mut missed, mut more) = (Vec::new(), Vec::new());
        for one in kept {
            growth.entries = growth.entries.wrapping_add(one.growth.entries);
            growth.bytes = growth.bytes.wrapping_add(one.growth.bytes);
            missed.extend(one.missed);
            more.extend(one.more);
        }
        more.sort_unstable_by_key(|(lane, _)| *lane);
        let mut more = more.into_iter().peekable();
        let root = own(&mut self.root);
        let mut others = Vec::new();
        for (index, first_lane) in touched {
            let middle = own(&mut root.children_mut()[index]);
            let mut lowest = Vec::new();
            for (child, branch) in middle.children_mut().iter().enumerate() {
                let added = more.next_if(|(lane, _)| *lane == first_lane + child);
                if added.is_none() && !branch.children().is_empty() {
                    continue;
                }
                let own = Some(Arc::clone(branch)).filter(|own| !own.children().is_empty());
                let added = added.into_iter().flat_map(|(_, more)| more).map(Arc::new);
                lowest.push((child, own.into_iter().chain(added).collect()));
            }
            middle.replace_children(lowest);
            middle.count_again();
            growth.bytes = growth.bytes.wrapping_add(middle.join_all());
            let mut middles = vec![std::mem::take(middle)];
            let cut_off = middles[0].cut_off();
            middles.extend(cut_off);
            middles.retain(|middle| !middle.children().is_empty());
            let middles: Vec<Middle> = middles.into_iter().map(Arc::new).collect();
            let bytes: usize = middles.iter().map(middle_bytes).sum();
            growth.bytes = growth.bytes.wrapping_add(bytes);
            others.push((index, middles));
        }
        root.replace_children(others);
        self.len = self.len.wrapping_add(growth.entries);
        self.bytes = self.bytes.wrapping_add(growth.bytes);
        missed
    }
}

/// Memory of a middle branch alone; none if there is nothing below it.
fn middle_bytes(middle: &Middle) -> usize {
    let is_empty = middle.children().iter().all(|lowest| lowest.children().is_empty());
    if is_empty { 0 } else { Node::memory_bytes(middle) }
}

impl ThreadState {
    /// Applies the edits that have been sorted.
    fn work(&mut self, task: Task<'_>, texts: Texts<'_>, overflow: &Overflow) {
        let Task { lane, branch } = task;
        let branch = own(branch);
        self.growth.before(branch);
        let edits = self.sorter.sorted();
        branch.apply(edits, texts, overflow, &mut self.merger, &mut self.missed);
        let more = branch.cut_off();
        self.growth.after(branch);
        more.iter().for_each(|branch| self.growth.after(branch));
        if !more.is_empty() {
            self.more.push((lane, more));
        }
    }
}

impl Branch<Middle> {
    /// One lane without any leaf.
    fn of_empty() -> Branch<Middle> {
        let mut middle = Branch::default();
        middle.push_empty(Lowest::default());
        let mut root = Branch::default();
        root.push_empty(Middle::new(middle));
        root
    }
}
