//! Clients that wait until a sorted set has members: `BZPOPMIN BZPOPMAX BZMPOP`.
//!
//! For: who waits for which keys in which order, and serving them. Not for: arguments
//! (`commands/sorted_set_pop`), nor how a connection stands still meanwhile (`background`).
//!
//! ```text
//! handler: all keys are empty ──> lines[key]: 3, 9, 12      in the order of their coming
//! a write to key ── serve ──> pops for 3 ──> its reply, kept ── client.call() ──> its worker
//! timeout, CLIENT UNBLOCK, end of the connection ──> out of all lines
//! ```
//!
//! Invariants: who takes a waiter out of the lines, which needs their lock, is the one that ends
//! it, so that each ends once and no member is popped for nobody. A waiter that finds its keys
//! empty enters the lines under the same lock; a writer looks at the count after its change. So
//! one of the two sees the other.
//! A writer serves before its own reply leaves, and a transaction when all its commands have run.
//! Keys that something else than a command fills (feeds) are looked at once a second.
//! Locks: that of the lines is taken before those of the keyspace.
//! Cost: one atomic load for each write while nobody waits. Memory: the names of the keys that
//! clients wait for, once for each client.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use whered_engine::{Keyspace, Ticket, WriteError, sync};

use super::clients::Client;
use super::commands::effect::Effect;
use super::pending::{Finish, PendingReply, Wait};
use super::reply::{Failure, Reply};
use super::watch::Watches;

/// A request to pop members.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PopRequest {
    pub(crate) highest: bool,
    /// How many members at most.
    pub(crate) most: usize,
    pub(crate) form: PopForm,
}

/// How the members are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PopForm {
    /// Key, member, score.
    One,
    /// Key, and an array of pairs.
    Several,
}

/// Members that were removed.
pub(crate) struct PoppedMembers {
    pub(crate) key: Vec<u8>,
    members: Vec<(Vec<u8>, f64)>,
    ticket: Ticket,
}

impl PoppedMembers {
    /// Writes the reply.
    pub(crate) fn write(&self, form: PopForm, reply: &mut Reply) {
        reply.hold(self.ticket);
        match form {
            PopForm::One => reply.array(1 + 2 * self.members.len()),
            PopForm::Several => reply.array(2),
        }
        reply.bulk(&self.key);
        if form == PopForm::Several {
            reply.array(self.members.len());
        }
        for (member, score) in &self.members {
            if form == PopForm::Several {
                reply.array(2);
            }
            reply.bulk(member);
            reply.double(*score);
        }
    }
}

/// Pops from the first of the keys that has members.
///
/// # Errors
/// A key before it, or that one, holds something else, or the journal takes no write.
pub(crate) fn pop_first(
    keyspace: &Keyspace,
    number: usize,
    keys: &[&[u8]],
    request: PopRequest,
) -> Result<Option<PoppedMembers>, Failure> {
    for key in keys {
        let written = keyspace.pop(number, key, request.most, request.highest)?;
        if !written.value.is_empty() {
            let (members, ticket) = (written.value, written.ticket);
            return Ok(Some(PoppedMembers { key: key.to_vec(), members, ticket }));
        }
    }
    Ok(None)
}

/// The outcome of a request.
pub(crate) enum PopOutcome {
    /// There were members.
    Members(PoppedMembers),
    /// The client waits.
    Waits(PendingReply, Wait),
}

/// Why a wait ends without members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WaitEnd {
    /// Its time is over, or `CLIENT UNBLOCK` says so.
    TimedOut,
    /// `CLIENT UNBLOCK ... ERROR`.
    Unblocked,
}

/// One client's wait.
struct Waiter {
    client: Arc<Client>,
    number: usize,
    keys: Vec<Box<[u8]>>,
    request: PopRequest,
    is_timed: bool,
    pending: PendingReply,
}

impl Waiter {
    /// Gives the connection its reply.
    fn end(&self, finish: Finish) {
        self.pending.complete(finish);
        self.client.call();
    }
}

/// Those who wait for one key, by their order.
type Line = BTreeMap<u64, Arc<Waiter>>;

