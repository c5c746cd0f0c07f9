//! Finding the box of a packet, singly and in batches.
//!
//! For: [`Dag::find`] and [`Dag::find_batch`]. Not for: turning boxes into rules.
//!
//! A batch goes level by level: every packet takes one step and asks for the cache line of its next
//! one, so that up to 64 misses are on their way together. Packets whose leaf is reached drop out of
//! the list of those that walk. Then the leaves' boxes are compared, in the order of arrival.
#![allow(unsafe_code, reason = "a step reads without asking whether the place is inside")]

use super::graph::{Graph, Mark, Reference};
use super::{BATCH, BOX, Dag, Root};
use crate::classify::boxes::Keys;
use crate::classify::simd::{Processor, Scalar};
use whered_ip::image::Section;

/// What was found for a batch, over all groups.
pub(crate) struct Found {
    /// The first terminal box of each packet, or [`BOX`].
    pub(crate) boxes: [u32; BATCH],
    /// Boxes that matched and do not end the search: packet and box. Those behind the terminal
    /// one may be among them.
    pub(crate) passed: Vec<(u8, u32)>,
}

impl Found {
    /// Nothing is found yet.
    pub(crate) fn new() -> Found {
        Found { boxes: [BOX; BATCH], passed: Vec::new() }
    }
}

/// No terminal box.
pub(crate) const NO_BOX: u32 = BOX;

impl Dag {
    /// The first terminal box that matches, or [`NO_BOX`]. Every one that does not end the search
    /// is given to `passed`, some of them perhaps from behind the terminal one.
    #[inline(always)]
    pub(crate) fn find<P: Processor>(
        &self,
        processor: P,
        keys: &Keys,
        ask: impl Fn(u32) -> bool,
        mut passed: impl FnMut(u32),
    ) -> u32 {
        let mut best = Graph::NO_RECORD;
        for root in &self.roots {
            let mut to = root.first(keys);
            while to.is_node() {
                // The second line of a large node, which the first does not lead to any sooner.
                self.graph.prefetch(to);
                // SAFETY: it is a node, and where a root or a node of this graph leads to.
                to = unsafe { self.graph.step(processor, keys, to) };
            }
            best = self.compare(processor, keys, to, best, &ask, &mut passed);
        }
        self.number(best)
    }

    /// The same for up to [`BATCH`] packets; `keys` and `ask` know them by their place.
    #[inline(always)]
    pub(crate) fn find_batch<P: Processor>(
        &self,
        processor: P,
        count: usize,
        keys: &[Keys; BATCH],
        ask: impl Fn(usize, u32) -> bool,
        found: &mut Found,
    ) {
        found.boxes = [Graph::NO_RECORD; BATCH];
        for root in &self.roots {
            let mut to = [self.graph.nowhere(); BATCH];
            self.walk_batch(processor, root, count, keys, &mut to);
            self.compare_batch(processor, &to[..count], keys, &ask, found);
        }
        for best in &mut found.boxes {
            *best = self.number(*best);
        }
    }

    /// Brings every packet to its leaf.
    #[inline(always)]
    fn walk_batch<P: Processor>(
        &self,
        processor: P,
        root: &Root<Section<Reference>>,
        count: usize,
        keys: &[Keys; BATCH],
        to: &mut [Reference; BATCH],
    ) {
        let mut walking = [0u8; BATCH];
        let mut left = 0;
        for (place, to) in to.iter_mut().enumerate().take(count) {
            let next = root.first(&keys[place]);
            self.graph.prefetch(next);
            *to = next;
            walking[left % BATCH] = place as u8;
            left += usize::from(next.is_node());
        }
        while left > 0 {
            let mut still = 0;
            for turn in 0..left {
                let place = walking[turn % BATCH] as usize % BATCH;
                // SAFETY: only those that are at nodes walk, and all came from a root of this graph.
                let next = unsafe { self.graph.step(processor, &keys[place], to[place]) };
                self.graph.prefetch(next);
                to[place] = next;
                walking[still % BATCH] = place as u8;
                still += usize::from(next.is_node());
            }
            left = still;
        }
    }

