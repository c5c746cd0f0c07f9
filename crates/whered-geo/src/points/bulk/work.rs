//! Tasks shared out among threads.
//!
//! For: the stages of a batch, each of which has many independent tasks. Not for: keeping threads;
//! they live as long as a stage, and starting one costs less than a thousandth of it.
//!
//! Concurrency: the tasks are taken from one queue, so that a thread that is held up takes fewer.
//! Where the system gives no thread, those that there are do the work.
//! Cost: a lock a task.

use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, scope};

/// Runs all tasks on `threads` threads, this one included; returns the state of each thread.
pub(in crate::points) fn work_off<T: Send, K: Send>(
    threads: usize,
    tasks: Vec<T>,
    keep: impl Fn() -> K + Sync,
    work: impl Fn(&mut K, T) + Sync,
) -> Vec<K> {
    let others = threads.min(tasks.len()).saturating_sub(1);
    let queue = Mutex::new(tasks.into_iter());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let run = || {
        let mut kept = keep();
        while let Some(task) = next() {
            work(&mut kept, task);
        }
        kept
    };
    scope(|scope| {
        let started = (0..others).map_while(|_| Builder::new().spawn_scoped(scope, run).ok());
        let started: Vec<_> = started.collect();
        let mut kept = vec![run()];
        for thread in started {
            kept.push(thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        kept
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_is_done_once_on_any_number_of_threads() {
        for threads in [0, 1, 2, 5] {
            for count in [0u32, 1, 2, 1000] {
                let tasks: Vec<u32> = (0..count).collect();
                let kept = work_off(threads, tasks, Vec::new, |kept: &mut Vec<u32>, task| {
                    kept.push(task);
                });
                assert!(kept.len() <= threads.max(1));
                let mut done = kept.concat();
                done.sort_unstable();
                assert_eq!(done, (0..count).collect::<Vec<u32>>());
            }
        }
    }
}
