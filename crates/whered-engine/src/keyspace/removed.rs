//! Values that a transaction has taken out of the maps, freed when it no longer keeps others out.
//!
//! For: everything whose freeing may take long. Not for: what is removed outside of a transaction,
//! which is freed at once, without a lock.
//!
//! Cost: one allocation for each removal inside of a transaction.

use std::any::Any;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::sync;

/// Removed values that are still to be freed.
#[derive(Default)]
pub(super) struct RemovedValues {
    has_some: AtomicBool,
    values: Mutex<Vec<Box<dyn Any + Send>>>,
}

/// Frees what there is when it is dropped.
pub(super) struct FreedAtEnd<'a>(&'a RemovedValues);

impl RemovedValues {
    /// Keeps something until the end of the transaction.
    pub(super) fn keep(&self, value: impl Send + 'static) {
        sync::lock(&self.values).push(Box::new(value));
        self.has_some.store(true, Ordering::Relaxed);
    }

    /// Frees what is kept when the guard goes, which is to go when others are let in.
    pub(super) fn freed_at_end(&self) -> FreedAtEnd<'_> {
        FreedAtEnd(self)
    }
}

impl Drop for FreedAtEnd<'_> {
    fn drop(&mut self) {
        // Set by this thread, or by one that frees it as well.
        if self.0.has_some.swap(false, Ordering::Relaxed) {
            let values = std::mem::take(&mut *sync::lock(&self.0.values));
            drop(values);
        }
    }
}
