//! Building a generation at the lowest priority: lookups have the cores first.
//!
//! Not for: the threads of the doors. A load goes on under any load, slowly, and takes whole cores that
//! nobody wants.

use whered_engine::{Priority, lower_priority};

/// Gives the calling thread the lowest priority, where the system has one for threads.
pub(crate) fn lower() {
    if let Err(error) = lower_priority(Priority::Lowest) {
        tracing::warn!("a thread of the background has full priority: {error}");
    }
}

/// Does work on a thread of the lowest priority and waits for it.
///
/// # Panics
/// When the work does.
pub(crate) fn with_lowest_priority<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let at_lowest = || {
        lower();
        work()
    };
    std::thread::scope(|scope| match scope.spawn(at_lowest).join() {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}
