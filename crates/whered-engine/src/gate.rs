//! The gate that every use of the keyspace and every change that the journal keeps passes, so that
//! a transaction can keep others out.
//!
//! For: `MULTI`/`EXEC`, whose commands run one after the other with nobody's between them, and whose
//! changes are one entry of the journal.
//! Not for: keeping single operations apart (the locks of what they change do).
//!
//! ```text
//! thread 0 ─ lane 0 ─┐
//! thread 1 ─ lane 1 ─┼─ each passes through its own lane: a lock that nobody else touches
//! thread 2 ─ lane 2 ─┘
//! transaction: all lanes exclusively, in ascending order
//! ```
//!
//! Invariants: a thread never waits for the gate while it holds a map, a value, the writer of a prefix
//! set or the engine's `control`, and passes once for one operation; a thread that holds the gate alone
//! passes through it freely.
//! Cost: passing is one uncontended lock on a cache line of the thread's own; holding the gate
//! alone is one lock for each lane.

use std::cell::Cell;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::lane::lane_of;

/// How many lanes there are; threads beyond that share them.
const LANES: usize = 32;

thread_local! {
    /// The address of the gate that this thread holds alone; 0 for none.
    static HELD: Cell<usize> = const { Cell::new(0) };
}

/// See the file's header.
pub(crate) struct Gate {
    lanes: [Lane; LANES],
}

/// A lock with a cache line, and the one that is fetched along with it, to itself.
#[repr(align(128))]
#[derive(Default)]
struct Lane(RwLock<()>);

/// Being inside, together with others; `None` inside of one's own transaction.
pub(crate) struct Passage<'a> {
    _lane: Option<RwLockReadGuard<'a, ()>>,
}

/// Being inside alone.
pub(crate) struct Alone<'a> {
    _lanes: Vec<RwLockWriteGuard<'a, ()>>,
}

impl Gate {
    pub(crate) fn new() -> Gate {
        Gate { lanes: std::array::from_fn(|_| Lane::default()) }
    }

    /// Waits while another thread holds the gate alone.
    pub(crate) fn pass(&self) -> Passage<'_> {
        if self.is_held_here() {
            return Passage { _lane: None };
        }
        let lane = &self.lanes[lane_of(LANES)].0;
        Passage { _lane: Some(lane.read().unwrap_or_else(PoisonError::into_inner)) }
    }

    /// Waits until nobody is inside, and keeps all others out.
    pub(crate) fn hold_alone<'a>(&'a self) -> Alone<'a> {
        let lock = |lane: &'a Lane| lane.0.write().unwrap_or_else(PoisonError::into_inner);
        let lanes = self.lanes.iter().map(lock).collect();
        HELD.set(self.address());
        Alone { _lanes: lanes }
    }

    /// Whether this thread holds it alone.
    pub(crate) fn is_held_here(&self) -> bool {
        HELD.get() == self.address()
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        HELD.set(0);
    }
}
