//! The disk side of the journal: writes groups at the segment's position, syncs, changes segments.
//!
//! Order of things, on which recovery rests:
//!
//! - a group's mark names the highest sequence that a finished sync covers, never more;
//! - before a segment gets its name, all earlier segments are synced, and its own header and size
//!   are; the name is made durable before a frame goes there;
//! - after any error nothing more is written: what is on the disk is unknown then.
//!
//! **Zeros ahead.** Space from `fallocate` reads as zeros, but its blocks are marked as never written,
//! and the first sync after a write to them must change that mark: a transaction of the file
//! system's own journal for each group. So with `always` zeros are written ahead of the groups, a
//! stretch at a time, by the sync that has to pay for such a transaction anyhow; all other syncs
//! only overwrite. Zeros over zeros change nothing that recovery reads, whichever of them reach the
//! disk. The price is that each byte is written twice.
//!
//! ```text
//!   | groups ......... | group | zeros written ahead | never written      |
//!                      ^ position     zeroed_bytes ──^
//!   | groups ......... | group | zeros | bytes of the segment before      |    in reused space
//!                      ^ position      ^ the end of a block
//! ```
//!
//! **Reused space** (`reuse.rs`) has blocks that were written, and needs no zeros ahead. With each group
//! go zeros up to the end of a block, which are the end until the next group is there; whole
//! blocks, so that none has to be read before a part of it is changed.
//!
//! **Past the cache**: a group's whole blocks (`group.rs`) may be written without a copy in the system's
//! memory. The first block has what the group before has written of it, once more and unchanged: a
//! sector of it that tears has those bytes either way. Groups of both kinds may follow each other.
//!
//! Not for: threads, waiting, deciding when to sync. One owner at a time. A group costs one pass
//! for the checksums and one write, and zeros now and then; a change of segment costs three syncs.

use std::sync::Arc;

use super::SyncPolicy;
use super::frame::{END_BYTES, MARK_BYTES, Mark, mark_bytes, seal};
use super::group::GroupBuffer;
use super::intake::Group;
use super::segment::{HEADER_BYTES, SegmentHeader, segment_name};
use super::spare::{SEGMENT_OVERHEAD_BYTES, Spare};
use crate::error::StoreError;
use crate::storage::{BLOCK_BYTES, Storage, StorageFile};

/// How far zeros are written ahead of the groups (`bench/results/journal`).
const ZERO_AHEAD_BYTES: u64 = 256 << 10;

/// Behind a group of this size no zeros are worth writing: they would be as many bytes again, to
/// spare a sync that is paid for by this much already. Spools of large uploads have only such
/// groups.
pub(crate) const LARGE_GROUP_BYTES: usize = 64 << 10;

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// See the file's header.
pub(crate) struct Writer {
    storage: Arc<dyn Storage>,
    segment: OpenSegment,
    written_sequence: u64,
    durable_sequence: u64,
    /// The position that the last closing mark covers: a second close in a row writes nothing.
    closed_sequence: u64,
    /// Whether a sync follows each group, so that zeros ahead are worth writing.
    writes_ahead: bool,
    /// Up to where the segment's blocks are known to have been written.
    zeroed_bytes: u64,
    /// What the block has in which the next group begins; after an opening within a block only a
    /// part of it, which is then shorter than that.
    tail: Vec<u8>,
}

/// The segment that is being written.
pub(crate) struct OpenSegment {
    pub(crate) name: String,
    pub(crate) file: Box<dyn StorageFile>,
    pub(crate) header: SegmentHeader,
    /// Where the next group goes.
    pub(crate) position_bytes: u64,
}

impl OpenSegment {
    /// Makes a segment of a spare and makes it durable; see the file's header for the order.
    pub(crate) fn begin(
        storage: &dyn Storage,
        spare: Spare,
        first_sequence: u64,
    ) -> Result<OpenSegment, StoreError> {
        let name = segment_name(first_sequence);
        let Spare { size_bytes, is_reused, .. } = spare;
        let header =
            SegmentHeader { first_sequence, size_bytes, salt: storage.random(), is_reused };
        let begin = || {
            spare.file.write_at(0, &header.encode())?;
            let zeros = header.zeros_behind(HEADER_BYTES);
            spare.file.write_at(HEADER_BYTES, &ZEROS[..zeros])?;
            spare.file.sync_all()?;
            storage.rename(&spare.name, &name)?;
            storage.sync_directory()
        };
        begin().map_err(|error| {
            StoreError::io(&format!("cannot begin {}", storage.describe(&name)), &error)
        })?;
        Ok(OpenSegment { name, file: spare.file, header, position_bytes: HEADER_BYTES })
    }

    /// How many bytes of groups still fit.
    pub(crate) fn free_bytes(&self) -> u64 {
        let capacity_bytes = self.header.size_bytes - SEGMENT_OVERHEAD_BYTES;
        capacity_bytes.saturating_sub(self.position_bytes - HEADER_BYTES)
    }
}

impl SegmentHeader {
    /// How many zeros are to be written behind what ends here, so that it is the end.
    fn zeros_behind(self, end_bytes: u64) -> usize {
        if !self.is_reused {
            return 0;
        }
        (SegmentHeader::block_end(end_bytes).min(self.size_bytes) - end_bytes) as usize
    }

    /// Where the block ends that has the end behind what ends here.
    fn block_end(end_bytes: u64) -> u64 {
        (end_bytes + END_BYTES as u64).next_multiple_of(BLOCK_BYTES as u64)
    }
}

