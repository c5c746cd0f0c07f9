//! Finding the box of a packet, singly and in batches.
//!
//! For: [`Dag::find`] and [`Dag::find_batch`]. Not for: turning boxes into rules.
//!
//! A batch goes level by level: every packet takes one step and asks for the cache line of its next
//! one, so that up to 64 misses are on their way together. Packets whose leaf is reached drop out of
//! the list of those that walk. Then the leaves' boxes are compared, in the order of arrival.

use super::{BATCH, BOX, Dag, EMPTY, LAST, LIST, PASSING, Root, SLOW, SURE, TAG};
use crate::classify::boxes::Keys;
use crate::classify::simd::{Line, Processor, numbers};
use whered_cpu::prefetch;
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
        let mut best = NO_BOX;
        for root in &self.roots {
            let mut to = root.table[(keys.0[root.lane] >> root.shift) as usize];
            while to < LIST {
                // The second line of a large node, which the first does not lead to any sooner.
                prefetch(&self.lines, (to & !TAG) as usize + 1);
                to = step(&self.lines, processor, keys, to);
            }
            best = self.compare(processor, keys, to, best, &ask, &mut passed);
        }
        best
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
        for root in &self.roots {
            let to = self.walk_batch(processor, root, count, keys);
            self.compare_batch(processor, &to[..count], keys, &ask, found);
        }
    }

    /// Brings every packet to its leaf.
    #[inline(always)]
    fn walk_batch<P: Processor>(
        &self,
        processor: P,
        root: &Root<Section<u32>>,
        count: usize,
        keys: &[Keys; BATCH],
    ) -> [u32; BATCH] {
        let lines: &[Line] = &self.lines;
        let mut to = [EMPTY; BATCH];
        let mut walking = [0u8; BATCH];
        let mut left = 0;
        for (place, to) in to.iter_mut().enumerate().take(count) {
            let slot = (keys[place % BATCH].0[root.lane] >> root.shift) as usize;
            prefetch(&root.table, slot);
            *to = slot as u32;
        }
        for (place, to) in to.iter_mut().enumerate().take(count) {
            let next = root.table[*to as usize];
            *to = next;
            prefetch_node(lines, next, 0);
            walking[left % BATCH] = place as u8;
            left += usize::from(next < LIST);
        }
        while left > 0 {
            let mut still = 0;
            for turn in 0..left {
                let place = walking[turn % BATCH] as usize % BATCH;
                let from = to[place];
                let next = step(lines, processor, &keys[place % BATCH], from);
                to[place] = next;
                prefetch_node(lines, next, from);
                walking[still % BATCH] = place as u8;
                still += usize::from(next < LIST);
            }
            left = still;
        }
        to
    }

    /// Compares the boxes of every packet's leaf: one of each in every round.
    #[inline(always)]
    fn compare_batch<P: Processor>(
        &self,
        processor: P,
        to: &[u32],
        keys: &[Keys; BATCH],
        ask: &impl Fn(usize, u32) -> bool,
        found: &mut Found,
    ) {
        let mut comparing = [0u8; BATCH];
        let mut marks = [0u32; BATCH];
        let mut places = [0u32; BATCH];
        let mut left = 0;
        for &to in to {
            let list = self.parts.lists + (to & !TAG) as usize / 16;
            prefetch(&self.lines, if to & TAG == LIST { list } else { self.record(to) });
        }
        for (place, &to) in to.iter().enumerate() {
            let is_list = to & TAG == LIST;
            let at = if is_list { to & !TAG } else { 0 };
            places[place] = at;
            let mark = if is_list { self.mark(at) } else { to };
            marks[place] = mark;
            prefetch(&self.lines, self.record(mark));
            comparing[left % BATCH] = place as u8;
            left += usize::from(mark & BOX < found.boxes[place]);
        }
        while left > 0 {
            let mut still = 0;
            for turn in 0..left {
                let place = comparing[turn % BATCH] as usize % BATCH;
                let mark = marks[place];
                let mut holds =
                    (mark & SURE != 0) | self.inside(processor, &keys[place % BATCH], mark);
                if mark & (SLOW | PASSING) != 0 {
                    holds = holds && (mark & SLOW == 0 || ask(place, mark & BOX));
                    if holds && mark & PASSING != 0 {
                        found.passed.push((place as u8, mark & BOX));
                        holds = false;
                    }
                }
                let best = if holds { mark & BOX } else { found.boxes[place] };
                found.boxes[place] = best;
                let at = places[place] + u32::from(mark & LAST == 0);
                places[place] = at;
                let next = self.mark(at);
                marks[place] = next;
                prefetch(&self.lines, self.record(next));
                comparing[still % BATCH] = place as u8;
                still += usize::from((mark & LAST == 0) & (next & BOX < best));
            }
            left = still;
        }
    }

    /// Nodes passed and boxes compared on the way of a packet that matches none of its leaves.
    pub(crate) fn accesses(&self, keys: &Keys) -> (usize, usize) {
        let (mut nodes, mut boxes) = (0, 0);
        for root in &self.roots {
            let mut to = root.table[(keys.0[root.lane] >> root.shift) as usize];
            while to < LIST {
                to = step(&self.lines, crate::classify::simd::Scalar, keys, to);
                nodes += 1;
            }
            let mut at = to & !TAG;
            boxes += usize::from(to != EMPTY);
            while to & TAG == LIST && self.mark(at) & LAST == 0 {
                at += 1;
                boxes += 1;
            }
        }
        (nodes, boxes)
    }

    /// A mark of a list.
    #[inline(always)]
    fn mark(&self, at: u32) -> u32 {
        let at = at as usize;
        numbers(&self.lines)[self.parts.lists * 16 + at]
    }

    /// The place of a mark's record.
    #[inline(always)]
    fn record(&self, mark: u32) -> usize {
        self.parts.records + (((mark & BOX) as usize) << u32::from(!self.narrow))
    }

    /// The first terminal box of a leaf that matches, if it is before `best`.
    #[inline(always)]
    fn compare<P: Processor>(
        &self,
        processor: P,
        keys: &Keys,
        to: u32,
        best: u32,
        ask: impl Fn(u32) -> bool,
        passed: &mut impl FnMut(u32),
    ) -> u32 {
        if to == EMPTY {
            return best;
        }
        let is_list = to & TAG == LIST;
        let mut at = to & !TAG;
        let mut mark = if is_list { self.mark(at) } else { to };
        loop {
            let number = mark & BOX;
            if number >= best {
                return best;
            }
            let holds = mark & SURE != 0 || self.inside(processor, keys, mark);
            if holds && (mark & SLOW == 0 || ask(number)) {
                if mark & PASSING == 0 {
                    return number;
                }
                passed(number);
            }
            if mark & LAST != 0 {
                return best;
            }
            at += 1;
            mark = self.mark(at);
        }
    }

    /// Whether the keys lie in a mark's box.
    #[inline(always)]
    fn inside<P: Processor>(&self, processor: P, keys: &Keys, mark: u32) -> bool {
        let at = self.record(mark);
        if self.narrow {
            processor.inside8(keys, &self.lines[at])
        } else {
            let pair: &[Line] = &self.lines[at..at + 2];
            processor.inside16(keys, &pair[0], &pair[1])
        }
    }
}

/// From a node to what it leads to.
#[inline(always)]
fn step<P: Processor>(lines: &[Line], processor: P, keys: &Keys, to: u32) -> u32 {
    let at = (to & !TAG) as usize;
    let large = (to >> 30) as usize;
    let line = &lines[at];
    let key = keys.0[line.0[0] as usize % 16];
    let rank = processor.rank(line, 0xfe | (large * 0xff00) as u16, key);
    numbers(lines)[at * 16 + (8 << large) + rank]
}

/// Asks for a node's lines; for a leaf, for those of the node `from` that are there already.
#[inline(always)]
fn prefetch_node(lines: &[Line], to: u32, from: u32) {
    let node = if to < LIST { to } else { from };
    let at = (node & !TAG) as usize;
    prefetch(lines, at);
    prefetch(lines, at + (node >> 30) as usize);
}
