//! The journal without its thread: opening, and a single-threaded journal of the same pieces.
//!
//! ```text
//!   Parts = Intake (memory) + Writer (disk) + SpareMaker (space) + Segments (names)
//!   Journal     = Mutex<Intake>, Mutex<SpareMaker>, and a thread that owns the Writer
//!   JournalCore = all in one hand
//! ```
//!
//! [`JournalCore`] is for simulations, where every step must come from a seed, and for programs
//! that have one thread. Not for servers. A write costs what [`Journal`](super::Journal) pays, the
//! sync is the caller's own wait.

use std::sync::Arc;

use super::JournalOptions;
use super::frame::PAYLOAD_SIZE_BYTES_MAX;
use super::intake::{Intake, charge_bytes};
use super::load::refuse_incomplete;
use super::recovery::{
    RecoveredJournal, RecoveryReport, Replay, Unwitnessed, Wanted, clear, recover,
};
use super::segment::{SEGMENT_SIZE_BYTES_MAX, SEGMENT_SIZE_BYTES_MIN};
use super::segments::Segments;
use super::spare::SpareMaker;
use super::writer::{OpenSegment, Writer};
use crate::error::StoreError;
use crate::storage::Storage;

/// The parts of both forms of the journal.
pub(crate) struct Parts {
    pub(crate) intake: Intake,
    pub(crate) writer: Writer,
    pub(crate) spares: SpareMaker,
    pub(crate) segments: Segments,
}

impl Parts {
    /// Reads what is there, cuts a torn tail, and makes everything that was replayed durable.
    pub(crate) fn open(
        storage: Arc<dyn Storage>,
        options: &JournalOptions,
        wanted: Wanted,
        replay: Replay<'_>,
    ) -> Result<(Parts, RecoveryReport), StoreError> {
        let segment_size_bytes =
            options.segment_size_bytes.clamp(SEGMENT_SIZE_BYTES_MIN, SEGMENT_SIZE_BYTES_MAX);
        let mut spares =
            SpareMaker::new(Arc::clone(&storage), segment_size_bytes, options.full_retry_interval);
        refuse_incomplete(&*storage)?;
        let RecoveredJournal { report, last, mut firsts, leftovers } =
            recover(&*storage, wanted, replay)?;
        remove_leftovers(&*storage, &leftovers)?;
        let segment = match last {
            Some((segment, unwitnessed)) => {
                let next_size_bytes = segment.header.size_bytes.saturating_mul(2);
                spares.grow_from(next_size_bytes.max(options.first_segment_size_bytes));
                settle(&*storage, &segment, &unwitnessed)?;
                segment
            }
            None => {
                firsts.push(1);
                spares.grow_from(options.first_segment_size_bytes);
                OpenSegment::begin(&*storage, spares.make(0)?, 1)?
            }
        };
        let first_sequence = segment.header.first_sequence;
        let intake = Intake::new(
            report.last_sequence + 1,
            first_sequence,
            segment.position_bytes,
            segment.free_bytes(),
        );
        let reusable = Arc::clone(spares.reusable());
        let segments = Segments::new(Arc::clone(&storage), reusable, firsts);
        let writer = Writer::new(storage, segment, report.last_sequence, options.sync);
        Ok((Parts { intake, writer, spares, segments }, report))
    }
}

/// Removes spares that a crash left behind, for certain: their names are used again, and a name
/// must not come to mean the old file after the next crash.
fn remove_leftovers(storage: &dyn Storage, names: &[String]) -> Result<(), StoreError> {
    for name in names {
        storage.remove(name).map_err(|error| {
            StoreError::io(&format!("cannot remove {}", storage.describe(name)), &error)
        })?;
    }
    if names.is_empty() {
        return Ok(());
    }
    storage
        .sync_directory()
        .map_err(|error| StoreError::io(&format!("cannot sync {}", storage.describe("")), &error))
}

/// Makes the found end certain. The process before may have died between a write and its sync: its
/// bytes were read from memory and have to reach the disk before anything rests on them.
fn settle(
    storage: &dyn Storage,
    segment: &OpenSegment,
    unwitnessed: &Unwitnessed,
) -> Result<(), StoreError> {
    let settle = || {
        segment.file.write_at(unwitnessed.offset_bytes, &unwitnessed.bytes)?;
        clear(segment, unwitnessed.behind_bytes)?;
        segment.file.sync_all()?;
        storage.sync_directory()
    };
    settle().map_err(|error| {
        let path = storage.describe(&segment.name);
        StoreError::io(&format!("cannot write the end of {path}"), &error)
    })
}

/// The cost of a reservation of this many frames and payload bytes, if it is allowed at all.
pub(crate) fn charge(frames: usize, payload_size_bytes: usize) -> Result<u64, StoreError> {
    if payload_size_bytes > PAYLOAD_SIZE_BYTES_MAX || frames > PAYLOAD_SIZE_BYTES_MAX / 32 {
        return Err(StoreError::too_large(payload_size_bytes, PAYLOAD_SIZE_BYTES_MAX));
    }
    Ok(charge_bytes(frames, payload_size_bytes))
}

