//! Which feeds' places and tables are in memory: as many as the budget allows, taking turns.
//!
//! ```text
//! batch ─> enter ─┬─ resident, its turn ───────────────────────────> pin ─> batch ─> settle
//!                 └─ cold, or others wait and its turn is over ─> queue ─> at its head: evict others
//!                                                                         until it fits, load, pin
//! ```
//! For: who is in memory, who waits for whom, and for how long. Not for: writing and reading
//! (`storage.rs`), which files stay (`cold_files.rs`); questions, which read the file of a cold
//! table and never wait here.
//!
//! A change costs a write and a read of about all of two units, so it must be worth it: a unit that
//! came in keeps its place for a turn, at least ten times as long as its last change took, while it
//! has work, and a fifth of that when it has none. All that wait stand in one queue; the one at
//! its head waits for a turn at most, so that nobody waits for ever.
//!
//! Invariants: what is pinned or held is not moved; one thread moves a unit; the lock here is never
//! held while a unit is moved. More than the budget is taken only by a unit that is larger by
//! itself, by units that are to stay, and by what a batch adds until it ends.
//! Lock order: this before none; the feed's `worker` is taken with a pin, never the other way
//! round.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use whered_store::{Storage, StoreError};

use super::cold_files::ColdFiles;
use super::state::FeedState;
use crate::error::EngineError;
use crate::sync;

/// What feeds may take in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotOptions {
    /// Places and tables of all feeds together; 0 for no limit.
    pub memory_budget_bytes: u64,
    /// How long a feed that has work keeps its place in memory while others wait for it.
    pub turn: Duration,
}

impl Default for HotOptions {
    fn default() -> HotOptions {
        HotOptions { memory_budget_bytes: 0, turn: Duration::from_secs(2) }
    }
}

/// How it goes with the budget.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HotStats {
    /// The budget; 0 for none.
    pub budget_bytes: u64,
    /// What is in memory.
    pub resident_bytes: u64,
    /// How many feeds were put out of memory.
    pub evictions: u64,
    /// Of these, how many whose file had all of it already.
    pub clean_evictions: u64,
    /// How many were read back.
    pub loads: u64,
    /// Bytes written by evictions.
    pub written_bytes: u64,
    /// Bytes read by loads.
    pub read_bytes: u64,
    /// How long evictions took, all together.
    pub evicting: Duration,
    /// How long loads took.
    pub loading: Duration,
    /// Why the last eviction or load failed, if it did.
    pub last_error: Option<String>,
}

/// How many times the cost of a change a unit stays that has work, and one that has none.
const COSTS_BUSY: u32 = 10;
const COSTS_IDLE: u32 = 2;
/// A part of a turn after which a unit without batches counts as idle.
const TURN_PARTS: u32 = 20;
/// How often a waiting feed looks whether a turn is over.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// A feed that has not asked for this long waits no more.
const STALE: Duration = Duration::from_secs(3);
/// After a failure a unit is not tried again for so long.
const RETRY: Duration = Duration::from_secs(1);

struct Slot {
    state: Arc<FeedState>,
    /// What it takes in memory, or took.
    bytes: u64,
    is_moving: bool,
    pins: u32,
    holds: u32,
    /// It is never evicted.
    stays: bool,
    /// When its turn began, and when it was last used.
    since: Instant,
    used: Instant,
    /// What its last eviction and load took.
    evicting: Duration,
    loading: Duration,
    not_before: Option<Instant>,
}

impl Slot {
    fn is_resident(&self) -> bool {
        !self.state.storage.is_cold()
    }

    /// Whether evicting it would make room.
    fn may_go(&self) -> bool {
        let has_body = self.state.has_body() && !self.state.is_damaged();
        self.bytes > 0 && !self.stays && has_body && self.is_resident()
    }

    fn is_still(&self) -> bool {
        self.pins == 0 && self.holds == 0 && !self.is_moving
    }
}

#[derive(Default)]
struct Inner {
    slots: Vec<Slot>,
    /// Who waits, and when it last asked.
    queue: VecDeque<(usize, Instant)>,
    stats: HotStats,
}

impl Inner {
    fn resident_bytes(&self) -> u64 {
        let resident = self.slots.iter().filter(|slot| slot.is_resident() || slot.is_moving);
        resident.map(|slot| slot.bytes).sum()
    }

    fn leave_queue(&mut self, slot: usize) {
        self.queue.retain(|(waiting, _)| *waiting != slot);
    }

    fn waits(&self, slot: usize) -> bool {
        self.queue.iter().any(|(waiting, _)| *waiting == slot)
    }

