//! Telling a link's thread to end, wherever it waits.
//!
//! Not for: ending it (it looks, or its connection is closed under it).

use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use whered_engine::sync;
use whered_replication::Closer;

/// Whether a link is to end, and the connection that it may be waiting for.
#[derive(Default)]
pub(crate) struct LinkStop {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Default)]
struct Inner {
    is_stopped: bool,
    /// The pause is over, or the next one.
    is_woken: bool,
    needs_dump: bool,
    is_working: bool,
    closer: Option<Closer>,
    /// Of the second connection.
    added: Option<Closer>,
}

impl Inner {
    fn close(&mut self) {
        self.closer.take().into_iter().chain(self.added.take()).for_each(|closer| closer.close());
    }
}

impl LinkStop {
    /// Ends the link: its connection is closed.
    pub(crate) fn stop(&self) {
        let mut inner = sync::lock(&self.inner);
        inner.is_stopped = true;
        inner.close();
        self.changed.notify_all();
    }

    /// Ends the connection, or the pause before the next one.
    pub(crate) fn reconnect(&self) {
        let mut inner = sync::lock(&self.inner);
        inner.is_woken = true;
        inner.close();
        self.changed.notify_all();
    }

    /// As [`LinkStop::reconnect`]; the next connection takes a dump.
    pub(crate) fn resync(&self) {
        sync::lock(&self.inner).needs_dump = true;
        self.reconnect();
    }

    /// Whether the next connection has to take a dump; asked once for each.
    pub(crate) fn take_needs_dump(&self) -> bool {
        std::mem::take(&mut sync::lock(&self.inner).needs_dump)
    }

    /// Whether it is to end.
    pub(crate) fn is_stopped(&self) -> bool {
        sync::lock(&self.inner).is_stopped
    }

    /// Work begins with a connection, which is closed at a stop. Gives `false` after one: then
    /// there is to be none.
    pub(crate) fn begin_work(&self, closer: Closer) -> bool {
        let mut inner = sync::lock(&self.inner);
        inner.is_working = !inner.is_stopped;
        inner.closer = Some(closer).filter(|_| inner.is_working);
        inner.is_working
    }

    /// Work begins with a second connection, which is closed at a stop as well. Gives `false` after
    /// one: then there is to be none.
    pub(crate) fn add_connection(&self, closer: Closer) -> bool {
        let mut inner = sync::lock(&self.inner);
        let is_working = inner.closer.is_some();
        inner.added = Some(closer).filter(|_| is_working);
        is_working
    }

    /// The work with a connection is over.
    pub(crate) fn end_work(&self) {
        let mut inner = sync::lock(&self.inner);
        (inner.is_working, inner.closer, inner.added) = (false, None, None);
    }

    /// Whether a connection is worked with. After a stop it will not be again.
    pub(crate) fn is_working(&self) -> bool {
        sync::lock(&self.inner).is_working
    }

    /// Waits so long, or until it is woken or stopped. Gives whether it is stopped.
    pub(crate) fn wait(&self, longest: Duration) -> bool {
        let end = Instant::now() + longest;
        let mut inner = sync::lock(&self.inner);
        while !inner.is_stopped && !inner.is_woken {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            inner = sync::unpoisoned(self.changed.wait_timeout(inner, left)).0;
        }
        inner.is_woken = false;
        inner.is_stopped
    }
}
