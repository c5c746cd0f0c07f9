//! Waiting for a moment: for what is sent at a pace, and for a machine that is to be left alone.
//!
//! Not for events, which have somebody who tells of them.

use std::time::Instant;

/// Waits until a moment, at once if it has passed. Whatever wakes the thread by accident, such as a
/// scope's threads that have ended, does not shorten it.
///
/// ```
/// use std::time::{Duration, Instant};
/// let due = Instant::now() + Duration::from_millis(2);
/// std::thread::current().unpark();
/// whered_bench::measure::wait_until(due);
/// assert!(Instant::now() >= due);
/// ```
pub fn wait_until(due: Instant) {
    while let Some(rest) = due.checked_duration_since(Instant::now()).filter(|rest| !rest.is_zero())
    {
        std::thread::park_timeout(rest);
    }
}
