//! The points of one collection: member → cell, ordered by (cell, member bytes).
//!
//! For: everything that a GEO key and its sorted-set face need: insert, move, remove, cell by
//! name, rank, ranges in both directions, searches.
//! Not for: expiry, fields, locks; the engine puts those around it.
//!
//! ```text
//! Points ─┬ members   hash → cell, no text (members.rs draws it)
//!         └ Tree ─┬ branches of branches of leaves (tree.rs, branch.rs)
//!                 │    Leaf   up to 256 entries: cells and reply-ready texts (leaf/mod.rs)
//!                 └ overflow  members longer than 1 KiB (overflow.rs)
//! ```
//!
//! Invariants:
//! - (cell, member) ascends strictly through all leaves, so a member occurs once;
//! - no leaf and no branch is empty; all leaves are equally deep;
//! - a branch repeats the first cell and the number of entries of each child;
//! - `members` has one slot for each entry, with its cell, and no other slot: that of a number is
//!   an answer by itself.
//!
//! Pages of leaves lead out of the process and back (`pages.rs`, `loader/mod.rs`). A long reply
//! holds its hits' leaves (`held.rs`); a change that was prefetched is not searched for again
//! (`lookup_hint.rs`). A join of a table has an index of its own (`nearest_index/mod.rs`).
//!
//! Concurrency: a plain value; shared for reading, exclusive for writing. [`Points::freeze`] gives
//! a view that any thread may keep and read while the collection changes.
//!
//! | operation | cost |
//! | --- | --- |
//! | `cell` | one hash, one table probe; one walk to a leaf for names that are no numbers |
//! | `insert`, `remove` | as `cell` of such a name, and one or two leaves are edited; a leaf split now and then |
//! | `apply_bulk` | each leaf that changes is read and written once, on several threads |
//! | `rank`, `iter_from_rank` | up to 128 additions on each of three levels |
//! | `iter*` | two jumps, then constant for each entry |
//! | `search` | a quadtree walk along the leaves; quads outside the shape are skipped |
//! | `freeze`, `memory_bytes` | constant |
//! | `pages` | a walk to a leaf, then a counted reference for each leaf |

pub mod area;
mod bounds;
mod branch;
pub mod bulk;
pub mod clusters;
pub mod found;
mod hash;
mod held;
pub mod iter;
mod leaf;
mod loader;
mod lookup;
mod lookup_hint;
mod members;
mod memory;
pub mod naive;
mod nearest;
pub mod nearest_index;
mod number;
mod overflow;
mod pages;
mod prefetch;
mod ranking;
mod search;
mod tree;
mod update;
mod walk;

use std::ops::Deref;

use held::LatelyChanged;
pub use loader::{PageError, PointsLoader};
pub use lookup_hint::LookupHint;
use members::Members;
pub use pages::{PAGES_VERSION, PagePosition, Pages};
pub use tree::Tree;

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
    tree: Tree,
    members: Members,
    lately_changed: LatelyChanged,
}

/// The effect of an insertion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inserted {
    /// The member is new.
    New,
    /// The member was in another cell before.
    Moved,
    /// The member was in this cell already.
    Unchanged,
}

impl Points {
    /// An empty collection; allocates next to nothing.
    pub fn new() -> Points {
        Points::of(Tree::default(), Members::new())
    }

    fn of(tree: Tree, members: Members) -> Points {
        Points { tree, members, lately_changed: LatelyChanged::default() }
    }

    /// The number of members.
    pub fn len(&self) -> usize {
        self.tree.len()
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }

    /// A view of all entries as they are now, for any thread and for as long as it is kept. Costs
    /// two counted references; while it is kept, changes copy what they change and the view holds.
    ///
    /// ```
    /// use whered_geo::{Cell, Points};
    /// let mut points = Points::new();
    /// points.insert(b"a", Cell::MIN);
    /// let view = points.freeze();
    /// points.insert(b"a", Cell::MAX);
    /// assert_eq!(view.iter().collect::<Vec<_>>(), [(&b"a"[..], Cell::MIN)]);
    /// ```
    pub fn freeze(&self) -> Tree {
        self.tree.clone()
    }

    /// Bytes of memory taken, spare room and what the allocator makes of it included, without
    /// what only frozen views and pages hold. Every change keeps the sum up: asking is free. The
    /// resident set of a process is within a tenth of it, which `docs/design/points.md` measures.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Points>() + self.tree.memory_bytes() + self.members.memory_bytes()
    }
}

impl Deref for Points {
    type Target = Tree;

    fn deref(&self) -> &Tree {
        &self.tree
    }
}

impl Default for Points {
    fn default() -> Points {
        Points::new()
    }
}

#[cfg(test)]
#[path = "points_tests.rs"]
mod tests;
