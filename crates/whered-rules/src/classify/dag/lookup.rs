//! Finding the box of a packet, one at a time and in batches.
//!
//! For: [`Dag::find`] and [`Dag::find_batch`]. Not for: turning boxes into rules.
//!
//! A batch goes level by level: every packet takes one step and asks for the cache line of its next
//! one, so that up to 64 misses are on their way together. Packets whose leaf is reached drop out
//! of the list of those that walk. Then the leaves' boxes are compared, in the order of arrival.
#![allow(unsafe_code, reason = "a step reads without asking whether the place is inside")]

use super::graph::{Graph, Mark, Reference};
use super::{BATCH, BOX, Dag, Root};
use crate::classify::boxes::Keys;
use crate::classify::simd::Processor;
use whered_ip::image::Section;

/// The results of a batch, over all groups.
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

/// A packet of a batch that is on its way, and where it is: one number, so that a list of them is
/// read and written with one load and one store each.
#[derive(Clone, Copy, Default)]
struct Way(u64);

impl Way {
    #[inline(always)]
    fn new(packet: usize, at: u32) -> Way {
        Way((packet as u64) << 32 | u64::from(at))
    }

    #[inline(always)]
    fn packet(self) -> usize {
        (self.0 >> 32) as usize % BATCH
    }

    #[inline(always)]
    fn at(self) -> u32 {
        self.0 as u32
    }

    /// The packet at another node.
    #[inline(always)]
    fn to(self, at: u32) -> Way {
        Way(self.0 >> 32 << 32 | u64::from(at))
    }
}

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

    /// Like [`find`](Self::find), for up to [`BATCH`] packets; `keys` and `ask` know them by index.
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
        let mut walking = [Way::default(); BATCH];
        let mut left = 0;
        for (place, (to, keys)) in to.iter_mut().zip(keys).enumerate().take(count) {
            let next = root.first(keys);
            self.graph.prefetch(next);
            *to = next;
            walking[left % BATCH] = Way::new(place, next.to_u32());
            left += usize::from(next.is_node());
        }
        while left > 0 {
            let mut still = 0;
            for turn in 0..left {
                let way = walking[turn % BATCH];
                let (place, at) = (way.packet(), Reference::from_u32(way.at()));
                // SAFETY: only those that are at nodes walk, and all came from a root of this
                // graph.
                let next = unsafe { self.graph.step(processor, &keys[place], at) };
                self.graph.prefetch(next);
                to[place] = next;
                walking[still % BATCH] = way.to(next.to_u32());
                still += usize::from(next.is_node());
            }
            left = still;
        }
    }

    /// Compares the boxes of every packet's leaf: the only ones, then one of each list in every
    /// round.
    #[inline(always)]
    fn compare_batch<P: Processor>(
        &self,
        processor: P,
        to: &[Reference],
        keys: &[Keys; BATCH],
        ask: &impl Fn(usize, u32) -> bool,
        found: &mut Found,
    ) {
        let mut comparing = [Way::default(); BATCH];
        let mut lists = 0;
        for (place, ((&to, keys), best)) in to.iter().zip(keys).zip(&mut found.boxes).enumerate() {
            comparing[lists % BATCH] = Way::new(place, self.graph.word(to));
            lists += usize::from(to.is_list());
            // Of a list anything may be said: it is behind all records.
            let mark = to.mark();
            let mut holds = mark.is_sure() | self.graph.inside(processor, keys, mark);
            holds &= to.record_or_list() < *best;
            if to.is_special_box() {
                holds = self.special(holds, mark, place, ask, &mut found.passed);
            }
            *best = if holds { mark.record() } else { *best };
        }
        let mut left = 0;
        for turn in 0..lists {
            let way = comparing[turn % BATCH];
            let mark = self.graph.at(way.at());
            self.graph.prefetch_record(mark);
            comparing[left % BATCH] = way;
            left += usize::from(mark.record() < found.boxes[way.packet()]);
        }
        while left > 0 {
            let mut still = 0;
            for turn in 0..left {
                let way = comparing[turn % BATCH];
                let (place, mark) = (way.packet(), self.graph.at(way.at()));
                let mut holds = mark.is_sure() | self.graph.inside(processor, &keys[place], mark);
                if mark.is_special() {
                    holds = self.special(holds, mark, place, ask, &mut found.passed);
                }
                let best = if holds { mark.record() } else { found.boxes[place] };
                found.boxes[place] = best;
                // The mark behind a last one is read, and no more than that.
                let way = way.to(way.at() + 1);
                let next = self.graph.at(way.at());
                self.graph.prefetch_record(next);
                comparing[still % BATCH] = way;
                still += usize::from(!mark.is_last() & (next.record() < best));
            }
            left = still;
        }
    }

    /// Whether a box ends the search whose lanes hold, or not: its rule may be asked, and notes it
    /// where it does not end anything.
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
        if holds && mark.is_non_terminal() {
            passed.push((place as u8, number));
        }
        holds & !mark.is_non_terminal()
    }

    /// Nodes passed and boxes compared on the way of a packet that matches none of its leaves.
    pub(crate) fn accesses(&self, keys: &Keys) -> (usize, usize) {
        let (mut nodes, mut boxes) = (0, 0);
        for root in &self.roots {
            let mut to = root.first(keys);
            while to.is_node() {
                // SAFETY: it is a node, and where a root or a node of this graph leads to.
                to = unsafe { self.graph.step(whered_simd::Scalar, keys, to) };
                nodes += 1;
            }
            boxes += usize::from(self.graph.number(to.mark().record()) != self.boxes);
            if to.is_list() {
                let mut word = self.graph.word(to);
                let mut mark = self.graph.at(word);
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
            word = self.graph.word(to);
            mark = self.graph.at(word);
        }
        loop {
            let record = mark.record();
            if record >= best {
                return best;
            }
            let holds = mark.is_sure() || self.graph.inside(processor, keys, mark);
            if holds && (!mark.is_slow() || ask(self.graph.number(record))) {
                if !mark.is_non_terminal() {
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
