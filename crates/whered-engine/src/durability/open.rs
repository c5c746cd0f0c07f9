//! Opening a data directory: the newest snapshot, the journal after it, and a word on both.
//!
//! For: what is found at a start, and what is refused. Not for: files (`whered-store`), blocks
//! (`load.rs`), entries (`replay.rs`).
//!
//! Invariants: when the newest snapshot, or the journal that it needs, is damaged, nothing is
//! touched and the error says which file it is; an older snapshot is never taken in silence.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use whered_store::{
    Found, Journal, JournalOptions, RecoveryReport, SnapshotInfo, SnapshotReader, Snapshots,
    Storage, Wanted,
};

use super::replay::Replay;
use super::{load, saved_feeds};
use crate::error::EngineError;
use crate::feeds::state::States;
use crate::feeds::{BATCH_KIND, DEFINE_KIND};
use crate::generation::changes::Changes;
use crate::journal::operation::Operation;
use crate::keyspace::Keyspace;
use crate::prefix_sets::{PrefixSets, Restoring};

/// How far a start is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartProgress {
    /// Reading the snapshot: bytes so far, and of how many.
    Snapshot {
        /// Read so far.
        bytes: u64,
        /// To be read.
        total_bytes: u64,
    },
    /// Replaying the journal: entries so far.
    Journal {
        /// Replayed so far.
        entries: u64,
    },
}

/// Called often, from several threads, during a start.
pub type ShowProgress = Box<dyn Fn(StartProgress) + Send + Sync>;

/// How many entries are replayed between two words on the progress.
const ENTRIES_PER_WORD: u64 = 1 << 16;

/// What a start has loaded from a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Everything up to this sequence is in it.
    pub start_sequence: u64,
    /// How large it is.
    pub bytes: u64,
    /// How long reading took.
    pub elapsed: Duration,
}

/// What opening found.
#[derive(Debug, Default)]
pub struct OpenReport {
    /// The snapshot that was loaded, if there is one.
    pub snapshot: Option<LoadReport>,
    /// What recovery read from the journal; `None` without a data directory.
    pub recovery: Option<RecoveryReport>,
    /// How long that took.
    pub replay_elapsed: Duration,
}

impl fmt::Display for OpenReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(recovery) = &self.recovery else {
            return f.write_str("no data directory: nothing is kept");
        };
        if let Some(LoadReport { start_sequence, bytes, elapsed }) = &self.snapshot {
            let seconds = elapsed.as_secs_f64();
            write!(
                f,
                "loaded the snapshot at entry {start_sequence}, {bytes} bytes, in {seconds:.2} s; "
            )?;
        }
        let RecoveryReport { entries, segments, bytes, torn_tail, .. } = recovery;
        let seconds = self.replay_elapsed.as_secs_f64();
        write!(
            f,
            "replayed {entries} journal entries, {bytes} bytes in {segments} segments, in {seconds:.2} s"
        )?;
        match torn_tail {
            Some(torn) => write!(
                f,
                "; cut {} unacknowledged bytes of a torn tail in {} at byte {}",
                torn.cut_bytes, torn.file, torn.offset_bytes
            ),
            None => Ok(()),
        }
    }
}

/// The parts of the engine that are read back.
pub(crate) struct Parts<'a> {
    pub(crate) keyspace: &'a Keyspace,
    pub(crate) prefix_sets: &'a PrefixSets,
    pub(crate) changes: &'a mut Changes,
    pub(crate) feeds: &'a States,
}

