//! How connections of DNS over TCP end: when the server stops, and when a successor takes its
//! place.
//!
//! Not for: the conversation itself (`tcp`), how a descriptor reaches another process (`handover`).
//!
//! ```text
//! Serving ─ stop ──────> Closing   what has come is answered
//!    └──── hand-over ──> Passing   between two messages the successor gets the connection as it is
//!                           └ it takes none ──> Closing   served until it is quiet, 5 s at the most
//! ```
//!
//! Answers on a connection that is closing carry the keepalive timeout 0 (RFC 7828, 3.3.2).
//! Invariant: a connection that is passed has no byte of a message in this process, and no answer.
//! At the same time: one `ConnectionEnd` for each connection.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::listen::Speaks;

/// For how long connections that nobody takes may go on asking after a hand-over.
const HAND_OVER_LIMIT: Duration = Duration::from_secs(5);
/// Such a connection is closed when nothing has come for so long.
const HAND_OVER_QUIET: Duration = Duration::from_millis(500);
/// How long a stop waits for what clients have sent before.
const STOP_LIMIT: Duration = Duration::from_secs(1);
const STOP_QUIET: Duration = Duration::from_millis(20);

/// Gives a connection to the process that serves from now on.
pub(crate) type Give = Box<dyn Fn(BorrowedFd<'_>, Speaks) -> io::Result<()> + Send + Sync>;

/// Whether somebody takes the listener's place; said before the stop.
#[derive(Clone, Default)]
pub(crate) struct Succession(Arc<OnceLock<HandOverTerms>>);

struct HandOverTerms {
    give: Option<Give>,
    until: Instant,
}

impl Succession {
    /// Somebody does, and takes connections if there is a way to give them.
    pub(crate) fn begin(&self, give: Option<Give>) {
        // Said once; the first time counts.
        let _ = self.0.set(HandOverTerms { give, until: Instant::now() + HAND_OVER_LIMIT });
    }
}

/// What is to be done with a connection.
pub(crate) enum Phase {
    Serving,
    /// To be given away between two messages.
    Passing,
    /// To be closed then, or when nothing has come for a while.
    Closing {
        until: Instant,
        quiet: Duration,
    },
}

/// When and how a connection ends.
#[derive(Clone)]
pub(crate) struct ConnectionEnd {
    stop: watch::Receiver<bool>,
    succession: Succession,
    /// When a stop without a successor was seen.
    seen: Option<Instant>,
    /// The successor has not taken it.
    is_kept: bool,
}

impl ConnectionEnd {
    pub(crate) fn new(stop: watch::Receiver<bool>, succession: Succession) -> ConnectionEnd {
        ConnectionEnd { stop, succession, seen: None, is_kept: false }
    }

    /// Waits for the stop.
    pub(crate) async fn begun(&mut self) {
        // An error means that the listener is gone, which is a stop too.
        let _ = self.stop.wait_for(|stop| *stop).await;
    }

    /// Whether it has been begun.
    pub(crate) fn has_begun(&self) -> bool {
        *self.stop.borrow() || self.stop.has_changed().is_err()
    }

    /// Whether the connection is closed by and by, so that its client does well to close it.
    pub(crate) fn is_closing(&mut self) -> bool {
        matches!(self.phase(), Phase::Closing { .. })
    }

    pub(crate) fn phase(&mut self) -> Phase {
        if !self.has_begun() {
            return Phase::Serving;
        }
        match self.succession.0.get() {
            Some(HandOverTerms { give: Some(_), .. }) if !self.is_kept => Phase::Passing,
            Some(_) => Phase::Closing { until: self.limit(), quiet: HAND_OVER_QUIET },
            None => Phase::Closing { until: self.limit(), quiet: STOP_QUIET },
        }
    }

    /// When the last connection is to be closed, once the stop has begun.
    pub(crate) fn limit(&mut self) -> Instant {
        match self.succession.0.get() {
            Some(handing) => handing.until,
            None => *self.seen.get_or_insert_with(|| Instant::now() + STOP_LIMIT),
        }
    }

    /// Gives a connection away; one that is not taken is closed by and by.
    pub(crate) fn give(&mut self, socket: BorrowedFd<'_>, speaks: Speaks) -> bool {
        let give = self.succession.0.get().and_then(|handing| handing.give.as_ref());
        let given = give.is_some_and(|give| match give(socket, speaks) {
            Ok(()) => true,
            Err(error) => {
                tracing::debug!("a DNS connection could not be handed over: {error}");
                false
            }
        });
        self.is_kept = !given;
        given
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn for_whom_a_connection_asks_survives_the_message() {
        let cases = ["192.0.2.7", "2001:db8::1"].map(|text| Speaks::For(text.parse().unwrap()));
        for speaks in cases.into_iter().chain([Speaks::Unknown]) {
            assert_eq!(Speaks::from_text(&speaks.to_string()), Some(speaks));
        }
        assert_eq!(Speaks::from_text("elsewhere"), None);
    }
}
