//! Panics of a library over foreign bytes, caught without a word on standard error.
//!
//! Not for our own code, whose panics are defects and are printed.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// Whether a panic of this thread is caught and must not be printed.
    static IS_SILENT: Cell<bool> = const { Cell::new(false) };
}

/// What `run` gives; nothing if it panics. What it has changed must not be used after a panic.
pub(crate) fn catch<T>(run: impl FnOnce() -> T) -> Option<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |panic| {
            if !IS_SILENT.get() {
                usual(panic);
            }
        }));
    });
    let was_silent = IS_SILENT.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(run));
    IS_SILENT.set(was_silent);
    outcome.ok()
}
