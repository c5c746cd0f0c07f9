//! The graphs of all groups in one piece of memory, every reference in it checked.
//!
//! For: [`Graph`], what lookups read. Not for: making nodes ([`super::nodes`]), nor the order in
//! which packets take their steps ([`super::lookup`]).
//!
//! ```text
//! place:      8 octets from the first line on; a line has eight places
//!
//! small node: lane, 7 starts | 8 references                      one line
//! large node: 8 starts | lane, 7 starts | 16 references          two lines
//!
//! reference:  bit 31 a leaf, bit 30 a list; below
//!   node      where its lane stands: the line's first place, or fifth of a large one
//!   list      where its marks begin
//!   one box   the place of its record, and in the lowest three bits what is asked of it: a mark
//! mark:       bit 31 the last of its list; bit 0 sure, bit 1 slow, bit 2 not terminal
//! lane:       octet 0 four times the lane, octets 2 and 3 which numbers of the line are starts
//! record:     low ends | high ends of one box: one line (8 lanes) or two (16)
//! ```
//!
//! So a step is the same for both kinds of node: references stand 32 octets behind the lane, and
//! the line that holds the lane holds all starts. Whatever a reference is, the line at its place
//! may be asked for, and that 32 octets on: the second line of a large node, or the first one
//! again.
//!
//! A record that no packet is in stands behind the others, for intervals that no box reaches into.
//!
//! Concurrency: plain data, never changed. Cost of making it: one look at every reference.
#![allow(unsafe_code, reason = "references are checked once, when the graph is made")]

use super::nodes::Nodes;
use super::{
    BOX, Dag, EMPTY, LARGE, LAST, LIST, PASSING, Root, SINGLE, SLOW, SURE, StopReason, TAG,
};
use crate::classify::boxes::{Boxes, Keys};
use crate::classify::simd::{Line, Processor, numbers};
use whered_ip::image::{Image, Section, bytes_of};
use whered_simd::prefetch;

/// A reference that leads to boxes.
const LEAF: u32 = 1 << 31;
/// A reference that leads to several.
const MANY: u32 = 1 << 30;
/// Places of a line, and the bits of a mark that stand where a place of a record has none.
const PLACES: u32 = 8;
/// The place in a reference.
const PLACE: u32 = MANY - 1;
/// Inexact or non-terminal, in a mark.
const SPECIAL: u32 = 6;
/// The record's place in a mark.
const RECORD: u32 = PLACE & !(PLACES - 1);
/// Octets of a place, and between a node's lane and its references.
const OCTETS: usize = 8;
const BEHIND_LANE: usize = 32;

/// A reference: where a packet goes on.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Reference(u32);

impl Reference {
    /// To a node; to boxes otherwise.
    #[inline(always)]
    pub(super) fn is_node(self) -> bool {
        self.0 < LEAF
    }

    /// To several boxes.
    #[inline(always)]
    pub(super) fn is_list(self) -> bool {
        self.0 >= LEAF | MANY
    }

    /// Its number, for who keeps it with others.
    #[inline(always)]
    pub(super) fn to_u32(self) -> u32 {
        self.0
    }

    #[inline(always)]
    pub(super) fn from_u32(number: u32) -> Reference {
        Reference(number)
    }

    /// The record's place in a reference to one box; more than any in one to a list.
    #[inline(always)]
    pub(super) fn record_or_list(self) -> u32 {
        self.0 & (MANY | RECORD)
    }

    /// To one box, which is inexact or non-terminal.
    #[inline(always)]
    pub(super) fn is_special_box(self) -> bool {
        (self.0 & (MANY | SPECIAL)).wrapping_sub(1) < SPECIAL
    }

    /// The only box of one that leads to neither a node nor a list.
    #[inline(always)]
    pub(super) fn mark(self) -> Mark {
        Mark(self.0)
    }
}

/// A box in a list, and what is asked of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark(u32);

impl Mark {
    /// No box of its list comes behind it.
    #[inline(always)]
    pub(super) fn is_last(self) -> bool {
        self.0 & LEAF != 0
    }

    /// Nothing is left to compare.
    #[inline(always)]
    pub(super) fn is_sure(self) -> bool {
        self.0 & 1 != 0
    }

    /// The rule itself must be asked.
    #[inline(always)]
    pub(super) fn is_slow(self) -> bool {
        self.0 & 2 != 0
    }

    /// The search goes on behind it.
    #[inline(always)]
    pub(super) fn is_non_terminal(self) -> bool {
        self.0 & 4 != 0
    }

    /// Inexact or non-terminal.
    #[inline(always)]
    pub(super) fn is_special(self) -> bool {
        self.0 & SPECIAL != 0
    }

