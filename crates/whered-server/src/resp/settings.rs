//! What `CONFIG SET` can change while the listener is open.
//!
//! Not for: what only the configuration file says (`RespOptions`), nor for names and texts of the
//! parameters (`commands/config`).
//!
//! At the same time: every value is an atomic of its own, read where it is needed; nothing waits.

use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use super::options::RespOptions;

/// The values, as one listener has them.
pub(crate) struct Settings {
    pub(crate) max_clients: AtomicUsize,
    /// 0: an idle client may stay.
    pub(crate) idle_seconds: AtomicU64,
    /// 0: the system sends no probes.
    pub(crate) keepalive_seconds: AtomicU64,
    /// 0: as much as there is.
    pub(crate) max_memory_bytes: AtomicU64,
    /// 0: every command is slow; negative: none is.
    pub(crate) slow_micros: AtomicI64,
    pub(crate) slowlog_len: AtomicUsize,
    pub(crate) query_limit_bytes: AtomicUsize,
    /// What all connections' buffers may take together; 0: as much as there is.
    pub(crate) buffers_limit_bytes: AtomicUsize,
    /// What Redis would keep packed; without effect here, but asked back for.
    pub(crate) small_set_len: AtomicU64,
    pub(crate) small_set_member_bytes: AtomicU64,
    pub(crate) normal_output: OutputLimit,
    pub(crate) pubsub_output: OutputLimit,
}

/// How many bytes of replies may wait for a client: `hard` at no time, `soft` not for long.
#[derive(Debug)]
pub(crate) struct OutputLimit {
    /// 0: none.
    pub(crate) hard_bytes: AtomicUsize,
    /// 0: none.
    pub(crate) soft_bytes: AtomicUsize,
    pub(crate) soft_seconds: AtomicU64,
}

impl OutputLimit {
    fn new(hard_bytes: usize, soft_bytes: usize, soft_seconds: u64) -> OutputLimit {
        OutputLimit {
            hard_bytes: AtomicUsize::new(hard_bytes),
            soft_bytes: AtomicUsize::new(soft_bytes),
            soft_seconds: AtomicU64::new(soft_seconds),
        }
    }

    /// The bytes that close a connection at once.
    pub(crate) fn hard(&self) -> usize {
        match self.hard_bytes.load(Ordering::Relaxed) {
            0 => usize::MAX,
            bytes => bytes,
        }
    }

    /// The bytes that close a connection after a while, and the while.
    pub(crate) fn soft(&self) -> Option<(usize, Duration)> {
        let bytes = self.soft_bytes.load(Ordering::Relaxed);
        let seconds = self.soft_seconds.load(Ordering::Relaxed);
        (bytes > 0).then_some((bytes, Duration::from_secs(seconds)))
    }
}

impl Settings {
    pub(crate) fn new(options: &RespOptions) -> Settings {
        let pubsub = options.pubsub_buffer_limit_bytes;
        Settings {
            max_clients: AtomicUsize::new(options.max_clients),
            idle_seconds: AtomicU64::new(options.idle_timeout_seconds),
            keepalive_seconds: AtomicU64::new(options.tcp_keepalive_seconds),
            max_memory_bytes: AtomicU64::new(options.max_memory_bytes),
            slow_micros: AtomicI64::new(options.slowlog_threshold_micros as i64),
            slowlog_len: AtomicUsize::new(options.slowlog_max_len),
            query_limit_bytes: AtomicUsize::new(options.query_buffer_limit_bytes),
            buffers_limit_bytes: AtomicUsize::new(options.client_buffers_limit_bytes),
            small_set_len: AtomicU64::new(128),
            small_set_member_bytes: AtomicU64::new(64),
            normal_output: OutputLimit::new(options.output_buffer_limit_bytes, 0, 0),
            // A listener that stays behind by a quarter for a minute is gone, as in Redis.
            pubsub_output: OutputLimit::new(pubsub, pubsub / 4, 60),
        }
    }
}
