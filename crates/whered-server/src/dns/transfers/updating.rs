//! Updates on threads of their own: a zone of many names takes long to change, and a disk to note
//! it, while questions are answered.
//!
//! Not for: who may update what (`update`).
//!
//! ```text
//! UDP, TCP ─ PendingUpdate ─> [ at most 256 ] ─> at most 4 threads ─> answer, signed ─> client
//!        └ no room: SERVFAIL
//! ```
//!
//! Concurrency: a thread ends when nothing waits. One that waited for [`PATIENCE`] is answered by
//! SERVFAIL and not made: its client has asked again by then. Cost: nothing without updates.

use std::collections::VecDeque;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::thread::Builder;
use std::time::{Duration, Instant};

use whered_dns::transfer::{AnswerSigner, reply_to};
use whered_dns::{Name, Rcode};
use whered_engine::sync;

use super::answer::signed_within;
use super::primary::Slot;
use super::{Transfers, add};

/// How many updates wait or are made.
const UPDATES_MAX: usize = 256;
/// How many are made at a time.
const THREADS_MAX: usize = 4;
/// How long an update may wait for those before it.
const PATIENCE: Duration = Duration::from_secs(5);

/// An update whose signature holds.
pub(super) struct UpdateMessage {
    pub(super) source: IpAddr,
    pub(super) key: Name,
    pub(super) message: Vec<u8>,
    pub(super) signer: AnswerSigner,
    pub(super) size_max: usize,
}

/// An update that has room in the queue.
pub(in crate::dns) struct PendingUpdate {
    transfers: Arc<Transfers>,
    update: UpdateMessage,
    slot: Slot,
}

/// See the head of this file.
#[derive(Default)]
pub(super) struct UpdateQueue {
    /// How many wait or are made.
    count: Arc<AtomicUsize>,
    state: Mutex<QueueState>,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<Job>,
    threads: usize,
    /// There was no room, which the log has.
    is_full: bool,
}

struct Job {
    pending: PendingUpdate,
    answer: Box<dyn FnOnce(Vec<u8>) + Send>,
    since: Instant,
}

impl fmt::Debug for PendingUpdate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingUpdate").field("source", &self.update.source).finish_non_exhaustive()
    }
}

impl PendingUpdate {
    /// Takes room in the queue; none when there is none.
    pub(super) fn new(transfers: &Arc<Transfers>, update: UpdateMessage) -> Option<PendingUpdate> {
        let queue = &transfers.updates;
        let Some(slot) = Slot::take(&queue.count, UPDATES_MAX) else {
            add(&transfers.counts.updates_busy);
            if !std::mem::replace(&mut sync::lock(&queue.state).is_full, true) {
                let source = update.source;
                tracing::warn!(
                    "{UPDATES_MAX} updates wait: those of {source} and others are answered with \
                     SERVFAIL until there is room"
                );
            }
            return None;
        };
        Some(PendingUpdate { transfers: Arc::clone(transfers), update, slot })
    }

    /// Has the update made; `answer` takes the reply, on another thread.
    pub(in crate::dns) fn begin(self, answer: impl FnOnce(Vec<u8>) + Send + 'static) {
        let transfers = Arc::clone(&self.transfers);
        let job = Job { pending: self, answer: Box::new(answer), since: Instant::now() };
        {
            let mut state = sync::lock(&transfers.updates.state);
            state.waiting.push_back(job);
            if state.threads >= THREADS_MAX {
                return;
            }
            state.threads += 1;
        }
        let worker = Worker { transfers, has_left: false };
        let thread = Builder::new().name("whered-update".to_owned());
        // What waits is refused when the closure is dropped.
        if let Err(error) = thread.spawn(move || worker.run()) {
            tracing::error!("updates have no thread: {error}");
        }
    }
}

/// A thread that makes updates until none waits.
struct Worker {
    transfers: Arc<Transfers>,
    /// It does not count any more.
    has_left: bool,
}

impl Worker {
    fn run(mut self) {
        while let Some(job) = self.next() {
            match job.since.elapsed() > PATIENCE {
                true => job.refuse(),
                false => job.make(),
            }
        }
    }

    fn next(&mut self) -> Option<Job> {
        let mut state = sync::lock(&self.transfers.updates.state);
        let job = state.waiting.pop_front();
        if job.is_none() {
            // At once, so that the next update that comes begins another thread.
            state.threads -= 1;
            (state.is_full, self.has_left) = (false, true);
        }
        job
    }
}

/// A thread that did not begin, or ended in a panic: without another one, nobody would answer what
/// waits.
impl Drop for Worker {
    fn drop(&mut self) {
        if self.has_left {
            return;
        }
        let mut state = sync::lock(&self.transfers.updates.state);
        state.threads -= 1;
        if state.threads == 0 {
            let waiting = std::mem::take(&mut state.waiting);
            drop(state);
            waiting.into_iter().for_each(Job::refuse);
        }
    }
}

impl Job {
    fn make(self) {
        let reply = self.pending.transfers.made_update(&self.pending.update);
        self.reply(reply);
    }

    /// Answers an update that is not made.
    fn refuse(self) {
        add(&self.pending.transfers.counts.updates_busy);
        let reply = reply_to(&self.pending.update.message, Rcode::SERVFAIL, false);
        self.reply(reply);
    }

    fn reply(self, reply: Vec<u8>) {
        let PendingUpdate { update, slot, .. } = self.pending;
        let UpdateMessage { message, mut signer, size_max, .. } = update;
        drop(slot);
        (self.answer)(signed_within(reply, Some(&mut signer), size_max, &message));
    }
}
