//! Cutting groups of boxes into graphs.
//!
//! For: [`Dag::build`]. Not for: choosing groups and limits (`plan.rs`).
//!
//! A node stands for a set of boxes, in order, and the lanes not yet cut. Cutting a lane at all
//! ends of the boxes gives intervals within which every box either holds or is gone, so the lane is
//! done with. Which lane: the one after which the mean set is smallest, each interval counted as
//! often as boxes reach into it, since that is where packets go that were meant by some rule.
//!
//! Cost: time and memory in proportion to all sets made; both are limited, since for some rules
//! they explode. Depth of the recursion: the number of lanes.

use super::nodes::{Interval, Nodes};
use super::{BOX, Dag, EMPTY, Group, PASSING, Root, SLOW, SURE};
use crate::classify::boxes::Boxes;
use crate::classify::hash::Map;

/// Sets up to this size are searched for boxes that others cover.
const COVER_SEARCH: usize = 48;

/// The budget of building.
pub(crate) struct Limits<'a> {
    /// Bytes of the result.
    pub(crate) bytes: usize,
    /// Bytes of tables that are thrown away afterwards.
    pub(crate) building_bytes: usize,
    /// Sets of at most this many boxes are not cut any further.
    pub(crate) leaf: usize,
    /// Bits of the first table, at most.
    pub(crate) root_bits: u32,
    /// RuleAnswer now and then: true gives up.
    pub(crate) stop: &'a dyn Fn() -> bool,
}

/// Building went past a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// The bytes ran out.
    Memory,
    /// It was told to.
    Time,
}

impl Dag {
    /// Builds the graphs of all groups.
    pub(crate) fn build(
        boxes: &Boxes,
        groups: &[Group],
        limits: &Limits<'_>,
    ) -> Result<Dag, StopReason> {
        let memo_bytes = 0;
        let mut builder = Builder {
            boxes,
            limits,
            nodes: Nodes::default(),
            memo: Map::default(),
            memo_bytes,
            turns: 0,
        };
        let mut roots = Vec::new();
        for group in groups {
            roots.push(builder.root(group)?);
        }
        Dag::assemble(&roots, builder.nodes, boxes)
    }
}

struct Builder<'a> {
    boxes: &'a Boxes,
    limits: &'a Limits<'a>,
    nodes: Nodes,
    /// Lanes left and boxes to the reference of their node.
    memo: Map<Box<[u32]>, u32>,
    memo_bytes: usize,
    turns: u32,
}

