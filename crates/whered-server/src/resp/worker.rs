//! One thread of the listener: its own listeners, its own connections, its own poll.
//!
//! For: readiness, time slices, and waking up when writes become durable.
//! Not for: what a time slice does (`connection`).
//!
//! ```text
//! kernel ──SO_REUSEPORT──> worker 0: poll ─> queue of connections ─> work, work; send, send ─┐
//!        └───────────────> worker 1: ...     ▲   a connection with more to do goes to ──────┘
//!                                            │   the end of the queue
//! journal thread ── signal.durable ──────────┤   (only when a worker has held replies)
//! other workers  ── signal.call(place) ──────┤   (a message, or an end, for one connection)
//!                └─ signal.hand(accepted) ───┘   (to the worker with the fewest connections)
//! ```
//!
//! Invariants: nothing here blocks but the poll; a connection stands in the queue at most once;
//! events are edge-triggered, so a connection keeps its own readiness until it meets `WouldBlock`;
//! a client with a short reply waits for small parts of long ones only.
//! At the same time: workers share nothing but counters, their signals, the register of clients and
//! the engine.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token, Waker};

use super::clients::Origin;
use super::connection::{Connection, NextStep, Overdue, Work};
use super::listen::{AcceptedConnection, Listener};
use super::notifier::Notifier;
use super::serving;
use super::session::SharedState;

const WAKER: Token = Token(0);
const FIRST_LISTENER: usize = 1;
/// The most connections that are accepted between two polls.
const ACCEPTS_PER_TURN: usize = 64;
/// The most that a time slice sends of a long reply: beside other long ones or none, and beside
/// clients with brief ones, which wait so long for theirs.
const PART_ALONE_BYTES: usize = 512 << 10;
const PART_BESIDE_BYTES: usize = 32 << 10;
/// For this many rounds after a brief time slice somebody is still taken to wait: a client that has
/// its reply before it asks again has a time slice in few of them.
const BRIEF_ROUNDS: u32 = 1024;
/// So long connections work, one after the other, before any of them sends. The first reply wakes
/// the one that waits for it, which costs more than a brief reply; those behind it find him awake
/// if one program has several connections.
const TOGETHER: Duration = Duration::from_micros(200);
/// At most this many are together, since what is no request (a handshake) is not timed.
const MOST_TOGETHER: usize = 64;
/// How often a worker looks after connections that stand still.
const TICK: Duration = Duration::from_secs(1);
/// How long stopping waits for durability and for slow readers.
pub(super) const STOP_LIMIT: Duration = Duration::from_secs(3);

/// One thread's state.
pub(super) struct Worker {
    /// Its place among the workers.
    number: usize,
    poll: Poll,
    listeners: Vec<WorkerListener>,
    /// The first token of a connection.
    first_connection: usize,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    queue: VecDeque<usize>,
    /// Connections that have worked and not sent yet; empty between two groups.
    group: Vec<usize>,
    /// For how many rounds long replies are sent in small parts.
    brief_rounds: u32,
    /// Connections with held replies, by index; may name some that have none any more.
    holding: Vec<usize>,
    /// Connections that wait for the end of `CLIENT PAUSE`, by index; may name some that do not.
    paused: Vec<usize>,
    /// Connections that wait for a moment, by that moment: index and client's number.
    timed: BTreeSet<(Instant, usize, u64)>,
    notifier: Arc<Notifier>,
    /// Those of all workers.
    notifiers: Arc<[Arc<Notifier>]>,
    shared: Arc<SharedState>,
    stop_at: Option<Instant>,
    next_tick: Instant,
}

struct WorkerListener {
    socket: Listener,
    ready: bool,
}

impl Worker {
    /// A worker over its listening sockets.
    ///
    /// # Errors
    /// The poll could not be made.
    pub(super) fn new(
        number: usize,
        sockets: Vec<Listener>,
        shared: &Arc<SharedState>,
    ) -> io::Result<Worker> {
        let poll = Poll::new()?;
        let notifier = Arc::new(Notifier::new(Waker::new(poll.registry(), WAKER)?));
        let mut listeners = Vec::new();
        for mut socket in sockets {
            let token = Token(FIRST_LISTENER + listeners.len());
            socket.register(poll.registry(), token)?;
            listeners.push(WorkerListener { socket, ready: true });
        }
        Ok(Worker {
            number,
            first_connection: FIRST_LISTENER + listeners.len(),
            poll,
            listeners,
            connections: Vec::new(),
            free: Vec::new(),
            queue: VecDeque::new(),
            group: Vec::new(),
            brief_rounds: 0,
            holding: Vec::new(),
            paused: Vec::new(),
            timed: BTreeSet::new(),
            notifier,
            notifiers: Arc::default(),
            shared: Arc::clone(shared),
            stop_at: None,
            next_tick: Instant::now() + TICK,
        })
    }