/// A journal that does everything in the caller's thread.
///
/// ```
/// use std::sync::Arc;
/// use whered_store::{JournalCore, JournalOptions, SimulatedDisk, Wanted};
///
/// let disk = SimulatedDisk::new(1);
/// let options = JournalOptions::default();
/// let (mut journal, _) =
///     JournalCore::open(Arc::new(disk), &options, Wanted::all(), &mut |_| Ok(()))?;
/// assert_eq!(journal.append(3, b"payload")?, 1);
/// assert_eq!(journal.durable_sequence(), 0);
/// journal.write()?;
/// journal.sync()?;
/// assert_eq!(journal.durable_sequence(), 1);
/// # Ok::<(), whered_store::StoreError>(())
/// ```
pub struct JournalCore {
    parts: Parts,
    failed: Option<StoreError>,
}

impl JournalCore {
    /// Opens the journal and replays the wanted entries in order.
    ///
    /// # Errors
    ///
    /// As [`Journal::open`](super::Journal::open).
    pub fn open(
        storage: Arc<dyn Storage>,
        options: &JournalOptions,
        wanted: Wanted,
        replay: Replay<'_>,
    ) -> Result<(JournalCore, RecoveryReport), StoreError> {
        let (parts, report) = Parts::open(storage, options, wanted, replay)?;
        Ok((JournalCore { parts, failed: None }, report))
    }

    /// Appends an entry in memory, after its space on disk is certain; returns its sequence.
    ///
    /// # Errors
    ///
    /// Too large, no space, or an earlier write failed. The entry is then not there.
    ///
    /// # Panics
    ///
    /// When the kind is above [`KIND_MAX`](super::KIND_MAX).
    pub fn append(&mut self, kind: u16, payload: &[u8]) -> Result<u64, StoreError> {
        if let Some(error) = &self.failed {
            return Err(StoreError::poisoned(&error.to_string()));
        }
        let charge = charge(1, payload.len())?;
        while let Err(wanted) = self.parts.intake.admit(charge) {
            self.extend(wanted)?;
        }
        Ok(self.parts.intake.append(charge, std::iter::once((kind, &[payload][..]))))
    }

    /// Writes all appended entries as one group (two where a segment ends), without a sync.
    ///
    /// # Errors
    ///
    /// Whatever the storage reports; nothing more is written after that.
    pub fn write(&mut self) -> Result<(), StoreError> {
        while let Some(group) = self.parts.intake.take() {
            let begun = group.segment.is_some().then_some(group.first_sequence);
            let result = self.guarded(|writer| writer.write(group, false))?;
            self.parts.intake.recycle(result.into_bytes());
            if let Some(first_sequence) = begun {
                self.parts.segments.push(first_sequence);
            }
        }
        Ok(())
    }

    /// As [`Journal::roll`](super::Journal::roll).
    ///
    /// # Errors
    ///
    /// No space, or whatever the storage reports.
    pub fn roll(&mut self) -> Result<u64, StoreError> {
        let first_sequence = loop {
            match self.parts.intake.roll() {
                Ok(first_sequence) => break first_sequence,
                Err(wanted) => self.extend(wanted)?,
            }
        };
        self.write()?;
        Ok(first_sequence)
    }

    /// As [`Journal::remove_before`](super::Journal::remove_before).
    ///
    /// # Errors
    ///
    /// Whatever the storage reports.
    pub fn remove_before(&mut self, sequence: u64) -> Result<usize, StoreError> {
        self.parts.segments.remove_before(sequence)
    }

    fn extend(&mut self, wanted: u64) -> Result<(), StoreError> {
        let spare = self.parts.spares.make(wanted)?;
        if let Some(smaller) = self.parts.intake.install_spare(spare) {
            self.parts.spares.discard(smaller);
        }
        Ok(())
    }

    /// Makes all written entries durable.
    ///
    /// # Errors
    ///
    /// Whatever the storage reports; nothing more is written after that.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.guarded(Writer::sync)
    }

    /// The highest sequence on stable storage.
    #[must_use]
    pub fn durable_sequence(&self) -> u64 {
        self.parts.writer.durable_sequence()
    }

    /// Writes and syncs everything, and the mark of a clean end.
    ///
    /// # Errors
    ///
    /// Whatever the storage reports.
    pub fn close(mut self) -> Result<(), StoreError> {
        self.write()?;
        self.guarded(Writer::close)?;
        if let Some(spare) = self.parts.intake.remove_spare() {
            self.parts.spares.discard(spare);
        }
        self.parts.spares.reusable().discard();
        Ok(())
    }

    fn guarded<T>(
        &mut self,
        work: impl FnOnce(&mut Writer) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if let Some(error) = &self.failed {
            return Err(StoreError::poisoned(&error.to_string()));
        }
        let result = work(&mut self.parts.writer);
        self.failed = result.as_ref().err().cloned();
        result
    }
}
