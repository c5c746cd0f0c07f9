//! The slow log: the last commands that took longer than a threshold.
//!
//! ```text
//! newest ── entry 7 │ entry 6 │ ... │ entry 3 ── oldest      `capacity` entries at the most
//! ```
//!
//! Invariants: at most `slowlog-max-len` entries, each with at most 32 arguments of 128 bytes.
//! At the same time: one lock, taken only for a slow command and by `SLOWLOG`.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;
use whered_engine::sync;

use super::protocol::Args;

/// The most arguments of an entry and the most bytes of one, as Redis keeps them.
const ARGUMENTS_MAX: usize = 32;
const ARGUMENT_BYTES_MAX: usize = 128;

/// One slow command.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) id: u64,
    /// When it ended, in seconds since 1970.
    pub(crate) unix_seconds: u64,
    pub(crate) duration: Duration,
    pub(crate) arguments: Vec<Vec<u8>>,
    pub(crate) address: String,
    pub(crate) client_name: Vec<u8>,
}

/// The slow log of the listener.
#[derive(Default)]
pub(crate) struct SlowLog {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    entries: VecDeque<Entry>,
    next_id: u64,
}

impl SlowLog {
    /// Enters a command; its `id` is given here.
    pub(crate) fn add(&self, mut entry: Entry, capacity: usize) {
        let mut inner = self.lock();
        entry.id = inner.next_id;
        inner.next_id += 1;
        inner.entries.push_front(entry);
        inner.entries.truncate(capacity);
    }

    /// The newest entries, newest first.
    pub(crate) fn newest(&self, count: usize) -> Vec<Entry> {
        self.lock().entries.iter().take(count).cloned().collect()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Forgets all of them; numbering goes on.
    pub(crate) fn clear(&self) {
        self.lock().entries.clear();
    }

    /// Drops the oldest entries beyond `capacity`.
    pub(crate) fn shorten(&self, capacity: usize) {
        self.lock().entries.truncate(capacity);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        sync::lock(&self.inner)
    }
}

/// A request as an entry shows it: long arguments and long lists are cut, and say by how much.
pub(crate) fn shown(args: Args<'_>) -> Vec<Vec<u8>> {
    let kept = if args.len() > ARGUMENTS_MAX { ARGUMENTS_MAX - 1 } else { args.len() };
    let mut shown: Vec<Vec<u8>> = args.from(0).take(kept).map(shortened).collect();
    if args.len() > kept {
        shown.push(format!("... ({} more arguments)", args.len() - kept).into_bytes());
    }
    shown
}

fn shortened(argument: &[u8]) -> Vec<u8> {
    if argument.len() <= ARGUMENT_BYTES_MAX {
        return argument.to_vec();
    }
    let mut text = argument[..ARGUMENT_BYTES_MAX].to_vec();
    let more = argument.len() - ARGUMENT_BYTES_MAX;
    text.extend_from_slice(format!("... ({more} more bytes)").as_bytes());
    text
}
