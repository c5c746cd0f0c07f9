//! Commands that are refused again and again: a line in the log for each, once a minute.
//!
//! For: a client library that repeats for ever what this server does not offer, which nobody sees
//! otherwise. Not for: counts (`statistics`), and refusals now and then.
//!
//! ```text
//! name of the command ─> Run { since, count, is_loop }
//!    100 within a minute: a line; from then on a line a minute with the count, until it is less
//! ```
//!
//! Invariants: a name is told once a minute at most. Names that no command has are a client's
//! words: few are kept apart, the rest are one.
//! At the same time: one short lock, taken when an error is answered. Cost: one search among few
//! names.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use whered_engine::sync;

/// For how long refusals are counted together.
const WINDOW: Duration = Duration::from_secs(60);
/// This many within that time are a loop.
const LOOP_COUNT: u64 = 100;
/// How many names are kept apart.
const NAMES_MAX: usize = 256;
/// How much of a name is kept.
const NAME_BYTES: usize = 32;

/// The refusals of all connections.
#[derive(Default)]
pub(crate) struct RefusedCommands {
    runs: Mutex<BTreeMap<Vec<u8>, Run>>,
    unknown: AtomicU64,
}

/// The refusals of one command.
struct Run {
    since: Instant,
    count: u64,
    is_loop: bool,
}

/// What is to be told of one command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RefusalReport {
    /// The name in small letters; the end of a long one is missing.
    pub(crate) name: String,
    pub(crate) count: u64,
    pub(crate) within: Duration,
}

impl RefusedCommands {
    /// Notes a command that is answered with an error; what is to be told of it now, if anything.
    pub(crate) fn note(&self, name: &[u8], now: Instant) -> Option<RefusalReport> {
        let name = name[..name.len().min(NAME_BYTES)].to_ascii_lowercase();
        let mut runs = sync::lock(&self.runs);
        let name = match runs.len() < NAMES_MAX || runs.contains_key(&name) {
            true => name,
            false => b"(others)".to_vec(),
        };
        let run = runs.entry(name.clone()).or_insert(Run { since: now, count: 0, is_loop: false });
        let (count, within) = run.note(now)?;
        Some(RefusalReport { name: name.escape_ascii().to_string(), count, within })
    }

    /// Notes that no command has the name.
    pub(crate) fn note_unknown(&self) {
        self.unknown.fetch_add(1, Ordering::Relaxed);
    }

    /// How many requests named no command.
    pub(crate) fn unknown(&self) -> u64 {
        self.unknown.load(Ordering::Relaxed)
    }
}

impl Run {
    /// Counts one more, and gives how many there were within which time when that is to be told.
    fn note(&mut self, now: Instant) -> Option<(u64, Duration)> {
        let within = now.saturating_duration_since(self.since);
        if within >= WINDOW {
            // A loop does not pause for a minute: what lies so far apart is not one.
            let goes_on = self.count >= LOOP_COUNT && within < WINDOW * 2;
            let counted = self.count;
            *self = Run { since: now, count: 1, is_loop: goes_on };
            return goes_on.then_some((counted, within));
        }
        self.count += 1;
        if self.is_loop || self.count < LOOP_COUNT {
            return None;
        }
        let counted = self.count;
        *self = Run { since: now, count: 0, is_loop: true };
        Some((counted, within))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_told_when_it_begins_and_once_a_minute_and_rare_refusals_are_not() {
        let (refused_commands, start) = (RefusedCommands::default(), Instant::now());
        let at = |millis: u64| start + Duration::from_millis(millis);
        // One hundred a second for two minutes and a half.
        let told: Vec<_> = (0..15_000)
            .filter_map(|tick| Some((tick, refused_commands.note(b"EvalSha", at(tick * 10))?)))
            .collect();
        let moments: Vec<u64> = told.iter().map(|(tick, _)| *tick).collect();
        assert_eq!(moments, [99, 6_099, 12_099]);
        assert_eq!((told[0].1.name.as_str(), told[0].1.count), ("evalsha", 100));
        assert_eq!(told[0].1.within, Duration::from_millis(990));
        assert!(told[1..].iter().all(|(_, told)| (5_999..=6_000).contains(&told.count)));
        // It is a loop anew after a pause.
        let again =
            (0..100).filter_map(|tick| refused_commands.note(b"evalsha", at(400_000 + tick)));
        assert_eq!(again.count(), 1);
        // One a second is none, also over hours.
        let rare = (0..10_000).filter_map(|tick| refused_commands.note(b"get", at(tick * 1000)));
        assert_eq!(rare.count(), 0);
    }

    #[test]
    fn names_that_clients_make_up_take_little_memory_and_no_line_of_their_own() {
        let (refused_commands, now) = (RefusedCommands::default(), Instant::now());
        for number in 0..100_000 {
            let told = refused_commands.note(format!("nosuch{number}").as_bytes(), now);
            assert!(told.is_none_or(|told| told.name == "(others)"));
        }
        assert!(refused_commands.runs.lock().unwrap().len() <= NAMES_MAX + 1);
        let told =
            (0..100).find_map(|_| refused_commands.note(&[b'\n'; 1000], now)).map(|told| told.name);
        assert!(told.is_none_or(|name| !name.contains('\n')));
    }
}
