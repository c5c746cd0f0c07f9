//! The points of one collection: member → cell, ordered by (cell, member bytes).
//!
//! For: everything that a GEO key and its sorted-set face need: insert, move, remove, cell by
//! name, rank, ranges in both directions, searches.
//! Not for: expiry, fields, locks; the engine puts those around it.
//!
//! ```text
//! Points ── blocks ─┬ Block ── leaves ─┬ Leaf   up to 256 entries (leaf.rs draws it)
//!    │              │   firsts u64 ... └ Leaf   first cell of each leaf
//!    │  firsts u64  └ Block   (up to 512 leaves, with its number of entries)
//!    ├─ members   hash → cell, no text (members.rs draws it)
//!    └─ outside   members longer than 1 KiB
//! ```
//!
//! Invariants:
//! - (cell, member) ascends strictly through all leaves, so a member occurs once;
//! - no leaf and no block is empty; `firsts` repeats the first cell of each child;
//! - `Block::count` and `Points::len` are the sums of what hangs below them;
//! - `members` has one slot for each entry, with its cell.
//!
//! Concurrency: a plain value; shared for reading, exclusive for writing.
//!
//! | operation | cost (n entries, B = n / 40,000 blocks) |
//! | --- | --- |
//! | `cell` | one hash, one table probe, one leaf |
//! | `insert`, `remove` | as `cell`, and one or two leaves are edited; a leaf split now and then |
//! | `rank`, `iter_from_rank` | B + 512 additions |
//! | `iter*` | two jumps, then constant for each entry |
//! | `search` | a leaf search for each box, then the entries of the boxes |
//! | `memory_bytes` | constant |

pub mod found;
pub mod iter;
mod leaf;
mod lookup;
mod members;
pub mod naive;
mod nearest;
mod search;
mod update;
mod walk;

use leaf::{Leaf, Outside};
use members::Members;

/// The most leaves of a block.
const MOST_LEAVES: usize = 512;

/// An ordered index of named points.
///
/// ```
/// use whered_geo::{Cell, Inserted, Place, Points};
/// let mut points = Points::new();
/// let palermo = Cell::from_place(Place::new(13.361389, 38.115556)?);
/// let catania = Cell::from_place(Place::new(15.087269, 37.502669)?);
/// assert_eq!(points.insert(b"palermo", palermo), Inserted::New);
/// assert_eq!(points.insert(b"catania", palermo), Inserted::New);
/// assert_eq!(points.insert(b"catania", catania), Inserted::Moved);
/// assert_eq!(points.cell(b"catania"), Some(catania));
/// assert_eq!(points.rank(b"catania"), Some(1));
/// assert!(points.remove(b"palermo"));
/// assert_eq!(points.iter().collect::<Vec<_>>(), [(&b"catania"[..], catania)]);
/// # Ok::<(), whered_geo::PlaceError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Points {
    blocks: Vec<Block>,
    firsts: Vec<u64>,
    len: usize,
    members: Members,
    outside: Outside,
    tree_bytes: usize,
}

/// What an insertion did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inserted {
    /// The member is new.
    New,
    /// The member was in another cell before.
    Moved,
    /// The member was in this cell already.
    Unchanged,
}

/// Neighbouring leaves.
#[derive(Clone, Debug, Default)]
struct Block {
    leaves: Vec<Leaf>,
    firsts: Vec<u64>,
    count: usize,
}

/// A place in the tree. The place after the last entry is the block after the last one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Position {
    block: usize,
    leaf: usize,
    slot: usize,
}

impl Points {
    /// An empty collection; allocates next to nothing.
    pub fn new() -> Points {
        Points {
            blocks: Vec::new(),
            firsts: Vec::new(),
            len: 0,
            members: Members::new(),
            outside: Outside::default(),
            tree_bytes: 0,
        }
    }

    /// The number of members.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of memory held, spare room included, without the allocator's own overhead.
    pub fn memory_bytes(&self) -> usize {
        let top = self.blocks.capacity() * size_of::<Block>() + self.firsts.capacity() * 8;
        size_of::<Points>()
            + top
            + self.tree_bytes
            + self.members.memory_bytes()
            + self.outside.memory_bytes()
    }
}

impl Default for Points {
    fn default() -> Points {
        Points::new()
    }
}

impl Block {
    fn memory_bytes(&self) -> usize {
        self.leaves.capacity() * size_of::<Leaf>() + self.firsts.capacity() * 8
    }
}

#[cfg(test)]
#[path = "points_tests.rs"]
mod tests;
