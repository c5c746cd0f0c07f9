//! Making one batch of what waits, and keeping it.
//!
//! ```text
//! read, unpack, scan ─> places in place (undone if not kept), rows beside the tables     no lock that
//!   ─> points, one journal entry's bytes, room for it ─> quarantine lines                readers want
//!   ─> gate, collection, tables: points, rows, header, append                            one moment
//! later, when that entry is synced: the spool's segments that are done with go
//! ```
//! Beside a large batch, on other threads: what the batches before have left of the spool is
//! removed, and while it is kept the next one's uploads are read (`read.rs`).
//!
//! For: the order of the steps, on which exactly-once rests. Not for: rules (`consolidate.rs`).
//!
//! Invariants: what is applied to tables are the bytes that the journal gets; an upload that cannot
//! be read is rejected in the same entry; nothing counts when the journal has no room, and the next
//! step begins again at the same upload.
//! At the same time: the worker's lock is held for the whole step, the places' too; readers of
//! tables are kept waiting for the last part only.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{MutexGuard, RwLockReadGuard};
use std::time::{Duration, Instant};

use whered_store::Priority;

use super::budget::Pin;
use super::consolidate::{
    Day, PositionChanges, PositionStage, RowBuffers, RowChanges, RowStage, Target,
};
use super::entry::{BATCH_KIND, Effects, begin_batch, push_effects};
use super::pipeline::{self, Changed};
use super::places::{Approach, PlaceRule, Places};
use super::quarantine::Quarantine;
use super::read::{Batch, BatchReader};
use super::source::FeedInput;
use super::{Feed, StepError, StepReport, Stores};
use crate::clock;
use crate::error::WriteError;
use crate::journal::log::{EntryReservation, Ticket};
use crate::journal::operation::Operation;
use crate::sync::lock;
use crate::tables::rows::Store;
use crate::tables::schema::Field;

/// How long a step waits for its turn in memory before it looks whether it is to end.
const PATIENCE: Duration = Duration::from_millis(100);
/// Of less than this a batch is made before other threads had begun; tests have few bytes.
const PARALLEL_BYTES_MIN: u64 = if cfg!(test) { 1 << 10 } else { 512 << 10 };

/// What makes batches.
pub(super) struct Worker {
    pub(super) targets: Vec<Target>,
    needs_day: bool,
    pub(super) reading: BatchReader,
    quarantine: Quarantine,
    approaches: Vec<Approach>,
    buffers: RowBuffers,
    day: Day,
    /// Room for names of points.
    name: Vec<u8>,
}

impl Worker {
    pub(super) fn new(
        reading: BatchReader,
        quarantine: Quarantine,
        targets: Vec<Target>,
    ) -> Worker {
        let is_day = |field: &Field| *field == Field::Day;
        let needs_day = targets.iter().any(|target| {
            target.plan.key.iter().any(is_day) || target.plan.columns.iter().any(is_day)
        });
        let (approaches, buffers, day) = (Vec::new(), RowBuffers::default(), Day::default());
        let name = Vec::new();
        Worker { targets, needs_day, reading, quarantine, approaches, buffers, day, name }
    }

    /// Gives back all memory; what it has is found again.
    pub(super) fn release_memory(&mut self) {
        self.targets.iter_mut().for_each(Target::release_memory);
        self.reading.release_memory();
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let targets: usize = self.targets.iter().map(Target::memory_bytes).sum();
        targets + self.reading.memory_bytes()
    }
}

/// What a batch does to places, collection and tables.
struct Changes {
    positions: PositionChanges,
    table_changes: RowChanges,
}

