//! What commands cost: counts and durations of each command, kept by each worker for itself.
//!
//! For: `INFO commandstats`, `LATENCY HISTOGRAM`, `/metrics`, and the time that the slow log sees.
//! Not for: counts of bytes and connections (`counters::RespCounters`).
//!
//! ```text
//! worker 0: [ping: calls, nanoseconds, buckets 1 2 4 8 ... us] [get: ...] ...   read: the sum
//! worker 1: [ping: ...] ...                                                     over workers
//! ```
//!
//! A meter belongs to one connection's time slice. Reading the clock costs about as much as the
//! shortest commands, so short ones of the same name that follow each other in a pipeline are timed
//! together, about `RUN_MAX` of them: each is entered with their mean, or, when the run took
//! unusually long, all but one with what the command usually takes and one with the rest, since it
//! is one that a lock or the machine has held up. Everything else is timed alone.
//!
//! Invariants: one worker writes its own figures, without locked instructions; the reader
//! may miss the last moment.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use whered_engine::sync;

use whered_engine::store::Histogram;

/// After this many commands timed together a run ends.
const RUN_MAX: u32 = 16;
/// A run that took longer was held up.
const HELD_UP: Duration = Duration::from_micros(200);

/// The figures of all workers.
pub(crate) struct Statistics {
    workers: Vec<Arc<WorkerStatistics>>,
    /// Error replies by their first word, of which there are few.
    errors: Mutex<BTreeMap<String, u64>>,
}

impl Statistics {
    pub(crate) fn new(worker_count: usize, command_count: usize) -> Statistics {
        let one = || WorkerStatistics {
            commands: (0..command_count).map(|_| Figures::default()).collect(),
        };
        let workers = (0..worker_count).map(|_| Arc::new(one())).collect();
        Statistics { workers, errors: Mutex::default() }
    }

    /// Counts an error reply.
    pub(crate) fn note_error(&self, code: &[u8]) {
        let code = String::from_utf8_lossy(code);
        let mut errors = self.lock_errors();
        match errors.get_mut(&*code) {
            Some(count) => *count += 1,
            None => drop(errors.insert(code.into_owned(), 1)),
        }
    }

    /// How many error replies began with each word.
    pub(crate) fn errors(&self) -> BTreeMap<String, u64> {
        self.lock_errors().clone()
    }

    fn lock_errors(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        sync::lock(&self.errors)
    }

    /// Where a worker counts.
    pub(crate) fn of_worker(&self, worker: usize) -> Arc<WorkerStatistics> {
        Arc::clone(&self.workers[worker])
    }

    /// The sum of a command's figures.
    pub(crate) fn total(&self, number: usize) -> Totals {
        let mut totals = Totals::default();
        for worker in &self.workers {
            worker.commands[number].add_to(&mut totals);
        }
        totals
    }

    /// Counts from zero again.
    pub(crate) fn reset(&self) {
        self.lock_errors().clear();
        for figures in self.workers.iter().flat_map(|worker| &worker.commands) {
            figures.reset();
        }
    }
}

/// One worker's figures, by command number.
pub(crate) struct WorkerStatistics {
    commands: Vec<Figures>,
}

#[derive(Default)]
struct Figures {
    calls: AtomicU64,
    nanoseconds: AtomicU64,
    /// Called and answered with an error.
    failed: AtomicU64,
    /// Refused before it was called.
    rejected: AtomicU64,
    /// As those of a [`Histogram`] of microseconds.
    buckets: [AtomicU64; Histogram::BUCKETS],
}

/// A command's figures at one time.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) calls: u64,
    pub(crate) nanoseconds: u64,
    pub(crate) failed: u64,
    pub(crate) rejected: u64,
    /// In microseconds; its sum is not kept, as `nanoseconds` is.
    pub(crate) micros: Histogram,
}

impl Totals {
    /// Adds another command's figures.
    pub(crate) fn add(&mut self, other: &Totals) {
        self.calls += other.calls;
        self.nanoseconds += other.nanoseconds;
        self.failed += other.failed;
        self.rejected += other.rejected;
        self.micros.add(&other.micros);
    }
}

impl Figures {
    fn enter(&self, count: u64, each: Duration) {
        let nanoseconds = each.as_nanos() as u64;
        add(&self.calls, count);
        add(&self.nanoseconds, nanoseconds * count);
        add(&self.buckets[Histogram::bucket_of(nanoseconds.div_ceil(1000))], count);
    }

