//! How often each rule was met, and by how many bytes, counted by every thread for itself.
//!
//! For: [`Counters`], as many cells as a compilation has tallies, for each lane of threads;
//! [`Totals`], which carries the counts from one compilation to the next by the rules' numbers.
//!
//! ```text
//! lane 0  [ policy | rule rule rule ... | room for rules put in ]     packets and bytes in each cell
//! lane 1  [ ... ]
//! kinds   [ drop   | accept log accept ... ]                          which verdict each tally counts for
//! Totals  starts by number (what was counted before, less what was reset)
//!         + retired counters that a late reader may still hold
//! ```
//!
//! Invariants: nothing that was counted is lost while rules are compiled anew: a reader counts
//! where its compilation counts, and those counters are read until the last such reader is gone.
//! Concurrency: adding is one relaxed addition in the thread's own lane (threads beyond
//! [`LANES_MAX`] share lanes). Reading sums over the lanes.

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use whered_rules::{Counters as Count, Verdict};

use crate::sync::{self, shard_of};

/// Threads with counters of their own.
const LANES_MAX: usize = 16;
/// The verdicts by the numbers of their kinds.
pub(crate) const VERDICTS: [&str; 5] = ["accept", "drop", "reject", "site", "continue"];
/// Rules that may be put in before all is compiled anew.
pub(crate) const ROOM: usize = 1024;

#[derive(Debug, Default)]
struct Cell {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl Cell {
    #[inline]
    fn add(&self, bytes: u64) {
        self.packets.fetch_add(1, Ordering::Relaxed);
        if bytes != 0 {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

/// Which verdict a tally counts for: a place in [`VERDICTS`], or none of them.
type Kind = u8;
const NO_VERDICT: Kind = u8::MAX;

fn kind_of(verdict: Option<&Verdict>) -> Kind {
    match verdict {
        Some(Verdict::Accept) => 0,
        Some(Verdict::Drop) => 1,
        Some(Verdict::Reject { .. }) => 2,
        Some(Verdict::Site(_)) => 3,
        Some(Verdict::Continue) => 4,
        Some(Verdict::Queue | Verdict::Maybe) | None => NO_VERDICT,
    }
}

/// The counters of one compilation.
#[derive(Debug)]
pub(crate) struct Counters {
    shards: Box<[OnceLock<Box<[Cell]>>]>,
    cells: usize,
    /// By tally.
    kinds: Mutex<Vec<Kind>>,
}

/// One thread's cells.
#[derive(Clone, Copy)]
pub(crate) struct Shard<'a>(&'a [Cell]);

impl Shard<'_> {
    /// Counts a packet for a tally.
    #[inline]
    pub(crate) fn add(self, tally: u32, bytes: u64) {
        if let Some(cell) = self.0.get(tally as usize) {
            cell.add(bytes);
        }
    }
}

impl Counters {
    /// Counters for this many rules, all zero; memory is taken by the first packet of each lane.
    pub(crate) fn new(rules: usize) -> Counters {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        // The doors have threads beside one for each core.
        let shards = (cores + 2).clamp(1, LANES_MAX);
        let shards = (0..shards).map(|_| OnceLock::new()).collect();
        Counters { shards, cells: 1 + rules + ROOM, kinds: Mutex::default() }
    }

    /// Whether there is a cell for this many tallies.
    pub(crate) fn has_room_for(&self, tallies: u32) -> bool {
        tallies as usize <= self.cells
    }

    /// A tally counts for this verdict; one that was never told of for none.
    pub(crate) fn note(&self, tally: u32, verdict: Option<&Verdict>) {
        let mut kinds = self.kinds();
        let tally = tally as usize;
        if kinds.len() <= tally {
            kinds.resize(tally + 1, NO_VERDICT);
        }
        kinds[tally] = kind_of(verdict);
    }

    fn kinds(&self) -> MutexGuard<'_, Vec<Kind>> {
        sync::lock(&self.kinds)
    }

    /// This thread's cells.
    #[inline]
    pub(crate) fn shard(&self) -> Shard<'_> {
        let shard = &self.shards[shard_of(self.shards.len())];
        Shard(shard.get_or_init(|| (0..self.cells).map(|_| Cell::default()).collect()))
    }