impl Feed {
    /// Applies one batch of what is spooled, if there is anything; see `Engine::step_feed`.
    pub(crate) fn step(&self, stores: Stores<'_>) -> Result<StepReport, StepError> {
        if !self.has_work() {
            self.remove_done(self.applied());
            self.sync_batches();
            self.maintain();
            return Ok(StepReport::default());
        }
        self.gather();
        let is_parallel = self.is_parallel();
        if !is_parallel {
            self.remove_done(self.applied());
        }
        // What the batch says is done with must be on the disk before it, whatever the policy.
        if let Some(spool) = self.waiting.spool()
            && spool.synced_sequence() < spool.durable_sequence()
        {
            spool.sync().map_err(|error| StepError(error.to_string()))?;
        }
        let entered = self.states.residency.enter(&self.state, PATIENCE);
        if is_parallel && !matches!(entered, Ok(Some(_))) {
            // No batch comes that it could go beside, and there may be no room because of it.
            self.remove_done(self.applied());
        }
        let result = match entered {
            Ok(Some(pin)) => self.make_pinned(stores, &pin, is_parallel),
            // Others are in memory: the next step asks again.
            Ok(None) => return Ok(StepReport::default()),
            Err(error) => Err(StepError(error)),
        };
        *lock(&self.counters.last_error) = result.as_ref().err().map(ToString::to_string);
        result
    }

    /// Makes a batch of places and tables that are in memory.
    fn make_pinned(
        &self,
        stores: Stores<'_>,
        pin: &Pin<'_>,
        is_parallel: bool,
    ) -> Result<StepReport, StepError> {
        let mut worker = lock(&self.worker);
        // A hold may have come since.
        if !self.has_work() {
            return Ok(StepReport::default());
        }
        let result = self.make_and_keep(stores, &mut worker, is_parallel);
        self.worker_bytes.store(worker.memory_bytes() as u64, Ordering::Relaxed);
        drop(worker);
        pin.finish();
        result
    }

    /// Lets a small batch grow for a moment.
    fn gather(&self) {
        let delay = self.source.limits.batch_delay;
        // An upload whose time is not noted yet came at this moment.
        let now = clock::now_millis();
        let since = lock(&self.pushes).oldest_millis().unwrap_or(now);
        let waited = Duration::from_millis(now.saturating_sub(since));
        let end = Instant::now() + delay.saturating_sub(waited);
        // About a hundred bytes are an event.
        let enough_bytes = self.source.limits.batch_events_max as u64 * 100;
        while self.waiting.waiting().1 < enough_bytes {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || self.holds.load(Ordering::Acquire) > 0 {
                return;
            }
            if !self.wake.wait(left) {
                return;
            }
        }
    }

    /// Whether so much waits that a batch of it is worth threads.
    pub(super) fn is_parallel(&self) -> bool {
        self.has_processors
            && matches!(self.source.input, FeedInput::Records(_))
            && self.waiting.waiting().1 >= PARALLEL_BYTES_MIN
    }

    /// The last upload of the batches that were appended to the journal; only between two batches:
    /// the header tells of a batch a moment before that is appended.
    fn applied(&self) -> u64 {
        self.state.header().position
    }

    /// Tells the spool that batches up to the upload `applied` are synced, when that lets it remove
    /// a segment.
    fn remove_done(&self, applied: u64) {
        let Some(spool) = self.waiting.spool() else { return };
        if !spool.is_removable(applied) {
            return;
        }
        let Some(journal) = self.log.journal() else { return };
        // A backup goes on: another step will do it.
        let Ok(_removing) = self.removing.try_lock() else { return };
        let removed = journal.sync().and_then(|_| spool.done(applied));
        if let Err(error) = removed {
            *lock(&self.counters.last_error) = Some(error.to_string());
        }
    }

    /// While there is nothing to do: has the batches on the disk that sinks wait for, which a loose
    /// policy of the journal would leave off it for long.
    fn sync_batches(&self) {
        let has_links = !lock(&self.links).is_empty();
        let waits = has_links && self.durable_batch() < self.state.header().batch;
        if let Some(journal) = self.log.journal().filter(|_| waits)
            && let Err(error) = journal.sync()
        {
            *lock(&self.counters.last_error) = Some(error.to_string());
        }
    }

