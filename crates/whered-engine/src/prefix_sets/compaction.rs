//! When changes are folded into the compiled layers of sets.
//!
//! For: the choice, for a background thread that asks now and then. Not for: the folding (`set`).
//!
//! ```text
//! changes   a sixteenth of the members and 1,024     at once
//!           fewer                                    after 50 ms, and 20 times what a fold takes
//! expired   a sixteenth of the members and 64        at once
//!           fewer                                    after 10 s, and 100 times what a fold takes
//! ```
//!
//! So a set that changes slowly takes a twentieth of a core for folding, and a look at a set stays
//! near what the compiled layer costs. Cost of asking: a flag when nothing has changed, otherwise a
//! lock for each set.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::PrefixSets;
use super::set::NamedSet;
use crate::clock;

const PENDING_AT_ONCE: usize = 1024;
const EXPIRED_AT_ONCE: usize = 64;
const PENDING_FOR: Duration = Duration::from_millis(50);
const EXPIRED_FOR: Duration = Duration::from_secs(10);
/// What compiling a member takes at most, where no fold has told yet.
const NANOS_PER_MEMBER: u64 = 200;

impl PrefixSets {
    /// Folds the sets whose time has come and gives how many. Long: some 100 ns a member.
    pub fn compact_due(&self) -> usize {
        let sets = self.sets.load_full();
        let mut folded = 0;
        let mut waits = false;
        if !self.is_touched.swap(false, Ordering::AcqRel) {
            return 0;
        }
        for set in sets.values() {
            if is_due(set) {
                folded += usize::from(set.compact());
            }
            let current = set.current();
            // Expiries are looked at again and again, as time goes by without changes.
            waits |= current.pending_len() > 0 || current.expiry_bounds().is_some();
        }
        if waits {
            self.touch();
        }
        folded
    }

    /// Whether something has changed that [`PrefixSets::compact_due`] will look at.
    pub fn is_compaction_awaited(&self) -> bool {
        self.is_touched.load(Ordering::Acquire)
    }

    /// Folds whatever has changed, in all sets.
    pub fn compact_all(&self) {
        for set in self.sets.load_full().values() {
            if set.current().pending_len() > 0 {
                set.compact();
            }
        }
    }
}

fn is_due(set: &NamedSet) -> bool {
    let current = set.current();
    let (pending, len) = (current.pending_len(), current.len());
    let expired = current.base_expired_len(clock::now_millis());
    if pending == 0 && expired == 0 {
        return false;
    }
    if pending >= PENDING_AT_ONCE + len / 16 || expired >= EXPIRED_AT_ONCE + len / 16 {
        return true;
    }
    let (waiting, last) = set.waiting();
    let guessed = Duration::from_nanos(len as u64 * NANOS_PER_MEMBER);
    let took = last.map_or(guessed, |(_, took)| took);
    let is_over = |waited: Duration, least: Duration, times: u32| {
        waited >= least.max(took.saturating_mul(times))
    };
    let rested = last.map_or(Duration::MAX, |(ago, _)| ago);
    pending > 0 && waiting.is_some_and(|waiting| is_over(waiting, PENDING_FOR, 20))
        || expired > 0 && is_over(rested, EXPIRED_FOR, 100)
}
