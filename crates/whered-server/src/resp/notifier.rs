//! How other threads reach a worker.
//!
//! For: waking it, and what it is to do then. Not for: what it does (`worker`).
//!
//! ```text
//! journal, feeds ── durable ─┐
//! a command ─────── call ────┼─> flag or list ── wake ──> the worker looks around
//! another worker ── hand ────┤   (the first entry of a list only)
//! the listener ──────── stop ────┘
//! ```
//!
//! Invariant: what is handed over is taken. A worker that stops, or has ended for whatever reason,
//! has closed its list, and a caller that would hand it something keeps it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use whered_engine::sync;

use mio::Waker;

use super::listen::AcceptedConnection;

/// What other threads have for a worker.
pub(crate) struct Notifier {
    waker: Waker,
    /// Connections that have a time slice coming: their index and their client's id.
    calls: Mutex<Vec<(usize, u64)>>,
    /// Connections that other workers have accepted for this one; `None` when it takes no more.
    handed: Mutex<Option<Vec<AcceptedConnection>>>,
    /// How many connections it has, those counted that are handed to it; more than any when it
    /// has ended.
    open: AtomicUsize,
    /// The worker sleeps with held replies.
    holding: AtomicBool,
    stopping: AtomicBool,
}

impl Notifier {
    /// Nothing yet.
    pub(super) fn new(waker: Waker) -> Notifier {
        Notifier {
            waker,
            calls: Mutex::default(),
            handed: Mutex::new(Some(Vec::new())),
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
    pub(super) fn call(&self, index: usize, id: u64) {
        let mut calls = sync::lock(&self.calls);
        calls.push((index, id));
        let is_first = calls.len() == 1;
        drop(calls);
        if is_first {
            self.wake();
        }
    }

    /// The connections that were called.
    pub(super) fn take_calls(&self) -> Vec<(usize, u64)> {
        std::mem::take(&mut *sync::lock(&self.calls))
    }

    /// The worker is to serve a connection that another one has accepted. Gives it back if the
    /// worker takes no more.
    pub(super) fn hand(&self, accepted: AcceptedConnection) -> Result<(), AcceptedConnection> {
        let mut handed = sync::lock(&self.handed);
        let Some(list) = &mut *handed else { return Err(accepted) };
        list.push(accepted);
        let is_first = list.len() == 1;
        self.add_open();
        drop(handed);
        if is_first {
            self.wake();
        }
        Ok(())
    }

    /// The connections that were handed over, each counted as open.
    pub(super) fn take_handed(&self) -> Vec<AcceptedConnection> {
        sync::lock(&self.handed).as_mut().map_or_else(Vec::new, std::mem::take)
    }

    /// Takes what was handed over for the last time, and closes the list.
    pub(super) fn take_last_handed(&self) -> Vec<AcceptedConnection> {
        sync::lock(&self.handed).take().unwrap_or_default()
    }

    /// The worker has ended.
    pub(super) fn end(&self) {
        // The list first: a caller that still finds it open counts what it adds.
        drop(self.take_last_handed());
        self.open.store(usize::MAX, Ordering::Relaxed);
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