/// All clients that wait, by their order.
#[derive(Default)]
struct Lines {
    last_order: u64,
    /// How many have a deadline.
    timed: usize,
    waiters: HashMap<u64, Arc<Waiter>>,
    /// The order of a client's wait, by the client's number.
    clients: HashMap<u64, u64>,
    keys: BTreeMap<(usize, Box<[u8]>), Line>,
}

impl Lines {
    fn enter(&mut self, waiter: Waiter) -> u64 {
        self.last_order += 1;
        let order = self.last_order;
        self.timed += usize::from(waiter.is_timed);
        let waiter = Arc::new(waiter);
        for key in &waiter.keys {
            let line = self.keys.entry((waiter.number, key.clone())).or_default();
            line.insert(order, Arc::clone(&waiter));
        }
        self.clients.insert(waiter.client.id, order);
        self.waiters.insert(order, waiter);
        order
    }

    fn remove(&mut self, order: u64) -> Option<Arc<Waiter>> {
        let waiter = self.waiters.remove(&order)?;
        self.clients.remove(&waiter.client.id);
        self.timed -= usize::from(waiter.is_timed);
        for key in &waiter.keys {
            let place = (waiter.number, key.clone());
            if let Some(line) = self.keys.get_mut(&place) {
                line.remove(&order);
                if line.is_empty() {
                    self.keys.remove(&place);
                }
            }
        }
        Some(waiter)
    }

    fn first(&self, place: &(usize, Box<[u8]>)) -> Option<(u64, Arc<Waiter>)> {
        let (order, waiter) = self.keys.get(place)?.first_key_value()?;
        Some((*order, Arc::clone(waiter)))
    }
}

/// The clients of the listener that wait.
#[derive(Default)]
pub(crate) struct WaitingClients {
    /// How many wait, or are about to; read without the lock.
    count: AtomicUsize,
    lines: Mutex<Lines>,
}

impl WaitingClients {
    /// Whether nobody waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many clients wait.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// How many of them wait for a certain time only.
    pub(crate) fn timed(&self) -> usize {
        if self.is_empty() { 0 } else { self.lock().timed }
    }

    /// Whether this client waits.
    pub(crate) fn has(&self, client: u64) -> bool {
        !self.is_empty() && self.lock().clients.contains_key(&client)
    }

    /// Pops from the first key with members, or enters a client into the lines of all of them; its
    /// reply follows then.
    ///
    /// # Errors
    /// As [`pop_first`].
    pub(crate) fn pop_or_wait(
        &self,
        client: &Arc<Client>,
        (keyspace, watches): (&Keyspace, &Watches),
        (number, keys): (usize, &[&[u8]]),
        request: PopRequest,
        deadline: Option<Instant>,
    ) -> Result<PopOutcome, Failure> {
        let mut lines = self.lock();
        // Before the keys are looked at: see the head of this file.
        self.count.fetch_add(1, Ordering::SeqCst);
        // A member may have come whose writer has not served those who wait for it yet.
        for key in keys {
            self.serve_line(&mut lines, (keyspace, watches), &(number, Box::from(*key)));
        }
        let popped = pop_first(keyspace, number, keys, request);
        if !matches!(popped, Ok(None)) {
            self.count.fetch_sub(1, Ordering::SeqCst);
        }
        if let Some(popped) = popped? {
            return Ok(PopOutcome::Members(popped));
        }
        let pending = PendingReply::default();
        let order = lines.enter(Waiter {
            client: Arc::clone(client),
            number,
            keys: keys.iter().map(|key| Box::from(*key)).collect(),
            request,
            is_timed: deadline.is_some(),
            pending: pending.clone(),
        });
        let names_bytes: usize = keys.iter().map(|key| key.len()).sum();
        let size_bytes = 2 * names_bytes + keys.len() * ENTRY_BYTES;
        Ok(PopOutcome::Waits(pending, Wait { order, deadline, size_bytes }))
    }

    /// A write has changed a key: serves those that wait for it, as long as it has members. The
    /// caller keeps transactions out.
    #[cold]
    pub(crate) fn serve(
        &self,
        (keyspace, watches): (&Keyspace, &Watches),
        number: usize,
        key: &[u8],
    ) {
        let place = (number, Box::from(key));
        let mut lines = self.lock();
        self.serve_line(&mut lines, (keyspace, watches), &place);
    }

