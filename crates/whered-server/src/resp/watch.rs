//! Watched keys: a transaction is given up when one of them was changed since `WATCH`.
//!
//! For: `WATCH UNWATCH EXEC`, over the commands of this door.
//! Not for: which keys a command has (`commands/key_spec`).
//!
//! ```text
//! (database, key) ──> [ flag of session 3, flag of session 9 ]      a write raises the flags
//! ```
//!
//! A write looks here after it has been applied, and while it holds its lane of the gate: `EXEC`,
//! which closes the gate first, therefore sees the flag of every write that came before it. A
//! write that began before `WATCH` may raise the flag although its effect was seen: then a
//! transaction is repeated for nothing, which its client must expect anyhow.
//!
//! Cost: one atomic load for each write while nobody watches anything; `SWAPDB` looks at every
//! watched key.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use whered_engine::sync;

/// Raised when a watched key was changed; one for each session.
pub(crate) type DirtyFlag = Arc<AtomicBool>;

type Keys = HashMap<(usize, Box<[u8]>), Vec<DirtyFlag>>;

/// The watched keys of the door.
#[derive(Default)]
pub(crate) struct Watches {
    /// The number of keys below; read without their lock.
    count: AtomicUsize,
    keys: Mutex<Keys>,
}

impl Watches {
    /// A session wants to know when a key changes.
    pub(crate) fn add(&self, number: usize, key: &[u8], flag: &DirtyFlag) {
        let mut keys = self.lock();
        keys.entry((number, key.into())).or_default().push(Arc::clone(flag));
        self.count.store(keys.len(), Ordering::SeqCst);
    }

    /// The session does not want to know any more.
    pub(crate) fn remove(&self, number: usize, key: &[u8], flag: &DirtyFlag) {
        let mut keys = self.lock();
        let place = (number, Box::from(key));
        if let Some(flags) = keys.get_mut(&place) {
            flags.retain(|other| !Arc::ptr_eq(other, flag));
            if flags.is_empty() {
                keys.remove(&place);
            }
        }
        self.count.store(keys.len(), Ordering::SeqCst);
    }

    /// Whether nothing is watched.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }

    /// A key was changed.
    pub(crate) fn mark(&self, number: usize, key: &[u8]) {
        if self.is_empty() {
            return;
        }
        if let Some(flags) = self.lock().get(&(number, Box::from(key))) {
            flags.iter().for_each(|flag| flag.store(true, Ordering::SeqCst));
        }
    }

    /// Two databases have changed places: what is watched in one of them has changed if there is
    /// something under its name in either.
    pub(crate) fn mark_swapped(&self, numbers: [usize; 2], exists: impl Fn(usize, &[u8]) -> bool) {
        for ((number, key), flags) in self.lock().iter() {
            if numbers.contains(number) && numbers.iter().any(|&it| exists(it, key)) {
                flags.iter().for_each(|flag| flag.store(true, Ordering::SeqCst));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Keys> {
        sync::lock(&self.keys)
    }
}
