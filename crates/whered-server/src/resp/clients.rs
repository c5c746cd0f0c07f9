//! The register of open connections: what one connection may know of another, and how it reaches
//! it.
//!
//! For: `CLIENT LIST` and `CLIENT KILL`, and the mailboxes that keep published messages until
//! their connection has its time slice.
//! Not for: what a connection's own commands know (`session`), nor channels (`pubsub`).
//!
//! ```text
//! publisher's thread                              subscriber's thread
//!   deliver(message) ──> mailbox [m1 m2 m3] ──────> take_messages() in its time slice ──> output
//!                      └─ first one in: Notifier::call(index) wakes the worker
//! ```
//!
//! Invariants: a mailbox never holds more bytes than the limit that its sender names; beyond it the
//! connection is marked and what is in the mailbox is dropped, because it will be closed.
//! At the same time: everything here is an atomic or stands under a short lock of one connection;
//! the register's own lock is taken when a connection comes or goes, and by those two commands.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;
use whered_engine::sync;

use super::notifier::Notifier;

/// A message as its subscribers get it, without the first byte, which is `*` or `>`.
pub(crate) type Message = Arc<[u8]>;

/// What a waiting message costs beside its bytes.
const MESSAGE_OVERHEAD_BYTES: usize = 32;

/// How a connection came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Transport {
    /// Plain TCP.
    Tcp,
    /// TLS over TCP.
    Tls,
    /// A Unix socket.
    Unix,
}

/// Where a connection came from and where it is kept.
pub(crate) struct Origin {
    pub(crate) transport: Transport,
    /// `address:port`, or `path:0` for a Unix socket.
    pub(crate) address: String,
    pub(crate) local: String,
    /// The worker's number and its connection index.
    pub(crate) worker: usize,
    pub(crate) index: usize,
    pub(crate) notifier: Arc<Notifier>,
}

/// All open connections by id.
#[derive(Default)]
pub(crate) struct Clients {
    open: Mutex<BTreeMap<u64, Arc<Client>>>,
    last_id: AtomicU64,
}

impl Clients {
    /// Enters a new connection into the register.
    pub(crate) fn enter(&self, origin: Origin) -> Arc<Client> {
        let client = Arc::new(Client {
            id: self.last_id.fetch_add(1, Ordering::Relaxed) + 1,
            origin,
            connected: Instant::now(),
            number: AtomicUsize::new(0),
            protocol: AtomicUsize::new(2),
            active_seconds: AtomicU64::new(0),
            channels: AtomicUsize::new(0),
            patterns: AtomicUsize::new(0),
            queued: AtomicUsize::new(NOT_QUEUEING),
            input_bytes: AtomicUsize::new(0),
            output_bytes: AtomicUsize::new(0),
            input_size: AtomicUsize::new(0),
            killed: AtomicBool::new(false),
            flooded: AtomicBool::new(false),
            info: Mutex::default(),
            mailbox: Mutex::default(),
        });
        self.lock().insert(client.id, Arc::clone(&client));
        client
    }

    /// Removes a connection from the register.
    pub(crate) fn forget(&self, client: &Client) {
        self.lock().remove(&client.id);
    }

    /// The connections that are open now, in the order in which they came.
    pub(crate) fn open(&self) -> Vec<Arc<Client>> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Client>>> {
        sync::lock(&self.open)
    }
}

/// The count of queued commands outside a transaction.
const NOT_QUEUEING: usize = usize::MAX;

/// One open connection, as other connections see it.
pub(crate) struct Client {
    pub(crate) id: u64,
    pub(crate) origin: Origin,
    pub(crate) connected: Instant,
    pub(crate) number: AtomicUsize,
    pub(crate) protocol: AtomicUsize,
    /// When the last command came, in seconds since the connection was opened.
    pub(crate) active_seconds: AtomicU64,
    pub(crate) channels: AtomicUsize,
    pub(crate) patterns: AtomicUsize,
    /// Unfinished request bytes, unsent reply bytes, and the room that the input takes.
    pub(crate) input_bytes: AtomicUsize,
    pub(crate) output_bytes: AtomicUsize,
    pub(crate) input_size: AtomicUsize,
    queued: AtomicUsize,
    killed: AtomicBool,
    flooded: AtomicBool,
    info: Mutex<ClientInfo>,
    mailbox: Mutex<Mailbox>,
}

