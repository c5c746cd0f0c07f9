//! What the RESP listener counts: connections, commands, bytes.
//! Not for: what each command costs (`statistics`).

use std::sync::atomic::{AtomicU64, Ordering};

/// What the listener has done so far; read for metrics and `INFO`.
///
/// Workers add to it once a time slice, so that it lags a moment behind under load.
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
    /// Connections closed because they were idle for too long.
    pub idle_closed: AtomicU64,
    /// Connections closed because all buffers together were too large.
    pub buffers_limit_closed: AtomicU64,
    /// Connections closed because they sent HTTP.
    pub http_closed: AtomicU64,
    /// TLS handshakes that failed.
    pub tls_failed: AtomicU64,
    /// Bytes in the buffers of all connections now.
    pub buffer_bytes: AtomicU64,
    /// Messages published.
    pub published: AtomicU64,
    /// Calls to the system that received bytes, and that sent some.
    pub reads: AtomicU64,
    /// See [`RespCounters::reads`].
    pub writes: AtomicU64,
    /// Reads of a key by commands that found it, and that did not.
    pub keyspace_hits: AtomicU64,
    /// See [`RespCounters::keyspace_hits`].
    pub keyspace_misses: AtomicU64,
}

impl RespCounters {
    /// Sets back what `CONFIG RESETSTAT` sets back.
    pub(crate) fn reset(&self) {
        let counters = [
            &self.connections_accepted,
            &self.connections_rejected,
            &self.commands,
            &self.errors,
            &self.input_bytes,
            &self.output_bytes,
            &self.output_limit_closed,
            &self.query_limit_closed,
            &self.idle_closed,
            &self.buffers_limit_closed,
            &self.http_closed,
            &self.tls_failed,
            &self.published,
            &self.reads,
            &self.writes,
            &self.keyspace_hits,
            &self.keyspace_misses,
        ];
        counters.iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
    }
}
