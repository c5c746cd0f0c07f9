//! A number for each thread, for whoever gives threads cache lines of their own.
//!
//! Cost: one thread-local read.

use std::sync::atomic::{AtomicUsize, Ordering};

thread_local! {
    static NUMBER: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed)
    };
}

/// This thread's lane of so many; threads beyond that share them.
pub(crate) fn lane_of(lanes: usize) -> usize {
    NUMBER.with(|number| number % lanes)
}