    /// As [`WaitingClients::serve`], for every key that somebody waits for.
    #[cold]
    pub(crate) fn serve_all(&self, (keyspace, watches): (&Keyspace, &Watches)) {
        let mut lines = self.lock();
        let places: Vec<_> = lines.keys.keys().cloned().collect();
        for place in &places {
            self.serve_line(&mut lines, (keyspace, watches), place);
        }
    }

    fn serve_line(
        &self,
        lines: &mut Lines,
        (keyspace, watches): (&Keyspace, &Watches),
        place: &(usize, Box<[u8]>),
    ) {
        let (number, key) = (place.0, &place.1);
        while let Some((order, waiter)) = lines.first(place) {
            if waiter.client.is_killed() {
                self.take(lines, order);
                continue;
            }
            // What is no sorted set, or has gone again, is waited for further.
            if keyspace.kind(number, key) != Some(whered_engine::Kind::SortedSet) {
                return;
            }
            let request = waiter.request;
            let finish: Finish = match pop_first(keyspace, number, &[key], request) {
                Ok(None) => return,
                // Another write has put something else there since it was looked at.
                Err(failure) if failure == Failure::from(WriteError::WrongKind) => return,
                Ok(Some(popped)) => {
                    watches.mark(number, key);
                    Box::new(move |reply: &mut Reply| {
                        popped.write(request.form, reply);
                        Ok(Effect::Reported)
                    })
                }
                Err(failure) => Box::new(move |_: &mut Reply| Err(failure)),
            };
            self.take(lines, order);
            waiter.end(finish);
        }
    }

    /// Ends a client's wait; false if it does not wait.
    pub(crate) fn end(&self, client: u64, why: WaitEnd) -> bool {
        let mut lines = self.lock();
        let order = lines.clients.get(&client).copied();
        let Some(waiter) = order.and_then(|order| self.take(&mut lines, order)) else {
            return false;
        };
        waiter.end(Box::new(move |reply: &mut Reply| match why {
            WaitEnd::TimedOut => {
                reply.null_array();
                Ok(Effect::Unchanged)
            }
            WaitEnd::Unblocked => {
                Err(Failure::text("UNBLOCKED client unblocked via CLIENT UNBLOCK"))
            }
        }));
        true
    }

    /// Takes a wait out of the lines, whose connection wants no reply any more.
    pub(crate) fn forget(&self, wait: &Wait) -> bool {
        let mut lines = self.lock();
        self.take(&mut lines, wait.order).is_some()
    }

    fn take(&self, lines: &mut Lines, order: u64) -> Option<Arc<Waiter>> {
        let waiter = lines.remove(order)?;
        self.count.fetch_sub(1, Ordering::SeqCst);
        Some(waiter)
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        sync::lock(&self.lines)
    }
}

/// Keys that the commands of a transaction have changed, in their order.
#[derive(Default)]
pub(crate) struct ReadyKeys {
    keys: Vec<(usize, Box<[u8]>)>,
    /// Some more of which nothing is known.
    has_others: bool,
}

impl ReadyKeys {
    /// Notes what a command has filled: these keys, and others if it says so.
    pub(crate) fn note<'a>(
        &mut self,
        has_others: bool,
        number: usize,
        keys: impl Iterator<Item = &'a [u8]>,
    ) {
        self.has_others |= has_others;
        self.keys.extend(keys.map(|key| (number, Box::from(key))));
    }

    /// Serves those who wait for them.
    pub(crate) fn serve(
        &mut self,
        waiting: &WaitingClients,
        (keyspace, watches): (&Keyspace, &Watches),
    ) {
        for (number, key) in self.keys.drain(..) {
            waiting.serve((keyspace, watches), number, &key);
        }
        if std::mem::take(&mut self.has_others) {
            waiting.serve_all((keyspace, watches));
        }
    }
}

/// The memory of a key in a line, without its name.
const ENTRY_BYTES: usize = 160;
