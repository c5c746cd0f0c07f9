//! What a command did to data.
//!
//! For: `WATCH`: `EXEC` gives up only when a watched key was changed. Each handler returns it.
//! Not for: replies, and for what the journal keeps: the engine decides that by itself.
//!
//! ```text
//! handler ─> Unchanged     nothing is marked
//!         ─> Changed       each key that the table says is written is marked
//!         ─> Reported      the handler has marked some keys itself
//! ```
//!
//! As in Redis 7.0 a write of the same value changes the key where Redis does not compare (`SET`,
//! `EXPIRE`, stored results), and does not where it does (`ZADD`, `GEOADD`).
//! Cost: nothing but a return value while nobody watches anything.

/// What a command did to data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Effect {
    /// It changed nothing.
    Unchanged,
    /// It changed data, and every key that the request names for writing.
    Changed,
    /// It changed data; its handler has marked the keys that were changed.
    Reported,
}

impl Effect {
    /// `Changed` if there was a change.
    #[inline]
    pub(super) fn changed_if(is_changed: bool) -> Effect {
        if is_changed { Effect::Changed } else { Effect::Unchanged }
    }
}
