//! The engine's clock: the only place below the doors that asks what time it is.
//!
//! Lower crates take `now` as an argument, so that their tests need no clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970-01-01T00:00:00Z; 0 on a machine whose clock is set before that.
pub(crate) fn now_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
