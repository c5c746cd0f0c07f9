//! What a connection may hold and how long it may stand still.
//!
//! For: when reading pauses, when a connection is closed for its buffers, its silence or its
//! slowness, and the account of buffers. Not for: the limits themselves (`settings`, `session`).
//!
//! Cost: a few comparisons a time slice; [`Connection::look_after`] once a second.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Connection;
use crate::resp::background::BackgroundCommand;
use crate::resp::counters::RespCounters;

/// Whatever the limit of unsent replies: with more than this nothing is read.
const PAUSE_READING_BYTES: usize = 64 << 20;
/// A connection with smaller buffers is not closed for what all buffers take together.
const LARGE_BUFFERS_BYTES: usize = 1 << 20;
/// A connection that has been idle for so long gives its buffers back.
const IDLE_BUFFERS: Duration = Duration::from_secs(2);
/// How long a TLS handshake may take.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
/// How long a connection may stand still with replies that it does not take.
const STALL_LIMIT: Duration = Duration::from_secs(60);

/// Why a connection is closed although it did nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Overdue {
    /// It does not take its replies.
    Replies,
    /// It does not finish its handshake.
    Handshake,
    /// It asks nothing.
    Idle,
}

impl Connection {
    /// Once a second: gives back what an idle connection does not need, and says whether it has
    /// to go.
    pub(crate) fn look_after(&mut self, now: Instant) -> Option<Overdue> {
        if self.standing_since.is_some_and(|since| now.duration_since(since) > STALL_LIMIT) {
            return Some(Overdue::Replies);
        }
        let age = now.saturating_duration_since(self.session.client.connected);
        if age > HANDSHAKE_LIMIT && self.stream.is_shaking_hands() {
            return Some(Overdue::Handshake);
        }
        let unsent = self.unsent();
        let soft = self.session.output_limit().soft().filter(|(bytes, _)| unsent > *bytes);
        self.above_soft_since = soft.map(|_| self.above_soft_since.unwrap_or(now));
        if let (Some(since), Some((_, limit))) = (self.above_soft_since, soft)
            && now.duration_since(since) > limit
        {
            return Some(Overdue::Replies);
        }
        let idle = now.saturating_duration_since(self.active);
        if idle > IDLE_BUFFERS && unsent == 0 {
            self.input.shrink();
            self.reply.out = Vec::new();
            self.count_buffers();
        }
        let limit = self.session.shared.settings.idle_seconds.load(Ordering::Relaxed);
        let listens = self.session.subscription_count() > 0 || self.session.is_waiting();
        let may_go = limit > 0 && unsent == 0 && !listens;
        (may_go && idle >= Duration::from_secs(limit)).then_some(Overdue::Idle)
    }

    /// How many bytes of replies have not been sent, those that must not be sent yet included.
    pub(super) fn unsent(&self) -> usize {
        self.reply.out.len() - self.sent
    }

    /// Whether the client should read before it asks further.
    pub(super) fn is_full(&self) -> bool {
        self.unsent() > (self.session.output_limit().hard() / 4).min(PAUSE_READING_BYTES)
    }

    /// Whether it has to be closed at once: for what it sent, for what its buffers hold, or all
    /// buffers together.
    pub(super) fn is_beyond_limits(&self) -> bool {
        if self.session.is_aborted {
            return true;
        }
        let counters = &self.session.shared.counters;
        let too_many_replies = self.unsent() > self.session.output_limit().hard()
            || self.session.overflowed
            || self.session.client.is_flooded();
        if too_many_replies {
            counters.output_limit_closed.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        let own = self.buffers();
        if own < LARGE_BUFFERS_BYTES {
            return false;
        }
        let limit = self.session.shared.settings.buffers_limit_bytes.load(Ordering::Relaxed);
        let all = counters.buffer_bytes.load(Ordering::Relaxed);
        let too_much = limit > 0 && all > limit as u64;
        if too_much {
            counters.buffers_limit_closed.fetch_add(1, Ordering::Relaxed);
        }
        too_much
    }

    /// What its input, its replies, the places of hits that are still to be told, the queue of its
    /// transaction, and the keys that it waits for take.
    pub(super) fn buffers(&self) -> usize {
        let queued = self.session.transaction.size_bytes();
        let waiting = self.session.background.as_ref().map_or(0, BackgroundCommand::size_bytes);
        self.input.size_bytes() + self.reply.size_bytes() + queued + waiting
    }

    /// Tells the register and the listener's sum what the buffers take now.
    pub(super) fn count_buffers(&mut self) {
        let client = &self.session.client;
        client.input_bytes.store(self.input.len(), Ordering::Relaxed);
        client.input_size.store(self.input.size_bytes(), Ordering::Relaxed);
        client.output_bytes.store(self.reply.out.len() - self.sent, Ordering::Relaxed);
        let now = self.buffers();
        self.counted.set(now);
    }
}

/// What a connection's buffers were last counted as among those of all; nothing when it is gone.
pub(super) struct CountedBuffers {
    counters: Arc<RespCounters>,
    bytes: usize,
}

impl CountedBuffers {
    pub(super) fn new(counters: &Arc<RespCounters>) -> CountedBuffers {
        CountedBuffers { counters: Arc::clone(counters), bytes: 0 }
    }

    fn set(&mut self, bytes: usize) {
        let all = &self.counters.buffer_bytes;
        if bytes > self.bytes {
            all.fetch_add((bytes - self.bytes) as u64, Ordering::Relaxed);
        } else if bytes < self.bytes {
            all.fetch_sub((self.bytes - bytes) as u64, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }
}

impl Drop for CountedBuffers {
    fn drop(&mut self) {
        self.set(0);
    }
}
