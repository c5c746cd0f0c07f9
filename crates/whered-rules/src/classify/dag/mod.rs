//! The dimension-by-dimension graph: at every node one lane is cut at all of its ends.
//!
//! For: the fastest lookups where memory allows. Not for: changes; it is built whole.
//!
//! ```text
//! root ─► table over the top bits of one lane ─► node ─► ... ─► leaf
//!
//! node of up to 8 intervals, one line:   lane | 7 starts | 8 references
//! node of up to 16, two lines:           lane | 15 starts, then 16 references
//! more: a tree of such nodes on the same lane
//!
//! while it is built; how it stands in memory then, `graph` tells:
//! reference:  00 node of one line, its line       10 list, its place in `lists`
//!             01 node of two lines, its line      11 one box: the mark below
//! mark:       30 last of its list   29 sure   28 slow   27 not terminal   26-0 the box
//! record:     low ends | high ends of one box: one line (8 lanes) or two (16)
//! ```
//!
//! Rules are put into a few *groups*, each with a graph of its own: cutting the source first would
//! put every rule with any source below every interval of it, so those go where the destination is
//! cut first. Within a group, equal sets of remaining rules are one node, reached from many places;
//! rules behind one that matches all that is left are dropped. Once a set is small, no more is cut:
//! its boxes are compared whole, a box being two vector comparisons whatever its number of lanes.
//!
//! All tables and lines are one piece of memory, in huge pages where the kernel gives them.
//!
//! Invariants: every node's first interval starts at the least value that reaches it; boxes in a
//! list rise; a list's last mark says so; a terminal box that is sure ends its list.
//!
//! Concurrency: plain data, never changed. Costs: see `docs/design/classifier.md`.

mod build;
mod graph;
mod lookup;
mod nodes;

use graph::{Graph, Reference};
use whered_ip::image::Section;

pub(crate) use build::{Limits, StopReason};
pub(crate) use lookup::{Found, NO_BOX};

/// Packets that are answered together.
pub(crate) const BATCH: usize = 64;

/// The kinds of a reference, in its two highest bits.
const TAG: u32 = 3 << 30;
const LARGE: u32 = 1 << 30;
const LIST: u32 = 2 << 30;
const SINGLE: u32 = 3 << 30;
/// No box is left.
const EMPTY: u32 = u32::MAX;

/// The last mark of a list.
const LAST: u32 = 1 << 30;
/// Nothing is left to compare.
const SURE: u32 = 1 << 29;
/// The rule itself must be asked.
const SLOW: u32 = 1 << 28;
/// The search goes on behind it.
const PASSING: u32 = 1 << 27;
/// The box.
const BOX: u32 = PASSING - 1;

/// Which boxes share a graph, and the lane that is cut first.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) boxes: Vec<u32>,
    /// The lane that is cut first; none leaves it to the builder.
    pub(crate) first: Option<usize>,
}

/// Where the graph of one group begins.
#[derive(Clone, Debug)]
struct Root<T> {
    lane: usize,
    shift: u32,
    table: T,
}

/// The graphs of all groups.
#[derive(Clone, Debug)]
pub(crate) struct Dag {
    roots: Vec<Root<Section<Reference>>>,
    graph: Graph,
    /// How many boxes there are.
    boxes: u32,
}

impl Dag {
    /// Bytes that lookups may touch.
    pub(crate) fn memory_bytes(&self) -> usize {
        let tables: usize = self.roots.iter().map(|root| root.table.len() * 4).sum();
        self.graph.memory_bytes() + tables
    }
}
