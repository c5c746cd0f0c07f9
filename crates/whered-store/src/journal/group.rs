//! The bytes of a group, in memory as they will lie in the file.
//!
//! ```text
//!   memory:   | unused | lead | mark | frame | frame | ... | zeros |
//!             ^        ^ a block's boundary, in memory too          ^ and another one
//!   file:     | frames ....... | lead | mark | frame | ...
//!                              ^ a block of the file, whose beginning the group before has written
//! ```
//! For: a group can be written as whole blocks, and without a copy of the system's, when its bytes
//! have the same place in a block of memory as in a block of the file. Not for: deciding how it is
//! written (`writer.rs`).
//!
//! Invariants: the group is what it would be in a buffer of its own. It is in its place when the
//! buffer did not have to move since it was begun; that is most often so, as buffers are used
//! again, and nobody may rely on it. One owner at a time. Cost: none for each byte.

use super::frame::{END_BYTES, MARK_BYTES, Payload, push_frame};
use crate::storage::BLOCK_BYTES;

/// See the file's header.
pub(crate) struct GroupBuffer {
    bytes: Vec<u8>,
    /// Where the group begins.
    start: usize,
    /// How much of the file's block is before it.
    lead: usize,
}

impl GroupBuffer {
    /// A buffer with room for the mark of a group that begins at `position_bytes` of its file.
    pub(crate) fn begin(mut bytes: Vec<u8>, position_bytes: u64) -> GroupBuffer {
        bytes.clear();
        bytes.reserve(3 * BLOCK_BYTES);
        let lead = position_bytes as usize % BLOCK_BYTES;
        let start = bytes.as_ptr().align_offset(BLOCK_BYTES).min(BLOCK_BYTES) + lead;
        bytes.resize(start + MARK_BYTES, 0);
        GroupBuffer { bytes, start, lead }
    }

    /// The bytes that will be written.
    pub(crate) fn group(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    pub(crate) fn group_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }

    /// Appends a frame; see [`push_frame`].
    pub(crate) fn push(&mut self, sequence: u64, kind: u16, payload: Payload<'_>) {
        push_frame(&mut self.bytes, sequence, kind, payload);
    }

    /// The whole blocks around the group, with `before` as the beginning of the first one and zeros
    /// at the end of the last one, unless the bytes are not in the place that whole blocks need.
    pub(crate) fn blocks(&mut self, before: &[u8]) -> Option<&[u8]> {
        let from = self.start - self.lead;
        let whole = (self.bytes.len() + END_BYTES - from).next_multiple_of(BLOCK_BYTES);
        if before.len() != self.lead || !self.is_placed() {
            return None;
        }
        self.bytes.reserve_exact(from + whole - self.bytes.len());
        if !self.is_placed() {
            return None;
        }
        self.bytes.resize(from + whole, 0);
        self.bytes[from..self.start].copy_from_slice(before);
        Some(&self.bytes[from..])
    }

    fn is_placed(&self) -> bool {
        self.bytes[self.start - self.lead..].as_ptr().align_offset(BLOCK_BYTES) == 0
    }

    /// The group with `count` zeros behind it.
    pub(crate) fn with_zeros(&mut self, zeros: usize) -> &[u8] {
        self.bytes.resize(self.bytes.len() + zeros, 0);
        self.group()
    }

    /// Forgets what was put behind a group of this length.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.bytes.truncate(self.start + length);
    }

    /// How much of the file's block is before the group.
    #[cfg(test)]
    pub(crate) fn lead(&self) -> usize {
        self.lead
    }

    pub(crate) fn capacity_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// The memory, to be used again.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_lies_in_memory_as_it_will_in_the_file() {
        for position in [4096, 4097, 5000, 8191, 8192, 12_288 + 4090] {
            for length in [0, 1, 4000, 4096, 50_000] {
                let lead = position as usize % BLOCK_BYTES;
                // As large as it will be: it does not move.
                let mut buffer = GroupBuffer::begin(Vec::with_capacity(100_000), position);
                buffer.group_mut().fill(1);
                let frames: Vec<u8> = (0..length).map(|index| index as u8 | 1).collect();
                buffer.bytes.extend_from_slice(&frames);
                let group = buffer.group().to_vec();
                assert_eq!(group.len(), MARK_BYTES + length);
                let before = vec![7; lead];
                let blocks = buffer.blocks(&before).expect("it has not moved");
                assert_eq!(blocks.len() % BLOCK_BYTES, 0);
                assert_eq!(blocks.as_ptr().align_offset(BLOCK_BYTES), 0);
                assert_eq!(blocks[..lead], before);
                assert_eq!(blocks[lead..][..group.len()], group);
                let zeros = &blocks[lead + group.len()..];
                assert!(zeros.len() >= END_BYTES && zeros.iter().all(|byte| *byte == 0));
                assert!(zeros.len() < BLOCK_BYTES + END_BYTES);
                buffer.truncate(group.len());
                assert_eq!(buffer.group(), group);
            }
        }
    }

    #[test]
    fn without_what_is_before_it_there_are_no_whole_blocks() {
        let mut buffer = GroupBuffer::begin(Vec::new(), 5000);
        assert!(buffer.blocks(&[7; 5000 - 4096 - 1]).is_none());
    }
}
