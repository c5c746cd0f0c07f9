//! A transaction: the commands between `MULTI` and `EXEC`, and the watched keys.
//!
//! For: queueing, and what `EXEC` has to know. Not for: the replies (`commands/transaction`).
//!
//! ```text
//! bytes:   SETkeyvalueGETkey          every argument once, copied out of the input
//! spans:   (0,3)(3,6)(6,11)│(11,14)(14,17)
//! queued:  number of SET, 0..3        │ number of GET, 3..5
//! ```
//!
//! Invariant: the queue is no longer than the limit of a query; beyond it the transaction fails.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use std::sync::atomic::Ordering;

use super::protocol::{Args, Span};
use super::watch::{DirtyFlag, Watches};

/// One session's transaction.
#[derive(Default)]
pub(crate) struct Transaction {
    queue: Option<Queue>,
    /// Where each key lay when it was watched, if it existed: one that has expired since was
    /// changed, and so was one that another link shows now.
    watched: BTreeMap<(usize, Box<[u8]>), Option<usize>>,
    changed: DirtyFlag,
}

/// What was queued so far.
#[derive(Default)]
pub(crate) struct Queue {
    bytes: Vec<u8>,
    spans: Vec<Span>,
    commands: Vec<(usize, Range<usize>)>,
    /// A command could not be queued: `EXEC` will refuse.
    pub(crate) failed: bool,
    /// A command among them writes, or can make the memory grow.
    pub(crate) writes: bool,
    pub(crate) denies_oom: bool,
}

impl Queue {
    /// Adds a request, by its command's number.
    pub(crate) fn push(&mut self, number: usize, args: Args<'_>) {
        let first = self.spans.len();
        for arg in args.from(0) {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(arg);
            self.spans.push((start, self.bytes.len()));
        }
        self.commands.push((number, first..self.spans.len()));
    }

    /// How many commands there are.
    pub(crate) fn len(&self) -> usize {
        self.commands.len()
    }

    /// The memory that it takes.
    pub(crate) fn size_bytes(&self) -> usize {
        let of_spans = self.spans.len() * size_of::<Span>();
        self.bytes.len() + of_spans + self.commands.len() * size_of::<(usize, Range<usize>)>()
    }

    /// The requests in order.
    pub(crate) fn requests(&self) -> impl Iterator<Item = (usize, Args<'_>)> {
        self.commands
            .iter()
            .map(|(number, spans)| (*number, Args::new(&self.bytes, &self.spans[spans.clone()])))
    }
}

impl Transaction {
    /// Whether `MULTI` has begun one.
    pub(crate) fn is_open(&self) -> bool {
        self.queue.is_some()
    }

    /// Whether a command that was queued writes.
    pub(crate) fn writes(&self) -> bool {
        self.queue.as_ref().is_some_and(|queue| queue.writes)
    }

    /// Whether a command that was queued can make the memory grow.
    pub(crate) fn denies_oom(&self) -> bool {
        self.queue.as_ref().is_some_and(|queue| queue.denies_oom)
    }

    /// Begins one.
    pub(crate) fn open(&mut self) {
        self.queue = Some(Queue::default());
    }

    /// The memory that the queue takes.
    pub(crate) fn size_bytes(&self) -> usize {
        self.queue.as_ref().map_or(0, Queue::size_bytes)
    }

    /// What was queued, while one is open.
    pub(crate) fn queue(&mut self) -> Option<&mut Queue> {
        self.queue.as_mut()
    }

    /// A command between `MULTI` and `EXEC` was refused.
    pub(crate) fn fail(&mut self) {
        if let Some(queue) = &mut self.queue {
            queue.failed = true;
        }
    }

    /// Ends it and gives what was queued.
    pub(crate) fn take(&mut self) -> Option<Queue> {
        self.queue.take()
    }

    /// Watches a key from now on.
    pub(crate) fn watch(
        &mut self,
        watches: &Watches,
        number: usize,
        key: &[u8],
        place: impl FnOnce() -> Option<usize>,
    ) {
        let Entry::Vacant(watched) = self.watched.entry((number, key.into())) else {
            return;
        };
        watches.add(number, key, &self.changed);
        // Looked at afterwards: a change between the two raises the flag.
        watched.insert(place());
    }

    /// Watches nothing any more.
    pub(crate) fn unwatch(&mut self, watches: &Watches) {
        if self.watched.is_empty() {
            return;
        }
        for (number, key) in std::mem::take(&mut self.watched).into_keys() {
            watches.remove(number, &key, &self.changed);
        }
        // A write that has found the old flag may still raise it; the next watch has its own.
        self.changed = DirtyFlag::default();
    }

    /// Whether a watched key was changed, or lies elsewhere; asked while nobody else writes.
    pub(crate) fn is_stale(&self, place: impl Fn(usize, &[u8]) -> Option<usize>) -> bool {
        let is_elsewhere = |((number, key), before): (&(usize, Box<[u8]>), &Option<usize>)| {
            before.is_some() && *before != place(*number, key)
        };
        self.changed.load(Ordering::SeqCst) || self.watched.iter().any(is_elsewhere)
    }
}
