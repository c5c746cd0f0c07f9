//! How much happens in a second, as the last ten whole seconds have it.
//!
//! ```text
//! second    10   11   12  ...  19   20 (the present one, which is not whole yet)
//! slot      10   0    1        8    9
//! ```
//! For: people who look at a feed. Not for totals, which are counted apart.
//! At the same time: a short lock. Cost: a look at the clock and that lock for each note.

use crate::sync;
use std::sync::Mutex;
use std::time::Instant;

/// The whole seconds that count.
const SECONDS: usize = 10;

/// See the file's header.
pub(super) struct Rate {
    began: Instant,
    /// For each slot the second that it is of, and what that had.
    slots: Mutex<[(u64, u64); SECONDS + 1]>,
}

impl Default for Rate {
    fn default() -> Rate {
        Rate { began: Instant::now(), slots: Mutex::default() }
    }
}

impl Rate {
    /// Counts this many.
    pub(super) fn note(&self, count: u64) {
        self.note_at(self.began.elapsed().as_secs(), count);
    }

    /// The mean of the last whole seconds, or of those since the start where those are fewer.
    pub(super) fn per_second(&self) -> f64 {
        self.per_second_at(self.began.elapsed().as_secs())
    }

    fn note_at(&self, second: u64, count: u64) {
        let slot = &mut sync::lock(&self.slots)[second as usize % (SECONDS + 1)];
        *slot = if slot.0 == second { (second, slot.1 + count) } else { (second, count) };
    }

    fn per_second_at(&self, second: u64) -> f64 {
        let whole = second.saturating_sub(SECONDS as u64)..second;
        let slots = sync::lock(&self.slots);
        if whole.is_empty() {
            return slots[0].1 as f64;
        }
        let counted = slots.iter().filter(|(of, _)| whole.contains(of));
        counted.map(|(_, count)| count).sum::<u64>() as f64 / (whole.end - whole.start) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ten_whole_seconds_count_and_older_ones_are_forgotten() {
        let rate = Rate::default();
        rate.note_at(0, 6);
        rate.note_at(0, 1);
        assert_eq!(rate.per_second_at(0), 7.0, "the first second is all there is");
        (1..=20).for_each(|second| rate.note_at(second, 100));
        assert_eq!(rate.per_second_at(20), 100.0);
        assert_eq!(rate.per_second_at(25), 60.0, "15 to 19 and 20, of ten");
        assert_eq!(rate.per_second_at(31), 0.0);
    }
}
