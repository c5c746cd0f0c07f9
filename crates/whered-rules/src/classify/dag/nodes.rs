//! Nodes being made: intervals with references become lines, and equal lines one.
//!
//! For: [`super::build`]. Not for: choosing what is cut.
//! Cost: one hash of a line for each node asked for.

use super::{LARGE, LIST, SINGLE};
use crate::classify::hash::Map;
use crate::classify::simd::Line;

/// An interval: its first value and what it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) start: u32,
    pub(super) to: u32,
}

/// All lines and lists made so far.
#[derive(Default)]
pub(super) struct Nodes {
    pub(super) lines: Vec<Line>,
    pub(super) lists: Vec<u32>,
    /// Where nodes of one line stand.
    pub(super) one: Map<Line, u32>,
    /// Where those of two stand.
    pub(super) two: Map<[Line; 2], u32>,
    known_lists: Map<Box<[u32]>, u32>,
}

impl Nodes {
    /// Bytes of the result, and about those of making it.
    pub(super) fn bytes(&self) -> (usize, usize) {
        let result = self.lines.len() * 64 + self.lists.len() * 4;
        (result, self.lines.len() * 80 + self.lists.len() * 8 + self.known_lists.len() * 40)
    }

    /// The reference of a list of marks.
    pub(super) fn list(&mut self, marks: &[u32]) -> u32 {
        if let [mark] = marks {
            return SINGLE | mark;
        }
        if let Some(&known) = self.known_lists.get(marks) {
            return known;
        }
        // Lists begin at places of two marks.
        if !self.lists.len().is_multiple_of(2) {
            self.lists.push(super::EMPTY);
        }
        let to = LIST | self.lists.len() as u32;
        self.lists.extend_from_slice(marks);
        if let Some(last) = self.lists.last_mut() {
            *last |= super::LAST;
        }
        self.known_lists.insert(marks.into(), to);
        to
    }

    /// The reference of intervals on a lane; neighbours differ. The first one's start is not
    /// looked at by lookups.
    pub(super) fn intervals(&mut self, lane: usize, intervals: &[Interval]) -> u32 {
        match intervals.len() {
            0 => super::EMPTY,
            1 => intervals[0].to,
            2..=8 => self.small(lane, intervals),
            9..=16 => self.large(lane, intervals),
            more => {
                // As even as can be, in as few levels as can be.
                let mut below = 16;
                while below * 16 < more {
                    below *= 16;
                }
                let parts = more.div_ceil(below);
                let each = more.div_ceil(parts);
                let upper: Vec<Interval> = intervals
                    .chunks(each)
                    .map(|part| Interval { start: part[0].start, to: self.intervals(lane, part) })
                    .collect();
                self.intervals(lane, &upper)
            }
        }
    }

    /// A node of one line.
    fn small(&mut self, lane: usize, intervals: &[Interval]) -> u32 {
        let mut line = Line([u32::MAX; 16]);
        line.0[0] = lane as u32;
        for place in 0..8 {
            // Places past the last repeat it, for keys that equal the filler.
            let interval = intervals[place.min(intervals.len() - 1)];
            if (1..intervals.len()).contains(&place) {
                line.0[place] = interval.start;
            }
            line.0[8 + place] = interval.to;
        }
        let next = self.lines.len() as u32;
        let known = *self.one.entry(line).or_insert(next);
        if known == next {
            self.lines.push(line);
        }
        known
    }

    /// A node of two lines.
    fn large(&mut self, lane: usize, intervals: &[Interval]) -> u32 {
        let mut lines = [Line([u32::MAX; 16]); 2];
        lines[0].0[0] = lane as u32;
        for place in 0..16 {
            let interval = intervals[place.min(intervals.len() - 1)];
            if (1..intervals.len()).contains(&place) {
                lines[0].0[place] = interval.start;
            }
            lines[1].0[place] = interval.to;
        }
        let next = self.lines.len() as u32;
        let known = *self.two.entry(lines).or_insert(next);
        if known == next {
            self.lines.extend(lines);
        }
        LARGE | known
    }
}