    /// The unit that was not used for the longest time among those that may be evicted.
    fn victim(&self, slot: usize, may: impl Fn(usize, &Slot) -> bool) -> Option<usize> {
        let now = Instant::now();
        let others = self.slots.iter().enumerate().filter(|(number, other)| {
            let is_ready = other.not_before.is_none_or(|at| now >= at);
            *number != slot && other.may_go() && is_ready && other.is_still() && may(*number, other)
        });
        others.min_by_key(|(_, other)| other.used).map(|(number, _)| number)
    }
}

/// The next step of a feed that asks.
enum NextStep {
    Pin,
    Load,
    Evict(usize),
    Wait,
}

/// The lock again after a unit was moved, and how that went.
type MoveResult<'a> = (MutexGuard<'a, Inner>, Result<(), StoreError>);

/// See the file's header.
#[derive(Default)]
pub(crate) struct Residency {
    options: HotOptions,
    pub(crate) files: ColdFiles,
    staying: HashSet<String>,
    /// Turns count only then: at the start one thread does everything.
    is_serving: AtomicBool,
    inner: Mutex<Inner>,
    moved: Condvar,
}

impl Residency {
    /// `staying`: names of feeds that are never evicted.
    pub(crate) fn new(
        options: HotOptions,
        storage: Option<Arc<dyn Storage>>,
        staying: HashSet<String>,
    ) -> Residency {
        Residency { options, files: ColdFiles::new(storage), staying, ..Residency::default() }
    }

    pub(crate) fn has_budget(&self) -> bool {
        self.budget_bytes() > 0
    }

    /// A place for a feed.
    pub(crate) fn add(&self, state: &Arc<FeedState>) {
        let now = Instant::now();
        let stays = self.staying.contains(&state.name);
        let mut inner = sync::lock(&self.inner);
        assert_eq!(state.slot, inner.slots.len(), "feeds come one after the other");
        inner.slots.push(Slot {
            state: Arc::clone(state),
            bytes: 0,
            is_moving: false,
            pins: 0,
            holds: 0,
            stays,
            since: now,
            used: now,
            evicting: Duration::ZERO,
            loading: Duration::ZERO,
            not_before: None,
        });
    }

    /// From now on turns count.
    pub(crate) fn serve(&self) {
        self.is_serving.store(true, Ordering::Release);
    }

    pub(crate) fn stats(&self) -> HotStats {
        let inner = sync::lock(&self.inner);
        let budget_bytes = self.options.memory_budget_bytes;
        HotStats { budget_bytes, resident_bytes: inner.resident_bytes(), ..inner.stats.clone() }
    }