    fn make_and_keep(
        &self,
        stores: Stores<'_>,
        worker: &mut Worker,
        is_parallel: bool,
    ) -> Result<StepReport, StepError> {
        let (batch, position) = {
            let header = self.state.header();
            (header.batch + 1, header.position)
        };
        worker.reading.go_to(position, &self.waiting);
        self.state.storage.note_change();
        let mut places = self.state.places();
        places.ensure_near();
        places.begin(batch);
        let mut make = || self.make(stores, worker, &mut places, (batch, is_parallel));
        let (made, changes) = if is_parallel {
            // Of the batches before this one, whose end is `position`.
            let remove = || self.remove_done(position);
            pipeline::run_alongside(("feed-remove", None), remove, make)
        } else {
            make()
        };
        let kept = made.and_then(|mut made| {
            self.reject_shrunken(stores, &mut made);
            let kept = self.keep_and_read_ahead(stores, worker, &made, changes, is_parallel)?;
            Ok((made, kept))
        });
        match kept {
            Ok((made, (ticket, rows))) => {
                self.state.note_memory(&places);
                drop(places);
                worker.quarantine.keep();
                Ok(self.finish(&made, ticket, rows))
            }
            Err(error) => {
                places.undo();
                worker.targets.iter_mut().for_each(Target::forget);
                if let Err(error) = worker.quarantine.take_back(position) {
                    *lock(&self.counters.last_error) =
                        Some(format!("the quarantine file: {error}"));
                }
                worker.reading.forget();
                Err(error)
            }
        }
    }

    /// Rejects a list of prefixes that is empty or much smaller than what it would take the place
    /// of.
    fn reject_shrunken(&self, stores: Stores<'_>, made: &mut Batch) {
        let (Some(members), Some(target)) = (&made.members, &self.source.set) else { return };
        let (name, count) = (target.name.as_str(), members.len());
        let check = || stores.prefix_sets.check_shrinking(name, count, target.limit);
        if let Err(reason) = if target.replaces { check() } else { Ok(()) } {
            made.reject_members(&reason);
        }
    }

    /// Reads uploads and stages what they do.
    fn make(
        &self,
        stores: Stores<'_>,
        worker: &mut Worker,
        places: &mut Places,
        (batch, is_parallel): (u64, bool),
    ) -> (Result<Batch, StepError>, Changes) {
        let tables: Vec<RwLockReadGuard<'_, Store>> =
            self.tables.iter().map(|table| table.shared()).collect();
        let Worker { targets, needs_day, reading, approaches, buffers, day, name, .. } = worker;
        for (target, store) in targets.iter_mut().zip(&tables) {
            target.stage.begin(store);
        }
        let places = (places.rule() != PlaceRule::None).then_some(places);
        let collection = self.source.collection.as_deref().filter(|_| places.is_some());
        let points = collection.map(|key| stores.keyspace.change_batch(0, key.as_bytes()));
        let changed = Changed::default();
        let mut blocks = reading.lend_blocks();
        let (made, positions, table_changes) = pipeline::run(
            is_parallel.then_some((&mut blocks, &changed)),
            |hand_on| reading.read_batch(&self.source, &self.waiting, batch, &changed, hand_on),
            PositionStage { places, approaches, points, name, changed: &changed },
            RowStage {
                targets,
                stores: &tables,
                buffers,
                day,
                needs_day: *needs_day,
                changed: &changed,
            },
        );
        reading.take_blocks_back(blocks);
        (made, Changes { positions, table_changes })
    }

    /// Keeps a batch while the next one's uploads are read.
    fn keep_and_read_ahead(
        &self,
        stores: Stores<'_>,
        worker: &mut Worker,
        made: &Batch,
        changes: Changes,
        is_parallel: bool,
    ) -> Result<(Ticket, u64), StepError> {
        let Worker { reading, quarantine, .. } = worker;
        if !is_parallel {
            reading.release_blocks();
            return self.keep(stores, quarantine, made, changes);
        }
        let is_kept = AtomicBool::new(false);
        let read_ahead = || reading.read_ahead(&self.source, &self.waiting, &is_kept);
        // As the steps do, it makes way for others, who wait for the acknowledgement of their
        // uploads.
        pipeline::run_alongside(("feed-ahead", Some(Priority::Behind)), read_ahead, || {
            let kept = self.keep(stores, quarantine, made, changes);
            is_kept.store(true, Ordering::Relaxed);
            kept
        })
    }

