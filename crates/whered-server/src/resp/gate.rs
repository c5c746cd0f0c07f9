//! A lock for writes in shards: while a transaction runs on one thread, no other thread writes.
//!
//! For: `EXEC`, whose commands follow each other with no other client's write between them.
//! Not for: what one command changes at once, which the engine's own locks protect; nor the journal,
//! since the engine's gate keeps all of a transaction in one entry; nor readers. The keyspace keeps
//! readers of keys out by itself. Readers of prefix sets and sites may see a part of a transaction.
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
//! each other; a writer takes its worker's only, and not inside `EXEC`. A write also raises the
//! flags of watched keys before it releases its lock: `WATCH` depends on that (`watch`).

use std::sync::{Mutex, MutexGuard};
use whered_engine::sync;

/// One lock for each worker.
pub(crate) struct WriteGate {
    shards: Box<[Shard]>,
}

/// One lock, in 128 bytes: processors fetch lines in pairs.
#[repr(align(128))]
#[derive(Default)]
struct Shard(Mutex<()>);

/// Held while a write, or a transaction, runs.
pub(crate) struct WriteGuard<'a> {
    _held: MutexGuard<'a, ()>,
}

impl WriteGate {
    /// Returns a gate for this number of workers.
    pub(crate) fn new(worker_count: usize) -> WriteGate {
        WriteGate { shards: (0..worker_count).map(|_| Shard::default()).collect() }
    }

    /// Takes a worker's lock for one write; waits while a transaction runs elsewhere.
    pub(crate) fn pass(&self, worker: usize) -> WriteGuard<'_> {
        WriteGuard { _held: lock(&self.shards[worker]) }
    }

    /// Takes all locks for a transaction.
    pub(crate) fn close(&self) -> Vec<WriteGuard<'_>> {
        self.shards.iter().map(|shard| WriteGuard { _held: lock(shard) }).collect()
    }
}

fn lock(shard: &Shard) -> MutexGuard<'_, ()> {
    // It guards no data: a panic inside leaves nothing half done here.
    sync::lock(&shard.0)
}