    /// How other threads reach it.
    pub(super) fn notifier(&self) -> Arc<Notifier> {
        Arc::clone(&self.notifier)
    }

    /// Serves until it is told to stop, as one of these workers.
    pub(super) fn run(mut self, notifiers: Arc<[Arc<Notifier>]>) {
        self.notifiers = notifiers;
        let mut events = Events::with_capacity(1024);
        while !self.is_finished() {
            let timeout = self.timeout();
            if let Err(error) = self.poll.poll(&mut events, timeout)
                && error.kind() != io::ErrorKind::Interrupted
            {
                tracing::error!("the RESP door's poll failed: {error}");
                return;
            }
            self.notifier.disarm();
            for event in &events {
                let closed = event.is_read_closed() || event.is_error();
                self.set_readiness(event.token(), event.is_readable(), event.is_writable(), closed);
            }
            let is_last = self.stop_at.is_none() && self.notifier.is_stopping();
            self.accept();
            self.take_handed(is_last);
            self.queue_called();
            self.queue_released();
            self.queue_unpaused();
            self.queue_due();
            self.brief_rounds = self.brief_rounds.saturating_sub(1);
            let mut left = self.queue.len();
            while left > 0 && !self.queue.is_empty() {
                left -= self.serve_slice(left);
            }
            if is_last {
                self.begin_stop();
            }
            self.tick();
        }
    }

    fn is_finished(&self) -> bool {
        let Some(stop_at) = self.stop_at else {
            return false;
        };
        self.connections.len() == self.free.len() || Instant::now() >= stop_at
    }

    /// How long the poll may sleep. Before it sleeps with held replies, the signal is armed and
    /// they are looked at once more, so that no progress of the journal is missed between.
    fn timeout(&mut self) -> Option<Duration> {
        if self.queue.is_empty() && !self.holding.is_empty() {
            self.notifier.arm();
            self.queue_released();
        }
        if !self.queue.is_empty() || self.listeners.iter().any(|listener| listener.ready) {
            return Some(Duration::ZERO);
        }
        if self.stop_at.is_some() {
            return Some(Duration::from_millis(20));
        }
        let pause = self.shared.pause.left().filter(|_| !self.paused.is_empty());
        let due = self.timed.first();
        let due = due.map(|(at, ..)| at.saturating_duration_since(Instant::now()));
        Some(pause.into_iter().chain(due).fold(TICK, Duration::min))
    }

    fn set_readiness(&mut self, token: Token, readable: bool, writable: bool, hung_up: bool) {
        if token == WAKER {
            return;
        }
        let index = token.0 - FIRST_LISTENER;
        if let Some(listener) = self.listeners.get_mut(index) {
            listener.ready = true;
        } else if let Some(index) = self.connection_index(token)
            && let Some(Some(connection)) = self.connections.get_mut(index)
        {
            connection.set_readiness(readable, writable, hung_up);
            self.enqueue(index);
        }
    }

    /// Tokens of connections follow those of the listeners, which keep theirs when they are gone.
    fn connection_index(&self, token: Token) -> Option<usize> {
        token.0.checked_sub(self.first_connection)
    }

    fn enqueue(&mut self, index: usize) {
        if let Some(Some(connection)) = self.connections.get_mut(index)
            && !connection.queued
        {
            connection.queued = true;
            self.queue.push_back(index);
        }
    }

    /// Queues the connections whose oldest held reply may go.
    fn queue_released(&mut self) {
        let mut holding = std::mem::take(&mut self.holding);
        holding.retain(|index| {
            let Some(connection) = &mut self.connections[*index] else {
                return false;
            };
            connection.listed = connection.is_holding() && !connection.is_released();
            let listed = connection.listed;
            if !listed {
                self.enqueue(*index);
            }
            listed
        });
        self.holding = holding;
    }

    /// Queues the connections that other threads have called.
    fn queue_called(&mut self) {
        for (index, id) in self.notifier.take_calls() {
            let connection = self.connections.get(index).and_then(Option::as_ref);
            // The place may have another connection by now.
            if connection.is_some_and(|connection| connection.id() == id) {
                self.enqueue(index);
            }
        }
    }