    /// Makes the journal's entry, and applies it while that is appended.
    fn keep(
        &self,
        stores: Stores<'_>,
        quarantine: &mut Quarantine,
        made: &Batch,
        changes: Changes,
    ) -> Result<(Ticket, u64), StepError> {
        let refused = |error: WriteError| StepError(error.to_string());
        let (entry, tables_at) = self.entry(made, &changes);
        let Changes {
            positions: PositionChanges { points, .. },
            table_changes: RowChanges { rows, .. },
        } = changes;
        if let Err(error) = quarantine.write(&made.refused) {
            *lock(&self.counters.last_error) = Some(format!("the quarantine file: {error}"));
        }
        let apply = |room: EntryReservation<'_>| {
            self.apply(made, &entry[tables_at..]);
            room.append_encoded(BATCH_KIND, &entry)
        };
        let points = self.source.collection.as_ref().zip(points).filter(|_| made.records > 0);
        let ticket = match (points, &made.members, &self.source.set) {
            (_, Some(members), Some(target)) => {
                let room = self.log.reserve(entry.len()).map_err(refused)?;
                stores.keyspace.with_gate(|| {
                    stores
                        .prefix_sets
                        .load_with(&target.name, members, target.replaces, || apply(room))
                })
            }
            (Some((key, mut points)), ..) => {
                let (key, length) = (key.as_bytes(), entry.len());
                let applied = stores.keyspace.apply_batch(0, key, &mut points, length, apply);
                applied.map_err(refused)?
            }
            _ => {
                let room = self.log.reserve(entry.len()).map_err(refused)?;
                stores.keyspace.with_gate(|| apply(room))
            }
        };
        self.counters.journal_bytes.fetch_add(entry.len() as u64, Ordering::Relaxed);
        Ok((ticket, rows))
    }

    /// The bytes of the journal's entry, and where its tables begin.
    fn entry(&self, made: &Batch, changes: &Changes) -> (Vec<u8>, usize) {
        let Changes { positions, table_changes } = changes;
        let mut entry = begin_batch(self.name(), &made.head);
        let has_places = !positions.changes.is_empty() && made.records > 0;
        let collection = self.source.collection.as_deref().filter(|_| has_places);
        let operation = made.members.as_ref().zip(self.source.set.as_ref());
        let has_operation = operation.is_some();
        push_effects(&mut entry, &Effects { collection, has_places, has_operation });
        entry.reserve(positions.changes.len() + table_changes.changes.len());
        if has_places {
            entry.extend_from_slice(&positions.changes);
        }
        let tables_at = entry.len();
        entry.extend_from_slice(&table_changes.changes);
        if let Some((members, target)) = operation {
            let members = Cow::Borrowed(members);
            let load =
                Operation::LoadMembers { set: &target.name, replaces: target.replaces, members };
            entry.extend_from_slice(&load.kind().to_le_bytes());
            entry.extend_from_slice(&load.encode());
        }
        (entry, tables_at)
    }

    /// Applies the entry's changes of tables, and its head. The caller holds what keeps others out.
    fn apply(&self, made: &Batch, changes: &[u8]) {
        let tables = self.state.tables();
        self.state
            .apply_tables(&tables, made.head.batch, &mut &*changes)
            .expect("it was just made");
        let mut header = self.state.header();
        header.take(made.head.clone()).expect("its number is the next one");
        let remembered = self.source.limits.remember_keys.as_millis() as u64;
        header.forget_keys(clock::now_millis().saturating_sub(remembered));
    }

    /// Counts a batch that was kept.
    fn finish(&self, made: &Batch, ticket: Ticket, rows: u64) -> StepReport {
        let Batch { head, records, rejected, rejected_uploads, .. } = made;
        let position = head.position;
        lock(&self.pushes).finish(position);
        self.waiting.finish(position);
        self.note_batch(head.batch, ticket);
        let add = |counter: &std::sync::atomic::AtomicU64, more: u64| {
            counter.fetch_add(more, Ordering::Relaxed);
        };
        let counters = &self.counters;
        add(&counters.records, *records);
        counters.record_rate.note(*records);
        add(&counters.rejected_records, *rejected);
        add(&counters.rejected_uploads, *rejected_uploads);
        add(&counters.batches, 1);
        StepReport {
            batch: head.batch,
            uploads: head.uploads.len() as u64,
            records: *records,
            rejected_records: *rejected,
            rows,
        }
    }

    /// The worker's lock, for what is a batch without uploads.
    pub(super) fn worker(&self) -> MutexGuard<'_, Worker> {
        lock(&self.worker)
    }
}
