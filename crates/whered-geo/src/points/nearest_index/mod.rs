//! An index for very many searches for the nearest few: joins of a table with a collection.
//!
//! For: thousands of places and more, best in the order of their cells. Not for: a few searches
//! ([`Tree::find`]), since it costs a pass over all points, nor other shapes than circles.
//!
//! ```text
//! tree, in cell order ─► distinct cells ─► 16 together: Block   unit vectors, x │ y │ z
//!                                         16 blocks: Node       the box around each of them
//!                                         16 nodes: Node        ... up to one node
//! ```
//!
//! Distances are compared as squares of chords between unit vectors, which need no sine for each
//! point and know neither poles nor date line. The order of chords is that of distances, and what
//! rounding may hide is decided by [`haversine_meters`](crate::distance::haversine_meters).
//!
//! Invariants: a cell occurs once, with where its first member is; all entries of a block and all
//! children of a node are neighbours in cell order; a box holds all that is below it; places that
//! are left in the last block or node are infinitely far away.
//! Concurrency: never changes; each thread has its own [`NearestFinder`].
//! Cost: 31 bytes a cell and 0.1 µs to build it.

mod finder;
mod vectors;

pub use finder::NearestFinder;
use vectors::{Block, FANOUT, Node, vector_of};

use super::Tree;
use super::walk::{Cursor, LeafAt};
use crate::cell::Cell;

/// After how many entries a caller may end the building.
const ENTRIES_BETWEEN_CHECKS: usize = 1 << 16;

/// A frozen view of a collection, with an index for very many searches for the nearest few.
///
/// ```
/// use whered_geo::{Cell, NearestFinder, NearestIndex, Place, Points};
/// let mut points = Points::new();
/// points.insert(b"palermo", Cell::from_place(Place::new(13.361389, 38.115556)?));
/// points.insert(b"catania", Cell::from_place(Place::new(15.087269, 37.502669)?));
/// let index = NearestIndex::new(points.freeze());
/// let mut finder = NearestFinder::new(&index);
/// let hits = finder.find(Place::new(15.0, 37.0)?, 1, f64::INFINITY);
/// assert_eq!(hits[0].member, b"catania");
/// # Ok::<(), whered_geo::PlaceError>(())
/// ```
#[derive(Clone, Debug)]
pub struct NearestIndex {
    tree: Tree,
    /// Where the first member of each cell is.
    entries: Vec<Entry>,
    blocks: Vec<Block>,
    /// The boxes around blocks, those around nodes, and so on to a single node; none if there are
    /// no blocks.
    levels: Vec<Vec<Node>>,
}

/// The first member of a cell.
#[derive(Clone, Copy, Debug)]
struct Entry {
    at: LeafAt,
    slot: u32,
}

impl NearestIndex {
    /// Builds the index of a tree.
    pub fn new(tree: Tree) -> NearestIndex {
        let built = NearestIndex::try_new(tree, || Ok::<(), std::convert::Infallible>(()));
        built.unwrap_or_else(|never| match never {})
    }

    /// Builds the index of a tree; `check` is called now and then.
    ///
    /// # Errors
    ///
    /// The first error of `check`, which ends the building.
    pub fn try_new<E>(
        tree: Tree,
        mut check: impl FnMut() -> Result<(), E>,
    ) -> Result<NearestIndex, E> {
        let mut entries = Vec::with_capacity(tree.len());
        let mut blocks = Vec::with_capacity(tree.len().div_ceil(FANOUT));
        let mut last_bits = None;
        let mut cursor = Cursor::new(&tree);
        while let Some(at) = &mut cursor {
            let leaf = at.leaf();
            for slot in 0..leaf.len() {
                let bits = leaf.cell_bits(slot);
                if last_bits.replace(bits) == Some(bits) {
                    continue;
                }
                let lane = entries.len() % FANOUT;
                if lane == 0 {
                    blocks.push(Block::EMPTY);
                }
                let vector = vector_of(Cell::from_stored_bits(bits).place());
                blocks.last_mut().expect("one was pushed").set(lane, vector);
                entries.push(Entry { at: at.at(), slot: slot as u32 });
                if entries.len() % ENTRIES_BETWEEN_CHECKS == 0 {
                    check()?;
                }
            }
            if !at.advance() {
                break;
            }
        }
        let levels = levels_over(&blocks);
        Ok(NearestIndex { tree, entries, blocks, levels })
    }

    /// The view that it is an index of.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Bytes of memory taken beside the tree.
    pub fn memory_bytes(&self) -> usize {
        let nodes: usize = self.levels.iter().map(Vec::capacity).sum();
        self.entries.capacity() * size_of::<Entry>()
            + self.blocks.capacity() * size_of::<Block>()
            + nodes * size_of::<Node>()
    }

    /// The cell of an entry.
    fn cell(&self, number: u32) -> Cell {
        let Entry { at, slot } = self.entries[number as usize];
        Cell::from_stored_bits(self.tree.leaf_at(at).cell_bits(slot as usize))
    }

    /// The first member in the cell of an entry.
    fn first_member(&self, number: u32) -> &[u8] {
        let Entry { at, slot } = self.entries[number as usize];
        self.tree.leaf_at(at).member(slot as usize, &self.tree.overflow)
    }

    /// The members in the cell of an entry.
    fn members(&self, number: u32) -> impl Iterator<Item = &[u8]> {
        let Entry { at, slot } = self.entries[number as usize];
        let mut entries = self.tree.iter_from(at.position(slot as usize));
        let first = entries.next();
        let cell = first.map(|(_, cell)| cell);
        let others = entries.take_while(move |(_, other)| Some(*other) == cell);
        first.into_iter().chain(others).map(|(member, _)| member)
    }
}

/// The levels of boxes over blocks.
fn levels_over(blocks: &[Block]) -> Vec<Vec<Node>> {
    let mut levels = Vec::new();
    let mut boxes: Vec<_> = blocks.iter().map(Block::bounds).collect();
    while !boxes.is_empty() {
        let nodes: Vec<Node> = boxes.chunks(FANOUT).map(Node::over).collect();
        let is_top = nodes.len() == 1;
        boxes = if is_top { Vec::new() } else { nodes.iter().map(Node::bounds).collect() };
        levels.push(nodes);
    }
    levels
}
