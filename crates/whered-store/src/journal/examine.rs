//! What each segment still has, good or damaged: the journal as a repair sees it.
//!
//! Not for: opening (`recovery.rs` ends at the first damage), or changing anything. The rules of
//! what is damage are the same. Cost: reads every segment once, one at a time.

use super::frame::highest_sequence;
use super::load::{list, load_any_size};
use super::recovery::RecoveryReport;
use crate::error::StoreError;
use crate::storage::Storage;

/// One segment's file.
pub(crate) struct ExaminedSegment {
    /// The number in its name.
    pub(crate) first_sequence: u64,
    /// The last entry that is good; the one before the first when there is none.
    pub(crate) last_sequence: u64,
    /// The last entry that anything in the file bears witness of, also behind a fault.
    pub(crate) known_sequence: u64,
    /// Where the good frames end; `None` when not even the header can be believed.
    pub(crate) end_bytes: Option<u64>,
    /// Whether the entries go up to the next segment's first, or to a clean end or a torn tail.
    pub(crate) is_complete: bool,
    /// The fault of the file. A torn tail is none.
    pub(crate) fault: Option<StoreError>,
}

/// Looks at all segments, the oldest first.
///
/// Fails only for files that must not be touched: of a newer version, or with odd names.
pub(crate) fn examine(storage: &dyn Storage) -> Result<Vec<ExaminedSegment>, StoreError> {
    let (firsts, _) = list(storage)?;
    let mut buffer = Vec::new();
    let mut segments = Vec::new();
    for (index, &first_sequence) in firsts.iter().enumerate() {
        let next_first = firsts.get(index + 1).copied();
        let last_sequence = first_sequence - 1;
        match load_any_size(storage, first_sequence, false, std::mem::take(&mut buffer)) {
            Err(error) if error.is_newer() => return Err(error),
            Err(error) => segments.push(ExaminedSegment {
                first_sequence,
                last_sequence,
                known_sequence: last_sequence,
                end_bytes: None,
                is_complete: false,
                fault: Some(error),
            }),
            Ok((loaded, wrong_size)) => {
                let mut report = RecoveryReport { last_sequence, ..RecoveryReport::default() };
                let end = loaded.scan(&mut report, next_first, 0, &mut |_| Ok(()))?.end;
                let fault = match next_first {
                    Some(next_first) => loaded.check_complete(end, &report, next_first).err(),
                    None => loaded.judge_tail(end, &report).err(),
                };
                let last_sequence = report.last_sequence;
                let known_sequence = match &fault {
                    Some(_) => {
                        let behind = loaded.bytes.get(end..).unwrap_or_default();
                        highest_sequence(behind, loaded.seed, last_sequence)
                    }
                    None => last_sequence,
                };
                segments.push(ExaminedSegment {
                    first_sequence,
                    last_sequence,
                    known_sequence,
                    end_bytes: Some(end as u64),
                    // A file that was cut shows no damage of frames where it ends.
                    is_complete: fault.is_none() && (next_first.is_some() || wrong_size.is_none()),
                    fault: fault.or(wrong_size),
                });
                buffer = loaded.bytes;
            }
        }
    }
    Ok(segments)
}

/// How far the journal goes without a fault from the entry after `after` on; `after` itself when
/// that entry cannot be read. The range is that of the segments with those entries.
pub(crate) fn reach(segments: &[ExaminedSegment], after: u64) -> (u64, std::ops::Range<usize>) {
    let wanted = after.saturating_add(1);
    let start = segments.partition_point(|segment| segment.first_sequence <= wanted);
    let Some(start) = start.checked_sub(1) else {
        return (after, 0..0);
    };
    // An end before `after` leaves a gap, whether it is a fault or files that are gone.
    if segments[start].end_bytes.is_none() || segments[start].last_sequence < after {
        return (after, start..start);
    }
    let mut last = start;
    while segments[last].is_complete
        && segments.get(last + 1).is_some_and(|next| next.end_bytes.is_some())
    {
        last += 1;
    }
    (segments[last].last_sequence, start..last + 1)
}
