//! The journal thread, and what it shares with the threads that append.
//!
//! ```text
//!   Shared.state    Mutex: Intake, flags.   Held for a copy at most, never during input or output.
//!   Shared.spares   Mutex: SpareMaker.      Held while space is allocated; taken before state.
//!   Shared.durable  Atomic: what may be acknowledged.
//!   Shared.synced   Atomic: what is on stable storage, whatever the policy.
//!   Shared.past_cache_from  Atomic: a hint, how large groups are written without the system's cache.
//!   work            Condvar: the journal thread sleeps here when there is nothing to write.
//!   progress        Condvar: callers sleep here, for durability or for room in memory.
//! ```
//!
//! The thread takes the group that was filled, writes and syncs it while the next one fills, then
//! publishes and wakes. Without work it sleeps; with `everysec` and unsynced bytes it sleeps until
//! the second is over. With a group delay it lets a young, small group wait. Wake-ups cost a
//! system call and are made only when somebody sleeps.
//!
//! With `everysec` and `off` nobody waits for the write, so the thread lets a group grow for a
//! moment (`GATHER_TIME`) or to a size (`GATHER_BYTES`): a write and two switches of threads for
//! every few entries cost as much processor time as the entries' own work
//! (`bench/results/journal`).
//!
//! With `everysec` and `off` an entry counts as durable when it is appended, so `durable` is
//! published under the state's mutex there; with `always` only this thread publishes.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::frame::Payload;
use super::full::FullDisk;
use super::intake::{Group, Intake};
use super::segments::Segments;
use super::spare::SpareMaker;
use super::writer::Writer;
use super::{JournalOptions, JournalStats, SyncPolicy};
use crate::error::StoreError;

/// The time between syncs with `everysec`.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// How long a group may grow before it is written, where nobody waits for it.
const GATHER_TIME: Duration = Duration::from_millis(2);

/// The size at which a group is written at once all the same.
const GATHER_BYTES: usize = 256 << 10;

/// How long `close` waits for reservations that other threads hold.
const CLOSING_GRACE: Duration = Duration::from_secs(1);

pub(crate) type Wake = Box<dyn Fn() + Send + Sync>;

/// See the file's header.
pub(crate) struct Shared {
    options: JournalOptions,
    durable: AtomicU64,
    synced: AtomicU64,
    pub(crate) segments: Segments,
    state: Mutex<State>,
    spares: Mutex<SpareMaker>,
    work: Condvar,
    progress: Condvar,
    wakers: Mutex<Vec<Wake>>,
    stats: Mutex<JournalStats>,
    /// See [`super::Journal::set_past_cache`].
    past_cache_from: AtomicUsize,
    full_disk: FullDisk,
}

struct State {
    intake: Intake,
    poisoned: Option<String>,
    /// The sequence that a caller waits for to be synced.
    sync_wanted: u64,
    /// When `close` was called.
    closing: Option<Instant>,
    /// The journal thread has ended: nothing more will be written.
    ended: bool,
    sleep: Sleep,
    callers_sleeping: usize,
}

/// The event that the journal thread sleeps for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sleep {
    /// It is awake.
    No,
    /// Anything to do.
    ForWork,
    /// A deadline, or a number of bytes.
    ForBytes(usize),
}

/// The next action of the journal thread.
enum Work {
    Write(Group),
    Sync,
    LookForRoom,
    Close,
}

