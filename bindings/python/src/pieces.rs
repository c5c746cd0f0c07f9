//! Long work over many rows: in pieces, on threads, without the GIL, until Ctrl-C.
//!
//! The calling thread works as the others do, and between two pieces asks Python whether a signal
//! has come. Python's exception ends the work of all threads after their piece.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// How many rows a piece has: some ten milliseconds of work.
pub(crate) const ROWS: usize = 1 << 16;
/// More threads than any machine has use for.
const THREADS_MAX: usize = 1024;

/// Runs `work` on every piece, on `threads` threads, without the GIL. The first error ends it.
///
/// A piece is what one call of `work` changes and reads, such as a slice of a result and the rows
/// that it is made of.
///
/// # Errors
///
/// The first error of `work`; `ValueError` for 0 or too many threads; what a handler of a signal
/// raised.
pub(crate) fn run<P: Send>(
    py: Python<'_>,
    pieces: Vec<P>,
    threads: usize,
    work: impl Fn(P) -> PyResult<()> + Sync,
) -> PyResult<()> {
    check_threads(threads)?;
    let others = threads.min(pieces.len()).saturating_sub(1);
    let pieces = Mutex::new(pieces.into_iter());
    let is_over = AtomicBool::new(false);
    let next = || {
        if is_over.load(Ordering::Relaxed) {
            return None;
        }
        pieces.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next()
    };
    let failed = |error: PyErr| {
        is_over.store(true, Ordering::Relaxed);
        error
    };
    let work_all = || {
        while let Some(piece) = next() {
            work(piece).map_err(failed)?;
        }
        Ok(())
    };
    let work_and_listen = || {
        while let Some(piece) = next() {
            work(piece).map_err(failed)?;
            check_signals().map_err(failed)?;
        }
        Ok(())
    };
    py.detach(|| {
        thread::scope(|scope| {
            let others: Vec<_> = (0..others).map(|_| scope.spawn(work_all)).collect();
            let mine = work_and_listen();
            others.into_iter().fold(mine, |result, other| {
                let other = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                result.and(other)
            })
        })
    })
}

/// That a caller asks for a number of threads that can be.
///
/// # Errors
///
/// `ValueError` for 0 or too many threads.
pub(crate) fn check_threads(threads: usize) -> PyResult<()> {
    if (1..=THREADS_MAX).contains(&threads) {
        return Ok(());
    }
    let what = format!("threads={threads}: allowed are 1 to {THREADS_MAX}");
    Err(PyValueError::new_err(what))
}

/// Lets the handlers of signals run that have come, such as the one of Ctrl-C.
///
/// # Errors
///
/// What a handler raised.
#[expect(clippy::redundant_closure_for_method_calls, reason = "the method has one lifetime only")]
pub(crate) fn check_signals() -> PyResult<()> {
    Python::attach(|py| py.check_signals())
}