/// What `CLIENT LIST` shows of a client: its names, its library, its last command.
#[derive(Clone)]
pub(crate) struct ClientInfo {
    /// The name that `CLIENT SETNAME` has given; empty when there is none.
    pub(crate) name: Vec<u8>,
    /// What `CLIENT SETINFO` has told.
    pub(crate) lib_name: Vec<u8>,
    pub(crate) lib_version: Vec<u8>,
    pub(crate) user: Arc<str>,
    /// The name of the last command of the last time slice.
    pub(crate) command: &'static str,
}

impl Default for ClientInfo {
    fn default() -> ClientInfo {
        ClientInfo {
            name: Vec::new(),
            lib_name: Vec::new(),
            lib_version: Vec::new(),
            user: Arc::from("default"),
            command: "NULL",
        }
    }
}

#[derive(Default)]
struct Mailbox {
    waiting: VecDeque<Message>,
    size_bytes: usize,
}

impl Client {
    /// Its present names, library and last command.
    pub(crate) fn info(&self) -> ClientInfo {
        self.lock_info().clone()
    }

    /// Changes its names.
    pub(crate) fn set_info(&self, change: impl FnOnce(&mut ClientInfo)) {
        change(&mut self.lock_info());
    }

    /// Notes that the connection has executed commands.
    pub(crate) fn note(&self, command: &'static str, now: Instant) {
        let seconds = now.saturating_duration_since(self.connected).as_secs();
        self.active_seconds.store(seconds, Ordering::Relaxed);
        self.lock_info().command = command;
    }

    /// How many commands wait for `EXEC`; `None` outside a transaction.
    pub(crate) fn queued(&self) -> Option<usize> {
        Some(self.queued.load(Ordering::Relaxed)).filter(|count| *count != NOT_QUEUEING)
    }

    /// Notes how many commands wait for `EXEC`.
    pub(crate) fn set_queued(&self, count: Option<usize>) {
        self.queued.store(count.unwrap_or(NOT_QUEUEING), Ordering::Relaxed);
    }

    /// Whether it listens to channels.
    pub(crate) fn is_subscriber(&self) -> bool {
        self.channels.load(Ordering::Relaxed) + self.patterns.load(Ordering::Relaxed) > 0
    }

    /// The connection is to end, without more replies.
    pub(crate) fn kill(&self) {
        self.killed.store(true, Ordering::Release);
        self.call();
    }

    /// Whether somebody has ended it.
    pub(crate) fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    /// Whether more was sent to it than it may hold.
    pub(crate) fn is_flooded(&self) -> bool {
        self.flooded.load(Ordering::Acquire)
    }

    /// Puts a message into its mailbox. A mailbox with more than `limit_bytes` ends the connection.
    pub(crate) fn deliver(&self, message: &Message, limit_bytes: usize) {
        let mut mailbox = self.lock_mailbox();
        if self.is_flooded() {
            return;
        }
        mailbox.size_bytes += message.len() + MESSAGE_OVERHEAD_BYTES;
        if mailbox.size_bytes > limit_bytes {
            *mailbox = Mailbox::default();
            self.flooded.store(true, Ordering::Release);
        } else {
            mailbox.waiting.push_back(Arc::clone(message));
        }
        let first = mailbox.waiting.len() <= 1;
        drop(mailbox);
        if first {
            self.call();
        }
    }

    /// Gives the messages that have come, up to about `room_bytes`, and whether more are there.
    pub(crate) fn take_messages(&self, room_bytes: usize, mut each: impl FnMut(&Message)) -> bool {
        let mut mailbox = self.lock_mailbox();
        let mut taken = 0;
        while taken < room_bytes
            && let Some(message) = mailbox.waiting.pop_front()
        {
            mailbox.size_bytes -= message.len() + MESSAGE_OVERHEAD_BYTES;
            taken += message.len();
            each(&message);
        }
        !mailbox.waiting.is_empty()
    }

    /// Wakes the connection's worker, which gives it a time slice.
    pub(crate) fn call(&self) {
        self.origin.notifier.call(self.origin.index, self.id);
    }

    fn lock_info(&self) -> MutexGuard<'_, ClientInfo> {
        sync::lock(&self.info)
    }

    fn lock_mailbox(&self) -> MutexGuard<'_, Mailbox> {
        sync::lock(&self.mailbox)
    }
}
