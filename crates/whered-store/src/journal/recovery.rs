//! What a new process finds on the disk: reads all segments, hands out the entries, and decides
//! whether a bad place is the trace of a crash (cut it) or damage (refuse).
//!
//! # The rule
//!
//! Let `E` be the sequence that should come at the first bad place of the last segment.
//!
//! - A *mark* anywhere later in that segment that says "durable up to `D`" with `D >= E`: entry `E`
//!   was once on stable storage and is not any more. That is **damage**: an error, nothing is
//!   touched.
//! - No such mark: nothing says that `E` was ever synced. That is a **torn tail**: it is zeroed and
//!   reported. If all bytes from there on are zero, it is the clean end. In reused space (`reuse.rs`)
//!   bytes of another segment follow; there eight zeros are the clean end, which are written with each
//!   group, and all behind them is zeroed too, without a word.
//! - A bad place in a segment that is not the last is always damage: a segment gets its name only
//!   after the ones before it are synced.
//!
//! Why a torn tail is never called damage: a mark holds `D` only if a sync that covers `D` had
//! finished before the mark was written (`writer.rs`), whatever the policy; so if sectors of the
//! unsynced rest land in any order, their marks say less than `E`. Bytes of older tails cannot
//! speak up: a tail is zeroed and synced before anything is appended, their marks say no more than
//! what was durable then, and payloads cannot contain marks (the salt, see `frame.rs`). Nor can
//! those of the segment whose space it was: it had another salt.
//!
//! The effect of each policy: with `always`, each group is synced before the next is written, so
//! each group's mark vouches for all groups before; only the last group of a process that did not
//! close stands without a witness, and a bit that rots in it looks like a torn tail. After a clean
//! close there is a closing mark, and every entry has its witness. `everysec` and `off`: the same
//! rule, and as sound; the witness covers what was synced when the last mark was written, so
//! damage in what was written since looks like a torn tail.
//!
//! A witness can be lost together with the entries that it vouches for (a zeroed block at the very
//! end): that too looks like a torn tail. The check for missing files rests on consecutive
//! sequences and the sizes in the headers. What it cannot see: the removal of the last segments as
//! whole files, unless a snapshot knows better.
//!
//! # Behind a snapshot
//!
//! The caller may have everything up to a sequence from a snapshot ([`Wanted::after`]). Segments
//! wholly before are not read, and may be gone; entries up to it in the first segment that is read
//! are checked and not handed out. The snapshot also proves that entries up to
//! [`Wanted::through`] were safely written: a journal that ends before that is damaged, even where
//! its end looks like a torn tail.
//!
//! # After a failed sync
//!
//! What is read may be in memory and not on the disk, although nothing is left to be written (see
//! [`Unwitnessed`]). What no mark vouches for is therefore written again when the journal is
//! opened; marks can be believed, since they were written after a sync that did not fail.
//!
//! Cost: one read of the segments and one checksum pass. While a segment is handed out, a thread
//! reads the next one: two are in memory. The search for marks is one more pass over the tail, only
//! when there is one.

use std::collections::VecDeque;

use super::frame::{Entry, ParsedFrame, find_highest_mark, parse};
use super::load::{LoadedSegment, list, read_ahead};
use super::segment::{HEADER_BYTES, segment_name};
use super::writer::OpenSegment;
use crate::error::StoreError;
use crate::storage::Storage;

/// The function that gets every entry; its error text ends the opening.
pub(crate) type Replay<'a> = &'a mut dyn FnMut(Entry<'_>) -> Result<(), String>;

/// Which entries the opener of a journal needs; the default is all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Entries up to this sequence are known already and are not handed out.
    pub after: u64,
    /// Entries up to this sequence are known to have been durable: a journal without them is
    /// damaged.
    pub through: u64,
}

impl Wanted {
    /// All entries from the first one on.
    #[must_use]
    pub fn all() -> Wanted {
        Wanted::default()
    }

    /// The sequence that the journal must reach.
    fn least(self) -> u64 {
        self.after.max(self.through)
    }
}