/// Locks; a panic of another holder left nothing half done, since no step under our mutexes panics
/// after it began to change them.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(crate) fn new(
        options: JournalOptions,
        intake: Intake,
        spares: SpareMaker,
        segments: Segments,
    ) -> Shared {
        let durable = AtomicU64::new(intake.last_sequence());
        let synced = AtomicU64::new(intake.last_sequence());
        let state = State {
            intake,
            poisoned: None,
            sync_wanted: 0,
            closing: None,
            ended: false,
            sleep: Sleep::No,
            callers_sleeping: 0,
        };
        Shared {
            options,
            durable,
            synced,
            segments,
            state: Mutex::new(state),
            spares: Mutex::new(spares),
            work: Condvar::new(),
            progress: Condvar::new(),
            wakers: Mutex::new(Vec::new()),
            stats: Mutex::new(JournalStats::default()),
            past_cache_from: AtomicUsize::new(usize::MAX),
            full_disk: FullDisk::default(),
        }
    }

    pub(crate) fn set_past_cache(&self, from_bytes: Option<usize>) {
        self.past_cache_from.store(from_bytes.unwrap_or(usize::MAX), Ordering::Relaxed);
    }

    fn goes_past_cache(&self, group: &Group) -> bool {
        self.options.sync == SyncPolicy::Always
            && group.buffer.group().len() >= self.past_cache_from.load(Ordering::Relaxed)
    }

    pub(crate) fn durable_sequence(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    pub(crate) fn reserve(&self, charge_bytes: u64) -> Result<(), StoreError> {
        loop {
            let wanted = {
                let mut state = self.wait_for_room()?;
                match state.intake.admit(charge_bytes) {
                    Ok(()) => return Ok(()),
                    Err(wanted) => wanted,
                }
            };
            self.extend(wanted)?;
        }
    }

    /// Waits until little enough waits for the disk.
    fn wait_for_room(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        let mut state = lock(&self.state);
        loop {
            state.check_open()?;
            if !self.is_full(&state) {
                return Ok(state);
            }
            state = self.sleep_until_progress(state);
        }
    }

    fn sleep_until_progress<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.callers_sleeping += 1;
        let mut state = self.progress.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.callers_sleeping -= 1;
        state
    }

    /// Allocates a spare for this much, unless another thread just did.
    fn extend(&self, wanted: u64) -> Result<(), StoreError> {
        let mut spares = lock(&self.spares);
        if lock(&self.state).intake.has_room(wanted) {
            return Ok(());
        }
        self.install_needed(&mut spares, wanted)
    }

    /// Begins a new segment and waits until everything before it is on stable storage.
    pub(crate) fn roll(&self) -> Result<u64, StoreError> {
        let (mut state, first_sequence) = loop {
            let wanted = {
                let mut state = lock(&self.state);
                state.check_open()?;
                match state.intake.roll() {
                    Ok(first_sequence) => break (state, first_sequence),
                    Err(wanted) => wanted,
                }
            };
            self.extend_spare(wanted)?;
        };
        state.sync_wanted = state.sync_wanted.max(first_sequence - 1);
        self.wake_thread(state);
        self.wait_until(|| {
            self.segments.newest() >= first_sequence && self.is_synced(first_sequence - 1)
        })?;
        Ok(first_sequence)
    }

    /// Makes sure of a spare of this capacity.
    fn extend_spare(&self, wanted: u64) -> Result<(), StoreError> {
        let mut spares = lock(&self.spares);
        if lock(&self.state).intake.spare_capacity_bytes() < wanted {
            self.install_needed(&mut spares, wanted)?;
        }
        Ok(())
    }

    /// As [`Shared::install`], for somebody who needs it.
    fn install_needed(&self, spares: &mut SpareMaker, wanted: u64) -> Result<(), StoreError> {
        let Err(error) = self.install(spares, wanted) else { return Ok(()) };
        // What is too large for the room there is leaves room for others.
        let is_full =
            error.is_full() && !(spares.is_unusual(wanted) && self.install(spares, 0).is_ok());
        if is_full {
            self.full_disk.begin(error.to_string());
            // From now on the thread looks for room.
            self.wake_thread(lock(&self.state));
        }
        Err(error)
    }

    /// Why there is no room on the disk, while there is none: one atomic load where there is.
    pub(crate) fn full(&self) -> Option<String> {
        self.full_disk.reason()
    }

    fn look_for_room(&self) {
        let mut spares = lock(&self.spares);
        // Another refusal is no news.
        let _ = self.install(&mut spares, 0);
    }

    fn install(&self, spares: &mut SpareMaker, wanted: u64) -> Result<(), StoreError> {
        let spare = spares.make(wanted)?;
        self.full_disk.end();
        let smaller = lock(&self.state).intake.install_spare(spare);
        if let Some(smaller) = smaller {
            spares.discard(smaller);
        }
        Ok(())
    }

    /// Waits until everything appended so far is on stable storage, whatever the policy.
    pub(crate) fn sync(&self) -> Result<u64, StoreError> {
        let mut state = lock(&self.state);
        let sequence = state.intake.last_sequence();
        if !self.is_synced(sequence) {
            state.sync_wanted = state.sync_wanted.max(sequence);
            self.wake_thread(state);
            self.wait_until(|| self.is_synced(sequence))?;
        }
        Ok(sequence)
    }

    pub(crate) fn synced_sequence(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    fn is_synced(&self, sequence: u64) -> bool {
        self.synced.load(Ordering::Acquire) >= sequence
    }

    /// Sleeps until the journal thread has made something true.
    fn wait_until(&self, done: impl Fn() -> bool) -> Result<(), StoreError> {
        let mut state = lock(&self.state);
        loop {
            if done() {
                return Ok(());
            }
            state.check_alive()?;
            state = self.sleep_until_progress(state);
        }
    }

    pub(crate) fn append<'a>(
        &self,
        charge_bytes: u64,
        entries: impl ExactSizeIterator<Item = (u16, Payload<'a>)> + Clone,
    ) -> u64 {
        let mut state = lock(&self.state);
        let sequence = state.intake.append(charge_bytes, entries);
        let alive = state.poisoned.is_none() && !state.ended;
        if self.options.sync != SyncPolicy::Always && alive {
            self.durable.store(sequence, Ordering::Release);
        }
        match state.sleep {
            Sleep::No => {}
            Sleep::ForBytes(bytes) if state.intake.buffered_bytes() < bytes => {}
            Sleep::ForWork | Sleep::ForBytes(_) => self.wake_thread(state),
        }
        sequence
    }

    /// Whether callers have to wait until something is written.
    fn is_full(&self, state: &State) -> bool {
        state.intake.buffered_bytes() >= self.options.group_size_bytes_max.max(1)
    }

    pub(crate) fn release(&self, charge_bytes: u64) {
        let mut state = lock(&self.state);
        state.intake.release(charge_bytes);
        // The thread may be waiting for the last reservation before it ends.
        if state.closing.is_some() {
            self.wake_thread(state);
        }
    }

    fn wake_thread(&self, mut state: MutexGuard<'_, State>) {
        if std::mem::replace(&mut state.sleep, Sleep::No) != Sleep::No {
            drop(state);
            self.work.notify_one();
        }
    }

    pub(crate) fn wait_durable(&self, sequence: u64) -> Result<(), StoreError> {
        if self.durable_sequence() >= sequence {
            return Ok(());
        }
        self.wait_until(|| self.durable_sequence() >= sequence)
    }

    pub(crate) fn add_waker(&self, wake: Wake) {
        lock(&self.wakers).push(wake);
    }

    pub(crate) fn poisoned(&self) -> Option<String> {
        lock(&self.state).poisoned.clone()
    }

    pub(crate) fn stats(&self) -> JournalStats {
        let poisoned = self.poisoned();
        let segments = self.segments.count();
        let memory_bytes = lock(&self.state).intake.memory_bytes();
        JournalStats { poisoned, segments, memory_bytes, ..lock(&self.stats).clone() }
    }

    pub(crate) fn start_closing(&self) {
        let mut state = lock(&self.state);
        state.closing.get_or_insert_with(Instant::now);
        self.wake_callers(&state);
        self.wake_thread(state);
    }

    fn wake_callers(&self, state: &State) {
        if state.callers_sleeping > 0 {
            self.progress.notify_all();
        }
    }

    /// Wakes everybody who waits for what the journal thread just did.
    fn tell_progress(&self) {
        self.wake_callers(&lock(&self.state));
        for wake in lock(&self.wakers).iter() {
            wake();
        }
    }

    fn poison(&self, reason: &str) {
        let mut state = lock(&self.state);
        state.poisoned.get_or_insert_with(|| reason.to_owned());
        drop(state);
        self.tell_progress();
    }

    /// Sleeps until there is something to do. `sync_due` is when unsynced bytes must be synced,
    /// `room_due` when a full disk is asked
    /// for room, `written` the sequence up to which there is nothing to write.
    fn next_work(
        &self,
        sync_due: Option<Instant>,
        room_due: &mut Option<Instant>,
        written: u64,
    ) -> Work {
        let mut state = lock(&self.state);
        // When the group that is filled now is to be written at the latest.
        let mut gather_until: Option<Instant> = None;
        loop {
            let look_at = self.full_disk.look_at(room_due);
            if look_at.is_some_and(|at| at <= Instant::now()) {
                *room_due = None;
                return Work::LookForRoom;
            }
            let sync_is_wanted = state.sync_wanted <= written && !self.is_synced(state.sync_wanted);
            if sync_is_wanted || sync_due.is_some_and(|due| due <= Instant::now()) {
                return Work::Sync;
            }
            let gathers = state.intake.buffered_bytes() > 0 && self.gathers(&state, gather_until);
            if gathers {
                gather_until.get_or_insert_with(|| Instant::now() + self.gather_time());
            } else if let Some(group) = state.intake.take() {
                self.wake_callers(&state);
                return Work::Write(group);
            } else if state.may_end() {
                // From here on nothing that is appended counts as durable.
                state.ended = true;
                return Work::Close;
            }
            let grace_over = state.closing.map(|at| at + CLOSING_GRACE);
            let dues = [sync_due, grace_over, gather_until, look_at];
            let wake_at = dues.into_iter().flatten().min();
            state.sleep =
                if gathers { Sleep::ForBytes(self.gather_bytes()) } else { Sleep::ForWork };
            state = match wake_at {
                None => self.work.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(at) => {
                    let timeout = at.saturating_duration_since(Instant::now());
                    let result = self.work.wait_timeout(state, timeout);
                    result.unwrap_or_else(PoisonError::into_inner).0
                }
            };
            state.sleep = Sleep::No;
        }
    }

    /// Whether what waits may wait a little longer for more.
    fn gathers(&self, state: &State, until: Option<Instant>) -> bool {
        !self.gather_time().is_zero()
            && state.closing.is_none()
            && self.is_synced(state.sync_wanted)
            && state.intake.buffered_bytes() < self.gather_bytes()
            && until.is_none_or(|until| Instant::now() < until)
    }

    /// How long a group may wait: for as long as it was configured, and where nobody waits for it,
    /// a moment in any case.
    fn gather_time(&self) -> Duration {
        let delay = self.options.group_delay_max;
        if self.options.sync == SyncPolicy::Always { delay } else { delay.max(GATHER_TIME) }
    }

    /// The size at which it waits no more; never so much that callers wait for room while the
    /// thread waits for more.
    fn gather_bytes(&self) -> usize {
        let most = self.options.group_size_bytes_max.max(1);
        if self.options.sync == SyncPolicy::Always { most } else { most.min(GATHER_BYTES) }
    }

    /// Allocates the next segment while the current one still has room, so that no caller waits
    /// for it. A refusal is no error yet: the caller who needs the space will hear of it.
    fn extend_ahead(&self) {
        let low_bytes = self.options.segment_size_bytes / 2;
        if lock(&self.state).intake.wants_spare(low_bytes) {
            let mut spares = lock(&self.spares);
            let _ = self.install(&mut spares, 0);
        }
    }
}

