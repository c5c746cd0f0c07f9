//! Telling a thread that works for ever to end, and waiting that ends then.
//!
//! For: sinks and streams. Not for: breaking off what a thread does; it looks when it can.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A request to end, shared between the caller that sets it and the threads that poll it.
#[derive(Debug, Default)]
pub struct Stop {
    is_stopped: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    /// Tells all who look.
    pub fn stop(&self) {
        *self.is_stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Whether somebody did.
    pub fn is_stopped(&self) -> bool {
        *self.is_stopped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits so long, or until somebody stops it. Gives whether it is stopped.
    pub fn wait(&self, longest: Duration) -> bool {
        let end = Instant::now() + longest;
        let mut is_stopped = self.is_stopped.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_stopped {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.changed.wait_timeout(is_stopped, left);
            is_stopped = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *is_stopped
    }
}
