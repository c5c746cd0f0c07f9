//! How other threads reach a worker.
//!
//! For: waking it, and what it is to do then. Not for: what it does (`worker`).
//!
//! ```text
//! journal, feeds ── durable ─┐
//! a command ─────── call ────┼─> flag or list ── wake ──> the worker looks around
//! another worker ── hand ────┤   (the first entry of a list only)
//! the door ──────── stop ────┘
//! ```

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, PoisonError};

use mio::Waker;

use super::listen::Accepted;

/// What other threads have for a worker.
pub(crate) struct Signal {
    waker: Waker,
    /// Connections that have a turn coming: their index and their client's id.
    calls: Mutex<Vec<(usize, u64)>>,
    /// Connections that other workers have accepted for this one.
    handed: Mutex<Vec<Accepted>>,
    /// How many connections it has, those counted that are handed to it.
    open: AtomicUsize,
    /// The worker sleeps with held replies.
    holding: AtomicBool,
    stopping: AtomicBool,
}

impl Signal {
    /// Nothing yet.
    pub(super) fn new(waker: Waker) -> Signal {
        Signal {
            waker,
            calls: Mutex::default(),
            handed: Mutex::default(),
            open: AtomicUsize::new(0),
            holding: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
        }
    }

    /// Writes have become durable, or the journal has failed. Costs one atomic load when the
    /// worker waits for nothing.
    pub(super) fn durable(&self) {
        // With its twin in `arm`: either this sees the worker armed, or the worker sees what
        // has become durable.
        fence(Ordering::SeqCst);
        if self.holding.load(Ordering::SeqCst) && self.holding.swap(false, Ordering::SeqCst) {
            self.wake();
        }
    }

    /// The worker is about to sleep with held replies: it is to look at them once more, so that no
    /// progress of the journal is missed between.
    pub(super) fn arm(&self) {
        self.holding.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// The worker is awake.
    pub(super) fn disarm(&self) {
        self.holding.store(false, Ordering::SeqCst);
    }

    /// A connection of the worker has something to take. Only the first call before the worker
    /// looks costs a system call.
    pub(super) fn call(&self, place: usize, id: u64) {
        self.add(&self.calls, (place, id));
    }

    /// The connections that were called.
    pub(super) fn take_calls(&self) -> Vec<(usize, u64)> {
        take(&self.calls)
    }

    /// The worker is to serve a connection that another one has accepted.
    pub(super) fn hand(&self, accepted: Accepted) {
        self.add_open();
        self.add(&self.handed, accepted);
    }

    /// The connections that were handed over, each counted as open.
    pub(super) fn take_handed(&self) -> Vec<Accepted> {
        take(&self.handed)
    }

    /// How many connections the worker has.
    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    pub(super) fn add_open(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn remove_open(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    fn add<T>(&self, list: &Mutex<Vec<T>>, item: T) {
        let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
        list.push(item);
        let is_first = list.len() == 1;
        drop(list);
        if is_first {
            self.wake();
        }
    }

    /// The worker is to look around.
    pub(super) fn wake(&self) {
        // A waker fails only when the poll is gone, and then nobody waits.
        let _ = self.waker.wake();
    }

    /// The worker is to finish.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.wake();
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }
}

fn take<T>(list: &Mutex<Vec<T>>) -> Vec<T> {
    std::mem::take(&mut *list.lock().unwrap_or_else(PoisonError::into_inner))
}