impl State {
    fn check_alive(&self) -> Result<(), StoreError> {
        match &self.poisoned {
            Some(reason) => Err(StoreError::poisoned(reason)),
            None if self.ended => Err(StoreError::closed()),
            None => Ok(()),
        }
    }

    fn check_open(&self) -> Result<(), StoreError> {
        self.check_alive()?;
        if self.closing.is_some() { Err(StoreError::closed()) } else { Ok(()) }
    }

    /// Whether `close` was called and no reservation is worth waiting for.
    fn may_end(&self) -> bool {
        self.closing
            .is_some_and(|at| self.intake.reservations() == 0 || at.elapsed() >= CLOSING_GRACE)
    }
}

/// The journal thread: runs until `close` or an error.
pub(crate) fn run(shared: &Shared, writer: Writer) {
    let guard = EndGuard { shared };
    let mut worker = Worker { shared, writer, sync_due: None, room_due: None };
    let result = worker.run();
    if let Err(error) = result {
        shared.poison(&error.to_string());
    }
    guard.end();
}

/// Tells the callers when the thread ends, also by a panic: nobody may wait for ever.
struct EndGuard<'a> {
    shared: &'a Shared,
}

impl EndGuard<'_> {
    fn end(self) {
        lock(&self.shared.state).ended = true;
        self.shared.tell_progress();
        std::mem::forget(self);
    }
}

