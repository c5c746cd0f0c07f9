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
//!   reported. If all bytes from there on are zero, it is the clean end.
//! - A bad place in a segment that is not the last is always damage: a segment gets its name only
//!   after the ones before it are synced.
//!
//! Why a torn tail is never called damage: a mark holds `D` only if a sync that covers `D` had
//! finished before the mark was written (`writer.rs`), whatever the policy; so if sectors of the
//! unsynced rest land in any order, their marks say less than `E`. Bytes of older tails cannot
//! speak up: a tail is zeroed and synced before anything is appended, their marks say no more than
//! what was durable then, and payloads cannot contain marks (the salt, see `frame.rs`).
//!
//! What this means for each policy. `always`: each group is synced before the next is written, so
//! each group's mark vouches for all groups before; only the last group of a process that did not
//! close stands without a witness, and a bit that rots in it looks like a torn tail. After a clean
//! close there is a closing mark, and every entry has its witness. `everysec` and `off`: the same
//! rule, and as sound; the witness covers what was synced when the last mark was written, so
//! damage in what was written since looks like a torn tail.
//!
//! A witness can be lost together with the entries that it vouches for (a zeroed block at the very
//! end): that too looks like a torn tail. The check for missing files rests on consecutive sequences and the sizes in the headers. What it
//! cannot see: the removal of the last segments as whole files.
//!
//! # After a failed sync
//!
//! What is read may be in memory and not on the disk, although nothing is left to be written (see
//! [`Unwitnessed`]). What no mark vouches for is therefore written again when the journal is
//! opened; marks can be believed, since they were written after a sync that did not fail.
//!
//! Cost: one read of all segments, one at a time in memory, and one checksum pass. The search for
//! marks is one more pass over the tail, only when there is one.

use std::collections::VecDeque;

use super::frame::{Entry, Parsed, find_highest_mark, parse};
use super::segment::{
    FileName, HEADER_BYTES, HEADER_USED_BYTES, SEGMENT_SIZE_BYTES_MAX, SegmentHeader, segment_name,
};
use super::writer::OpenSegment;
use crate::error::StoreError;
use crate::storage::{Storage, StorageFile};

/// The function that gets every entry; its error text ends the opening.
pub(crate) type Replay<'a> = &'a mut dyn FnMut(Entry<'_>) -> Result<(), String>;

/// What was found in the journal when it was opened.
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
    /// What was cut from the end, if a crash left unfinished writes there.
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
pub(crate) struct Recovered {
    pub(crate) report: RecoveryReport,
    /// The last segment and the end of it that no mark vouches for; none in a new directory.
    pub(crate) last: Option<(OpenSegment, Unwitnessed)>,
    /// Spares that a crash left behind.
    pub(crate) leftovers: Vec<String>,
}

/// Valid frames of which no mark says that they are on stable storage.
///
/// They were read, and yet the disk may not have them: after a failed sync Linux counts the pages
/// as clean, and the next process reads from memory what no sync will write any more. So they are
/// written once more, as they are, before the sync of the opening.
pub(crate) struct Unwitnessed {
    pub(crate) offset_bytes: u64,
    pub(crate) bytes: Vec<u8>,
}

/// Where the frames are that a segment holds.
struct Scanned {
    /// The first byte that is no frame.
    end: usize,
    /// From here on up to the end no mark vouches for the frames.
    unwitnessed_from: usize,
}

/// Reads everything and replays every entry; changes nothing.
pub(crate) fn recover(storage: &dyn Storage, replay: Replay<'_>) -> Result<Recovered, StoreError> {
    let (firsts, leftovers) = list(storage)?;
    let mut report = RecoveryReport::default();
    let mut last = None;
    for (index, &first_sequence) in firsts.iter().enumerate() {
        let next_first = firsts.get(index + 1).copied();
        let mut segment = load(storage, first_sequence, next_first.is_none())?;
        check_follows(&segment, &report)?;
        let Scanned { end, unwitnessed_from } = segment.scan(&mut report, next_first, replay)?;
        report.segments += 1;
        report.bytes += end as u64;
        if let Some(next_first) = next_first {
            segment.check_complete(end, &report, next_first)?;
        } else {
            report.torn_tail = segment.judge_tail(end, &report)?;
            segment.open.position_bytes = end as u64;
            let unwitnessed = Unwitnessed {
                offset_bytes: unwitnessed_from as u64,
                bytes: segment.bytes[unwitnessed_from..end].to_vec(),
            };
            last = Some((segment.open, unwitnessed));
        }
    }
    Ok(Recovered { report, last, leftovers })
}

/// Zeroes the torn tail. It is certain only after the next sync of the file.
pub(crate) fn cut(segment: &OpenSegment, tail: &TornTail) -> std::io::Result<()> {
    const CHUNK_BYTES: u64 = 1 << 20;
    let zeros = vec![0; CHUNK_BYTES.min(tail.cut_bytes) as usize];
    let end = tail.offset_bytes + tail.cut_bytes;
    let mut offset = tail.offset_bytes;
    while offset < end {
        let length = CHUNK_BYTES.min(end - offset);
        segment.file.write_at(offset, &zeros[..length as usize])?;
        offset += length;
    }
    Ok(())
}

/// The first sequences of all segments in order, and the names of left spares.
fn list(storage: &dyn Storage) -> Result<(Vec<u64>, Vec<String>), StoreError> {
    let names = storage.list().map_err(|error| {
        StoreError::io(&format!("cannot list {}", storage.describe("")), &error)
    })?;
    let mut firsts = Vec::new();
    let mut leftovers = Vec::new();
    for name in names {
        match FileName::parse(&name) {
            FileName::Segment(first_sequence) => firsts.push(first_sequence),
            FileName::Spare => leftovers.push(name),
            FileName::Odd => {
                let what = "its name is nearly that of a journal segment, which has twenty \
                            digits; move it away";
                return Err(StoreError::foreign(&storage.describe(&name), 0, what));
            }
            FileName::Other => {}
        }
    }
    firsts.sort_unstable();
    Ok((firsts, leftovers))
}

/// A segment in memory.
struct Loaded {
    open: OpenSegment,
    path: String,
    bytes: Vec<u8>,
}

/// Reads a segment's file and checks all but its frames.
fn load(storage: &dyn Storage, first_sequence: u64, may_write: bool) -> Result<Loaded, StoreError> {
    let name = segment_name(first_sequence);
    let path = storage.describe(&name);
    let cannot_read = |error| StoreError::io(&format!("cannot read {path}"), &error);
    let file = storage.open(&name, may_write).map_err(cannot_read)?;
    let size_bytes = file.size_bytes().map_err(cannot_read)?;
    if size_bytes < HEADER_BYTES {
        let what = format!("the file ends within the header of {HEADER_BYTES} bytes");
        return Err(StoreError::damaged(&path, size_bytes, &what));
    }
    let mut header = [0; HEADER_USED_BYTES];
    file.read_at(0, &mut header).map_err(cannot_read)?;
    let header = SegmentHeader::decode(&header, &path)?;
    if header.first_sequence != first_sequence {
        let what = format!(
            "the header says that it starts with entry {}, the name says {first_sequence}",
            header.first_sequence
        );
        return Err(StoreError::damaged(&path, 16, &what));
    }
    check_size(&path, size_bytes, header.size_bytes)?;
    let bytes = read_all(&*file, size_bytes).map_err(cannot_read)?;
    Ok(Loaded {
        open: OpenSegment { name, file, header, position_bytes: HEADER_BYTES },
        path,
        bytes,
    })
}

fn check_size(path: &str, found: u64, stated: u64) -> Result<(), StoreError> {
    if found != stated || found > SEGMENT_SIZE_BYTES_MAX {
        let what = format!(
            "the file ends here and its header states {stated} bytes \
             (the most is {SEGMENT_SIZE_BYTES_MAX})"
        );
        return Err(StoreError::damaged(path, found, &what));
    }
    Ok(())
}

fn read_all(file: &dyn StorageFile, size_bytes: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; size_bytes as usize];
    file.read_at(0, &mut bytes)?;
    Ok(bytes)
}

