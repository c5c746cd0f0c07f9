//! One frame: the smallest piece that the journal writes, and the mark that starts each group.
//!
//! ```text
//!            0        4        8                 16     18
//!   frame    | length | crc32c | sequence        | kind | payload ... (length bytes)
//!   mark     | 8      | crc32c | next sequence   | ffff | durable sequence (u64)
//!   end      | 0      | 0      | whatever the preallocated space holds: zeros, or, in a segment
//!                                of reused space, bytes of another one
//! ```
//!
//! All numbers are little endian. The checksum runs over the segment's salt, the length, the
//! sequence, the kind and the payload. The salt is a random number in the segment's header: nobody
//! who sends payloads can make bytes inside of one that pass for a frame. A checksum that comes
//! out as zero is stored as one, so that a written frame never looks like the end.
//!
//! A mark has no sequence of its own; it carries that of the frame after it and says: *all entries
//! up to `durable sequence` were on stable storage before this mark was written*. Recovery rests on
//! that sentence (see `recovery.rs`).
//!
//! Not for: where frames go (`intake.rs`, `writer.rs`). Pure functions; each costs one pass over
//! the bytes it is given.

use crate::checksum::{Crc32c, crc32c};

/// An entry as recovery hands it out; the payload is borrowed from the segment being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Consecutive over all segments; the first entry of a journal has 1.
    pub sequence: u64,
    /// The argument of `append`: its meaning is the caller's.
    pub kind: u16,
    /// The bytes as they were appended.
    pub payload: &'a [u8],
}

/// The largest payload of one entry: a value of 512 MiB, which is the most that a Redis client may
/// send, and 64 MiB around it.
pub const PAYLOAD_SIZE_BYTES_MAX: usize = 576 << 20;

/// The largest kind that an entry may have; the one above is the journal's own.
pub const KIND_MAX: u16 = u16::MAX - 1;

const KIND_MARK: u16 = u16::MAX;

/// The bytes of a frame before its payload.
pub(crate) const FRAME_HEADER_BYTES: usize = 18;

/// The zeros that are the end.
pub(crate) const END_BYTES: usize = 8;

/// The bytes of a whole mark.
pub(crate) const MARK_BYTES: usize = FRAME_HEADER_BYTES + 8;

/// What a segment's salt makes of every checksum's start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seed {
    sum: u32,
    crc32c: Crc32c,
}

impl Seed {
    pub(crate) fn of(salt: u64) -> Seed {
        Seed { sum: crc32c(&salt.to_le_bytes()), crc32c: Crc32c::new() }
    }
}

/// The kind of the bytes at one offset.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ParsedFrame<'a> {
    Entry(Entry<'a>),
    Mark(Mark),
    /// Nothing was written here.
    End,
    /// Something was written here that is no frame; the text says what is wrong.
    Invalid(&'static str),
}

/// The frame before each group; see the file's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) next_sequence: u64,
    pub(crate) durable_sequence: u64,
}

/// A payload that lies in pieces, so that nobody has to put a large one together only to have it
/// copied into its frame.
pub(crate) type Payload<'a> = &'a [&'a [u8]];

/// Appends a frame without its checksum, which [`seal`] fills in.
pub(crate) fn push_frame(bytes: &mut Vec<u8>, sequence: u64, kind: u16, payload: Payload<'_>) {
    let length: usize = payload.iter().map(|part| part.len()).sum();
    let length = u32::try_from(length).expect("a reservation limits the payload's length");
    let mut header = [0_u8; FRAME_HEADER_BYTES];
    header[..4].copy_from_slice(&length.to_le_bytes());
    header[8..16].copy_from_slice(&sequence.to_le_bytes());
    header[16..].copy_from_slice(&kind.to_le_bytes());
    bytes.reserve(FRAME_HEADER_BYTES + length as usize);
    bytes.extend_from_slice(&header);
    payload.iter().for_each(|part| bytes.extend_from_slice(part));
}

/// The bytes of a mark without its checksum.
pub(crate) fn mark_bytes(mark: Mark) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(MARK_BYTES);
    let durable_sequence = mark.durable_sequence.to_le_bytes();
    push_frame(&mut bytes, mark.next_sequence, KIND_MARK, &[&durable_sequence]);
    bytes
}

/// Fills in the checksums of consecutive frames that this process made.
pub(crate) fn seal(bytes: &mut [u8], salt: u64) {
    let seed = Seed::of(salt);
    let mut rest = bytes;
    while !rest.is_empty() {
        let length = read_u32(rest, 0) as usize;
        let (frame, after) = rest.split_at_mut(FRAME_HEADER_BYTES + length);
        let checksum = checksum(frame, seed);
        frame[4..8].copy_from_slice(&checksum.to_le_bytes());
        rest = after;
    }
}

