//! Reload checking (`CHECK_CACHE`): the file is looked at once a second at most, and data of a new
//! file takes the place of the old without losing a call.
//!
//! Not for opening. Calls read the second from the C library and compare it with that of the last
//! look. When a handle has had [`MANY_LOOKUPS`] in the present second, only every
//! [`LOOKUPS_PER_READ`]th of the others does so.
//!
//! ```text
//! call ──► second as before? ──yes──► data
//!               │ no
//!               ▼
//!          stat: same file? ──yes──► data
//!               │ no
//!               ▼
//!          complete? open, swap the pointer; the old data is retired, later freed
//! ```
//!
//! Which file is complete:
//!
//! | file | taken when |
//! | --- | --- |
//! | another one under the name | two looks saw it unchanged, or it is 2 s old |
//! | the same, written in place | nobody wrote it for a minute, as with the original |
//! | any, without the marker that the old one had at its end | the same |
//!
//! A file that cannot be opened changes nothing and is reported once.
//!
//! Threads: one looks while the others go on with the data they have. Old data is freed by a look
//! that comes [`GRACE`] or more after the swap, when no lookup reads it (`readers.rs`). A child of
//! a fork takes over from a thread that looked and is not in it.

use crate::data::{Data, OpenError};
use crate::handle::Handle;
use crate::readers::Readers;
use crate::source::Identity;
use crate::status::{complain, keeping_errno};
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32};
use std::time::{Duration, Instant};

/// How long a file that was written in place must have been left alone.
const UNTOUCHED_SECONDS: i64 = 60;

/// How long a file that is new under the name must have been left alone.
const SETTLED_SECONDS: i64 = 2;

/// How long data that was replaced is kept at least.
const GRACE: Duration = Duration::from_secs(60);

/// From this many lookups in a second on, most do not read the clock: reading it takes a fifth of a
/// lookup's time.
const MANY_LOOKUPS: u32 = 50_000;

/// How many lookups then share one reading of the clock.
const LOOKUPS_PER_READ: u32 = 16;

/// The state of a handle's checks of its file.
#[derive(Default)]
pub(crate) struct Reload {
    /// How many more lookups do not read the clock.
    pub(crate) unchecked: AtomicU32,
    /// The readings of the clock in the present second.
    readings: AtomicU32,
    /// The process of which a thread looks; 0: none does.
    looking: AtomicI32,
    /// Data that was replaced, the newest first.
    retired: AtomicPtr<RetiredData>,
    /// The files of the looks before. Only who looks uses it.
    seen: UnsafeCell<UntakenFiles>,
}

/// Files that were not taken.
#[derive(Clone, Copy, Default)]
struct UntakenFiles {
    /// The one of the last look, which somebody may be writing.
    fresh: Option<Identity>,
    /// One that was opened and lacks the marker at its end.
    half: Option<Identity>,
    /// One that cannot be opened.
    refused: Option<Identity>,
}

/// Data that was replaced.
struct RetiredData {
    data: Box<Data>,
    since: Instant,
    next: AtomicPtr<RetiredData>,
}

/// The right to look: one thread of a process has it.
struct CheckLock<'a>(&'a AtomicI32);

impl Drop for CheckLock<'_> {
    fn drop(&mut self) {
        self.0.store(0, Release);
    }
}

impl Reload {
    fn try_lock(&self) -> Option<CheckLock<'_>> {
        // SAFETY: no preconditions.
        let process = unsafe { libc::getpid() };
        let before = self.looking.load(Relaxed);
        // That of a parent is from a thread that this process does not have.
        if before == process {
            return None;
        }
        self.looking.compare_exchange(before, process, Acquire, Relaxed).ok()?;
        Some(CheckLock(&self.looking))
    }

    fn retire(&self, data: Box<Data>) {
        let next = AtomicPtr::new(self.retired.load(Relaxed));
        let retired = RetiredData { data, since: Instant::now(), next };
        self.retired.store(Box::into_raw(Box::new(retired)), Release);
    }

    /// Frees the data that was replaced `grace` ago and that nobody reads. Only who looks calls it.
    fn free_retired(&self, readers: &Readers, grace: Duration) {
        let mut place = &self.retired;
        // SAFETY: what the list leads to came from a box and is freed here only.
        while let Some(retired) = unsafe { place.load(Relaxed).as_ref() } {
            if retired.since.elapsed() < grace || readers.uses(&raw const *retired.data) {
                place = &retired.next;
                continue;
            }
            let freed = place.swap(retired.next.load(Relaxed), AcqRel);
            // SAFETY: it is in the list no more.
            drop(unsafe { Box::from_raw(freed) });
        }
    }
}