/// The report on the journal when it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// How many entries were replayed.
    pub entries: u64,
    /// The sequence of the last one; zero in a new journal.
    pub last_sequence: u64,
    /// How many segments were read.
    pub segments: usize,
    /// The bytes that were read up to each segment's last valid frame.
    pub bytes: u64,
    /// The bytes cut from the end, if a crash left unfinished writes there.
    pub torn_tail: Option<TornTail>,
}

/// The unfinished, never synced end of a journal after a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The segment, as a path for a person.
    pub file: String,
    /// Where the last valid frame ends.
    pub offset_bytes: u64,
    /// How many bytes from there on were something and are zero now.
    pub cut_bytes: u64,
}

/// The outcome of reading; nothing on the disk is changed yet.
pub(crate) struct RecoveredJournal {
    pub(crate) report: RecoveryReport,
    /// The last segment and the end of it that no mark vouches for; none in a new directory.
    pub(crate) last: Option<(OpenSegment, Unwitnessed)>,
    /// The first sequences of all segments that are there, read or not.
    pub(crate) firsts: Vec<u64>,
    /// Spares that a crash left behind.
    pub(crate) leftovers: Vec<String>,
}

/// Valid frames of which no mark says that they are on stable storage, and what is to be cleared
/// behind them.
///
/// They were read, and yet the disk may not have them: after a failed sync Linux counts the pages
/// as clean, and the next process reads from memory what no sync will write any more. So they are
/// written once more, as they are, before the sync of the opening.
pub(crate) struct Unwitnessed {
    pub(crate) offset_bytes: u64,
    pub(crate) bytes: Vec<u8>,
    /// How much behind the last frame is to become zero.
    pub(crate) behind_bytes: u64,
}

/// Where the frames are that a segment holds.
pub(crate) struct ScannedSegment {
    /// The first byte that is no frame.
    pub(crate) end: usize,
    /// From here on up to the end no mark vouches for the frames.
    unwitnessed_from: usize,
}

/// Reads what is needed and replays every wanted entry; changes nothing.
pub(crate) fn recover(
    storage: &dyn Storage,
    wanted: Wanted,
    replay: Replay<'_>,
) -> Result<RecoveredJournal, StoreError> {
    let (firsts, leftovers) = list(storage)?;
    let needed = needed_segments(storage, &firsts, wanted)?;
    let last_sequence = needed.first().map_or(0, |first| first - 1);
    let mut report = RecoveryReport { last_sequence, ..RecoveryReport::default() };
    let mut last = None;
    read_ahead(storage, needed, &mut |mut segment, next_first| {
        let ScannedSegment { end, unwitnessed_from } =
            segment.scan(&mut report, next_first, wanted.after, replay)?;
        report.segments += 1;
        report.bytes += end as u64;
        if let Some(next_first) = next_first {
            segment.check_complete(end, &report, next_first)?;
            return Ok(Some(segment.bytes));
        }
        segment.check_reaches(end, &report, wanted)?;
        report.torn_tail = segment.judge_tail(end, &report)?;
        segment.open.position_bytes = end as u64;
        let unwitnessed = Unwitnessed {
            offset_bytes: unwitnessed_from as u64,
            bytes: segment.bytes[unwitnessed_from..end].to_vec(),
            behind_bytes: last_nonzero(&segment.bytes[end..]).map_or(0, |last| last as u64 + 1),
        };
        last = Some((segment.open, unwitnessed));
        Ok(None)
    })?;
    Ok(RecoveredJournal { report, last, firsts, leftovers })
}

