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
//!          open, swap the pointer; the old data waits a minute, then is freed
//! ```
//!
//! A file that was replaced by rename is taken at once. One that was written in place is taken when
//! nobody has written it for a minute, as the original does, since it may be half written. A new
//! file that cannot be opened changes nothing.
//!
//! Threads: one looks while the others go on with the data they have. Old data is freed by a look
//! that comes [`GRACE`] after the swap: a lookup takes
//! microseconds, and none is as old. A range, which is many lookups, pins the data.

use crate::data::Data;
use crate::handle::Handle;
use crate::source::Identity;
use crate::status::keeping_errno;
use std::ptr::null_mut;
use std::sync::Mutex;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use std::time::{Duration, Instant};

/// How long a file that was written in place must have been left alone.
const UNTOUCHED_SECONDS: i64 = 60;

/// How long data that was replaced is kept for calls that are under way.
const GRACE: Duration = Duration::from_secs(60);

/// From this many lookups in a second on, most do not read the clock: reading it takes a fifth of a
/// lookup's time.
const MANY_LOOKUPS: u32 = 50_000;

/// How many lookups then share one reading of the clock.
const LOOKUPS_PER_READ: u32 = 16;

/// What a handle knows of its looks at the file.
#[derive(Default)]
pub(crate) struct Reload {
    /// How many more lookups do not read the clock.
    pub(crate) unchecked: AtomicU32,
    /// The readings of the clock in the present second.
    readings: AtomicU32,
    /// The calls under way that may take longer than [`GRACE`].
    pins: AtomicU32,
    /// Data that was replaced, and when.
    retired: Mutex<Vec<(Instant, Box<Data>)>>,
}

/// While it lives, no data of the handle is freed.
pub(crate) struct Pin<'a>(&'a AtomicU32);

impl Reload {
    /// Keeps data that is replaced from being freed.
    pub(crate) fn pin(&self) -> Pin<'_> {
        self.pins.fetch_add(1, SeqCst);
        Pin(&self.pins)
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// Reads the clock, and looks at the file if it shows another second than at the last look.
#[inline(never)]
pub(crate) fn look(handle: &Handle) {
    // SAFETY: a null pointer is allowed.
    let now = unsafe { libc::time(null_mut()) };
    if handle.last_check().load(Relaxed) != now {
        handle.reload.readings.store(0, Relaxed);
        return check(handle, now);
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
fn check(handle: &Handle, now: i64) {
    if handle.last_check().swap(now, Relaxed) == now {
        return;
    }
    let Ok(mut retired) = handle.reload.retired.try_lock() else { return };
    keeping_errno(|| {
        if handle.reload.pins.load(SeqCst) == 0 {
            retired.retain(|(since, _)| since.elapsed() < GRACE);
        }
        // SAFETY: the present data; only this function replaces it, and it holds the lock.
        let present = unsafe { &*handle.data.load(Acquire) };
        let Ok(identity) = Identity::at(handle.path()) else { return };
        let was = &present.identity;
        if identity == *was {
            return;
        }
        let is_fresh = now.saturating_sub(identity.modified_seconds) <= UNTOUCHED_SECONDS;
        if identity.is_same_file(was) && is_fresh {
            return;
        }
        let edition = present.mmdb.as_ref().map(|_| present.layout.edition);
        let Ok(data) = Data::open(handle.path(), handle.flags(), edition) else { return };
        handle.show(&data);
        let old = handle.data.swap(Box::into_raw(Box::new(data)), AcqRel);
        // SAFETY: it came from a box, and the handle does not lead to it any more.
        retired.push((Instant::now(), unsafe { Box::from_raw(old) }));
    });
}