    /// Where its record stands: boxes in order have rising ones.
    #[inline(always)]
    pub(super) fn record(self) -> u32 {
        self.0 & RECORD
    }
}

/// Nodes, then records, then lists.
#[derive(Clone, Debug)]
pub(super) struct Graph {
    lines: Section<Line>,
    /// The place of the first record.
    records: u32,
    /// Places of a record, as a power of two.
    shift: u32,
    nowhere: Reference,
}

impl Dag {
    /// Puts nodes, lists and the records of all boxes into one piece behind the first tables.
    ///
    /// # Errors
    ///
    /// More than eight gigabytes.
    ///
    /// # Panics
    ///
    /// When a reference leads nowhere, which would be a fault of the builder.
    pub(super) fn assemble(
        roots: &[Root<Vec<u32>>],
        nodes: Nodes,
        boxes: &Boxes,
    ) -> Result<Dag, StopReason> {
        let places = Places::of(&nodes, boxes)?;
        let tables: Vec<Vec<u32>> = roots
            .iter()
            .map(|root| root.table.iter().map(|&to| places.reference(to)).collect())
            .collect();
        let nowhere = Reference(places.reference(EMPTY));
        let Places { records, shift, .. } = places;
        let lines = places.lines(nodes, boxes);
        // What every packet reads comes first: the last part may not have huge pages.
        let sections: Vec<&[u8]> =
            tables.iter().map(|table| bytes_of(table)).chain([bytes_of(&lines)]).collect();
        let (image, parts) = Image::with_sections(&sections);
        let whole = "a section begins at a cache line and is as long as what was copied there";
        let roots = roots.iter().zip(&parts).map(|(root, part)| Root {
            lane: root.lane,
            shift: root.shift,
            table: image.section(part.clone()).expect(whole),
        });
        let roots: Vec<_> = roots.collect();
        let lines = image.section(parts[roots.len()].clone()).expect(whole);
        let graph = Graph { lines, records, shift, nowhere };
        Ok(Dag { roots, graph, boxes: boxes.len() as u32 })
    }
}

impl Graph {
    /// More than the place of any record.
    pub(super) const NO_RECORD: u32 = RECORD;

    /// Bytes that lookups may touch.
    pub(super) fn memory_bytes(&self) -> usize {
        self.lines.len() * 64
    }

    /// The box of a record.
    #[inline(always)]
    pub(super) fn number(&self, record: u32) -> u32 {
        (record - self.records) >> self.shift
    }

    /// Asks for what a reference leads to; for a second line, too.
    #[inline(always)]
    pub(super) fn prefetch(&self, to: Reference) {
        let octets: &[u8] = self.octets();
        let at = (to.0 & PLACE) as usize * OCTETS;
        prefetch(octets, at);
        prefetch(octets, at + 32);
    }

    /// Asks for a mark's record.
    #[inline(always)]
    pub(super) fn prefetch_record(&self, mark: Mark) {
        prefetch(self.octets(), mark.record() as usize * OCTETS);
    }

    /// To the record that nothing lies in.
    #[inline(always)]
    pub(super) fn nowhere(&self) -> Reference {
        self.nowhere
    }

    /// Where a node leads to.
    ///
    /// # Safety
    ///
    /// The reference is to a node, and from this graph.
    #[inline(always)]
    pub(super) unsafe fn step<P: Processor>(
        &self,
        processor: P,
        keys: &Keys,
        to: Reference,
    ) -> Reference {
        let lane = self.octets().as_ptr().wrapping_add(to.0 as usize * OCTETS);
        let line = lane.map_addr(|address| address & !63).cast::<Line>();
        // SAFETY: `Places::node` put a lane below sixteen there and marked fewer numbers of the
        // line as starts than references follow; it is a line of this graph that holds the lane.
        unsafe {
            let key = keys.0.as_ptr().byte_add(usize::from(*lane)).read();
            let starts = lane.add(2).cast::<u16>().read();
            let rank = processor.rank(&*line, starts, key);
            lane.add(BEHIND_LANE).cast::<Reference>().add(rank).read()
        }
    }

    /// The number of a list's first mark. Of other references: any.
    #[inline(always)]
    pub(super) fn word(&self, to: Reference) -> u32 {
        (to.0 & PLACE) * 2
    }

    /// A mark of a list.
    #[inline(always)]
    pub(super) fn at(&self, word: u32) -> Mark {
        Mark(numbers(&self.lines)[word as usize])
    }

