//! `CLIENT PAUSE`: for a while no command, or no write, is taken from anybody.
//!
//! ```text
//! now ────────┬──────────────> end        connections keep what they have read and wait
//!             PAUSE           or UNPAUSE
//! ```
//!
//! At the same time: two atomics that every command looks at; while nobody pauses that is one load.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The pause of the listener.
#[derive(Default)]
pub(crate) struct Pause {
    /// When it ends, in milliseconds since `START`; 0: there is none.
    end_millis: AtomicU64,
    /// Whether only writes wait.
    writes_only: AtomicBool,
}

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

impl Pause {
    /// Begins one, or changes the one that is: it never ends earlier and never stops less.
    pub(crate) fn begin(&self, duration: Duration, writes_only: bool) {
        if duration.is_zero() {
            return;
        }
        let length = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let end = now_millis().saturating_add(length);
        let running = self.left().is_some();
        let keeps_all = running && !self.writes_only.load(Ordering::SeqCst);
        self.writes_only.store(writes_only && !keeps_all, Ordering::SeqCst);
        if running {
            self.end_millis.fetch_max(end, Ordering::SeqCst);
        } else {
            self.end_millis.store(end, Ordering::SeqCst);
        }
    }

    /// Ends it.
    pub(crate) fn end(&self) {
        self.end_millis.store(0, Ordering::SeqCst);
    }

    /// How long it still goes on; `None` when there is none.
    pub(crate) fn left(&self) -> Option<Duration> {
        let end = self.end_millis.load(Ordering::Relaxed);
        if end == 0 {
            return None;
        }
        let left = end.saturating_sub(now_millis());
        (left > 0).then(|| Duration::from_millis(left))
    }

    /// Whether a command must wait now.
    pub(crate) fn stops(&self, is_write: bool) -> bool {
        self.end_millis.load(Ordering::Relaxed) != 0
            && (is_write || !self.writes_only.load(Ordering::SeqCst))
            && self.left().is_some()
    }
}

fn now_millis() -> u64 {
    START.elapsed().as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_of_writes_stops_writes_only_and_a_second_one_never_stops_less() {
        let pause = Pause::default();
        assert!(!pause.stops(true));
        pause.begin(Duration::from_secs(1000), true);
        assert!(pause.stops(true) && !pause.stops(false));
        pause.begin(Duration::from_secs(10), false);
        assert!(pause.stops(false));
        pause.begin(Duration::from_secs(1), true);
        assert!(pause.stops(false), "the longer and stronger one goes on");
        assert!(pause.left().is_some_and(|left| left > Duration::from_secs(900)));
        pause.end();
        assert!(!pause.stops(true));
        pause.begin(Duration::ZERO, false);
        assert!(!pause.stops(true), "a pause of no length is none");
    }
}