/// The segments from the one on that has the first wanted entry, or could have it next.
pub(crate) fn needed_segments<'a>(
    storage: &dyn Storage,
    firsts: &'a [u64],
    wanted: Wanted,
) -> Result<&'a [u64], StoreError> {
    let Some(&oldest) = firsts.first() else {
        if wanted.least() == 0 {
            return Ok(firsts);
        }
        let what = format!(
            "no segment of the journal is here, and the snapshot at entry {} is worth nothing \
             without the entries after it (it has parts of those up to {})",
            wanted.after,
            wanted.least()
        );
        return Err(StoreError::damaged(&storage.describe(""), 0, &what));
    };
    if oldest > wanted.after.saturating_add(1) {
        let path = storage.describe(&segment_name(oldest));
        let missing = missing(wanted.after.saturating_add(1), oldest - 1);
        let what = format!("it starts with entry {oldest}, and {missing} missing");
        return Err(StoreError::damaged(&path, 16, &what));
    }
    let skipped = firsts.partition_point(|&first| first <= wanted.after.saturating_add(1)) - 1;
    Ok(&firsts[skipped..])
}

/// The subject of a sentence about entries that are not there.
fn missing(first: u64, last: u64) -> String {
    if first == last {
        format!("entry {first} is")
    } else {
        format!("entries {first} to {last} are")
    }
}

/// Zeroes what is behind the last frame. It is certain only after the next sync of the file.
pub(crate) fn clear(segment: &OpenSegment, behind_bytes: u64) -> std::io::Result<()> {
    const CHUNK_BYTES: u64 = 1 << 20;
    let zeros = vec![0; CHUNK_BYTES.min(behind_bytes) as usize];
    let mut offset = segment.position_bytes;
    let end = offset + behind_bytes;
    while offset < end {
        let length = CHUNK_BYTES.min(end - offset);
        segment.file.write_at(offset, &zeros[..length as usize])?;
        offset += length;
    }
    Ok(())
}

impl LoadedSegment {
    /// Checks the valid frames and replays those after `after`.
    pub(crate) fn scan(
        &self,
        report: &mut RecoveryReport,
        next_first: Option<u64>,
        after: u64,
        replay: Replay<'_>,
    ) -> Result<ScannedSegment, StoreError> {
        let mut offset = HEADER_BYTES as usize;
        let mut unwitnessed_from = offset;
        // The marks that were passed and may turn out to be the last one before which all frames
        // are durable: the sequence after them, and their place.
        let mut passed: VecDeque<(u64, usize)> = VecDeque::new();
        while next_first != Some(report.last_sequence + 1) {
            let rest = &self.bytes[offset..];
            match parse(rest, self.seed) {
                ParsedFrame::Entry(entry) if entry.sequence == report.last_sequence + 1 => {
                    if entry.sequence > after {
                        replay(entry).map_err(|reason| self.refusal(offset, entry, &reason))?;
                        report.entries += 1;
                    }
                    report.last_sequence = entry.sequence;
                    offset += super::frame::FRAME_HEADER_BYTES + entry.payload.len();
                }
                ParsedFrame::Mark(mark) if mark.next_sequence == report.last_sequence + 1 => {
                    passed.push_back((mark.next_sequence, offset));
                    while let Some(&(next_sequence, place)) = passed.front()
                        && next_sequence <= mark.durable_sequence + 1
                    {
                        unwitnessed_from = place;
                        passed.pop_front();
                    }
                    offset += super::frame::MARK_BYTES;
                }
                _ => break,
            }
        }
        Ok(ScannedSegment { end: offset, unwitnessed_from })
    }

    fn refusal(&self, offset: usize, entry: Entry<'_>, reason: &str) -> StoreError {
        let what = format!("entry {}: {reason}", entry.sequence);
        StoreError::refused(&self.path, offset as u64, &what)
    }

    /// The last segment must reach what a snapshot has seen.
    fn check_reaches(
        &self,
        end: usize,
        report: &RecoveryReport,
        wanted: Wanted,
    ) -> Result<(), StoreError> {
        let (last, least) = (report.last_sequence, wanted.least());
        if last >= least {
            return Ok(());
        }
        let what = format!(
            "the journal ends here ({}) and the snapshot at entry {} proves that entries up to \
             {least} were safely written: {} missing",
            self.fault(end, last + 1),
            wanted.after,
            missing(last + 1, least)
        );
        Err(StoreError::damaged(&self.path, end as u64, &what))
    }

