//! How the RESP listener is opened: `[resp]` of the configuration, and what it shows of the
//! process.
//!
//! Not for: what `CONFIG SET` changes while it is open (`settings`).

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use super::users::{PasswordHash, UserOptions};
use crate::health::HealthBoard;
use crate::listen::{ListenOptions, UnixSocketOptions};
use crate::replica::ReplicaBoard;
use crate::runtime::core_count;
use crate::tls::TlsOptions;

/// The port where it listens by default.
const PORT: u16 = 6380;

/// How Redis clients are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RespOptions {
    /// Where to listen; empty: not at all.
    pub listen: Vec<SocketAddr>,
    /// Where to listen for TLS, and with which certificates.
    pub tls: Option<TlsOptions>,
    /// Where to listen for processes of this machine.
    pub unix_socket: Option<UnixSocketOptions>,
    /// What clients must give to `AUTH`.
    pub password: Option<String>,
    /// The hash of it, in its place.
    pub password_sha256: Option<PasswordHash>,
    /// Users beside the default one.
    pub users: Vec<UserOptions>,
    /// Users whose passwords stand in the file as they are.
    pub plain_passwords: Vec<String>,
    /// Worker threads; `None`: one a core.
    pub threads: Option<usize>,
    /// Connections at the same time.
    pub max_clients: usize,
    /// A client without requests for this long is disconnected; 0: never.
    pub idle_timeout_seconds: u64,
    /// After this long without a byte the system probes whether the client is there; 0: never.
    pub tcp_keepalive_seconds: u64,
    /// A client that has not read this much of its replies is disconnected.
    pub output_buffer_limit_bytes: usize,
    /// A client that listens to channels and has not read this much is disconnected.
    pub pubsub_buffer_limit_bytes: usize,
    /// A client that has sent this much of an unfinished command is disconnected.
    pub query_buffer_limit_bytes: usize,
    /// What all clients' buffers may take together; 0: as much as there is.
    pub client_buffers_limit_bytes: usize,
    /// With more memory in use writes are refused; 0: never.
    pub max_memory_bytes: u64,
    /// Commands that take at least this many microseconds go into the slow log.
    pub slowlog_threshold_micros: u64,
    /// Entries of the slow log.
    pub slowlog_max_len: usize,
}

/// What commands show of the process around the listener.
#[derive(Clone, Debug)]
pub struct RespContext {
    /// The journal's policy in Redis's words, for `CONFIG GET appendfsync`.
    pub journal_sync: &'static str,
    /// The version of `whered`, for `INFO`.
    pub version: &'static str,
    /// 40 hexadecimal digits that differ at every start, for `INFO`.
    pub run_id: String,
    /// What probes of sites have found.
    pub health: Arc<HealthBoard>,
    /// How far links to primaries are.
    pub replicas: Arc<ReplicaBoard>,
    /// Asks primaries of zones.
    pub(crate) refresh_zone: Option<RefreshZone>,
}

/// Asks the primaries of a zone; `true`: for the whole zone. An error is one line.
#[derive(Clone)]
pub(crate) struct RefreshZone(pub(crate) Arc<RefreshFunction>);

type RefreshFunction = dyn Fn(&str, bool) -> Result<(), String> + Send + Sync;

impl std::fmt::Debug for RefreshZone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RefreshZone")
    }
}

impl RespOptions {
    /// Whether `AUTH` has to give something.
    pub(crate) fn has_password(&self) -> bool {
        self.password.is_some() || self.password_sha256.is_some()
    }

    /// Whether there is anywhere to listen.
    pub(crate) fn is_open(&self) -> bool {
        let tls = self.tls.as_ref().is_some_and(|tls| !tls.listen.is_empty());
        !self.listen.is_empty() || tls || self.unix_socket.is_some()
    }

    /// How many threads serve.
    pub(crate) fn thread_count(&self) -> usize {
        self.threads.unwrap_or_else(core_count).max(1)
    }

    /// The sockets that it needs.
    pub(crate) fn sockets(&self) -> ListenOptions {
        ListenOptions {
            resp: self.listen.clone(),
            resp_tls: self.tls.as_ref().map_or_else(Vec::new, |tls| tls.listen.clone()),
            resp_unix: self.unix_socket.clone(),
            resp_threads: self.thread_count(),
            ..ListenOptions::default()
        }
    }
}

impl Default for RespOptions {
    /// The usual port of loopback, a thread for each core, no password, the limits of Redis.
    fn default() -> RespOptions {
        RespOptions {
            listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, PORT))],
            tls: None,
            unix_socket: None,
            password: None,
            password_sha256: None,
            users: Vec::new(),
            plain_passwords: Vec::new(),
            threads: None,
            max_clients: 10_000,
            idle_timeout_seconds: 0,
            tcp_keepalive_seconds: 300,
            output_buffer_limit_bytes: 256 << 20,
            pubsub_buffer_limit_bytes: 32 << 20,
            query_buffer_limit_bytes: 1 << 30,
            client_buffers_limit_bytes: 2 << 30,
            max_memory_bytes: 0,
            slowlog_threshold_micros: 10_000,
            slowlog_max_len: 128,
        }
    }
}

impl Default for RespContext {
    /// A process without a journal's policy of its own, and without probes.
    fn default() -> RespContext {
        RespContext {
            journal_sync: "always",
            version: env!("CARGO_PKG_VERSION"),
            run_id: "0".repeat(40),
            health: Arc::default(),
            replicas: Arc::default(),
            refresh_zone: None,
        }
    }
}