/// Reads what is at the start of `bytes`, which end where the segment ends.
#[inline]
pub(crate) fn parse(bytes: &[u8], seed: Seed) -> ParsedFrame<'_> {
    if bytes.len() < FRAME_HEADER_BYTES {
        // Too short for a frame; the caller checks that such a rest is zero where all ends are.
        return ParsedFrame::End;
    }
    let length = read_u32(bytes, 0) as usize;
    let stored = read_u32(bytes, 4);
    if length == 0 && stored == 0 {
        return ParsedFrame::End;
    }
    if length > PAYLOAD_SIZE_BYTES_MAX {
        return ParsedFrame::Invalid("its length is impossible");
    }
    let Some(frame) = bytes.get(..FRAME_HEADER_BYTES + length) else {
        return ParsedFrame::Invalid("its length reaches beyond the file");
    };
    if checksum(frame, seed) != stored {
        return ParsedFrame::Invalid("its checksum is wrong");
    }
    let sequence = read_u64(frame, 8);
    let kind = u16::from_le_bytes([frame[16], frame[17]]);
    let payload = &frame[FRAME_HEADER_BYTES..];
    if kind != KIND_MARK {
        return ParsedFrame::Entry(Entry { sequence, kind, payload });
    }
    if length != 8 {
        return ParsedFrame::Invalid("its kind is reserved");
    }
    let mark = Mark { next_sequence: sequence, durable_sequence: read_u64(frame, 18) };
    if mark.durable_sequence < mark.next_sequence {
        ParsedFrame::Mark(mark)
    } else {
        ParsedFrame::Invalid("it claims what is not yet written")
    }
}

/// The highest sequence above `after` that a frame bears witness of, at whatever byte it starts;
/// `after` when there is none. For a repair: what is damaged hides the frames behind it from
/// [`parse`].
///
/// A checksum is taken only where a sequence is one that could be there, and over no more bytes in
/// all than [`SEARCH_PASSES`] times those that are there.
pub(crate) fn highest_sequence(bytes: &[u8], seed: Seed, after: u64) -> u64 {
    let possible = after + 1..=after + (bytes.len() / FRAME_HEADER_BYTES) as u64 + 1;
    let mut left_bytes = bytes.len().saturating_mul(SEARCH_PASSES);
    let mut highest = after;
    for offset in 0..bytes.len().saturating_sub(FRAME_HEADER_BYTES) {
        let frame = &bytes[offset..];
        let (length, sequence) = (read_u32(frame, 0) as usize, read_u64(frame, 8));
        let fits = FRAME_HEADER_BYTES.saturating_add(length) <= frame.len();
        if sequence <= highest || !possible.contains(&sequence) || !fits || length > left_bytes {
            continue;
        }
        left_bytes -= length;
        match parse(frame, seed) {
            ParsedFrame::Entry(entry) => highest = entry.sequence,
            // The entry that it begins a group with may be the damaged one.
            ParsedFrame::Mark(mark) => highest = highest.max(mark.next_sequence),
            ParsedFrame::End | ParsedFrame::Invalid(_) => {}
        }
    }
    highest
}

/// See [`highest_sequence`].
const SEARCH_PASSES: usize = 64;

/// The mark with the highest durable sequence that starts at any byte, whatever is around it.
///
/// One pass; a checksum is taken only where length and kind are those of a mark, and always over
/// the 26 bytes of one, so that no content makes the search slow.
pub(crate) fn find_highest_mark(bytes: &[u8], seed: Seed) -> Option<Mark> {
    let mut highest: Option<Mark> = None;
    for window in bytes.windows(MARK_BYTES) {
        if window[..4] != [8, 0, 0, 0] || window[16..18] != [0xff, 0xff] {
            continue;
        }
        if let ParsedFrame::Mark(mark) = parse(window, seed)
            && highest.is_none_or(|other| other.durable_sequence < mark.durable_sequence)
        {
            highest = Some(mark);
        }
    }
    highest
}

#[inline]
fn checksum(frame: &[u8], seed: Seed) -> u32 {
    let length = read_u32(frame, 0).to_le_bytes();
    seed.crc32c.append(seed.sum, length, &frame[8..]).max(1)
}

fn read_u32(bytes: &[u8], offset: usize) -> u32 {
    let field = bytes[offset..offset + 4].try_into().expect("the range has four bytes");
    u32::from_le_bytes(field)
}

fn read_u64(bytes: &[u8], offset: usize) -> u64 {
    let field = bytes[offset..offset + 8].try_into().expect("the range has eight bytes");
    u64::from_le_bytes(field)
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
