//! The time as transfers want it.
//!
//! Not for: when something is due (`whered_dns::transfer::Schedule`).

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
pub(super) fn now_millis() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Seconds since 1970.
pub(super) fn now_seconds() -> u64 {
    now_millis() / 1000
}
