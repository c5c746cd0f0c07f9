//! From pages back to a collection.
//!
//! For: a start from a snapshot: leaves are copied as they are and the tree is built over them from
//! below, so that nothing is inserted. Not for: changes made since the pages were written; the
//! caller that has them applies them to the result.
//!
//! ```text
//! load     words ──checked, copied──► leaves, long members      one loader a thread, any split
//! join     the loaders of all threads
//! finish   leaves ──sorted──► those that overlap rewritten (overlaps.rs)
//!                 ──► branches over them (tree.rs) ──► table of members (table.rs)
//!                 ──► entries of members that are there twice removed, long members inserted
//! ```
//!
//! A member that moved while the pages were written may be in two of them. The later page's entry
//! stays; which one that is does not matter to anybody who applies the changes made since.
//!
//! Invariant: whatever the words are, the result is a sound collection, or there is an error.
//! Concurrency: a plain value; `finish` has its own threads and ends them.
//! Cost: `load` one pass over the words, `finish` one more over all members' texts and one over the
//! table.

mod overlaps;
mod table;

use std::cmp::Ordering;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

use super::Points;
use super::leaf::{Leaf, LeafFault, words_of};
use super::overflow::{self, Overflow};
use super::tree::Tree;
use crate::cell::Cell;

/// Takes pages in any order and makes a collection of them; [`Tree::pages`] has an example.
#[derive(Debug, Default)]
pub struct PointsLoader {
    leaves: Vec<LoadedLeaf>,
    long: Vec<LoadedLong>,
}

#[derive(Debug)]
struct LoadedLeaf {
    leaf: Leaf,
    page_number: u64,
    /// What is in the leaf, so that only leaves that touch are looked at again.
    first: u64,
    last: u64,
    count: usize,
}

#[derive(Debug)]
struct LoadedLong {
    page_number: u64,
    cell: Cell,
    bulk: Arc<[u8]>,
}

/// A page that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageError {
    offset_bytes: usize,
    fault: Fault,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    /// A frame is longer than what is left of the page.
    Cut,
    Leaf(LeafFault),
    Long,
}

impl PageError {
    /// Where in the page the frame begins that cannot be read.
    pub fn offset_bytes(&self) -> usize {
        self.offset_bytes
    }
}

impl fmt::Display for PageError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, fault) = match self.fault {
            Fault::Cut => ("points", "they go on beyond the end of the page"),
            Fault::Leaf(fault) => ("leaf of points", fault.describe()),
            Fault::Long => ("long member", "it is not in its stored form"),
        };
        write!(out, "{kind} at byte {} of the page: {fault}", self.offset_bytes)
    }
}

impl Error for PageError {}

impl PointsLoader {
    /// A loader that has nothing yet.
    pub fn new() -> PointsLoader {
        PointsLoader::default()
    }

    /// Takes a page. Pages are numbered as they were written: of two entries of one member, that
    /// of the page with the larger number stays.
    ///
    /// # Errors
    ///
    /// The first frame that cannot be read; what came before it in the page is kept.
    pub fn load(&mut self, page_number: u64, words: &[u64]) -> Result<(), PageError> {
        let mut at = 0;
        while let Some(&header) = words.get(at) {
            let error = |fault| PageError { offset_bytes: at * 8, fault };
            let size = match words_of(header) {
                0 => long_words(header),
                size => Some(size),
            };
            let end = size.and_then(|size| at.checked_add(size));
            let frame = end.and_then(|end| words.get(at..end)).ok_or(error(Fault::Cut))?;
            self.load_frame(page_number, frame).map_err(error)?;
            at += frame.len();
        }
        Ok(())
    }

    fn load_frame(&mut self, page_number: u64, frame: &[u64]) -> Result<(), Fault> {
        if words_of(frame[0]) > 0 {
            let leaf = Leaf::from_stored(frame).map_err(Fault::Leaf)?;
            self.leaves.extend(leaf.map(|leaf| LoadedLeaf::new(leaf, page_number)));
            return Ok(());
        }
        let cell = Cell::from_bits(frame[1]).ok_or(Fault::Long)?;
        let (bulk, fill) = bytemuck::cast_slice(&frame[2..]).split_at(frame[0] as usize);
        if !overflow::is_long_bulk(bulk) || fill.iter().any(|&byte| byte != 0) {
            return Err(Fault::Long);
        }
        self.long.push(LoadedLong { page_number, cell, bulk: Arc::from(bulk) });
        Ok(())
    }

    /// How many entries were taken; members that came twice count twice. O(leaves).
    pub fn len(&self) -> usize {
        self.long.len() + self.leaves.iter().map(|loaded| loaded.leaf.len()).sum::<usize>()
    }

    /// Whether nothing was taken.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes over what another loader has.
    pub fn join(&mut self, other: PointsLoader) {
        self.leaves.extend(other.leaves);
        self.long.extend(other.long);
    }

    /// The collection, whose table at most `threads` threads make, this one included.
    pub fn finish(mut self, threads: usize) -> Points {
        self.leaves.sort_by(LoadedLeaf::order);
        let leaves = overlaps::resolve(self.leaves);
        let (leaves, members) = table::build(leaves, threads);
        let leaves = leaves.into_iter().map(|loaded| (loaded.first, loaded.count, loaded.leaf));
        let mut points = Points::of(Tree::from_leaves(leaves), members);
        self.long.sort_by_key(|long| long.page_number);
        for long in self.long {
            points.insert(overflow::member_of(&long.bulk), long.cell);
        }
        points
    }
}

impl LoadedLeaf {
    fn new(leaf: Leaf, page_number: u64) -> LoadedLeaf {
        let (first, last, count) = (leaf.first(), leaf.last(), leaf.len());
        LoadedLeaf { leaf, page_number, first, last, count }
    }

    /// Leaves are sorted by the first entry, then by the page.
    fn order(&self, other: &LoadedLeaf) -> Ordering {
        let of_members = || self.leaf.short_member(0).cmp(other.leaf.short_member(0));
        let of_pages = || self.page_number.cmp(&other.page_number);
        self.first.cmp(&other.first).then_with(of_members).then_with(of_pages)
    }
}

/// The words of a long member's frame that begins with this one, if there are that many.
fn long_words(header: u64) -> Option<usize> {
    let size: usize = header.try_into().ok()?;
    Some(2 + size.div_ceil(8))
}

/// No leaf here has long members, so that nothing is looked for among them.
static NO_OVERFLOW: Overflow = Overflow::EMPTY;

impl Leaf {
    /// A member of a leaf that has no long ones.
    fn short_member(&self, slot: usize) -> &[u8] {
        self.member(slot, &NO_OVERFLOW)
    }
}

#[cfg(test)]
#[path = "loader_tests.rs"]
mod tests;