impl Drop for Reload {
    fn drop(&mut self) {
        let mut next = *self.retired.get_mut();
        while !next.is_null() {
            // SAFETY: a box of the list, whose handle nobody uses any more.
            next = unsafe { Box::from_raw(next) }.next.into_inner();
        }
    }
}

/// Reads the clock, and looks at the file if it shows another second than at the last look.
#[inline(never)]
pub(crate) fn look(handle: &Handle) {
    // SAFETY: a null pointer is allowed.
    let now = unsafe { libc::time(null_mut()) };
    if handle.last_check().load(Relaxed) != now {
        handle.reload.readings.store(0, Relaxed);
        return check(handle, now, GRACE);
    }
    let readings = handle.reload.readings.load(Relaxed).saturating_add(1);
    handle.reload.readings.store(readings, Relaxed);
    if readings >= MANY_LOOKUPS {
        handle.reload.unchecked.store(LOOKUPS_PER_READ - 1, Relaxed);
    }
}

/// Looks at the file, unless another thread does.
#[cold]
#[inline(never)]
fn check(handle: &Handle, now: i64, grace: Duration) {
    if handle.last_check().swap(now, Relaxed) == now {
        return;
    }
    let Some(lock) = handle.reload.try_lock() else { return };
    keeping_errno(|| {
        handle.reload.free_retired(&handle.readers, grace);
        // SAFETY: only who has the lock uses it.
        let seen = unsafe { &mut *handle.reload.seen.get() };
        update(handle, seen, now);
    });
    drop(lock);
}

/// Replaces the data if there is another file that is complete. The caller has the lock.
fn update(handle: &Handle, seen: &mut UntakenFiles, now: i64) {
    // SAFETY: the present data; only this function replaces it.
    let present = unsafe { &*handle.data.load(Acquire) };
    let Ok(identity) = Identity::at(handle.path()) else { return };
    if identity == present.identity || Some(identity) == seen.refused {
        return;
    }
    let untouched_seconds = now.saturating_sub(identity.modified_seconds);
    let is_old = untouched_seconds > UNTOUCHED_SECONDS;
    let is_settled = !identity.is_same_file(&present.identity)
        && (untouched_seconds >= SETTLED_SECONDS || seen.fresh == Some(identity));
    if !is_old && (!is_settled || seen.half == Some(identity)) {
        seen.fresh = Some(identity);
        return;
    }
    let edition = present.mmdb.as_ref().map(|_| present.layout.edition);
    let data = match Data::open(handle.path(), handle.flags(), edition) {
        Ok(data) => data,
        Err(OpenError::Missing) => return,
        Err(error) => {
            seen.refused = Some(identity);
            let line = error.line(handle.path());
            return complain(handle.flags(), &format!("{line}; its predecessor goes on answering"));
        }
    };
    if present.is_marked && !data.is_marked && !is_old {
        seen.half = Some(identity);
        return;
    }
    // Of a file that is being written, some bytes are older than others.
    if Identity::at(handle.path()).ok() != Some(data.identity) {
        return;
    }
    handle.show(&data);
    let old = handle.data.swap(Box::into_raw(Box::new(data)), AcqRel);
    // SAFETY: it came from a box, and the handle does not lead to it any more.
    handle.reload.retire(unsafe { Box::from_raw(old) });
}

#[cfg(test)]
#[path = "reload_tests.rs"]
mod tests;