    /// What a call took in the mean so far.
    fn mean(&self) -> Duration {
        let calls = self.calls.load(Ordering::Relaxed).max(1);
        Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed) / calls)
    }

    fn add_to(&self, totals: &mut Totals) {
        totals.calls += self.calls.load(Ordering::Relaxed);
        totals.nanoseconds += self.nanoseconds.load(Ordering::Relaxed);
        totals.failed += self.failed.load(Ordering::Relaxed);
        totals.rejected += self.rejected.load(Ordering::Relaxed);
        for (sum, count) in totals.micros.buckets.iter_mut().zip(&self.buckets) {
            *sum += count.load(Ordering::Relaxed);
        }
    }

    fn reset(&self) {
        let all = [&self.calls, &self.nanoseconds, &self.failed, &self.rejected];
        all.into_iter().chain(&self.buckets).for_each(|count| count.store(0, Ordering::Relaxed));
    }
}

/// Only the owner writes, so that no locked instruction is needed. (A reset at the same moment may
/// be lost, which shows as figures that were not reset.)
fn add(count: &AtomicU64, more: u64) {
    count.store(count.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

/// Times the commands of one connection.
pub(crate) struct Meter {
    worker: Arc<WorkerStatistics>,
    /// When the present run began, or the last one ended.
    since: Instant,
    /// The command that is being timed, and how many times it was called already.
    run: Option<(usize, u32)>,
}

impl Meter {
    pub(crate) fn new(worker: Arc<WorkerStatistics>) -> Meter {
        Meter { worker, since: Instant::now(), run: None }
    }

    /// A time slice begins.
    pub(crate) fn begin_slice(&mut self) {
        self.since = Instant::now();
    }

    /// The last time that the clock was read.
    pub(crate) fn now(&self) -> Instant {
        self.since
    }

    /// A command is about to be called. A run goes on when it is one of the same command and the
    /// two may share their time; otherwise it ends. When it was a long one, gives its command and
    /// its duration.
    pub(crate) fn begin(&mut self, number: usize, shares: bool) -> Option<(usize, Duration)> {
        match self.run {
            Some((running, _)) if shares && running == number => None,
            _ => self.end_run(),
        }
    }

    /// A short command was called `count` times: it may share its time with the next ones.
    pub(crate) fn end_short(&mut self, number: usize, times: u32) -> Option<(usize, Duration)> {
        let count = self.run.map_or(0, |(_, count)| count) + times;
        self.run = Some((number, count));
        if count < RUN_MAX { None } else { self.end_run() }
    }

    /// Any other command was called: gives how long it took.
    pub(crate) fn end(&mut self, number: usize) -> Duration {
        // What a transaction has called last may still be open.
        self.end_run();
        let now = Instant::now();
        let duration = now.duration_since(self.since);
        self.since = now;
        self.worker.commands[number].enter(1, duration);
        duration
    }

    /// Ends the present run, if there is one; also at the end of a time slice.
    pub(crate) fn end_run(&mut self) -> Option<(usize, Duration)> {
        let (number, count) = self.run.take()?;
        let now = Instant::now();
        let total = now.duration_since(self.since);
        self.since = now;
        let figures = &self.worker.commands[number];
        if total <= HELD_UP || count == 1 {
            figures.enter(u64::from(count), total / count);
            return (count == 1).then_some((number, total));
        }
        let usual = figures.mean().min(total / count);
        figures.enter(u64::from(count - 1), usual);
        let rest = total - usual * (count - 1);
        figures.enter(1, rest);
        Some((number, rest))
    }

    /// The command that was called has failed.
    pub(crate) fn note_failed(&self, number: usize) {
        add(&self.worker.commands[number].failed, 1);
    }

    /// A command was not called.
    pub(crate) fn note_rejected(&self, number: usize) {
        add(&self.worker.commands[number].rejected, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_is_counted_once_however_it_was_timed() {
        let statistics = Statistics::new(2, 3);
        let mut meter = Meter::new(statistics.of_worker(1));
        meter.begin_slice();
        for _ in 0..100 {
            meter.begin(0, true);
            meter.end_short(0, 1);
        }
        meter.begin(2, false);
        meter.end(2);
        meter.begin(0, true);
        meter.end_short(0, 1);
        meter.end_run();
        let calls: Vec<u64> = (0..3).map(|number| statistics.total(number).calls).collect();
        assert_eq!(calls, [101, 0, 1]);
        let total = statistics.total(0);
        assert_eq!(total.micros.count(), 101);
        assert!(total.micros.bound_of(0.5) <= total.micros.bound_of(0.99));
        statistics.reset();
        assert_eq!(statistics.total(0), Totals::default());
    }
}