    /// Queues the connections that wait for a pause, once it is over.
    fn queue_unpaused(&mut self) {
        if !self.paused.is_empty() && self.shared.pause.left().is_none() {
            for index in std::mem::take(&mut self.paused) {
                if let Some(connection) = &mut self.connections[index] {
                    connection.paused = false;
                }
                self.enqueue(index);
            }
        }
    }

    /// Queues the connections whose moment has come.
    fn queue_due(&mut self) {
        if self.timed.is_empty() {
            return;
        }
        let now = Instant::now();
        while let Some(&(at, index, id)) = self.timed.first()
            && at <= now
        {
            self.timed.pop_first();
            if let Some(Some(connection)) = self.connections.get_mut(index)
                && connection.id() == id
            {
                connection.timed = None;
                self.enqueue(index);
            }
        }
    }

    /// Time slices of the next connections, `most` at most: all of them work, then all send. Those
    /// with brief replies are together, those with long ones, and who was slow is alone, so that a
    /// brief reply waits for slow work only where that was quick the last time. Says how many had a
    /// time slice.
    fn serve_slice(&mut self, most: usize) -> usize {
        let began = Instant::now();
        let mut spent = Duration::ZERO;
        let mut group = std::mem::take(&mut self.group);
        let (mut taken, mut all) = (0, None);
        while taken < most.min(MOST_TOGETHER) {
            let Some(&index) = self.queue.front() else { break };
            let connection = self.connections.get_mut(index).and_then(Option::as_mut);
            let last = connection.as_ref().map(|connection| connection.last);
            if !group.is_empty() && last.is_some() && (last != all || last == Some(Work::Slow)) {
                break;
            }
            self.queue.pop_front();
            taken += 1;
            let Some(connection) = connection else { continue };
            all = last;
            connection.queued = false;
            let Some(Ok(is_brief)) = guarded(|| connection.work()) else {
                self.close(index);
                continue;
            };
            group.push(index);
            let time = connection.active().saturating_duration_since(began).max(spent);
            if time - spent > TOGETHER && is_brief {
                connection.last = Work::Slow;
            }
            spent = time;
            if spent >= TOGETHER || (last == Some(Work::Brief) && !is_brief) {
                break;
            }
        }
        group.drain(..).for_each(|index| self.send(index));
        self.group = group;
        taken
    }

    fn send(&mut self, index: usize) {
        let part_bytes = if self.brief_rounds > 0 { PART_BESIDE_BYTES } else { PART_ALONE_BYTES };
        let Some(Some(connection)) = self.connections.get_mut(index) else {
            return;
        };
        let next = guarded(|| connection.send(part_bytes)).unwrap_or(NextStep::Close);
        if connection.was_brief {
            self.brief_rounds = BRIEF_ROUNDS;
        }
        match next {
            NextStep::Close => return self.close(index),
            NextStep::HandOn => return self.hand_on(index),
            NextStep::Again => {
                connection.queued = true;
                self.queue.push_back(index);
            }
            NextStep::Paused if !connection.paused => {
                connection.paused = true;
                self.paused.push(index);
            }
            NextStep::Paused => {}
            NextStep::Wait => {}
        }
        if connection.deadline() != connection.timed {
            let id = connection.id();
            if let Some(old) = connection.timed.take() {
                self.timed.remove(&(old, index, id));
            }
            connection.timed = connection.deadline();
            self.timed.extend(connection.timed.map(|at| (at, index, id)));
        }
        if connection.is_holding() && !connection.listed {
            connection.listed = true;
            self.holding.push(index);
        }
    }

    fn close(&mut self, index: usize) {
        drop(self.take(index));
    }

    fn hand_on(&mut self, index: usize) {
        if let Some(connection) = self.take(index) {
            connection.hand_on();
        }
    }

    /// Takes a connection out of all that this worker has of it.
    fn take(&mut self, index: usize) -> Option<Connection> {
        let mut connection = self.connections[index].take()?;
        // Dropping the socket would do; a failure here changes nothing.
        let _ = self.poll.registry().deregister(&mut connection.stream);
        if let Some(at) = connection.timed {
            self.timed.remove(&(at, index, connection.id()));
        }
        self.free.push(index);
        self.notifier.remove_open();
        Some(connection)
    }

