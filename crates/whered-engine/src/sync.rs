//! Locks that survive a panic, a notification, and a gate that lets many in or one alone.
//!
//! For: everything of the engine that threads share; the server uses it, too. Not for: deciding
//! what a lock guards.
//!
//! A poisoned lock is taken all the same ([`lock`], [`read`], [`write`]): data that a panic may
//! leave half done is checked or made again by its owner, and one panic must not end
//! every listener.
//!
//! ```text
//! ExclusiveGate
//! thread 0 ─ shard 0 ─┐
//! thread 1 ─ shard 1 ─┼─ shared: each thread locks its own shard, which nobody else touches
//! thread 2 ─ shard 2 ─┘
//! exclusive: all shards, in ascending order
//! ```
//! Invariants of the gate: a thread never waits for it while it holds a map, a value, the writer of
//! a prefix set or the engine's `control`, and enters once for one operation. A thread that holds
//! it exclusively enters freely.
//! Cost: to enter is one uncontended lock on a cache line of the thread's own; to hold the gate
//! exclusively is one lock for each shard.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{
    Condvar, LockResult, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
use std::time::Duration;

/// Takes a mutex, poisoned or not.
#[inline]
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    unpoisoned(mutex.lock())
}

/// Takes a lock to read, poisoned or not.
#[inline]
pub fn read<T: ?Sized>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    unpoisoned(lock.read())
}

/// Takes a lock to write, poisoned or not.
#[inline]
pub fn write<T: ?Sized>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    unpoisoned(lock.write())
}

/// The guard of a lock or a wait, poisoned or not.
#[inline]
pub fn unpoisoned<T>(result: LockResult<T>) -> T {
    result.unwrap_or_else(PoisonError::into_inner)
}

/// Wakes threads that wait for work. A notification that comes before the wait ends that wait.
#[derive(Debug, Default)]
pub struct Notify {
    is_notified: Mutex<bool>,
    changed: Condvar,
}

impl Notify {
    /// Ends a wait that goes on, or the next one.
    pub fn notify(&self) {
        *lock(&self.is_notified) = true;
        self.changed.notify_all();
    }

    /// Waits for a notification and takes it; `false` when the time is over without one.
    pub fn wait(&self, timeout: Duration) -> bool {
        let is_notified = lock(&self.is_notified);
        let waited = self.changed.wait_timeout_while(is_notified, timeout, |is| !*is);
        std::mem::take(&mut *unpoisoned(waited).0)
    }
}

thread_local! {
    static NUMBER: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed)
    };

    /// The address of the gate that this thread holds exclusively; 0 for none.
    static HELD: Cell<usize> = const { Cell::new(0) };
}

/// This thread's shard of `count`; threads beyond that share them.
#[inline]
pub(crate) fn shard_of(count: usize) -> usize {
    NUMBER.with(|number| number % count)
}

/// How many shards a gate has.
const SHARDS: usize = 32;

/// Lets many threads in together, or one alone; see the file's header.
pub struct ExclusiveGate {
    shards: [Shard; SHARDS],
}

/// A lock with a cache line, and the one that is fetched along with it, to itself.
#[repr(align(128))]
#[derive(Default)]
struct Shard(RwLock<()>);

/// The thread is inside, together with others; `None` inside of its own exclusive time.
pub struct SharedGuard<'a> {
    _shard: Option<RwLockReadGuard<'a, ()>>,
}

/// The thread is inside alone.
pub struct ExclusiveGuard<'a> {
    _shards: Vec<RwLockWriteGuard<'a, ()>>,
}

impl Default for ExclusiveGate {
    fn default() -> ExclusiveGate {
        ExclusiveGate { shards: std::array::from_fn(|_| Shard::default()) }
    }
}

impl ExclusiveGate {
    /// Waits while another thread holds the gate exclusively.
    pub fn shared(&self) -> SharedGuard<'_> {
        if self.is_exclusive_here() {
            return SharedGuard { _shard: None };
        }
        SharedGuard { _shard: Some(read(&self.shards[shard_of(SHARDS)].0)) }
    }

    /// Waits until nobody is inside, and keeps all others out.
    pub fn exclusive(&self) -> ExclusiveGuard<'_> {
        let shards = self.shards.iter().map(|shard| write(&shard.0)).collect();
        HELD.set(self.address());
        ExclusiveGuard { _shards: shards }
    }

    /// Whether this thread holds it exclusively.
    pub fn is_exclusive_here(&self) -> bool {
        HELD.get() == self.address()
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

impl Drop for ExclusiveGuard<'_> {
    fn drop(&mut self) {
        HELD.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_before_the_wait_ends_one_wait() {
        let notify = Notify::default();
        notify.notify();
        assert!(notify.wait(Duration::from_secs(60)));
        assert!(!notify.wait(Duration::from_millis(1)));
    }

    #[test]
    fn a_lock_is_taken_after_a_panic() {
        let mutex = Mutex::new(1);
        std::thread::scope(|scope| {
            let held = scope.spawn(|| {
                let _held = lock(&mutex);
                panic!("while it is held");
            });
            assert!(held.join().is_err());
        });
        assert!(mutex.is_poisoned());
        assert_eq!(*lock(&mutex), 1);
    }

    #[test]
    fn one_thread_alone_keeps_others_out_and_enters_freely() {
        let gate = ExclusiveGate::default();
        let (entered, other) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let alone = gate.exclusive();
            assert!(gate.is_exclusive_here());
            scope.spawn(|| {
                let _inside = gate.shared();
                entered.send(()).expect("somebody waits for it");
            });
            drop(gate.shared());
            assert!(other.recv_timeout(Duration::from_millis(20)).is_err());
            drop(alone);
            assert!(!gate.is_exclusive_here());
            assert_eq!(other.recv(), Ok(()));
        });
    }
}
