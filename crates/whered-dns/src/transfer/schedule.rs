//! When a secondary asks its primaries, and until when it serves what it has (RFC 1034, 4.3.5).
//!
//! Not for: clocks (`now_millis` is an argument), chance (`jitter` is one), asking.
//!
//! ```text
//! success ── refresh less up to a tenth ──> ask ── no answer: retry, retry ... ──> expire
//! no zone ── 1 s, 2 s, 4 s ... 1 min ──> ask
//! ```

use super::queries::SoaTimes;

/// The shortest time between questions, and the longest while there is no zone.
const PAUSE_MIN_MILLIS: u64 = 1000;
const PAUSE_MAX_MILLIS: u64 = 60_000;
/// The longest refresh and retry that are taken from a SOA: four weeks and two weeks, as in BIND.
const REFRESH_MAX_SECONDS: u32 = 2_419_200;
const RETRY_MAX_SECONDS: u32 = 1_209_600;

/// The times of one secondary zone, in milliseconds since 1970.
///
/// ```
/// use whered_dns::transfer::{Schedule, SoaTimes};
/// let (refresh_seconds, retry_seconds, expire_seconds) = (100, 10, 300);
/// let times = SoaTimes { serial: 1, refresh_seconds, retry_seconds, expire_seconds };
/// let mut schedule = Schedule::new(5_000);
/// assert_eq!(schedule.due_at_millis(), 5_000);
/// schedule.succeeded(5_000, times, 0);
/// assert_eq!(schedule.due_at_millis(), 105_000);
/// schedule.failed(105_000, 0);
/// assert_eq!(schedule.due_at_millis(), 115_000);
/// assert!(!schedule.is_expired(304_999) && schedule.is_expired(305_000));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    due_at_millis: u64,
    /// When a primary said the last time what the zone is, and the times of its SOA.
    confirmed: Option<(u64, SoaTimes)>,
    /// How many times in a row nobody answered.
    failure_count: u32,
}

impl Schedule {
    /// Without a zone; it is to be asked for at once.
    #[must_use]
    pub fn new(now_millis: u64) -> Schedule {
        Schedule { due_at_millis: now_millis, confirmed: None, failure_count: 0 }
    }

    /// With a zone that was confirmed before; whether it still holds is to be asked at once.
    #[must_use]
    pub fn with_copy(now_millis: u64, confirmed_at_millis: u64, times: SoaTimes) -> Schedule {
        let confirmed = Some((confirmed_at_millis.min(now_millis), times));
        Schedule { due_at_millis: now_millis, confirmed, failure_count: 0 }
    }

    /// A primary has said what the zone is. Of `jitter`, 255 is a tenth of the refresh time less.
    pub fn succeeded(&mut self, now_millis: u64, times: SoaTimes, jitter: u8) {
        let refresh = u64::from(times.refresh_seconds.min(REFRESH_MAX_SECONDS)) * 1000;
        self.confirmed = Some((now_millis, times));
        self.failure_count = 0;
        self.due_at_millis = now_millis + less(refresh, jitter).max(PAUSE_MIN_MILLIS);
    }

    /// No primary has.
    pub fn failed(&mut self, now_millis: u64, jitter: u8) {
        let doubled = PAUSE_MIN_MILLIS << self.failure_count.min(10);
        let pause = match self.confirmed.filter(|_| !self.is_expired(now_millis)) {
            Some((_, times)) => u64::from(times.retry_seconds.min(RETRY_MAX_SECONDS)) * 1000,
            None => doubled.min(PAUSE_MAX_MILLIS),
        };
        self.failure_count = self.failure_count.saturating_add(1);
        let due = now_millis + less(pause, jitter).max(PAUSE_MIN_MILLIS);
        // The end of the zone is no moment to sleep through.
        let expiry = self.expires_at_millis().filter(|expiry| *expiry > now_millis);
        self.due_at_millis = expiry.map_or(due, |expiry| due.min(expiry));
    }

    /// When primaries are to be asked next.
    #[must_use]
    pub fn due_at_millis(&self) -> u64 {
        self.due_at_millis
    }

    /// When the zone is no longer to be served; none while there is no zone.
    #[must_use]
    pub fn expires_at_millis(&self) -> Option<u64> {
        let (at, times) = self.confirmed?;
        Some(at + u64::from(times.expire_seconds) * 1000)
    }

    /// Whether it is no longer to be served.
    #[must_use]
    pub fn is_expired(&self, now_millis: u64) -> bool {
        self.expires_at_millis().is_some_and(|expiry| expiry <= now_millis)
    }

    /// When a primary has said the last time what the zone is.
    #[must_use]
    pub fn confirmed_at_millis(&self) -> Option<u64> {
        self.confirmed.map(|(at, _)| at)
    }
}

fn less(millis: u64, jitter: u8) -> u64 {
    millis - millis / 10 * u64::from(jitter) / 255
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: SoaTimes =
        SoaTimes { serial: 1, refresh_seconds: 1000, retry_seconds: 400, expire_seconds: 1500 };

    #[test]
    fn without_a_zone_pauses_double_up_to_a_minute() {
        let mut schedule = Schedule::new(0);
        let mut now = 0;
        for pause in [1, 2, 4, 8, 16, 32, 60, 60] {
            schedule.failed(now, 0);
            assert_eq!(schedule.due_at_millis() - now, pause * 1000);
            now = schedule.due_at_millis();
        }
        assert!(!schedule.is_expired(u64::MAX), "there is nothing that could expire");
    }

    #[test]
    fn a_failure_is_followed_by_retries_until_the_zone_expires_and_then_by_more() {
        let mut schedule = Schedule::with_copy(10_000, 0, TIMES);
        schedule.failed(10_000, 0);
        assert_eq!(schedule.due_at_millis(), 410_000);
        schedule.failed(1_400_000, 0);
        assert_eq!(schedule.due_at_millis(), 1_500_000, "the end is looked at");
        assert!(schedule.is_expired(1_500_000));
        schedule.failed(1_500_000, 0);
        assert!(schedule.due_at_millis() <= 1_560_000);
        schedule.succeeded(1_600_000, TIMES, 255);
        assert!(!schedule.is_expired(1_600_000));
        assert_eq!(schedule.due_at_millis(), 2_500_000, "a tenth less than the refresh time");
    }

    #[test]
    fn times_of_a_soa_never_make_it_ask_without_a_pause_or_overflow() {
        let mut schedule = Schedule::new(0);
        for seconds in [0, u32::MAX] {
            let times = SoaTimes {
                serial: 0,
                refresh_seconds: seconds,
                retry_seconds: seconds,
                expire_seconds: seconds,
            };
            schedule.succeeded(1 << 50, times, 255);
            assert!(schedule.due_at_millis() >= (1 << 50) + PAUSE_MIN_MILLIS);
            schedule.failed(1 << 50, 255);
            assert!(schedule.due_at_millis() > 1 << 50);
        }
    }
}