    /// What the lanes take.
    pub(crate) fn memory_bytes(&self) -> usize {
        let taken = self.shards.iter().filter(|shard| shard.get().is_some()).count();
        taken * self.cells * size_of::<Cell>()
    }

    fn tally(&self, tally: u32) -> Count {
        let cells = self.shards.iter().filter_map(|shard| shard.get()?.get(tally as usize));
        cells.fold(Count::default(), |sum, cell| {
            let packets = cell.packets.load(Ordering::Relaxed);
            plus(sum, Count { packets, bytes: cell.bytes.load(Ordering::Relaxed) })
        })
    }
}

impl Counters {
    /// Adds packets and bytes by verdict.
    fn add_verdicts(&self, sums: &mut [Count; VERDICTS.len()]) {
        for (&kind, tally) in self.kinds().iter().zip(0..) {
            if let Some(sum) = sums.get_mut(usize::from(kind)) {
                *sum = plus(*sum, self.tally(tally));
            }
        }
    }
}

/// The number that the policy counts under; rules have others.
pub(crate) const POLICY: u32 = 0;

/// Counters of an earlier compilation that somebody may still count in.
#[derive(Debug)]
struct RetiredCounters {
    counters: Arc<Counters>,
    tallies: HashMap<u32, u32>,
}

/// What the counts add up to.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    starts: HashMap<u32, Count>,
    verdicts: [Count; VERDICTS.len()],
    retired: Vec<RetiredCounters>,
}

impl Totals {
    /// What a rule has counted before anybody here did.
    pub(crate) fn start(&mut self, number: u32, count: Count) {
        self.starts.insert(number, count);
    }

    /// The count of a rule (or the policy) whose tally is this.
    pub(crate) fn of(&self, counters: &Counters, number: u32, tally: u32) -> Count {
        plus(self.before(number), counters.tally(tally))
    }

    fn before(&self, number: u32) -> Count {
        let start = self.starts.get(&number).copied().unwrap_or_default();
        self.retired.iter().fold(start, |sum, retired| match retired.tallies.get(&number) {
            Some(&tally) => plus(sum, retired.counters.tally(tally)),
            None => sum,
        })
    }

    /// Packets and bytes by verdict.
    pub(crate) fn by_verdict(&self, counters: &Counters) -> [Count; VERDICTS.len()] {
        let mut sums = self.verdicts;
        counters.add_verdicts(&mut sums);
        self.retired.iter().for_each(|retired| retired.counters.add_verdicts(&mut sums));
        sums
    }

    /// From now on this much less is told for a rule.
    pub(crate) fn forget(&mut self, number: u32, count: Count) {
        let start = self.starts.entry(number).or_default();
        start.packets = start.packets.wrapping_sub(count.packets);
        start.bytes = start.bytes.wrapping_sub(count.bytes);
    }

    /// A rule begins at zero under a number that was another's.
    pub(crate) fn begin(&mut self, number: u32) {
        self.forget(number, self.before(number));
    }

    /// These counters are replaced; those who hold them go on counting in them.
    pub(crate) fn retire(&mut self, counters: Arc<Counters>, tallies: HashMap<u32, u32>) {
        self.retired.push(RetiredCounters { counters, tallies });
    }

    /// Adds up the retired counters that nobody holds any more, and forgets numbers that are gone.
    pub(crate) fn settle(&mut self, lives: &dyn Fn(u32) -> bool) {
        let (starts, verdicts) = (&mut self.starts, &mut self.verdicts);
        self.retired.retain(|retired| {
            if Arc::strong_count(&retired.counters) > 1 {
                return true;
            }
            for (&number, &tally) in &retired.tallies {
                let start = starts.entry(number).or_default();
                *start = plus(*start, retired.counters.tally(tally));
            }
            retired.counters.add_verdicts(verdicts);
            false
        });
        starts.retain(|number, _| *number == POLICY || lives(*number));
    }
}

fn plus(a: Count, b: Count) -> Count {
    Count { packets: a.packets.wrapping_add(b.packets), bytes: a.bytes.wrapping_add(b.bytes) }
}