    /// Whether the keys lie in a mark's box. Of a list's reference: anything.
    #[inline(always)]
    pub(super) fn inside<P: Processor>(&self, processor: P, keys: &Keys, mark: Mark) -> bool {
        let at = (mark.record() / PLACES) as usize;
        if self.shift == 3 {
            processor.inside8(keys, &self.lines[at])
        } else {
            let pair: &[Line] = &self.lines[at..at + 2];
            processor.inside16(keys, &pair[0], &pair[1])
        }
    }

    /// The lines as octets.
    #[inline(always)]
    fn octets(&self) -> &[u8] {
        bytes_of(&self.lines)
    }
}

// SAFETY: a number.
unsafe impl whered_ip::image::Plain for Reference {}

/// Where everything will stand, for references made before that was known.
struct Places {
    /// The node that begins at each line: none, a small one, a large one.
    kinds: Vec<Option<u32>>,
    boxes: u32,
    records: u32,
    shift: u32,
    lists: u32,
    marks: u32,
}

impl Places {
    /// Of these nodes and boxes.
    fn of(nodes: &Nodes, boxes: &Boxes) -> Result<Places, StopReason> {
        let mut kinds = vec![None; nodes.lines.len()];
        nodes.one.values().for_each(|&at| kinds[at as usize] = Some(0));
        nodes.two.values().for_each(|&at| kinds[at as usize] = Some(LARGE));
        let shift = if boxes.lanes.narrow { 3 } else { 4 };
        let records = nodes.lines.len();
        let lists = records + ((boxes.len() + 1) << (shift - 3));
        let end = lists + nodes.lists.len() / 16 + 2;
        if end * PLACES as usize >= RECORD as usize {
            return Err(StopReason::Memory);
        }
        Ok(Places {
            kinds,
            boxes: boxes.len() as u32,
            records: records as u32 * PLACES,
            shift,
            lists: lists as u32 * PLACES,
            marks: nodes.lists.len() as u32,
        })
    }

    /// All lines: nodes, records, lists.
    fn lines(&self, nodes: Nodes, boxes: &Boxes) -> Vec<Line> {
        let mut lines = nodes.lines;
        for &at in nodes.one.values() {
            self.node(&mut lines[at as usize..][..1], 0);
        }
        for &at in nodes.two.values() {
            self.node(&mut lines[at as usize..][..2], 8);
        }
        lines.extend(boxes.records());
        // Nothing lies between one and zero.
        let empty = if self.shift == 3 {
            &[Line(std::array::from_fn(|lane| u32::from(lane < 8)))][..]
        } else {
            &[Line([1; 16]), Line([0; 16])]
        };
        lines.extend(empty);
        let nowhere = self.reference(EMPTY);
        for part in nodes.lists.chunks(16) {
            let mut line = Line([nowhere; 16]);
            for (mark, &made) in line.0.iter_mut().zip(part) {
                *mark = self.mark(made);
            }
            lines.push(line);
        }
        // A batch reads the mark behind the last one before it sees that it was the last.
        lines.push(Line([nowhere; 16]));
        lines
    }

    /// Puts a node's references right and its lane to where lookups want it: at this number.
    fn node(&self, lines: &mut [Line], at: usize) {
        let lane = lines[0].0[0];
        assert!(lane < 16, "a lane of a node");
        lines[0].0.copy_within(1..=at, 0);
        let starts = if at == 0 { 0x00fe } else { !(1 << at) & 0xffff };
        lines[0].0[at] = (starts << 16) | (lane * 4);
        let references = if at == 0 { &mut lines[0].0[8..] } else { &mut lines[1].0[..] };
        references.iter_mut().for_each(|to| *to = self.reference(*to));
    }

    /// A reference of the builder.
    fn reference(&self, to: u32) -> u32 {
        if to == EMPTY {
            return LEAF | (self.records + (self.boxes << self.shift));
        }
        let number = to & !TAG;
        match to & TAG {
            LIST => {
                assert!(number < self.marks && number.is_multiple_of(2), "the place of a list");
                LEAF | MANY | (self.lists + number / 2)
            }
            SINGLE => self.mark(to),
            kind => {
                assert!(self.kinds[number as usize] == Some(kind), "a node of that kind");
                number * PLACES + if kind == LARGE { PLACES / 2 } else { 0 }
            }
        }
    }

    /// A mark of the builder.
    fn mark(&self, mark: u32) -> u32 {
        if mark == EMPTY {
            return self.reference(EMPTY);
        }
        let number = mark & BOX;
        assert!(number < self.boxes, "a box");
        let flag = |of: u32, to: u32| if mark & of != 0 { to } else { 0 };
        let flags = flag(LAST, LEAF) | flag(SURE, 1) | flag(SLOW, 2) | flag(PASSING, 4);
        flags | (self.records + (number << self.shift))
    }
}