impl Builder<'_> {
    /// The first table of a group and all below it.
    fn root(&mut self, group: &Group) -> Result<Root<Vec<u32>>, StopReason> {
        let used = self.boxes.used();
        let Some(lane) = group.first.or_else(|| self.choose(&group.boxes, used)) else {
            let to = self.set(&group.boxes, used)?;
            return Ok(Root { lane: 0, shift: 31, table: vec![to; 2] });
        };
        let intervals = self.cut(&group.boxes, used, lane)?;
        let max = self.boxes.lanes.max(lane);
        let width = 32 - max.leading_zeros();
        let wanted = (intervals.len() as u32 * 4).next_power_of_two().trailing_zeros();
        // One bit at least, so that the shift stays below the width of a word.
        let bits = if intervals.len() <= 8 { 1 } else { wanted.min(self.limits.root_bits.max(1)) };
        let bits = bits.min(width);
        let shift = width - bits;
        let mut table = Vec::with_capacity(1 << bits);
        let mut next = 0;
        for slot in 0..1u64 << bits {
            let (from, to) = (slot << shift, ((slot + 1) << shift) - 1);
            while next + 1 < intervals.len() && u64::from(intervals[next + 1].start) <= from {
                next += 1;
            }
            let after = intervals[next..].partition_point(|one| u64::from(one.start) <= to);
            let part = &intervals[next..next + after];
            table.push(self.nodes.intervals(lane, part));
        }
        Ok(Root { lane, shift, table })
    }

    /// The reference of a set.
    fn set(&mut self, set: &[u32], left: u16) -> Result<u32, StopReason> {
        let Some(&first) = set.first() else { return Ok(EMPTY) };
        if set.len() <= self.limits.leaf || self.ends(first, left) {
            return Ok(self.leaf(set, left));
        }
        let mut key = Vec::with_capacity(set.len() + 1);
        key.push(u32::from(left));
        key.extend_from_slice(set);
        if let Some(&known) = self.memo.get(key.as_slice()) {
            return Ok(known);
        }
        let to = match self.choose(set, left) {
            None => self.leaf(set, left),
            Some(lane) => {
                let intervals = self.cut(set, left, lane)?;
                self.nodes.intervals(lane, &intervals)
            }
        };
        self.memo_bytes += key.len() * 4 + 40;
        self.memo.insert(key.into(), to);
        Ok(to)
    }

    /// Whether a box matches all that is left and ends the search.
    fn ends(&self, number: u32, left: u16) -> bool {
        let number = number as usize;
        self.boxes.wide[number] & left == left
            && self.boxes.terminal[number]
            && !self.boxes.slow[number]
    }

    /// A list of boxes that are compared whole.
    fn leaf(&mut self, set: &[u32], left: u16) -> u32 {
        let boxes = self.boxes;
        let mark = |&number: &u32| {
            let place = number as usize;
            let mut mark = number;
            mark |= if boxes.wide[place] & left == left { SURE } else { 0 };
            mark |= if boxes.slow[place] { SLOW } else { 0 };
            mark | if boxes.terminal[place] { 0 } else { PASSING }
        };
        let marks: Vec<u32> = set.iter().map(mark).collect();
        debug_assert!(marks.iter().all(|mark| mark & BOX < BOX));
        self.nodes.list(&marks)
    }

    /// The lane to cut, or none that tells the boxes apart.
    fn choose(&self, set: &[u32], left: u16) -> Option<usize> {
        let mut best: Option<(f64, usize)> = None;
        for lane in (0..16).filter(|lane| left >> lane & 1 != 0) {
            if set.iter().all(|&number| self.boxes.wide[number as usize] >> lane & 1 != 0) {
                continue;
            }
            let mean = self.mean(set, lane);
            if best.is_none_or(|(least, _)| mean < least) {
                best = Some((mean, lane));
            }
        }
        best.map(|(_, lane)| lane)
    }

    /// The mean size of the sets after a cut, weighted by size.
    fn mean(&self, set: &[u32], lane: usize) -> f64 {
        let mut lows: Vec<u32> = Vec::with_capacity(set.len());
        let mut highs: Vec<u32> = Vec::with_capacity(set.len());
        for &number in set {
            let extent = &self.boxes.ends[number as usize];
            lows.push(extent.low[lane]);
            highs.push(extent.high[lane]);
        }
        lows.sort_unstable();
        highs.sort_unstable();
        let (mut open, mut closed) = (0, 0);
        let (mut sum, mut squares) = (0.0, 0.0);
        let mut at = lows.first().copied();
        while let Some(start) = at {
            while open < lows.len() && lows[open] <= start {
                open += 1;
            }
            while closed < highs.len() && highs[closed] < start {
                closed += 1;
            }
            let size = (open - closed) as f64;
            sum += size;
            squares += size * size;
            let low = lows.get(open).copied();
            let high = highs.get(closed).and_then(|&high| high.checked_add(1));
            at = match (low, high) {
                (Some(low), Some(high)) => Some(low.min(high)),
                (low, high) => low.or(high),
            };
        }
        squares / sum
    }

    /// Cuts a set at all ends of a lane: what each interval leads to, equal neighbours merged.
    fn cut(&mut self, set: &[u32], left: u16, lane: usize) -> Result<Vec<Interval>, StopReason> {
        self.check()?;
        let left = left & !(1 << lane);
        // (value, box's place in the set): the boxes that start or stop to hold there.
        let mut events: Vec<(u32, u32)> = Vec::with_capacity(set.len() * 2);
        for (place, &number) in set.iter().enumerate() {
            let extent = &self.boxes.ends[number as usize];
            events.push((extent.low[lane], place as u32));
            events.extend(extent.high[lane].checked_add(1).map(|end| (end, place as u32)));
        }
        events.sort_unstable();
        let mut holding = vec![0u64; set.len().div_ceil(64)];
        let mut intervals: Vec<Interval> = Vec::new();
        let mut kept = Vec::new();
        let mut start = 0;
        let mut event = 0;
        loop {
            while event < events.len() && events[event].0 == start {
                let place = events[event].1;
                holding[place as usize / 64] ^= 1 << (place % 64);
                event += 1;
            }
            self.keep(set, &holding, left, &mut kept);
            let to = self.set(&kept, left)?;
            if intervals.last().is_none_or(|last| last.to != to) {
                intervals.push(Interval { start, to });
            }
            match events.get(event) {
                Some(next) if next.0 <= self.boxes.lanes.max(lane) => start = next.0,
                _ => return Ok(intervals),
            }
        }
    }

    /// The boxes that hold and can be reached: none behind one that ends all that is left, none
    /// that an earlier one covers.
    fn keep(&self, set: &[u32], holding: &[u64], left: u16, kept: &mut Vec<u32>) {
        kept.clear();
        for (word, &bits) in holding.iter().enumerate() {
            let mut bits = bits;
            while bits != 0 {
                let number = set[word * 64 + bits.trailing_zeros() as usize];
                bits &= bits - 1;
                if kept.len() < COVER_SEARCH
                    && kept.iter().any(|&one| self.covers(one, number, left))
                {
                    continue;
                }
                kept.push(number);
                if self.ends(number, left) {
                    return;
                }
            }
        }
    }

    /// Whether nothing can reach `later` because `earlier` takes it first.
    fn covers(&self, earlier: u32, later: u32, left: u16) -> bool {
        let (earlier, later) = (earlier as usize, later as usize);
        if !self.boxes.terminal[earlier] || self.boxes.slow[earlier] {
            return false;
        }
        let mut lanes = left & !self.boxes.wide[earlier];
        if lanes & self.boxes.wide[later] != 0 {
            return false;
        }
        let (outer, inner) = (&self.boxes.ends[earlier], &self.boxes.ends[later]);
        while lanes != 0 {
            let lane = lanes.trailing_zeros() as usize;
            lanes &= lanes - 1;
            if inner.low[lane] < outer.low[lane] || inner.high[lane] > outer.high[lane] {
                return false;
            }
        }
        true
    }

    /// The limits.
    fn check(&mut self) -> Result<(), StopReason> {
        let (bytes, building) = self.nodes.bytes();
        if bytes > self.limits.bytes || building + self.memo_bytes > self.limits.building_bytes {
            return Err(StopReason::Memory);
        }
        self.turns += 1;
        if self.turns.is_multiple_of(64) && (self.limits.stop)() {
            return Err(StopReason::Time);
        }
        Ok(())
    }
}