impl Drop for EndGuard<'_> {
    fn drop(&mut self) {
        // Only a panic comes here. The wakers are left alone: one of them may be its cause.
        let mut state = lock(&self.shared.state);
        state.poisoned.get_or_insert_with(|| "the journal thread ended by a panic".to_owned());
        state.ended = true;
        drop(state);
        self.shared.progress.notify_all();
    }
}

struct Worker<'a> {
    shared: &'a Shared,
    writer: Writer,
    /// When written bytes must be synced, with `everysec`.
    sync_due: Option<Instant>,
    /// When a full disk is asked for room again.
    room_due: Option<Instant>,
}

impl Worker<'_> {
    fn run(&mut self) -> Result<(), StoreError> {
        loop {
            let written = self.writer.written_sequence();
            match self.shared.next_work(self.sync_due, &mut self.room_due, written) {
                Work::Write(group) => self.write(group)?,
                Work::Sync => {
                    self.sync()?;
                    self.shared.tell_progress();
                }
                Work::LookForRoom => self.shared.look_for_room(),
                Work::Close => return self.close(),
            }
        }
    }

    fn write(&mut self, group: Group) -> Result<(), StoreError> {
        let frames = group.last_sequence + 1 - group.first_sequence;
        let begun = group.segment.is_some().then_some(group.first_sequence);
        let past_cache = self.shared.goes_past_cache(&group);
        let buffer = self.writer.write(group, past_cache)?;
        if let Some(first_sequence) = begun {
            self.shared.segments.push(first_sequence);
        }
        {
            let mut stats = lock(&self.shared.stats);
            stats.groups += 1;
            stats.frames += frames;
            stats.group_frames.note(frames);
            stats.bytes += buffer.group().len() as u64;
        }
        lock(&self.shared.state).intake.recycle(buffer.into_bytes());
        match self.shared.options.sync {
            SyncPolicy::Always => {
                self.sync()?;
                let durable = self.writer.durable_sequence();
                self.shared.durable.store(durable, Ordering::Release);
            }
            SyncPolicy::EverySecond => {
                self.sync_due.get_or_insert_with(|| Instant::now() + SYNC_INTERVAL);
            }
            SyncPolicy::Off => {}
        }
        self.publish_synced();
        self.shared.tell_progress();
        self.shared.extend_ahead();
        Ok(())
    }

    fn publish_synced(&self) {
        self.shared.synced.store(self.writer.durable_sequence(), Ordering::Release);
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.sync_due = None;
        let start = Instant::now();
        self.writer.sync()?;
        self.publish_synced();
        let nanoseconds = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut stats = lock(&self.shared.stats);
        stats.syncs += 1;
        stats.sync_micros.note(nanoseconds.div_ceil(1000));
        stats.sync_nanoseconds = stats.sync_nanoseconds.saturating_add(nanoseconds);
        stats.last_sync_nanoseconds = nanoseconds;
        stats.maximum_sync_nanoseconds = stats.maximum_sync_nanoseconds.max(nanoseconds);
        Ok(())
    }

    fn close(&mut self) -> Result<(), StoreError> {
        self.writer.close()?;
        let spare = lock(&self.shared.state).intake.remove_spare();
        if let Some(spare) = spare {
            lock(&self.shared.spares).discard(spare);
        }
        lock(&self.shared.spares).reusable().discard();
        Ok(())
    }
}
