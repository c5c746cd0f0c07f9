//! The memory side of the journal: reservations, sequence numbers and the group being filled.
//!
//! ```text
//!   groups:  [ taken next ] ... [ being filled ]        each: | room for a mark | frame | frame | ...
//!   space:   | written or buffered | free_bytes |   + at most one spare
//!            '---- current segment -------------'
//! ```
//!
//! Not for: input or output of any kind; `writer.rs` does that with the groups taken from here.
//!
//! Invariants:
//!
//! - a group lies in one segment; a frame that does not fit starts a group in the spare;
//! - **room**: all that is reserved together fits into the current segment's free space, or it
//!   fits into the spare alone. So every reserved append finds its place in whatever order they
//!   come: those that do not fit the current segment are together not more than the spare takes;
//! - every reservation counts one mark, so that each append may start a group of its own.
//!
//! Concurrency: none here; the journal holds a mutex around it. `append` costs one copy of the
//! payload; checksums are the writer's work, outside of that mutex.

use std::collections::VecDeque;

use super::frame::{FRAME_HEADER_BYTES, KIND_MAX, MARK_BYTES, Payload};
use super::group::GroupBuffer;
use super::segment::HEADER_BYTES;
use super::spare::Spare;

/// Buffers up to this size are used again.
const RECYCLED_BYTES_MAX: usize = 32 << 20;

/// The bytes that are reserved on disk for entries of this many payload bytes.
pub(crate) fn charge_bytes(frames: usize, payload_size_bytes: usize) -> u64 {
    (payload_size_bytes + frames * FRAME_HEADER_BYTES + MARK_BYTES) as u64
}

/// Consecutive frames that are written by one write.
pub(crate) struct Group {
    /// The new segment that the group begins, if it does.
    pub(crate) segment: Option<Spare>,
    pub(crate) buffer: GroupBuffer,
    pub(crate) first_sequence: u64,
    pub(crate) last_sequence: u64,
}

/// See the file's header.
pub(crate) struct Intake {
    next_sequence: u64,
    /// The first sequence of the segment that is being filled.
    segment_first_sequence: u64,
    free_bytes: u64,
    /// How many bytes of groups the segment takes in all.
    capacity_bytes: u64,
    reserved_bytes: u64,
    reservations: u64,
    spare: Option<Spare>,
    groups: VecDeque<Group>,
    buffered_bytes: usize,
    recycled: Vec<u8>,
    /// Where in its segment the next group begins.
    position_bytes: u64,
}

impl Intake {
    /// An intake whose current segment has `free_bytes` for groups, from `position_bytes` on.
    pub(crate) fn new(
        next_sequence: u64,
        segment_first_sequence: u64,
        position_bytes: u64,
        free_bytes: u64,
    ) -> Intake {
        Intake {
            position_bytes,
            next_sequence,
            segment_first_sequence,
            free_bytes,
            capacity_bytes: free_bytes + (position_bytes - HEADER_BYTES),
            reserved_bytes: 0,
            reservations: 0,
            spare: None,
            groups: VecDeque::new(),
            buffered_bytes: 0,
            recycled: Vec::new(),
        }
    }

    /// The room of all buffers.
    pub(crate) fn memory_bytes(&self) -> usize {
        let of_groups = self.groups.iter().map(|group| group.buffer.capacity_bytes());
        self.recycled.capacity() + of_groups.sum::<usize>()
    }

    /// Reserves if there is room; says what capacity a spare must have if not.
    pub(crate) fn admit(&mut self, charge_bytes: u64) -> Result<(), u64> {
        let wanted = self.reserved_bytes + charge_bytes;
        if !self.has_room(wanted) {
            return Err(wanted);
        }
        self.reserved_bytes = wanted;
        self.reservations += 1;
        Ok(())
    }

    /// Whether this much may be reserved in all: the invariant *room*.
    pub(crate) fn has_room(&self, reserved_bytes: u64) -> bool {
        reserved_bytes <= self.free_bytes || reserved_bytes <= self.spare_capacity_bytes()
    }

    /// Ends the current segment: the next group begins the spare, even if it stays without entries.
    /// Returns the new segment's first sequence (the present one's while that has no entries), or
    /// says what capacity a spare must have.
    pub(crate) fn roll(&mut self) -> Result<u64, u64> {
        if self.segment_first_sequence == self.next_sequence {
            return Ok(self.next_sequence);
        }
        // All that is reserved must fit behind the mark of the group that begins the segment.
        let wanted = self.reserved_bytes + MARK_BYTES as u64;
        match self.spare.take_if(|spare| spare.capacity_bytes() >= wanted) {
            Some(spare) => {
                self.capacity_bytes = spare.capacity_bytes();
                self.free_bytes = self.capacity_bytes - MARK_BYTES as u64;
                self.open_group(Some(spare));
                Ok(self.next_sequence)
            }
            None => Err(wanted),
        }
    }

    pub(crate) fn spare_capacity_bytes(&self) -> u64 {
        self.spare.as_ref().map_or(0, Spare::capacity_bytes)
    }