    /// Has the feed's places and tables in memory until the pin goes; `None` when others have them
    /// for longer than the caller's patience, who is to ask again soon.
    ///
    /// # Errors
    /// They cannot be read, or others cannot be written.
    pub(crate) fn enter(
        &self,
        state: &FeedState,
        patience: Duration,
    ) -> Result<Option<Pin<'_>>, String> {
        if let Some(fault) = state.damage() {
            return Err(fault);
        }
        let (slot, end) = (state.slot, Instant::now() + patience);
        let mut inner = sync::lock(&self.inner);
        loop {
            match self.next(&mut inner, slot) {
                NextStep::Pin => return Ok(Some(self.pin(&mut inner, slot))),
                NextStep::Load => {
                    let (back, result) = self.load(inner, slot);
                    inner = back;
                    inner.leave_queue(slot);
                    if let Err(error) = result {
                        let fault = EngineError::from(error.clone()).to_string();
                        // What cannot be read for another reason may be there at the next try.
                        if error.needs_repair() {
                            state.set_damage(&fault);
                        }
                        return Err(fault);
                    }
                    inner.slots[slot].since = Instant::now();
                    return Ok(Some(self.pin(&mut inner, slot)));
                }
                NextStep::Evict(victim) => {
                    let (back, result) = self.evict(inner, victim);
                    inner = back;
                    // A start goes on with more than the budget rather than not at all.
                    if let Err(error) = result
                        && self.is_serving.load(Ordering::Acquire)
                    {
                        inner.leave_queue(slot);
                        self.moved.notify_all();
                        return Err(format!("there is no room in memory for the feed: {error}"));
                    }
                }
                NextStep::Wait => {
                    let left = end.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Ok(None);
                    }
                    let waited = self.moved.wait_timeout(inner, left.min(LOOK_AGAIN));
                    inner = sync::unpoisoned(waited).0;
                }
            }
        }
    }

    fn pin(&self, inner: &mut Inner, slot: usize) -> Pin<'_> {
        inner.slots[slot].pins += 1;
        inner.slots[slot].used = Instant::now();
        Pin { residency: self, slot }
    }

    fn next(&self, inner: &mut Inner, slot: usize) -> NextStep {
        let now = Instant::now();
        inner.queue.retain(|(who, asked)| *who == slot || now.duration_since(*asked) < STALE);
        let (is_moving, is_resident) =
            (inner.slots[slot].is_moving, inner.slots[slot].is_resident());
        if is_moving {
            return NextStep::Wait;
        }
        match inner.queue.iter_mut().find(|(who, _)| *who == slot) {
            Some((_, asked)) => *asked = now,
            None if is_resident => {
                if inner.queue.is_empty() || !self.is_slice_over(&inner.slots[slot], now) {
                    return NextStep::Pin;
                }
                inner.queue.push_back((slot, now));
            }
            None => inner.queue.push_back((slot, now)),
        }
        if inner.queue.front().is_some_and(|(first, _)| *first != slot) {
            return NextStep::Wait;
        }
        if is_resident {
            inner.leave_queue(slot);
            inner.slots[slot].since = now;
            return NextStep::Pin;
        }
        if inner.slots[slot].holds > 0 {
            return NextStep::Wait;
        }
        let budget_bytes = self.budget_bytes();
        let wanted_bytes = inner.slots[slot].bytes;
        if budget_bytes == 0 || inner.resident_bytes() + wanted_bytes <= budget_bytes {
            return NextStep::Load;
        }
        let may = |number: usize, other: &Slot| {
            inner.waits(number) || self.is_slice_over(other, now) || self.is_idle(other, now)
        };
        if let Some(victim) = inner.victim(slot, may) {
            return NextStep::Evict(victim);
        }
        // What is alone, or beside feeds that stay, is let in whatever it takes.
        let could_go = |(number, other): (usize, &Slot)| number != slot && other.may_go();
        let is_serving = self.is_serving.load(Ordering::Acquire);
        match is_serving && inner.slots.iter().enumerate().any(could_go) {
            true => NextStep::Wait,
            false => NextStep::Load,
        }
    }

    /// The budget; 0 also where there is no disk to put anything on.
    fn budget_bytes(&self) -> u64 {
        if self.files.storage().is_some() { self.options.memory_budget_bytes } else { 0 }
    }

    fn slice_of(&self, slot: &Slot, costs: u32) -> Duration {
        let change = slot.evicting + slot.loading;
        if self.options.turn.is_zero() { Duration::ZERO } else { change * costs }
    }

    fn is_slice_over(&self, slot: &Slot, now: Instant) -> bool {
        let turn = self.options.turn.max(self.slice_of(slot, COSTS_BUSY));
        !self.is_serving.load(Ordering::Acquire) || now.duration_since(slot.since) >= turn
    }

    /// Whether it has had no batch for a while, and was here for long enough to be worth it.
    fn is_idle(&self, slot: &Slot, now: Instant) -> bool {
        now.duration_since(slot.used) >= self.options.turn / TURN_PARTS
            && now.duration_since(slot.since) >= self.slice_of(slot, COSTS_IDLE)
    }

    /// Moves a unit, into memory or out of it, without the lock; gives the result, which bytes and
    /// how long, to `note`, and tells those that wait.
    fn moving<'a>(
        &'a self,
        mut inner: MutexGuard<'a, Inner>,
        slot: usize,
        work: impl FnOnce(&Arc<FeedState>) -> Result<u64, StoreError>,
        note: impl FnOnce(&mut Slot, &mut HotStats, u64, Duration),
    ) -> MoveResult<'a> {
        inner.slots[slot].is_moving = true;
        let state = Arc::clone(&inner.slots[slot].state);
        drop(inner);
        let start = Instant::now();
        let result = work(&state);
        let elapsed = start.elapsed();
        let mut guard = sync::lock(&self.inner);
        let inner = &mut *guard;
        inner.slots[slot].is_moving = false;
        match &result {
            Ok(bytes) => {
                inner.slots[slot].bytes = state.stored_bytes();
                note(&mut inner.slots[slot], &mut inner.stats, *bytes, elapsed);
            }
            Err(error) => {
                inner.slots[slot].not_before = Some(Instant::now() + RETRY);
                inner.stats.last_error = Some(error.to_string());
            }
        }
        self.moved.notify_all();
        (guard, result.map(drop))
    }

    fn load<'a>(&'a self, inner: MutexGuard<'a, Inner>, slot: usize) -> MoveResult<'a> {
        self.moving(
            inner,
            slot,
            |state| state.load(),
            |slot, stats, read_bytes, elapsed| {
                slot.loading = elapsed;
                stats.loads += 1;
                stats.read_bytes += read_bytes;
                stats.loading += elapsed;
            },
        )
    }

    fn evict<'a>(&'a self, inner: MutexGuard<'a, Inner>, slot: usize) -> MoveResult<'a> {
        self.moving(
            inner,
            slot,
            |state| self.files.evict(state),
            |slot, stats, written_bytes, elapsed| {
                stats.evictions += 1;
                stats.clean_evictions += u64::from(written_bytes == 0);
                stats.written_bytes += written_bytes;
                stats.evicting += elapsed;
                if written_bytes > 0 {
                    slot.evicting = elapsed;
                }
            },
        )
    }

    /// Notes what a unit takes now, which is pinned or which nobody else knows yet, and evicts
    /// others if that is too much.
    pub(crate) fn finish(&self, slot: usize) {
        let mut inner = sync::lock(&self.inner);
        inner.slots[slot].bytes = inner.slots[slot].state.stored_bytes();
        let budget_bytes = self.budget_bytes();
        while budget_bytes > 0 && inner.resident_bytes() > budget_bytes {
            let Some(victim) = inner.victim(slot, |_, _| true) else { return };
            let (back, result) = self.evict(inner, victim);
            inner = back;
            // The reason is told by the statistics; the next batch tries again.
            if result.is_err() {
                return;
            }
        }
    }

    /// Evicts a feed that was not used for so long, if that is not zero; and loads one that is
    /// asked for when there is room without evicting another.
    ///
    /// # Errors
    /// The file cannot be written or read.
    pub(crate) fn maintain(
        &self,
        state: &FeedState,
        idle: Duration,
        is_asked_for: bool,
    ) -> Result<(), String> {
        if state.is_damaged() {
            return Ok(());
        }
        let (slot, now) = (state.slot, Instant::now());
        let mut inner = sync::lock(&self.inner);
        let its = &inner.slots[slot];
        if its.is_resident() {
            if is_asked_for {
                inner.slots[slot].used = now;
                return Ok(());
            }
            let is_over = !idle.is_zero() && now.duration_since(its.used) >= idle;
            let may = its.is_still() && its.may_go();
            let is_ready = its.not_before.is_none_or(|at| now >= at);
            if is_over && may && is_ready && self.files.storage().is_some() {
                return self.evict(inner, slot).1.map_err(|error| error.to_string());
            }
            return Ok(());
        }
        let budget_bytes = self.budget_bytes();
        let fits = budget_bytes == 0 || inner.resident_bytes() + its.bytes <= budget_bytes;
        let is_ready = its.not_before.is_none_or(|at| now >= at);
        if is_asked_for && fits && is_ready && its.is_still() && inner.queue.is_empty() {
            let (mut inner, result) = self.load(inner, slot);
            (inner.slots[slot].since, inner.slots[slot].used) = (now, now);
            return result.map_err(|error| error.to_string());
        }
        Ok(())
    }

    /// Keeps a unit where it is, in memory or not, until the hold goes; batches go on.
    pub(crate) fn hold(&self, state: &FeedState) -> Hold<'_> {
        let slot = state.slot;
        let mut inner = sync::lock(&self.inner);
        while inner.slots[slot].is_moving {
            inner = sync::unpoisoned(self.moved.wait(inner));
        }
        inner.slots[slot].holds += 1;
        Hold { residency: self, slot }
    }

    /// Removes the files that neither a snapshot nor a feed needs. No snapshot is being made.
    ///
    /// # Errors
    /// A snapshot cannot be read; nothing is removed then.
    pub(crate) fn sweep(&self) -> Result<(), StoreError> {
        self.files.sweep(&|| {
            sync::lock(&self.inner).slots.iter().map(|slot| Arc::clone(&slot.state)).collect()
        })
    }
}

/// Keeps a feed's places and tables in memory, and lets their owner change them.
pub(crate) struct Pin<'a> {
    residency: &'a Residency,
    slot: usize,
}

impl Pin<'_> {
    /// Notes what they take now.
    pub(crate) fn finish(&self) {
        self.residency.finish(self.slot);
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        let mut inner = sync::lock(&self.residency.inner);
        inner.slots[self.slot].pins -= 1;
        inner.slots[self.slot].used = Instant::now();
        self.residency.moved.notify_all();
    }
}

/// Keeps a unit where it is.
pub(crate) struct Hold<'a> {
    residency: &'a Residency,
    slot: usize,
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        sync::lock(&self.residency.inner).slots[self.slot].holds -= 1;
        self.residency.moved.notify_all();
    }
}