fn check_follows(segment: &Loaded, report: &RecoveryReport) -> Result<(), StoreError> {
    let first = segment.open.header.first_sequence;
    let expected = report.last_sequence + 1;
    if first == expected {
        return Ok(());
    }
    // Segments after the first are checked against their predecessor by `check_complete`.
    let what = format!("it starts with entry {first}, and the segment with entry 1 is missing");
    Err(StoreError::damaged(&segment.path, 16, &what))
}

impl Loaded {
    /// Replays the valid frames.
    fn scan(
        &self,
        report: &mut RecoveryReport,
        next_first: Option<u64>,
        replay: Replay<'_>,
    ) -> Result<Scanned, StoreError> {
        let mut offset = HEADER_BYTES as usize;
        let mut unwitnessed_from = offset;
        // The marks that were passed and may turn out to be the last one before which all frames
        // are durable: the sequence after them, and their place.
        let mut passed: VecDeque<(u64, usize)> = VecDeque::new();
        while next_first != Some(report.last_sequence + 1) {
            let rest = &self.bytes[offset..];
            match parse(rest, self.open.header.salt) {
                Parsed::Entry(entry) if entry.sequence == report.last_sequence + 1 => {
                    replay(entry).map_err(|reason| {
                        let what = format!("entry {}: {reason}", entry.sequence);
                        StoreError::refused(&self.path, offset as u64, &what)
                    })?;
                    report.entries += 1;
                    report.last_sequence = entry.sequence;
                    offset += super::frame::FRAME_HEADER_BYTES + entry.payload.len();
                }
                Parsed::Mark(mark) if mark.next_sequence == report.last_sequence + 1 => {
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
        Ok(Scanned { end: offset, unwitnessed_from })
    }

    /// A segment that is followed by another must reach up to it.
    fn check_complete(
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
        let what = if self.is_zero_from(end) {
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
    fn judge_tail(
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
        if let Some(mark) = find_highest_mark(searched, self.open.header.salt)
            && mark.durable_sequence >= expected
        {
            let what = format!(
                "the frame of entry {expected} is damaged ({}), and later bytes prove that entries \
                 up to {} were safely written; restore the file or move the journal away",
                self.fault(end, expected),
                mark.durable_sequence
            );
            return Err(StoreError::damaged(&self.path, end as u64, &what));
        }
        Ok(Some(TornTail {
            file: self.path.clone(),
            offset_bytes: end as u64,
            cut_bytes: tail.len() as u64,
        }))
    }

    /// What is wrong with the bytes at a place where the entry `expected` should be.
    fn fault(&self, offset: usize, expected: u64) -> String {
        match parse(&self.bytes[offset..], self.open.header.salt) {
            Parsed::Entry(Entry { sequence, .. }) => format!("found is entry {sequence}"),
            Parsed::Mark(mark) if mark.next_sequence == expected => "found is a mark".to_owned(),
            Parsed::Mark(mark) => format!("found is a mark for entry {}", mark.next_sequence),
            Parsed::End => "found are zeros".to_owned(),
            Parsed::Invalid(fault) => fault.to_owned(),
        }
    }

    fn is_zero_from(&self, offset: usize) -> bool {
        last_nonzero(&self.bytes[offset..]).is_none()
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
