//! The life of one check: wait, ask, judge, tell.
//!
//! Not for: the asking (`probe`), the judgement (`hysteresis`).

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::mpsc;
use whered_engine::Probed;

use super::board::{HealthBoard, SiteKey};
use super::check::Target;
use super::hysteresis::Hysteresis;
use super::probe::{Limits, PreparedCheck};

/// First probes are spread over this time, or over the interval if that is shorter.
const FIRST_MAX: Duration = Duration::from_millis(500);

/// What all tasks share.
pub(super) struct TaskContext {
    pub(super) limits: Limits,
    pub(super) board: Arc<HealthBoard>,
    pub(super) changes: mpsc::UnboundedSender<StatusChange>,
}

/// A site's checks come to something else than before.
pub(super) struct StatusChange {
    pub(super) key: SiteKey,
    pub(super) number: u64,
    pub(super) probed: Probed,
    /// What was asked and what came, for the log.
    pub(super) reason: String,
}

/// Asks a check again and again, until the task is aborted.
pub(super) async fn run(
    shared: Arc<TaskContext>,
    key: SiteKey,
    number: u64,
    index: usize,
    check: PreparedCheck,
) {
    let mut state = Hysteresis::new(&check.check);
    let mut random = Random::new(number, index);
    let interval = check.check.interval;
    tokio::time::sleep(interval.min(FIRST_MAX).mul_f64(random.fraction())).await;
    loop {
        let limits = &shared.limits;
        let permits = match check.check.target {
            Target::Exec { .. } => &limits.commands,
            Target::Tcp { .. } | Target::Http(_) => &limits.connections,
        };
        // Permits are never closed.
        let Ok(permit) = permits.acquire().await else { return };
        let begun = Instant::now();
        let found = check.ask().await;
        let took = begun.elapsed();
        drop(permit);
        let probed = state.note(found.is_ok());
        let at_millis = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let times = (at_millis.as_millis() as u64, took);
        if let Some(probed) = shared.board.note(&key, index, &found, probed, times) {
            let reason = match &found {
                Ok(()) => String::new(),
                Err(failure) => format!("{}: {}", check.check.target, failure.reason()),
            };
            // Nobody listens any more when the server stops.
            let _ = shared.changes.send(StatusChange { key: key.clone(), number, probed, reason });
        }
        // A tenth more or less, so that checks do not march in step.
        let next = interval.mul_f64(0.9 + 0.2 * random.fraction());
        tokio::time::sleep(next.saturating_sub(took)).await;
    }
}

/// Numbers from 0 to 1 that differ between tasks (xorshift).
struct Random(u64);

impl Random {
    fn new(number: u64, index: usize) -> Random {
        // The standard library seeds each hasher from the system's random numbers.
        Random(RandomState::new().hash_one((number, index)) | 1)
    }

    fn fraction(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}
