//! The gate: while a transaction runs on one thread, no other thread writes.
//!
//! For: `EXEC`, whose commands follow each other without a foreign write between them.
//! Not for: what one command changes at once (the engine's own locks do that), nor for the journal: the
//! engine's gate keeps all of a transaction in one entry. Nor for readers: the keyspace keeps those of keys out by itself, those of prefix sets and sites may see a transaction
//! half done.
//!
//! ```text
//! worker 0  [lock 0] ← each write of worker 0 takes it for its own time: no other core touches it
//! worker 1  [lock 1] ← each write of worker 1
//!    EXEC   takes lock 0, lock 1, ... in this order, and holds all of them to its end
//! ```
//!
//! Each lock has a cache line of its own, so a write pays two atomic operations on a line that its
//! core already owns; one lock shared by all workers would be passed between the cores at every
//! write. Invariants: locks are taken in ascending order, so that two transactions cannot wait for
//! each other; a writer takes its worker's only, and not inside `EXEC`. A write also raises the flags
//! of watched keys before it gives its lock back: `WATCH` depends on that (`watch`).

use std::sync::{Mutex, MutexGuard, PoisonError};

/// One lock for each worker.
pub(crate) struct Gate {
    lanes: Box<[Lane]>,
}

/// 128 bytes: processors fetch lines in pairs.
#[repr(align(128))]
#[derive(Default)]
struct Lane(Mutex<()>);

/// A write, or a transaction, is under way.
pub(crate) struct Passage<'a> {
    _held: MutexGuard<'a, ()>,
}

impl Gate {
    /// A gate for so many workers.
    pub(crate) fn new(worker_count: usize) -> Gate {
        Gate { lanes: (0..worker_count).map(|_| Lane::default()).collect() }
    }

    /// Lets one write of a worker through; it waits while a transaction runs elsewhere.
    pub(crate) fn pass(&self, worker: usize) -> Passage<'_> {
        Passage { _held: lock(&self.lanes[worker]) }
    }

    /// Closes the gate for everybody else.
    pub(crate) fn close(&self) -> Vec<Passage<'_>> {
        self.lanes.iter().map(|lane| Passage { _held: lock(lane) }).collect()
    }
}

fn lock(lane: &Lane) -> MutexGuard<'_, ()> {
    // It guards no data: a panic inside leaves nothing half done here.
    lane.0.lock().unwrap_or_else(PoisonError::into_inner)
}
