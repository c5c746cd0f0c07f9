//! The engine's clock: the only place below the doors that asks what time it is.
//!
//! Lower crates take `now` as an argument, so that their tests need no clock; the keyspace takes
//! a [`Clock`], so that its own can be turned by hand.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970-01-01T00:00:00Z; 0 on a machine whose clock is set before that.
pub(crate) fn now_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// What tells the keyspace the time: the system, unless a test says otherwise.
#[derive(Clone, Default)]
pub struct Clock(Option<Arc<dyn Fn() -> u64 + Send + Sync>>);

impl Clock {
    /// A clock that asks this function for the milliseconds since 1970.
    pub fn from_fn(now_millis: impl Fn() -> u64 + Send + Sync + 'static) -> Clock {
        Clock(Some(Arc::new(now_millis)))
    }

    pub(crate) fn now_millis(&self) -> u64 {
        match &self.0 {
            Some(now_millis) => now_millis(),
            None => now_millis(),
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Clock(by hand)" } else { "Clock(system)" })
    }
}
