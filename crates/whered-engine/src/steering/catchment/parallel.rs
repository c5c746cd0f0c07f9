//! Work on numbered parts, shared among the processors.
//!
//! For: walks over a whole database, of which nobody is in a hurry but the reader of one page. Not
//! for: what answers queries.
//! Invariants: each part is worked on once; after the first error no further part is begun.
//! At the same time: as many threads as processors, at most [`THREADS_MAX`]. They have a lower
//! priority, so that threads that answer queries go first; the caller waits.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use whered_store::{Priority, lower_priority};

use crate::error::ExplainError;
use crate::sync;

const THREADS_MAX: usize = 8;

/// Calls `work` for each number below `count`, with a state of the thread that does it, and
/// returns the states.
///
/// # Errors
/// The first error of `work`.
pub(super) fn for_each_part<S: Default + Send>(
    count: usize,
    work: impl Fn(&mut S, usize) -> Result<(), ExplainError> + Sync,
) -> Result<Vec<S>, ExplainError> {
    let next = AtomicUsize::new(0);
    let states = Mutex::new(Vec::new());
    let run = || -> Result<(), ExplainError> {
        let mut state = S::default();
        loop {
            let part = next.fetch_add(1, Ordering::Relaxed);
            if part >= count {
                break;
            }
            work(&mut state, part).inspect_err(|_| next.store(count, Ordering::Relaxed))?;
        }
        sync::lock(&states).push(state);
        Ok(())
    };
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let threads = processors.min(THREADS_MAX).min(count);
    thread::scope(|scope| {
        let start = |_| {
            let run = || {
                // A system that refuses it has the work done at the usual priority.
                let _ = lower_priority(Priority::Behind);
                run()
            };
            thread::Builder::new().name("catchment".to_owned()).spawn_scoped(scope, run).ok()
        };
        let helpers: Vec<_> = (0..threads).filter_map(start).collect();
        if helpers.is_empty() {
            // The system has no room for another thread.
            run()?;
        }
        helpers.into_iter().try_for_each(|helper| match helper.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })?;
    Ok(states.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_worked_on_once() {
        for count in [0, 1, 5, 1000] {
            let states = for_each_part(count, |state: &mut Vec<usize>, part| {
                state.push(part);
                Ok(())
            });
            let mut parts: Vec<usize> = states.expect("no error").into_iter().flatten().collect();
            parts.sort_unstable();
            assert_eq!(parts, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_error_ends_the_work() {
        let begun = AtomicUsize::new(0);
        let ended = for_each_part(1_000_000, |_: &mut (), part| {
            begun.fetch_add(1, Ordering::Relaxed);
            if part == 100 { Err(ExplainError::TooLong) } else { Ok(()) }
        });
        assert_eq!(ended.unwrap_err(), ExplainError::TooLong);
        assert!(begun.load(Ordering::Relaxed) < 1_000_000, "the other parts are left");
    }
}
