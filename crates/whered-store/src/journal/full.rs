//! A disk without room, as a state of the journal.
//!
//! It begins when a reservation is refused for that, and ends when a segment of the usual size
//! could be allocated. The journal's thread tries that now and then (`thread.rs`), so that the
//! state ends also where nobody writes any more because of it. Cost: one atomic load where there is
//! room.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::thread::lock;

/// How often a full disk is asked for room.
const LOOK_EVERY: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct FullDisk {
    is_full: AtomicBool,
    reason: Mutex<Option<String>>,
}

impl FullDisk {
    /// A reservation was refused.
    pub(super) fn begin(&self, reason: String) {
        *lock(&self.reason) = Some(reason);
        self.is_full.store(true, Ordering::Release);
    }

    /// There is room.
    pub(super) fn end(&self) {
        if self.is_full.swap(false, Ordering::AcqRel) {
            *lock(&self.reason) = None;
        }
    }

    /// Why the last reservation was refused, while there is no room.
    pub(super) fn reason(&self) -> Option<String> {
        if self.is_full.load(Ordering::Acquire) { lock(&self.reason).clone() } else { None }
    }

    /// When the disk is to be asked for room, if it is full.
    pub(super) fn look_at(&self, due: &mut Option<Instant>) -> Option<Instant> {
        if !self.is_full.load(Ordering::Acquire) {
            *due = None;
            return None;
        }
        Some(*due.get_or_insert_with(|| Instant::now() + LOOK_EVERY))
    }
}