    /// Whether the current segment has less than half of its space left, or less than `low_bytes`
    /// of a larger one, and nothing follows.
    pub(crate) fn wants_spare(&self, low_bytes: u64) -> bool {
        self.spare.is_none() && self.free_bytes < low_bytes.min(self.capacity_bytes / 2)
    }

    /// Takes a new spare; the smaller of it and the present one comes back.
    pub(crate) fn install_spare(&mut self, spare: Spare) -> Option<Spare> {
        if spare.capacity_bytes() <= self.spare_capacity_bytes() {
            return Some(spare);
        }
        self.spare.replace(spare)
    }

    /// Takes the spare out, at the end of the journal's life.
    pub(crate) fn remove_spare(&mut self) -> Option<Spare> {
        self.spare.take()
    }

    /// Gives a reservation back.
    pub(crate) fn release(&mut self, charge_bytes: u64) {
        self.reserved_bytes -= charge_bytes;
        self.reservations -= 1;
    }

    /// Uses a reservation: the frames go into one group; returns the last one's sequence.
    ///
    /// # Panics
    ///
    /// When the frames are more than what was reserved or a kind is too high, before anything is
    /// changed.
    pub(crate) fn append<'a>(
        &mut self,
        charge_bytes: u64,
        frames: impl ExactSizeIterator<Item = (u16, Payload<'a>)> + Clone,
    ) -> u64 {
        let framed: usize = frames.clone().map(|(_, payload)| framed_bytes(payload)).sum();
        let framed = framed as u64;
        assert!(
            framed + MARK_BYTES as u64 <= charge_bytes,
            "entries of {framed} framed bytes are more than the reservation of {charge_bytes}"
        );
        let kinds_are_ours = frames.clone().all(|(kind, _)| kind <= KIND_MAX);
        assert!(kinds_are_ours, "the kind above {KIND_MAX} is the journal's own");
        let count = frames.len() as u64;
        if count > 0 {
            let group = self.group_with_room(framed);
            group_push(group, frames);
            self.next_sequence += count;
            self.buffered_bytes += framed as usize;
        }
        self.release(charge_bytes);
        self.next_sequence - 1
    }

    /// The group being filled, which now has room for `framed` bytes; they are subtracted.
    fn group_with_room(&mut self, framed: u64) -> &mut Group {
        let with_mark = framed + MARK_BYTES as u64;
        let needed = if self.groups.is_empty() { with_mark } else { framed };
        if needed > self.free_bytes {
            let spare = self.spare.take().expect("the invariant of reservations keeps a spare");
            self.capacity_bytes = spare.capacity_bytes();
            self.free_bytes = self.capacity_bytes - with_mark;
            self.open_group(Some(spare));
        } else {
            self.free_bytes -= needed;
            if self.groups.is_empty() {
                self.open_group(None);
            }
        }
        self.groups.back_mut().expect("a group was opened")
    }

    fn open_group(&mut self, segment: Option<Spare>) {
        if segment.is_some() {
            self.position_bytes = HEADER_BYTES;
        }
        let recycled = std::mem::take(&mut self.recycled);
        let buffer = GroupBuffer::begin(recycled, self.position_bytes);
        self.buffered_bytes += MARK_BYTES;
        let first_sequence = self.next_sequence;
        if segment.is_some() {
            self.segment_first_sequence = first_sequence;
        }
        let last_sequence = first_sequence - 1;
        self.groups.push_back(Group { segment, buffer, first_sequence, last_sequence });
    }

    /// Takes the oldest group, to be written; the others wait.
    pub(crate) fn take(&mut self) -> Option<Group> {
        let group = self.groups.pop_front()?;
        let length = group.buffer.group().len();
        self.buffered_bytes -= length;
        if self.groups.is_empty() {
            self.position_bytes += length as u64;
        }
        Some(group)
    }

    /// Takes a written group's buffer back.
    pub(crate) fn recycle(&mut self, mut bytes: Vec<u8>) {
        if bytes.capacity() <= RECYCLED_BYTES_MAX && bytes.capacity() > self.recycled.capacity() {
            bytes.clear();
            self.recycled = bytes;
        }
    }

    /// Bytes that wait for the disk.
    pub(crate) fn buffered_bytes(&self) -> usize {
        self.buffered_bytes
    }

    /// Reservations that were neither used nor given back.
    pub(crate) fn reservations(&self) -> u64 {
        self.reservations
    }

    /// The sequence of the entry appended last.
    pub(crate) fn last_sequence(&self) -> u64 {
        self.next_sequence - 1
    }
}

fn framed_bytes(payload: Payload<'_>) -> usize {
    FRAME_HEADER_BYTES + payload.iter().map(|piece| piece.len()).sum::<usize>()
}

fn group_push<'a>(group: &mut Group, frames: impl Iterator<Item = (u16, Payload<'a>)>) {
    for (kind, payload) in frames {
        group.last_sequence += 1;
        group.buffer.push(group.last_sequence, kind, payload);
    }
}

#[cfg(test)]
#[path = "intake_tests.rs"]
mod tests;