    /// Compares the boxes of every packet's leaf: the only ones, then one of each list in every round.
    #[inline(always)]
    fn compare_batch<P: Processor>(
        &self,
        processor: P,
        to: &[Reference],
        keys: &[Keys; BATCH],
        ask: &impl Fn(usize, u32) -> bool,
        found: &mut Found,
    ) {
        let mut comparing = [0u8; BATCH];
        let mut marks = [self.graph.nowhere().mark(); BATCH];
        let mut words = [0u32; BATCH];
        let mut left = 0;
        for (place, &to) in to.iter().enumerate() {
            let (first, word) = self.graph.first(to);
            let (is_list, only) = (to.is_list(), to.mark());
            // Of a list's own line anything may be said.
            let mut holds =
                !is_list & (only.is_sure() | self.graph.inside(processor, &keys[place], only));
            let before = found.boxes[place];
            holds &= only.record() < before;
            if !is_list & only.is_special() {
                holds = self.special(holds, only, place, ask, &mut found.passed);
            }
            found.boxes[place] = if holds { only.record() } else { before };
            let mark = if is_list { first } else { only };
            self.graph.prefetch_record(mark);
            marks[place] = mark;
            words[place] = word;
            comparing[left % BATCH] = place as u8;
            left += usize::from(is_list & (mark.record() < before));
        }
        while left > 0 {
            let mut still = 0;
            for turn in 0..left {
                let place = comparing[turn % BATCH] as usize % BATCH;
                let mark = marks[place];
                let mut holds = mark.is_sure() | self.graph.inside(processor, &keys[place], mark);
                if mark.is_special() {
                    holds = self.special(holds, mark, place, ask, &mut found.passed);
                }
                let best = if holds { mark.record() } else { found.boxes[place] };
                found.boxes[place] = best;
                let word = words[place] + u32::from(!mark.is_last());
                words[place] = word;
                let next = if mark.is_last() { mark } else { self.graph.at(word) };
                marks[place] = next;
                self.graph.prefetch_record(next);
                comparing[still % BATCH] = place as u8;
                still += usize::from(!mark.is_last() & (next.record() < best));
            }
            left = still;
        }
    }

    /// Whether a box ends the search whose lanes hold, or not: its rule may be asked, and notes it where
    /// it does not end anything.
    #[inline(always)]
    fn special(
        &self,
        holds: bool,
        mark: Mark,
        place: usize,
        ask: &impl Fn(usize, u32) -> bool,
        passed: &mut Vec<(u8, u32)>,
    ) -> bool {
        let number = self.graph.number(mark.record());
        let holds = holds && (!mark.is_slow() || ask(place, number));
        if holds && mark.is_passing() {
            passed.push((place as u8, number));
        }
        holds & !mark.is_passing()
    }

    /// Nodes passed and boxes compared on the way of a packet that matches none of its leaves.
    pub(crate) fn accesses(&self, keys: &Keys) -> (usize, usize) {
        let (mut nodes, mut boxes) = (0, 0);
        for root in &self.roots {
            let mut to = root.first(keys);
            while to.is_node() {
                // SAFETY: it is a node, and where a root or a node of this graph leads to.
                to = unsafe { self.graph.step(Scalar, keys, to) };
                nodes += 1;
            }
            boxes += usize::from(self.graph.number(to.mark().record()) != self.boxes);
            if to.is_list() {
                let (mut mark, mut word) = self.graph.first(to);
                while !mark.is_last() {
                    word += 1;
                    boxes += 1;
                    mark = self.graph.at(word);
                }
            }
        }
        (nodes, boxes)
    }

    /// The box of the best record.
    #[inline(always)]
    fn number(&self, best: u32) -> u32 {
        if best == Graph::NO_RECORD { NO_BOX } else { self.graph.number(best) }
    }

    /// The first terminal box of a leaf that matches, if it is before `best`; by their records.
    #[inline(always)]
    fn compare<P: Processor>(
        &self,
        processor: P,
        keys: &Keys,
        to: Reference,
        best: u32,
        ask: impl Fn(u32) -> bool,
        passed: &mut impl FnMut(u32),
    ) -> u32 {
        let (mut mark, mut word) = (to.mark(), 0);
        if to.is_list() {
            (mark, word) = self.graph.first(to);
        }
        loop {
            let record = mark.record();
            if record >= best {
                return best;
            }
            let holds = mark.is_sure() || self.graph.inside(processor, keys, mark);
            if holds && (!mark.is_slow() || ask(self.graph.number(record))) {
                if !mark.is_passing() {
                    return record;
                }
                passed(self.graph.number(record));
            }
            if mark.is_last() {
                return best;
            }
            word += 1;
            mark = self.graph.at(word);
        }
    }
}

impl Root<Section<Reference>> {
    /// Where a packet begins.
    #[inline(always)]
    fn first(&self, keys: &Keys) -> Reference {
        self.table[(keys.0[self.lane] >> self.shift) as usize]
    }
}