impl Writer {
    /// A writer that goes on in `segment`, in which all up to `last_sequence` is durable.
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        segment: OpenSegment,
        last_sequence: u64,
        sync: SyncPolicy,
    ) -> Writer {
        Writer {
            storage,
            segment,
            written_sequence: last_sequence,
            durable_sequence: last_sequence,
            closed_sequence: last_sequence,
            writes_ahead: sync == SyncPolicy::Always,
            zeroed_bytes: 0,
            tail: Vec::new(),
        }
    }

    /// Writes a group without syncing it, past the system's cache if that is wanted and possible;
    /// returns its buffer.
    pub(crate) fn write(
        &mut self,
        group: Group,
        past_cache: bool,
    ) -> Result<GroupBuffer, StoreError> {
        if let Some(spare) = group.segment {
            self.sync()?;
            self.segment = OpenSegment::begin(&*self.storage, spare, group.first_sequence)?;
            self.zeroed_bytes = 0;
            self.tail.clear();
        }
        let mut buffer = group.buffer;
        let mark =
            Mark { next_sequence: group.first_sequence, durable_sequence: self.durable_sequence };
        buffer.group_mut()[..MARK_BYTES].copy_from_slice(&mark_bytes(mark));
        self.write_sealed(&mut buffer, past_cache)?;
        self.written_sequence = group.last_sequence;
        if buffer.group().len() < LARGE_GROUP_BYTES {
            self.write_ahead()?;
        }
        Ok(buffer)
    }

    /// Writes zeros behind the group where it has reached blocks that were never written.
    fn write_ahead(&mut self) -> Result<(), StoreError> {
        let segment = &self.segment;
        if !self.writes_ahead
            || segment.header.is_reused
            || segment.position_bytes <= self.zeroed_bytes
        {
            return Ok(());
        }
        let end_bytes = (segment.position_bytes + ZERO_AHEAD_BYTES).min(segment.header.size_bytes);
        let mut at_bytes = segment.position_bytes;
        while at_bytes < end_bytes {
            let length = (end_bytes - at_bytes).min(ZEROS.len() as u64);
            segment.file.write_at(at_bytes, &ZEROS[..length as usize]).map_err(|error| {
                let path = self.storage.describe(&segment.name);
                StoreError::io(&format!("cannot write {path}"), &error)
            })?;
            at_bytes += length;
        }
        self.zeroed_bytes = end_bytes;
        Ok(())
    }

    fn write_sealed(
        &mut self,
        buffer: &mut GroupBuffer,
        past_cache: bool,
    ) -> Result<(), StoreError> {
        let segment = &mut self.segment;
        seal(buffer.group_mut(), segment.header.salt);
        let length = buffer.group().len();
        let end_bytes = segment.position_bytes + length as u64;
        assert!(
            end_bytes <= segment.header.size_bytes,
            "a reservation keeps groups in the segment"
        );
        let has_room = SegmentHeader::block_end(end_bytes) <= segment.header.size_bytes;
        let whole = (past_cache && has_room).then(|| buffer.blocks(&self.tail)).flatten();
        let written = match whole {
            Some(blocks) => {
                let at_bytes = segment.position_bytes - self.tail.len() as u64;
                segment.file.write_blocks_at(at_bytes, blocks)
            }
            None => {
                buffer.truncate(length);
                let zeros = segment.header.zeros_behind(end_bytes);
                segment.file.write_at(segment.position_bytes, buffer.with_zeros(zeros))
            }
        };
        buffer.truncate(length);
        written.map_err(|error| {
            StoreError::io(
                &format!("cannot write {}", self.storage.describe(&segment.name)),
                &error,
            )
        })?;
        segment.position_bytes = end_bytes;
        self.note_tail(buffer.group());
        Ok(())
    }

    /// Remembers the beginning of the block in which the written group ends.
    fn note_tail(&mut self, group: &[u8]) {
        let in_block = self.segment.position_bytes as usize % BLOCK_BYTES;
        match group.len().checked_sub(in_block) {
            Some(start) => {
                self.tail.clear();
                self.tail.extend_from_slice(&group[start..]);
            }
            None => self.tail.extend_from_slice(group),
        }
    }

    /// Waits until all written groups are on stable storage. Free when they are already.
    pub(crate) fn sync(&mut self) -> Result<(), StoreError> {
        if self.needs_sync() {
            self.sync_always()?;
        }
        Ok(())
    }

    fn sync_always(&mut self) -> Result<(), StoreError> {
        self.segment.file.sync_data().map_err(|error| {
            StoreError::io(
                &format!("cannot sync {}", self.storage.describe(&self.segment.name)),
                &error,
            )
        })?;
        self.durable_sequence = self.written_sequence;
        Ok(())
    }

    /// Whether something was written since the last sync.
    pub(crate) fn needs_sync(&self) -> bool {
        self.durable_sequence < self.written_sequence
    }

    /// Syncs, and marks all entries as durable, so that recovery can tell later damage for sure.
    pub(crate) fn close(&mut self) -> Result<(), StoreError> {
        self.sync()?;
        let has_room =
            self.segment.position_bytes + MARK_BYTES as u64 <= self.segment.header.size_bytes;
        if self.closed_sequence == self.durable_sequence || !has_room {
            return Ok(());
        }
        let mark = Mark {
            next_sequence: self.durable_sequence + 1,
            durable_sequence: self.durable_sequence,
        };
        let mut buffer = GroupBuffer::begin(Vec::new(), self.segment.position_bytes);
        buffer.group_mut().copy_from_slice(&mark_bytes(mark));
        self.write_sealed(&mut buffer, false)?;
        self.sync_always()?;
        self.closed_sequence = self.durable_sequence;
        Ok(())
    }

    /// The highest sequence that was written.
    pub(crate) fn written_sequence(&self) -> u64 {
        self.written_sequence
    }

    /// The highest sequence on stable storage.
    pub(crate) fn durable_sequence(&self) -> u64 {
        self.durable_sequence
    }
}
