//! Locks of values, for which a thread first waits awake.
//!
//! For: values that several threads use at once. A pipeline of moves holds its own for some
//! microseconds to some tens, and to put a thread to sleep and wake it takes as long, on both
//! cores.
//! Not for: what is held for long; a thread that has waited in vain sleeps as usual.
//!
//! Cost: without others that of the lock itself; at most [`AWAKE`] of a processor's time for each
//! wait.

use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError, TryLockResult};
use std::time::{Duration, Instant};

use super::shared;

/// So long a thread waits awake: what sleeping and waking cost both sides, and longer than it takes
/// to bring a pipeline of moves near under the shared lock.
const AWAKE: Duration = Duration::from_micros(30);
/// How many pauses of the processor lie between two tries.
const PAUSES: usize = 4;

/// The shared lock.
pub(super) fn shared_soon<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    awake(|| lock.try_read()).unwrap_or_else(|| shared(lock))
}

/// The shared lock, if it can be had soon.
pub(super) fn try_shared_soon<T>(lock: &RwLock<T>) -> Option<RwLockReadGuard<'_, T>> {
    awake(|| lock.try_read())
}

/// The exclusive lock, if it can be had soon.
pub(super) fn exclusive_soon<T>(lock: &RwLock<T>) -> Option<RwLockWriteGuard<'_, T>> {
    awake(|| lock.try_write())
}

fn awake<G>(take: impl Fn() -> TryLockResult<G>) -> Option<G> {
    let taken = || match take() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    };
    taken().or_else(|| {
        let began = Instant::now();
        loop {
            (0..PAUSES).for_each(|_| std::hint::spin_loop());
            let guard = taken();
            if guard.is_some() || began.elapsed() > AWAKE {
                return guard;
            }
        }
    })
}