/// Reads everything back.
///
/// # Errors
/// The newest snapshot or the journal is damaged, foreign or newer.
pub(crate) fn open(
    storage: &Arc<dyn Storage>,
    options: JournalOptions,
    parts: Parts<'_>,
    show: &ShowProgress,
) -> Result<(Journal, OpenReport), EngineError> {
    let Parts { keyspace, prefix_sets, changes, feeds } = parts;
    let newest = newest(&**storage)?;
    let mut wanted = Wanted::all();
    let mut snapshot = None;
    if let Some(info) = &newest {
        wanted = info.wanted();
        keyspace.begin_replaying_early();
        let start = Instant::now();
        let reader = SnapshotReader::open(&**storage, info)?;
        let loaded = load::load(&reader, keyspace, &|bytes, total_bytes| {
            show(StartProgress::Snapshot { bytes, total_bytes });
        })?;
        let mut restoring = Restoring::default();
        for (kind, payload) in &loaded.settings {
            if *kind == DEFINE_KIND {
                feeds.define(payload).map_err(EngineError::new)?;
                continue;
            }
            let operation = Operation::decode(*kind, payload).map_err(EngineError::new)?;
            let applied = prefix_sets.restore(&mut restoring, &operation)
                || keyspace.replay_position(&operation)
                || changes.record(&operation).map_err(EngineError::new)?;
            if !applied {
                return Err(EngineError::new(format!(
                    "the snapshot at entry {} has an operation of kind {kind} among its settings",
                    info.start_sequence
                )));
            }
        }
        prefix_sets.finish_restoring(&mut restoring);
        let mut words = Vec::new();
        for &index in &loaded.feeds {
            let bytes = reader.read_block(index, &mut words)?;
            saved_feeds::take(feeds, reader.blocks()[index].kind, bytes)?;
        }
        let (start_sequence, bytes) = (info.start_sequence, info.data_size_bytes);
        let elapsed = start.elapsed();
        snapshot = Some(LoadReport { start_sequence, bytes, elapsed });
    }
    let start = Instant::now();
    let early_until = newest.as_ref().map(|info| info.end_sequence);
    let (journal, recovery) = std::thread::scope(|scope| {
        let mut replay = Replay::new(keyspace, prefix_sets, changes, feeds, early_until, scope);
        let mut entries = 0;
        let mut apply = |entry: whered_store::Entry<'_>| {
            entries += 1;
            if entries % ENTRIES_PER_WORD == 0 {
                show(StartProgress::Journal { entries });
            }
            replay.apply(entry)
        };
        let opened = Journal::open(Arc::clone(storage), options, wanted, &mut apply);
        let opened = opened?;
        replay.finish();
        Ok::<_, EngineError>(opened)
    })?;
    keyspace.empty_unfinished();
    let replay_elapsed = start.elapsed();
    let report = OpenReport { snapshot, recovery: Some(recovery), replay_elapsed };
    Ok((journal, report))
}

/// Reads what [`open`] would read, and changes nothing.
///
/// # Errors
/// As [`open`], but for what contradicts itself only when it is applied.
pub(crate) fn examine(storage: &dyn Storage) -> Result<(), EngineError> {
    let newest = newest_of(&Snapshots::find(storage)?)?;
    let wanted = newest.as_ref().map_or_else(Wanted::all, SnapshotInfo::wanted);
    if let Some(info) = &newest {
        SnapshotReader::open(storage, info)?;
    }
    let mut decode = |entry: whered_store::Entry<'_>| match entry.kind {
        DEFINE_KIND | BATCH_KIND => Ok(()),
        kind => Operation::decode(kind, entry.payload).map(drop),
    };
    Ok(Journal::examine(storage, wanted, &mut decode)?)
}

/// The newest snapshot, which must be good.
fn newest(storage: &dyn Storage) -> Result<Option<SnapshotInfo>, EngineError> {
    let found = Snapshots::find(storage)?;
    let newest = newest_of(&found)?;
    Snapshots::remove_leftovers(storage, &found)?;
    Ok(newest)
}

fn newest_of(found: &Found) -> Result<Option<SnapshotInfo>, EngineError> {
    let newest_good = found.complete.first().map_or(0, |info| info.start_sequence);
    if let Some(bad) = found.bad.iter().find(|bad| bad.start_sequence >= newest_good) {
        return Err(bad.error.clone().into());
    }
    Ok(found.complete.first().cloned())
}