    fn accept(&mut self) {
        for at in 0..self.listeners.len() {
            for _ in 0..ACCEPTS_PER_TURN {
                if !self.listeners[at].ready {
                    break;
                }
                let keepalive = self.shared.settings.keepalive_seconds.load(Ordering::Relaxed);
                match self.listeners[at].socket.accept(keepalive) {
                    Ok(accepted) => self.assign(accepted),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        self.listeners[at].ready = false;
                    }
                    Err(error) => {
                        // No descriptors left, most likely: the next tick tries again.
                        tracing::warn!("a RESP connection could not be accepted: {error}");
                        self.listeners[at].ready = false;
                    }
                }
            }
        }
    }

    /// Gives a connection to the worker with the fewest. The kernel deals them out by their ports,
    /// and of a few clients most may have come to one worker.
    fn assign(&mut self, accepted: AcceptedConnection) {
        let fewest = self.notifiers.iter().min_by_key(|notifier| notifier.open());
        let kept = match fewest {
            Some(other) if other.open() < self.notifier.open() => other.hand(accepted),
            _ => Err(accepted),
        };
        if let Err(accepted) = kept {
            self.notifier.add_open();
            self.take_in(accepted);
        }
    }

    /// Takes in what other workers have accepted; the last time before it stops, nothing comes
    /// behind.
    fn take_handed(&mut self, is_last: bool) {
        let handed = match is_last {
            true => self.notifier.take_last_handed(),
            false => self.notifier.take_handed(),
        };
        handed.into_iter().for_each(|accepted| self.take_in(accepted));
    }

    /// Serves a connection, which is counted as open.
    fn take_in(&mut self, accepted: AcceptedConnection) {
        if !self.admit(accepted) {
            self.notifier.remove_open();
        }
    }

    /// Takes a connection in; false if there are too many, or the system will not have it.
    fn admit(&mut self, accepted: AcceptedConnection) -> bool {
        let counters = &self.shared.counters;
        counters.connections_accepted.fetch_add(1, Ordering::Relaxed);
        let AcceptedConnection { mut stream, transport, address, local } = accepted;
        let limit = self.shared.settings.max_clients.load(Ordering::Relaxed) as u64;
        if counters.connections_open.load(Ordering::Relaxed) >= limit {
            counters.connections_rejected.fetch_add(1, Ordering::Relaxed);
            // One try: a rejected client may miss the reason.
            let _ = stream.write(b"-ERR max number of clients reached\r\n");
            return false;
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        let token = Token(self.first_connection + index);
        let both = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = self.poll.registry().register(&mut stream, token, both) {
            tracing::debug!("a RESP connection from {address} ended at once: {error}");
            self.free.push(index);
            return false;
        }
        let notifier = Arc::clone(&self.notifier);
        let worker = self.number;
        let origin = Origin { transport, address, local, worker, index, notifier };
        self.connections[index] = Some(Connection::new(stream, &self.shared, origin));
        self.enqueue(index);
        true
    }

    /// Closes the listeners and lets every connection answer what it has read.
    fn begin_stop(&mut self) {
        self.stop_at = Some(Instant::now() + STOP_LIMIT);
        self.listeners.clear();
        for index in 0..self.connections.len() {
            if let Some(connection) = &mut self.connections[index] {
                connection.drain();
                self.enqueue(index);
            }
        }
    }

    /// Once a second: closes connections that stand still, tries the listeners again, and gives up
    /// a generation that may not serve any more.
    fn tick(&mut self) {
        let now = Instant::now();
        if now < self.next_tick {
            return;
        }
        self.next_tick = now + TICK;
        serving::forget();
        if self.number == 0 {
            self.shared.rates.sample(&self.shared.counters);
        }
        if self.number == 0 && !self.shared.waiting.is_empty() {
            // What a feed has filled is no command's change.
            let _passage = self.shared.gate.pass(self.number);
            let shared = &self.shared;
            shared.waiting.serve_all((shared.engine.keyspace(), &shared.watches));
        }
        self.listeners.iter_mut().for_each(|listener| listener.ready = true);
        for index in 0..self.connections.len() {
            let Some(connection) = &mut self.connections[index] else {
                continue;
            };
            let counters = &self.shared.counters;
            let counter = match connection.look_after(now) {
                None => continue,
                Some(Overdue::Replies) => &counters.output_limit_closed,
                Some(Overdue::Handshake) => &counters.tls_failed,
                Some(Overdue::Idle) => &counters.idle_closed,
            };
            counter.fetch_add(1, Ordering::Relaxed);
            self.close(index);
        }
    }
}

/// However it ends, no other worker gives it connections afterwards.
impl Drop for Worker {
    fn drop(&mut self) {
        self.notifier.end();
    }
}

/// Runs a part of a connection's time slice. A panic is a fault of ours: it costs its connection,
/// which is dropped, and no other one.
fn guarded<T>(part: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(part))
        .inspect_err(|_| tracing::error!("a command has panicked; its connection is closed"))
        .ok()
}