    /// A segment that is followed by another must reach up to it.
    pub(crate) fn check_complete(
        &self,
        end: usize,
        report: &RecoveryReport,
        next_first: u64,
    ) -> Result<(), StoreError> {
        let expected = report.last_sequence + 1;
        if expected == next_first {
            return Ok(());
        }
        let lost = format!("entries {expected} to {} are lost", next_first - 1);
        let what = if self.ends_cleanly(end) {
            format!(
                "the segment ends here and {} is the next: segments between them are missing; {lost}",
                segment_name(next_first)
            )
        } else {
            format!(
                "the frame of entry {expected} is damaged ({}); {lost}",
                self.fault(end, expected)
            )
        };
        Err(StoreError::damaged(&self.path, end as u64, &what))
    }

    /// Applies the rule of the file's header to the end of the last segment.
    pub(crate) fn judge_tail(
        &self,
        end: usize,
        report: &RecoveryReport,
    ) -> Result<Option<TornTail>, StoreError> {
        let Some(last) = last_nonzero(&self.bytes[end..]) else {
            return Ok(None);
        };
        let expected = report.last_sequence + 1;
        let tail = &self.bytes[end..=end + last];
        // A mark may end in zeros, which are not part of the tail.
        let searched = &self.bytes[end..self.bytes.len().min(end + last + 1 + 8)];
        if let Some(mark) = find_highest_mark(searched, self.seed)
            && mark.durable_sequence >= expected
        {
            let what = format!(
                "the frame of entry {expected} is damaged ({}), and later bytes prove that entries \
                 up to {} were safely written",
                self.fault(end, expected),
                mark.durable_sequence
            );
            return Err(StoreError::damaged(&self.path, end as u64, &what));
        }
        if self.ends_cleanly(end) {
            return Ok(None);
        }
        Ok(Some(TornTail {
            file: self.path.clone(),
            offset_bytes: end as u64,
            cut_bytes: tail.len() as u64,
        }))
    }

    /// The fault of the bytes where the entry `expected` should be.
    fn fault(&self, offset: usize, expected: u64) -> String {
        match parse(&self.bytes[offset..], self.seed) {
            ParsedFrame::Entry(Entry { sequence, .. }) => format!("found is entry {sequence}"),
            ParsedFrame::Mark(mark) if mark.next_sequence == expected => {
                "found is a mark".to_owned()
            }
            ParsedFrame::Mark(mark) => format!("found is a mark for entry {}", mark.next_sequence),
            ParsedFrame::End => "found are zeros".to_owned(),
            ParsedFrame::Invalid(fault) => fault.to_owned(),
        }
    }

    /// Whether nothing was written behind this place while it was this segment's.
    fn ends_cleanly(&self, offset: usize) -> bool {
        let behind = &self.bytes[offset..];
        if self.open.header.is_reused {
            parse(behind, self.seed) == ParsedFrame::End
        } else {
            last_nonzero(behind).is_none()
        }
    }
}

/// The index of the last byte that is not zero; compares by blocks, since most of them are zero.
fn last_nonzero(bytes: &[u8]) -> Option<usize> {
    const BLOCK_BYTES: usize = 4096;
    static ZEROS: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];
    let mut end = bytes.len();
    for block in bytes.rchunks(BLOCK_BYTES) {
        let start = end - block.len();
        if block != &ZEROS[..block.len()] {
            return block.iter().rposition(|&byte| byte != 0).map(|index| start + index);
        }
        end = start;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_nonzero_byte_is_found_wherever_it_lies() {
        for length in [0, 1, 4095, 4096, 4097, 9000] {
            let mut bytes = vec![0; length];
            assert_eq!(last_nonzero(&bytes), None);
            for index in [0, 1, 4000, 4096, length.wrapping_sub(1)] {
                if index < length {
                    bytes[index] = 1;
                    assert_eq!(last_nonzero(&bytes), Some(index));
                    bytes[index] = 0;
                }
            }
        }
    }
}
