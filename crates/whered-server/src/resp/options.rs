//! How the RESP listener is opened.

use std::net::SocketAddr;
use std::sync::Arc;

use super::listen::UnixSocketOptions;
use super::tls::TlsOptions;
use super::users::{PasswordHash, UserOptions};
use crate::health::HealthBoard;

/// How the door is opened.
#[derive(Clone, Debug)]
pub struct RespOptions {
    /// Where to listen; port 0 picks a free one.
    pub listen: Vec<SocketAddr>,
    /// How many threads serve; at least one does.
    pub threads: usize,
    /// Where to listen for TLS, and with which certificates.
    pub tls: Option<TlsOptions>,
    /// Where to listen for processes of this machine.
    pub unix_socket: Option<UnixSocketOptions>,
    /// What `AUTH` has to give; `None` lets everybody in.
    pub password: Option<String>,
    /// The hash of that password, in its place.
    pub password_sha256: Option<PasswordHash>,
    /// Users beside the default one.
    pub users: Vec<UserOptions>,
    /// The most connections at a time.
    pub max_clients: usize,
    /// A connection without requests for so long is closed; 0: never.
    pub idle_timeout_seconds: u64,
    /// After so long without a byte the system asks whether the client is still there; 0: never.
    pub tcp_keepalive_seconds: u64,
    /// A connection with more unsent reply bytes is closed; at a quarter of it reading pauses.
    pub output_buffer_limit_bytes: usize,
    /// The same for connections that listen to channels.
    pub pubsub_buffer_limit_bytes: usize,
    /// A connection with more bytes of unfinished requests is closed.
    pub query_buffer_limit_bytes: usize,
    /// All connections' buffers together; beyond it those with much in theirs are closed.
    pub client_buffers_limit_bytes: usize,
    /// Writes that make the memory grow are refused when the process has more; 0: never.
    pub max_memory_bytes: u64,
    /// Commands from so many microseconds on stand in the slow log; negative: none.
    pub slowlog_threshold_micros: i64,
    /// The most entries of the slow log.
    pub slowlog_max_len: usize,
    /// The journal's policy in Redis's words, for `CONFIG GET appendfsync`.
    pub journal_sync: &'static str,
    /// The version of `whered`, for `INFO`.
    pub version: &'static str,
    /// 40 hexadecimal digits that differ at every start, for `INFO`.
    pub run_id: String,
    /// What probes of sites have found.
    pub health: Arc<HealthBoard>,
}

impl Default for RespOptions {
    /// A free loopback port, one thread, no password, the limits of Redis.
    fn default() -> RespOptions {
        RespOptions {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            threads: 1,
            tls: None,
            unix_socket: None,
            password: None,
            password_sha256: None,
            users: Vec::new(),
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
            journal_sync: "always",
            version: env!("CARGO_PKG_VERSION"),
            run_id: "0".repeat(40),
            health: Arc::default(),
        }
    }
}
