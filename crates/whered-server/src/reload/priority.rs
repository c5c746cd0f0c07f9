//! Building a generation at the lowest priority: lookups have the cores first.
//!
//! Not for: the threads of the listeners. A load goes on under any load, slowly, and takes whole
//! cores that nobody wants.

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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// The nice value of the calling thread.
    fn nice() -> i64 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("Linux has it");
        // The name in brackets may hold spaces; nice is the 17th word behind it.
        let words = stat.rsplit(") ").next().expect("the rest of the line");
        words.split(' ').nth(16).and_then(|word| word.parse().ok()).expect("a nice value")
    }

    #[test]
    fn the_work_is_nice_and_the_caller_stays_as_it_was() {
        let before = nice();
        assert_eq!(with_lowest_priority(nice), 19);
        assert_eq!(nice(), before);
    }
}
