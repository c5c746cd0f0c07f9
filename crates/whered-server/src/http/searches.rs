//! Questions that may take long, with the time until when their answer is waited for.
//!
//! For: searches of collections, drawings, walks over all sets. Not for: single lookups, which the
//! listener's thread answers at once, nor for how many run at a time (`HttpState::search`).
//!
//! Invariant: a search goes on when nobody waits for its answer any more, and keeps its permit: it
//! looks at its deadline now and then, and ends then.

use std::sync::Arc;
use std::time::Instant;

use whered_engine::Engine;

use super::REQUEST_TIME;
use super::error::HttpError;
use super::state::HttpState;

/// When nobody waits for the answer any more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline(Instant);

impl Deadline {
    /// Whether that has come.
    pub(super) fn is_over(self) -> bool {
        Instant::now() >= self.0
    }
}

/// Runs a search on another thread as soon as one is free.
///
/// # Errors
/// That of the search.
pub(super) async fn run<T: Send + 'static>(
    state: &HttpState,
    search: impl FnOnce(&Engine, Deadline) -> Result<T, HttpError> + Send + 'static,
) -> Result<T, HttpError> {
    let deadline = Deadline(Instant::now() + REQUEST_TIME);
    let engine = Arc::clone(&state.engine);
    state.search(move || search(&engine, deadline)).await?
}
