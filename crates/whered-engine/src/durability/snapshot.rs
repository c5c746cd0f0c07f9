//! Making a snapshot of a running engine, and trimming the journal after it.
//!
//! For: the order of the steps, on which a restart rests. Not for: what is written (`save.rs`).
//!
//! ```text
//! 1 begin: everything up to S is in memory           gate held alone for a moment
//! 2 a new journal segment begins near S, so that the old ones can go later
//! 3 values are written
//! 4 end at E                                         gate held alone for a moment
//! 5 the journal is synced up to E                    whatever its policy; cold files are, too
//! 6 manifest; snapshots beyond the second and segments before the older one's S are removed
//! ```

use std::sync::Arc;

use whered_store::{Journal, SnapshotWriter, Snapshots as Files, Storage};

use super::SnapshotReport;
use super::save::{Saver, Sizes};
use crate::error::EngineError;
use crate::feeds::state::States;
use crate::generation::changes::Changes;
use crate::journal::log::Log;
use crate::keyspace::Keyspace;
use crate::keyspace::saving::Walk;
use crate::prefix_sets::PrefixSets;

/// How many snapshots are kept.
const KEPT: usize = 2;

/// What a snapshot is made of.
pub(crate) struct SnapshotParts<'a> {
    pub(crate) keyspace: &'a Keyspace,
    pub(crate) prefix_sets: &'a PrefixSets,
    pub(crate) changes: &'a dyn Fn() -> Changes,
    pub(crate) feeds: &'a States,
    pub(crate) log: &'a Log,
}

/// What has become of it.
pub(crate) struct SnapshotResult {
    pub(crate) report: SnapshotReport,
    /// Nothing was written since the last one, which is left as it is.
    pub(crate) is_new: bool,
}

/// Makes a snapshot and removes what it makes superfluous.
///
/// # Errors
/// The disk's, or those of `before_block`; the caller then abandons saving.
pub(crate) fn make(
    storage: &Arc<dyn Storage>,
    journal: &Journal,
    saved: &SnapshotParts<'_>,
    sizes: Sizes,
    before_block: &mut dyn FnMut(usize) -> Result<(), EngineError>,
) -> Result<SnapshotResult, EngineError> {
    let SnapshotParts { keyspace, prefix_sets, changes, feeds, log } = saved;
    let start_sequence = keyspace.begin_saving(|| log.last_sequence());
    let mut report = SnapshotReport {
        start_sequence,
        end_sequence: start_sequence,
        ..SnapshotReport::default()
    };
    let writer = match SnapshotWriter::create(Arc::clone(storage), start_sequence) {
        Ok(writer) => writer,
        Err(error) if error.is_existing() => {
            keyspace.abandon_saving();
            return Ok(SnapshotResult { report, is_new: false });
        }
        Err(error) => return Err(error.into()),
    };
    journal.roll()?;
    let mut saver = Saver::new(keyspace, writer, sizes, before_block);
    saver.save_settings(&changes(), prefix_sets, feeds)?;
    saver.save_feeds(feeds)?;
    let mut walk = Walk::default();
    report.end_sequence = loop {
        saver.save_keys(&mut walk)?;
        if let Some((end_sequence, rest)) = keyspace.end_saving(|| log.last_sequence()) {
            saver.save_rest(&rest)?;
            break end_sequence;
        }
    };
    // Some of what was saved is as late as that: without the journal up to there it is worthless.
    journal.sync()?;
    saver.sync_cold_files(&**storage)?;
    let (writer, keys) = saver.into_writer();
    let info = writer.finish(report.end_sequence)?;
    if let Some(unneeded) = Files::remove_old(&**storage, KEPT)? {
        journal.remove_before(unneeded)?;
    }
    feeds.residency.sweep()?;
    (report.keys, report.bytes) = (keys, info.data_size_bytes);
    Ok(SnapshotResult { report, is_new: true })
}
