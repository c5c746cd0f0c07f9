//! Reads a spool's entries in order while more are appended.
//!
//! ```text
//!   segment file:  | header | mark | frame | frame | mark | frame | zeros
//!   buffer:                         [ a stretch of the file ]
//!                                     ^ the next frame
//! ```
//! For: one worker that goes through the entries once. Not for: what a crash left behind
//! (`journal/recovery.rs` has seen to that before).
//!
//! Invariants: nothing is looked at that is not on stable storage; the buffer holds no more than
//! the larger of one entry and 1 MiB. Bytes in the buffer are older than what was appended since:
//! they are forgotten when the reader passes what was synced when they were read. Cost: one read of
//! each byte, one checksum.

use std::sync::atomic::Ordering;

use super::Spool;
use crate::error::StoreError;
use crate::journal::frame::{
    Entry, FRAME_HEADER_BYTES, PAYLOAD_SIZE_BYTES_MAX, ParsedFrame, Seed, parse,
};
use crate::journal::segment::{HEADER_BYTES, HEADER_USED_BYTES, SegmentHeader, segment_name};
use crate::storage::StorageFile;

/// How much is read at once.
const STRETCH_BYTES: u64 = 1 << 20;

/// See the file's header.
pub struct SpoolReader {
    next_sequence: u64,
    segment: Option<Segment>,
    buffer: Vec<u8>,
    /// Where in the file the buffer's bytes come from, and what was synced then.
    buffer_at: u64,
    synced: u64,
    /// What comes next is likely not in the system's cache.
    is_behind: bool,
}

struct Segment {
    first_sequence: u64,
    file: Box<dyn StorageFile>,
    path: String,
    size_bytes: u64,
    seed: Seed,
    /// Where the next frame is.
    position_bytes: u64,
}

impl SpoolReader {
    /// A reader whose first entry is the one with this sequence.
    #[must_use]
    pub fn new(next_sequence: u64) -> SpoolReader {
        SpoolReader {
            next_sequence,
            segment: None,
            buffer: Vec::new(),
            buffer_at: 0,
            synced: 0,
            is_behind: false,
        }
    }

    /// The sequence of the entry that comes next.
    #[must_use]
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// The next entry, unless all were read that are on stable storage; with other policies than
    /// `always` that may be fewer than may be acknowledged, until a [`Spool::sync`].
    ///
    /// # Errors
    ///
    /// A file cannot be read, or does not hold what was written there.
    pub fn next<'a>(&'a mut self, spool: &Spool) -> Result<Option<Entry<'a>>, StoreError> {
        if self.next_sequence > self.synced {
            self.synced = spool.journal.synced_sequence();
            if self.next_sequence > self.synced {
                return Ok(None);
            }
            self.buffer.clear();
        }
        self.is_behind = self.next_sequence <= spool.past_cache.load(Ordering::Relaxed);
        self.find_segment(spool)?;
        let length = self.pass_marks()?;
        let start = self.fill(FRAME_HEADER_BYTES + length)?;
        let Some(segment) = &mut self.segment else {
            return Err(StoreError::closed());
        };
        let frame = &self.buffer[start..start + FRAME_HEADER_BYTES + length];
        match parse(frame, segment.seed) {
            ParsedFrame::Entry(entry) if entry.sequence == self.next_sequence => {
                segment.position_bytes += frame.len() as u64;
                spool.read.store(self.next_sequence, Ordering::Relaxed);
                self.next_sequence += 1;
                Ok(Some(entry))
            }
            ParsedFrame::Invalid(fault) => Err(segment.damaged(self.next_sequence, fault)),
            _ => Err(segment.damaged(self.next_sequence, "something else is there")),
        }
    }

    /// Goes on to the segment that has the next entry, unless it is there.
    fn find_segment(&mut self, spool: &Spool) -> Result<(), StoreError> {
        let first = spool.journal.segment_holding(self.next_sequence);
        let Some(first_sequence) = first else {
            return Err(StoreError::closed());
        };
        if self.segment.as_ref().is_some_and(|segment| segment.first_sequence == first_sequence) {
            return Ok(());
        }
        let name = segment_name(first_sequence);
        let path = spool.storage.describe(&name);
        let cannot_read = |error| StoreError::io(&format!("cannot read {path}"), &error);
        let file = spool.storage.open(&name, false).map_err(cannot_read)?;
        let mut header = [0; HEADER_USED_BYTES];
        file.read_at(0, &mut header).map_err(cannot_read)?;
        let header = SegmentHeader::decode(&header, &path)?;
        self.segment = Some(Segment {
            first_sequence,
            file,
            path,
            size_bytes: header.size_bytes,
            seed: Seed::of(header.salt),
            position_bytes: HEADER_BYTES,
        });
        self.buffer.clear();
        // A new reader begins in the middle of a segment: it passes what comes before.
        let wanted = std::mem::replace(&mut self.next_sequence, first_sequence);
        while self.next_sequence < wanted {
            let length = self.pass_marks()?;
            if let Some(segment) = &mut self.segment {
                segment.position_bytes += (FRAME_HEADER_BYTES + length) as u64;
            }
            self.next_sequence += 1;
        }
        Ok(())
    }

    /// Passes marks; gives the length of the entry's payload behind them.
    fn pass_marks(&mut self) -> Result<usize, StoreError> {
        loop {
            let start = self.fill(FRAME_HEADER_BYTES)?;
            let head = &self.buffer[start..start + FRAME_HEADER_BYTES];
            let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
            let is_mark = head[16..18] == [0xff, 0xff];
            let Some(segment) = &mut self.segment else {
                return Err(StoreError::closed());
            };
            if length > PAYLOAD_SIZE_BYTES_MAX {
                return Err(segment.damaged(self.next_sequence, "its length is impossible"));
            }
            if !is_mark {
                return Ok(length);
            }
            segment.position_bytes += (FRAME_HEADER_BYTES + length) as u64;
        }
    }

    /// Fills the buffer with `count` bytes from the next frame on; returns their offset.
    fn fill(&mut self, bytes: usize) -> Result<usize, StoreError> {
        let Some(segment) = &self.segment else {
            return Err(StoreError::closed());
        };
        let position = segment.position_bytes;
        let end = position + bytes as u64;
        let is_there =
            position >= self.buffer_at && end <= self.buffer_at + self.buffer.len() as u64;
        if is_there {
            return Ok((position - self.buffer_at) as usize);
        }
        let left = segment.size_bytes.saturating_sub(position);
        if (bytes as u64) > left {
            return Err(segment.damaged(self.next_sequence, "it reaches beyond the file"));
        }
        let wanted = left.min(STRETCH_BYTES.max(bytes as u64)) as usize;
        // An entry of many megabytes leaves no buffer of that size behind.
        if self.buffer.capacity() > 4 * wanted {
            self.buffer = Vec::new();
        }
        self.buffer.resize(wanted, 0);
        self.buffer_at = position;
        let read = segment.file.read_at(position, &mut self.buffer);
        read.map_err(|error| {
            self.buffer.clear();
            StoreError::io(&format!("cannot read {}", segment.path), &error)
        })?;
        if self.is_behind {
            let next = position + wanted as u64;
            segment.file.will_read(next..segment.size_bytes.min(next + STRETCH_BYTES));
        }
        Ok(0)
    }
}

impl Segment {
    fn damaged(&self, sequence: u64, fault: &str) -> StoreError {
        let what = format!("the frame of entry {sequence} cannot be read: {fault}");
        StoreError::damaged(&self.path, self.position_bytes, &what)
    }
}
