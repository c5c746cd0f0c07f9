//! What a connection's commands know of each other, and what all connections share.
//!
//! ```text
//! Shared (one for the door) ── engine, options, counters, clients by id
//!    └── Session (one for a connection) ── database number, password given, reply mode
//! ```
//!
//! At the same time: a session belongs to its worker's thread. The register of clients is locked
//! only when a connection comes or goes, and by `CLIENT LIST`; its entries are atomics.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use whered_engine::Engine;

use super::RespOptions;

/// What the door has done so far; read for metrics and `INFO`.
///
/// Workers add to it once a turn, so that it lags a moment behind under load.
#[derive(Debug, Default)]
pub struct RespCounters {
    /// Connections that are open now.
    pub connections_open: AtomicU64,
    /// Connections accepted since the start.
    pub connections_accepted: AtomicU64,
    /// Connections turned away because of the limit.
    pub connections_rejected: AtomicU64,
    /// Commands executed.
    pub commands: AtomicU64,
    /// Error replies among them.
    pub errors: AtomicU64,
    /// Bytes received.
    pub input_bytes: AtomicU64,
    /// Bytes sent.
    pub output_bytes: AtomicU64,
    /// Connections closed because they did not read their replies.
    pub output_limit_closed: AtomicU64,
    /// Connections closed because their unfinished request was too long.
    pub query_limit_closed: AtomicU64,
}

/// What all connections of the door share.
pub(crate) struct Shared {
    pub(crate) engine: Arc<Engine>,
    pub(crate) options: RespOptions,
    pub(crate) counters: Arc<RespCounters>,
    pub(crate) started: Instant,
    pub(crate) port: u16,
    clients: Mutex<BTreeMap<u64, Arc<Client>>>,
    last_id: AtomicU64,
}

impl Shared {
    pub(crate) fn new(engine: Arc<Engine>, options: RespOptions, port: u16) -> Shared {
        Shared {
            engine,
            options,
            counters: Arc::default(),
            started: Instant::now(),
            port,
            clients: Mutex::default(),
            last_id: AtomicU64::new(0),
        }
    }

    /// Enters a new connection into the register.
    pub(crate) fn register(&self, address: SocketAddr, local: SocketAddr) -> Arc<Client> {
        let client = Arc::new(Client {
            id: self.last_id.fetch_add(1, Ordering::Relaxed) + 1,
            address,
            local,
            connected: Instant::now(),
            name: Mutex::default(),
            number: AtomicUsize::new(0),
            protocol: AtomicUsize::new(2),
            active_seconds: AtomicU64::new(0),
            command: Mutex::new("NULL"),
        });
        self.counters.connections_open.fetch_add(1, Ordering::Relaxed);
        self.clients().insert(client.id, Arc::clone(&client));
        client
    }

    /// Removes a connection from the register.
    pub(crate) fn forget(&self, client: &Client) {
        self.counters.connections_open.fetch_sub(1, Ordering::Relaxed);
        self.clients().remove(&client.id);
    }

    /// The register of open connections by id.
    pub(crate) fn clients(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Client>>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One open connection, as other connections see it.
pub(crate) struct Client {
    pub(crate) id: u64,
    pub(crate) address: SocketAddr,
    pub(crate) local: SocketAddr,
    pub(crate) connected: Instant,
    pub(crate) number: AtomicUsize,
    pub(crate) protocol: AtomicUsize,
    /// When the last command came, in seconds since the connection was opened.
    pub(crate) active_seconds: AtomicU64,
    name: Mutex<Vec<u8>>,
    command: Mutex<&'static str>,
}

impl Client {
    /// The name that `CLIENT SETNAME` has given; empty when there is none.
    pub(crate) fn name(&self) -> Vec<u8> {
        self.name.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives the connection a name.
    pub(crate) fn set_name(&self, name: &[u8]) {
        *self.name.lock().unwrap_or_else(PoisonError::into_inner) = name.to_vec();
    }

    /// The name of the last command of the last turn.
    pub(crate) fn command(&self) -> &'static str {
        *self.command.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the connection has executed commands.
    pub(crate) fn note(&self, command: &'static str) {
        self.active_seconds.store(self.connected.elapsed().as_secs(), Ordering::Relaxed);
        *self.command.lock().unwrap_or_else(PoisonError::into_inner) = command;
    }
}

/// Which replies a client wants (`CLIENT REPLY`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReplyMode {
    /// All of them.
    On,
    /// None.
    Off,
    /// All but the next one.
    SkipNext,
}

/// One connection's state between its commands.
pub(crate) struct Session {
    pub(crate) shared: Arc<Shared>,
    pub(crate) client: Arc<Client>,
    /// The numbered database that the keys are in.
    pub(crate) number: usize,
    pub(crate) authenticated: bool,
    pub(crate) replies: ReplyMode,
    /// No further command is read; the connection is closed when its replies are sent.
    pub(crate) closing: bool,
    /// The command that ran last.
    pub(crate) command: &'static str,
}

impl Session {
    pub(crate) fn new(shared: &Arc<Shared>, client: Arc<Client>) -> Session {
        Session {
            shared: Arc::clone(shared),
            client,
            number: 0,
            authenticated: shared.options.password.is_none(),
            replies: ReplyMode::On,
            closing: false,
            command: "NULL",
        }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.shared.engine
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shared.forget(&self.client);
    }
}
